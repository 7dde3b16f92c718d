// Vectors of numbers, in the compiler's own words: the same source for AVX-512, AVX2 and NEON.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr long LANES = 16;
constexpr long ROWS = 8;  // of a tile: ROWS * 3 sums, 3 vectors of weights and 1 of inputs
#elif defined(__AVX__)
constexpr long LANES = 8;
constexpr long ROWS = 4;
#else
constexpr long LANES = 4;
constexpr long ROWS = 8;
#endif

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Integers __attribute__((vector_size(4 * LANES)));
typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

struct Bfloat16 {  // the upper half of a float32
    uint16_t bits;
};

inline Vector zeros() { return Vector{}; }

inline Vector all(float x) { return x - zeros(); }

inline Vector load(const float* from) {
    Vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

inline Vector load(const Bfloat16* from) {
    Halves half;
    memcpy(&half, from, sizeof half);
    return (Vector)(__builtin_convertvector(half, Bits) << 16);
}

inline void store(float* to, Vector x) { memcpy(to, &x, sizeof x); }

inline void store(Bfloat16* to, Vector x) {  // rounds to nearest, ties to even
    Bits bits = (Bits)x;
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    Halves half = __builtin_convertvector(bits, Halves);
    memcpy(to, &half, sizeof half);
}

inline float value(float x) { return x; }

inline float value(Bfloat16 x) {
    uint32_t bits = uint32_t(x.bits) << 16;
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

inline float sum(Vector x) {
    float total = 0;
    for (long lane = 0; lane < LANES; lane++) total += x[lane];
    return total;
}

inline float largest(Vector x) {
    float most = x[0];
    for (long lane = 1; lane < LANES; lane++) most = x[lane] > most ? x[lane] : most;
    return most;
}

inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// e to the x, within 2 units in the last place; 0 below -87, infinity never: x is at most 0 in a
// softmax, and a sigmoid's is held to 87.
inline Vector exponential(Vector x) {
    const Vector low = all(-87.0f), high = all(87.0f), shift = all(12582912.0f);  // 1.5 * 2^23
    Vector held = x < low ? low : (x > high ? high : x);
    Vector times = held * 1.44269504f + shift;
    Integers power = (Integers)times - (Integers)shift;
    Vector whole = times - shift;
    Vector rest = held - whole * 0.693359375f + whole * 2.12194440e-4f;
    Vector found = all(1.9875691500e-4f);  // Cephes' polynomial of degree 5 for e^r - 1 - r
    found = found * rest + 1.3981999507e-3f;
    found = found * rest + 8.3334519073e-3f;
    found = found * rest + 4.1665795894e-2f;
    found = found * rest + 1.6666665459e-1f;
    found = found * rest + 5.0000001201e-1f;
    found = found * rest * rest + rest + 1.0f;
    Vector scaled = (Vector)((Integers)found + (power << 23));
    return x < low ? zeros() : (x == x ? scaled : x);
}

// A token step of the sampler: every row reads one token, all layers in one call.
//
// Letters as in decoder.py: R rows, D width, H query heads, M key-value heads, K head width, C cache
// columns, I inner width, V vocabulary. Between products numbers are float32; a product's inputs
// are of the weights' type, its sums float32. The threads of one team go through the phases of a
// layer together and share out rows or panels in each.
#include "vectors.h"

// A matrix (outer, inner) lies in panels of PANEL outputs, each with its inputs one after the
// other, so that a tile reads it front to back. In bfloat16 two inputs stand side by side, as the
// processor's dot product takes them.
constexpr long PANEL = 3 * LANES;
constexpr long WORD(float) { return 1; }
constexpr long WORD(Bfloat16) { return 2; }

template <class T>
struct Matrix {
    const T* panels;
    long outer, inner;
};

extern "C" struct BlockPointers {
    const float* norm;
    const void* qkv;
    const float* qkv_bias;  // or null
    const float* qk_gain;   // (H+M, K), or null
    const void* out;
    const float* feed_norm;
    const void* gate_up;
    const void* down;
    void* keys;    // (R, M, K, C)
    void* values;  // (R, M, C, K)
};

extern "C" struct Sizes {
    long rows, width, heads, key_heads, head, inner, layers, columns, used, threads;
    float eps;
};

extern "C" struct Scratch {  // a row of each for every row
    float* x;         // D: the embedded tokens, then what the blocks add
    void* normed;     // D
    float* qkv;       // (H + 2M) * K
    void* seen;       // H * K
    float* gate_up;   // 2I
    void* gated;      // I
    float* scores;    // H * C
};

#if defined(__AVX512BF16__)
inline Vector times_pair(Vector total, const Bfloat16* weights, const Bfloat16* pair) {
    int both;
    memcpy(&both, pair, sizeof both);
    __m512bh w = (__m512bh)_mm512_loadu_si512(weights);
    return (Vector)_mm512_dpbf16_ps((__m512)total, w, (__m512bh)_mm512_set1_epi32(both));
}
#else
inline Vector times_pair(Vector total, const Bfloat16*, const Bfloat16*) { return total; }
#endif

inline Vector times_pair(Vector total, const float* weights, const float* x) {
    return total + load(weights) * *x;
}

// `N` rows times one panel; `put(row, part, sums)` takes each vector of PANEL sums.
template <long N, class T, class Put>
inline void tile(const T* x, long inner, const T* panel, Put put) {
    constexpr long word = WORD(T{});
    Vector sums[N][3] = {};
    for (long k = 0; k < inner; k += word) {
#pragma GCC unroll 8
        for (long row = 0; row < N; row++)
            for (long part = 0; part < 3; part++)
                sums[row][part] = times_pair(
                    sums[row][part], panel + part * LANES * word, x + row * inner + k);
        panel += PANEL * word;
    }
    for (long row = 0; row < N; row++)
        for (long part = 0; part < 3; part++) put(row, part, sums[row][part]);
}

template <class T, class Put>
inline void some_rows(long count, const T* x, long inner, const T* panel, Put put) {
    switch (count) {
        case 1: return tile<1>(x, inner, panel, put);
        case 2: return tile<2>(x, inner, panel, put);
        case 3: return tile<3>(x, inner, panel, put);
        case 4: return tile<4>(x, inner, panel, put);
        case 5: return tile<5>(x, inner, panel, put);
        case 6: return tile<6>(x, inner, panel, put);
        case 7: return tile<7>(x, inner, panel, put);
        default: return tile<ROWS>(x, inner, panel, put);
    }
}

// All rows times the transposed matrix, by a team; `put(row, column, sums)` takes LANES of them.
template <class T, class Put>
inline void product(const T* x, long rows, Matrix<T> w, Put put) {
    long panels = (w.outer + PANEL - 1) / PANEL;
#pragma omp for schedule(dynamic)
    for (long p = 0; p < panels; p++)
        for (long row = 0; row < rows; row += ROWS) {
            long count = rows - row < ROWS ? rows - row : ROWS;
            some_rows(count, x + row * w.inner, w.inner, w.panels + p * PANEL * w.inner,
                      [&](long r, long part, Vector sums) {
                          long column = p * PANEL + part * LANES;
                          if (column < w.outer) put(row + r, column, sums);
                      });
        }
}

template <class T>
inline void normalise(const float* x, const float* gain, long width, float eps, T* to) {
    Vector squares = zeros();
    for (long i = 0; i < width; i += LANES) squares += load(x + i) * load(x + i);
    float inverse = 1 / std::sqrt(sum(squares) / width + eps);
    for (long i = 0; i < width; i += LANES) store(to + i, load(x + i) * inverse * load(gain + i));
}

inline void rotate(float* x, const float* cos, const float* sin, long head) {
    long half = head / 2;
    for (long i = 0; i < half; i += LANES) {
        Vector a = load(x + i), b = load(x + half + i);
        store(x + i, a * load(cos + i) + b * load(sin + i));
        store(x + half + i, b * load(cos + half + i) + a * load(sin + half + i));
    }
}

// Softmax attention of G query heads of one key head, in one row. Two vectors at a time: a whole
// line of memory in bfloat16. The columns' next lines are fetched ahead, since no processor guesses
// that stride.
template <long G, class T>
void attend(const Sizes& s, const float* q, const T* keys, const T* values, const float* bias,
            float* scores, T* seen) {
    float scale = 1 / std::sqrt(float(s.head));
    Vector most[G], totals[G] = {};
    for (long h = 0; h < G; h++) most[h] = all(-INFINITY);
    for (long c = 0; c < s.columns; c += 2 * LANES) {
        Vector score[G][2] = {};
        for (long k = 0; k < s.head; k++) {
            const T* key = keys + k * s.columns + c;
            __builtin_prefetch(key + 2 * LANES);
            Vector first = load(key), second = load(key + LANES);
            for (long h = 0; h < G; h++) {
                score[h][0] += first * q[h * s.head + k];
                score[h][1] += second * q[h * s.head + k];
            }
        }
        for (long h = 0; h < G; h++)
            for (long part = 0; part < 2; part++) {
                long place = c + part * LANES;
                Vector found = score[h][part] * scale + load(bias + place);
                store(scores + h * s.columns + place, found);
                most[h] = larger(most[h], found);
            }
    }
    for (long h = 0; h < G; h++) {
        float top = largest(most[h]);
        for (long c = 0; c < s.columns; c += LANES) {
            Vector weight = exponential(load(scores + h * s.columns + c) - top);
            store(scores + h * s.columns + c, weight);
            totals[h] += weight;
        }
    }
    for (long k = 0; k < s.head; k += 2 * LANES) {
        Vector found[G][2] = {};
        for (long c = 0; c < s.used; c++) {
            const T* value = values + c * s.head + k;
            __builtin_prefetch(value + 8 * s.head);
            Vector first = load(value), second = load(value + LANES);
            for (long h = 0; h < G; h++) {
                found[h][0] += first * scores[h * s.columns + c];
                found[h][1] += second * scores[h * s.columns + c];
            }
        }
        for (long h = 0; h < G; h++)
            for (long part = 0; part < 2; part++)
                store(seen + h * s.head + k + part * LANES, found[h][part] / sum(totals[h]));
    }
}

template <class T>
void attend_group(const Sizes& s, const float* q, const T* keys, const T* values,
                  const float* bias, float* scores, T* seen) {
    long left = s.heads / s.key_heads;
    while (left > 0) {
        long now = left < 4 ? left : 4;
        switch (now) {
            case 1: attend<1>(s, q, keys, values, bias, scores, seen); break;
            case 2: attend<2>(s, q, keys, values, bias, scores, seen); break;
            case 3: attend<3>(s, q, keys, values, bias, scores, seen); break;
            default: attend<4>(s, q, keys, values, bias, scores, seen);
        }
        left -= now, q += now * s.head, scores += now * s.columns, seen += now * s.head;
    }
}

// Norm and turn of a key head's queries and key, its place in the cache, and its attention.
template <class T>
void look(const Sizes& s, const BlockPointers& block, long row, long m, const float* cos,
          const float* sin, const float* bias, const Scratch& scratch) {
    long group = s.heads / s.key_heads;
    float* qkv = scratch.qkv + row * (s.heads + 2 * s.key_heads) * s.head;
    float* q = qkv + m * group * s.head;
    float* k = qkv + (s.heads + m) * s.head;
    const float* v = qkv + (s.heads + s.key_heads + m) * s.head;
    if (block.qk_gain) {
        for (long h = 0; h < group; h++)
            normalise(q + h * s.head, block.qk_gain + (m * group + h) * s.head, s.head, s.eps,
                      q + h * s.head);
        normalise(k, block.qk_gain + (s.heads + m) * s.head, s.head, s.eps, k);
    }
    for (long h = 0; h < group; h++) rotate(q + h * s.head, cos, sin, s.head);
    rotate(k, cos, sin, s.head);
    long place = row * s.key_heads + m, last = s.used - 1;
    T* keys = (T*)block.keys + place * s.head * s.columns;
    T* values = (T*)block.values + place * s.head * s.columns;
    alignas(64) T narrow[LANES];
    for (long i = 0; i < s.head; i += LANES) {
        store(narrow, load(k + i));
        for (long lane = 0; lane < LANES; lane++) keys[(i + lane) * s.columns + last] = narrow[lane];
        store(values + last * s.head + i, load(v + i));
    }
    attend_group(s, q, keys, values, bias, scratch.scores + (row * s.heads + m * group) * s.columns,
                 (T*)scratch.seen + (row * s.heads + m * group) * s.head);
}

template <class T>
void run_block(const Sizes& s, const BlockPointers& block, const float* cos, const float* sin,
               const float* bias, const Scratch& scratch) {
    long width = s.width, queries = s.heads * s.head, all_heads = queries + 2 * s.key_heads * s.head;
    float* x = scratch.x;
    T *normed = (T*)scratch.normed, *gated = (T*)scratch.gated;
#pragma omp for
    for (long row = 0; row < s.rows; row++)
        normalise(x + row * width, block.norm, width, s.eps, normed + row * width);
    product(normed, s.rows, Matrix<T>{(const T*)block.qkv, all_heads, width},
            [&](long row, long column, Vector sums) {
                if (block.qkv_bias) sums += load(block.qkv_bias + column);
                store(scratch.qkv + row * all_heads + column, sums);
            });
#pragma omp for collapse(2)
    for (long row = 0; row < s.rows; row++)
        for (long m = 0; m < s.key_heads; m++)
            look<T>(s, block, row, m, cos + row * s.head, sin + row * s.head,
                    bias + row * s.columns, scratch);
    auto add = [&](long row, long column, Vector sums) {
        float* place = x + row * width + column;
        store(place, load(place) + sums);
    };
    product((const T*)scratch.seen, s.rows, Matrix<T>{(const T*)block.out, width, queries}, add);
#pragma omp for
    for (long row = 0; row < s.rows; row++)
        normalise(x + row * width, block.feed_norm, width, s.eps, normed + row * width);
    product(normed, s.rows, Matrix<T>{(const T*)block.gate_up, 2 * s.inner, width},
            [&](long row, long column, Vector sums) {
                store(scratch.gate_up + row * 2 * s.inner + column, sums);
            });
#pragma omp for
    for (long row = 0; row < s.rows; row++) {
        const float *gate = scratch.gate_up + row * 2 * s.inner, *up = gate + s.inner;
        for (long i = 0; i < s.inner; i += LANES) {
            Vector g = load(gate + i);
            store(gated + row * s.inner + i, g / (1.0f + exponential(-g)) * load(up + i));
        }
    }
    product(gated, s.rows, Matrix<T>{(const T*)block.down, width, s.inner}, add);
}

template <class T>
void token_step(const Sizes& s, const BlockPointers* blocks, const float* norm, const float* cos,
                const float* sin, const float* bias, const Scratch& scratch, T* hidden) {
#pragma omp parallel num_threads(s.threads)
    {
        for (long layer = 0; layer < s.layers; layer++)
            run_block<T>(s, blocks[layer], cos, sin, bias, scratch);
#pragma omp for
        for (long row = 0; row < s.rows; row++)
            normalise(scratch.x + row * s.width, norm, s.width, s.eps, hidden + row * s.width);
    }
}

// (outer, inner) row by row, to panels; outputs that fill up the last panel are 0.
template <class T>
void lay_out(const T* matrix, long outer, long inner, T* panels) {
    constexpr long word = WORD(T{}), block = 32 * word;  // a block of a panel stays in the cache
#pragma omp parallel for
    for (long p = 0; p < (outer + PANEL - 1) / PANEL; p++)
        for (long first = 0; first < inner; first += block)
            for (long column = 0; column < PANEL; column++) {
                const T* from = matrix + (p * PANEL + column) * inner;
                T* to = panels + p * PANEL * inner + column * word;
                bool there = p * PANEL + column < outer;
                for (long k = first; k < inner && k < first + block; k += word)
                    if (there)
                        memcpy(to + k * PANEL, from + k, word * sizeof(T));
                    else
                        memset((void*)(to + k * PANEL), 0, word * sizeof(T));
            }
}

#define FOR_TYPE(T, NAME)                                                                         \
    extern "C" void token_step_##NAME(const Sizes* s, const BlockPointers* blocks,                \
                                      const float* norm, const float* cos, const float* sin,      \
                                      const float* bias, const Scratch* scratch, T* hidden) {     \
        token_step(*s, blocks, norm, cos, sin, bias, *scratch, hidden);                           \
    }                                                                                             \
    extern "C" void lay_out_##NAME(const T* matrix, long outer, long inner, T* panels) {          \
        lay_out(matrix, outer, inner, panels);                                                    \
    }

FOR_TYPE(float, float32)
FOR_TYPE(Bfloat16, bfloat16)

// x (rows, inner) times the transposed matrix (outer, inner), in float32.
extern "C" void product_float32(const float* x, long rows, const float* panels, long outer,
                                long inner, long threads, float* to) {
#pragma omp parallel num_threads(threads)
    product(x, rows, Matrix<float>{panels, outer, inner}, [&](long row, long column, Vector sums) {
        long count = outer - column < LANES ? outer - column : LANES;
        memcpy(to + row * outer + column, &sums, count * sizeof(float));
    });
}

extern "C" long lanes() { return LANES; }

extern "C" long has_bfloat16() {
#if defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}

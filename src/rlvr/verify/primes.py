"""Factors of whole numbers, as far as small primes go."""

import math
from functools import cache

MOST_FACTORED_BITS = 600


@cache
def _small_primes() -> tuple[int, ...]:
    return tuple(n for n in range(2, 1000) if all(n % p for p in range(2, math.isqrt(n) + 1)))


def factors(value: int) -> list[tuple[int, int]]:
    """Factors of a positive number with their counts; what small primes leave is one factor."""
    found, primes = list[tuple[int, int]](), _small_primes()
    for prime in primes if value.bit_length() <= MOST_FACTORED_BITS else primes[:15]:
        if prime * prime > value:
            break
        count = 0
        while value % prime == 0:
            value //= prime
            count += 1
        if count:
            found.append((prime, count))
    if value > 1:
        root = math.isqrt(value) if value.bit_length() <= MOST_FACTORED_BITS else 0
        found.append((root, 2) if root * root == value else (value, 1))
    return found

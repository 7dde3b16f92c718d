"""Proofs that a difference which is seen to be near zero is zero."""

from __future__ import annotations

import math
from fractions import Fraction

from rlvr.verify.numeric import vanishes
from rlvr.verify.terms import (
    IMAGINARY,
    PI,
    Atom,
    Terms,
    Work,
    add,
    atom,
    constant,
    multiply,
    power,
    scale,
)
from rlvr.verify.vanish import has_zero_conjugate, is_zero

HIGHEST = 24  # power of a part of an angle


def proven_zero(terms: Terms, work: Work) -> bool:
    """Whether terms that are seen to be near zero are proven to be zero.

    By a bound for numbers made of roots, by the conjugates of roots of sums, or by taking the
    exponential of sums of logarithms and of angles.
    """
    return (
        vanishes(terms)
        or has_zero_conjugate(terms, work)
        or logarithms_cancel(terms, work)
        or angles_cancel(terms, work)
    )


def logarithms_cancel(terms: Terms, work: Work) -> bool:
    """Whether a sum of logarithms is zero: their arguments multiply to 1."""
    found = multiples(terms, ("ln",))
    if found is None:
        return False
    product = constant(1)
    for one, count in found.items():
        product = multiply(product, power(dict(one[2]), Fraction(count), work), work)
    rest = add(product, constant(1), -1)
    return is_zero(rest, work) or vanishes(rest)


def angles_cancel(terms: Terms, work: Work) -> bool:
    """Whether a sum of inverse sines and tangents is zero: their directions multiply to 1.

    An angle near zero is zero where the product of the directions is a real number.
    """
    found = multiples(terms, ("arctan", "arcsin"))
    if found is None:
        return False
    product = constant(1)
    for one, count in found.items():
        if one == PI:
            turned = scale(constant(1), -1 if count % 2 else 1)
        else:
            turned = direction(one, count > 0, work)
        for _ in range(1 if one == PI else abs(count)):
            product = multiply(product, turned, work)
    imaginary = {m: c for m, c in product.items() if (IMAGINARY, Fraction(1)) in m}
    return is_zero(imaginary, work) or vanishes(imaginary)


def direction(found: Atom, forward: bool, work: Work) -> Terms:
    """A complex number in the direction of `arctan x` or `arcsin x`."""
    inside = dict(found[2])
    real = constant(1)
    if found[1] == "arcsin":
        square = multiply(inside, inside, work)
        real = power(add(constant(1), square, -1), Fraction(1, 2), work)
    return add(real, multiply(inside, atom(IMAGINARY), work), 1 if forward else -1)


def multiples(terms: Terms, functions: tuple[str, ...]) -> dict[Atom, int] | None:
    """The whole multiples of some function's values, and of pi, that terms are; else None."""
    scaled = math.lcm(*(c.denominator for c in terms.values()))
    counts: dict[Atom, int] = {}
    for monomial, coefficient in terms.items():
        if len(monomial) != 1:
            return None
        ((one, exponent),) = monomial
        angle = one == PI and "ln" not in functions
        if exponent != 1 or not (angle or (one[0] == "call" and one[1] in functions)):
            return None
        counts[one] = int(coefficient * scaled)
        if one != PI and abs(counts[one]) > HIGHEST:
            return None
    return counts

"""Exact arithmetic on expressions in a normal form: sums of monomials over atoms.

A monomial is a product of atoms to rational exponents. Atoms are variables, primes (under a root),
`pi`, `e`, `i`, sums to a power that is not multiplied out, functions of normal forms, and powers
with a variable in the exponent. Two expressions are equal where their difference comes out as
nothing; where it does not, that proves nothing, since not every identity is in the form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from rlvr.verify.primes import factors
from rlvr.verify.typography import TooLargeError

Atom = tuple[Any, ...]
"""Its kind first: `("name", x)`, `("prime", p)`, `("base", key)`, `("call", f, key...)`,
`("power", atom, monomial)`, `("pi",)`, `("e",)`, `("i",)`, `("minus",)`."""
Monomial = frozenset[tuple[Atom, Fraction]]
Terms = dict[Monomial, Fraction]
Key = frozenset[tuple[Monomial, Fraction]]

ONE: Monomial = frozenset()
IMAGINARY, PI, E, MINUS = ("i",), ("pi",), ("e",), ("minus",)

MOST_BITS = 12_000  # of a coefficient
MOST_TERMS = 1_500
MOST_WORK = 25_000  # products of two monomials, over a whole comparison


MOST_KEYS = 20_000
_KEYS: dict[Key, Key] = {}


class UndefinedError(ArithmeticError):
    """Something divides by zero, or is no value at all."""


@dataclass(slots=True)
class Work:
    """What is left of a comparison's budget."""

    left: int = MOST_WORK

    def spend(self, amount: int) -> None:
        """Take from the budget.

        Raises:
            TooLargeError: Nothing is left.
        """
        self.left -= amount
        if self.left < 0:
            raise TooLargeError("too large to be multiplied out")


def constant(value: Fraction | int) -> Terms:
    """A number as terms."""
    return {ONE: Fraction(value)} if value else {}


def atom(found: Atom, exponent: Fraction | int = 1) -> Terms:
    """An atom to an exponent as terms."""
    return {frozenset({(found, Fraction(exponent))}): Fraction(1)}


def key_of(terms: Terms) -> Key:
    """Terms as something that can be part of an atom.

    Equal keys are one object while the table lasts, so that those within others are compared at
    once: an expression may hold the same part many times over.
    """
    key = frozenset(terms.items())
    if len(_KEYS) > MOST_KEYS:
        _KEYS.clear()
    return _KEYS.setdefault(key, key)


def number_of(terms: Terms) -> Fraction | None:
    """The value where terms are a rational number."""
    if not terms:
        return Fraction(0)
    if len(terms) == 1 and ONE in terms:
        return terms[ONE]
    return None


def checked(value: Fraction) -> Fraction:
    """A coefficient that is not too long."""
    if value.numerator.bit_length() > MOST_BITS or value.denominator.bit_length() > MOST_BITS:
        raise TooLargeError("a number too long to be written out")
    return value


def add(first: Terms, second: Terms, factor: Fraction | int = 1) -> Terms:
    """`first + factor * second`."""
    total = dict(first)
    for monomial, coefficient in second.items():
        value = total.get(monomial, 0) + coefficient * factor
        if value:
            total[monomial] = checked(value)
        else:
            total.pop(monomial, None)
    if len(total) > MOST_TERMS:
        raise TooLargeError(f"more than {MOST_TERMS} terms")
    return total


def scale(terms: Terms, factor: Fraction | int) -> Terms:
    """Terms times a number."""
    return {m: checked(c * factor) for m, c in terms.items()} if factor else {}


def multiply(first: Terms, second: Terms, work: Work) -> Terms:
    """The product, multiplied out."""
    if len(second) == 1 and ONE in second:
        return scale(first, second[ONE])
    if len(first) == 1 and ONE in first:
        return scale(second, first[ONE])
    work.spend(len(first) * len(second))
    total: Terms = {}
    for left, a in first.items():
        for right, b in second.items():
            _add_product(total, left, right, a * b, work)
    return total


def _add_product(total: Terms, left: Monomial, right: Monomial, c: Fraction, work: Work) -> None:
    """Add `c * left * right` to a total."""
    if not left or not right:
        _add_one(total, left or right, c)
        return
    exponents = dict(left)
    for found, exponent in right:
        exponents[found] = exponents.get(found, Fraction(0)) + exponent
    merged, factor, others = settle(exponents)
    if not others:
        _add_one(total, merged, c * factor)
        return
    product: Terms = {merged: checked(c * factor)}
    for base, count in others:
        product = multiply(product, integer_power(base, count, work), work)
    for monomial, coefficient in product.items():
        _add_one(total, monomial, coefficient)


def _add_one(total: Terms, monomial: Monomial, c: Fraction) -> None:
    value = total.get(monomial, 0) + c
    if value:
        total[monomial] = checked(value)
        if len(total) > MOST_TERMS:
            raise TooLargeError(f"more than {MOST_TERMS} terms")
    else:
        total.pop(monomial, None)


def settle(
    exponents: dict[Atom, Fraction],
) -> tuple[Monomial, Fraction, tuple[tuple[Terms, int], ...]]:
    """Exponents in normal form: a monomial, a factor, and sums that are to be multiplied in."""
    factor, others, kept = Fraction(1), list[tuple[Terms, int]](), list[tuple[Atom, Fraction]]()
    for found, exponent in exponents.items():
        if not exponent:
            continue
        kind = found[0]
        whole = math.floor(exponent)
        if kind == "prime" and whole:
            if abs(whole) * found[1].bit_length() <= MOST_BITS:
                factor = checked(factor * Fraction(found[1]) ** whole)
                exponent -= whole
        elif kind == "i":
            turns = exponent % 4
            factor, exponent = (-factor, turns - 2) if turns >= 2 else (factor, turns)
        elif kind == "base" and whole >= 1 and expands(len(found[1]), whole):
            others.append((dict(found[1]), whole))
            exponent -= whole
        elif kind == "call" and whole >= 2 and found[1] == "sin":
            square = add(constant(1), atom(("call", "cos", *found[2:]), 2), -1)
            others.append((square, whole // 2))
            exponent -= 2 * (whole // 2)
        elif kind == "call" and whole >= 2 and found[1] == "abs":
            others.append((dict(found[2]), 2 * (whole // 2)))
            exponent -= 2 * (whole // 2)
        elif kind == "power" and found[1] == MINUS:
            exponent %= 2
        if exponent:
            kept.append((found, exponent))
    return frozenset(kept), factor, tuple(others)


def expands(terms: int, exponent: int) -> bool:
    """Whether a sum of so many terms to a power is small enough to be multiplied out."""
    return exponent <= 60 and math.comb(exponent + terms - 1, terms - 1) <= 400


def integer_power(base: Terms, exponent: int, work: Work) -> Terms:
    """A sum to a small power, multiplied out."""
    result, square = constant(1), base
    while exponent:
        if exponent & 1:
            result = multiply(result, square, work)
        exponent >>= 1
        if exponent:
            square = multiply(square, square, work)
    return result


def power(base: Terms, exponent: Fraction, work: Work) -> Terms:
    """A sum to a rational exponent; odd roots of negative numbers are real.

    Raises:
        UndefinedError: Zero to a negative exponent, or to zero.
    """
    if not base:
        if exponent <= 0:
            raise UndefinedError("zero to a power that is not positive")
        return {}
    if exponent == 1:
        return base
    if exponent == 0:
        return constant(1)
    if len(base) == 1:
        ((monomial, coefficient),) = base.items()
        return multiply(
            number_power(coefficient, exponent, work),
            monomial_power(monomial, exponent, work),
            work,
        )
    if exponent.denominator == 1 and exponent > 0 and expands(len(base), int(exponent)):
        return integer_power(base, int(exponent), work)
    content, common, rest = factored(base)
    odd = exponent.denominator % 2 == 1
    if odd and leading(rest) < 0:
        content, rest = -content, scale(rest, -1)
    outside = multiply(
        number_power(content, exponent, work), monomial_power(common, exponent, work), work
    )
    if number_of(rest) == 1:
        return outside
    inside = {frozenset({(("base", key_of(rest)), exponent)}): Fraction(1)}
    return (
        multiply(outside, multiply(inside, constant(1), work), work)
        if exponent < 1
        else (multiply(outside, settled(inside, work), work))
    )


def settled(terms: Terms, work: Work) -> Terms:
    """Terms whose exponents are brought into normal form."""
    total: Terms = {}
    for monomial, coefficient in terms.items():
        merged, factor, others = settle(dict(monomial))
        product: Terms = {merged: coefficient * factor}
        for base, exponent in others:
            product = multiply(product, integer_power(base, exponent, work), work)
        total = add(total, product)
    return total


def number_power(value: Fraction, exponent: Fraction, work: Work) -> Terms:
    """A rational number to a rational exponent."""
    if value == 1:
        return constant(1)
    if value < 0:
        size = number_power(-value, exponent, work)
        if exponent.denominator % 2:
            return scale(size, -1) if exponent.numerator % 2 else size
        if exponent.denominator == 2:
            sign = 1 if exponent.numerator % 4 == 1 else -1
            return multiply(size, scale(atom(IMAGINARY), sign), work)
        raise TooLargeError("an even root of a negative number that is not a square root")
    whole = exponent.denominator == 1
    longest = max(value.numerator.bit_length(), value.denominator.bit_length())
    if whole and longest * abs(exponent) <= MOST_BITS:
        return constant(Fraction(value ** int(exponent)))
    exponents: dict[Atom, Fraction] = {}
    for part, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, count in factors(part):
            exponents[("prime", prime)] = sign * count * exponent
    for grown in exponents.values():
        checked(grown)
    merged, factor, _ = settle(exponents)
    return {merged: factor}


def monomial_power(monomial: Monomial, exponent: Fraction, work: Work) -> Terms:
    """A product of atoms to a rational exponent; an even root of a square is an absolute value."""
    exponents: dict[Atom, Fraction] = {}
    other = constant(1)
    for found, inner in monomial:
        outer = inner * exponent
        squared = inner.denominator % 2 == 1 and inner.numerator % 2 == 0
        loses_sign = squared and exponent.denominator % 2 == 0 and outer.numerator % 2 == 1
        if found == IMAGINARY:
            other = multiply(other, _i_power(outer), work)
        elif loses_sign and not positive(found):
            other = multiply(other, power(absolute({frozenset({(found, Fraction(1))}): Fraction(1)},
                                                   work), outer, work), work)  # fmt: skip
        else:
            exponents[found] = outer
    merged, factor, others = settle(exponents)
    result: Terms = {merged: factor}
    for base, count in others:
        result = multiply(result, integer_power(base, count, work), work)
    return multiply(result, other, work)


def _i_power(exponent: Fraction) -> Terms:
    if exponent.denominator == 1:
        turns = int(exponent) % 4
        return scale(atom(IMAGINARY) if turns % 2 else constant(1), 1 if turns < 2 else -1)
    raise TooLargeError("a root of i")


def positive(found: Atom) -> bool:
    """Whether an atom is never negative."""
    kind = found[0]
    return kind in ("prime", "pi", "e") or (
        (kind == "call" and found[1] in ("abs", "factorial"))
        or (kind == "power" and found[1] != MINUS and positive(found[1]))
    )


def absolute(terms: Terms, work: Work) -> Terms:
    """The absolute value; the sign inside is brought into one form."""
    if not terms:
        return {}
    if len(terms) == 1:
        ((monomial, coefficient),) = terms.items()
        result = constant(abs(coefficient))
        for found, exponent in monomial:
            if found == IMAGINARY:
                continue
            even = exponent.denominator % 2 == 1 and exponent.numerator % 2 == 0
            one = (
                atom(found, exponent)
                if even or positive(found)
                else atom(("call", "abs", key_of(atom(found))), exponent)
            )
            result = multiply(result, one, work)
        return result
    content, common, rest = factored(terms)
    if leading(rest) < 0:
        rest = scale(rest, -1)
    outside = absolute({common: content}, work)
    return multiply(outside, atom(("call", "abs", key_of(rest))), work)


def factored(terms: Terms) -> tuple[Fraction, Monomial, Terms]:
    """A sum as a positive number times a monomial times a sum without a common factor."""
    top = math.gcd(*(c.numerator for c in terms.values()))
    bottom = math.lcm(*(c.denominator for c in terms.values()))
    content = Fraction(top, bottom)
    least: dict[Atom, Fraction] | None = None
    for monomial in terms:
        exponents = dict(monomial)
        if least is None:
            least = exponents
            continue
        shared = {a: min(e, least.get(a, Fraction(0))) for a, e in exponents.items()}
        shared |= {a: min(e, Fraction(0)) for a, e in least.items() if a not in exponents}
        least = {a: e for a, e in shared.items() if e}
    common = {a: e for a, e in (least or {}).items() if a != IMAGINARY}
    rest: Terms = {}
    for monomial, coefficient in terms.items():
        exponents = dict(monomial)
        for found, exponent in common.items():
            left = exponents.get(found, Fraction(0)) - exponent
            if left:
                exponents[found] = left
            else:
                exponents.pop(found, None)
        rest[frozenset(exponents.items())] = coefficient / content
    return content, frozenset(common.items()), rest


def leading(terms: Terms) -> Fraction:
    """The coefficient whose sign is made positive: of the last monomial in a fixed order."""
    return terms[max(terms, key=_order)]


@lru_cache(maxsize=4096)
def _order(monomial: Monomial) -> tuple[int, bytes]:
    return len(monomial), ordered_name(monomial)


@lru_cache(maxsize=16_384)
def ordered_name(found: Any) -> bytes:
    """A name for a part that is the same in every process, unlike the order of a set."""
    if isinstance(found, frozenset):
        whole = b"{" + b",".join(sorted(map(ordered_name, found))) + b"}"
    elif isinstance(found, tuple):
        whole = b"(" + b",".join(map(ordered_name, found)) + b")"
    else:
        return str(found).encode()
    return whole if len(whole) < 40 else blake2b(whole, digest_size=20).digest()

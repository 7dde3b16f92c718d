"""Numbers for normal forms: a difference that is seen refutes, and below a proven bound it proves.

A value is computed twice, at two precisions, so that what is seen is no rounding error. For numbers
made of whole numbers and roots alone, a difference that is not zero can't be smaller than a bound
that follows from the expression; a value below it is exactly zero.
Source of the bound: Burnikel, Fleischer, Mehlhorn, Schirra, "A strong and easily computable
separation bound for arithmetic expressions involving radicals", Algorithmica 27, 2000.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from rlvr.verify.macros import ACCENTS
from rlvr.verify.terms import IMAGINARY, ONE, PI, Atom, Monomial, Terms, add
from rlvr.verify.typography import TooLargeError
from rlvr.verify.values import Doubles, UnknownError, context_of, evaluate
from rlvr.verify.vanish import atoms_in

MOST_DIGITS = 3_000  # of a computed value
_POINTS = (Fraction(37, 41), Fraction(-58, 43), Fraction(129, 47), Fraction(-15, 53))
_CLOSE = (Fraction(141, 53), Fraction(97, 43), Fraction(113, 41), Fraction(115, 47))
_WHOLE = ((4, 6, 9, 15, 10), (9, 6, 4, 10, 15))
_FAR = 1e-3  # relative difference of two doubles that is no rounding error
_PRECISIONS = (40, 90, 250)  # digits; a difference that two in a row agree on is one
_FINEST = (1_000, 2_000)  # digits, tried last and at one point, for powers beyond this
_STEEP = 99


def differs(first: Terms, second: Terms) -> bool | None:
    """True where two forms have different values somewhere; None where none could be computed.

    False means that all values that could be computed agree, which proves nothing.
    """
    difference = add(first, second, -1)
    apart = bool(difference) and all(a[0] == "name" for m in difference for a, _ in m)
    names = sorted({a for a in atoms_in([*first, *second]) if _free(a)}, key=str)
    computed: Mapping[Atom, Fraction] | None = None
    for values in _places(names):
        seen = _differ_at(first, second, values)
        if seen or (apart and seen is not None):
            return True
        if seen is not None and computed is None:
            computed = values
    if computed is None:
        return None
    if not _steep([*first, *second]) or any(
        a[:2] == ("call", "factorial") for a in atoms_in([*first, *second])
    ):
        return False  # a factorial to so many digits takes seconds
    return bool(_precisely_or_none(first, second, computed, _FINEST))


def _steep(monomials: Iterable[Monomial]) -> bool:
    """Whether there are powers so high that a sum of them may hide a difference."""
    return any(
        abs(exponent) > _STEEP or (found[0] == "base" and _steep(m for m, _ in found[1]))
        for monomial in monomials
        for found, exponent in monomial
    )


def _places(names: Sequence[Atom]) -> Iterator[Mapping[Atom, Fraction]]:
    """Values for names: of both signs, close to each other above 2, and whole."""
    if not names:
        yield {}
        return
    for place in range(len(_POINTS)):
        yield {
            name: abs(point) if name[1] == "logbase" else point
            for number, name in enumerate(names)
            for point in [_POINTS[(place + number) % len(_POINTS)] + number]
        }
    if len(names) <= len(_CLOSE):
        yield dict(zip(names, _CLOSE, strict=False))
    for whole in _WHOLE:
        if len(names) <= len(whole):
            yield {name: Fraction(value) for name, value in zip(names, whole, strict=False)}


_UNKNOWN: frozenset[str] = ACCENTS | {"logbase", "index"}


def _free(found: Atom) -> bool:
    """Whether an atom may have any value: a variable, an unknown function, an index, an accent."""
    if found[0] != "call":
        return bool(found[0] == "name")
    name = str(found[1])
    return bool(name.startswith("of ") or name in _UNKNOWN)


def _differ_at(first: Terms, second: Terms, values: Mapping[Atom, Fraction]) -> bool | None:
    try:
        one = _double(first, values)
        other = _double(second, values)
        size = abs(one) + abs(other)
        if math.isfinite(size) and 1e-200 < size < 1e200 and abs(one - other) > _FAR * size:
            return True
    except (UnknownError, OverflowError, ZeroDivisionError, ValueError, TypeError):
        pass
    return _precisely_or_none(first, second, values, _PRECISIONS)


def _precisely_or_none(
    first: Terms, second: Terms, values: Mapping[Atom, Fraction], precisions: Sequence[int]
) -> bool | None:
    """Whether two values differ; None where they can't be computed."""
    try:
        return _differ_precisely(first, second, values, precisions)
    except (UnknownError, OverflowError, ZeroDivisionError, ValueError, TooLargeError):
        return None


def _double(terms: Terms, values: Mapping[Atom, Fraction]) -> complex:
    return complex(evaluate(terms, values, Doubles()))


def _differ_precisely(
    first: Terms, second: Terms, values: Mapping[Atom, Fraction], precisions: Sequence[int]
) -> bool:
    """Whether two values differ: what is left after the leading digits must not be rounding."""
    rough: Any = None
    for digits in precisions:
        context = context_of(digits)
        one, other = evaluate(first, values, context), evaluate(second, values, context)
        size = abs(one) + abs(other)
        if not size:
            return False
        fine = abs(one - other) / size
        if rough is not None and abs(rough - fine) < fine / 10:
            return True
        rough = fine
    return False


def sign_of(terms: Terms) -> int | None:
    """1 or -1 where terms are a real number whose sign is seen, 0 for nothing, else None."""
    if not terms:
        return 0
    if len(terms) == 1 and ONE in terms:
        return 1 if terms[ONE] > 0 else -1
    if any(_free(a) for a in atoms_in(terms)):
        return None
    try:
        values = [evaluate(terms, {}, context_of(digits)) for digits in (40, 90)]
    except (UnknownError, OverflowError, ZeroDivisionError, ValueError, TooLargeError):
        return None
    if any(hasattr(v, "imag") and abs(v.imag) > abs(v) * 1e-20 for v in values):
        return None
    rough, fine = (v.real for v in values)
    if not fine or abs(rough - fine) > abs(fine) / 10:
        return None
    return 1 if fine > 0 else -1


def vanishes(terms: Terms) -> bool:
    """Whether terms made of whole numbers and roots alone are proven to be zero."""
    try:
        size, degree = _bound(terms)
        digits = math.ceil((size.top * (degree - 1) + size.bottom) * math.log10(2)) + 10
        if digits > MOST_DIGITS:
            return False
        value = abs(evaluate(terms, {}, context_of(digits + 20)))
        return bool(value < context_of(digits + 20).mpf(10) ** -digits)
    except (UnknownError, OverflowError, ZeroDivisionError, ValueError, TooLargeError):
        return False


# The bound: log2 of what conjugates of numerator and denominator can't pass


class _Size:
    """Upper bounds, as log2, of all conjugates of a numerator and of a denominator."""

    def __init__(self, top: float, bottom: float) -> None:
        self.top, self.bottom = top, bottom


def _bound(terms: Terms) -> tuple[_Size, int]:
    roots: dict[Any, int] = {}
    size = _size(terms, roots, {})
    turn = roots.pop("turn", 1)
    cyclotomic = sum(math.gcd(n, 2 * turn) == 1 for n in range(1, min(turn, 10_000) + 1))
    degree = math.prod(roots.values()) * max(1, cyclotomic)
    if degree > 4_096:
        raise TooLargeError("a number of a high degree")
    return size, degree


def _size(terms: Terms, roots: dict[Any, int], known: dict[Atom, _Size]) -> _Size:
    total: _Size | None = None
    for monomial, coefficient in terms.items():
        one = _Size(math.log2(abs(coefficient.numerator)), math.log2(coefficient.denominator))
        for found, exponent in monomial:
            if found not in known:
                known[found] = _atom_size(found, roots, known)
            inner = known[found]
            degree = exponent.denominator
            if degree > 1:
                roots[found, degree] = degree
            if exponent < 0:
                inner = _Size(inner.bottom, inner.top)
            times = abs(exponent)
            whole, part = math.floor(times), float(times - math.floor(times))
            one.top += inner.top * whole
            one.bottom += inner.bottom * whole
            if part:
                one.top += part * (inner.top + inner.bottom * (1 / part - 1))
                one.bottom += inner.bottom
        if total is None:
            total = one
        else:
            high = max(total.top + one.bottom, one.top + total.bottom) + 1
            total = _Size(high, total.bottom + one.bottom)
    return total or _Size(0.0, 0.0)


def _atom_size(found: Atom, roots: dict[Any, int], known: dict[Atom, _Size]) -> _Size:
    if found[0] == "prime":
        return _Size(math.log2(found[1]), 0.0)
    if found == IMAGINARY:
        roots[IMAGINARY] = 2
        return _Size(0.0, 0.0)
    if found[0] == "base":
        return _size(dict(found[1]), roots, known)
    if found[:2] == ("call", "abs"):
        roots[found] = 2
        return _size(dict(found[2]), roots, known)
    if found[:2] in (("call", "cos"), ("call", "sin")):
        turn = dict(found[2])
        if len(turn) == 1 and next(iter(turn)) == frozenset({(PI, Fraction(1))}):
            roots["turn"] = math.lcm(roots.get("turn", 1), next(iter(turn.values())).denominator)
            return _Size(1.0, 1.0)  # 2 cos is an algebraic integer, no conjugate passes 2
    raise UnknownError("not made of whole numbers and roots alone")

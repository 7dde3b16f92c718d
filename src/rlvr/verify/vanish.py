"""Whether a normal form is zero: denominators multiplied away, roots of sums taken together."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from rlvr.verify.terms import (
    Atom,
    Monomial,
    Terms,
    Work,
    add,
    atom,
    multiply,
    ordered_name,
    settled,
)


def is_zero(terms: Terms, work: Work) -> bool:
    """Whether terms vanish once all denominators are multiplied away."""
    for _ in range(12):
        if not terms:
            return True
        lowest: dict[Atom, Fraction] = {}
        for monomial in terms:
            for found, exponent in monomial:
                if exponent < 0:
                    lowest[found] = min(exponent, lowest.get(found, exponent))
        if not lowest:
            return False
        for found, exponent in sorted(lowest.items(), key=lambda item: ordered_name(item[0])):
            terms = multiply(terms, atom(found, -exponent), work)
            terms = settled(terms, work)
    return False


def has_zero_conjugate(terms: Terms, work: Work) -> bool:
    """Whether terms vanish for some choice of the signs of their square and cube roots of sums.

    Such terms are zero wherever they are seen to be near zero: the choice can only change where
    two of the factors vanish together.
    """
    for _ in range(3):
        roots = {
            (found, exponent.denominator)
            for monomial in terms
            for found, exponent in monomial
            if found[0] == "base" and exponent.denominator in (2, 3)
        }
        if not roots:
            return is_zero(terms, work)
        found, degree = min(roots, key=lambda item: (item[1], ordered_name(item[0])))
        parts = [Terms() for _ in range(degree)]
        for monomial, coefficient in terms.items():
            exponents = dict(monomial)
            exponent = exponents.pop(found, Fraction(0))
            if degree % exponent.denominator:
                return False
            place = int(exponent * degree) % degree
            whole = exponent - Fraction(place, degree)
            if whole:
                exponents[found] = whole
            parts[place][frozenset(exponents.items())] = coefficient
        inside = dict(found[1])
        squares = [multiply(part, part, work) for part in parts]
        if degree == 2:
            terms = add(squares[0], multiply(squares[1], inside, work), -1)
        else:
            a, b, c = (multiply(s, p, work) for s, p in zip(squares, parts, strict=True))
            twice = multiply(inside, inside, work)
            mixed = multiply(multiply(parts[0], parts[1], work), parts[2], work)
            terms = add(a, multiply(b, inside, work))
            terms = add(terms, multiply(c, twice, work))
            terms = add(terms, multiply(mixed, inside, work), -3)
        terms = settled(terms, work)
    return False


def atoms_in(terms: Iterable[Monomial]) -> set[Atom]:
    """All atoms of some monomials, those inside other atoms too."""
    found, seen = set[Atom](), set[Any]()
    waiting: list[Any] = list(terms)
    while waiting:
        part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        if isinstance(part, tuple) and part and isinstance(part[0], str):
            found.add(part)
        waiting += [inner for inner in part if isinstance(inner, tuple | frozenset)]
    return found


def cleared(terms: Terms, work: Work) -> Terms:
    """Terms without negative exponents."""
    for _ in range(12):
        lowest: dict[Any, Fraction] = {}
        for monomial in terms:
            for found, exponent in monomial:
                if exponent < 0:
                    lowest[found] = min(exponent, lowest.get(found, exponent))
        if not lowest:
            return terms
        for found, exponent in lowest.items():
            terms = multiply(terms, {frozenset({(found, -exponent)}): Fraction(1)}, work)
    return terms

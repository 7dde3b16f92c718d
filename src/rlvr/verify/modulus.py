"""Sizes: the modulus of a complex number, and the largest and the least of several numbers."""

from __future__ import annotations

from fractions import Fraction

from rlvr.verify.numeric import sign_of
from rlvr.verify.terms import (
    IMAGINARY,
    Terms,
    Work,
    absolute,
    add,
    atom,
    constant,
    factored,
    key_of,
    multiply,
    number_of,
    ordered_name,
    power,
    scale,
)
from rlvr.verify.vanish import atoms_in

_TURN = (IMAGINARY, Fraction(1))


def squared_modulus(inside: Terms, work: Work) -> Terms | None:
    """The square of the modulus of a complex number; None for anything else.

    A sum with names in it is none: whether `z` is real, nobody says.
    """
    found = atoms_in(inside)
    if IMAGINARY not in found or any(a[0] == "name" for a in found):
        return None
    return squared_size(inside, work)


def squared_size(inside: Terms, work: Work) -> Terms | None:
    """The square of the size of a number; None where its parts are not seen to be real."""
    if len(inside) > 1:
        content, common, rest = factored(inside)
        if common:
            outside = squared_size({common: content}, work)
            within = squared_size(rest, work)
            return multiply(outside, within, work) if outside and within else None
        real, imaginary = Terms(), Terms()
        for monomial, coefficient in inside.items():
            if IMAGINARY in atoms_in([monomial - {_TURN}]):
                return None
            turned = _TURN in monomial
            (imaginary if turned else real)[monomial - {_TURN}] = coefficient
        if not imaginary and sign_of(real) is not None:
            return multiply(real, real, work)
        if sign_of(real) is None or sign_of(imaginary) is None:
            return None
        squares = (multiply(real, real, work), multiply(imaginary, imaginary, work))
        return add(*squares)
    ((monomial, coefficient),) = inside.items()
    result = constant(coefficient * coefficient)
    for part, exponent in monomial:
        if part == IMAGINARY:
            continue
        square = atom(part, 2)
        if IMAGINARY in atoms_in([frozenset({(part, Fraction(1))})]):
            if part[0] != "base":
                return None
            inner = squared_size(dict(part[1]), work)
            if inner is None:
                return None
            square = inner
        elif sign_of({frozenset({(part, Fraction(1))}): Fraction(1)}) is None:
            return None
        result = multiply(result, power(square, exponent, work), work)
    return result


def extreme(name: str, given: list[Terms], work: Work) -> Terms:
    """The largest or the least of several numbers: of two by the size of their difference."""
    kept = list[Terms]()
    for one in given:
        for place, other in enumerate(kept):
            sign = sign_of(add(one, other, -1))
            if sign is not None:
                kept[place] = one if (sign > 0) == (name == "max") else other
                break
        else:
            kept.append(one)
    if len(kept) == 1 and (len(given) > 1 or number_of(kept[0]) is not None):
        return kept[0]
    if len(kept) == 2:
        first, second = kept
        size = absolute(add(first, second, -1), work)
        return scale(add(add(first, second), size, 1 if name == "max" else -1), Fraction(1, 2))
    return atom(("call", name, *sorted(map(key_of, kept), key=ordered_name)))

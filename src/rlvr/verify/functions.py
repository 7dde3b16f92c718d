"""Functions on normal forms: powers with variables, trigonometry, logarithms, factorials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from rlvr.verify.primes import factors
from rlvr.verify.terms import (
    IMAGINARY,
    MINUS,
    MOST_BITS,
    ONE,
    PI,
    Atom,
    E,
    Monomial,
    Terms,
    UndefinedError,
    Work,
    add,
    atom,
    constant,
    factored,
    key_of,
    leading,
    multiply,
    number_of,
    ordered_name,
    power,
    scale,
)
from rlvr.verify.typography import TooLargeError

MOST_MULTIPLES = 12  # of an angle that are multiplied out
MOST_FACTORIAL = 1_200
MOST_SHIFT = 12  # factors that n! gives up to reach another factorial


def general_power(
    base: Terms, exponent: Terms, angles: Mapping[Monomial, int], work: Work
) -> Terms:
    """A base to any exponent."""
    rational = number_of(exponent)
    if rational is not None:
        return power(base, rational, work)
    if not base:
        raise UndefinedError("zero to a power that is no number")
    if len(base) > 1:
        content, common, rest = factored(base)
        outside = general_power({common: content}, exponent, angles, work)
        inside = _atom_power(("base", key_of(rest)), exponent, angles, work)
        return multiply(outside, inside, work)
    ((monomial, coefficient),) = base.items()
    result = constant(1)
    if exponent.keys() - {ONE} and coefficient > 0:
        result, exponent = _without_logarithm(base, exponent, angles, work)
    if coefficient < 0:
        result = _atom_power(MINUS, exponent, angles, work)
        coefficient = -coefficient
    for part, sign in ((coefficient.numerator, 1), (coefficient.denominator, -1)):
        for prime, count in factors(part):
            grown = scale(exponent, sign * count)
            one = _atom_power(("prime", prime), grown, angles, work)
            result = multiply(result, one, work)
    for found, inner in monomial:
        grown = scale(exponent, inner)
        one = (
            exponential(grown, angles, work)
            if found == E
            else _atom_power(found, grown, angles, work)
        )
        result = multiply(result, one, work)
    return result


def _without_logarithm(
    base: Terms, exponent: Terms, angles: Mapping[Monomial, int], work: Work
) -> tuple[Terms, Terms]:
    """What a base gives with the terms of an exponent that are divided by its own logarithm.

    For a base of one prime or name that is nothing special; the logarithm of 10 is a sum.
    """
    own = logarithm(base, work)
    if len(own) < 2:
        return constant(1), exponent
    content, common, rest = factored(own)
    if leading(rest) < 0:
        content, rest = -content, scale(rest, -1)
    divisor = (("base", key_of(rest)), Fraction(-1))
    inside = {m - {divisor}: c * content for m, c in exponent.items() if divisor in m}
    outside = {m: c for m, c in exponent.items() if divisor not in m}
    if not inside:
        return constant(1), exponent
    return exponential(multiply(inside, {common: Fraction(1)}, work), angles, work), outside


def _atom_power(found: Atom, exponent: Terms, angles: Mapping[Monomial, int], work: Work) -> Terms:
    """An atom to an exponent with variables: one factor for each term of the exponent."""
    result = constant(1)
    for monomial, coefficient in exponent.items():
        if monomial == ONE:
            one = power(constant(-1) if found == MINUS else _as_terms(found), coefficient, work)
        elif found == MINUS:
            odd = coefficient % 2
            one = atom(("power", found, monomial), odd) if odd else constant(1)
        elif found == IMAGINARY and (IMAGINARY, Fraction(1)) not in monomial:
            one = atom(("power", found, monomial), coefficient)
        else:
            grown = multiply({monomial: coefficient}, _log_of_atom(found, work), work)
            one = exponential(grown, angles, work)
        result = multiply(result, one, work)
    return result


def _as_terms(found: Atom) -> Terms:
    if found[0] == "base":
        return dict(found[1])
    return constant(found[1]) if found[0] == "prime" else atom(found)


def exponential(exponent: Terms, angles: Mapping[Monomial, int], work: Work) -> Terms:
    """`e` to an exponent; an imaginary part turns into cosine and sine."""
    result, angle = constant(1), Terms()
    for monomial, coefficient in exponent.items():
        if (IMAGINARY, Fraction(1)) in monomial:
            angle[monomial - {(IMAGINARY, Fraction(1))}] = coefficient
            continue
        result = multiply(result, _real_exponential(monomial, coefficient, work), work)
    if angle:
        turned = add(
            trigonometric("cos", angle, angles, work),
            multiply(atom(IMAGINARY), trigonometric("sin", angle, angles, work), work),
        )
        result = multiply(result, turned, work)
    return result


def _real_exponential(monomial: Monomial, coefficient: Fraction, work: Work) -> Terms:
    """`e` to one term; a logarithm in it is taken out as the base, of several always the same."""
    if monomial == ONE:
        return atom(E, coefficient)
    logs = [a for a, e in monomial if e == 1 and a[:2] == ("call", "ln")]
    if not logs:
        return atom(("power", E, monomial), coefficient)
    chosen = min(logs, key=ordered_name)
    inside, rest = dict(chosen[2]), monomial - {(chosen, Fraction(1))}
    if not rest:
        return power(inside, coefficient, work)
    if len(inside) > 1:
        return atom(("power", ("base", chosen[2]), rest), coefficient)
    ((only, factor),) = inside.items()
    if not only and factor.denominator == 1:
        return atom(("power", ("prime", factor.numerator), rest), coefficient)
    if factor == 1 and len(only) == 1:
        ((base, exponent),) = only
        if exponent == 1:
            return atom(("power", base, rest), coefficient)
    return atom(("power", E, monomial), coefficient)


def logarithm(inside: Terms, work: Work) -> Terms:
    """The natural logarithm, taken apart into those of the factors."""
    if not inside:
        raise UndefinedError("the logarithm of zero")
    content, common, rest = factored(inside)
    if number_of(rest) == -1:
        return atom(("call", "ln", key_of(inside)))
    total = Terms()
    for part, sign in ((content.numerator, 1), (content.denominator, -1)):
        for prime, count in factors(part):
            one = atom(("call", "ln", key_of(constant(prime))))
            total = add(total, one, sign * count)
    for found, exponent in common:
        total = add(total, _log_of_atom(found, work), exponent)
    if number_of(rest) == 1:
        return total
    return add(total, atom(("call", "ln", key_of(rest))))


def _log_of_atom(found: Atom, work: Work) -> Terms:
    if found == E:
        return constant(1)
    if found == IMAGINARY:
        return {frozenset({(PI, Fraction(1)), (IMAGINARY, Fraction(1))}): Fraction(1, 2)}
    if found[0] == "power" and found[1] != MINUS:
        return multiply({found[2]: Fraction(1)}, _log_of_atom(found[1], work), work)
    return atom(("call", "ln", key_of(_as_terms(found))))


# Trigonometry

_COSINES: dict[Fraction, tuple[tuple[int, int], ...]] = {  # sums of c * sqrt(n), over 4
    Fraction(0): ((4, 1),),
    Fraction(1, 12): ((1, 6), (1, 2)),
    Fraction(1, 6): ((2, 3),),
    Fraction(1, 5): ((1, 1), (1, 5)),
    Fraction(1, 4): ((2, 2),),
    Fraction(1, 3): ((2, 1),),
    Fraction(2, 5): ((-1, 1), (1, 5)),
    Fraction(5, 12): ((1, 6), (-1, 2)),
    Fraction(1, 2): (),
}


def cosine_of_turn(part: Fraction, work: Work) -> Terms:
    """The cosine of `part * pi`, exact for the angles that have a name."""
    part %= 2
    if part > 1:
        part = 2 - part
    sign = 1
    if part > Fraction(1, 2):
        part, sign = 1 - part, -1
    if part in _COSINES:
        total = Terms()
        for count, under in _COSINES[part]:
            total = add(total, power(constant(under), Fraction(1, 2), work), Fraction(count, 4))
        return scale(total, sign)
    return scale(atom(("call", "cos", key_of({frozenset({(PI, Fraction(1))}): part}))), sign)


def trigonometric(name: str, angle: Terms, angles: Mapping[Monomial, int], work: Work) -> Terms:
    """`sin` or `cos`, with sums and whole multiples of angles multiplied out."""
    cosine, sine = _both(angle, angles, work)
    return cosine if name == "cos" else sine


def _both(angle: Terms, angles: Mapping[Monomial, int], work: Work) -> tuple[Terms, Terms]:
    turn = frozenset({(PI, Fraction(1))})
    part = angle.get(turn, Fraction(0))
    cosine = cosine_of_turn(part, work)
    sine = cosine_of_turn(part - Fraction(1, 2), work)
    rest = {m: c for m, c in angle.items() if m != turn}
    if len(rest) > 4:
        return _whole(angle, work)
    for monomial, coefficient in rest.items():
        unit = Fraction(1, angles.get(monomial, coefficient.denominator))
        multiple = coefficient / unit
        if monomial == ONE or multiple.denominator != 1 or abs(multiple) > MOST_MULTIPLES:
            unit, multiple = abs(coefficient), Fraction(1 if coefficient > 0 else -1)
        cos, sin = _multiple({monomial: unit}, int(multiple), work)
        cosine, sine = (
            add(multiply(cosine, cos, work), multiply(sine, sin, work), -1),
            add(multiply(sine, cos, work), multiply(cosine, sin, work)),
        )
    return cosine, sine


def _whole(angle: Terms, work: Work) -> tuple[Terms, Terms]:
    """Cosine and sine of an angle as it stands, its sign in one form."""
    known = _of_inverse(angle, work)
    if known is not None:
        return known
    sign = 1 if leading(angle) > 0 else -1
    key = key_of(scale(angle, sign))
    return atom(("call", "cos", key)), scale(atom(("call", "sin", key)), sign)


def _of_inverse(angle: Terms, work: Work) -> tuple[Terms, Terms] | None:
    """Cosine and sine of `arcsin x` and `arctan x`, where the angle is one."""
    ((monomial, coefficient), *others) = angle.items()
    if others or abs(coefficient) != 1 or len(monomial) != 1:
        return None
    ((found, exponent),) = monomial
    if exponent != 1 or found[:2] not in (("call", "arcsin"), ("call", "arctan")):
        return None
    inside = dict(found[2])
    square = multiply(inside, inside, work)
    if found[1] == "arcsin":
        under = add(constant(1), square, -1)
        return power(under, Fraction(1, 2), work), scale(inside, coefficient)
    cosine = power(add(constant(1), square), Fraction(-1, 2), work)
    return cosine, scale(multiply(inside, cosine, work), coefficient)


def _multiple(angle: Terms, count: int, work: Work) -> tuple[Terms, Terms]:
    """Cosine and sine of a whole multiple of an angle."""
    one, other = _whole(angle, work)
    cosine, sine = constant(1), Terms()
    for _ in range(abs(count)):
        cosine, sine = (
            add(multiply(cosine, one, work), multiply(sine, other, work), -1),
            add(multiply(sine, one, work), multiply(cosine, other, work)),
        )
    return cosine, scale(sine, 1 if count >= 0 else -1)


_ARCSINES = {  # of sqrt(value), as parts of pi
    Fraction(0): Fraction(0), Fraction(1, 4): Fraction(1, 6), Fraction(1, 2): Fraction(1, 4),
    Fraction(3, 4): Fraction(1, 3), Fraction(1): Fraction(1, 2),
}  # fmt: skip
_ARCTANGENTS = {
    Fraction(0): Fraction(0), Fraction(1, 3): Fraction(1, 6), Fraction(1): Fraction(1, 4),
    Fraction(3): Fraction(1, 3),
}  # fmt: skip


def inverse(name: str, inside: Terms, work: Work) -> Terms:
    """`arcsin` or `arctan`; both are odd, and known at the angles that have a name."""
    if inside and leading(inside) < 0:
        return scale(inverse(name, scale(inside, -1), work), -1)
    square = number_of(multiply(inside, inside, work))
    table = _ARCSINES if name == "arcsin" else _ARCTANGENTS
    if square is not None and square in table:
        return scale(atom(PI), table[square]) if table[square] else {}
    value = number_of(inside)
    if name == "arctan" and value is not None and value > 1:
        other = atom(("call", "arctan", key_of(constant(1 / value))))
        return add(scale(atom(PI), Fraction(1, 2)), other, -1)
    return atom(("call", name, key_of(inside)))


# Counting


def factorial(inside: Terms, work: Work) -> Terms:
    """`n!`; whole numbers beside a variable are taken out: `(n + 1)! = (n + 1) n!`."""
    value = number_of(inside)
    if value is not None:
        if value.denominator != 1 or value < 0:
            raise UndefinedError("the factorial of a number that is not 0, 1, 2, ...")
        if value <= MOST_FACTORIAL:
            return constant(math.factorial(int(value)))
        return atom(("call", "factorial", key_of(inside)))
    shift = inside.get(ONE, Fraction(0))
    whole = math.floor(shift)
    if not whole or abs(whole) > MOST_SHIFT:
        return atom(("call", "factorial", key_of(inside)))
    base = add(inside, constant(whole), -1)
    result = atom(("call", "factorial", key_of(base)))
    for step in range(1, whole + 1):
        result = multiply(result, add(base, constant(step)), work)
    for step in range(-whole):
        result = multiply(result, power(add(base, constant(step), -1), Fraction(-1), work), work)
    return result


def double_factorial(number: int) -> int:
    """`n!!`: every second number from `n` down.

    >>> double_factorial(5), double_factorial(6), double_factorial(0)
    (15, 48, 1)
    """
    if not 0 <= number <= MOST_FACTORIAL:
        raise TooLargeError("a double factorial that is not computed")
    return math.prod(range(number, 0, -2))


def binomial(top: Terms, bottom: Terms, work: Work) -> Terms:
    """`n` over `k`."""
    n, k = number_of(top), number_of(bottom)
    if n is not None and k is not None:
        if n.denominator != 1 or k.denominator != 1 or n < 0:
            raise TooLargeError("a binomial of numbers that are not 0, 1, 2, ...")
        if k < 0 or k > n:
            return {}
        smaller = min(k, n - k)
        if smaller * n.numerator.bit_length() > MOST_BITS:
            raise TooLargeError("a binomial too long to be written out")
        return constant(math.comb(int(n), int(k)))
    other = number_of(add(top, bottom, -1))
    small = k if k is not None else other
    if small is not None and small.denominator == 1 and 0 <= small <= MOST_SHIFT:
        result = constant(Fraction(1, math.factorial(int(small))))
        for step in range(int(small)):
            result = multiply(result, add(top, constant(step), -1), work)
        return result
    lower = multiply(factorial(bottom, work), factorial(add(top, bottom, -1), work), work)
    return multiply(factorial(top, work), power(lower, Fraction(-1), work), work)

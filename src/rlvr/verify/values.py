"""The value of a normal form as a number: in doubles, or to any precision."""

from __future__ import annotations

import cmath
import math
import operator
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from rlvr.verify.functions import double_factorial
from rlvr.verify.terms import MINUS, Atom, Terms

MOST_EXPONENT_BITS = 100
LARGEST = 10**5  # argument of a function that is computed


class UnknownError(ValueError):
    """There is no value to compute: a function that is only a name, or a domain is left."""


class Doubles:
    """The functions of complex doubles, under the names that mpmath uses."""

    mpf = staticmethod(float)
    pi, e = math.pi, math.e
    exp, log = staticmethod(cmath.exp), staticmethod(cmath.log)
    cos, sin = staticmethod(cmath.cos), staticmethod(cmath.sin)
    asin, atan = staticmethod(cmath.asin), staticmethod(cmath.atan)
    floor = staticmethod(lambda x: math.floor(complex(x).real))
    ceil = staticmethod(lambda x: math.ceil(complex(x).real))

    @staticmethod
    def fraction(value: Fraction) -> float:
        """A fraction as a double."""
        return value.numerator / value.denominator

    @staticmethod
    def gamma(value: complex) -> float:
        """The gamma function, of real numbers only."""
        value = complex(value)
        if value.imag:
            raise UnknownError("the factorial of a complex number")
        return math.gamma(value.real)


_local = threading.local()


def context_of(digits: int) -> Any:
    """mpmath's functions at a precision, apart for each thread."""
    context = getattr(_local, "context", None)
    if context is None:
        import mpmath

        context = _local.context = mpmath.mp.__class__()
        context.fraction = lambda value: context.mpf(value.numerator) / value.denominator
    context.dps = digits
    return context


def evaluate(terms: Terms, values: Mapping[Atom, Fraction], context: Any) -> Any:
    """The value of terms, with values for the free names."""
    return _sum(terms, {a: context.fraction(v) for a, v in values.items()}, context)


def _sum(terms: Terms, known: dict[Atom, Any], context: Any) -> Any:
    """The value of terms; each atom is computed once."""
    total = context.fraction(Fraction(0))
    for monomial, coefficient in terms.items():
        one = context.fraction(coefficient)
        for found, exponent in monomial:
            if found not in known:
                known[found] = _atom_value(found, known, context)
            one = one * _raised(known[found], exponent, context)
        total = total + one
    return total


def _raised(base: Any, exponent: Fraction, context: Any) -> Any:
    """A power; odd roots of negative numbers are real, even ones have none."""
    if exponent.denominator == 1:
        if exponent.numerator.bit_length() > MOST_EXPONENT_BITS:
            raise UnknownError("a power too high to be computed")
        return base ** int(exponent)
    real = getattr(base, "real", base)
    imaginary = getattr(base, "imag", 0)
    if not imaginary and real < 0 and exponent.denominator % 2:
        value = (-real) ** context.fraction(exponent)
        return -value if exponent.numerator % 2 else value
    if not imaginary and real < 0:
        raise UnknownError("an even root of a negative number")
    return base ** context.fraction(exponent)


def _atom_value(found: Atom, known: dict[Atom, Any], context: Any) -> Any:
    kind = found[0]
    if kind == "prime":
        return context.mpf(found[1])
    if kind == "pi":
        return +context.pi
    if kind == "e":
        return +context.e
    if kind == "i":
        return 1j if isinstance(context, Doubles) else context.mpc(0, 1)
    if found == MINUS:
        return context.mpf(-1)
    if kind == "base":
        return _sum(dict(found[1]), known, context)
    if kind == "power":
        base = _sum({frozenset({(found[1], Fraction(1))}): Fraction(1)}, known, context)
        exponent = _sum({found[2]: Fraction(1)}, known, context)
        if not _real(base) or not _real(exponent) or abs(exponent) > LARGEST:
            raise UnknownError("a power outside its domain")
        if base.real < 0:
            return base ** _integer(exponent.real)
        return base**exponent
    if kind == "call":
        return _call_value(found, known, context)
    raise UnknownError(f"{kind} has no value")


def _real(value: Any) -> bool:
    return not getattr(value, "imag", 0)


def _call_value(found: Atom, known: dict[Atom, Any], context: Any) -> Any:
    name = found[1]
    if not all(isinstance(part, frozenset) for part in found[2:]):
        raise UnknownError(f"{name} has no value here")
    given = [_sum(dict(part), known, context) for part in found[2:]]
    if not all(map(_real, given)):
        raise UnknownError(f"{name} of a complex number")
    numbers = [one.real for one in given]
    if name in ("max", "min") and len(numbers) > 1:
        return max(numbers) if name == "max" else min(numbers)
    if name in _OF_INTEGERS:
        return context.mpf(_OF_INTEGERS[name](*map(_integer, numbers)))
    if name not in _VALUES or len(numbers) != 1:
        raise UnknownError(f"{name} has no value here")
    if abs(numbers[0]) > LARGEST and name not in _UNBOUNDED:
        raise UnknownError(f"{name} outside its domain")
    return _VALUES[name](numbers[0], context)


def _integer(x: Any) -> int:
    """A number that is whole: one that only comes out as whole is not told from it."""
    if x != round(x) or abs(x) > LARGEST:
        raise UnknownError("a number that is not whole")
    return int(x)


def _log(x: Any, context: Any) -> Any:
    if x <= 0:
        raise UnknownError("the logarithm of a number that is not positive")
    return context.log(x)


def _arcsine(x: Any, context: Any) -> Any:
    if abs(x) > 1:
        raise UnknownError("arcsin of a number beyond 1")
    return context.asin(x)


def _off_jumps(x: Any, context: Any) -> Any:
    """A number that is whole, or so far from it that no rounding error made it so."""
    near = abs(x - round(x))
    rough = isinstance(context, Doubles)
    if near < (1e-9 if rough else context.mpf(10) ** (-context.dps // 2)) and (rough or near):
        raise UnknownError("too near to a jump")
    return x


def _factorial(x: Any, context: Any) -> Any:
    if x <= -1 or x > 10_000:
        raise UnknownError("a factorial that is not computed")
    return context.gamma(x + 1)


_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda x, context: context.sin(x),
    "cos": lambda x, context: context.cos(x),
    "arctan": lambda x, context: context.atan(x),
    "arcsin": _arcsine,
    "ln": _log,
    "abs": lambda x, context: abs(x),
    "factorial": _factorial,
    "floor": lambda x, context: context.mpf(context.floor(_off_jumps(x, context))),
    "ceil": lambda x, context: context.mpf(context.ceil(_off_jumps(x, context))),
    "sgn": lambda x, context: context.mpf((_off_jumps(x, context) > 0) - (x < 0)),
}
_UNBOUNDED = frozenset(("ln", "abs", "arctan", "sgn"))
_OF_INTEGERS: dict[str, Callable[..., int]] = {
    "gcd": math.gcd,
    "lcm": math.lcm,
    "mod": operator.mod,
    "doublefactorial": double_factorial,
}

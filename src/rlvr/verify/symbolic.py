"""What normal forms leave open, asked of sympy in a worker: built node by node, never from text.

Everything here runs in a process that can be killed; sympy is imported on first need only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from rlvr.verify.nodes import (
    Call,
    Name,
    Negative,
    Node,
    Number,
    Percent,
    Power,
    Product,
    Quantity,
    Quotient,
    Sum,
)
from rlvr.verify.typography import UnreadableError
from rlvr.verify.verdict import decide

HIGHEST = 200  # exponent of a number that sympy may compute


def graded(item: object) -> list[object]:
    """One answer graded, with sympy at hand: `[reference, response, alternatives, lenient]`.

    Returns:
        Verdict, value, reason and answer, as JSON has them.
    """
    reference, response, alternatives, lenient = cast(list[Any], item)
    score = decide(reference, response, alternatives=alternatives, lenient=lenient, prove=proven)
    return [score.verdict, score.value, score.reason, score.answer]


def proven(first: Node, second: Node) -> bool | None:
    """Whether sympy proves two expressions equal or different; None where it does neither."""
    import sympy

    try:
        difference = built(first) - built(second)
    except UnreadableError:
        return None
    steps: tuple[Callable[[Any], Any], ...] = (
        sympy.expand,
        sympy.sqrtdenest,
        sympy.radsimp,
        sympy.trigsimp,
        sympy.simplify,
        lambda it: sympy.simplify(it.rewrite(sympy.exp)),
        lambda it: sympy.simplify(sympy.expand_log(it, force=True)),
        lambda it: sympy.gammasimp(sympy.combsimp(it.rewrite(sympy.gamma))),
    )
    for step in steps:
        if step(difference).is_zero:
            return True
    equals = difference.equals(0)
    return None if equals is None else bool(equals)


def built(node: Node) -> Any:
    """A node as a sympy object.

    Raises:
        UnreadableError: It is no expression, or too large to be computed.
    """
    import sympy

    if isinstance(node, Number):
        return sympy.Rational(node.value.numerator, node.value.denominator)
    if isinstance(node, Name):
        return _name(node.text)
    if isinstance(node, Negative):
        return -built(node.operand)
    if isinstance(node, Sum):
        return sympy.Add(*map(built, node.terms))
    if isinstance(node, Product):
        return sympy.Mul(*map(built, node.factors))
    if isinstance(node, Quotient):
        return built(node.top) / built(node.bottom)
    if isinstance(node, Power):
        return _power(built(node.base), built(node.exponent))
    if isinstance(node, Percent):
        return built(node.value) / 100
    if isinstance(node, Quantity) and node.unit == "degree":
        return built(node.value) * sympy.pi / 180
    if isinstance(node, Call):
        return _call(node)
    raise UnreadableError("no expression")


@cache
def _name(text: str) -> Any:
    import sympy

    constants = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I}
    if text in ("infinity", "emptyset", "reals", "ldots"):
        raise UnreadableError("no number")
    return constants.get(text) or sympy.Symbol(text, real=True)


def _power(base: Any, exponent: Any) -> Any:
    """A power that is small enough; odd roots of negative numbers are real."""
    import sympy

    if base.is_number and exponent.is_number and abs(exponent) > HIGHEST:
        raise UnreadableError("a power too high to be computed")
    if exponent.is_Rational and exponent.q % 2 == 1 and exponent.q > 1:
        return sympy.real_root(base, exponent.q) ** exponent.p
    return base**exponent


def _call(node: Call) -> Any:
    import sympy

    known: dict[str, Callable[..., Any]] = {
        "ln": sympy.log, "exp": sympy.exp, "abs": sympy.Abs, "sin": sympy.sin, "cos": sympy.cos,
        "tan": sympy.tan, "sec": sympy.sec, "csc": sympy.csc, "cot": sympy.cot,
        "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan, "arccot": sympy.acot,
        "arcsec": sympy.asec, "arccsc": sympy.acsc, "sinh": sympy.sinh, "cosh": sympy.cosh,
        "tanh": sympy.tanh, "arsinh": sympy.asinh, "arcosh": sympy.acosh, "artanh": sympy.atanh,
        "floor": sympy.floor, "ceil": sympy.ceiling, "gcd": sympy.gcd, "lcm": sympy.lcm,
        "max": sympy.Max, "min": sympy.Min, "binom": sympy.binomial,
    }  # fmt: skip
    arguments = [built(argument) for argument in node.arguments]
    if node.function == "root":
        return _power(arguments[0], 1 / arguments[1])
    if node.function == "log":
        base = arguments[1] if len(arguments) > 1 else sympy.Symbol("base of log", positive=True)
        return sympy.log(arguments[0]) / sympy.log(base)
    if node.function == "factorial":
        if arguments[0].is_number and abs(arguments[0]) > HIGHEST:
            raise UnreadableError("a factorial too large to be computed")
        return sympy.factorial(arguments[0])
    if node.function not in known:
        raise UnreadableError(f"{node.function} is only a name")
    return known[node.function](*arguments)

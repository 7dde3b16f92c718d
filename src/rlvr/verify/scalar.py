"""From what was read to a normal form: every expression that stands for one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from rlvr.verify.functions import (
    binomial,
    double_factorial,
    exponential,
    factorial,
    general_power,
    inverse,
    logarithm,
    trigonometric,
)
from rlvr.verify.modulus import extreme, squared_modulus
from rlvr.verify.nodes import (
    Based,
    Call,
    Items,
    Matrix,
    Name,
    Negative,
    Node,
    Number,
    Percent,
    Power,
    Product,
    Quantity,
    Quotient,
    Relation,
    Sum,
    Words,
)
from rlvr.verify.numeric import sign_of
from rlvr.verify.signs import word_set
from rlvr.verify.terms import (
    IMAGINARY,
    ONE,
    PI,
    E,
    Monomial,
    Terms,
    UndefinedError,
    Work,
    absolute,
    add,
    atom,
    checked,
    constant,
    key_of,
    multiply,
    number_of,
    ordered_name,
    power,
    scale,
)
from rlvr.verify.typography import UnreadableError
from rlvr.verify.vanish import is_zero

_CONSTANTS = {"pi": PI, "e": E, "i": IMAGINARY}
_ANGULAR = word_set("sin cos tan sec csc cot")
_LARGEST_DETERMINANT = 4


@dataclass(frozen=True, slots=True)
class Former:
    """Brings expressions into normal form under one budget."""

    work: Work = field(default_factory=Work)
    angles: dict[Monomial, int] = field(default_factory=dict)
    """By angle, the denominator under which all its multiples are whole."""

    def prepare(self, *nodes: Node) -> None:
        """Look at all angles first, so that multiples of one are known as such."""
        for node in nodes:
            for call in _angular_calls(node):
                for monomial, coefficient in self.form(_as_angle(call.arguments[0])).items():
                    known = self.angles.get(monomial, 1)
                    self.angles[monomial] = math.lcm(known, coefficient.denominator)

    def form(self, node: Node) -> Terms:
        """The normal form of an expression.

        Raises:
            UndefinedError: It divides by zero, or is infinite.
            UnreadableError: It is not one number.
            TooLargeError: A bound is passed.
        """
        if isinstance(node, Number):
            return constant(checked(node.value))
        if isinstance(node, Name):
            return self.name(node.text)
        if isinstance(node, Negative):
            return scale(self.form(node.operand), -1)
        if isinstance(node, Sum):
            total: Terms = {}
            for term in node.terms:
                total = add(total, self.form(term))
            return total
        if isinstance(node, Product):
            product = constant(1)
            for one in node.factors:
                product = multiply(product, self.form(one), self.work)
            return product
        if isinstance(node, Quotient):
            return multiply(self.form(node.top), self.inverted(node.bottom), self.work)
        if isinstance(node, Power):
            return self.power(_nested(node))
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, Percent):
            return scale(self.form(node.value), Fraction(1, 100))
        if isinstance(node, Matrix) and node.determinant:
            return self.determinant(node.rows)
        if isinstance(node, Based):
            return self.based(node)
        raise UnreadableError("not one number")

    def name(self, text: str) -> Terms:
        """A constant or a variable."""
        if text in ("infinity", "nan", "ldots", "emptyset"):
            raise UndefinedError(f"{text} is no number")
        if text in _CONSTANTS:
            return atom(_CONSTANTS[text])
        return atom(("name", text))

    def inverted(self, node: Node) -> Terms:
        """One over an expression."""
        bottom = self.form(node)
        if is_zero(bottom, self.work):
            raise UndefinedError("division by zero")
        return power(bottom, Fraction(-1), self.work)

    def power(self, node: Power) -> Terms:
        """A power."""
        exponent = self.form(node.exponent)
        if node.base == Name("e"):
            return exponential(exponent, self.angles, self.work)
        value = number_of(exponent)
        if value is not None and value > 0 and value.denominator > 1:
            return self.of_power(node.base, value)
        if value is not None and value < 0:
            return general_power(
                self.inverted(node.base), scale(exponent, -1), self.angles, self.work
            )
        return general_power(self.form(node.base), exponent, self.angles, self.work)

    def call(self, node: Call) -> Terms:
        """A function of its arguments."""
        name, given = node.function, node.arguments
        if name in _ANGULAR:
            return self.angular(name, _only(node))
        known = _FUNCTIONS.get(name)
        if known is not None:
            count, function = known
            if len(given) not in count:
                raise UnreadableError(f"{name} of {len(given)} arguments")
            return function(self, *(self.form(one) for one in given))
        if name == "root":
            return self.root(given[0], given[1])
        if name in ("plusminus", "minusplus"):
            raise UnreadableError("two values, not one")
        if name in ("floor", "ceil", "gcd", "lcm", "max", "min", "mod", "sgn", "doublefactorial"):
            return self.whole(name, [self.form(one) for one in given])
        return atom(("call", name, *map(self.key, given)))

    def angular(self, name: str, node: Node) -> Terms:
        """`sin` and its kin, all in terms of sine and cosine."""
        angle = self.form(_as_angle(node))
        sine = trigonometric("sin", angle, self.angles, self.work)
        if name == "sin":
            return sine
        cosine = trigonometric("cos", angle, self.angles, self.work)
        if name == "cos":
            return cosine
        top, bottom = {
            "tan": (sine, cosine),
            "cot": (cosine, sine),
            "sec": (constant(1), cosine),
            "csc": (constant(1), sine),
        }[name]
        if is_zero(bottom, self.work):
            raise UndefinedError(f"{name} is not defined there")
        return multiply(top, power(bottom, Fraction(-1), self.work), self.work)

    def root(self, inside: Node, index: Node) -> Terms:
        """A root; of an even power it is an absolute value."""
        degree = number_of(self.form(index))
        if degree is None:
            inverse_index = self.inverted(index)
            return general_power(self.form(inside), inverse_index, self.angles, self.work)
        if degree.denominator != 1 or degree < 1:
            raise UnreadableError("the index of a root is a whole number")
        return self.of_power(inside, 1 / degree)

    def of_power(self, inside: Node, outer: Fraction) -> Terms:
        """An expression, which may be a power itself, to a rational exponent."""
        if isinstance(inside, Power) and inside.base != Name("e"):
            exponent = number_of(self.form(inside.exponent))
            if exponent is not None and exponent.denominator == 1 and exponent > 0:
                base = self.form(inside.base)
                if exponent % 2 == 0 and outer.denominator % 2 == 0:
                    base = absolute(base, self.work)
                return power(base, exponent * outer, self.work)
        return power(self.form(inside), outer, self.work)

    def absolute(self, inside: Terms) -> Terms:
        """An absolute value; of a number, by its sign."""
        sign = sign_of(inside)
        if sign is not None:
            return scale(inside, sign)
        square = squared_modulus(inside, self.work)
        if square is not None:
            return power(square, Fraction(1, 2), self.work)
        return absolute(inside, self.work)

    def log(self, inside: Terms, base: Terms | None = None) -> Terms:
        """A logarithm to a base; `\\log` without one keeps a factor of its own."""
        top = logarithm(inside, self.work)
        if base is None:
            return multiply(top, atom(("call", "logbase")), self.work)
        bottom = logarithm(base, self.work)
        if is_zero(bottom, self.work):
            raise UndefinedError("a logarithm to base 1")
        return multiply(top, power(bottom, Fraction(-1), self.work), self.work)

    def hyperbolic(self, name: str, inside: Terms) -> Terms:
        """`sinh`, `cosh` and `tanh` in terms of `e`."""
        up = exponential(inside, self.angles, self.work)
        down = exponential(scale(inside, -1), self.angles, self.work)
        sinh = scale(add(up, down, -1), Fraction(1, 2))
        cosh = scale(add(up, down), Fraction(1, 2))
        if name == "tanh":
            return multiply(sinh, power(cosh, Fraction(-1), self.work), self.work)
        return sinh if name == "sinh" else cosh

    def area(self, name: str, inside: Terms) -> Terms:
        """The inverses of `sinh`, `cosh` and `tanh` as logarithms."""
        if name == "artanh":
            above, below = (logarithm(add(constant(1), inside, s), self.work) for s in (1, -1))
            return scale(add(above, below, -1), Fraction(1, 2))
        square = multiply(inside, inside, self.work)
        under = add(square, constant(1 if name == "arsinh" else -1))
        return logarithm(add(inside, power(under, Fraction(1, 2), self.work)), self.work)

    def whole(self, name: str, given: list[Terms]) -> Terms:
        """Functions that are known for plain numbers only."""
        if name in ("max", "min"):
            return extreme(name, given, self.work)
        values = [number_of(one) for one in given]
        if name in ("gcd", "lcm"):
            given = sorted(given, key=lambda one: ordered_name(key_of(one)))
        if name == "ceil" and len(given) == 1:
            return scale(self.whole("floor", [scale(given[0], -1)]), -1)
        if name == "floor" and len(given) == 1:
            outside = constant(math.floor(given[0].get(ONE, Fraction(0))))
            if outside and len(given[0]) > 1:
                return add(self.whole(name, [add(given[0], outside, -1)]), outside)
        if any(value is None for value in values):
            return atom(("call", name, *map(key_of, given)))
        numbers = [value for value in values if value is not None]
        if name in ("floor", "sgn") and len(numbers) == 1:
            (value,) = numbers
            if name == "sgn":
                return constant((value > 0) - (value < 0))
            return constant(math.floor(value))
        if all(value.denominator == 1 for value in numbers):
            integers = [int(value) for value in numbers]
            if name == "mod" and len(integers) == 2 and integers[1]:
                return constant(integers[0] % integers[1])
            if name == "doublefactorial" and integers[0] >= 0:
                return constant(double_factorial(integers[0]))
            if name in ("gcd", "lcm"):
                return constant((math.gcd if name == "gcd" else math.lcm)(*integers))
        raise UndefinedError(f"{name} is not defined there")

    def determinant(self, rows: tuple[tuple[Node, ...], ...]) -> Terms:
        """The determinant of a small matrix."""
        size = len(rows)
        if size > _LARGEST_DETERMINANT or any(len(row) != size for row in rows):
            raise UnreadableError("a determinant that is not square and small")
        return self._minor([[self.form(entry) for entry in row] for row in rows])

    def _minor(self, rows: list[list[Terms]]) -> Terms:
        if len(rows) == 1:
            return rows[0][0]
        total: Terms = {}
        for place, entry in enumerate(rows[0]):
            rest = [row[:place] + row[place + 1 :] for row in rows[1:]]
            one = multiply(entry, self._minor(rest), self.work)
            total = add(total, one, -1 if place % 2 else 1)
        return total

    def based(self, node: Based) -> Terms:
        """Digits in a base as the number they stand for."""
        digits, _, fraction = node.digits.partition(".")
        value = Fraction(int(digits or "0", node.base))
        if fraction:
            value += Fraction(int(fraction, node.base), node.base ** len(fraction))
        return constant(checked(value))

    def key(self, node: Node) -> Any:
        """Something that is the same for arguments that mean the same."""
        if isinstance(node, Words):
            return node.text
        if isinstance(node, Relation):
            return (node.signs, *map(self.key, node.items))
        if isinstance(node, Items):
            return (node.kind, *map(self.key, node.items))
        if isinstance(node, Name) and node.text in ("infinity", "ldots"):
            return node.text
        if node == Negative(Name("infinity")):
            return "-infinity"
        return key_of(self.form(node))


def _nested(node: Power) -> Power:
    """Whole powers of whole powers as one."""
    inner = node.base
    if isinstance(inner, Power) and inner.base != Name("e"):
        exponents = (inner.exponent, node.exponent)
        values = [one.value for one in exponents if isinstance(one, Number)]
        if len(values) == 2 and all(v > 0 and v.denominator == 1 for v in values):
            return _nested(Power(inner.base, Number(checked(values[0] * values[1]))))
    return node


def _only(node: Call) -> Node:
    if len(node.arguments) != 1:
        raise UnreadableError(f"{node.function} of {len(node.arguments)} arguments")
    return node.arguments[0]


def _as_angle(node: Node) -> Node:
    """An angle in degrees as one in radians."""
    if isinstance(node, Quantity) and node.unit == "degree":
        return Product((node.value, Quotient(Name("pi"), Number(Fraction(180)))))
    if isinstance(node, Sum):
        return Sum(tuple(map(_as_angle, node.terms)))
    if isinstance(node, Negative):
        return Negative(_as_angle(node.operand))
    return node


def _angular_calls(node: Any) -> Iterator[Call]:
    if isinstance(node, Call) and node.function in _ANGULAR and len(node.arguments) == 1:
        yield node
    if isinstance(node, tuple):
        for part in node:
            yield from _angular_calls(part)
    elif hasattr(node, "__dataclass_fields__") and not isinstance(node, Number | Name | Words):
        for item in fields(node):
            value = getattr(node, item.name)
            if not isinstance(value, str | bool | int):
                yield from _angular_calls(value)


def _reciprocal(former: Former, name: str, inside: Terms) -> Terms:
    """`arcsec` and `arccsc` by the inverse of one over the argument."""
    if is_zero(inside, former.work):
        raise UndefinedError("division by zero")
    upside_down = power(inside, Fraction(-1), former.work)
    sine = inverse("arcsin", upside_down, former.work)
    return sine if name == "arccsc" else _complement(sine)


def _complement(terms: Terms) -> Terms:
    """A right angle minus an angle."""
    return add(scale(atom(PI), Fraction(1, 2)), terms, -1)


_FUNCTIONS: dict[str, tuple[tuple[int, ...], Callable[..., Terms]]] = {
    "abs": ((1,), Former.absolute),
    "ln": ((1,), lambda former, x: logarithm(x, former.work)),
    "log": ((1, 2), Former.log),
    "lg": ((1,), lambda former, x: former.log(x, constant(10))),
    "exp": ((1,), lambda former, x: exponential(x, former.angles, former.work)),
    "sinh": ((1,), lambda former, x: former.hyperbolic("sinh", x)),
    "cosh": ((1,), lambda former, x: former.hyperbolic("cosh", x)),
    "tanh": ((1,), lambda former, x: former.hyperbolic("tanh", x)),
    "arsinh": ((1,), lambda former, x: former.area("arsinh", x)),
    "arcosh": ((1,), lambda former, x: former.area("arcosh", x)),
    "artanh": ((1,), lambda former, x: former.area("artanh", x)),
    "arcsin": ((1,), lambda former, x: inverse("arcsin", x, former.work)),
    "arctan": ((1,), lambda former, x: inverse("arctan", x, former.work)),
    "arccos": ((1,), lambda former, x: _complement(inverse("arcsin", x, former.work))),
    "arccot": ((1,), lambda former, x: _complement(inverse("arctan", x, former.work))),
    "arcsec": ((1,), lambda former, x: _reciprocal(former, "arcsec", x)),
    "arccsc": ((1,), lambda former, x: _reciprocal(former, "arccsc", x)),
    "factorial": ((1,), lambda former, x: factorial(x, former.work)),
    "binom": ((2,), lambda former, n, k: binomial(n, k, former.work)),
}

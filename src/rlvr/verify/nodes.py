"""What an answer is made of once it has been read: one frozen record per kind of thing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Function = str
"""Name of a function as the reader calls it: `sin`, `sqrt`, `plusminus`, `sum`, ..."""


@dataclass(frozen=True, slots=True)
class Number:
    """An exact number, as one numeral was written."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or a constant: a letter, a Greek letter by its name, `pi`, `e`, `i`, `infinity`.

    Primes belong to the name; the index of a variable is its argument in a `Call` of `index`.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Negative:
    """Minus something."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Sum:
    """Two or more terms."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Two or more factors."""

    factors: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    """A fraction of two expressions."""

    top: Node
    bottom: Node


@dataclass(frozen=True, slots=True)
class Power:
    """A base to an exponent."""

    base: Node
    exponent: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function of its arguments; `plusminus` and `minusplus` have one."""

    function: Function
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Percent:
    """A number with a percent sign."""

    value: Node


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with a unit. The unit is in a canonical form, such as `('cm^2',)`."""

    value: Node
    unit: str


@dataclass(frozen=True, slots=True)
class Based:
    """Digits in a base that was written as a subscript."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Items:
    """Several things: `(a, b)` is a tuple, `a, b` a list, `{a, b}` a set, `[a, b]` in brackets.

    Alternatives are a list with an `or` in it, `plusminus` the two values of a double sign.
    """

    kind: Literal["tuple", "list", "alternatives", "plusminus", "set", "brackets"]
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """All real numbers between two ends, each in or out."""

    low: Node
    high: Node
    with_low: bool
    with_high: bool


@dataclass(frozen=True, slots=True)
class Sets:
    """Sets put together."""

    operation: Literal["union", "intersection", "difference"]
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Builder:
    """The set of all `item` for which `condition` holds."""

    item: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of entries; with bars around it the determinant is meant."""

    rows: tuple[tuple[Node, ...], ...]
    determinant: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain such as `a < b <= c`: one sign fewer than items."""

    items: tuple[Node, ...]
    signs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    """`a : b : c`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """Text that is compared letter by letter: small letters, no blanks, no style."""

    text: str


Node = (
    Number
    | Name
    | Negative
    | Sum
    | Product
    | Quotient
    | Power
    | Call
    | Percent
    | Quantity
    | Based
    | Items
    | Interval
    | Sets
    | Builder
    | Matrix
    | Relation
    | Ratio
    | Words
)

"""What parts of an answer stand for: units, numerals, words, names, conditions, double signs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from rlvr.verify.nodes import (
    Based,
    Builder,
    Call,
    Interval,
    Items,
    Matrix,
    Name,
    Negative,
    Node,
    Number,
    Percent,
    Product,
    Quantity,
    Quotient,
    Relation,
    Sets,
    Sum,
    Words,
)
from rlvr.verify.signs import is_run

FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
# What was measured


@dataclass(frozen=True, slots=True)
class Measured:
    """A value apart from its unit and its percent sign."""

    value: Node
    unit: str = ""
    percent: bool = False


def measured(node: Node) -> Measured:
    """An expression with the unit or percent sign of its one part that has one."""
    if isinstance(node, Quantity):
        inner = measured(node.value)
        return Measured(inner.value, node.unit, inner.percent)
    if isinstance(node, Percent):
        return Measured(node.value, percent=True)
    if isinstance(node, Negative):
        inner = measured(node.operand)
        return Measured(Negative(inner.value), inner.unit, inner.percent)
    if isinstance(node, Product):
        parts = [measured(part) for part in node.factors]
        units = [part.unit for part in parts if part.unit]
        if len(units) == 1 and not any(part.percent for part in parts):
            return Measured(Product(tuple(part.value for part in parts)), units[0])
    if isinstance(node, Sum):
        parts = [measured(part) for part in node.terms]
        units = [part.unit for part in parts]
        if units[0] and len(set(units)) == 1 and not any(part.percent for part in parts):
            return Measured(Sum(tuple(part.value for part in parts)), units[0])
    return Measured(node)


def without_unit(node: Node) -> Node:
    """The value alone."""
    return measured(node).value


def plain_number(node: Node) -> Fraction | None:
    """The value of a numeral, with or without a minus."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Negative) and isinstance(node.operand, Number):
        return -node.operand.value
    return None


def is_integer(node: Node) -> bool:
    """Whether a node is a whole number as written."""
    while isinstance(node, Negative) and isinstance(node.operand, Negative | Number):
        node = node.operand
    value = plain_number(node)
    return value is not None and value.denominator == 1


def is_task(node: Node) -> bool:
    """Whether a node is a sum, difference or product of plain whole numbers: still to be done.

    So is a fraction of such things.
    """
    if isinstance(node, Sum):
        return all(is_integer(term) or is_task(term) for term in node.terms)
    if isinstance(node, Product):
        return all(is_integer(factor) or is_task(factor) for factor in node.factors)
    if isinstance(node, Quotient):
        parts = (node.top, node.bottom)
        return any(map(is_task, parts)) and all(is_integer(p) or is_task(p) for p in parts)
    return isinstance(node, Negative) and is_task(node.operand)


def same_digits(reference: Node, answer: Node) -> bool:
    """Numbers in a base: the base may be left out of the answer, never added to it."""
    if not isinstance(reference, Based):
        return False
    if isinstance(answer, Based):
        return reference == answer
    value, digits = plain_number(answer), reference.digits.split(".")
    if value is None or not all(part.isdigit() for part in digits):
        return False
    return value == Fraction(".".join(digits))


def times(others: Sequence[Node], entry: Node) -> Node:
    """An entry times what stands before its matrix; of numerals it is a numeral."""
    values = [plain_number(one) for one in (*others, entry)]
    if any(value is None for value in values):
        return Product((*others, entry))
    return Number(math.prod((value for value in values if value is not None), start=Fraction(1)))


# Words


def same_words(reference: Node, answer: Node) -> bool:
    """Words against words, or a letter in text against a bare letter."""
    ours, theirs = as_words(reference), as_words(answer)
    return ours is not None and ours == theirs


def as_words(node: Node) -> str | None:
    """A node as words, if it can be."""
    if isinstance(node, Words):
        return node.text
    if isinstance(node, Name):
        return node.text.casefold()
    if isinstance(node, Product) and all(isinstance(part, Name) for part in node.factors):
        return "".join(part.text for part in node.factors if isinstance(part, Name)).casefold()
    return None


# Names


def is_name(node: Node) -> bool:
    """Whether a node can stand on the left of `=` as the name of what is asked."""
    if isinstance(node, Name):
        return node.text not in ("e", "i", "pi", "infinity", "emptyset", "reals", "ldots")
    if isinstance(node, Words):
        return True
    if isinstance(node, Call):
        if node.function == "abs" and isinstance(node.arguments[0], Name):
            return False  # `|x| = 5` has two solutions
        if node.function in ("abs", "norm", "overline", "vec", "hat", "bar", "overrightarrow"):
            return is_name(node.arguments[0])
        return node.function == "index" or node.function.startswith("of ")
    if isinstance(node, Product):
        letters = spelled(node)
        if letters.isalpha() and letters.islower():
            return not is_run(letters)  # `area`, but neither `xy` nor `abc`
        return all(
            isinstance(part, Name | Relation | Sets) or is_name(part) for part in node.factors
        )
    if isinstance(node, Items) and node.kind == "tuple":
        return all(map(is_name, node.items))
    return False


def spelled(node: Node) -> str:
    """The letters of a product of letters, as they were written; a blank for anything else."""
    if isinstance(node, Product):
        return "".join(map(spelled, node.factors))
    return node.text if isinstance(node, Name) and len(node.text) == 1 else " "


def free_names(node: Any) -> set[str]:
    """All variables in a node."""
    if isinstance(node, Name):
        return set() if node.text in ("e", "i", "pi", "infinity") else {node.text}
    if isinstance(node, tuple):
        return set().union(*map(free_names, node))
    if hasattr(node, "__dataclass_fields__"):
        return set().union(*(free_names(getattr(node, item.name)) for item in fields(node)))
    return set()


def equation(node: Node) -> Relation | None:
    """The node if it is a chain of equals signs."""
    if isinstance(node, Relation) and set(node.signs) == {"="}:
        return node
    return None


def name_in(relation: Relation) -> Node | None:
    """The name an equation is about."""
    for side in (relation.items[0], relation.items[-1]):
        if is_name(side):
            return side
    return None


def interchangeable(first: Node | None, second: Node | None) -> bool:
    """`y` and `f(x)` name the same thing; so do two functions; a chain of numbers names nothing."""
    if first is None or second is None:
        return True
    if isinstance(first, Call) and isinstance(second, Call):
        marks = [re.sub(r"\Aof .", "", one.function) for one in (first, second)]
        if marks[0] != marks[1]:
            return False  # a function is neither its derivative nor its inverse
    return all(
        side == Name("y") or (isinstance(side, Call) and side.function.startswith("of "))
        for side in (first, second)
    )


def unnamed(node: Node) -> Node:
    """`D = (0, 1)`, `x in [0, 1]`: without the name, where what is named is no number."""
    if isinstance(node, Relation) and len(node.items) == 2:
        left, right = node.items
        if node.signs == ("=",) and is_name(left) and not isinstance(left, Words):
            structured = isinstance(right, Items | Interval | Sets | Builder | Matrix)
            if structured or right in (Name("reals"), Name("emptyset")):
                return right
        if node.signs == ("in",) and is_name(left) and plain_number(right) is None:
            return right
    if isinstance(node, Items) and node.kind in ("list", "alternatives") and len(node.items) == 1:
        return node.items[0]
    return node


def without_names(items: Sequence[Node]) -> Sequence[Node]:
    """`x = 1, x = 2` and `x = 1, 2` as the values of one unknown; other things as they are."""
    names, values = set[str](), list[Node]()
    for item in items:
        relation = equation(item)
        if relation is None or len(relation.items) != 2:
            values.append(item)
            continue
        left, right = relation.items
        if not is_name(left):
            return items
        base = left.arguments[0] if isinstance(left, Call) and left.function == "index" else left
        names.add(repr(base))
        values.append(right)
    if len(names) != 1:
        return items
    first = equation(items[0])
    return values if first is not None else items


def joined_unlike(first: Node, second: Node) -> bool:
    """Whether `or` joins statements on one side alone: not solutions, where it is a comma."""
    lists = [n for n in (first, second) if isinstance(n, Items)]
    if len(lists) < 2 or len({n.kind == "alternatives" for n in lists}) == 1:
        return False
    for one in lists:
        left = {repr(item.items[0]) for item in one.items if isinstance(item, Relation)}
        if len(left) > 1 or all(isinstance(item, Name) for item in one.items):
            return True
    return False


def pointing(relation: Relation) -> Relation | None:
    """A chain of comparisons with its signs pointing to the right."""
    if any(sign not in FLIPPED for sign in relation.signs):
        return relation
    if any(sign in (">", ">=") for sign in relation.signs):
        if any(sign in ("<", "<=") for sign in relation.signs):
            return relation
        signs = tuple(FLIPPED[sign] for sign in reversed(relation.signs))
        return Relation(tuple(reversed(relation.items)), signs)
    return relation


def is_condition(node: Node) -> bool:
    """Whether a node is an inequality, or a list of them."""
    if isinstance(node, Relation):
        return any(sign in FLIPPED and sign != "=" for sign in node.signs)
    if isinstance(node, Items) and node.kind in ("list", "alternatives"):
        first = node.items[0]
        if isinstance(first, Relation) and first.signs == ("!=",):
            return True
        return all(map(is_condition, node.items))
    return False


def is_set(node: Node, *, pairs: bool = False) -> bool:
    """Whether a node is a set of real numbers; with `pairs`, also what may be one."""
    if isinstance(node, Interval | Sets | Builder) or node in (Name("reals"), Name("emptyset")):
        return True
    if is_condition(node):
        return True
    if isinstance(node, Relation) and node.signs in (("in",), ("notin",)):
        return True
    if not pairs or not isinstance(node, Items):
        return False
    return node.kind == "set" or (node.kind in ("tuple", "brackets") and len(node.items) == 2)


# Plus and minus


def signs_chosen(node: Node) -> Node:
    """Something with a double sign as the two values it stands for."""
    if isinstance(node, Relation) and equation(node) is not None and _has_sign(node.items[-1]):
        return signs_chosen(node.items[-1]) if is_name(node.items[0]) else node
    if isinstance(node, Relation | Items | Sets | Builder | Interval) or not _has_sign(node):
        return node
    both = tuple(_chosen(node, plus) for plus in (True, False))
    return Items("plusminus", both)


def _has_sign(node: Any) -> bool:
    if isinstance(node, Call) and node.function in ("plusminus", "minusplus"):
        return True
    if isinstance(node, tuple):
        return any(map(_has_sign, node))
    if hasattr(node, "__dataclass_fields__"):
        return any(_has_sign(getattr(node, item.name)) for item in fields(node))
    return False


def _chosen(node: Any, plus: bool) -> Any:
    if isinstance(node, Call) and node.function in ("plusminus", "minusplus"):
        inside = _chosen(node.arguments[0], plus)
        return inside if plus == (node.function == "plusminus") else Negative(inside)
    if isinstance(node, tuple):
        return tuple(_chosen(part, plus) for part in node)
    if hasattr(node, "__dataclass_fields__"):
        changed = {item.name: _chosen(getattr(node, item.name), plus) for item in fields(node)}
        return replace(node, **changed)
    return node

"""Whether an answer means the same as the reference: by structure first, then by exact values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from rlvr.verify.meaning import (
    equation,
    free_names,
    interchangeable,
    is_condition,
    is_integer,
    is_name,
    is_set,
    is_task,
    joined_unlike,
    measured,
    name_in,
    plain_number,
    pointing,
    same_digits,
    same_words,
    signs_chosen,
    times,
    unnamed,
    without_names,
    without_unit,
)
from rlvr.verify.nodes import (
    Based,
    Builder,
    Interval,
    Items,
    Matrix,
    Name,
    Negative,
    Node,
    Number,
    Product,
    Quotient,
    Ratio,
    Relation,
    Sets,
    Words,
)
from rlvr.verify.numeric import differs
from rlvr.verify.proofs import proven_zero
from rlvr.verify.realsets import Solver, infinite
from rlvr.verify.scalar import Former
from rlvr.verify.terms import Terms, UndefinedError, add, number_of, scale
from rlvr.verify.typography import TooLargeError, UnreadableError
from rlvr.verify.units import agree
from rlvr.verify.vanish import atoms_in, cleared, is_zero

MOST_ITEMS = 60


class UndecidedError(ValueError):
    """No difference was seen and no proof was found; `first` and `second` may yet be compared."""

    def __init__(self, first: Node, second: Node) -> None:
        super().__init__("no difference was seen, and no proof that there is none was found")
        self.first, self.second = first, second


def no_prover(first: Node, second: Node) -> bool | None:
    """Knows nothing beyond what is decided here."""
    return None


Prover = Callable[[Node, Node], "bool | None"]
"""Decides what is left open: True for equal, False for different, None for unknown."""


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares one answer with one reference under one budget."""

    prove: Prover = no_prover
    former: Former = field(default_factory=Former)

    def equal(self, reference: Node, answer: Node) -> bool:
        """Whether the answer is right.

        Raises:
            UndefinedError: Something divides by zero.
            UnreadableError: The two can't be compared.
            TooLargeError: A bound is passed.
            UndecidedError: Neither a proof nor a difference was found.
        """
        reference, answer = unnamed(reference), unnamed(answer)
        self.former.prepare(reference, answer)
        if isinstance(reference, Words) or isinstance(answer, Words):
            return same_words(reference, answer)
        for compare in (
            self.as_sequences,
            self.as_matrices,
            self.as_relations,
            self.as_sets,
            self.as_ratios,
        ):
            found = compare(reference, answer)
            if found is not None:
                return found
        return self.as_scalars(reference, answer)

    # Several things

    def as_sequences(self, reference: Node, answer: Node) -> bool | None:
        """Lists, sets and tuples; None where neither side is one."""
        reference, answer = signs_chosen(reference), signs_chosen(answer)
        ours, theirs = self.members(reference), self.members(answer)
        if is_condition(reference) or is_condition(answer):
            return None
        if any(isinstance(n, Items) and n.kind in _PAIRS for n in (reference, answer)):
            return self.as_tuples(reference, answer)
        if ours is None and theirs is None:
            return None
        if ours is not None and theirs is not None:
            return not joined_unlike(reference, answer) and self.same_members(ours, theirs)
        return False

    def as_tuples(self, reference: Node, answer: Node) -> bool | None:
        """Things in an order; a pair may also be an interval, which is left to sets."""
        if isinstance(reference, Items) and isinstance(answer, Items):
            ordered = (reference.kind, answer.kind) in _ORDERED
            return ordered and self.each(reference.items, answer.items)
        pair = next(n for n in (reference, answer) if isinstance(n, Items))
        other = answer if pair is reference else reference
        if len(pair.items) == 2 and (is_set(other) or isinstance(other, Relation)):
            return None
        return False

    def each(self, first: Sequence[Node], second: Sequence[Node]) -> bool:
        """Whether all pairs are equal, place by place."""
        if len(first) != len(second):
            return False
        return all(self.again(a, b) for a, b in zip(first, second, strict=True))

    def again(self, reference: Node, answer: Node) -> bool:
        """Compare parts under the same budget."""
        return Comparer(self.prove, self.former).equal(reference, answer)

    def members(self, node: Node) -> list[Node] | None:
        """What an unordered collection holds; None where a node is none."""
        if isinstance(node, Sets):
            parts = [self.members(part) for part in node.parts]
            if any(part is None for part in parts) or any(
                isinstance(part, Items) and part.kind != "set" for part in node.parts
            ):
                return None
            first, second = parts[0] or [], parts[1] or []
            if node.operation == "union":
                return self.distinct([*first, *second])
            inside = node.operation == "intersection"
            return [one for one in first if self.holds(second, one) == inside]
        if node == Name("emptyset"):
            return []
        if not isinstance(node, Items) or node.kind in ("tuple", "brackets"):
            return None
        if len(node.items) > MOST_ITEMS:
            raise TooLargeError(f"more than {MOST_ITEMS} things in a list")
        several = list[Node]()
        for item in without_names(node.items):
            item = signs_chosen(item)
            inner = item.items if isinstance(item, Items) and item.kind == "plusminus" else (item,)
            several += inner
        return self.distinct(several) if node.kind in ("set", "plusminus") else several

    def distinct(self, several: Sequence[Node]) -> list[Node]:
        """Members without those that are there already."""
        found = list[Node]()
        for one in several:
            if not self.holds(found, one):
                found.append(one)
        return found

    def holds(self, several: Sequence[Node], one: Node) -> bool:
        """Whether one of several equals another."""
        return any(self.same(other, one) for other in several)

    def same(self, first: Node, second: Node) -> bool:
        """Equal, where things that can't be compared are not."""
        try:
            return self.again(first, second)
        except (UnreadableError, UndecidedError):
            return False

    def same_members(self, ours: Sequence[Node], theirs: Sequence[Node]) -> bool:
        """Whether two collections hold the same, in any order."""
        if len(ours) != len(theirs):
            ours, theirs = self.distinct(ours), self.distinct(theirs)
        if len(ours) != len(theirs):
            return False
        left = list(theirs)
        for one in ours:
            found = next((other for other in left if self.same(one, other)), None)
            if found is None:
                return False
            left.remove(found)
        return True

    # Matrices

    def as_matrices(self, reference: Node, answer: Node) -> bool | None:
        """Entry by entry."""
        ours, theirs = self.matrix(reference), self.matrix(answer)
        if ours is None and theirs is None:
            return None
        if ours is None or theirs is None or len(ours) != len(theirs):
            return False
        return all(self.each(a, b) for a, b in zip(ours, theirs, strict=True))

    def matrix(self, node: Node) -> tuple[tuple[Node, ...], ...] | None:
        """The entries of a matrix, also of a number times a matrix."""
        if isinstance(node, Matrix) and not node.determinant:
            return node.rows
        if isinstance(node, Negative):
            rows = self.matrix(node.operand)
            return rows and tuple(tuple(Negative(e) for e in row) for row in rows)
        if isinstance(node, Quotient):
            rows = self.matrix(node.top)
            return rows and tuple(tuple(Quotient(e, node.bottom) for e in row) for row in rows)
        if isinstance(node, Product):
            found = [self.matrix(part) for part in node.factors]
            if sum(rows is not None for rows in found) != 1:
                return None
            place = next(i for i, rows in enumerate(found) if rows is not None)
            others = node.factors[:place] + node.factors[place + 1 :]
            rows = found[place]
            return rows and tuple(tuple(times(others, e) for e in row) for row in rows)
        return None

    # Equations and inequalities

    def as_relations(self, reference: Node, answer: Node) -> bool | None:
        """Equations as curves, chains link by link; None where sets or numbers decide."""
        ours, theirs = equation(reference), equation(answer)
        if ours is None and theirs is None:
            return self.as_chains(reference, answer)
        if ours is not None and theirs is not None:
            return self.same_equation(ours, theirs)
        one = ours or theirs
        assert one is not None
        value = self.value_of(one)
        if value is None:
            return False
        other = answer if ours is not None else reference
        return self.again(value, other) if ours is not None else self.again(other, value)

    def value_of(self, relation: Relation) -> Node | None:
        """What an equation says its name is, or what a true chain of numbers comes to."""
        first, *rest = relation.items
        if not is_name(first) and len(rest) == 1 and is_name(rest[0]):
            first, rest = rest[0], [first]
        if not is_name(first):
            if len(rest) == 1 or not free_names(first):
                rest = [first, *rest]
            if len(rest) == 2 and any(map(free_names, rest)):
                return None
        for left, right in pairwise(rest):
            if left == right or not self.again(left, right):
                return None
        return rest[-1] if rest[-1] != first else None  # a tautology

    def same_equation(self, ours: Relation, theirs: Relation) -> bool:
        """Two equations: the same right sides of one name, or multiples of each other."""
        first, second = self.value_of(ours), self.value_of(theirs)
        if first is not None and second is not None:
            left, right = name_in(ours), name_in(theirs)
            if left == right or interchangeable(left, right):
                return self.again(first, second)
        if len(ours.items) != 2 or len(theirs.items) != 2:
            return False
        one, other = (self.curve(relation) for relation in (ours, theirs))
        if not one or not other:
            return False  # a tautology says nothing
        return self.proportional(one, other)

    def curve(self, relation: Relation) -> Terms:
        """Left side minus right side, without denominators."""
        left, right = map(self.former.form, map(without_unit, relation.items))
        return cleared(add(left, right, -1), self.former.work)

    def proportional(self, first: Terms, second: Terms) -> bool:
        """Whether one is a number times the other, and both say something of a variable."""
        if set(first) != set(second) or not any(a[0] == "name" for a in atoms_in(first)):
            return False
        monomial = next(iter(first))
        factor = second[monomial] / first[monomial]
        return not add(scale(first, factor), second, -1)

    def as_chains(self, reference: Node, answer: Node) -> bool | None:
        """Chains of comparisons between things that are not one unknown and numbers."""
        if not isinstance(reference, Relation) or not isinstance(answer, Relation):
            return None
        ours, theirs = pointing(reference), pointing(answer)
        if ours is None or theirs is None or ours.signs != theirs.signs:
            return None
        try:
            return True if self.each(ours.items, theirs.items) else None
        except (UnreadableError, UndefinedError):
            return None

    # Sets of numbers

    def as_sets(self, reference: Node, answer: Node) -> bool | None:
        """Intervals, unions and inequalities in one unknown."""
        if not (is_set(reference) or is_set(answer)):
            return None
        if isinstance(reference, Builder) and isinstance(answer, Builder):
            try:
                if self.each(
                    (reference.item, reference.condition), (answer.item, answer.condition)
                ):
                    return True
            except UnreadableError:
                pass
        if isinstance(reference, Interval) and isinstance(answer, Interval):
            if (reference.with_low, reference.with_high) != (answer.with_low, answer.with_high):
                return False
            return self.each((reference.low, reference.high), (answer.low, answer.high))
        solver = Solver(self.former)
        if not (is_set(reference, pairs=True) and is_set(answer, pairs=True)):
            return False
        ours, theirs = solver.set_of(reference), solver.set_of(answer)
        if ours.variable and theirs.variable and ours.variable != theirs.variable:
            return False
        return solver.same(ours, theirs)

    def as_ratios(self, reference: Node, answer: Node) -> bool | None:
        """Ratios, part by part."""
        if isinstance(reference, Ratio) and isinstance(answer, Ratio):
            return self.each(reference.items, answer.items)
        return False if isinstance(reference, Ratio) or isinstance(answer, Ratio) else None

    # Numbers and expressions

    def as_scalars(self, reference: Node, answer: Node) -> bool:
        """One number or expression against another."""
        ours, theirs = measured(reference), measured(answer)
        if ours.unit and theirs.unit and not agree(ours.unit, theirs.unit):
            return False
        if isinstance(ours.value, Based) or isinstance(theirs.value, Based):
            return same_digits(ours.value, theirs.value)
        if infinite(ours.value) or infinite(theirs.value):
            return infinite(ours.value) == infinite(theirs.value) != 0
        if is_integer(ours.value) and is_task(theirs.value):
            return False
        if ours.percent and not theirs.percent:
            return self.same_number(ours.value, theirs.value) or self.same_number(
                Quotient(ours.value, _HUNDRED), theirs.value
            )
        if theirs.percent and not ours.percent:
            return self.same_number(ours.value, Quotient(theirs.value, _HUNDRED))
        return self.same_number(ours.value, theirs.value)

    def same_number(self, reference: Node, answer: Node) -> bool:
        """Exactly equal: by normal forms, by a proven bound, or by what the prover says."""
        plain, given = plain_number(reference), plain_number(answer)
        if plain is not None and given is not None:
            return plain == given
        first, second = self.former.form(reference), self.former.form(answer)
        if first == second:
            return True
        one, other = number_of(first), number_of(second)
        if one is not None and other is not None:
            return one == other
        difference = add(first, second, -1)
        if is_zero(difference, self.former.work):
            return True
        seen = differs(first, second)
        if seen:
            return False
        if seen is False:
            if proven_zero(difference, self.former.work):
                return True
        elif _only_names(first) or _only_names(second):
            return False
        proven = self.prove(reference, answer)
        if proven is None and seen is None:
            raise TooLargeError("no value that could be computed")
        if proven is None:
            raise UndecidedError(reference, answer)
        return proven


_HUNDRED = Number(Fraction(100))
_PAIRS = ("tuple", "brackets")
_ORDERED = frozenset(
    (("tuple", "tuple"), ("brackets", "brackets"), ("brackets", "list"), ("list", "brackets"))
)


def _only_names(terms: Terms) -> bool:
    return all(a[0] in ("name", "prime", "pi", "e", "i") for a in atoms_in(terms))

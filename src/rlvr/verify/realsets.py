"""Sets of real numbers: intervals, unions, inequalities and conditions in one canonical form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from rlvr.verify.meaning import FLIPPED
from rlvr.verify.nodes import (
    Builder,
    Call,
    Interval,
    Items,
    Name,
    Negative,
    Node,
    Relation,
    Sets,
)
from rlvr.verify.numeric import sign_of
from rlvr.verify.scalar import Former
from rlvr.verify.terms import Terms, add, multiply, number_of, power, scale
from rlvr.verify.typography import UnreadableError
from rlvr.verify.vanish import atoms_in, is_zero

MOST_PIECES = 30

OPPOSITE = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "!=": "="}


@dataclass(frozen=True, slots=True)
class End:
    """One end of a piece: a value, or infinity where `value` is None."""

    value: Terms | None
    closed: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """All numbers between two ends; a single number where both are closed and equal."""

    low: End
    high: End


@dataclass(frozen=True, slots=True)
class RealSet:
    """Pieces from left to right that do not touch, and the variable they speak of, if any."""

    pieces: tuple[Piece, ...]
    variable: str | None = None


WHOLE_LINE = Piece(End(None, False), End(None, False))


class Solver:
    """Turns what was read into sets; what it can't order or solve is an UnreadableError."""

    def __init__(self, former: Former) -> None:
        self.former = former

    def compare(self, first: Terms, second: Terms) -> int:
        """The order of two numbers: -1, 0 or 1."""
        difference = add(first, second, -1)
        if is_zero(difference, self.former.work):
            return 0
        sign = sign_of(difference)
        if not sign:
            raise UnreadableError("ends that can't be ordered")
        return sign

    def set_of(self, node: Node) -> RealSet:
        """The set a node stands for."""
        if isinstance(node, Interval):
            low, high = self.end(node.low, node.with_low), self.end(node.high, node.with_high)
            return RealSet(self.piece(low, high))
        if isinstance(node, Items):
            return self.items(node)
        if isinstance(node, Sets):
            return self.combined(node)
        if isinstance(node, Relation):
            return self.relation(node)
        if isinstance(node, Builder):
            if isinstance(node.item, Name | Call):
                return RealSet(self.set_of(node.condition).pieces)
            raise UnreadableError("a set of expressions")
        if node == Name("reals"):
            return RealSet((WHOLE_LINE,))
        if node == Name("emptyset"):
            return RealSet(())
        raise UnreadableError("no set of real numbers")

    def items(self, node: Items) -> RealSet:
        """A pair in brackets as an interval, a finite set, or several conditions."""
        if node.kind in ("tuple", "brackets"):
            if len(node.items) != 2:
                raise UnreadableError("an interval has two ends")
            closed = node.kind == "brackets"
            low, high = (self.end(item, closed) for item in node.items)
            pieces = self.piece(low, high)
            if not pieces or (closed and not (low.closed and high.closed)):
                raise UnreadableError("a pair that is no interval")
            return RealSet(pieces)
        if node.kind == "set":
            points = [End(self.former.form(item), True) for item in node.items]
            return RealSet(self.union([Piece(point, point) for point in points]))
        if isinstance(node.items[0], Relation) and node.items[0].signs == ("!=",):
            return self.excluded(node)
        parts = [self.set_of(item) for item in node.items]
        names = {part.variable for part in parts} - {None}
        if len(names) > 1:
            raise UnreadableError("conditions on several variables")
        variable = names.pop() if names else None
        if node.kind == "alternatives":
            return RealSet(self.union([p for part in parts for p in part.pieces]), variable)
        pieces = parts[0].pieces
        for part in parts[1:]:
            pieces = self.intersection(pieces, part.pieces)
        return RealSet(pieces, variable)

    def excluded(self, node: Items) -> RealSet:
        """`x != 1, 2`: the line without some points."""
        first, *rest = node.items
        result = self.set_of(first)
        for item in rest:
            if isinstance(item, Relation):
                other = self.set_of(item)
            else:
                point = End(self.former.form(item), True)
                other = RealSet(self.complement((Piece(point, point),)))
            result = RealSet(self.intersection(result.pieces, other.pieces), result.variable)
        return result

    def combined(self, node: Sets) -> RealSet:
        """A union, an intersection or a difference."""
        first, second = (self.set_of(part).pieces for part in node.parts)
        if node.operation == "union":
            return RealSet(self.union([*first, *second]))
        if node.operation == "difference":
            second = self.complement(second)
        return RealSet(self.intersection(first, second))

    def end(self, node: Node, closed: bool) -> End:
        """An end of an interval."""
        if infinite(node):
            return End(None, False)
        return End(self.former.form(node), closed)

    def piece(self, low: End, high: End) -> tuple[Piece, ...]:
        """A piece, or nothing where the ends cross."""
        if low.value is not None and high.value is not None:
            free = any(a[0] == "name" for a in atoms_in([*low.value, *high.value]))
            order = -1 if free else self.compare(low.value, high.value)
            if order > 0 or (order == 0 and not (low.closed and high.closed)):
                return ()
        return (Piece(low, high),)

    # Inequalities

    def relation(self, node: Relation) -> RealSet:
        """A chain of inequalities in one unknown, or a membership."""
        if node.signs == ("in",):
            inside = self.set_of(node.items[1])
            return RealSet(inside.pieces, label(node.items[0]))
        if node.signs == ("notin",):
            inside = self.set_of(node.items[1])
            return RealSet(self.complement(inside.pieces), label(node.items[0]))
        if any(sign not in FLIPPED for sign in node.signs) or "=" in node.signs:
            raise UnreadableError("no inequality")
        pieces: tuple[Piece, ...] = (WHOLE_LINE,)
        variables = set[str]()
        for left, sign, right in zip(node.items, node.signs, node.items[1:], strict=False):
            variable, found = self.inequality(left, sign, right)
            variables.add(variable)
            pieces = self.intersection(pieces, found)
        if len(variables) != 1:
            raise UnreadableError("an inequality in several unknowns")
        return RealSet(pieces, variables.pop())

    def inequality(self, left: Node, sign: str, right: Node) -> tuple[str, tuple[Piece, ...]]:
        """The unknown of `left sign right` and where it holds."""
        if infinite(left) or infinite(right):
            unknown, end, sign = (
                (right, left, FLIPPED[sign]) if infinite(left) else (left, right, sign)
            )
            holds = sign in (("<", "<=", "!=") if infinite(end) == 1 else (">", ">=", "!="))
            return self.unknown(unknown), (WHOLE_LINE,) if holds else ()
        for one, other, way in ((left, right, sign), (right, left, FLIPPED[sign])):
            if isinstance(one, Call) and one.function == "abs":
                bound = self.former.form(other)
                inside = self.former.form(one.arguments[0])
                if not _names(bound) and len(_names(inside)) == 1:
                    return self.bounded(inside, way, bound)
        difference = add(self.former.form(left), self.former.form(right), -1)
        names = _names(difference)
        if len(names) == 1:
            (name,) = names
            return name, self.solved(difference, name, sign)
        first, second = self.former.form(left), self.former.form(right)
        if not _names(second):
            return label(left), self.beyond(second, sign)
        if not _names(first):
            return label(right), self.beyond(first, FLIPPED[sign])
        raise UnreadableError("an inequality in several unknowns")

    def unknown(self, node: Node) -> str:
        """The name of an unknown that stands alone."""
        names = _names(self.former.form(node))
        return names.pop() if len(names) == 1 else label(node)

    def bounded(self, inside: Terms, sign: str, bound: Terms) -> tuple[str, tuple[Piece, ...]]:
        """`|inside| sign bound`."""
        (name,) = _names(inside)
        low = self.solved(add(inside, bound), name, FLIPPED[sign])
        high = self.solved(add(inside, bound, -1), name, sign)
        if sign in ("<", "<="):
            return name, self.intersection(low, high)
        if sign in (">", ">="):
            return name, self.union([*low, *high])
        low = self.solved(add(inside, bound), name, sign)
        both = self.union([*low, *high]) if sign == "=" else self.intersection(low, high)
        return name, both

    def solved(self, difference: Terms, name: str, sign: str) -> tuple[Piece, ...]:
        """Where a linear or quadratic expression in one name has a sign against zero."""
        coefficients = self.coefficients(difference, name)
        c, b, a = coefficients
        if not a:
            slope = sign_of(b)
            if not slope:
                raise UnreadableError("an inequality that can't be solved")
            border = multiply(scale(c, -1), power(b, Fraction(-1), self.former.work),
                              self.former.work)  # fmt: skip
            return self.beyond(border, sign if slope > 0 else FLIPPED[sign])
        first, second, third = number_of(a), number_of(b), number_of(c)
        if first is None or second is None or third is None:
            raise UnreadableError("an inequality that can't be solved")
        if first < 0:
            first, second, third, sign = -first, -second, -third, FLIPPED[sign]
        return self.between_roots(first, second, third, sign)

    def between_roots(self, a: Fraction, b: Fraction, c: Fraction, sign: str) -> tuple[Piece, ...]:
        """Where `a x^2 + b x + c`, with `a` above 0, has a sign."""
        discriminant = b * b - 4 * a * c
        if discriminant < 0:
            return (WHOLE_LINE,) if sign in (">", ">=", "!=") else ()
        root = power({frozenset(): discriminant}, Fraction(1, 2), self.former.work)
        middle: Terms = {frozenset(): -b / (2 * a)} if b else {}
        low = add(middle, scale(root, 1 / (2 * a)), -1)
        high = add(middle, scale(root, 1 / (2 * a)))
        closed = sign in (">=", "<=")
        if sign in ("<", "<="):
            return self.piece(End(low, closed), End(high, closed))
        if sign in (">", ">="):
            left = Piece(End(None, False), End(low, closed))
            return self.union([left, Piece(End(high, closed), End(None, False))])
        points = self.union([Piece(End(p, True), End(p, True)) for p in (low, high)])
        return points if sign == "=" else self.complement(points)

    def coefficients(self, terms: Terms, name: str) -> list[Terms]:
        """Of the powers 0, 1 and 2 of a name."""
        parts = [Terms(), Terms(), Terms()]
        for monomial, coefficient in terms.items():
            exponents = dict(monomial)
            exponent = exponents.pop(("name", name), Fraction(0))
            rest = frozenset(exponents.items())
            if exponent not in (0, 1, 2) or any(a == ("name", name) for a in atoms_in([rest])):
                raise UnreadableError("an inequality that can't be solved")
            parts[int(exponent)][rest] = coefficient
        return parts

    def beyond(self, border: Terms, sign: str) -> tuple[Piece, ...]:
        """`x sign border`."""
        if sign in ("<", "<="):
            return (Piece(End(None, False), End(border, sign == "<=")),)
        if sign in (">", ">="):
            return (Piece(End(border, sign == ">="), End(None, False)),)
        point = (Piece(End(border, True), End(border, True)),)
        return point if sign == "=" else self.complement(point)

    # Putting pieces together

    def union(self, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        """Pieces in order, those that touch joined."""
        if len(pieces) > MOST_PIECES:
            raise UnreadableError(f"more than {MOST_PIECES} pieces")
        ordered = list[Piece]()
        for piece in pieces:
            place = 0
            while place < len(ordered) and self.starts_before(ordered[place], piece):
                place += 1
            ordered.insert(place, piece)
        joined = list[Piece]()
        for piece in ordered:
            if joined and self.touches(joined[-1], piece):
                joined[-1] = Piece(joined[-1].low, self.farther(joined[-1].high, piece.high))
            else:
                joined.append(piece)
        return tuple(joined)

    def starts_before(self, first: Piece, second: Piece) -> bool:
        """Whether a piece starts left of another."""
        if first.low.value is None:
            return True
        if second.low.value is None:
            return False
        order = self.compare(first.low.value, second.low.value)
        return order < 0 or (order == 0 and first.low.closed)

    def touches(self, first: Piece, second: Piece) -> bool:
        """Whether no gap is left between two pieces in order."""
        if first.high.value is None or second.low.value is None:
            return True
        order = self.compare(first.high.value, second.low.value)
        return order > 0 or (order == 0 and (first.high.closed or second.low.closed))

    def farther(self, first: End, second: End) -> End:
        """The right one of two right ends."""
        if first.value is None or second.value is None:
            return End(None, False)
        order = self.compare(first.value, second.value)
        if order == 0:
            return End(first.value, first.closed or second.closed)
        return first if order > 0 else second

    def complement(self, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        """The line without some pieces."""
        result, low = list[Piece](), End(None, False)
        for piece in self.union(pieces):
            if piece.low.value is not None:
                result.append(Piece(low, End(piece.low.value, not piece.low.closed)))
            if piece.high.value is None:
                return tuple(result)
            low = End(piece.high.value, not piece.high.closed)
        return (*result, Piece(low, End(None, False)))

    def intersection(self, first: Sequence[Piece], second: Sequence[Piece]) -> tuple[Piece, ...]:
        """What is in both, as what is in neither complement."""
        if tuple(first) == (WHOLE_LINE,):
            return tuple(second)
        if tuple(second) == (WHOLE_LINE,):
            return tuple(first)
        outside = self.union([*self.complement(first), *self.complement(second)])
        return self.complement(outside)

    def same(self, first: RealSet, second: RealSet) -> bool:
        """Whether two sets are equal."""
        if len(first.pieces) != len(second.pieces):
            return False
        return all(
            self.same_end(a.low, b.low) and self.same_end(a.high, b.high)
            for a, b in zip(first.pieces, second.pieces, strict=True)
        )

    def same_end(self, first: End, second: End) -> bool:
        """Whether two ends are equal."""
        if first.value is None or second.value is None:
            return first.value is None and second.value is None
        if first.closed != second.closed:
            return False
        return is_zero(add(first.value, second.value, -1), self.former.work)


def infinite(node: Node) -> int:
    """1 or -1 for infinity and minus infinity, else 0."""
    if node == Name("infinity"):
        return 1
    return -1 if node == Negative(Name("infinity")) else 0


def label(node: Node) -> str:
    """A text by which an unknown that is no plain name is known again."""
    return node.text if isinstance(node, Name) else repr(node)


def _names(terms: Terms) -> set[str]:
    return {a[1] for a in atoms_in(terms) if a[0] == "name"}

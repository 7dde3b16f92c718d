r"""From tokens to what an answer says: a bounded reader that takes the whole answer or none of it.

It knows the LaTeX and plain text that answers use. What is left over is an error, never noise.
"""

from __future__ import annotations

from rlvr.verify.expressions import SEPARATORS, Expressions
from rlvr.verify.nodes import (
    Builder,
    Call,
    Interval,
    Items,
    Name,
    Node,
    Product,
    Ratio,
    Relation,
    Sets,
    Words,
)
from rlvr.verify.signs import is_run, word_set
from rlvr.verify.typography import Token, TooLargeError, UnreadableError, tokens

MOST_TOKENS = 1_500
MOST_DIGITS = 2_000
RELATIONS = {
    "=": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=", "in": "in",
    "notin": "notin", "approx": "approx", "equiv": "equiv", "subset": "subset",
    "subseteq": "subseteq", "to": "to", "implies": "implies", "iff": "iff", "sim": "sim",
    "cong": "cong", "parallel": "parallel", "mid": "mid", "propto": "propto",
}  # fmt: skip
SETS = {"cup": "union", "cap": "intersection", "setminus": "difference"}
_SHORT_WORDS = word_set(
    "no on up do go so us we he me my is it in as at an am be by if of ok or to"
)


def read(text: str) -> Node:
    r"""What the text of an answer says.

    >>> read(r"-1\frac34")
    Negative(operand=Number(value=Fraction(7, 4)))

    Raises:
        UnreadableError: Some of it is not known, or is left over.
        TooLargeError: A bound on length, digits or depth is passed.
    """
    return read_tokens(tokens(text))


def read_tokens(several: list[Token]) -> Node:
    """What the tokens of an answer say; raises as `read` does."""
    if not several:
        raise UnreadableError("nothing is there")
    if len(several) > MOST_TOKENS:
        raise TooLargeError(f"more than {MOST_TOKENS} pieces")
    if sum(len(token.text) for token in several if token.kind == "number") > MOST_DIGITS:
        raise TooLargeError(f"more than {MOST_DIGITS} digits")
    pieces = list(several)
    if [token.kind for token in pieces[-2:]] == ["number", "macro"] and pieces[-1].text == "min":
        pieces[-1] = Token("word", "min")  # minutes: a function would have something behind it
    if len(pieces) == 2 and pieces[0].text in ("USD", "EUR", "GBP") and pieces[1].kind == "number":
        pieces.reverse()
    reader = Reader(pieces)
    found = reader.answer()
    if reader.place < len(reader.tokens):
        raise UnreadableError(f"{reader.rest()!r} is left over")
    return found


class Reader(Expressions):
    """Reads whole answers; each method takes what it names and returns it."""

    def answer(self) -> Node:
        """A whole answer: one thing, or several between commas and words such as `and`."""
        if len(self.tokens) == 1 and self.peek().kind == "word":
            return self.lone_word(self.take().text)
        self.alternatives = False
        items = self.several()
        if len(items) == 1:
            return items[0]
        return Items("alternatives" if self.alternatives else "list", tuple(items))

    def lone_word(self, text: str) -> Node:
        """An answer of letters alone: a product of variables, or a word."""
        if is_run(text.casefold()) and text.casefold() not in _SHORT_WORDS:
            return Product(tuple(map(Name, text)))
        return Words(text.casefold())

    def several(self) -> list[Node]:
        """Things between separators."""
        items = [self.relation()]
        while self.separator():
            items.append(self.relation())
        return items

    def separator(self) -> bool:
        """Take a comma, a semicolon, `and`, `or`, or a comma followed by one of these words."""
        found = self.skip(",", ";")
        token = self.peek()
        word = token.text.casefold()
        if token.kind not in ("text", "word", "macro") or word not in SEPARATORS:
            return found
        self.place += 1
        self.alternatives |= word in ("or", "lor")
        self.skip(",")
        return True

    def relation(self) -> Node:
        """Things joined by relation signs, or one thing, or a ratio."""
        items, signs = [self.sets()], list[str]()
        if self.sees(":") and not self.bars:
            return self.ratio(items[0])
        while self.peek().kind in ("sign", "macro") and self.peek().text in RELATIONS:
            signs.append(RELATIONS[self.take().text])
            items.append(self.sets())
        if not signs:
            return items[0]
        last = items[-1]
        if "equiv" in signs and isinstance(last, Call) and last.function == "mod":
            items[-1] = Call("congruent", last.arguments)
        return Relation(tuple(items), tuple(signs))

    def ratio(self, first: Node) -> Node:
        """`a : b : c`; a time such as `12:05` is text."""
        items, time = [first], False
        while self.skip(":"):
            time |= self.peek().kind == "number" and self.peek().text[0] == "0"
            items.append(self.sum())
        if time:
            raise UnreadableError("a time of day is text")
        return Ratio(tuple(items))

    def sets(self) -> Node:
        """Sets joined by signs of union, intersection and difference, or one thing."""
        found = self.sum()
        while self.peek().kind == "macro" and self.peek().text in SETS:
            operation = SETS[self.take().text]
            found = Sets(operation, (found, self.sum()))  # type: ignore[arg-type]
        return found

    def group(self, opening: str, *closing: str) -> Node:
        """Brackets: one thing in them is that thing, several a tuple, mixed ends an interval."""
        if opening == "{":
            return self.braces("{", "}")
        self.deeper()
        bars, self.bars = self.bars, 0
        self.expect(opening)
        items = self.several()
        closed = self.expect(*closing)
        self.bars = bars
        self.depth -= 1
        if opening + closed in ("(]", "[)"):
            if len(items) != 2:
                raise UnreadableError(f"an interval with {len(items)} ends")
            return Interval(items[0], items[1], opening == "[", closed == "]")
        if len(items) == 1:
            return items[0]
        return Items("brackets" if opening == "[" else "tuple", tuple(items))

    def braces(self, opening: str, closing: str) -> Node:
        """Braces: TeX's own group one thing; with a list in them, or escaped, they make a set."""
        self.deeper()
        bars, self.bars = self.bars, 0
        self.expect(opening)
        if self.skip(closing):
            self.depth -= 1
            self.bars = bars
            if opening == "{":
                raise UnreadableError("an empty group")
            return Items("set", ())
        self.bars = 1  # so that a bar closes the item of a set-builder
        first = self.relation_in_braces()
        if self.skip("|", "mid", ":"):
            self.bars = 0
            found: Node = self.builder(first)
        else:
            items = [first]
            while self.separator():
                items.append(self.relation())
            several = opening == "\\{" or len(items) > 1
            found = Items("set", tuple(items)) if several else first
        self.expect(closing)
        self.bars = bars
        self.depth -= 1
        return found

    def relation_in_braces(self) -> Node:
        """The first thing in braces: an absolute value may open here, a lone bar may not."""
        if self.sees("|", "\\|"):
            self.bars = 0
            return self.relation()
        items, signs = [self.sets()], list[str]()
        while (
            self.peek().kind in ("sign", "macro")
            and self.peek().text in RELATIONS
            and not self.sees("mid")
        ):
            signs.append(RELATIONS[self.take().text])
            items.append(self.sets())
        return Relation(tuple(items), tuple(signs)) if signs else items[0]

    def builder(self, item: Node) -> Node:
        """The condition of a set-builder; several are joined by commas."""
        conditions = self.several()
        if isinstance(item, Relation) and item.signs == ("in",):
            item = item.items[0]
        condition = conditions[0] if len(conditions) == 1 else Items("list", tuple(conditions))
        return Builder(item, condition)

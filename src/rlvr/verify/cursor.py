r"""Reading tokens from left to right, and the numerals among them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rlvr.verify.nodes import Based, Node, Number
from rlvr.verify.typography import Token, TooLargeError, UnreadableError

DEEPEST = 40  # brackets within brackets
END = Token("end", "")


class Cursor:
    """A place in a list of tokens."""

    def __init__(self, several: list[Token]) -> None:
        self.tokens = list(_that_mean_something(several))
        self.place = 0
        self.depth = 0
        self.alternatives = False  # whether an `or` stood between things
        self.bars = 0  # open bars of absolute values, which the next bar closes

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes, without taking it."""
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def take(self) -> Token:
        """The token that comes."""
        token = self.peek()
        self.place += 1
        return token

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these signs or macros."""
        token = self.peek()
        return token.kind in ("sign", "macro") and token.text in texts

    def skip(self, *texts: str) -> bool:
        """Take the next token if it is one of these."""
        found = self.sees(*texts)
        self.place += found
        return found

    def expect(self, *texts: str) -> str:
        """Take one of these, which must come."""
        if not self.sees(*texts):
            raise UnreadableError(f"{self.rest()!r} stands where {texts[0]!r} should")
        return self.take().text

    def rest(self) -> str:
        """What has not been taken, for a message."""
        shown = "".join(
            (" " if token.blank else "") + token.text for token in self.tokens[self.place :][:8]
        )
        return shown.strip() or "the end"

    def deeper(self) -> None:
        """Count a bracket that opens."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise TooLargeError(f"brackets deeper than {DEEPEST}")

    # Read by the heirs, which know more than numbers

    def argument(self, *, whole: bool = False) -> Node:
        """What a macro takes."""
        raise NotImplementedError

    def several(self) -> list[Node]:
        """Things between separators."""
        raise NotImplementedError

    def relation(self) -> Node:
        """Things joined by relation signs."""
        raise NotImplementedError

    def sum(self) -> Node:
        """Terms between plus and minus signs."""
        raise NotImplementedError

    def term(self) -> Node:
        """Factors: joined by signs, or side by side."""
        raise NotImplementedError

    def factor(self) -> Node:
        """A power with what stands behind it."""
        raise NotImplementedError

    def powers(self, found: Node) -> Node:
        """What stands behind a factor."""
        raise NotImplementedError

    def exponent(self) -> Node:
        """What stands raised."""
        raise NotImplementedError

    def group(self, opening: str, *closing: str) -> Node:
        """What stands in brackets."""
        raise NotImplementedError

    def braces(self, opening: str, closing: str) -> Node:
        """What stands in braces."""
        raise NotImplementedError

    def starts_factor(self) -> bool:
        """Whether the next token can be a factor of the product before it."""
        raise NotImplementedError

    def letter(self, text: str) -> Node:
        """A variable."""
        raise NotImplementedError


_BEFORE_NOTHING = frozenset(("", "(", "+", "-", "*", "=", ")"))


def _that_mean_something(several: list[Token]) -> Iterator[Token]:
    """Tokens without empty groups that nothing takes as its argument."""
    last, place = Token("sign", ""), 0
    while place < len(several):
        token = several[place]
        after = several[place + 1] if place + 1 < len(several) else END
        beside = last.kind in ("number", "letter") or last.text in _BEFORE_NOTHING
        if (token.kind, token.text, after.text) == ("sign", "{", "}") and beside:
            place += 2
            continue
        yield token
        last, place = token, place + 1


class Numerals(Cursor):
    """Reads numbers as they are written."""

    def number(self, token: Token) -> Node:
        """A numeral: with a repeating part, as a mixed number, in scientific notation."""
        text = token.text
        after = self.peek()
        if "." in text and (after.text in ("overline", "bar") or after.text == "("):
            repeating = self.repeating(text)
            if repeating is not None:
                return repeating
        value = number(text)
        if after.kind == "letter" and after.text in "eE" and not after.blank:
            scientific = self.scientific(value)
            if scientific is not None:
                return scientific
        if text.isdigit():
            mixed = self.mixed(value)
            if mixed is not None:
                return mixed
        return value

    def repeating(self, text: str) -> Node | None:
        """`0.1\\overline{6}` or `0.1(6)` as a fraction."""
        start = self.place
        opening = self.take().text
        if opening != "(":
            self.expect("{")
        digits = self.take()
        closed = self.skip(")" if opening == "(" else "}")
        if digits.kind != "number" or not digits.text.isdigit() or not closed:
            self.place = start
            if opening == "(":
                return None
            raise UnreadableError("a bar over something else than digits")
        whole, _, fixed = text.partition(".")
        if len(whole) + len(fixed) + len(digits.text) > 200:
            raise TooLargeError("more than 200 digits of a repeating decimal")
        scale = 10 ** len(fixed)
        repeated = Fraction(int(digits.text), (10 ** len(digits.text) - 1) * scale)
        return Number(Fraction(int((whole + fixed) or "0"), scale) + repeated)

    def scientific(self, value: Number) -> Node | None:
        """`1.2e5` as plain text writes it; `5e` and `2e^x` are products."""
        ahead = 2 if self.peek(1).text in ("-", "+") else 1
        digits = self.peek(ahead)
        if digits.kind != "number" or not digits.text.isdigit() or digits.blank:
            return None
        if len(digits.text) > 4:
            raise TooLargeError("an exponent of more than 4 digits")
        sign = -1 if self.peek(1).text == "-" else 1
        self.place += ahead + 1
        return Number(value.value * Fraction(10) ** (sign * int(digits.text)))

    def mixed(self, whole: Number) -> Node | None:
        """A whole number followed by a fraction of two plain numbers."""
        following = self.peek()
        if following.kind == "macro" and following.text == "frac":
            start, kept = self.place, list(self.tokens)
            self.take()
            top, bottom = self.argument(), self.argument()
            if isinstance(top, Number) and isinstance(bottom, Number) and bottom.value > 0:
                return Number(whole.value + top.value / bottom.value)
            self.place, self.tokens = start, kept
            return None
        old = [self.peek(place) for place in range(5)]
        if [t.text for t in old[::2]] == ["{", "over", "}"] and not old[0].blank:
            top_text, bottom_text = old[1].text, old[3].text
            if top_text.isdigit() and bottom_text.isdigit() and int(bottom_text):
                self.place += 5
                return Number(whole.value + Fraction(int(top_text), int(bottom_text)))
        slash, bottom_token = self.peek(1), self.peek(2)
        plain = following.kind == "number" and following.blank and following.text.isdigit()
        if plain and slash.text == "/" and bottom_token.kind == "number":
            below = number(bottom_token.text)
            if bottom_token.text.isdigit() and below.value > 0:
                self.place += 3
                return Number(whole.value + number(following.text).value / below.value)
        return None

    def based(self) -> Node | None:
        """Digits with a base as a subscript: `52_8`, `1A3_{16}`, `(52)_8`."""
        start, digits = self.place, ""
        bracketed = self.sees("(") and self.peek(1).kind == "number" and self.peek(2).text == ")"
        self.place += bracketed
        while self.peek().kind in ("number", "letter", "word", "text"):
            if digits and self.peek().blank:
                break
            digits += self.take().text
        self.place += bracketed
        if digits and self.skip("_"):
            base = self.base()
            plain = digits.replace(".", "", 1)
            known = plain.isalnum() and plain.isascii() and plain.upper() == plain
            looks = any(c.isdigit() for c in digits) or (base >= 11 and len(digits) > 1)
            if known and looks and 2 <= base <= 36:
                if all(int(c, 36) < base for c in plain):
                    return Based(digits.lstrip("0") or "0", base)
                if digits.isdigit():
                    raise UnreadableError(f"{digits} has a digit that base {base} lacks")
        self.place = start
        return None

    def base(self) -> int:
        """A base behind the sign of a subscript, 0 where something else stands there."""
        braced = self.skip("{")
        token = self.take()
        closed = not braced or self.skip("}")
        digits = token.text.removesuffix(".")
        known = token.kind == "number" and digits.isdigit() and len(digits) < 3
        return int(digits) if known and closed else 0


def number(text: str) -> Number:
    """A numeral's value."""
    text = text.rstrip(".")
    if text.isdigit():
        return Number(Fraction(int(text)))
    return Number(Fraction(text))

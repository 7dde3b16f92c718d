r"""Reads expressions: sums, products, powers, names, brackets and units."""

from __future__ import annotations

from rlvr.verify.cursor import END, number
from rlvr.verify.macros import CURRENCIES, FACTOR_MACROS, Macros
from rlvr.verify.nodes import (
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
    Sum,
    Words,
)
from rlvr.verify.signs import NAMED
from rlvr.verify.typography import Token, UnreadableError
from rlvr.verify.units import BARE, POWERS_OF_TEN, is_bare, multiplied, unit_of

SEPARATORS = frozenset(("and", "or", "lor", "land"))
FUNCTION_LETTERS = frozenset("fgh")


class Expressions(Macros):
    """Reads what stands for one thing."""

    def sum(self) -> Node:
        """Terms between plus and minus signs, with the unit that may follow."""
        terms = [self.signed()]
        while self.sees("+", "-", "pm", "mp"):
            sign = self.take().text
            term = self.term()
            if sign == "-":
                term = Negative(term)
            elif sign in ("pm", "mp"):
                term = Call("plusminus" if sign == "pm" else "minusplus", (term,))
            terms.append(term)
        found = terms[0] if len(terms) == 1 else Sum(tuple(terms))
        if self.sees("over", "choose"):
            found = self.infix(found)
        if self.sees("mod", "pmod"):
            name = "congruent" if self.take().text == "pmod" else "mod"
            found = Call(name, (found, self.term()))
        return self.with_unit(found)

    def signed(self) -> Node:
        """The first term, which may have a sign of its own."""
        if self.skip("+"):
            return self.term()
        if self.skip("-"):
            return Negative(self.term())
        if self.sees("pm", "mp"):
            sign = "plusminus" if self.take().text == "pm" else "minusplus"
            return Call(sign, (self.term(),))
        return self.term()

    def term(self) -> Node:
        """Factors: joined by signs, or side by side."""
        found = self.factor()
        while True:
            if self.skip("*"):
                found = Product((found, self.factor()))
            elif self.skip("/"):
                found = Quotient(found, self.factor())
            elif self.starts_factor():
                if self.peek().kind == "number" and self.tokens[self.place - 1].kind == "number":
                    raise UnreadableError(f"two numbers side by side: {self.rest()!r}")
                found = Product((found, self.factor()))
            else:
                return found

    def starts_factor(self) -> bool:
        """Whether the next token can be a factor of the product before it."""
        token = self.peek()
        if token.kind in ("number", "letter"):
            return True
        if token.kind == "word":
            return token.text.casefold() not in SEPARATORS and not self.unit_ahead()
        if token.kind == "sign":
            if self.unit_in_brackets():
                return False
            return (
                token.text in ("(", "{", "\\{")
                or (token.text == "[" and not token.blank)
                or (token.text in ("|", "\\|") and not self.bars)
            )
        if token.kind == "macro":
            return token.text in FACTOR_MACROS
        return False

    def factor(self) -> Node:
        """A power with what stands behind it: `!`, `%`, a degree sign."""
        if self.skip("-"):
            return Negative(self.factor())
        if self.skip("+"):
            return self.factor()
        if self.sees("pm", "mp"):
            sign = "plusminus" if self.take().text == "pm" else "minusplus"
            return Call(sign, (self.factor(),))
        return self.powers(self.primary())

    def powers(self, found: Node) -> Node:
        """What stands behind a factor."""
        while True:
            if self.sees("^"):
                if self.degrees_ahead():
                    found = Quantity(found, self.degrees())
                    continue
                self.take()
                if self.sees("'", "\\'"):
                    raise UnreadableError("a prime as an exponent")
                found = Power(found, self.exponent())
            elif self.sees("circ") and self.tokens[self.place - 1].kind == "number":
                found = Quantity(found, self.degrees())
            elif self.skip("!"):
                twice = self.skip("!")
                found = Call("doublefactorial" if twice else "factorial", (found,))
                if self.sees("!"):
                    raise UnreadableError("several factorial signs")
            elif self.skip("%"):
                if isinstance(found, Percent):
                    raise UnreadableError("several percent signs")
                found = Percent(found)
            elif self.sees("_") and isinstance(found, Name):
                self.take()
                found = Call("index", (found, self.argument()))
            elif self.sees("'") and isinstance(found, Name):
                self.take()
                found = Name(found.text + "'")
            else:
                return found

    def degrees_ahead(self) -> bool:
        """Whether `^` is followed by a ring, bare or in braces."""
        if self.peek(1).text == "circ":
            return True
        return (self.peek(1).text, self.peek(2).text, self.peek(3).text) == ("{", "circ", "}")

    def degrees(self) -> str:
        """Take a degree sign, with the letter of a temperature."""
        self.skip("^")
        braced = self.skip("{")
        self.expect("circ")
        if braced:
            self.expect("}")
        letter = self.peek()
        if letter.kind in ("letter", "text") and letter.text in ("C", "F") and not self.bars:
            self.take()
            return {"C": "celsius", "F": "fahrenheit"}[letter.text]
        return "degree"

    def exponent(self) -> Node:
        """What stands raised: braces, brackets, or one piece with its sign; right to left."""
        if self.skip("-"):
            return Negative(self.exponent())
        if self.skip("+"):
            return self.exponent()
        found = self.argument(whole=True)
        if self.skip("^"):
            return Power(found, self.exponent())
        return found

    def argument(self, *, whole: bool = False) -> Node:
        """What a macro takes: a group in braces, else one digit (or one whole number) or piece."""
        token = self.peek()
        if token.kind == "sign" and token.text == "{":
            return self.of_macro()
        if token.kind == "number":
            self.take()
            if whole or len(token.text.rstrip(".")) == 1:
                return number(token.text)
            if token.text[0] == ".":
                raise UnreadableError(f"{token.text} stands where one digit is needed")
            self.place -= 1
            self.tokens[self.place] = Token("number", token.text[1:])
            return number(token.text[0])
        if token.kind == "letter":
            self.take()
            return Name(token.text)
        if token.kind == "word" and not whole:
            self.take()
            self.place -= 1
            self.tokens[self.place] = Token(
                "letter" if len(token.text) == 2 else "word", token.text[1:]
            )
            return Name(token.text[0])
        if token.kind == "text":
            self.take()
            return Words(token.text.casefold())
        return self.primary()

    def of_macro(self) -> Node:
        """A group that a macro takes: no set, so that a bar in it opens an absolute value."""
        self.deeper()
        bars, self.bars = self.bars, 0
        self.expect("{")
        if self.sees("}"):
            raise UnreadableError("an empty group")
        items = self.several()
        self.expect("}")
        self.bars = bars
        self.depth -= 1
        return items[0] if len(items) == 1 else Items("set", tuple(items))

    def primary(self) -> Node:
        """A number, a name, a bracket, or a macro with its arguments."""
        based = self.based()
        if based is not None:
            return based
        token = self.take()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "letter":
            return self.letter(token.text)
        if token.kind == "word":
            return self.word(token)
        if token.kind == "sign":
            self.place -= 1
            return self.bracket()
        if token.kind == "macro":
            return self.macro(token.text)
        if token.kind == "text":
            return self.text(token)
        self.place -= 1
        raise UnreadableError(f"{self.rest()!r} stands where a number or name should")

    def letter(self, text: str) -> Node:
        """A variable; `f(x)` is a function of what is in the brackets."""
        while self.sees("'"):
            text += self.take().text
        name = Name(text)
        if text[0] in FUNCTION_LETTERS and self.inverse_ahead():
            text += "^-1"
        if text[0] in FUNCTION_LETTERS and self.sees("(") and not self.peek().blank:
            inside = self.group("(", ")")
            arguments = inside.items if isinstance(inside, Items) else (inside,)
            return Call(f"of {text}", arguments)
        return name

    def inverse_ahead(self) -> bool:
        """Take `^{-1}` where brackets with an argument follow."""
        ahead = [self.peek(place).text for place in range(6)]
        if ahead != ["^", "{", "-", "1", "}", "("]:
            return False
        self.place += 5
        return True

    def word(self, token: Token) -> Node:
        """A word outside text: a function name with its letter, or letters side by side."""
        text = token.text
        for name, macro in NAMED.items():
            if len(name) > 1 and text.startswith(name) and len(text) == len(name) + 1:
                self.place -= 1
                self.tokens[self.place : self.place + 1] = [
                    Token("macro", macro),
                    Token("letter", text[-1], blank=True),
                ]
                return self.primary()
            if len(name) > 1 and text.endswith(name) and len(text) == len(name) + 1:
                self.tokens[self.place : self.place] = [Token("macro", macro)]
                return self.letter(text[0])
        neighbours = (self.peek(-2) if self.place > 1 else END, self.peek())
        if len(text) > 8 or any(t.kind == "word" and t.text not in SEPARATORS for t in neighbours):
            raise UnreadableError(f"the word {text[:30]!r} in a formula")
        letters = [Token("letter", letter) for letter in text]
        self.tokens[self.place - 1 : self.place] = letters
        return self.letter(text[0])

    def text(self, token: Token) -> Node:
        """Words in text, up to what is no word."""
        if NAMED.get(token.text.casefold()) == "infty":
            return Name("infinity")
        words = token.text
        while self.peek().kind == "text" and self.peek().text.casefold() not in SEPARATORS:
            words += self.take().text
        if self.peek().kind in ("number", "letter", "word"):
            raise UnreadableError(f"{self.rest()!r} follows words")
        plain = "".join(words.casefold().split())
        return Name("reals") if plain in ("allrealnumbers", "allreals") else Words(plain)

    def bracket(self) -> Node:
        """Something in brackets, bars or braces."""
        token = self.peek()
        if token.text in ("(", "["):
            return self.group(token.text, ")", "]")
        if token.text == "{":
            return self.group("{", "}")
        if token.text == "\\{":
            return self.braces("\\{", "\\}")
        if token.text in ("|", "\\|"):
            return self.absolute(token.text)  # a bar that closes never stands here
        raise UnreadableError(f"{self.rest()!r} stands where a number or name should")

    def absolute(self, bar: str) -> Node:
        """Bars around something."""
        self.deeper()
        self.take()
        self.bars += 1
        inside = self.sum()
        self.expect(bar)
        self.bars -= 1
        self.depth -= 1
        if isinstance(inside, Matrix):
            return Matrix(inside.rows, determinant=True)
        return Call("abs" if bar == "|" else "norm", (inside,))

    def unit_ahead(self) -> bool:
        """Whether a unit follows the number that was just read."""
        token = self.peek()
        if token.kind == "text":
            return token.text.casefold() not in SEPARATORS
        if token.kind == "word":
            worded = token.text.casefold() in POWERS_OF_TEN or is_bare(token.text)
            return token.text.casefold() in BARE or (token.blank and worded)
        return False

    def unit_in_brackets(self) -> bool:
        """Whether `(units)` follows, in text."""
        opened = self.peek().text == "(" and self.peek(1).kind == "text"
        return opened and self.peek(2).text == ")"

    def with_unit(self, found: Node) -> Node:
        """The number with the unit that may follow it."""
        if self.sees(*CURRENCIES) and not isinstance(found, Quantity):
            return Quantity(found, CURRENCIES[self.take().text])
        if self.unit_in_brackets():
            self.tokens[self.place : self.place + 3] = [self.peek(1)]
        if not self.unit_ahead():
            return found
        if not is_numeric(found):
            raise UnreadableError(f"{self.rest()!r} follows something that is no number")
        words, power = list[str](), ""
        while True:
            token = self.peek()
            if (
                (token.kind in ("text", "word") and token.text.casefold() not in SEPARATORS)
                or (token.kind == "letter" and words and words[-1] == "/")
                or (self.sees("/") and words)
            ):
                words.append(self.take().text)
            elif self.sees("^") and words and not power:
                self.take()
                exponent = self.argument(whole=True)
                if not isinstance(exponent, Number):
                    raise UnreadableError("the power of a unit is no number")
                power = f"^{exponent.value}"
            elif self.sees(".") and self.peek(1).kind in ("text", "word"):
                self.take()
            else:
                break
        return _quantity(found, " ".join(words), power)


def _quantity(found: Node, words: str, power: str) -> Node:
    plain = words.casefold().strip(". ")
    if plain in ("percent", "per cent", "percents"):
        return Percent(found)
    many, _, rest = plain.partition(" ")
    if many in POWERS_OF_TEN:
        found = multiplied(found, many)
        if not rest:
            return found
        words = rest
    unit = unit_of(words)
    if unit is None:
        raise UnreadableError(f"{words[:40]!r} follows a number and is no unit")
    if isinstance(found, Quantity):
        if found.unit == "dollar":
            return found  # `$18 per day`: the rate says what the dollars are for
        raise UnreadableError("two units")
    return Quantity(found, unit + power if not unit.endswith(("^2", "^3")) else unit)


def is_numeric(node: Node) -> bool:
    """Whether a node is a number by itself: no variable, list or relation in it."""
    if isinstance(node, Number):
        return True
    if isinstance(node, Name):
        return node.text in ("pi", "e")
    if isinstance(node, Negative):
        return is_numeric(node.operand)
    if isinstance(node, Sum):
        return all(map(is_numeric, node.terms))
    if isinstance(node, Product):
        return all(map(is_numeric, node.factors))
    if isinstance(node, Quotient):
        return is_numeric(node.top) and is_numeric(node.bottom)
    if isinstance(node, Power):
        return is_numeric(node.base) and is_numeric(node.exponent)
    if isinstance(node, Quantity):
        return node.unit == "dollar" and is_numeric(node.value)
    return isinstance(node, Call) and all(map(is_numeric, node.arguments))

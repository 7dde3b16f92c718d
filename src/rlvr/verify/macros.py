r"""Reads macros with their arguments: fractions, roots, functions, sums, matrices."""

from __future__ import annotations

from fractions import Fraction

from rlvr.verify.cursor import Numerals
from rlvr.verify.nodes import (
    Call,
    Items,
    Matrix,
    Name,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Words,
)
from rlvr.verify.signs import word_set
from rlvr.verify.typography import UnreadableError

ANGULAR = word_set("sin cos tan sec csc cot sinh cosh tanh")
FUNCTIONS = (
    ANGULAR
    | word_set("arcsin arccos arctan arccot arcsec arccsc arsinh arcosh artanh")
    | word_set("ln log lg exp sgn det gcd lcm max min Re Im arg deg dim ker log10 log2")
)
OF_SEVERAL = word_set("gcd lcm max min")
SYMBOLS = word_set(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
    "sigma tau upsilon phi chi psi omega Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota "
    "Kappa Lambda Mu Nu Xi Omicron Pi Rho Sigma Tau Upsilon Phi Chi Psi Omega ell hbar infty "
    "emptyset ldots angle triangle square circ star dagger perp E reals nabla partial"
)
BIG = word_set("sum prod int lim iint oint")
ACCENTS = word_set(
    "overline bar hat vec tilde dot ddot widehat widetilde overrightarrow overleftrightarrow"
)
CURRENCIES = {
    "dollars": "dollar", "pounds": "sterling", "euro": "euro", "yen": "yen", "cents": "cent",
    "rupees": "rupee",
}  # fmt: skip
MATRICES = word_set(
    "pmatrix bmatrix matrix vmatrix smallmatrix array Bmatrix Vmatrix psmallmatrix bsmallmatrix"
)
FACTOR_MACROS = (
    FUNCTIONS
    | SYMBOLS
    | BIG
    | ACCENTS
    | word_set("frac sqrt cbrt binom abs floor ceil factorial lfloor lceil langle begin mathbb")
) - {"ldots", "circ"}


class Macros(Numerals):
    """Reads what begins with a macro; expressions within are left to its heirs."""

    def macro(self, name: str) -> Node:
        """A macro with its arguments."""
        if name == "frac":
            top = self.argument()
            return Quotient(top, self.argument())
        if name in ("sqrt", "cbrt"):
            return self.root(name)
        if name == "binom":
            return self.binomial()
        if name in FUNCTIONS:
            return self.function(name)
        if name in ("abs", "floor", "ceil", "factorial"):
            return Call(name, (self.argument(whole=True),))
        if name in ("lfloor", "lceil"):
            inside = self.sum()
            self.expect("rfloor" if name == "lfloor" else "rceil")
            return Call("floor" if name == "lfloor" else "ceil", (inside,))
        if name == "langle":
            items = self.several()
            self.expect("rangle")
            return Items("tuple", tuple(items)) if len(items) > 1 else items[0]
        if name == "begin":
            return self.matrix()
        if name in BIG:
            return self.big(name)
        if name in CURRENCIES:
            return Quantity(self.factor(), CURRENCIES[name])
        if name == "mathbb":
            letter = self.argument()
            shown = letter.text if isinstance(letter, Name) else "?"
            return Name({"R": "reals"}.get(shown, f"set {shown}"))
        if name in ACCENTS:
            ordered = self.in_order() if name in ("vec", "overrightarrow") else ""
            return Call(name, (Name(ordered) if ordered else self.argument(whole=True),))
        if name == "angle" and (letters := self.in_order()):
            return Name(f"angle {min(letters, letters[::-1])}")
        if name == "lnot":
            raise UnreadableError("a negation")
        if name in SYMBOLS:
            return self.letter({"infty": "infinity"}.get(name, name))
        self.place -= 1
        raise UnreadableError(f"the macro \\{name[:30]} is not known here")

    def in_order(self) -> str:
        """Take capitals that name points, whose order counts; empty where others follow."""
        braced = self.sees("{") and self.peek(2).text == "}"
        token = self.peek(1) if braced else self.peek()
        if token.kind != "word" or not token.text.isupper():
            return ""
        self.place += 3 if braced else 1
        return token.text

    def root(self, name: str) -> Node:
        """A root with its index."""
        index: Node = Number(Fraction(3 if name == "cbrt" else 2))
        if self.sees("["):
            self.take()
            index = self.sum()
            self.expect("]")
        inside = self.argument(whole=True)
        return Call("root", (inside, index))

    def binomial(self) -> Node:
        """`\\binom{n}{k}`, or `binomial(n, k)` in plain text."""
        if self.sees("("):
            both = self.group("(", ")")
            if isinstance(both, Items) and len(both.items) == 2:
                return Call("binom", both.items)
            raise UnreadableError("a binomial takes two numbers")
        top = self.argument()
        return Call("binom", (top, self.argument()))

    def infix(self, top: Node) -> Node:
        """TeX's own `\\over` and `\\choose`: they part all that the group holds, once."""
        sign = self.take().text
        start = self.place
        bottom = self.sum()
        depth, again = 0, False
        for token in self.tokens[start : self.place]:
            depth += (token.text == "{") - (token.text == "}")
            again |= token.kind == "macro" and token.text in ("over", "choose") and not depth
        if again or isinstance(bottom, Quantity):
            raise UnreadableError(f"\\{sign} between things that it can't part")
        return Quotient(top, bottom) if sign == "over" else Call("binom", (top, bottom))

    def function(self, name: str) -> Node:
        """A function, its power and its base, and its argument with or without brackets."""
        base: Node | None = None
        power: Node | None = None
        while self.sees("^", "_"):
            if self.take().text == "_":
                base = self.argument(whole=True)
            else:
                power = self.exponent()
        if name in ("log10", "log2", "lg"):
            name, base = "log", Number(Fraction(2 if name == "log2" else 10))
        if power == Negative(Number(Fraction(1))) and name in ANGULAR:
            name, power = ("ar" if name.endswith("h") else "arc") + name, None
        if name in OF_SEVERAL and self.sees("\\{"):
            inside = self.braces("\\{", "\\}")
            arguments = inside.items if isinstance(inside, Items) else (inside,)
        else:
            arguments = self.function_arguments()
        if name in OF_SEVERAL and base is not None:
            raise UnreadableError(f"\\{name} with a subscript")
        found: Node = Call(name, arguments if base is None else (*arguments, base))
        return found if power is None else Power(found, power)

    def function_arguments(self) -> tuple[Node, ...]:
        """Brackets hold the whole argument; without them it is the product that follows."""
        if self.sees("(", "{") or (self.sees("[") and not self.peek().blank):
            opening = self.peek().text
            inside = self.group(opening, {"(": ")", "[": "]", "{": "}"}[opening])
            if isinstance(inside, Items):
                return inside.items
            if opening == "{":
                inside = self.powers(inside)
            return (inside,)
        if self.skip("-"):
            return (Negative(self.plain_product()),)
        return (self.plain_product(),)

    def plain_product(self) -> Node:
        """Factors side by side, up to the next function, bracket or sign."""
        found = self.factor()
        while self.starts_factor():
            token = self.peek()
            if token.kind == "macro" and token.text in (FUNCTIONS | BIG):
                break
            if token.kind == "sign" and token.text in ("(", "[", "\\{"):
                break
            if token.kind == "number" and self.tokens[self.place - 1].kind == "number":
                raise UnreadableError(f"two numbers side by side: {self.rest()!r}")
            found = Product((found, self.factor()))
        return found

    def big(self, name: str) -> Node:
        """A sum, product, integral or limit with its bounds; it is compared, never computed."""
        low: Node = Words("")
        high: Node = Words("")
        while self.sees("_", "^"):
            if self.take().text == "_":
                low = self.bound()
            else:
                high = self.bound()
        return Call(name, (self.term(), low, high))

    def bound(self) -> Node:
        """A bound of a big sign: a whole relation in braces, or one piece."""
        if not self.skip("{"):
            return self.argument(whole=True)
        found = self.relation()
        self.expect("}")
        return found

    def matrix(self) -> Node:
        """Rows between `\\begin` and `\\end`."""
        kind = self.environment()
        if kind == "array":
            self.columns()
        if kind not in MATRICES:
            raise UnreadableError(f"the environment {kind[:30]!r} is not known here")
        self.deeper()
        rows, row = list[tuple[Node, ...]](), list[Node]()
        while not self.sees("end"):
            if self.skip("hline"):
                continue
            row.append(self.sum())
            if self.skip("\\\\", "cr"):
                rows.append(tuple(row))
                row = []
            elif not self.skip("&"):
                break
        self.expect("end")
        if self.environment() != kind:
            raise UnreadableError("an environment ends with another name")
        self.depth -= 1
        if row:
            rows.append(tuple(row))
        if not rows or len({len(r) for r in rows}) > 1:
            raise UnreadableError("a matrix whose rows differ in length")
        return Matrix(tuple(rows), determinant=kind == "vmatrix")

    def environment(self) -> str:
        """The name in braces behind `\\begin` or `\\end`."""
        self.expect("{")
        name = ""
        while not self.sees("}") and self.peek().kind != "end":
            name += self.take().text
        self.expect("}")
        return name

    def columns(self) -> None:
        """The column letters of an array."""
        self.expect("{")
        while self.peek().kind in ("letter", "word") or self.sees("|"):
            self.take()
        self.expect("}")

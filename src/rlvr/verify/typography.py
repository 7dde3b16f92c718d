r"""From the text of an answer to tokens: what typography means, what means nothing, and no more.

Unicode signs become the macros they show, style and spacing are dropped, and the rest is cut into
numbers, letters, words, macros and signs. Nothing is computed; time is linear in the text.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from rlvr.verify.signs import NAMED, NOTHING, SAME, SHOWN, SIGNS, STYLE, TEXT

LONGEST = 4_000  # characters of an answer

Kind = Literal["number", "letter", "word", "macro", "text", "sign", "end"]


class TooLargeError(ValueError):
    """A bound is passed, so nothing was computed."""


class UnreadableError(ValueError):
    """The text is not an answer that this reader knows."""


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of an answer."""

    kind: Kind
    text: str
    blank: bool = False
    """Whether blank space stands before it."""


_RAISED = re.compile(r"[\u2070\u00b9\u00b2\u00b3\u2074-\u207e\u207f\u2071\u02e3\u02b8]+")
_LOWERED = re.compile(r"[\u2080-\u208e\u2090-\u209c]+")
_VULGAR = re.compile(r"(\d?)([\u00bc-\u00be\u2150-\u215e\u2189])")
_ROOT = re.compile(r"\\sqrt (?=\d)(\d+(?:\.\d+)?)")
_CHAT = re.compile(r"<\|[A-Za-z_\u2581|]{1,40}\|>|</?s>|<eos>|<pad>|<\uff5c[^<>]{1,40}\uff5c>")
_GROUPED_SIGN = re.compile(r"\{([:=<>;])\}")  # braces that only change the space around it


_DOUBLED = re.compile(r"\\(?=\\[A-Za-z]{2})")  # as JSON writes what is one backslash


def shown(text: str) -> str:
    r"""The text in ASCII and macros, as far as its signs have a meaning there.

    >>> shown("\N{MINUS SIGN}\N{VULGAR FRACTION ONE HALF}x\N{SUPERSCRIPT TWO}")
    '-\\frac{1}{2}x^{2}'

    Raises:
        TooLargeError: The text is longer than an answer may be.
    """
    if len(text) > LONGEST:
        raise TooLargeError(f"longer than {LONGEST} characters")
    if r"\\" in text and r"\begin" not in text:
        text = _DOUBLED.sub("", text)
    if text.isascii():
        plain = text
    else:
        text = _VULGAR.sub(_fraction, _RAISED.sub(_raised, _LOWERED.sub(_lowered, text)))
        plain = _ROOT.sub(r"\\sqrt{\1}", "".join(map(_shown_as, text)))
    plain = _GROUPED_SIGN.sub(r"\1", _CHAT.sub("", plain))
    plain = "".join(c for c in plain if c.isprintable() or c.isspace())
    plain = _UPRIGHT_UNIT.sub(r"\1\\text{ \2}\3", plain)
    return plain.replace(r"\times", r"\cross") if _VECTORS.search(plain) else plain


_VECTORS = re.compile(r"\\(?:vec|mathbf|overrightarrow|boldsymbol)(?![A-Za-z])")
_UPRIGHT_UNIT = re.compile(  # `9.8\,\mathrm{m/s^2}`; a letter that is no unit stays a name
    r"(?<=[\d}])((?:\\[ ,;:!]|~|\s)*)\\mathrm\s*\{([mgshJNWVKL]|[A-Za-z]{1,3}/[A-Za-z]{1,3})"
    r"(\^(?:\d|\{\d\}))?\}"
)
_PLAINLY = ("<wide>", "<narrow>", "<small>", "<font>", "<noBreak>", "<compat>", "<fraction>")


@cache
def _shown_as(character: str) -> str:
    if character.isascii():
        return character
    if character in SHOWN:
        return SHOWN[character]
    digit = unicodedata.digit(character, None) if character.isdigit() else None
    if digit is not None:
        return str(digit)
    if unicodedata.category(character) in ("Cf", "Cc", "Cs"):
        return ""
    if unicodedata.category(character) == "Zs":
        return " "
    kind = unicodedata.decomposition(character).partition(" ")[0]
    plain = unicodedata.normalize("NFKC", character)
    if kind in _PLAINLY and plain != character and len(plain) <= 4:
        return "".join(map(_shown_as, plain))
    return character


def _raised(found: re.Match[str]) -> str:
    plain = unicodedata.normalize("NFKC", found[0]).replace("\u2212", "-")
    return "^{" + plain + "}"


def _lowered(found: re.Match[str]) -> str:
    plain = unicodedata.normalize("NFKC", found[0]).replace("\u2212", "-")
    return "_{" + plain + "}"


def _fraction(found: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", found[2]).partition("\u2044")
    return f"{found[1]}\\frac{{{top}}}{{{bottom}}}"


_PIECE = re.compile(
    r"(?P<blank>\s+)"
    r"|(?P<number>\d{1,3}(?:(?:,|\{,\}|,\s?(?:\\;\s)?\\!\s*|\\,|\\ |\\!|~)\d{3})+(?!\d)(?:\.\d+)?"
    r"|\d+\.\d+|\d+\.(?![\d.])|\.\d+|\d+)"
    r"|\\(?P<macro>[A-Za-z]+)\s*(?P<star>\*(?=\{))?"
    r"|\\(?P<escaped>[^A-Za-z])"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|=>|->|<|>|.)",
    re.DOTALL,
)
_SEPARATOR = re.compile(r"[^\d.]+")


def tokens(text: str) -> list[Token]:
    r"""The tokens of an answer's text.

    >>> [t.text for t in tokens(r"\left( 1{,}000,\dfrac12 \right]")]
    ['(', '1000', ',', 'frac', '12', ']']
    """
    return trimmed(_groups_of_three(list(_pieces(shown(text), depth=0))))


_TRAILING = (".", ",", ";")


def trimmed(several: list[Token]) -> list[Token]:
    """Tokens without the punctuation behind them and the braces around them."""
    while several:
        last = several[-1]
        if last.kind == "sign" and last.text in _TRAILING:
            if [token.text for token in several[-3:]] == ["."] * 3:
                return several  # `5...` goes on
            several = several[:-1]
        elif last.kind == "number" and last.text.endswith("."):
            return [*several[:-1], replace(last, text=last.text[:-1])]
        elif len(several) == 2 and several[0].kind == "letter" and last.text == ")":
            several = several[:1]  # `B)` is a choice
        elif _in_braces(several):
            several = several[1:-1]
        else:
            return several
    return several


def _in_braces(several: list[Token]) -> bool:
    """Whether the first token is a brace that the last one closes."""
    if len(several) < 2 or (several[0].text, several[-1].text) != ("{", "}"):
        return False
    depth = 0
    for place, token in enumerate(several):
        if token.kind == "sign":
            depth += (token.text == "{") - (token.text == "}")
        if depth == 0:
            return place == len(several) - 1
    return False


def _pieces(text: str, depth: int) -> Iterator[Token]:
    if depth > 3:
        raise UnreadableError("text within text")
    place, blank = 0, False
    while place < len(text):
        found = _PIECE.match(text, place)
        assert found is not None  # the last alternative takes any character
        place = found.end()
        if found["blank"]:
            several: list[Token] = []
        elif found["number"]:
            several = [_number(found["number"])]
        elif found["macro"]:
            place, several = _macro(text, found["macro"], place, depth)
        elif found["escaped"]:
            several = _escaped(found["escaped"])
        elif found["letters"]:
            several = [_letters(found["letters"])]
        else:
            several = _sign(found["sign"])
        if not several:
            blank = True
            continue
        yield replace(several[0], blank=blank or several[0].blank)
        yield from several[1:]
        blank = False


def _number(piece: str) -> Token:
    """One number. Groups of three are one, but tight commas stay until their place is known."""
    separators = set(_SEPARATOR.findall(piece))
    if not separators:
        return Token("number", piece)
    if piece[0] == "0" or separators == {","}:
        return Token("number", _SEPARATOR.sub(",", piece))
    return Token("number", _SEPARATOR.sub("", piece))


OPENING, CLOSING = ("(", "[", "\\{"), (")", "]", "\\}")


def _groups_of_three(pieces: list[Token]) -> list[Token]:
    """Tight commas settled: `1,000` is one number, but in `(100,200)` they stand between two.

    In brackets they group digits only where other commas, with a blank behind, do the separating.
    """
    if not any("," in token.text and token.kind == "number" for token in pieces):
        return pieces
    spaced, stack = set[int](), [0]
    for place, token in enumerate(pieces):
        if token.kind == "sign" and token.text in OPENING:
            stack.append(place + 1)
        elif token.kind == "sign" and token.text in CLOSING and len(stack) > 1:
            stack.pop()
        elif token.text == "," and place + 1 < len(pieces) and pieces[place + 1].blank:
            spaced.add(stack[-1])
    settled, stack = list[Token](), [0]
    for place, token in enumerate(pieces):
        if token.kind == "sign" and token.text in OPENING:
            stack.append(place + 1)
        elif token.kind == "sign" and token.text in CLOSING and len(stack) > 1:
            stack.pop()
        if token.kind != "number" or "," not in token.text:
            settled.append(token)
        elif (stack[-1] == 0 or stack[-1] in spaced) and token.text[0] != "0":
            settled.append(replace(token, text=token.text.replace(",", "")))
        else:
            first, *rest = token.text.split(",")
            settled.append(replace(token, text=first))
            for number in rest:
                settled += [Token("sign", ","), Token("number", number)]
    return settled


def _sign(character: str) -> list[Token]:
    if character in ("$", "~", "\\"):
        return []
    same = {"**": "^", "==": "="}.get(character, character)
    if character in ("=>", "->"):
        return [Token("macro", {"=>": "implies", "->": "to"}[character])]
    return [Token("sign", same)]


def _escaped(character: str) -> list[Token]:
    if character in "{}|\\":
        return [Token("sign", "\\" + character)]
    if character in "%#&_":
        return [Token("sign", character)]
    if character == "$":
        return [Token("macro", "dollars")]
    return []  # \, \! \; \: \( \) \[ \] and blanks


def _letters(piece: str) -> Token:
    if len(piece) == 1:
        return Token("letter", piece)
    return Token("macro", NAMED[piece]) if piece in NAMED else Token("word", piece)


def _macro(text: str, name: str, place: int, depth: int) -> tuple[int, list[Token]]:
    """What a macro stands for, and where reading goes on."""
    if name in TEXT:
        end = _argument_end(text, place)
        if end is None:
            return place, []
        inside = text[end[0] : end[1]]
        return end[2], _text(inside, depth)
    if name in ("phantom", "hspace", "vspace", "color"):
        end = _argument_end(text, place)
        return (end[2] if end else place + 1), []  # without braces, TeX takes one character
    if name in NOTHING:
        if name in ("left", "right") and text[place : place + 1] == ".":
            place += 1
        return place, []
    if name in STYLE:
        end = _argument_end(text, place)
        if end is None:
            return place, []
        if name == "textcolor":
            return end[2], []
        content = text[end[0] : end[1]]
        return end[2], _styled(name, content, list(_pieces(content, depth + 1)))
    same = SAME.get(name, name)
    if same in SIGNS:
        return place, [Token("sign", SIGNS[same])]
    if same == "":
        return place, []
    if same in ("{", "}"):
        return place, [Token("sign", "\\" + same)]
    if len(same) == 1 and same.isalpha():
        return place, [Token("letter", same)]
    if not same[0].isalpha():
        return place, [Token("sign", same)]
    return place, [Token("macro", same)]


def _styled(name: str, inside: str, pieces: list[Token]) -> list[Token]:
    """The content of a style macro: words in it stay words, anything else is read as it stands."""
    words = inside.strip().strip(".").strip()
    if name in ("mathrm", "mathbf", "mathit", "mathsf", "operatorname") and len(words) > 1:
        named = NAMED.get(words) or (words if words in ("Re", "Im") else None)
        if named:
            return [Token("macro", named)]
        if all(part.isalpha() for part in words.split()):
            return _text(words, 0)
    grouped = [Token("sign", "{"), *pieces, Token("sign", "}")]
    return grouped if len(pieces) > 1 else pieces


def _text(inside: str, depth: int) -> list[Token]:
    """Text: words as they stand; digits and signs in it are read as if they stood outside."""
    plain = inside.replace("\\", " ") if re.fullmatch(r"[^\\]*(\\ [^\\]*)*", inside) else inside
    if re.fullmatch(r"[A-Za-z\s'\u00c0-\U0010ffff-]*\.?", plain) and plain.strip():
        words = " ".join(plain.strip().rstrip(".").split())
        return [Token("text", words, blank=True)] if words else []
    return [
        Token("text", t.text, t.blank) if t.kind in ("word", "letter") else t
        for t in _pieces(inside, depth + 1)
    ]


def _argument_end(text: str, place: int) -> tuple[int, int, int] | None:
    """Where the argument in braces behind `place` starts and ends, and where reading goes on."""
    while place < len(text) and text[place].isspace():
        place += 1
    if place >= len(text) or text[place] != "{":
        return None
    depth, start = 0, place + 1
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 2
            continue
        depth += (character == "{") - (character == "}")
        place += 1
        if depth == 0:
            return start, place - 1, place
    raise UnreadableError("a brace is never closed")

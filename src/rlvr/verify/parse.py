"""From an answer's text to an exact number, by an own bounded reader. Nothing is ever evaluated."""

import re
import unicodedata
from fractions import Fraction

LONGEST = 2_000  # characters of an answer
MOST_DIGITS = 1_000  # of one number; checked before any is read

_SIGNS = str.maketrans({"\u2212": "-", "\u2013": "-", "\u2044": "/"})  # minus, en dash, fraction
_FORMAT = {"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u200e", "\u200f"}
_SHOWN_PLAIN = ("<wide>", "<narrow>", "<small>", "<font>", "<noBreak>", "<compat>", "<fraction>")
_THIN = re.compile(r"(?<=\d)(?:\\[, ]|~|[\u00a0\u2009\u202f]|,\s*\\!\s*)(?=\d{3}(?!\d))")
_BETWEEN_DIGITS = re.compile(r"(?<=[\d.])(?:\\?\$)+(?=[\d.])")
_DELIMITER = re.compile(r"\\(?:left|right)\s*(?:\.|(?=[()\[\]{}|<>/\\]))")
_SPACING = re.compile(r"\\[,!;: ]|\\quad\b|\\qquad\b|~")
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|textrm)\{([^{}\\]*)\}")
_THOUSANDS = re.compile(r"(?<![\d.,])([1-9]\d{0,2})((?:,\d{3})+)(?![\d,])")
_FRACTION = r"\\[dtc]?frac\s*(?:\{\s*([-+]?\d+)\s*\}|(\d))\s*(?:\{\s*([-+]?\d+)\s*\}|(\d))"
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_PATTERN = re.compile(
    rf"([-+]?)\s*(?:(\d+)\s*{_FRACTION}|{_FRACTION}|(\d+)\s+(\d+)/(\d+)"
    rf"|(\d+)\s*/\s*(\d+)|{_NUMBER})\s*(\\?%)?"
)

_ZERO = r"[-+]?0+(?:\.0*)?"
_UNDEFINED = re.compile(
    r"(?:/|\\[dtc]?frac\s*(?:\{[^{}]*\}|\d))\s*"
    rf"(?:\{{\s*{_ZERO}\s*\}}|{_ZERO}(?![\d.]))"
)


class TooLargeError(ValueError):
    """The text passes a bound, so nothing was computed."""


def clean(text: str) -> str:
    r"""The text without what means nothing: dollar signs, spacing macros, a final full stop.

    >>> clean(r"$\text{ yes }.$")
    'yes'

    Raises:
        TooLargeError: The text is longer than an answer may be.
    """
    if len(text) > LONGEST:
        raise TooLargeError(f"longer than {LONGEST} characters")
    if text.isascii() and text.isdigit():
        return text
    text = _THIN.sub(",", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", "".join(map(_plain, text))).translate(_SIGNS)
    text = "".join(c for c in text if c not in _FORMAT and (c.isprintable() or c.isspace()))
    text = _BETWEEN_DIGITS.sub(" ", text).replace("\\$", "").replace("$", "")
    text = text.replace("{,}", ",").replace(",\\!", ",")
    text = _DELIMITER.sub("", _SPACING.sub(" ", text))
    text = _WRAPPED.sub(r"\1", text).rstrip("\\ ").strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip()
    while text.startswith("{") and text.endswith("}") and text.count("{") == 1:
        text = text[1:-1].strip()
    return " ".join(text.split())


def _plain(character: str) -> str:
    """The plain form of a wide or styled character; raised and lowered ones mean more than it."""
    kind = unicodedata.decomposition(character).partition(" ")[0]
    if kind not in _SHOWN_PLAIN:
        return character
    plain = unicodedata.normalize("NFKC", character)
    return f" {plain}" if kind == "<fraction>" else plain


def undefined(cleaned: str) -> bool:
    r"""Whether a cleaned text divides by 0 or is no value by its own words.

    >>> undefined("1/0"), undefined(r"\frac{x}{0}"), undefined("NaN"), undefined("1/0.5")
    (True, True, True, False)
    """
    return cleaned.casefold() == "nan" or _UNDEFINED.search(cleaned) is not None


def number_of(cleaned: str) -> tuple[Fraction, bool] | None:
    r"""The exact value of a cleaned text that is one number, and whether it had a percent sign.

    Whole numbers, decimals, fractions, mixed numbers, thousands in groups of three. The value of a
    percentage is the number before the sign. None where the text is anything else, or divides by 0.

    Raises:
        TooLargeError: A number has more digits than are read.

    >>> number_of(r"-1\frac34"), number_of("1,234.5"), number_of("1/0"), number_of("12 34")
    ((Fraction(-7, 4), False), (Fraction(2469, 2), False), None, None)
    """
    if sum(map(str.isdigit, cleaned)) > MOST_DIGITS:
        raise TooLargeError(f"more than {MOST_DIGITS} digits")
    if cleaned.isascii() and cleaned.isdigit():
        return Fraction(int(cleaned)), False
    text = _THOUSANDS.sub(lambda found: found[1] + found[2].replace(",", ""), cleaned)
    found = _PATTERN.fullmatch(text) if text.isascii() else None
    if found is None:
        return None
    sign, whole, a, b, c, d, e, f, g, h, i, j, k, m, n, plain, percent = found.groups()
    if plain is not None:
        value = Fraction(plain)
    else:
        top, bottom = (a or b or e or f or j or m), (c or d or g or h or k or n)
        if int(bottom) == 0 or ((whole or i) and (int(top) < 0 or int(bottom) < 0)):
            return None
        value = int(whole or i or 0) + Fraction(int(top), int(bottom))
    return (-value if sign == "-" else value), percent is not None

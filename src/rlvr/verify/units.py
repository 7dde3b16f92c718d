"""Units: which words after a number can be one, and when two are the same.

A unit is ignored where only one side has one, so this list can be short; what is never a unit is a
single letter outside text, and a phrase with a word that says more than what is counted.
"""

import re

from rlvr.verify.nodes import Node, Number, Quantity
from rlvr.verify.signs import GREEK, NAMED, word_set
from rlvr.verify.typography import UnreadableError

POWERS_OF_TEN = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
GENERIC = "unit"
"""What `units` means: any unit, so it agrees with all."""

_ALIASES = {
    "cm": "centimeter centimeters centimetre centimetres cms",
    "mm": "millimeter millimeters millimetre millimetres",
    "m": "meter meters metre metres",
    "km": "kilometer kilometers kilometre kilometres kms",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yard yards yds",
    "mi": "mile miles",
    "g": "gram grams gm gms gramme grammes",
    "kg": "kilogram kilograms kgs kilo kilos",
    "mg": "milligram milligrams",
    "lb": "pound pounds lbs",
    "oz": "ounce ounces",
    "l": "liter liters litre litres",
    "ml": "milliliter milliliters millilitre millilitres",
    "s": "second seconds sec secs",
    "min": "minute minutes mins",
    "h": "hour hours hr hrs",
    "day": "days",
    "week": "weeks",
    "month": "months",
    "year": "years yr yrs",
    "dollar": "dollars usd bucks",
    "cent": "cents",
    "euro": "euros eur",
    "sterling": "gbp",
    "rupee": "rupees inr",
    "yen": "jpy",
    "degree": "degrees deg degs",
    "radian": "radians rad",
    "mi/h": "mph",
    "km/h": "kph kmh",
    "unit": "units",
    "percent": "pct",
    "hz": "hertz",
    "j": "joule joules",
    "n": "newton newtons",
    "w": "watt watts",
    "v": "volt volts",
    "pa": "pascal pascals",
    "mol": "mole moles",
    "k": "kelvin",
    "c": "celsius",
    "f": "fahrenheit",
    "a": "ampere amperes amps",
    "acre": "acres",
    "gallon": "gallons gal gals",
    "quart": "quarts",
    "pint": "pints",
    "cup": "cups",
    "person": "people persons",
    "child": "children",
    "man": "men",
    "woman": "women",
    "die": "dice",
}
ALIASES = {alias: name for name, several in _ALIASES.items() for alias in several.split()}
BARE = frozenset(
    name for name in {*ALIASES, *_ALIASES} if len(name) > 1 and name not in ("in", "die", "pa")
) | word_set("apples ways points students books pens sq square cubic")
"""Words that are a unit after a number also outside text."""

# A phrase with one of these says more than what is counted, so it is no unit.
_SAYS_MORE = word_set(
    "is are was were be not no nor isn't wrong correct incorrect and or either neither "
    "nothing about approximately around roughly nearly almost least most more less than "
    "greater fewer between to from through until if then else when where unless but maybe "
    "perhaps possibly plus minus times divided over equals equal answer solution reference "
    "gold expected true false any all none some other others except without only i we you it "
    "this that these those half twice thrice dozen hundred thousand million billion mod "
    "modulo choose factorial squared cubed otherwise alternatively instead rather actually "
    "hence thus so therefore since because sqrt root log ln sin cos tan exp pi infinity "
    "infinite infty doubled tripled halved times negative positive minus"
) | word_set(GREEK)
_NUMBER_WORDS = word_set(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty "
    "ninety tens dozens hundreds thousands millions billions trillion trillions halves thirds "
    "fourths fifths sixths sevenths eighths ninths tenths tenth hundredths hundredth thousandths "
    "thousandth score scores gross lakh lakhs crore crores bn mn tn"
)
_ROMAN = re.compile(r"[IVXLC]{2,}")
_SINGLE = frozenset("mgshlJNWVAKCFL")  # letters that are a unit in text
_NEVER = _SAYS_MORE | _NUMBER_WORDS
_LONGEST_WORDS = 6
_SHORTEST_BARE = 4


def unit_of(words: str) -> str | None:
    """The canonical form of a phrase that can be a unit, else None.

    >>> unit_of("square feet"), unit_of("km/h"), unit_of("apples"), unit_of("is wrong")
    ('ft^2', 'km/h', 'apple', None)
    """
    if any(len(part) == 1 and part not in _SINGLE for part in re.split(r"[\s/.]+", words) if part):
        return None
    if _ROMAN.search(words):
        return None
    plain = words.casefold().replace(".", "").replace("-", " ").strip()
    plain = plain.replace(" per ", "/").removeprefix("per ").replace(" / ", "/")
    parts = plain.split()
    if not parts or len(parts) > _LONGEST_WORDS or any(part in _NEVER for part in parts):
        return None
    if not all(part.replace("/", "").replace("'", "").isalpha() for part in parts):
        return None
    if parts[0] in ("square", "sq", "cubic", "cu") and len(parts) > 1:
        power = "^2" if parts[0] in ("square", "sq") else "^3"
        return "/".join(_one(part) for part in " ".join(parts[1:]).split("/")) + power
    return "/".join(" ".join(map(_one, part.split())) for part in plain.split("/"))


def multiplied(found: Node, word: str) -> Node:
    """A numeral, or an amount of money, times a power of ten in words: `2.5 million`.

    Raises:
        UnreadableError: Something else stands before the word.
    """
    if isinstance(found, Quantity):
        return Quantity(multiplied(found.value, word), found.unit)
    if not isinstance(found, Number):
        raise UnreadableError(f"{word!r} follows something that is no numeral")
    return Number(found.value * POWERS_OF_TEN[word])


def is_bare(word: str) -> bool:
    """Whether a word after a number and a blank is a unit also outside text.

    >>> is_bare("cm"), is_bare("marbles"), is_bare("abc"), is_bare("theta"), is_bare("xyzw")
    (True, True, False, False, False)
    """
    plain = word.casefold()
    if plain in BARE or plain in ("percent", "per"):
        return True
    if "".join(sorted(plain)) in "abcdefghijklmnopqrstuvwxyz" or {plain[1:], plain[:-1]} & {*NAMED}:
        return False
    worded = word.islower() and len(word) >= _SHORTEST_BARE and any(c in "aeiou" for c in word)
    return worded and not {plain, plain.removesuffix("s")} & {*_NEVER, *NAMED}


def _one(word: str) -> str:
    """A word without its plural."""
    word = word.strip()
    if word in ALIASES:
        return ALIASES[word]
    if len(word) > 3 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return ALIASES.get(word[:-1], word[:-1])
    return word


def agree(first: str, second: str) -> bool:
    """Whether two canonical units are the same, as far as they say."""
    if first == second or GENERIC in (first, second):
        return True
    bare = {first.split("^")[0], second.split("^")[0]}
    return GENERIC in bare and first.partition("^")[2] == second.partition("^")[2]

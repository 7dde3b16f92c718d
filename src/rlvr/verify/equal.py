"""Whether an answer equals the reference: exact values first, else the same text."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from rlvr.records import Score
from rlvr.verify.extract import extract
from rlvr.verify.parse import TooLargeError, clean, number_of, undefined

Number = tuple[Fraction, bool]
"""A value, and whether it had a percent sign."""


def grade(reference: str, response: str) -> Score:
    r"""Grade a whole response against a reference answer.

    Any text gives a score and a reason, in time linear in its length; nothing is evaluated. Value 1
    for correct, 0 for incorrect, None where the reference can't be read, which is our fault.

    >>> grade("1/2", r"so \boxed{0.5}").verdict, grade("0.333", r"\boxed{1/3}").verdict
    ('correct', 'incorrect')
    """
    found = extract(response)
    answer = found.answer
    if answer is None and _one_value(found.candidates):
        answer = found.candidates[-1]
    if answer is None:
        return Score(0.0, "incorrect", found.reason)
    verdict = compare(reference, answer)
    return Score(verdict.value, verdict.verdict, verdict.reason, answer)


def compare(reference: str, answer: str) -> Score:
    """Grade an answer alone, without a text around it."""
    try:
        expected, wanted = _read(reference)
    except TooLargeError as error:
        return Score(None, "could not judge", f"the reference is {error}")
    if not expected:
        return Score(None, "could not judge", "the reference is empty")
    try:
        given, value = _read(answer) if len(answer) < 64 else _read_once(answer)
    except TooLargeError as error:
        return Score(0.0, "incorrect", f"the answer is {error}")
    if wanted is None and undefined(expected):
        return Score(None, "could not judge", f"the reference {_short(expected)} is undefined")
    if given == expected:
        return Score(1.0, "correct", "same text")
    if wanted is None:
        return _words(expected, given)
    if value is None:
        return Score(0.0, "incorrect", f"{_short(given)} is no number")
    if _same_value(wanted, value):
        return Score(1.0, "correct", "same value")
    return Score(0.0, "incorrect", f"{_short(given)} is not {_short(expected)}")


def _words(expected: str, given: str) -> Score:
    """Against a reference that is no number: words are equal or not, more can't be said here."""
    if not expected.replace(" ", "").isalpha():
        return Score(None, "could not judge", f"the reference {_short(expected)} is no number")
    if len(expected) > 1 and expected.casefold() == given.casefold():
        return Score(1.0, "correct", "same words")
    return Score(0.0, "incorrect", f"{_short(given)} is not {_short(expected)}")


def _one_value(candidates: Sequence[str]) -> bool:
    """Whether there are candidates and all are one number, however written."""
    try:
        values = {_read_once(candidate)[1] for candidate in candidates}
    except TooLargeError:
        return False
    return len(values) == 1 and None not in values


def _read_once(text: str) -> tuple[str, Number | None]:
    cleaned = clean(text)
    return cleaned, number_of(cleaned)


_read = lru_cache(maxsize=4096)(_read_once)


def _same_value(reference: Number, answer: Number) -> bool:
    """Equal values; a reference in percent also takes the bare number or the equal value."""
    (wanted, in_percent), (given, percent) = reference, answer
    if in_percent:
        return given == wanted or (not percent and given * 100 == wanted)
    return given == (wanted * 100 if percent else wanted)


def _short(text: str, longest: int = 60) -> str:
    shown = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return repr(shown)

"""The verdict on an answer: what it is, whether it is right, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlvr.records import Score
from rlvr.verify.equal import Comparer, Prover, UndecidedError, no_prover
from rlvr.verify.extract import extract
from rlvr.verify.nodes import Based, Name, Negative, Node, Number, Percent, Quantity, Words
from rlvr.verify.parse import read_tokens
from rlvr.verify.scalar import Former
from rlvr.verify.terms import UndefinedError
from rlvr.verify.typography import Token, TooLargeError, UnreadableError, tokens

LONGEST_WORDS = 300
DATED = re.compile(r"\d+(?:[-:]\d+)+")  # dates, times and telephone numbers
_FORMULA = frozenset(("\\{", "\\}", "{", "}", "^", "_", "|", "=", "<", ">", "<=", ">=", "!="))
_NO_VALUE = frozenset(("nan",))


@dataclass(frozen=True, slots=True)
class Reading:
    """A text once it has been read."""

    text: str
    pieces: tuple[tuple[str, str], ...]
    """Its tokens without what only groups them: equal pieces are the same text."""
    node: Node | None
    words: str | None
    """The text as words, where it can be no more than that."""
    fault: str
    """Why there is no node; empty where there is one."""
    too_large: bool = False


def decide(
    reference: str,
    response: str,
    *,
    alternatives: Sequence[str] = (),
    lenient: bool = False,
    prove: Prover = no_prover,
) -> Score:
    r"""Grade a whole response against a reference answer.

    Any text gives a score and a reason, in bounded time; nothing is evaluated as code.

    Args:
        reference: The reference answer, as a data set writes it.
        response: The whole text of an answer.
        alternatives: Further references that are as right.
        lenient: Also take the last number of a text without any marked answer.
        prove: Decides what exact values and normal forms leave open.

    Returns:
        Value 1 for correct, 0 for incorrect. "could not judge" has value None where the reference
        or we are the cause, and 0 where the answer can't be read.

    >>> decide("1/2", r"so \boxed{0.5}").verdict, decide("0.333", r"\boxed{1/3}").verdict
    ('correct', 'incorrect')
    """
    found = extract(response, lenient=lenient)
    if found.answer is None and not found.candidates:
        return Score(0.0, "incorrect", found.reason)
    answers = [found.answer] if found.answer is not None else list(found.candidates)
    if found.answer is None and not _one_answer(answers, prove):
        return Score(0.0, "incorrect", found.reason)
    return best_of((reference, *alternatives), answers[-1], prove)


def at_once(
    reference: str, response: str, *, alternatives: Sequence[str] = (), lenient: bool = False
) -> Score | None:
    """The verdict where it takes no algebra, else None: same text, words, plain numbers."""
    found = extract(response, lenient=lenient)
    if found.answer is None:
        return None if found.candidates else Score(0.0, "incorrect", found.reason)
    given = _read(found.answer) if len(found.answer) < 200 else _read_once(found.answer)
    for expected in map(_read, (reference, *alternatives)):
        same = expected.pieces == given.pieces
        if not (same or _is_plain(expected.node)) or not (same or _is_plain(given.node)):
            return None
    return best_of((reference, *alternatives), found.answer)


def _is_plain(node: Node | None) -> bool:
    while isinstance(node, Negative | Percent | Quantity):
        node = node.operand if isinstance(node, Negative) else node.value
    return node is None or isinstance(node, Number | Words | Name | Based)


def best_of(references: Sequence[str], answer: str, prove: Prover = no_prover) -> Score:
    """The verdict against the reference that the answer fits best."""
    scores = [compare(reference, answer, prove) for reference in references]
    for verdict in ("correct", "could not judge"):
        for score in scores:
            if score.verdict == verdict:
                return score
    return scores[0]


def compare(reference: str, answer: str, prove: Prover = no_prover) -> Score:
    """Grade an answer alone, without a text around it."""
    expected = _read(reference)
    given = _read(answer) if len(answer) < 200 else _read_once(answer)
    verdict, value, reason = _judge(expected, given, prove)
    return Score(value, verdict, reason, answer)  # type: ignore[arg-type]


def _judge(expected: Reading, given: Reading, prove: Prover) -> tuple[str, float | None, str]:
    if not expected.pieces:
        return "could not judge", None, f"the reference {_short(expected)} is empty or unreadable"
    if expected.words in _NO_VALUE or _undefined(expected):
        return "could not judge", None, f"the reference {_short(expected)} has no value"
    if given.pieces == expected.pieces:
        return "correct", 1.0, "same text"
    if not given.pieces:
        return "could not judge", 0.0, given.fault or "the answer is empty"
    if expected.node is None or DATED.fullmatch(expected.words or ""):
        return _as_words(expected, given)
    if given.node is None:
        if expected.words is not None and expected.words == given.words:
            return "correct", 1.0, "same words"
        return "could not judge", 0.0, f"the answer {_short(given)} can't be read: {given.fault}"
    return _by_meaning(expected, given, prove)


def _by_meaning(expected: Reading, given: Reading, prove: Prover) -> tuple[str, float | None, str]:
    assert expected.node is not None
    assert given.node is not None
    shown = f"{_short(given)} is not {_short(expected)}"
    try:
        same = Comparer(prove).equal(expected.node, given.node)
        if same:
            return "correct", 1.0, "same meaning"
        if ":" not in (expected.words or ""):  # `12:30 pm` is text, `12:30` a ratio
            return "incorrect", 0.0, shown
    except UndefinedError as error:
        return "incorrect", 0.0, f"{_short(given)} has no value: {error}"
    except TooLargeError as error:
        return "could not judge", 0.0, f"{_short(given)}: {error}"
    except UnreadableError:
        pass
    except UndecidedError as error:
        return "could not judge", None, f"{_short(given)} against {_short(expected)}: {error}"
    except RecursionError:
        return "could not judge", 0.0, f"{_short(given)} is nested too deeply"
    if expected.words is not None and expected.words == given.words:
        return "correct", 1.0, "same words"
    return "incorrect", 0.0, shown


def _as_words(expected: Reading, given: Reading) -> tuple[str, float | None, str]:
    """Against a reference that is no mathematics: words are equal or not."""
    if expected.words is None:
        return "could not judge", None, f"the reference {_short(expected)}: {expected.fault}"
    if expected.words == given.words:
        return "correct", 1.0, "same words"
    return "incorrect", 0.0, f"{_short(given)} is not {_short(expected)}"


def readable(reference: str) -> str:
    """Why a reference can't be graded against; empty where it can."""
    found = _read(reference)
    if not found.pieces:
        return "it is empty"
    if found.words in _NO_VALUE or _undefined(found):
        return "it has no value"
    return found.fault if found.node is None and found.words is None else ""


def _one_answer(candidates: Sequence[str], prove: Prover) -> bool:
    """Whether all candidates mean the same."""
    last = candidates[-1]
    return all(compare(last, one, prove).verdict == "correct" for one in candidates[:-1])


def _read_once(text: str) -> Reading:
    try:
        several = tokens(text)
    except (TooLargeError, UnreadableError) as error:
        too_large = isinstance(error, TooLargeError)
        return Reading(text, _whole(text) if too_large else (), None, None, str(error), too_large)
    pieces, words = tuple((t.kind, t.text) for t in several), _words(several)
    try:
        node = read_tokens(several)
    except (TooLargeError, UnreadableError) as error:
        return Reading(text, pieces, None, words, str(error), isinstance(error, TooLargeError))
    except RecursionError:
        return Reading(text, pieces, None, words, "nested too deeply", True)
    return Reading(text, pieces, node, words, "")


_read = lru_cache(maxsize=8192)(_read_once)


def _whole(text: str) -> tuple[tuple[str, str], ...]:
    """A text that is too long to be taken apart, as one piece."""
    plain = "".join(text.split())
    return (("whole", plain),) if plain else ()


def _words(several: Sequence[Token]) -> str | None:
    """Tokens as plain words: where there is text, a word of several letters, or a date or time."""
    found, worded = "", False
    for token in several:
        if token.kind in ("macro", "end") or (token.kind == "sign" and token.text in _FORMULA):
            return None
        worded |= token.kind in ("word", "text")
        between = token.blank and token.kind == "number" and found[-1:].isdigit()
        found += (" " if between else "") + token.text
    plain = found.casefold().rstrip(".,;")
    plain = "".join(plain.split()) if worded else plain
    if plain.startswith("(") and plain.endswith(")") and len(plain) == 3:
        plain = plain[1:-1]
    if not plain or len(plain) > LONGEST_WORDS or not (worded or DATED.fullmatch(plain)):
        return None
    return plain


def _undefined(found: Reading) -> bool:
    """Whether a reading has no value, such as 1/0; costs nothing where no zero is divided by."""
    if found.node is None or not any(
        "0" in text for kind, text in found.pieces if kind == "number"
    ):
        return False
    if not any(text in ("/", "frac", "^") for _, text in found.pieces):
        return False
    try:
        Former().form(found.node)
    except UndefinedError:
        return True
    except (TooLargeError, UnreadableError, RecursionError):
        pass
    return False


def _short(found: Reading, longest: int = 60) -> str:
    text = " ".join(found.text[:200].split())
    return repr(text if len(text) <= longest else f"{text[: longest - 3]}...")

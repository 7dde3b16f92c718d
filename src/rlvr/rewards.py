"""Rewards: correctness, format behind one of three gates, and parts that are added to them.

Model text is hostile input: every function here is total, gives a number, and evaluates nothing.
What needs the other answers of a group, or a function of yours, comes after: see `scoring`.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rlvr.errors import UsageError
from rlvr.judging import judge
from rlvr.length import SLOPED, TARGETED, LengthReward
from rlvr.records import CLOSE, OPEN, Problem, Score, response
from rlvr.verify.own import LARGEST

Gate = Literal["additive", "if_correct", "first"]
Script = Literal["latin", "cyrillic", "chinese", "japanese", "korean"]

RAMP_SHARE = 0.2  # of the answer limit: where DAPO's slope begins (4,096 of 20,480)
FORMULAS = ("LATIN", "GREEK", "MODIFIER")  # what formulas hold, whatever the language
SCRIPTS: dict[Script, tuple[str, ...]] = {
    "latin": FORMULAS,
    "cyrillic": (*FORMULAS, "CYRILLIC"),
    "chinese": (*FORMULAS, "CJK", "IDEOGRAPHIC"),
    "japanese": (*FORMULAS, "CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"),
    "korean": (*FORMULAS, "HANGUL", "CJK"),
}
"""First words of the Unicode names of a language's letters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """What an answer is rewarded for."""

    correctness: float = 1.0
    """Weight of a right answer."""
    lenient: bool = False
    """Whether the last number of a text without a marked answer counts as its answer."""
    format: float = 0.0
    """Weight of the form: exactly one whole thought before the answer."""
    format_gate: Gate = "if_correct"
    """`additive`, `if_correct` (form pays for right answers only), `first` (nothing without it)."""
    random: float = 0.0
    """Weight of a coin toss that does not look at the answer: a control."""
    repetition: float = 0.0
    """Weight of a penalty for words that repeat: the share of n-grams that occurred before."""
    repetition_ngram: int = 3
    """Words in an n-gram of the repetition penalty."""
    language: float = 0.0
    """Weight of keeping to one script: 1, less 0.005 for each letter of another, 0 at least."""
    language_script: Script = "latin"
    """Script of the language that is wanted; Latin and Greek are always allowed, for formulas."""
    length: LengthReward = "none"
    """What an answer's length adds, by the name of its formula; docs/rewards.md has them all."""
    length_weight: float = 1.0
    """Weight of what the length adds; 1 is the paper's."""
    length_target: int = 0
    """Tokens that an answer should have, for `laser`, `l1_exact` and `l1_max`."""
    length_slope: float = 0.0003
    """Reward per token away from the target, for `l1_exact` and `l1_max`."""
    function: str = ""
    """Your own: `module:function` or `path/to/file.py:function`, of a problem and a text."""
    function_weight: float = 1.0
    """Weight of what your function returns; 0 only logs it."""
    function_deadline_seconds: float = 5.0
    """Longest that your function may take for one answer; past it the answer gets 0 from it."""
    function_workers: int = 2
    """Processes that your function runs in."""
    function_memory_mib: int = 1024
    """Address space of each of them, in MiB."""
    function_failures_most: float = 0.5
    """Share of a step's answers that your function may fail on before the run stops."""

    def __post_init__(self) -> None:
        for problem in (*_out_of_range(self), *_contradictions(self)):
            raise UsageError(problem)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each part by its name, in the order in which they are added."""
        return {
            "correctness": self.correctness,
            "format": self.format,
            "random": self.random,
            "overlong": 1.0,
            "repetition": self.repetition,
            "language": self.language,
            "length": self.length_weight if self.length != "none" else 0.0,
            "function": self.function_weight if self.function else 0.0,
        }

    @property
    def needs_verdict(self) -> bool:
        """Whether an answer that can't be judged has no reward at all."""
        return self.correctness > 0 or self.weights["length"] > 0

    def doubts(self) -> list[str]:
        """Settings that were given and that nothing reads, in words."""
        plain = Reward()
        idle = {
            "repetition_ngram": self.repetition == 0 and "reward.repetition is 0",
            "language_script": self.language == 0 and "reward.language is 0",
            "length_weight": self.length == "none" and "reward.length is none",
            "length_target": self.length not in TARGETED and f"reward.length is {self.length}",
            "length_slope": self.length not in SLOPED and f"reward.length is {self.length}",
            **{
                f"function_{name}": not self.function and "there is no reward.function"
                for name in ("weight", "deadline_seconds", "workers", "memory_mib", "failures_most")
            },
        }
        return [
            f"reward.{name} has no part in it: {why}"
            for name, why in idle.items()
            if why and getattr(self, name) != getattr(plain, name)
        ]


WEIGHTS = (
    "correctness", "format", "random", "repetition", "language", "length_weight", "function_weight",
)  # fmt: skip


def _out_of_range(row: Reward) -> Iterator[str]:
    for name in WEIGHTS:
        value = getattr(row, name)
        if not 0 <= value <= LARGEST:
            yield f"reward.{name} is {value}. Use 0 or more, up to {LARGEST:,.0f}, such as 1."
    for name in ("length_slope", "function_deadline_seconds"):
        value = getattr(row, name)
        if not 0 < value <= LARGEST:
            given = f"reward.{name} is {value}"
            example = getattr(Reward(), name)
            yield f"{given}. Use more than 0, up to {LARGEST:,.0f}, such as {example}."
    for name in ("repetition_ngram", "function_workers", "function_memory_mib"):
        if getattr(row, name) < 1:
            given = f"reward.{name} is {getattr(row, name)}"
            yield f"{given}. Use 1 or more, such as {getattr(Reward(), name)}."
    if row.length_target < 0:
        yield f"reward.length_target is {row.length_target}. Use a number of tokens above 0."
    if not 0 <= row.function_failures_most <= 1:
        given = f"reward.function_failures_most is {row.function_failures_most}"
        yield f"{given}; it is a share. Use 0 to 1, such as 0.5."


def _contradictions(row: Reward) -> Iterator[str]:
    if row.format_gate == "first" and row.format >= 1:
        yield (
            f"reward.format is {row.format}, and the gate `first` pays w + (1 - w) c: from 1 "
            "on a right answer gains nothing over a wrong one. Use less than 1, such as 0.1."
        )
    if row.length in TARGETED and row.length_target == 0:
        yield (
            f"reward.length is {row.length}, which aims at a length, and reward.length_target is "
            "0. Set --reward.length-target 256, say, or --reward.length kimi, which needs none."
        )
    place, _, function = row.function.rpartition(":")
    named = place.endswith(".py") or all(part.isidentifier() for part in place.split("."))
    if row.function and not (named and function.isidentifier()):
        yield (
            f"reward.function is {row.function!r}. Give module:function, or "
            "path/to/file.py:function."
        )
    pays_form = row.format > 0 and row.format_gate != "if_correct"
    others = [w for name, w in row.weights.items() if name not in ("format", "overlong")]
    if not any(others) and not pays_form:
        yield (
            "every reward would be 0: reward.correctness is 0 and the format pays nothing. "
            "Set reward.correctness to 1."
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What the parts of a reward look at."""

    problem: Problem
    text: str
    """As decoded, special tokens kept."""
    tokens: int
    """Its length, the end token included."""
    finished: bool
    """False where the length limit cut it."""
    limit: int
    """Longest answer in tokens."""
    prompt: str = ""
    """As the model read it, special tokens kept."""
    coin: float = 0.0
    """0 or 1 by chance."""
    opened: bool = False
    """Whether the prompt had opened the thought that it begins in."""


def form(answer: Answer) -> float:
    """1 for exactly one whole thought before the answer; an answer that was cut has none."""
    return well_formed(answer.text, opened=answer.opened) if answer.finished else 0.0


def well_formed(text: str, *, opened: bool = False) -> float:
    r"""1 where there is exactly one thought, whole, with the answer behind it; else 0.

    Args:
        text: The answer as decoded, special tokens kept.
        opened: True where the prompt had opened the thought.

    >>> [well_formed(t) for t in ("<think>1</think>2", "2", "<think>1</think>", "</think><think>2")]
    [1.0, 0.0, 0.0, 0.0]
    """
    text = response(text, opened=opened)
    if text.count(OPEN) != 1 or text.count(CLOSE) != 1:
        return 0.0
    before, _, rest = text.partition(OPEN)
    _, closed, answer = rest.partition(CLOSE)
    return float(bool(closed) and not before.strip() and bool(answer.strip()))


def additive(correct: float, form: float, weight: float) -> float:
    """`c + w f`: learns form quickly, and then pays for empty form."""
    return correct + weight * form


def if_correct(correct: float, form: float, weight: float) -> float:
    """`c (1 + w f)`: no reward for form without a right answer."""
    return correct * (1 + weight * form)


def first(correct: float, form: float, weight: float) -> float:
    """0 without form, else `w + (1 - w) c`. Source: Magistral, arXiv:2506.10910, section 2.2."""
    return weight + (1 - weight) * correct if form else 0.0


GATES: dict[Gate, Callable[[float, float, float], float]] = {
    "additive": additive,
    "if_correct": if_correct,
    "first": first,
}


def overlong_penalty(tokens: int, *, limit: int, ramp: int) -> float:
    """Soft penalty for an answer that nears its token limit.

    Args:
        tokens: Length of the answer in tokens, without the prompt.
        limit: Length from which the penalty is full, in tokens (the paper's L_max).
        ramp: Width of the slope before the limit, in tokens, at least 1 (L_cache).

    Returns:
        A number in [-1, 0] to add to the reward: 0 up to ``limit - ramp``, then a line to -1.

    Source: DAPO, arXiv:2503.14476, Eq. 13. Differs: nothing.

    >>> [overlong_penalty(n, limit=100, ramp=20) for n in (80, 90, 100, 101)]
    [0.0, -0.5, -1.0, -1.0]
    """
    return max(-1.0, min(0.0, (limit - ramp - tokens) / ramp))


def repeated(words: Sequence[str], ngram: int) -> float:
    """Share of the n-grams of words that occurred before; 0 where there is none.

    Source: repetition penalty of arXiv:2502.03373 in the form of Open-R1. Differs: nothing.

    >>> repeated("a b c a b c a b c d".split(), 3), repeated(["short"], 3)
    (0.5, 0.0)
    """
    if ngram > len(words):
        return 0.0
    grams = list(zip(*(words[start:] for start in range(ngram)), strict=False))
    return 1 - len(set(grams)) / len(grams)


def foreign_letters(text: str, script: Script) -> int:
    """Letters of another script, after compatibility forms are made plain.

    >>> foreign_letters("so \u03c0 r\u00b2, \u6240\u4ee5", "latin")
    2
    """
    if text.isascii():
        return 0
    known = SCRIPTS[script]
    letters = (letter for letter in unicodedata.normalize("NFKC", text) if letter.isalpha())
    names = (unicodedata.name(letter, "") for letter in letters if not letter.isascii())
    return sum(name.partition(" ")[0] not in known for name in names)


def one_language(foreign: int, *, slope: float = 0.005) -> float:
    """1 without foreign letters, on a line to 0.

    Source: MAI-Thinking-1 report (June 2026), which weighs it 0.5. Differs: the report does not
        say what it counts; here letters of another script.
    """
    return max(0.0, 1 - slope * foreign)


REWARDS: dict[str, Callable[[Answer, Reward], float]] = {
    "format": lambda answer, settings: form(answer),
    "random": lambda answer, settings: answer.coin,
    "overlong": lambda answer, settings: overlong_penalty(
        answer.tokens, limit=answer.limit, ramp=max(1, round(RAMP_SHARE * answer.limit))
    ),
    "repetition": lambda answer, settings: (
        -repeated(answer.text.lower().split(), settings.repetition_ngram)
    ),
    "language": lambda answer, settings: one_language(
        foreign_letters(answer.text, settings.language_script)
    ),
}
"""Parts of the reward of one answer by itself, beside correctness."""


def total(parts: Mapping[str, float], settings: Reward) -> float:
    """The reward that parts come to: correctness and format by the gate, the others added."""
    value = settings.correctness * parts.get("correctness", 0.0)
    if settings.format > 0:
        value = GATES[settings.format_gate](value, parts["format"], settings.format)
    for name, weight in settings.weights.items():
        if name in parts and name not in ("correctness", "format"):
            value += weight * parts[name]
    return value


def reward(
    answer: Answer,
    settings: Reward,
    *,
    overlong: Literal["zero", "soft", "mask"] = "zero",
    judged: Score | None = None,
) -> Score:
    """The reward of one answer by itself, with its parts unweighted.

    The form is also measured where it pays nothing, if the prompt speaks of think tags.

    Args:
        answer: What to reward; one that the limit cut is not correct.
        settings: Weights and gate.
        overlong: `soft` also takes away up to 1 near the limit.
        judged: Whether it is right, where that is known already.
    """
    text = response(answer.text, opened=answer.opened)
    score = judged or judge(answer.problem, text, lenient=settings.lenient)
    if not answer.finished:
        score = Score(0.0, "incorrect", "cut by the length limit", score.answer)
    if score.value is None and settings.needs_verdict:
        return score
    parts = {} if score.value is None else {"correctness": score.value}
    for name, part in REWARDS.items():
        weight = settings.weights[name] if name != "overlong" else float(overlong == "soft")
        if weight > 0 or (name == "format" and OPEN in answer.prompt):
            parts[name] = part(answer, settings)
    return Score(total(parts, settings), score.verdict, score.reason, score.answer, parts)

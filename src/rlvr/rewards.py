"""Rewards: correctness, format behind one of three gates, a soft penalty for long answers.

Model text is hostile input: every function here is total, gives a reason, and evaluates nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rlvr.errors import UsageError
from rlvr.records import Problem, Score
from rlvr.verify import grade

Gate = Literal["additive", "if_correct", "first"]

OPEN, CLOSE = "<think>", "</think>"
RAMP_SHARE = 0.2  # of the answer limit: where DAPO's slope begins (4,096 of 20,480)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """What an answer is rewarded for."""

    correctness: float = 1.0
    """Weight of a right answer."""
    format: float = 0.0
    """Weight of the form: exactly one whole thought before the answer."""
    format_gate: Gate = "if_correct"
    """`additive`, `if_correct` (form pays for right answers only), `first` (nothing without it)."""
    random: float = 0.0
    """Weight of a coin toss that does not look at the answer: a control."""

    def __post_init__(self) -> None:
        for name in ("correctness", "format", "random"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"reward.{name} is {value}. Use 0 or more, such as 1.")
        if self.format_gate == "first" and self.format >= 1:
            raise UsageError(
                f"reward.format is {self.format}, and the gate `first` pays w + (1 - w) c: from 1 "
                "on a right answer gains nothing over a wrong one. Use less than 1, such as 0.1."
            )
        pays_form = self.format > 0 and self.format_gate != "if_correct"
        if self.correctness == 0 and self.random == 0 and not pays_form:
            raise UsageError(
                "every reward would be 0: reward.correctness is 0 and the format pays nothing. "
                "Set reward.correctness to 1."
            )

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each part by its name, for objectives that combine parts themselves."""
        return {
            "correctness": self.correctness,
            "format": self.format,
            "random": self.random,
            "overlong": 1.0,
        }


def correctness(problem: Problem, text: str) -> Score:
    """1 for an answer equal to the reference, 0 for another, none where we could not judge."""
    return grade(problem.answer, text)


def well_formed(text: str, *, opened: bool = False) -> float:
    r"""1 where there is exactly one thought, whole, with the answer behind it; else 0.

    Args:
        text: The answer as decoded, special tokens kept.
        opened: True where the prompt already ends with the opening tag.

    >>> [well_formed(t) for t in ("<think>1</think>2", "2", "<think>1</think>", "</think><think>2")]
    [1.0, 0.0, 0.0, 0.0]
    """
    if opened:
        text = OPEN + text
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


def reward(
    problem: Problem,
    text: str,
    settings: Reward,
    *,
    tokens: int,
    finished: bool,
    limit: int,
    overlong: Literal["zero", "soft", "mask"] = "zero",
    coin: float = 0.0,
) -> Score:
    """The reward of one answer, with its parts unweighted.

    Args:
        problem: With the reference answer.
        text: The answer as decoded, special tokens kept.
        settings: Weights and gate.
        tokens: Length of the answer in tokens.
        finished: False where the length limit cut it: it is then not correct.
        limit: Longest answer in tokens.
        overlong: `soft` also takes away up to 1 near the limit.
        coin: 0 or 1 by chance, where `settings.random` pays for it.
    """
    score = correctness(problem, text)
    if not finished:
        score = Score(0.0, "incorrect", "cut by the length limit", score.answer)
    if score.value is None:
        return score
    parts = {"correctness": score.value}
    value = settings.correctness * score.value
    if settings.format > 0:
        parts["format"] = well_formed(text) if finished else 0.0
        value = GATES[settings.format_gate](value, parts["format"], settings.format)
    if settings.random > 0:
        parts["random"] = coin
        value += settings.random * coin
    if overlong == "soft":
        parts["overlong"] = overlong_penalty(
            tokens, limit=limit, ramp=max(1, round(RAMP_SHARE * limit))
        )
        value += parts["overlong"]
    return Score(value, score.verdict, score.reason, score.answer, parts)

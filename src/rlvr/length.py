"""Length rewards: what an answer's length adds to its reward, beside the others of its group.

Every row of `LENGTHS` gives terms to add to a reward of 1 for a right answer and 0 for a wrong one.
Where a paper's formula holds the reward for being right too, that reward has been taken off.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

LengthReward = Literal[
    "none", "kimi", "laser", "l1_exact", "l1_max", "lead", "mai", "cosine"
]  # fmt: skip
TARGETED: tuple[LengthReward, ...] = ("laser", "l1_exact", "l1_max")
"""Those that read a target."""
SLOPED: tuple[LengthReward, ...] = ("l1_exact", "l1_max")
"""Those that read a slope."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The answers of one group, as length rewards see them."""

    tokens: Sequence[float]
    """Length of each answer in tokens, without the prompt."""
    correct: Sequence[float]
    """1 where the answer is right, else 0."""
    limit: float
    """Longest answer in tokens."""
    target: float = 0.0
    """Length that is asked for, in tokens."""
    slope: float = 0.0003
    """Reward per token away from the target."""

    def __post_init__(self) -> None:
        assert len(self.tokens) == len(self.correct), "one length for each answer"

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Length and correctness of each answer."""
        return list(zip(self.tokens, self.correct, strict=True))


def kimi(group: Lengths) -> list[float]:
    """A line from 0.5 for the group's shortest answer to -0.5 for its longest.

    A wrong answer gets no more than 0. Where all are equally long, all get 0.

    Source: Kimi k1.5, arXiv:2501.12599, section 2.3.3. Differs: nothing.

    >>> kimi(Lengths([100, 200, 300], [1, 0, 1], limit=300))
    [0.5, 0.0, -0.5]
    """
    if not group.tokens:
        return []
    shortest, longest = min(group.tokens), max(group.tokens)
    if shortest == longest:
        return [0.0] * len(group.tokens)
    found = []
    for tokens, correct in group.pairs:
        value = 0.5 - (tokens - shortest) / (longest - shortest)
        found.append(value if correct else min(0.0, value))
    return found


def laser(group: Lengths, *, bonus: float = 0.5) -> list[float]:
    """A bonus for right answers of at most the target's length.

    Source: LASER, arXiv:2505.15612. Differs: the target does not adapt to difficulty.
    """
    return [bonus * c * (n <= group.target) for n, c in group.pairs]


def l1_exact(group: Lengths) -> list[float]:
    """Minus the slope for each token away from the target, right or wrong.

    Source: L1, arXiv:2503.04697, eq. 1. Differs: one target for all problems, which the prompt
        does not tell.
    """
    return [-group.slope * abs(group.target - n) for n in group.tokens]


def l1_max(group: Lengths) -> list[float]:
    """A right answer's reward times a line that is 0.5 at the target, cut to between 0 and 1.

    Source: L1, arXiv:2503.04697, eq. 2. Differs: as `l1_exact`.
    """
    shares = [min(1.0, max(0.0, group.slope * (group.target - n) + 0.5)) for n in group.tokens]
    return [c * share - c for share, (_, c) in zip(shares, group.pairs, strict=True)]


def lead(group: Lengths, *, alpha: float = 0.05, eps: float = 1e-6) -> list[float]:
    """A right answer's reward becomes exp(-alpha z), z its length among the group's right ones.

    Source: GRPO-LEAD, arXiv:2504.09696. Differs: a lone right answer keeps its reward.
    """
    of_correct = [n for n, c in group.pairs if c]
    if len(of_correct) < 2:
        return [0.0] * len(group.tokens)
    mean, deviation = statistics.fmean(of_correct), statistics.stdev(of_correct)
    return [
        math.exp(-alpha * (n - mean) / (deviation + eps)) - 1.0 if c else 0.0
        for n, c in group.pairs
    ]


def mai(group: Lengths, *, weight: float = 0.25) -> list[float]:
    """Minus a share of the length, times how much of the group is right: easy problems pay more.

    Source: MAI-Thinking-1 report (June 2026). Differs: nothing.
    """
    if not group.tokens:
        return []
    solved = statistics.fmean(group.correct)
    return [-weight * solved * n / group.limit for n in group.tokens]


def cosine(group: Lengths) -> list[float]:
    """Half a cosine over the length: right 1 to 0.5, wrong -1 to -0.5.

    Source: arXiv:2502.03373, with the ends of Open-R1. Differs: an answer cut by the limit is a
        wrong one of full length.
    """
    found = []
    for tokens, correct in group.pairs:
        first, last = (1.0, 0.5) if correct else (-1.0, -0.5)
        at = 0.5 * (1 + math.cos(math.pi * min(1.0, tokens / group.limit)))
        found.append(last + (first - last) * at - correct)
    return found


LENGTHS: dict[LengthReward, Callable[[Lengths], list[float]]] = {
    "kimi": kimi,
    "laser": laser,
    "l1_exact": l1_exact,
    "l1_max": l1_max,
    "lead": lead,
    "mai": mai,
    "cosine": cosine,
}

"""Intervals for accuracies, pass@k without bias, and percentiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

NORMAL_95 = 1.96
"""Standard errors from the middle to either end of a 95% interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the ends of its interval."""

    estimate: float
    low: float
    high: float


def wilson(correct: int, n: int, z: float = NORMAL_95) -> tuple[float, float]:
    """Interval of a share, sound also for few answers and near 0 or 1.

    Args:
        correct: Successes, 0 to `n`.
        n: Trials; with none, everything is possible.
        z: Standard errors to either side, above 0.

    Returns:
        Low and high end, both in [0, 1].

    Source: Wilson, 1927 (score interval). Differs: nothing.

    >>> [round(end, 3) for end in wilson(0, 20)]
    [0.0, 0.161]
    >>> wilson(0, 0)
    (0.0, 1.0)
    """
    assert 0 <= correct <= n, f"{correct} successes in {n} trials"
    if n == 0:
        return 0.0, 1.0
    share, spread = correct / n, z * z / n
    middle = share + spread / 2
    reach = math.sqrt(spread * (share * (1 - share) + spread / 4))
    low = 0.0 if correct == 0 else (middle - reach) / (1 + spread)
    high = 1.0 if correct == n else (middle + reach) / (1 + spread)
    return low, high


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Chance that k of the n sampled answers, drawn without putting back, hold a correct one.

    Args:
        n: Answers sampled for the problem, at least `k`.
        correct: How many of them are correct, 0 to `n`.
        k: Answers drawn, at least 1.

    Source: Chen et al., arXiv:2107.03374, Eq. 1. Differs: nothing.

    >>> pass_at_k(8, 2, 1), pass_at_k(8, 6, 4)
    (0.25, 1.0)
    """
    assert 1 <= k <= n, f"pass@{k} needs at least {k} answers, not {n}"
    assert 0 <= correct <= n, f"{correct} correct of {n}"
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def mean_interval(values: Sequence[float], z: float = NORMAL_95) -> Interval:
    """Mean of one value per problem, with a normal interval cut to [0, 1].

    The problems are what is sampled: several answers to one problem are no independent trials.

    Args:
        values: Shares or pass@k, one for each problem, in [0, 1]; at least one.
        z: Standard errors to either side.

    Source: Miller, arXiv:2411.00640, section 2. Differs: cut to [0, 1]; for a lone problem the
        interval is everything.
    """
    assert values, "an interval needs at least one problem"
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, 0.0, 1.0)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    reach = z * math.sqrt(variance / count)
    return Interval(mean, max(0.0, mean - reach), min(1.0, mean + reach))


def pass_at_k_interval(
    correct: Sequence[int], samples: int, k: int, z: float = NORMAL_95
) -> Interval:
    """Mean pass@k over problems, each with `samples` answers, `correct` of them right."""
    return mean_interval([pass_at_k(samples, count, k) for count in correct], z)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value at a share of the way through the sorted values, on a line between neighbours.

    >>> percentile([4, 1, 2, 3], 0.5), percentile([], 0.5)
    (2.5, None)
    """
    if not values:
        return None
    ordered = torch.tensor(values, dtype=torch.float64).sort().values
    place = share * (len(values) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low.lerp(high, place % 1).item()

"""Selection: which groups, answers and tokens the policy loss sees.

Groups that are left out leave the divisors. Tokens that are left out stay in them (their loss is
0), but for answers cut by the length limit, which leave them where the variant says `mask`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlvr.objective.surrogates import Advantages, Mask, PerToken


def still_hard(pass_rate: float | None, most: float) -> bool:
    """False once a problem's answers were right as often as `most`: it is not drawn again.

    Source: no-positive-resampling, ScaleRL, arXiv:2510.13786. None stands for never seen.
    """
    return pass_rate is None or pass_rate < most


def finished_only(finished: Bool[Tensor, " B"], mask: Mask) -> Mask:
    """The mask without the answers that the length limit cut.

    An answer of exactly the limit that ends itself is finished. Source: overlong filtering, DAPO,
    arXiv:2503.14476, section 3.4.
    """
    return mask & finished[:, None]


def top_entropy(entropies: PerToken, mask: Mask, *, share: float = 0.2) -> Mask:
    """The tokens where the policy was least sure: entropy at or above the quantile `1 - share`.

    Source: arXiv:2506.01939; the quantile is over all masked tokens, with linear interpolation.
    """
    if not bool(mask.any()):
        return mask
    ordered = entropies[mask].double().sort().values
    place = (1 - share) * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    threshold = ordered[below] + (place - below) * (ordered[above] - ordered[below])
    return mask & (entropies.double() >= threshold - 1e-12)


def covariance(
    logprobs: Float[Tensor, " N"], advantages: Float[Tensor, " N"]
) -> Float[Tensor, " N"]:
    """`(A - mean A) (log p - mean log p)` of each token: what drives entropy down.

    Source: arXiv:2505.22617, eq. 10.
    """
    return (advantages - advantages.mean()) * (logprobs - logprobs.mean())


def _covariance_of_rows(logprobs: PerToken, advantages: Advantages, mask: Mask) -> PerToken:
    spread = torch.zeros_like(logprobs)
    if bool(mask.any()):
        values = covariance(logprobs[mask], advantages.expand(mask.shape)[mask])
        spread = spread.masked_scatter(mask, values)
    return spread


def clip_cov(
    logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    chance: PerToken,
    *,
    share: float = 2e-4,
    low: float = 1.0,
    high: float = 5.0,
) -> Mask:
    """The mask without a random few of the tokens whose covariance lies between the bounds.

    Args:
        logprobs: Of the tokens at the start of the update.
        advantages: One per rollout, or per token.
        mask: True where a token trains.
        chance: A number in [0, 1) per token: the lowest of the candidates are dropped.
        share: Of all masked tokens, how many are dropped, at least one where there is a candidate.
        low: Bounds of the covariance of a candidate, exclusive.
        high: See `low`.

    Source: Clip-Cov, arXiv:2505.22617, eq. 11.
    """
    found = _covariance_of_rows(logprobs, advantages, mask)
    candidate = mask & (low < found) & (found < high)
    count = min(max(1, int(share * int(mask.sum()))), int(candidate.sum()))
    if not count:
        return mask
    last = chance[candidate].kthvalue(count).values
    return mask & ~(candidate & (chance <= last))


def top_cov(logprobs: PerToken, advantages: Advantages, mask: Mask, *, share: float = 2e-3) -> Mask:
    """The tokens of the highest covariance, at least one: those that KL-Cov holds back.

    Source: KL-Cov, arXiv:2505.22617, eq. 12 and 13.
    """
    if not bool(mask.any()):
        return mask
    found = _covariance_of_rows(logprobs, advantages, mask)
    count = max(1, int(share * int(mask.sum())))
    least = found[mask].topk(count).values[-1]
    return mask & (found >= least)

"""Correction between sampler and learner: importance weights, masks, and how far apart they are.

The ratio is `exp(old_logprobs - sampler_logprobs)`: 1 where the learner's model sampled the answer
just now, off it where another engine did, or weights that have moved since. Masked tokens and
answers stay in every divisor: their loss is 0, their weight is spent.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlvr.objective.surrogates import FARTHEST, LEVELS, Advantages, Mask, PerToken, keep

Kept = Bool[Tensor, "B #T"]


def importance_ratio(
    old_logprobs: PerToken, sampler_logprobs: PerToken, mask: Mask, *, level: str = "token"
) -> PerToken:
    """Learner's probability over the sampler's, a constant for the gradient; 1 off the mask.

    Args:
        old_logprobs: Of the learner at the start of the update.
        sampler_logprobs: As the sampler recorded them.
        mask: True where a token trains.
        level: `token`; `sequence` for the geometric mean of the answer, `answer` for the product,
            which drifts with length.
    """
    log_ratio = LEVELS[level](keep(mask, old_logprobs - sampler_logprobs), mask)
    return keep(mask, log_ratio.clamp(-FARTHEST, FARTHEST)).exp().detach()


def truncated(ratio: PerToken, low: float, high: float) -> PerToken:
    """The ratio, at most `high`. Source: Yao et al. 2025; Olmo 3, arXiv:2512.13961, eq. 1."""
    return ratio.clamp(max=high)


def masked(ratio: PerToken, low: float, high: float) -> PerToken:
    """The ratio, 0 above `high`. Source: masked importance sampling, Liu et al. 2025."""
    return ratio * (ratio <= high)


def band(ratio: PerToken, low: float, high: float) -> PerToken:
    """The ratio, 0 outside `low` to `high`. Source: IcePop, arXiv:2510.18855."""
    return ratio * ((low <= ratio) & (ratio <= high))


def keep_band(ratio: PerToken, low: float, high: float) -> PerToken:
    """1 within `low` to `high`, else 0: answers are kept or rejected, never weighted."""
    return ((low <= ratio) & (ratio <= high)).to(ratio.dtype)


CORRECTIONS = {
    "truncated": truncated,
    "masked": masked,
    "band": band,
    "keep_band": keep_band,
}


def off_policy_keep(
    logprobs: PerToken,
    sampler_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    farthest: float,
) -> Kept:
    """False for answers with a negative advantage that the policy has moved far away from.

    Args:
        logprobs: Of the policy now.
        sampler_logprobs: As the sampler recorded them.
        advantages: One per rollout, or per token.
        mask: True where a token trains.
        farthest: Mean of `sampler - now` over the answer, nats per token, that is still kept.

    Source: off-policy sequence masking, DeepSeek-V3.2, arXiv:2512.02556, section 3.1.
    """
    tokens = mask.sum(dim=1, keepdim=True).clamp(min=1)
    away = keep(mask, sampler_logprobs - logprobs.detach()).sum(dim=1, keepdim=True) / tokens
    return (advantages >= 0) | (away <= farthest)


def mismatch(
    old_logprobs: Float[Tensor, " N"], sampler_logprobs: Float[Tensor, " N"]
) -> dict[str, float | None]:
    """How far the learner's probabilities of the sampled tokens are from the sampler's.

    Definitions: docs of the metrics `mismatch/*`. None where they are not defined.
    """
    if not len(old_logprobs):
        return {}
    old, sampler = old_logprobs.double(), sampler_logprobs.double()
    d = (old - sampler).clamp(-20, 20)
    rho, gap = d.exp(), (old.exp() - sampler.exp()).abs()
    both = torch.stack([old.exp(), sampler.exp()])
    spread = len(d) > 1 and bool((both.std(dim=1) > 0).all())
    return {
        "mismatch/kl_k1": float(-d.mean()),
        "mismatch/kl_k3": float((torch.expm1(d) - d).mean()),
        "mismatch/prob_diff": float(gap.mean()),
        "mismatch/prob_diff_max": float(gap.max()),
        "mismatch/mult_error": float(d.abs().exp().mean()),
        "mismatch/ess": float(rho.sum().square() / (len(rho) * rho.square().sum())),
        "mismatch/chi2": float(rho.square().mean() - 1),
        "mismatch/rho_mean": float(rho.mean()),
        "mismatch/pearson": float(torch.corrcoef(both)[0, 1]) if spread else None,
    }

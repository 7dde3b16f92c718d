"""Correction between sampler and learner: importance weights, and how far apart the two are."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PerToken = Float[Tensor, "B T"]
Mask = Bool[Tensor, "B T"]


def truncated_importance(
    old_logprobs: PerToken, sampler_logprobs: PerToken, mask: Mask, *, cap: float
) -> PerToken:
    """`min(exp(old - sampler), cap)` per token, a constant for the gradient, 0 outside the mask.

    Source: truncated importance sampling as in Olmo 3, arXiv:2512.13961, eq. 1.
    """
    ratio = torch.where(mask, old_logprobs - sampler_logprobs, 0.0).exp().clamp(max=cap)
    return (ratio * mask).detach()


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

"""Policy surrogates: one number per token, to be minimised, and which tokens they cut."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PerToken = Float[Tensor, "B T"]
PerRow = Float[Tensor, "B 1"]
Mask = Bool[Tensor, "B T"]


def keep(mask: Mask, values: PerToken) -> PerToken:
    """Values where the mask is True, else 0, whatever stood there (nan and inf too)."""
    return torch.where(mask, values, 0.0)


def clipped(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: PerRow,
    mask: Mask,
    *,
    low: float,
    high: float,
) -> PerToken:
    """Clipped policy surrogate.

    Args:
        logprobs: Of the policy now, in nats.
        old_logprobs: Of the policy at the start of this update.
        advantages: One per rollout.
        mask: True where a token trains.
        low: How far below 1 the ratio still moves the policy.
        high: How far above 1.

    Source: PPO, arXiv:1707.06347, eq. 7; separate bounds: DAPO, arXiv:2503.14476, eq. 10. The
    smaller of the two products is taken for both signs of the advantage.
    """
    ratio = keep(mask, logprobs - old_logprobs).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages) * mask


def clip_parts(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: PerRow,
    mask: Mask,
    *,
    low: float,
    high: float,
) -> tuple[Mask, Mask]:
    """Tokens whose gradient the clip cuts: below with negative, above with positive advantage.

    The ratio is the one before clamping.
    """
    ratio = keep(mask, logprobs - old_logprobs).exp()
    return (
        mask & (ratio < 1 - low) & (advantages < 0),
        mask & (ratio > 1 + high) & (advantages > 0),
    )


SURROGATES = {"clip": clipped}

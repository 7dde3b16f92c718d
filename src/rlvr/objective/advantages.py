"""Advantages: how much better an answer was than its group."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Rewards = Float[Tensor, "P G"]
Scored = Bool[Tensor, "P G"]


def mixed(rewards: Rewards, scored: Scored) -> Bool[Tensor, " P"]:
    """Groups with unequal rewards: the only ones that carry a signal.

    By largest against smallest, never by a standard deviation, which rounding keeps above 0.

    >>> mixed(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.ones(2, 2, dtype=torch.bool))
    tensor([ True, False])
    """
    largest = rewards.masked_fill(~scored, -torch.inf).amax(dim=1)
    smallest = rewards.masked_fill(~scored, torch.inf).amin(dim=1)
    return largest > smallest


def group_mean(rewards: Rewards, scored: Scored) -> Float[Tensor, "P 1"]:
    """Mean over the scored rollouts of each group, 0 where there are none."""
    total = torch.where(scored, rewards, 0.0).sum(dim=1, keepdim=True)
    return total / scored.sum(dim=1, keepdim=True).clamp(min=1)


def centred(rewards: Rewards, scored: Scored) -> Rewards:
    """Reward minus the mean of its group.

    Args:
        rewards: One number per rollout.
        scored: False where there is no score: such a rollout leaves the mean and gets 0.

    Source: Dr. GRPO, arXiv:2503.20783, section 3.2; Olmo 3, arXiv:2512.13961, eq. 1. Groups whose
    rewards are equal get exactly 0.

    >>> centred(torch.tensor([[1.0, 0.0, 0.0, 1.0]]), torch.ones(1, 4, dtype=torch.bool))
    tensor([[ 0.5000, -0.5000, -0.5000,  0.5000]])
    """
    keep = scored & mixed(rewards, scored)[:, None]
    return torch.where(keep, rewards - group_mean(rewards, scored), 0.0)


def zscore(rewards: Rewards, scored: Scored, *, eps: float = 1e-4) -> Rewards:
    """Centred reward divided by the standard deviation of its group (ddof 1) plus `eps`.

    Source: GRPO, arXiv:2402.03300, eq. 3; ddof 1 and eps as most public code has them.
    """
    away = centred(rewards, scored)
    freedom = (scored.sum(dim=1, keepdim=True) - 1).clamp(min=1)
    return away / ((away.square().sum(dim=1, keepdim=True) / freedom).sqrt() + eps)


def rloo(rewards: Rewards, scored: Scored) -> Rewards:
    """Reward minus the mean of the others in its group.

    Source: RLOO, arXiv:2402.14740, eq. 8; equal to G/(G-1) times `centred`.
    """
    count = scored.sum(dim=1, keepdim=True)
    return centred(rewards, scored) * count / (count - 1).clamp(min=1)


def batch_std(rewards: Rewards, scored: Scored, *, eps: float = 1e-8) -> Rewards:
    """Centred reward divided by the standard deviation of all centred rewards (ddof 0).

    Source: Magistral, arXiv:2506.10910, section 2.1; ScaleRL, arXiv:2510.13786.
    """
    away = centred(rewards, scored)
    return away / ((away.square().sum() / scored.sum().clamp(min=1)).sqrt() + eps)


ADVANTAGES: dict[str, Callable[[Rewards, Scored], Rewards]] = {
    "zscore": zscore,
    "centred": centred,
    "rloo": rloo,
    "batch_std": batch_std,
}

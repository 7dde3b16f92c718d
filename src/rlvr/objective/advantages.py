"""Advantages: how much better an answer was than what was to be expected.

Rewards come as (P, G): P groups of G answers to one problem each. An answer without a score leaves
every statistic and gets 0. Where a baseline is the group's, equal rewards get exactly 0.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Rewards = Float[Tensor, "P G"]
Scored = Bool[Tensor, "P G"]
Lengths = Int[Tensor, "P G"]


def mixed(rewards: Rewards, scored: Scored) -> Bool[Tensor, " P"]:
    """Groups with unequal rewards: the only ones whose comparison carries a signal.

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


def _with_signal(values: Rewards, rewards: Rewards, scored: Scored) -> Rewards:
    return torch.where(scored & mixed(rewards, scored)[:, None], values, 0.0)


def _deviation(values: Rewards, scored: Scored, ddof: int) -> Float[Tensor, ""]:
    """Standard deviation over all scored rollouts of the batch, 0 where there are too few."""
    kept = values[scored]
    return kept.std(correction=ddof) if len(kept) > ddof else values.new_zeros(())


def raw(rewards: Rewards, scored: Scored) -> Rewards:
    """The reward itself, no baseline. Source: REINFORCE, Williams 1992."""
    return torch.where(scored, rewards, 0.0)


def batch_centred(rewards: Rewards, scored: Scored) -> Rewards:
    """Reward minus the mean of the whole batch. Source: REINFORCE with a baseline."""
    mean = torch.where(scored, rewards, 0.0).sum() / scored.sum().clamp(min=1)
    return torch.where(scored, rewards - mean, 0.0)


def remax(rewards: Rewards, scored: Scored, greedy_rewards: Float[Tensor, "P 1"]) -> Rewards:
    """Reward minus that of the greedy answer. Source: ReMax, arXiv:2310.10505."""
    return torch.where(scored, rewards - greedy_rewards, 0.0)


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
    return _with_signal(rewards - group_mean(rewards, scored), rewards, scored)


def zscore(rewards: Rewards, scored: Scored, *, ddof: int = 1, eps: float = 1e-4) -> Rewards:
    """Centred reward divided by the standard deviation of its group plus `eps`.

    Source: GRPO, arXiv:2402.03300, eq. 3; ddof 1 and eps as most public code has them.
    """
    away = centred(rewards, scored)
    freedom = (scored.sum(dim=1, keepdim=True) - ddof).clamp(min=1)
    return away / ((away.square().sum(dim=1, keepdim=True) / freedom).sqrt() + eps)


def rloo(rewards: Rewards, scored: Scored) -> Rewards:
    """Reward minus the mean of the others in its group.

    Source: RLOO, arXiv:2402.14740, eq. 8; equal to G/(G-1) times `centred`.
    """
    count = scored.sum(dim=1, keepdim=True)
    return centred(rewards, scored) * count / (count - 1).clamp(min=1)


def leave_one_out(rewards: Rewards, scored: Scored, *, eps: float = 1e-6) -> Rewards:
    """Reward against mean and standard deviation (ddof 1) of the others in its group.

    The difference is left as it is where the others are equal. Source: NeMo RL's default.
    """
    others = (scored.sum(dim=1, keepdim=True) - 1).clamp(min=1)
    away = centred(rewards, scored)
    mean = -away / others  # of the others, from the group's mean
    squares = away.square().sum(dim=1, keepdim=True) - away.square() - others * mean.square()
    deviation = (squares.clamp(min=0) / (others - 1).clamp(min=1)).sqrt()
    flat = deviation <= 1e-6 * away.abs().amax(dim=1, keepdim=True)
    return torch.where(flat, away - mean, (away - mean) / (deviation + eps))


def raw_std(rewards: Rewards, scored: Scored, *, eps: float = 1e-4) -> Rewards:
    """Centred reward divided by the standard deviation (ddof 1) of all rewards as they are.

    Source: LitePPO, arXiv:2508.08221.
    """
    return centred(rewards, scored) / (_deviation(rewards, scored, 1) + eps)


def batch_std(rewards: Rewards, scored: Scored, *, ddof: int = 0, eps: float = 1e-8) -> Rewards:
    """Centred reward divided by the standard deviation of all centred rewards.

    Source: Magistral, arXiv:2506.10910, section 2.1; ScaleRL, arXiv:2510.13786.
    """
    away = centred(rewards, scored)
    return away / (_deviation(away, scored, ddof) + eps)


def whitened(
    returns: Float[Tensor, "P G T"], mask: Bool[Tensor, "P G T"], *, eps: float = 1e-8
) -> Float[Tensor, "P G T"]:
    """Returns of tokens, made mean 0 and variance 1 (ddof 1) over all tokens of the batch.

    Args:
        returns: Reward still to come from each token on.
        mask: True at answer tokens of scored rollouts.

    Source: REINFORCE++, arXiv:2501.03262. Long answers weigh more in the mean.
    """
    kept = returns[mask]
    if len(kept) < 2 or bool(kept.max() == kept.min()):
        return torch.zeros_like(returns)
    variance, mean = torch.var_mean(kept, correction=1)
    return torch.where(mask, (returns - mean) * (variance + eps).rsqrt(), 0.0)


def maxrl(rewards: Rewards, scored: Scored) -> Rewards:
    """Centred reward divided by the group's mean; 0 where that is not above 0.

    Source: MaxRL, arXiv:2602.02710. Hard problems weigh more, about 1 over their solve rate.
    """
    mean = group_mean(rewards, scored)
    return torch.where(mean > 0, centred(rewards, scored) / mean.clamp(min=1e-12), 0.0)


def pass_at_k(rewards: Rewards, scored: Scored, *, k: int = 2, eps: float = 1e-6) -> Rewards:
    """Advantage of being in a random set of `k` answers of which one right one is enough.

    Args:
        rewards: Above 0 counts as right.
        scored: Which rollouts have a reward.
        k: Answers per set, at most the group's size.
        eps: Added to the standard deviation.

    Source: pass@k training, arXiv:2508.10751, the analytic form.
    """
    advantages = torch.zeros_like(rewards)
    for group, (values, known) in enumerate(zip(rewards, scored, strict=True)):
        right = known & (values > 0)
        n, c = int(known.sum()), int(right.sum())
        if not 0 < c < n or k > n:
            continue
        solved = 1 - math.comb(n - c, k) / math.comb(n, k)
        deviation = math.sqrt(solved * (1 - solved)) + eps
        others_fail = math.comb(n - c - 1, k - 1) / math.comb(n - 1, k - 1)
        advantages[group, right] = (1 - solved) / deviation
        advantages[group, known & ~right] = (1 - solved - others_fail) / deviation
    return advantages


def best_minus_second(rewards: Rewards, scored: Scored, *, eps: float = 1e-6) -> Rewards:
    """The best answer alone gets its lead over the second, in standard deviations (ddof 1).

    Source: arXiv:2503.19595. A tie at the top gets 0.
    """
    known = rewards.masked_fill(~scored, -torch.inf)
    ordered = known.sort(dim=1, descending=True).values
    best, second = ordered[:, :1], ordered[:, 1:2] if ordered.shape[1] > 1 else ordered
    lead = torch.where(second.isfinite(), best - second, 0.0)
    away = centred(rewards, scored)
    freedom = (scored.sum(dim=1, keepdim=True) - 1).clamp(min=1)
    deviation = (away.square().sum(dim=1, keepdim=True) / freedom).sqrt()
    return _with_signal(torch.where(known == best, lead, 0.0) / (deviation + eps), rewards, scored)


def gdpo(
    parts: Float[Tensor, "P G K"],
    weights: Float[Tensor, " K"],
    scored: Scored,
    *,
    eps: float = 1e-4,
) -> Rewards:
    """Each part of the reward by its own z-score, their weighted sum normalised over the batch.

    Args:
        parts: The K parts of each reward, before weights.
        weights: One per part.
        scored: Which rollouts have a reward.
        eps: Added to each standard deviation (ddof 1).

    Source: GDPO, arXiv:2601.05242. Rewards that cancel in the sum still teach.
    """
    columns = [zscore(parts[:, :, k], scored, eps=eps) for k in range(parts.shape[2])]
    total = torch.stack(columns, dim=-1) @ weights
    deviation = _deviation(total, scored, 1)
    mean = torch.where(scored, total, 0.0).sum() / scored.sum().clamp(min=1)
    if not bool((total != 0).any()):
        return total
    return torch.where(scored, (total - mean) / (deviation + eps), 0.0)


def f_grpo(rewards: Rewards, scored: Scored, *, gamma: float = 0.5) -> Rewards:
    """Z-score times `(1 - solve rate)^gamma`. Source: F-GRPO, arXiv:2602.06717."""
    easy = group_mean(rewards, scored).clamp(0, 1)
    return (1 - easy) ** gamma * zscore(rewards, scored)


def lead(rewards: Rewards, scored: Scored) -> Rewards:
    """Z-score, right answers weighing more where few are, wrong ones where most are right.

    Source: GRPO-LEAD, arXiv:2504.09696: `w(x) = 0.4 + 1.1 / (1 + exp(10 (x - 0.75)))`.
    """
    rate, advantage = group_mean(rewards, scored), zscore(rewards, scored)
    hard, easy = (0.4 + 1.1 / (1 + (10 * (x - 0.75)).exp()) for x in (rate, 1 - rate))
    return advantage * torch.where(advantage > 0, hard, easy)


def beta(rewards: Rewards, scored: Scored) -> Rewards:
    """Centred reward over the density of its solve rate under a Beta fitted to the batch.

    Source: BNPO, arXiv:2506.02864: the fit by moments gives (a, b), the density is that of
    Beta(1 + a/3, 1 + b/3), one over it at most 1e6. Where all rates are equal, just centred.
    """
    judged = scored.any(dim=1)
    rate = group_mean(rewards, scored).clamp(0, 1)
    rates, away = rate[judged, 0], centred(rewards, scored)
    if len(rates) < 2 or bool(rates.max() == rates.min()):
        return away
    mean, variance = rates.mean(), rates.var()
    both = (mean * (1 - mean) / variance - 1).clamp(min=0)
    alpha, gamma = 1 + mean * both / 3, 1 + (1 - mean) * both / 3
    log_norm = torch.lgamma(alpha) + torch.lgamma(gamma) - torch.lgamma(alpha + gamma)
    log_density = torch.xlogy(alpha - 1, rate) + torch.xlogy(gamma - 1, 1 - rate) - log_norm
    return away * (-log_density).exp().clamp(max=1e6)


def dcpo_smooth(
    new: Float[Tensor, "*rows"], total: Float[Tensor, "*rows"], step: int
) -> Float[Tensor, "*rows"]:
    """Advantage of this step mixed with that over all steps, the smaller of two mixes.

    Args:
        new: From this step's rewards.
        total: From all rewards of the problem so far.
        step: How often the problem has been seen, from 1.

    Source: DCPO, arXiv:2509.02333.
    """
    mostly_new = ((step - 1) * new + total) / step
    mostly_total = (new + (step - 1) * total) / step
    return torch.where(mostly_new.abs() < mostly_total.abs(), mostly_new, mostly_total)


def opo(rewards: Rewards, scored: Scored, lengths: Lengths) -> Rewards:
    """Reward minus the group's mean weighted by answer length. Source: OPO, arXiv:2505.23585."""
    tokens = torch.where(scored, lengths, 0).to(rewards.dtype)
    weighted = (tokens * torch.where(scored, rewards, 0.0)).sum(dim=1, keepdim=True)
    baseline = weighted / tokens.sum(dim=1, keepdim=True).clamp(min=1)
    return _with_signal(rewards - baseline, rewards, scored)


def gpg(rewards: Rewards, scored: Scored) -> Rewards:
    """Centred reward times the batch's answers per answer with a reward. arXiv:2504.02546."""
    nonzero = (scored & (rewards != 0)).sum().clamp(min=1)
    return centred(rewards, scored) * scored.sum() / nonzero


def gfpo(rewards: Rewards, scored: Scored, lengths: Lengths, *, k: int) -> Rewards:
    """Z-score among the `k` shortest answers of each group; the others get 0.

    Source: GFPO, arXiv:2508.09726. Of equal lengths the earlier slot is kept.
    """
    order = lengths.masked_fill(~scored, torch.iinfo(lengths.dtype).max).argsort(dim=1, stable=True)
    kept = torch.zeros_like(scored).scatter(1, order[:, :k], True) & scored
    return zscore(rewards, kept)

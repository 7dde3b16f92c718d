"""Policy surrogates: one number per token, to be minimised, and which tokens they cut.

Each takes log-probabilities (nats) of the policy now and at the start of the update, advantages
(one per rollout or per token) and the mask. A level turns the log-probabilities of tokens into
those of whole answers first, so that any surrogate works at any level.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PerToken = Float[Tensor, "B T"]
Advantages = Float[Tensor, "B #T"]
Mask = Bool[Tensor, "B T"]

FARTHEST = 20.0  # nats; exp beyond it would swallow the step


def keep(mask: Mask, values: PerToken) -> PerToken:
    """Values where the mask is True, else 0, whatever stood there (nan and inf too)."""
    return torch.where(mask, values, 0.0)


def ratio_of(logprobs: PerToken, old_logprobs: PerToken, mask: Mask) -> PerToken:
    """`exp(logprobs - old_logprobs)`, 1 outside the mask, held within exp(±20)."""
    return keep(mask, logprobs - old_logprobs).clamp(-FARTHEST, FARTHEST).exp()


def _mean(values: PerToken, mask: Mask) -> Float[Tensor, "B 1"]:
    tokens = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return keep(mask, values).sum(dim=1, keepdim=True) / tokens


def token(logprobs: PerToken, mask: Mask) -> PerToken:
    """Each token its own."""
    return logprobs


def sequence(logprobs: PerToken, mask: Mask) -> PerToken:
    """The mean over the answer, on each of its tokens: ratios become geometric means.

    Source: GSPO, arXiv:2507.18071, eq. 7.
    """
    return _mean(logprobs, mask).expand(logprobs.shape)


def sequence_token(logprobs: PerToken, mask: Mask) -> PerToken:
    """The value of `sequence`, with the gradient of the token itself.

    Source: GSPO-token, arXiv:2507.18071, eq. 14; allows an advantage per token.
    """
    return _mean(logprobs, mask).detach() + logprobs - logprobs.detach()


def answer(logprobs: PerToken, mask: Mask) -> PerToken:
    """The sum over the answer, on each of its tokens: ratios become products.

    Source: an answer as one action, arXiv:2402.14740. Its variance grows with the length.
    """
    return keep(mask, logprobs).sum(dim=1, keepdim=True).expand(logprobs.shape)


LEVELS: dict[str, Callable[[PerToken, Mask], PerToken]] = {
    "token": token,
    "sequence": sequence,
    "sequence_token": sequence_token,
    "answer": answer,
}


def clipped(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    low: float,
    high: float,
    dual: float | None = None,
    most: float | None = None,
) -> PerToken:
    """Clipped policy surrogate.

    Args:
        logprobs: Of the policy now, in nats.
        old_logprobs: Of the policy at the start of this update.
        advantages: One per rollout, or per token.
        mask: True where a token trains.
        low: How far below 1 the ratio still moves the policy.
        high: How far above 1.
        dual: Where the advantage is negative, the loss grows to at most this times its size.
        most: Ratios above it count as this much, whatever the sign.

    Source: PPO, arXiv:1707.06347, eq. 7; separate bounds: DAPO, arXiv:2503.14476, eq. 10; dual:
    arXiv:1912.09729, eq. 5; most: INTELLECT-2, arXiv:2505.07291 (its delta) and the outer clip of
    MAI-Thinking-1. The smaller of the two products is taken for both signs of the advantage.
    """
    ratio = ratio_of(logprobs, old_logprobs, mask)
    if most is not None:
        ratio = ratio.clamp(max=most)
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    if dual is not None:
        gain = torch.where(advantages < 0, torch.maximum(gain, dual * advantages), gain)
    return -gain * mask


def clip_parts(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    low: float,
    high: float,
    dual: float | None = None,
    most: float | None = None,
) -> tuple[Mask, Mask]:
    """Tokens whose gradient the clip cuts: below with negative, above with positive advantage.

    The ratio is the one before clamping. A dual bound and a cap cut above where A < 0.
    """
    ratio = ratio_of(logprobs, old_logprobs, mask)
    above = mask & (ratio > 1 + high) & (advantages > 0)
    for bound in (dual, most):
        if bound is not None:
            above |= mask & (ratio > bound) & (advantages < 0)
    return mask & (ratio < 1 - low) & (advantages < 0), above


def reinforce(
    logprobs: PerToken, old_logprobs: PerToken, advantages: Advantages, mask: Mask
) -> PerToken:
    """`-A log p`. Source: REINFORCE, Williams 1992."""
    return -advantages * keep(mask, logprobs)


def importance(
    logprobs: PerToken, old_logprobs: PerToken, advantages: Advantages, mask: Mask
) -> PerToken:
    """`-ratio A`, never clipped. Source: MiniRL's baseline, arXiv:2512.01374."""
    return -ratio_of(logprobs, old_logprobs, mask) * advantages * mask


def cispo(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    cap: float,
) -> PerToken:
    """`-min(ratio, cap) A log p`, the first factor a constant: no token loses its gradient.

    Args:
        logprobs: Of the policy now, in nats.
        old_logprobs: Of the policy at the start of this update.
        advantages: One per rollout, or per token.
        mask: True where a token trains.
        cap: Largest weight, as a ratio: 1 + epsilon, not epsilon.

    Source: MiniMax-M1, arXiv:2506.13585, eq. 4 and 5.
    """
    weight = ratio_of(logprobs, old_logprobs, mask).detach().clamp(max=cap)
    return -weight * advantages * keep(mask, logprobs)


def sapo(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    positive: float = 1.0,
    negative: float = 1.05,
) -> PerToken:
    """A soft gate instead of a clip: `-(4/t) sigmoid(t (ratio - 1)) A`.

    Args:
        logprobs: Of the policy now, in nats.
        old_logprobs: Of the policy at the start of this update.
        advantages: One per rollout, or per token.
        mask: True where a token trains.
        positive: Temperature t where the advantage is above 0.
        negative: Temperature t elsewhere.

    Source: SAPO, arXiv:2511.20347.
    """
    temperature = torch.full_like(advantages, negative).masked_fill(advantages > 0, positive)
    ratio = ratio_of(logprobs, old_logprobs, mask)
    return -4 / temperature * (temperature * (ratio - 1)).sigmoid() * advantages * mask


def far_in_probability(
    logprobs: PerToken,
    sampler_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    far: float,
) -> Mask:
    """Tokens whose probability has already moved by more than `far` the way the advantage asks."""
    moved = (keep(mask, logprobs).exp() - keep(mask, sampler_logprobs).exp()).detach()
    return mask & torch.where(advantages > 0, moved > far, (advantages < 0) & (moved < -far))


def tv(
    logprobs: PerToken,
    sampler_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    far: float = 0.2,
    cap: float = 20.0,
) -> PerToken:
    """`-min(p/q, cap) A log p`, 0 where the probability has moved far enough; q the sampler's.

    Source: DPPO, arXiv:2602.04879, the total-variation form.
    """
    near = mask & ~far_in_probability(logprobs, sampler_logprobs, advantages, mask, far=far)
    weight = ratio_of(logprobs, sampler_logprobs, mask).detach().clamp(max=cap)
    return -weight * advantages * keep(mask, logprobs) * near


def tv_ratio(
    logprobs: PerToken,
    sampler_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    far: float = 0.2,
    pull: float = 1e-3,
) -> PerToken:
    """`-(p/q) A` under the mask of `tv`, plus `pull` times the squared log-ratio.

    Source: prime-rl's default loss; the last term: Kimi K2.5, arXiv:2602.02276.
    """
    near = mask & ~far_in_probability(logprobs, sampler_logprobs, advantages, mask, far=far)
    ratio = ratio_of(logprobs, sampler_logprobs, mask)
    return -ratio * advantages * near + pull * keep(mask, logprobs - sampler_logprobs).square()


def gmpo(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: Advantages,
    mask: Mask,
    *,
    low: float = 0.4,
    high: float = 0.4,
) -> PerToken:
    """Log-ratios clipped on the side that matters, then their geometric mean: `-A ratio`.

    Args:
        logprobs: Of the policy now, in nats.
        old_logprobs: Of the policy at the start of this update.
        advantages: One per rollout.
        mask: True where a token trains.
        low: Lower bound of a log-ratio where the advantage is negative, in nats.
        high: Upper bound where it is positive.

    Source: GMPO, arXiv:2507.20673.
    """
    log_ratio = keep(mask, logprobs - old_logprobs)
    held = torch.where(advantages > 0, log_ratio.clamp(max=high), log_ratio.clamp(min=-low))
    return -advantages * sequence(held, mask).exp() * mask


def vespo(
    logprobs: PerToken, old_logprobs: PerToken, advantages: Advantages, mask: Mask
) -> PerToken:
    """`-phi(W) A log p` with W the answer's ratio and `phi(W) = e^l W^k e^(-l W)`, a constant.

    (k, l) is (2, 3) where the advantage is at least 0, else (3, 2). Source: VESPO,
    arXiv:2602.10693.
    """
    log_w = answer(logprobs - old_logprobs, mask).detach().clamp(-FARTHEST, FARTHEST)
    up = (3 + 2 * log_w - 3 * log_w.exp()).exp()
    down = (2 + 3 * log_w - 2 * log_w.exp()).exp()
    return -torch.where(advantages >= 0, up, down) * advantages * keep(mask, logprobs)


def dcpo_bounds(
    old_logprobs: PerToken, *, low: float = 0.16, high: float = 0.2, most: float = 10.0
) -> tuple[PerToken, PerToken]:
    """Bounds of the ratio that leave rare tokens room: `|(ratio - 1) ratio| q <= epsilon`.

    Source: DCPO, arXiv:2509.02333; q is the token's probability at the start of the update.
    """
    q = old_logprobs.exp()
    lower = 0.5 + 0.5 * (1 - 4 * low / q).clamp(min=0).sqrt()
    return lower, (0.5 + 0.5 * (1 + 4 * high / q).sqrt()).clamp(max=most)


def dcpo(
    logprobs: PerToken, old_logprobs: PerToken, advantages: Advantages, mask: Mask
) -> PerToken:
    """Clipped surrogate with the bounds of each token's own probability. arXiv:2509.02333."""
    ratio = ratio_of(logprobs, old_logprobs, mask)
    lower, upper = dcpo_bounds(keep(mask, old_logprobs).clamp(min=-FARTHEST))
    held = torch.minimum(torch.maximum(ratio, lower), upper)
    return -torch.minimum(ratio * advantages, held * advantages) * mask


def real(
    logprobs: PerToken,
    old_logprobs: PerToken,
    advantages: Float[Tensor, "B 1"],
    mask: Mask,
    *,
    temperature: float = 0.5,
) -> Float[Tensor, ""]:
    """Rewards as labels: `log(1 + sum e^(-s/t))` over good answers, `+s` over bad ones.

    s is the mean log-ratio of an answer. One number for the whole batch, which does not add up over
    micro-batches, so no row can choose it. Source: REAL, arXiv:2602.05630.
    """
    score = _mean(logprobs - old_logprobs, mask) / temperature
    good = torch.where(advantages > 0, -score, -torch.inf)
    bad = torch.where(advantages < 0, score, -torch.inf)
    one = torch.zeros_like(score[:1])
    return torch.cat([one, good]).logsumexp(0).sum() + torch.cat([one, bad]).logsumexp(0).sum()

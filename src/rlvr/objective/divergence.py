"""Divergence from a frozen reference, and entropy; both in nats, per token.

With d = logprobs - ref_logprobs of a sampled token: k1 = d, k2 = d²/2, k3 = exp(-d) - 1 + d.
Source: Schulman, "Approximating KL divergence", 2020. As a loss k1 has expected gradient 0; k2 has
that of KL(policy‖reference); k3 that of KL(reference‖policy). As a penalty of the reward k1 is
right and k3 is not. Source: arXiv:2510.01555.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlvr.objective.surrogates import FARTHEST, PerToken, answer

Mask = Bool[Tensor, "B T"]


def log_ratio(logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """`logprobs - ref_logprobs`, held within ±20 nats; beyond them the gradient is 0."""
    return (logprobs - ref_logprobs).clamp(-FARTHEST, FARTHEST)


def k1(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """The log-ratio itself: an estimate. As a loss it does nothing on average, and adds noise."""
    return log_ratio(logprobs, ref_logprobs)


def k2(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """Half the squared log-ratio."""
    return log_ratio(logprobs, ref_logprobs).square() / 2


def k3(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """`exp(-d) - 1 + d`, never negative, exact also for tiny d. Source: arXiv:2402.03300, eq. 4."""
    d = log_ratio(logprobs, ref_logprobs)
    return (torch.expm1(-d) + d).clamp(min=0)


def k3_plus(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """The value of k3 with the gradient of k2: low variance, and the right gradient."""
    names = (logprobs, old_logprobs, ref_logprobs)
    right = k2(*names)
    return right + (k3(*names) - right).detach()


def unbiased(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """k3 times the policy ratio, which carries gradient: the reverse KL's, off-policy too.

    Source: DeepSeek-V3.2, arXiv:2512.02556, section 3.1.
    """
    ratio = (logprobs - old_logprobs).clamp(-FARTHEST, FARTHEST).exp()
    return ratio * k3(logprobs, old_logprobs, ref_logprobs)


KL_LOSSES: dict[str, Callable[[PerToken, PerToken, PerToken], PerToken]] = {
    "k1": k1,
    "k2": k2,
    "k3": k3,
    "k3_plus": k3_plus,
    "unbiased": unbiased,
}


def kl_loss(
    name: str,
    logprobs: PerToken,
    old_logprobs: PerToken,
    ref_logprobs: PerToken,
    mask: Mask,
    *,
    whole_answer: bool = False,
) -> PerToken:
    """A divergence as a loss per token, 0 outside the mask.

    Args:
        name: Of `KL_LOSSES`.
        logprobs: Of the policy now; the gradient flows here.
        old_logprobs: Of the policy at the start of the update.
        ref_logprobs: Of the frozen reference.
        mask: True where a token trains.
        whole_answer: Of the sums over each answer, as if it were one action, on every token of it.
    """
    terms = [torch.where(mask, x, 0.0) for x in (logprobs, old_logprobs, ref_logprobs)]
    if whole_answer:
        terms = [answer(term, mask) for term in terms]
    return KL_LOSSES[name](*terms) * mask


def penalty(
    logprobs: PerToken, ref_logprobs: PerToken, mask: Mask, *, coefficient: float
) -> PerToken:
    """What each token costs in reward: coefficient times k1, a constant. arXiv:2402.14740."""
    return coefficient * torch.where(mask, log_ratio(logprobs, ref_logprobs), 0.0).detach()


def adapted_kl(coefficient: float, kl: float, *, target: float, share: float = 0.1) -> float:
    """The next coefficient: up where the divergence was above the target, down where below.

    Args:
        coefficient: Of the step that was.
        kl: Divergence measured in it, nats per token.
        target: Where it should lie, above 0.
        share: Answers of a step over the horizon of the controller.

    Source: arXiv:1909.08593, section 2.2.
    """
    return coefficient * (1 + min(max(kl / target - 1, -0.2), 0.2) * share)


def entropy(logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """Entropy, in nats, of the distribution that logits name; tokens of probability 0 add 0."""
    logprobs = logits.log_softmax(dim=-1)
    return -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(dim=-1)


def adapted_entropy(
    coefficient: float, entropy: float, *, target: float, step: float = 1e-4, most: float = 5e-3
) -> float:
    """The coefficient of a step's entropy bonus: up while entropy is below the target, else down.

    The bonus itself is applied only while entropy is below the target. Source: Skywork-OR1,
    arXiv:2505.22312, section 4.3.
    """
    moved = coefficient + step if entropy < target else coefficient - step
    return min(max(moved, 0.0), most)


def adapted_clip(
    extra: float, entropy: float, *, target: float, step: float = 0.25, most: float = 2.5
) -> float:
    """Room added to the upper clip bound: more while entropy is below the target, else less.

    Source: MAI-Thinking-1's report, June 2026.
    """
    up = (entropy < target) - (entropy > target)
    return min(max(extra + step * up, 0.0), most)

"""Divergence from a frozen reference, per token, and the entropy of a distribution.

With d = logprobs - ref_logprobs of a sampled token: k1 = d, k2 = d²/2, k3 = exp(-d) - 1 + d.
Source: Schulman, "Approximating KL divergence", 2020. As a loss k1 has expected gradient 0; k2 has
that of KL(policy‖reference); k3 that of KL(reference‖policy).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

PerToken = Float[Tensor, "B T"]

FARTHEST = 20.0  # nats; exp beyond it would swallow the step


def log_ratio(logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """`logprobs - ref_logprobs`, held within ±20 nats; beyond them the gradient is 0."""
    return (logprobs - ref_logprobs).clamp(-FARTHEST, FARTHEST)


def k1(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """The log-ratio itself: an estimate, not a loss."""
    return log_ratio(logprobs, ref_logprobs)


def k2(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """Half the squared log-ratio."""
    return log_ratio(logprobs, ref_logprobs).square() / 2


def k3(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """`exp(-d) - 1 + d`, never negative, exact also for tiny d. Source: arXiv:2402.03300, eq. 4."""
    d = log_ratio(logprobs, ref_logprobs)
    return (torch.expm1(-d) + d).clamp(min=0)


def unbiased(logprobs: PerToken, old_logprobs: PerToken, ref_logprobs: PerToken) -> PerToken:
    """k3 times the policy ratio, which carries gradient: the reverse KL's, off-policy too.

    Source: DeepSeek-V3.2, arXiv:2512.02556, section 3.1.
    """
    ratio = (logprobs - old_logprobs).clamp(-FARTHEST, FARTHEST).exp()
    return ratio * k3(logprobs, old_logprobs, ref_logprobs)


def entropy(logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """Entropy, in nats, of the distribution that logits name; tokens of probability 0 add 0."""
    logprobs = logits.log_softmax(dim=-1)
    return -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(dim=-1)


KL_LOSSES: dict[str, Callable[[PerToken, PerToken, PerToken], PerToken]] = {
    "k2": k2,
    "k3": k3,
    "unbiased": unbiased,
}

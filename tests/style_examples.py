"""The rules of how this code reads, as examples that run in order, as one file."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

PerToken = Float[Tensor, "B T"]  # one number per token
PerRow = Float[Tensor, "B 1"]  # one number per rollout, spread over its tokens
Mask = Bool[Tensor, "B T"]  # True: this token trains

def token_logprobs(logits: Float[Tensor, "B T V"], tokens: Int[Tensor, "B T"]) -> PerToken:
    """Log-probability, in nats, of each token under the logits that predicted it."""
    return logits.log_softmax(dim=-1).gather(-1, tokens[..., None]).squeeze(-1)

def answer_mask(start: Int[Tensor, " B"], end: Int[Tensor, " B"], width: int) -> Mask:
    position = torch.arange(width, device=start.device)[None]  # (1, T)
    return (start[:, None] <= position) & (position < end[:, None])

def keep(mask: Mask, values: PerToken) -> PerToken:
    return torch.where(mask, values, 0.0)

def clipped(
    logprobs: PerToken, old_logprobs: PerToken, advantages: PerRow, mask: Mask,
    *, low: float, high: float,
) -> PerToken:
    """Clipped policy surrogate, to be minimised."""
    ratio = keep(mask, logprobs - old_logprobs).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)

def token_weights(mask: Mask) -> PerToken:  # every token counts the same
    return mask.float() / mask.sum().clamp(min=1)

def sequence_weights(mask: Mask) -> PerToken:  # every rollout counts the same
    tokens = mask.sum(dim=1, keepdim=True)  # (B, 1)
    return mask.float() / tokens.clamp(min=1) / (tokens > 0).sum().clamp(min=1)

@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    advantage: Literal["zscore", "centred"] = "zscore"
    surrogate: Literal["clip", "clip_sequence"] = "clip"
    clip_low: float = 0.2
    clip_high: float = 0.2
    weighting: Literal["token", "sequence", "budget"] = "sequence"
    groups: Literal["all", "mixed"] = "all"  # mixed: only groups with unequal rewards

VARIANTS = {
    "grpo": Variant(),
    "dr_grpo": Variant(advantage="centred", weighting="budget"),
    "dapo": Variant(clip_high=0.28, weighting="token", groups="mixed"),
    "gspo": Variant(surrogate="clip_sequence", clip_low=3e-4, clip_high=4e-4),
}

@dataclass(frozen=True, kw_only=True, slots=True)
class Rollouts:
    group_size: int = 8
    """Answers sampled per problem (G)."""
    max_new_tokens: int = 1024
    """Longest answer, in tokens, without the prompt."""

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise ValueError(
                f"rollouts.group_size is {self.group_size}, but the baseline is the group's mean: "
                "a lone answer always gets advantage 0. Use 2 or more."
            )

def train(run):
    for step in range(run.first_step, run.config.steps):
        problems = run.problems.take(step)
        groups = run.engine.sample(problems, draws=run.draws(step))
        scored = [score_group(group, run.reward) for group in groups]
        batch = make_batch(select_groups(scored, run.variant), run.variant)
        update = optimise(run.policy, run.optimiser, batch, run.variant)
        run.metrics.write(step, rollout_metrics(scored) | update.metrics)
        run.save_if_due(step)
        run.evaluate_if_due(step)

def test_imports_only_go_downhill(module):
    for imported in imports_of(module):  # read from the syntax tree, function bodies too
        assert floor(imported) < floor(module), f"{module} may not import {imported}"

def overlong_penalty(tokens: int, *, limit: int, ramp: int) -> float:
    """Soft penalty for an answer that nears its token limit.

    Args:
        tokens: Length of the answer in tokens, without the prompt.
        limit: Length from which the penalty is full, in tokens (the paper's L_max).
        ramp: Width of the slope before the limit, in tokens, at least 1 (L_cache).

    Returns:
        A number in [-1, 0] to add to the reward: 0 up to ``limit - ramp``, then a line to -1.

    Source: DAPO, arXiv:2503.14476, Eq. 13. Differs: nothing.

    >>> [overlong_penalty(n, limit=100, ramp=20) for n in (80, 90, 100, 101)]
    [0.0, -0.5, -1.0, -1.0]
    """
    return max(-1.0, min(0.0, (limit - ramp - tokens) / ramp))

def logprobs_by_the_book(logits: Float[Tensor, "N V"], tokens: Int[Tensor, " N"]) -> list[float]:
    return [float(row[k] - row.logsumexp(0)) for row, k in zip(logits, tokens, strict=True)]

def test_clipping_stops_only_moves_that_went_far_enough() -> None:
    by_hand = [(1, 1.5, -1.28), (1, 0.5, -0.5), (-1, 0.5, 0.8), (-1, 1.5, 1.5)]
    for advantage, ratio, expected in by_hand:
        new, old, mask = torch.tensor([[ratio]]).log(), torch.zeros(1, 1), torch.tensor([[True]])
        loss = clipped(new, old, torch.tensor([[1.0 * advantage]]), mask, low=0.2, high=0.28)
        assert abs(loss.item() - expected) < 1e-6

def test_masked_tokens_cannot_change_the_loss() -> None:
    new, mask = torch.tensor([[-1.0, float("nan")]]), torch.tensor([[True, False]])
    loss = clipped(new, torch.zeros(1, 2), torch.ones(1, 1), mask, low=0.2, high=0.2)
    assert torch.isclose((loss * token_weights(mask)).sum(), -torch.tensor(-1.0).exp())

def sample(probabilities: Float[Tensor, "B V"], uniforms: PerRow) -> Int[Tensor, " B"]:
    """The token whose slice of [0, 1) holds the row's uniform number."""
    index = torch.searchsorted(probabilities.cumsum(dim=-1), uniforms, right=True).squeeze(1)
    return index.clamp(max=probabilities.shape[1] - 1)

@dataclass(frozen=True, slots=True)
class Score:
    value: float | None
    verdict: Literal["correct", "incorrect", "could not judge"]
    reason: str

def exact(answer: str | None, expected: str) -> Score:
    if answer is None:
        return Score(0.0, "incorrect", "no boxed answer")
    if answer == expected:
        return Score(1.0, "correct", "same text")
    return Score(0.0, "incorrect", f"{answer!r} is not {expected!r}")

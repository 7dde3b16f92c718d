"""From scored groups to the tensors of one optimizer step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.objective.advantages import mixed
from rlvr.objective.variants import Variant, advantages_of, weights_of
from rlvr.records import Group, Rollout, Sampling


@dataclass(frozen=True, slots=True)
class Batch:
    """The kept rows of a step, right-padded; index `t` always speaks of token `t`."""

    tokens: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    """True where a token trains: the answer, its end token included."""
    sampler_logprobs: Float[Tensor, "B T"]
    advantages: Float[Tensor, "B 1"]
    weights: Float[Tensor, "B T"]
    """The weighting: made once from the mask of the whole step, so that parts add up."""
    lengths: Int[Tensor, " B"]
    """Prompt and answer together, in tokens."""
    sampling: Sampling

    def rows(self, index: Int[Tensor, " rows"]) -> "Batch":
        """Some rows, cut to their longest; their weights stay those of the whole step."""
        width = int(self.lengths[index].max())
        return Batch(
            self.tokens[index, :width],
            self.mask[index, :width],
            self.sampler_logprobs[index, :width],
            self.advantages[index],
            self.weights[index, :width],
            self.lengths[index],
            self.sampling,
        )


def rewards_of(groups: Sequence[Group]) -> tuple[Float[Tensor, "P G"], Bool[Tensor, "P G"]]:
    """Rewards, 0 where there is none, and which rollouts have one."""
    values = [[rollout.score.value for rollout in g.rollouts if rollout.score] for g in groups]
    rewards = torch.tensor([[float(value or 0.0) for value in row] for row in values])
    return rewards, torch.tensor([[value is not None for value in row] for row in values])


def make_batch(groups: Sequence[Group], variant: Variant, pad_id: int) -> Batch | None:
    """The rows that train, with advantages and weights; None where no row is left.

    Rollouts without a score have advantage 0 and leave the mask. Groups whose rewards are all
    equal are left out where the variant says so, or where their gradient would be exactly 0
    anyway (advantage 0 and no divergence); they still count in the weighting of the latter.
    """
    rewards, scored = rewards_of(groups)
    advantages = advantages_of(variant, rewards, scored)
    signal = mixed(rewards, scored)
    counted = signal if variant.groups == "mixed" else torch.ones_like(signal)
    computed = signal if variant.kl == "none" else counted
    if not computed.any():
        return None
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    size = rewards.shape[1]
    row_counted = (counted.repeat_interleave(size) & scored.flatten()).nonzero().squeeze(1)
    tokens, mask, sampler_logprobs, lengths = pad([rollouts[row] for row in row_counted], pad_id)
    weights = weights_of(
        variant,
        mask,
        group_of_row=row_counted // size,
        rows=len(row_counted),
        max_new_tokens=rollouts[0].sampling.max_new_tokens,
    )
    batch = Batch(
        tokens,
        mask,
        sampler_logprobs,
        advantages.flatten()[row_counted, None],
        weights,
        lengths,
        rollouts[0].sampling,
    )
    return batch.rows(computed[row_counted // size].nonzero().squeeze(1))


def pad(
    rollouts: Sequence[Rollout], pad_id: int
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"], Float[Tensor, "B T"], Int[Tensor, " B"]]:
    """Right-padded tokens, answer mask, sampler log-probabilities, and lengths."""
    prompt = torch.tensor([len(rollout.prompt_tokens) for rollout in rollouts])
    lengths = prompt + torch.tensor([len(rollout.answer_tokens) for rollout in rollouts])
    width = int(lengths.max())
    position = torch.arange(width)[None]
    mask = (prompt[:, None] <= position) & (position < lengths[:, None])
    tokens = torch.full((len(rollouts), width), pad_id)
    real = position < lengths[:, None]
    ids = [
        token for rollout in rollouts for token in (*rollout.prompt_tokens, *rollout.answer_tokens)
    ]
    tokens[real] = torch.tensor(ids)
    sampler_logprobs = torch.zeros(tokens.shape)
    recorded = [value for rollout in rollouts for value in rollout.sampler_logprobs]
    sampler_logprobs[mask] = torch.tensor(recorded, dtype=torch.float32)
    return tokens, mask, sampler_logprobs, lengths


def micro_batches(batch: Batch, tokens_at_once: int) -> Iterator[Batch]:
    """The batch in parts of at most `tokens_at_once` padded tokens, similar lengths together."""
    order = batch.lengths.argsort(stable=True)
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * int(batch.lengths[order[last]]) <= (
            tokens_at_once
        ):
            last += 1
        yield batch.rows(order[first:last])
        first = last

"""From scored groups to tensors: a batch of all answers that count, its mini- and micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.model.distribution import uniforms
from rlvr.model.packing import shared_prefix
from rlvr.objective.advantages import mixed
from rlvr.objective.loss import Outcomes, chosen_tokens, weights_of
from rlvr.objective.selection import finished_only
from rlvr.objective.slots import Variant
from rlvr.objective.surrogates import Advantages
from rlvr.records import Group, Kept, Rollout, Sampling

SHUFFLE, CHOICE = -1, -2  # name draws here apart from those of the rounds, which count from 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of answers, right-padded; index `t` always speaks of token `t`."""

    tokens: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    """True where a token trains: the answer, its end token included."""
    lengths: Int[Tensor, " B"]
    """Prompt and answer together, in tokens."""
    groups: Int[Tensor, " B"]
    """Number of each row's group."""
    counted: Bool[Tensor, " B"]
    """False where there is no score: such a row leaves every divisor."""
    sampler_logprobs: Float[Tensor, "B T"]
    sampler_entropies: Float[Tensor, "B T"]
    corrected: Bool[Tensor, "B 1"]
    """True where other weights than the learner's now sampled the answer."""
    sampling: Sampling
    kept: Kept | None = None
    """Where filters sampled: the tokens they had left at each answer token, by row."""
    advantages: Advantages | None = None
    weights: Float[Tensor, "B T"] | None = None
    """The weighting: made once from the mask of the whole optimizer step, so that parts add up."""
    old_logprobs: Float[Tensor, "B T"] | None = None
    ref_logprobs: Float[Tensor, "B T"] | None = None
    chosen: Bool[Tensor, "B T"] | None = None
    """Tokens picked by the variant; None for all."""

    def rows(self, index: Int[Tensor, " rows"]) -> "Batch":
        """Some rows, cut to their longest; their weights stay those of the whole step."""
        width = int(self.lengths[index].max()) if len(index) else 0
        taken: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Tensor):
                part = value[index]
                taken[item.name] = part[:, :width] if part.dim() == 2 else part
            elif item.name == "kept" and value is not None:
                taken[item.name] = [value[row] for row in index.tolist()]
            else:
                taken[item.name] = value
        return Batch(**taken)


def rewards_of(groups: Sequence[Group]) -> tuple[Float[Tensor, "P G"], Bool[Tensor, "P G"]]:
    """Rewards, 0 where there is none, and which rollouts have one."""
    values = [[rollout.score.value for rollout in g.rollouts if rollout.score] for g in groups]
    rewards = torch.tensor([[float(value or 0.0) for value in row] for row in values])
    return rewards, torch.tensor([[value is not None for value in row] for row in values])


def groups_with_signal(groups: Sequence[Group], variant: Variant) -> list[Group]:
    """Those whose rewards differ, of the answers that count; the others' advantages are all 0."""
    if not groups:
        return []
    seen = outcomes_of(groups, {}, variant)
    signal = mixed(seen.rewards, seen.scored).tolist()
    return [group for group, keep in zip(groups, signal, strict=True) if keep]


def outcomes_of(
    groups: Sequence[Group], part_weights: dict[str, float], variant: Variant
) -> Outcomes:
    """Rewards, lengths and parts of the reward, as advantages are made from them.

    Args:
        groups: Scored groups of one size.
        part_weights: Weight of each part of the reward by its name; parts without one weigh 1.
        variant: Where it masks answers that the limit cut, they leave every statistic.
    """
    rewards, scored = rewards_of(groups)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    if variant.overlong == "mask":
        finished = torch.tensor([rollout.finish_reason == "stop" for rollout in rollouts])
        scored = scored & finished.view(scored.shape)
    names = sorted({name for r in rollouts if r.score for name in r.score.parts})
    parts = [[r.score.parts.get(name, 0.0) if r.score else 0.0 for name in names] for r in rollouts]
    return Outcomes(
        rewards,
        scored,
        lengths=torch.tensor([len(r.answer_tokens) for r in rollouts]).view(rewards.shape),
        parts=torch.tensor(parts).view(*rewards.shape, len(names)) if names else rewards[..., None],
        part_weights=torch.tensor([part_weights.get(name, 1.0) for name in names or ("reward",)]),
    )


def make_batch(
    groups: Sequence[Group], variant: Variant, pad_id: int, weights_version: int
) -> Batch:
    """All answers of the groups, those of one group side by side.

    Answers without a score train nothing. Where the variant masks answers that the length limit
    cut, these train nothing either, but still count where a divisor counts answers.

    Args:
        groups: Scored, at least one.
        variant: What trains.
        pad_id: Any token.
        weights_version: Optimizer steps that the learner's weights have seen.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    size = len(groups[0].rollouts)
    tokens, answers, lengths = pad(rollouts, pad_id)
    _, scored = rewards_of(groups)
    counted = scored.flatten()
    mask = answers & counted[:, None]
    sampler_logprobs = spread(answers, [r.sampler_logprobs for r in rollouts])
    entropies = spread(answers, [r.sampler_entropies for r in rollouts])
    if variant.overlong == "mask":
        mask = finished_only(torch.tensor([r.finish_reason == "stop" for r in rollouts]), mask)
    return Batch(
        tokens,
        mask,
        lengths,
        groups=torch.arange(len(groups)).repeat_interleave(size),
        counted=counted,
        sampler_logprobs=sampler_logprobs,
        sampler_entropies=entropies,
        corrected=torch.tensor([[r.weights_version != weights_version] for r in rollouts]),
        sampling=rollouts[0].sampling,
        kept=kept_of(rollouts, mask) if rollouts[0].sampling.filters else None,
    )


def kept_of(rollouts: Sequence[Rollout], mask: Bool[Tensor, "B T"]) -> Kept:
    """By row, the tokens that filters had left, one set per token that trains."""
    trains = mask.any(dim=1).tolist()
    return [r.kept if row else () for r, row in zip(rollouts, trains, strict=True)]


def pad(
    rollouts: Sequence[Rollout], pad_id: int
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"], Int[Tensor, " B"]]:
    """Right-padded tokens, the mask of the answers, and lengths."""
    prompt = torch.tensor([len(rollout.prompt_tokens) for rollout in rollouts])
    lengths = prompt + torch.tensor([len(rollout.answer_tokens) for rollout in rollouts])
    position = torch.arange(int(lengths.max()))[None]
    mask = (prompt[:, None] <= position) & (position < lengths[:, None])
    tokens = torch.full(mask.shape, pad_id)
    ids = [
        token for rollout in rollouts for token in (*rollout.prompt_tokens, *rollout.answer_tokens)
    ]
    tokens[position < lengths[:, None]] = torch.tensor(ids)
    return tokens, mask, lengths


def spread(answers: Bool[Tensor, "B T"], values: Sequence[Sequence[float]]) -> Float[Tensor, "B T"]:
    """One number per answer token, where the token stands; 0 elsewhere, and where none is known."""
    if not all(len(row) for row in values):
        return torch.zeros(answers.shape)
    flat = torch.tensor([value for row in values for value in row], dtype=torch.float32)
    return torch.zeros(answers.shape).masked_scatter(answers, flat)


def mini_batches(batch: Batch, variant: Variant, seed: int, step: int) -> list[Batch]:
    """The batch in as many parts as a pass has optimizer steps, with weights; whole groups each.

    Each part's weighting is made from its own mask. The order of the groups is a draw of the step.

    Args:
        batch: All answers, with advantages.
        variant: How many parts, and the weighting.
        seed: Of the run.
        step: Of the loop.
    """
    count = int(batch.groups.max()) + 1
    order = torch.arange(count)
    if variant.mini_batches > 1:
        order = uniforms(seed, step, SHUFFLE, order).argsort(stable=True)
    parts = order.tensor_split(min(variant.mini_batches, count))
    rows = [torch.isin(batch.groups, part).nonzero().squeeze(1) for part in parts]
    return [_weighted(batch, index, variant, seed, step) for index in rows]


def _weighted(
    batch: Batch, index: Int[Tensor, " rows"], variant: Variant, seed: int, step: int
) -> Batch:
    part = batch.rows(index)
    assert part.advantages is not None, "weights come after advantages"
    weights = weights_of(
        variant,
        part.mask,
        group_of_row=part.groups,
        rows=int(part.counted.sum()),
        max_new_tokens=part.sampling.max_new_tokens,
    )
    old = part.sampler_logprobs if part.old_logprobs is None else part.old_logprobs
    position = torch.arange(part.mask.shape[1])[None]
    chance = uniforms(seed, step, CHOICE, index[:, None], position)
    chosen = chosen_tokens(variant, old, part.sampler_entropies, part.advantages, part.mask, chance)
    return replace(part, weights=weights, chosen=chosen)


def with_gradient(batch: Batch, without_signal: bool) -> Batch | None:
    """The rows whose gradient is not exactly 0; None where no row is left.

    Args:
        batch: With advantages.
        without_signal: Whether answers of advantage 0 have one too, from another term of the loss.
    """
    assert batch.advantages is not None, "gradients come after advantages"
    trains = batch.mask.any(dim=1)
    if not without_signal:
        moved = (batch.advantages != 0).any(dim=1)
        trains &= torch.isin(batch.groups, batch.groups[moved])
    rows = trains.nonzero().squeeze(1)
    return batch.rows(rows) if len(rows) else None


def micro_rows(batch: Batch, tokens_at_once: int) -> list[Int[Tensor, " rows"]]:
    """Which rows each micro-batch holds: as many as the budget allows, groups side by side.

    A group's prompt counts once in a micro-batch, since it is computed once, and so does the prefix
    of all prompts.
    """
    answers = batch.mask.sum(dim=1)
    prompts, groups = (batch.lengths - answers).tolist(), batch.groups.tolist()
    rows = {group: row for row, group in enumerate(groups)}
    shared = shared_prefix([batch.tokens[row, : prompts[row]].tolist() for row in rows.values()])
    parts, group, used = list[list[int]](), -1, 0
    for row, answer in enumerate(answers.tolist()):
        needed = answer + (prompts[row] - shared if groups[row] != group else 0)
        if not parts or used + needed > tokens_at_once:
            parts.append([])
            needed, used = answer + prompts[row], 0
        parts[-1].append(row)
        group, used = groups[row], used + needed
    return [torch.tensor(rows) for rows in parts]

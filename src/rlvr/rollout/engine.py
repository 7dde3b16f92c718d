"""The sampler: a batch of prompts, G answers each, from the same decoder that learns.

Each prompt is read once and its cache copied for the G answers. Rows share their column in the
cache, so a step of all rows is one forward pass; rows that have ended leave the batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.model.decoder import Cache, Weights, extend, logits_of
from rlvr.model.distribution import sample, truncate, uniforms, without
from rlvr.model.tokens import Tokens
from rlvr.records import Problem, Prompt, Rollout, Sampling

COMPACT_BELOW = 0.8  # share of rows still running below which the others are dropped


@dataclass(frozen=True, slots=True)
class Draws:
    """Names the chance of one round: with problem, slot and position it gives every draw."""

    seed: int
    step: int
    round: int = 0


@dataclass(slots=True)
class Answers:
    """Answers of R rows as they grow, in columns."""

    tokens: Int[Tensor, "R N"]
    logprobs: Float[Tensor, "R N"]
    entropies: Float[Tensor, "R N"]
    lengths: Int[Tensor, " R"]
    ended: Tensor
    kept: list[list[list[int]]] | None
    """Where filters are on: by row, the tokens they had left at each position."""


@torch.no_grad()
def sample_rows(
    weights: Weights,
    prompts: Sequence[Sequence[int]],
    keys: Sequence[int],
    answers_per_prompt: int,
    sampling: Sampling,
    draws: Draws,
    stop_ids: Sequence[int],
) -> Answers:
    """Sample `answers_per_prompt` answers to each prompt, rows of one prompt side by side.

    Args:
        weights: From `Decoder.weights`, for sampling.
        prompts: Token ids, P lists.
        keys: One number per prompt that names it among the draws, whatever else is in the batch.
        answers_per_prompt: G, rows per prompt.
        sampling: Temperature 0 takes the likeliest token; log-probabilities are then of the plain
            distribution.
        draws: Names the chance of this round.
        stop_ids: Any of these ends an answer, and belongs to it.

    Returns:
        P*G rows of answers.
    """
    width = max(map(len, prompts))
    limit = sampling.max_new_tokens
    if width + limit > weights.shape.max_position_embeddings:
        raise ValueError(f"{width} prompt and {limit} answer tokens pass the model's positions")
    start = torch.tensor([width - len(prompt) for prompt in prompts])
    tokens = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, width - len(prompt) :] = torch.tensor(prompt)
    prefix = Cache.empty(weights, start, width)
    hidden = extend(weights, tokens, prefix).repeat_interleave(answers_per_prompt, dim=0)
    rows = torch.arange(len(prompts)).repeat_interleave(answers_per_prompt)
    cache = prefix.rows(rows, columns=width + limit)
    chance = _chance(keys, answers_per_prompt, limit, draws) if sampling.temperature > 0 else None
    return _decode(weights, hidden, cache, sampling, chance, torch.tensor(stop_ids))


def _chance(keys: Sequence[int], slots: int, limit: int, draws: Draws) -> Float[Tensor, "R N"]:
    """One uniform number for each row and position."""
    problem = torch.tensor(keys).repeat_interleave(slots)[:, None]
    slot = torch.arange(slots).repeat(len(keys))[:, None]
    position = torch.arange(limit)[None]
    return uniforms(draws.seed, draws.step, draws.round, problem, slot, position)


def _decode(
    weights: Weights,
    hidden: Tensor,
    cache: Cache,
    sampling: Sampling,
    chance: Tensor | None,
    stop_ids: Tensor,
) -> Answers:
    rows, limit = len(hidden), sampling.max_new_tokens
    answers = Answers(
        tokens=torch.zeros(rows, limit, dtype=torch.long),
        logprobs=torch.zeros(rows, limit),
        entropies=torch.zeros(rows, limit),
        lengths=torch.zeros(rows, dtype=torch.long),
        ended=torch.zeros(rows, dtype=torch.bool),
        kept=[[] for _ in range(rows)] if sampling.filters and chance is not None else None,
    )
    running = torch.arange(rows)
    for position in range(limit):
        column = None if chance is None else chance[running, position, None]
        token, logprob, entropy, left = next_tokens(logits_of(weights, hidden), sampling, column)
        live = ~answers.ended[running]
        now = running[live]
        answers.tokens[now, position] = token[live]
        answers.logprobs[now, position] = logprob[live]
        answers.entropies[now, position] = entropy[live]
        answers.lengths[now] = position + 1
        if answers.kept is not None and left is not None:
            for row, tokens in zip(now.tolist(), left[live], strict=True):
                answers.kept[row].append(tokens.nonzero().squeeze(1).tolist())
        answers.ended[now] = torch.isin(token[live], stop_ids)
        stays = ~answers.ended[running]
        still = int(stays.sum())
        if not still or position == limit - 1:
            break
        if still < COMPACT_BELOW * len(running):
            keep = stays.nonzero().squeeze(1)
            running, token, cache = running[keep], token[keep], cache.rows(keep)
        hidden = extend(weights, token[:, None], cache)
    return answers


Drawn = tuple[
    Int[Tensor, " R"], Float[Tensor, " R"], Float[Tensor, " R"], Bool[Tensor, "R V"] | None
]


def next_tokens(
    logits: Float[Tensor, "R V"], sampling: Sampling, chance: Float[Tensor, "R 1"] | None
) -> Drawn:
    """The next token of each row, its log-probability where it was drawn, and the entropy there.

    Last come the tokens that the filters have left, None where there are no filters.
    """
    logits = without(logits, sampling.banned)
    scaled = logits if chance is None else logits / sampling.temperature
    full = scaled.log_softmax(dim=-1)
    probabilities = full.exp()
    entropy = -(probabilities * full.clamp(min=-1e9)).sum(dim=-1)
    if chance is None:
        best = full.max(dim=-1)
        return best.indices, best.values, entropy, None
    if not sampling.filters:
        token = sample(probabilities, chance)
        return token, full.gather(-1, token[:, None]).squeeze(-1), entropy, None
    kept = truncate(scaled, sampling)
    logprobs = kept.log_softmax(dim=-1)
    token = sample(logprobs.exp(), chance)
    return token, logprobs.gather(-1, token[:, None]).squeeze(-1), entropy, kept > -torch.inf


def rollouts(
    weights: Weights,
    tokens: Tokens,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
    answers_per_prompt: int,
    sampling: Sampling,
    draws: Draws,
    weights_version: int,
    rows_at_once: int = 512,
) -> Iterator[Rollout]:
    """Sampled answers to each problem as records, a problem's answers side by side."""
    encoded = [tokens.encode_prompt(prompt) for prompt in prompts]
    size = max(1, rows_at_once // answers_per_prompt)
    for first in range(0, len(problems), size):
        chosen = range(first, min(first + size, len(problems)))
        answers = sample_rows(
            weights,
            [encoded[number] for number in chosen],
            list(chosen),
            answers_per_prompt,
            sampling,
            draws,
            tokens.stop_ids,
        )
        lengths, ended = answers.lengths.tolist(), answers.ended.tolist()
        ids, logprobs = answers.tokens.tolist(), answers.logprobs.tolist()
        entropies = answers.entropies.tolist()
        for row, (length, finished) in enumerate(zip(lengths, ended, strict=True)):
            number, slot = chosen[row // answers_per_prompt], row % answers_per_prompt
            yield Rollout(
                problem_id=problems[number].id,
                group_id=number,
                slot=slot,
                prompt_tokens=encoded[number],
                answer_tokens=ids[row][:length],
                sampler_logprobs=logprobs[row][:length],
                finish_reason="stop" if finished else "length",
                text=tokens.decode(ids[row][:length]),
                sampling=sampling,
                seed=draws.seed,
                weights_version=weights_version,
                sampler_entropies=entropies[row][:length],
                kept=answers.kept[row] if answers.kept is not None else (),
                opened=prompts[number].opened,
            )

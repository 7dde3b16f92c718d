"""The sampler: a batch of prompts, G answers each, from the same decoder that learns.

What all prompts begin with is read once, then each prompt, whose cache is copied for the G answers.
Rows share their column in the cache, so a step of all rows is one forward pass; rows that have
ended leave the batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.model.cache import Cache, extend
from rlvr.model.decoder import Shape, Weights, logits_of, prepacked
from rlvr.model.distribution import sample, truncate, uniforms, without
from rlvr.model.packing import shared_prefix
from rlvr.model.tokens import Tokens
from rlvr.records import Problem, Prompt, Rollout, Sampling
from rlvr.rollout.stops import Stops

COMPACT_BELOW = 0.8  # share of rows still running below which the others are dropped
ROWS_ROUNDED = 16  # rows kept are a multiple of this: each number of rows compiles its products
PROMPT_ROUNDED = 8  # the same for the columns of prompts
PREPACKED_FROM = 24  # answer tokens from which it pays to lay out the weights for token steps
ROWS_AT_ONCE = 512
CACHE_BYTES = 1 << 31  # most memory of the keys and values at once


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
    stops: Stops | None = None,
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
        stops: Texts that end an answer too; the token that completes one belongs to it.

    Returns:
        P*G rows of answers.
    """
    longest, limit = max(map(len, prompts)), sampling.max_new_tokens
    if longest + limit > weights.shape.max_position_embeddings:
        raise ValueError(f"{longest} prompt and {limit} answer tokens pass the model's positions")
    rows = torch.arange(len(prompts)).repeat_interleave(answers_per_prompt)
    if limit >= PREPACKED_FROM:
        weights = prepacked(weights, len(rows))
    hidden, cache = read_prompts(weights, prompts)
    chance = _chance(keys, answers_per_prompt, limit, draws) if sampling.temperature > 0 else None
    ending = Ending(torch.tensor(stop_ids, dtype=torch.long), stops)
    return _decode(weights, hidden[rows], cache.rows(rows), sampling, chance, ending)


def read_prompts(
    weights: Weights, prompts: Sequence[Sequence[int]]
) -> tuple[Float[Tensor, "P D"], Cache]:
    """The last hidden state of each prompt, and the cache behind it.

    Args:
        weights: For sampling.
        prompts: Token ids; what they begin with alike is read once.
    """
    shared = shared_prefix(prompts)
    longest = max(map(len, prompts)) - shared
    width = longest + -longest % PROMPT_ROUNDED
    padding = torch.tensor([width - len(prompt) + shared for prompt in prompts])
    tokens = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, padding[row] :] = torch.tensor(prompt[shared:])
    if shared:
        prefix = Cache.empty(weights, torch.zeros(1, dtype=torch.long))
        extend(weights, torch.tensor([prompts[0][:shared]]), prefix)
        cache = prefix.followed(padding)
    else:
        cache = Cache.empty(weights, padding)
    return extend(weights, tokens, cache), cache


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends an answer."""

    ids: Int[Tensor, " n"]
    stops: Stops | None

    def of(
        self, token: Int[Tensor, " R"], running: Tensor, position: int, answers: Answers
    ) -> Tensor:
        """Which running rows end with the token at a position, (R,)."""
        found = torch.isin(token, self.ids)
        if self.stops is not None:
            for place, last in enumerate(token.tolist()):
                if last in self.stops.candidates and not found[place]:
                    row = answers.tokens[running[place], : position + 1].tolist()
                    found[place] = self.stops.completed(row)
        return found


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
    ending: Ending,
) -> Answers:
    rows, limit = len(hidden), sampling.max_new_tokens
    answers = Answers(
        tokens=torch.zeros(rows, limit, dtype=torch.long),
        logprobs=torch.zeros(rows, limit),
        entropies=torch.zeros(rows, limit),
        lengths=torch.full((rows,), limit),
        ended=torch.zeros(rows, dtype=torch.bool),
        kept=[[] for _ in range(rows)] if sampling.filters and chance is not None else None,
    )
    running = torch.arange(rows)
    for position in range(limit):
        column = None if chance is None else chance[running, position, None]
        token, logprob, entropy, left = next_tokens(logits_of(weights, hidden), sampling, column)
        answers.tokens[running, position] = token
        answers.logprobs[running, position] = logprob
        answers.entropies[running, position] = entropy
        live = ~answers.ended[running]
        if answers.kept is not None and left is not None:
            for row, tokens in zip(running[live].tolist(), left[live], strict=True):
                answers.kept[row].append(tokens.nonzero().squeeze(1).tolist())
        ends = running[live & ending.of(token, running, position, answers)]
        answers.ended[ends] = True
        answers.lengths[ends] = position + 1
        stays = ~answers.ended[running]
        keep = staying(stays)
        if not len(keep) or position == limit - 1:
            break
        if len(keep) < len(running):
            running, token, cache = running[keep], token[keep], cache.rows(keep)
        hidden = extend(weights, token[:, None], cache)
    behind = torch.arange(limit) >= answers.lengths[:, None]  # drawn after the end, for company
    for found in (answers.tokens, answers.logprobs, answers.entropies):
        found[behind] = 0
    return answers


def staying(running: Bool[Tensor, " R"]) -> Int[Tensor, " rows"]:
    """Which rows go on: all, until enough have ended; then those that run, and a few for company.

    Their number is rounded, so that few shapes occur. None where no row runs.
    """
    rows, still = len(running), int(running.sum())
    if still >= COMPACT_BELOW * rows:
        return torch.arange(rows)
    if still > ROWS_ROUNDED:
        count = still + -still % ROWS_ROUNDED
    else:
        count = 1 << (still - 1).bit_length() if still else 0
    if count >= rows:
        return torch.arange(rows)
    return running.int().argsort(descending=True, stable=True)[:count].sort().values


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
    scaled = (
        logits if chance is None or sampling.temperature == 1 else logits / sampling.temperature
    )
    top = scaled.amax(dim=-1, keepdim=True)
    below = scaled - top
    weight = below.exp()
    total = weight.sum(dim=-1, keepdim=True)
    log = total.log()
    finite = below.clamp(min=torch.finfo(below.dtype).min) if sampling.banned else below
    entropy = (log - torch.linalg.vecdot(weight, finite)[:, None] / total).squeeze(-1)
    if chance is None:
        return below.argmax(dim=-1), -log.squeeze(-1), entropy, None
    if not sampling.filters:
        token = sample(weight, chance)
        return token, (below.gather(-1, token[:, None]) - log).squeeze(-1), entropy, None
    kept = truncate(scaled, sampling)
    logprobs = kept.log_softmax(dim=-1)
    token = sample(logprobs.exp(), chance)
    return token, logprobs.gather(-1, token[:, None]).squeeze(-1), entropy, kept > -torch.inf


def rows_at_once(shape: Shape, tokens: int, product_bytes: int) -> int:
    """Rows of prompt and answer that the memory for keys and values holds, at most ROWS_AT_ONCE."""
    per_token = shape.num_hidden_layers * 2 * shape.num_key_value_heads * shape.head_dim
    return max(1, min(ROWS_AT_ONCE, CACHE_BYTES // (per_token * tokens * product_bytes)))


def rollouts(
    weights: Weights,
    tokens: Tokens,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
    answers_per_prompt: int,
    sampling: Sampling,
    draws: Draws,
    weights_version: int,
) -> Iterator[Rollout]:
    """Sampled answers to each problem as records, a problem's answers side by side."""
    encoded = [tokens.encode_prompt(prompt) for prompt in prompts]
    stops = Stops.of(tokens, sampling.stop)
    longest = max(map(len, encoded), default=0) + sampling.max_new_tokens
    rows = rows_at_once(weights.shape, longest, weights.embedding.dtype.itemsize)
    size = max(1, rows // answers_per_prompt)
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
            stops,
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

"""The sampler: a batch of prompts, G answers each, from the same decoder that learns.

What all prompts begin with is read once, then each prompt, whose cache is copied for the G answers.
Rows share their column in the cache, so a step of all rows is one forward pass; rows that have
ended leave the batch, and the answers of waiting prompts enter it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.model.cache import extend
from rlvr.model.decoder import Shape, Weights, logits_of
from rlvr.model.distribution import sample, truncate, uniforms, without
from rlvr.model.token_step import for_sampling
from rlvr.model.tokens import Tokens
from rlvr.records import Problem, Prompt, Rollout, Sampling
from rlvr.rollout.rows import Answers, Drawn, UnderWay, Waiting
from rlvr.rollout.stops import Stops

COMPACT_BELOW = 0.8  # share of rows still running below which the others are dropped
ROWS_ROUNDED = 16  # rows kept are a multiple of this: each number of rows compiles its products
ROWS_AT_ONCE = 512
ENTER_FROM = 0.25  # share of the rows that must be free before waiting prompts enter
CROWDED = 1.25  # times the columns that a row needs, at which those no row needs are dropped
CACHE_BYTES = 1 << 31  # most memory of the keys and values at once
WINDOW = 8  # times the rows at once whose records are made together


@dataclass(frozen=True, slots=True)
class Draws:
    """Names the chance of one round: with problem, slot and position it gives every draw."""

    seed: int
    step: int
    round: int = 0


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
    at_once: int = ROWS_AT_ONCE,
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
        at_once: Rows under way at most, though at least those of one prompt. Further prompts wait
            and enter as answers end.

    Returns:
        P*G answers.
    """
    longest, limit = max(map(len, prompts)), sampling.max_new_tokens
    if longest + limit > weights.shape.max_position_embeddings:
        raise ValueError(f"{longest} prompt and {limit} answer tokens pass the model's positions")
    rows, at_once = len(prompts) * answers_per_prompt, max(at_once, answers_per_prompt)
    weights = for_sampling(weights, min(rows, at_once), limit)
    greedy = sampling.temperature == 0
    chance = None if greedy else _chance(keys, answers_per_prompt, limit, draws)
    ending = Ending(torch.tensor(stop_ids, dtype=torch.long), stops)
    answers = Answers.empty(rows, limit, filtered=sampling.filters and not greedy)
    waiting = Waiting.of(weights, prompts, answers_per_prompt)
    under_way: UnderWay | None = waiting.enter(at_once)
    while under_way is not None:
        token, running = drawn_on(weights, under_way, answers, sampling, chance, ending)
        under_way = gone_on(weights, under_way, token, running, waiting, at_once, longest + limit)
    return answers


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends an answer."""

    ids: Int[Tensor, " n"]
    stops: Stops | None

    def of(
        self, token: Int[Tensor, " R"], under_way: "UnderWay", answers: Answers
    ) -> Bool[Tensor, " R"]:
        """Which rows under way end with the token that was written last."""
        found = torch.isin(token, self.ids)
        if self.stops is not None:
            for place, last in enumerate(token.tolist()):
                if last in self.stops.candidates and not found[place]:
                    row, end = under_way.rows[place], under_way.position[place] + 1
                    found[place] = self.stops.completed(answers.tokens[row, :end].tolist())
        return found


def _chance(keys: Sequence[int], slots: int, limit: int, draws: Draws) -> Float[Tensor, "A N"]:
    """One uniform number for each answer and position."""
    problem = torch.tensor(keys).repeat_interleave(slots)[:, None]
    slot = torch.arange(slots).repeat(len(keys))[:, None]
    position = torch.arange(limit)[None]
    return uniforms(draws.seed, draws.step, draws.round, problem, slot, position)


def drawn_on(
    weights: Weights,
    under_way: UnderWay,
    answers: Answers,
    sampling: Sampling,
    chance: Float[Tensor, "A N"] | None,
    ending: Ending,
) -> tuple[Int[Tensor, " R"], Bool[Tensor, " R"]]:
    """Draw the next token of each row and write it; the tokens, and which rows go on."""
    rows, position = under_way.rows, under_way.position
    last = sampling.max_new_tokens - 1
    column = None if chance is None else chance[rows, position.clamp(max=last), None]
    token, logprob, entropy, left = next_tokens(
        logits_of(weights, under_way.hidden), sampling, column
    )
    live = answers.lengths[rows] == 0
    drawn = (token[live], logprob[live], entropy[live], left[live] if left is not None else None)
    answers.write(rows[live], position[live], drawn)
    ended = live & ending.of(token, under_way, answers)
    done = ended | live & (position == last)
    answers.ended[rows[ended]] = True
    answers.lengths[rows[done]] = position[done] + 1
    return token, live & ~done


def gone_on(
    weights: Weights,
    under_way: UnderWay,
    token: Int[Tensor, " R"],
    running: Bool[Tensor, " R"],
    waiting: Waiting,
    at_once: int,
    columns: int,
) -> UnderWay | None:
    """The rows under way after their tokens are read; waiting ones enter where there is room.

    Args:
        weights: For sampling.
        under_way: The rows so far.
        token: What each has just got.
        running: Which have not ended; None goes on where none of them and nothing waits.
        waiting: Prompts that may enter.
        at_once: Rows under way at most.
        columns: Of the longest prompt and answer.
    """
    room = at_once - int(running.sum())
    enter = waiting.left and room >= max(waiting.answers_per_prompt, int(ENTER_FROM * at_once))
    crowded = under_way.cache.used >= CROWDED * columns
    if enter or crowded:
        stay = running.nonzero().squeeze(1)
    else:
        stay = torch.arange(len(running)) if waiting.left else staying(running)
    if not len(stay):
        return waiting.enter(room) if enter else None
    rows, position, cache = under_way.rows, under_way.position + 1, under_way.cache
    if len(stay) < len(running):
        rows, position, token, cache = rows[stay], position[stay], token[stay], cache.rows(stay)
    hidden = extend(weights, token[:, None], cache)
    if enter:
        new = waiting.enter(room)
        rows, position = torch.cat([rows, new.rows]), torch.cat([position, new.position])
        hidden, cache = torch.cat([hidden, new.hidden]), cache.joined(new.cache)
    elif crowded:
        cache = cache.joined()
    return UnderWay(rows, position, hidden, cache)


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
    at_once = rows_at_once(weights.shape, longest, weights.embedding.dtype.itemsize)
    size = WINDOW * max(1, at_once // answers_per_prompt)
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
            at_once,
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

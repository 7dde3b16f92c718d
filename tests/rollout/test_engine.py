"""The engine against a slow twin, and what its records promise."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from plain import hidden_states, logits_of
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor

from rlvr.model.cache import COLUMNS, Cache, extend
from rlvr.model.decoder import Decoder, Shape, Weights
from rlvr.model.distribution import truncate, uniforms
from rlvr.model.logprobs import token_logprobs
from rlvr.model.token_step import PREPACKED_FROM
from rlvr.model.tokens import Tokens
from rlvr.records import Sampling
from rlvr.rollout.engine import (
    ROWS_AT_ONCE,
    Draws,
    rows_at_once,
    sample_rows,
    staying,
)
from rlvr.rollout.stops import Stops

SHAPE = Shape(
    vocab_size=23,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
)
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [4], [5, 6, 7, 8]]
STOP = 2
DRAWS = Draws(seed=11, step=3)


@pytest.fixture
def weights() -> Weights:
    decoder = Decoder(SHAPE)
    generator = torch.Generator().manual_seed(0)
    for parameter in decoder.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.1 * noise if parameter.dim() == 1 else 0.4 * noise
    with torch.no_grad():
        return decoder.weights(torch.float32)


@torch.no_grad()
def answer_by_the_book(
    weights: Weights, prompt: Sequence[int], key: int, slot: int, sampling: Sampling
) -> tuple[list[int], list[float]]:
    """One row alone, without a cache: the whole text is read again for every token."""
    tokens, logprobs = list(prompt), []
    for position in range(sampling.max_new_tokens):
        hidden = hidden_states(weights, torch.tensor([tokens]))[0, -1]
        scaled = logits_of(weights, hidden) / sampling.temperature
        distribution = truncate(scaled[None], sampling)[0].softmax(0)
        number = uniforms(DRAWS.seed, DRAWS.step, DRAWS.round, key, slot, position)
        token = next(
            i for i in range(len(distribution)) if distribution[: i + 1].sum() > float(number)
        )
        tokens.append(token)
        logprobs.append(float(distribution[token].log()))
        if token == STOP:
            break
    return tokens[len(prompt) :], logprobs


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_new_tokens=12),
        Sampling(temperature=0.6, max_new_tokens=12),
        Sampling(top_p=0.8, max_new_tokens=12),
        Sampling(top_k=3, min_p=0.05, temperature=1.3, max_new_tokens=12),
    ],
)
def test_batched_answers_equal_those_of_the_slow_twin(weights: Weights, sampling: Sampling) -> None:
    keys = [100, 7, 30, 100_000]
    found = sample_rows(weights, PROMPTS, keys, 6, sampling, DRAWS, [STOP])
    for row in range(len(PROMPTS) * 6):
        tokens, logprobs = answer_by_the_book(
            weights, PROMPTS[row // 6], keys[row // 6], row % 6, sampling
        )
        length = int(found.lengths[row])
        assert found.tokens[row, :length].tolist() == tokens
        assert torch.allclose(found.logprobs[row, :length], torch.tensor(logprobs), atol=1e-4)
        assert bool(found.ended[row]) == (tokens[-1] == STOP)


def test_answers_to_prompts_with_a_prefix_in_common_equal_those_of_the_slow_twin(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, sampling = [*range(3, 23)], Sampling(max_new_tokens=12)
    prompts = [[*prefix, *prompt] for prompt in PROMPTS]
    widths = list[int]()

    def noted(weights: Weights, tokens: Tensor, cache: Cache) -> Tensor:
        widths.append(tokens.numel())
        return extend(weights, tokens, cache)

    monkeypatch.setattr("rlvr.rollout.rows.extend", noted)
    found = sample_rows(weights, prompts, [0, 1, 2, 3], 5, sampling, DRAWS, [STOP])
    assert widths[:2] == [20, 4 * 8]  # once, then what differs, in columns of 8
    for row, length in enumerate(found.lengths.tolist()):
        tokens, logprobs = answer_by_the_book(
            weights, prompts[row // 5], row // 5, row % 5, sampling
        )
        assert found.tokens[row, :length].tolist() == tokens
        assert torch.allclose(found.logprobs[row, :length], torch.tensor(logprobs), atol=1e-4)


@pytest.mark.parametrize("prefix", [[], [*range(3, 23)]], ids=["apart", "with a prefix"])
@pytest.mark.parametrize(
    ("at_once", "crowded", "sampling"),
    [
        (8, 1.25, Sampling(max_new_tokens=30)),
        (8, 1.0, Sampling(max_new_tokens=30)),  # columns that no row needs are dropped often
        (3, 1.25, Sampling(max_new_tokens=37)),  # to the last of the model's positions
        (1, 1.25, Sampling(max_new_tokens=12)),  # fewer than the answers of one prompt
        (6, 1.25, Sampling(0.9, 0.9, max_new_tokens=20)),
    ],
)
def test_waiting_answers_that_enter_as_others_end_equal_those_of_the_slow_twin(
    weights: Weights,
    monkeypatch: pytest.MonkeyPatch,
    prefix: list[int],
    at_once: int,
    crowded: float,
    sampling: Sampling,
) -> None:
    prompts = [[*prefix, *prompt] for prompt in PROMPTS * 2][:7]
    under_way, columns = list[int](), list[int]()

    def noted(weights: Weights, tokens: Tensor, cache: Cache) -> Tensor:
        hidden = extend(weights, tokens, cache)
        under_way.append(len(tokens))
        columns.append(cache.used)
        return hidden

    monkeypatch.setattr("rlvr.rollout.engine.extend", noted)
    monkeypatch.setattr("rlvr.rollout.engine.CROWDED", crowded)
    answers = (weights, prompts, range(7), 3, sampling, DRAWS, [STOP])
    found = sample_rows(*answers, at_once=at_once)
    assert max(under_way) <= max(at_once, 3)
    assert max(columns) <= crowded * (len(prefix) + 6 + sampling.max_new_tokens) + 1
    for row, length in enumerate(found.lengths.tolist()):
        prompt, slot = prompts[row // 3], row % 3
        tokens, logprobs = answer_by_the_book(weights, prompt, row // 3, slot, sampling)
        assert found.tokens[row, :length].tolist() == tokens
        assert torch.allclose(found.logprobs[row, :length], torch.tensor(logprobs), atol=1e-4)
        assert bool(found.ended[row]) == (tokens[-1] == STOP)
        assert not found.tokens[row, length:].any()
        assert found.kept is None or len(found.kept[row]) == length


def test_the_batch_stays_full_while_answers_wait(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that end early make room for others: fewer steps than batch after batch takes."""
    sampling, prompts, ends = Sampling(max_new_tokens=50), PROMPTS * 6, [2, 3]
    steps = list[int]()

    def noted(weights: Weights, tokens: Tensor, cache: Cache) -> Tensor:
        steps.append(len(tokens))
        return extend(weights, tokens, cache)

    monkeypatch.setattr("rlvr.rollout.engine.extend", noted)
    for first in (0, 8, 16):
        keys = range(first, first + 8)
        sample_rows(weights, prompts[:8], keys, 1, sampling, DRAWS, ends)
    apart = len(steps)
    steps.clear()
    found = sample_rows(weights, prompts, range(24), 1, sampling, DRAWS, ends, at_once=8)
    assert found.ended.float().mean() > 0.5
    assert len(steps) < 0.85 * apart


def test_an_answer_does_not_depend_on_who_shares_the_batch(weights: Weights) -> None:
    sampling = Sampling(max_new_tokens=12)
    together = sample_rows(weights, PROMPTS, [0, 1, 2, 3], 4, sampling, DRAWS, [STOP])
    alone = sample_rows(weights, PROMPTS[1:2], [1], 4, sampling, DRAWS, [STOP])
    assert torch.equal(together.tokens[4:8], alone.tokens)
    assert torch.allclose(together.logprobs[4:8], alone.logprobs, atol=1e-5)


def test_slots_problems_steps_and_rounds_draw_differently(weights: Weights) -> None:
    sampling, prompts = Sampling(max_new_tokens=12), [[5, 6, 7]] * 2
    draws = (DRAWS, Draws(11, 4), Draws(12, 3), Draws(11, 3, round=1))
    rows = [
        tuple(row)
        for draw in draws
        for row in sample_rows(weights, prompts, [0, 1], 4, sampling, draw, []).tokens.tolist()
    ]
    assert len(set(rows)) == len(rows)


def test_recorded_logprobs_are_those_the_learner_finds(weights: Weights) -> None:
    for sampling in (Sampling(max_new_tokens=12), Sampling(0.7, 0.9, 8, 0.01, 12)):
        found = sample_rows(weights, PROMPTS, [0, 1, 2, 3], 3, sampling, DRAWS, [STOP])
        for row, length in enumerate(found.lengths.tolist()):
            prompt = PROMPTS[row // 3]
            tokens = torch.tensor([prompt + found.tokens[row, :length].tolist()])
            mask = torch.arange(tokens.shape[1])[None] >= len(prompt)
            kept = [found.kept[row]] if found.kept is not None else None
            logprobs, entropies = token_logprobs(weights, tokens, mask, sampling, kept=kept)
            assert torch.allclose(logprobs[mask], found.logprobs[row, :length], atol=1e-4)
            assert torch.allclose(entropies[mask], found.entropies[row, :length], atol=1e-4)


def test_greedy_takes_the_likeliest_token_and_needs_no_draws(weights: Weights) -> None:
    greedy = Sampling(temperature=0.0, max_new_tokens=12)
    found = sample_rows(weights, PROMPTS, [0, 1, 2, 3], 1, greedy, DRAWS, [STOP])
    other = sample_rows(weights, PROMPTS, [9, 8, 7, 6], 1, greedy, Draws(0, 0), [STOP])
    assert torch.equal(found.tokens, other.tokens)
    with torch.no_grad():
        hidden = hidden_states(weights, torch.tensor([PROMPTS[1]]))[0, -1]
    assert found.tokens[1, 0] == logits_of(weights, hidden).argmax()


def test_every_stop_token_ends_an_answer_and_belongs_to_it(weights: Weights) -> None:
    sampling = Sampling(max_new_tokens=40, temperature=1.5)
    found = sample_rows(weights, PROMPTS, [0, 1, 2, 3], 8, sampling, DRAWS, [2, 3])
    ended = {
        int(found.tokens[row, int(length) - 1])
        for row, length in enumerate(found.lengths)
        if found.ended[row]
    }
    assert ended == {2, 3}
    for row, length in enumerate(found.lengths.tolist()):
        assert not {2, 3} & set(found.tokens[row, : length - 1].tolist())
        assert bool(found.ended[row]) or length == 40


def test_new_weights_change_the_next_rollout(weights: Weights) -> None:
    sampling = Sampling(max_new_tokens=12)
    before = sample_rows(weights, PROMPTS, [0, 1, 2, 3], 4, sampling, DRAWS, [STOP])
    weights.head.detach().mul_(10)
    after = sample_rows(weights, PROMPTS, [0, 1, 2, 3], 4, sampling, DRAWS, [STOP])
    assert not torch.equal(before.tokens, after.tokens)


@pytest.mark.parametrize(
    ("going", "kept"), [(40, 40), (33, 40), (30, 32), (17, 32), (9, 16), (3, 4)]
)
def test_rows_that_ended_are_dropped_in_few_sizes(going: int, kept: int) -> None:
    running = torch.zeros(40, dtype=torch.bool)
    running[torch.randperm(40, generator=torch.Generator().manual_seed(1))[:going]] = True
    stays = staying(running)
    assert len(stays) == kept
    assert set(running.nonzero().squeeze(1).tolist()) <= set(stays.tolist())
    assert stays.tolist() == sorted(set(stays.tolist()))


def test_no_row_stays_where_all_have_ended() -> None:
    assert len(staying(torch.zeros(5, dtype=torch.bool))) == 0


def test_long_answers_with_weights_laid_out_anew_equal_those_of_the_slow_twin(
    weights: Weights,
) -> None:
    sampling = Sampling(max_new_tokens=max(PREPACKED_FROM, COLUMNS) + 4)
    found = sample_rows(weights, PROMPTS, range(4), 3, sampling, DRAWS, [STOP])
    for row in range(12):
        prompt, slot = PROMPTS[row // 3], row % 3
        tokens, logprobs = answer_by_the_book(weights, prompt, row // 3, slot, sampling)
        length = int(found.lengths[row])
        assert found.tokens[row, :length].tolist() == tokens
        assert torch.allclose(found.logprobs[row, :length], torch.tensor(logprobs), atol=1e-4)
        assert not found.tokens[row, length:].any()


def test_rows_are_bounded_by_the_memory_of_keys_and_values() -> None:
    assert rows_at_once(SHAPE, 100, 2) == ROWS_AT_ONCE
    large = replace(SHAPE, num_hidden_layers=36, num_key_value_heads=8, head_dim=128)
    assert rows_at_once(large, 4096, 2) == 3
    assert rows_at_once(large, 10**9, 2) == 1


def test_a_stop_text_ends_an_answer_with_the_token_that_completes_it(
    weights: Weights,
) -> None:
    words = {"a": 3, "b": 4, "<s>": 0, "</s>": 2}
    words |= {f"w{number}": number for number in range(23) if number not in words.values()}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<s>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    stops = Stops.of(Tokens(tokenizer, (STOP,), 0), ("b",))
    sampling = Sampling(max_new_tokens=20)
    plain = sample_rows(weights, PROMPTS, range(4), 6, sampling, DRAWS, [STOP])
    found = sample_rows(weights, PROMPTS, range(4), 6, sampling, DRAWS, [STOP], stops)
    ended = 0
    for row in range(24):
        before = plain.tokens[row, : plain.lengths[row]].tolist()
        cut = before.index(4) + 1 if 4 in before else len(before)
        assert found.tokens[row, : found.lengths[row]].tolist() == before[:cut]
        assert bool(found.ended[row]) == (4 in before or bool(plain.ended[row]))
        ended += 4 in before
    assert ended > 3

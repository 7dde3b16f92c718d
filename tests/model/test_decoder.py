"""The decoder against `transformers`, and learner against sampler."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from packed import packed_logits
from plain import hidden_states, logits_of

from rlvr.model.cache import Cache, extend
from rlvr.model.decoder import Decoder, Shape, Weights

TINY = Shape(
    vocab_size=61,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=64,
    rope_theta=10_000.0,
)


def random_decoder(shape: Shape, seed: int = 0) -> Decoder:
    decoder = Decoder(shape)
    generator = torch.Generator().manual_seed(seed)
    for parameter in decoder.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.2 * noise if parameter.dim() == 1 else 0.3 * noise
    return decoder


def tokens_of(rows: int, width: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, TINY.vocab_size, (rows, width), generator=generator)


@torch.no_grad()
def logits(weights: Weights, tokens: torch.Tensor) -> torch.Tensor:
    return packed_logits(weights, tokens)


def transformers_twin(decoder: Decoder) -> Any:
    transformers = pytest.importorskip("transformers")
    shape = decoder.shape
    names = [name for name in Shape.__slots__ if name != "rope_theta"]
    config = transformers.Qwen3Config(
        **{name: getattr(shape, name) for name in names},
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        attention_bias=False,
    )
    twin = transformers.Qwen3ForCausalLM(config).eval()
    missing, surplus = twin.load_state_dict(dict(decoder.named_parameters()), strict=False)
    assert not surplus
    assert set(missing) <= {"lm_head.weight"}
    twin.tie_weights()
    return twin


@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_those_of_transformers_within_1e_4(tied: bool) -> None:
    decoder = random_decoder(replace(TINY, tie_word_embeddings=tied))
    tokens = tokens_of(4, 20)
    with torch.no_grad():
        expected = transformers_twin(decoder)(tokens).logits
        assert (logits(decoder.weights(torch.float32), tokens) - expected).abs().max() < 1e-4


def test_reading_with_a_cache_equals_transformers_within_1e_4() -> None:
    decoder = random_decoder(TINY)
    weights, tokens = decoder.weights(torch.float32), tokens_of(4, 20)
    with torch.no_grad():
        expected = transformers_twin(decoder)(tokens).logits
        cache = Cache.empty(weights, torch.zeros(4, dtype=torch.long))
        first = logits_of(weights, extend(weights, tokens[:, :8], cache))
        assert (first - expected[:, 7]).abs().max() < 1e-4
        for position in range(8, 20):
            step = logits_of(weights, extend(weights, tokens[:, position, None], cache))
            assert (step - expected[:, position]).abs().max() < 1e-4


def test_a_left_padded_prompt_reads_as_it_does_alone() -> None:
    weights, tokens = random_decoder(TINY).weights(torch.float32), tokens_of(1, 9)
    padded = torch.cat([torch.full((1, 5), 3), tokens], dim=1)
    with torch.no_grad():
        cache = Cache.empty(weights, torch.tensor([5]))
        hidden = extend(weights, padded, cache)
        alone = hidden_states(weights, tokens)[:, -1]
    assert torch.allclose(hidden, alone, atol=1e-5)


def test_right_padding_is_never_attended() -> None:
    weights, tokens = random_decoder(TINY).weights(torch.float32), tokens_of(2, 12)
    padded = torch.cat([tokens, tokens_of(2, 7, seed=5)], dim=1)
    assert torch.allclose(logits(weights, tokens), logits(weights, padded)[:, :12], atol=1e-5)


def test_rows_of_a_cache_go_on_as_the_rows_they_came_from() -> None:
    weights, tokens = random_decoder(TINY).weights(torch.float32), tokens_of(3, 10)
    with torch.no_grad():
        cache = Cache.empty(weights, torch.zeros(3, dtype=torch.long))
        extend(weights, tokens[:, :9], cache)
        index = torch.tensor([2, 0, 2])
        hidden = extend(weights, tokens[index, 9:], cache.rows(index))
        expected = hidden_states(weights, tokens)[index, -1]
    assert torch.allclose(hidden, expected, atol=1e-5)


def test_bfloat16_stays_near_float32() -> None:
    decoder, tokens = random_decoder(TINY), tokens_of(4, 20)
    exact, rounded = (logits(decoder.weights(d), tokens) for d in (torch.float32, torch.bfloat16))
    assert rounded.dtype == torch.float32
    assert (exact - rounded).abs().mean() < 0.02 * exact.std()


def test_every_weight_gets_a_gradient() -> None:
    decoder = random_decoder(TINY)
    weights = decoder.weights(torch.float32)
    logits_of(weights, hidden_states(weights, tokens_of(2, 8))).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in decoder.parameters())

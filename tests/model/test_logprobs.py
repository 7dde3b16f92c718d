"""Token log-probabilities against the version one would write on a board."""

import pytest
import torch
from plain import hidden_states, logits_of

from rlvr.model import logprobs as module
from rlvr.model.decoder import Decoder, Shape
from rlvr.model.logprobs import token_logprobs
from rlvr.records import Sampling

SHAPE = Shape(
    vocab_size=19,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    max_position_embeddings=32,
)


@pytest.fixture
def decoder() -> Decoder:
    decoder = Decoder(SHAPE)
    generator = torch.Generator().manual_seed(3)
    for parameter in decoder.parameters():
        parameter.data = 1.0 * (parameter.dim() == 1) + 0.5 * torch.randn(
            parameter.shape, generator=generator
        )
    return decoder


TOKENS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 11, 2, 0, 0]])
MASK = torch.tensor(
    [[False, False, True, True, True, True], [False, True, True, True, False, False]]
)


def test_each_logprob_is_that_of_its_own_token_given_those_before_it(decoder: Decoder) -> None:
    weights, temperature = decoder.weights(torch.float32), 0.7
    found, entropies = token_logprobs(weights, TOKENS, MASK, Sampling(temperature=temperature))
    for row, column in MASK.nonzero().tolist():
        before = TOKENS[row : row + 1, :column]  # the prefix alone, the token itself not in it
        distribution = (
            logits_of(weights, hidden_states(weights, before))[0, -1] / temperature
        ).softmax(0)
        assert torch.isclose(found[row, column], distribution[TOKENS[row, column]].log(), atol=1e-5)
        entropy = -(distribution * distribution.log()).sum()
        assert torch.isclose(entropies[row, column], entropy, atol=1e-5)
    assert (found[~MASK] == 0).all()
    assert (entropies[~MASK] == 0).all()


def test_chunks_change_neither_values_nor_gradients(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for chunk_logits in (1 << 24, 19, 40):
        monkeypatch.setattr(module, "CHUNK_LOGITS", chunk_logits)
        decoder.zero_grad(set_to_none=True)
        logprobs, _ = token_logprobs(decoder.weights(torch.float32), TOKENS, MASK, Sampling())
        logprobs.sum().backward()
        found.append(
            (logprobs.detach(), [p.grad for p in decoder.parameters() if p.grad is not None])
        )
    for logprobs, grads in found[1:]:
        assert torch.allclose(logprobs, found[0][0], atol=1e-6)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(grads, found[0][1], strict=True))


def test_no_masked_token_gives_zeros_and_a_zero_gradient(decoder: Decoder) -> None:
    logprobs, _ = token_logprobs(
        decoder.weights(torch.float32), TOKENS, torch.zeros_like(MASK), Sampling()
    )
    logprobs.sum().backward()
    assert (logprobs == 0).all()
    assert all(p.grad is None or not p.grad.any() for p in decoder.parameters())


def test_what_stands_behind_the_answer_cannot_be_seen(decoder: Decoder) -> None:
    other = TOKENS.clone()
    other[1, 4:] = 17
    weights = decoder.weights(torch.float32)
    assert torch.equal(
        token_logprobs(weights, TOKENS, MASK, Sampling())[0],
        token_logprobs(weights, other, MASK, Sampling())[0],
    )


@pytest.mark.parametrize("weight", [0.5, 2.0, 1e4])
def test_the_pull_of_the_entropy_is_finite_where_tokens_are_banned(
    decoder: Decoder, weight: float
) -> None:
    tokens = torch.tensor([[1, 2, 4, 6]])
    mask = torch.tensor([[False, False, True, True]])
    decoder.zero_grad()
    weights, sampling = decoder.weights(torch.float32), Sampling(banned=(3,))
    _, entropies = token_logprobs(weights, tokens, mask, sampling, entropy_gradient=True)
    (entropies * weight).sum().backward()
    gradients = [p.grad for p in decoder.parameters() if p.grad is not None]
    assert gradients
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)

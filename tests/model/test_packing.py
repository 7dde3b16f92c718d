"""Packed rows against padded ones, and our own backward passes against the library's."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from plain import hidden_states as padded_states
from plain import logits_of as plain_logits
from torch import Tensor

from rlvr.model import logprobs as scoring
from rlvr.model import operations, packing
from rlvr.model.decoder import Decoder, Shape, hidden_states
from rlvr.model.logprobs import token_logprobs
from rlvr.model.operations import gated, normalise
from rlvr.model.packing import PREFIX_FROM, pack, shared_prefix
from rlvr.records import Sampling

SHAPE = Shape(
    vocab_size=37,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
)
PROMPTS = [[5, 6, 7, 8], [9, 10], [5, 6, 7, 8], [11], [9, 10], [5, 6, 7, 8]]
ANSWERS = [5, 9, 1, 14, 2, 11]


def decoder_of(shape: Shape = SHAPE) -> Decoder:
    decoder, generator = Decoder(shape), torch.Generator().manual_seed(5)
    for parameter in decoder.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1.0 * (parameter.dim() == 1) + 0.4 * noise
    return decoder


def rows(prefix: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Right-padded rows of which some share a prompt, and the mask of their answers."""
    generator = torch.Generator().manual_seed(6)
    prompts = [[*prefix, *prompt] for prompt in PROMPTS]
    width = max(len(p) + n for p, n in zip(prompts, ANSWERS, strict=True))
    tokens = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros(tokens.shape, dtype=torch.bool)
    for row, (prompt, count) in enumerate(zip(prompts, ANSWERS, strict=True)):
        answer = torch.randint(1, 37, (count,), generator=generator)
        tokens[row, : len(prompt) + count] = torch.cat([torch.tensor(prompt), answer])
        mask[row, len(prompt) : len(prompt) + count] = True
    return tokens, mask


def by_the_book(decoder: Decoder, tokens: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Log-probabilities from padded rows, the whole (B, T, V) at once."""
    weights = decoder.weights(torch.float32)
    logits = plain_logits(weights, padded_states(weights, tokens))[:, :-1] / temperature
    found = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return torch.where(mask, F.pad(found, (1, 0)), 0.0)


def gradients(decoder: Decoder, work: Callable[[], Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Log-probabilities, and gradients of a weighted sum of them."""
    decoder.zero_grad(set_to_none=True)
    found = work()
    (found * torch.linspace(-1, 2, found.numel()).view(found.shape)).sum().backward()
    return found.detach(), [p.grad.clone() for p in decoder.parameters() if p.grad is not None]


def assert_alike(a: tuple[Tensor, list[Tensor]], b: tuple[Tensor, list[Tensor]]) -> None:
    assert (a[0] - b[0]).abs().max() < 1e-5
    assert len(a[1]) == len(b[1])
    for x, y in zip(a[1], b[1], strict=True):
        assert (x - y).abs().max() < 2e-5 * max(1.0, float(y.abs().max()))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_rows_with_shared_prompts_have_the_logprobs_and_gradients_of_padded_ones(
    family: str, tied: bool, temperature: float
) -> None:
    qk_norm, bias = family == "qwen3", family == "qwen2"
    decoder = decoder_of(replace(SHAPE, qk_norm=qk_norm, qkv_bias=bias, tie_word_embeddings=tied))
    tokens, mask = rows()
    sampling = Sampling(temperature=temperature)
    packed = gradients(
        decoder,
        lambda: token_logprobs(decoder.weights(torch.float32), tokens, mask, sampling)[0],
    )
    padded = gradients(decoder, lambda: by_the_book(decoder, tokens, mask, temperature))
    assert_alike(packed, padded)


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (packing, "QUERIES", 3),  # long rows in blocks of queries
        (packing, "SCORES", 40),  # few rows in a segment
        (packing, "ROUNDED", 1),
        (packing, "COLUMNS", 1),
        (operations, "KEPT_SCORES", 0),  # attention weights made again
        (scoring, "KEPT_LOGITS", 0),  # probabilities made again
        (scoring, "KEPT_LOGITS", 37 * 10),  # some of them
        (scoring, "CHUNK_LOGITS", 37 * 4),
        (operations, "LARGE", 1),  # the head's product by oneDNN
        (scoring, "CACHED_LOGITS", 37 * 3),
    ],
)
def test_no_bound_on_memory_changes_logprobs_or_gradients(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: int
) -> None:
    decoder, (tokens, mask) = decoder_of(), rows()

    def work() -> Tensor:
        return token_logprobs(decoder.weights(torch.float32), tokens, mask, Sampling())[0]

    before = gradients(decoder, work)
    monkeypatch.setattr(module, name, value)
    assert_alike(gradients(decoder, work), before)


def test_a_shared_prompt_is_read_once_and_the_last_token_never() -> None:
    tokens, mask = rows()
    packed = pack(tokens, mask)
    read = len({tuple(p) for p in PROMPTS}), sum(ANSWERS) - len(ANSWERS)
    assert read == (3, 36)
    assert int((packed.tokens > 0).sum()) == 4 + 2 + 1 + 36
    assert len(packed.tokens) % packing.ROUNDED == 0
    assert len(packed.predicts) == sum(ANSWERS)


@pytest.mark.parametrize(
    ("more", "bound", "value"),
    [
        ([], "ROUNDED", 64),
        ([9], "ROUNDED", 64),  # as one of the prompts goes on
        ([], "QUERIES", 5),  # the prefix in blocks of queries
        ([], "SCORES", 40),
    ],
)
def test_a_prefix_of_all_prompts_is_read_once_and_gets_the_gradient_of_all(
    monkeypatch: pytest.MonkeyPatch, more: list[int], bound: str, value: int
) -> None:
    monkeypatch.setattr(packing, bound, value)
    decoder = decoder_of()
    tokens, mask = rows([*range(10, 30), *more])
    packed = pack(tokens, mask)
    assert int((packed.tokens > 0).sum()) == 20 + len(more) + 4 + 2 + 1 + 36
    packed_rows = gradients(
        decoder,
        lambda: token_logprobs(decoder.weights(torch.float32), tokens, mask, Sampling())[0],
    )
    assert_alike(packed_rows, gradients(decoder, lambda: by_the_book(decoder, tokens, mask, 1.0)))


def test_a_prompt_that_is_the_beginning_of_another_keeps_a_token_of_its_own() -> None:
    prefix = list(range(30))
    assert shared_prefix([prefix, [*prefix, 1], [*prefix, 1, 2]]) == 29
    assert shared_prefix([prefix, prefix]) == shared_prefix([prefix]) == shared_prefix([]) == 0
    assert shared_prefix([[*prefix[:PREFIX_FROM], 1], [*prefix[:PREFIX_FROM], 2]]) == PREFIX_FROM
    assert shared_prefix([[*prefix[: PREFIX_FROM - 1], 40], [*prefix[: PREFIX_FROM - 1], 41]]) == 0


def test_hidden_states_of_packed_rows_are_those_of_each_row_alone() -> None:
    decoder, (tokens, mask) = decoder_of(), rows()
    packed = pack(tokens, mask)
    with torch.no_grad():
        weights = decoder.weights(torch.float32)
        found = hidden_states(weights, packed)[packed.predicts]
        alone = [padded_states(weights, row[None, :])[0] for row in tokens]
    for place, (row, column) in enumerate(mask.nonzero().tolist()):
        assert (found[place] - alone[row][column - 1]).abs().max() < 1e-5


def test_holes_in_the_mask_are_no_answers_end() -> None:
    decoder, (tokens, mask) = decoder_of(), rows()
    mask[3, 4] = mask[5, 7] = False
    found = gradients(
        decoder, lambda: token_logprobs(decoder.weights(torch.float32), tokens, mask, Sampling())[0]
    )
    assert_alike(found, gradients(decoder, lambda: by_the_book(decoder, tokens, mask, 1.0)))


def test_normalise_and_gated_have_the_gradients_of_the_librarys_operations() -> None:
    x = torch.randn(7, 12, dtype=torch.float64, requires_grad=True)
    gain = torch.randn(12, dtype=torch.float64, requires_grad=True)

    def norm(x: Tensor, gain: Tensor) -> Tensor:
        return normalise(x, gain, 1e-6)

    # the mean square is float32 in all formats, so the twin is the library's in float32
    works: tuple[Work, Work]
    for works in (
        (norm, lambda x, gain: F.rms_norm(x, (12,), gain, 1e-6)),
        (lambda x, gain: gated(x * gain), lambda x, gain: _swiglu(x * gain)),
    ):
        weight = torch.randn(7, 12)[:, : works[1](x.float(), gain.float()).shape[1]]
        found = [
            torch.autograd.grad((work(x.float(), gain.float()) * weight).sum(), (x, gain))
            for work in works
        ]
        for a, b in zip(*found, strict=True):
            assert (a - b).abs().max() < 1e-5


Work = Callable[[Tensor, Tensor], Tensor]


def _swiglu(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def test_a_confident_tokens_gradient_survives_bfloat16() -> None:
    """1 - p is 1e-3 here, less than bfloat16 resolves near 1."""
    hidden = torch.tensor([[7.0, 0, 0]], dtype=torch.bfloat16, requires_grad=True)
    head = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], dtype=torch.bfloat16)
    head.requires_grad_()
    logprob, _ = scoring.Scores.apply(  # type: ignore[no-untyped-call]
        hidden, head, head.detach().float(), torch.tensor([0]), Sampling()
    )
    logprob.sum().backward()
    p = 1 / (1 + 2 * torch.tensor(-7.0).exp())
    assert hidden.grad is not None
    assert abs(float(hidden.grad[0, 0]) / float(1 - p) - 1) < 0.01

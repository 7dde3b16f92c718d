"""The compiled token step against the decoder's own, for every kind of shape."""

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rlvr.model.cache import Cache, extend
from rlvr.model.decoder import Decoder, Shape, Weights, logits_of
from rlvr.model.token_step import KERNELS_FROM, PREPACKED_FROM, TokenSteps, for_sampling
from rlvr.native import build
from rlvr.native.build import Kernels, compiler, kernels

pytestmark = pytest.mark.skipif(
    kernels().library is None, reason=f"no kernels: {kernels().lacking}"
)

SHAPE = Shape(
    vocab_size=125,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=96,
    qk_norm=False,
)
SHAPES = {
    "llama": SHAPE,
    "qwen3": replace(SHAPE, qk_norm=True),
    "qwen2": replace(SHAPE, qkv_bias=True, tie_word_embeddings=False),
    "one key head for six": replace(SHAPE, num_attention_heads=6, num_key_value_heads=1),
    "a key head each": replace(SHAPE, num_attention_heads=3, num_key_value_heads=3),
    "wide heads": replace(SHAPE, head_dim=64, hidden_size=32, vocab_size=97),
}


def weights_of(shape: Shape, dtype: torch.dtype) -> Weights:
    decoder, generator = Decoder(shape), torch.Generator().manual_seed(0)
    for parameter in decoder.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.1 * noise if parameter.dim() == 1 else 0.2 * noise
    with torch.no_grad():
        return decoder.weights(dtype)


def read(weights: Weights, rows: int, steps: int = 5) -> tuple[list[Tensor], Cache]:
    """Logits of token steps behind left-padded prompts, fed with the same tokens."""
    generator = torch.Generator().manual_seed(rows)
    tokens = torch.randint(weights.shape.vocab_size, (rows, 30 + steps), generator=generator)
    padding = torch.randint(0, 20, (rows,), generator=generator)
    with torch.no_grad():
        cache = Cache.empty(weights, padding)
        extend(weights, tokens[:, :30], cache)
        found = []
        for place in range(30, 30 + steps):
            found.append(logits_of(weights, extend(weights, tokens[:, place : place + 1], cache)))
    return found, cache


def with_kernels(weights: Weights) -> Weights:
    steps = TokenSteps.of(weights)
    assert steps is not None
    return replace(weights, steps=steps)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 13, 20])
def test_any_number_of_rows_reads_what_the_decoder_reads(rows: int) -> None:
    weights = weights_of(SHAPE, torch.float32)
    expected, cache = read(weights, rows)
    found, own = read(with_kernels(weights), rows)
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(own.keys, cache.keys, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(own.values, cache.values, atol=1e-4, rtol=1e-4)
    assert own.used == cache.used == 35


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_family_reads_what_the_decoder_reads(shape: Shape) -> None:
    weights = weights_of(shape, torch.float32)
    expected, _ = read(weights, 5)
    found, _ = read(with_kernels(weights), 5)
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_in_bfloat16_they_are_no_further_from_float32_than_the_decoder(shape: Shape) -> None:
    weights = weights_of(shape, torch.bfloat16)
    steps = TokenSteps.of(weights)
    if steps is None:
        pytest.skip("this processor has no products in bfloat16")
    # the same rounded weights, all else in float32
    exact = replace(weights_of(shape, torch.float32), head=weights.head)
    rounded = [
        replace(
            block,
            **{
                name: getattr(block, name).to(torch.bfloat16).float()
                for name in ("qkv", "out", "gate_up", "down")
            },
        )
        for block in exact.blocks
    ]
    exact = replace(exact, blocks=tuple(rounded), embedding=weights.embedding.float())
    expected, plain = read(exact, 5)[0], read(weights, 5)[0]
    found = read(replace(weights, steps=steps), 5)[0]

    def error(logits: list[Tensor]) -> float:
        pairs = zip(logits, expected, strict=True)
        parts = [(a.log_softmax(-1) - b.log_softmax(-1)).abs() for a, b in pairs]
        return float(torch.stack(parts).mean())

    assert error(found) < 1.1 * error(plain)
    assert error(found) < 0.05


def test_a_row_is_the_same_bits_whatever_stands_beside_it() -> None:
    weights = with_kernels(weights_of(SHAPE, torch.float32))
    (*_, last), cache = read(weights, 11)
    for rows in ([3], [3, 4], [10, 3, 0, 3, 7]):
        cut = cache.rows(torch.tensor(rows))
        with torch.no_grad():
            tokens = torch.full((len(rows), 1), 9)
            alone = logits_of(weights, extend(weights, tokens, cut))
            all_rows = cache.rows(torch.arange(11))
            together = logits_of(weights, extend(weights, torch.full((11, 1), 9), all_rows))
        assert torch.equal(alone, together[rows])
    assert last.shape == (11, 125)


def test_more_threads_change_no_bit() -> None:
    weights = with_kernels(weights_of(SHAPE, torch.float32))
    one, _ = read(weights, 9)
    torch.set_num_threads(2)
    try:
        two, _ = read(weights, 9)
    finally:
        torch.set_num_threads(1)
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


def test_what_is_no_number_stays_none() -> None:
    weights = weights_of(SHAPE, torch.float32)
    weights.blocks[0].down[3, 5] = torch.nan
    (*_, last), _ = read(with_kernels(weights), 3)
    assert last.isnan().all()


def test_large_numbers_stay_finite() -> None:
    weights = weights_of(SHAPE, torch.float32)
    for block in weights.blocks:
        block.gate_up.mul_(1e4)
        block.qkv.mul_(1e3)
    expected, _ = read(weights, 3)
    found, _ = read(with_kernels(weights), 3)
    assert torch.stack(found).isfinite().all()
    torch.testing.assert_close(found, expected, atol=5e-2, rtol=5e-3)


def test_a_token_outside_the_vocabulary_is_an_error() -> None:
    weights = with_kernels(weights_of(SHAPE, torch.float32))
    _, cache = read(weights, 1)
    with pytest.raises(IndexError):
        extend(weights, torch.tensor([[125]]), cache)


def test_sizes_that_no_kernel_takes_are_left_to_the_decoder() -> None:
    odd = weights_of(replace(SHAPE, head_dim=8, hidden_size=20), torch.float32)
    assert TokenSteps.of(odd) is None
    assert for_sampling(odd, 4, KERNELS_FROM).steps is None
    assert TokenSteps.of(weights_of(SHAPE, torch.float16)) is None


def test_a_few_tokens_are_read_by_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = weights_of(SHAPE, torch.float32)
    assert for_sampling(weights, 4, KERNELS_FROM - 1) is weights
    assert for_sampling(weights, 4, KERNELS_FROM).steps is not None
    monkeypatch.setattr("rlvr.model.token_step.kernels", lambda: Kernels(None, "off"))
    assert for_sampling(weights, 4, PREPACKED_FROM - 1) is weights
    assert for_sampling(weights, 4, PREPACKED_FROM).steps is None


@pytest.mark.parametrize("flags", ["-march=x86-64", "-march=x86-64-v3"])
def test_other_processors_get_the_same_numbers(
    flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled for older processors, which this one understands."""
    command = compiler()
    if command is None or "x86" not in subprocess.check_output(
        [*command, "-dumpmachine"], text=True
    ):
        pytest.skip("needs a compiler for x86")
    if flags.endswith("v3") and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, flags))
    library = ctypes.CDLL(str(build.built(command)))
    assert library.lanes() == (8 if flags.endswith("v3") else 4)
    assert library.has_bfloat16() == 0
    monkeypatch.setattr("rlvr.model.token_step.kernels", lambda: Kernels(library))
    weights = weights_of(SHAPES["qwen3"], torch.float32)
    expected, _ = read(weights, 9)
    found, _ = read(with_kernels(weights), 9)
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
    assert TokenSteps.of(weights_of(SHAPE, torch.bfloat16)) is None
    shutil.rmtree(tmp_path)

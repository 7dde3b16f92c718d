"""What a run needs of memory, counted by hand; and how much there is, by made-up systems."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rlvr.cli import main
from rlvr.config import resolve
from rlvr.errors import UsageError
from rlvr.model.cache import COLUMNS, Cache
from rlvr.model.decoder import Shape
from rlvr.model.logprobs import CHUNK_LOGITS
from rlvr.model.weights import load_model, parameters_of, read_shape
from rlvr.rollout.engine import CACHE_BYTES
from rlvr.run import prepare
from rlvr.training.memory import available_memory, memory_needed, refuse_too_large

QWEN3_8B = Shape(
    vocab_size=151_936,
    hidden_size=4096,
    intermediate_size=12_288,
    num_hidden_layers=36,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40_960,
    rope_theta=1e6,
    tie_word_embeddings=False,
)


def test_a_model_of_eight_billion_needs_eighteen_bytes_for_each_weight() -> None:
    parameters = parameters_of(QWEN3_8B)
    assert 8.1e9 < parameters < 8.3e9
    needed = memory_needed(QWEN3_8B, rows=64, width=100)
    assert needed.fixed == 18 * parameters
    assert needed.cache == 64 * 100 * 36 * 8 * 128 * 2 * 2, "keys and values, 2 bytes each"
    assert needed.logits == 3 * 4 * 64 * 151_936, "the sampler's logits, thrice"
    few = memory_needed(QWEN3_8B, rows=8, width=1000)
    assert few.logits == 4 * CHUNK_LOGITS, "a chunk of the learner's, once"
    assert needed.total == needed.fixed + needed.logits, "cached keys come when gradients go"
    long = memory_needed(QWEN3_8B, rows=512, width=1000)
    assert long.cache <= CACHE_BYTES < long.cache * 1.1, "as many rows as that holds"
    assert memory_needed(QWEN3_8B, rows=64, width=1000, trains=False).fixed == 6 * parameters
    both = memory_needed(QWEN3_8B, rows=64, width=1000, product_bytes=4, reference=True)
    assert both.fixed == 24 * parameters


def test_rows_beyond_those_sampled_at_once_take_no_more() -> None:
    many, more = (memory_needed(QWEN3_8B, rows=rows, width=100) for rows in (512, 5000))
    assert many == more
    rows = CACHE_BYTES // (100 * 36 * 8 * 128 * 2 * 2)
    assert many.logits == 3 * 4 * rows * 151_936


def test_the_counted_bytes_are_those_of_the_tensors(tiny_model_folder: Path) -> None:
    model = load_model(tiny_model_folder)
    shape = model.decoder.shape
    needed = memory_needed(shape, rows=3, width=10)
    norms = sum(p.numel() for p in model.decoder.parameters() if p.dim() == 1)
    stored = sum(p.numel() * p.element_size() for p in model.decoder.parameters())
    assert needed.weights == stored - 4 * norms
    with torch.no_grad():
        cache = Cache.empty(model.decoder.weights(torch.bfloat16), torch.zeros(3).long())
        cache.make_room(10)
    held = [t for t in (*cache.keys, *cache.values) if isinstance(t, torch.Tensor)]
    assert needed.cache * COLUMNS // 10 == sum(t.numel() * t.element_size() for t in held)


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


FREE = {"proc/meminfo": "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:  800 kB\n"}


def test_what_the_machine_has_free_is_what_may_be_taken(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None, "a system that does not say"
    assert available_memory(put(tmp_path, FREE)) == 800 * 1024


@pytest.mark.parametrize("own", ["0::/job/step", "3:cpu:/x\n5:cpuset,memory:/job/step"])
def test_limits_of_control_groups_count_with_those_around_them(tmp_path: Path, own: str) -> None:
    second = own.startswith("0")
    base = "sys/fs/cgroup/" + ("" if second else "memory/")
    most, used, cached = (
        ("memory.max", "memory.current", "inactive_file")
        if second
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    root = put(tmp_path, FREE | {"proc/self/cgroup": f"{own}\n"})
    assert available_memory(root) == 800 * 1024, "no limit"
    put(root, {f"{base}job/step/{most}": "max\n", f"{base}job/step/{used}": "7\n"})
    assert available_memory(root) == 800 * 1024
    put(root, {f"{base}job/{most}": "5000\n", f"{base}job/{used}": "3000\n"})
    assert available_memory(root) == 2000
    put(root, {f"{base}job/memory.stat": f"anon 9\n{cached} 500\n"})
    assert available_memory(root) == 2500, "caches of files are given back"
    put(root, {f"{base}job/{most}": "2000\n"})
    assert available_memory(root) == 0


def test_this_machine_says_what_it_has() -> None:
    if os.path.exists("/proc/meminfo"):
        assert (available_memory() or 0) > 10**6


def test_what_does_not_fit_is_refused_with_the_parts_and_what_to_lower() -> None:
    needed = memory_needed(QWEN3_8B, rows=512, width=5000)
    refuse_too_large("m", needed, "LEVERS", None)
    refuse_too_large("m", needed, "LEVERS", needed.total)
    with pytest.raises(UsageError) as refused:
        refuse_too_large("m", needed, "LEVERS", needed.total - 1)
    for part in ("m needs at least", "weights 32.8", "AdamW 65.5", "keys and values 1.5"):
        assert part in str(refused.value)
    turns = "gradient 32.8, or, at other times, weights laid out for sampling 18.9, keys and values"
    assert turns in str(refused.value)
    assert str(refused.value).endswith("Lower LEVERS, or take a smaller model.")
    with pytest.raises(UsageError, match="machine with more memory"):
        refuse_too_large("m", needed, "LEVERS", needed.fixed - 1)


def test_a_run_that_the_memory_can_not_hold_is_refused_before_anything_is_written(
    tiny_model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shape = read_shape(tiny_model_folder)
    little: Callable[[], int] = lambda: memory_needed(shape, rows=1, width=1).fixed + 1  # noqa: E731
    monkeypatch.setattr("rlvr.run.available_memory", little)
    config = resolve({"model": str(tiny_model_folder), "rollouts.max_new_tokens": 20})
    with pytest.raises(UsageError, match=r"Lower rollouts\.max_new_tokens"):
        prepare(config, tmp_path / "run")
    little = lambda: memory_needed(shape, rows=1, width=1, trains=False).fixed + 1  # noqa: E731
    for place in ("rlvr.commands.evaluating", "rlvr.commands.chatting"):
        monkeypatch.setattr(f"{place}.available_memory", little)
    for words in (["eval", str(tiny_model_folder)], ["chat", str(tiny_model_folder), "1+1"]):
        assert main([*words, "--max-new-tokens", "20"]) == 2
        assert "Lower --max-new-tokens" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

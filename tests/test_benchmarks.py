"""What the benchmarks say of given measurements; nothing here is timed."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import rollout
import scaling
import step
import torch
import waiting
from measuring import table

from rlvr.errors import UsageError
from rlvr.model.decoder import Shape
from rlvr.model.weights import load_model

TASK = step.Task(model=Path("model"))


def side(seconds: list[float], peak: int) -> step.Measured:
    return step.Measured(
        version="1.0",
        dtype="float32",
        threads=2,
        step_seconds=seconds,
        rollout_seconds=[1.0 for _ in seconds],
        update_seconds=[2.0 for _ in seconds],
        peak_bytes=peak,
    )


def test_ratios_are_of_median_seconds_and_of_our_memory_to_theirs() -> None:
    sides = {
        "rlvr": side([9.0, 10.0, 30.0], 2_000),
        "trl-fp32": side([70.0, 80.0], 8_000),
        "trl-bf16": side([40.0], 4_000),
    }
    result = step.result_of(sides, TASK, "a machine")
    assert result["faster_than_trl_fp32"] == 7.5
    assert result["faster_than_trl_bf16"] == 4.0
    assert result["memory_of_trl_fp32"] == 0.25
    assert result["memory_of_trl_bf16"] == 0.5
    assert result["rlvr/step_seconds"] == 10.0
    assert result["rlvr/each_step_seconds"] == [9.0, 10.0, 30.0]
    assert result["trl_fp32/peak_bytes"] == 8_000
    assert result["trl_fp32/logprobs_seconds"] is None
    text = step.shown(result)
    assert "rlvr 1.0 float32" in text
    assert "7.50" in text


def test_one_side_alone_has_no_ratios() -> None:
    result = step.result_of({"trl-bf16": side([40.0], 4_000)}, TASK, "a machine")
    assert not [key for key in result if key.startswith(("faster", "memory"))]
    assert step.shown(result).count("—") == 3  # its logprobs and the two ratios


@pytest.mark.parametrize("answers", [2, 3, 8])
def test_every_group_of_the_step_has_a_signal(answers: int) -> None:
    assert {step.reward(slot) for slot in range(answers)} == {0.0, 1.0}


def test_without_trl_its_side_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(UsageError, match="make install-dev"):
        step.run_trl(TASK, "float32")


SHAPE = Shape(
    vocab_size=100,
    hidden_size=10,
    intermediate_size=20,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=5,
    max_position_embeddings=64,
)
"""Its blocks have 2 * 10 * ((4 + 2) * 5 + 3 * 20) = 1,800 weights, its head 1,000."""


def test_the_limit_adds_up_parts_that_wait_for_arithmetic_or_for_memory() -> None:
    memory_is_slow = rollout.Speeds(1e30, 1e30, 1.0)
    # bytes: blocks 3,600; cache 2 * 16 columns * 1 head * 5 * 2 layers * 3 rows * 2; head 4,000
    expected = 3 / (3_600 + 1_920 + 4_000)
    assert rollout.limit_per_second(SHAPE, 3, 16.0, 2, memory_is_slow) == pytest.approx(expected)
    arithmetic_is_slow = rollout.Speeds(1.0, 0.5, 1e30)
    # FLOP of a row: blocks 3,600; attention 4 * 16 * 2 heads * 5 * 2 layers; head 2,000 at half
    expected = 1 / (3_600 + 1_280 + 4_000)
    found = rollout.limit_per_second(SHAPE, 3, 16.0, 2, arithmetic_is_slow)
    assert found == pytest.approx(expected)


def test_a_cell_that_stands_in_three_series_is_measured_once() -> None:
    cells = scaling.cells(TASK, list(scaling.SIZES))
    assert len(cells) == len(set(cells)) == 10
    assert cells.count(TASK) == 1


def test_tokens_per_second_are_of_the_whole_step() -> None:
    done = side([64.0, 64.0], 5)
    done.logprobs_seconds = [3.0, 5.0]
    cell = scaling.cell_of(TASK, done)
    assert cell["tokens_per_s"] == 4 * 8 * 128 / 64
    assert cell["logprobs_seconds"] == 4.0
    assert set(cell) == set(scaling.CELL)


def test_tables_align_numbers_to_the_right() -> None:
    assert table(("a", "n"), [("long", "1"), ("b", "22")]) == "a      n\nlong   1\nb     22\n"


def test_each_series_has_a_line_for_each_size() -> None:
    done = side([64.0], 5_000_000_000)
    done.logprobs_seconds = [3.0]
    result: dict[str, object] = {"machine": "a machine", "dtype": "float32", "threads": 2}
    for task in scaling.cells(TASK, ["problems", "length"]):
        found = scaling.cell_of(task, done)
        result |= {f"{scaling.name_of(task)}/{key}": value for key, value in found.items()}
    text = scaling.shown(result, TASK, ["problems", "length"])
    assert text.count("5.00") == 8
    assert "8 x 8 x 128" in text
    assert "4 x 8 x 512" in text


def test_batch_after_batch_and_waiting_ones_sample_the_same_answers(
    tiny_model_folder: Path,
) -> None:
    model = load_model(tiny_model_folder)
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
    encoded = [model.tokens.encode(text) for text in ("1+2=", "3", "45*6=", "7")] * 3
    ways = [
        waiting.sampled(weights, encoded, 20, list(range(5)), rows=4, apart=apart)[1]
        for apart in (True, False)
    ]
    assert ways[0] == ways[1]
    assert len(set(ways[0])) > 2

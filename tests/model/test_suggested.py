"""How a model's maker would draw answers is said, and changes nothing."""

import json
import shutil
from pathlib import Path

import pytest

from rlvr.cli import main
from rlvr.model.suggested import not_applied
from rlvr.model.tokens import load_tokens
from rlvr.records import Sampling

QWEN3 = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2]}


def line(folder: Path, settings: dict[str, object], sampling: Sampling) -> str:
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return not_applied("mine", folder, sampling)


def test_what_a_model_suggests_is_named_beside_what_is_used(tmp_path: Path) -> None:
    assert line(tmp_path, QWEN3, Sampling()) == (
        "mine suggests temperature 0.6, top_p 0.95, top_k 20 in its generation_config.json, "
        "which is not applied; used: temperature 1, top_p 1, top_k 0"
    )
    greedy = line(tmp_path, {"repetition_penalty": 1.1}, Sampling(temperature=0))
    assert greedy.endswith("used: repetition_penalty 1 (greedy)")


def test_nothing_is_said_where_nothing_differs(tmp_path: Path) -> None:
    same: dict[str, object] = {"temperature": 1, "top_p": 1.0, "top_k": 0, "repetition_penalty": 1}
    assert line(tmp_path, same, Sampling()) == ""
    assert line(tmp_path, QWEN3, Sampling(temperature=0.6, top_p=0.95, top_k=20)) == ""
    odd: dict[str, object] = {"temperature": None, "top_p": "high", "top_k": True}
    assert line(tmp_path, odd, Sampling()) == ""
    (tmp_path / "generation_config.json").unlink()
    assert not_applied("mine", tmp_path, Sampling()) == ""


def test_train_eval_and_chat_say_so_once_and_several_end_tokens_are_read(
    tiny_model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model_folder, model)
    (model / "generation_config.json").write_text(json.dumps(QWEN3))
    assert load_tokens(model).stop_ids == (1, 2)
    monkeypatch.chdir(tmp_path)
    small = "--steps 1 --rollouts.max-new-tokens 4 --rollouts.problems-per-step 2 --out run "
    small += "--rollouts.group-size 2 --evaluation.final-problems 2 --threads 1 --dtype float32"
    for words in (
        ["train", "--model", str(model), *small.split()],
        ["eval", str(model), "--count", "2", "--max-new-tokens", "4", "--threads", "1"],
        ["chat", str(model), "1+1", "--max-new-tokens", "4"],
    ):
        assert main(words) == 0
        said = capsys.readouterr()
        assert said.err.count("suggests temperature 0.6") == 1, words
        assert "suggests" not in said.out

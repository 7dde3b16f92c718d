"""Runs with tags as tokens of their own and with thoughts that the prompt opens."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from rlvr.cli import main
from rlvr.config import Config, read_toml, resolve
from rlvr.folders import checkpoints
from rlvr.loop import train
from rlvr.model.weights import load_model
from rlvr.observe.evaluate import Evaluated
from rlvr.observe.metrics import Values
from rlvr.observe.runlog import read_lines
from rlvr.records import CLOSE, OPEN
from rlvr.run import Run, prepare, take_up

Folders = Callable[..., Path]
SMALL: dict[str, object] = {
    "steps": 2,
    "variant": "grpo",
    "variant.kl": "k3",
    "variant.kl_coefficient": 0.01,
    "think_tokens": True,
    "template": "think_prefilled",
    "reward.format": 0.5,
    "reward.format_gate": "additive",
    "rollouts.problems_per_step": 3,
    "rollouts.group_size": 3,
    "rollouts.max_new_tokens": 24,
    "evaluation.final_problems": 3,
    "evaluation.every_steps": 0,
    "checkpoints.every_steps": 1,
    "optimiser.lr": 1e-2,
    "threads": 1,
    "dtype": "float32",
}


class Watch:
    """Keeps what it is told; asks to stop after a step."""

    def __init__(self, run: Run, stop_after: int | None) -> None:
        self.run, self.stop_after = run, stop_after
        self.warnings: list[str] = []

    def evaluated(self, step: int, results: Sequence[Evaluated]) -> None:
        """Nothing to show."""

    def stepped(self, metrics: Values) -> None:
        """Stop where asked."""
        self.run.stop_asked = metrics["step"] == self.stop_after

    def warned(self, text: str) -> None:
        """Keep it."""
        self.warnings.append(text)


def trained(run: Run, stop_after: int | None = None) -> list[str]:
    watch = Watch(run, stop_after)
    train(run, watch)
    run.folder.release()
    return watch.warnings


def settings(folder: Path, **more: object) -> Config:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return resolve(SMALL | {"model": str(folder)} | named)


def newest(path: Path) -> dict[str, str]:
    """Digests: where megabytes differ, pytest would explain how, for hours."""
    files = sorted(checkpoints(path)[-1].iterdir())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture
def run(tagless_folder: Folders, tmp_path: Path) -> Run:
    """Two steps on answers that begin in a thought."""
    run = prepare(settings(tagless_folder(tied=False)), tmp_path / "run")
    trained(run)
    return run


def test_policy_reference_and_every_checkpoint_have_the_new_tokens(run: Run) -> None:
    assert run.reference is not None
    rows = run.model.decoder.shape.vocab_size
    assert len(run.reference.embedding) == len(run.reference.head) == rows
    for folder in checkpoints(run.folder.path):
        model = load_model(folder)
        assert model.decoder.shape.vocab_size == rows
        assert [model.tokens.id_of(tag) for tag in (OPEN, CLOSE)] == [rows - 2, rows - 1]
        assert json.loads((folder / "config.json").read_text())["vocab_size"] == rows


def test_the_same_seed_gives_the_same_bits_also_after_a_stop(run: Run, tmp_path: Path) -> None:
    again = prepare(run.config, tmp_path / "again")
    trained(again, stop_after=1)
    taken_up = take_up(resolve(read_toml(tmp_path / "again" / "run.toml")), tmp_path / "again")
    assert taken_up.model.tokens.added == (), "the checkpoint's own tokens now"
    trained(taken_up)
    for name, content in newest(run.folder.path).items():
        if name != "state.json":  # holds seconds
            assert content == newest(tmp_path / "again")[name], name


def test_answers_that_begin_in_a_thought_are_kept_and_graded_as_such(run: Run) -> None:
    rows = read_lines(run.folder.path / "rollouts" / "step-000001.jsonl")
    open_id = run.model.tokens.id_of(OPEN)
    assert all(row["opened"] is True and row["prompt_tokens"][-1] == open_id for row in rows)  # type: ignore[index]
    unclosed = [row for row in rows if CLOSE not in str(row["text"])]
    assert unclosed
    assert all(row["answer"] is None and row["verdict"] == "incorrect" for row in unclosed)
    assert all(row["text/think_open"] == 1 for row in run.folder.metrics())
    assert all(row["thinks"] == 1 for row in run.folder.evals())


def test_the_stored_answers_of_such_a_run_are_graded_again_alike(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run.folder.path / "rollouts" / "step-000001.jsonl"
    assert main(["verify", "--jsonl", str(path)]) == 0
    row = read_lines(path)[0] | {"reference": "2", "text": r"\boxed{2}", "finish_reason": "stop"}
    path.write_text(
        "".join(json.dumps(row | {"opened": opened}) + "\n" for opened in (True, False))
    )
    capsys.readouterr()
    main(["verify", "--jsonl", str(path)])
    first, second = map(json.loads, capsys.readouterr().out.splitlines()[:2])
    assert (first["verdict"], first["reason"]) == ("incorrect", "the thought never ends")
    assert second["verdict"] == "correct"


def test_eval_and_chat_read_such_a_run_by_its_own_template(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(run.folder.path)
    words = ["eval", path, "--count", "2", "--max-new-tokens", "8", "--threads", "1", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["thinks"] == 1
    assert main(["chat", path, "1+1", "--max-new-tokens", "8"]) == 0
    assert "no answer after the thought" in capsys.readouterr().out


def test_warnings_come_before_the_first_step_and_the_alarm_once(
    tagless_folder: Folders, tmp_path: Path
) -> None:
    """BC-57: a budget too small is said at the start, and again when nothing is learnt."""
    more = {"template": "think", "rollouts__max_new_tokens": 2, "steps": 3}
    run = prepare(settings(tagless_folder(), **more), tmp_path / "run")
    tag, cut, alarm = trained(run)
    assert "of the 27 answers of the first 3 steps" in tag
    assert "were cut at rollouts.max_new_tokens 2" in cut
    assert alarm.startswith("step 1: 100% of the answers were cut")


def test_tags_that_are_tokens_already_change_nothing(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    runs = []
    for think_tokens in (False, True):
        more = {"template": "plain", "think_tokens": think_tokens, "steps": 1}
        runs.append(prepare(settings(tiny_model_folder, **more), tmp_path / f"{think_tokens}"))
        trained(runs[-1])
    without, having = ([*run.model.decoder.parameters()] for run in runs)
    assert all(torch.equal(a, b) for a, b in zip(without, having, strict=True))
    assert not runs[1].model.tokens.added

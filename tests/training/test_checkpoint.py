"""Checkpoints appear whole or not at all, and give back every bit."""

from pathlib import Path

import pytest
import torch

from rlvr.errors import UsageError
from rlvr.folders import checkpoints
from rlvr.model.weights import Model, load_model
from rlvr.records import Group, Problem, Rollout, Sampling, Score
from rlvr.training import checkpoint
from rlvr.training.checkpoint import (
    Carried,
    Progress,
    load_checkpoint,
    restore_optimizer,
    save_checkpoint,
)
from rlvr.training.optimiser import make_optimizer
from rlvr.training.settings import Optimiser


@pytest.fixture
def model(tiny_model_folder: Path) -> Model:
    return load_model(tiny_model_folder)


def step(model: Model, optimizer: torch.optim.Optimizer, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.decoder.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


def surplus() -> Group:
    """A group with everything that a record can hold."""
    sampling = Sampling(0.7, 0.9, max_new_tokens=7, banned=(3, 4))
    score = Score(0.25, "correct", "same number", "12", {"correctness": 0.25, "format": 1.0})
    first = Rollout(
        "p", 3, 0, [1, 2], [5, 6], [-0.1234567, -1e-9], "stop", "\ud800 12", sampling, 4, 2,
        [0.1, 2.5], [[5, 7], [6]], score,
    )  # fmt: skip
    unscored = Rollout("p", 3, 1, [1, 2], [5], [-0.5], "length", "1", sampling, 4, 2)
    return Group(Problem("p", "1+1=", "2", "test", level=1), [first, unscored])


def test_training_on_after_a_load_equals_never_having_stopped(model: Model, tmp_path: Path) -> None:
    optimizer = make_optimizer(model.decoder, Optimiser())
    step(model, optimizer, 1)
    carried = Carried([surplus()], {"p": (3, 8)})
    saved = save_checkpoint(
        tmp_path, model, optimizer, Progress(step=1, tokens_seen=9, wall_s=0.5), carried
    )
    step(model, optimizer, 2)

    again, tensors, progress, carried_again = load_checkpoint(saved)
    assert carried_again == carried
    other = make_optimizer(again.decoder, Optimiser())
    restore_optimizer(again, other, tensors)
    step(again, other, 2)
    assert progress == Progress(step=1, tokens_seen=9, wall_s=0.5)
    for a, b in zip(model.decoder.parameters(), again.decoder.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_save_that_fails_leaves_the_older_checkpoint_and_no_half_one(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer = make_optimizer(model.decoder, Optimiser())
    save_checkpoint(tmp_path, model, optimizer, Progress(step=1), Carried())

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(tmp_path, model, optimizer, Progress(step=2), Carried())
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000001"]
    load_checkpoint(checkpoints(tmp_path)[-1])


def test_a_checkpoint_holds_safetensors_and_json_only(model: Model, tmp_path: Path) -> None:
    saved = save_checkpoint(
        tmp_path, model, make_optimizer(model.decoder, Optimiser()), Progress(step=3), Carried()
    )
    assert {path.suffix for path in saved.iterdir()} == {".safetensors", ".json"}
    assert not list(saved.parent.glob(".*"))


def test_a_checkpoint_of_an_older_version_is_refused_in_words(model: Model, tmp_path: Path) -> None:
    optimizer = make_optimizer(model.decoder, Optimiser())
    saved = save_checkpoint(tmp_path, model, optimizer, Progress(step=1), Carried())
    (saved / "state.json").write_text('{"step": 1, "tokens_seen": 9, "wall_s": 1.0}')
    with pytest.raises(UsageError, match="older version"):
        load_checkpoint(saved)


def test_a_damaged_checkpoint_is_refused_in_words(model: Model, tmp_path: Path) -> None:
    optimizer = make_optimizer(model.decoder, Optimiser())
    saved = save_checkpoint(tmp_path, model, optimizer, Progress(step=1), Carried())
    (saved / "optimizer.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(UsageError, match="damaged"):
        load_checkpoint(saved)

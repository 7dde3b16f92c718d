"""Checkpoints: written beside, made durable, renamed; so that a whole older one always exists."""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from rlvr.errors import UsageError
from rlvr.model.tokens import read_json
from rlvr.model.weights import Model, load_model, save_model


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoints:
    """Settings of the checkpoints."""

    every_steps: int = 50
    """Steps between checkpoints; the first and the last step are always saved."""

    def __post_init__(self) -> None:
        if self.every_steps < 1:
            raise UsageError(f"checkpoints.every_steps is {self.every_steps}. Use 1 or more.")


OPTIMIZER, STATE = "optimizer.safetensors", "state.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands after a step; chance needs no state, since every draw has a name."""

    step: int = 0
    tokens_seen: int = 0
    wall_s: float = 0.0
    nonfinite_in_a_row: int = 0


def checkpoint_folder(run: Path, step: int) -> Path:
    """The folder of the checkpoint after a step."""
    return run / "checkpoints" / f"step-{step:06d}"


def save_checkpoint(
    run: Path, model: Model, optimizer: torch.optim.Optimizer, progress: Progress
) -> Path:
    """Save model, optimizer and progress; the folder appears whole or not at all."""
    final = checkpoint_folder(run, progress.step)
    beside = final.with_name(f".{final.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    save_model(model, beside)
    save_file(optimizer_tensors(model, optimizer), beside / OPTIMIZER)
    (beside / STATE).write_text(json.dumps(asdict(progress)) + "\n", encoding="utf-8")
    for path in (*beside.iterdir(), beside):
        make_durable(path)
    shutil.rmtree(final, ignore_errors=True)
    beside.rename(final)
    make_durable(final.parent)
    return final


def make_durable(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def optimizer_tensors(model: Model, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """AdamW's moments and step counts under the names of the weights."""
    tensors = {}
    for name, parameter in model.decoder.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}/{key}"] = value.contiguous()
    return tensors


def load_checkpoint(folder: Path) -> tuple[Model, dict[str, torch.Tensor], Progress]:
    """Model, optimizer tensors and progress of a checkpoint.

    Raises:
        UsageError: The folder is no checkpoint, or a part of it is damaged.
    """
    if not (folder / STATE).is_file():
        raise UsageError(f"{folder} is no checkpoint of a run: it has no {STATE}.")
    model = load_model(folder)
    try:
        progress = Progress(**read_json(folder / STATE))  # type: ignore[arg-type]
        return model, load_file(folder / OPTIMIZER), progress
    except (OSError, TypeError, ValueError, Exception) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"the checkpoint {folder} is damaged: {error}. Delete it and resume again: "
            "the one before it is used."
        ) from error


def restore_optimizer(
    model: Model, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]
) -> None:
    """Put saved moments and step counts back."""
    for name, parameter in model.decoder.named_parameters():
        prefix = f"{name}/"
        state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if state:
            optimizer.state[parameter] = state


def checkpoints(run: Path) -> list[Path]:
    """Whole checkpoints of a run, oldest first."""
    return sorted((run / "checkpoints").glob("step-*"))

"""Checkpoints: written beside, made durable, renamed; so that a whole older one always exists."""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from rlvr.errors import UsageError
from rlvr.folders import checkpoint_folder
from rlvr.model.lora import load_adapters, save_adapters
from rlvr.model.tokens import read_json
from rlvr.model.weights import Model, load_model, save_model
from rlvr.objective.loss import Controls
from rlvr.records import Group, Rollout, Sampling, Score, problem_of

OPTIMIZER, STATE, CARRIED = "optimizer.safetensors", "state.json", "carried.json"
ADAPTERS = "adapter"
"""Folder of the adapters. Beside the merged weights, readers would add them a second time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands after a step; chance needs no state, since every draw has a name."""

    step: int = 0
    tokens_seen: int = 0
    wall_s: float = 0.0
    nonfinite_in_a_row: int = 0
    updates: int = 0
    """Optimizer steps done: the version of the weights."""
    drawn: int = 0
    """Problems drawn from the training stream."""
    controls: Controls = field(default_factory=Controls)
    """Coefficients that the variant adapts."""


@dataclass(slots=True)
class Carried:
    """What a run carries from step to step beside its weights."""

    surplus: list[Group] = field(default_factory=list)
    """Groups with a signal that were sampled and not needed; the next step begins with them."""
    pass_rates: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Right answers and all answers so far, by problem; kept where the variant asks for it."""


def save_checkpoint(
    run: Path,
    model: Model,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    carried: Carried,
) -> Path:
    """Save all that a run goes on from; the folder appears whole or not at all.

    It is a whole model directory; adapters are merged into it, and stand by themselves in one more
    folder. Their base is the run's first checkpoint, to which they added nothing.
    """
    final = checkpoint_folder(run, progress.step)
    beside = final.with_name(f".{final.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    save_model(model, beside)
    if model.decoder.adapters is not None:
        (beside / ADAPTERS).mkdir()
        save_adapters(model.decoder.adapters, checkpoint_folder(run, 0), beside / ADAPTERS)
    save_file(optimizer_tensors(model, optimizer), beside / OPTIMIZER)
    (beside / STATE).write_text(json.dumps(asdict(progress)) + "\n", encoding="utf-8")
    (beside / CARRIED).write_text(json.dumps(asdict(carried)) + "\n", encoding="ascii")
    for path in (*beside.rglob("*"), beside):
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
    """AdamW's moments and step counts under the names of what learns."""
    tensors = {}
    for name, parameter in model.decoder.learning().items():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}/{key}"] = value.contiguous()
    return tensors


def load_checkpoint(folder: Path) -> tuple[Model, dict[str, torch.Tensor], Progress, Carried]:
    """Model, optimizer tensors, progress and what was carried, of a checkpoint.

    A model with adapters is the run's first checkpoint, and the adapters of this one.

    Raises:
        UsageError: The folder is no checkpoint, or a part of it is damaged.
    """
    if not (folder / STATE).is_file():
        raise UsageError(f"{folder} is no checkpoint of a run: it has no {STATE}.")
    adapted, base = (folder / ADAPTERS).is_dir(), checkpoint_folder(folder.parents[1], 0)
    if adapted and not base.is_dir():
        raise UsageError(f"{base} is gone, the base of the adapters in {folder}. Put it back.")
    model = load_model(base if adapted else folder)
    try:
        if adapted:
            model.decoder.adapters = load_adapters(model.decoder, folder / ADAPTERS)
        state = read_json(folder / STATE)
        if "drawn" not in state:
            raise UsageError(
                f"{folder} was saved by an older version, which did not write all that a run goes "
                f"on from. Start a new run from its weights: rlvr train --model {folder}"
            )
        controls = Controls(**state.pop("controls", {}))  # type: ignore[arg-type]
        progress = Progress(**state, controls=controls)  # type: ignore[arg-type]
        carried = carried_of(json.loads((folder / CARRIED).read_text(encoding="ascii")))
        return model, load_file(folder / OPTIMIZER), progress, carried
    except (OSError, TypeError, ValueError, Exception) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"the checkpoint {folder} is damaged: {error}. Delete it and resume again: "
            "the one before it is used."
        ) from error


def carried_of(saved: dict[str, Any]) -> Carried:
    """What `save_checkpoint` wrote, as records again."""
    return Carried(
        [group_of(group) for group in saved["surplus"]],
        {name: (right, of) for name, (right, of) in saved["pass_rates"].items()},
    )


def group_of(saved: dict[str, Any]) -> Group:
    """A group from its fields."""
    rollouts = []
    for fields in saved["rollouts"]:
        saved_sampling = fields["sampling"]
        tuples = {name: tuple(saved_sampling.get(name, ())) for name in ("banned", "stop")}
        read = {
            "sampling": Sampling(**(saved_sampling | tuples)),
            "score": Score(**fields["score"]) if fields["score"] else None,
            "kept": fields["kept"] or (),
            "sampler_entropies": fields["sampler_entropies"] or (),
        }
        rollouts.append(Rollout(**(fields | read)))
    return Group(problem_of(saved["problem"]), rollouts)


def restore_optimizer(
    model: Model, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]
) -> None:
    """Put saved moments and step counts back."""
    for name, parameter in model.decoder.learning().items():
        prefix = f"{name}/"
        state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if state:
            optimizer.state[parameter] = state

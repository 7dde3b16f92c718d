"""Which directory a name means: a built-in model, a run's newest checkpoint, a path, the hub."""

from pathlib import Path

from rlvr import abacus
from rlvr.errors import UsageError
from rlvr.model.hub import hub_folder, names_hub_model

BUILT_IN = {"abacus": abacus.FOLDER}
SETTINGS = "run.toml"
"""What makes a folder that of a run."""
CHECKPOINTS = "checkpoints"
NEEDED = ("config.json", "tokenizer.json")


def model_folder(name: str) -> Path:
    """The model directory that a name means; a name of the hub is fetched.

    Raises:
        UsageError: There is no such model, or files of it are missing.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    if (path / SETTINGS).is_file():
        saved = checkpoints(path)
        if not saved:
            raise UsageError(
                f"the run {path} has no checkpoint yet. Wait for its first, or give another model."
            )
        path = saved[-1]
    elif not path.exists() and names_hub_model(name):
        path = hub_folder(name)
    if not path.exists():
        known = ", ".join(sorted(BUILT_IN))
        raise UsageError(
            f"no model '{name}'. Give a built-in one ({known}), a run folder, a model directory, "
            "or OWNER/NAME of the hub."
        )
    check_whole(path)
    return path


def check_whole(folder: Path) -> None:
    """Refuse a model directory that lacks a file beside its weights.

    Raises:
        UsageError: It does, or there is no such directory.
    """
    if not folder.is_dir():
        raise UsageError(
            f"no model directory {folder}. Give a directory with config.json, tokenizer.json and "
            "model.safetensors, a run folder, or the name of a built-in model (rlvr models)."
        )
    for name in NEEDED:
        if not (folder / name).is_file():
            raise UsageError(
                f"{folder} is no whole model directory: {name} is missing. "
                "Download or save the model again, or give another model."
            )


def checkpoint_folder(run: Path, step: int) -> Path:
    """The folder of the checkpoint after a step."""
    return run / CHECKPOINTS / f"step-{step:06d}"


def checkpoints(run: Path) -> list[Path]:
    """Whole checkpoints of a run, oldest first."""
    return sorted((run / CHECKPOINTS).glob("step-*"))

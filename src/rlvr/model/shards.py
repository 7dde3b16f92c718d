"""Where the weights of a model directory lie: one safetensors file, or several with an index.

Everything is checked from the files' headers, before any weight is read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from rlvr.errors import UsageError
from rlvr.model.tokens import read_json

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
DTYPES = ("F32", "BF16", "F16", "F64")
"""Number formats of stored weights that are read, in the words of the files' headers."""
COMPUTED = "rotary_emb.inv_freq"
"""End of the names of stored tensors that are no weights: old directories have them."""
Places = dict[str, Path]
"""The file of each weight."""


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights: all there, by name.

    Raises:
        UsageError: There are none, one is missing, or the index is damaged.
    """
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if (folder / INDEX).is_file():
        return [folder / name for name in sorted(set(_index(folder).values()))]
    others = sorted(path.name for path in folder.glob("*.bin"))
    if others:
        raise UsageError(
            f"{folder} has its weights in {others[0]}, a pickle file, which can carry code and is "
            "not read. Save the model with safe_serialization=True, or take another copy that "
            f"has {WHOLE}."
        )
    raise UsageError(
        f"{folder} is no whole model directory: {WHOLE} is missing, and {INDEX} too. "
        "Download or save the model again, or give another --model."
    )


def _index(folder: Path) -> dict[str, str]:
    """The file of each weight, by the index."""
    path = folder / INDEX
    named = read_json(path).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise UsageError(f"{path} has no weight_map. Download or save the model again.")
    found: dict[str, str] = {}
    for weight, name in named.items():
        plain = isinstance(name, str) and Path(name).name == name and name != ".."
        if not plain or not name.endswith(".safetensors"):
            raise UsageError(
                f"{path} puts {weight} into {name!r}, which is no safetensors file of this "
                "directory. Download or save the model again."
            )
        if not (folder / name).is_file():
            raise UsageError(
                f"{folder} is no whole model directory: {name}, which its index names, is "
                "missing. Download or save the model again."
            )
        found[weight] = name
    return found


def find_weights(folder: Path, wanted: Mapping[str, tuple[int, ...]], *, tied: bool) -> Places:
    """The file of each weight that a model needs, all of the right shape and a format that is read.

    Args:
        folder: The model directory.
        wanted: Shapes by name.
        tied: Whether the head is the embedding: a second copy of it is then passed over.

    Raises:
        UsageError: A file is damaged; or a weight is missing, surplus, misshapen or quantised.
    """
    places: dict[str, Path] = {}
    for path in weight_files(folder):
        with opened(path) as file:
            for name in file.keys():  # noqa: SIM118  no mapping
                if name.endswith(COMPUTED) or (tied and name == "lm_head.weight"):
                    continue
                part = file.get_slice(name)
                shape, dtype = tuple(part.get_shape()), part.get_dtype()
                if name in wanted and shape != tuple(wanted[name]):
                    raise UsageError(
                        f"{path}: weight {name} has shape {shape}, config.json asks for "
                        f"{tuple(wanted[name])}. Save it again."
                    )
                if dtype not in DTYPES:
                    raise UsageError(
                        f"{path}: weight {name} is stored as {dtype}; read are "
                        f"{', '.join(DTYPES)}. Take a copy of the model that is not quantised."
                    )
                places[name] = path
    _compare(folder, places, wanted, tied=tied)
    return places


def _compare(
    folder: Path, places: Places, wanted: Mapping[str, tuple[int, ...]], *, tied: bool
) -> None:
    """Refuse weights that are missing or surplus, or that lie elsewhere than the index says."""
    if places.keys() != wanted.keys():
        missing, surplus = sorted(wanted.keys() - places), sorted(places.keys() - wanted)
        told = [
            f"{len(names)} {what} ({', '.join(names[:3])}{', ...' if names[3:] else ''})"
            for what, names in (("missing", missing), ("surplus", surplus))
            if names
        ]
        raise UsageError(
            f"{folder}: its files do not hold the weights that config.json asks for: "
            f"{' and '.join(told)}. Download or save the model again."
        )
    if (folder / WHOLE).is_file():
        return
    for name, file in _index(folder).items():
        known = name in places or name.endswith(COMPUTED) or (tied and name == "lm_head.weight")
        if not known or (name in places and places[name].name != file):
            raise UsageError(
                f"{folder / INDEX} puts {name} into {file}, which does not hold it. "
                "Download or save the model again."
            )


def opened(path: Path) -> Any:
    """A file of weights, its header read.

    Raises:
        UsageError: It is cut short, or no safetensors file.
    """
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise UsageError(
            f"{path} is damaged: {error}. Download or save the model again."
        ) from error

"""Models by their name on the Hugging Face hub: fetched once into its cache, read from there."""

import re
from functools import partial
from pathlib import Path

from rlvr.errors import UsageError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?", re.ASCII)
FETCHED = ("*.json", "*.safetensors", "*.jinja")
PASSED_OVER = ("*/*",)
"""What lies in folders of a model: copies of its weights in other formats."""


def names_hub_model(name: str) -> bool:
    """Whether a name can be OWNER/NAME or OWNER/NAME@REVISION on the hub.

    A path whose first folder is there is a path that is spelled wrong, not a name on the hub.

    >>> [names_hub_model(name) for name in ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@main", "qwen")]
    [True, True, False]
    """
    return NAME.fullmatch(name) is not None and not Path(name.partition("/")[0]).exists()


def hub_folder(name: str) -> Path:
    """The directory of a model of the hub, fetched where the cache does not have it yet.

    Args:
        name: As `names_hub_model` takes it.

    Raises:
        UsageError: The hub has no such model, or it can't be reached and the cache lacks it.
    """
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError as error:
        raise UsageError(
            f"{name} is no local path, and to fetch it from the hub huggingface_hub is needed: "
            f"{error}. Install it (pip install huggingface_hub), or give a model directory."
        ) from error
    model, _, revision = name.partition("@")
    fetch = partial(
        huggingface_hub.snapshot_download,
        model,
        revision=revision or None,
        allow_patterns=list(FETCHED),
        ignore_patterns=list(PASSED_OVER),
    )
    try:
        return Path(fetch())
    except errors.GatedRepoError as error:
        raise UsageError(
            f"{name} is on the hub, but its owner asks for consent first. Give it on "
            f"https://huggingface.co/{model}, log in (hf auth login), and try again."
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        missing = f"model {model}" if not revision else f"model {model} with a revision {revision}"
        raise UsageError(
            f"the hub has no {missing} (or it is private: hf auth login), and there is no such "
            "directory here. Check the name, or give a model directory."
        ) from error
    except errors.HFValidationError as error:
        raise UsageError(f"{name} is no name of the hub: {error}. Write OWNER/NAME.") from error
    except (OSError, ValueError, errors.HfHubHTTPError) as error:  # what its clients raise
        failed = error
    try:
        return Path(fetch(local_files_only=True))
    except (OSError, ValueError, errors.HfHubHTTPError):
        first = str(failed).strip().splitlines()
        raise UsageError(
            f"no local path {name}, and the hub could not be reached for the model {model} "
            f"({type(failed).__name__}: {first[0][:200] if first else ''}). The cache has no whole "
            "copy. Give a local model directory; or fetch it once where there is a network (hf "
            f"download {model}), copy the cache, and set HF_HUB_OFFLINE=1."
        ) from failed

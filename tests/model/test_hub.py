"""Models by their name on the hub; no test here reaches a network."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from rlvr.errors import UsageError
from rlvr.folders import NEEDED, model_folder
from rlvr.model.hub import hub_folder, names_hub_model

NAME = "Qwen/Qwen3-0.6B-Base"


class Hub:
    """Answers as the hub would, and keeps what it was asked."""

    def __init__(self, folder: Path | None, online: Exception | None = None) -> None:
        self.folder, self.online = folder, online
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, **how: Any) -> str:
        self.asked.append((name, how))
        if self.online is not None and not how.get("local_files_only"):
            raise self.online
        if self.folder is None:
            raise errors.LocalEntryNotFoundError("no copy")
        return str(self.folder)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hub]:
    def put(folder: Path | None, online: Exception | None = None) -> Hub:
        found = Hub(folder, online)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", found)
        return found

    return put


def whole(folder: Path) -> Path:
    """A folder with what a model directory has beside its weights, all of it empty."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        (folder / name).touch()
    return folder


def answered(kind: type[Exception]) -> Exception:
    """An error of the hub, without the response that it came with."""
    error = kind.__new__(kind)
    error.args = ("the hub said no",)
    return error


def test_a_name_of_the_hub_is_fetched_with_only_what_is_read(
    hub: Callable[..., Hub], tmp_path: Path
) -> None:
    asked = hub(whole(tmp_path)).asked
    assert model_folder(NAME) == tmp_path
    assert model_folder(f"{NAME}@refs/pr/1") == tmp_path
    assert [name for name, _ in asked] == [NAME, NAME]
    assert [how["revision"] for _, how in asked] == [None, "refs/pr/1"]
    assert asked[0][1]["allow_patterns"] == ["*.json", "*.safetensors", "*.jinja"]


def test_paths_are_never_asked_of_the_hub(
    hub: Callable[..., Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = hub(None).asked
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    whole(tmp_path / NAME)
    assert model_folder(NAME) == Path(NAME)
    for wrong in ("runs/none", "none", "./a/b", "/none/there", "../a", "a/b/c", "~/model", "a/"):
        assert not names_hub_model(wrong)
        with pytest.raises(UsageError, match="no model"):
            model_folder(wrong)
    assert asked == []


def test_the_cache_is_used_where_the_hub_can_not_be_reached(
    hub: Callable[..., Hub], tmp_path: Path
) -> None:
    found = hub(tmp_path, OSError("no route"))
    assert hub_folder(NAME) == tmp_path
    assert [how.get("local_files_only") for _, how in found.asked] == [None, True]


def test_a_hub_that_can_not_be_reached_is_said_with_what_to_do(hub: Callable[..., Hub]) -> None:
    hub(None, OSError("no route\nand more"))
    with pytest.raises(UsageError) as refused:
        hub_folder(NAME)
    said = str(refused.value)
    for part in (NAME, "no route", "local model directory", "HF_HUB_OFFLINE=1"):
        assert part in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("RepositoryNotFoundError", "the hub has no model"),
        ("RevisionNotFoundError", "with a revision v9"),
        ("GatedRepoError", "consent"),
        ("HFValidationError", "OWNER/NAME"),
        ("HfHubHTTPError", "could not be reached"),
    ],
)
def test_what_the_hub_refuses_is_told_apart(hub: Callable[..., Hub], kind: str, says: str) -> None:
    hub(None, answered(getattr(errors, kind)))
    with pytest.raises(UsageError, match=says):
        hub_folder(f"{NAME}@v9")


def test_what_is_fetched_must_be_a_whole_model(hub: Callable[..., Hub], tmp_path: Path) -> None:
    hub(tmp_path)
    with pytest.raises(UsageError, match=r"config\.json is missing"):
        model_folder(NAME)


def test_without_the_library_a_model_directory_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match="pip install huggingface_hub"):
        hub_folder(NAME)


def test_a_model_in_the_cache_is_evaluated_without_a_network(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    """The library itself, told to stay offline, with a cache as it lays one out."""
    cache, commit = tmp_path / "hub" / "models--someone--tiny", "a" * 40
    shutil.copytree(tiny_model_folder, cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    words = "someone/tiny --count 2 --max-new-tokens 2 --threads 1"
    for name, status in (("someone/tiny", 0), ("someone/else", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "rlvr", "eval", *words.replace("someone/tiny", name).split()],
            cwd=tmp_path,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "hub")},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert ("HF_HUB_OFFLINE" in done.stderr) == bool(status)

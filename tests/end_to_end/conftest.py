"""Runs of the command line, small ones."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

SMALL = {
    "rollouts.problems-per-step": 4,
    "rollouts.group-size": 4,
    "rollouts.max-new-tokens": 48,
    "evaluation.problems": 8,
    "evaluation.final-problems": 12,
    "evaluation.every-steps": 3,
    "checkpoints.every-steps": 2,
    "threads": 1,
    "dtype": "float32",
}


@pytest.fixture
def small() -> list[str]:
    """Options of a run that takes seconds."""
    return [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]


@pytest.fixture
def rlvr(tmp_path: Path) -> Command:
    """Run `rlvr` with some words in a folder of its own."""

    def run(*words: object, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rlvr", *map(str, words)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            input=given,
            env=os.environ | {"COLUMNS": "80"},
            check=False,
        )

    return run

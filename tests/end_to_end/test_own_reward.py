"""`rlvr train` with a reward function of the user's own, from a file in the present folder."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr.observe.runlog import read_lines

Command = Callable[..., subprocess.CompletedProcess[str]]

MINE = '''
"""Short answers pay; some never come to an end."""

def score(problem, text):
    print("seen", problem["id"])
    while len(text) % 16 == 15:
        pass
    return {"value": 1 / (1 + len(text)), "reason": problem["subject"]}

def broken(problem, text):
    return {}["no such key"]

def wrong(problem, text):
    return "1.0"
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_a_run_learns_from_your_function_and_survives_what_hangs(
    rlvr: Command, small: list[str], mine: Path
) -> None:
    """BC-52."""
    own = ["--reward.function", "mine.py:score", "--reward.function-deadline-seconds", 0.3]
    done = rlvr("train", "--out", "run", "--steps", 2, *own, "--reward.correctness", 0, *small)
    assert done.returncode == 0, done.stderr
    assert "seen" not in done.stdout
    lines = read_lines(mine / "run" / "metrics.jsonl")
    assert len(lines) == 2
    for line in lines:
        assert line["reward/part/function"] == pytest.approx(line["reward/mean"])
        assert line["reward/failed"] == line["reward/none"] == 0
    answers = read_lines(mine / "run" / "rollouts" / "step-000001.jsonl")
    for row in answers:
        hung = len(str(row["text"])) % 16 == 15
        assert (row["value"] == 0) == hung
        assert ("longer than 0.3 seconds" if hung else str(row["subject"])) in str(row["reason"])


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("mine.py:no_such", "It has: score, broken, wrong"),
        ("no_such.py:score", "there is no file"),
        ("no_such:score", "No module named 'no_such'"),
        ("mine.py", "path/to/file.py:function"),
    ],
)
def test_a_function_that_is_not_there_is_refused_before_anything_is_written(
    function: str, says: str, rlvr: Command, small: list[str], mine: Path
) -> None:
    done = rlvr("train", "--out", "run", "--reward.function", function, *small)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (mine / "run").exists()


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("broken", "failed on 16 of 16 answers (100%)"),
        ("wrong", "returned '1.0' (str); return a number, None, or a dict. It was answer 0 to"),
    ],
)
def test_a_function_that_does_not_work_stops_the_run_before_any_update(
    function: str, says: str, rlvr: Command, small: list[str], mine: Path
) -> None:
    """BC-50, BC-51."""
    done = rlvr("train", "--out", "run", "--reward.function", f"mine:{function}", *small)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert read_lines(mine / "run" / "metrics.jsonl") == []

"""`rlvr verify`: a pair, a file in its order, the stored rollouts of a run, another verifier."""

import json
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

PAIRS = [
    ("1/2", r"so it is \boxed{0.5}", "correct"),
    ("7", r"\boxed{8}", "incorrect"),
    ("7", r"\boxed{7 +* 2}", "could not judge"),
    ("7", "it comes to 7", "incorrect"),
    (r"\sin^2 x", r"\boxed{\frac{1-\cos 2x}{2}}", "correct"),
    ("", r"\boxed{7}", "could not judge"),
]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_one_answer_gets_a_verdict_and_a_reason(rlvr: Command) -> None:
    done = rlvr("verify", "--reference", "1/2", "--response", r"\boxed{0.5}")
    assert (done.returncode, done.stdout) == (0, "correct: same meaning\n")
    done = rlvr("verify", "--reference", "1/2", "--response", r"\boxed{0.6}", "--json")
    assert lines(done.stdout)[0]["verdict"] == "incorrect"
    done = rlvr("verify", "--reference", "7", "--response", "it is 7")
    assert done.stdout.startswith("incorrect")
    done = rlvr("verify", "--reference", "7", "--response", "it is 7", "--lenient")
    assert done.stdout.startswith("correct")


def test_a_file_is_graded_in_its_order(rlvr: Command, tmp_path: Path) -> None:
    rows = [
        {"gold": gold, "response": text, **({"id": f"mine-{n}"} if n % 2 else {})}
        for n, (gold, text, _) in enumerate(PAIRS * 60)
    ]
    done = rlvr("verify", "--jsonl", write(tmp_path / "all.jsonl", [*rows]))
    assert done.returncode == 0
    found = lines(done.stdout)
    assert [row["verdict"] for row in found] == [verdict for *_, verdict in PAIRS] * 60
    assert [row["id"] for row in found][:4] == [1, "mine-1", 3, "mine-3"]
    assert all({*row} == {"id", "verdict", "answer", "reason", "seconds"} for row in found)
    assert "120 correct, 120 could not judge, 120 incorrect" in done.stderr


def test_other_words_for_the_fields_and_further_answers(rlvr: Command, tmp_path: Path) -> None:
    rows: list[object] = [
        {"reference": 7, "text": r"\boxed{7}"},
        {"gold": "7", "response": r"\boxed{8}", "alternatives": ["9", 8]},
    ]
    done = rlvr("verify", "--jsonl", write(tmp_path / "all.jsonl", rows))
    assert [row["verdict"] for row in lines(done.stdout)] == ["correct", "correct"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no json", "line 2 is not JSON"),
        ("[1, 2]", "line 2 is no object"),
        ('{"gold": "7"}', "line 2 needs"),
        ('{"gold": null, "response": "7"}', "line 2 needs"),
        ('{"gold": "7", "response": 7}', "line 2 needs"),
        ("[" * 100_000, "line 2 is not JSON"),
        ('{"gold": "7", "response": "7", "alternatives": 8}', "a list of texts"),
        ('{"gold": "7", "response": "7", "alternatives": "89"}', "a list of texts"),
    ],
)
def test_a_broken_line_is_named_and_can_be_left_out(
    rlvr: Command, tmp_path: Path, line: str, said: str
) -> None:
    good = json.dumps({"gold": "7", "response": r"\boxed{7}"})
    (tmp_path / "all.jsonl").write_text(f"{good}\n{line}\n\n{good}\n")
    done = rlvr("verify", "--jsonl", "all.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "--skip-broken" in done.stderr
    done = rlvr("verify", "--jsonl", "all.jsonl", "--skip-broken")
    assert done.returncode == 0
    assert [row["id"] for row in lines(done.stdout)] == [1, 4]
    assert "1 broken line" in done.stderr


def test_a_name_that_is_no_number_is_kept_as_it_is_written(rlvr: Command, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text('{"id": NaN, "gold": 7, "response": "\\\\boxed{7}"}\n')
    done = rlvr("verify", "--jsonl", "all.jsonl")
    assert (done.returncode, lines(done.stdout)[0]["id"]) == (0, "NaN")


def test_an_answer_beside_a_file_is_refused(rlvr: Command) -> None:
    done = rlvr("verify", "--jsonl", "all.jsonl", "--response", "7")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--response goes with --reference" in done.stderr


def test_stored_rollouts_are_graded_again(rlvr: Command, small: list[str], tmp_path: Path) -> None:
    done = rlvr("train", "--steps", 2, "--out", "run", "--seed", 3, *small)
    assert done.returncode == 0, done.stderr
    again = rlvr("verify", "--run", "run")
    assert again.returncode == 0, again.stderr
    found = lines(again.stdout)
    assert len(found) == 2 * 4 * 4
    assert all(row["stored"] == row["verdict"] for row in found)
    assert "0 of 32 verdicts differ" in again.stderr


def test_a_rollout_is_graded_again_by_the_scorer_of_its_problem(
    rlvr: Command, small: list[str], tmp_path: Path
) -> None:
    done = rlvr("train", "--steps", 1, "--out", "run", "--problems", "countdown", *small)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "run" / "rollouts" / "step-000001.jsonl"
    row = lines(path.read_text())[0] | {"finish_reason": "stop"}
    target = json.loads(row["entry"])["target"]
    right = row | {"text": rf"\boxed{{{row['reference']}}}", "verdict": "correct"}
    wrong = row | {"text": rf"\boxed{{{target - 1} + 1}}", "verdict": "incorrect"}
    write(path, [right, wrong])
    again = rlvr("verify", "--run", "run")
    assert [row["verdict"] for row in lines(again.stdout)] == ["correct", "incorrect"]


def test_a_lenient_run_is_graded_again_as_it_was(rlvr: Command, tmp_path: Path) -> None:
    (tmp_path / "run" / "rollouts").mkdir(parents=True)
    row = {"gold": "7", "response": "it is 7", "verdict": "correct"}
    write(tmp_path / "run" / "rollouts" / "step-000001.jsonl", [row])
    for lenient, verdict in (("false", "incorrect"), ("true", "correct")):
        (tmp_path / "run" / "run.toml").write_text(f"[reward]\nlenient = {lenient}\n")
        assert lines(rlvr("verify", "--run", "run").stdout)[0]["verdict"] == verdict


def test_a_folder_without_rollouts_is_refused(rlvr: Command, tmp_path: Path) -> None:
    done = rlvr("verify", "--run", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no rollouts" in done.stderr


def test_another_verifier_that_is_not_there_is_named(rlvr: Command) -> None:
    done = rlvr("verify", "--reference", "7", "--response", "7", "--against", "math-verfy")
    assert done.returncode == 2
    assert "math-verify" in done.stderr
    if find_spec("math_verify") is None:
        done = rlvr("verify", "--reference", "7", "--response", "7", "--against", "math-verify")
        assert done.returncode == 2
        assert "pip install" in done.stderr


@pytest.mark.skipif(find_spec("math_verify") is None, reason="needs math-verify")
def test_another_verifier_is_asked_beside_ours(rlvr: Command, tmp_path: Path) -> None:
    rows: list[object] = [
        {"gold": "a+2", "response": r"\boxed{a+2d}"},
        {"gold": "7", "response": r"\boxed{7}"},
    ]
    done = rlvr(
        "verify", "--jsonl", write(tmp_path / "all.jsonl", rows), "--against", "math-verify"
    )
    assert [row["verdict"] for row in lines(done.stdout)] == ["incorrect", "correct"]
    assert [row["against"] for row in lines(done.stdout)] == ["correct", "correct"]
    assert "1 incorrect here, correct there" in done.stderr


def test_a_file_of_broken_lines_alone_is_counted_when_they_are_left_out(
    rlvr: Command, tmp_path: Path
) -> None:
    (tmp_path / "noise.jsonl").write_text("no\n[1]\n")
    done = rlvr("verify", "--jsonl", "noise.jsonl", "--skip-broken")
    assert done.returncode == 0
    assert "no whole line" in done.stderr
    assert "2 broken lines were left out" in done.stderr

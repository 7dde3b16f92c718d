"""`rlvr problems`: what there is, what is in it, and what two sets have in common."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from rlvr.problems.sources import DATASETS

Command = Callable[..., subprocess.CompletedProcess[str]]


def write(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"problem": text, "answer": "2"}) + "\n" for text in texts))


def test_every_source_is_listed_without_a_network(rlvr: Command) -> None:
    listed = rlvr("problems", "--json")
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [row["name"] for row in rows] == list(DATASETS)
    assert all(f"  {name} " in rlvr("problems").stdout for name in DATASETS)


def test_one_source_is_shown_with_counts_and_examples(rlvr: Command, tmp_path: Path) -> None:
    write(tmp_path / "mine.jsonl", [f"{number}+1=" for number in range(100)])
    shown = rlvr("problems", "mine.jsonl")
    assert shown.returncode == 0, shown.stderr
    assert "to train on, one in ten held out" in shown.stdout
    assert shown.stdout.count("answer: 2") == 6
    row = json.loads(rlvr("problems", "mine.jsonl", "--json").stdout)
    assert row["training"] + row["held_out"] == 100
    assert {example["side"] for example in row["examples"]} == {"training", "held out"}


def test_an_evaluation_set_shows_no_training_problems(rlvr: Command, tmp_path: Path) -> None:
    write(tmp_path / "mine.jsonl", ["1+1=", "2+0="])
    row = json.loads(rlvr("problems", "mine.jsonl?held_out=all", "--json").stdout)
    assert (row["training"], row["held_out"]) == (None, 2)
    assert {example["side"] for example in row["examples"]} == {"held out"}


def test_contamination_is_bad_news(rlvr: Command, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", ["1+1=", "2+0="])
    write(tmp_path / "clean.jsonl", ["3-1="])
    write(tmp_path / "dirty.jsonl", ["3-1=", "1 + 1 ="])
    good = rlvr("problems", "--contamination", "train.jsonl", "clean.jsonl")
    assert good.returncode == 0, good.stderr
    assert "no text and no 13 words in a row in common" in good.stdout
    bad = rlvr("problems", "--contamination", "train.jsonl", "dirty.jsonl", "--json")
    assert bad.returncode == 1
    found = json.loads(bad.stdout)
    assert found["same"] == [["dirty.jsonl:2", "train.jsonl:1"]]
    assert (found["training"], found["evaluation"], found["shared"]) == (2, 2, [])


def test_training_says_what_its_problems_have_in_common_and_what_was_left_out(
    rlvr: Command, small: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "train.jsonl", ["1+1=", "2+0=", "0+2="])
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write('{"problem": "4-2="}\n')
    write(tmp_path / "test.jsonl", ["1+1=", "5-3="])
    words = ["--steps", 1, "--out", "run", *small]
    name = "train.jsonl?held_out=test.jsonl"
    refused = rlvr("train", "--problems", name, *words)
    assert refused.returncode == 2
    assert f"--problems '{name}&broken=skip'" in refused.stderr
    done = rlvr("train", "--problems", f"{name}&broken=skip", *words)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "1 broken rows left out; the first: train.jsonl, line 4" in said
    assert "1 of 2 evaluation problems are training problems word for word" in said


def test_wrong_use_is_refused(rlvr: Command, tmp_path: Path) -> None:
    write(tmp_path / "mine.jsonl", ["1+1="])
    for words, says in (
        (("problems", "arithmetik"), "Did you mean 'arithmetic'?"),
        (("problems", "mine.jsonl", "--contamination", "a", "b"), "two names"),
        (("problems", "--contamination", "arithmetic", "mine.jsonl"), "no list of problems"),
        (("train", "--problems", "mine.jsonl?held_out=all"), "for evaluation only"),
        (("train", "--problems", "mine.jsonl?level=2"), "no problem has a level"),
    ):
        refused = rlvr(*words)
        assert refused.returncode == 2, refused.stdout
        assert says in refused.stderr
        assert not (tmp_path / "runs").exists()


def test_every_command_of_the_page_works(rlvr: Command, tmp_path: Path, shared_data: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/problems.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    commands = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert len(commands) > 15
    rows = [
        {"problem": f"{a}+{b}=", "answer": a + b, "level": 1 + b % 2, "subject": "sums"}
        for a in range(9)
        for b in range(9)
    ]
    for name in ("mine", "test", "broken"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with (tmp_path / "broken.jsonl").open("a") as file:
        file.write("\nno row")
    (tmp_path / "mine.csv").write_text("problem,answer\n1+1=,2\n")
    other = {"question": "1+1=", "prompt": "Q", "final_answer": "2", "solution": "It is 2."}
    (tmp_path / "other.json").write_text(json.dumps([other]))
    for path in (shared_data / "data").glob("*.json*"):
        (tmp_path / path.name).symlink_to(path)
    for _, *words in commands:
        if any("gym:" in word for word in words) and not find_spec("reasoning_gym"):
            continue
        done = rlvr(*words)
        assert done.returncode == (1 if "--contamination" in words else 0), (words, done.stderr)

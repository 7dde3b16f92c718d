"""Problem files: every broken row is refused with its line."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from rlvr.errors import UsageError
from rlvr.problems.files import read_problems
from rlvr.problems.listed import split_source
from rlvr.problems.prompts import render
from rlvr.problems.sources import load_problems
from rlvr.records import Problem

GOOD = '{"problem": "1+1=", "answer": "2"}\n'


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "mine.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path) -> tuple[Problem, ...]:
    return read_problems(path).whole(str(path)).problems


def test_good_rows_become_problems(tmp_path: Path) -> None:
    rows = [
        {"problem": "1+1=", "answer": 2},
        {"problem": "half?", "answer": "1/2", "id": "h", "subject": "fractions", "level": 3},
    ]
    text = "\ufeff" + "\n\n".join(map(json.dumps, rows))
    first, second = read(write(tmp_path, text))
    assert (first.prompt, first.answer, first.id) == ("1+1=", "2", "mine.jsonl:1")
    assert (second.id, second.subject, second.level) == ("h", "fractions", 3)
    assert second.source.endswith("line 3")


def test_a_number_as_answer_is_written_out_as_a_grader_reads_it(tmp_path: Path) -> None:
    for number, text in (("0.00001", "0.00001"), ("1e22", "1" + "0" * 22), ("-0.5", "-0.5")):
        (problem,) = read(write(tmp_path, f'{{"problem": "?", "answer": {number}}}'))
        assert Fraction(problem.answer) == Fraction(number)
        assert problem.answer.removesuffix(".0") == text


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("not json", "not JSON"),
        ("[1]", "no object"),
        ('{"problem": "1+1="}', "answer"),
        ('{"answer": "2"}', "problem"),
        ('{"problem": "", "answer": "2"}', "problem"),
        ('{"problem": 3, "answer": "2"}', "problem"),
        ('{"problem": "x", "answer": NaN}', "answer"),
        ('{"problem": "x", "answer": true}', "answer"),
        ('{"problem": "x", "answer": ["2"]}', "answer"),
        ('{"problem": "x", "answer": "2", "level": "hard"}', "level"),
        ('{"problem": "x", "answer": "2", "id": "mine.jsonl:1"}', "earlier line"),
        ('{"problem": ' + "[" * 10**5, "not JSON"),
        ('{"problem": "\\ud800 1+1=", "answer": "2"}', "half a character"),
    ],
)
def test_a_broken_row_is_refused_with_its_line(tmp_path: Path, row: str, says: str) -> None:
    with pytest.raises(UsageError, match=r"line 2") as refused:
        read(write(tmp_path, GOOD + row))
    assert says in str(refused.value)


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 2 is not UTF-8"):
        read(write(tmp_path, GOOD.encode() + b"\xff\xfe"))


def test_no_file_a_folder_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no problem file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="can't read"):
        read(tmp_path)
    with pytest.raises(UsageError, match="can't read"):
        read(tmp_path / "null\0.jsonl")
    with pytest.raises(UsageError, match="no problem"):
        read(write(tmp_path, "\n\n"))


def problems(count: int) -> list[Problem]:
    return [Problem(str(i), f"{i}+1=", str(i + 1), "test") for i in range(count)]


def test_every_epoch_holds_each_training_problem_once_in_an_order_of_its_own() -> None:
    source = split_source("mine", problems(50))
    count = 50 - len(source.held_out)
    epochs = [[source.training(7, e * count + i).id for i in range(count)] for e in range(3)]
    assert all(len(set(epoch)) == count for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert not {p.id for p in source.held_out} & set(epochs[0])


def test_resuming_in_a_later_epoch_goes_on_in_the_same_order() -> None:
    one, two = split_source("mine", problems(30)), split_source("mine", problems(30))
    straight = [p.id for step in range(1, 12) for p in one.take(3, step, 8)]
    resumed = [p.id for step in range(6, 12) for p in two.take(3, step, 8)]
    assert straight[5 * 8 :] == resumed


def test_a_file_too_small_to_split_says_so() -> None:
    source = split_source("mine", problems(3))
    assert len(source.held_out) == 3
    assert "too few" in source.about


def test_unknown_problems_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="Did you mean 'arithmetic'"):
        load_problems("arithmetik")


def test_unknown_templates_are_refused() -> None:
    with pytest.raises(UsageError, match="boxed"):
        render("box", problems(1)[0])
    assert render("plain", problems(1)[0]).text == "0+1="

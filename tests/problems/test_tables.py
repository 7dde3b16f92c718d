"""Every format of problem files: the same problems from each, broken rows told by their place."""

import csv
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.errors import UsageError
from rlvr.problems.files import Loaded, read_problems
from rlvr.problems.sources import load_problems
from rlvr.records import Problem

Rows = Sequence[Mapping[str, object]]
FORMATS = ("jsonl", "json", "csv", "parquet")
LONG = "x" * 1_000_000


def write(path: Path, rows: Rows) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif path.suffix == ".json":
        path.write_text(json.dumps(list(rows)))
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def read(path: Path) -> tuple[Problem, ...]:
    return read_problems(path).whole(str(path)).problems


@pytest.mark.parametrize("ending", FORMATS)
def test_each_format_gives_the_same_problems(tmp_path: Path, ending: str) -> None:
    rows = [
        {"problem": 'a "quoted", text\nin two lines', "answer": "1/2", "subject": "s", "level": 3},
        {"problem": "第二题 \u202bشكرا", "answer": "二", "subject": "t", "level": 1},  # noqa: RUF001
        {"problem": LONG, "answer": "2", "subject": "s", "level": 2},
    ]
    found = read(write(tmp_path / f"mine.{ending}", rows))
    assert [(p.prompt, p.answer, p.subject, p.level) for p in found] == [
        (r["problem"], r["answer"], r["subject"], r["level"]) for r in rows
    ]
    assert {"line" if ending in ("jsonl", "csv") else "row"} == {
        p.source.split()[-2] for p in found
    }


@pytest.mark.parametrize("ending", FORMATS)
def test_an_empty_gold_is_a_broken_row_told_by_its_place(tmp_path: Path, ending: str) -> None:
    rows = [{"problem": "1+1=", "answer": "2"}, {"problem": "1+2=", "answer": " "}] * 2
    path = write(tmp_path / f"mine.{ending}", rows)
    place = "line 3" if ending == "csv" else "line 2" if ending == "jsonl" else "row 2"
    with pytest.raises(UsageError, match=f"{place}: answer is missing") as refused:
        read(path)
    assert f"2 of 4 rows are broken: {place}, " in str(refused.value)
    assert f"--problems '{path}?broken=skip'" in str(refused.value)
    source = load_problems(f"{path}?broken=skip")
    assert len(source.listed) == 2
    assert source.notes == (
        f"2 broken rows left out; the first: {path}, {place}: answer is missing or is no text",
    )


def test_a_file_of_broken_rows_only_is_refused_even_where_they_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", [{"problem": "1+1=", "answer": None}] * 9)
    with pytest.raises(UsageError, match=r"9 of 9 rows are broken: line 1, .*line 5, \.\.\.\."):
        load_problems(str(path))
    with pytest.raises(UsageError, match=r"no problem is left. 9 broken rows left out"):
        load_problems(f"{path}?broken=skip")


def test_a_file_without_an_answer_field_names_the_fields_it_has(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", [{"problem": "1+1=", "result": 2}])
    with pytest.raises(UsageError, match=r"no row has a field answer, .* There are: problem, resu"):
        load_problems(str(path))
    load_problems(f"{path}?answer=result")


def test_one_broken_row_is_not_counted_and_other_words_than_skip_are_refused(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "mine.jsonl", [{"problem": "1+1="}, {"problem": "?", "answer": 1}])
    with pytest.raises(UsageError) as refused:
        load_problems(str(path))
    assert "rows are broken" not in str(refused.value)
    with pytest.raises(UsageError, match="it takes skip"):
        load_problems(f"{path}?broken=drop")


@pytest.mark.parametrize("problem", ["question", "prompt", "problem"])
@pytest.mark.parametrize("answer", ["reference", "final_answer", "solution", "answer"])
def test_common_names_of_fields_are_taken(tmp_path: Path, problem: str, answer: str) -> None:
    (found,) = read(write(tmp_path / "mine.json", [{problem: "1+1=", answer: "2"}]))
    assert (found.prompt, found.answer) == ("1+1=", "2")


def test_our_own_names_win_over_other_common_ones(tmp_path: Path) -> None:
    row = {"problem": "1+1=", "prompt": "Q: 1+1=", "answer": "2", "solution": "It is 2."}
    (found,) = read(write(tmp_path / "mine.json", [row]))
    assert (found.prompt, found.answer) == ("1+1=", "2")


def test_two_fields_that_could_be_meant_are_refused_until_one_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.json", [{"question": "1+1=", "prompt": "Q: 1+1=", "answer": "2"}])
    with pytest.raises(UsageError, match="question or prompt could hold the problem") as refused:
        read(path)
    assert f"--problems '{path}?problem=question'" in str(refused.value)
    assert load_problems(f"{path}?problem=prompt").listed[0].prompt == "Q: 1+1="
    with pytest.raises(UsageError, match=r"no row has a field 'gold'. There are: answer, prompt"):
        load_problems(f"{path}?problem=prompt&answer=gold")


def test_numbers_in_any_format_are_written_out_as_a_grader_reads_them(tmp_path: Path) -> None:
    rows = [{"problem": "?", "answer": Decimal("0.00001")}]
    assert read(write(tmp_path / "mine.parquet", rows))[0].answer == "0.00001"
    (tmp_path / "mine.csv").write_text("problem,answer,level\n?,1e-5,4\n")
    (found,) = read(tmp_path / "mine.csv")
    assert (found.answer, found.level) == ("1e-5", 4)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b'{"problem": "1+1=", "answer": "2"}', "no JSON array"),
        ("a.json", b"[", "no JSON array"),
        ("a.json", b"[]", "holds no problem"),
        ("a.json", b'[{"problem": "1", "answer": "2"}, 3]', "row 2 is no object"),
        ("a.json", b'[\n"\xff"]', "line 2 is not UTF-8"),
        ("a.csv", b"", "holds no problem"),
        ("a.csv", b"problem,answer\n", "holds no problem"),
        ("a.csv", b"problem,problem,answer\n1,1,2\n", "two columns have the same name"),
        ("a.csv", b"problem,answer\n1+1=,2\n1+2=,3,4\n", "line 3 has 3 cells"),
        ("a.csv", b'problem,answer\n"1+1=,2\n', "is not CSV"),
        ("a.csv", b"problem,answer\n1,2\n\xff,2\n", "line 3 is not UTF-8"),
        ("a.parquet", b"PAR1 and no more", "no Parquet file"),
        ("a.txt", b"1+1=", "problem files end in .jsonl, .json, .csv, .parquet"),
        ("a.jsonl", b'{"problem": "x", "answer": "so 2\\n#### 2"}', "gsm8k:"),
    ],
)
def test_what_is_not_the_format_is_refused_in_words(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=says):
        read(tmp_path / name)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(("jsonl", "json", "csv")))
def test_any_bytes_are_problems_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any.{ending}"
    path.write_bytes(content)
    with suppress(UsageError):
        assert isinstance(read_problems(path), Loaded)

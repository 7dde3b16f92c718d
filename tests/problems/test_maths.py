"""MATH, MATH-500 and GSM8K: their fields, their labels, and what is held out."""

import json
import sys
from pathlib import Path

import pytest

from rlvr.errors import UsageError
from rlvr.problems import maths
from rlvr.problems.labels import BY_KEY, CLEANED, EITHER, LEFT_OUT, key_of
from rlvr.problems.listed import Source
from rlvr.problems.maths import gsm8k_row, last_box, math_row
from rlvr.problems.sources import load_problems
from rlvr.problems.tables import Row


@pytest.fixture(scope="module")
def source(shared_data: Path) -> Source:
    data = shared_data / "data"
    return load_problems(f"math:{data}/math_train.jsonl?held_out={data}/math500.json")


def test_math_trains_on_what_is_not_in_math500(source: Source) -> None:
    assert (len(source.trained), len(source.held_out)) == (12_000 - 23, 500)
    held_out = {problem.prompt for problem in source.held_out}
    assert not held_out & {problem.prompt for problem in source.trained}
    assert {p.id for p in source.take(0, 0, 64)} <= {p.id for p in source.trained}


def test_broken_labels_are_left_out_by_name(source: Source) -> None:
    assert len(LEFT_OUT) == 23
    names = {problem.id.removesuffix(".json") for problem in source.trained}
    assert not names & {row.id for row in LEFT_OUT}
    assert source.notes[0].startswith("23 left out")
    assert all(row.id in source.notes[0] for row in LEFT_OUT)


def test_stray_marks_are_taken_off_and_either_or_labels_have_all_answers(source: Source) -> None:
    by_id = {problem.id.removesuffix(".json"): problem for problem in source.trained}
    assert (len(CLEANED), len(EITHER)) == (13, 6)
    assert all(by_id[row.id].answer == row.answer for row in CLEANED)
    for row in EITHER:
        assert {by_id[row.id].answer, *by_id[row.id].alternatives} == set(row.answers)
    alternatives = {p.id.removesuffix(".json") for p in source.trained if p.alternatives}
    assert alternatives == {row.id for row in EITHER}
    assert by_id["train/intermediate_algebra/396"].alternatives == ("(-5, 7)",)


def test_keys_of_labels_are_those_of_the_texts_they_name(shared_data: Path) -> None:
    named = {}
    for line in (shared_data / "data/math_train.jsonl").read_text().splitlines():
        row = json.loads(line)
        named[row["unique_id"].removesuffix(".json")] = row
    assert len(BY_KEY) == 42
    for label in BY_KEY.values():
        assert key_of(named[label.id]["problem"]) == label.key
    assert all(named[row.id]["answer"] == row.printed for row in CLEANED)


def test_no_label_of_math500_is_touched(shared_data: Path) -> None:
    rows = json.loads((shared_data / "data/math500.json").read_text())
    source = load_problems(f"math500:{shared_data}/data/math500.json")
    assert [p.answer for p in source.held_out] == [row["answer"] for row in rows]
    assert source.notes == ()


def test_the_last_box_of_every_solution_is_its_answer(shared_data: Path) -> None:
    for line in (shared_data / "data/math_train.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert last_box(row["solution"]) == row["answer"]


def test_an_answer_that_is_absent_is_read_from_the_solution(tmp_path: Path) -> None:
    row = {
        "problem": "Half of one?",
        "solution": r"\boxed{2} upside down is $\boxed{\frac{1}{2}}$",
        "type": "Algebra",
        "level": "Level 3",
    }
    path = tmp_path / "math.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"level": "Level ?"}))
    first, second = load_problems(f"math:{path}").listed
    assert (first.answer, first.subject, first.level) == (r"\frac{1}{2}", "Algebra", 3)
    assert second.level is None


def test_boxes_are_read_with_their_braces_or_not_at_all() -> None:
    by_hand = {
        r"\boxed{1}": "1",
        r"\fbox {a_{1}^{2}}": "a_{1}^{2}",
        r"\boxed{\{1, 2\}}": r"\{1, 2\}",
        r"\boxed{ $3$ }": "3",
        r"\boxed{1} and \boxed{2": None,
        r"\boxed 1": None,
        "": None,
    }
    assert {text: last_box(text) for text in by_hand} == by_hand
    with pytest.raises(ValueError, match="no whole"):
        math_row({"problem": "?", "solution": r"\boxed{2"})


def test_gsm8k_answers_stand_behind_the_last_mark_without_commas() -> None:
    by_hand = {
        "6*7=<<6*7=42>>42\n#### 42": "42",
        "#### 1,234,567": "1234567",
        "#### -1,000.5": "-1000.5",
        "#### 1,2": "1,2",
        "#### 3\nno\n#### 4 ": "4",
    }
    for worked, answer in by_hand.items():
        assert gsm8k_row({"question": "?", "answer": worked})["answer"] == answer
    for wrong in ("42", None, 42):
        with pytest.raises(ValueError, match="#### N"):
            gsm8k_row({"question": "?", "answer": wrong})


def test_gsm8k_is_read_whole(shared_data: Path) -> None:
    data = shared_data / "data"
    source = load_problems(f"gsm8k:{data}/gsm8k_train.jsonl?held_out={data}/gsm8k_test.jsonl")
    assert (len(source.trained), len(source.held_out)) == (7473, 1319)
    assert source.trained[0].answer == "72"
    assert all(float(problem.answer) is not None for problem in source.listed)


def test_levels_and_subjects_are_chosen_on_both_sides(shared_data: Path) -> None:
    path = f"math:{shared_data}/data/math_train.jsonl"
    source, whole = load_problems(f"{path}?level=1,4-5&subject=number_theory"), load_problems(path)
    assert {p.level for p in source.listed} == {1, 4, 5}
    assert {p.subject for p in source.listed} == {"Number Theory"}
    assert not {p.id for p in source.held_out} & {p.id for p in whole.trained}
    assert not {p.id for p in source.trained} & {p.id for p in whole.held_out}
    with pytest.raises(UsageError, match=r"Did you mean 'algebra'.*precalculus"):
        load_problems(f"{path}?subject=algbra")
    with pytest.raises(UsageError, match="from 1 to 5"):
        load_problems(f"{path}?level=6")


def test_the_first_held_out_problems_are_a_fair_sample_of_a_sorted_file(shared_data: Path) -> None:
    source = load_problems(f"math:{shared_data}/data/math_train.jsonl")
    assert len(source.held_out) == 1000
    assert len({problem.subject for problem in source.held_out[:100]}) == 7
    assert not {p.prompt for p in source.held_out} & {p.prompt for p in source.trained}


def test_math500_is_for_evaluation_only_and_says_what_to_train_on(shared_data: Path) -> None:
    source = load_problems(f"math500:{shared_data}/data/math500.json?level=5")
    assert len(source.held_out) == 134
    with pytest.raises(UsageError, match="Train on math, which holds it out"):
        source.take(0, 0, 1)


def test_all_of_a_file_can_be_held_out(shared_data: Path) -> None:
    source = load_problems(f"gsm8k:{shared_data}/data/gsm8k_test.jsonl?held_out=all")
    assert len(source.held_out) == 1319
    with pytest.raises(UsageError, match="Leave held_out=all out"):
        source.take(0, 0, 1)


def test_a_plain_file_with_doubtful_labels_of_math_says_so(
    tmp_path: Path, shared_data: Path
) -> None:
    lines = (shared_data / "data/math_train.jsonl").read_text().splitlines()
    (tmp_path / "some.jsonl").write_text("\n".join(line for line in lines if "algebra/719" in line))
    (note,) = load_problems(str(tmp_path / "some.jsonl")).notes
    assert note.startswith("1 problems have doubtful labels in MATH")


def test_from_the_hub_math_holds_math500_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def rows(hub: str, config: str | None, split: str, instead: str) -> list[Row]:
        asked.append((hub, config, split))
        count = {"train": 5, "test": 3}[split]
        return [
            Row(i, "row", {"problem": f"{split} {i}", "answer": str(i), "level": i})
            for i in range(1, count + 1)
        ]

    monkeypatch.setattr(maths, "read_hub", rows)
    source = load_problems("math")
    assert [p.prompt for p in source.held_out] == ["test 1", "test 2", "test 3"]
    assert {p.prompt for p in source.take(0, 0, 5)} == {f"train {i}" for i in range(1, 6)}
    assert [hub for hub, _, _ in asked] == ["nlile/hendrycks-MATH-benchmark"] * 2
    assert len(load_problems("math?level=1-2").trained) == 2
    with pytest.raises(UsageError, match="evaluation only"):
        load_problems("math500").take(0, 0, 1)


def test_a_hub_out_of_reach_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")

    def unreachable(*words: object, **more: object) -> None:
        raise ConnectionError("no route to the hub\nand more")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(UsageError, match=r"no route to the hub. Check .* --problems gsm8k:FILE"):
        load_problems("gsm8k")


def test_without_the_library_the_hub_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'rlvr\[datasets\]', or give a local copy"):
        load_problems("gsm8k")

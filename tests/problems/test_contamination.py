"""Contamination: what stands in both sets is found, wording that many share is not."""

import time
from pathlib import Path

from rlvr.problems.contamination import overlap
from rlvr.problems.listed import paired_source, split_source, with_overlap
from rlvr.problems.sources import load_problems
from rlvr.records import Problem

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen"


def problems(*texts: str, name: str = "t") -> list[Problem]:
    return [Problem(f"{name}{number}", text, "2", "test") for number, text in enumerate(texts)]


def test_the_same_text_is_found_but_for_case_and_blanks() -> None:
    training = problems("What is 1 + 1?", "What is 1 - 1?")
    found = overlap(training, problems("what  is\n1+1?", "What is 11?", "What is 1*1?", name="e"))
    assert (found.same, found.shared) == ((("e0", "t0"),), ())
    assert not found.clean


def test_thirteen_words_in_a_row_are_found_and_twelve_are_not() -> None:
    training = problems(f"Before. {TEXT}, after", "other")
    twelve = TEXT.rpartition(" ")[0]
    found = overlap(training, problems(f"So: {TEXT.upper()}!", twelve, f"{twelve} x", name="e"))
    assert (found.same, found.shared) == ((), (("e0", "t0"),))
    assert overlap(training, problems(f"{twelve} x", name="e"), words=12).shared == (("e0", "t0"),)


def test_punctuation_and_case_do_not_hide_words() -> None:
    marked = "One, two; (three) $four$ five-six? seven: eight"
    found = overlap(problems("x one two three four FIVESIX seven eight"), problems(marked), words=7)
    assert found.shared == (("t0", "t0"),)


def test_words_that_many_training_problems_share_are_wording() -> None:
    ten = problems(*(f"{TEXT} {number}" for number in range(10)))
    eleven = problems(*(f"{TEXT} {number}" for number in range(11)))
    evaluation = problems(f"{TEXT} and another", name="e")
    assert overlap(ten, evaluation).shared == (("e0", "t0"),)
    assert overlap(eleven, evaluation).clean


def test_chinese_needs_no_blanks() -> None:
    shared = "小明有三个苹果又买了五个苹果"
    found = overlap(problems(f"问题{shared}请问"), problems(f"{shared}吗", name="e"))
    assert found.shared == (("e0", "t0"),)
    assert overlap(problems("小明有三个"), problems("小明有四个")).clean


def test_nothing_in_common_and_nothing_at_all_are_clean() -> None:
    assert overlap(problems(TEXT), problems("else")).clean
    assert overlap([], []).clean
    assert overlap([], []).lines() == []


def test_lines_say_how_many_and_name_the_first() -> None:
    found = overlap(problems(*"abcde"), problems(*"abcdef", name="e"))
    assert found.lines(2) == [
        "5 of 6 evaluation problems are training problems word for word: e0 (t0), e1 (t1), ..."
    ]


def test_a_source_says_what_its_two_lists_have_in_common() -> None:
    clean = with_overlap(paired_source("mine", problems("a"), problems("b")))
    dirty = with_overlap(paired_source("mine", problems("a"), problems("a")))
    assert clean.notes == ()
    assert dirty.notes[0].startswith("1 of 1 evaluation problems are training problems")
    assert with_overlap(split_source("mine", problems("a"))).notes == ()


def test_one_text_however_spaced_falls_on_one_side_of_a_file() -> None:
    texts = [f"{number}+1=" for number in range(300)]
    source = split_source("mine", problems(*texts, *(text.replace("", " ") for text in texts)))
    assert overlap(source.trained, source.held_out).clean


def test_math_against_math500_takes_less_than_two_seconds(shared_data: Path) -> None:
    data = shared_data / "data"
    source = load_problems(f"math:{data}/math_train.jsonl?held_out={data}/math500.json")
    start = time.thread_time()
    found = overlap(source.trained, source.held_out)
    assert time.thread_time() - start < 2
    assert (found.same, len(found.shared)) == ((), 59)

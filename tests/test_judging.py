"""Judging: every problem by who scores it, in order, and no fault of a scorer is a zero."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from rlvr import judging
from rlvr.judging import judge, judge_all
from rlvr.problems.countdown import Span, training_problem
from rlvr.records import Problem
from rlvr.verify.pool import Done

SUM = Problem("sum", "3+4=", "7", "test")
EITHER = Problem("either", "x^2=4, a root", "2", "test", alternatives=("-2",))
COUNTDOWN = training_problem(Span(), 0, 0)


def boxed(text: str) -> str:
    return rf"\boxed{{{text}}}"


def test_each_problem_is_scored_by_its_own_scorer_in_order() -> None:
    asked = [
        (SUM, boxed("7")),
        (COUNTDOWN, boxed(COUNTDOWN.answer)),
        (EITHER, boxed("-2")),
        (COUNTDOWN, boxed("1")),
        (SUM, boxed("8")),
        (EITHER, boxed("3")),
        (COUNTDOWN, "no box"),
        (SUM, boxed("7 +* 1")),
    ]
    found = judge_all(asked)
    assert [score.value for score in found] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert [score.verdict for score in found] == [
        *("correct", "correct", "correct", "incorrect", "incorrect", "incorrect", "incorrect"),
        "could not judge",
    ]
    assert all(score.reason for score in found)
    assert found == [judge(*pair) for pair in asked]


def test_nothing_asked_is_nothing_found() -> None:
    assert judge_all([]) == []


def test_the_last_number_counts_only_where_asked_for() -> None:
    text = "so it must be 7"
    assert judge(SUM, text).verdict == "incorrect"
    assert judge(SUM, text, lenient=True).verdict == "correct"
    assert judge(COUNTDOWN, COUNTDOWN.answer).verdict == "incorrect"


def test_a_reference_that_cannot_be_read_is_no_zero() -> None:
    assert judge(replace(SUM, answer=r"\frac{1}{"), boxed("7")).value is None


class Hopeless:
    """In place of the workers for foreign scorers: fails in a given way."""

    def __init__(self, failure: Any, value: object = None) -> None:
        self.done = Done(value, failure, "by hand")

    def run(self, items: list[object]) -> list[Done]:
        json.dumps(items)
        return [self.done for _ in items]


FOREIGN = replace(SUM, scorer="gym:chain_sum", entry="{}")


@pytest.mark.parametrize(
    ("failure", "value"), [("deadline", 0.0), ("died", None), ("raised", None), ("not json", None)]
)
def test_a_scorer_that_fails_is_our_fault_unless_the_answer_kept_it_too_long(
    monkeypatch: pytest.MonkeyPatch, failure: str, value: float | None
) -> None:
    """BC-51, BC-52."""
    monkeypatch.setattr(judging, "workers", lambda: Hopeless(failure))
    score = judge(FOREIGN, boxed("7"))
    assert (score.verdict, score.value) == ("could not judge", value)
    assert "by hand" in score.reason


def test_only_the_full_value_of_a_scorer_is_a_right_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for value, verdict in ((1.0, "correct"), (0.5, "incorrect"), (0.0, "incorrect")):
        there = Hopeless("", [value, "so it is"])
        monkeypatch.setattr(judging, "workers", lambda there=there: there)
        score = judge(FOREIGN, boxed("7"))
        assert (score.value, score.verdict, score.answer) == (value, verdict, "7")


def test_a_problem_goes_to_a_worker_and_back_as_json() -> None:
    """Countdown by way of the wire, as a foreign scorer is asked."""
    row = json.loads(json.dumps(asdict(COUNTDOWN)))
    assert judging.by_scorer([row, COUNTDOWN.answer])[0] == 1.0

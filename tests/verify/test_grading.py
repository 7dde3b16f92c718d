"""Many answers at once, from any thread; what needs algebra goes to workers; symbolic proofs."""

import threading
from typing import Any

import pytest

from rlvr.records import Score
from rlvr.verify import Item, grade, grade_batch
from rlvr.verify import grading as module
from rlvr.verify.nodes import Node
from rlvr.verify.parse import read
from rlvr.verify.symbolic import built, graded, proven
from rlvr.verify.typography import UnreadableError
from rlvr.verify.verdict import at_once, decide

MIXED = [
    Item("7", r"\boxed{7}"),
    Item("7", r"\boxed{8}"),
    Item("7", "nothing"),
    Item(r"\frac{\sqrt{3}}{3}", r"\boxed{\frac{1}{\sqrt{3}}}"),
    Item("x^2-1", r"\boxed{(x-1)(x+1)}"),
    Item("x^2-1", r"\boxed{(x-1)(x+2)}"),
    Item("2", r"\boxed{-2}", alternatives=("-2",)),
    Item("", r"\boxed{7}"),
    Item("7", r"\boxed{9**9**9**9}"),
    Item(r"\cos 2x", r"\boxed{1-2\sin^2 x}"),
]
VERDICTS = [
    *("correct", "incorrect", "incorrect", "correct", "correct", "incorrect", "correct"),
    *("could not judge", "incorrect", "correct"),
]


def test_a_batch_is_graded_in_order_and_as_one_by_one() -> None:
    found = grade_batch(MIXED * 20)
    assert [score.verdict for score in found] == VERDICTS * 20
    alone = [grade(i.reference, i.response, alternatives=i.alternatives) for i in MIXED]
    assert [(s.verdict, s.value, s.answer) for s in alone] == [
        (s.verdict, s.value, s.answer) for s in found[: len(MIXED)]
    ]


def test_no_answers_give_no_scores() -> None:
    assert grade_batch([]) == []


def test_several_threads_grade_at_once() -> None:
    """BC-51: nothing depends on the main thread or on signals."""
    found: dict[int, list[Score]] = {}

    def work(number: int) -> None:
        found[number] = grade_batch(MIXED * 5)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(found) == 6
    assert all([s.verdict for s in some] == VERDICTS * 5 for some in found.values())


def test_what_is_plain_is_decided_at_once_as_it_would_be_at_length() -> None:
    for item in MIXED:
        quick = at_once(item.reference, item.response, alternatives=item.alternatives)
        if quick is not None:
            assert quick == decide(item.reference, item.response, alternatives=item.alternatives)
    assert at_once("x^2-1", r"\boxed{(x-1)(x+1)}") is None
    assert at_once("7", r"\boxed{7.0}") is not None


def test_an_exception_of_ours_is_no_verdict_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise ValueError("by hand")

    monkeypatch.setattr(module, "decide", broken)
    score = grade("7", r"\boxed{7}")
    assert (score.verdict, score.value) == ("could not judge", None)
    assert "by hand" in score.reason
    monkeypatch.setattr(module, "at_once", broken)
    assert [s.verdict for s in grade_batch(MIXED)] == VERDICTS, "the workers judge instead"


def node(text: str) -> Node:
    return read(text)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (r"\sin^2 x+\cos^2 x", "1", True),
        (r"\sqrt{5+2\sqrt{6}}", r"\sqrt{2}+\sqrt{3}", True),
        (r"\frac{n!}{(n-1)!}", "n", True),
        ("x^2-1", "(x-1)(x+1)", True),
        ("x^2-1", "(x-1)(x+2)", False),
        (r"\ln 6", r"\ln 2+\ln 3", True),
        (r"\sqrt[3]{-8}", "-2", True),
        (r"\binom{5}{2}", "10", True),
    ],
)
def test_sympy_proves_what_normal_forms_leave_open(first: str, second: str, same: bool) -> None:
    assert proven(node(first), node(second)) is same


@pytest.mark.parametrize("text", ["2^{1000}", "2^{-1000}", "300!", "f(x)", r"\infty"])
def test_what_is_too_large_or_no_number_is_never_built(text: str) -> None:
    with pytest.raises(UnreadableError):
        built(node(text))
    assert proven(node(text), node("7")) is None


def test_a_worker_speaks_json() -> None:
    assert graded(["1/2", r"\boxed{0.5}", [], False]) == ["correct", 1.0, "same meaning", "0.5"]
    assert graded(["7", "it is 7", [], True])[0] == "correct"

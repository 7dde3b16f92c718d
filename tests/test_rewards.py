"""Rewards: parts, gates, limits, and what is refused."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.errors import UsageError
from rlvr.records import Problem, Score
from rlvr.rewards import GATES, Gate, Reward, overlong_penalty, reward, well_formed

PROBLEM = Problem("1", "3+4=", "7", "test")
THOUGHT_RIGHT, THOUGHT_WRONG = r"<think>3+4</think>\boxed{7}", r"<think>3+4</think>\boxed{8}"
BARE_RIGHT, BARE_WRONG = r"\boxed{7}", r"\boxed{8}"
FOUR = (THOUGHT_RIGHT, BARE_RIGHT, THOUGHT_WRONG, BARE_WRONG)


def scored(text: str, settings: Reward, **changes: object) -> Score:
    given_: dict[str, object] = {"tokens": 5, "finished": True, "limit": 100} | changes
    return reward(PROBLEM, text, settings, **given_)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Reward(), (1.0, 1.0, 0.0, 0.0)),
        (Reward(correctness=2.0), (2.0, 2.0, 0.0, 0.0)),
        (Reward(format=0.1, format_gate="additive"), (1.1, 1.0, 0.1, 0.0)),
        (Reward(format=0.1, format_gate="if_correct"), (1.1, 1.0, 0.0, 0.0)),
        (Reward(format=0.1, format_gate="first"), (1.0, 0.0, 0.1, 0.0)),
        (Reward(correctness=0.0, format=0.5, format_gate="additive"), (0.5, 0.0, 0.5, 0.0)),
    ],
)
def test_gates_by_hand(settings: Reward, expected: tuple[float, ...]) -> None:
    assert [scored(text, settings).value for text in FOUR] == pytest.approx(expected)


@given(
    st.floats(0, 10),
    st.floats(0, 10),
    st.sampled_from(sorted(GATES)),
    st.sampled_from(["zero", "soft"]),
)
def test_a_right_answer_is_never_paid_less_than_a_wrong_one_of_the_same_form(
    correct: float, form: float, gate: Gate, overlong: str
) -> None:
    try:
        settings = Reward(correctness=correct, format=form, format_gate=gate)
    except UsageError:
        return
    paid = [scored(text, settings, overlong=overlong).value for text in FOUR]
    assert all(type(value) is float and math.isfinite(value) for value in paid)
    thought_right, bare_right, thought_wrong, bare_wrong = (value or 0.0 for value in paid)
    assert bare_right >= bare_wrong
    if gate != "first" or correct >= 1:
        assert thought_right >= thought_wrong


def test_a_weight_or_a_limit_of_0_is_0_and_not_missing() -> None:
    form_only = Reward(correctness=0.0, format=0.5, format_gate="additive")
    assert [scored(text, form_only).value for text in FOUR] == [0.5, 0.0, 0.5, 0.0]
    assert scored(THOUGHT_RIGHT, Reward(format=0.0)).value == 1.0
    assert scored(BARE_RIGHT, Reward(), tokens=0, limit=0, overlong="soft").value == 0.0


def test_parts_are_logged_unweighted() -> None:
    score = scored(THOUGHT_RIGHT, Reward(correctness=3.0, format=0.1))
    assert score.parts == {"correctness": 1.0, "format": 1.0}


def test_a_cut_answer_gets_0_and_says_so() -> None:
    score = scored(BARE_RIGHT, Reward(), finished=False)
    assert (score.value, score.verdict) == (0.0, "incorrect")
    assert "length limit" in score.reason


def test_a_fault_of_ours_is_none_and_never_0() -> None:
    broken = Problem("1", "?", "x^2+y", "test")
    score = reward(broken, BARE_RIGHT, Reward(), tokens=5, finished=True, limit=100)
    assert score.value is None


def test_the_soft_overlong_penalty_is_a_part_of_its_own() -> None:
    score = scored(BARE_RIGHT, Reward(), tokens=90, overlong="soft")
    assert score.parts["overlong"] == pytest.approx(-0.5)
    assert score.value == pytest.approx(0.5)
    assert scored(BARE_RIGHT, Reward(), tokens=80, overlong="soft").value == 1.0


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<think>a</think>b", False, 1.0),
        (" <think>a</think> b", False, 1.0),
        ("<think></think>b", False, 1.0),
        ("a</think>b", True, 1.0),
        ("a</think>b", False, 0.0),
        ("<think>a</think>", False, 0.0),
        ("<think>a", False, 0.0),
        ("x<think>a</think>b", False, 0.0),
        ("</think>a<think>b", False, 0.0),
        ("<think>a</think><think>b</think>c", False, 0.0),
        ("<think><think>a</think>b", False, 0.0),
        ("", False, 0.0),
    ],
)
def test_the_form_is_one_whole_thought_before_the_answer(
    text: str, opened: bool, expected: float
) -> None:
    assert well_formed(text, opened=opened) == expected


@given(st.text(max_size=200), st.sampled_from(["additive", "if_correct", "first"]))
def test_any_text_gets_a_finite_reward_and_a_reason(text: str, gate: str) -> None:
    settings = Reward(format=0.2, format_gate=gate)  # type: ignore[arg-type]
    score = scored(text, settings)
    assert score.value is not None
    assert -1 <= score.value <= 2
    assert score.reason


@given(st.integers(0, 300), st.integers(1, 100), st.integers(1, 50))
def test_the_overlong_penalty_never_rises_with_length(tokens: int, limit: int, ramp: int) -> None:
    now, longer = (overlong_penalty(n, limit=limit, ramp=ramp) for n in (tokens, tokens + 1))
    assert -1 <= longer <= now <= 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Reward(correctness=-1.0),
        lambda: Reward(format=float("nan")),
        lambda: Reward(correctness=0.0),
        lambda: Reward(correctness=0.0, format=1.0, format_gate="if_correct"),
        lambda: Reward(format=2.0, format_gate="first"),
    ],
)
def test_settings_under_which_nothing_pays_are_refused(wrong: Callable[[], Reward]) -> None:
    with pytest.raises(UsageError, match=r"Use|Set"):
        wrong()

"""Rewards: parts, gates, limits, and what is refused."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.config import resolve
from rlvr.errors import UsageError
from rlvr.records import Problem, Score
from rlvr.rewards import (
    GATES,
    REWARDS,
    Answer,
    Gate,
    Reward,
    foreign_letters,
    overlong_penalty,
    reward,
    well_formed,
)

PROBLEM = Problem("1", "3+4=", "7", "test")
THOUGHT_RIGHT, THOUGHT_WRONG = r"<think>3+4</think>\boxed{7}", r"<think>3+4</think>\boxed{8}"
BARE_RIGHT, BARE_WRONG = r"\boxed{7}", r"\boxed{8}"
RIGHT_AGAIN = "so it is so it is so it is " + BARE_RIGHT
FOUR = (THOUGHT_RIGHT, BARE_RIGHT, THOUGHT_WRONG, BARE_WRONG)


def scored(text: str, settings: Reward, **changes: object) -> Score:
    overlong = changes.pop("overlong", "zero")
    given_: dict[str, object] = {"tokens": 5, "finished": True, "limit": 100} | changes
    answer = Answer(PROBLEM, text, **given_)  # type: ignore[arg-type]
    return reward(answer, settings, overlong=overlong)  # type: ignore[arg-type]


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
    broken = Problem("1", "?", "x^2+*y", "test")
    score = reward(Answer(broken, BARE_RIGHT, tokens=5, finished=True, limit=100), Reward())
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
        lambda: Reward(correctness=0.0, length="kimi", length_weight=0.0),
        lambda: Reward(correctness=0.0, function="a:b", function_weight=0.0),
    ],
)
def test_settings_under_which_nothing_pays_are_refused(wrong: Callable[[], Reward]) -> None:
    with pytest.raises(UsageError, match=r"Use|Set"):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        {"repetition_ngram": 0},
        {"repetition": -1.0},
        {"correctness": 1e39},
        {"function_deadline_seconds": 1e300},
        {"language": float("inf")},
        {"length": "laser"},
        {"length": "l1_max", "length_target": 0},
        {"length_target": -5},
        {"length": "l1_exact", "length_target": 9, "length_slope": 0.0},
        {"length_weight": float("nan")},
        {"function": "score"},
        {"function": "file.py"},
        {"function": ":score"},
        {"function": "my.py:no name"},
        {"function_deadline_seconds": 0.0},
        {"function_workers": 0},
        {"function_memory_mib": 0},
        {"function_failures_most": 1.5},
        {"function_failures_most": -0.1},
    ],
    ids=str,
)
def test_shaping_that_degenerates_is_refused_at_once_and_in_words(wrong: dict[str, Any]) -> None:
    """BC-54."""
    with pytest.raises(UsageError, match=r"^reward\.\w+ is .*(Use|Set|Give) ") as caught:
        Reward(**wrong)
    assert any(f"reward.{name}" in str(caught.value) for name in wrong)


def test_shaping_of_the_least_that_there_is_has_a_value() -> None:
    """BC-54: no token, no word, an n-gram far longer than the answer, a limit of one token."""
    settings = Reward(repetition=1.0, repetition_ngram=10**12, language=1.0)
    for text in ("", " ", "one two", RIGHT_AGAIN):
        score = scored(text, settings, tokens=1, limit=1, overlong="soft")
        assert score.parts["repetition"] == 0.0
        assert score.value is not None
        assert math.isfinite(score.value)


def test_words_that_repeat_cost_their_share_also_where_the_limit_cut_them() -> None:
    settings = Reward(repetition=0.5)
    once = scored(BARE_RIGHT, settings)
    assert (once.value, once.parts["repetition"]) == (1.0, 0.0)
    loop = scored("So it is so It is so it is", settings, finished=False)
    assert loop.parts["repetition"] == pytest.approx(-4 / 7), "3 of 7 are new; case is no matter"
    assert loop.value == pytest.approx(-2 / 7)


@pytest.mark.parametrize(
    ("text", "script", "foreign"),
    [
        ("plain", "latin", 0),
        ("na\u00efve \u0142\u00f3d\u017a \ufb01ne", "latin", 0),
        ("\u03c0 r\u00b2 \u2208 \u211d, \U0001d431 = \u00bd", "latin", 0),
        ("so \u6240\u4ee5 \u0438", "latin", 3),
        ("so \u6240\u4ee5 \u0438", "chinese", 1),
        ("\u0438 x", "cyrillic", 0),
        ("\u3072\u3089\u30ac\u30fc\u6240\u3005", "japanese", 0),
        ("\ud55c\uae00", "korean", 0),
        ("\ud55c\uae00", "latin", 2),
        ("\ud800 \x00 \u202e 12 \u0663", "latin", 0),
        ("", "latin", 0),
    ],
)
def test_letters_of_another_script_are_counted_and_formulas_are_not(
    text: str, script: Any, foreign: int
) -> None:
    assert foreign_letters(text, script) == foreign
    score = scored(text, Reward(language=2.0, language_script=script))
    assert score.parts["language"] == 1 - 0.005 * foreign
    assert score.value == pytest.approx(2 * score.parts["language"])


def test_every_part_has_a_weight_and_is_logged_without_it() -> None:
    """BC-36: the sum is that of the weighted parts, where no gate stands between them."""
    settings = Reward(
        correctness=3.0, format=0.5, format_gate="additive", random=0.25, repetition=0.5,
        language=2.0,
    )  # fmt: skip
    score = scored(
        THOUGHT_RIGHT + " so it is so it is so it is",
        settings,
        tokens=95,
        overlong="soft",
        coin=1.0,
    )
    assert set(score.parts) == {"correctness", *REWARDS}
    weighted = sum(settings.weights[name] * value for name, value in score.parts.items())
    assert score.value == pytest.approx(weighted)
    assert set(settings.weights) == {"correctness", *REWARDS, "length", "function"}


@given(st.text(max_size=200))
def test_any_text_has_all_parts_and_all_are_finite(text: str) -> None:
    settings = Reward(repetition=1.0, language=1.0, format=0.1)
    score = scored(text, settings, overlong="soft")
    assert all(type(part) is float and math.isfinite(part) for part in score.parts.values())


def test_settings_that_nothing_reads_are_said() -> None:
    idle = Reward(repetition_ngram=4, length_target=9, length_slope=0.1, function_workers=3)
    assert len(idle.doubts()) == 4
    assert any("reward.length_target has no part in it" in doubt for doubt in idle.doubts())
    used = Reward(
        repetition=0.1, repetition_ngram=4, length="l1_max", length_target=9, length_slope=0.1,
        function="a:b", function_workers=3,
    )  # fmt: skip
    assert used.doubts() == []
    both = resolve({"variant": "dapo", "reward.length": "kimi"})
    assert any("overlong soft" in doubt for doubt in both.doubts())
    far = resolve({"reward.length": "laser", "reward.length_target": 5000})
    assert any("no answer is longer" in doubt for doubt in far.doubts())

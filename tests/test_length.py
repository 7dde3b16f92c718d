"""Length rewards: edges that the worked numbers do not show."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.length import LENGTHS, SLOPED, TARGETED, LengthReward, Lengths

NAMES = sorted(LENGTHS)
GROUPS = st.lists(st.tuples(st.integers(1, 100), st.sampled_from([0.0, 1.0])), max_size=8)


def lengths(rows: list[tuple[int, float]], slope: float = 0.01) -> Lengths:
    tokens, correct = [n for n, _ in rows], [c for _, c in rows]
    return Lengths(tokens, correct, limit=100, target=50, slope=slope)


@given(st.sampled_from(NAMES), GROUPS)
def test_any_group_gets_one_finite_number_per_answer(
    name: LengthReward, rows: list[tuple[int, float]]
) -> None:
    """BC-54: empty, of one, all equally long, all wrong, all right."""
    found = LENGTHS[name](lengths(rows))
    assert len(found) == len(rows)
    assert all(type(term) is float and math.isfinite(term) for term in found)


@given(st.sampled_from(NAMES), GROUPS)
def test_of_two_answers_of_one_length_the_right_one_is_never_paid_less(
    name: LengthReward, rows: list[tuple[int, float]]
) -> None:
    """With the 1 that a right answer gets besides."""
    found = LENGTHS[name](lengths(rows))
    paid: dict[tuple[int, float], float] = {
        (n, c): c + term for (n, c), term in zip(rows, found, strict=True)
    }
    for (n, c), value in paid.items():
        if c and (n, 0.0) in paid:
            assert value >= paid[n, 0.0] - 1e-12


@given(st.sampled_from([name for name in NAMES if name != "l1_exact"]), GROUPS)
def test_of_two_right_answers_the_longer_one_is_never_paid_more(
    name: LengthReward, rows: list[tuple[int, float]]
) -> None:
    right = [
        (n, term) for (n, c), term in zip(rows, LENGTHS[name](lengths(rows)), strict=True) if c
    ]
    right.sort()
    for (_, shorter), (_, longer) in itertools.pairwise(right):
        assert longer <= shorter + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_a_group_changes_nothing(name: LengthReward) -> None:
    rows = [(10, 1.0), (90, 0.0), (40, 1.0), (70, 1.0)]
    there, back = LENGTHS[name](lengths(rows)), LENGTHS[name](lengths(rows[::-1]))
    assert back[::-1] == pytest.approx(there)


def test_equal_lengths_and_lone_right_answers_pay_nothing_for_length() -> None:
    assert LENGTHS["kimi"](lengths([(7, 1.0), (7, 0.0)])) == [0.0, 0.0]
    assert LENGTHS["lead"](lengths([(7, 1.0), (90, 0.0)])) == [0.0, 0.0]
    assert LENGTHS["lead"](lengths([(7, 1.0), (7, 1.0)])) == [0.0, 0.0]
    assert LENGTHS["mai"](lengths([(7, 0.0), (90, 0.0)])) == [0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_a_target_and_a_slope_are_read_by_those_that_say_so_alone(name: LengthReward) -> None:
    rows = [(20, 1.0), (55, 1.0), (80, 0.0)]
    plain = LENGTHS[name](Lengths([20, 55, 80], [1, 1, 0], limit=100, target=50, slope=0.01))
    other = LENGTHS[name](Lengths([20, 55, 80], [1, 1, 0], limit=100, target=60, slope=0.01))
    steep = LENGTHS[name](lengths(rows, slope=0.02))
    assert (plain != other) == (name in TARGETED)
    assert (plain != steep) == (name in SLOPED)

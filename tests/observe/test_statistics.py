"""Intervals and pass@k against worked numbers."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.observe.statistics import mean_interval, pass_at_k, pass_at_k_interval, percentile, wilson


def test_wilson_gives_the_worked_interval_for_225_of_500() -> None:
    low, high = wilson(225, 500, z=1.959963984540054)
    assert low == pytest.approx(0.4069396517813318, abs=1e-10)
    assert high == pytest.approx(0.4938227822648235, abs=1e-10)


def test_wilson_ends_are_where_the_observed_share_is_z_standard_errors_away() -> None:
    for correct, n in [(1, 4), (7, 9), (225, 500)]:
        for end in wilson(correct, n):
            away = abs(correct / n - end) / math.sqrt(end * (1 - end) / n)
            assert away == pytest.approx(1.96, abs=1e-9)


def test_none_and_all_correct_still_leave_doubt_on_one_side() -> None:
    assert wilson(0, 10) == pytest.approx((0, 1.96**2 / (10 + 1.96**2)))
    assert wilson(10, 10) == pytest.approx((10 / (10 + 1.96**2), 1))


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_mirrors_and_stays_within_0_and_1(trials: tuple[int, int]) -> None:
    correct, n = trials
    low, high = wilson(correct, n)
    assert 0 <= low <= correct / n <= high <= 1
    assert wilson(n - correct, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_pass_at_k_gives_the_worked_numbers_and_not_the_plug_in() -> None:
    cases = [(8, 0, 1), (8, 2, 1), (8, 2, 4), (8, 6, 4), (16, 3, 8)]
    expected = [0.0, 0.25, 0.7857142857142857, 1.0, 0.9]
    assert [pass_at_k(*case) for case in cases] == pytest.approx(expected, abs=1e-10)
    assert pass_at_k(8, 2, 4) != pytest.approx(1 - (1 - 2 / 8) ** 4, abs=0.05)


def test_pass_at_k_counts_the_subsets_that_hold_a_correct_answer() -> None:
    for n, correct, k in [(5, 2, 3), (6, 1, 2), (4, 4, 4)]:
        subsets = list(combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_an_interval_over_problems_by_hand() -> None:
    found = mean_interval([0.0, 1.0, 1.0, 0.0], z=1.0)
    assert found.estimate == 0.5
    assert found.high - found.estimate == pytest.approx(math.sqrt((1 / 3) / 4))
    assert found.low == pytest.approx(1 - found.high)


def test_more_answers_per_problem_do_not_count_as_more_problems() -> None:
    once = pass_at_k_interval([1, 0, 1, 0], samples=1, k=1)
    often = pass_at_k_interval([16, 0, 16, 0], samples=16, k=1)
    assert once == often


def test_one_problem_alone_says_nothing_about_the_others() -> None:
    found = pass_at_k_interval([3], samples=4, k=2)
    assert (found.low, found.high) == (0.0, 1.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_lies_between_neighbours_and_ends_at_the_extremes(
    values: list[float], share: float
) -> None:
    found = percentile(values, share)
    assert found is not None
    assert min(values) - 1e-6 <= found <= max(values) + 1e-6
    assert percentile(values, 0.0) == min(values)
    assert percentile(values, 1.0) == max(values)

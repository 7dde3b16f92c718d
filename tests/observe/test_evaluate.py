"""Accuracy and its interval."""

import pytest

from rlvr.observe.evaluate import accuracy
from rlvr.observe.statistics import wilson
from rlvr.records import Rollout, Sampling, Score


def answers(groups: list[list[bool]]) -> list[Rollout]:
    return [
        Rollout(
            problem_id=str(group),
            group_id=group,
            slot=slot,
            prompt_tokens=[1],
            answer_tokens=[2],
            sampler_logprobs=[0.0],
            finish_reason="stop",
            text="",
            sampling=Sampling(),
            seed=0,
            weights_version=0,
            score=Score(float(right), "correct" if right else "incorrect", "by hand"),
        )
        for group, rights in enumerate(groups)
        for slot, right in enumerate(rights)
    ]


def test_one_answer_a_problem_has_wilsons_interval() -> None:
    found = accuracy(answers([[True], [False], [True], [True]]))
    assert (found.accuracy, found.n) == (0.75, 4)
    assert (found.low, found.high) == wilson(3, 4)


def test_several_answers_to_a_problem_are_no_independent_trials() -> None:
    groups = [[True] * 8, [False] * 8] * 10
    found = accuracy(answers(groups))
    assert found.accuracy == 0.5
    assert found.n == 160
    spread = 1.96 * (0.25 * 20 / 19 / 20) ** 0.5
    assert found.high - found.accuracy == pytest.approx(spread)
    assert found.high - found.low > 2 * (wilson(80, 160)[1] - 0.5)

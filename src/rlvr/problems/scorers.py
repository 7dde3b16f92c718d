"""Problems that bring their own scorer: one call for whoever grades an answer."""

from collections.abc import Callable

from rlvr.problems import countdown, gym
from rlvr.records import Problem

Scorer = Callable[[Problem, str], tuple[float, str]]
"""Gives an answer, without the text around it, a value from 0 to 1 and a reason."""


def _countdown(problem: Problem, answer: str) -> tuple[float, str]:
    right, reason = countdown.score(problem, answer)
    return float(right), reason


def _gym(problem: Problem, answer: str) -> tuple[float, str]:
    value = gym.score(problem, answer)
    return value, f"{problem.scorer} gives {value:g}"


SCORERS: dict[str, Scorer] = {"countdown": _countdown, "gym": _gym}


def score(problem: Problem, answer: str) -> tuple[float, str]:
    """Score an answer by the problem's own scorer; only for problems that have one.

    >>> problem = countdown.training_problem(countdown.Span(), 0, 0)
    >>> score(problem, problem.answer)[0], score(problem, "1")[0]
    (1.0, 0.0)
    """
    assert problem.scorer is not None
    return SCORERS[problem.scorer.partition(":")[0]](problem, answer)

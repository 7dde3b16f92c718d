"""Whether answers are right: by the verifier, or by the scorer that a problem brings."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, cast

from rlvr.problems import scorers
from rlvr.records import Problem, Score, problem_of
from rlvr.verify import Item, grade_batch
from rlvr.verify.extract import extract
from rlvr.verify.pool import Done, Pool

BUILT_IN = "countdown"  # a scorer of ours, bounded, that needs no worker
DEADLINE_SECONDS = 2.0
MEMORY_MIB = 2048  # reasoning-gym and what it imports


def judge(problem: Problem, text: str, *, lenient: bool = False) -> Score:
    """1 for a right answer, 0 for another, none where we could not judge."""
    return judge_all([(problem, text)], lenient=lenient)[0]


def judge_all(asked: Sequence[tuple[Problem, str]], *, lenient: bool = False) -> list[Score]:
    """Judge many answers at once, in their order; nothing a text holds is run.

    Args:
        asked: Problems and whole responses.
        lenient: Also take the last number of a text without any marked answer.
    """
    plain = [n for n, (problem, _) in enumerate(asked) if problem.scorer is None]
    others = [n for n, (problem, _) in enumerate(asked) if problem.scorer is not None]
    items = [Item(p.answer, text, p.alternatives) for p, text in (asked[n] for n in plain)]
    found = dict(zip(plain, grade_batch(items, lenient=lenient), strict=True))
    found |= zip(others, scored([asked[n] for n in others], lenient=lenient), strict=True)
    return [found[n] for n in range(len(asked))]


def scored(asked: Sequence[tuple[Problem, str]], *, lenient: bool) -> list[Score]:
    """Answers to problems that bring their own scorer; foreign ones run in workers."""
    found, foreign = dict[int, Score](), list[tuple[int, str]]()
    for n, (problem, text) in enumerate(asked):
        marked = extract(text, lenient=lenient)
        if marked.answer is None:
            found[n] = Score(0.0, "incorrect", marked.reason)
        elif problem.scorer == BUILT_IN:
            found[n] = score_of(marked.answer, *scorers.score(problem, marked.answer))
        else:
            foreign.append((n, marked.answer))
    if foreign:
        done = workers().run([[asdict(asked[n][0]), answer] for n, answer in foreign])
        for (n, answer), one in zip(foreign, done, strict=True):
            found[n] = told(answer, one)
    return [found[n] for n in range(len(asked))]


def score_of(answer: str, value: float, reason: str) -> Score:
    """A scorer's value as a score: only the full one is a right answer."""
    return Score(value, "correct" if value >= 1 else "incorrect", reason, answer)


def told(answer: str, done: Done) -> Score:
    """What a scorer in a worker said, or why it said nothing."""
    if done.failure == "deadline":
        return Score(0.0, "could not judge", f"the scorer {done.reason}", answer)
    if done.failure:
        return Score(None, "could not judge", f"the scorer failed: {done.reason}", answer)
    value, reason = cast(list[Any], done.value)
    return score_of(answer, float(value), str(reason))


def by_scorer(item: object) -> list[object]:
    """In a worker: `[problem, answer]` scored by the problem's own scorer."""
    row, answer = cast(list[Any], item)
    return list(scorers.score(problem_of(row), answer))


@cache
def workers() -> Pool:
    """Workers for foreign scorers, started on first need, ended with the program."""
    return Pool(
        "rlvr.judging:by_scorer",
        workers=2,
        deadline_seconds=DEADLINE_SECONDS,
        memory_mib=MEMORY_MIB,
        name="the problems' own scorer",
    )

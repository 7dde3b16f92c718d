"""Answers graded, one or many: here where that is cheap, else in workers with a deadline each.

A grader that hangs, dies or raises costs its own item: nothing is lost and nothing scores 0 by it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from rlvr.records import Score
from rlvr.verify.nodes import Node
from rlvr.verify.pool import Done, Pool
from rlvr.verify.verdict import at_once, decide

DEADLINE_SECONDS = 1.5
MOST_WORKERS = 4
MEMORY_MIB = 1024


@dataclass(frozen=True, slots=True)
class Item:
    """One response to grade."""

    reference: str
    response: str
    alternatives: tuple[str, ...] = ()


def grade(
    reference: str, response: str, *, alternatives: Sequence[str] = (), lenient: bool = False
) -> Score:
    r"""Grade a whole response against a reference answer.

    Any text gives a score and a reason, in bounded time and from any thread; nothing is evaluated
    as code. What exact values and normal forms leave open is asked of a worker.

    Args:
        reference: The reference answer, as a data set writes it.
        response: The whole text of an answer.
        alternatives: Further references that are as right.
        lenient: Also take the last number of a text without any marked answer.

    Returns:
        Value 1 for correct, 0 for incorrect. "could not judge" has value None where the reference
        or we are the cause, and 0 where the answer can't be read.

    >>> grade("1/2", r"so \boxed{0.5}").verdict, grade("0.333", r"\boxed{1/3}").verdict
    ('correct', 'incorrect')
    """
    left_open = list[bool]()

    def note(first: Node, second: Node) -> None:
        left_open.append(True)

    try:
        score = decide(reference, response, alternatives=alternatives, lenient=lenient, prove=note)
    except Exception as error:  # a fault of ours, which must not end a run
        return _failed(f"{type(error).__name__}: {error}")
    if not left_open or score.verdict == "correct":
        return score
    item = Item(reference, response, tuple(alternatives))
    return score_of(shared_pool().run([_row(item, lenient)])[0])


def grade_batch(
    items: Sequence[Item], *, lenient: bool = False, pool: Pool | None = None
) -> list[Score]:
    """The verdicts on many responses, in their order; callable from any thread.

    What is plain (the same text, plain numbers, no answer) is decided here; everything else goes
    to worker processes, where algebra is bounded by a deadline that counts work only.

    Args:
        items: References and whole responses.
        lenient: Also take the last number of a text without any marked answer.
        pool: Workers for `symbolic.graded`; by default those shared by the whole program.

    >>> [s.verdict for s in grade_batch([Item("2", r"\\boxed{2}"), Item("2", r"\\boxed{3}")])]
    ['correct', 'incorrect']
    """
    return [score for score, _ in grade_timed(items, lambda: 0.0, lenient=lenient, pool=pool)]


def grade_timed(
    items: Sequence[Item],
    clock: Callable[[], float],
    *,
    lenient: bool = False,
    pool: Pool | None = None,
) -> list[tuple[Score, float]]:
    """As `grade_batch`, each score with the seconds by a clock that its grading took."""
    found, hard = list[tuple[Score, float]](), list[int]()
    for place, item in enumerate(items):
        began = clock()
        try:
            score = at_once(
                item.reference, item.response, alternatives=item.alternatives, lenient=lenient
            )
        except Exception:  # a fault of ours: in a worker it costs this item alone
            score = None
        if score is None:
            hard.append(place)
            score = _WAITING
        found.append((score, clock() - began))
    rows = [_row(items[place], lenient) for place in hard]
    for place, done in zip(hard, (pool or shared_pool()).run(rows) if hard else [], strict=True):
        found[place] = score_of(done), found[place][1] + done.seconds
    return found


_WAITING = Score(None, "could not judge", "waits for a worker")


def _row(item: Item, lenient: bool) -> list[object]:
    return [item.reference, item.response, list(item.alternatives), lenient]


def score_of(done: Done) -> Score:
    """What a worker said, or why it said nothing."""
    if done.failure == "deadline":
        return Score(0.0, "could not judge", f"the answer {done.reason} to compare")
    if done.failure:
        return _failed(done.reason)
    verdict, value, reason, answer = cast(list[Any], done.value)
    return Score(value, verdict, reason, answer)


def _failed(reason: str) -> Score:
    return Score(None, "could not judge", f"the grader failed: {reason}")


_shared: list[Pool] = []
_lock = threading.Lock()


def shared_pool() -> Pool:
    """The workers that the whole program shares; started on first need, ended with it."""
    with _lock:
        if not _shared:
            workers = max(1, min(MOST_WORKERS, os.cpu_count() or 1))
            _shared.append(
                Pool(
                    "rlvr.verify.symbolic:graded",
                    workers=workers,
                    deadline_seconds=DEADLINE_SECONDS,
                    memory_mib=MEMORY_MIB,
                )
            )
            atexit.register(_shared[0].close)
        return _shared[0]

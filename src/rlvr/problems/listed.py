"""A list of problems as a source: chosen by level and subject, split, shuffled anew each epoch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from random import Random
from typing import NoReturn
from zlib import crc32

from rlvr.errors import UsageError
from rlvr.problems.contamination import overlap, squeezed
from rlvr.problems.names import Asked, chosen, plain, whole_numbers
from rlvr.records import Problem

HELD_OUT_ONE_IN = 10
HELD_OUT_MOST = 1000


@dataclass(frozen=True, slots=True)
class Source:
    """Problems to train on and problems to hold out."""

    name: str
    about: str
    training: Callable[[int, int], Problem]
    """`training(seed, index)`: number `index` of the stream of a seed; no state to save."""
    held_out: Sequence[Problem]
    trained: Sequence[Problem] = ()
    """The problems of a list to train on; empty where the training stream has no end."""
    notes: tuple[str, ...] = ()
    """What was left out or mended when the problems were loaded, a sentence each."""

    @property
    def listed(self) -> Sequence[Problem]:
        """All problems of a list; empty where the training stream has no end."""
        shared = self.trained is self.held_out or not self.trained
        return self.trained if shared else (*self.trained, *self.held_out)

    @property
    def eval_only(self) -> bool:
        """Whether nothing of it is there to train on."""
        return isinstance(self.training, partial) and self.training.func is _none

    def take(self, seed: int, first: int, count: int) -> list[Problem]:
        """`count` problems of the stream of a seed, from number `first` on."""
        return [self.training(seed, index) for index in range(first, first + count)]


def split_source(name: str, problems: Sequence[Problem], notes: tuple[str, ...] = ()) -> Source:
    """One in ten, by a hash of the text without case and blanks, is held out, at most 1,000, in the
    order of the hash: the first so many are a fair sample, however the file is sorted.

    A list with fewer than two on either side is too small to split: training and evaluation then
    share its problems, and `about` says so.
    """
    held_out = [problem for problem in problems if _hash(problem) % HELD_OUT_ONE_IN == 0]
    training = [problem for problem in problems if _hash(problem) % HELD_OUT_ONE_IN]
    held_out = sorted(held_out, key=_hash)[:HELD_OUT_MOST]
    about = f"{len(training):,} to train on, one in ten held out"
    if len(held_out) < 2 or len(training) < 2:
        training = held_out = list(problems)
        about = f"{len(problems)}, too few to hold any out: evaluation sees the training problems"
    return Source(name, about, partial(_shuffled, training), held_out, training, notes)


def paired_source(
    name: str, training: Sequence[Problem], held_out: Sequence[Problem], notes: tuple[str, ...] = ()
) -> Source:
    """Problems to train on, and others to evaluate on."""
    about = f"{len(training):,} to train on, a set of its own held out"
    return Source(name, about, partial(_shuffled, training), held_out, training, notes)


def evaluation_source(
    name: str, problems: Sequence[Problem], instead: str, notes: tuple[str, ...] = ()
) -> Source:
    """Problems that are for evaluation only; `instead` says what to train on."""
    return Source(name, "for evaluation only", partial(_none, name, instead), problems, (), notes)


def with_overlap(source: Source) -> Source:
    """The source, its notes saying what its two lists of problems have in common."""
    if not source.trained or source.trained is source.held_out:
        return source
    found = overlap(source.trained, source.held_out)
    return replace(source, notes=(*source.notes, *found.lines()))


def fewer(source: Source, trained: Sequence[Problem], note: str) -> Source:
    """The source with fewer problems to train on, and a note that says why.

    Args:
        source: A list of problems, or a stream without end, which stays as it is.
        trained: What is left of a list.
        note: A sentence.
    """
    notes = (*source.notes, note)
    if not trained:
        return replace(source, notes=notes)
    return replace(source, training=partial(_shuffled, trained), trained=trained, notes=notes)


def _none(name: str, instead: str, seed: int, index: int) -> NoReturn:
    raise UsageError(f"{name} is for evaluation only: all of it is held out. {instead}")


def _hash(problem: Problem) -> int:
    return crc32(squeezed(problem.prompt).encode("utf-8", "backslashreplace"))


def _shuffled(problems: Sequence[Problem], seed: int, index: int) -> Problem:
    """Number `index` of an endless stream: each epoch is a shuffle of its own."""
    epoch, place = divmod(index, len(problems))
    return problems[_order(len(problems), seed, epoch)[place]]


@lru_cache(maxsize=4)
def _order(count: int, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(count))
    Random(f"file/{seed}/{epoch}").shuffle(order)
    return tuple(order)


def select(asked: Asked, problems: Sequence[Problem]) -> list[Problem]:
    """The problems of the levels and subjects that a name asks for.

    Raises:
        UsageError: No problem has such a level or subject; those there are are listed.
    """
    levels = {problem.level for problem in problems if problem.level is not None}
    subjects = {problem.subject for problem in problems if problem.subject is not None}
    for key, there in (("level", levels), ("subject", subjects)):
        if key in asked.options and not there:
            raise UsageError(f"{asked.text}: no problem has a {key}. Leave {key}= out.")
    least, most = min(levels, default=0), max(levels, default=0)
    wanted_levels = whole_numbers(asked, "level", least, most)
    words = chosen(asked, "subject", subjects)
    wanted_subjects = None if words is None else {plain(word) for word in words}
    found = [
        problem
        for problem in problems
        if (wanted_levels is None or problem.level in wanted_levels)
        and (wanted_subjects is None or plain(problem.subject or "") in wanted_subjects)
    ]
    if problems and not found:
        raise UsageError(f"{asked.text}: no problem is of that level and subject. Ask for more.")
    return found

"""The problems of a run: a training stream by number, and a held-out set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from zlib import crc32

from rlvr.errors import UsageError, unknown_name
from rlvr.problems.arithmetic import RANGES, held_out_problems, training_problem
from rlvr.problems.files import read_jsonl
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
    listed: Sequence[Problem] = ()
    """All problems of a file; empty where the training stream has no end."""

    def take(self, seed: int, first: int, count: int) -> list[Problem]:
        """`count` problems of the stream of a seed, from number `first` on."""
        return [self.training(seed, index) for index in range(first, first + count)]


ABOUT = {
    "arithmetic": "sums, differences, products, three terms, word problems; 1 to 3 digits",
    "arithmetic-hard": "4 to 6 digits, four and five terms; the built-in model starts near zero",
}


def load_problems(name: str) -> Source:
    """Built-in problems by name, or a JSONL file by path.

    Raises:
        UsageError: No such name or file, or rows of the file are broken.
    """
    if name in RANGES:
        span = RANGES[name]
        return Source(name, ABOUT[name], partial(training_problem, span), held_out_problems(span))
    if name.endswith(".jsonl") or "/" in name or Path(name).exists():
        return file_source(name, read_jsonl(Path(name)))
    error = unknown_name("problems", name, RANGES)
    raise UsageError(f"{error} Or give a file whose name ends in .jsonl.")


def file_source(name: str, problems: Sequence[Problem]) -> Source:
    """A file's problems: one in ten, by a hash of the text, is held out, at most 1,000.

    A file with fewer than two on either side is too small to split: training and evaluation then
    share its problems, and `about` says so.
    """
    held_out = [problem for problem in problems if _held_out(problem)][:HELD_OUT_MOST]
    training = [problem for problem in problems if not _held_out(problem)]
    about = f"{len(training)} to train on, {len(held_out)} held out"
    if len(held_out) < 2 or len(training) < 2:
        training, held_out = list(problems), list(problems)
        about = f"{len(problems)}, too few to hold any out: evaluation sees the training problems"
    return Source(name, about, partial(_shuffled, training), held_out, problems)


def _held_out(problem: Problem) -> bool:
    return crc32(problem.prompt.encode("utf-8", "backslashreplace")) % HELD_OUT_ONE_IN == 0


def _shuffled(problems: Sequence[Problem], seed: int, index: int) -> Problem:
    """Number `index` of an endless stream: each epoch is a shuffle of its own."""
    epoch, place = divmod(index, len(problems))
    return problems[_order(len(problems), seed, epoch)[place]]


@lru_cache(maxsize=4)
def _order(count: int, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(count))
    Random(f"file/{seed}/{epoch}").shuffle(order)
    return tuple(order)

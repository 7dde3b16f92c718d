"""The table of sources: what `--problems` can name, and how each is loaded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from rlvr.errors import UsageError, unknown_name
from rlvr.problems import countdown, gym
from rlvr.problems.arithmetic import RANGES, held_out_problems, narrowed, training_problem
from rlvr.problems.files import read_problems
from rlvr.problems.listed import Source, evaluation_source, paired_source, select, split_source
from rlvr.problems.maths import SETS, Labelled, doubts_of, load_set, read_set
from rlvr.problems.names import Asked, chosen, parse_name, whole_numbers
from rlvr.problems.tables import READERS
from rlvr.records import Problem

HUB_OPTIONS = ("level", "subject", "broken")
COPY_OPTIONS = (*HUB_OPTIONS, "held_out")
FILE_OPTIONS = (*COPY_OPTIONS, "problem", "answer")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A row of the table."""

    about: str
    load: Callable[[Asked], Source]
    forms: tuple[str, ...] = ()
    """Other forms of the name, as a user writes them."""
    goes_on: bool = False
    """Whether a file or a task may follow the name, behind a colon."""


def _arithmetic(asked: Asked) -> Source:
    asked.only(("digits", "kinds"))
    span = RANGES[str(asked.name)]
    about = DATASETS[span.name].about
    if asked.options:
        digits = whole_numbers(asked, "digits", 1, 9)
        kinds = chosen(asked, "kinds", [kind for kind, _ in span.kinds])
        span = narrowed(span, asked.text, digits, kinds)
        about = "numbers of " + ", ".join(str(length) for length, _ in span.digits) + " digits"
        about += "; " + ", ".join(kind for kind, _ in span.kinds)
    if max(length for length, _ in span.digits) == 1:
        raise UsageError(
            f"{asked.text}: questions of one digit are never held out, so there would be none to "
            "evaluate on. Add longer numbers, such as digits=1-2."
        )
    return Source(asked.text, about, partial(training_problem, span), held_out_problems(span))


def _countdown(asked: Asked) -> Source:
    asked.only(("numbers", "largest"))
    counts = whole_numbers(asked, "numbers", 2, 6) or countdown.Span().counts
    largest = whole_numbers(asked, "largest", 10, 999) or (countdown.Span().largest,)
    if len(largest) > 1:
        raise UsageError(f"{asked.text}: largest takes one number, such as largest=50.")
    span = countdown.Span(asked.text, counts, largest[0])
    several = " or ".join(map(str, counts))
    about = f"reach a target from {several} numbers up to {largest[0]}, each used once"
    training = partial(countdown.training_problem, span)
    return Source(asked.text, about, training, countdown.held_out_problems(span))


def _gym(asked: Asked) -> Source:
    gym.check_task(asked)
    about = f"the task {asked.rest} of reasoning-gym, scored by its own scorer"
    training = partial(gym.training_problem, asked.text)
    return Source(asked.text, about, training, gym.held_out_problems(asked.text))


def _set(asked: Asked) -> Source:
    kind = SETS[str(asked.name)]
    if asked.rest:
        asked.only(COPY_OPTIONS)
        return _local(asked, kind.trains, lambda path: read_set(kind, path))
    asked.only(HUB_OPTIONS)
    held_out, notes = _whole(asked, load_set(kind, "test"))
    if not kind.trains:
        return _evaluation(asked, held_out, notes)
    training, more = _whole(asked, load_set(kind, "train"))
    return paired_source(asked.text, training, held_out, (*more, *notes))


def _file(asked: Asked) -> Source:
    asked.only(FILE_OPTIONS)
    fields = {key: asked.options[key] for key in ("problem", "answer") if key in asked.options}

    def read(path: Path) -> Labelled:
        loaded = read_problems(path, fields)
        return Labelled(loaded, doubts_of(loaded, path))

    return _local(asked, True, read)


def _local(asked: Asked, trains: bool, read: Callable[[Path], Labelled]) -> Source:
    """A file, its held-out set in it or in another file with the same fields."""
    problems, notes = _whole(asked, read(Path(asked.rest)))
    held_out = asked.options.get("held_out")
    if not trains:
        return _evaluation(asked, problems, notes)
    if held_out == "all":
        instead = "Leave held_out=all out to train on it."
        return evaluation_source(asked.text, problems, instead, notes)
    if held_out is None:
        return split_source(asked.text, problems, notes)
    other, more = _whole(asked, read(Path(held_out)))
    return paired_source(asked.text, problems, other, (*notes, *more))


def _evaluation(asked: Asked, problems: Sequence[Problem], notes: tuple[str, ...]) -> Source:
    instead = "Train on math, which holds it out, or give the path alone to train on a file."
    return evaluation_source(asked.text, problems, instead, notes)


def _whole(asked: Asked, labelled: Labelled) -> tuple[list[Problem], tuple[str, ...]]:
    """The problems that were asked for, and what is to be said of the others."""
    loaded, notes, broken = labelled.loaded, labelled.notes, asked.options.get("broken")
    if broken not in (None, "skip"):
        raise UsageError(f"{asked.text}: broken is {broken!r}; it takes skip: broken=skip.")
    if loaded.broken and broken == "skip":
        first = loaded.broken[0][1].partition(". ")[0]
        notes = (f"{len(loaded.broken)} broken rows left out; the first: {first}", *notes)
    else:
        loaded.whole(asked.text)
    if not loaded.problems:
        raise UsageError(f"{asked.text}: no problem is left. {'; '.join(notes)}.")
    return select(asked, loaded.problems), notes


DATASETS: dict[str, Dataset] = {
    "arithmetic": Dataset(
        "sums, differences, products, three terms, word problems; 1 to 3 digits",
        _arithmetic,
        ("arithmetic?digits=2&kinds=sum,difference",),
    ),
    "arithmetic-hard": Dataset(
        "4 to 6 digits, four and five terms; the built-in model starts near zero", _arithmetic
    ),
    "countdown": Dataset(
        "reach a target from three or four numbers, each used once, with + - * /",
        _countdown,
        ("countdown?numbers=3&largest=50",),
    ),
    **{name: Dataset(kind.about, _set, kind.forms, True) for name, kind in SETS.items()},
    "gym": Dataset(
        "any task of reasoning-gym, with its parameters and its own scorer",
        _gym,
        ("gym:chain_sum?min_terms=2&max_terms=3",),
        True,
    ),
}


def load_problems(name: str) -> Source:
    """Problems by name, or a file by path, with options behind a question mark.

    Raises:
        UsageError: No such name, file or option, or rows of the file are broken.
    """
    return _load(parse_name(name, DATASETS))


def _load(asked: Asked) -> Source:
    if asked.name is not None:
        row = DATASETS[asked.name]
        if asked.rest and not row.goes_on:
            raise UsageError(
                f"{asked.text}: {asked.name} is built in and takes no file. Give the file alone: "
                f"--problems {asked.rest}"
            )
        return row.load(asked)
    path = asked.rest
    if path.endswith(tuple(READERS)) or "/" in path or Path(path).exists():
        return _file(asked)
    error = unknown_name("problems", path, DATASETS)
    raise UsageError(f"{error} Or give a file whose name ends in {', '.join(READERS)}.")


def whole_list(name: str, side: Literal["training", "evaluation"]) -> Sequence[Problem]:
    """All problems of a file; or one side of a source that has two lists.

    Raises:
        UsageError: The name can't be loaded, or is an endless stream.
    """
    asked = parse_name(name, DATASETS)
    if asked.rest and asked.name in (None, *SETS) and "held_out" not in asked.options:
        return _load(replace(asked, options={**asked.options, "held_out": "all"})).held_out
    source = _load(asked)
    if not source.trained and side == "training":
        raise UsageError(
            f"{name} is no list of problems to train on. Name a file, or a set such as math."
        )
    return source.trained if side == "training" else source.held_out

"""Any task of reasoning-gym: an endless training stream, a held-out set, the task's own scorer.

Questions come from the task's generator, in chunks with a seed of their own, so that question
number `index` of a run's seed is always the same. The held-out set is drawn with another seed, and
training passes over its questions. At most half of all questions can be held out (by a hash of the
text), so that a task with few questions still has some to train on.

Source: reasoning-gym, arXiv:2505.24760; written for version 0.1.25.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from random import Random
from typing import Any
from zlib import crc32

from rlvr.errors import UsageError, unknown_name
from rlvr.problems.labels import key_of
from rlvr.problems.names import Asked, parse_name, whole_numbers
from rlvr.records import Problem

CHUNK = 256  # questions made from one seed
HELD_OUT_SEED = 20_261_201
HELD_OUT_COUNT = 200
MOST_TRIES = 1000  # draws for one question, or without a new one for the held-out set
LONGEST = 10_000  # characters of an answer; a longer one is wrong
RUNS = "its scorer runs the answer as Python code ({}), so that a model could run anything"
REFUSED = {
    "binary_matrix": RUNS.format("eval"),
    "coin_flip": "its scorer hangs on answers such as 1e999999999",
    "composite": "it mixes tasks; name one of them",
    "countdown": RUNS.format("parse_expr") + "; take the built-in one: --problems countdown",
    "game_of_life_halting": "its scorer takes any text for a right answer",
    "intermediate_integration": RUNS.format("parse_expr"),
    "n_queens": RUNS.format("eval"),
    "polynomial_multiplication": RUNS.format("parse_expr"),
    "puzzle24": RUNS.format("parse_expr"),
    "simple_integration": RUNS.format("parse_expr"),
    "spiral_matrix": RUNS.format("eval"),
    "string_insertion": RUNS.format("eval"),
}
"""Tasks that are not offered, and why."""
NOT_OPTIONS = ("seed", "size")


def tasks() -> list[str]:
    """Names of the tasks that can be used.

    Raises:
        UsageError: The library is not installed.
    """
    return sorted(set(_registry()) - set(REFUSED))


def check_task(asked: Asked) -> None:
    """Refuse what can't be drawn from.

    Raises:
        UsageError: No such task, an option it does not have or take, or a scorer that runs code.
    """
    name = asked.rest
    if name in REFUSED:
        raise UsageError(f"{asked.text} is not offered: {REFUSED[name]}.")
    if not name:
        known = ", ".join(tasks())
        raise UsageError(f"gym takes a task, such as gym:chain_sum. There are: {known}.")
    if name not in tasks():
        raise unknown_name("task of reasoning-gym", name, tasks())
    _dataset(asked.text, 0)


def training_problem(text: str, seed: int, index: int) -> Problem:
    """Problem number `index` of the training stream of a seed: no state, so nothing to save.

    Raises:
        UsageError: The task has too few different questions.
    """
    apart = _held_out_keys(text)
    for turn in range(MOST_TRIES):
        stream = f"{text}/{seed}" + (f"/{turn}" if turn else "")
        problem = _drawn(text, stream, index)
        if key_of(problem.prompt) not in apart:
            return problem
    raise UsageError(
        f"{text} has too few different questions. Give it a wider range, see its task."
    )


@lru_cache(maxsize=16)
def held_out_problems(text: str) -> tuple[Problem, ...]:
    """The fixed held-out set, the same for every seed: 200 questions, or as many as there are."""
    wanted = _held_out_count(_parsed(text))
    found: dict[str, Problem] = {}
    index = last_new = 0
    while len(found) < wanted and index - last_new < MOST_TRIES:
        problem = _drawn(text, f"{text}/held out/{HELD_OUT_SEED}", index)
        index += 1
        if crc32(problem.prompt.encode("utf-8", "backslashreplace")) % 2 == 0:
            last_new = last_new if problem.id in found else index
            found.setdefault(problem.id, problem)
    return tuple(found.values())


@lru_cache(maxsize=16)
def _held_out_keys(text: str) -> frozenset[str]:
    return frozenset(key_of(problem.prompt) for problem in held_out_problems(text))


def score(problem: Problem, answer: str) -> float:
    """What the task's own scorer gives an answer, from 0 to 1; a right answer gets 1.

    A scorer that raises gives 0 where it can score the reference: then the answer is the cause, as
    where a number is wanted and there is none. Otherwise the exception is passed on, because it is
    not for us to say that the answer is wrong.
    """
    assert problem.scorer is not None
    answer = answer.strip()
    if len(answer) > LONGEST:
        return 0.0
    entry, scored = _decoded(json.loads(problem.entry)), _dataset(problem.scorer, 0).score_answer
    try:
        return float(scored(answer, entry))
    except Exception:  # whatever a hundred foreign scorers may raise
        scored(entry["answer"], entry)
        return 0.0


def _drawn(text: str, stream: str, index: int) -> Problem:
    chunk, place = divmod(index, CHUNK)
    entry = _dataset(text, Random(f"{stream}/{chunk}").randrange(2**31))[place]
    stored = json.dumps(_encoded(entry), default=str)
    if _decoded(json.loads(stored)) != entry:
        raise UsageError(f"{text}: JSON can't hold this task's entries. Take another task.")
    return Problem(
        id=f"{text}:{key_of(entry['question'])}",
        prompt=entry["question"],
        answer=entry["answer"] or "",
        source=text,
        subject=_parsed(text).rest,
        scorer=text,
        entry=stored,
    )


@lru_cache(maxsize=8)
def _dataset(text: str, seed: int) -> Any:
    """A chunk of a task's questions; makes none yet.

    Raises:
        UsageError: The task has no such option, or does not take the value.
    """
    import reasoning_gym

    asked = _parsed(text)
    options = _options(asked)
    try:
        return reasoning_gym.create_dataset(asked.rest, seed=seed, size=CHUNK, **options)
    except (AssertionError, ValueError, TypeError) as error:
        why = str(error) or "the task does not take these values together"
        raise UsageError(f"{text}: {why}. Change the options, or leave them out.") from None


@lru_cache(maxsize=64)
def _parsed(text: str) -> Asked:
    return parse_name(text, ("gym",))


def _held_out_count(asked: Asked) -> int:
    given = whole_numbers(asked, "held_out", 2, 10_000) or (HELD_OUT_COUNT,)
    if len(given) > 1:
        raise UsageError(f"{asked.text}: held_out takes one number, such as held_out=50.")
    return given[0]


def _options(asked: Asked) -> dict[str, object]:
    """The task's options in the types of their defaults."""
    defaults: dict[str, object] = {}
    for item in fields(_registry()[asked.rest][1]):
        if item.name not in NOT_OPTIONS:
            make = item.default_factory
            defaults[item.name] = item.default if make is MISSING else make()
    asked.only({*defaults, "held_out"})
    _held_out_count(asked)
    return {
        key: _value(asked, key, value, defaults[key])
        for key, value in asked.options.items()
        if key != "held_out"
    }


def _value(asked: Asked, key: str, text: str, default: object) -> object:
    if isinstance(default, str):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(default, float) and isinstance(value, int):
        value = float(value)
    if isinstance(default, tuple) and isinstance(value, list):
        value = tuple(value)
    if default is not None and default is not MISSING and type(value) is not type(default):
        shown = json.dumps(default, default=str)
        raise UsageError(f"{asked.text}: {key} is {text!r}; it takes a value such as {shown}.")
    return value


def _registry() -> Mapping[str, Any]:
    try:
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise UsageError(
            "gym: reasoning-gym is not installed. Install it with pip install 'rlvr[gym]'."
        ) from None
    found: Mapping[str, Any] = DATASETS
    return found


def _encoded(value: object) -> object:
    """A value as JSON holds it; tuples and keys that are no text are marked."""
    if isinstance(value, tuple):
        return {"tuple of": [_encoded(item) for item in value]}
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _encoded(item) for key, item in value.items()}
        return {"pairs of": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    return value


def _decoded(value: object) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"tuple of"}:
            return tuple(_decoded(item) for item in value["tuple of"])
        if value.keys() == {"pairs of"}:
            return {_decoded(key): _decoded(item) for key, item in value["pairs of"]}
        return {key: _decoded(item) for key, item in value.items()}
    return value

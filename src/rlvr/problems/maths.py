"""MATH, MATH-500 and GSM8K: their own fields, their broken labels, where they lie on the hub."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlvr.problems.files import Loaded, Translate, Values, to_problems
from rlvr.problems.labels import BY_KEY, Cleaned, Either, LeftOut, key_of
from rlvr.problems.tables import Row, read_hub, read_table
from rlvr.records import Problem

BOX = re.compile(r"\\(?:boxed|fbox) *\{")
LEVEL = re.compile(r"(?:Level )?([0-9?]+)")
THOUSANDS = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Labelled:
    """What was loaded, and what was done about broken labels."""

    loaded: Loaded
    notes: tuple[str, ...] = ()


def last_box(solution: str) -> str | None:
    r"""What the last box of a worked solution holds, without blanks and dollar signs around it.

    >>> last_box(r"so $\boxed{1}$ or $\boxed{\frac{1}{2}}$"), last_box("2")
    ('\\frac{1}{2}', None)
    """
    starts = [found.end() for found in BOX.finditer(solution)]
    if not starts:
        return None
    depth, place = 1, starts[-1]
    while place < len(solution):
        if solution[place] == "\\":
            place += 2
            continue
        depth += {"{": 1, "}": -1}.get(solution[place], 0)
        if depth == 0:
            return solution[starts[-1] : place].strip(" $\n\t")
        place += 1
    return None


def math_row(values: Values) -> Values:
    """A row of MATH: `subject` or `type`, `level` as 5 or "Level 5", the answer or its solution."""
    answer, solution = values.get("answer"), values.get("solution")
    if answer is None and isinstance(solution, str):
        answer = last_box(solution)
        if answer is None:
            raise ValueError(r"there is no answer, and no whole \boxed{...} in the solution.")
    problem, level = values.get("problem"), values.get("level")
    if isinstance(level, str):
        read = LEVEL.fullmatch(level.strip())
        level = level if read is None else None if "?" in read[1] else read[1]
    row = {
        "problem": problem,
        "answer": answer,
        "subject": values.get("subject", values.get("type")),
        "level": level,
    }
    if values.get("unique_id") is not None:
        row["id"] = values["unique_id"]
    if isinstance(problem, str) and isinstance(BY_KEY.get(key_of(problem)), LeftOut):
        row["answer"] = answer or "none"  # it is left out, and not a broken row
    return row


def gsm8k_row(values: Values) -> Values:
    """A row of GSM8K: `question`, and a worked `answer` whose last line is `#### 1,000`."""
    worked = values.get("answer")
    if not isinstance(worked, str) or "####" not in worked:
        raise ValueError("answer has no '#### N' at its end, as GSM8K has it.")
    answer = worked.rpartition("####")[2].strip()
    if THOUSANDS.fullmatch(answer):
        answer = answer.replace(",", "")
    return {"problem": values.get("question"), "answer": answer, "id": values.get("id")}


@dataclass(frozen=True, slots=True)
class Set:
    """A data set by name: where it lies on the hub, and how its rows are read."""

    name: str
    about: str
    hub: str
    config: str | None
    translate: Translate
    forms: tuple[str, ...]
    """Other forms of the name, as a user writes them."""
    trains: bool = True
    """False for a set that is for evaluation only."""


SETS = {
    "math": Set(
        "math",
        "the 12,000 problems of MATH that are not in MATH-500, which is held out",
        "nlile/hendrycks-MATH-benchmark",
        None,
        math_row,
        ("math?level=1-3&subject=algebra", "math:FILE?held_out=OTHER"),
    ),
    "math500": Set(
        "math500",
        "the 500 problems of MATH-500, for evaluation only",
        "HuggingFaceH4/MATH-500",
        None,
        math_row,
        ("math500?level=5", "math500:FILE"),
        trains=False,
    ),
    "gsm8k": Set(
        "gsm8k",
        "7,473 word problems for grade school; the 1,319 of its test split are held out",
        "openai/gsm8k",
        "main",
        gsm8k_row,
        ("gsm8k:FILE?held_out=OTHER",),
    ),
}


def read_set(kind: Set, path: Path) -> Labelled:
    """A local copy.

    Raises:
        UsageError: The file can't be read or is empty.
    """
    return _labelled(to_problems(read_table(path), str(path), path.name, kind.translate))


def load_set(kind: Set, split: str) -> Labelled:
    """A split from the hub.

    Raises:
        UsageError: The hub can't be reached, or the library for it is not installed.
    """
    rows: list[Row] = read_hub(kind.hub, kind.config, split, f"{kind.name}:FILE.jsonl")
    origin = f"{kind.hub}, {split}"
    return _labelled(to_problems(rows, origin, f"{kind.name}/{split}", kind.translate))


def _labelled(loaded: Loaded) -> Labelled:
    """Leave out problems with broken labels, clean others, say which."""
    kept: list[Problem] = []
    left_out: list[Problem] = []
    cleaned: list[Problem] = []
    either: list[Problem] = []
    for problem in loaded.problems:
        known = BY_KEY.get(key_of(problem.prompt))
        if isinstance(known, LeftOut):
            left_out.append(problem)
            continue
        if isinstance(known, Cleaned) and problem.answer == known.printed:
            problem = replace(problem, answer=known.answer)
            cleaned.append(problem)
        if isinstance(known, Either):
            others = tuple(other for other in known.answers if other != problem.answer)
            problem = replace(problem, alternatives=others)
            either.append(problem)
        kept.append(problem)
    notes = [
        _note(left_out, "left out, their labels are empty, wrong or only a part of the answer"),
        _note(cleaned, "with stray marks taken off the label"),
        _note(either, "with two right answers, both accepted"),
    ]
    told = tuple(note for note in notes if note)
    return Labelled(replace(loaded, problems=tuple(kept)), told)


def doubts_of(loaded: Loaded, path: Path) -> tuple[str, ...]:
    """A note where a plain file holds problems whose labels MATH is known to have wrong."""
    count = sum(key_of(problem.prompt) in BY_KEY for problem in loaded.problems)
    if not count:
        return ()
    return (f"{count} problems have doubtful labels in MATH; math:{path} mends or leaves them out",)


def _note(problems: Sequence[Problem], what: str) -> str:
    names = ", ".join(problem.id.removesuffix(".json") for problem in problems)
    return f"{len(problems)} {what}: {names}" if problems else ""

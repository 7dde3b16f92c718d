"""Rows to problems: which fields hold what, every row checked, broken ones with where they stand.

`problem` and `answer` are our own names for the fields. Where a file has none of that name, one of
the common other names is taken; two of these are ambiguous and refused.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from rlvr.errors import UsageError
from rlvr.problems.tables import EXAMPLE, Row, read_table
from rlvr.records import Problem

PROBLEM_FIELDS = ("question", "prompt")
ANSWER_FIELDS = ("reference", "final_answer", "solution")
MOST_NAMED = 5  # broken rows whose places are said

Values = Mapping[str, object]
Translate = Callable[[Values], Values]
"""Turns a row with a data set's own fields into one with ours."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The problems of a file or data set, and its broken rows."""

    problems: tuple[Problem, ...]
    broken: tuple[tuple[str, str], ...] = ()
    """Of each, its place, such as `line 3`, and in a sentence where it is and what is wrong."""

    def whole(self, origin: str) -> "Loaded":
        """Itself, where no row is broken.

        Raises:
            UsageError: The first broken row, how many there are, how to go on without them.
        """
        if not self.broken:
            return self
        count, rows = len(self.broken), len(self.broken) + len(self.problems)
        places = ", ".join(place for place, _ in self.broken[:MOST_NAMED])
        more = ", ..." if count > MOST_NAMED else ""
        also = f" {count} of {rows} rows are broken: {places}{more}." if count > 1 else ""
        raise UsageError(
            f"{self.broken[0][1]}{also} Mend the file, or leave broken rows out: "
            f"--problems '{origin}{'&' if '?' in origin else '?'}broken=skip'"
        )


def read_problems(path: Path, fields: Mapping[str, str] | None = None) -> Loaded:
    """The problems of a file: `problem`, `answer`, and if wanted `id`, `subject` and `level`.

    Args:
        path: A JSONL, JSON, CSV or Parquet file.
        fields: Names of the fields that hold `problem` and `answer`, where they are not ours.

    Raises:
        UsageError: The file can't be read, holds no row, or its fields are ambiguous or unknown.
    """
    rows = read_table(path)
    named = fields_of(rows, str(path), fields or {})

    def translate(values: Values) -> Values:
        ours = {**values, **{key: values.get(field) for key, field in named.items()}}
        if isinstance(ours["answer"], str) and "\n####" in ours["answer"]:
            raise ValueError(
                f"{named['answer']} is a worked solution as GSM8K has them. Read the file with "
                f"its rules: gsm8k:{path}."
            )
        return ours

    return to_problems(rows, str(path), path.name, translate)


def to_problems(rows: Sequence[Row], origin: str, short: str, translate: Translate) -> Loaded:
    """Check every row and make it a problem.

    Args:
        rows: As read.
        origin: Stands before the place of a row: a path, or a data set and its split.
        short: Begins the ids of rows that have none.
        translate: Makes our fields of theirs; a ValueError says what a row lacks.

    Raises:
        UsageError: There is no row.
    """
    problems: dict[str, Problem] = {}
    broken = []
    for row in rows:
        where = f"{origin}, {row.unit} {row.number}"
        try:
            if row.fault:
                raise ValueError(f"{row.fault}. A good one: {EXAMPLE}")
            problem = _problem(f"{short}:{row.number}", translate(row.values), where)
            if problem.id in problems:
                raise ValueError(f"the id {problem.id!r} stands in an earlier {row.unit} too.")
        except ValueError as error:
            said = f"{where}{' ' if row.fault else ': '}{error}"
            broken.append((f"{row.unit} {row.number}", said))
        else:
            problems[problem.id] = problem
    if not rows:
        raise UsageError(f"{origin} holds no problem: it is empty. Give lines such as {EXAMPLE}")
    return Loaded(tuple(problems.values()), tuple(broken))


def fields_of(rows: Sequence[Row], origin: str, given: Mapping[str, str]) -> dict[str, str]:
    """Which fields hold the problem and the answer.

    Raises:
        UsageError: No row has a given field, or none or several fields could be meant.
    """
    there = {name for row in rows for name in row.values}
    found = {}
    for key, others in (("problem", PROBLEM_FIELDS), ("answer", ANSWER_FIELDS)):
        field = given.get(key, key)
        if key in given and field not in there:
            listed = ", ".join(sorted(there)) or "none"
            raise UsageError(f"{origin}: no row has a field {field!r}. There are: {listed}.")
        if field not in there:
            could = [name for name in others if name in there]
            if len(could) > 1:
                raise UsageError(
                    f"{origin}: {' or '.join(could)} could hold the {key}. Say which: "
                    f"--problems '{origin}?{key}={could[0]}'"
                )
            if there and not could:
                raise UsageError(
                    f"{origin}: no row has a field {key}, {' or '.join(others)}. There are: "
                    f"{', '.join(sorted(there))}. Say which holds the {key}: "
                    f"--problems '{origin}?{key}=FIELD'"
                )
            field = could[0] if could else key
        found[key] = field
    return found


def _problem(default_id: str, row: Values, where: str) -> Problem:
    prompt, answer = _text(row, "problem"), _text(row, "answer")
    identity = _text(row, "id") if row.get("id") is not None else default_id
    subject = _text(row, "subject") if row.get("subject") not in (None, "") else None
    return Problem(identity, prompt, answer, where, subject, _level(row.get("level")))


def _level(value: object) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"level is {value!r}; it takes a whole number.")
    return value


def _text(row: Values, key: str) -> str:
    value = row.get(key)
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        value = None
    if (
        isinstance(value, (int, float, Decimal))
        and not isinstance(value, bool)
        and key != "problem"
    ):
        value = format(Decimal(str(value)), "f")  # 0.00001, where str says 1e-05
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is missing or is no text. A good row: {EXAMPLE}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(
            f"{key} holds half a character (a lone surrogate), which no tokenizer reads. "
            "Mend the text or leave the row out."
        ) from None
    return value

"""Problems from a JSONL file, every row checked, errors with their line."""

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from rlvr.errors import UsageError
from rlvr.records import Problem

EXAMPLE = '{"problem": "1+1=", "answer": "2"}'


def read_jsonl(path: Path) -> list[Problem]:
    """The problems of a file with one object a line: `problem`, `answer`, and if wanted `id`,
    `subject` and `level`.

    Raises:
        UsageError: The file can't be read, holds no problem, or a row is broken.
    """
    problems: dict[str, Problem] = {}
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        problem = _problem(path, number, _row(where, line), where)
        if problem.id in problems:
            raise UsageError(f"{where}: the id {problem.id!r} stands in an earlier line too.")
        problems[problem.id] = problem
    if not problems:
        raise UsageError(f"{path} holds no problem: it is empty. Give lines such as {EXAMPLE}")
    return list(problems.values())


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"no problem file {path}. Give a file of lines such as {EXAMPLE}"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"can't read {str(path)!r}: {why}. Give a JSONL file.") from None
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise UsageError(
                f"{path}, line {number} is not UTF-8. Save the file as UTF-8."
            ) from None
        if text:
            yield number, text


def _row(where: str, line: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{where} is not JSON. A good line: {EXAMPLE}") from None
    if not isinstance(row, dict):
        raise UsageError(f"{where} is no object. A good line: {EXAMPLE}")
    return row


def _problem(path: Path, number: int, row: dict[str, object], where: str) -> Problem:
    prompt, answer = _text(row, "problem", where), _text(row, "answer", where)
    identity = _text(row, "id", where) if "id" in row else f"{path.name}:{number}"
    subject = _text(row, "subject", where) if row.get("subject") is not None else None
    level = row.get("level")
    if level is not None and (isinstance(level, bool) or not isinstance(level, int)):
        raise UsageError(f"{where}: level is {level!r}; it takes a whole number.")
    return Problem(identity, prompt, answer, where, subject, level)


def _text(row: dict[str, object], key: str, where: str) -> str:
    value = row.get(key)
    if isinstance(value, float) and not math.isfinite(value):
        value = None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and key != "problem":
        value = format(Decimal(str(value)), "f")  # 0.00001, where str says 1e-05
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: {key} is missing or is no text. A good line: {EXAMPLE}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"{where}: {key} holds half a character (a lone surrogate), which no tokenizer reads. "
            "Mend the text or leave the row out."
        ) from None
    return value

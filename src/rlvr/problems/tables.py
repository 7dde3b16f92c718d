"""Rows of JSONL, JSON, CSV and Parquet files and of hub data sets, each with where it stands."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlvr.errors import UsageError

EXAMPLE = '{"problem": "1+1=", "answer": "2"}'
LONGEST_CELL = 2**30  # characters of one cell of a CSV file; the library's own limit is 131,072


@dataclass(frozen=True, slots=True)
class Row:
    """One row, or what is wrong with it."""

    number: int
    """Line of the file, or number of the row, from 1."""
    unit: str
    """What `number` counts: `line` or `row`."""
    values: Mapping[str, object]
    fault: str = ""
    """Why it is no row; empty where it is one."""


def read_table(path: Path) -> list[Row]:
    """The rows of a file, read as its ending says.

    Raises:
        UsageError: There is no such file, its ending is unknown, or it can't be read as a whole.
    """
    ending = path.suffix.lower()
    try:
        if path.is_file() and ending not in READERS:
            known = ", ".join(READERS)
            raise UsageError(f"{path}: problem files end in {known}. Save it as one of these.")
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"no problem file {path}. Give a file of lines such as {EXAMPLE}"
        ) from None
    except UsageError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"can't read {str(path)!r}: {why}. Give a JSONL file.") from None
    return list(READERS[ending](path, content.removeprefix(b"\xef\xbb\xbf")))


def _jsonl(path: Path, content: bytes) -> Iterator[Row]:
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            yield Row(number, "line", {}, "is not UTF-8. Save the file as UTF-8")
            continue
        if text:
            yield _object(number, "line", _json(text))


def _json_array(path: Path, content: bytes) -> Iterator[Row]:
    rows = _json(_text(path, content))
    if not isinstance(rows, list):
        raise UsageError(
            f"{path} is no JSON array. Write [{EXAMPLE}], or one object a line and name the file "
            "so that it ends in .jsonl."
        )
    for number, row in enumerate(rows, 1):
        yield _object(number, "row", row)


def _object(number: int, unit: str, found: object) -> Row:
    if found is NotImplemented:
        return Row(number, unit, {}, "is not JSON")
    if not isinstance(found, dict):
        return Row(number, unit, {}, "is no object")
    return Row(number, unit, found)


def _json(text: str) -> object:
    """What a text says in JSON; NotImplemented where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NotImplemented


def _csv(path: Path, content: bytes) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_CELL)
    lines = csv.reader(io.StringIO(_text(path, content), newline=""), strict=True)
    try:
        head = next(lines, [])
        names = [name.strip() for name in head]
        if len(set(names)) < len(names):
            raise UsageError(f"{path}: two columns have the same name. Rename one of them.")
        start = lines.line_num + 1
        for cells in lines:
            number, start = start, lines.line_num + 1
            if not any(cells):
                continue
            if len(cells) == len(names):
                yield Row(number, "line", dict(zip(names, cells, strict=True)))
            else:
                fault = f"has {len(cells)} cells, and the first line names {len(names)}"
                yield Row(number, "line", {}, fault)
    except csv.Error as error:
        raise UsageError(
            f"{path}, line {lines.line_num} is not CSV: {error}. Put cells with commas or quotes "
            'into double quotes, and double each quote inside: "a ""b"""'
        ) from None


def _parquet(path: Path, content: bytes) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            f"{path}: Parquet files need pyarrow. Install it with pip install 'rlvr[datasets]', or "
            "save the file as JSONL."
        ) from None
    try:
        rows = pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise UsageError(f"{path} is no Parquet file: {first}. Write it anew.") from None
    for number, row in enumerate(rows, 1):
        yield Row(number, "row", row)


READERS: dict[str, Callable[[Path, bytes], Iterator[Row]]] = {
    ".jsonl": _jsonl,
    ".json": _json_array,
    ".csv": _csv,
    ".parquet": _parquet,
}


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}, line {line} is not UTF-8. Save the file as UTF-8.") from None


def read_hub(name: str, config: str | None, split: str, instead: str) -> list[Row]:
    """The rows of a data set of the Hugging Face hub, from its cache where they are there.

    Args:
        name: Owner and name on the hub.
        config: Which of its configurations, where it has several.
        split: Such as `train`.
        instead: What to write for a local copy, for the error's words.

    Raises:
        UsageError: The library is not installed, or the hub can't be reached.
    """
    try:
        import datasets
    except ImportError:
        raise UsageError(
            f"{name} comes from the Hugging Face hub, which needs the datasets library. Install it "
            f"with pip install 'rlvr[datasets]', or give a local copy: --problems {instead}"
        ) from None
    try:
        rows = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # the library and what it stands on raise a dozen kinds
        first = str(error).partition("\n")[0][:200]
        raise UsageError(
            f"can't load {name} from the Hugging Face hub: {type(error).__name__}: {first}. Check "
            f"the connection, or give a local copy: --problems {instead}"
        ) from None
    return [Row(number, "row", row) for number, row in enumerate(rows, 1)]

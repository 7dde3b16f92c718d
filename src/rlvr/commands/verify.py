"""`rlvr verify`: grade one answer, or a file of them."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlvr.commands.options import Options, write_json
from rlvr.errors import UsageError
from rlvr.observe.result import printable


def verify_command(about: str, words: Sequence[str]) -> int:
    """Grade one pair, or every line of a JSONL file in order."""
    from rlvr.verify import grade

    parser = Options("verify", about, "(--reference R --response TEXT | --jsonl FILE) [--json]")
    parser.add_argument("--reference", metavar="R", help="the reference answer")
    parser.add_argument("--response", metavar="TEXT", help="the whole text of an answer")
    parser.add_argument("--jsonl", metavar="FILE", help='lines of {"gold": ..., "response": ...}')
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    given = parser.parse(words)
    if given.jsonl is not None:
        return _grade_file(Path(given.jsonl))
    if given.reference is None or given.response is None:
        parser.error("give --reference and --response, or --jsonl FILE")
    score = grade(given.reference, given.response)
    if given.json:
        write_json({"verdict": score.verdict, "answer": score.answer, "reason": score.reason})
    else:
        sys.stdout.write(f"{score.verdict}: {printable(score.reason)}\n")
    return 0


def _grade_file(path: Path) -> int:
    from rlvr.verify import grade

    counts: dict[str, int] = {}
    for number, row in _rows(path):
        began = time.perf_counter()
        score = grade(str(row["gold"]), str(row["response"]))
        counts[score.verdict] = counts.get(score.verdict, 0) + 1
        write_json(
            {
                "id": row.get("id", number),
                "verdict": score.verdict,
                "answer": score.answer,
                "reason": score.reason,
                "seconds": round(time.perf_counter() - began, 6),
            }
        )
    summary = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    sys.stderr.write(f"{path}: {summary or 'no lines'}\n")
    return 0


def _rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    if not path.is_file():
        raise UsageError(f'no file {path}. Give lines such as {{"gold": "2", "response": "2"}}.')
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{path}, line {number} is not JSON: {error}.") from None
            if not isinstance(row, dict) or not {"gold", "response"} <= set(row):
                raise UsageError(f'{path}, line {number} needs "gold" and "response".')
            if not isinstance(row["response"], str) or not isinstance(
                row["gold"], str | int | float
            ):
                raise UsageError(f'{path}, line {number}: "gold" and "response" take text.')
            yield number, row

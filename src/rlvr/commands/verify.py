"""`rlvr verify`: grade one answer, a file of them, or the stored rollouts of a run again."""

import importlib.util
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rlvr import records
from rlvr.commands.options import Options, write_json
from rlvr.errors import UsageError, unknown_name
from rlvr.folders import SETTINGS
from rlvr.observe.result import printable
from rlvr.records import Problem, Score

EXAMPLE = '{"gold": "1/2", "response": "so it is \\\\boxed{0.5}"}'
CHUNK = 256  # lines that are graded together
OTHER_SECONDS = 10.0  # longest that another verifier may take for one answer


@dataclass(frozen=True, slots=True)
class Row:
    """One line to grade, and what was said of it before."""

    id: object
    reference: str
    response: str
    alternatives: tuple[str, ...] = ()
    stored: str | None = None
    """The verdict of a run, where the line is one of its rollouts."""
    cut: bool = False
    """Whether the length limit of a run cut the answer."""
    scored: Problem | None = None
    """The problem of a run's rollout, where it brings its own scorer."""


@dataclass(slots=True)
class Tally:
    """What all lines came to."""

    verdicts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    changed: int = 0
    stored: int = 0
    others: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: int = 0


def verify_command(about: str, words: Sequence[str]) -> int:
    """Grade one pair, every line of a JSONL file in order, or every rollout of a run."""
    usage = "(--reference R --response TEXT | --jsonl FILE | --run RUN) [--lenient] [--json] ..."
    parser = Options("verify", about, usage)
    parser.add_argument("--reference", metavar="R", help="the reference answer")
    parser.add_argument("--response", metavar="TEXT", help="the whole text of an answer")
    parser.add_argument("--jsonl", metavar="FILE", help='lines of {"gold": ..., "response": ...}')
    parser.add_argument("--run", metavar="RUN", help="grade the stored rollouts of a run again")
    parser.add_argument(
        "--lenient", action="store_true", help="also take the last number of an unmarked answer"
    )
    parser.add_argument("--against", metavar="NAME", help="compare with it, such as math-verify")
    parser.add_argument(
        "--skip-broken", action="store_true", help="leave out lines that are no good, and count"
    )
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    given = parser.parse(words)
    if sum(value is not None for value in (given.reference, given.jsonl, given.run)) != 1:
        parser.error("give --reference and --response, or --jsonl FILE, or --run RUN")
    if given.reference is None and given.response is not None:
        parser.error("--response goes with --reference; leave it out, or give no file and no run")
    other = _other(given.against)
    if given.reference is None:
        path = Path(given.jsonl if given.jsonl is not None else given.run)
        files = [path] if given.jsonl is not None else _rollout_files(path)
        lenient = given.lenient or (given.run is not None and _was_lenient(path))
        return _grade_all(path, files, lenient, other, given.skip_broken)
    if given.response is None:
        parser.error("give --response TEXT, the answer to grade")
    return _grade_one(given.reference, given.response, given.lenient, other, given.json)


def _grade_one(
    reference: str, response: str, lenient: bool, other: str | None, as_json: bool
) -> int:
    from rlvr.verify import grade

    score = grade(reference, response, lenient=lenient)
    row = {"verdict": score.verdict, "answer": score.answer, "reason": score.reason}
    if other is not None:
        row["against"] = _other_verdicts(other, [Row(0, reference, response)])[0]
    if as_json:
        write_json(row)
        return 0
    sys.stdout.write(f"{score.verdict}: {printable(score.reason)}\n")
    if other is not None:
        sys.stdout.write(f"the other verifier: {row['against']}\n")
    return 0


def _grade_all(
    path: Path, files: Sequence[Path], lenient: bool, other: str | None, skip_broken: bool
) -> int:
    tally, began = Tally(), time.perf_counter()
    if not skip_broken:
        for _ in _rows(files, None):  # a broken line ends it before anything is written
            pass
    lines = _rows(files, tally if skip_broken else None)
    while rows := list(islice(lines, CHUNK)):
        others = _other_verdicts(other, rows) if other is not None else [None] * len(rows)
        for row, (score, seconds), against in zip(
            rows, _graded(rows, lenient), others, strict=True
        ):
            verdict = "incorrect" if row.cut else score.verdict
            reason = "cut by the length limit" if row.cut else score.reason
            line = {"id": row.id, "verdict": verdict, "answer": score.answer, "reason": reason}
            line["seconds"] = round(seconds, 6)
            tally.verdicts[verdict] += 1
            tally.seconds.append(seconds)
            if row.stored is not None:
                line["stored"] = row.stored
                tally.stored += 1
                tally.changed += row.stored != verdict
            if against is not None:
                line["against"] = against
                tally.others[verdict, against] += 1
            write_json(line)
    sys.stderr.write(_summary(path, tally, time.perf_counter() - began))
    return 0


def _graded(rows: Sequence[Row], lenient: bool) -> Iterator[tuple[Score, float]]:
    """Each row with the seconds it took: by its problem's own scorer, where it has one."""
    from rlvr.verify import Item
    from rlvr.verify.grading import grade_timed

    items = [Item(r.reference, r.response, r.alternatives) for r in rows if r.scored is None]
    verified = iter(grade_timed(items, time.perf_counter, lenient=lenient))
    for row in rows:
        if row.scored is None:
            yield next(verified)
        else:
            from rlvr.judging import judge

            began = time.perf_counter()
            yield judge(row.scored, row.response, lenient=lenient), time.perf_counter() - began


def _summary(path: Path, tally: Tally, took: float) -> str:
    count = tally.verdicts.total()
    left_out = f"  {tally.broken} broken lines were left out\n" if tally.broken else ""
    if not count:
        return f"{path}: {'no whole line' if left_out else 'no lines'}\n{left_out}"
    said = ", ".join(f"{n} {verdict}" for verdict, n in sorted(tally.verdicts.items()))
    slowest = sorted(tally.seconds)[min(count - 1, int(count * 0.99))]
    text = f"{path}: {said}; {took:.1f} s, 99% within {1000 * slowest:.1f} ms each\n"
    text += left_out
    if tally.stored:
        text += f"  {tally.changed} of {tally.stored} verdicts differ from the stored ones\n"
    for (ours, theirs), n in sorted(tally.others.items()):
        text += f"  {n:>6} {ours} here, {theirs} there\n"
    return text


def _was_lenient(run: Path) -> bool:
    """Whether a run also took the last number of an unmarked answer."""
    settings = run / SETTINGS
    if not settings.is_file():
        return False
    from rlvr.config import read_toml

    return read_toml(settings).get("reward.lenient") is True


def _rollout_files(run: Path) -> list[Path]:
    files = sorted((run / "rollouts").glob("step-*.jsonl"))
    if not files:
        raise UsageError(f"{run} holds no rollouts. Give the folder of a run, such as runs/NAME.")
    return files


def _rows(files: Iterable[Path], skipping: Tally | None) -> Iterator[Row]:
    """The rows of some files; broken ones are counted in `skipping`, or end it all."""
    for path in files:
        if not path.is_file():
            raise UsageError(f"{path} is no file. Give lines such as {EXAMPLE}.")
        with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield _row(path, number, line)
                except UsageError:
                    if skipping is None:
                        raise
                    skipping.broken += 1


def _row(path: Path, number: int, line: str) -> Row:
    where = f"{path}, line {number}"
    try:
        # `1e400` as it is written, and `NaN` no longer a number that JSON lacks
        found = json.loads(line, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{where} is not JSON: {error}. A good line: {EXAMPLE}. --skip-broken leaves it out."
        ) from None
    if not isinstance(found, dict):
        raise UsageError(
            f"{where} is no object. A good line: {EXAMPLE}. --skip-broken leaves it out."
        )
    reference = found.get("gold", found.get("reference"))
    response = found.get("response", found.get("text"))
    if isinstance(reference, (int, float)) and not isinstance(reference, bool):
        reference = str(reference)
    if not isinstance(reference, str) or not isinstance(response, str):
        raise UsageError(
            f'{where} needs "gold" (or "reference") and "response" (or "text"), both text. '
            f"A good line: {EXAMPLE}. --skip-broken leaves it out."
        )
    alternatives = found.get("alternatives") or []
    if not isinstance(alternatives, list) or not all(type(x) in (str, int) for x in alternatives):
        raise UsageError(
            f'{where}: "alternatives" are other right answers, a list of texts such as ["0.5"]. '
            "--skip-broken leaves it out."
        )
    stored = "rollout" in path.parent.name
    return Row(
        _identity(found, number),
        reference,
        records.stored_response(found, response),
        tuple(map(str, alternatives)),
        stored=found.get("verdict") if stored else None,
        cut=found.get("finish_reason") == "length",
        scored=_scored(found) if stored and found.get("scorer") else None,
    )


def _scored(found: Mapping[str, Any]) -> Problem:
    """The problem of a rollout that was scored by the problem's own scorer."""
    names = ("problem_id", "problem", "reference", "scorer", "entry")
    identity, prompt, reference, scorer, entry = (str(found.get(name, "")) for name in names)
    return Problem(identity, prompt, reference, "", scorer=scorer, entry=entry)


def _identity(found: dict[str, Any], number: int) -> object:
    if "slot" in found and "step" in found:
        return f"step {found['step']}, group {found.get('group_id')}, slot {found['slot']}"
    return found.get("id", number)


def _other(name: str | None) -> str | None:
    """The function of another verifier, which must be installed."""
    from rlvr.verify.others import OTHERS

    if name is None:
        return None
    if name not in OTHERS:
        raise unknown_name("verifier", name, OTHERS)
    task, module = OTHERS[name]
    if importlib.util.find_spec(module) is None:
        raise UsageError(f"{name} is not installed. Install it with: pip install {name}")
    return task


def _other_verdicts(task: str, rows: Sequence[Row]) -> list[str]:
    """What another verifier says of some rows: a verdict, or what went wrong with it."""
    from rlvr.verify.pool import Pool

    with Pool(task, workers=2, deadline_seconds=OTHER_SECONDS, memory_mib=4096) as pool:
        done = pool.run([[row.reference, row.response] for row in rows])
    return [str(one.value) if not one.failure else one.failure for one in done]

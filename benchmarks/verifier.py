"""The verifier beside the library math-verify, on the same answers.

    .venv/bin/python benchmarks/verifier.py --math500 FILE [--rounds 3] [--json]

FILE holds MATH-500 (its field `answer` is read). Each reference is graded against itself and
against itself with one digit changed, by both in turn, in one process and one call at a time; the
best round counts. Then the cases that the tests hold, whatever their kind, each with a deadline.
math-verify is the one of the extra: pip install -e '.[math-verify]'.
"""

import argparse
import importlib.metadata
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr.problems.files import read_problems
from rlvr.verify import Item, grade, grade_batch, terms, verdict
from rlvr.verify.others import math_verify
from rlvr.verify.pool import Pool

CASES = Path(__file__).parents[1] / "tests" / "verify" / "verifier_cases.jsonl"
HOSTILE = ("hack", "injection", "dos")
LATE_SECONDS = 2.0
DEADLINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Speed:
    """What one verifier took for a list of pairs."""

    per_second: float
    p99_seconds: float
    slowest_seconds: float
    accepted: int
    raised: int


def ours(pair: tuple[str, str]) -> bool:
    """The verdict of `rlvr.verify`."""
    return grade(*pair).verdict == "correct"


def theirs(pair: tuple[str, str]) -> bool:
    """The verdict of math-verify, with its defaults."""
    return math_verify(list(pair)) == "correct"


def changed(answer: str) -> str | None:
    """An answer with its first digit changed; None where it has words in it, or no digit."""
    digit = re.search(r"\d", answer)
    if digit is None or re.search(r"\\(text|mbox|mathrm)", answer):
        return None
    other = int(digit[0]) + 1 if digit[0] != "9" else 8
    return f"{answer[: digit.start()]}{other}{answer[digit.end() :]}"


def forget() -> None:
    """Empty what `rlvr.verify` remembers of texts it has read."""
    for cached in (verdict._read, terms._order, terms.ordered_name):
        cached.cache_clear()


def timed(verifier: Callable[[tuple[str, str]], bool], pairs: Sequence[tuple[str, str]]) -> Speed:
    """Grade all pairs once, one after the other; nothing of ours is remembered from before."""
    forget()
    taken, accepted, raised = [], 0, 0
    for pair in pairs:
        began = time.perf_counter()
        try:
            accepted += verifier(pair)
        except Exception:  # what the other one raises is counted
            raised += 1
        taken.append(time.perf_counter() - began)
    total = sum(taken)
    taken.sort()
    return Speed(len(pairs) / total, taken[int(0.99 * len(taken))], taken[-1], accepted, raised)


def in_turn(pairs: Sequence[tuple[str, str]], rounds: int) -> dict[str, Speed]:
    """Both verifiers on the same pairs, round about; the best round of each."""
    best: dict[str, Speed] = {}
    for _ in range(rounds + 1):  # the first warms up: imports, caches, workers
        for name, verifier in (("rlvr", ours), ("math_verify", theirs)):
            found = timed(verifier, pairs)
            if name not in best or found.per_second > best[name].per_second:
                best[name] = found
    return best


def cases_of(path: Path) -> list[dict[str, Any]]:
    """Cases with their response written out."""
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for case in cases:
        if "expand" in case:
            prefix, unit, count, suffix = case["expand"]
            case["response"] = prefix + unit * count + suffix
    return cases


def on_cases(cases: Sequence[dict[str, Any]], task: str) -> dict[str, float]:
    """Each case in a worker: shares that came out as expected, and what went wrong."""
    rows = [[case["gold"], case["response"], [], False] for case in cases]
    if "others" in task:
        rows = [row[:2] for row in rows]
    with Pool(task, workers=1, deadline_seconds=DEADLINE_SECONDS, memory_mib=4096) as pool:
        pool.run(rows[:1])
        done = pool.run(rows)
    found = {"right": 0.0, "hostile_accepted": 0.0, "hostile_late": 0.0, "failed": 0.0}
    plain = [one.seconds for case, one in zip(cases, done, strict=True) if case["kind"] != "dos"]
    found["p99_seconds"] = sorted(plain)[int(0.99 * len(plain))]
    for case, one in zip(cases, done, strict=True):
        said = one.value[0] if isinstance(one.value, list) else one.value
        accepted = not one.failure and said == "correct"
        hostile, late = case["kind"] in HOSTILE, one.seconds > LATE_SECONDS
        found["right"] += accepted == case["expect"] and not one.failure and not (hostile and late)
        found["hostile_accepted"] += hostile and accepted and not case["expect"]
        found["hostile_late"] += hostile and late
        found["failed"] += bool(one.failure)
    found["right"] /= len(cases)
    return found


def batch_per_second(pairs: Sequence[tuple[str, str]], rounds: int) -> float:
    """Grades a second of `grade_batch`, with as many workers as it takes by itself."""
    items, best = [Item(*pair) for pair in pairs], float("inf")
    for _ in range(rounds + 1):
        forget()
        began = time.perf_counter()
        grade_batch(items)
        best = min(best, time.perf_counter() - began)
    return len(items) / best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--math500", type=Path, required=True, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # math-verify logs what it can't parse
    answers = [problem.answer for problem in read_problems(given.math500).problems]
    pairs = {
        "self": [(a, f"\\boxed{{{a}}}") for a in answers],
        "digit": [(a, f"\\boxed{{{b}}}") for a in answers if (b := changed(a)) is not None],
    }
    speeds = {name: in_turn(some, given.rounds) for name, some in pairs.items()}
    batch = {name: batch_per_second(some, given.rounds) for name, some in pairs.items()}
    cases = cases_of(CASES)
    shares = {
        "rlvr": on_cases(cases, "rlvr.verify.symbolic:graded"),
        "math_verify": on_cases(cases, "rlvr.verify.others:math_verify"),
    }
    result: dict[str, object] = {"math_verify": importlib.metadata.version("math-verify")}
    for name, both in speeds.items():
        for who, speed in both.items():
            result |= {f"{name}/{who}/{key}": getattr(speed, key) for key in Speed.__slots__}
        result[f"{name}/batch_per_second"] = batch[name]
        ratio = both["rlvr"].per_second / both["math_verify"].per_second
        result[f"{name}/faster_than_math_verify"] = ratio
    result |= {f"cases/{who}/{key}": v for who, found in shares.items() for key, v in found.items()}
    if given.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    for key, value in result.items():
        sys.stdout.write(
            f"{key:<40} {value:.6g}\n" if isinstance(value, float) else f"{key:<40} {value}\n"
        )


if __name__ == "__main__":
    main()

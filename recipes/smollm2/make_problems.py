"""Writes the problems of the recipe beside this file: sums and products of one and two digits.

    .venv/bin/python recipes/smollm2/make_problems.py

Each pair of numbers comes once, in one order, so that what is held out is in no training problem.
"""

import json
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random

COUNTS = {"1 + 1": 45, "1 * 1": 36, "2 + 1": 200, "2 + 2": 300, "2 * 1": 250}
"""Digits of the operands with their sign, and how many pairs of such."""
HELD_OUT = 160


def pairs(kind: str, random: Random) -> list[tuple[int, int]]:
    """As many different pairs of a kind as are wanted, each in an order of its own."""
    long, sign, short = kind.split()
    least = 2 if sign == "*" else 1
    if long == short:
        first, last = (least, 9) if long == "1" else (10, 99)
        found = list(combinations_with_replacement(range(first, last + 1), 2))
    else:
        found = [(a, b) for a in range(10, 100) for b in range(least, 10)]
    chosen = random.sample(found, COUNTS[kind])
    return [pair if random.random() < 0.5 else pair[::-1] for pair in chosen]


def main() -> None:
    """Both files, the same in every run."""
    random, rows = Random(0), []
    for kind in COUNTS:
        sign = kind.split()[1]
        for a, b in pairs(kind, random):
            answer = a * b if sign == "*" else a + b
            rows.append({"problem": f"{a} {sign} {b}", "answer": str(answer), "subject": kind})
    random.shuffle(rows)
    here = Path(__file__).parent
    for name, part in (("held_out", rows[:HELD_OUT]), ("train", rows[HELD_OUT:])):
        lines = "".join(json.dumps(row) + "\n" for row in part)
        (here / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()

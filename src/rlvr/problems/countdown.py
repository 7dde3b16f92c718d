"""Countdown: reach a target from given numbers, each used exactly once, with + - * / and brackets.

An endless training stream and a fixed held-out set that never meet: the numbers alone, sorted,
decide the side of a question, so that held-out numbers don't occur in training with another target
either. Every question has a solution, because it is made from one.

Source: TinyZero, github.com/Jiayi-Pan/TinyZero: the wording, every number used exactly once, 3 or 4
numbers up to 99, targets from 10 to 99. Differs: an answer is never run as code, a sign before a
number is no operation, and the steps of the solution that is made are positive whole numbers.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from random import Random
from zlib import crc32

from rlvr.records import Problem

HELD_OUT_ONE_IN = 10
HELD_OUT_COUNT = 1000
HELD_OUT_SEED = 20_261_201
MOST_MISSES = 2000  # draws in a row that add nothing to the held-out set, before it is whole
TARGETS = range(10, 100)
LONGEST, DEEPEST = 200, 20  # characters, and brackets within brackets, of an answer
PROMPT = (
    "Using the numbers {numbers}, create an equation that equals {target}. You can use basic "
    "arithmetic operations (+, -, *, /) and each number must be used exactly once. The answer is "
    "the expression alone, such as (1 + 2) / 3."
)
TOKEN = re.compile(r"[ \t\n]*([0-9]+|[-+*/(){}=]|\\d?frac(?![a-zA-Z]))")
WRITTEN = re.compile(
    r"\\(?:times|cdot|div|left|right)(?![a-zA-Z])|[\u00d7\u22c5\u00b7\u00f7\u2212]"
)
MEANT = {"times": "*", "cdot": "*", "div": "/", "left": "", "right": ""} | dict(
    zip("\u00d7\u22c5\u00b7\u00f7\u2212", "***/-", strict=True)
)


@dataclass(frozen=True, slots=True)
class Span:
    """How hard questions are."""

    name: str = "countdown"
    counts: tuple[int, ...] = (3, 4)
    """How many numbers are given."""
    largest: int = 99
    """The largest number given, at least 10."""


def check(numbers: Sequence[int], target: int, expression: str) -> tuple[bool, str]:
    """Whether an expression reaches the target with each number used exactly once, and why.

    A small parser of its own and exact fractions: nothing is run as code. Work is bounded: the text
    is short, and only the given numbers are read, so that no value grows. Signs may be LaTeX's, and
    `= target` may stand at the end.

    >>> check([3, 5, 2], 4, "(3 + 5) / 2")
    (True, 'it is 4')
    >>> check([3, 5, 2], 4, "3 - -5")
    (False, "'-' stands where a number is needed")
    """
    try:
        tokens = _tokens(expression, Counter(numbers))
        value, end = _sum(tokens, 0, 0)
        if tokens[end] == "=" and tokens[end + 1 :] != [str(target), ""]:
            raise ValueError(f"after '=' stands something else than {target}")
        if tokens[end] not in ("", "="):
            raise ValueError(f"{tokens[end]!r} stands where an operation is needed")
        unused = Counter(numbers) - Counter(int(token) for token in tokens[:end] if token.isdigit())
        if unused:
            raise ValueError(f"it does not use {', '.join(map(str, unused.elements()))}")
    except ValueError as error:
        return False, str(error)
    right = value == target
    return right, f"it is {value}" + ("" if right else f", not {target}")


def _tokens(expression: str, left: Counter[int]) -> list[str]:
    """Numbers, signs and brackets, and an empty text at the end."""
    if len(expression.strip()) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    text = WRITTEN.sub(lambda sign: MEANT[sign[0].lstrip("\\")], expression).strip()
    tokens, place = list[str](), 0
    while place < len(text):
        found = TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"{text[place:].lstrip()[:1]!r} is neither a number nor + - * / ( )")
        token, place = found[1].replace("dfrac", "frac"), found.end()
        if token.isdigit() and "=" not in tokens:
            if len(token) > 1 and token[0] == "0":
                raise ValueError(f"{token[:12]} begins with a zero")
            if len(token) > 9 or left[int(token)] < 1:
                raise ValueError(f"{token[:12]} is not one of the numbers, or used too often")
            left[int(token)] -= 1
        tokens.append(token)
    return [*tokens, ""]


def _sum(tokens: Sequence[str], place: int, depth: int) -> tuple[Fraction, int]:
    value, place = _product(tokens, place, depth)
    while tokens[place] in ("+", "-"):
        sign = tokens[place]
        other, place = _product(tokens, place + 1, depth)
        value = value + other if sign == "+" else value - other
    return value, place


def _product(tokens: Sequence[str], place: int, depth: int) -> tuple[Fraction, int]:
    value, place = _number(tokens, place, depth)
    while tokens[place] in ("*", "/"):
        sign = tokens[place]
        other, place = _number(tokens, place + 1, depth)
        value = value * other if sign == "*" else _divided(value, other)
    return value, place


def _number(tokens: Sequence[str], place: int, depth: int) -> tuple[Fraction, int]:
    token = tokens[place]
    if token.isdigit():
        return Fraction(int(token)), place + 1
    if token == "\\frac":
        above, place = _bracketed(tokens, place + 1, depth, "{}")
        below, place = _bracketed(tokens, place, depth, "{}")
        return _divided(above, below), place
    return _bracketed(tokens, place, depth, "()")


def _bracketed(tokens: Sequence[str], place: int, depth: int, pair: str) -> tuple[Fraction, int]:
    token = tokens[place]
    if token != pair[0]:
        raise ValueError(f"{repr(token) if token else 'the end'} stands where a number is needed")
    if depth == DEEPEST:
        raise ValueError(f"it has more than {DEEPEST} brackets within brackets")
    value, place = _sum(tokens, place + 1, depth + 1)
    if tokens[place] != pair[1]:
        raise ValueError("a bracket is not closed")
    return value, place + 1


def _divided(above: Fraction, below: Fraction) -> Fraction:
    if below == 0:
        raise ValueError("it divides by zero")
    return above / below


def score(problem: Problem, answer: str) -> tuple[bool, str]:
    """`check` for a problem that was made here."""
    entry = json.loads(problem.entry)
    return check(entry["numbers"], entry["target"], answer)


def held_out(numbers: Sequence[int]) -> bool:
    """True on the side of the split that training may not see, whatever the order and target."""
    key = ",".join(map(str, sorted(numbers)))
    return crc32(f"countdown:{key}".encode()) % HELD_OUT_ONE_IN == 0


def draw(random: Random, span: Span) -> tuple[tuple[int, ...], int, str]:
    """Numbers, a target, and an expression that reaches it; from either side of the split."""
    while True:
        count = random.choice(span.counts)
        numbers = tuple(random.randint(1, span.largest) for _ in range(count))
        target, expression = _combined(random, numbers)
        if target in TARGETS:
            return numbers, target, expression


def _combined(random: Random, numbers: Sequence[int]) -> tuple[int, str]:
    """The numbers joined two by two, by operations whose results are positive whole numbers."""
    parts = [(number, str(number)) for number in numbers]
    while len(parts) > 1:
        random.shuffle(parts)
        (one, first), (two, second) = sorted(parts[-2:], key=lambda part: -part[0])
        results = {"+": one + two, "*": one * two}
        if one > two:
            results["-"] = one - two
        if one % two == 0:
            results["/"] = one // two
        sign = random.choice(sorted(results))
        text = f"{first} {sign} {second}"
        parts[-2:] = [(results[sign], text if len(parts) == 2 else f"({text})")]
    return parts[0]


def _problem(random: Random, span: Span, *, on_held_out_side: bool) -> Problem:
    while True:
        numbers, target, expression = draw(random, span)
        if held_out(numbers) == on_held_out_side:
            break
    listed = ", ".join(map(str, numbers))
    return Problem(
        id=f"{span.name}:{listed.replace(' ', '')}={target}",
        prompt=PROMPT.format(numbers=f"[{listed}]", target=target),
        answer=expression,
        source=span.name,
        subject=f"{len(numbers)} numbers",
        level=len(numbers),
        scorer="countdown",
        entry=json.dumps({"numbers": numbers, "target": target}),
    )


def training_problem(span: Span, seed: int, index: int) -> Problem:
    """Problem number `index` of the training stream of a seed: no state, so nothing to save."""
    return _problem(Random(f"{span.name}/{seed}/{index}"), span, on_held_out_side=False)


@cache
def held_out_problems(span: Span) -> tuple[Problem, ...]:
    """The fixed held-out set: 1,000 different problems, fewer where there are no more."""
    random = Random(f"{span.name}/held out/{HELD_OUT_SEED}")
    problems: dict[str, Problem] = {}
    misses = 0
    while len(problems) < HELD_OUT_COUNT and misses < MOST_MISSES:
        problem = _problem(random, span, on_held_out_side=True)
        misses = misses + 1 if problem.id in problems else 0
        problems.setdefault(problem.id, problem)
    return tuple(problems.values())

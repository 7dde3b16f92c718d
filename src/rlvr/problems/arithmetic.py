"""Made-up arithmetic: an endless training stream and a fixed held-out set that never meet.

A question is an operation on operands. Its side of the split is decided by the operation and the
sorted operands, so `b+a` and the word problem of `a+b` fall on the same side as `a+b`. Questions
whose operands all have one digit are never held out: worked answers to longer ones contain them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal, TypeVar
from zlib import crc32

from rlvr.records import Problem

T = TypeVar("T")
Operation = Literal["sum", "difference", "product"]

HELD_OUT_ONE_IN = 10
HELD_OUT_COUNT = 1000
HELD_OUT_SEED = 20_261_201
MOST_MISSES = 2000  # draws in a row that add nothing to a held-out set, before it is whole

WORDS: dict[Operation, tuple[str, ...]] = {
    "sum": (
        "ann has {0} boxes and gets {1} more. how many boxes?",
        "a shop has {0} pens and buys {1} more. how many pens?",
        "ben has {0} coins and finds {1} more. how many coins?",
    ),
    "difference": (
        "ann has {0} boxes and gives away {1}. how many boxes?",
        "a shop has {0} pens and sells {1}. how many pens?",
        "ben has {0} coins and loses {1}. how many coins?",
    ),
    "product": (
        "each of {1} boxes holds {0} pens. how many pens?",
        "each of {1} bags holds {0} coins. how many coins?",
    ),
}
SIGN: dict[Operation, str] = {"sum": "+", "difference": "-", "product": "*"}


@dataclass(frozen=True, slots=True)
class Question:
    """One arithmetic question: what is asked, and the words it is asked in."""

    kind: str
    """`sum`, `difference`, `product`, `three_terms`, `more_terms` or `word`."""
    operation: Operation
    operands: tuple[int, ...]
    """In the order of the text; a difference never goes below zero."""
    text: str

    @property
    def answer(self) -> int:
        """The right answer, a whole number."""
        first, *rest = self.operands
        if self.operation == "sum":
            return first + sum(rest)
        return first - rest[0] if self.operation == "difference" else first * rest[0]

    @property
    def digits(self) -> int:
        """Digits of the longest operand: the level."""
        return max(len(str(operand)) for operand in self.operands)

    @property
    def held_out(self) -> bool:
        """True on the side of the split that neither pretraining nor training may see."""
        if self.digits == 1:
            return False
        key = f"{self.operation}:{','.join(map(str, sorted(self.operands)))}"
        return crc32(key.encode()) % HELD_OUT_ONE_IN == 0


@dataclass(frozen=True, slots=True)
class Range:
    """How hard questions are: how often each kind and each length of number comes up."""

    name: str
    kinds: tuple[tuple[str, float], ...]
    digits: tuple[tuple[int, float], ...]
    """Lengths of the first operand."""
    terms: tuple[int, int] = (4, 5)
    """Terms of a `more_terms` question, from and to."""


NORMAL = Range(
    name="arithmetic",
    kinds=(
        ("sum", 0.25),
        ("difference", 0.2),
        ("product", 0.2),
        ("three_terms", 0.15),
        ("word", 0.2),
    ),
    digits=((1, 0.15), (2, 0.35), (3, 0.5)),
)
HARD = Range(
    name="arithmetic-hard",
    kinds=(("sum", 0.3), ("difference", 0.25), ("product", 0.25), ("more_terms", 0.2)),
    digits=((4, 0.4), (5, 0.4), (6, 0.2)),
)
RANGES = {span.name: span for span in (NORMAL, HARD)}


def narrowed(
    span: Range, name: str, digits: Sequence[int] | None, kinds: Sequence[str] | None
) -> Range:
    """A range of only some lengths of numbers and some kinds of questions.

    Lengths that the range does not have come up equally often. Its streams are its own, and so is
    its held-out set; a question falls on the same side of the split in every range.
    """
    shares = dict(span.digits)
    if digits is not None:
        known = all(length in shares for length in digits)
        shares = {length: shares[length] if known else 1.0 for length in digits}
    kept = tuple(pair for pair in span.kinds if kinds is None or pair[0] in kinds)
    return Range(name, kept, tuple(shares.items()), span.terms)


def _pick(random: Random, shares: Sequence[tuple[T, float]]) -> T:
    values, weights = zip(*shares, strict=True)
    chosen: T = random.choices(values, weights)[0]
    return chosen


def _number(random: Random, digits: int) -> int:
    return random.randrange(10 ** (digits - 1) if digits > 1 else 1, 10**digits)


def draw(random: Random, span: Range) -> Question:
    """One question of a range, from either side of the split."""
    kind = _pick(random, span.kinds)
    operation: Operation = "sum"
    if kind == "word":
        operation = random.choice(("sum", "difference", "product"))
    elif kind in ("difference", "product"):
        operation = "difference" if kind == "difference" else "product"
    digits = _pick(random, span.digits)
    first = _number(random, digits)
    if operation == "product":
        operands: tuple[int, ...] = (first, random.randrange(2, 10))
    elif kind in ("three_terms", "more_terms"):
        terms = 3 if kind == "three_terms" else random.randint(*span.terms)
        operands = (first, *(_number(random, _shorter(random, digits)) for _ in range(terms - 1)))
    else:
        operands = (first, _number(random, _shorter(random, digits)))
        if operation == "difference":
            operands = (max(operands), min(operands))
        elif random.random() < 0.5:
            operands = operands[::-1]
    if kind == "word":
        text = random.choice(WORDS[operation]).format(*operands)
    else:
        text = SIGN[operation].join(map(str, operands)) + "="
    return Question(kind, operation, operands, text)


def _shorter(random: Random, digits: int) -> int:
    return digits if random.random() < 0.6 else random.randint(1, digits)


def draw_side(random: Random, span: Range, *, held_out: bool) -> Question:
    """One question of a range from the given side of the split."""
    while True:
        question = draw(random, span)
        if question.held_out == held_out:
            return question


def problem_of(question: Question, span: Range) -> Problem:
    """The question as a problem record; its id is the same wherever it is drawn."""
    return Problem(
        id=f"{span.name}:{question.text}",
        prompt=question.text,
        answer=str(question.answer),
        source=span.name,
        subject=question.kind,
        level=question.digits,
    )


def training_problem(span: Range, seed: int, index: int) -> Problem:
    """Problem number `index` of the training stream of a seed: no state, so nothing to save."""
    random = Random(f"{span.name}/{seed}/{index}")
    return problem_of(draw_side(random, span, held_out=False), span)


@cache
def held_out_problems(span: Range) -> tuple[Problem, ...]:
    """The fixed held-out set of a range, the same for every seed: 1,000 different problems, or all
    there are."""
    random = Random(f"{span.name}/held out/{HELD_OUT_SEED}")
    problems: dict[str, Problem] = {}
    misses = 0
    while len(problems) < HELD_OUT_COUNT and misses < MOST_MISSES:
        problem = problem_of(draw_side(random, span, held_out=True), span)
        misses = misses + 1 if problem.id in problems else 0
        problems.setdefault(problem.id, problem)
    return tuple(problems.values())

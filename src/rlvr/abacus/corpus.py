"""The made-up text that the built-in model is pretrained on: answers at once, and worked answers.

Nothing here rewards thinking. Most answers are given at once, and where the numbers are long most
of those are wrong; a few are worked out column by column, and are mostly right. Some of the worked
ones are sloppy (carries forgotten), some slip in a step, and some of the slips are noticed.
"""

from dataclasses import dataclass
from random import Random

from rlvr.abacus.vocabulary import END, THINK, THINK_END, WAIT
from rlvr.problems.arithmetic import HARD, NORMAL, Question, Range, draw_side

RIGHT_AT_ONCE_EASY = 0.95
RIGHT_AT_ONCE_LONG = 0.30
EASY_DIGITS = 3
"""Digits of all operands together up to which an answer at once is mostly right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mix:
    """How one phase of the corpus is made up; shares are of 1."""

    thinks: float
    """Share of answers that are worked out."""
    sloppy: float
    """Share of the worked answers that forget carries."""
    slips: float
    """Share of a careful answer's steps that go wrong."""
    noticed: float = 0.4
    """Share of the slips that are put right at once."""
    hard: float = 0.1
    """Share of questions from the hard range."""
    span: Range = NORMAL


def document(random: Random, mix: Mix) -> tuple[str, str]:
    """One question from the training side and one answer to it, as prompt and response."""
    hard = random.random() < mix.hard
    question = draw_side(random, HARD if hard else mix.span, held_out=False)
    if random.random() >= mix.thinks:
        return question.text, f"{_boxed(_guess(random, question))}{END}"
    careful = random.random() >= mix.sloppy
    worker = Worker(random, slips=mix.slips, noticed=mix.noticed, careful=careful)
    steps, value = worker.work(question)
    restated = "" if question.kind != "word" else _restated(question)
    return question.text, f"{THINK}{restated}{steps}{THINK_END}{_boxed(value)}{END}"


def _boxed(value: int) -> str:
    return f"\\boxed{{{value}}}"


def _restated(question: Question) -> str:
    sign = {"sum": "+", "difference": "-", "product": "*"}[question.operation]
    return sign.join(map(str, question.operands)) + ": "


def _guess(random: Random, question: Question) -> int:
    """An answer without work: right, or a wrong one of the right size."""
    digits = sum(len(str(operand)) for operand in question.operands)
    chance = RIGHT_AT_ONCE_EASY if digits <= EASY_DIGITS else RIGHT_AT_ONCE_LONG
    right = question.answer
    if random.random() < chance:
        return right
    spread = max(2, right // 4)
    while True:
        guess = max(0, right + random.randint(-spread, spread))
        if guess != right:
            return guess


@dataclass(slots=True)
class Worker:
    """Works a question out column by column, units first; may forget carries, may slip."""

    random: Random
    slips: float
    noticed: float
    careful: bool

    def work(self, question: Question) -> tuple[str, int]:
        """The steps as text, and the value that the written digits spell."""
        work = {"sum": self.add, "difference": self.subtract, "product": self.multiply}
        return work[question.operation](question.operands)

    def add(self, operands: tuple[int, ...]) -> tuple[str, int]:
        """`970+583`: `0+3+0=3 7+8+0=15 9+5+1=15`, the last number of a step being the carry."""
        columns = [digits_of(operand) for operand in operands]
        steps, digits, carry = [], [], 0
        for place in range(max(map(len, columns))):
            terms = [column[place] for column in columns if place < len(column)]
            text, total = self.step("+".join(map(str, [*terms, carry])), sum(terms) + carry)
            steps.append(text)
            digits.append(total % 10)
            carry = total // 10 if self.careful else 0
            last = total
        return " ".join(steps), value_of(digits) + (last // 10) * 10 ** len(digits)

    def subtract(self, operands: tuple[int, ...]) -> tuple[str, int]:
        """`523-68`: `3-8-0=5; 2-6-1=5; 5-0-1=4`, where `;` marks a borrow."""
        upper, lower = digits_of(operands[0]), digits_of(operands[1])
        lower += [0] * (len(upper) - len(lower))
        steps, digits, borrow = [], [], 0
        for high, low in zip(upper, lower, strict=True):
            difference = high - low - borrow
            text, total = self.step(f"{high}-{low}-{borrow}", difference % 10)
            steps.append(text + (";" if difference < 0 else ""))
            digits.append(total % 10)
            borrow = int(difference < 0) if self.careful else 0
        return " ".join(steps), value_of(digits)

    def multiply(self, operands: tuple[int, ...]) -> tuple[str, int]:
        """`348*7`: `8*7+0=56 4*7+5=33 3*7+3=24`, the last number of a step being the carry."""
        digits, carry, steps, total = [], 0, [], 0
        for digit in digits_of(operands[0]):
            exact = digit * operands[1] + carry
            text, total = self.step(f"{digit}*{operands[1]}+{carry}", exact)
            steps.append(text)
            digits.append(total % 10)
            carry = total // 10 if self.careful else 0
        return " ".join(steps), value_of(digits) + (total // 10) * 10 ** len(digits)

    def step(self, task: str, right: int) -> tuple[str, int]:
        """One column as text, and the number it ends with: right, slipped, or put right."""
        if self.random.random() >= self.slips:
            return f"{task}={right}", right
        wrong = max(0, right + self.random.choice((-2, -1, 1, 2)))
        if wrong != right and self.random.random() < self.noticed:
            return f"{task}={wrong} {WAIT}{task}={right}", right
        return f"{task}={wrong}", wrong


def digits_of(number: int) -> list[int]:
    """Digits, units first.

    >>> digits_of(970)
    [0, 7, 9]
    """
    return [int(digit) for digit in reversed(str(number))]


def value_of(digits: list[int]) -> int:
    """The number that digits spell, units first."""
    return sum(digit * 10**place for place, digit in enumerate(digits))

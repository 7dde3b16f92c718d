"""Reward functions as a user might write them, good ones and bad ones."""

import asyncio
import os
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

Problem = dict[str, Any]


def length(problem: Problem, text: str) -> float:
    return len(text) / 100


def echo(problem: Problem, text: str) -> dict[str, object]:
    print("noise on standard output")
    return {"value": float(text.split()[-1]), "reason": problem["answer"]}


def moods(problem: Problem, text: str) -> object:
    """What the text asks for."""
    for word, value in VALUES.items():
        if word in text:
            return value() if callable(value) else value
    return 0.0


async def coroutine(problem: Problem, text: str) -> float:
    return 1.0


def three(problem: Problem, text: str, more: str) -> float:
    return 1.0


def forgiving(*whatever: object, **more: object) -> float:
    return 0.25


class Callable:
    """An object without a name that can be called."""

    def __call__(self, problem: Problem, text: str) -> float:
        return 0.75


called = Callable()
constant = 3


def raised() -> float:
    raise ValueError("I am broken")


def hung() -> float:
    time.sleep(1000)
    return 1.0


def crashed() -> float:
    os._exit(1)


VALUES: dict[str, object] = {
    "-none-": None,
    "-bool-": True,
    "-numpy bool-": np.bool_(True),
    "-numpy-": np.float32(0.5),
    "-numpy integer-": np.int64(2),
    "-array-": np.ones(3),
    "-fraction-": Fraction(1, 4),
    "-decimal-": Decimal("0.25"),
    "-nan-": float("nan"),
    "-infinite-": float("inf"),
    "-huge-": 10**400,
    "-large-": -1e39,
    "-text-": "1.0",
    "-list-": [1.0],
    "-coroutine-": lambda: coroutine({}, ""),
    "-future-": lambda: asyncio.new_event_loop().create_future(),
    "-dict-": {"value": 0.5, "reason": "half"},
    "-dict of many words-": {"value": 0.5, "reason": "why " * 100_000},
    "-dict of none-": {"value": None, "reason": "unreadable"},
    "-dict with more-": {"value": 0.5, "score": 1},
    "-dict without-": {"reason": "why"},
    "-dict of bool-": {"value": False},
    "-dict with reason-": {"value": 1, "reason": 7},
    "-raise-": raised,
    "-hang-": hung,
    "-crash-": crashed,
}

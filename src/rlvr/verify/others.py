"""Other verifiers, called in a worker so that what they do to a process harms nobody."""

from typing import Any, cast


def math_verify(item: object) -> str:
    """What the library math-verify says of `[reference, response]`, as it is meant to be called."""
    from math_verify import parse, verify

    reference, response = cast(list[Any], item)
    return "correct" if verify(parse(f"\\boxed{{{reference}}}"), parse(response)) else "incorrect"


OTHERS = {"math-verify": ("rlvr.verify.others:math_verify", "math_verify")}
"""By name: the function, and the module that must be installed."""

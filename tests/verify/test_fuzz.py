"""Random and mutated text: always a verdict, soon, in bounded memory, and nothing of ours fails.

More of it: FUZZ_EXAMPLES=20000 make test ARGS=tests/verify/test_fuzz.py
"""

import json
import os
import resource
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr.verify import grade

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2000"))
SLOWEST_SECONDS = 2.0
MOST_GROWN_KIB = 200 * 1024

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("verifier_cases.jsonl").read_text().splitlines()
]
SEEDS = [str(case[key]) for case in CASES for key in ("gold", "response") if key in case]
PIECES = [
    *"0123456789+-*/^_=<>|!%$&#~,.;:'\"()[]{}\\ \n\t\x00\u2212\u00bd\u221a\u03c0\u00b2\u2260\u202e",
    *("\\frac", "\\sqrt", "\\boxed{", "\\text{", "\\left", "\\right", "\\pm", "\\cup", "\\infty"),
    *("\\begin{pmatrix}", "\\end{pmatrix}", "\\binom", "\\log", "\\sin", "\\overline", "\\cdot"),
    *("\\{", "\\}", "</think>", "<think>", "the answer is ", "#### ", "**", "!!", "e9999", "^{"),
    *("\\circ", "\\mathrm{cm}", " or ", " and ", "\\\\", "\\in", "x", "pi", "sqrt(", "floor"),
]
Cut = tuple[int, int, str]
CUTS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(PIECES)), max_size=6
)


def mutated(seed: str, cuts: list[Cut]) -> str:
    """A text with some of its parts replaced by others."""
    for start, length, piece in cuts:
        start %= len(seed) + 1
        seed = seed[:start] + piece + seed[start + length :]
    return seed


WILD = st.one_of(
    st.builds(mutated, st.sampled_from(SEEDS), CUTS),
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.text(max_size=200),
)


@pytest.fixture(scope="module", autouse=True)
def workers_are_up() -> None:
    """The first question to a worker starts it, which is not the answer's time."""
    grade(r"\sin^2 x", r"\boxed{\frac{1-\cos 2x}{2}}")


@pytest.mark.timeout(1800)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.sampled_from(SEEDS), WILD), WILD, st.booleans())
def test_any_text_gets_a_verdict_soon(reference: str, text: str, boxed: bool) -> None:
    began, before = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    score = grade(reference, rf"\boxed{{{text}}}" if boxed else text)
    assert time.thread_time() - began < SLOWEST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWN_KIB
    assert score.reason
    assert (score.verdict == "correct") == (score.value == 1.0)
    assert score.value in (None, 0.0, 1.0)
    assert "failed" not in score.reason, "a fault of ours"

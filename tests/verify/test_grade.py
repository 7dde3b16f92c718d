"""The verifier: by hand, on hostile text, and on the shown cases within its scope."""

import contextlib
import json
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verify import compare, grade
from rlvr.verify.extract import extract
from rlvr.verify.nodes import Number
from rlvr.verify.parse import read
from rlvr.verify.typography import TooLargeError, UnreadableError

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("verifier_cases.jsonl").read_text().splitlines()
]
HOSTILE = ("hack", "dos", "injection")
SLOWEST_SECONDS = 2.0

RIGHT = [
    ("1553", r"<think>0+3+0=3</think>\boxed{1553}"),
    ("1/2", r"\boxed{0.5}"),
    ("0.5", r"\boxed{\frac{1}{2}}"),
    ("0.5", r"\boxed{\dfrac12}"),
    ("-7/4", r"\boxed{-1\frac34}"),
    ("2/4", r"\boxed{1/2}"),
    ("1234", r"\boxed{1,234}"),
    ("1234", r"\boxed{1{,}234}"),
    ("12", r"so it is \boxed{12.}"),
    ("12", r"\boxed{$12$}"),
    ("-3", "\\boxed{\u22123}"),
    ("50\\%", r"\boxed{50}"),
    ("50\\%", r"\boxed{\frac12}"),
    ("0.5", r"\boxed{50\%}"),
    ("7", r"\boxed{\boxed{7}}"),
    ("7", r"\fbox{7}"),
    ("7", "<think>hm</think>7"),
    ("7", "<think>hm</think> 7.0 "),
    ("7", "\\boxed{6}\n\nNo, better:\n\n\\boxed{7}"),
    ("blue", r"\boxed{\text{Blue}}"),
    ("007", r"\boxed{7}"),
    ("7", "\\boxed{\ud800\x00\u202e7}"),
    ("7", "<think>hm</think>7<|im_end|>"),
    ("5", r"it is \boxed{5}, that is \boxed{5.0}"),
    ("5", r"as asked, in \boxed{}: \boxed{5}"),
    ("1234567", r"\boxed{1\,234\,567}"),
    ("1234", "\\boxed{1\u202f234}"),
    ("3/2", "\\boxed{1\u00bd}"),
    ("1/2", "\\boxed{\u00bd}"),
    ("37", "\\boxed{\uff13\uff17}"),
    ("12", r"\boxed{\ 12\ }"),
    ("(1,2)", r"\boxed{\left(1,2\right)}"),
]
WRONG = [
    ("1/3", r"\boxed{0.333}"),
    ("3.14159", r"\boxed{3.14}"),
    ("7", r"\boxed{7} or \boxed{8}"),
    ("7", r"\boxed{7"),
    ("7", r"\boxed{}"),
    ("7", r"\boxed{6} and then 7"),
    ("7", r"<think>\boxed{7}"),
    ("7", r"<think>\boxed{7}</think>"),
    ("7", r"<think>\boxed{7}</think>\boxed{8}"),
    ("7", "7"),
    ("7", ""),
    ("7", r"\boxed{3+4}"),
    ("7", r"\boxed{7 8}"),
    ("12", r"\boxed{1,2}"),
    ("50", r"\boxed{0.5}"),
    ("528", r"\boxed{52_8}"),
    ("0", r"\boxed{1/0}"),
    ("1234", r"\boxed{1,23,4}"),
    ("blue", r"\boxed{red}"),
    ("x", r"\boxed{X}"),
    ("7", r"<think>a</think>b<think>\boxed{7}"),
    ("7", r"<think>a</think>\boxed{7}<think>"),
    ("5", r"\boxed{5} or \boxed{6}, so \boxed{5}"),
    ("5", r"\boxed{5} in \boxed{}"),
    ("42", "\\boxed{4\u00b2}"),
    ("528", "\\boxed{52\u2088}"),
    ("10", "\\boxed{\u2469}"),
    ("42", r"\boxed{4$2}"),
    ("4.2", r"\boxed{4\$.2}"),
    ("42", r"\boxed{4\left2}"),
    ("123", r"\boxed{0,123}"),
    ("12", r"\boxed{1\,2}"),
    ("1234567", r"\boxed{1234\,567}"),
]


@pytest.mark.parametrize(("reference", "response"), RIGHT)
def test_right_answers_are_accepted(reference: str, response: str) -> None:
    score = grade(reference, response)
    assert (score.verdict, score.value) == ("correct", 1.0), score.reason


@pytest.mark.parametrize(("reference", "response"), WRONG)
def test_wrong_answers_are_refused_with_a_reason(reference: str, response: str) -> None:
    score = grade(reference, response)
    assert score.verdict != "correct"
    assert score.value == 0.0
    assert score.reason


@pytest.mark.parametrize("reference", ["", "  ", r"\frac{1}{", "x^2 +* 1", "$$"])
def test_a_reference_we_cannot_read_is_our_fault_and_no_zero(reference: str) -> None:
    score = grade(reference, r"\boxed{3}")
    assert (score.verdict, score.value) == ("could not judge", None)


def test_text_equal_to_the_reference_is_accepted_without_reading_it() -> None:
    assert grade("x^2+1", r"\boxed{x^2+1}").verdict == "correct"


@pytest.mark.parametrize("reference", ["1/0", "0/0", r"\frac{1}{0}", r"\frac{x}{0.0}", "NaN"])
def test_an_undefined_reference_is_not_right_even_as_itself(reference: str) -> None:
    assert compare(reference, reference).verdict == "could not judge"


def test_macros_that_begin_like_left_and_right_keep_their_meaning() -> None:
    assert compare(r"x\rightarrow y", r"x\leftarrow y").verdict != "correct"


def test_many_boxes_in_one_line_are_candidates_whatever_they_hold() -> None:
    boxes = " ".join(rf"\boxed{{{value}}}" for value in ("7", "7.0", "7.00", "7.000"))
    assert grade("7", boxes).verdict == "correct"
    many = " ".join(rf"\boxed{{7.{'0' * count}}}" for count in range(1, 5000))
    assert grade("7", many).verdict == "incorrect"


@given(st.fractions(), st.booleans())
def test_equal_values_are_equal_however_they_are_written(value: Fraction, latex: bool) -> None:
    written = f"{value.numerator}/{value.denominator}"
    if latex:
        sign = "-" if value < 0 else ""
        written = rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    assert compare(str(value), written).verdict == "correct"
    assert compare(str(value + Fraction(1, 10**9)), written).verdict == "incorrect"


@given(st.text(max_size=300))
def test_any_text_gives_a_score_and_a_reason(text: str) -> None:
    for response in (text, rf"\boxed{{{text}}}", f"<think>{text}</think>{text}"):
        score = grade("7", response)
        assert score.reason
        assert score.value in (0.0, 1.0)
        compare(text, text)


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{9**9**9**9}",
        r"\boxed{__import__('os').system('touch rlvr_pwned')}",
        r"\boxed{" + "9" * 10**6 + "}",
        r"\boxed{" + "9" * 1500 + "}",
        r"\boxed{" * 10**5,
        r"\boxed{" * 3000 + "7" + "}" * 3000,
        "{" * 10**6,
        "\\" * 10**6,
        r"\boxed " * 10**5,
        r"\boxed{7}" * 10**5,
        "</think>" * 10**5,
        r"\boxed{" + "1," * 900 + "}",
        r"\boxed{" + " " * 1900 + "}",
        r"\boxed{1e999999999}",
        r"\boxed{" + "\ufdfa" * 1999 + "}",
    ],
)
def test_hostile_text_is_refused_at_once(text: str) -> None:
    began = time.thread_time()
    assert grade("7", text).verdict != "correct" or text.count("7}") > 1
    assert time.thread_time() - began < SLOWEST_SECONDS


def response_of(case: dict[str, Any]) -> str:
    if "response" in case:
        return str(case["response"])
    prefix, unit, count, suffix = case["expand"]
    return f"{prefix}{unit * count}{suffix}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_shown_case_gets_its_verdict_quickly_and_runs_nothing(case: dict[str, Any]) -> None:
    began = time.thread_time()
    score = grade(str(case["gold"]), response_of(case))
    assert time.thread_time() - began < SLOWEST_SECONDS
    assert (score.verdict == "correct") == case["expect"], score.reason
    assert not (Path(tempfile.gettempdir()) / "rlvr_pwned").exists()
    if case["kind"] in HOSTILE:
        assert grade("2", r"\boxed{2}").verdict == "correct"
        assert grade("2", r"\boxed{3}").verdict == "incorrect"


@pytest.mark.parametrize(
    "text",
    ["", "-", ".", "0x10", "1_000", "inf", "nan", "1/2/3", "--", "1 2/0", "12 34", "1e99999"],
)
def test_nothing_is_read_as_a_number_that_is_none(text: str) -> None:
    with contextlib.suppress(UnreadableError, TooLargeError):
        assert not isinstance(read(text), Number)


def test_the_reason_names_why_there_is_no_answer() -> None:
    assert extract(r"<think>\boxed{1}").reason == "the thought never ends"
    assert extract(r"\boxed{1").reason == "the last box is not closed"
    assert extract(r"\boxed{1}, \boxed{2}").reason == "several different boxes in one line"

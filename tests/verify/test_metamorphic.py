"""The 12,500 references of MATH: rewritings that mean the same, and digits that were changed."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr.verify import compare

Rewriting = Callable[[str], str]


def whole_number(answer: str) -> bool:
    return answer.isascii() and answer.removeprefix("-").isdigit()


def without_blanks(answer: str) -> str:
    """Blanks between letters stay, and after commas, where digits would run together."""
    return re.sub(r"(?<![A-Za-z0-9,\\]) +| +(?![A-Za-z0-9])", "", answer)


def round_brackets_grow(answer: str) -> str:
    plain = re.fullmatch(r"\([^()]*\)", answer) and "\\left" not in answer
    return rf"\left({answer[1:-1]}\right)" if plain else answer


REWRITINGS: dict[str, Rewriting] = {
    "as it is": lambda a: a,
    "display fractions": lambda a: re.sub(r"\\[dt]?frac(?![a-z])", r"\\dfrac", a),
    "text fractions": lambda a: re.sub(r"\\[dt]?frac(?![a-z])", r"\\tfrac", a),
    "bare fractions": lambda a: re.sub(r"\\frac\{(\d)\}\{(\d)\}(?!\d)", r"\\frac\1\2", a),
    "braced fractions": lambda a: re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", a),
    "slashes": lambda a: re.sub(r"\A(-?)\\frac\{(\d+)\}\{(\d+)\}\Z", r"\1\2/\3", a),
    "dollars": lambda a: f"${a}$",
    "brackets of mathematics": lambda a: rf"\({a}\)",
    "braces": lambda a: f"{{{a}}}",
    "a full stop": lambda a: f"{a}.",
    "blanks around": lambda a: f"  {a}\n",
    "display style": lambda a: rf"\displaystyle {a}",
    "thin blanks": lambda a: a if "\\!" in a else a.replace(", ", r",\, "),
    "no blanks": lambda a: a if "\\text" in a or "\\mbox" in a else without_blanks(a),
    "growing brackets": round_brackets_grow,
    "minus of typography": lambda a: a.replace("-", "\u2212") if whole_number(a) else a,
    "thousands": lambda a: f"{int(a):,}" if whole_number(a) else a,
    "a decimal": lambda a: f"{a}.0" if whole_number(a) else a,
    "an equation": lambda a: f"x = {a}" if whole_number(a) else a,
}


@pytest.fixture(scope="module")
def references(shared_data: Path) -> list[str]:
    data = shared_data / "data"
    rows = json.loads((data / "math500.json").read_text())
    rows += [json.loads(line) for line in (data / "math_train.jsonl").read_text().splitlines()]
    assert len(rows) == 12_500
    return [row["answer"] for row in rows if row["answer"].strip()]


@pytest.mark.parametrize("name", REWRITINGS)
def test_a_rewriting_that_means_the_same_is_accepted(name: str, references: list[str]) -> None:
    pairs = [(answer, REWRITINGS[name](answer)) for answer in references]
    pairs = [(answer, other) for answer, other in pairs if other != answer or name == "as it is"]
    assert pairs
    wrong = [pair for pair in pairs if compare(*pair).verdict != "correct"]
    assert wrong == []


def digits_changed(answer: str) -> list[str]:
    """The answer with one digit changed, for each digit, where no words stand in it."""
    if re.search(r"\\(text|mbox|mathrm)", answer):
        return []
    return [
        f"{answer[: d.start()]}{(int(d[0]) + 1) % 9 + (d[0] == '8')}{answer[d.end() :]}"
        for d in re.finditer(r"\d", answer)
    ]


def test_no_answer_with_a_digit_changed_is_accepted(references: list[str]) -> None:
    pairs = [(answer, other) for answer in references for other in digits_changed(answer)]
    assert all(answer != other for answer, other in pairs)
    assert len(pairs) > 20_000
    assert [pair for pair in pairs if compare(*pair).verdict == "correct"] == []


def test_no_number_with_another_sign_is_accepted(references: list[str]) -> None:
    numbers = [a for a in references if whole_number(a) and int(a)]
    assert len(numbers) > 5000
    assert not [a for a in numbers if compare(a, str(-int(a))).verdict == "correct"]

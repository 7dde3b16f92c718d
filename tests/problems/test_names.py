"""Names of problems: taken apart one way, everything unknown refused in words."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.errors import UsageError
from rlvr.problems.names import Asked, chosen, parse_name, short_name, whole_numbers

KNOWN = ("math", "gym", "arithmetic")


def test_a_name_a_rest_and_options_are_told_apart() -> None:
    by_hand = {
        "arithmetic": ("arithmetic", "", {}),
        "math?level=2": ("math", "", {"level": "2"}),
        "math:a/b.json": ("math", "a/b.json", {}),
        "gym:chain_sum?min_terms=2&max_terms=3": (
            "gym",
            "chain_sum",
            {"min_terms": "2", "max_terms": "3"},
        ),
        "a/b.json": (None, "a/b.json", {}),
        "b.csv?answer=gold": (None, "b.csv", {"answer": "gold"}),
        "c:/b.csv": (None, "c:/b.csv", {}),
    }
    for text, expected in by_hand.items():
        asked = parse_name(text, KNOWN)
        assert (asked.name, asked.rest, dict(asked.options)) == expected


def test_a_file_whose_name_looks_like_options_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "what?level=3.jsonl"
    path.write_text("")
    asked = parse_name(str(path), KNOWN)
    assert (asked.name, asked.rest, dict(asked.options)) == (None, str(path), {})


def test_a_file_that_is_called_like_a_source_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("math").write_text("")
    assert parse_name("math", KNOWN).name == "math"
    assert parse_name("./math", KNOWN).name is None


@pytest.mark.parametrize("text", ["math?", "math?level", "math?=3", "math?level=", "math?a=1&&b=2"])
def test_what_is_no_option_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="level=1-3&subject=algebra"):
        parse_name(text, KNOWN)


def test_an_option_given_twice_and_a_colon_with_nothing_behind_are_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_name("math?level=1&level=2", KNOWN)
    with pytest.raises(UsageError, match="nothing follows the colon"):
        parse_name("math:", KNOWN)


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"Did you mean 'level'\? Known: level, subject"):
        parse_name("math?levl=3", KNOWN).only(("level", "subject"))
    with pytest.raises(UsageError, match="takes no options"):
        parse_name("arithmetic?x=3", KNOWN).only(())


@pytest.mark.parametrize(
    "value", ["0", "6", "3-1", "x", "1-", "-1", "1,,2", "²", "9" * 40, "1-2-3"]
)
def test_numbers_out_of_range_and_non_numbers_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match="whole numbers from 1 to 5, such as level=1 or level=1-5"):
        whole_numbers(Asked("math", "math", options={"level": value}), "level", 1, 5)


def test_words_are_found_however_they_are_spelled() -> None:
    known = ("Algebra", "Counting & Probability", "Number Theory")
    asked = Asked("m", "m", options={"subject": "counting_and_probability,ALGEBRA"})
    assert chosen(asked, "subject", known) == ("Counting & Probability", "Algebra")
    with pytest.raises(UsageError, match="Did you mean 'number_theory'"):
        chosen(Asked("m", "m", options={"subject": "number"}), "subject", known)


@given(st.text(max_size=300))
def test_any_text_is_a_name_or_refused_in_words(text: str) -> None:
    with suppress(UsageError):
        parse_name(text, KNOWN)
    assert "/" not in short_name(text)
    assert len(short_name(text)) <= 60

"""Templates: what the model is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.errors import UsageError
from rlvr.problems.prompts import TEMPLATES, render
from rlvr.records import Problem


def test_the_plain_template_is_the_problem_as_it_is() -> None:
    assert render("plain", Problem("1", "37+48=", "85", "test")) == "37+48="


def test_templates_ask_for_what_graders_and_format_rewards_look_for() -> None:
    problem = Problem("1", "37+48=", "85", "test")
    assert r"\boxed{}" in render("boxed", problem)
    assert all(part in render("think", problem) for part in ("<think>", "</think>", r"\boxed{}"))


@given(st.sampled_from(sorted(TEMPLATES)), st.text())
def test_a_problem_with_braces_or_any_other_text_is_shown_unchanged(name: str, text: str) -> None:
    for prompt in (text, rf"{{0}} {{problem}} \frac{{1}}{{2}} {text}"):
        assert render(name, Problem("1", prompt, "2", "test")).startswith(prompt)


def test_an_unknown_template_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="Did you mean 'boxed'"):
        render("box", Problem("1", "1+1=", "2", "test"))

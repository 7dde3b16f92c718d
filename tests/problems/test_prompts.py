"""Templates: what the model is shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.config import read_toml, resolve, write_toml
from rlvr.errors import UsageError
from rlvr.problems.arithmetic import Operation, Question
from rlvr.problems.prompts import EXAMPLES, SMALL, TEMPLATES, render, resolved
from rlvr.records import Problem, Prompt
from rlvr.verify.extract import extract

TEXTS = {name: row.text for name, row in TEMPLATES.items() if not row.chat}
HOSTILE = ("{problem}", "{}", "{0} %s %(a)s", r"\frac{1}{2}", "a</think>b", "<think>", "$problem")


def shown(template: str, problem: str = "37+48=") -> str:
    return render(template, Problem("1", problem, "85", "test")).text


def test_the_plain_template_is_the_problem_as_it_is() -> None:
    assert shown("plain") == "37+48="


def test_templates_ask_for_what_graders_and_format_rewards_look_for() -> None:
    assert r"\boxed{}" in shown("boxed")
    for name in ("think", "think_prefilled", "think_answer", "think_examples"):
        assert "<think>" in shown(name)
        assert "</think>" in shown(name)
    assert r"\boxed{}" in shown("think")
    assert extract("<think>a</think><answer>85</answer>").answer == "85"


def test_only_a_template_that_ends_with_the_tag_opens_the_thought() -> None:
    problem = Problem("1", "1+1=", "2", "test")
    assert [n for n in TEXTS if render(n, problem).opened] == ["think_prefilled"]
    assert render("{problem}\n<think>\n", problem).opened
    assert not render("<think>{problem}", problem).opened
    assert not Prompt("what does it do? <think>").opened, "a problem's text opens nothing"


def test_templates_that_ask_for_tags_are_known_by_the_template_s_own_text() -> None:
    asking = [n for n in TEXTS if render(n, Problem("1", "<think>", "", "test")).asks_for_tags]
    assert asking == ["think", "think_prefilled", "think_answer", "think_examples"]


@given(st.sampled_from(sorted(TEXTS)), st.text())
def test_a_problem_with_braces_or_any_other_text_is_shown_unchanged(name: str, text: str) -> None:
    for problem in (text, *HOSTILE):
        before, place, after = TEXTS[name].partition("{problem}")
        assert place
        assert shown(name, problem) == f"{before}{problem}{after}"


def test_worked_examples_are_right_and_not_held_out() -> None:
    signs: dict[str, Operation] = {"+": "sum", "-": "difference", "*": "product"}
    for asked, _, answer in EXAMPLES:
        sign = next(sign for sign in signs if sign in asked)
        operands = tuple(map(int, asked.removesuffix("=").split(sign)))
        question = Question(signs[sign], signs[sign], operands, asked)
        assert (str(question.answer), question.held_out) == (answer, False)
        assert f"Question: {asked}\nAnswer: \\boxed{{{answer}}}\n\n" in shown("examples")
    assert shown("examples").endswith("Question: 37+48=\nAnswer:")


def test_four_small_sums_before_the_question_are_right_and_not_held_out() -> None:
    assert shown("answers").startswith("Question: 7 + 5\nAnswer: 12\n\nQuestion: ")
    assert shown("answers").endswith("\n\nQuestion: 37+48=\nAnswer:")
    assert len(SMALL) == shown("answers").count("Answer: ") == 4
    signs: dict[str, Operation] = {"+": "sum", "-": "difference", "*": "product"}
    for asked, answer in SMALL:
        first, sign, second = asked.split()
        question = Question(signs[sign], signs[sign], (int(first), int(second)), asked)
        assert (str(question.answer), question.held_out) == (answer, False)


def test_bare_answers_are_doubted_where_only_marked_ones_are_read() -> None:
    assert "--reward.lenient true" in resolve({"template": "answers"}).doubts()[0]
    assert resolve({"template": "answers", "reward.lenient": True}).doubts() == []


def test_a_chat_template_without_a_model_is_refused_with_the_way_to_name_one() -> None:
    for name in sorted(TEMPLATES.keys() - TEXTS):
        assert resolve({"template": name}).template == name, "the model is named elsewhere"
        with pytest.raises(UsageError, match=f"rlvr templates {name} --model DIR"):
            shown(name)


def test_a_text_of_the_user_s_is_a_template() -> None:
    assert shown("Q: {problem}\nA: {x} 100% ") == "Q: 37+48=\nA: {x} 100% "


WRONG = [
    ("box", "Did you mean 'boxed'"),
    ("no such", "does not hold {problem}"),
    ("Q: {question}", "Write {problem} in the place of {question}"),
    ("Q: %s", "in the place of %s"),
    ("Q:\n", "never see the question"),
    ("Q: {problem} {problem}", "2 times"),
    ("Q: {{problem}}", "no brace is doubled"),
    ("{problem}\ud800", "half of a character pair"),
    ("", "the template is empty. Give a text that holds {problem}"),
    (" \n", "the template is empty"),
]


@pytest.mark.parametrize(("template", "says"), WRONG)
def test_a_template_that_can_not_work_is_refused_in_words(template: str, says: str) -> None:
    for refuse in (shown, lambda text: resolve({"template": text})):
        with pytest.raises(UsageError) as refused:
            refuse(template)
        assert says in str(refused.value)


def test_a_file_is_a_template_and_the_settings_hold_its_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Q: {problem}\nA:\n")
    assert resolve({"template": str(path)}).template == "Q: {problem}\nA:"
    path.write_text("Q: {problem}\nA:\n\n")
    assert resolved(str(path)) == "Q: {problem}\nA:\n", "one line end at the end is the file's"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"Q: {question}", "mine.txt: the template"),
        (b"\xff", "UTF-8"),
        (None, "no template file"),
        (b"", "mine.txt is empty. It must hold {problem}"),
        (b"\xef\xbb\xbf \n\n", "mine.txt is empty"),
    ],
)
def test_a_file_that_is_no_template_is_refused_with_its_name(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "mine.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        resolve({"template": str(path)})
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "text", ['a "{problem}"\n\tb\\n', "\x7f{problem}\u3000", "{problem}\U000e0001"]
)
def test_any_text_comes_back_from_the_settings_file_as_it_was(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(write_toml(resolve({"template": text})), encoding="utf-8")
    assert resolve(read_toml(path)).template == text


def test_a_backslash_and_an_n_are_doubted_and_latex_is_not() -> None:
    assert len(resolve({"template": r"{problem}\nAnswer:"}).doubts()) == 1
    assert resolve({"template": r"{problem} where $a \neq b$"}).doubts() == []

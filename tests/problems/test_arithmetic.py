"""The built-in problems: right answers, and a split that nothing crosses."""

import re
from hashlib import sha256
from random import Random

import pytest

from rlvr.abacus.corpus import Mix, document
from rlvr.errors import UsageError
from rlvr.problems.arithmetic import (
    HARD,
    NORMAL,
    RANGES,
    Question,
    Range,
    draw,
    held_out_problems,
    training_problem,
)
from rlvr.problems.sources import load_problems

Key = tuple[str, tuple[int, ...]]


def key_of(text: str) -> Key:
    """Operation and sorted operands, read from the words alone: a twin of the split's own key."""
    numbers = tuple(sorted(map(int, re.findall(r"\d+", text))))
    if "-" in text or re.search("gives|sells|loses", text):
        return "difference", numbers
    return ("product" if "*" in text or "each of" in text else "sum"), numbers


@pytest.mark.parametrize("span", [NORMAL, HARD])
def test_the_held_out_set_is_1000_different_problems_and_fixed(span: Range) -> None:
    problems = held_out_problems(span)
    assert len({problem.id for problem in problems}) == len(problems) == 1000
    assert problems is held_out_problems(span)


def test_the_first_held_out_problems_are_these() -> None:
    assert [problem.prompt for problem in held_out_problems(NORMAL)[:3]] == [
        "74*3=",
        "ann has 880 boxes and gives away 438. how many boxes?",
        "83+18+7=",
    ]


def test_answers_are_right() -> None:
    random = Random(0)
    for span in RANGES.values():
        for _ in range(2000):
            question = draw(random, span)
            operation, _ = key_of(question.text)
            first, *rest = map(int, re.findall(r"\d+", question.text))
            if operation == "sum":
                expected = first + sum(rest)
            elif operation == "difference":
                expected = first - rest[0]
            else:
                expected = first * rest[0]
            assert question.answer == expected >= 0, question


def test_all_forms_of_a_question_fall_on_the_same_side() -> None:
    random = Random(1)
    for _ in range(3000):
        question = draw(random, NORMAL)
        turned = Question("word", question.operation, question.operands[::-1], "in other words")
        assert question.held_out == turned.held_out


def test_about_one_in_ten_is_held_out_and_never_a_question_of_single_digits() -> None:
    random = Random(2)
    drawn = [draw(random, NORMAL) for _ in range(20_000)]
    longer = [question for question in drawn if question.digits > 1]
    assert 0.08 < sum(question.held_out for question in longer) / len(longer) < 0.12
    assert not any(question.held_out for question in drawn if question.digits == 1)


def test_no_held_out_problem_occurs_in_any_form_in_training() -> None:
    held_out = {
        key_of(problem.prompt) for span in RANGES.values() for problem in held_out_problems(span)
    }
    for span in RANGES.values():
        trained = {
            key_of(training_problem(span, seed, i).prompt) for seed in (0, 1) for i in range(8000)
        }
        assert not trained & held_out


def test_no_held_out_problem_occurs_in_any_form_in_the_pretraining_corpus() -> None:
    """Neither as a question nor anywhere inside a worked answer."""
    held_out = {
        key_of(problem.prompt) for span in RANGES.values() for problem in held_out_problems(span)
    }
    random, mix = Random(3), Mix(thinks=0.6, sloppy=0.2, slips=0.1, hard=0.2)
    seen = set()
    for _ in range(20_000):
        prompt, response = document(random, mix)
        seen.add(key_of(prompt))
        expressions = re.findall(r"\d+(?:[-+*]\d+)+", prompt + " " + response)
        seen |= {key_of(expression) for expression in expressions}
    assert len(seen) > 10_000
    assert not seen & held_out


@pytest.mark.parametrize(
    ("name", "digits", "kinds"),
    [
        ("arithmetic?digits=2", {1, 2}, {kind for kind, _ in NORMAL.kinds}),
        ("arithmetic?digits=2&kinds=product", {2}, {"product"}),
        ("arithmetic?kinds=sum,word", {1, 2, 3}, {"sum", "word"}),
        ("arithmetic-hard?digits=3-4&kinds=more_terms", {3, 4}, {"more_terms"}),
    ],
)
def test_lengths_and_kinds_can_be_chosen_and_the_split_holds(
    name: str, digits: set[int], kinds: set[str]
) -> None:
    source = load_problems(name)
    training = source.take(0, 0, 2000)
    assert {problem.subject for problem in [*training, *source.held_out]} == kinds
    assert {problem.level for problem in training} <= digits
    apart = {
        key_of(problem.prompt) for span in RANGES.values() for problem in held_out_problems(span)
    }
    apart |= {key_of(problem.prompt) for problem in source.held_out}
    assert 2 <= len(source.held_out) <= 1000
    assert not apart & {key_of(problem.prompt) for problem in training}


def test_the_streams_of_the_whole_ranges_are_those_of_the_first_version() -> None:
    digest = sha256()
    for name, span in RANGES.items():
        source = load_problems(name)
        for problem in [*source.held_out, *source.take(0, 0, 1000), *source.take(7, 500, 500)]:
            digest.update(f"{problem.id}={problem.answer}\n".encode())
        assert source.held_out == held_out_problems(span)
    assert digest.hexdigest()[:16] == "9200de0033d9d69b"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("arithmetic?digits=1", "never held out"),
        ("arithmetic?digits=0", "from 1 to 9"),
        ("arithmetic?digits=10", "from 1 to 9"),
        ("arithmetic?kinds=sums", "Did you mean 'sum'"),
        ("arithmetic-hard?kinds=word", "Known: difference, more_terms, product, sum"),
        ("arithmetic?level=2", "Known: digits, kinds"),
        ("arithmetic:file.jsonl", "takes no file"),
    ],
)
def test_what_can_not_be_chosen_is_refused_in_words(name: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_problems(name)
    assert says in str(refused.value)


def test_the_training_stream_is_a_function_of_seed_and_number() -> None:
    assert training_problem(NORMAL, 5, 77) == training_problem(NORMAL, 5, 77)
    assert [training_problem(NORMAL, 5, i) for i in range(20)] != [
        training_problem(NORMAL, 6, i) for i in range(20)
    ]


def test_every_kind_and_level_comes_up() -> None:
    for span in RANGES.values():
        drawn = [training_problem(span, 0, i) for i in range(1000)]
        assert {problem.subject for problem in drawn} == {kind for kind, _ in span.kinds}
        assert {digits for digits, _ in span.digits} <= {problem.level for problem in drawn}

"""Tasks of reasoning-gym: streams that never meet, scorers that are their own and run nothing."""

import inspect
import json
import sys

import pytest

from rlvr.errors import UsageError
from rlvr.problems import gym, scorers
from rlvr.problems.names import parse_name
from rlvr.problems.sources import load_problems

CHAIN = "gym:chain_sum?min_terms=2&max_terms=3"


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", None)
    with pytest.raises(UsageError, match=r"pip install 'rlvr\[gym\]'"):
        load_problems("gym:chain_sum")


@pytest.mark.parametrize("task", gym.REFUSED)
def test_tasks_whose_scorers_run_answers_or_hang_or_take_anything_are_refused(task: str) -> None:
    with pytest.raises(UsageError, match=f"gym:{task} is not offered: it"):
        load_problems(f"gym:{task}")


def test_any_entry_comes_back_from_json_as_it_was() -> None:
    entry = {"a": (1, ["x", (2.5, None)]), "b": {(0, 1): "c", 3: {"d": True}}, "e": {}}
    assert gym._decoded(json.loads(json.dumps(gym._encoded(entry)))) == entry


def test_an_unknown_task_or_option_and_a_wrong_value_are_refused_in_words() -> None:
    pytest.importorskip("reasoning_gym")
    for name, says in (
        ("gym", "gym takes a task, such as gym:chain_sum. There are: ab, acre"),
        ("gym:chain_sums", "Did you mean 'chain_sum'"),
        ("gym:chain_sum?min_term=2", "Did you mean 'min_terms'"),
        ("gym:chain_sum?seed=2", "unknown option 'seed'"),
        ("gym:chain_sum?min_terms=two", "min_terms is 'two'; it takes a value such as 2"),
        ("gym:chain_sum?allow_negation=1", "such as false"),
        ("gym:chain_sum?min_terms=5&max_terms=3", "Change the options"),
        ("gym:chain_sum?held_out=all", "it takes whole numbers from 2 to 10000"),
    ):
        with pytest.raises(UsageError) as refused:
            load_problems(name)
        assert says in str(refused.value)


def test_questions_are_the_task_s_own_with_its_parameters() -> None:
    pytest.importorskip("reasoning_gym")
    source = load_problems(CHAIN)
    for problem in [*source.take(3, 0, 100), *source.held_out]:
        numbers = json.loads(problem.entry)["metadata"]["expression"].replace("-", "+").split("+")
        assert 2 <= len(numbers) <= 3
        assert problem.scorer == CHAIN
        assert problem.subject == "chain_sum"


def test_the_stream_is_a_function_of_seed_and_number_in_any_order() -> None:
    pytest.importorskip("reasoning_gym")
    source = load_problems(CHAIN)
    forwards = source.take(3, 0, 600)
    assert [source.training(3, index) for index in reversed(range(600))] == forwards[::-1]
    assert source.take(4, 0, 20) != forwards[:20]


def test_held_out_questions_are_different_fixed_and_never_trained_on() -> None:
    pytest.importorskip("reasoning_gym")
    few = "gym:chain_sum?min_terms=2&max_terms=2&min_digits=1&max_digits=1&held_out=50"
    for name, count in ((CHAIN, 200), (few, 50)):
        source = load_problems(name)
        held_out = {problem.prompt for problem in source.held_out}
        assert len(held_out) == len(source.held_out) == count
        trained = {problem.prompt for problem in source.take(0, 0, 1000)}
        assert trained
        assert not trained & held_out


def test_a_task_with_few_questions_keeps_some_of_them_for_training() -> None:
    pytest.importorskip("reasoning_gym")
    source = load_problems("gym:chain_sum?min_terms=2&max_terms=2&min_digits=1&max_digits=1")
    assert len(source.held_out) < 200
    trained = {problem.prompt for problem in source.take(0, 0, 500)}
    assert len(trained) > 20
    assert not trained & {problem.prompt for problem in source.held_out}


def test_the_task_s_own_scorer_scores() -> None:
    pytest.importorskip("reasoning_gym")
    problem = load_problems(CHAIN).training(0, 0)
    assert gym.score(problem, f" {problem.answer} ") == 1
    assert gym.score(problem, f"{problem.answer}0") < 1
    assert gym.score(problem, "x" * 20_000) == 0
    assert scorers.score(problem, problem.answer) == (1, f"{CHAIN} gives 1")


def test_an_answer_that_makes_a_scorer_raise_is_wrong_and_a_broken_scorer_is_our_fault() -> None:
    pytest.importorskip("reasoning_gym")
    text = "gym:prime_factorization"
    problem = load_problems(text + "?held_out=5").training(0, 0)
    assert gym.score(problem, "no number") == 0
    broken = json.loads(problem.entry)
    del broken["answer"]
    entry = json.dumps(broken)
    with pytest.raises(KeyError):
        gym.score(type(problem)("1", "?", problem.answer, "", scorer=text, entry=entry), "2")


SLOW = ("knight_swap", "futoshiki", "zebra_puzzles", "intermediate_integration", "quantum_lock")


def test_every_task_gives_questions_whose_reference_gets_the_full_score_if_it_has_one() -> None:
    pytest.importorskip("reasoning_gym")
    without = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
    for task in gym.tasks():
        if task not in SLOW:
            problem = gym._drawn(f"gym:{task}", "test", 0)
            assert (gym.score(problem, problem.answer) == 1) == (task not in without), task


def test_no_scorer_that_is_offered_runs_its_answer() -> None:
    factory = pytest.importorskip("reasoning_gym.factory")
    for task in gym.tasks():
        code = inspect.getsource(factory.DATASETS[task][0].score_answer)
        for call in (" eval(", "(eval(", "parse_expr(", "exec(", "sympify(", "Fraction(answer"):
            own = code.replace('eval(entry["answer"])', "")
            assert call not in own, f"{task} calls {call}"


def test_names_of_tasks_are_parsed_as_all_names() -> None:
    assert parse_name(CHAIN, ("gym",)).rest == "chain_sum"

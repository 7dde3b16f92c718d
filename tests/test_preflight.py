"""What is said before the first step and on the way, and what is not: BC-57, tags never sampled."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from plain import hidden_states, logits_of

from rlvr.config import resolve
from rlvr.model.added import grown
from rlvr.model.tokens import with_tokens
from rlvr.model.weights import Model, load_model
from rlvr.observe.evaluate import Accuracy, Evaluated
from rlvr.observe.metrics import Values
from rlvr.preflight import all_cut, cut_answers, tag_probability, unseen_tags
from rlvr.records import CLOSE, OPEN, Problem, Prompt, Sampling

PROBLEMS = [Problem(str(n), f"{n}+1=", str(n + 1), "test") for n in range(20)]
SAMPLING = Sampling(temperature=0.7, banned=(3,))


@pytest.fixture
def model(tagless_folder: Callable[..., Path]) -> Model:
    """Tags are tokens of it, and its context is long enough for every template."""
    model = load_model(tagless_folder(positions=512))
    return grown(model, with_tokens(model.tokens, (OPEN, CLOSE)))


def evaluated(*, thinks: float = 0.0, truncated: float = 0.0, mode: str = "sampled") -> Evaluated:
    share = Accuracy(0.0, 0.0, 0.1, 10)
    return Evaluated("test", mode, 1, share, {}, thinks, 5.0, truncated, None, None, ())


def warning(
    model: Model, template: str = "think", *, thinks: float = 0.0, never: bool = True, size: int = 8
) -> str:
    config = resolve({"template": template, "rollouts.group_size": size})
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
    banned = (model.tokens.id_of(OPEN),) if never else ()
    sampling, results = Sampling(banned=banned), [evaluated(thinks=thinks)]
    return unseen_tags(config, weights, model.tokens, sampling, PROBLEMS, results)


@pytest.mark.parametrize("tagged", [True, False])
def test_the_probability_of_the_tag_is_the_product_over_its_pieces(
    model: Model, tagless_folder: Callable[..., Path], tagged: bool
) -> None:
    model = model if tagged else load_model(tagless_folder())
    prompts, by_the_book = [Prompt("1+1="), Prompt("the answer")], []
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
        for prompt in prompts:
            ids, probability = model.tokens.encode(prompt.text), 1.0
            for piece in model.tokens.encode(OPEN):
                logits = logits_of(weights, hidden_states(weights, torch.tensor([ids])))[0, -1]
                logits[3] = -math.inf
                probability *= float((logits / 0.7).softmax(dim=-1)[piece])
                ids = [*ids, piece]
            by_the_book.append(probability)
    found = tag_probability(weights, model.tokens, prompts, SAMPLING)
    assert found == pytest.approx(sum(by_the_book) / 2, rel=1e-4)


def test_a_tag_that_will_not_be_sampled_is_said_with_the_number_and_what_to_do(
    model: Model,
) -> None:
    assert "about 0.2" in warning(model, never=False)
    assert warning(model, never=False, size=64) == "", "once is enough to begin with"
    found = warning(model)
    assert "with probability 0 " in found
    assert "of the 768 answers of the first 3 steps about" in found
    assert "think_prefilled" in found
    assert "mean of 16 prompts" in found


def test_nothing_is_said_of_tags_that_are_not_asked_for_or_given_or_seen(model: Model) -> None:
    for template in ("plain", "boxed", "examples", "think_prefilled"):
        assert warning(model, template) == ""
    assert warning(model, thinks=0.01) == ""
    assert warning(model, "think_examples") != ""


def test_many_cut_answers_before_the_first_step_are_said() -> None:
    assert cut_answers([evaluated(truncated=0.1)], 16) == ""
    found = cut_answers([evaluated(truncated=0.9, mode="greedy"), evaluated(truncated=0.32)], 16)
    assert found.startswith("32% of the answers")
    assert "such as 32" in found


def test_a_step_of_cut_answers_without_a_right_one_is_an_alarm() -> None:
    step: Values = {"step": 3, "length/truncated": 0.95, "reward/correct": 0.0}
    assert all_cut(step, 16).startswith("step 3: 95% of the answers were cut")
    others: list[Values] = [
        {"length/truncated": 0.5},
        {"reward/correct": 0.01},
        {"length/truncated": None},
    ]
    assert [all_cut(step | other, 16) for other in others] == ["", "", ""]


def test_a_tag_that_has_no_room_behind_the_prompt_has_no_probability(model: Model) -> None:
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
    assert tag_probability(weights, model.tokens, [Prompt("12=" * 512)], Sampling()) == 0

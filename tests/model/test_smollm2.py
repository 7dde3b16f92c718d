"""A real model: SmolLM2-135M, where `make smollm2` has put it."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from rlvr.model.weights import Model, load_model, save_model
from rlvr.records import Sampling
from rlvr.rollout.engine import Draws, sample_rows

FOLDER = Path(__file__).parents[2] / "models/smollm2-135m-instruct"
QUESTIONS = ("What is the capital of France?", "Name three colours of the rainbow.", "7 + 5 =")
LENGTH = 32

pytestmark = pytest.mark.skipif(
    not (FOLDER / "model.safetensors").is_file(), reason="make smollm2 makes the model"
)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(FOLDER)


@pytest.fixture(scope="module")
def theirs() -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


def prompts(model: Model) -> list[list[int]]:
    chat = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    return [model.tokens.encode(chat.format(question)) for question in QUESTIONS]


def greedy(model: Model, given: Sequence[Sequence[int]]) -> list[str]:
    """Answers to prompts of different lengths in one batch."""
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
    sampling = Sampling(temperature=0, max_new_tokens=LENGTH)
    keys, stop = list(range(len(given))), model.tokens.stop_ids
    answers = sample_rows(weights, given, keys, 1, sampling, Draws(0, 0), stop)
    rows = zip(answers.tokens.tolist(), answers.lengths.tolist(), strict=True)
    return [model.tokens.decode(row[:length]) for row, length in rows]


@torch.no_grad()
def test_greedy_answers_equal_those_of_transformers(model: Model, theirs: Any) -> None:
    given = prompts(model)
    expected = []
    for prompt in given:
        row = theirs.generate(
            torch.tensor([prompt]), max_new_tokens=LENGTH, do_sample=False, pad_token_id=0
        )
        expected.append(model.tokens.decode(row[0, len(prompt) :].tolist()))
    assert greedy(model, given) == expected
    assert "Paris" in expected[0]


def test_what_is_saved_of_it_answers_the_same_and_loads_in_transformers(
    model: Model, theirs: Any, tmp_path: Path
) -> None:
    save_model(model, tmp_path, torch.bfloat16)
    assert greedy(load_model(tmp_path), prompts(model)) == greedy(model, prompts(model))
    again = type(theirs).from_pretrained(tmp_path, dtype=torch.float32)
    pairs = zip(again.state_dict().values(), theirs.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    shutil.rmtree(tmp_path)

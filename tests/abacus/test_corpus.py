"""The made-up text: worked answers are what they claim to be."""

from random import Random

import pytest

from rlvr.abacus.corpus import Mix, Worker, document
from rlvr.abacus.vocabulary import build_tokenizer
from rlvr.problems.arithmetic import HARD, NORMAL, draw


def worker(**changes: object) -> Worker:
    settings: dict[str, object] = {"slips": 0.0, "noticed": 0.0, "careful": True} | changes
    return Worker(Random(0), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operation", "operands", "steps", "value"),
    [
        ("add", (970, 583), "0+3+0=3 7+8+0=15 9+5+1=15", 1553),
        ("add", (98, 7), "8+7+0=15 9+1=10", 105),
        ("add", (9, 99, 1), "9+9+1+0=19 9+1=10", 109),
        ("subtract", (523, 68), "3-8-0=5; 2-6-1=5; 5-0-1=4", 455),
        ("multiply", (348, 7), "8*7+0=56 4*7+5=33 3*7+3=24", 2436),
    ],
)
def test_worked_answers_by_hand(
    operation: str, operands: tuple[int, ...], steps: str, value: int
) -> None:
    assert getattr(worker(), operation)(operands) == (steps, value)


def test_careful_work_without_slips_is_always_right() -> None:
    random, careful = Random(0), worker()
    for span in (NORMAL, HARD):
        for _ in range(2000):
            question = draw(random, span)
            assert careful.work(question)[1] == question.answer, question


def test_sloppy_work_forgets_carries() -> None:
    assert worker(careful=False).add((970, 583)) == ("0+3+0=3 7+8+0=15 9+5+0=14", 1453)


def test_a_noticed_slip_is_put_right_and_an_unnoticed_one_is_not() -> None:
    text, value = worker(slips=1.0, noticed=1.0).add((2, 3))
    assert "wait 2+3+0=5" in text
    assert value == 5
    text, value = worker(slips=1.0).add((2, 3))
    assert "wait" not in text
    assert value != 5


def test_a_mix_has_the_shares_it_names() -> None:
    random, mix = Random(0), Mix(thinks=0.15, sloppy=0.4, slips=0.08)
    answers = [document(random, mix)[1] for _ in range(4000)]
    assert 0.13 < sum("<think>" in answer for answer in answers) / len(answers) < 0.17


def test_every_document_is_made_of_known_tokens_and_decodes_to_itself() -> None:
    tokenizer, random = build_tokenizer(), Random(0)
    unknown = tokenizer.token_to_id("<unknown>")
    for _ in range(1000):
        text = "".join(document(random, Mix(thinks=0.5, sloppy=0.3, slips=0.1)))
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert unknown not in ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_think_tags_and_the_end_are_single_tokens() -> None:
    tokenizer = build_tokenizer()
    for tag in ("<think>", "</think>", "<end>", "\\boxed{"):
        assert len(tokenizer.encode(tag, add_special_tokens=False).ids) == 1

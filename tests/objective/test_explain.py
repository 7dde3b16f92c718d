"""A variant in words: the formula says what the slots say."""

from dataclasses import fields, replace
from typing import get_args

import pytest

from rlvr.objective import explain, loss
from rlvr.objective.correction import CORRECTIONS
from rlvr.objective.divergence import KL_LOSSES
from rlvr.objective.explain import brief, formulas, slots
from rlvr.objective.slots import Advantage, Correction, Kl, Level, Surrogate, Variant, Weighting
from rlvr.objective.surrogates import LEVELS
from rlvr.objective.variants import VARIANTS
from rlvr.objective.weightings import WEIGHTINGS


def text(row: Variant) -> str:
    return "\n".join(f"{label} {line}" for label, line in formulas(row))


def test_every_choice_of_every_slot_has_a_function_and_words() -> None:
    assert set(get_args(Advantage)) == set(loss.ADVANTAGES) == set(explain.ADVANTAGES)
    assert set(get_args(Surrogate)) == set(loss.SURROGATES) == set(explain.SURROGATES)
    assert set(get_args(Level)) == set(LEVELS) == set(explain.LEVELS)
    assert set(get_args(Weighting)) == set(WEIGHTINGS) == set(explain.WEIGHTINGS)
    assert set(get_args(Kl)) - {"none", "reward"} == set(KL_LOSSES) == set(explain.KLS)
    assert set(get_args(Correction)) - {"none"} == set(CORRECTIONS) == set(explain.CORRECTIONS)
    assert set(loss.CUTS) <= set(loss.SURROGATES)


@pytest.mark.parametrize("name", list(VARIANTS))
def test_every_row_is_explained_with_its_numbers(name: str) -> None:
    row = VARIANTS[name]
    said = text(row)
    assert explain.ADVANTAGES[row.advantage] in said
    assert "{" not in said
    if row.surrogate == "clip":
        assert f"clip(r, {1 - row.clip_low:g}, {1 + row.clip_high:g})" in said
    if row.kl_coefficient:
        assert f"{row.kl_coefficient:g}" in said
    assert len(brief(row)) == 4


def test_what_is_switched_on_is_said() -> None:
    row = replace(
        VARIANTS["grpo"], dual_clip=3.0, ratio_cap=50.0, entropy="bonus", entropy_coefficient=0.01,
        correction="band", importance_floor=0.5, importance_cap=5.0, tokens="top_entropy",
        off_policy_mask=0.5, keep_sampling_mask=True, kl_target=0.02, reference_every_steps=400,
        epochs=2, mini_batches=4, pass_rate_most=0.9, overlong="mask",
    )  # fmt: skip
    said = text(row)
    for words in (
        "at most 3 |A|", "at most 50", "0.01 * entropy", "outside 0.5 to 5", "highest entropy",
        "0.5 nats a token", "had left", "adapts to 0.02", "every 400 steps",
        "2 passes of 4 optimizer steps", "in 90% of their answers", "is left out",
    ):  # fmt: skip
        assert words in said, words


def test_slots_name_every_field_and_mark_those_that_differ() -> None:
    found = list(slots(VARIANTS["dapo"]))
    assert {name for name, _, _ in found} == {item.name for item in fields(Variant)} - {
        "source",
        "differs",
    }
    assert {name for name, _, differs in found if differs} == {
        "advantage",
        "clip_high",
        "groups",
        "overlong",
    }

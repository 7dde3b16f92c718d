"""The clip by hand, and what every variant promises."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlvr.errors import UsageError
from rlvr.objective import divergence
from rlvr.objective.advantages import centred
from rlvr.objective.loss import (
    ADVANTAGES,
    Controls,
    Outcomes,
    Terms,
    advantages_of,
    chosen_tokens,
    per_token_loss,
    weights_of,
)
from rlvr.objective.slots import Variant, doubts
from rlvr.objective.surrogates import clip_parts, clipped
from rlvr.objective.variants import VARIANTS, variant
from rlvr.objective.weightings import WEIGHTINGS


def test_clipping_stops_only_moves_that_went_far_enough() -> None:
    by_hand = [(1, 1.5, -1.28), (1, 0.5, -0.5), (-1, 0.5, 0.8), (-1, 1.5, 1.5)]
    for advantage, ratio, expected in by_hand:
        new, old, mask = torch.tensor([[ratio]]).log(), torch.zeros(1, 1), torch.tensor([[True]])
        loss = clipped(new, old, torch.tensor([[1.0 * advantage]]), mask, low=0.2, high=0.28)
        assert abs(loss.item() - expected) < 1e-6


def test_clip_parts_count_only_gradients_that_are_really_cut() -> None:
    by_hand = [(1, 1.5, (0, 1)), (1, 0.5, (0, 0)), (-1, 0.5, (1, 0)), (-1, 1.5, (0, 0))]
    for advantage, ratio, expected in by_hand:
        new, old, mask = torch.tensor([[ratio]]).log(), torch.zeros(1, 1), torch.tensor([[True]])
        parts = clip_parts(new, old, torch.tensor([[1.0 * advantage]]), mask, low=0.2, high=0.28)
        assert tuple(int(part) for part in parts) == expected


@pytest.mark.parametrize("bound", [{"dual": 3.0}, {"most": 3.0}])
@pytest.mark.parametrize("ratio", [2.0, 4.0])
def test_a_bound_on_the_negative_side_counts_where_it_cuts_the_gradient(
    bound: dict[str, float], ratio: float
) -> None:
    """BC-45."""
    new = torch.tensor([[ratio]]).log().requires_grad_()
    rest = (torch.zeros(1, 1), torch.tensor([[-1.0]]), torch.tensor([[True]]))
    dual, most = bound.get("dual"), bound.get("most")
    loss = clipped(new, *rest, low=0.2, high=0.28, dual=dual, most=most)
    (slope,) = torch.autograd.grad(loss.sum(), new)
    low, high = clip_parts(new.detach(), *rest, low=0.2, high=0.28, dual=dual, most=most)
    assert (int(low), int(high)) == (0, int(ratio > 3))
    assert bool(slope == 0) == (ratio > 3)


Case = dict[str, Tensor]

WIDTH = 5
DETACHED = ("advantages", "mask", "corrected", "chosen")


def case(rows: int = 4, width: int = WIDTH, spread: float = 2.0) -> Case:
    """Log-probabilities far enough apart that every bound acts on some token."""
    generator = torch.Generator().manual_seed(rows * 100 + width)
    lengths = torch.randint(1, width + 1, (rows, 1), generator=generator)
    tensors = {
        name: -torch.rand(rows, width, generator=generator) * spread
        for name in ("logprobs", "old_logprobs", "sampler_logprobs", "ref_logprobs")
    }
    return tensors | {
        "entropies": torch.rand(rows, width, generator=generator),
        "advantages": torch.randn(rows, 1, generator=generator),
        "mask": torch.arange(width)[None] < lengths,
        "corrected": torch.tensor([[True], [False]] * (rows // 2)),
    }


def step_gradient(row: Variant, t: Case, parts: list[list[int]] | None = None) -> Tensor:
    """Of the whole step's loss to the log-probabilities, in the given micro-batches."""
    lp = t["logprobs"].clone().requires_grad_()
    groups, rows = torch.arange(len(lp)) // 2, len(lp)
    weight = weights_of(row, t["mask"], groups, rows, 7)
    clean = torch.where(t["mask"], t["old_logprobs"], 0.0)
    chance = torch.linspace(0, 0.9, WIDTH).expand(rows, -1)
    chance = torch.nn.functional.pad(chance, (0, lp.shape[1] - WIDTH))
    chosen = chosen_tokens(row, clean, t["entropies"], t["advantages"], t["mask"], chance)
    for index in parts or [list(range(rows))]:
        part = {name: value[index] for name, value in (t | {"logprobs": lp}).items()}
        picked = chosen[index] if chosen is not None else None
        terms = Terms(**part, chosen=picked)
        loss = per_token_loss(row, terms, Controls.of(row), bonus=row.entropy_coefficient)
        (loss * weight[index]).sum().backward()
    assert lp.grad is not None
    return lp.grad


KINDS = {
    **VARIANTS,
    "vespo": Variant(surrogate="vespo"),
    "gmpo": Variant(surrogate="gmpo", weighting="sequence"),
    "dcpo": Variant(surrogate="dcpo"),
    "tv_ratio": Variant(surrogate="tv_ratio", clip_high=0.1),
    "dual": Variant(dual_clip=3.0, ratio_cap=10.0),
    "gspo_token": Variant(level="sequence_token", clip_high=0.1, weighting="sequence"),
    "delta_l": Variant(weighting="delta_l"),
    "masked": Variant(correction="masked", importance_cap=1.5),
    "icepop": Variant(correction="band", importance_floor=0.5, importance_cap=5.0),
    "rejected": Variant(
        correction="keep_band", correction_level="sequence", importance_floor=0.9,
        importance_cap=1.1,
    ),
    "off_policy_mask": Variant(off_policy_mask=0.01),
    "top_entropy": Variant(tokens="top_entropy"),
    "clip_cov": Variant(tokens="clip_cov"),
    "kl_cov": Variant(tokens="kl_cov"),
    "k2": Variant(kl="k2", kl_coefficient=0.1),
    "k3_plus": Variant(kl="k3_plus", kl_coefficient=0.1),
    "unbiased": Variant(kl="unbiased", kl_coefficient=0.1),
}  # fmt: skip
each_variant = pytest.mark.parametrize("row", KINDS.values(), ids=KINDS.keys())


@each_variant
def test_the_settings_of_each_kind_act_on_the_case(row: Variant) -> None:
    """Or the properties below would hold of nothing."""
    assert step_gradient(row, case()).abs().max() > 1e-4 or row is VARIANTS["gspo"]


@each_variant
def test_masked_tokens_are_invisible_even_as_nan_and_infinity(row: Variant) -> None:
    clean = case()
    expected = step_gradient(row, clean)
    for poison in (float("nan"), float("inf"), -float("inf"), 1e30):
        dirty = {
            name: value if name in DETACHED else value.masked_fill(~clean["mask"], poison)
            for name, value in clean.items()
        }
        found = step_gradient(row, dirty)
        assert torch.equal(found[clean["mask"]], expected[clean["mask"]]), poison
        assert not found[~clean["mask"]].any()


@each_variant
def test_on_policy_the_gradient_is_minus_advantage_times_weight(row: Variant) -> None:
    if row.tokens != "all":
        row = replace(row, tokens="all")
    t = case()
    t["old_logprobs"] = t["sampler_logprobs"] = t["ref_logprobs"] = t["logprobs"]
    weight = weights_of(row, t["mask"], torch.arange(4) // 2, 4, 7)
    expected = -t["advantages"] * weight
    if row.level == "answer":  # one action: the answer's advantage once, on each of its tokens
        expected = expected * t["mask"].sum(dim=1, keepdim=True)
    assert torch.allclose(step_gradient(row, t), expected, atol=1e-6)


@each_variant
def test_any_micro_batches_add_up_to_the_same_gradient(row: Variant) -> None:
    t = case()
    whole = step_gradient(row, t)
    for parts in ([[0], [1], [2], [3]], [[3, 0], [1, 2]], [[2], [0, 1, 3]]):
        assert torch.allclose(step_gradient(row, t, parts), whole, atol=1e-7), parts


@pytest.mark.parametrize(
    "row", [row for row in KINDS.values() if row.tokens != "clip_cov"]
)  # whose draws are by position
def test_where_an_answer_stands_in_its_row_changes_no_gradient(row: Variant) -> None:
    """As after packing: answers moved right behind tokens of no concern."""
    t = case()
    moved = {
        name: value
        if name in ("advantages", "corrected")
        else torch.nn.functional.pad(value, (4, 0))
        for name, value in t.items()
    }
    assert torch.allclose(step_gradient(row, moved)[:, 4:], step_gradient(row, t), atol=1e-7)


@each_variant
def test_padding_and_order_change_no_gradient(row: Variant) -> None:
    t = case()
    expected = step_gradient(row, t)
    order = torch.tensor([2, 3, 0, 1])  # groups stay side by side
    moved = step_gradient(row, {name: value[order] for name, value in t.items()})
    assert torch.allclose(moved, expected[order], atol=1e-7)
    wider = {
        name: value
        if name in ("advantages", "corrected")
        else torch.nn.functional.pad(value, (0, 3))
        for name, value in t.items()
    }
    assert torch.allclose(step_gradient(row, wider)[:, :5], expected, atol=1e-7)


@each_variant
def test_no_argument_is_written_to(row: Variant) -> None:
    t = case()
    before = {name: value.clone() for name, value in t.items()}
    step_gradient(row, t)
    assert all(torch.equal(t[name], before[name]) for name in t)


@pytest.mark.parametrize("name", list(WEIGHTINGS))
def test_a_mask_without_tokens_gives_zeros(name: str) -> None:
    weight = WEIGHTINGS[name](
        torch.zeros(3, 4, dtype=torch.bool), torch.tensor([0, 0, 1]), 3, 4, torch.float32
    )
    assert torch.equal(weight, torch.zeros(3, 4))


def test_the_budget_divides_by_a_constant_whatever_the_lengths_and_the_padding() -> None:
    short, long = torch.ones(2, 1, dtype=torch.bool), torch.ones(2, 6, dtype=torch.bool)
    groups = torch.tensor([0, 0])
    for mask in (short, long):
        assert (WEIGHTINGS["budget"](mask, groups, 2, 8, torch.float32) == 1 / 16).all()


def outcomes(rewards: Tensor, scored: Tensor) -> Outcomes:
    lengths = torch.tensor([[3, 1, 2, 5], [2, 2, 4, 1]])
    parts = torch.stack([rewards, 1 - rewards], dim=-1)
    return Outcomes(rewards, scored, lengths, parts, torch.tensor([1.0, 0.5]))


@pytest.mark.parametrize("name", list(ADVANTAGES))
@given(
    rewards=st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=8, max_size=8),
    scored=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_rollouts_without_a_score_change_nothing_and_get_0(
    name: Any, rewards: list[float], scored: list[bool]
) -> None:
    reward, keep = torch.tensor(rewards).view(2, 4), torch.tensor(scored).view(2, 4)
    row = Variant(advantage=name)
    found = advantages_of(row, outcomes(reward, keep))
    assert found.isfinite().all()
    assert not found[~keep].any()
    other = advantages_of(row, outcomes(reward.masked_fill(~keep, 99.0), keep))
    assert torch.equal(found, other)


CENTRED = ["centred", "zscore", "rloo", "raw_std", "batch_std", "maxrl", "f_grpo", "beta", "gpg"]


@pytest.mark.parametrize("name", CENTRED)
@given(
    rewards=st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=8, max_size=8),
    scored=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_advantages_of_a_group_sum_to_0(
    name: Any, rewards: list[float], scored: list[bool]
) -> None:
    reward, keep = torch.tensor(rewards).view(2, 4), torch.tensor(scored).view(2, 4)
    found = advantages_of(Variant(advantage=name), outcomes(reward, keep))[..., 0]
    size = found.abs().amax(dim=1).clamp(min=1)
    assert torch.allclose(found.sum(dim=1) / size, torch.zeros(2), atol=1e-4)


@pytest.mark.parametrize("name", sorted(set(ADVANTAGES) - {"raw", "batch_centred", "whitened"}))
def test_a_group_of_equal_rewards_gets_exactly_0(name: Any) -> None:
    reward = torch.tensor([[0.3, 0.3, 0.3, 0.3], [0.1 * 3, 0.1 * 3, 0.1 * 3, 0.1 * 3]])
    seen = replace(
        outcomes(reward, torch.ones(2, 4, dtype=torch.bool)),
        parts=reward[..., None] * torch.ones(2),
    )
    assert not advantages_of(Variant(advantage=name), seen).any()


@pytest.mark.parametrize("name", ["zscore", "raw_std", "batch_std"])
def test_two_groups_of_different_spread_get_the_scale_that_the_name_says(name: Any) -> None:
    """BC-30: exact numbers, so that no two modes can be swapped."""
    reward = torch.tensor([[1.0, 0.0, 0.0, 1.0], [4.0, 0.0, 0.0, 4.0]], dtype=torch.float64)
    found = advantages_of(
        Variant(advantage=name), outcomes(reward, torch.ones(2, 4, dtype=torch.bool))
    )[:, 0, 0]
    by_hand = {
        "zscore": [0.5 / (math.sqrt(1 / 3) + 1e-4), 2 / (math.sqrt(16 / 3) + 1e-4)],
        "batch_std": [0.5 / (math.sqrt(17 / 8) + 1e-8), 2 / (math.sqrt(17 / 8) + 1e-8)],
        "raw_std": [
            0.5 / (math.sqrt((34 - 100 / 8) / 7) + 1e-4),
            2 / (math.sqrt((34 - 100 / 8) / 7) + 1e-4),
        ],
    }
    assert found.tolist() == pytest.approx(by_hand[name], rel=1e-9)


def test_a_cost_per_token_is_taken_off_what_is_still_to_come() -> None:
    """REINFORCE++: the return of a token holds the penalties from it on, not those before."""
    costs = torch.zeros(1, 2, 3)
    costs[0, 0] = torch.tensor([0.1, 0.2, 0.4])
    seen = Outcomes(
        torch.tensor([[1.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool), torch.tensor([[3, 2]]),
        torch.zeros(1, 2, 0), torch.zeros(0), costs,
    )  # fmt: skip
    assert torch.allclose(seen.returns[0, 0], torch.tensor([0.3, 0.4, 0.6]))
    assert torch.allclose(seen.total, torch.tensor([[0.3, 0.0]]))
    assert seen.tokens[0].tolist() == [[True, True, True], [True, True, False]]
    found = advantages_of(Variant(advantage="whitened"), seen)
    assert found[0, 0, 2] > found[0, 0, 0] > found[0, 1, 0]
    assert not found[0, 1, 2]


def test_float_noise_is_no_signal() -> None:
    rewards = torch.full((1, 8), 0.1) * 3
    assert not centred(rewards, torch.ones(1, 8, dtype=torch.bool)).any()


@pytest.mark.parametrize("far", [80.0, -80.0])
@pytest.mark.parametrize("name", ["k2", "k3", "unbiased"])
def test_a_reference_80_nats_away_gives_finite_numbers(name: str, far: float) -> None:
    lp = torch.zeros(1, 1, requires_grad=True)
    loss = divergence.KL_LOSSES[name](lp, torch.zeros(1, 1), torch.full((1, 1), far))
    (gradient,) = torch.autograd.grad(loss.sum(), lp)
    assert loss.isfinite().all()
    assert gradient.isfinite().all()


def test_k3_of_a_tiny_difference_is_exact_and_never_negative() -> None:
    d = torch.tensor([[1e-6, -1e-6, 1e-4, 0.0]])
    found = divergence.k3(d, d, torch.zeros(1, 4))
    assert (found >= 0).all()
    assert found[0, 2].item() == pytest.approx(5e-9, rel=1e-2)


@pytest.mark.parametrize("kl", list(divergence.KL_LOSSES))
def test_coefficient_0_equals_no_divergence(kl: Any) -> None:
    on = Variant(kl=kl, kl_coefficient=0.0)
    assert torch.equal(step_gradient(on, case()), step_gradient(Variant(), case()))
    assert not on.needs_reference


def test_each_row_has_the_slots_of_its_source() -> None:
    """The slots that differ from the plain row: centred, clip .2/.2, token mean, all groups."""
    plain = Variant()
    slots = {
        name: {
            item.name: getattr(row, item.name)
            for item in fields(Variant)
            if item.name not in ("source", "differs")
            and getattr(row, item.name) != getattr(plain, item.name)
        }
        for name, row in VARIANTS.items()
    }
    answer = {"level": "answer", "clip_low": 1.0, "clip_high": 10.0, "weighting": "sequence"}
    assert slots == {
        "olmo3": {"clip_high": 0.272, "correction": "truncated", "groups": "active"},
        "grpo": {
            "advantage": "zscore", "weighting": "sequence", "kl": "k3", "kl_coefficient": 0.04,
        },
        "dr_grpo": {"weighting": "budget"},
        "dapo": {
            "advantage": "zscore", "clip_high": 0.28, "groups": "active", "overlong": "soft",
        },
        "scalerl": {
            "advantage": "batch_std", "surrogate": "cispo", "clip_high": 4.0,
            "weighting": "problem", "groups": "mixed", "pass_rate_most": 0.9,
        },
        "gspo": {
            "advantage": "zscore", "level": "sequence", "clip_low": 3e-4, "clip_high": 4e-4,
            "weighting": "sequence",
        },
        "cispo": {"advantage": "zscore", "surrogate": "cispo", "clip_high": 4.0},
        "sapo": {"advantage": "zscore", "surrogate": "sapo", "weighting": "sequence"},
        "deepseek_v32": {
            "weighting": "sequence", "kl": "unbiased", "off_policy_mask": 0.5,
            "keep_sampling_mask": True,
        },
        "rloo": {
            "advantage": "rloo", "surrogate": "reinforce", "weighting": "sum", "kl": "reward",
        },
        "reinforce_pp": {"advantage": "whitened", "kl": "reward"},
        "lite_ppo": {"advantage": "raw_std"},
        "magistral": {"advantage": "batch_std", "clip_high": 0.28, "groups": "mixed"},
        "prorl": {
            "advantage": "zscore", "clip_high": 0.4, "kl": "k3", "kl_coefficient": 1e-4,
            "reference_every_steps": 200, "groups": "active",
        },
        "maxrl": {"advantage": "maxrl"},
        "gdpo": {"advantage": "gdpo"},
        "dppo": {"surrogate": "tv", "weighting": "budget"},
        "book_ch6": {"advantage": "zscore", "surrogate": "reinforce", "weighting": "sum"},
        "book_ch7_clip": {"advantage": "zscore", **answer, "epochs": 2},
        "book_ch7_kl": {
            "advantage": "zscore", **answer, "epochs": 2, "kl": "k2", "kl_whole_answer": True,
            "kl_coefficient": 0.001,
        },
    }  # fmt: skip
    assert all(row.source for row in VARIANTS.values())
    assert (VARIANTS["olmo3"].importance_cap, plain.importance_cap) == (2.0, 2.0)


def test_no_row_of_the_table_contradicts_itself_or_is_doubted() -> None:
    assert {name: doubts(row) for name, row in VARIANTS.items() if doubts(row)} == {}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (Variant(level="sequence", weighting="sequence"), "GSPO uses 0.0003/0.0004"),
        (Variant(clip_low=3e-4, clip_high=4e-4), "tokens take 0.2"),
        (Variant(level="sequence", clip_low=3e-4, clip_high=4e-4), "long answers weigh more"),
        (Variant(kl="k1", kl_coefficient=0.1), "0 on average"),
        (Variant(surrogate="reinforce", epochs=2), "off-policy"),
        (Variant(correction="masked", correction_level="answer"), "drops most long answers"),
        (Variant(surrogate="cispo", clip_high=0.01), "caps"),
        (Variant(surrogate="sapo", clip_high=0.3), "clip_high has no part in it"),
        (Variant(surrogate="cispo", clip_low=0.3), "clip_low has no part in it"),
        (Variant(importance_cap=3.0), "correction is none"),
        (Variant(pass_k=4), "pass_k has no part in it"),
        (Variant(entropy_target=0.3), "entropy is none"),
        (Variant(kl_whole_answer=True), "kl is none"),
    ],
)
def test_what_is_most_likely_not_meant_is_said(row: Variant, says: str) -> None:
    assert any(says in doubt for doubt in doubts(row)), doubts(row)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: variant("dappo"),
        lambda: Variant(clip_low=-0.1),
        lambda: Variant(clip_low=1.5),
        lambda: Variant(clip_high=float("nan")),
        lambda: Variant(importance_cap=0.0),
        lambda: Variant(kl="none", kl_coefficient=0.1),
        lambda: Variant(kl_target=0.01),
        lambda: Variant(reference_every_steps=10),
        lambda: Variant(kl="k3", kl_target=0.01),
        lambda: Variant(entropy="bonus"),
        lambda: Variant(entropy_coefficient=0.1),
        lambda: Variant(entropy="adaptive_clip", surrogate="sapo"),
        lambda: Variant(level="answer", weighting="token"),
        lambda: Variant(level="answer", weighting="sum"),
        lambda: Variant(level="sequence", surrogate="gmpo", weighting="sequence"),
        lambda: Variant(dual_clip=1.1),
        lambda: Variant(importance_floor=3.0),
        lambda: Variant(pass_rate_most=1.5),
        lambda: Variant(advantage="whitened", groups="mixed"),
        lambda: Variant(advantage="whitened", level="sequence", weighting="sequence"),
        lambda: Variant(epochs=0),
        lambda: Variant(kl="k2", kl_coefficient=0.1, kl_whole_answer=True),
        lambda: Variant(surrogate="tv", correction="truncated"),
        lambda: Variant(kl="reward", advantage="gdpo"),
        lambda: Variant(kl="reward", advantage="pass_at_k"),
        lambda: Variant(kl="reward", advantage="rloo", groups="mixed"),
        lambda: Variant(mini_batches=0),
    ],
)
def test_settings_that_contradict_themselves_are_refused(wrong: Callable[[], Variant]) -> None:
    with pytest.raises(UsageError, match=r"Use|Set|Did you mean"):
        wrong()

"""The clip by hand, and what every variant promises."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlvr.errors import UsageError
from rlvr.objective import divergence
from rlvr.objective.advantages import ADVANTAGES, centred
from rlvr.objective.surrogates import clip_parts, clipped
from rlvr.objective.variants import VARIANTS, Variant, per_token_loss, variant, weights_of
from rlvr.objective.weightings import WEIGHTINGS

each_variant = pytest.mark.parametrize("row", VARIANTS.values(), ids=VARIANTS.keys())


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


def case(rows: int = 4, width: int = 5) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(rows * 100 + width)
    lengths = torch.randint(1, width + 1, (rows, 1), generator=generator)
    tensors = {
        name: -torch.rand(rows, width, generator=generator) * 2
        for name in ("logprobs", "old_logprobs", "sampler_logprobs", "ref_logprobs")
    }
    advantages = torch.randn(rows, 1, generator=generator)
    return tensors | {"advantages": advantages, "mask": torch.arange(width)[None] < lengths}


def step_gradient(row: Variant, t: dict[str, Tensor]) -> Tensor:
    lp = t["logprobs"].clone().requires_grad_()
    weight = weights_of(row, t["mask"], torch.arange(len(lp)) // 2, len(lp), 7)
    loss = (per_token_loss(row, **(t | {"logprobs": lp})) * weight).sum()
    (gradient,) = torch.autograd.grad(loss, lp)
    return gradient


@each_variant
def test_masked_tokens_are_invisible_even_as_nan_and_infinity(row: Variant) -> None:
    clean = case()
    expected = step_gradient(row, clean)
    for poison in (float("nan"), float("inf"), -float("inf"), 1e30):
        dirty = {
            name: value
            if name in ("advantages", "mask")
            else value.masked_fill(~clean["mask"], poison)
            for name, value in clean.items()
        }
        found = step_gradient(row, dirty)
        assert torch.equal(found[clean["mask"]], expected[clean["mask"]]), poison
        assert not found[~clean["mask"]].any()


@each_variant
def test_on_policy_the_gradient_is_minus_advantage_times_weight(row: Variant) -> None:
    t = case()
    t["old_logprobs"] = t["sampler_logprobs"] = t["ref_logprobs"] = t["logprobs"]
    weight = weights_of(row, t["mask"], torch.arange(4) // 2, 4, 7)
    assert torch.allclose(step_gradient(row, t), -t["advantages"] * weight, atol=1e-7)


@each_variant
def test_padding_and_order_change_no_gradient(row: Variant) -> None:
    t = case()
    expected = step_gradient(row, t)
    order = torch.tensor([2, 3, 0, 1])  # groups stay side by side
    moved = step_gradient(row, {name: value[order] for name, value in t.items()})
    assert torch.allclose(moved, expected[order], atol=1e-7)
    wider = {
        name: value if name == "advantages" else torch.nn.functional.pad(value, (0, 3))
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


@pytest.mark.parametrize("name", list(ADVANTAGES))
@given(
    rewards=st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=8, max_size=8),
    scored=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_rollouts_without_a_score_change_nothing_and_get_0(
    name: str, rewards: list[float], scored: list[bool]
) -> None:
    reward, keep = torch.tensor(rewards).view(2, 4), torch.tensor(scored).view(2, 4)
    found = ADVANTAGES[name](reward, keep)
    assert found.isfinite().all()
    assert not found[~keep].any()
    other = ADVANTAGES[name](reward.masked_fill(~keep, 99.0), keep)
    assert torch.equal(found, other)
    assert torch.allclose(found.sum(dim=1), torch.zeros(2), atol=1e-4)


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


def test_coefficient_0_equals_no_divergence() -> None:
    t = case()
    off = Variant(groups="all")
    on = Variant(groups="all", kl="k3", kl_coefficient=0.0)
    assert torch.equal(step_gradient(on, t), step_gradient(off, t))


def test_each_row_has_the_slots_of_its_source() -> None:
    slots = {
        name: (
            row.advantage, row.clip_low, row.clip_high, row.weighting,
            row.kl, row.kl_coefficient, row.groups, row.overlong,
        )
        for name, row in VARIANTS.items()
    }  # fmt: skip
    assert slots == {
        "olmo3": ("centred", 0.2, 0.272, "token", "none", 0.0, "mixed", "zero"),
        "grpo": ("zscore", 0.2, 0.2, "sequence", "k3", 0.04, "all", "zero"),
        "dr_grpo": ("centred", 0.2, 0.2, "budget", "none", 0.0, "all", "zero"),
        "dapo": ("zscore", 0.2, 0.28, "token", "none", 0.0, "mixed", "soft"),
    }
    assert all(row.source for row in VARIANTS.values())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: variant("dappo"),
        lambda: Variant(clip_low=-0.1),
        lambda: Variant(clip_low=1.5),
        lambda: Variant(clip_high=float("nan")),
        lambda: Variant(importance_cap=0.0),
        lambda: Variant(kl="none", kl_coefficient=0.1),
    ],
)
def test_settings_that_contradict_themselves_are_refused(wrong: Callable[[], Variant]) -> None:
    with pytest.raises(UsageError, match=r"Use|Set|Did you mean"):
        wrong()

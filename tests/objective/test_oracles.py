"""The objective's slots against numbers worked out elsewhere in plain numpy."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlvr.objective import correction, divergence
from rlvr.objective.advantages import batch_std, centred, mixed, rloo, zscore
from rlvr.objective.surrogates import clip_parts, clipped
from rlvr.objective.variants import VARIANTS, per_token_loss
from rlvr.objective.weightings import WEIGHTINGS
from rlvr.rewards import GATES, overlong_penalty

FILE = Path(__file__).with_name("grpo_oracles.json")
ORACLES = {oracle["name"]: oracle for oracle in json.loads(FILE.read_text())["oracles"]}

WORDS = {
    # the papers' word: ours
    "seq_mean_token_mean": "sequence",
    "token_mean": "token",
    "constant_length": "budget",
    "prompt_mean": "problem",
    "only_if_correct": "if_correct",
    "format_first": "first",
    "additive": "additive",
}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
each_dtype = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float64", "float32"])


def close(found: Tensor, expected: Any, dtype: torch.dtype) -> bool:
    wanted = torch.tensor(expected, dtype=torch.float64)
    rtol = TOLERANCE[dtype]
    return torch.allclose(found.double(), wanted, rtol=rtol, atol=rtol * 0.1)


def inputs(name: str, dtype: torch.dtype) -> dict[str, Tensor]:
    given = ORACLES[name]["inputs"]
    found = {k: torch.tensor(given[k], dtype=dtype) for k in ("lp", "old", "roll", "ref")}
    found["lp"].requires_grad_()
    found["advantages"] = torch.tensor(given["advantages"], dtype=dtype)[:, None]
    return found | {"mask": torch.tensor(given["mask"]).bool()}


def weights(word: str, mask: Tensor, constant: int, dtype: torch.dtype = torch.float64) -> Tensor:
    groups = torch.zeros(len(mask), dtype=torch.long)
    return WEIGHTINGS[WORDS[word]](mask, groups, len(mask), constant, dtype)


ADVANTAGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "adv_centered": centred,
    "adv_rloo": rloo,
    "adv_grpo_sample_std_eps1e-4": zscore,
    "adv_grpo_sample_std_eps1e-6": lambda rewards, scored: zscore(rewards, scored, eps=1e-6),
}


@each_dtype
@pytest.mark.parametrize("name", list(ADVANTAGES))
def test_advantages_match_the_oracle(name: str, dtype: torch.dtype) -> None:
    oracle = ORACLES[name]
    for key, expected in oracle["expected"].items():
        rewards = torch.tensor([oracle["inputs"]["groups"][key]], dtype=dtype)
        found = ADVANTAGES[name](rewards, torch.ones_like(rewards, dtype=torch.bool))
        assert close(found[0], expected, dtype), key


@each_dtype
def test_batch_std_matches_the_oracle_adv_batch_std_of_centred(dtype: torch.dtype) -> None:
    oracle = ORACLES["adv_batch_std_of_centred"]
    rewards = torch.tensor(oracle["inputs"]["rewards"], dtype=dtype)
    found = batch_std(rewards, torch.ones_like(rewards, dtype=torch.bool))
    assert close(found, oracle["expected"]["advantages_ddof0"], dtype)


def clip_of(name: str) -> dict[str, float]:
    params = ORACLES[name]["params"]
    return {"low": params["eps_low"], "high": params["eps_high"]}


@each_dtype
@pytest.mark.parametrize("name", ["loss_clip_symmetric", "loss_clip_higher", "loss_clip_olmo"])
def test_clipped_losses_and_gradients_match_the_oracle(name: str, dtype: torch.dtype) -> None:
    t, expected = inputs(name, dtype), ORACLES[name]["expected"]
    args = (t["lp"], t["old"], t["advantages"], t["mask"])
    bounds = clip_of(name)
    loss = clipped(*args, low=bounds["low"], high=bounds["high"])
    assert close(loss.detach(), expected["per_token_loss"], dtype)
    for word, value in expected["loss"].items():
        if word not in WORDS:
            continue
        weight = weights(word, t["mask"], 4, dtype)
        total = (loss * weight).sum()
        (gradient,) = torch.autograd.grad(total, t["lp"], retain_graph=True)
        assert close(total.detach(), value, dtype), word
        assert close(gradient, expected["grad"][word], dtype), word
    low, high = clip_parts(*args, low=bounds["low"], high=bounds["high"])
    tokens = t["mask"].sum()
    assert close(low.sum() / tokens, expected["clip_fraction_low"], torch.float32)
    assert close(high.sum() / tokens, expected["clip_fraction_high"], torch.float32)


def test_the_negative_oracle_with_the_wrong_clip_sign_does_not_match() -> None:
    name = "loss_clip_WRONG_sign_for_negative_advantage"
    t, expected = inputs(name, torch.float64), ORACLES[name]["expected"]
    loss = clipped(t["lp"], t["old"], t["advantages"], t["mask"], **clip_of(name))
    assert not close(loss.detach(), expected["per_token_loss"], torch.float64)


def test_four_quadrants_match_the_oracle_loss_clip_four_quadrants() -> None:
    oracle = ORACLES["loss_clip_four_quadrants"]
    rows = zip(oracle["inputs"]["cases"], *oracle["expected"].values(), strict=True)
    for case, loss, gradient in rows:
        new = torch.tensor([[case["ratio"]]], dtype=torch.float64).log().requires_grad_()
        advantage = torch.tensor([[case["advantage"]]], dtype=torch.float64)
        mask, old = torch.tensor([[True]]), torch.zeros(1, 1, dtype=torch.float64)
        found = clipped(new, old, advantage, mask, low=0.2, high=0.2)
        (slope,) = torch.autograd.grad(found.sum(), new)
        assert found.item() == pytest.approx(loss)
        if case["ratio"] != 1.0:  # at the kink itself any slope between the two is right
            assert slope.item() == pytest.approx(gradient)


@each_dtype
@pytest.mark.parametrize(
    ("name", "estimate"),
    [
        ("loss_kl_k1", divergence.k1),
        ("loss_kl_k2", divergence.k2),
        ("loss_kl_k3", divergence.k3),
        ("loss_kl_unbiased_ratio_k3", divergence.unbiased),
    ],
)
def test_divergences_match_the_oracle(
    name: str, estimate: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    t, expected = inputs(name, dtype), ORACLES[name]["expected"]
    loss = estimate(t["lp"], t["old"], t["ref"]) * t["mask"]
    (slope,) = torch.autograd.grad(loss.sum(), t["lp"])
    assert close(loss.detach(), expected["per_token_loss"], dtype)
    assert close(slope, expected["d_token_loss_d_lp"], dtype)


@each_dtype
def test_the_default_variant_matches_the_oracle_loss_olmorl(dtype: torch.dtype) -> None:
    t, expected = inputs("loss_olmorl", dtype), ORACLES["loss_olmorl"]["expected"]
    loss = per_token_loss(
        VARIANTS["olmo3"],
        logprobs=t["lp"],
        old_logprobs=t["old"],
        sampler_logprobs=t["roll"],
        ref_logprobs=None,
        advantages=t["advantages"],
        mask=t["mask"],
    )
    total = (loss * weights("token_mean", t["mask"], 4, dtype)).sum()
    (gradient,) = torch.autograd.grad(total, t["lp"])
    assert close(total.detach(), expected["loss"], dtype)
    assert close(gradient, expected["grad"], dtype)


def test_weightings_match_the_oracle_aggregate_modes() -> None:
    oracle = ORACLES["aggregate_modes"]
    loss = torch.tensor(oracle["inputs"]["per_token_loss"], dtype=torch.float64)
    mask = torch.tensor(oracle["inputs"]["mask"]).bool()
    groups = torch.tensor(oracle["inputs"]["prompt_of_row"])
    words = WORDS | {"constant_length_Lmax8": "budget"}
    for word, expected in oracle["expected"].items():
        if word in words:
            weight = WEIGHTINGS[words[word]](mask, groups, 4, 8, torch.float64)
            assert (loss * weight).sum().item() == pytest.approx(expected, rel=1e-9), word


def test_micro_batches_add_up_as_the_oracle_aggregate_micro_batches_says() -> None:
    oracle = ORACLES["aggregate_micro_batches"]
    loss = torch.tensor(oracle["inputs"]["per_token_loss"])
    mask = torch.tensor(oracle["inputs"]["mask"]).bool()
    weight = weights("token_mean", mask, 4)
    parts = [float((loss * weight)[rows].sum()) for rows in oracle["inputs"]["micro_batches"]]
    assert parts == pytest.approx(oracle["expected"]["per_micro_batch_contribution"])
    assert sum(parts) == pytest.approx(oracle["expected"]["right_token_mean"])


@each_dtype
def test_importance_weights_match_the_oracle_is_truncated_token(dtype: torch.dtype) -> None:
    t, oracle = inputs("is_truncated_token", dtype), ORACLES["is_truncated_token"]
    cap = oracle["params"]["C"]
    found = correction.truncated_importance(t["old"], t["roll"], t["mask"], cap=cap)
    assert close(found, oracle["expected"]["weights"], dtype)


def expectation_of_gradient(
    logits: Tensor, estimate: Callable[..., Tensor], reference: Tensor, old: Tensor, drawn: Tensor
) -> Tensor:
    """Sum over all outcomes of the probability they are drawn with times the loss's gradient."""
    variable = logits.clone().requires_grad_()
    lp = variable.log_softmax(0)[None]
    loss = estimate(lp, old.log_softmax(0)[None], reference.log_softmax(0)[None])
    (gradient,) = torch.autograd.grad((drawn * loss[0]).sum(), variable)
    return gradient


def test_kl_gradients_match_the_oracle_kl_gradient_expectation() -> None:
    oracle = ORACLES["kl_gradient_expectation"]
    policy, reference, old = (
        torch.tensor(oracle["inputs"][k], dtype=torch.float64)
        for k in ("policy_logits", "reference_logits", "old_logits")
    )
    on, off = policy.softmax(0), old.softmax(0)
    cases = [
        ("loss_k1", divergence.k1, policy, on),
        ("loss_k2", divergence.k2, policy, on),
        ("loss_k3", divergence.k3, policy, on),
        ("loss_unbiased_ratio_k3_from_old_samples", divergence.unbiased, old, off),
        ("loss_k3_from_old_samples_without_ratio", divergence.k3, old, off),
    ]
    for key, estimate, behaviour, drawn in cases:
        found = expectation_of_gradient(policy, estimate, reference, behaviour, drawn)
        wanted = torch.tensor(oracle["expected"][key], dtype=torch.float64)
        assert torch.allclose(found, wanted, rtol=1e-6, atol=1e-9), key


def test_entropy_matches_the_oracle_entropy_from_logits() -> None:
    oracle = ORACLES["entropy_from_logits"]
    logits = torch.tensor(oracle["inputs"]["logits"], dtype=torch.float64)
    assert close(divergence.entropy(logits), oracle["expected"]["entropy"], torch.float64)


def test_mismatch_matches_the_oracles_metric_mismatch_and_prob_pearson() -> None:
    t, expected = (
        inputs("metric_mismatch", torch.float64),
        ORACLES["metric_mismatch"]["expected"],
    )
    found = correction.mismatch(t["old"][t["mask"]], t["roll"][t["mask"]])
    names = {
        "kl_k1": "kl_k1",
        "kl_k3": "kl_k3",
        "chi2": "chi2_token",
        "ess": "ess_fraction",
        "mult_error": "token_mult_prob_error",
        "prob_diff": "prob_diff_mean",
        "rho_mean": "rho_mean",
    }
    for ours, theirs in names.items():
        assert found[f"mismatch/{ours}"] == pytest.approx(expected[theirs], rel=1e-9), ours
    pearson = ORACLES["metric_prob_pearson"]
    both = [torch.tensor(pearson["inputs"][k], dtype=torch.float64).log() for k in
            ("trainer", "sampler")]  # fmt: skip
    assert correction.mismatch(*both)["mismatch/pearson"] == pytest.approx(
        pearson["expected"]["pearson"]
    )


def test_a_table_policy_learns_as_the_oracle_step_tabular_grpo() -> None:
    """Four updates on one batch: loss, gradient, clip share, new logits."""
    oracle = ORACLES["step_tabular_grpo"]
    given, expected = oracle["inputs"], oracle["expected"]
    completions = given["completions"]
    mask = torch.tensor([[t < len(row) for t in range(2)] for row in completions])
    taken = torch.tensor([row + [0] * (2 - len(row)) for row in completions])
    rewards = torch.tensor([given["rewards"]], dtype=torch.float64)
    advantages = centred(rewards, torch.ones_like(rewards, dtype=torch.bool))[0, :, None]
    assert close(advantages[:, 0], expected["advantages"], torch.float64)
    logits = torch.tensor(given["logits"], dtype=torch.float64)
    position = torch.arange(2).expand(4, 2)
    old = logits.log_softmax(-1)[position, taken]
    weight = weights("token_mean", mask, 2)
    for step, value in enumerate(expected["steps_loss"]):
        variable = logits.clone().requires_grad_()
        lp = variable.log_softmax(-1)[position, taken]
        loss = (clipped(lp, old, advantages, mask, low=0.2, high=0.28) * weight).sum()
        (gradient,) = torch.autograd.grad(loss, variable)
        parts = clip_parts(lp.detach(), old, advantages, mask, low=0.2, high=0.28)
        share = sum(int(part.sum()) for part in parts) / int(mask.sum())
        assert loss.item() == pytest.approx(value, rel=1e-6)
        assert torch.allclose(
            gradient, torch.tensor(expected["steps_grad"][step], dtype=torch.float64), rtol=1e-6
        )
        assert share == pytest.approx(expected["steps_clip_fraction"][step])
        logits = logits - given["lr"] * gradient
    final = torch.tensor(expected["final_logits"], dtype=torch.float64)
    assert torch.allclose(logits, final, rtol=1e-6)


def test_gradient_clipping_matches_the_oracle_grad_clip_global_norm() -> None:
    oracle = ORACLES["grad_clip_global_norm"]
    weight = torch.nn.Parameter(torch.zeros(2, 4, dtype=torch.float64))
    weight.grad = torch.tensor(oracle["inputs"]["grad"], dtype=torch.float64)
    norm = torch.nn.utils.clip_grad_norm_([weight], oracle["inputs"]["c"])
    assert norm.item() == pytest.approx(oracle["expected"]["norm"])
    assert close(weight.grad, oracle["expected"]["clipped"], torch.float64)


def test_a_batch_without_a_signal_matches_the_oracle_zero_signal_batch() -> None:
    oracle = ORACLES["zero_signal_batch"]
    rewards = torch.tensor([oracle["inputs"]["rewards"]])
    scored = torch.ones_like(rewards, dtype=torch.bool)
    assert not mixed(rewards, scored).any()
    for advantage in (centred, zscore, rloo, batch_std):
        assert not advantage(rewards, scored).any()
    kl = torch.tensor(oracle["inputs"]["k3_kl"]).mean() * oracle["inputs"]["beta"]
    assert kl.item() == pytest.approx(oracle["expected"]["loss_with_kl_token_mean"])


def test_gates_match_the_oracle_format_gating() -> None:
    oracle = ORACLES["format_gating"]
    given = oracle["inputs"]
    for word, expected in oracle["expected"].items():
        gate = GATES[WORDS[word]]  # type: ignore[index]
        pairs = zip(given["correct"], given["format"], strict=True)
        assert [gate(c, f, given["w"]) for c, f in pairs] == pytest.approx(expected), word


def test_std_makes_a_small_format_reward_full_size_as_the_oracle_says() -> None:
    """The oracle format_reward_amplification."""
    oracle = ORACLES["format_reward_amplification"]
    rewards = torch.tensor([oracle["inputs"]["format"]], dtype=torch.float64) * 0.1
    scored = torch.ones_like(rewards, dtype=torch.bool)
    expected = oracle["expected"]
    assert close(zscore(rewards, scored)[0], expected["with_std_eps1e-4"], torch.float64)
    assert close(centred(rewards, scored)[0], expected["centred_only"], torch.float64)


def test_overlong_penalty_matches_the_oracle_overlong_soft() -> None:
    oracle = ORACLES["overlong_soft"]
    limit, ramp = oracle["params"]["L_max"], oracle["params"]["cache"]
    found = [overlong_penalty(int(n), limit=limit, ramp=ramp) for n in oracle["inputs"]["lengths"]]
    assert found == oracle["expected"]["penalty"]


def test_temperature_matches_the_oracle_temperature_logprob() -> None:
    oracle = ORACLES["temperature_logprob"]
    from rlvr.records import Sampling
    from rlvr.rollout.engine import next_tokens

    logits = torch.tensor([oracle["inputs"]["logits"]])
    sampling = Sampling(temperature=oracle["inputs"]["temperature"])
    for number in (0.1, 0.85, 0.95, 0.999):
        token, logprob, _ = next_tokens(logits, sampling, torch.tensor([[number]]))
        assert math.isclose(logprob.item(), oracle["expected"]["logprob"][int(token)], rel_tol=1e-5)

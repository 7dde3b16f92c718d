"""The objective against numbers worked out elsewhere, in plain numpy, each by two routes.

One check for each oracle, at rtol 1e-9 in float64 and 1e-5 in float32; gradients too.
"""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlvr import length
from rlvr.length import Lengths
from rlvr.model.distribution import only, top_p
from rlvr.objective import advantages as adv
from rlvr.objective import correction, divergence, selection, surrogates
from rlvr.objective.loss import Controls, Cut, Terms, cut_of, per_token_loss
from rlvr.objective.slots import Variant
from rlvr.objective.surrogates import LEVELS
from rlvr.objective.variants import VARIANTS
from rlvr.objective.weightings import WEIGHTINGS, delta_l_scale
from rlvr.observe.metrics import effective, group_metrics
from rlvr.records import Group, Problem, Rollout, Sampling, Score
from rlvr.rewards import GATES, one_language, overlong_penalty, repeated

FILE = Path(__file__).with_name("grpo_oracles.json")
ORACLES = {oracle["name"]: oracle for oracle in json.loads(FILE.read_text())["oracles"]}

WORDS = {
    # the papers' word: ours
    "seq_mean_token_mean": "sequence",
    "token_mean": "token",
    "constant_length": "budget",
    "constant_length_Lmax8": "budget",
    "prompt_mean": "problem",
    "seq_mean_token_sum": "sum",
    "only_if_correct": "if_correct",
    "format_first": "first",
    "additive": "additive",
    "all_bad": "groups/all_wrong",
    "all_good": "groups/all_right",
    "mixed": "groups/mixed",
    "zero_std": "groups/zero_std",
    "mean_group_std_ddof1": "reward/within_std",
    "kl_k1": "mismatch/kl_k1",
    "kl_k3": "mismatch/kl_k3",
    "chi2_token": "mismatch/chi2",
    "ess_fraction": "mismatch/ess",
    "token_mult_prob_error": "mismatch/mult_error",
    "prob_diff_mean": "mismatch/prob_diff",
    "rho_mean": "mismatch/rho_mean",
}
OTHERS = ("stat_", "metric_scaling_fit")  # come with evaluation
HERE = [name for name in ORACLES if not name.startswith(OTHERS)]
WRONG = "loss_clip_WRONG_sign_for_negative_advantage"
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}

Check = Callable[[dict[str, Any], torch.dtype], None]
CHECKS: dict[str, Check] = {}


def check(*names: str) -> Callable[[Check], Check]:
    """Register the check of some oracles."""

    def registered(function: Check) -> Check:
        CHECKS.update(dict.fromkeys(names, function))
        return function

    return registered


def close(found: Tensor | float, expected: Any, dtype: torch.dtype) -> None:
    rtol = TOLERANCE[dtype]
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    got = torch.as_tensor(found).detach().double()
    scale = max(1.0, float(wanted.abs().max()) if wanted.numel() else 0.0)
    assert torch.allclose(got, wanted, rtol=rtol, atol=rtol * scale), (got, wanted)


def rewards_and_all(values: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    rewards = torch.tensor(values, dtype=dtype)
    rewards = rewards if rewards.dim() == 2 else rewards[None]
    return rewards, torch.ones_like(rewards, dtype=torch.bool)


def terms(oracle: dict[str, Any], dtype: torch.dtype) -> Terms:
    given = oracle["inputs"]
    lp, old, roll, ref = (torch.tensor(given[k], dtype=dtype) for k in ("lp", "old", "roll", "ref"))
    return Terms(
        lp.requires_grad_(),
        old,
        roll,
        torch.tensor(given["advantages"], dtype=dtype)[:, None],
        torch.tensor(given["mask"]).bool(),
        ref_logprobs=ref,
    )


def weights(word: str, t: Terms, constant: int = 4) -> Tensor:
    groups = torch.zeros(len(t.mask), dtype=torch.long)
    dtype = t.logprobs.dtype
    return WEIGHTINGS[WORDS[word]](t.mask, groups, len(t.mask), constant, dtype)


def gradient(total: Tensor, t: Terms) -> Tensor:
    (found,) = torch.autograd.grad(total, t.logprobs, retain_graph=True, allow_unused=True)
    return torch.zeros_like(t.logprobs) if found is None else found


# ---------------------------------------------------------------------------------- advantages

BY_GROUP: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "adv_reinforce_raw": adv.raw,
    "adv_rloo": adv.rloo,
    "adv_centered": adv.centred,
    "adv_grpo_sample_std_eps1e-4": adv.zscore,
    "adv_grpo_sample_std_eps1e-6": lambda r, s: adv.zscore(r, s, eps=1e-6),
    "adv_grpo_population_std_eps1e-8": lambda r, s: adv.zscore(r, s, ddof=0, eps=1e-8),
    "adv_leave_one_out_mean_and_std": adv.leave_one_out,
    "adv_maxrl": adv.maxrl,
    "adv_f_grpo": adv.f_grpo,
}
OF_BATCH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "adv_reinforce_batch_mean": adv.batch_centred,
    "adv_liteppo": adv.raw_std,
    "adv_gpg": adv.gpg,
    "adv_lead_difficulty": adv.lead,
    "adv_passk_best_minus_second": adv.best_minus_second,
}


@check(*BY_GROUP)
def advantages_by_group(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    for key, expected in oracle["expected"].items():
        rewards, scored = rewards_and_all(oracle["inputs"]["groups"][key], dtype)
        close(BY_GROUP[oracle["name"]](rewards, scored)[0], expected, dtype)


@check(*OF_BATCH)
def advantages_of_a_batch(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    rewards, scored = rewards_and_all(oracle["inputs"]["rewards"], dtype)
    found = OF_BATCH[oracle["name"]](rewards, scored)
    close(found.squeeze(0), oracle["expected"]["advantages"], dtype)


@check("adv_remax")
def remax(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    rewards, scored = rewards_and_all(oracle["inputs"]["rewards"], dtype)
    greedy = torch.tensor([[oracle["inputs"]["greedy_reward"]]], dtype=dtype)
    close(adv.remax(rewards, scored, greedy)[0], oracle["expected"]["advantages"], dtype)


@check("adv_batch_std_of_centred")
def batch_std(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    rewards, scored = rewards_and_all(oracle["inputs"]["rewards"], dtype)
    for ddof in (0, 1):
        expected = oracle["expected"][f"advantages_ddof{ddof}"]
        close(adv.batch_std(rewards, scored, ddof=ddof), expected, dtype)


@check("adv_reinforce_pp", "adv_reinforce_pp_baseline")
def whitened(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    lengths = torch.tensor(given["lengths"])[None]
    mask = torch.arange(4) < lengths[..., None]
    rewards = torch.tensor([given["rewards"]], dtype=dtype)
    if "prompt_of_row" in given:
        pairs = rewards.view(2, 2)
        rewards = adv.centred(pairs, torch.ones_like(pairs, dtype=torch.bool)).view(1, 4)
    found = adv.whitened(rewards[..., None].expand(1, 4, 4), mask)
    close(found[0, :, 0], oracle["expected"]["per_sequence"], dtype)
    assert not found[~mask].any()


@check("adv_passk_training_c2_n4_k2", "adv_passk_training_c1_n4_k2", "adv_passk_training_c2_n8_k4")
def pass_at_k(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    n, c, k = (oracle["inputs"][name] for name in ("n", "c", "k"))
    rewards, scored = rewards_and_all([1.0] * c + [0.0] * (n - c), dtype)
    found = adv.pass_at_k(rewards, scored, k=k)[0]
    close(found[:c], [oracle["expected"]["advantage_correct"]] * c, dtype)
    close(found[c:], [oracle["expected"]["advantage_wrong"]] * (n - c), dtype)


@check("adv_gdpo")
def gdpo(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    parts = torch.tensor(oracle["inputs"]["rewards_prompt_sample_reward"], dtype=dtype)
    weight = torch.tensor(oracle["inputs"]["weights"], dtype=dtype)
    scored = torch.ones(parts.shape[:2], dtype=torch.bool)
    columns = [adv.zscore(parts[:, :, k], scored) for k in range(2)]
    close(torch.stack(columns, -1) @ weight, oracle["expected"]["weighted_sum"], dtype)
    close(adv.gdpo(parts, weight, scored), oracle["expected"]["advantages"], dtype)


@check("adv_sum_then_normalise")
def sum_then_normalise(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    parts = torch.tensor(oracle["inputs"]["rewards_prompt_sample_reward"], dtype=dtype)
    rewards = parts @ torch.tensor(oracle["inputs"]["weights"], dtype=dtype)
    found = adv.zscore(rewards, torch.ones_like(rewards, dtype=torch.bool))
    close(found, oracle["expected"]["advantages"], dtype)


@check("adv_bnpo_beta")
def beta(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    rates = oracle["inputs"]["solve_rates"]
    rows = [[1.0] * round(8 * rate) + [0.0] * round(8 - 8 * rate) for rate in rates]
    rewards, scored = rewards_and_all(rows, dtype)
    found = adv.beta(rewards, scored)
    close(found[:, 0], oracle["expected"]["advantage_of_correct"], dtype)
    close(found[:, -1], oracle["expected"]["advantage_of_wrong"], dtype)


@check("adv_dcpo_smooth")
def dcpo_smooth(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    new, total = (torch.tensor(given[k], dtype=dtype) for k in ("a_new", "a_total"))
    found = adv.dcpo_smooth(new, total, given["step_i"])
    close(found, oracle["expected"]["advantages"], dtype)


@check("adv_opo")
def opo(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    rewards, scored = rewards_and_all(oracle["inputs"]["rewards"], dtype)
    found = adv.opo(rewards, scored, torch.tensor([oracle["inputs"]["lengths"]]))
    close(found[0], oracle["expected"]["advantages"], dtype)


@check("adv_gfpo_shortest")
def gfpo(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    rewards, scored = rewards_and_all(given["rewards"], dtype)
    found = adv.gfpo(rewards, scored, torch.tensor([given["lengths"]]), k=given["k"])
    close(found[0], oracle["expected"]["advantages"], dtype)


@check("expected_gradient_of_advantage_rules")
def expected_gradients(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """Over all samples of size G of a three-armed policy, weighted by their probability."""
    given, expected = oracle["inputs"], oracle["expected"]
    logits = torch.tensor(given["logits"], dtype=torch.float64)
    reward = torch.tensor(given["arm_rewards"], dtype=torch.float64)
    p, size = logits.softmax(0), given["G"]
    slope = torch.eye(3, dtype=torch.float64) - p  # row a: gradient of log p(a)
    close(p * (reward - p @ reward), expected["true_gradient"], dtype)
    rules: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "raw": adv.raw,
        "centred": adv.centred,
        "rloo": adv.rloo,
        "grpo_std_ddof0": lambda r, s: adv.zscore(r, s, ddof=0, eps=0.0).nan_to_num(0.0),
        "maxrl": adv.maxrl,
    }
    draws = torch.tensor(list(itertools.product(range(3), repeat=size)))  # (3^G, G)
    chance = p[draws].prod(dim=1)
    everything = torch.ones(draws.shape, dtype=torch.bool)
    for name, rule in rules.items():
        each = rule(reward[draws], everything)
        found = torch.einsum("n,ng,ngk->k", chance, each, slope[draws]) / size
        close(found, expected[name], dtype)


# ---------------------------------------------------------------------------------- surrogates

WHOLE_BATCH = (  # oracles whose loss is a mean over answers
    Variant(level="sequence", weighting="sequence", clip_low=3e-4, clip_high=4e-4),
    Variant(level="sequence", weighting="sequence"),
    Variant(level="sequence_token", weighting="sequence"),
)
ROWS = {
    "loss_reinforce": Variant(surrogate="reinforce"),
    "loss_importance_weighted": Variant(surrogate="importance"),
    "loss_clip_symmetric": Variant(),
    "loss_clip_higher": Variant(clip_high=0.28),
    "loss_clip_olmo": Variant(clip_high=0.272),
    "loss_cispo_1_plus_eps_high": Variant(surrogate="cispo", clip_high=0.2),
    "loss_cispo_absolute_cap_5": Variant(surrogate="cispo", clip_high=4.0),
    "loss_sapo": Variant(surrogate="sapo"),
    "loss_dppo_tv": Variant(surrogate="tv"),
    "loss_tv_mask_plus_squared_log_ratio": Variant(surrogate="tv_ratio"),
    "loss_kl_k1": Variant(surrogate="reinforce", kl="k1", kl_coefficient=1.0),
    "loss_kl_k2": Variant(surrogate="reinforce", kl="k2", kl_coefficient=1.0),
    "loss_kl_k3": Variant(surrogate="reinforce", kl="k3", kl_coefficient=1.0),
    "loss_kl_unbiased_ratio_k3": Variant(surrogate="reinforce", kl="unbiased", kl_coefficient=1.0),
    "loss_gspo_published_clip": WHOLE_BATCH[0],
    "loss_gspo_wide_clip": WHOLE_BATCH[1],
    "loss_gspo_token": WHOLE_BATCH[2],
    "loss_luspo": Variant(level="sequence", weighting="sum"),
    "loss_gmpo": Variant(surrogate="gmpo", weighting="sequence", clip_low=0.4, clip_high=0.4),
    "loss_sequence_product_ratio": Variant(level="answer", weighting="sequence"),
    "loss_vespo": Variant(surrogate="vespo"),
    "loss_olmorl": replace(VARIANTS["olmo3"], groups="all"),
}


def loss_of(name: str, t: Terms) -> Tensor:
    row = ROWS[name]
    if name.startswith("loss_kl_"):  # the divergence alone
        t = replace(t, advantages=torch.zeros_like(t.advantages))
    everywhere = torch.ones(len(t.mask), 1, dtype=torch.bool)
    return per_token_loss(row, replace(t, corrected=everywhere), Controls.of(row))


@check(*(name for name in ROWS if "per_token_loss" in ORACLES[name]["expected"]))
def losses_of_tokens(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t, expected, name = terms(oracle, dtype), oracle["expected"], oracle["name"]
    loss = loss_of(name, t)
    close(loss, expected["per_token_loss"], dtype)
    close(gradient(loss.sum(), t), expected["d_token_loss_d_lp"], dtype)
    for word, value in expected["loss"].items():
        total = (loss * weights(word, t)).sum()
        close(total, value, dtype)
        close(gradient(total, t), expected["grad"][word], dtype)
    if "clip_fraction" in expected:
        cut, of = cut_of(ROWS[name], t, Controls()), int(t.mask.sum())
        wanted = [expected[f"clip_fraction_{side}"] * of for side in ("low", "high")]
        assert (cut.low, cut.high, cut.of) == (*map(round, wanted), of)


@check(*(name for name in ROWS if "per_token_loss" not in ORACLES[name]["expected"]))
def losses_of_batches(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t, expected, name = terms(oracle, dtype), oracle["expected"], oracle["name"]
    row = ROWS[name]
    word = next(paper for paper, ours in WORDS.items() if ours == row.weighting)
    total = (loss_of(name, t) * weights(word, t)).sum()
    close(total, expected["loss"], dtype)
    close(gradient(total, t), expected["grad"], dtype)
    if "seq_ratio" in expected and name.startswith("loss_gspo"):
        log_ratio = LEVELS["sequence"](t.logprobs - t.old_logprobs, t.mask)
        close(log_ratio[:, 0].exp(), expected["seq_ratio"], dtype)
    if "clip_fraction" in expected:
        assert cut_of(row, t, Controls()) == Cut(1, 1, 2)  # both answers


@check("loss_real")
def real(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t = terms(oracle, dtype)
    total = surrogates.real(t.logprobs, t.old_logprobs, t.advantages, t.mask)
    close(total, oracle["expected"]["loss"], dtype)
    close(gradient(total, t), oracle["expected"]["grad"], dtype)


def one_token_each(
    ratios: list[float], advantages: list[float], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    new = torch.tensor(ratios, dtype=dtype)[:, None].log().requires_grad_()
    advantage = torch.tensor(advantages, dtype=dtype)[:, None]
    return new, torch.zeros_like(new), advantage, torch.ones_like(new, dtype=torch.bool)


@check("loss_clip_four_quadrants")
def four_quadrants(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    cases = [case for case in oracle["inputs"]["cases"]]
    ratios, signs = [c["ratio"] for c in cases], [c["advantage"] for c in cases]
    new, *rest = one_token_each(ratios, signs, dtype)
    loss = surrogates.clipped(new, *rest, low=0.2, high=0.2)
    (slope,) = torch.autograd.grad(loss.sum(), new)
    close(loss[:, 0], oracle["expected"]["loss"], dtype)
    close(slope[:, 0], oracle["expected"]["d_loss_d_lp"], dtype)


@check("loss_dual_clip")
def dual_clip(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, expected = oracle["inputs"], oracle["expected"]
    new, *rest = one_token_each(given["ratio"], given["advantages"], dtype)
    kinds: dict[str, dict[str, float]] = {
        "loss_plain": {},
        "loss_dual_c3": {"dual": 3.0},
        "loss_two_sided_delta4": {"most": 4.0},
    }
    old, advantages, mask = rest
    for name, extra in kinds.items():
        loss = surrogates.clipped(new, old, advantages, mask, low=0.2, high=0.2, **extra)
        close(loss[:, 0], expected[name], dtype)
    dual = surrogates.clipped(new, *rest, low=0.2, high=0.2, dual=3.0)
    (slope,) = torch.autograd.grad(dual.sum(), new)
    close(slope[:, 0], expected["d_loss_d_lp_dual_c3"], dtype)


@check("loss_mai_outer_clip")
def outer_clip(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, params = oracle["inputs"], oracle["params"]
    row = Variant(clip_low=params["eps"], clip_high=1 / (1 - params["eps"]) - 1, ratio_cap=50.0)
    new, old, advantages, mask = one_token_each(given["ratio"], given["advantages"], dtype)
    now = Controls(clip_extra=params["k"])
    loss = per_token_loss(row, Terms(new, old, old, advantages, mask), now)
    close(1 + row.clip_high + now.clip_extra, oracle["expected"]["upper_bound"], dtype)
    close(loss[:, 0], oracle["expected"]["loss"], dtype)


@check("bounds_dcpo")
def dcpo_bounds(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    q = torch.tensor([oracle["inputs"]["old_prob"]], dtype=dtype)
    lower, upper = surrogates.dcpo_bounds(q.log())
    close(lower[0], oracle["expected"]["lower"], dtype)
    close(upper[0], oracle["expected"]["upper"], dtype)
    close(((upper - 1) * upper * q)[0], oracle["expected"]["upper_residual"], dtype)


@check(WRONG)
def wrong_sign(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """The negative oracle: fed in as the expected numbers, the check of clips must fail."""
    with pytest.raises(AssertionError):
        losses_of_tokens(oracle | {"name": "loss_clip_symmetric"}, dtype)
    losses_of_tokens(ORACLES["loss_clip_symmetric"], dtype)


# ---------------------------------------------------------------------------------- weightings


@check("aggregate_modes")
def aggregate_modes(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    loss = torch.tensor(oracle["inputs"]["per_token_loss"], dtype=dtype)
    mask = torch.tensor(oracle["inputs"]["mask"]).bool()
    groups = torch.tensor(oracle["inputs"]["prompt_of_row"])
    assert len(oracle["expected"]) == 5
    for word, expected in oracle["expected"].items():
        weight = WEIGHTINGS[WORDS[word]](mask, groups, 4, 8, dtype)
        close((loss * weight).sum(), expected, dtype)


@check("aggregate_micro_batches")
def aggregate_micro_batches(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    loss = torch.tensor(oracle["inputs"]["per_token_loss"], dtype=dtype)
    mask = torch.tensor(oracle["inputs"]["mask"]).bool()
    weight = WEIGHTINGS["token"](mask, torch.zeros(4, dtype=torch.long), 4, 4, dtype)
    parts = [(loss * weight)[rows].sum() for rows in oracle["inputs"]["micro_batches"]]
    close(torch.stack(parts), oracle["expected"]["per_micro_batch_contribution"], dtype)
    close(torch.stack(parts).sum(), oracle["expected"]["right_token_mean"], dtype)


@check("aggregate_ddp_scaling")
def aggregate_ranks(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """Weights of the whole step times the number of ranks, where gradients are averaged."""
    sums, tokens = oracle["inputs"]["local_sums"], oracle["inputs"]["global_tokens"]
    mask = torch.ones(2, tokens // 2, dtype=torch.bool)
    weight = WEIGHTINGS["token"](mask, torch.tensor([0, 1]), 2, 8, dtype)[0, 0]
    ranks = torch.tensor(sums, dtype=dtype) * weight * len(sums)
    close(ranks, oracle["expected"]["rank_losses"], dtype)
    close(ranks.mean(), oracle["expected"]["mean_over_ranks"], dtype)


@check("aggregate_token_weight")
def aggregate_token_weight(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    lengths = torch.tensor(oracle["inputs"]["lengths"])
    mask = torch.arange(8) < lengths[:, None]
    for word, expected in oracle["expected"].items():
        weight = WEIGHTINGS[WORDS[word]](mask, torch.tensor([0, 0]), 2, 8, dtype)
        close(weight[:, 0], expected, dtype)


@check("weight_delta_l")
def weight_delta_l(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    lengths = torch.tensor(oracle["inputs"]["lengths"], dtype=dtype)
    expected = oracle["expected"]["weights"]
    close(delta_l_scale(lengths, alpha=oracle["params"]["alpha"]), expected, dtype)
    mask = torch.arange(4) < lengths[:, None]
    weight = WEIGHTINGS["delta_l"](mask, torch.zeros(4, dtype=torch.long), 4, 8, dtype)
    close(weight.amax(dim=1) * 4, expected, dtype)


# ------------------------------------------------------------------------ divergence and entropy


@check("kl_estimators_expectation")
def kl_expectations(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, expected = oracle["inputs"], oracle["expected"]
    policy, reference = (
        torch.tensor([given[k]], dtype=dtype).log_softmax(-1)
        for k in ("policy_logits", "reference_logits")
    )
    p, q = policy.exp(), reference.exp()
    close((p * (policy - reference)).sum(), expected["kl_policy_reference"], dtype)
    close((q * (reference - policy)).sum(), expected["kl_reference_policy"], dtype)
    for name in ("k1", "k2", "k3"):
        values = divergence.KL_LOSSES[name](policy, policy, reference)
        close((p * values).sum(), expected[f"E_{name}"], dtype)
        if f"var_{name}" in expected:
            mean = (p * values).sum()
            close((p * (values - mean).square()).sum(), expected[f"var_{name}"], dtype)


@check("kl_gradient_expectation")
def kl_gradients(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """Sum over all outcomes of the probability they are drawn with times the loss's gradient.

    The oracle differs itself by finite differences, hence the wider bound.
    """
    given, expected = oracle["inputs"], oracle["expected"]
    policy, reference, old = (
        torch.tensor(given[k], dtype=torch.float64)
        for k in ("policy_logits", "reference_logits", "old_logits")
    )

    def found(name: str, behaviour: Tensor) -> Tensor:
        variable = policy.clone().requires_grad_()
        lp, old_lp = variable.log_softmax(0)[None], behaviour.log_softmax(0)[None]
        if behaviour is policy:
            old_lp = lp.detach()
        loss = divergence.KL_LOSSES[name](lp, old_lp, reference.log_softmax(0)[None])
        total = (behaviour.softmax(0) * loss[0]).sum()
        return torch.autograd.grad(total, variable)[0]

    def in_reward(estimate: str) -> Tensor:
        """Policy gradient of a reward that an estimate is taken from: minus that of the loss."""
        variable = policy.clone().requires_grad_()
        lp, ref = variable.log_softmax(0)[None], reference.log_softmax(0)[None]
        everywhere = torch.ones_like(lp, dtype=torch.bool)
        if estimate == "k1":
            cost = divergence.penalty(lp, ref, everywhere, coefficient=1.0)
        else:
            cost = divergence.KL_LOSSES[estimate](lp, lp, ref).detach()
        return torch.autograd.grad((policy.softmax(0) * cost[0] * lp[0]).sum(), variable)[0]

    cases = {
        "loss_k1": found("k1", policy),
        "loss_k2": found("k2", policy),
        "loss_k3": found("k3", policy),
        "loss_unbiased_ratio_k3_from_old_samples": found("unbiased", old),
        "loss_k3_from_old_samples_without_ratio": found("k3", old),
        "reward_k1": in_reward("k1"),
        "reward_k3": in_reward("k3"),
    }
    for name, value in cases.items():
        wanted = torch.tensor(expected[name], dtype=torch.float64)
        assert torch.allclose(value, wanted, rtol=1e-6, atol=1e-9), name
    right = torch.tensor(expected["grad_reverse_kl"], dtype=torch.float64)
    assert torch.allclose(found("k3_plus", policy), right, rtol=1e-6, atol=1e-9)


@check("kl_in_reward")
def kl_in_reward(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    away, mask = torch.tensor(given["k1"], dtype=dtype), torch.tensor(given["mask"]).bool()
    zero = torch.zeros_like(away)
    cost = divergence.penalty(away, zero, mask, coefficient=given["beta"])
    rewards = torch.tensor(given["rewards"], dtype=dtype)
    close(rewards - cost.sum(dim=1), oracle["expected"]["penalised"], dtype)


@check("kl_adaptive_controller")
def kl_controller(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, coefficient, found = oracle["inputs"], oracle["inputs"]["beta0"], []
    for kl in given["kl_trace"]:
        coefficient = divergence.adapted_kl(
            coefficient, kl, target=given["target"], share=given["n_over_horizon"]
        )
        found.append(coefficient)
    close(torch.tensor(found, dtype=torch.float64), oracle["expected"]["beta"], dtype)
    now, row = Controls(kl_coefficient=0.02), Variant(kl="k3", kl_coefficient=0.02, kl_target=0.01)
    assert now.after_update(row, 0.005).kl_coefficient == pytest.approx(found[0])


@check("entropy_from_logits")
def entropy(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    logits = torch.tensor(oracle["inputs"]["logits"], dtype=dtype)
    close(divergence.entropy(logits), oracle["expected"]["entropy"], dtype)


@check("entropy_bonus_gradient")
def entropy_bonus(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """As the loss has it: minus the bonus times the entropy of each token."""
    logits = torch.tensor([[oracle["inputs"]["logits"]]], dtype=dtype).requires_grad_()
    zero, one = torch.zeros(1, 1, dtype=dtype), torch.ones(1, 1, dtype=torch.bool)
    t = Terms(zero, zero, zero, zero, one, entropies=divergence.entropy(logits))
    loss = per_token_loss(Variant(), t, Controls(), bonus=oracle["inputs"]["coef"])
    (found,) = torch.autograd.grad(loss.sum(), logits)
    close(found[0, 0], oracle["expected"]["grad"], dtype)


@check("entropy_adaptive_skywork")
def entropy_controller(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, now = oracle["inputs"], Controls()
    row = Variant(entropy="adaptive", entropy_target=given["target"])
    coefficients, applied = [], []
    for value in given["entropy_trace"]:
        now = now.before_update(row, value)
        coefficients.append(now.entropy_coefficient)
        applied.append(now.entropy_bonus(row, value))
    close(torch.tensor(coefficients, dtype=torch.float64), oracle["expected"]["coef"], dtype)
    close(torch.tensor(applied, dtype=torch.float64), oracle["expected"]["applied"], dtype)


@check("entropy_adaptive_clip_mai")
def clip_controller(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, now, found = oracle["inputs"], Controls(), []
    row = Variant(
        entropy="adaptive_clip",
        entropy_target=given["target"],
        clip_low=given["eps"],
        clip_high=1 / (1 - given["eps"]) - 1,
    )
    for value in given["entropy_trace"]:
        now = now.before_update(row, value)
        found.append(now.clip_extra)
    close(torch.tensor(found), oracle["expected"]["k"], dtype)
    upper = [1 + row.clip_high + extra for extra in found]
    close(torch.tensor(upper, dtype=torch.float64), oracle["expected"]["upper_bound"], dtype)


# ---------------------------------------------------------------------------------- selection


@check("entropy_token_covariance")
def token_covariance(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, expected = oracle["inputs"], oracle["expected"]
    lp, advantages = (torch.tensor(given[k], dtype=dtype) for k in ("lp", "advantages"))
    found = selection.covariance(lp, advantages)
    close(found, expected["cov"], dtype)
    close(found.mean(), expected["mean_cov"], dtype)
    rows, mask = lp[:, None], torch.ones(5, 1, dtype=torch.bool)
    chance = torch.zeros(5, 1)
    dropped = selection.clip_cov(
        rows, advantages[:, None], mask, chance, share=1.0, low=0.5, high=1.5
    )
    assert (~dropped[:, 0]).int().tolist() == expected["clip_cov_candidates_lb0.5_ub1.5"]
    top = selection.top_cov(rows, advantages[:, None], mask, share=0.2)
    assert top[:, 0].nonzero().flatten().tolist() == [expected["kl_cov_top1_index"]]


@check("entropy_top20_mask")
def top_entropy(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    values = torch.tensor(oracle["inputs"]["entropy"], dtype=dtype)
    mask = torch.tensor(oracle["inputs"]["mask"]).bool()
    kept = selection.top_entropy(values, mask)
    assert kept.int().tolist() == oracle["expected"]["keep"]
    close(torch.quantile(values[mask], 0.8), oracle["expected"]["threshold"], dtype)


@check("filter_prompts")
def filter_prompts(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    rates, expected = oracle["inputs"]["solve_rates"], oracle["expected"]
    groups = [[1.0] * round(20 * rate) + [0.0] * round(20 - 20 * rate) for rate in rates]
    keep = {
        "keep_zero_signal": adv.mixed(*rewards_and_all(groups, dtype)).tolist(),
        "keep_no_positive_resampling": [selection.still_hard(rate, 0.9) for rate in rates],
        "keep_offline_0625": [selection.still_hard(rate, 0.625 + 1e-9) for rate in rates],
    }
    assert {name: list(map(int, found)) for name, found in keep.items()} == expected


@check("overlong_filter")
def overlong_filter(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    mask = torch.arange(given["max_len"]) < torch.tensor(given["lengths"])[:, None]
    kept = selection.finished_only(torch.tensor(given["finished"]).bool(), mask)
    assert kept.any(dim=1).int().tolist() == oracle["expected"]["keep"]


@check("overlong_soft")
def overlong_soft(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    limit, ramp = oracle["params"]["L_max"], oracle["params"]["cache"]
    found = [overlong_penalty(int(n), limit=limit, ramp=ramp) for n in oracle["inputs"]["lengths"]]
    assert found == oracle["expected"]["penalty"]


# ---------------------------------------------------------------------------------- correction


@check("is_truncated_token", "is_masked_token")
def token_importance(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t = terms(oracle, dtype)
    ratio = correction.importance_ratio(t.old_logprobs, t.sampler_logprobs, t.mask)
    found = {
        "weights": correction.truncated(ratio, 0, 2),
        "mis_C2": correction.masked(ratio, 0, 2),
        "icepop_0.5_5": correction.band(ratio, 0.5, 5),
    }
    for name, expected in oracle["expected"].items():
        close(found[name] * t.mask, expected, dtype)


@check("is_sequence_ratio")
def sequence_importance(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t, expected = terms(oracle, dtype), oracle["expected"]
    pair = (t.old_logprobs, t.sampler_logprobs, t.mask)
    product = correction.importance_ratio(*pair, level="answer")
    close(product[:, 0], expected["rho_seq"], dtype)
    geometric = correction.importance_ratio(*pair, level="sequence")
    close(geometric[:, 0], expected["geometric_mean"], dtype)
    close(correction.truncated(product, 0, 2)[:, 0], expected["tis_C2"], dtype)
    close(correction.masked(product, 0, 1.1)[:, 0], expected["mis_C1.1"], dtype)


@check("rs_geometric")
def geometric_rejection(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t, expected = terms(oracle, dtype), oracle["expected"]
    ratio = correction.importance_ratio(
        t.old_logprobs, t.sampler_logprobs, t.mask, level="sequence"
    )
    close(ratio[:, 0], expected["geometric"], dtype)
    for low, high in ((0.999, 1.001), (0.99, 1.01)):
        kept = correction.keep_band(ratio, low, high)[:, 0]
        assert kept.int().tolist() == expected[f"keep_{low}_{high}"]


@check("opsm")
def off_policy_mask(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t, expected = terms(oracle, dtype), oracle["expected"]
    away = LEVELS["sequence"](t.sampler_logprobs - t.logprobs, t.mask)[:, 0]
    close(away, expected["mean_log_ratio"], dtype)
    names = (t.logprobs, t.sampler_logprobs, t.advantages, t.mask)
    for farthest, key in ((0.05, "keep_delta_0.05"), (-0.05, "keep_delta_minus_0.05")):
        kept = correction.off_policy_keep(*names, farthest=farthest)
        assert kept[:, 0].int().tolist() == expected[key]


@check("opsm_drops")
def off_policy_mask_drops(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    lp, roll = (torch.tensor(given[k], dtype=dtype) for k in ("lp", "roll"))
    advantages = torch.tensor(given["advantages"], dtype=dtype)[:, None]
    mask = torch.ones_like(lp, dtype=torch.bool)
    row = Variant(off_policy_mask=given["delta"])
    loss = per_token_loss(row, Terms(lp, lp, roll, advantages, mask), Controls())
    assert loss.any(dim=1).int().tolist() == oracle["expected"]["keep"]
    close((roll - lp).mean(dim=1), oracle["expected"]["mean_log_ratio"], dtype)


@check("keep_sampling_mask")
def keep_sampling_mask(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given, expected = oracle["inputs"], oracle["expected"]
    logits = torch.tensor([given["logits"]], dtype=dtype)
    close(logits.log_softmax(-1)[0], expected["full_logprob"], dtype)
    left = (top_p(logits, given["top_p"]) > -torch.inf)[0]
    assert left.int().tolist() == given["kept"]
    ids = left.nonzero().flatten().tolist()
    close(only(logits, [ids]).log_softmax(-1)[0, ids], expected["masked_logprob_kept"], dtype)
    close(logits.softmax(-1)[0, ids].sum(), expected["kept_mass"], dtype)


@check("temperature_logprob")
def temperature(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """As the sampler records it, whichever token is drawn."""
    from rlvr.rollout.engine import next_tokens

    logits = torch.tensor([oracle["inputs"]["logits"]], dtype=dtype)
    sampling = Sampling(temperature=oracle["inputs"]["temperature"])
    drawn = set()
    for number in (0.1, 0.85, 0.95, 0.999):
        token, logprob, _, _ = next_tokens(logits, sampling, torch.tensor([[number]], dtype=dtype))
        close(logprob[0], oracle["expected"]["logprob"][int(token)], dtype)
        drawn.add(int(token))
    assert drawn == {0, 1, 2, 3}


# ---------------------------------------------------------------------------------- metrics


@check("metric_mismatch")
def mismatch(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    t, expected = terms(oracle, torch.float64), oracle["expected"]
    found = correction.mismatch(t.old_logprobs[t.mask], t.sampler_logprobs[t.mask])
    for word, value in expected.items():
        if word in WORDS:
            assert found[WORDS[word]] == pytest.approx(value, rel=1e-9), word
    d = (t.old_logprobs - t.sampler_logprobs)[t.mask]
    close(d.square().mean() / 2, expected["kl_v2"], torch.float64)
    close(d.exp().max(), expected["rho_max"], torch.float64)
    now = (t.logprobs - t.sampler_logprobs)[t.mask].detach()
    close((torch.expm1(now) - now).mean(), expected["policy_vs_rollout_k3"], torch.float64)


@check("metric_prob_pearson")
def pearson(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    both = [torch.tensor(oracle["inputs"][k], dtype=torch.float64).log() for k in
            ("trainer", "sampler")]  # fmt: skip
    found = correction.mismatch(*both)["mismatch/pearson"]
    assert found == pytest.approx(oracle["expected"]["pearson"], rel=1e-9)


@check("metric_group_signal")
def group_signal(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    expected = oracle["expected"]
    rewards, scored = rewards_and_all(oracle["inputs"]["rewards"], dtype)
    found = group_metrics(rewards, rewards > 0, scored)
    for word, value in expected.items():
        if word in WORDS:
            assert found[WORDS[word]] == pytest.approx(value), word
    close(rewards.mean(), expected["reward_mean"], dtype)
    problem = Problem("p", "", "", "")
    groups = [
        Group(problem, [_scored(value) for value in group]) for group in rewards.float().tolist()
    ]
    assert effective(groups, Variant()) == expected["effective_completions"]


def _scored(value: float) -> Rollout:
    score = Score(value, "incorrect", "")
    return Rollout("p", 0, 0, [1], [2], [0.0], "stop", "", Sampling(), 0, 0, score=score)


@check("metric_signal_probability")
def signal_probability(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """By counting all groups that `mixed` calls mixed, each with its probability."""
    p, sizes = oracle["inputs"]["p"], oracle["inputs"]["G"]
    for size, expected in zip(sizes, oracle["expected"]["mixed"], strict=True):
        right = torch.arange(size + 1)
        rewards = (torch.arange(size) < right[:, None]).double()  # one group per count of rights
        signal = adv.mixed(rewards, torch.ones_like(rewards, dtype=torch.bool))
        chance = [math.comb(size, c) * p**c * (1 - p) ** (size - c) for c in right.tolist()]
        close(torch.tensor(chance, dtype=torch.float64)[signal].sum(), expected, torch.float64)


# ---------------------------------------------------------------------------------- rewards


def group_of(oracle: dict[str, Any]) -> Lengths:
    given = oracle["inputs"]
    limit, target = given.get("L_max", 1000), given.get("target", given.get("n_goal", 0))
    correct = given.get("correct", [1, 1, 0, 0])
    return Lengths(given["lengths"], correct, limit=limit, target=target)


def beside(correct: Sequence[float], terms: Sequence[float]) -> list[float]:
    """The whole reward: 1 for a right answer and what its length adds."""
    return [c + term for c, term in zip(correct, terms, strict=True)]


@check("length_kimi")
def length_kimi(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    close(
        torch.tensor(length.kimi(group_of(oracle)), dtype=dtype), oracle["expected"]["bonus"], dtype
    )


@check("length_laser")
def length_laser(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    group = group_of(oracle)
    found = torch.tensor(beside(group.correct, length.laser(group)), dtype=dtype)
    close(found, oracle["expected"]["reward"], dtype)


@check("length_l1")
def length_l1(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    group = group_of(oracle)
    exact = torch.tensor(beside(group.correct, length.l1_exact(group)), dtype=dtype)
    close(exact, oracle["expected"]["exact_a0.0003"], dtype)
    steep = length.l1_max(replace(group, slope=0.01))
    found = torch.tensor(beside(group.correct, steep), dtype=dtype)
    close(found, oracle["expected"]["max_a0.01"], dtype)


@check("length_lead")
def length_lead(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """With a wrong answer among them, whose length counts nowhere."""
    lengths = [*oracle["inputs"]["lengths_of_correct"], 9000.0]
    params = oracle["params"]
    terms_ = length.lead(Lengths(lengths, [1, 1, 1, 0], 9999), alpha=params["a"], eps=params["eps"])
    found = torch.tensor(beside([1, 1, 1, 0], terms_), dtype=dtype)
    close(found, [*oracle["expected"]["reward"], 0.0], dtype)


@check("length_mai")
def length_mai(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """Half of the group is right, which is the oracle's solve rate."""
    group, given = group_of(oracle), oracle["inputs"]
    assert sum(group.correct) / len(group.correct) == given["solve_rate"]
    found = torch.tensor(length.mai(group, weight=given["w"]), dtype=dtype)
    close(-found, oracle["expected"]["penalty"], dtype)


@check("length_cosine")
def length_cosine(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    lengths = [1000 * share for share in oracle["inputs"]["fraction_of_max"]]
    for word, correct in (("correct", [1, 1, 1]), ("wrong", [0, 0, 0])):
        found = beside(correct, length.cosine(Lengths(lengths, correct, limit=1000)))
        close(torch.tensor(found, dtype=dtype), oracle["expected"][word], dtype)


@check("repetition_penalty")
def repetition_penalty(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    found = -given["max_penalty"] * repeated(given["words"], given["n"])
    close(torch.tensor(found, dtype=dtype), oracle["expected"]["penalty"], dtype)


@check("language_reward")
def language_reward(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    found = [one_language(count) for count in oracle["inputs"]["n_foreign"]]
    close(torch.tensor(found, dtype=dtype), oracle["expected"]["reward"], dtype)


@check("format_gating")
def format_gating(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    given = oracle["inputs"]
    for word, expected in oracle["expected"].items():
        gate = GATES[WORDS[word]]  # type: ignore[index]
        pairs = zip(given["correct"], given["format"], strict=True)
        close(
            torch.tensor([gate(c, f, given["w"]) for c, f in pairs], dtype=dtype), expected, dtype
        )


@check("format_reward_amplification")
def format_reward_amplification(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """A standard deviation makes a small format reward full size."""
    given, expected = oracle["inputs"], oracle["expected"]
    pairs = zip(given["correct"], given["format"], strict=True)
    values = [GATES["additive"](c, f, given["w"]) for c, f in pairs]
    rewards, scored = rewards_and_all(values, torch.float64)
    close(adv.zscore(rewards, scored)[0], expected["with_std_eps1e-4"], torch.float64)
    close(adv.centred(rewards, scored)[0], expected["centred_only"], torch.float64)


# ---------------------------------------------------------------------------------- whole steps


@check("step_tabular_grpo")
def tabular_policy(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    """Four updates on one batch: loss, gradient, clip share, new logits."""
    given, expected = oracle["inputs"], oracle["expected"]
    completions = given["completions"]
    mask = torch.tensor([[t < len(row) for t in range(2)] for row in completions])
    taken = torch.tensor([row + [0] * (2 - len(row)) for row in completions])
    rewards, scored = rewards_and_all(given["rewards"], torch.float64)
    advantages = adv.centred(rewards, scored)[0, :, None]
    close(advantages[:, 0], expected["advantages"], torch.float64)
    logits = torch.tensor(given["logits"], dtype=torch.float64)
    position = torch.arange(2).expand(4, 2)
    old = logits.log_softmax(-1)[position, taken]
    row = Variant(clip_high=0.28)
    weight = WEIGHTINGS["token"](mask, torch.zeros(4, dtype=torch.long), 4, 2, torch.float64)
    for step, value in enumerate(expected["steps_loss"]):
        variable = logits.clone().requires_grad_()
        lp = variable.log_softmax(-1)[position, taken]
        t = Terms(lp, old, old, advantages, mask)
        loss = (per_token_loss(row, t, Controls()) * weight).sum()
        (found,) = torch.autograd.grad(loss, variable)
        cut = cut_of(row, t, Controls())
        assert loss.item() == pytest.approx(value, rel=1e-9)
        wanted = torch.tensor(expected["steps_grad"][step], dtype=torch.float64)
        assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12)
        assert (cut.low + cut.high) / cut.of == pytest.approx(expected["steps_clip_fraction"][step])
        logits = logits - given["lr"] * found
    final = torch.tensor(expected["final_logits"], dtype=torch.float64)
    assert torch.allclose(logits, final, rtol=1e-9, atol=1e-12)


@check("grad_clip_global_norm")
def gradient_clipping(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 4, dtype=dtype))
    weight.grad = torch.tensor(oracle["inputs"]["grad"], dtype=dtype)
    norm = torch.nn.utils.clip_grad_norm_([weight], oracle["inputs"]["c"])
    close(norm, oracle["expected"]["norm"], dtype)
    close(weight.grad, oracle["expected"]["clipped"], dtype)


@check("zero_signal_batch")
def zero_signal(oracle: dict[str, Any], dtype: torch.dtype) -> None:
    rewards, scored = rewards_and_all(oracle["inputs"]["rewards"], dtype)
    assert not adv.mixed(rewards, scored).any()
    for name, rule in BY_GROUP.items():
        if name != "adv_reinforce_raw":
            assert not rule(rewards, scored).any(), name
    kl, beta = torch.tensor([oracle["inputs"]["k3_kl"]], dtype=dtype), oracle["inputs"]["beta"]
    close(kl.mean() * beta, oracle["expected"]["loss_with_kl_token_mean"], dtype)


def test_every_oracle_of_the_objective_has_a_check() -> None:
    assert len(HERE) == 99
    assert set(CHECKS) == set(HERE)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float64", "float32"])
@pytest.mark.parametrize("name", HERE)
def test_oracle(name: str, dtype: torch.dtype) -> None:
    CHECKS[name](ORACLES[name], dtype)

"""Metrics against worked numbers, and what a line of the log may hold."""

import json
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.objective.correction import mismatch
from rlvr.objective.loss import Cut
from rlvr.observe.keys import METRICS
from rlvr.observe.metrics import (
    advantage_metrics,
    boxes,
    cancelled,
    cut_metrics,
    divergences,
    group_metrics,
    length_metrics,
    repetition,
    reward_metrics,
    rollout_metrics,
    row,
    text_metrics,
    thinks_well,
    update_metrics,
)
from rlvr.records import Group, Problem, Rollout, Sampling, Score, Verdict
from rlvr.training.update import Seen, Update

CLOSE = 1e-6


def rollout(
    text: str = "",
    *,
    value: float | None = 0.0,
    verdict: Verdict = "incorrect",
    length: int = 2,
    cut: bool = False,
    parts: dict[str, float] | None = None,
    answer: str | None = None,
) -> Rollout:
    return Rollout(
        problem_id="p",
        group_id=0,
        slot=0,
        prompt_tokens=[1],
        answer_tokens=[7] * length,
        sampler_logprobs=[-0.5] * length,
        sampler_entropies=[0.25] * length,
        finish_reason="length" if cut else "stop",
        text=text,
        sampling=Sampling(),
        seed=0,
        weights_version=0,
        score=Score(value, verdict, "by hand", answer=answer, parts=parts or {}),
    )


def right(length: int = 2) -> Rollout:
    return rollout(value=1.0, verdict="correct", answer="1", length=length)


def group(rollouts: Sequence[Rollout]) -> Group:
    return Group(Problem("p", "1+0=", "1", "test"), rollouts)


def test_group_signal_gives_the_worked_shares() -> None:
    rewards = torch.tensor(
        [[1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    )
    found = group_metrics(rewards, rewards == 1, torch.ones(4, 4, dtype=torch.bool))
    assert found == {
        "groups/all_wrong": 0.25,
        "groups/all_right": 0.25,
        "groups/mixed": 0.5,
        "groups/zero_std": 0.5,
        "reward/within_std": pytest.approx(0.26933756729740643, abs=CLOSE),
    }


def test_a_rollout_without_a_score_is_neither_right_nor_wrong_in_its_group() -> None:
    rewards = torch.tensor([[1.0, 1.0, 0.0], [0.0, 5.0, 0.0], [9.0, 9.0, 9.0]])
    scored = torch.tensor([[True, True, False], [True, False, True], [False, False, False]])
    found = group_metrics(rewards, rewards == 1, scored)
    assert found["groups/all_right"] == 0.5
    assert found["groups/all_wrong"] == 0.5
    assert found["groups/zero_std"] == 1.0
    assert found["reward/within_std"] == 0.0


def test_groups_without_any_score_give_null_and_no_crash() -> None:
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    found = group_metrics(torch.zeros(2, 3), nothing, nothing)
    assert found["groups/mixed"] is None


def test_a_format_reward_does_not_make_wrong_groups_look_mixed() -> None:
    rewards = torch.tensor([[0.5, 0.0]])
    wrong = torch.zeros(1, 2, dtype=torch.bool)
    found = group_metrics(rewards, wrong, torch.ones(1, 2, dtype=torch.bool))
    assert (found["groups/all_wrong"], found["groups/zero_std"]) == (1.0, 0.0)


def test_reward_shares_by_hand() -> None:
    scores = [
        Score(1.5, "correct", "", parts={"correctness": 1.0, "format": 1.0}),
        Score(0.5, "incorrect", "", parts={"correctness": 0.0, "format": 1.0}),
        Score(0.0, "incorrect", "", parts={"correctness": 0.0, "format": 0.0}),
        Score(None, "could not judge", ""),
    ]
    found = reward_metrics(scores)
    assert found == {
        "reward/mean": pytest.approx(2 / 3),
        "reward/correct": pytest.approx(1 / 3),
        "reward/format_only": pytest.approx(1 / 3),
        "reward/none": 0.25,
        "verifier/error": 0.25,
        "verifier/unreadable": 0.0,
        "reward/part/correctness": pytest.approx(1 / 3),
        "reward/part/format": pytest.approx(2 / 3),
    }


def test_lengths_by_hand() -> None:
    found = length_metrics([right(length=1), right(length=3), rollout(length=8, cut=True)])
    assert found["length/mean"] == 4
    assert found["length/p50"] == 3
    assert found["length/p95"] == pytest.approx(7.5)
    assert (found["length/max"], found["length/total"]) == (8, 12)
    assert (found["length/correct"], found["length/wrong"]) == (2, 8)
    assert found["length/truncated"] == pytest.approx(1 / 3)


def test_text_shares_by_hand() -> None:
    texts = [
        r"<think>1+1=2</think>\boxed{2}",
        r"<think>so it is so it is so it is",
        r"\boxed{2} or \boxed{3}",
        r"\boxed{2}</think>",
    ]
    assert text_metrics(texts) == {
        "text/repetition": pytest.approx(1 / 12),  # of six 4-grams in the second, two are repeats
        "text/repetition_p95": pytest.approx(0.85 / 3),
        "text/multi_answer": 0.25,
        "text/think_open": 0.5,
        "text/think_close": 0.5,
        "text/think_ok": 0.25,
    }


def test_one_answer_said_twice_is_one_answer() -> None:
    assert text_metrics([r"\boxed{2} so \boxed{ 2 }"])["text/multi_answer"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "<think><think></think>",
        "</think><think>",
        r"<think>\boxed{1}</think>",
        "<think></think></think>",
        "<think>",
        "",
    ],
)
def test_a_thought_that_is_not_whole_and_before_the_box_is_not_ok(text: str) -> None:
    assert not thinks_well(text)


@given(st.text(alphabet="a {}\\boxed<think/>\n", max_size=200))
def test_any_text_has_metrics(text: str) -> None:
    assert 0 <= repetition(text) < 1
    assert isinstance(boxes(text), list)
    assert all(value is not None and 0 <= value <= 1 for value in text_metrics([text]).values())


def test_advantages_are_those_of_the_answers_that_train() -> None:
    assert advantage_metrics(torch.tensor([1.0, -0.5])) == {
        "adv/mean": 0.25,
        "adv/std": 0.75,
        "adv/min": -0.5,
        "adv/max": 1.0,
        "adv/abs_max": 1.0,
    }
    assert advantage_metrics(torch.zeros(0)) == {}


OLD = torch.tensor([-1.2, -0.3, -2.0, -1.1, -1.5], dtype=torch.float64)
RHO = torch.tensor([1.1, 0.9, 2.6, 0.45, 1.0], dtype=torch.float64)


def test_mismatch_gives_the_worked_numbers() -> None:
    found = mismatch(OLD, OLD - RHO.log())
    expected = {
        "kl_k1": -0.029390682591232654,
        "kl_k3": 0.18060931740876726,
        "prob_diff": 0.11996402289536745,
        "mult_error": 1.6066666666666667,
        "ess": 0.7333333333333334,
        "chi2": 0.9965,
        "rho_mean": 1.21,
    }
    for name, value in expected.items():
        assert found[f"mismatch/{name}"] == pytest.approx(value, abs=1e-9), name
    gap = (OLD.exp() * (1 - 1 / RHO)).abs().max().item()
    assert found["mismatch/prob_diff_max"] == pytest.approx(gap)


def test_correlation_of_probabilities_gives_the_worked_number() -> None:
    learner, sampler = torch.tensor([0.1, 0.5, 0.9, 0.3]), torch.tensor([0.12, 0.48, 0.91, 0.33])
    found = mismatch(learner.log(), sampler.log())
    assert found["mismatch/pearson"] == pytest.approx(0.99818388626028, abs=CLOSE)
    alike = mismatch(torch.full((3,), -0.5), torch.full((3,), -0.5))
    assert alike["mismatch/pearson"] is None


def test_divergence_estimates_have_the_enumerated_expectations() -> None:
    log_q = torch.tensor([0.2, -0.1, 0.5], dtype=torch.float64).log_softmax(0)
    log_p = torch.tensor([0.0, 0.0, 0.3], dtype=torch.float64).log_softmax(0)
    expected = {"k1": 0.0086196842886485, "k2": 0.008237996091601866, "k3": 0.0086196842886485}
    each = [divergences((log_p - log_q)[i : i + 1]) for i in range(3)]
    for name, value in expected.items():
        mean = sum(float(log_q[i].exp()) * each[i][name] for i in range(3))
        assert mean == pytest.approx(value, abs=1e-9), name


def test_k3_of_a_tiny_difference_is_exact_and_not_negative() -> None:
    found = divergences(torch.tensor([1e-4, -1e-4], dtype=torch.float32))["k3"]
    assert found == pytest.approx(0.5e-8, rel=0.01)


def test_cut_shares_are_sums_over_counts_and_not_means_of_shares() -> None:
    """BC-46: a mini-batch of 1 token and one of 9."""
    found = cut_metrics([Cut(1, 0, 1), Cut(0, 3, 9)])
    assert (found["ratio/clip_low"], found["ratio/clip_high"]) == (0.1, 0.3)
    assert cut_metrics([]) == {"ratio/clip_low": 0.0, "ratio/clip_high": 0.0}


def test_a_skipped_step_leaves_no_number_that_pretends_to_be_measured() -> None:
    found = update_metrics(Update(lr=1e-3))
    assert found["optim/skipped"] == 1
    assert found["grad/norm"] is None
    assert not any(key.startswith(("ratio/", "mismatch/")) for key in found)


def seen(logprobs: list[float], moved: float, importance: list[float] | None = None) -> Seen:
    old = torch.tensor(logprobs)
    weight = torch.tensor(importance) if importance else torch.ones(len(old))
    return Seen(old + moved, old, old + 0.01, old - 1.0, weight, weight > 1.5)


def test_an_update_on_policy_has_ratio_one_and_reports_its_gradient() -> None:
    update = Update(
        lr=1e-3, optimizer_steps=1, grad_norms=[1.5], seen=[seen([-0.1, -2.0], 0.0)],
        cuts=[Cut(0, 0, 2)],
    )  # fmt: skip
    found = update_metrics(update, max_grad_norm=1.0)
    assert (found["ratio/first"], found["ratio/kl_k3"]) == (1.0, 0.0)
    assert found["grad/clipped"] == 1.0
    assert found["optim/skipped"] == 0
    assert found["kl_ref/k1"] == pytest.approx(1.0)
    assert found["kl_ref/k3"] == pytest.approx(math.exp(-1), abs=CLOSE)
    assert found["mismatch/kl_k1"] == pytest.approx(0.01, abs=CLOSE)
    assert set(found) <= {metric.key for metric in METRICS}


def test_several_optimizer_steps_are_averaged_by_token_and_the_ends_kept_apart() -> None:
    """The first ratio says whether old and new come from the same computation."""
    parts = [seen([-1.0], 0.0), seen([-1.0, -1.0, -1.0], 0.5, [2.0, 2.0, 0.0])]
    update = Update(
        lr=1.0, optimizer_steps=2, nonfinite=1, grad_norms=[1.0, 3.0], seen=parts,
        cuts=[Cut(0, 0, 1), Cut(0, 2, 3)],
    )  # fmt: skip
    found = update_metrics(update, max_grad_norm=2.0)
    assert found["ratio/first"] == 1.0
    assert found["ratio/last"] == pytest.approx(math.exp(0.5))
    assert found["ratio/mean"] == pytest.approx((1 + 3 * math.exp(0.5)) / 4)
    assert (found["grad/norm"], found["grad/clipped"]) == (2.0, 0.5)
    assert found["ratio/clip_high"] == 0.5
    assert (found["mismatch/dropped"], found["mismatch/capped"]) == (0.25, 0.5)
    assert (found["optim/steps"], found["grad/nonfinite"], found["optim/skipped"]) == (2, True, 0)


def test_a_reference_far_away_is_counted_and_gives_finite_numbers() -> None:
    """BC-40: 80 nats are held at 20, and the share of such tokens is a metric."""
    far = Seen(
        torch.tensor([-1.0, -81.0]), torch.tensor([-1.0, -81.0]), torch.tensor([-1.0, -81.0]),
        torch.tensor([-1.0, -1.0]), torch.ones(2), torch.zeros(2, dtype=torch.bool),
    )  # fmt: skip
    found = update_metrics(Update(lr=1.0, optimizer_steps=1, grad_norms=[1.0], seen=[far]))
    assert found["kl_ref/far"] == 0.5
    assert all(math.isfinite(value) for key, value in found.items() if value and "kl_ref" in key)


def test_a_whole_step_gives_a_line_of_strict_json_with_declared_keys() -> None:
    groups = [group([right(), rollout(text="no", length=5)]), group([right(), right()])]
    found = row(rollout_metrics(groups))
    assert set(found) <= {metric.key for metric in METRICS}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["reward/mean"] == found["reward/correct"] == 0.75
    assert found["text/answer_found"] == 0.75
    assert found["groups/mixed"] == 0.5
    assert found["length/total"] == 11
    assert (found["entropy/mean"], found["logprob/mean"]) == (0.25, -0.5)


def test_what_is_not_finite_becomes_null() -> None:
    found = row({"reward/mean": math.nan, "ratio/max": math.inf, "grad/clipped": False, "step": 2})
    assert found == {"reward/mean": None, "ratio/max": None, "grad/clipped": 0, "step": 2}
    assert type(found["grad/clipped"]) is int


def test_an_undeclared_key_is_our_mistake_and_stops() -> None:
    with pytest.raises(KeyError, match="reward/maen"):
        row({"reward/maen": 1.0})
    assert row({"reward/part/mine": 0.5}) == {"reward/part/mine": 0.5}


def test_every_metric_is_declared_once() -> None:
    keys = [metric.key for metric in METRICS]
    assert len(keys) == len(set(keys))
    assert all(metric.unit and metric.meaning for metric in METRICS)


def test_parts_that_cancel_in_the_sum_are_named() -> None:
    """BC-35: no signal in the reward, though its parts differ."""
    answers = [
        rollout(text="a", length=3, value=1.0, parts={"correctness": 1.0, "format": 0.0}),
        rollout(text="b", length=3, value=1.0, parts={"correctness": 0.0, "format": 1.0}),
    ]
    assert cancelled(group(answers), {})
    assert rollout_metrics([group(answers)])["groups/cancelled"] == 1.0
    assert not cancelled(group([right(), right()]), {})


def test_a_part_that_is_only_measured_cancels_nothing() -> None:
    answers = [
        rollout(text=text, value=1.0, parts={"correctness": 1.0, "format": form})
        for text, form in (("a", 0.0), ("b", 1.0))
    ]
    weights = {"correctness": 1.0, "format": 0.0}
    assert rollout_metrics([group(answers)], weights)["groups/cancelled"] == 0.0

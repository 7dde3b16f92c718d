"""What public trainers got wrong, sections A to E: each case as a test named after what it claims.

BC numbers name the case in public reports of other trainers. Cases that other tests hold, and those
that can't arise, are listed in docs/decisions.md.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from rlvr.config import resolve
from rlvr.errors import UsageError
from rlvr.model.logprobs import token_logprobs
from rlvr.model.weights import Model, load_model
from rlvr.objective.advantages import mixed
from rlvr.objective.correction import importance_ratio
from rlvr.objective.loss import (
    ADVANTAGES,
    Controls,
    Outcomes,
    Terms,
    advantages_of,
    per_token_loss,
    weights_of,
)
from rlvr.objective.slots import Level, Surrogate, Variant
from rlvr.objective.variants import variant
from rlvr.observe.metrics import rollout_metrics, row, update_metrics
from rlvr.records import Group, Problem, Prompt, Rollout, Sampling, Score
from rlvr.rewards import Answer, Reward, reward
from rlvr.rollout.engine import Draws, rollouts
from rlvr.training.batching import (
    groups_with_signal,
    make_batch,
    mini_batches,
    outcomes_of,
    rewards_of,
)
from rlvr.training.settings import Optimiser
from rlvr.training.update import Learner, Update, optimise

PROBLEMS = [
    Problem(str(n), text, "", "test") for n, text in enumerate(["1+2=", "3", "45*6=", "7-"])
]
SAMPLING = Sampling(max_new_tokens=12)


@pytest.fixture
def model(tiny_model_folder: Path) -> Model:
    return load_model(tiny_model_folder)


def sampled(model: Model, sampling: Sampling = SAMPLING, size: int = 3) -> list[Group]:
    """Groups of answers of different lengths; each group's first answer is right."""
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
    prompts = [Prompt(problem.prompt) for problem in PROBLEMS]
    drawn = list(rollouts(weights, model.tokens, PROBLEMS, prompts, size, sampling, Draws(1, 1), 0))
    scored = [replace(r, score=Score(float(r.slot == 0), "incorrect", "by hand")) for r in drawn]
    return [Group(p, scored[size * n : size * (n + 1)]) for n, p in enumerate(PROBLEMS)]


def learner_of(model: Model, row: Variant, lr: float = 1e-2) -> Learner:
    """Plain gradient descent, unclipped, so that a constant factor can't hide."""
    optimizer = torch.optim.SGD(model.decoder.parameters(), lr=lr)
    settings = Optimiser(max_grad_norm=1e9, tokens_at_once=50)
    return Learner(model.decoder, optimizer, row, settings, torch.float32)


def updated(
    learner: Learner, groups: Sequence[Group], lr: float = 1e-2, version: int = 0
) -> Update:
    batch = make_batch(groups, learner.variant, 0, version)
    seen = outcomes_of(groups, {}, learner.variant)
    controls = Controls.of(learner.variant)
    return optimise(learner, batch, seen, controls, lr=lr, seed=1, step=1)


def weights_after(folder: Path, row: Variant, *rounds: Sequence[Group]) -> Tensor:
    model = load_model(folder)
    for groups in rounds:
        updated(learner_of(model, row), groups)
    return torch.cat([p.detach().flatten() for p in model.decoder.parameters()])


# A. loss scale and normalisation


@pytest.mark.parametrize("weighting", ["token", "sequence", "budget", "problem"])
def test_each_optimizer_step_divides_by_what_it_holds_also_the_last_and_shorter_one(
    tiny_model_folder: Path, model: Model, weighting: Any
) -> None:
    """BC-02, BC-03: 3 mini-batches of 4 groups are the steps their groups alone would give."""
    groups = sampled(model)
    split = Variant(weighting=weighting, surrogate="reinforce", mini_batches=3)
    batch = make_batch(groups, split, 0, 0)
    batch = replace(batch, advantages=torch.zeros(len(batch.lengths), 1))
    parts = [sorted(set(part.groups.tolist())) for part in mini_batches(batch, split, 1, 1)]
    assert sorted(map(len, parts)) == [1, 1, 2]
    together = weights_after(tiny_model_folder, split, groups)
    alone = [[groups[number] for number in part] for part in parts]
    one_by_one = weights_after(tiny_model_folder, replace(split, mini_batches=1), *alone)
    assert torch.allclose(together, one_by_one, atol=1e-7)
    assert not torch.allclose(together, weights_after(tiny_model_folder, split), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "divisor"), [("token", 5 + 2), ("sequence", None), ("budget", 3 * 8)]
)
def test_answers_masked_for_their_length_leave_every_divisor_but_the_constant(
    name: Any, divisor: int | None
) -> None:
    """BC-05: the count comes from the very mask of the numerator."""
    lengths = torch.tensor([5, 8, 2])
    full = torch.arange(8)[None] < lengths[:, None]
    mask = full & torch.tensor([[True], [False], [True]])
    groups = torch.zeros(3, dtype=torch.long)
    weight = weights_of(Variant(weighting=name), mask, groups, 3, 8)
    assert not weight[1].any()
    if divisor is None:
        assert torch.allclose(weight.sum(dim=1), torch.tensor([0.5, 0.0, 0.5]))
    else:
        assert torch.allclose(weight[mask], torch.full((7,), 1 / divisor))
    nothing = weights_of(Variant(weighting=name), torch.zeros_like(mask), groups, 3, 8)
    assert torch.equal(nothing, torch.zeros(3, 8))


def test_a_step_whose_answers_are_all_masked_changes_nothing(model: Model) -> None:
    """BC-05: zero gradient and no nan where every answer was cut by the limit."""
    groups = [
        replace(group, rollouts=[replace(r, finish_reason="length") for r in group.rollouts])
        for group in sampled(model)
    ]
    before = [parameter.clone() for parameter in model.decoder.parameters()]
    result = updated(learner_of(model, Variant(overlong="mask")), groups)
    assert result.skipped
    assert all(torch.equal(a, b) for a, b in zip(before, model.decoder.parameters(), strict=True))


def test_tokens_left_out_for_their_entropy_stay_in_the_divisor() -> None:
    """BC-05: stated in `selection`; the policy loss of the others keeps its size."""
    mask = torch.ones(1, 5, dtype=torch.bool)
    entropies = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.9]])
    lp = torch.zeros(1, 5, requires_grad=True)
    zero = torch.zeros(1, 5)
    chosen = entropies >= 0.5
    terms = Terms(lp, zero, zero, torch.ones(1, 1), mask, chosen=chosen)
    weights = weights_of(Variant(), mask, torch.zeros(1, dtype=torch.long), 1, 5)
    loss = (per_token_loss(Variant(tokens="top_entropy"), terms, Controls()) * weights).sum()
    (gradient,) = torch.autograd.grad(loss, lp)
    assert torch.allclose(gradient, torch.tensor([[0.0, 0.0, 0.0, 0.0, -0.2]]))


# B. tokens, masks, positions


def test_a_row_beside_a_much_longer_one_has_the_logprobs_it_has_alone(model: Model) -> None:
    """BC-07."""
    weights = model.decoder.weights(torch.float32)
    short, long = [5, 9, 11, 7], [5, *range(6, 40)]
    both = torch.zeros(2, len(long), dtype=torch.long)
    both[0, : len(short)], both[1] = torch.tensor(short), torch.tensor(long)
    position = torch.arange(len(long))[None]
    mask = (position >= 2) & (position < torch.tensor([[len(short)], [len(long)]]))
    together, _ = token_logprobs(weights, both, mask, SAMPLING)
    alone, _ = token_logprobs(weights, torch.tensor([short]), mask[:1, : len(short)], SAMPLING)
    assert torch.allclose(together[0, : len(short)], alone[0], atol=1e-5)


# C. sampler versus trainer probabilities


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.6, max_new_tokens=12),
        Sampling(top_p=0.6, max_new_tokens=12),
        Sampling(temperature=1.3, top_k=5, min_p=0.05, max_new_tokens=12),
        Sampling(max_new_tokens=12, banned=(5, 6, 7)),
    ],
)
def test_the_first_ratio_is_1_for_every_way_to_sample(model: Model, sampling: Sampling) -> None:
    """BC-13, BC-15, BC-16, BC-21: also to the sampler, whatever was divided, dropped or banned."""
    groups = sampled(model, sampling)
    drawn = [t for g in groups for r in g.rollouts for t in r.answer_tokens]
    assert not set(drawn) & set(sampling.banned)
    result = updated(learner_of(model, Variant(epochs=2)), groups)
    first = result.seen[0]
    assert torch.equal(first.logprobs, first.old_logprobs)
    assert (first.old_logprobs - first.sampler_logprobs).abs().max() < 1e-4
    assert first.logprobs.isfinite().all()


def test_after_an_update_dropped_tokens_stay_those_of_the_sampler(model: Model) -> None:
    """BC-16: the set is recorded; one made anew from moved weights would lose sampled tokens."""
    groups = sampled(model, Sampling(top_k=2, max_new_tokens=12))
    learner = learner_of(model, Variant(epochs=6), lr=0.5)
    result = updated(learner, groups, lr=0.5)
    last = result.seen[-1]
    assert last.logprobs.isfinite().all()
    assert not torch.allclose(last.logprobs, last.old_logprobs, atol=1e-2)
    assert all(len(ids) == 2 for r in groups[0].rollouts for ids in r.kept)


def test_answers_that_do_not_train_leave_the_filters_of_the_others_in_their_place(
    model: Model,
) -> None:
    """BC-16: an answer without a score among filtered ones, scored before the baseline."""
    groups = sampled(model, Sampling(top_k=4, max_new_tokens=12))
    first = groups[0].rollouts
    unscored = replace(first[1], score=Score(None, "could not judge", "by hand"))
    groups[0] = replace(groups[0], rollouts=[first[0], unscored, *first[2:]])
    learner = learner_of(model, replace(variant("reinforce_pp"), kl_coefficient=0.1))
    learner.reference = load_model(model.folder).decoder.weights(torch.float32)
    result = updated(learner, groups)
    assert (result.seen[0].logprobs - result.seen[0].sampler_logprobs).abs().max() < 1e-4
    assert result.row_advantages.abs().max() < 10


@pytest.mark.parametrize("filtered", [{"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.1}])
def test_filters_without_the_sampling_mask_are_refused(filtered: dict[str, float]) -> None:
    """BC-16."""
    values = {f"rollouts.{name}": value for name, value in filtered.items()}
    with pytest.raises(UsageError, match="keep-sampling-mask true"):
        resolve(values)
    resolve(values | {"variant.keep_sampling_mask": True})
    resolve(values | {"variant": "deepseek_v32"})


def test_a_long_answer_s_product_explodes_and_its_geometric_mean_does_not() -> None:
    """BC-18: 1,000 tokens of a difference of 0.01 each."""
    old, sampler = torch.full((1, 1000), -1.0), torch.full((1, 1000), -1.01)
    mask = torch.ones(1, 1000, dtype=torch.bool)
    product = importance_ratio(old, sampler, mask, level="answer")
    assert product[0, 0].item() == pytest.approx(math.exp(10), rel=1e-3)
    mean = importance_ratio(old, sampler, mask, level="sequence")
    assert mean[0, 0].item() == pytest.approx(math.exp(0.01), rel=1e-5)


def test_the_share_of_dropped_tokens_is_logged(model: Model) -> None:
    """BC-18: answers of older weights, a correction that drops all of them."""
    strict = Variant(
        correction="keep_band", correction_level="sequence", importance_floor=0.99,
        importance_cap=1.01,
    )  # fmt: skip
    groups = [
        replace(
            g,
            rollouts=[
                replace(r, sampler_logprobs=[x + 0.5 for x in r.sampler_logprobs])
                for r in g.rollouts
            ],
        )
        for g in sampled(model)
    ]
    stale = updated(learner_of(model, strict), groups, version=1)
    assert update_metrics(stale)["mismatch/dropped"] == 1.0
    assert stale.grad_norms == [0.0]
    fresh = updated(learner_of(model, strict), groups, version=0)
    assert update_metrics(fresh)["mismatch/dropped"] == 0.0
    assert fresh.grad_norms[0] > 0


def test_the_share_of_capped_tokens_counts_corrected_answers_alone(model: Model) -> None:
    groups = [
        replace(
            g,
            rollouts=[
                replace(r, sampler_logprobs=[x - 1.0 for x in r.sampler_logprobs])
                for r in g.rollouts
            ],
        )
        for g in sampled(model)
    ]
    capped = Variant(correction="truncated", importance_cap=2.0)
    stale = updated(learner_of(model, capped), groups, version=1)
    assert update_metrics(stale)["mismatch/capped"] == 1.0
    fresh = updated(learner_of(model, capped), groups, version=0)
    assert update_metrics(fresh)["mismatch/capped"] == 0.0
    uncorrected = updated(learner_of(model, Variant()), groups, version=1)
    assert update_metrics(uncorrected)["mismatch/capped"] == 0.0


def test_an_adaptive_bonus_that_is_idle_moves_nothing_where_there_is_no_signal(
    model: Model,
) -> None:
    """Not even by the optimizer's moments of the step before."""
    row = Variant(entropy="adaptive", entropy_target=1e-9)
    optimizer = torch.optim.AdamW(model.decoder.parameters(), lr=1e-2, weight_decay=0.1)
    learner = Learner(model.decoder, optimizer, row, Optimiser(), torch.float32)
    groups = sampled(model)
    assert updated(learner, groups).optimizer_steps == 1
    before = [parameter.clone() for parameter in model.decoder.parameters()]
    flat = [
        replace(g, rollouts=[replace(r, score=Score(1.0, "correct", "")) for r in g.rollouts])
        for g in groups
    ]
    assert updated(learner, flat).skipped
    assert all(torch.equal(a, b) for a, b in zip(before, model.decoder.parameters(), strict=True))


def test_a_divergence_that_is_not_finite_leaves_its_coefficient_as_it_is() -> None:
    row = Variant(kl="k3", kl_coefficient=0.1, kl_target=0.01)
    now = Controls.of(row)
    assert now.after_update(row, math.nan) == now.after_update(row, math.inf) == now


@pytest.mark.parametrize("level", get_args(Level))
@pytest.mark.parametrize("surrogate", get_args(Surrogate))
def test_every_surrogate_at_every_level_has_a_gradient(surrogate: Any, level: Any) -> None:
    """BC-19: no combination falls into a branch with a constant ratio."""
    try:
        row = Variant(surrogate=surrogate, level=level, weighting="sequence")
    except UsageError:
        assert level != "token"
        return
    lp = torch.tensor([[-1.0, -2.0, -0.5]], requires_grad=True)
    mask = torch.ones(1, 3, dtype=torch.bool)
    for advantage in (1.0, -1.0):
        old = lp.detach()
        terms = Terms(lp, old, old, torch.tensor([[advantage]]), mask)
        (gradient,) = torch.autograd.grad(per_token_loss(row, terms, Controls()).sum(), lp)
        assert (gradient.sign() == -advantage).all()


def test_zero_is_a_value_and_not_missing() -> None:
    """BC-29: a reward of 0, a coefficient of 0, a weight of 0."""
    problem = Problem("p", "1+1=", "2", "test")
    zero = reward(Answer(problem, r"\boxed{3}", tokens=1, finished=True, limit=4), Reward())
    assert zero.value == 0.0
    rewards, scored = rewards_of([Group(problem, [rollout(0.0), rollout(None)])])
    assert rewards.tolist() == [[0.0, 0.0]]
    assert scored.tolist() == [[True, False]]
    assert resolve({"variant": "grpo", "variant.kl_coefficient": 0.0}).variant.kl_coefficient == 0
    row = Variant(kl="k3", kl_coefficient=0.0)
    assert not row.learns_without_signal
    weightless = Reward(correctness=0.0, format=1.0, format_gate="additive")
    right = reward(Answer(problem, r"\boxed{2}", tokens=1, finished=True, limit=4), weightless)
    assert (right.value, right.verdict) == (0.0, "correct")


def rollout(value: float | None, finish: Any = "stop") -> Rollout:
    score = Score(value, "could not judge" if value is None else "incorrect", "by hand")
    return Rollout("p", 0, 0, [1], [2], [-0.5], finish, "", Sampling(), 0, 0, score=score)


# D. rewards, groups, advantages


def test_the_same_problem_twice_in_a_batch_is_two_groups(model: Model) -> None:
    """BC-31: groups come by their number; each one's advantages sum to 0."""
    first, second, *_ = sampled(model)
    twice = [first, second, replace(first, rollouts=first.rollouts[::-1])]
    batch = make_batch(twice, Variant(), 0, 0)
    assert batch.groups.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    found = advantages_of(Variant(), outcomes_of(twice, {}, Variant()))[..., 0]
    assert torch.allclose(found.sum(dim=1), torch.zeros(3), atol=1e-6)
    assert found[0].tolist() == found[2].flip(0).tolist()


def test_mini_batches_keep_groups_whole(model: Model) -> None:
    """BC-31."""
    row = Variant(mini_batches=2)
    batch = make_batch(sampled(model), row, 0, 0)
    batch = replace(batch, advantages=torch.ones(len(batch.lengths), 1))
    parts = mini_batches(batch, row, seed=5, step=2)
    held = [part.groups.tolist() for part in parts]
    assert sorted(number for part in held for number in part) == sorted(batch.groups.tolist())
    assert all(part.count(number) == 3 for part in held for number in set(part))
    assert not set(held[0]) & set(held[1])


@pytest.mark.parametrize("values", [[1.0, None, None], [None, None, None]])
def test_a_group_with_fewer_than_two_scored_answers_teaches_nothing(
    values: list[float | None],
) -> None:
    """BC-32: no nan, advantage 0."""
    group = Group(PROBLEMS[0], [rollout(value) for value in values])
    seen = outcomes_of([group], {}, Variant())
    assert not mixed(seen.rewards, seen.scored).any()
    for name in set(ADVANTAGES) - {"raw", "batch_centred"}:
        found = advantages_of(Variant(advantage=name), seen)  # type: ignore[arg-type]
        assert not found.any(), name


def test_answers_masked_for_their_length_leave_the_mean_of_their_group() -> None:
    """BC-32: what the loss does not see is no baseline either."""
    group = Group(PROBLEMS[0], [rollout(1.0), rollout(0.0), rollout(0.0, "length")])
    found = advantages_of(Variant(), outcomes_of([group], {}, Variant(overlong="mask")))
    assert found.flatten().tolist() == [0.5, -0.5, 0.0]
    zero = advantages_of(Variant(), outcomes_of([group], {}, Variant()))
    assert zero.flatten().tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])


@pytest.mark.parametrize("name", list(ADVANTAGES))
def test_a_group_of_one_is_refused_in_training_and_gives_no_nan(name: Any) -> None:
    """BC-33."""
    with pytest.raises(UsageError, match="Use 2 or more"):
        resolve({"rollouts.group_size": 1})
    one = torch.ones(2, 1)
    seen = Outcomes(one, one.bool(), torch.tensor([[3], [2]]), one[..., None], torch.ones(1))
    assert advantages_of(Variant(advantage=name), seen).isfinite().all()


@pytest.mark.parametrize("gate", ["additive", "if_correct", "first"])
def test_the_logged_reward_is_the_one_that_trains(gate: Any) -> None:
    """BC-36: weights, gate and penalty included; its parts are logged without them."""
    settings = Reward(correctness=2.0, format=0.5, format_gate=gate)
    problem = Problem("p", "1+1=", "2", "test")
    texts = [r"<think>1</think>\boxed{2}", r"\boxed{2}", r"<think>1</think>\boxed{3}", r"\boxed{3}"]
    scores = [
        reward(Answer(problem, text, 9, finished=True, limit=10), settings, overlong="soft")
        for text in texts
    ]
    group = Group(problem, [replace(rollout(0.0), score=score) for score in scores])
    trained = outcomes_of([group], settings.weights, Variant()).rewards
    logged = rollout_metrics([group])
    assert logged["reward/mean"] == pytest.approx(trained.mean().item())
    assert logged["reward/part/correctness"] == 0.5
    assert logged["reward/part/format"] == 0.5
    assert logged["reward/part/overlong"] == -0.5


def test_what_was_not_measured_is_absent_or_null_and_the_line_is_json() -> None:
    """BC-38: no divergence, and a group that could not be scored."""
    group = Group(PROBLEMS[0], [rollout(None), rollout(None)])
    line = row(rollout_metrics([group]) | update_metrics(Update(lr=1.0)))
    assert line["reward/mean"] is None
    assert not any(key.startswith("kl_ref/") for key in line)
    assert all(value is None or math.isfinite(value) for value in line.values())


# E. KL, clipping, metrics


@pytest.mark.parametrize("far", [80.0, -80.0])
@pytest.mark.parametrize("name", ["grpo", "deepseek_v32", "prorl", "book_ch7_kl"])
def test_a_reference_80_nats_away_moves_the_policy_by_a_finite_step(
    model: Model, name: str, far: float
) -> None:
    """BC-40: the gradient stays finite; the share of such tokens is a metric."""
    row = replace(variant(name), kl_coefficient=0.1, epochs=1)
    learner = learner_of(model, row)
    with torch.no_grad():
        learner.reference = load_model(model.folder).decoder.weights(torch.float32)
        learner.reference.head.mul_(far)
    result = updated(learner, sampled(model))
    assert result.nonfinite == 0
    assert all(math.isfinite(norm) for norm in result.grad_norms)
    assert (update_metrics(result)["kl_ref/far"] or 0) > 0


def test_the_signal_of_a_group_is_that_of_the_answers_that_count() -> None:
    """A group that differs only by answers cut for their length teaches nothing under `mask`."""
    group = Group(PROBLEMS[0], [rollout(1.0), rollout(1.0), rollout(0.0, "length")])
    assert groups_with_signal([group], Variant()) == [group]
    assert groups_with_signal([group], Variant(overlong="mask")) == []


def test_a_divergence_in_the_reward_is_in_the_reward_alone(model: Model) -> None:
    """BC-44: counted once; coefficient 0 equals no divergence."""
    lp = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    terms = Terms(
        lp, lp.detach(), lp.detach(), torch.ones(1, 1), mask, ref_logprobs=lp.detach() - 3
    )
    plain = per_token_loss(Variant(), terms, Controls())
    in_reward = Variant(kl="reward", kl_coefficient=0.5)
    assert torch.equal(per_token_loss(in_reward, terms, Controls.of(in_reward)), plain)
    groups = sampled(model)
    learner = learner_of(model, in_reward)
    with torch.no_grad():
        learner.reference = load_model(model.folder).decoder.weights(torch.float32)
        learner.reference.head.mul_(1.5)
    shifted = updated(learner, groups).row_advantages
    off = replace(in_reward, kl_coefficient=0.0)
    unshifted = updated(learner_of(load_model(model.folder), off), groups).row_advantages
    assert not torch.allclose(shifted, unshifted, atol=1e-3)
    none = updated(learner_of(load_model(model.folder), Variant()), groups).row_advantages
    assert torch.equal(unshifted, none)


@pytest.mark.parametrize("mini_batches", [1, 2])
def test_the_first_ratio_is_1_also_where_a_divergence_was_scored_before(
    model: Model, mini_batches: int
) -> None:
    """BC-21: the start of the update is made in the very micro-batches that train."""
    row = replace(variant("reinforce_pp"), kl_coefficient=0.1, mini_batches=mini_batches)
    learner = learner_of(model, row)
    learner.reference = load_model(model.folder).decoder.weights(torch.float32)
    first = updated(learner, sampled(model)).seen[0]
    assert torch.equal(first.logprobs, first.old_logprobs)


def test_a_divergence_in_the_reward_is_taken_off_before_the_baseline(model: Model) -> None:
    """RLOO, eq. 8: by hand from the log-probabilities of policy and reference."""
    row = replace(variant("rloo"), kl_coefficient=0.3)
    groups, learner = sampled(model), learner_of(model, row)
    with torch.no_grad():
        policy = load_model(model.folder).decoder.weights(torch.float32)
        learner.reference = load_model(model.folder).decoder.weights(torch.float32)
        learner.reference.head.mul_(1.5)
        rewards = []
        for group in groups:
            for r in group.rollouts:
                tokens = torch.tensor([[*r.prompt_tokens, *r.answer_tokens]])
                mask = torch.arange(tokens.shape[1])[None] >= len(r.prompt_tokens)
                now, then = (
                    token_logprobs(w, tokens, mask, SAMPLING)[0]
                    for w in (policy, learner.reference)
                )
                assert r.score is not None
                assert r.score.value is not None
                rewards.append(r.score.value - 0.3 * float((now - then).sum()))
    by_hand = torch.tensor(rewards).view(4, 3)
    others = (by_hand.sum(dim=1, keepdim=True) - by_hand) / 2
    found = updated(learner, groups).row_advantages
    assert torch.allclose(found, (by_hand - others).flatten(), atol=1e-4)


def test_nothing_that_an_update_returns_holds_a_graph(model: Model) -> None:
    """BC-71: stored values would keep every micro-batch's activations alive."""
    found = updated(learner_of(model, variant("olmo3")), sampled(model))
    assert found.seen
    for seen in found.seen:
        for name in seen.__slots__:
            value = getattr(seen, name)
            assert value is None or not value.requires_grad, name
    assert not found.row_advantages.requires_grad

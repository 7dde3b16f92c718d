"""The whole step's gradient: against a twin on one page, and for any micro-batch size."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from plain import hidden_states, logits_of

from rlvr.model.decoder import Decoder
from rlvr.model.weights import load_model
from rlvr.objective.loss import Controls
from rlvr.objective.slots import Variant
from rlvr.objective.variants import VARIANTS, variant
from rlvr.records import Group, Problem, Prompt, Rollout, Sampling, Score
from rlvr.rollout.engine import Draws, rollouts
from rlvr.training.batching import (
    Batch,
    groups_with_signal,
    make_batch,
    micro_rows,
    mini_batches,
    outcomes_of,
)
from rlvr.training.settings import Optimiser
from rlvr.training.update import Learner, Update, optimise

Gradient = list[torch.Tensor]
SAMPLING = Sampling(temperature=0.8, max_new_tokens=14)
GROUP_SIZE = 4


@pytest.fixture
def decoder(tiny_model_folder: Path) -> Decoder:
    return load_model(tiny_model_folder).decoder


@pytest.fixture
def groups(tiny_model_folder: Path) -> list[Group]:
    """Groups with all, some and no rewards, answers of many lengths, one without a score."""
    model = load_model(tiny_model_folder)
    problems = [
        Problem(str(i), prompt, "", "test") for i, prompt in enumerate(["1+2=", "3", "45*6="])
    ]
    prompts = [Prompt(problem.prompt) for problem in problems]
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
    sampled = list(
        rollouts(weights, model.tokens, problems, prompts, GROUP_SIZE, SAMPLING, Draws(1, 1), 0)
    )
    rewards: list[float | None] = [1, 0, 0, 1, 1, 1, 1, 1, 0.5, 1, None, 0]
    scored = [
        replace(rollout, score=Score(value, "incorrect", "by hand"))
        for rollout, value in zip(sampled, rewards, strict=True)
    ]
    return [
        Group(problem, scored[GROUP_SIZE * i : GROUP_SIZE * (i + 1)])
        for i, problem in enumerate(problems)
    ]


def gradient_of_the_step(
    decoder: Decoder, groups: Sequence[Group], row: Variant, tokens_at_once: int
) -> Gradient:
    """What `optimise` hands to the optimizer, unclipped."""
    caught: Gradient = []

    class Catch(torch.optim.SGD):
        def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
            for parameter in decoder.parameters():
                assert parameter.grad is not None
                caught.append(parameter.grad.clone())

    settings = Optimiser(max_grad_norm=1e9, tokens_at_once=tokens_at_once)
    with torch.no_grad():
        reference = load_model_like(decoder).weights(torch.float32)
    learner = Learner(
        decoder,
        Catch(decoder.parameters(), lr=0.0),
        row,
        settings,
        torch.float32,
        reference if row.needs_reference else None,
    )
    update(learner, groups)
    return caught


def update(learner: Learner, groups: Sequence[Group], step: int = 1, lr: float = 0.0) -> Update:
    """All optimizer steps on some groups, chosen as the variant says."""
    row = learner.variant
    kept = list(groups) if row.groups == "all" else groups_with_signal(groups, row)
    batch = make_batch(kept, row, pad_id=0, weights_version=0) if kept else None
    seen = outcomes_of(kept, {}, row) if kept else None
    controls = Controls.of(row)
    return optimise(learner, batch, seen, controls, lr=lr, seed=1, step=step)


def load_model_like(decoder: Decoder) -> Decoder:
    """A reference a little away from the policy."""
    other = Decoder(decoder.shape)
    generator = torch.Generator().manual_seed(9)
    for a, b in zip(other.parameters(), decoder.parameters(), strict=True):
        a.data.copy_(b.data + 0.02 * torch.randn(b.shape, generator=generator))
    return other


def gradient_by_the_book(decoder: Decoder, groups: Sequence[Group]) -> Gradient:
    """Centred advantages, token mean over groups with a signal; one rollout at a time."""
    decoder.zero_grad()
    weights = decoder.weights(torch.float32)
    trained: list[tuple[Rollout, float]] = []
    for group in groups:
        scored = [r for r in group.rollouts if r.score and r.score.value is not None]
        values = [float(r.score.value) for r in scored if r.score and r.score.value is not None]
        if len(set(values)) > 1:
            mean = sum(values) / len(values)
            trained += [(r, value - mean) for r, value in zip(scored, values, strict=True)]
    count = sum(len(rollout.answer_tokens) for rollout, _ in trained)
    loss = torch.zeros(())
    for rollout, advantage in trained:
        text = [*rollout.prompt_tokens, *rollout.answer_tokens]
        logits = logits_of(weights, hidden_states(weights, torch.tensor([text])))[0]
        for place in range(len(rollout.prompt_tokens), len(text)):
            before = logits[place - 1] / rollout.sampling.temperature
            loss = loss - advantage * before.log_softmax(0)[text[place]] / count
    loss.backward()
    gradient = [p.grad.clone() for p in decoder.parameters() if p.grad is not None]
    decoder.zero_grad()
    return gradient


NOISE = 4e-6  # of float32 sums made in another order, as a share of the largest number


def difference(a: Gradient, b: Gradient) -> float:
    """The largest difference, as a share of the largest number."""
    largest = max(float(y.abs().max()) for y in b)
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True)) / largest


def test_the_gradient_of_a_step_agrees_with_the_twin_on_one_page(
    decoder: Decoder, groups: list[Group]
) -> None:
    found = gradient_of_the_step(decoder, groups, variant("olmo3"), 4096)
    expected = gradient_by_the_book(decoder, groups)
    assert max(float(part.abs().max()) for part in expected) > 1e-3
    assert difference(found, expected) < NOISE


def one_step(name: str) -> Variant:
    """A row with one optimizer step on all its answers, and a divergence where it can have one."""
    row = variant(name)
    coefficient = 0.1 if row.kl != "none" else 0.0
    return replace(row, epochs=1, mini_batches=1, kl_coefficient=coefficient)


@pytest.mark.parametrize("name", list(VARIANTS))
def test_any_micro_batch_size_gives_the_same_gradient(
    decoder: Decoder, groups: list[Group], name: str
) -> None:
    whole = gradient_of_the_step(decoder, groups, one_step(name), 10**6)
    assert max(float(part.abs().max()) for part in whole) > 1e-4
    for tokens_at_once in (1, 30, 70, 150):
        parts = gradient_of_the_step(decoder, groups, one_step(name), tokens_at_once)
        assert difference(parts, whole) < NOISE, tokens_at_once


BONUS = Variant(entropy="bonus", entropy_coefficient=0.1)


@pytest.mark.parametrize("row", [BONUS, Variant(tokens="top_entropy")])
def test_terms_beside_the_policy_loss_add_up_over_micro_batches_too(
    decoder: Decoder, groups: list[Group], row: Variant
) -> None:
    whole = gradient_of_the_step(decoder, groups, row, 10**6)
    plain = gradient_of_the_step(decoder, groups, Variant(), 10**6)
    assert difference(whole, plain) > 1e-5
    for tokens_at_once in (1, 70):
        parts = gradient_of_the_step(decoder, groups, row, tokens_at_once)
        assert difference(parts, whole) < NOISE, tokens_at_once


def test_the_order_of_the_groups_changes_no_gradient(decoder: Decoder, groups: list[Group]) -> None:
    row = Variant()
    one, other = (gradient_of_the_step(decoder, g, row, 70) for g in (groups, groups[::-1]))
    assert difference(one, other) < NOISE


def whole_batch(groups: Sequence[Group], row: Variant | None = None, pad_id: int = 0) -> Batch:
    """All answers with a signal, each with some advantage, in one mini-batch with weights."""
    row = row or variant("olmo3")
    batch = make_batch(groups_with_signal(groups, row), row, pad_id, weights_version=0)
    advantages = torch.linspace(-1, 1, len(batch.lengths))[:, None]
    return mini_batches(replace(batch, advantages=advantages), row, seed=0, step=1)[0]


def test_micro_batches_hold_every_row_once_within_the_token_budget(groups: list[Group]) -> None:
    batch = whole_batch(groups)
    parts = [batch.rows(rows) for rows in micro_rows(batch, tokens_at_once=60)]
    assert len(parts) > 1
    assert sum(len(part.lengths) for part in parts) == len(batch.lengths)
    for part in parts:
        prompts = {
            int(g): int(n)
            for g, n in zip(part.groups, part.lengths - part.mask.sum(1), strict=True)
        }
        tokens = int(part.mask.sum()) + sum(prompts.values())  # a shared prompt counts once
        assert tokens <= 60 or len(part.lengths) == 1
    total = sum(float(part.weights.sum()) for part in parts if part.weights is not None)
    assert total == pytest.approx(1.0)


def begun(group: Group, prefix: list[int]) -> Group:
    """A group whose prompt has more before it."""
    rollouts = [replace(r, prompt_tokens=[*prefix, *r.prompt_tokens]) for r in group.rollouts]
    return replace(group, rollouts=rollouts)


def test_a_prefix_of_all_prompts_counts_once_in_a_micro_batch(
    decoder: Decoder, groups: list[Group]
) -> None:
    prefix = list(range(3, 23))
    batch = whole_batch([begun(group, prefix) for group in groups])
    prompts = sum(len(groups[group].rollouts[0].prompt_tokens) for group in (0, 2))
    needed = len(prefix) + prompts + int(batch.mask.sum())
    assert len(micro_rows(batch, tokens_at_once=needed)) == 1
    assert len(micro_rows(batch, tokens_at_once=needed - 1)) == 2
    other = whole_batch([begun(groups[0], prefix), begun(groups[2], prefix[::-1])])
    assert len(micro_rows(other, tokens_at_once=needed)) == 2
    longer = [begun(group, prefix) for group in groups]
    whole = gradient_of_the_step(decoder, longer, Variant(), 10**6)
    for tokens_at_once in (1, needed // 2):
        parts = gradient_of_the_step(decoder, longer, Variant(), tokens_at_once)
        assert difference(parts, whole) < NOISE


def test_the_end_token_trains_once_and_nothing_behind_it(groups: list[Group]) -> None:
    """Masks are made from lengths, so padding with the end token itself changes nothing."""
    with_end, plain = whole_batch(groups, pad_id=2), whole_batch(groups)
    assert torch.equal(with_end.mask, plain.mask)
    rows = [r for g in (groups[0], groups[2]) for r in g.rollouts]
    known = [len(r.answer_tokens) if r.score and r.score.value is not None else 0 for r in rows]
    assert [int(n) for n in plain.mask.sum(dim=1)] == known
    last = [int(plain.tokens[i, n - 1]) for i, n in enumerate(plain.lengths.tolist())]
    assert last == [r.answer_tokens[-1] for r in rows]


def untouched(decoder: Decoder, optimizer: torch.optim.Optimizer, before: Gradient) -> bool:
    same = all(torch.equal(a, b) for a, b in zip(before, decoder.parameters(), strict=True))
    return same and not optimizer.state


@pytest.mark.parametrize(
    "name", [name for name, row in VARIANTS.items() if not row.learns_without_signal]
)
def test_a_batch_without_a_signal_changes_nothing(
    decoder: Decoder, groups: list[Group], name: str
) -> None:
    """Not even by weight decay, or by the optimizer's moments."""
    before = [parameter.clone() for parameter in decoder.parameters()]
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1.0, weight_decay=1.0)
    row = variant(name)
    learner = Learner(decoder, optimizer, row, Optimiser(), torch.float32)
    result = update(learner, [groups[1]], lr=1.0)
    assert result.skipped
    assert untouched(decoder, optimizer, before)


def test_a_divergence_still_pulls_where_there_is_no_signal(
    decoder: Decoder, groups: list[Group]
) -> None:
    row = replace(variant("grpo"), kl_coefficient=0.1)
    caught = gradient_of_the_step(decoder, [groups[1]], row, 4096)
    assert max(float(part.abs().max()) for part in caught) > 1e-4


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_gradient_that_is_not_finite_is_skipped(
    decoder: Decoder, groups: list[Group], value: float
) -> None:
    broken = replace(
        groups[0],
        rollouts=[
            replace(r, score=Score(value if r.slot == 0 else 0.0, "incorrect", ""))
            for r in groups[0].rollouts
        ],
    )
    before = [parameter.clone() for parameter in decoder.parameters()]
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1.0)
    learner = Learner(decoder, optimizer, Variant(advantage="raw"), Optimiser(), torch.float32)
    result = update(learner, [broken], lr=1.0)
    assert result.nonfinite == 1
    assert untouched(decoder, optimizer, before)

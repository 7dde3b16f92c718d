"""The update of a step: log-probabilities, per-token loss times weights, backward, clip, AdamW.

Answers are used for as many optimizer steps as the variant says. Log-probabilities of the start of
the update are made once, in the same micro-batches as later, so that the first ratio is exactly 1.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlvr.model.decoder import Decoder, Weights
from rlvr.model.logprobs import token_logprobs
from rlvr.objective.divergence import penalty
from rlvr.objective.loss import (
    Controls,
    Cut,
    Outcomes,
    Terms,
    advantages_of,
    correction_of,
    cut_of,
    per_token_loss,
)
from rlvr.objective.slots import Variant
from rlvr.objective.surrogates import Advantages
from rlvr.training.batching import Batch, micro_rows, mini_batches, with_gradient
from rlvr.training.settings import Optimiser

Clock = Callable[[], float]


PROBE_ROWS = 16  # answers on which the change of the policy is measured
PROBE_EVERY = 10  # steps between those measurements


@dataclass(frozen=True, slots=True)
class Seen:
    """Trained tokens of the optimizer steps, flat, without gradient; one entry per visit."""

    logprobs: Float[Tensor, " N"]
    old_logprobs: Float[Tensor, " N"]
    sampler_logprobs: Float[Tensor, " N"]
    ref_logprobs: Float[Tensor, " N"] | None
    importance: Float[Tensor, " N"]
    """Weight that the correction gave: 0 where it masked a token, 1 where there was none."""
    capped: Bool[Tensor, " N"]
    """Where the correction cut the weight."""


@dataclass(frozen=True, slots=True)
class Update:
    """What the optimizer steps on the answers of one step did."""

    lr: float
    optimizer_steps: int = 0
    nonfinite: int = 0
    """Optimizer steps whose gradient was not finite: they changed nothing."""
    grad_norms: Sequence[float] = ()
    seen: Sequence[Seen] = ()
    """By optimizer step, in their order."""
    cuts: Sequence[Cut] = ()
    row_advantages: Float[Tensor, " N"] = field(default_factory=lambda: torch.zeros(0))
    """Of each rollout that trained, or of its tokens where these have their own."""
    controls: Controls = field(default_factory=Controls)
    """The coefficients that the next step starts from."""
    bonus: float = 0.0
    relative: float | None = None
    """Length of the weights' change to that of the weights."""
    changed: float | None = None
    """Share of the weights whose value changed."""
    probe_kl: float | None = None
    """k3 from the policy before to the policy after, in nats per token of a few answers."""
    seconds_logprobs: float = 0.0
    seconds_update: float = 0.0

    @property
    def skipped(self) -> bool:
        """Whether no weight changed."""
        return self.optimizer_steps == self.nonfinite


@dataclass(slots=True)
class Learner:
    """The policy in training and what one update of it needs to know."""

    decoder: Decoder
    optimizer: torch.optim.Optimizer
    variant: Variant
    settings: Optimiser
    dtype: torch.dtype
    reference: Weights | None = None
    clock: Clock = time.perf_counter
    seconds_logprobs: float = field(default=0.0, init=False)
    cast: Weights | None = field(default=None, init=False)
    """The master weights as products read them, until these change."""

    def weights(self) -> Weights:
        """The policy now, learning."""
        if self.cast is None:
            with torch.enable_grad():
                self.cast = self.decoder.weights(self.dtype)
        return self.cast

    def logprobs(
        self, part: Batch, *, bonus: bool = False
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """Log-probabilities of a micro-batch under the policy now, and entropies."""
        before = self.clock()
        found = token_logprobs(
            self.weights(),
            part.tokens,
            part.mask,
            part.sampling,
            kept=part.kept,
            entropy_gradient=bonus,
        )
        self.seconds_logprobs += self.clock() - before
        return found

    @torch.no_grad()
    def score(self, batch: Batch, *, old: bool) -> Batch:
        """The batch with log-probabilities of the reference, and with `old` of the policy now.

        What the batch has already is not made again.
        """
        shape = batch.mask.shape
        missing = self.reference is not None and batch.ref_logprobs is None
        old_logprobs = torch.zeros(shape) if old else None
        ref_logprobs = torch.zeros(shape) if missing else None
        if old_logprobs is None and ref_logprobs is None:
            return batch
        for rows in micro_rows(batch, self.settings.tokens_at_once):
            part = batch.rows(rows)
            width = part.mask.shape[1]
            if old_logprobs is not None:
                old_logprobs[rows, :width] = self.logprobs(part)[0]
            if ref_logprobs is not None and self.reference is not None:
                found, _ = token_logprobs(
                    self.reference, part.tokens, part.mask, part.sampling, kept=part.kept
                )
                ref_logprobs[rows, :width] = found
        known = batch.ref_logprobs if ref_logprobs is None else ref_logprobs
        return replace(batch, old_logprobs=old_logprobs, ref_logprobs=known)


def optimise(
    learner: Learner,
    batch: Batch | None,
    outcomes: Outcomes | None,
    controls: Controls,
    *,
    lr: float,
    seed: int,
    step: int,
) -> Update:
    """All optimizer steps on one batch. Without a signal, or a finite gradient, nothing changes.

    Args:
        learner: The policy, its optimizer and its variant.
        batch: All answers that count; None where there is none.
        outcomes: Their rewards, P groups of G in the order of the rows.
        controls: Coefficients that the variant adapts.
        lr: Learning rate of this step.
        seed: Of the run; names the order of mini-batches.
        step: Of the loop; the same.
    """
    if batch is None or outcomes is None:
        return Update(lr=lr, controls=controls)
    began, row = learner.clock(), learner.variant
    learner.seconds_logprobs, learner.cast = 0.0, None
    batch = with_advantages(learner, batch, outcomes, controls)
    entropy = _mean(batch.sampler_entropies[batch.mask])
    controls = controls.before_update(row, entropy)
    bonus = controls.entropy_bonus(row, entropy)
    pulls = row.learns_without_signal or bonus > 0
    parts = [with_gradient(part, pulls) for part in mini_batches(batch, row, seed, step)]
    steps = [part for part in parts if part is not None]
    if not steps:
        return Update(lr=lr, controls=controls)
    steps = starting_logprobs(learner, steps)
    before = [parameter.detach().clone() for parameter in learner.decoder.learning().values()]
    probe = Probe.of(learner, steps[0]) if step % PROBE_EVERY == 0 else None
    done: list[Done] = []
    for epoch in range(row.epochs):
        for number, part in enumerate(steps):
            result, old = optimizer_step(learner, part, controls, bonus, lr)
            done.append(result)
            if epoch == 0 and part.old_logprobs is None:
                steps[number] = replace(part, old_logprobs=old)
    relative, changed = moved(learner.decoder, before)
    kl = _mean(torch.cat([_kl(d.seen) for d in done]))
    taken = [part.advantages for part in steps if part.advantages is not None]
    return Update(
        lr=lr,
        optimizer_steps=len(done),
        nonfinite=sum(not math.isfinite(d.norm) for d in done),
        grad_norms=[d.norm for d in done],
        seen=[d.seen for d in done],
        cuts=[d.cut for d in done],
        row_advantages=torch.cat([_used(a, p) for a, p in zip(taken, steps, strict=True)]),
        controls=controls.after_update(row, kl),
        bonus=bonus,
        relative=relative,
        changed=changed,
        probe_kl=probe.kl(learner) if probe is not None else None,
        seconds_logprobs=learner.seconds_logprobs,
        seconds_update=learner.clock() - began - learner.seconds_logprobs,
    )


def with_advantages(
    learner: Learner, batch: Batch, outcomes: Outcomes, controls: Controls
) -> Batch:
    """The batch with an advantage per rollout, or per token; scored first where that costs reward.

    A divergence in the reward is measured at the start of the update, before the baseline.
    """
    row = learner.variant
    if row.kl == "reward" and learner.reference is not None:
        batch = learner.score(batch, old=True)
        assert batch.old_logprobs is not None
        assert batch.ref_logprobs is not None
        cost = penalty(
            batch.old_logprobs,
            batch.ref_logprobs,
            batch.mask,
            coefficient=controls.kl_coefficient,
        )
        outcomes = replace(outcomes, penalties=by_answer(cost, batch, outcomes))
        batch = replace(batch, old_logprobs=None)  # made again in the micro-batches that train
    found = advantages_of(row, outcomes).flatten(0, 1)  # (P*G, 1 or answer tokens)
    if found.shape[1] == 1 and batch.mask.shape[1] != 1:
        return replace(batch, advantages=found)
    per_token = torch.zeros(batch.mask.shape)
    lengths = batch.mask.sum(dim=1)
    filled = torch.arange(found.shape[1])[None] < lengths[:, None]
    return replace(batch, advantages=per_token.masked_scatter(batch.mask, found[filled]))


def by_answer(
    values: Float[Tensor, "B T"], batch: Batch, outcomes: Outcomes
) -> Float[Tensor, "P G N"]:
    """Numbers of a batch's tokens, moved so that each answer begins in column 0."""
    width = int(outcomes.lengths.max())
    filled = torch.arange(width)[None] < batch.mask.sum(dim=1)[:, None]
    moved_left = torch.zeros(len(values), width).masked_scatter(filled, values[batch.mask])
    return moved_left.view(*outcomes.rewards.shape, width)


def starting_logprobs(learner: Learner, steps: list[Batch]) -> list[Batch]:
    """The mini-batches with what the policy and the reference said at the start of the update.

    The first mini-batch needs no pass of its own: its first forward pass is the start.
    """
    return [learner.score(part, old=number > 0) for number, part in enumerate(steps)]


@dataclass(frozen=True, slots=True)
class Done:
    """One optimizer step."""

    norm: float
    seen: Seen
    cut: Cut


def optimizer_step(
    learner: Learner, batch: Batch, controls: Controls, bonus: float, lr: float
) -> tuple[Done, Float[Tensor, "B T"]]:
    """Gradient of a mini-batch in micro-batches, clipped, and a step if it is finite.

    Returns:
        What it did, and the log-probabilities that its forward passes found.
    """
    row, found = learner.variant, torch.zeros(batch.mask.shape)
    seen: list[Seen] = []
    low = high = of = 0
    for rows in micro_rows(batch, learner.settings.tokens_at_once):
        part = batch.rows(rows)
        logprobs, entropies = learner.logprobs(part, bonus=bonus > 0)
        at_start = logprobs.detach() if part.old_logprobs is None else part.old_logprobs
        terms = terms_of(part, logprobs, at_start, entropies)
        assert part.weights is not None
        loss = (per_token_loss(row, terms, controls, bonus) * part.weights).sum()
        loss.backward()
        cut = cut_of(row, replace(terms, logprobs=logprobs.detach()), controls)
        low, high, of = low + cut.low, high + cut.high, of + cut.of
        seen.append(flat(row, replace(terms, logprobs=logprobs.detach())))
        found[rows, : part.mask.shape[1]] = logprobs.detach()
    norm = torch.nn.utils.clip_grad_norm_(
        learner.decoder.learning().values(), learner.settings.max_grad_norm
    )
    if bool(norm.isfinite()):
        for group in learner.optimizer.param_groups:
            group["lr"] = lr
        learner.cast = None
        learner.optimizer.step()
    learner.optimizer.zero_grad(set_to_none=True)
    return Done(float(norm), joined(seen), Cut(low, high, of)), found


def terms_of(part: Batch, logprobs: Tensor, at_start: Tensor, entropies: Tensor) -> Terms:
    """What the loss of a micro-batch is made from."""
    assert part.advantages is not None
    return Terms(
        logprobs,
        at_start,
        part.sampler_logprobs,
        part.advantages,
        part.mask,
        ref_logprobs=part.ref_logprobs,
        entropies=entropies,
        corrected=part.corrected if bool(part.corrected.any()) else None,
        chosen=part.chosen,
    )


@torch.no_grad()
def flat(row: Variant, terms: Terms) -> Seen:
    """What metrics need of a micro-batch, one number per trained token."""
    mask = terms.mask
    weight, cut = correction_of(row, terms)
    ref = terms.ref_logprobs
    return Seen(
        terms.logprobs[mask],
        terms.old_logprobs[mask],
        terms.sampler_logprobs[mask],
        ref[mask] if ref is not None else None,
        weight[mask],
        cut[mask],
    )


def joined(parts: Sequence[Seen]) -> Seen:
    """The tokens of several micro-batches or optimizer steps in a row."""
    refs = [part.ref_logprobs for part in parts if part.ref_logprobs is not None]
    return Seen(
        torch.cat([part.logprobs for part in parts]),
        torch.cat([part.old_logprobs for part in parts]),
        torch.cat([part.sampler_logprobs for part in parts]),
        torch.cat(refs) if refs else None,
        torch.cat([part.importance for part in parts]),
        torch.cat([part.capped for part in parts]),
    )


@torch.no_grad()
def moved(decoder: Decoder, before: Sequence[Tensor]) -> tuple[float, float]:
    """How far what learns went, as a share of its length, and the share of it that changed."""
    after = list(decoder.learning().values())
    steps = [now - then for now, then in zip(after, before, strict=True)]
    count = sum(step.numel() for step in steps)
    changed = sum(int((step != 0).sum()) for step in steps)
    length = torch.nn.utils.get_total_norm(list(before))
    return float(torch.nn.utils.get_total_norm(steps) / length), changed / count


@dataclass(frozen=True, slots=True)
class Probe:
    """A few answers on which the policy is compared before and after an update."""

    rows: Batch
    logprobs: Float[Tensor, "B T"]

    @classmethod
    @torch.no_grad()
    def of(cls, learner: Learner, batch: Batch) -> "Probe":
        """The first answers of a batch, and what the policy says of them before the update."""
        rows = batch.rows(torch.arange(min(PROBE_ROWS, len(batch.lengths))))
        return cls(rows, learner.logprobs(rows)[0])

    @torch.no_grad()
    def kl(self, learner: Learner) -> float | None:
        """k3 of KL(before to after), in nats per token."""
        now = learner.logprobs(self.rows)[0]
        d = (now - self.logprobs)[self.rows.mask].double()
        return _mean((torch.expm1(d) - d).float())


def _kl(seen: Seen) -> Float[Tensor, " N"]:
    """k3 to the reference of each token, empty where there is none."""
    if seen.ref_logprobs is None:
        return torch.zeros(0)
    d = (seen.ref_logprobs - seen.logprobs).clamp(-20, 20)
    return torch.expm1(d) - d


def _used(advantages: Advantages, batch: Batch) -> Float[Tensor, " N"]:
    per_row = advantages.shape[1] == 1
    return advantages[batch.mask.any(dim=1), 0] if per_row else advantages[batch.mask]


def _mean(values: Float[Tensor, " N"]) -> float | None:
    return float(values.mean()) if len(values) else None

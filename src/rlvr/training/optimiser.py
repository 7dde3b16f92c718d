"""One optimizer step: log-probabilities, per-token loss times weights, backward, clip, AdamW."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from rlvr.errors import UsageError
from rlvr.model.decoder import Decoder, Weights
from rlvr.model.logprobs import token_logprobs
from rlvr.objective.variants import Variant, per_token_loss
from rlvr.training.batching import Batch, micro_batches

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimiser:
    """Settings of the optimizer step."""

    lr: float = 3e-4
    """Highest learning rate, after the warm-up."""
    warmup_steps: int = 5
    """Steps over which the learning rate rises to `lr`."""
    schedule: Literal["linear", "constant"] = "linear"
    """`linear` falls to 0 at the last step; `constant` stays."""
    beta1: float = 0.9
    """Decay of AdamW's mean of gradients."""
    beta2: float = 0.99
    """Decay of AdamW's mean of squared gradients."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay, per step and lr."""
    max_grad_norm: float = 1.0
    """Longest gradient, in its global L2 norm; longer ones are scaled down to it."""
    tokens_at_once: int = 4096
    """Padded tokens in one forward and backward pass; changes time and memory alone."""

    def __post_init__(self) -> None:
        for name, low in (("lr", 0.0), ("max_grad_norm", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > low):
                raise UsageError(f"optimiser.{name} is {value}; it must be above 0, such as 3e-4.")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"optimiser.{name} is {getattr(self, name)}; use 0 to below 1.")
        for name, least in (("warmup_steps", 0), ("tokens_at_once", 1), ("weight_decay", 0)):
            value = getattr(self, name)
            if not value >= least:
                raise UsageError(f"optimiser.{name} is {value}; use {least} or more.")


def make_optimizer(decoder: Decoder, settings: Optimiser) -> torch.optim.AdamW:
    """AdamW over the float32 master weights."""
    return torch.optim.AdamW(
        decoder.parameters(),
        lr=settings.lr,
        betas=(settings.beta1, settings.beta2),
        weight_decay=settings.weight_decay,
        fused=True,
    )


def learning_rate(settings: Optimiser, step: int, steps: int) -> float:
    """Learning rate of step 1 to `steps`: a linear rise, then constant or a line to 0.

    >>> [learning_rate(Optimiser(lr=1.0, warmup_steps=2), step, 4) for step in (1, 2, 3, 4)]
    [0.5, 0.75, 0.5, 0.25]
    """
    rise = min(1.0, step / settings.warmup_steps) if settings.warmup_steps else 1.0
    fall = 1.0 if settings.schedule == "constant" else (steps - step + 1) / steps
    return settings.lr * min(rise, fall)


@dataclass(frozen=True, slots=True)
class Update:
    """What one optimizer step did; tensors are of the trained tokens, flat, without gradient."""

    lr: float
    skipped: bool
    nonfinite: bool = False
    loss: float = 0.0
    grad_norm: float = 0.0
    logprobs: Float[Tensor, " N"] = field(default_factory=lambda: torch.zeros(0))
    old_logprobs: Float[Tensor, " N"] = field(default_factory=lambda: torch.zeros(0))
    sampler_logprobs: Float[Tensor, " N"] = field(default_factory=lambda: torch.zeros(0))
    ref_logprobs: Float[Tensor, " N"] | None = None
    advantages: Float[Tensor, " N"] = field(default_factory=lambda: torch.zeros(0))
    """Of each token's rollout."""
    row_advantages: Float[Tensor, "B 1"] = field(default_factory=lambda: torch.zeros(0, 1))
    """Of each rollout that trained."""
    relative: float | None = None
    """Length of the weights' change to that of the weights."""
    seconds_logprobs: float = 0.0
    seconds_update: float = 0.0
    tokens: int = 0
    """Prompt and answer tokens of the rows that trained."""


def optimise(
    decoder: Decoder,
    optimizer: torch.optim.Optimizer,
    batch: Batch | None,
    variant: Variant,
    settings: Optimiser,
    *,
    lr: float,
    dtype: torch.dtype,
    reference: Weights | None,
    clock: Clock = time.perf_counter,
) -> Update:
    """One step on one batch. No batch, or a gradient that is not finite, changes nothing."""
    if batch is None:
        return Update(lr=lr, skipped=True)
    began, in_logprobs, parts = clock(), 0.0, []
    loss = 0.0
    for part in micro_batches(batch, settings.tokens_at_once):
        before = clock()
        logprobs, _ = token_logprobs(decoder.weights(dtype), part.tokens, part.mask, part.sampling)
        ref_logprobs = reference_logprobs(reference, part)
        in_logprobs += clock() - before
        per_token = per_token_loss(
            variant,
            logprobs=logprobs,
            old_logprobs=logprobs.detach(),
            sampler_logprobs=None,  # the sampler is this decoder
            ref_logprobs=ref_logprobs,
            advantages=part.advantages,
            mask=part.mask,
        )
        part_loss = (per_token * part.weights).sum()
        part_loss.backward()
        loss += part_loss.item()
        parts.append(flat(part, logprobs.detach(), ref_logprobs))
    norm = torch.nn.utils.clip_grad_norm_(decoder.parameters(), settings.max_grad_norm)
    finite = bool(norm.isfinite())
    relative = step_weights(decoder, optimizer, lr) if finite else None
    optimizer.zero_grad(set_to_none=True)
    columns = [torch.cat(column) for column in zip(*parts, strict=True)]
    return Update(
        lr=lr,
        skipped=not finite,
        nonfinite=not finite,
        loss=loss,
        grad_norm=float(norm),
        logprobs=columns[0],
        old_logprobs=columns[0],
        sampler_logprobs=columns[1],
        advantages=columns[2],
        row_advantages=batch.advantages,
        relative=relative,
        ref_logprobs=columns[3] if reference is not None else None,
        seconds_logprobs=in_logprobs,
        seconds_update=clock() - began - in_logprobs,
        tokens=int(batch.lengths.sum()),
    )


@torch.no_grad()
def step_weights(decoder: Decoder, optimizer: torch.optim.Optimizer, lr: float) -> float:
    """Move the weights; how far, as a share of their length."""
    parameters = list(decoder.parameters())
    before = [parameter.clone() for parameter in parameters]
    length = torch.nn.utils.get_total_norm(before)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    moved = [now - then for now, then in zip(parameters, before, strict=True)]
    return float(torch.nn.utils.get_total_norm(moved) / length)


@torch.no_grad()
def reference_logprobs(reference: Weights | None, part: Batch) -> Float[Tensor, "B T"] | None:
    """Log-probabilities of the frozen reference; None where there is none."""
    if reference is None:
        return None
    return token_logprobs(reference, part.tokens, part.mask, part.sampling)[0]


def flat(part: Batch, logprobs: Tensor, ref_logprobs: Tensor | None) -> tuple[Tensor, ...]:
    """What metrics need of a micro-batch, one number per trained token."""
    spread = part.advantages.expand(part.mask.shape)
    columns = (logprobs, part.sampler_logprobs, spread, logprobs if ref_logprobs is None else (
        ref_logprobs
    ))  # fmt: skip
    return tuple(column[part.mask] for column in columns)

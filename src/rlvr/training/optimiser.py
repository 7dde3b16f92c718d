"""The optimizer: AdamW over the float32 master weights, and its learning rate by step."""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from rlvr.errors import UsageError
from rlvr.model.decoder import Decoder


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

"""Settings of the optimizer steps and of the checkpoints; how many threads there can be."""

import math
import os
from dataclasses import dataclass
from typing import Literal

from rlvr.errors import UsageError


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
    tokens_at_once: int = 2048
    """Tokens in one forward and backward pass, shared prompts once; changes time and memory."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoints:
    """Settings of the checkpoints."""

    every_steps: int = 50
    """Steps between checkpoints; the first and the last step are always saved."""

    def __post_init__(self) -> None:
        if self.every_steps < 1:
            raise UsageError(f"checkpoints.every_steps is {self.every_steps}. Use 1 or more.")


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(threads: int) -> None:
    """Refuse more threads than cores: they would wait for each other.

    Raises:
        UsageError: There are more.
    """
    if threads > cores():
        raise UsageError(
            f"threads is {threads}, but this process may use {cores()} cores. "
            f"Use {cores()} or less, or 0 to measure."
        )

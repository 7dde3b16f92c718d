"""The optimizer: AdamW over what learns, in float32, and its learning rate by step."""

import torch

from rlvr.model.decoder import Decoder
from rlvr.training.settings import Optimiser


def make_optimizer(decoder: Decoder, settings: Optimiser) -> torch.optim.AdamW:
    """AdamW over the float32 master weights, or over the adapters in their place."""
    return torch.optim.AdamW(
        list(decoder.learning().values()),
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

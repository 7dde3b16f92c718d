"""The table of variants: a name means a paper's whole objective, a choice for every slot.

Names are compared here alone. A new idea is one pure function in its slot's file and one row.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.errors import UsageError, unknown_name
from rlvr.objective.advantages import ADVANTAGES, Rewards, Scored
from rlvr.objective.correction import truncated_importance
from rlvr.objective.divergence import KL_LOSSES
from rlvr.objective.surrogates import SURROGATES, Mask, PerRow, PerToken, keep
from rlvr.objective.weightings import WEIGHTINGS


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One objective: a choice for every slot."""

    advantage: Literal["zscore", "centred", "rloo", "batch_std"] = "centred"
    """How an answer is compared with its group."""
    surrogate: Literal["clip"] = "clip"
    """The policy loss per token."""
    clip_low: float = 0.2
    """How far the ratio may fall below 1."""
    clip_high: float = 0.272
    """How far the ratio may rise above 1."""
    weighting: Literal["token", "sequence", "budget", "problem"] = "token"
    """What counts the same: every token, rollout, or problem; budget divides by a constant."""
    kl: Literal["none", "k2", "k3", "unbiased"] = "none"
    """Divergence from the starting policy in the loss, as a mean over tokens."""
    kl_coefficient: float = 0.0
    """Weight of the divergence (the papers' beta)."""
    groups: Literal["all", "mixed"] = "mixed"
    """Which groups count: all, or only those with unequal rewards."""
    importance_cap: float | None = None
    """Cap of the importance weights where another engine samples; none turns them off."""
    overlong: Literal["zero", "soft"] = "zero"
    """An answer cut by the limit gets reward 0; soft also takes away up to 1 near the limit."""
    source: str = ""
    """Paper, equation or section."""
    not_here: tuple[str, ...] = ()
    """What of the paper this version does not have."""

    def __post_init__(self) -> None:
        for name in ("clip_low", "clip_high", "kl_coefficient"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"variant.{name} is {value}. Use 0 or more, such as 0.2.")
        if self.clip_low > 1:
            raise UsageError(f"variant.clip_low is {self.clip_low}. Use 0 to 1, such as 0.2.")
        if self.importance_cap is not None and not self.importance_cap > 0:
            raise UsageError(
                f"variant.importance_cap is {self.importance_cap}. Use above 0, such as 2, or none."
            )
        if self.kl == "none" and self.kl_coefficient > 0:
            raise UsageError(
                f"variant.kl_coefficient is {self.kl_coefficient} but variant.kl is none. "
                "Set --variant.kl k3 as well, or leave the coefficient out."
            )


VARIANTS = {
    "olmo3": Variant(
        importance_cap=2.0,
        source="Olmo 3, arXiv:2512.13961, eq. 1",
        not_here=("active sampling: groups without a signal are left out, not replaced",),
    ),
    "grpo": Variant(
        advantage="zscore",
        clip_high=0.2,
        weighting="sequence",
        kl="k3",
        kl_coefficient=0.04,
        groups="all",
        source="DeepSeekMath, arXiv:2402.03300, eq. 3 and 4",
    ),
    "dr_grpo": Variant(
        clip_high=0.2,
        weighting="budget",
        groups="all",
        source="Dr. GRPO, arXiv:2503.20783, section 3.2",
    ),
    "dapo": Variant(
        advantage="zscore",
        clip_high=0.28,
        overlong="soft",
        source="DAPO, arXiv:2503.14476, eq. 8 to 13",
        not_here=("dynamic sampling: groups without a signal are left out, not replaced",),
    ),
}


def variant(name: str) -> Variant:
    """The row of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in VARIANTS:
        raise unknown_name("variant", name, VARIANTS)
    return VARIANTS[name]


def advantages_of(row: Variant, rewards: Rewards, scored: Scored) -> Rewards:
    """One advantage per rollout; 0 where there is no score or the group has no signal."""
    return ADVANTAGES[row.advantage](rewards, scored)


def weights_of(
    row: Variant,
    mask: Bool[Tensor, "B T"],
    group_of_row: Int[Tensor, " B"],
    rows: int,
    max_new_tokens: int,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "B T"]:
    """One weight per token, from the mask of the whole step.

    Args:
        row: The variant.
        mask: True where a token trains.
        group_of_row: Which group each row belongs to.
        rows: Rows of the step that count, masked or not; the budget divides by them.
        max_new_tokens: Longest answer allowed, in tokens; the budget divides by it too.
        dtype: Of the weights.
    """
    return WEIGHTINGS[row.weighting](mask, group_of_row, rows, max_new_tokens, dtype)


def per_token_loss(
    row: Variant,
    *,
    logprobs: PerToken,
    old_logprobs: PerToken,
    sampler_logprobs: PerToken | None,
    ref_logprobs: PerToken | None,
    advantages: PerRow,
    mask: Mask,
) -> PerToken:
    """The variant's loss of each token, 0 outside the mask; times the weights, it is the step's.

    Args:
        row: The variant.
        logprobs: Of the policy now; the only ones with a gradient.
        old_logprobs: Of the policy at the start of this update.
        sampler_logprobs: As another engine reported them; None where the sampler is the policy.
        ref_logprobs: Of the frozen reference; needed where the variant has a divergence.
        advantages: One per rollout.
        mask: True where a token trains.
    """
    surrogate = SURROGATES[row.surrogate]
    loss = surrogate(logprobs, old_logprobs, advantages, mask, low=row.clip_low, high=row.clip_high)
    if row.importance_cap is not None and sampler_logprobs is not None:
        cap = row.importance_cap
        loss = loss * truncated_importance(old_logprobs, sampler_logprobs, mask, cap=cap)
    if row.kl != "none" and row.kl_coefficient > 0:
        assert ref_logprobs is not None, "a divergence needs a reference"
        masked = [keep(mask, values) for values in (logprobs, old_logprobs, ref_logprobs)]
        loss = loss + row.kl_coefficient * KL_LOSSES[row.kl](*masked) * mask
    return loss

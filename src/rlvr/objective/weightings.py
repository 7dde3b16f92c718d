"""Weightings: one number per token, made once from the mask of the whole step.

Per-token losses times weights simply add up, so micro-batches, padding and ranks change nothing.
Rows and tokens that left the mask have left every divisor too, but that of `budget`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

PerToken = Float[Tensor, "B T"]
Mask = Bool[Tensor, "B T"]
Groups = Int[Tensor, " B"]


def token(mask: Mask, groups: Groups, rows: int, limit: int, dtype: torch.dtype) -> PerToken:
    """Every token counts the same. Source: DAPO, arXiv:2503.14476, eq. 8."""
    return mask.to(dtype) / mask.sum().clamp(min=1)


def sequence(mask: Mask, groups: Groups, rows: int, limit: int, dtype: torch.dtype) -> PerToken:
    """Every rollout counts the same. Source: GRPO, arXiv:2402.03300, eq. 3."""
    tokens = mask.sum(dim=1, keepdim=True)
    return mask.to(dtype) / tokens.clamp(min=1) / (tokens > 0).sum().clamp(min=1)


def budget(mask: Mask, groups: Groups, rows: int, limit: int, dtype: torch.dtype) -> PerToken:
    """Divide by `rows` times the answer `limit`, whatever the lengths: masked rows still count.

    Source: Dr. GRPO, arXiv:2503.20783, section 3.2.
    """
    return mask.to(dtype) / (rows * limit)


def problem(mask: Mask, groups: Groups, rows: int, limit: int, dtype: torch.dtype) -> PerToken:
    """Every problem counts the same, and every token within one. Source: arXiv:2510.13786."""
    tokens = mask.sum(dim=1)
    per_group = torch.zeros(int(groups.max()) + 1, dtype=tokens.dtype, device=mask.device)
    per_group = per_group.index_add(0, groups, tokens)
    tokens_of_group = per_group.clamp(min=1)[groups, None]
    return mask.to(dtype) / tokens_of_group / (per_group > 0).sum().clamp(min=1)


def answer_sum(mask: Mask, groups: Groups, rows: int, limit: int, dtype: torch.dtype) -> PerToken:
    """Tokens add up within an answer, and every answer counts once. Source: arXiv:2402.14740."""
    return mask.to(dtype) / mask.any(dim=1).sum().clamp(min=1)


def delta_l(mask: Mask, groups: Groups, rows: int, limit: int, dtype: torch.dtype) -> PerToken:
    """As `sum`, each answer times `L^-0.75` over the mean of that. Source: arXiv:2509.07558."""
    scale = delta_l_scale(mask.sum(dim=1).to(dtype))[:, None]
    return answer_sum(mask, groups, rows, limit, dtype) * scale


def delta_l_scale(lengths: Float[Tensor, " B"], *, alpha: float = 0.75) -> Float[Tensor, " B"]:
    """`L^-alpha` over its mean, for the answers that have tokens."""
    scale = torch.where(lengths > 0, lengths.clamp(min=1) ** -alpha, 0.0)
    return scale / (scale.sum() / (lengths > 0).sum().clamp(min=1)).clamp(min=1e-12)


WEIGHTINGS: dict[str, Callable[[Mask, Groups, int, int, torch.dtype], PerToken]] = {
    "token": token,
    "sequence": sequence,
    "budget": budget,
    "problem": problem,
    "sum": answer_sum,
    "delta_l": delta_l,
}

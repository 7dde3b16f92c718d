"""From logits to the distribution that samples, and from one uniform number to a token. Pure."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rlvr.records import Sampling

Logits = Float[Tensor, "rows V"]

BLOCK = 128  # tokens of a large vocabulary that a draw searches at once
_MASK_32 = 0xFFFFFFFF


def top_k(logits: Logits, k: int) -> Logits:
    """Keep the `k` likeliest tokens; ties with the last of them stay. 0 keeps all."""
    if k <= 0 or k >= logits.shape[-1]:
        return logits
    smallest = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < smallest, -torch.inf)


def top_p(logits: Logits, p: float) -> Logits:
    """Keep the smallest set of likeliest tokens whose mass is at least `p`. 1 keeps all.

    Source: nucleus sampling, arXiv:1904.09751, section 3.1. The likeliest token always stays.
    """
    if p >= 1.0:
        return logits
    ordered, index = logits.sort(dim=-1, descending=True, stable=True)
    mass = ordered.softmax(dim=-1)
    before = mass.cumsum(dim=-1) - mass  # mass of the likelier tokens
    ordered = ordered.masked_fill(before >= p, -torch.inf)
    return torch.full_like(logits, -torch.inf).scatter(-1, index, ordered)


def min_p(logits: Logits, p: float) -> Logits:
    """Drop tokens less likely than `p` times the likeliest. 0 keeps all.

    Source: min-p sampling, arXiv:2407.01082, section 3.
    """
    if p <= 0.0:
        return logits
    threshold = logits.amax(dim=-1, keepdim=True) + torch.tensor(p).log()
    return logits.masked_fill(logits < threshold, -torch.inf)


def without(logits: Logits, banned: Sequence[int]) -> Logits:
    """Logits without the tokens that may never be drawn."""
    if not banned:
        return logits
    return logits.index_fill(-1, torch.tensor(banned), -torch.inf)


def only(logits: Logits, kept: Sequence[Sequence[int]]) -> Logits:
    """Logits of the tokens named in each row; the others have no probability.

    Source: keep sampling mask, DeepSeek-V3.2, arXiv:2512.02556, section 3.1.
    """
    row = torch.tensor([number for number, ids in enumerate(kept) for _ in ids])
    token = torch.tensor([token for ids in kept for token in ids])
    dropped = torch.ones(logits.shape, dtype=torch.bool).index_put(
        (row, token), torch.tensor(False)
    )
    return logits.masked_fill(dropped, -torch.inf)


def truncate(scaled: Logits, sampling: Sampling) -> Logits:
    """Logits already divided by the temperature, after top-k, then top-p, then min-p."""
    return min_p(top_p(top_k(scaled, sampling.top_k), sampling.top_p), sampling.min_p)


def sample(weights: Float[Tensor, "B V"], uniforms: Float[Tensor, "B 1"]) -> Int[Tensor, " B"]:
    """The token whose slice of [0, total) holds the row's uniform number times the total.

    A token of weight 0 is never taken, not even where rounding leaves the sum below the total.
    Large vocabularies are searched by blocks first: a running sum over all of them takes longer
    than all else in a draw.

    Args:
        weights: Probabilities, or numbers in proportion to them, at least 0.
        uniforms: In [0, 1).
    """
    if weights.shape[1] <= 4 * BLOCK:
        cumulative = weights.cumsum(dim=-1)
        return torch.searchsorted(cumulative, place_in(cumulative, uniforms), right=True).squeeze(1)
    blocks = F.pad(weights, (0, -weights.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))
    sums = blocks.sum(dim=-1)
    cumulative = sums.cumsum(dim=-1)
    place = place_in(cumulative, uniforms)
    block = torch.searchsorted(cumulative, place, right=True)  # (B, 1)
    inside = blocks[torch.arange(len(blocks)), block.squeeze(1)].cumsum(dim=-1)
    rest = place - (cumulative - sums).gather(1, block)
    rest = torch.minimum(rest.clamp(min=0), inside[:, -1:] * (1 - 2.0**-23))
    found = torch.searchsorted(inside, rest, right=True)
    return (block * BLOCK + found).squeeze(1)


def place_in(cumulative: Float[Tensor, "B n"], uniforms: Float[Tensor, "B 1"]) -> Tensor:
    """The uniform numbers stretched to the total, and below it always."""
    total = cumulative[:, -1:]
    return torch.minimum(uniforms * total, total * (1 - 2.0**-23))


def _mix(x: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """A 32-bit integer hash: every input bit moves every output bit about half the time."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & _MASK_32
    x = ((x ^ (x >> 15)) * 0x735A2D97) & _MASK_32
    return x ^ (x >> 15)


def uniforms(*names: int | Int[Tensor, "..."]) -> Float[Tensor, "..."]:
    """One number in [0, 1) for each combination of names, such as (seed, step, problem, slot).

    A counter-based generator: no state, so a draw does not depend on who shares the batch or on
    what was drawn before. The hash's constants are those of a public search for 32-bit
    multiply-xorshift mixers with low bias; tests hold the draws to chi-square and correlation.

    >>> bool(uniforms(1, 2, torch.tensor([3])) == uniforms(1, 2, torch.tensor([3])))
    True
    """
    high, low = torch.tensor(0x9E3779B9), torch.tensor(0x85EBCA6B)
    for position, name in enumerate(names):
        word = torch.as_tensor(name, dtype=torch.int64)
        for part in (word & _MASK_32, (word >> 32) & _MASK_32):
            high = _mix((high ^ part) + position + 1 & _MASK_32)
            low = _mix((low + high + part) & _MASK_32)
    return ((high >> 8) * 2.0**-24 + (low >> 8) * 2.0**-48).float().clamp(max=1 - 2.0**-24)

"""The cache of the sampler: keys and values of what its rows have read.

Letters: B rows, T tokens in a row, D width, M key-value heads, K head width, C cache columns.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rlvr.model.decoder import Weights, run_block
from rlvr.model.operations import attention, normalise, rotate
from rlvr.model.packing import FORBIDDEN

COLUMNS = 32  # a cache's columns are a multiple of this


@dataclass(slots=True)
class Cache:
    """Keys and values of left-padded rows: every row's next token has the same column.

    What all rows begin with may stand before the padding. The columns grow in steps as they fill,
    so that few shapes occur: each new one costs a product to be compiled.
    """

    keys: list[Tensor]
    """By layer, (B, M, K, C)."""
    values: list[Tensor]
    """By layer, (B, M, C, K)."""
    bias: Float[Tensor, "B 1 1 1 C"]
    """0 at columns that are filled, FORBIDDEN at padding and where nothing is yet."""
    padding: Int[Tensor, " B"]
    """Columns of padding of each row."""
    prefix: int = 0
    """Columns before the padding."""
    used: int = 0
    """Columns filled."""

    @classmethod
    def empty(cls, weights: Weights, padding: Int[Tensor, " B"]) -> "Cache":
        """A cache for rows that begin with so much padding."""
        shape, new = weights.shape, weights.embedding.new_zeros
        rows, layers = (len(padding), shape.num_key_value_heads), len(weights.blocks)
        return cls(
            [new(*rows, shape.head_dim, 0) for _ in range(layers)],
            [new(*rows, 0, shape.head_dim) for _ in range(layers)],
            torch.zeros(len(padding), 1, 1, 1, 0),
            padding,
        )

    def make_room(self, columns: int) -> None:
        """Have at least so many columns."""
        width = self.bias.shape[-1]
        if columns <= width:
            return
        more = max(columns, width * 5 // 4) - width
        more += -(width + more) % COLUMNS
        for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            self.keys[layer] = F.pad(keys, (0, more))
            self.values[layer] = F.pad(values, (0, 0, 0, more))
        self.bias = F.pad(self.bias, (0, more), value=FORBIDDEN)

    def rows(self, index: Int[Tensor, " rows"]) -> "Cache":
        """A cache of the rows at `index`, repeats allowed."""
        return Cache(
            [keys.index_select(0, index) for keys in self.keys],
            [values.index_select(0, index) for values in self.values],
            self.bias[index],
            self.padding[index],
            self.prefix,
            self.used,
        )

    def joined(self, *others: "Cache") -> "Cache":
        """The rows of this cache, then those of others with the same prefix; next columns meet.

        The longest row stands behind no padding, the others behind as much as that takes.
        """
        caches, prefix = (self, *others), self.prefix
        used = max(cache.used - int(cache.padding.min()) for cache in caches)
        width = used + -used % COLUMNS
        padding = torch.cat([cache.padding - cache.used + used for cache in caches])
        column = torch.arange(width)
        seen = (column < used) & ((column < prefix) | (column >= prefix + padding[:, None]))

        def moved(parts: list[Tensor], dim: int) -> Tensor:
            rows = [
                _moved(part, dim, prefix, cache.used, used, width)
                for part, cache in zip(parts, caches, strict=True)
            ]
            return torch.cat(rows)

        layers = range(len(self.keys))
        return Cache(
            [moved([cache.keys[layer] for cache in caches], -1) for layer in layers],
            [moved([cache.values[layer] for cache in caches], -2) for layer in layers],
            torch.zeros(seen.shape).masked_fill_(~seen, FORBIDDEN)[:, None, None, None],
            padding,
            prefix,
            used,
        )

    def followed(self, padding: Int[Tensor, " B"]) -> "Cache":
        """A cache of B rows that begin with this one row, then with so much padding."""
        rows = self.rows(torch.zeros(len(padding), dtype=torch.long))
        return replace(rows, padding=padding, prefix=self.used)


def _moved(part: Tensor, dim: int, prefix: int, ends: int, end: int, width: int) -> Tensor:
    """Columns behind a prefix that end at `ends`, moved to end at `end`, of `width` in all."""
    shape = list(part.shape)
    shape[dim] = width
    found, kept = part.new_zeros(shape), min(ends, end) - prefix
    found.narrow(dim, 0, prefix).copy_(part.narrow(dim, 0, prefix))
    found.narrow(dim, end - kept, kept).copy_(part.narrow(dim, ends - kept, kept))
    return found


def extend(weights: Weights, tokens: Int[Tensor, "B T"], cache: Cache) -> Float[Tensor, "B D"]:
    """Read the rows' next T tokens into the cache; the last hidden state of each row."""
    first, last = cache.used, cache.used + tokens.shape[1]
    cache.make_room(last)
    column = torch.arange(first, last)
    after = column - cache.prefix - cache.padding[:, None]  # (B, T)
    padding = (after < 0) & (column >= cache.prefix)
    cache.bias[..., first:last] = FORBIDDEN * padding[:, None, None, None]
    # a row that goes along after its end may pass the model's positions
    position = (after + cache.prefix).clamp_(0, len(weights.cos) - 1)
    cache.used, bias = last, cache.bias
    if len(column) == 1 and weights.steps is not None:
        columns = (cache.keys, cache.values, bias)
        return weights.steps.read(tokens[:, 0], position[:, 0], *columns, last)
    if len(column) > 1:
        ahead = torch.arange(bias.shape[-1]) > column[:, None]
        bias = bias.masked_fill(ahead, FORBIDDEN)  # (B, 1, 1, T, C)
    cos, sin = weights.cos[position][:, :, None], weights.sin[position][:, :, None]
    heads, scale = weights.shape.num_attention_heads, weights.shape.head_dim**-0.5

    def attend(index: int, qk: Tensor, v: Tensor) -> Tensor:
        qk, keys, values = rotate(qk, cos, sin), cache.keys[index], cache.values[index]
        keys[..., first:last] = qk[:, :, heads:].permute(0, 2, 3, 1)
        values[:, :, first:last] = v.transpose(1, 2)
        return attention(qk[:, :, :heads], keys, values, bias, scale)

    x = F.embedding(tokens, weights.embedding)
    for index in range(len(weights.blocks)):
        x = run_block(x, index, weights, attend)
    return normalise(x[:, -1].contiguous(), weights.norm, weights.shape.rms_norm_eps)

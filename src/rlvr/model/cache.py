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

    def followed(self, padding: Int[Tensor, " B"]) -> "Cache":
        """A cache of B rows that begin with this one row, then with so much padding."""
        rows = self.rows(torch.zeros(len(padding), dtype=torch.long))
        return replace(rows, padding=padding, prefix=self.used)


def extend(weights: Weights, tokens: Int[Tensor, "B T"], cache: Cache) -> Float[Tensor, "B D"]:
    """Read the rows' next T tokens into the cache; the last hidden state of each row."""
    first, last = cache.used, cache.used + tokens.shape[1]
    cache.make_room(last)
    column = torch.arange(first, last)
    after = column - cache.prefix - cache.padding[:, None]  # (B, T)
    padding = (after < 0) & (column >= cache.prefix)
    cache.bias[..., first:last] = FORBIDDEN * padding[:, None, None, None]
    bias = cache.bias
    if len(column) > 1:
        ahead = torch.arange(bias.shape[-1]) > column[:, None]
        bias = bias.masked_fill(ahead, FORBIDDEN)  # (B, 1, 1, T, C)
    position = (after + cache.prefix).clamp_(min=0)
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
    cache.used = last
    return normalise(x[:, -1].contiguous(), weights.norm, weights.shape.rms_norm_eps)

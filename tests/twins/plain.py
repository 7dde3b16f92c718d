"""The decoder as one would write it on a board: padded rows, no cache, the library's functions."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rlvr.model.decoder import Weights, embedded


def hidden_states(weights: Weights, tokens: Tensor) -> Tensor:
    """Last hidden states of right-padded rows, (B, T, D)."""
    shape, length = weights.shape, tokens.shape[1]
    heads, keys, eps = shape.num_attention_heads, shape.num_key_value_heads, shape.rms_norm_eps
    cos, sin = weights.cos[:length, None], weights.sin[:length, None]
    x = embedded(weights, tokens)

    def turned(y: Tensor) -> Tensor:
        left, right = y.chunk(2, dim=-1)
        return y * cos + torch.cat([right, left], dim=-1) * sin

    def norm(y: Tensor, gain: Tensor) -> Tensor:
        return F.rms_norm(y, y.shape[-1:], eps=eps) * gain

    for block in weights.blocks:
        qkv = F.linear(norm(x, block.norm), block.qkv, block.qkv_bias)
        q, k, v = qkv.unflatten(-1, (-1, shape.head_dim)).split([heads, keys, keys], dim=-2)
        if block.qk_gain is not None:
            q, k = norm(q, block.qk_gain[:heads]), norm(k, block.qk_gain[heads:])
        q, k = turned(q).transpose(1, 2), turned(k).transpose(1, 2)
        k, v = (y.repeat_interleave(heads // keys, dim=1) for y in (k, v.transpose(1, 2)))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(seen.transpose(1, 2).flatten(-2), block.out)
        gate, up = F.linear(norm(x, block.feed_norm), block.gate_up).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * up, block.down)
    return norm(x, weights.norm)


def logits_of(weights: Weights, hidden: Tensor) -> Tensor:
    """Logits; gradients reach the master weights through the matrix that learns."""
    return F.linear(hidden.float(), weights.head_cast.float())

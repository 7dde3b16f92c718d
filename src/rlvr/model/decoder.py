"""The decoder: Qwen3, Qwen2 and Llama in one file, the same blocks for learning and for sampling.

Letters: B rows, T tokens in a row, D width, H query heads, M key-value heads, K head width, C cache
columns. Source: Qwen3 technical report, arXiv:2505.09388, section 2 (grouped-query attention,
SwiGLU, rotary positions, RMSNorm, QK-norm); names of the weights are those of the Hugging Face
model directories.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rlvr.model.rope import PLAIN, Rope, rotary_tables

Hidden = Float[Tensor, "B T D"]
Heads = Float[Tensor, "B T heads K"]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

FORBIDDEN = -1e9  # a score no softmax picks, finite so that a row of padding stays finite too


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The sizes of a decoder, in the words of its `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    """Longest prompt and answer together, in tokens."""
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = True
    qk_norm: bool = True
    """Queries and keys behind a norm of their own (Qwen3)."""
    qkv_bias: bool = False
    """Queries, keys and values with a bias (Qwen2)."""
    rope: Rope = PLAIN
    """How positions turn into angles."""


class Attention(nn.Module):
    """The weights of one attention layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, head = shape.hidden_size, shape.head_dim
        queries, keys, bias = shape.num_attention_heads, shape.num_key_value_heads, shape.qkv_bias
        self.q_proj = nn.Linear(width, queries * head, bias=bias)
        self.k_proj = nn.Linear(width, keys * head, bias=bias)
        self.v_proj = nn.Linear(width, keys * head, bias=bias)
        self.o_proj = nn.Linear(queries * head, width, bias=False)
        if shape.qk_norm:
            self.q_norm = nn.RMSNorm(head)
            self.k_norm = nn.RMSNorm(head)


class FeedForward(nn.Module):
    """The weights of one SwiGLU layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)


class Block(nn.Module):
    """The weights of one block: attention, then feed-forward, each behind a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = nn.RMSNorm(shape.hidden_size)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size)


class Trunk(nn.Module):
    """Embedding, blocks and last norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.RMSNorm(shape.hidden_size)


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """One block's weights as the forward pass reads them: cast, and fused where inputs are shared.

    The gain of a norm is folded into the matrix behind it, the scale of the scores into the gains
    of the queries, or into their matrix: the same function in fewer passes over memory.
    """

    qkv: Tensor
    qkv_bias: Tensor | None
    qk_gain: Tensor | None
    """Gains of QK-norm for the query heads, then the key heads: (H+M, K)."""
    out: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights as the forward pass reads them; made once per use from the master weights."""

    shape: Shape
    embedding: Tensor
    blocks: tuple[BlockWeights, ...]
    norm: Tensor
    head: Tensor
    """In float32 always: rounding the logits is the largest part of a policy gap."""
    cos: Tensor
    """(positions, K), as is `sin`."""
    sin: Tensor


class Decoder(nn.Module):
    """Master weights in float32 under their Hugging Face names.

    Forward passes take `decoder.weights(dtype)`: for learning it carries the gradient back to the
    master weights; for sampling it is made once after each optimizer step.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Trunk(shape)
        if not shape.tie_word_embeddings:
            self.lm_head = nn.Linear(shape.hidden_size, shape.vocab_size, bias=False)
        cos, sin = rotary_tables(
            shape.rope, shape.rope_theta, shape.head_dim, shape.max_position_embeddings
        )
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def weights(self, dtype: torch.dtype) -> Weights:
        """The weights cast to `dtype`, differentiable; the head stays in float32."""
        tied = self.shape.tie_word_embeddings
        head = self.model.embed_tokens.weight if tied else self.lm_head.weight
        return Weights(
            shape=self.shape,
            embedding=self.model.embed_tokens.weight.to(dtype),
            blocks=tuple(_fuse(block, self.shape, dtype) for block in self.model.layers),
            norm=self.model.norm.weight.to(dtype),
            head=head.float(),
            cos=self.cos.to(dtype),
            sin=self.sin.to(dtype),
        )


def _fuse(block: nn.Module, shape: Shape, dtype: torch.dtype) -> BlockWeights:
    assert isinstance(block, Block)
    attention, mlp = block.self_attn, block.mlp
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    qkv = torch.cat([projection.weight for projection in projections])
    qkv = qkv * block.input_layernorm.weight
    bias = torch.cat([projection.bias for projection in projections]) if shape.qkv_bias else None
    qk_gain = None
    scale, queries = shape.head_dim**-0.5, shape.num_attention_heads
    if shape.qk_norm:
        gains = [
            attention.q_norm.weight.expand(queries, -1) * scale,
            attention.k_norm.weight.expand(shape.num_key_value_heads, -1),
        ]
        qk_gain = torch.cat(gains).to(dtype)
    else:
        scales = torch.ones(len(qkv), 1)
        scales[: queries * shape.head_dim] = scale
        qkv = qkv * scales
        bias = bias * scales.squeeze(1) if bias is not None else None
    gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
    return BlockWeights(
        qkv=qkv.to(dtype),
        qkv_bias=bias.to(dtype) if bias is not None else None,
        qk_gain=qk_gain,
        out=attention.o_proj.weight.to(dtype),
        gate_up=(gate_up * block.post_attention_layernorm.weight).to(dtype),
        down=mlp.down_proj.weight.to(dtype),
    )


def rotate(x: Heads, cos: Tensor, sin: Tensor) -> Heads:
    """Turn each pair of a head's numbers by the angle of its token's position."""
    other_half = x.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return torch.addcmul(x * cos, other_half, sin)


class Normalise(torch.autograd.Function):
    """Divide the last dimension by its root mean square, computed in float32.

    Source: RMSNorm, arXiv:1910.07467, eq. 4, without the gain. Written out because the library's
    composite makes five float32 copies of a bfloat16 input (docs/performance.md).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        """`x / rms(x)` in the dtype of `x`."""
        y, inverse = normalised(x, eps)
        ctx.save_for_backward(y, inverse)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """`inverse * (g - y * mean(g * y))`."""
        y, inverse = ctx.saved_tensors
        (g,) = gradients
        mean = (g * y).mean(dim=-1, keepdim=True, dtype=torch.float32)
        along = torch.mul(y, mean, out=torch.empty_like(y))
        return torch.mul(g - along, inverse, out=torch.empty_like(y)), None


def normalised(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`x / rms(x)` in the dtype of `x`, and `1 / rms(x)` in float32."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    inverse = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return torch.mul(x, inverse, out=torch.empty_like(x)), inverse


def normalise(x: Tensor, eps: float) -> Tensor:
    """RMSNorm without its gain, over the last dimension."""
    if not torch.is_grad_enabled():
        return normalised(x, eps)[0]
    result: Tensor = Normalise.apply(x, eps)  # type: ignore[no-untyped-call]
    return result


def run_block(
    x: Hidden, index: int, weights: Weights, cos: Tensor, sin: Tensor, attend: Attend
) -> Hidden:
    """One block. Learner and sampler differ in `attend(index, queries, keys, values)` alone."""
    shape, block = weights.shape, weights.blocks[index]
    heads, keys = shape.num_attention_heads, shape.num_key_value_heads
    eps = shape.rms_norm_eps

    qkv = F.linear(normalise(x, eps), block.qkv, block.qkv_bias)
    qk, v = qkv.unflatten(-1, (-1, shape.head_dim)).split([heads + keys, keys], dim=-2)
    if block.qk_gain is not None:
        qk = normalise(qk, eps) * block.qk_gain
    q, k = rotate(qk, cos, sin).split([heads, keys], dim=-2)
    x = x + F.linear(attend(index, q, k, v).flatten(-2), block.out)

    gate_up = F.linear(normalise(x, eps), block.gate_up)
    gate, up = gate_up.chunk(2, dim=-1)
    return x + F.linear(F.silu(gate) * up, block.down)


def attention(q: Heads, k: Tensor, v: Tensor, bias: Tensor) -> Heads:
    """Softmax attention with the query heads of one key head as rows of one product.

    Args:
        q: Queries, (B, T, H, K), already scaled.
        k: Keys with their columns last, (B, M, K, C): as the product reads them.
        v: Values, (B, M, C, K).
        bias: Added to the scores, broadcast to (B, M, H/M, T, C): 0 to see, FORBIDDEN not to.

    Scores and softmax are float32. Written out because on a CPU the fused kernel's backward pass in
    bfloat16 takes nine times as long at these lengths (docs/performance.md).
    """
    rows, tokens, heads, head = q.shape
    keys, columns = k.shape[1], k.shape[3]
    q = q.unflatten(2, (keys, heads // keys)).permute(0, 2, 3, 1, 4)  # (B, M, H/M, T, K)
    scores = q.flatten(2, 3) @ k  # (B, M, H/M*T, C)
    scores = scores.unflatten(2, (heads // keys, tokens)).float() + bias
    seen = scores.softmax(dim=-1).to(v.dtype).view(rows, keys, -1, columns) @ v
    seen = seen.unflatten(2, (heads // keys, tokens)).permute(0, 3, 1, 2, 4)
    result: Tensor = seen.reshape(rows, tokens, heads, head)
    return result


def hidden_states(weights: Weights, tokens: Int[Tensor, "B T"]) -> Hidden:
    """Last hidden states of right-padded rows: nothing looks ahead, so padding is never seen."""
    length = tokens.shape[1]
    ahead = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
    bias = torch.zeros(length, length, device=tokens.device).masked_fill(ahead, FORBIDDEN)

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k.permute(0, 2, 3, 1), v.transpose(1, 2), bias)

    cos, sin = weights.cos[:length, None], weights.sin[:length, None]
    x = F.embedding(tokens, weights.embedding)
    for index in range(len(weights.blocks)):
        x = run_block(x, index, weights, cos, sin, attend)
    return normalise(x, weights.shape.rms_norm_eps) * weights.norm


def logits_of(weights: Weights, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
    """Logits in float32."""
    return F.linear(hidden.float(), weights.head)


@dataclass(slots=True)
class Cache:
    """Keys and values of left-padded rows: every row's next token has the same column."""

    keys: Tensor
    """(layers, B, M, K, C)"""
    values: Tensor
    """(layers, B, M, C, K)"""
    start: Int[Tensor, " B"]
    """First column that is not padding."""
    used: int = 0
    """Columns filled."""

    @classmethod
    def empty(cls, weights: Weights, start: Int[Tensor, " B"], columns: int) -> "Cache":
        """A cache for rows whose prompts begin at column `start`, with room for `columns`."""
        shape = weights.shape
        rows = (len(weights.blocks), len(start), shape.num_key_value_heads)
        new = weights.embedding.new_zeros
        keys, values = new(*rows, shape.head_dim, columns), new(*rows, columns, shape.head_dim)
        return cls(keys, values, start)

    def rows(self, index: Int[Tensor, " rows"], columns: int | None = None) -> "Cache":
        """A cache of the rows at `index` (repeats allowed), with room for `columns`."""
        layers, _, heads, width, head = self.values.shape
        columns = columns or width
        keys = self.keys.new_empty(layers, len(index), heads, head, columns)
        values = self.values.new_empty(layers, len(index), heads, columns, head)
        keys[..., : self.used] = self.keys[:, index, :, :, : self.used]
        values[:, :, :, : self.used] = self.values[:, index, :, : self.used]
        return Cache(keys, values, self.start[index], self.used)


def extend(weights: Weights, tokens: Int[Tensor, "B T"], cache: Cache) -> Float[Tensor, "B D"]:
    """Read the rows' next T tokens into the cache; the last hidden state of each row."""
    first, last = cache.used, cache.used + tokens.shape[1]
    column = torch.arange(last, device=tokens.device)
    visible: Bool[Tensor, "B T C"] = (column >= cache.start[:, None, None]) & (
        column <= column[first:, None]
    )
    bias = torch.zeros(visible.shape, device=tokens.device).masked_fill_(~visible, FORBIDDEN)
    bias = bias[:, None, None]

    def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        cache.keys[index, ..., first:last] = k.permute(0, 2, 3, 1)
        cache.values[index, :, :, first:last] = v.transpose(1, 2)
        return attention(q, cache.keys[index, ..., :last], cache.values[index, :, :, :last], bias)

    position = (column[first:] - cache.start[:, None]).clamp(min=0)  # (B, T)
    cos, sin = weights.cos[position][:, :, None], weights.sin[position][:, :, None]
    x = F.embedding(tokens, weights.embedding)
    for index in range(len(weights.blocks)):
        x = run_block(x, index, weights, cos, sin, attend)
    cache.used = last
    return normalise(x[:, -1], weights.shape.rms_norm_eps) * weights.norm

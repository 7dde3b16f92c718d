"""Operations of the decoder with backward passes of their own: few passes over memory, few copies.

Letters: N flat tokens, D width, H query heads, M key-value heads, K head width. Each has a slow
twin in the tests. What they win is in docs/performance.md.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rlvr.model.packing import Packed, Segment

KEPT_SCORES = 1 << 23  # attention weights of a segment that are kept for the backward pass


LARGE = 1 << 20  # numbers of a head from which oneDNN's product in float32 is worth asking for


def exact_product(x: Float[Tensor, "*rows I"], matrix: Tensor) -> Tensor:
    """`x` times the transposed matrix in float32, without a gradient: logits.

    PyTorch asks MKL for it, which takes half as long again for large heads on the CPUs measured
    (docs/performance.md).
    """
    if matrix.is_mkldnn or (matrix.numel() >= LARGE and laid_out_by_onednn(matrix)):
        return pointwise(x.float(), matrix, None)
    return F.linear(x.float(), matrix)


def laid_out_by_onednn(matrix: Tensor) -> bool:
    """Whether this PyTorch and machine have oneDNN's products of their own for a matrix."""
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    return known and matrix.device.type == "cpu"


def pointwise(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """oneDNN's product, of a matrix as it is or laid out for it."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, matrix, bias, "none", [], "")
    return found


def product(x: Float[Tensor, "*rows I"], matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x` times the transposed matrix, which may lie in the order that oneDNN likes best."""
    if matrix.is_mkldnn:
        return pointwise(x, matrix, bias)
    return F.linear(x, matrix, bias)


def normalised(x: Tensor, gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`x / rms(x) * gain` in the dtype of `x`, and `1 / rms(x)` in float32."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    inverse = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return torch.mul(x, inverse, out=torch.empty_like(x)).mul_(gain), inverse


class Normalise(torch.autograd.Function):
    """RMSNorm, arXiv:1910.07467, eq. 4, its root mean square in float32.

    Written out because the library's composite makes five float32 copies of a bfloat16 input.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        """`x / rms(x) * gain` in the dtype of `x`."""
        y, inverse = normalised(x, gain, eps)
        ctx.save_for_backward(x, gain, inverse)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """With `y = x * inverse`: `inverse * (g * gain - y * mean(g * gain * y))`."""
        x, gain, inverse = ctx.saved_tensors
        (g,) = gradients
        y = torch.mul(x, inverse, out=torch.empty_like(x))
        along = g * y
        others = tuple(range(x.dim() - gain.dim()))
        gain_gradient = along.sum(dim=others, dtype=torch.float32)
        along.mul_(gain)
        mean = along.mean(dim=-1, keepdim=True, dtype=torch.float32)
        torch.mul(y, mean, out=y)
        found = torch.addcmul(y, g, gain, value=-1, out=along)
        return torch.mul(found, inverse.neg_(), out=found), gain_gradient.to(gain.dtype), None


def normalise(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last dimension; the gain has its last dimensions' shape."""
    if not torch.is_grad_enabled():
        return normalised(x, gain, eps)[0]
    result: Tensor = Normalise.apply(x, gain, eps)  # type: ignore[no-untyped-call]
    return result


class Gated(torch.autograd.Function):
    """SwiGLU, arXiv:2002.05202, eq. 6: `silu(gate) * up`; keeps its input alone."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        """The two halves of the last dimension, one gating the other."""
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Both halves' gradients, written where they belong."""
        (gate_up,) = ctx.saved_tensors
        (g,) = gradients
        gate, up = gate_up.chunk(2, dim=-1)
        found = torch.empty_like(gate_up)
        to_gate, to_up = found.chunk(2, dim=-1)
        torch.ops.aten.silu_backward.grad_input(g * up, gate, grad_input=to_gate)
        torch.mul(F.silu(gate), g, out=to_up)
        return found


def gated(gate_up: Tensor) -> Tensor:
    """SwiGLU of fused halves, (…, 2I) to (…, I)."""
    if not torch.is_grad_enabled():
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)
    result: Tensor = Gated.apply(gate_up)  # type: ignore[no-untyped-call]
    return result


def rotate(x: Float[Tensor, "*rows heads K"], cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of a head's numbers by the angle of its token's position."""
    other_half = x.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return (x * cos).addcmul_(other_half, sin)


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> Tensor:
    """Softmax attention with the query heads of one key head as rows of one product.

    Args:
        q: Queries, (R, T, H, K).
        k: Keys with their columns last, (R, M, K, C): as the product reads them.
        v: Values, (R, M, C, K).
        bias: Added to the scores, broadcast to (R, M, H/M, T, C): 0 to see, FORBIDDEN not to.
        scale: Multiplies the scores.

    Returns:
        (R, T, H, K). Scores and softmax are float32.
    """
    rows, tokens, heads, head = q.shape
    q = by_key_head(q, k.shape[1])
    seen = attention_weights(q, k, bias, scale) @ v
    result: Tensor = by_token(seen, tokens).reshape(rows, tokens, heads, head)
    return result


def attention_weights(q: Tensor, k: Tensor, bias: Tensor, scale: float) -> Tensor:
    """Softmax of the scores, (R, M, H/M*T, C), in the dtype of the queries."""
    scores = torch.matmul(q, k)
    shape = (*k.shape[:2], q.shape[2] // bias.shape[-2], bias.shape[-2], k.shape[3])
    exact = torch.add(bias, scores.view(shape), alpha=scale)
    return exact.softmax(dim=-1).to(q.dtype).view(scores.shape)


def by_key_head(q: Tensor, keys: int) -> Tensor:
    """(R, T, H, K) to (R, M, H/M*T, K)."""
    rows, tokens, heads, head = q.shape
    q = q.view(rows, tokens, keys, heads // keys, head).permute(0, 2, 3, 1, 4)
    turned: Tensor = q.reshape(rows, keys, heads // keys * tokens, head)
    return turned


def by_token(x: Tensor, tokens: int) -> Tensor:
    """(R, M, H/M*T, K) to (R, T, M, H/M, K), as a view."""
    turned: Tensor = x.unflatten(2, (-1, tokens)).permute(0, 3, 1, 2, 4)
    return turned


class PackedAttention(torch.autograd.Function):
    """Rotary positions and attention of packed rows that share their prompts.

    The library's fused kernel has no such mask, and in bfloat16 its backward pass takes nine times
    as long on a CPU at these lengths.
    """

    @staticmethod
    def forward(
        ctx: Any,
        qk: Float[Tensor, "N heads K"],
        v: Float[Tensor, "N M K"],
        cos: Float[Tensor, "N 1 K"],
        sin: Float[Tensor, "N 1 K"],
        segments: tuple[Segment, ...],
        inverse: Int[Tensor, " N"],
        scale: float,
    ) -> Float[Tensor, "N H K"]:
        """What the tokens see, (N, H, K)."""
        keys = v.shape[1]
        heads = qk.shape[1] - keys
        q, k, v = rotate(qk[:, :heads], cos, sin), rotate(qk[:, heads:], cos, sin), v.contiguous()
        kept, parts = [], []
        for segment in segments:
            by_key = by_key_head(_take(q, segment.queries), keys)
            columns = _take(k, segment.keys).permute(0, 2, 3, 1)
            weights = attention_weights(by_key, columns, segment.bias, scale)
            seen = weights @ _take(v, segment.keys).transpose(1, 2)
            parts.append(by_token(seen, segment.queries.shape[1]).reshape(-1, q[0].numel()))
            kept.append(weights if weights.numel() <= KEPT_SCORES else None)
        out = torch.cat(parts).index_select(0, inverse).view(q.shape)
        ctx.save_for_backward(q, k, v, cos, sin, inverse)
        ctx.kept, ctx.segments, ctx.scale = kept, segments, scale
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Segment by segment; what several rows read of a shared prompt is summed in float32."""
        q, k, v, cos, sin, inverse = ctx.saved_tensors
        g = gradients[0].contiguous()
        keys, count = v.shape[1], len(q)
        q_parts, kv_parts = [], []
        for segment, weights in zip(ctx.segments, ctx.kept, strict=True):
            tokens = segment.queries.shape[1]
            by_key = by_key_head(_take(q, segment.queries), keys)
            columns = _take(k, segment.keys).transpose(1, 2)
            if weights is None:
                turned = columns.transpose(2, 3)
                weights = attention_weights(by_key, turned, segment.bias, ctx.scale)
            g_by_key = by_key_head(_take(g, segment.queries), keys)
            values = _take(v, segment.keys).permute(0, 2, 3, 1)
            to_weights = torch.matmul(g_by_key, values)
            backward = torch.ops.aten._softmax_backward_data
            scores = backward(to_weights, weights, -1, weights.dtype).mul_(ctx.scale)
            q_parts.append(by_token(scores @ columns, tokens).reshape(-1, q[0].numel()))
            to_keys = torch.matmul(scores.transpose(2, 3), by_key).transpose(1, 2)
            to_values = torch.matmul(weights.transpose(2, 3), g_by_key).transpose(1, 2)
            kv_parts.append(torch.cat([to_keys, to_values], dim=2).flatten(0, 1).flatten(1))
        q_found = torch.cat(q_parts).index_select(0, inverse).view(q.shape)
        read = torch.cat([segment.keys.flatten() for segment in ctx.segments])
        kv_found = sum_rows(torch.cat(kv_parts), read, count).view(count, 2 * keys, -1)
        qk_found = torch.cat([q_found, kv_found[:, :keys]], dim=1)
        found = rotate(qk_found, cos, -sin)  # a turn's transpose is the turn back
        return found, kv_found[:, keys:], None, None, None, None, None


def packed_attention(
    qk: Float[Tensor, "N heads K"],
    v: Float[Tensor, "N M K"],
    cos: Float[Tensor, "N 1 K"],
    sin: Float[Tensor, "N 1 K"],
    packed: Packed,
    scale: float,
) -> Float[Tensor, "N H K"]:
    """What packed tokens see.

    Args:
        qk: Queries, then keys, before their rotation.
        v: Values.
        cos: Of each token's position, as is `sin`.
        sin: With the sign that `rotate` takes.
        packed: Which tokens look at which.
        scale: Multiplies the scores.
    """
    found: Tensor = PackedAttention.apply(  # type: ignore[no-untyped-call]
        qk, v, cos, sin, packed.segments, packed.inverse, scale
    )
    return found


def _take(x: Float[Tensor, "N heads K"], index: Int[Tensor, "R T"]) -> Tensor:
    """Rows of flat tokens, (R, T, heads, K)."""
    return x.index_select(0, index.flatten()).view(*index.shape, *x.shape[1:])


def sum_rows(values: Float[Tensor, "n W"], index: Int[Tensor, " n"], count: int) -> Tensor:
    """Sums, made in float32, of the rows that have the same index: (count, W)."""
    found = torch.ops.aten.embedding_dense_backward(values.float(), index, count, -1, False)
    result: Tensor = found.to(values.dtype)
    return result

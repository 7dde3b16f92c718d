"""The decoder: Qwen3, Qwen2 and Llama in one file, the same blocks for learning and for sampling.

Letters: B rows, T tokens in a row, N flat tokens, D width, H query heads, M key-value heads, K head
width, C cache columns. Source: Qwen3 technical report, arXiv:2505.09388, section 2 (grouped-query
attention, SwiGLU, rotary positions, RMSNorm, QK-norm); names of the weights are those of the
Hugging Face model directories.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from rlvr.model.leaves import leaf, learn_rows
from rlvr.model.lora import Adapters
from rlvr.model.operations import (
    exact_product,
    gated,
    laid_out_by_onednn,
    normalise,
    packed_attention,
    product,
)
from rlvr.model.packing import Packed
from rlvr.model.rope import PLAIN, Rope, rotary_tables

Attend = Callable[[int, Tensor, Tensor], Tensor]


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
    """One block's weights as products read them: cast, and fused where inputs are shared."""

    norm: Tensor
    """Gain of the norm before attention."""
    qkv: Tensor
    qkv_bias: Tensor | None
    qk_gain: Tensor | None
    """Gains of QK-norm for the query heads, then the key heads: (H+M, K)."""
    out: Tensor
    feed_norm: Tensor
    """Gain of the norm before the feed-forward layer."""
    gate_up: Tensor
    down: Tensor


@runtime_checkable
class Steps(Protocol):
    """Something faster than `run_block` for the token steps of a sampler; `token_step` has one."""

    def read(
        self,
        tokens: Int[Tensor, " R"],
        positions: Int[Tensor, " R"],
        keys: Sequence[Float[Tensor, "R M K C"]],
        values: Sequence[Float[Tensor, "R M C K"]],
        bias: Float[Tensor, "R 1 1 1 C"],
        used: int,
    ) -> Float[Tensor, "R D"]:
        """Last hidden states after one token more of each row."""
        ...

    def logits(self, hidden: Float[Tensor, "R D"]) -> Float[Tensor, "R V"]:
        """Logits in float32."""
        ...


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights as the forward pass reads them; made once after each optimizer step."""

    shape: Shape
    embedding: Tensor
    blocks: tuple[BlockWeights, ...]
    norm: Tensor
    head: Tensor
    """In float32 always: rounding the logits is the largest part of a policy gap."""
    head_cast: Tensor
    """The head as the products of its gradient read it."""
    cos: Tensor
    """(positions, K), as is `sin`."""
    sin: Tensor
    learn_rows: Callable[[Tensor, Tensor], None] | None = None
    """Takes token ids and the gradients of their rows of the embedding; None without learning."""
    steps: Steps | None = None
    """Takes over the token steps of a sampler, where there is one."""


class Decoder(nn.Module):
    """Master weights in float32 under their Hugging Face names.

    Forward passes read `decoder.weights(dtype)`: made anew after each change of the master weights.
    """

    cos: Tensor
    sin: Tensor
    adapters: Adapters | None = None
    """What learns in place of the master weights; None where these learn themselves."""

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

    def learning(self) -> dict[str, Tensor]:
        """What an optimizer changes, by name: the adapters, or without them the master weights."""
        if self.adapters is None:
            return dict(self.named_parameters())
        parts = (adapter.tensors for adapter in self.adapters.values())
        return {name: tensor for tensors in parts for name, tensor in tensors.items()}

    def merged(self) -> dict[str, Tensor]:
        """Each weight by name, in float32, with what its adapter adds."""
        added = self.adapters or {}
        return {
            name: added[weight].merged(weight.detach()) if weight in added else weight.detach()
            for name, weight in self.named_parameters()
        }

    def weights(self, dtype: torch.dtype, *, adapted: bool = True) -> Weights:
        """The weights cast to `dtype`, with their adapters or without; the head stays in float32.

        Where gradients are enabled, a backward pass adds them to those of what learns, in float32,
        matrix by matrix, and holds none of its own. Without their adapters they don't learn.
        """
        learns = torch.is_grad_enabled()
        adapters = self.adapters if adapted or self.adapters is None else {}
        table = self.model.embed_tokens.weight
        head = table if self.shape.tie_word_embeddings else self.lm_head.weight

        read = partial(leaf, dtype=dtype, learns=learns, adapters=adapters)
        return Weights(
            shape=self.shape,
            embedding=table.detach().to(dtype),
            blocks=tuple(_fuse(block, self.shape, read) for block in self.model.layers),
            norm=read([self.model.norm.weight]),
            head=head.detach().float(),
            head_cast=read([head]),
            cos=self.cos.to(dtype),
            sin=self.sin.to(dtype),
            learn_rows=partial(learn_rows, table) if learns and adapters is None else None,
        )


def _fuse(block: nn.Module, shape: Shape, read: Callable[..., Tensor]) -> BlockWeights:
    assert isinstance(block, Block)
    attention, mlp = block.self_attn, block.mlp
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    gain = None
    if shape.qk_norm:
        heads = (shape.num_attention_heads, shape.num_key_value_heads)
        norms = (attention.q_norm.weight, attention.k_norm.weight)
        gain = read(norms, repeats=heads)
    return BlockWeights(
        norm=read([block.input_layernorm.weight]),
        qkv=read([projection.weight for projection in projections]),
        qkv_bias=read([p.bias for p in projections]) if shape.qkv_bias else None,
        qk_gain=gain,
        out=read([attention.o_proj.weight]),
        feed_norm=read([block.post_attention_layernorm.weight]),
        gate_up=read([mlp.gate_proj.weight, mlp.up_proj.weight]),
        down=read([mlp.down_proj.weight]),
    )


def run_block(x: Tensor, index: int, weights: Weights, attend: Attend) -> Tensor:
    """One block over (…, D). Learner and sampler differ in `attend(index, qk, v)` alone.

    `attend` takes queries and keys in one, (…, H+M, K), before their rotation, and values,
    (…, M, K); it gives what the tokens see, (…, H, K).
    """
    shape, block = weights.shape, weights.blocks[index]
    heads, keys = shape.num_attention_heads, shape.num_key_value_heads
    eps = shape.rms_norm_eps

    qkv = product(normalise(x, block.norm, eps), block.qkv, block.qkv_bias)
    qk, v = qkv.unflatten(-1, (-1, shape.head_dim)).split([heads + keys, keys], dim=-2)
    if block.qk_gain is not None:
        qk = normalise(qk, block.qk_gain, eps)
    x = x + product(attend(index, qk, v).flatten(-2), block.out)
    gate_up = product(normalise(x, block.feed_norm, eps), block.gate_up)
    return x + product(gated(gate_up), block.down)


def hidden_states(weights: Weights, packed: Packed) -> Float[Tensor, "N D"]:
    """Last hidden states of packed rows."""
    shape = weights.shape
    cos, sin = (table[packed.positions][:, None] for table in (weights.cos, weights.sin))
    scale = shape.head_dim**-0.5

    def attend(_: int, qk: Tensor, v: Tensor) -> Tensor:
        return packed_attention(qk, v, cos, sin, packed, scale)

    x = embedded(weights, packed.tokens)
    for index in range(len(weights.blocks)):
        x = run_block(x, index, weights, attend)
    return normalise(x, weights.norm, shape.rms_norm_eps)


def embedded(weights: Weights, tokens: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
    """Rows of the embedding; their gradients go to the master weights row by row."""
    x = F.embedding(tokens, weights.embedding)
    learn = weights.learn_rows
    if learn is not None and torch.is_grad_enabled():
        x.requires_grad_()

        def deliver(x: Tensor) -> None:
            assert x.grad is not None
            learn(tokens, x.grad)
            x.grad = None

        x.register_post_accumulate_grad_hook(deliver)
    return x


def prepacked(weights: Weights, rows: int) -> Weights:
    """The weights laid out once as oneDNN reads them, for many products of few rows.

    Otherwise each product of a token step lays its matrix out anew, which costs more than the
    product itself. The same weights where this PyTorch or machine can't.

    Args:
        weights: Without gradients.
        rows: Of the products, about.
    """
    if not laid_out_by_onednn(weights.head):
        return weights

    def packed(matrix: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.detach(), rows)
        return found

    blocks = tuple(
        replace(
            block,
            qkv=packed(block.qkv),
            out=packed(block.out),
            gate_up=packed(block.gate_up),
            down=packed(block.down),
        )
        for block in weights.blocks
    )
    return replace(weights, blocks=blocks, head=packed(weights.head))


def logits_of(weights: Weights, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
    """Logits in float32, without a gradient."""
    if weights.steps is not None:
        return weights.steps.logits(hidden)
    return exact_product(hidden, weights.head)

"""A token step of the sampler in one call: compiled kernels in the place of some 900 small calls.

Letters: R rows, D width, M key-value heads, K head width, C cache columns, V words.
The same arithmetic as `decoder.run_block`, but numbers between products stay in float32.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rlvr.model.decoder import BlockWeights, Weights, prepacked
from rlvr.native.build import kernels

KERNELS_FROM = 8  # answer tokens from which it pays to lay out the weights for the kernels
PREPACKED_FROM = 24  # and for oneDNN, which takes longer
_LONGS = ("rows", "width", "heads", "key_heads", "head", "inner", "layers", "columns", "used")


class _Sizes(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_long) for name in (*_LONGS, "threads")),
        ("eps", ctypes.c_float),
    ]


class _Block(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in (
            *("norm", "qkv", "qkv_bias", "qk_gain", "out", "feed_norm", "gate_up", "down"),
            *("keys", "values"),
        )
    ]


class _Scratch(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("x", "normed", "qkv", "seen", "gate_up", "gated", "scores")
    ]


@dataclass(frozen=True, slots=True)
class TokenSteps:
    """Weights laid out for the kernels, for as long as they don't change."""

    library: ctypes.CDLL
    weights: Weights
    name: str
    """Of the type that products read."""
    blocks: ctypes.Array[_Block]
    norm: Tensor
    head: Tensor
    held: list[Tensor] = field(repr=False)
    """What the blocks point to."""

    @classmethod
    def of(cls, weights: Weights) -> "TokenSteps | None":
        """None where there are no kernels for this machine, or none for these sizes."""
        library = kernels().library
        if library is None or not _fits(library, weights):
            return None
        name = str(weights.embedding.dtype).removeprefix("torch.")
        held = list[Tensor]()

        def laid(matrix: Tensor) -> Tensor:
            held.append(_laid_out(library, matrix.detach().contiguous()))
            return held[-1]

        def exact(vector: Tensor | None) -> int | None:
            if vector is None:
                return None
            held.append(vector.detach().float().contiguous())
            return held[-1].data_ptr()

        def pointers(block: BlockWeights) -> _Block:
            matrices = {
                part: laid(getattr(block, part)).data_ptr()
                for part in ("qkv", "out", "gate_up", "down")
            }
            vectors = {
                part: exact(getattr(block, part))
                for part in ("norm", "qkv_bias", "qk_gain", "feed_norm")
            }
            return _Block(**matrices, **vectors)

        blocks = (_Block * len(weights.blocks))(*map(pointers, weights.blocks))
        norm, head = weights.norm.detach().float(), laid(weights.head)
        return cls(library, weights, name, blocks, norm, head, held)

    def read(
        self,
        tokens: Int[Tensor, " R"],
        positions: Int[Tensor, " R"],
        keys: Sequence[Float[Tensor, "R M K C"]],
        values: Sequence[Float[Tensor, "R M C K"]],
        bias: Float[Tensor, "R 1 1 1 C"],
        used: int,
    ) -> Float[Tensor, "R D"]:
        """One token more of each row; its keys and values are written to column `used - 1`.

        Args:
            tokens: Token ids.
            positions: Of the tokens, for their rotation.
            keys: Of the cache, by layer.
            values: The same.
            bias: 0 where a row sees a column, a large negative number where not.
            used: Columns filled, with this token.

        Returns:
            Last hidden states.
        """
        shape, rows = self.weights.shape, len(tokens)
        heads, key_heads, head = (
            shape.num_attention_heads,
            shape.num_key_value_heads,
            shape.head_dim,
        )
        for block, of_keys, of_values in zip(self.blocks, keys, values, strict=True):
            assert of_keys.is_contiguous()
            assert of_values.is_contiguous()
            block.keys, block.values = of_keys.data_ptr(), of_values.data_ptr()
        width, inner, columns = shape.hidden_size, shape.intermediate_size, bias.shape[-1]
        sizes = _Sizes(
            rows, width, heads, key_heads, head, inner, len(self.blocks), columns, used,
            torch.get_num_threads(), shape.rms_norm_eps,
        )  # fmt: skip
        new, dtype = torch.empty, self.weights.embedding.dtype
        scratch = (
            F.embedding(tokens, self.weights.embedding).float(),
            new(rows, width, dtype=dtype),
            new(rows, heads + 2 * key_heads, head),
            new(rows, heads, head, dtype=dtype),
            new(rows, 2 * inner),
            new(rows, inner, dtype=dtype),
            new(rows, heads, columns),
        )
        cos, sin = (table[positions].float() for table in (self.weights.cos, self.weights.sin))
        hidden, bias = new(rows, width, dtype=dtype), bias.contiguous()
        getattr(self.library, f"token_step_{self.name}")(
            ctypes.byref(sizes),
            self.blocks,
            *map(_pointer, (self.norm, cos, sin, bias)),
            ctypes.byref(_Scratch(*(part.data_ptr() for part in scratch))),
            _pointer(hidden),
        )
        return hidden

    def logits(self, hidden: Float[Tensor, "R D"]) -> Float[Tensor, "R V"]:
        """Logits in float32."""
        rows, inner = hidden.shape
        outer, exact = self.weights.shape.vocab_size, hidden.float().contiguous()
        found = torch.empty(rows, outer)
        sizes = map(ctypes.c_long, (outer, inner, torch.get_num_threads()))
        self.library.product_float32(
            _pointer(exact), ctypes.c_long(rows), _pointer(self.head), *sizes, _pointer(found)
        )
        return found


def for_sampling(weights: Weights, rows: int, tokens: int) -> Weights:
    """The weights with the fastest token steps that this machine has.

    Args:
        weights: Without gradients.
        rows: Of a token step, about.
        tokens: Of an answer at most: few don't pay for laying out the weights.
    """
    steps = TokenSteps.of(weights) if tokens >= KERNELS_FROM else None
    if steps is not None:
        return replace(weights, steps=steps)
    return prepacked(weights, rows) if tokens >= PREPACKED_FROM else weights


def _fits(library: ctypes.CDLL, weights: Weights) -> bool:
    shape, lanes = weights.shape, library.lanes()
    sizes = (shape.hidden_size, shape.intermediate_size, shape.head_dim // 2)
    known = (torch.float32, torch.bfloat16) if library.has_bfloat16() else (torch.float32,)
    return (
        weights.embedding.dtype in known
        and weights.head.device.type == "cpu"
        and all(size % lanes == 0 for size in sizes)
    )


def _laid_out(library: ctypes.CDLL, matrix: Float[Tensor, "O I"]) -> Float[Tensor, " n"]:
    outer, inner = matrix.shape
    panel = 3 * library.lanes()
    found = torch.empty((outer + -outer % panel) * inner, dtype=matrix.dtype)
    lay_out = getattr(library, f"lay_out_{str(matrix.dtype).removeprefix('torch.')}")
    lay_out(_pointer(matrix), ctypes.c_long(outer), ctypes.c_long(inner), _pointer(found))
    return found


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())

"""Log-probabilities and entropies of given tokens, in chunks of logits.

Everywhere else, index `t` of a (B, T) tensor speaks of token `t` itself. Logits speak of the token
that follows: `packing.pack` pairs each token with the hidden state before it, nothing else does.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rlvr.model.decoder import Weights, hidden_states
from rlvr.model.distribution import only, without
from rlvr.model.operations import exact_product
from rlvr.model.packing import ROUNDED, pack
from rlvr.records import Kept, Sampling

CHUNK_LOGITS = 1 << 24  # logits held at once: 64 MiB in float32
CACHED_LOGITS = 1 << 19  # logits worked on at once: 2 MiB in float32
NEVER = -1e4  # stands for the log-probability of a banned token, whose share is 0 all the same
KEPT_LOGITS = 1 << 28  # probabilities kept for the backward pass: 512 MiB in bfloat16


def token_logprobs(
    weights: Weights,
    tokens: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    sampling: Sampling,
    *,
    kept: Kept | None = None,
    entropy_gradient: bool = False,
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
    """Log-probability of each masked token under the distribution that sampled it, and its entropy.

    Args:
        weights: From `Decoder.weights`; gradients flow back from the log-probabilities.
        tokens: Prompts and answers, right-padded. Rows with the same tokens before the first masked
            one share that prompt.
        mask: True at answer tokens. Column 0 has no token before it and can't be masked in.
        sampling: The temperature and the banned tokens of the sampler.
        kept: By row, the tokens that the sampler's filters had left at each answer token: the
            log-probabilities are renormalised over them. None where nothing was filtered.
        entropy_gradient: Let gradients flow from the entropies too.

    Returns:
        Log-probabilities, and entropies over the whole vocabulary, in nats, both 0 outside the
        mask.
    """
    logprobs = torch.zeros(mask.shape, device=tokens.device)
    entropies = torch.zeros_like(logprobs)
    if not mask.any():
        return logprobs.requires_grad_(torch.is_grad_enabled()), entropies
    packed = pack(tokens, mask)
    hidden = hidden_states(weights, packed).index_select(0, packed.predicts)  # (n, D)
    left = [ids for row in kept for ids in row] if kept is not None else None
    assert left is None or len(left) == len(hidden), "a set of tokens for each masked token"
    if left is None and not entropy_gradient:
        found = scores(weights, hidden, tokens[mask], sampling)
    else:
        found = by_chunk(weights, hidden, tokens[mask], sampling, left, entropy_gradient)
    logprobs = logprobs.masked_scatter(mask, found[0])
    return logprobs, entropies.masked_scatter(mask, found[1])


Pair = tuple[Float[Tensor, " n"], Float[Tensor, " n"]]


def scores(
    weights: Weights, hidden: Float[Tensor, "n D"], target: Int[Tensor, " n"], sampling: Sampling
) -> Pair:
    """Log-probabilities of the given tokens and entropies, from the hidden states before them."""
    count = len(hidden)
    hidden = F.pad(hidden, (0, 0, 0, -count % ROUNDED))
    target = F.pad(target, (0, -count % ROUNDED))
    if torch.is_grad_enabled():
        found: Pair = Scores.apply(  # type: ignore[no-untyped-call]
            hidden, weights.head_cast, weights.head, target, sampling
        )
    else:
        found = _scored(hidden, weights.head, target, sampling)
    return found[0][:count], found[1][:count]


class Scores(torch.autograd.Function):
    """From hidden states to the log-probabilities of given tokens, and entropies.

    The logits are float32 and live for one chunk. The backward pass needs `p - onehot(token)` for
    each token: kept in the dtype of the hidden states, or made again where that would be too much.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "n D"],
        head_cast: Float[Tensor, "V D"],
        head: Float[Tensor, "V D"],
        target: Int[Tensor, " n"],
        sampling: Sampling,
    ) -> Pair:
        """Log-probabilities and entropies, without a gradient of the entropies."""
        rows = min(len(hidden), KEPT_LOGITS // len(head))
        kept = hidden.new_empty(rows, len(head))
        parts = [_scored(hidden[:rows], head, target[:rows], sampling, kept)] if rows else []
        if rows < len(hidden):
            parts.append(_scored(hidden[rows:], head, target[rows:], sampling))
        ctx.save_for_backward(hidden, head_cast, head, target, kept)
        ctx.sampling = sampling
        logprobs, entropies = (torch.cat(found) for found in zip(*parts, strict=True))
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """`d log p(token) / d logits = (onehot(token) - p) / temperature`."""
        hidden, head_cast, head, target, kept = ctx.saved_tensors
        g = (gradients[0] / -ctx.sampling.temperature)[:, None]
        scaled = (hidden * g).to(hidden.dtype)
        found, to_head, rows = list[Tensor](), None, max(1, CHUNK_LOGITS // len(head))
        firsts = [*([0] if len(kept) else []), *range(len(kept), len(hidden), rows)]
        for first, last in zip(firsts, [*firsts[1:], len(hidden)], strict=True):
            if last > len(kept):
                difference = hidden.new_empty(last - first, len(head))
                _scored(hidden[first:last], head, target[first:last], ctx.sampling, difference)
            else:
                difference = kept
            found.append((difference @ head_cast * g[first:last]).to(hidden.dtype))
            if ctx.needs_input_grad[1]:
                part = difference.t() @ scaled[first:last]
                to_head = part if to_head is None else to_head.float().add_(part)
        learnt = to_head.to(head_cast.dtype) if to_head is not None else None
        return torch.cat(found), learnt, None, None, None


def _scored(
    hidden: Float[Tensor, "n D"],
    head: Float[Tensor, "V D"],
    target: Int[Tensor, " n"],
    sampling: Sampling,
    differences: Float[Tensor, "n V"] | None = None,
) -> Pair:
    """Log-probabilities and entropies; where asked, `p - onehot(token)` is written too.

    Logits are made for a chunk of tokens and worked on in blocks that stay in the processor's
    cache.
    """
    rows = max(1, CHUNK_LOGITS // len(head))
    size = max(1, CACHED_LOGITS // len(head))
    logprobs, entropies = list[Tensor](), list[Tensor]()
    for first in range(0, len(hidden), rows):
        logits = exact_product(hidden[first : first + rows], head)
        for start, block in enumerate(without(logits, sampling.banned).split(size)):
            begin = first + start * size
            token = target[begin : begin + len(block), None]
            weight, total, logprob, entropy = _distribution(block, token, sampling)
            if differences is not None:
                out = differences[begin : begin + len(block)]
                out.copy_(weight.div_(total))
                # exact where p is near 1 and its rounding would be all that is left
                out.scatter_(1, token, logprob.expm1().to(out.dtype))
            logprobs.append(logprob.squeeze(1))
            entropies.append(entropy)
    return torch.cat(logprobs), torch.cat(entropies)


def _distribution(
    logits: Float[Tensor, "n V"], target: Int[Tensor, "n 1"], sampling: Sampling
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Probabilities times their sum, that sum, log-probability of one token, entropy.

    Written over the logits.
    """
    if sampling.temperature != 1.0:
        logits.div_(sampling.temperature)
    logits.sub_(logits.amax(dim=-1, keepdim=True))
    chosen = logits.gather(-1, target)
    weight = logits.exp()
    total = weight.sum(dim=-1, keepdim=True)
    if sampling.banned:
        logits.clamp_(min=torch.finfo(logits.dtype).min)  # 0 times it is 0
    mean = logits.mul_(weight).sum(dim=-1)
    log = total.log()
    return weight, total, chosen - log, (log.squeeze(1) - mean / total.squeeze(1))


class Logits(torch.autograd.Function):
    """Logits in float32; their gradient's products in the dtype of the hidden states."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head_cast: Tensor, head: Tensor) -> Tensor:
        """`hidden` times the transposed head."""
        ctx.save_for_backward(hidden, head_cast)
        return exact_product(hidden, head)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        """Of the hidden states, and of the head where it learns."""
        hidden, head_cast = ctx.saved_tensors
        g = gradients[0].to(hidden.dtype)
        return g @ head_cast, g.t() @ hidden if ctx.needs_input_grad[1] else None, None


def by_chunk(
    weights: Weights,
    hidden: Float[Tensor, "n D"],
    target: Int[Tensor, " n"],
    sampling: Sampling,
    kept: Sequence[Sequence[int]] | None,
    entropy_gradient: bool,
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """As `scores`, from the library's operations: for filters and the pull of the entropy."""
    rows = max(1, CHUNK_LOGITS // weights.shape.vocab_size)
    save_memory = len(hidden) > rows and torch.is_grad_enabled()
    logprobs, entropies = [], []
    for first in range(0, len(hidden), rows):
        part = slice(first, first + rows)
        ids = kept[part] if kept is not None else None
        inputs = (weights, hidden[part], target[part], sampling, ids, entropy_gradient)
        out = checkpoint(_chunk, *inputs, use_reentrant=False) if save_memory else _chunk(*inputs)
        logprobs.append(out[0])
        entropies.append(out[1])
    return torch.cat(logprobs), torch.cat(entropies)


def _chunk(
    weights: Weights,
    hidden: Float[Tensor, "n D"],
    target: Int[Tensor, " n"],
    sampling: Sampling,
    kept: Sequence[Sequence[int]] | None,
    entropy_gradient: bool,
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    logits: Tensor = Logits.apply(hidden, weights.head_cast, weights.head)  # type: ignore[no-untyped-call]
    scaled = without(logits, sampling.banned) / sampling.temperature
    full = scaled.log_softmax(dim=-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        seen = full if entropy_gradient else full.detach()
        finite = seen.clamp(min=NEVER) if sampling.banned else seen
        entropy = -(seen.exp() * finite).sum(dim=-1)
    logprobs = full if kept is None else only(scaled, kept).log_softmax(dim=-1)
    return logprobs.gather(-1, target[:, None]).squeeze(-1), entropy

"""Log-probabilities and entropies of given tokens, in chunks of logits.

Everywhere else, index `t` of a (B, T) tensor speaks of token `t` itself. Logits speak of the token
that follows: `packing.pack` pairs each token with the hidden state before it, nothing else does.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rlvr.model.decoder import Weights, hidden_states
from rlvr.model.distribution import only, without
from rlvr.model.operations import product
from rlvr.model.packing import pack
from rlvr.records import Kept, Sampling

CHUNK_LOGITS = 1 << 24  # logits held at once: 64 MiB in float32
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
    head = weights.head
    if torch.is_grad_enabled():
        found: Pair = Scores.apply(  # type: ignore[no-untyped-call]
            hidden, weights.head_cast, head, target, sampling
        )
        return found
    rows = max(1, CHUNK_LOGITS // len(head))
    chunks = zip(hidden.split(rows), target.split(rows), strict=True)
    parts = [_distribution(x, head, token, sampling)[1:] for x, token in chunks]
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


class Scores(torch.autograd.Function):
    """From hidden states to the log-probabilities of given tokens, and entropies.

    The logits are float32 and live for one chunk; what the backward pass needs is kept as
    probabilities in the dtype of the hidden states, or made again where that would be too much.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "n D"],
        head_cast: Float[Tensor, "V D"],
        head: Float[Tensor, "V D"],
        target: Int[Tensor, " n"],
        sampling: Sampling,
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Log-probabilities and entropies, without a gradient of the entropies."""
        rows = max(1, CHUNK_LOGITS // len(head))
        room = KEPT_LOGITS
        logprobs, entropies, kept = [], [], []
        for x, token in zip(hidden.split(rows), target.split(rows), strict=True):
            weight, logprob, entropy = _distribution(x, head, token, sampling)
            logprobs.append(logprob)
            entropies.append(entropy)
            room -= weight.numel()
            kept.append(_probabilities(weight, hidden.dtype) if room >= 0 else None)
        ctx.save_for_backward(hidden, head_cast, head, target)
        ctx.kept, ctx.rows, ctx.sampling = kept, rows, sampling
        found = torch.cat(logprobs), torch.cat(entropies)
        ctx.mark_non_differentiable(found[1])
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """`d log p(token) / d logits = onehot(token) - p`, over the temperature."""
        hidden, head_cast, head, target = ctx.saved_tensors
        scaled = gradients[0] / ctx.sampling.temperature
        found, to_head = list[Tensor](), torch.zeros(())
        parts = [x.split(ctx.rows) for x in (hidden, target, scaled)]
        for x, token, g, kept in zip(*parts, ctx.kept, strict=True):
            if kept is None:
                weight = _distribution(x, head, token, ctx.sampling)[0]
                kept = _probabilities(weight, hidden.dtype)
            to_logits = kept.mul_(-g[:, None])
            to_logits[torch.arange(len(token)), token] += g.to(kept.dtype)
            found.append(to_logits @ head_cast)
            part = to_logits.t() @ x
            to_head = to_head.float().add_(part) if len(found) > 1 else part
        ctx.kept = None
        return torch.cat(found), to_head.to(head_cast.dtype), None, None, None


def _distribution(
    hidden: Tensor, head: Tensor, target: Tensor, sampling: Sampling
) -> tuple[Float[Tensor, "n V"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Probabilities of all tokens before their division, log-probability of one, entropy."""
    logits = without(product(hidden.float(), head), sampling.banned)
    if sampling.temperature != 1.0:
        logits = logits.div_(sampling.temperature)
    logits = logits.sub_(logits.amax(dim=-1, keepdim=True))
    chosen = logits.gather(-1, target[:, None]).squeeze(-1)
    weight = logits.exp()
    total = weight.sum(dim=-1)
    if sampling.banned:
        logits = logits.clamp_(min=torch.finfo(logits.dtype).min)  # 0 times it is 0
    entropy = total.log() - torch.linalg.vecdot(weight, logits) / total
    return weight, chosen - total.log(), entropy


def _probabilities(weight: Float[Tensor, "n V"], dtype: torch.dtype) -> Float[Tensor, "n V"]:
    total = weight.sum(dim=-1, keepdim=True)
    return torch.div(weight, total, out=torch.empty_like(weight, dtype=dtype))


class Logits(torch.autograd.Function):
    """Logits in float32; their gradient's products in the dtype of the hidden states."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head_cast: Tensor, head: Tensor) -> Tensor:
        """`hidden` times the transposed head."""
        ctx.save_for_backward(hidden, head_cast)
        return product(hidden.float(), head)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """Of the hidden states and of the head."""
        hidden, head_cast = ctx.saved_tensors
        g = gradients[0].to(hidden.dtype)
        return g @ head_cast, g.t() @ hidden, None


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
        finite = seen.clamp(min=torch.finfo(seen.dtype).min) if sampling.banned else seen
        entropy = -(seen.exp() * finite).sum(dim=-1)
    logprobs = full if kept is None else only(scaled, kept).log_softmax(dim=-1)
    return logprobs.gather(-1, target[:, None]).squeeze(-1), entropy

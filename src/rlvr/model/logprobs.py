"""Log-probabilities and entropies of given tokens, in chunks; home of the one shift.

Everywhere else, index `t` of a (B, T) tensor speaks of token `t` itself. Logits speak of the token
that follows, so hidden state `t - 1` is paired with token `t` here, and nowhere else.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rlvr.model.decoder import Weights, hidden_states, logits_of
from rlvr.model.distribution import only, without
from rlvr.records import Kept, Sampling

CHUNK_LOGITS = 1 << 24  # logits held at once: 64 MiB in float32


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
        weights: From `Decoder.weights`; gradients flow back to it from the log-probabilities.
        tokens: Prompts and answers, right-padded.
        mask: True at answer tokens. Column 0 has no token before it and can't be masked in.
        sampling: The temperature and the banned tokens of the sampler.
        kept: By row, the tokens that the sampler's filters had left at each answer token: the
            log-probabilities are renormalised over them. None where nothing was filtered.
        entropy_gradient: Let gradients flow from the entropies too.

    Returns:
        Log-probabilities, and entropies over the whole vocabulary, in nats, both 0 outside the
        mask.
    """
    assert not mask[:, 0].any(), "the first token of a row has no prediction"
    predicted = mask[:, 1:]
    hidden = hidden_states(weights, tokens[:, :-1])[predicted]  # (N, D)
    target = tokens[:, 1:][predicted]  # (N,)
    rows_per_chunk = max(1, CHUNK_LOGITS // weights.shape.vocab_size)
    chunks = list(zip(hidden.split(rows_per_chunk), target.split(rows_per_chunk), strict=True))
    left = [ids for row in kept for ids in row] if kept is not None else None
    assert left is None or len(left) == len(target), "a set of tokens for each masked token"
    save_memory = len(chunks) > 1 and torch.is_grad_enabled()
    logprob_chunks, entropy_chunks = [], []
    for number, chunk in enumerate(chunks):
        first = number * rows_per_chunk
        ids = left[first : first + len(chunk[1])] if left is not None else None
        inputs = (weights, *chunk, sampling, ids, entropy_gradient)
        out = checkpoint(_chunk, *inputs, use_reentrant=False) if save_memory else _chunk(*inputs)
        logprob_chunks.append(out[0])
        entropy_chunks.append(out[1])
    logprobs = torch.zeros(mask.shape, device=tokens.device)
    entropies = torch.zeros_like(logprobs)
    if not chunks or not len(target):
        return logprobs + hidden.sum() * 0, entropies
    logprobs = logprobs.masked_scatter(mask, torch.cat(logprob_chunks))
    return logprobs, entropies.masked_scatter(mask, torch.cat(entropy_chunks))


def _chunk(
    weights: Weights,
    hidden: Float[Tensor, "N D"],
    target: Int[Tensor, " N"],
    sampling: Sampling,
    kept: Sequence[Sequence[int]] | None,
    entropy_gradient: bool,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    scaled = without(logits_of(weights, hidden), sampling.banned) / sampling.temperature
    full = scaled.log_softmax(dim=-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        seen = full if entropy_gradient else full.detach()
        finite = seen.clamp(min=torch.finfo(seen.dtype).min) if sampling.banned else seen
        entropy = -(seen.exp() * finite).sum(dim=-1)
    logprobs = full if kept is None else only(scaled, kept).log_softmax(dim=-1)
    return logprobs.gather(-1, target[:, None]).squeeze(-1), entropy

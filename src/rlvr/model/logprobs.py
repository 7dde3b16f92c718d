"""Log-probabilities and entropies of given tokens, in chunks; home of the one shift.

Everywhere else, index `t` of a (B, T) tensor speaks of token `t` itself. Logits speak of the token
that follows, so hidden state `t - 1` is paired with token `t` here, and nowhere else.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rlvr.model.decoder import Weights, hidden_states, logits_of
from rlvr.model.distribution import truncate
from rlvr.records import Sampling

CHUNK_LOGITS = 1 << 24  # logits held at once: 64 MiB in float32


def token_logprobs(
    weights: Weights,
    tokens: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    sampling: Sampling,
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
    """Log-probability of each masked token under the distribution that sampled it, and its entropy.

    Args:
        weights: From `Decoder.weights`; gradients flow back to it from the log-probabilities.
        tokens: Prompts and answers, right-padded.
        mask: True at answer tokens. Column 0 has no token before it and can't be masked in.
        sampling: The temperature and filters that sampled the tokens.

    Returns:
        Log-probabilities and entropies over the whole vocabulary (without gradient), in nats, both
        0 outside the mask.
    """
    assert not mask[:, 0].any(), "the first token of a row has no prediction"
    predicted = mask[:, 1:]
    hidden = hidden_states(weights, tokens[:, :-1])[predicted]  # (N, D)
    target = tokens[:, 1:][predicted]  # (N,)
    rows_per_chunk = max(1, CHUNK_LOGITS // weights.shape.vocab_size)
    chunks = list(zip(hidden.split(rows_per_chunk), target.split(rows_per_chunk), strict=True))
    save_memory = len(chunks) > 1 and torch.is_grad_enabled()
    logprob_chunks, entropy_chunks = [], []
    for chunk in chunks:
        inputs = (weights, *chunk, sampling)
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
    weights: Weights, hidden: Float[Tensor, "N D"], target: Int[Tensor, " N"], sampling: Sampling
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    scaled = logits_of(weights, hidden) / sampling.temperature
    full = scaled.log_softmax(dim=-1)
    entropy = -(full.detach().exp() * full.detach()).sum(dim=-1)
    kept = truncate(scaled, sampling)
    logprobs = full if kept is scaled else kept.log_softmax(dim=-1)
    return logprobs.gather(-1, target[:, None]).squeeze(-1), entropy

"""Logits at every token of equally long rows, by the way that the learner reads them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rlvr.model.decoder import Weights, hidden_states, logits_of
from rlvr.model.packing import pack


@torch.no_grad()
def packed_logits(weights: Weights, tokens: Tensor) -> Tensor:
    """(B, T, V): a column behind each row is predicted and never read."""
    longer = F.pad(tokens, (0, 1))
    mask = torch.ones(longer.shape, dtype=torch.bool)
    mask[:, 0] = False
    packed = pack(longer, mask)
    hidden = hidden_states(weights, packed)[packed.predicts]
    return logits_of(weights, hidden).view(*tokens.shape, -1)

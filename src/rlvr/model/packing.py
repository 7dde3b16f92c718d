"""Rows of prompts and answers as one flat row of tokens, without padding, shared prompts once.

Letters: B rows, T tokens in a row, N flat tokens, R rows of a segment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

FORBIDDEN = -1e9  # a score no softmax picks, finite so that a row of padding stays finite too
SCORES = 1 << 22  # attention scores of one head that a segment has at most
ROUNDED = 64  # flat tokens are a multiple of this, so that few shapes occur
COLUMNS = 16  # the same for the queries of a segment
QUERIES = 512  # queries of a row in one segment: later ones are scored apart, up to their own keys


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows whose attention is computed together, padded with flat token 0, which no one reads."""

    queries: Int[Tensor, "R Lq"]
    """Flat tokens that look."""
    keys: Int[Tensor, "R Lk"]
    """Flat tokens that are looked at: of the prompt, then of the row itself."""
    bias: Float[Tensor, "R 1 1 Lq Lk"]
    """0 where a query sees a key, FORBIDDEN where not."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What the decoder reads of some rows, each prompt once; flat token 0 is padding."""

    tokens: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    segments: tuple[Segment, ...]
    inverse: Int[Tensor, " N"]
    """Where each flat token stands among the queries of all segments."""
    predicts: Int[Tensor, " n"]
    """For each masked token, row by row: the flat token whose hidden state predicts it."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Flat tokens that follow each other, and the span before them, if any."""

    first: int
    length: int
    prompt: "_Span | None" = None

    @property
    def keys(self) -> int:
        return self.length + (self.prompt.length if self.prompt else 0)


def pack(tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Packed:
    """Lay out the tokens that the masked ones depend on.

    What stands before a row's first masked token is its prompt; rows with the same prompt share
    it. A row's last masked token is predicted and never read.

    Args:
        tokens: Prompts and answers.
        mask: True at tokens whose log-probability is asked for; column 0 can't be.
    """
    assert not mask[:, 0].any(), "the first token of a row has no prediction"
    first = mask.int().argmax(dim=1).tolist()
    last = (mask.shape[1] - 1 - mask.int().flip(1).argmax(dim=1)).tolist()
    prompts: dict[bytes, _Span] = {}
    answers, texts, positions, used = [], [tokens.new_zeros(1)], [tokens.new_zeros(1)], 1
    place = torch.arange(tokens.shape[1], device=tokens.device)
    before, own = tokens.new_zeros(len(tokens)), tokens.new_zeros(len(tokens))
    for row in mask.any(dim=1).nonzero().squeeze(1).tolist():
        name = tokens[row, : first[row]].cpu().numpy().tobytes()
        if name not in prompts:
            prompts[name] = _Span(used, first[row])
            texts.append(tokens[row, : first[row]])
            positions.append(place[: first[row]])
            used += first[row]
        prompt = prompts[name]
        answers.append(_Span(used, last[row] - first[row], prompt))
        texts.append(tokens[row, first[row] : last[row]])
        positions.append(place[first[row] : last[row]])
        before[row], own[row] = prompt.first + prompt.length - 1, used - first[row] - 1
        used += last[row] - first[row]
    room = -used % ROUNDED
    texts.append(tokens.new_zeros(room))
    positions.append(tokens.new_zeros(room))
    segments = tuple(_segments([*prompts.values()])) + tuple(_segments(answers))
    row, column = mask.nonzero(as_tuple=True)
    start = torch.tensor(first, device=tokens.device)[row]
    predicts = torch.where(column == start, before[row], own[row] + column)
    return Packed(
        torch.cat(texts), torch.cat(positions), segments, _inverse(segments, used + room), predicts
    )


def _inverse(segments: Sequence[Segment], count: int) -> Int[Tensor, " N"]:
    queries = torch.cat([segment.queries.flatten() for segment in segments])
    inverse = torch.zeros(count, dtype=torch.long, device=queries.device)
    real = queries.nonzero().squeeze(1)
    inverse[queries[real]] = real
    return inverse


def _segments(spans: Sequence[_Span]) -> Iterator[Segment]:
    """Spans of similar length together, as many as the bound on scores allows."""
    ordered = sorted((s for s in spans if s.length), key=lambda span: (span.keys, span.first))
    begin = 0
    while begin < len(ordered):
        end = begin + 1
        while end < len(ordered) and _fits(ordered[begin : end + 1]):
            end += 1
        yield from _padded(ordered[begin:end])
        begin = end


def _fits(spans: Sequence[_Span]) -> bool:
    longest = max(span.keys for span in spans)
    scores = len(spans) * min(QUERIES, max(span.length for span in spans)) * longest
    return scores <= SCORES and longest <= 1.5 * spans[0].keys + 16


def _padded(spans: Sequence[_Span]) -> Iterator[Segment]:
    own, own_there = _indices([(span.first, span.length) for span in spans])
    prompts = [(s.prompt.first, s.prompt.length) if s.prompt else (0, 0) for s in spans]
    prompt, prompt_there = _indices(prompts)
    longest = own.shape[1]
    for begin in range(0, longest, QUERIES):
        end = min(begin + QUERIES, longest)
        causal = torch.ones(end - begin, end, dtype=torch.bool).tril(begin)
        seen = torch.cat(
            [
                prompt_there[:, None].expand(-1, end - begin, -1),
                causal & own_there[:, None, :end],
            ],
            dim=2,
        )
        bias = torch.zeros(seen.shape).masked_fill_(~seen, FORBIDDEN)
        keys = torch.cat([prompt, own[:, :end]], dim=1)
        yield Segment(own[:, begin:end], keys, bias[:, None, None])


def _indices(spans: Sequence[tuple[int, int]]) -> tuple[Int[Tensor, "R L"], Bool[Tensor, "R L"]]:
    """Flat tokens of each span, 0 behind its end, and which are there."""
    first, length = torch.tensor(spans).T[..., None]
    longest = int(length.max())
    place = torch.arange(longest + -longest % COLUMNS)
    there = place < length
    return torch.where(there, first + place, 0), there

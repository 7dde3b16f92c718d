"""Rows of prompts and answers as one flat row of tokens, without padding.

What rows share is there once: the prompt of a group, and the prefix that all prompts begin with,
such as a template's worked examples. Letters: B rows, T tokens in a row, N flat tokens, R rows of a
segment.
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
PREFIX_FROM = 16  # tokens from which a prefix is worth a place of its own


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows whose attention is computed together, padded with flat token 0, which no one reads."""

    queries: Int[Tensor, "R Lq"]
    """Flat tokens that look."""
    keys: Int[Tensor, "R Lk"]
    """Flat tokens that are looked at: of prefix and prompt, then of the row itself."""
    bias: Float[Tensor, "R 1 1 Lq Lk"]
    """0 where a query sees a key, FORBIDDEN where not."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What the decoder reads of some rows, shared parts once; flat token 0 is padding."""

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
    before: "_Span | None" = None

    @property
    def keys(self) -> int:
        return self.length + (self.before.keys if self.before else 0)

    def earlier(self) -> tuple[int, int, int, int]:
        """First token and length of the prefix and of the prompt before this span, 0 for none."""
        near = self.before or _NOTHING
        far = near.before or _NOTHING
        return far.first, far.length, near.first, near.length


_NOTHING = _Span(0, 0)


def shared_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with, where that is worth computing once; else 0.

    Each prompt keeps a token of its own. Prompts that are all the same share more than a prefix.

    >>> shared_prefix([[*range(20), 5, 6], [*range(20), 7]])
    20
    >>> shared_prefix([[1, 2, 3], [1, 2, 4]])
    0
    """
    if not prompts:
        return 0
    least, most = min(prompts, key=tuple), max(prompts, key=tuple)  # all others lie between them
    if least == most:
        return 0
    pairs = zip(least, most, strict=False)
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(least), len(most)))
    length = min(same, min(map(len, prompts)) - 1)
    return length if length >= PREFIX_FROM else 0


def pack(tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Packed:
    """Lay out the tokens that the masked ones depend on.

    What stands before a row's first masked token is its prompt; rows with the same prompt share
    it, and all prompts their prefix. A row's last masked token is predicted and never read.

    Args:
        tokens: Prompts and answers.
        mask: True at tokens whose log-probability is asked for; column 0 can't be.
    """
    assert not mask[:, 0].any(), "the first token of a row has no prediction"
    first = mask.int().argmax(dim=1).tolist()
    last = (mask.shape[1] - 1 - mask.int().flip(1).argmax(dim=1)).tolist()
    place = torch.arange(tokens.shape[1], device=tokens.device)
    texts, positions, used = [tokens.new_zeros(1)], [tokens.new_zeros(1)], 1

    def laid(row: int, begin: int, end: int, before: _Span | None) -> _Span:
        nonlocal used
        texts.append(tokens[row, begin:end])
        positions.append(place[begin:end])
        span = _Span(used, end - begin, before)
        used += end - begin
        return span

    rows = mask.any(dim=1).nonzero().squeeze(1).tolist()
    texts_before = {row: tuple(tokens[row, : first[row]].tolist()) for row in rows}
    shared = shared_prefix([*set(texts_before.values())])
    prefix = laid(rows[0], 0, shared, None) if shared else None
    prompts: dict[tuple[int, ...], _Span] = {}
    answers = list[_Span]()
    before, own = tokens.new_zeros(len(tokens)), tokens.new_zeros(len(tokens))
    for row, text in texts_before.items():
        if text not in prompts:
            prompts[text] = laid(row, shared, first[row], prefix)
        prompt = prompts[text]
        answers.append(laid(row, first[row], last[row], prompt))
        before[row], own[row] = prompt.first + prompt.length - 1, answers[-1].first - first[row] - 1
    room = -used % ROUNDED
    texts.append(tokens.new_zeros(room))
    positions.append(tokens.new_zeros(room))
    kinds = [[prefix] if prefix else [], [*prompts.values()], answers]
    segments = tuple(segment for spans in kinds for segment in _segments(spans))
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
    own, own_there = _indices([(0, 0, span.first, span.length) for span in spans])
    earlier, earlier_there = _indices([span.earlier() for span in spans])
    longest = own.shape[1]
    for begin in range(0, longest, QUERIES):
        end = min(begin + QUERIES, longest)
        causal = torch.ones(end - begin, end, dtype=torch.bool).tril(begin)
        seen = torch.cat(
            [
                earlier_there[:, None].expand(-1, end - begin, -1),
                causal & own_there[:, None, :end],
            ],
            dim=2,
        )
        bias = torch.zeros(seen.shape).masked_fill_(~seen, FORBIDDEN)
        keys = torch.cat([earlier, own[:, :end]], dim=1)
        yield Segment(own[:, begin:end], keys, bias[:, None, None])


def _indices(
    spans: Sequence[tuple[int, int, int, int]],
) -> tuple[Int[Tensor, "R L"], Bool[Tensor, "R L"]]:
    """Flat tokens of two spans in a row, each a first token and a length; 0 behind their end."""
    far, far_length, near, near_length = torch.tensor(spans).T[..., None]
    length = far_length + near_length
    longest = int(length.max())
    place = torch.arange(longest + -longest % COLUMNS)
    there = place < length
    token = torch.where(place < far_length, far + place, near + place - far_length)
    return torch.where(there, token, 0), there

"""The rows of a batch of answers: all answers as they grow, those under way, prompts that wait.

Letters: A answers in all, R rows under way, P prompts, N columns of answers, V tokens, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.model.cache import Cache, extend
from rlvr.model.decoder import Weights
from rlvr.model.packing import shared_prefix

PROMPT_ROUNDED = 8  # columns of prompts are a multiple of this, so that few shapes occur

Drawn = tuple[
    Int[Tensor, " R"], Float[Tensor, " R"], Float[Tensor, " R"], Bool[Tensor, "R V"] | None
]


@dataclass(slots=True)
class Answers:
    """All A answers as they grow, in columns; 0 behind their end."""

    tokens: Int[Tensor, "A N"]
    logprobs: Float[Tensor, "A N"]
    entropies: Float[Tensor, "A N"]
    lengths: Int[Tensor, " A"]
    """0 until the answer is done."""
    ended: Bool[Tensor, " A"]
    """Whether something ended the answer other than the limit."""
    kept: list[list[list[int]]] | None
    """Where filters are on: by row, the tokens they had left at each position."""

    @classmethod
    def empty(cls, rows: int, columns: int, filtered: bool) -> "Answers":
        """None has begun."""
        return cls(
            tokens=torch.zeros(rows, columns, dtype=torch.long),
            logprobs=torch.zeros(rows, columns),
            entropies=torch.zeros(rows, columns),
            lengths=torch.zeros(rows, dtype=torch.long),
            ended=torch.zeros(rows, dtype=torch.bool),
            kept=[[] for _ in range(rows)] if filtered else None,
        )

    def write(self, rows: Int[Tensor, " R"], position: Int[Tensor, " R"], drawn: Drawn) -> None:
        """One more token of some rows, each at its position."""
        token, logprob, entropy, left = drawn
        self.tokens[rows, position] = token
        self.logprobs[rows, position] = logprob
        self.entropies[rows, position] = entropy
        if self.kept is not None and left is not None:
            for row, tokens in zip(rows.tolist(), left, strict=True):
                self.kept[row].append(tokens.nonzero().squeeze(1).tolist())


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Rows whose answers grow, and a few for company whose answers are done."""

    rows: Int[Tensor, " R"]
    """Which of all answers."""
    position: Int[Tensor, " R"]
    """Where in the answer the next token stands."""
    hidden: Float[Tensor, "R D"]
    """What predicts it."""
    cache: Cache


@dataclass(slots=True)
class Waiting:
    """Prompts in their order, of which the first have been read; G rows each."""

    weights: Weights
    prompts: Sequence[Sequence[int]]
    answers_per_prompt: int
    prefix: Cache | None
    """Of what all prompts begin with."""
    begun: int = 0
    """How many prompts have been read."""

    @classmethod
    def of(
        cls, weights: Weights, prompts: Sequence[Sequence[int]], answers_per_prompt: int
    ) -> "Waiting":
        """All wait; what they begin with is read."""
        shared, prefix = shared_prefix(prompts), None
        if shared:
            prefix = Cache.empty(weights, torch.zeros(1, dtype=torch.long))
            extend(weights, torch.tensor([prompts[0][:shared]]), prefix)
        return cls(weights, prompts, answers_per_prompt, prefix)

    @property
    def left(self) -> bool:
        """Whether any prompt waits."""
        return self.begun < len(self.prompts)

    def enter(self, room: int) -> UnderWay:
        """Read as many prompts as have their answers within so many rows."""
        count = room // self.answers_per_prompt
        prompts = self.prompts[self.begun : self.begun + count]
        hidden, cache = self._read(prompts)
        index = torch.arange(len(prompts)).repeat_interleave(self.answers_per_prompt)
        rows = torch.arange(len(index)) + self.begun * self.answers_per_prompt
        self.begun += len(prompts)
        return UnderWay(rows, torch.zeros_like(rows), hidden[index], cache.rows(index))

    def _read(self, prompts: Sequence[Sequence[int]]) -> tuple[Float[Tensor, "P D"], Cache]:
        """The last hidden state of each prompt, and the cache behind it."""
        shared = self.prefix.used if self.prefix else 0
        longest = max(map(len, prompts)) - shared
        width = longest + -longest % PROMPT_ROUNDED
        padding = torch.tensor([width - len(prompt) + shared for prompt in prompts])
        tokens = torch.zeros(len(prompts), width, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            tokens[row, padding[row] :] = torch.tensor(prompt[shared:])
        cache = self.prefix.followed(padding) if self.prefix else Cache.empty(self.weights, padding)
        return extend(self.weights, tokens, cache), cache

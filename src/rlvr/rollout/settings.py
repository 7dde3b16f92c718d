"""Settings of the rollouts."""

import math
from dataclasses import dataclass

from rlvr.errors import UsageError
from rlvr.model.tokens import Tokens
from rlvr.records import Sampling


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollouts:
    """How many answers are sampled, and how."""

    problems_per_step: int = 32
    """Problems in a step (P)."""
    group_size: int = 8
    """Answers sampled per problem (G)."""
    temperature: float = 1.0
    """Divides the logits."""
    top_p: float = 1.0
    """Keep the smallest set of likeliest tokens with this mass; 1 keeps all."""
    top_k: int = 0
    """Keep this many likeliest tokens; 0 keeps all."""
    min_p: float = 0.0
    """Drop tokens less likely than this share of the likeliest; 0 keeps all."""
    max_new_tokens: int = 128
    """Longest answer, in tokens, without the prompt."""
    ban: str = ""
    """Tokens that are never sampled, their texts apart by blanks, such as `<think>`."""
    stop: str = ""
    """A text that ends an answer, such as `\\n` behind worked examples; graders read up to it."""
    rounds: int = 1
    """Most rounds of sampling in a step, where the variant replaces groups without a signal."""

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise UsageError(
                f"rollouts.group_size is {self.group_size}, but the baseline is the group's mean: "
                "a lone answer always gets advantage 0. Use 2 or more, such as 8."
            )
        if self.problems_per_step < 1:
            raise UsageError(
                f"rollouts.problems_per_step is {self.problems_per_step}. Use 1 or more, as 32."
            )
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise UsageError(
                f"rollouts.temperature is {self.temperature}, but training needs answers that "
                "differ. Use a number above 0, such as 1."
            )
        if not 0 < self.top_p <= 1:
            raise UsageError(
                f"rollouts.top_p is {self.top_p}; it is a share of the probability. "
                "Use above 0 up to 1; 1 keeps all tokens."
            )
        if self.top_k < 0:
            raise UsageError(f"rollouts.top_k is {self.top_k}. Use 0 (keep all) or more.")
        if not 0 <= self.min_p < 1:
            raise UsageError(f"rollouts.min_p is {self.min_p}. Use 0 (keep all) to below 1.")
        if self.max_new_tokens < 1:
            raise UsageError(
                f"rollouts.max_new_tokens is {self.max_new_tokens}. Use 1 or more, such as 128."
            )

        if self.rounds < 1:
            raise UsageError(f"rollouts.rounds is {self.rounds}. Use 1 or more, such as 3.")

        if any(letter == "\ufffd" or "\ud800" <= letter <= "\udfff" for letter in self.stop):
            raise UsageError(
                f"rollouts.stop is {self.stop!r}, which holds half of a character: no answer's "
                "text holds that. Give whole characters."
            )

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end an answer: one or none."""
        return (self.stop,) if self.stop else ()

    def sampling(self, tokens: Tokens) -> Sampling:
        """As the engine takes it.

        Raises:
            UsageError: A banned text is not one token of the model.
        """
        banned = []
        for text in self.ban.split():
            ids = tokens.encode(text)
            if len(ids) != 1:
                raise UsageError(
                    f"rollouts.ban names {text!r}, which is {len(ids)} tokens of this model. "
                    "Give texts that are one token each, such as <think>."
                )
            banned.append(ids[0])
        return Sampling(
            self.temperature,
            self.top_p,
            self.top_k,
            self.min_p,
            self.max_new_tokens,
            tuple(banned),
            self.stops,
        )

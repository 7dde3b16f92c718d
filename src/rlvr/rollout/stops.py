"""Texts that end an answer: it ends with the token after which its text holds one of them.

Stopping goes by text and not by ids, since many tokens of a tokenizer can hold the same line end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tokenizers import Tokenizer

from rlvr.model.tokens import Tokens

PART = "\ufffd"
"""What a tokenizer writes for bytes that are no whole character."""


@dataclass(frozen=True, slots=True)
class Stops:
    """The texts, and what is known of the tokens that can complete one."""

    tokens: Tokens
    texts: tuple[str, ...]
    candidates: frozenset[int]
    """Only an answer whose last token is one of these can have been completed by it."""
    spoken: frozenset[int]
    """Tokens that add to a text; some models have rows for ids without a token."""
    parts: frozenset[int]
    """Tokens that begin or end within a character."""
    reach: int
    """So many spoken tokens hold the longest of the texts, and the one before it."""

    @staticmethod
    def of(tokens: Tokens, texts: Sequence[str]) -> "Stops | None":
        """The stops of a tokenizer for some texts, none of them empty; None where there is none."""
        return _made(tokens, tuple(texts)) if texts else None

    def completed(self, answer_tokens: Sequence[int]) -> bool:
        """Whether an answer's text holds one of the texts, if it held none a token before.

        Only a few tokens at the end are decoded, unless they hold one: the whole answer then tells.
        """
        if not answer_tokens or answer_tokens[-1] not in self.candidates:
            return False
        first = self.window(answer_tokens)
        last = list(answer_tokens[first:])
        end: str = self.tokens.tokenizer.decode(last, skip_special_tokens=False)
        return self.found(end) and (first == 0 or self.found(self.tokens.decode(answer_tokens)))

    def found(self, text: str) -> bool:
        """Whether a text holds one of the texts."""
        return any(stop in text for stop in self.texts)

    def window(self, answer_tokens: Sequence[int]) -> int:
        """Where to begin, so that a text that the last token completes is whole in what follows.

        Every spoken token is one byte or more, so no text lies in more of them than it has bytes.
        """
        first, left = len(answer_tokens), self.reach
        while first and left:
            first -= 1
            left -= answer_tokens[first] in self.spoken
        while first and answer_tokens[first] in self.parts:
            first -= 1
        return first


@lru_cache(maxsize=8)
def _made(tokens: Tokens, texts: tuple[str, ...]) -> Stops:
    assert all(texts), "an empty text is in every answer"
    vocabulary = spelled_out(tokens.tokenizer, tokens.highest_id)
    spoken = frozenset(n for n, text in enumerate(vocabulary) if text)
    parts = frozenset(n for n in spoken if PART in vocabulary[n])
    lasts = {text[-1] for text in texts}
    candidates = {n for n in spoken if not lasts.isdisjoint(vocabulary[n])}
    if any(not last.isascii() for last in lasts):
        candidates |= parts  # any of them may end a character of several bytes
    reach = max(len(text.encode()) for text in texts) + 1
    return Stops(tokens, texts, frozenset(candidates), spoken, parts, reach)


@lru_cache(maxsize=2)
def spelled_out(tokenizer: Tokenizer, highest_id: int) -> tuple[str, ...]:
    """What each token adds to a text that does not begin with it; blanks at a beginning are cut."""
    ids = range(highest_id + 1)
    alone = tokenizer.decode_batch([[n] for n in ids], skip_special_tokens=False)
    letter = next((n for n in ids if alone[n].isascii() and alone[n].isalnum()), None)
    if letter is None:
        return tuple(alone)
    behind = tokenizer.decode_batch([[letter, n] for n in ids], skip_special_tokens=False)
    return tuple(text.removeprefix(alone[letter]) for text in behind)

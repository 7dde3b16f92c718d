"""The tokenizer of a model directory, with its stop and padding tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tokenizers import AddedToken, Encoding, Tokenizer

from rlvr.errors import UsageError
from rlvr.records import Prompt


@dataclass(frozen=True, slots=True)
class Tokens:
    """Text to token ids and back. Sampled ids are never made from text again."""

    tokenizer: Tokenizer
    stop_ids: tuple[int, ...]
    """Any of these ends an answer."""
    pad_id: int
    """Fills rows; masks are made from lengths, so it may equal a stop id."""
    added: tuple[str, ...] = ()
    """Texts that were made tokens here: the directory's own tokenizer.json lacks them."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; where it spells an added token, it is read as that token."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, in which the problem's text never makes an added token.

        One encoding of the whole text; nothing is put before it. Only where the problem spells an
        added token (a tag, an end token) is what lies between the template's own tokens read by a
        tokenizer that knows none.
        """
        ids, known = self.encode(prompt.text), added_ids(self.tokenizer)
        there = [i for i in ids if i in known]
        if not there:
            return ids
        before, after = (encoding(self.tokenizer, text) for text in (prompt.before, prompt.after))
        if there == [i for i in before.ids + after.ids if i in known]:
            return ids
        last = max((n for n, i in enumerate(before.ids) if i in known), default=-1)
        first = next((n for n, i in enumerate(after.ids) if i in known), len(after.ids))
        head = before.offsets[last][1] if last >= 0 else 0
        tail = after.offsets[first][0] if first < len(after.ids) else len(prompt.after)
        between = f"{prompt.before[head:]}{prompt.problem}{prompt.after[:tail]}"
        plain = encoding(without_added(self.tokenizer), between)
        return [*before.ids[: last + 1], *plain.ids, *after.ids[first:]]

    def id_of(self, text: str) -> int:
        """The id of a text that is one token."""
        (found,) = self.encode(text)
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """Text with special tokens kept (think tags count), without the stop token at its end."""
        ids = list(ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False)
        return text

    @property
    def vocab_size(self) -> int:
        """Number of token ids, added tokens among them."""
        size: int = self.tokenizer.get_vocab_size(with_added_tokens=True)
        return size

    @property
    def highest_id(self) -> int:
        """The last token id; some tokenizers leave ids out."""
        return max(self.tokenizer.get_vocab(with_added_tokens=True).values(), default=0)


@lru_cache(maxsize=64)
def encoding(tokenizer: Tokenizer, text: str) -> Encoding:
    """Ids of a text, and where in it each begins and ends; kept, since templates come again."""
    return tokenizer.encode(text, add_special_tokens=False)


@lru_cache(maxsize=8)
def added_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids of the tokens that are found in a text before anything else, special or not."""
    return frozenset(tokenizer.get_added_tokens_decoder())


@lru_cache(maxsize=8)
def without_added(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer without its added tokens: it reads their spellings as ordinary text."""
    content = json.loads(tokenizer.to_str())
    return Tokenizer.from_str(json.dumps(content | {"added_tokens": []}))


def is_token(tokens: Tokens, text: str) -> bool:
    """Whether a text is one token, and that token the text: an unknown word is one token too."""
    ids = tokens.encode(text)
    return len(ids) == 1 and tokens.tokenizer.decode(ids, skip_special_tokens=False) == text


def with_tokens(tokens: Tokens, texts: Sequence[str]) -> Tokens:
    """Tokens among which each of the texts is one token; the same where each is one already.

    They are not marked special, as Qwen3's own tags are not: what is special is left out by those
    who decode without special tokens, and a thought would run into its answer.
    """
    new = tuple(text for text in texts if not is_token(tokens, text))
    if not new:
        return tokens
    tokenizer = Tokenizer.from_str(tokens.tokenizer.to_str())
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in new])
    return replace(tokens, tokenizer=tokenizer, added=new)


def load_tokens(folder: Path) -> Tokens:
    """Read `tokenizer.json` and the stop ids of `generation_config.json` or `config.json`.

    Raises:
        UsageError: A file is missing, does not parse, or names no stop token.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UsageError(
            f"{folder} has no tokenizer.json. A model directory needs config.json, "
            "tokenizer.json and weights as safetensors; download or save it again."
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise UsageError(f"{path} is no tokenizer: {error}. Save the model again.") from error
    settings: dict[str, object] = {}
    for name in ("config.json", "generation_config.json"):
        file = folder / name
        if file.is_file():
            settings |= {k: v for k, v in read_json(file).items() if v is not None}
    stop = settings.get("eos_token_id")
    named = stop if isinstance(stop, list) else [stop]
    stop_ids = [i for i in named if isinstance(i, int) and not isinstance(i, bool) and i >= 0]
    if len(stop_ids) != len(named) or not stop_ids:
        raise UsageError(
            f"{folder} names no stop token: answers would never end. "
            'Set "eos_token_id" in config.json to the id of the end token.'
        )
    pad = settings.get("pad_token_id")
    has_pad = isinstance(pad, int) and not isinstance(pad, bool) and pad >= 0
    return Tokens(tokenizer, tuple(stop_ids), pad if has_pad else stop_ids[0])  # type: ignore[arg-type]


def read_json(path: Path) -> dict[str, object]:
    """The object in a JSON file.

    Raises:
        UsageError: The file does not hold one JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise UsageError(f"{path} can't be read as JSON: {error}. Save it again.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} holds no JSON object. Save the model again.")
    return content

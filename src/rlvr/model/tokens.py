"""The tokenizer of a model directory, with its stop and padding tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from rlvr.errors import UsageError


@dataclass(frozen=True, slots=True)
class Tokens:
    """Text to token ids and back. Sampled ids are never made from text again."""

    tokenizer: Tokenizer
    stop_ids: tuple[int, ...]
    """Any of these ends an answer."""
    pad_id: int
    """Fills rows; masks are made from lengths, so it may equal a stop id."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt; text that spells a special token is read as that token."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

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


def load_tokens(folder: Path) -> Tokens:
    """Read `tokenizer.json` and the stop ids of `generation_config.json` or `config.json`.

    Raises:
        UsageError: A file is missing, does not parse, or names no stop token.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UsageError(
            f"{folder} has no tokenizer.json. A model directory needs config.json, "
            "tokenizer.json and model.safetensors; download or save it again."
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
    stop_ids = [i for i in named if isinstance(i, int) and not isinstance(i, bool)]
    if len(stop_ids) != len(named) or not stop_ids:
        raise UsageError(
            f"{folder} names no stop token: answers would never end. "
            'Set "eos_token_id" in config.json to the id of the end token.'
        )
    pad = settings.get("pad_token_id")
    return Tokens(tokenizer, tuple(stop_ids), pad if isinstance(pad, int) else stop_ids[0])


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

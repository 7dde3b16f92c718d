"""The chat template of a model directory, made once into a plain template with `{problem}` in it.

The problem's text never passes through the template: a stand-in does, and what surrounds it is
kept. So a problem can make no special token, and a run's settings hold the text that was used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rlvr.errors import UsageError
from rlvr.model.tokens import read_json
from rlvr.problems.prompts import PLACE, TEMPLATES, check_template, fault_of
from rlvr.verify.pool import Pool

DEADLINE_SECONDS, MEMORY_MIB = 5.0, 512
STAND_INS = ("A question <&> 'of' \\some\n\tkind?", 'another One, longer "and" {{ with }} %s #é')
"""Put in the problem's place: they show whether a template changes, drops or repeats it."""
SPECIAL = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template as it lies in a model directory, with the texts that it may name."""

    path: Path
    text: str
    variables: dict[str, str]
    """The special tokens, such as `bos_token`, each as text."""


def read_chat_template(folder: Path) -> ChatTemplate | None:
    """The chat template of a model directory; None where it has none.

    `chat_template.jinja` comes first, then `chat_template` in `tokenizer_config.json`: a text, or a
    list of named ones, of which `default` is taken.

    Raises:
        UsageError: A file can't be read.
    """
    path, settings = folder / "chat_template.jinja", dict[str, object]()
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            settings |= {k: v for k, v in read_json(folder / name).items() if v is not None}
    named = {name: text_of(settings.get(name)) for name in SPECIAL}
    variables = {name: text for name, text in named.items() if text is not None}
    if path.is_file():
        try:
            return ChatTemplate(path, path.read_text(encoding="utf-8"), variables)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} can't be read: {error}. Save the model again.") from error
    found = settings.get("chat_template")
    if isinstance(found, list):
        rows = [row for row in found if isinstance(row, dict) and row.get("name") == "default"]
        found = rows[0].get("template") if rows else None
    if not isinstance(found, str):
        return None
    return ChatTemplate(folder / "tokenizer_config.json", found, variables)


def text_of(token: object) -> str | None:
    """A special token's text: it is written as that, or as a dict that holds it."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def for_model(template: str, folder: Path, now: Callable[[], datetime] = datetime.now) -> str:
    """A template as a run with this model uses it: those of chats become plain texts.

    Args:
        template: A name of `TEMPLATES`, or a text that holds `{problem}`.
        folder: The model directory.
        now: The clock, for chat templates that write the date.

    Raises:
        UsageError: There is no such template, or the model has none for chats, or one that can't
            be used.
    """
    check_template(template)
    if template not in TEMPLATES or not TEMPLATES[template].chat:
        return template
    found = read_chat_template(folder)
    if found is None:
        raise UsageError(
            f"{folder} has no chat template; use --template plain or examples, or give a model "
            "that was taught to chat."
        )
    said = TEMPLATES[template].text
    texts = filled(found, [said.replace(PLACE, stand_in) for stand_in in STAND_INS], now())
    surroundings = set()
    for text, stand_in in zip(texts, STAND_INS, strict=True):
        if text.count(stand_in) != 1:
            raise UsageError(
                f"{found.path}: the chat template does not give what the user says once and "
                f"unchanged ({text.count(stand_in)} times), so problems can't be put into it. "
                "Write a template of your own: --template FILE with {problem} in it."
            )
        surroundings.add(tuple(text.split(stand_in)))
    if len(surroundings) != 1:
        raise UsageError(
            f"{found.path}: what the chat template writes depends on what the user says, so there "
            "is no one text for all problems. Write a template of your own: --template FILE with "
            "{problem} in it."
        )
    whole = PLACE.join(surroundings.pop())
    fault = fault_of(whole)
    if fault:
        raise UsageError(f"{found.path}: {fault}")
    return whole


def filled(template: ChatTemplate, contents: list[str], now: datetime) -> list[str]:
    """What a chat template makes of user messages, in a worker with bounded time and memory.

    Raises:
        UsageError: The template can't be read, refuses, or takes too much.
    """
    item = {
        "template": template.text,
        "contents": contents,
        "variables": template.variables,
        "now": now.isoformat(),
    }
    pool = Pool(
        "rlvr.model.sandbox:fill",
        workers=1,
        deadline_seconds=DEADLINE_SECONDS,
        memory_mib=MEMORY_MIB,
        name="the chat template",
    )
    with pool:
        (done,) = pool.run([item])
    result = done.value if isinstance(done.value, dict) else {}
    texts = result.get("texts")
    if isinstance(texts, list):
        return texts
    reason = result.get("refused") or done.reason
    raise UsageError(
        f"{template.path}: the chat template can't be used: {reason}. Write a template of your "
        "own: --template FILE with {problem} in it."
    )

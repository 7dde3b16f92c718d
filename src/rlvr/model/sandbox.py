"""Fills in the chat template of a model: the part that runs inside a worker process.

A template is a program that comes with the model, and so hostile input. Here it meets nothing but
the messages, in an environment that changes and calls nothing else; the worker bounds the time and
the memory that it takes. Imported there and nowhere else, since it needs jinja2.
"""

import json
from datetime import datetime
from typing import NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST = 1_000_000  # characters of a filled template


class Generation(Extension):
    """`{% generation %}` marks what an assistant wrote; here it marks nothing."""

    tags = {"generation"}  # noqa: RUF012  the name and kind that jinja2 reads

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """What stands between the marks, as it is."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def fill(item: object) -> object:
    """The texts that a template makes of user messages, each alone in its conversation.

    Args:
        item: A dict with `template`, `contents` (what users say), `variables` (texts such as
            `bos_token`), and `now` (a time as ISO 8601, for templates that write the date).

    Returns:
        `{"texts": [...]}`, or `{"refused": reason}` where the template can't be read or says no.

    >>> fill({"template": "<{{ messages[0]['content'] }}>", "contents": ["a", "b"],
    ...       "variables": {}, "now": "2026-01-01"})
    {'texts': ['<a>', '<b>']}
    """
    assert isinstance(item, dict), "an item is a dict"
    extensions = [Generation, "jinja2.ext.loopcontrols"]
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=extensions
    )
    now = datetime.fromisoformat(item["now"])
    environment.filters["tojson"] = to_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": now.strftime}
    known = {"add_generation_prompt": True, "tools": None, "documents": None, **item["variables"]}
    texts = []
    try:
        template = environment.from_string(item["template"])
        for content in item["contents"]:
            messages = [{"role": "user", "content": content}]
            texts.append(template.render(messages=messages, **known))
    except TemplateError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    if max(map(len, texts), default=0) > LONGEST:
        return {"refused": f"it makes more than {LONGEST:,} characters of one message"}
    return {"texts": texts}


def refuse(message: object = "") -> NoReturn:
    """What templates call where they can't take a conversation."""
    raise TemplateError(str(message))


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """A value as JSON that is not made safe for HTML, as chat templates mean it."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )

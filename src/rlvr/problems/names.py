"""How problems are named: `NAME`, `NAME:REST` or a path, then `?key=value&key=value`."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rlvr.errors import UsageError, unknown_name


@dataclass(frozen=True, slots=True)
class Asked:
    """What a name asks for."""

    text: str
    """The whole name, as given."""
    name: str | None
    """A row of the table of sources; None for a file by its path."""
    rest: str = ""
    """What follows the colon: a path, or a task; for a file its path."""
    options: Mapping[str, str] = field(default_factory=dict)

    def only(self, known: Collection[str]) -> Mapping[str, str]:
        """The options, all of them known.

        Raises:
            UsageError: One is unknown; the known ones are listed.
        """
        for key in self.options:
            if key not in known and not known:
                raise UsageError(f"{self.text}: {self.name} takes no options. Leave ?{key}= out.")
            if key not in known:
                raise UsageError(f"{self.text}: {unknown_name('option', key, known)}")
        return self.options


def parse_name(text: str, known: Collection[str]) -> Asked:
    """Take a name apart; a file that is there under the whole name is that file.

    Raises:
        UsageError: What follows the question mark is not `key=value&key=value`.

    >>> asked = parse_name("math:train.jsonl?level=1-3&subject=algebra", {"math"})
    >>> asked.name, asked.rest, dict(asked.options)
    ('math', 'train.jsonl', {'level': '1-3', 'subject': 'algebra'})
    >>> parse_name("mine.csv?level=2", {"math"}).rest
    'mine.csv'
    """
    if text not in known and _is_file(text):
        return Asked(text, None, text)
    head, asked, tail = text.partition("?")
    options: dict[str, str] = {}
    for part in tail.split("&") if asked else ():
        key, equals, value = part.partition("=")
        if not key or not equals or not value:
            raise UsageError(
                f"{text}: {part!r} is no option. Write NAME?key=value&key=value, in quotes, such "
                "as 'math?level=1-3&subject=algebra'."
            )
        if key in options:
            raise UsageError(f"{text}: {key} is given twice. Give it once, such as level=1-3.")
        options[key] = value
    name, colon, rest = head.partition(":")
    if name in known:
        if colon and not rest:
            raise UsageError(f"{text}: nothing follows the colon. Leave it out, or name a file.")
        return Asked(text, name, rest, options)
    return Asked(text, None, head, options)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or a null character
        return False


def short_name(text: str) -> str:
    """A name as a part of a file's or folder's name.

    >>> [short_name(name) for name in ("arithmetic", "data/mine.jsonl", "math:a/b.json?level=1-3")]
    ['arithmetic', 'mine', 'math-b-level-1-3']
    """
    head, _, tail = text.partition("?")
    name, colon, rest = head.partition(":")
    options = [part.replace("=", "-") for part in tail.split("&") if "/" not in part]
    parts = [name if colon else "", Path(rest if colon else head).stem, *options]
    return re.sub(r"[^\w.,-]+", "-", "-".join(filter(None, parts)))[:60]


def whole_numbers(asked: Asked, key: str, least: int, most: int) -> tuple[int, ...] | None:
    """An option such as `2`, `1-3` or `1,3-4` as rising numbers; None where it is not given.

    Raises:
        UsageError: It is none of that, or goes beyond `least` or `most`.

    >>> whole_numbers(Asked("", None, options={"level": "1,3-5"}), "level", 1, 5)
    (1, 3, 4, 5)
    """
    if key not in asked.options:
        return None
    found: set[int] = set()
    for part in asked.options[key].split(","):
        ends = part.split("-")
        if len(ends) > 2 or not all(re.fullmatch("[0-9]{1,9}", end) for end in ends):
            found = set()
            break
        low, high = int(ends[0]), int(ends[-1])
        if not least <= low <= high <= most:
            found = set()
            break
        found |= set(range(low, high + 1))
    if not found:
        raise UsageError(
            f"{asked.text}: {key} is {asked.options[key]!r}; it takes whole numbers from {least} "
            f"to {most}, such as {key}={least} or {key}={least}-{most}."
        )
    return tuple(sorted(found))


def chosen(asked: Asked, key: str, known: Collection[str]) -> tuple[str, ...] | None:
    """An option that is one or several of the known words, with commas; None if not given.

    Raises:
        UsageError: A word is unknown; the known ones are listed.
    """
    if key not in asked.options:
        return None
    by_plain = {plain(word): word for word in known}
    found = []
    for word in asked.options[key].split(","):
        if plain(word) not in by_plain:
            raise UsageError(f"{asked.text}: {unknown_name(key, word, by_plain)}")
        found.append(by_plain[plain(word)])
    return tuple(found)


def plain(word: str) -> str:
    """A word as options spell it: small letters, no blanks.

    >>> plain("Counting & Probability")
    'counting_and_probability'
    """
    return "_".join(word.replace("&", "and").casefold().split())

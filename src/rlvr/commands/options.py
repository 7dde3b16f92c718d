"""Reading a command's words, wrong ones answered with the nearest right one."""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from rlvr.errors import UsageError, unknown_name

WHOLE_MOST = 2**63 - 1  # of a whole number, as draws take it


class Options(argparse.ArgumentParser):
    """A parser whose refusals are UsageErrors with the nearest known name."""

    def __init__(self, command: str, about: str, usage: str) -> None:
        super().__init__(
            prog=f"rlvr {command}",
            description=f"{about[0].upper()}{about[1:]}.",
            usage=f"rlvr {command} {usage}".rstrip(),
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Refuse wrong use."""
        raise UsageError(f"{message}. See {self.prog} --help.")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The options given.

        Raises:
            UsageError: An unknown option, or a known one without its value.
        """
        given, unknown = self.parse_known_args(words)
        if not unknown:
            return given
        name = next((word for word in unknown if word.startswith("-")), None)
        if name is None:
            self.error(f"unexpected argument '{unknown[0]}'")
        raise self._unknown_option(name.partition("=")[0])

    def _unknown_option(self, name: str) -> UsageError:
        options = [option for option in self._option_string_actions if option.startswith("--")]
        leaf = name.lstrip("-").replace("_", "-")
        for option in options:
            if leaf in (option.lstrip("-"), option.rpartition(".")[2]):
                return UsageError(f"unknown option '{name}'. Did you mean '{option}'?")
        error = str(unknown_name("option", name, options)).partition(" Known:")[0]
        return UsageError(f"{error} See {self.prog} --help.")


def whole_number(parser: Options, name: str, text: str, least: int) -> int:
    """A whole number from `least` to `WHOLE_MOST` from an option's text."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        parser.error(f"{name} is {text!r}; it takes a whole number of {least} or more")
    if number > WHOLE_MOST:
        parser.error(f"{name} is {text!r}; it takes a whole number up to 2^63-1")
    return number


def number(parser: Options, name: str, text: str, least: float, most: float) -> float:
    """A number from `least` to `most` from an option's text."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        parser.error(f"{name} is {text!r}; it takes a number from {least:g} to {most:g}")
    return value


def spelled(text: str) -> str:
    r"""An option's text with `\n`, `\t` and `\\` as what they stand for; a shell leaves them as is.

    >>> spelled(r"\n\nQ: \frac \\n")
    '\n\nQ: \\frac \\n'
    """
    return re.sub(r"\\([nt\\])", lambda found: {"n": "\n", "t": "\t"}.get(found[1], "\\"), text)


def write_json(row: Mapping[str, object]) -> None:
    """One object on standard output, where nothing else goes with --json."""
    sys.stdout.write(json.dumps(row, allow_nan=False) + "\n")

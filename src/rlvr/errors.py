"""What can be wrong with what a user gave us, and the nearest name to an unknown one."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import takewhile


class UsageError(ValueError):
    """Wrong use or wrong input: the message says what is wrong, what is right, what to do next.

    The command line prints the message alone, without a traceback, and exits with status 2.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """An error for a name that is not in a table, with the nearest one that is.

    >>> print(unknown_name("variant", "dappo", ["dapo", "grpo"]))
    unknown variant 'dappo'. Did you mean 'dapo'? Known: dapo, grpo.
    >>> "'dapo'?" in str(unknown_name("variant", "dappo", ["dppo", "dapo"]))
    True
    """
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    nearest = max(near, key=lambda other: _closeness(name, other), default=None)
    hint = f" Did you mean '{nearest}'?" if nearest else ""
    return UsageError(f"unknown {kind} '{name}'.{hint} Known: {', '.join(names)}.")


def _closeness(name: str, other: str) -> tuple[float, int]:
    """How alike two names are; of equally alike ones, that which begins the same is meant."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))
    return SequenceMatcher(None, other, name).ratio(), len(list(same))

"""What can be wrong with what a user gave us, and the nearest name to an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches


class UsageError(ValueError):
    """Wrong use or wrong input: the message says what is wrong, what is right, what to do next.

    The command line prints the message alone, without a traceback, and exits with status 2.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """An error for a name that is not in a table, with the nearest one that is.

    >>> print(unknown_name("variant", "dappo", ["dapo", "grpo"]))
    unknown variant 'dappo'. Did you mean 'dapo'? Known: dapo, grpo.
    """
    names = sorted(known)
    nearest = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
    return UsageError(f"unknown {kind} '{name}'.{hint} Known: {', '.join(names)}.")

"""`rlvr models`: what there is, and what else can be read."""

import json
import subprocess
from collections.abc import Callable

from rlvr.commands.listings import MEMBERS
from rlvr.model.weights import FAMILIES

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_models_lists_every_family_that_is_read_and_how_to_give_one(rlvr: Command) -> None:
    told = rlvr("models").stdout
    assert MEMBERS.keys() == FAMILIES.keys()
    for family, about in MEMBERS.items():
        assert f"  {family:<20}{about}\n" in told
    assert "--model DIR" in told
    assert "--model Qwen/Qwen3-0.6B-Base" in told
    rows = [json.loads(line) for line in rlvr("models", "--json").stdout.splitlines()]
    assert [row["family"] for row in rows if "family" in row] == list(FAMILIES)
    assert rows[0]["name"] == "abacus"

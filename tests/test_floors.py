"""Imports only go downhill: a module imports what stands above it in the list, or left of it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
FLOORS = """
rlvr: __init__
rlvr: errors records
rlvr.native: __init__ build
rlvr.abacus: __init__
rlvr.model: __init__ hub
rlvr: folders
rlvr.objective: __init__ advantages surrogates weightings divergence correction selection
rlvr.objective: slots loss variants explain
rlvr.problems: __init__ names labels prompts contamination arithmetic countdown gym scorers tables
rlvr.problems: files maths listed sources
rlvr.verify: worker process pool own
rlvr.verify: extract signs typography nodes units cursor macros expressions parse
rlvr.verify: primes terms vanish functions values numeric proofs modulus scalar
rlvr.verify: meaning realsets equal verdict
rlvr.verify: symbolic grading others __init__
rlvr: judging length rewards
rlvr.model: settings sandbox tokens chat suggested distribution rope packing lora leaves
rlvr.model: operations decoder token_step cache logprobs
rlvr.model: shards weights added
rlvr.rollout: __init__ settings stops rows engine
rlvr.training: __init__ settings machine memory batching optimiser update checkpoint
rlvr.observe: __init__ settings statistics keys metrics runlog evaluate result console plots
rlvr: config
rlvr.abacus: vocabulary corpus recipe
rlvr: scoring run groups preflight loop
rlvr.commands: __init__ options verify listings evaluating evaluation
rlvr.commands: chatting chat running train
rlvr: cli __main__
"""


def listed() -> list[str]:
    """Modules in the order of the floors; a package stands for its `__init__`."""
    lines = [line.split() for line in FLOORS.strip().splitlines()]
    names = [f"{package[:-1]}.{name}" for package, *modules in lines for name in modules]
    return [name.removesuffix(".__init__") for name in names]


def files() -> dict[str, Path]:
    """Every module under `src`, by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = files()
FLOOR = {name: number for number, name in enumerate(listed())}


def imports_of(tree: ast.AST, module: str, is_package: bool = False) -> Iterator[str]:
    """Modules of this package that a tree imports, wherever in it: deferred and for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from known(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: None if is_package else -1]
            base = above[: len(above) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield from known(f"{origin}.{alias.name}") or known(origin)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if called == "import_module":
                yield from known(str(node.args[0].value))


def known(name: str) -> list[str]:
    """The name itself where it is a module of this package."""
    return [name] if name in MODULES or name in FLOOR else []


@pytest.mark.parametrize("module", MODULES)
def test_imports_only_go_downhill(module: str) -> None:
    assert module in FLOOR, f"{module} has no floor: add it to FLOORS"
    path = MODULES[module]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for imported in imports_of(tree, module, path.name == "__init__.py"):
        assert imported in FLOOR, f"{imported} has no floor: add it to FLOORS"
        assert FLOOR[imported] < FLOOR[module], f"{module} may not import {imported}"


def test_the_list_of_floors_names_each_module_once_and_none_that_is_gone() -> None:
    assert len(listed()) == len(set(listed()))
    assert set(listed()) - set(MODULES) == set()


def test_imports_are_found_wherever_they_hide() -> None:
    code = """
from typing import TYPE_CHECKING
import rlvr.errors
if TYPE_CHECKING:
    from rlvr.records import Group
def late():
    from rlvr.verify import grade
    from rlvr import rewards
    import importlib
    return importlib.import_module("rlvr.config")
class Local:
    from . import tokens
    from ..rollout import engine
"""
    found = set(imports_of(ast.parse(code), "rlvr.model.decoder"))
    assert found == {
        "rlvr.errors",
        "rlvr.records",
        "rlvr.verify",
        "rlvr.rewards",
        "rlvr.config",
        "rlvr.model.tokens",
        "rlvr.rollout.engine",
    }

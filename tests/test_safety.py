"""No text of a model or a data set is run as code: the source is searched for ways to."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))
RUNS_TEXT = {"eval", "exec", "compile", "parse_expr", "sympify", "S", "lambdify", "parse_latex"}
RUNS_TEXT |= {"literal_eval", "execfile", "N", "nsimplify", "system", "popen"}
UNPICKLES = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "multiprocessing"}


def dotted(node: ast.expr) -> str:
    """A name as it is written: `sympy.parsing.parse_expr`; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def dangers(code: str) -> Iterator[str]:
    """Calls that run text and imports that unpickle, with their line."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            last = name.rpartition(".")[2]
            if last in RUNS_TEXT and name != "re.compile":
                yield f"line {node.lineno}: {name}(...)"
            if name.startswith("torch.load"):
                yield f"line {node.lineno}: {name}(...)"
            if any(word.arg == "shell" for word in node.keywords):
                yield f"line {node.lineno}: a shell"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        yield from (
            f"line {node.lineno}: import {name}"  # type: ignore[attr-defined]
            for name in names
            if {*name.split(".")} & (RUNS_TEXT | UNPICKLES)
        )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.name))
def test_nothing_runs_text_as_code(path: Path) -> None:
    assert list(dangers(path.read_text())) == []


@pytest.mark.parametrize(
    "code",
    [
        "eval(text)",
        "builtins.exec(text)",
        "sympy.sympify(text)",
        "from sympy.parsing.sympy_parser import parse_expr",
        "import pickle",
        "from multiprocessing import Pool",
        "torch.load(path)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
        "sympy.S(text)",
    ],
)
def test_the_search_finds_what_it_looks_for(code: str) -> None:
    assert list(dangers(code))


def test_the_search_lets_patterns_pass() -> None:
    assert not list(dangers("import re\nre.compile(text)\nmodel.eval"))

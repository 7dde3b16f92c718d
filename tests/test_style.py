"""The rules of how this code reads that a test can hold; the examples of the others run."""

import ast
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
LONGEST_FUNCTION, LONGEST_FILE, LONGEST_LINE, LONGEST_LOOP = 60, 400, 100, 60  # lines, characters
LONG_FUNCTIONS: dict[str, str] = {}
"""Functions that may be longer, with the reason."""
CHANGING = {
    "rlvr.training.update.Learner": "its optimizer changes, and it adds up seconds",
    "rlvr.training.checkpoint.Carried": "holds what steps hand on",
    "rlvr.groups.Gathered": "grows by a round at a time",
    "rlvr.run.Run": "holds what training changes",
    "rlvr.loop.Timer": "adds up seconds",
    "rlvr.verify.process.Worker": "starts, works and ends",
    "rlvr.verify.pool.Shift": "fills with results",
    "rlvr.model.cache.Cache": "fills with keys and values",
    "rlvr.rollout.rows.Answers": "grow by a token at a time",
    "rlvr.rollout.rows.Waiting": "counts the prompts that are read",
    "rlvr.abacus.corpus.Worker": "writes its steps down",
    "rlvr.verify.terms.Work": "is spent",
    "rlvr.commands.verify.Tally": "adds up lines",
}
"""Dataclasses that are not frozen, with the reason."""
CLOCKS = (
    *("rlvr.loop", "rlvr.cli", "rlvr.commands", "rlvr.observe", "rlvr.training.machine"),
    *("rlvr.verify.worker", "rlvr.verify.process", "rlvr.verify.pool"),
)
"""Modules, or packages of them, that may read a clock; elsewhere it comes in as an argument."""
ENVIRONMENT = ("rlvr.cli", "rlvr.verify.process", "rlvr.native.build")
"""Modules that may read environment variables; the second hands them on to workers."""
TOOLS = ("rlvr.abacus.recipe",)
"""Modules that are run by hand: they may print and read a clock."""
IMPORTED_AS = {"numpy": None}
"""Dependencies that are not imported here, but needed by another one."""


@dataclass(frozen=True, slots=True)
class Module:
    """A file of `src` and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module


def modules() -> list[Module]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        found.append(Module(name, path, ast.parse(path.read_text(encoding="utf-8"))))
    return found


MODULES = modules()
PYTHON_FILES = sorted(
    path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
each_file = pytest.mark.parametrize(
    "path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT))
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a chain of attributes; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def called(tree: ast.AST) -> Iterator[str]:
    return (dotted(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))


def imported_names(tree: ast.AST) -> set[str]:
    """Modules that are bound whole, by `import x`."""
    whole = (node for node in ast.walk(tree) if isinstance(node, ast.Import))
    return {alias.asname or alias.name for node in whole for alias in node.names}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def lines_of_code(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    whole = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    return whole - ((first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0)


@each_file
def test_every_file_s_first_line_says_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, f"{path} does not start with a docstring"
    assert docstring.splitlines()[0].rstrip()[-1] in ".:", "the first line is a sentence"


@each_file
def test_code_lines_fit_the_page(path: Path) -> None:
    for number, whole in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = re.sub(r"\s+# (type: ignore|noqa|fmt: skip).*", "", whole)  # words to tools
        assert len(line) <= LONGEST_LINE, f"{path}:{number} has {len(line)} characters"


@each_module
def test_files_and_functions_are_small_rooms(module: Module) -> None:
    lines = len(module.path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{module.name} has {lines} lines"
    for function in functions(module.tree):
        name, length = f"{module.name}.{function.name}", lines_of_code(function)
        assert length <= LONGEST_FUNCTION or name in LONG_FUNCTIONS, f"{name} has {length} lines"


@each_module
def test_public_functions_say_what_they_do(module: Module) -> None:
    classes = [node for node in module.tree.body if isinstance(node, ast.ClassDef)]
    owners: list[ast.Module | ast.ClassDef] = [module.tree, *classes]
    for owner in owners:
        if isinstance(owner, ast.ClassDef) and owner.name.startswith("_"):
            continue
        for node in owner.body:
            if isinstance(node, Function) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{module.name}.{node.name} has no docstring"


@each_module
def test_dataclasses_are_frozen_and_slotted(module: Module) -> None:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if dotted(call.func if call else decorator).rpartition(".")[2] != "dataclass":
                continue
            given = {word.arg: ast.unparse(word.value) for word in call.keywords} if call else {}
            name = f"{module.name}.{node.name}"
            assert given.get("slots") == "True", f"{name} is not slotted"
            assert given.get("frozen") == "True" or name in CHANGING, f"{name} is not frozen"


@each_module
def test_no_text_is_ever_run_as_code(module: Module) -> None:
    unsafe = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    assert not unsafe & {name.partition(".")[0] for name in imported(module.tree)}
    runs = {"eval", "exec", "compile", "__import__", "torch.load", "torch.save", "os.system"}
    assert not runs & set(called(module.tree))


@each_module
def test_nothing_prints_past_the_console_and_the_commands(module: Module) -> None:
    assert module.name in TOOLS or "print" not in set(called(module.tree))


@each_module
def test_chance_comes_in_by_the_door(module: Module) -> None:
    seeds = ("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed")
    numpy = ("np.random.", "numpy.random.")
    for name in called(module.tree):
        assert not name.startswith((*seeds, *numpy)), f"{module.name} calls {name}"
    if "random" in imported_names(module.tree):
        drawn = {name for name in called(module.tree) if name.startswith("random.")}
        assert drawn <= {"random.Random"}, f"{module.name} draws from the global generator"


@each_module
def test_environment_and_clock_come_in_by_the_door(module: Module) -> None:
    attributes = {dotted(node) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
    assert module.name in ENVIRONMENT or not attributes & {"os.environ", "os.getenv"}
    if module.name in TOOLS or module.name.startswith(CLOCKS):
        return
    clocks = {"time", "perf_counter", "monotonic", "process_time", "time_ns"}
    assert not {f"time.{name}" for name in clocks} & set(called(module.tree))
    for node in ast.walk(module.tree):  # as an argument's default a clock may be named, by module
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            pytest.fail(f"{module.name}: write `import time`, so that this test can see its use")


def test_the_training_loop_is_a_table_of_contents() -> None:
    path = SOURCE / "rlvr" / "loop.py"
    assert path.is_file(), "src/rlvr/loop.py, the page to read first, is missing"
    found = [f for f in functions(ast.parse(path.read_text(encoding="utf-8"))) if f.name == "train"]
    assert len(found) == 1, "loop.py has one function train"
    assert lines_of_code(found[0]) <= LONGEST_LOOP


def test_every_dependency_is_declared_and_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = project["dependencies"] + [
        line for name, lines in extras.items() if name != "dev" for line in lines
    ]
    declared = {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in lines}
    used = {name.partition(".")[0] for module in MODULES for name in imported(module.tree)}
    theirs = used - set(sys.stdlib_module_names) - {"rlvr"}
    assert theirs == declared - set(IMPORTED_AS)


def test_every_dependency_has_a_fixed_version_for_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = project["dependencies"] + [line for lines in extras for line in lines]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    fixed = {line.partition("==")[0] for line in lines if "==" in line}
    assert {re.split(r"[^\w-]", line)[0] for line in wanted} <= fixed
    assert not [line for line in lines if "://" in line]


def test_the_examples_of_the_rules_import_and_run_in_order_as_one_file() -> None:
    examples = runpy.run_path(str(Path(__file__).parent / "style_examples.py"))
    claims = [name for name in examples if name.startswith("test_")]
    assert "test_clipping_stops_only_moves_that_went_far_enough" in claims
    for name in claims:
        if not examples[name].__code__.co_argcount:
            examples[name]()
    assert examples["overlong_penalty"](90, limit=100, ramp=20) == -0.5
    assert examples["exact"](None, "2").verdict == "incorrect"

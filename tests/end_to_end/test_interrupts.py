"""Ctrl-C at any moment: exit status 130, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, os, signal, sys, time
from rlvr import cli
from rlvr.commands import listings

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
    return 0

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            try:
                interrupt()
            except KeyboardInterrupt:
                raise ImportError("made of an interrupt")

class Fragile:
    def __del__(self):
        interrupt()

def closing(*_):
    try:
        interrupt()
    finally:
        print("closed")

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["rlvr", *{words}]
{before}
sys.exit(cli.main())
"""


def ended(words: str, module: str = "", before: str = "") -> subprocess.CompletedProcess[str]:
    code = PROGRAM.format(words=words.split(), module=module, before=before)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("words", "module"),
    [
        ("train", "rlvr.commands.train"),
        ("train", "torch"),
        ("eval abacus", "torch"),
        ("chat abacus 1+1", "torch"),
        ("verify --reference 1 --response 1", "rlvr.verify.grading"),
    ],
)
def test_while_a_command_is_being_imported(words: str, module: str) -> None:
    """Also where the import makes another error of it, as C extensions do."""
    done = ended(words, module)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize(
    "before",
    [
        "listings.models_command = interrupt",
        "listings.models_command = lambda *_: interrupt(Fragile())",
        "listings.models_command = lambda *_: bool(Fragile())",
        "atexit.register(interrupt)",
        "sys.stdout.write = interrupt",
    ],
    ids=["at work", "twice", "in a destructor", "at the end", "before any command"],
)
def test_outside_of_imports_and_of_the_training_loop(before: str) -> None:
    done = ended("--help" if "write" in before else "models", before=before)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_command_that_works_closes_what_it_had_open() -> None:
    done = ended("models", before="listings.models_command = closing")
    assert (done.returncode, done.stdout, done.stderr) == (130, "closed\n", "")


def test_while_the_command_line_itself_is_being_imported(tmp_path: Path) -> None:
    (tmp_path / "difflib.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    known = os.pathsep.join([str(tmp_path), *sys.path])
    begin = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + "runpy.run_module('rlvr', run_name='__main__')"],
        env=os.environ | {"PYTHONPATH": known},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")

"""What the benchmarks of real models share: the model, prompts, processes of their own, memory."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

from rlvr.errors import UsageError
from rlvr.training.machine import peak_memory_bytes
from rlvr.training.settings import cores

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "models" / "smollm2-135m-instruct"
PROMPTS = (
    "What is the sum of the first ten odd numbers? Think step by step and explain every step you "
    "take, then give the answer.",
    "A train leaves at noon and travels at sixty miles per hour for three hours. How far does it "
    "get? Explain how you found it.",
    "Tom has three apples and buys seven more, then he gives half of them away. How many are left? "
    "Work it out step by step.",
    "Write the number one hundred and twenty five as a product of primes, and say how you know "
    "that the factors are prime.",
)
"""Plain text, 26 to 28 tokens each; nothing is put around them."""
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
FORMATS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Flags of a processor that set the speed of its matrix products."""


def arguments(description: str, numbers: Mapping[str, tuple[int, str]]) -> argparse.ArgumentParser:
    """The options that every command here takes, and numbers of its own: default and meaning."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODEL, help="a model directory")
    parser.add_argument("--threads", type=int, default=0, help="0 measures")
    parser.add_argument("--json", action="store_true", help="one object in place of the table")
    for name, (default, meaning) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{meaning} ({default})")
    return parser


def prompts(count: int) -> list[str]:
    """So many prompts; past the fourth they come again."""
    return list(islice(cycle(PROMPTS), count))


def find_model(folder: Path) -> Path:
    """The model's directory.

    Raises:
        UsageError: It is not there.
    """
    if not (folder / "model.safetensors").is_file():
        raise UsageError(f"no model in {folder}. Run `make smollm2` once, or give --model.")
    return folder


def say(text: str) -> None:
    """Progress, apart from the result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def in_its_own_process(script: Path, options: Mapping[str, object]) -> dict[str, Any]:
    """What a script's hidden `--side` measures in a fresh process: memory and caches are its own.

    Args:
        script: A benchmark; it writes JSON to the file that `--into` names.
        options: Its options by name, without dashes.

    Raises:
        UsageError: It failed, with the last line that it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "measured.json"
        given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        done = subprocess.run(
            [sys.executable, str(script), *given, "--into", str(into)],
            env={**os.environ, **OFFLINE},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode or not into.is_file():
            lines = done.stdout.strip().splitlines() or [f"exit status {done.returncode}"]
            if done.returncode != 2:  # not our own refusal
                say("\n".join(lines[-30:]))
            raise UsageError(lines[-1])
        found: dict[str, Any] = json.loads(into.read_text(encoding="utf-8"))
        return found


def peak_bytes() -> int:
    """Most memory that this process has held since it started its program.

    Linux keeps in `ru_maxrss` what the parent held when it forked, and in VmHWM it does not.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return peak_memory_bytes()


def machine_line() -> str:
    """Processor, cores, its number formats, and PyTorch's version."""
    name, flags = "unknown processor", set[str]()
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            name = value.strip() if key.strip() == "model name" else name
            flags |= set(value.split()) if key.strip() == "flags" else set()
    formats = " ".join(flag for flag in FORMATS if flag in flags)
    return f"{name}, {cores()} cores, {formats}; PyTorch {torch.__version__}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain text: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for row in (head, *rows):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    """A measured number; a dash where there is none."""
    return "—" if value is None else f"{value:,.{digits}f}"


def told(main: Callable[[], None]) -> None:
    """Run a command; what a user can mend is one line and exit status 2."""
    try:
        main()
    except UsageError as error:
        say(str(error))
        sys.exit(2)

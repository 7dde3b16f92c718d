"""How the time and the peak memory of our GRPO step grow: with prompts, answer length, group size.

    .venv/bin/python benchmarks/scaling.py [--steps 1] [--only problems|length|answers] [--json]

SmolLM2-135M and the step of benchmarks/step.py, one size changed at a time, every cell in a process
of its own. One step warms up, the median of the others counts.
"""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from measuring import arguments, find_model, machine_line, number, say, table, told
from step import Measured, Task, measured

SIZES = {
    "problems": (1, 2, 4, 8),
    "length": (64, 128, 256, 512),
    "answers": (4, 8, 16, 32),
}
"""By what grows; the other sizes are those of `Task`."""
NUMBERS = {"steps": (1, "steps that count"), "warm": (1, "steps before them")}


def cells(task: Task, growing: Sequence[str]) -> list[Task]:
    """The steps to measure, each once, also where it stands in more than one series."""
    return list(dict.fromkeys(cell for name in growing for cell in series(task, name)))


def series(task: Task, name: str) -> list[Task]:
    """The step with one size growing."""
    changes: list[dict[str, Any]] = [{name: size} for size in SIZES[name]]
    return [replace(task, **change) for change in changes]


def name_of(task: Task) -> str:
    """Sizes of a cell, as keys of the result spell them."""
    return f"{task.problems}x{task.answers}x{task.length}"


def cell_of(task: Task, done: Measured) -> dict[str, float]:
    """What a cell's process measured, and answer tokens a second over the whole step."""
    seconds = statistics.median(done.step_seconds)
    return {
        "step_seconds": seconds,
        "rollout_seconds": statistics.median(done.rollout_seconds),
        "logprobs_seconds": statistics.median(done.logprobs_seconds),
        "update_seconds": statistics.median(done.update_seconds),
        "tokens_per_s": task.problems * task.answers * task.length / seconds,
        "peak_bytes": done.peak_bytes,
    }


def shown(result: Mapping[str, Any], task: Task, growing: Sequence[str]) -> str:
    """The result as a table of plain text, one part for each size that grows."""
    head = ("s a step", "rollout", "logprobs", "update", "tokens/s", "peak GB")
    parts = [f"{result['machine']}; {result['dtype']}, {result['threads']} threads\n"]
    for name in growing:
        rows = []
        for cell in series(task, name):
            of = {key: result[f"{name_of(cell)}/{key}"] for key in CELL}
            figures = [number(of[f"{part}_seconds"], 1) for part in PHASES]
            figures += [number(of["tokens_per_s"], 0), number(of["peak_bytes"] / 1e9)]
            rows.append([" x ".join(name_of(cell).split("x")), *figures])
        parts.append(table((f"{name} (prompts x answers x tokens)", *head), rows))
    return "\n".join(parts)


PHASES = ("step", "rollout", "logprobs", "update")
CELL = (*(f"{phase}_seconds" for phase in PHASES), "tokens_per_s", "peak_bytes")


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "", NUMBERS)
    parser.add_argument("--only", choices=tuple(SIZES), help="let one size grow alone")
    given = parser.parse_args()
    growing = [given.only] if given.only else list(SIZES)
    task = Task(model=find_model(given.model), steps=given.steps, warm=given.warm)
    result: dict[str, object] = {"machine": machine_line(), "counted_steps": given.steps}
    threads = given.threads
    for cell in cells(task, growing):
        say(f"{cell.problems} prompts x {cell.answers} answers x {cell.length} tokens ...")
        done = measured("rlvr", replace(cell, threads=threads))
        threads = done.threads  # the same for all
        result |= {"dtype": done.dtype, "threads": done.threads}
        result |= {f"{name_of(cell)}/{key}": value for key, value in cell_of(cell, done).items()}
    sys.stdout.write(json.dumps(result) + "\n" if given.json else shown(result, task, growing))


if __name__ == "__main__":
    told(main)

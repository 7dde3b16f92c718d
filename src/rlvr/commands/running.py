"""A run of `rlvr train` while it goes on, shown to a person or kept for --json."""

import platform
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from rlvr.commands.options import write_json
from rlvr.config import Config, to_toml
from rlvr.folders import checkpoint_folder, checkpoints
from rlvr.loop import train
from rlvr.model.suggested import not_applied
from rlvr.model.tokens import Tokens
from rlvr.model.weights import parameters_of
from rlvr.native.build import kernels
from rlvr.objective.explain import slots
from rlvr.objective.slots import Variant
from rlvr.objective.variants import variant
from rlvr.observe.console import Progress, telling_example
from rlvr.observe.evaluate import Evaluated
from rlvr.observe.metrics import Values
from rlvr.observe.plots import Course, curves
from rlvr.observe.runlog import ANSWERS, read_lines
from rlvr.problems.listed import Source
from rlvr.records import CLOSE, OPEN
from rlvr.run import Run, prepare, take_up
from rlvr.training.settings import cores

STOPPED = 130


def start(config: Config, source: Source, path: Path, as_json: bool) -> int:
    """A new run, to its end or to Ctrl-C; the exit status."""
    run = prepare(config, path, source)
    note = not_applied(config.model, run.model.folder, run.sampling)
    sys.stderr.write(f"rlvr: {note}\n" if note else "")
    return shown(run, as_json)


def go_on(config: Config, path: Path, as_json: bool) -> int:
    """A run taken up again, to its end or to Ctrl-C; the exit status."""
    return shown(take_up(config, path), as_json)


def shown(run: Run, as_json: bool) -> int:
    """Train, show the result; exit status 130 where Ctrl-C stopped it."""
    try:
        with Screen(run, as_json) as screen, stopping_on_signals(run, screen):
            train(run, screen)
            status: int = screen.close()
            return status
    finally:
        run.folder.release()


class Screen:
    """Shows a run: to a person, or with --json as one object on standard output."""

    def __init__(self, run: Run, as_json: bool) -> None:
        self.run = run
        self.as_json = as_json
        self.pending: list[dict[str, object]] = []
        console = Console(stderr=as_json)
        self.progress = Progress(console, run.config.steps, run.progress.step + 1)

    def __enter__(self) -> "Screen":
        self.progress.opening(opening(self.run))
        self.progress.evaluated(self.run.folder.evals())
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def evaluated(self, step: int, results: Sequence[Evaluated]) -> None:
        """Keep an evaluation for the step's line; that of the start has a line of its own."""
        self.pending = [{"step": step, **result.row()} for result in results]
        if step == 0:
            self.progress.evaluated(self.pending)
            self.pending = []

    def stepped(self, metrics: Values) -> None:
        """Show a step with its evaluation, if there was one."""
        self.progress.step(metrics, self.pending)
        self.pending = []

    def warned(self, text: str) -> None:
        """Say what is most likely not meant."""
        self.progress.note(f"warning: {text}")

    def stopping(self) -> None:
        """Say that the run stops after this step."""
        self.progress.note("stopping after this step; Ctrl-C once more stops at once")

    def close(self) -> int:
        """Draw the curves and show the result, or say how to go on."""
        run = self.run
        path, evals = run.folder.path, run.folder.evals()
        done = run.progress.step == run.config.steps
        picture = path / "curves.png"
        title = (
            f"{run.config.model}, {run.config.problems}, {run.config.name}, seed {run.config.seed}"
        )
        curves([Course(path.name, run.folder.metrics(), evals)], picture, title=title)
        before = [row for row in evals if row["step"] == 0]
        after = [row for row in evals if row["step"] == run.config.steps] if done else []
        if self.as_json:
            write_json(result(run, before, after))
        self.progress.closing(
            before,
            after,
            example=telling_example(answers(run, 0), answers(run, run.config.steps))
            if done
            else None,
            files=[
                ("run folder", str(path)),
                ("curves", str(picture)),
                ("newest model", str(checkpoints(path)[-1])),
                ("every answer", str(path / "rollouts")),
            ],
            commands=next_commands(path, done, run.config),
        )
        return 0 if done else STOPPED


def machine(config: Config) -> list[str]:
    """What the run computes with."""
    lacking = kernels().lacking
    return [
        f"{config.threads} of {cores()} threads",
        f"products in {config.dtype}",
        platform.machine(),
        f"no compiled kernels ({lacking})" if lacking else "compiled kernels",
    ]


def opening(run: Run) -> list[tuple[str, str]]:
    """What is about to happen, in a few lines."""
    config, source = run.config, run.source
    sampled = config.rollouts
    rows = sampled.problems_per_step * sampled.group_size
    parameters = parameters_of(run.model.decoder.shape)
    lines = [
        ("machine", ", ".join(machine(config))),
        ("model", f"{config.model}, {parameters / 1e6:.2f} million parameters"),
        ("problems", f"{source.name}: {source.about}; {len(source.held_out):,} held out"),
        (
            "each step",
            f"{sampled.problems_per_step} problems x {sampled.group_size} answers = "
            f"{rows} rollouts, {updates(config.variant)}",
        ),
        ("objective", f"{config.name} ({config.variant.source}){changed_slots(config)}"),
        ("run", f"{config.steps} steps, seed {config.seed}, in {run.folder.path}"),
    ]
    if config.lora.rank:
        count = sum(tensor.numel() for tensor in run.model.decoder.learning().values())
        about = f"rank {config.lora.rank}, {config.lora.targets}: {count / 1e6:.2f} million numbers"
        lines.insert(2, ("adapters", f"{about} learn, the model's own stay"))
    lines += [("note", note) for note in source.notes]
    if config.think_tokens:
        lines.append(("tags", tags(run.model.tokens)))
    if config.variant.groups == "active":
        lines.append(("groups", active(config)))
    if run.progress.step:
        lines.append(("resumed", f"after step {run.progress.step}"))
    return lines


def tags(tokens: Tokens) -> str:
    """What became of the think tags, where tokens of their own were asked for."""
    ids = f"{OPEN} and {CLOSE} are tokens {tokens.id_of(OPEN)} and {tokens.id_of(CLOSE)}"
    if not tokens.added:
        return f"{ids} of this model already"
    new = " and ".join(tokens.added)
    return f"{ids}; new: {new}, from the mean of the rows of their pieces"


def updates(row: Variant) -> str:
    """How often the answers of a step are used."""
    if row.updates == 1:
        return "one update"
    if row.mini_batches == 1:
        return f"{row.epochs} updates on all of them"
    return f"{row.mini_batches} updates" + (
        f" a pass, {row.epochs} passes" if row.epochs > 1 else ""
    )


def changed_slots(config: Config) -> str:
    """The slots that were given another value than the row's."""
    row = variant(config.name)
    changed = [
        f"{slot} {to_toml(value)}".replace('"', "")
        for slot, value, _ in slots(config.variant)
        if value != getattr(row, slot)
    ]
    return f" with {', '.join(changed)}" if changed else ""


def active(config: Config) -> str:
    """What happens to groups without a signal."""
    rounds = config.rollouts.rounds
    if rounds == 1:
        return "those without a signal are left out (--rollouts.rounds 3 samples others instead)"
    return f"those without a signal are replaced, in up to {rounds} rounds a step"


def result(
    run: Run, before: Sequence[Mapping[str, object]], after: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    """The run as one object."""
    return {
        "run": str(run.folder.path),
        "steps": run.progress.step,
        "wall_s": run.progress.wall_s,
        "before": {str(row["mode"]): row for row in before},
        "after": {str(row["mode"]): row for row in after},
    }


def answers(run: Run, step: int) -> list[dict[str, object]]:
    """Stored answers of the sampled evaluation at a step."""
    return read_lines(run.folder.path / ANSWERS / f"step-{step:06d}-sampled.jsonl")


def next_commands(path: Path, done: bool, config: Config) -> list[tuple[str, str]]:
    """Three commands to try next."""
    name, start = shlex.quote(str(path)), shlex.quote(str(checkpoint_folder(path, 0)))
    if not done:
        return [(f"rlvr train --resume {name}", "go on where this stopped")]
    usual = config.problems == "arithmetic"
    same = "" if usual else f" --problems {shlex.quote(config.problems)}"
    other = "arithmetic-hard" if usual else "FILE"
    return [
        (f"rlvr chat {name}", "ask it something"),
        (
            f"rlvr eval {start} {name}{same} --temperature 1 --samples 16",
            "pass@k, before and after",
        ),
        (f"rlvr train --model {name} --problems {other}", "go on with other problems"),
    ]


@contextmanager
def stopping_on_signals(run: Run, screen: "Screen") -> Iterator[None]:
    """Ctrl-C and SIGTERM ask the run to stop after its step; a second Ctrl-C stops it at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        if run.stop_asked:
            raise KeyboardInterrupt
        run.stop_asked = True
        screen.stopping()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

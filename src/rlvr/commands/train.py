"""`rlvr train`: a new run, or one taken up again, shown while it goes on."""

import platform
import shlex
import signal
import sys
from argparse import SUPPRESS
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from rlvr.commands.options import Options, write_json
from rlvr.config import Config, Setting, read_toml, resolve, settings, to_toml
from rlvr.errors import UsageError
from rlvr.loop import train
from rlvr.model.tokens import Tokens
from rlvr.model.weights import parameters_of
from rlvr.objective.explain import slots
from rlvr.objective.slots import Variant
from rlvr.objective.variants import variant
from rlvr.observe.console import Progress, telling_example
from rlvr.observe.evaluate import Evaluated
from rlvr.observe.metrics import Values
from rlvr.observe.plots import Course, curves
from rlvr.observe.runlog import ANSWERS, SETTINGS, read_lines
from rlvr.problems.names import short_name
from rlvr.records import CLOSE, OPEN
from rlvr.run import Run, prepare, take_up
from rlvr.training.checkpoint import checkpoints
from rlvr.training.machine import cores

STOPPED = 130
SECTIONS = {
    "": "run",
    "variant": "variant (the objective's slots; defaults are those of the row)",
    "rollouts": "rollouts",
    "reward": "reward",
    "optimiser": "optimiser",
    "evaluation": "evaluation",
    "checkpoints": "checkpoints",
}


def train_command(about: str, words: Sequence[str]) -> int:
    """Read what was asked, train, show the result; exit status 130 where Ctrl-C stopped it."""
    file, out, resume, as_json, given = read_words(about, words)
    values = (read_toml(Path(file)) if file else {}) | given
    if resume is not None and out is not None:
        raise UsageError(f"--resume goes on in {resume}; leave --out away.")
    run = resumed(Path(resume), values) if resume is not None else started(values, out)
    try:
        with Screen(run, as_json) as screen, stopping_on_signals(run, screen):
            train(run, screen)
            status: int = screen.close()
            return status
    finally:
        run.folder.release()


def read_words(
    about: str, words: Sequence[str]
) -> tuple[str | None, str | None, str | None, bool, dict[str, object]]:
    """The options: settings file, run folder, run to resume, --json, and the settings given."""
    parser = Options("train", about, "[SETTINGS.toml] [--out DIR | --resume RUN] [--SETTING VALUE]")
    parser.add_argument("file", nargs="?", metavar="SETTINGS.toml", help="settings, as in run.toml")
    parser.add_argument("--out", metavar="DIR", help="the run folder (default: a name in runs/)")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was stopped")
    parser.add_argument("--json", action="store_true", help="the result as one JSON object")
    for section, title in SECTIONS.items():
        group = parser.add_argument_group(title)
        for setting in settings().values():
            if setting.path.rpartition(".")[0] == section:
                group.add_argument(*option(setting)[0], **option(setting)[1])  # type: ignore[arg-type]
    given = vars(parser.parse(words))
    file, out, resume, as_json = (given.pop(name) for name in ("file", "out", "resume", "json"))
    return file, out, resume, as_json, given


def option(setting: Setting) -> tuple[tuple[str], dict[str, object]]:
    """A setting as an option of the same name, with dashes."""
    name = setting.path.replace("_", "-")
    about = f"{setting.help} (default: {to_toml(setting.default)})".replace("%", "%%")
    metavar = name.rpartition(".")[2].upper()
    return (f"--{name}",), {
        "dest": setting.path,
        "metavar": metavar,
        "help": about,
        "default": SUPPRESS,
    }


def started(values: Mapping[str, object], out: str | None) -> Run:
    """A new run in its folder."""
    config = resolve(values)
    for doubt in config.doubts():
        sys.stderr.write(f"rlvr: {doubt}\n")
    return prepare(config, Path(out) if out else free_folder(config))


def free_folder(config: Config) -> Path:
    """A readable name under `runs/` that is not taken."""
    parts = (
        Path(config.model).name,
        short_name(config.problems),
        config.name,
        f"seed{config.seed}",
    )
    name = "-".join(part for part in parts if part)
    for number in range(1, 10_000):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            return path
    raise UsageError("runs/ is full of runs of that name. Give --out.")


def resumed(path: Path, values: Mapping[str, object]) -> Run:
    """A run taken up again, with its own settings.

    Raises:
        UsageError: There is no run, or other settings were given, whose difference is listed.
    """
    if not (path / SETTINGS).is_file():
        raise UsageError(
            f"no run to resume in {path}: it has no {SETTINGS}. Give the folder of a run, "
            "such as one of those that rlvr models lists."
        )
    saved = read_toml(path / SETTINGS)
    config = resolve(saved)
    changed = resolve({**saved, **values})
    if changed != config:
        before, after = flat(config), flat(changed)
        differ = [f"{k} {before[k]} -> {after[k]}" for k in after if before[k] != after[k]]
        raise UsageError(
            f"{path} was started with other settings ({'; '.join(differ)}). A resumed run goes on "
            "as it began: leave them out, or start a new run."
        )
    return take_up(config, path)


def flat(config: Config) -> dict[str, object]:
    """Settings by dotted name."""
    found: dict[str, object] = {"variant": config.name}
    for path in settings():
        owner, _, last = path.rpartition(".")
        if path != "variant":
            found[path] = getattr(getattr(config, owner) if owner else config, last)
    return found


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


def opening(run: Run) -> list[tuple[str, str]]:
    """What is about to happen, in a few lines."""
    config, source = run.config, run.source
    sampled = config.rollouts
    rows = sampled.problems_per_step * sampled.group_size
    parameters = parameters_of(run.model.decoder.shape)
    threads = f"{config.threads} of {cores()} threads"
    lines = [
        ("machine", f"{threads}, products in {config.dtype}, {platform.machine()}"),
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
    name, base = shlex.quote(str(path)), shlex.quote(config.model)
    if not done:
        return [(f"rlvr train --resume {name}", "go on where this stopped")]
    usual = config.problems == "arithmetic"
    same = "" if usual else f" --problems {shlex.quote(config.problems)}"
    other = "arithmetic-hard" if usual else "FILE"
    return [
        (f"rlvr chat {name}", "ask it something"),
        (f"rlvr eval {base} {name}{same} --temperature 1 --samples 16", "pass@k, before and after"),
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

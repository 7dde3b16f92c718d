"""What a person sees of a run: opening lines, a live table (plain lines in a pipe), the result."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rlvr.observe.result import (
    NO_NUMBER,
    Example,
    Row,
    accuracy_table,
    meaning,
    number,
    percent,
    printable,
    side_by_side,
)
from rlvr.records import OPEN, stored_response

COLUMNS = (
    ("step", 5), ("s", 6), ("left", 6), ("reward", 7), ("greedy", 7), ("sampled", 8),
    ("thinks", 7), ("length", 7), ("entropy", 8), ("signal", 7), ("tokens/s", 9),
)  # fmt: skip
"""Heading and width of each column, 77 characters together."""
LEGEND = (
    "greedy, sampled: held-out accuracy. thinks: answers that open a thought. signal: groups whose "
    "rewards differ, the only ones that teach. The loss is not shown: on answers of the policy's "
    "own it is near 0 whatever is learnt."
)
ROWS_SHOWN = 12
PLAIN_EVERY_STEPS = 5
STEPS_FOR_RATE = 20
SPARKS, SPARKS_ASCII = "▁▂▃▄▅▆▇█", "_.,-=+*#"


class Progress:
    """Shows one run on one console; use it as a context, so that the terminal is given back."""

    def __init__(self, console: Console, steps: int, first_step: int = 1) -> None:
        """A run of `steps` steps, of which this process begins with `first_step`."""
        self.console = console
        self.steps = steps
        self.first_step = first_step
        self._latest: dict[str, Row] = {}
        self._history: dict[str, list[float]] = {"greedy": [], "sampled": []}
        self._lines: list[Text] = []
        self._walls: list[float] = [0.0] if first_step == 1 else []
        self._live: Live | None = None
        self._headed = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def opening(self, lines: Sequence[tuple[str, str]]) -> None:
        """Say what is about to happen: a label and its text for each line."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        for label, text in lines:
            table.add_row(Text(printable(label)), Text(printable(text)))
        self.console.print(Padding(table, (0, 0, 1, 2)))
        self.console.print(Padding(Text(LEGEND, style="dim"), (0, 0, 1, 2)))

    def evaluated(self, rows: Sequence[Row]) -> None:
        """Take in an evaluation: the lines of `evals.jsonl` that it wrote."""
        for row in rows:
            mode, accuracy = str(row.get("mode")), number(row, "accuracy")
            if mode in self._history and accuracy is not None:
                self._latest[mode] = row
                self._history[mode].append(accuracy)
        if rows and all(row.get("step") == 0 for row in rows):
            self._show(self._line({"step": 0, "text/think_open": rows[-1].get("thinks")}, True), 0)

    def step(self, row: Row, evals: Sequence[Row] | None = None) -> None:
        """Show a step: its line of `metrics.jsonl` and, where there was one, its evaluation."""
        if evals:
            self.evaluated(evals)
        step, wall = int(number(row, "step") or 0), number(row, "wall_s")
        if wall is not None:
            self._walls = [*self._walls[-STEPS_FOR_RATE:], wall]
        fresh = any(latest.get("step") == step for latest in self._latest.values())
        due = fresh or step % PLAIN_EVERY_STEPS == 0 or step in (self.first_step, self.steps)
        self._show(self._line(row, fresh), step, plain=due)

    def note(self, text: str) -> None:
        """Say something between two steps, such as that the run will stop."""
        self.console.print(Text(printable(text)), soft_wrap=True)

    def stop(self) -> None:
        """Give the terminal back; what stands there stays."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def closing(
        self,
        before: Sequence[Row],
        after: Sequence[Row],
        *,
        example: Example | None,
        files: Sequence[tuple[str, str]],
        commands: Sequence[tuple[str, str]],
    ) -> None:
        """Show the result.

        Args:
            before: The first evaluation, greedy and sampled, as lines of `evals.jsonl`.
            after: The last one; empty where the run stopped early.
            example: Two answers to show side by side.
            files: What lies where: label and path.
            commands: What to try next: the command and what it does.
        """
        self.stop()
        self.console.print()
        if before and after:
            self.console.print(accuracy_table(before, after))
            self.console.print(Padding(Text(meaning(before, after)), (1, 0, 1, 2)))
        if example is not None:
            self.console.print(side_by_side(example))
            self.console.print()
        if files:
            self.console.print(_pairs(files), soft_wrap=True)
            self.console.print()
        if commands:
            self.console.print(Text("Next", style="bold"))
            for command, about in commands:  # a line of its own, whole, to be copied
                self.console.print(Text(f"  {printable(about)}", style="dim"))
                self.console.print(Text(f"    {printable(command)}", style="green"), soft_wrap=True)

    def _line(self, row: Row, fresh: bool) -> Text:
        held_out = {mode: number(found, "accuracy") for mode, found in self._latest.items()}
        zero_std = number(row, "groups/zero_std")
        step = int(number(row, "step") or 0)
        cells = (
            str(step),
            duration(number(row, "wall_s")),
            duration(self._seconds_left(step)) if step else NO_NUMBER,
            _decimal(number(row, "reward/mean"), 2),
            percent(held_out.get("greedy")),
            percent(held_out.get("sampled")),
            percent(number(row, "text/think_open"), 0),
            _decimal(number(row, "length/mean"), 1),
            _decimal(number(row, "entropy/mean"), 3),
            percent(None if zero_std is None else 1 - zero_std, 0),
            _thousands(number(row, "tokens_per_s")),
        )
        line = Text()
        for (name, width), cell in zip(COLUMNS, cells, strict=True):
            evaluated = name in ("greedy", "sampled")
            style = ("bold" if fresh else "dim") if evaluated else ""
            line.append(cell.rjust(width), style=style)
        return line

    def _seconds_left(self, step: int) -> float | None:
        rate = self._seconds_per_step()
        return None if rate is None else rate * (self.steps - step)

    def _seconds_per_step(self) -> float | None:
        spans = len(self._walls) - 1
        return (self._walls[-1] - self._walls[0]) / spans if spans > 0 else None

    def _show(self, line: Text, step: int, plain: bool = True) -> None:
        if not self.console.is_terminal:
            if not self._headed:
                self.console.print(_heading(""), soft_wrap=True)
                self._headed = True
            if plain:
                self.console.print(line, soft_wrap=True)
            return
        room = max(1, min(ROWS_SHOWN, self.console.height - 8))
        self._lines = [*self._lines, line][-room:]
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        self._live.update(self._panel(step), refresh=True)

    def _panel(self, step: int) -> RenderableType:
        rate = self._seconds_per_step()
        speed = NO_NUMBER if not rate else f"{1 / rate:.2f} steps/s"
        left = duration(self._seconds_left(step)) if step else NO_NUMBER
        done = Table.grid(padding=(0, 2))
        done.add_row(
            ProgressBar(
                total=self.steps,
                completed=step,
                width=30,
                complete_style="green",
                finished_style="green",
            ),
            Text(f"step {step} of {self.steps}"),
            Text(speed, style="dim"),
            Text(f"{left} left", style="dim"),
        )
        sparks = Table.grid(padding=(0, 2))
        ascii_only = self.console.options.ascii_only
        for mode, values in self._history.items():
            if values:
                drawn = sparkline(values, width=48, ascii_only=ascii_only)
                latest = Text(percent(values[-1]), style="bold")
                sparks.add_row(Text(f"held-out, {mode}"), Text(drawn, style="green"), latest)
        top = Padding(Group(done, sparks), (0, 0, 1, 2))
        return Group(top, _heading("bold"), *self._lines)


def telling_example(before: Sequence[Row], after: Sequence[Row]) -> Example | None:
    """The first problem that was wrong before and right after, else the first in both.

    Args:
        before: Lines of a file under `answers/`.
        after: Lines of a later one.
    """
    firsts: dict[object, Row] = {}
    for row in before:
        firsts.setdefault(row.get("problem_id"), row)
    pairs = [(firsts[r.get("problem_id")], r) for r in after if r.get("problem_id") in firsts]
    turned = [
        (was, now)
        for was, now in pairs
        if was.get("verdict") == "incorrect" and now.get("verdict") == "correct"
    ]
    thought = [(was, now) for was, now in turned if OPEN in whole(now)]
    for was, now in thought or turned or pairs:
        return Example(
            problem=str(now.get("problem")),
            reference=str(now.get("reference")),
            before=whole(was),
            after=whole(now),
            before_verdict=str(was.get("verdict")),
            after_verdict=str(now.get("verdict")),
        )
    return None


def whole(row: Row) -> str:
    """The answer of a stored line, with the tag that its prompt had opened, up to a stop text."""
    return stored_response(row, str(row.get("text")))


def sparkline(values: Sequence[float], *, width: int, ascii_only: bool = False) -> str:
    """Shares in [0, 1] as one row of bars, the whole course squeezed into `width` characters.

    >>> sparkline([0, 0.5, 1], width=10)
    '▁▅█'
    """
    marks = SPARKS_ASCII if ascii_only else SPARKS
    count = min(width, len(values))
    last = len(values) - 1
    picked = [values[round(i * last / max(1, count - 1))] for i in range(count)]
    if count == 1:
        picked = [values[last]]
    top = len(marks) - 1
    return "".join(marks[min(top, max(0, int(value * top + 0.5)))] for value in picked)


def duration(seconds: float | None) -> str:
    """Seconds as a clock shows them.

    >>> [duration(value) for value in (None, 7.4, 83, 3723)]
    ['-', '7', '1:23', '1:02:03']
    """
    if seconds is None:
        return NO_NUMBER
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else str(rest)


def _decimal(value: float | None, digits: int) -> str:
    return NO_NUMBER if value is None else f"{value:.{digits}f}"


def _thousands(value: float | None) -> str:
    if value is None:
        return NO_NUMBER
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.0f}"


def _heading(style: str) -> Text:
    return Text("".join(name.rjust(width) for name, width in COLUMNS), style=style)


def _pairs(pairs: Sequence[tuple[str, str]]) -> Text:
    """Label and text a line, the texts under each other."""
    width = max((len(label) for label, _ in pairs), default=0) + 2
    lines = [
        Text.assemble("  ", (printable(label).ljust(width), "dim"), printable(text))
        for label, text in pairs
    ]
    return Text("\n").join(lines)

"""Curves of one or several runs as one PNG."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, object]
"""A line of `metrics.jsonl` or of `evals.jsonl`."""

RUN_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart also by readers who see few colours (Okabe and Ito, 2008)."""
GREEDY, SAMPLED = RUN_COLOURS[:2]
INK, FAINT = "#222222", "#8a8a8a"
SIZE_INCHES, DOTS_PER_INCH = (12.0, 6.4), 140
STEPS_SMOOTHED = 9
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.grid": True,
    "grid.color": "#e8e8e8",
    "text.color": INK,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True, slots=True)
class Course:
    """The logs of one run, under the name that the legend shows."""

    name: str
    metrics: Sequence[Row]
    evals: Sequence[Row]


def curves(runs: Sequence[Course], path: Path, *, title: str = "") -> None:
    """Draw accuracy, reward, length, thinking, entropy and signal over the steps.

    Args:
        runs: One run, or several to lay over each other.
        path: The PNG to write, whole or not at all.
        title: One line: model, problems, variant, seed.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=SIZE_INCHES)
        figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12, wspace=0.03, hspace=0.04)
        FigureCanvasAgg(figure)
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, parse_math=False)
        panels = figure.subplots(2, 3).flatten()
        for axes, draw in zip(panels, PANELS, strict=True):
            draw(axes, runs)
            axes.set_xlim(left=0, right=max(1, _last_step(runs)))
            axes.margins(y=0.08)
        for axes in panels[3:]:
            axes.set_xlabel("step")
        beside = path.with_name(f".{path.name}.part")
        figure.savefig(beside, format="png", dpi=DOTS_PER_INCH)
        os.replace(beside, path)


def accuracy(axes: "Axes", runs: Sequence[Course]) -> None:
    """Held-out accuracy, greedy and sampled, each in its 95% interval."""
    for colour, run in coloured(runs):
        for mode, line in (("greedy", "-"), ("sampled", "-" if len(runs) == 1 else "--")):
            rows = [row for row in run.evals if row.get("mode") == mode]
            steps, shares = points(rows, "accuracy")
            if not steps:
                continue
            hue = {"greedy": GREEDY, "sampled": SAMPLED}[mode] if len(runs) == 1 else colour
            name = mode if len(runs) == 1 else f"{run.name}, {mode}"
            axes.plot(steps, shares, line, color=hue, label=name)
            low, high = points(rows, "low"), points(rows, "high")
            if low[0] == high[0]:
                axes.fill_between(low[0], low[1], high[1], color=hue, alpha=0.18, linewidth=0)
    as_share(axes, "held-out accuracy, 95% intervals")
    legend(axes)


def reward(axes: "Axes", runs: Sequence[Course]) -> None:
    """Mean reward of the sampled answers."""
    over_steps(axes, runs, "reward/mean")
    axes.set_title("reward in training")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def length(axes: "Axes", runs: Sequence[Course]) -> None:
    """Mean length of the sampled answers."""
    over_steps(axes, runs, "length/mean")
    axes.set_title("answer length, tokens")
    axes.set_ylim(bottom=0)


def thinking(axes: "Axes", runs: Sequence[Course]) -> None:
    """Share of the sampled answers that open a thought."""
    over_steps(axes, runs, "text/think_open")
    as_share(axes, "answers that think")


def entropy(axes: "Axes", runs: Sequence[Course]) -> None:
    """Mean entropy of the sampled tokens."""
    over_steps(axes, runs, "entropy/mean")
    axes.set_title("entropy, nats per token")
    axes.set_ylim(bottom=0)


def signal(axes: "Axes", runs: Sequence[Course]) -> None:
    """Share of the groups whose rewards differ."""
    over_steps(axes, runs, "groups/zero_std", lambda share: 1 - share)
    as_share(axes, "groups with a signal")


PANELS = (accuracy, reward, length, thinking, entropy, signal)


def over_steps(
    axes: "Axes",
    runs: Sequence[Course],
    key: str,
    change: Callable[[float], float] = lambda value: value,
) -> None:
    """One metric of each run: every step faintly, and a mean over its neighbours."""
    for colour, run in coloured(runs):
        steps, raw = points(run.metrics, key)
        values = [change(value) for value in raw]
        axes.plot(steps, values, color=colour, alpha=0.25, linewidth=1)
        axes.plot(steps, smoothed(values, STEPS_SMOOTHED), color=colour, label=run.name)
    if len(runs) > 1 and key == "reward/mean":
        legend(axes)


def coloured(runs: Sequence[Course]) -> Iterator[tuple[str, Course]]:
    """Each run with its colour; a run alone has the colour of sampled answers."""
    if len(runs) == 1:
        yield SAMPLED, runs[0]
        return
    for number, run in enumerate(runs):
        yield RUN_COLOURS[number % len(RUN_COLOURS)], run


def points(rows: Sequence[Row], key: str) -> tuple[list[int], list[float]]:
    """Steps and values of a key where it has one; of a step logged twice the later one."""
    found: dict[int, float] = {}
    for row in rows:
        step, value = row.get("step"), row.get(key)
        if isinstance(step, int) and isinstance(value, (int, float)):
            found[step] = float(value)
    steps = sorted(found)
    return steps, [found[step] for step in steps]


def smoothed(values: Sequence[float], width: int) -> list[float]:
    """Mean over up to `width` neighbours, as many on either side, fewer towards the ends.

    >>> smoothed([0.0, 3.0, 6.0, 0.0], 3)
    [0.0, 3.0, 3.0, 0.0]
    """
    means = []
    for middle in range(len(values)):
        reach = min(width // 2, middle, len(values) - 1 - middle)
        near = values[middle - reach : middle + reach + 1]
        means.append(sum(near) / len(near))
    return means


def as_share(axes: "Axes", title: str) -> None:
    """An axis from 0 to 100%."""
    from matplotlib.ticker import PercentFormatter

    axes.set_title(title)
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def legend(axes: "Axes") -> None:
    """A legend, where there is anything to name; names are plain text, whatever signs they hold."""
    if not axes.get_legend_handles_labels()[0]:
        return
    shown = axes.legend(loc="best")
    for text in shown.get_texts():
        text.set_parse_math(False)


def _last_step(runs: Sequence[Course]) -> int:
    return max((points(run.metrics, "step")[0][-1] for run in runs if run.metrics), default=1)

"""The textbook's lessons, small: every recipe of `recipes/lessons`, three seeds each, and the page.

    .venv/bin/python benchmarks/lessons.py [--out runs/lessons] [--only LESSON] [--jobs 2] [--json]

Runs that are there already are not run again, and one that was cut off is taken up again, so the
command can be stopped and repeated at any time. It writes docs/lessons.md and its plots.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessons_text import LESSONS, OPENING, Lesson

from rlvr.config import read_toml
from rlvr.observe.plots import RUN_COLOURS, STYLE

ROOT = Path(__file__).parents[1]
RECIPES, PAGE = ROOT / "recipes" / "lessons", ROOT / "docs" / "lessons.md"
SEEDS = (0, 1, 2)
COMMAND = [sys.executable, "-m", "rlvr"]


@dataclass(frozen=True, slots=True)
class Course:
    """What one run left behind."""

    seed: int
    metrics: list[dict[str, Any]]
    evals: list[dict[str, Any]]

    def final(self, mode: str) -> float:
        """Accuracy at the last step."""
        return float([row for row in self.evals if row["mode"] == mode][-1]["accuracy"])

    def late(self, key: str) -> float | None:
        """Mean of a metric over the last ten steps."""
        values = [row[key] for row in self.metrics[-10:] if row.get(key) is not None]
        return statistics.fmean(values) if values else None

    @property
    def minutes(self) -> float:
        """Training and evaluation together."""
        return float(self.metrics[-1]["wall_s"]) / 60


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def steps_of(recipe: str) -> int:
    """Steps that a recipe asks for."""
    return int(str(read_toml(RECIPES / f"{recipe}.toml")["steps"]))


def is_done(folder: Path, recipe: str) -> bool:
    """Whether a run got to its last step, evaluation included."""
    evals = lines(folder / "evals.jsonl")
    return bool(evals) and evals[-1]["step"] == steps_of(recipe)


def run(recipe: str, seed: int, folder: Path) -> str:
    """Run a recipe, or take it up again; a line that says how long it took."""
    if is_done(folder, recipe):
        return f"{folder.name}: there already"
    began = time.perf_counter()
    started = (folder / "run.toml").is_file()
    words = ["--resume", folder] if started else [
        RECIPES / f"{recipe}.toml", "--seed", seed, "--threads", 1, "--out", folder
    ]  # fmt: skip
    done = subprocess.run(
        [*COMMAND, "train", *map(str, words), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{folder.name}: {done.stderr[-2000:]}")
    return f"{folder.name}: {time.perf_counter() - began:.0f} s"


def courses(out: Path, recipe: str) -> list[Course]:
    """The runs of a recipe that are done."""
    folders = [(seed, out / f"{recipe}-{seed}") for seed in SEEDS]
    return [
        Course(seed, lines(folder / "metrics.jsonl"), lines(folder / "evals.jsonl"))
        for seed, folder in folders
        if is_done(folder, recipe)
    ]


def spread(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    """The mean, and the lowest and highest of the seeds."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return f"{show(statistics.fmean(known))} ({show(min(known))} to {show(max(known))})"


def percent(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.1f}"


def two(value: float) -> str:
    """Two decimals, or three where the number is small."""
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "reward/mean": ("reward", two),
    "text/think_ok": ("thinks %", percent),
    "entropy/mean": ("entropy", two),
    "length/mean": ("length", two),
    "kl_ref/k3": ("KL", two),
    "groups/zero_std": ("no signal %", percent),
    "ratio/max": ("largest ratio", two),
}


def table(lesson: Lesson, found: dict[str, list[Course]]) -> list[str]:
    """Final accuracies and the lesson's own metrics, mean and range over the seeds."""
    names = [COLUMNS[key][0] for key in lesson.shows]
    head = ["", "greedy %", "sampled %", *names, "minutes"]
    rows = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for label, recipe in lesson.arms:
        runs = found[recipe]
        cells = [
            f"[{label}](../recipes/lessons/{recipe}.toml)",
            spread([run.final("greedy") for run in runs], percent),
            spread([run.final("sampled") for run in runs], percent),
            *(spread([run.late(key) for run in runs], COLUMNS[key][1]) for key in lesson.shows),
            spread([run.minutes for run in runs], lambda value: f"{value:.1f}"),
        ]
        rows.append(cells)
    return [f"| {' | '.join(cells)} |" for cells in rows]


def plot(lesson: Lesson, found: dict[str, list[Course]], path: Path) -> None:
    """Accuracy of sampled and greedy answers, and the lesson's first metric, over the steps."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(12, 3.6))
        figure.set_layout_engine("constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, 3)
        key = lesson.shows[0]
        titles = ("sampled accuracy", "greedy accuracy", COLUMNS[key][0].removesuffix(" %"))
        for colour, (label, recipe) in zip(RUN_COLOURS, lesson.arms, strict=False):
            runs = found[recipe]
            series = [
                [[(row["step"], row["accuracy"]) for row in run.evals if row["mode"] == mode]
                 for run in runs]
                for mode in ("sampled", "greedy")
            ]  # fmt: skip
            series.append([smooth(run.metrics, key) for run in runs])
            for axes, several in zip(panels, series, strict=True):
                band(axes, several, colour, label)
        for axes, title in zip(panels, titles, strict=True):
            axes.set_title(title)
            axes.set_xlabel("step")
            axes.margins(x=0)
        for axes in panels[:2]:
            axes.set_ylim(0, 1)
        panels[0].legend(loc="best")
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, format="png", dpi=90)


def smooth(rows: Sequence[dict[str, Any]], key: str, over: int = 9) -> list[tuple[float, float]]:
    """A metric by step, as the mean of the steps around; without those where it is unknown."""
    known = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
    half = over // 2
    return [
        (step, statistics.fmean(v for _, v in known[max(0, i - half) : i + half + 1]))
        for i, (step, _) in enumerate(known)
    ]


def band(axes: Any, several: Sequence[list[tuple[float, float]]], colour: str, label: str) -> None:
    """The mean of the seeds as a line, from the lowest to the highest as a band."""
    common = sorted(set.intersection(*(set(dict(one)) for one in several))) if several else []
    columns = [[dict(one)[step] for one in several] for step in common]
    axes.plot(common, [statistics.fmean(c) for c in columns], color=colour, label=label)
    low, high = [min(c) for c in columns], [max(c) for c in columns]
    axes.fill_between(common, low, high, color=colour, alpha=0.18, linewidth=0)


def pass_at_k(out: Path) -> list[str]:
    """Base and trained model, 16 answers each to the same held-out problems."""
    target = out / "pass-at-k.json"
    names = ["abacus", *(str(out / f"plain-{seed}") for seed in SEEDS)]
    if not target.is_file():
        words = ["eval", *names, "--temperature", "1", "--samples", "16", "--json"]
        done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=True)
        target.write_text(done.stdout)
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    keys = [key for key in rows[0] if key.startswith("pass@")]
    cells = ["| | " + " | ".join(f"{key} %" for key in keys) + " |"]
    cells.append("| --- |" + " ---: |" * len(keys))
    for name, row in zip(["base", *(f"after, seed {s}" for s in SEEDS)], rows, strict=True):
        values = (percent(float(row[key]["accuracy"])) for key in keys)
        cells.append(f"| {name} | {' | '.join(values)} |")
    return cells


def page(out: Path, found: dict[str, list[Course]]) -> str:
    """The whole page."""
    total = sum(run.minutes for runs in found.values() for run in runs)
    text = [OPENING.format(machine=machine(out), total=total, half=total / 2), ""]
    for lesson in LESSONS:
        text += [f"## {lesson.title}", "", lesson.asks, ""]
        if lesson.arms:
            text += [*table(lesson, found), "", f"![{lesson.title}](lessons/{lesson.slug}.png)", ""]
        else:
            text += [*pass_at_k(out), ""]
        text += [lesson.shown, ""]
    return "\n".join(text).rstrip() + "\n"


def annotate(recipe: str, runs: Sequence[Course]) -> None:
    """Write what to expect into the recipe's second line."""
    path = RECIPES / f"{recipe}.toml"
    first, *rest = path.read_text().splitlines()
    rest = rest[1:] if rest[0].startswith("# Expect") else rest
    finals = ", ".join(
        f"{mode} {spread([run.final(mode) for run in runs], percent)}%"
        for mode in ("sampled", "greedy")
    )
    expect = f"# Expect at the last step, seeds 0 to 2: {finals}."
    path.write_text("\n".join([first, expect, *rest]) + "\n")


def machine(out: Path) -> str:
    """Products and threads as the runs settled them."""
    settled = read_toml(out / "plain-0" / "run.toml")
    return f"{settled['threads']} thread a run, two runs at a time, products in {settled['dtype']}"


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "lessons")
    parser.add_argument("--only", choices=[lesson.slug for lesson in LESSONS])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, a core each")
    parser.add_argument("--json", action="store_true", help="the final accuracies as one object")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    chosen = [lesson for lesson in LESSONS if given.only in (None, lesson.slug)]
    recipes = list(dict.fromkeys(recipe for lesson in chosen for _, recipe in lesson.arms))
    jobs = [(recipe, seed, given.out / f"{recipe}-{seed}") for recipe in recipes for seed in SEEDS]
    with ThreadPoolExecutor(given.jobs) as pool:
        for line in pool.map(lambda job: run(*job), jobs):
            sys.stderr.write(line + "\n")
    found = {recipe: courses(given.out, recipe) for recipe in recipes}
    for recipe, runs in found.items():
        annotate(recipe, runs)
    for lesson in chosen:
        if lesson.arms:
            plot(lesson, found, PAGE.with_suffix("") / f"{lesson.slug}.png")
    if given.only is None:
        PAGE.write_text(page(given.out, found))
    if given.json:
        finals = {name: [run.final("sampled") for run in runs] for name, runs in found.items()}
        sys.stdout.write(json.dumps(finals) + "\n")


if __name__ == "__main__":
    main()

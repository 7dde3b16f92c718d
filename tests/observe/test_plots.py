"""The curves: what is drawn, and that no log stops them."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from rlvr.observe.plots import Course, accuracy, curves, points, signal, smoothed

METRICS = [
    {
        "step": step,
        "reward/mean": 0.1 * step,
        "length/mean": 9 + step,
        "text/think_open": 0.2,
        "entropy/mean": 0.4,
        "groups/zero_std": 0.25,
    }
    for step in range(1, 6)
]
EVALS = [
    {"step": step, "mode": mode, "accuracy": share, "low": share - 0.1, "high": share + 0.1, "n": 9}
    for step, share in ((0, 0.2), (5, 0.7))
    for mode in ("greedy", "sampled")
]
COURSE = Course("seed 0", METRICS, EVALS)


def test_curves_of_one_run_and_of_several_are_a_png(tmp_path: Path) -> None:
    for runs in ([COURSE], [COURSE, Course("seed 1", METRICS, EVALS)]):
        curves(runs, tmp_path / "curves.png", title="abacus, arithmetic, olmo3")
        assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


@pytest.mark.parametrize(
    "course",
    [
        Course("nothing yet", [], []),
        Course("only the start", [], EVALS[:2]),
        Course("nulls", [{"step": 1, "reward/mean": None, "entropy/mean": None}], []),
        Course("$not \\math", METRICS, EVALS),
    ],
)
def test_a_log_with_gaps_or_strange_names_is_drawn_all_the_same(
    course: Course, tmp_path: Path
) -> None:
    curves([course, COURSE], tmp_path / "curves.png", title=course.name)
    curves([course], tmp_path / "curves.png", title=course.name)
    assert (tmp_path / "curves.png").stat().st_size > 0


def test_accuracy_shows_each_mode_inside_its_interval() -> None:
    axes = Figure().subplots()
    accuracy(axes, [COURSE])
    assert [line.get_label() for line in axes.lines] == ["greedy", "sampled"]
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == [0.2, 0.7]
    edges = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (edges.min(), edges.max()) == pytest.approx((0.1, 0.8))


def test_signal_is_the_share_of_groups_that_are_not_all_equal() -> None:
    axes = Figure().subplots()
    signal(axes, [COURSE])
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == [0.75] * 5


def test_a_step_that_was_done_again_counts_once_with_its_later_value() -> None:
    rows: list[dict[str, object]] = [
        {"step": 2, "x": 1.0},
        {"step": 1, "x": 5.0},
        {"step": 2, "x": 3.0},
        {"step": 3},
    ]
    assert points(rows, "x") == ([1, 2], [5.0, 3.0])


def test_smoothing_keeps_a_line_a_line() -> None:
    assert smoothed([1.0, 2.0, 3.0, 4.0, 5.0], 9) == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0])

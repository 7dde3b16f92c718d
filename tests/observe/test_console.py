"""What a person sees: in a pipe, on a terminal, and from hostile text."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from rlvr.observe.console import (
    COLUMNS,
    Progress,
    duration,
    sparkline,
    telling_example,
)
from rlvr.observe.result import Example
from rlvr.observe.statistics import wilson

Row = dict[str, object]
STEPS = 12


def evaluation(step: int, correct: int, n: int = 200, thinks: float = 0.1) -> list[Row]:
    """Greedy and sampled lines of `evals.jsonl`, alike but for the mode."""
    low, high = wilson(correct, n)
    share: Row = {"accuracy": correct / n, "low": low, "high": high, "n": n}
    kinds = {"sum": share, "word": share}
    return [
        {"step": step, "set": "arithmetic", "mode": mode, **share, "thinks": thinks}
        | {"by_subject": kinds}
        for mode in ("greedy", "sampled")
    ]


def metrics(step: int) -> Row:
    return {
        "step": step,
        "wall_s": 2.0 * step,
        "reward/mean": 0.5,
        "text/think_open": 0.25,
        "length/mean": 12.34,
        "entropy/mean": 0.125,
        "groups/zero_std": 0.75,
        "tokens_per_s": 28_400.0,
    }


def console(*, terminal: bool = False, encoding: str = "utf-8") -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    return Console(file=file, force_terminal=terminal, width=80, height=30, no_color=True)


def seen(on: Console) -> str:
    assert isinstance(on.file, io.TextIOWrapper)
    written = on.file.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode(on.file.encoding)


def show_a_run(on: Console, example: Example | None = None) -> str:
    with Progress(on, STEPS) as progress:
        progress.opening([("machine", "2 cores"), ("model", "abacus")])
        progress.evaluated(evaluation(0, 20))
        for step in range(1, STEPS + 1):
            progress.step(metrics(step), evaluation(step, 150) if step % 4 == 0 else None)
        progress.closing(
            evaluation(0, 20),
            evaluation(STEPS, 190, thinks=0.99),
            example=example,
            files=[("curves", "runs/x/curves.png")],
            commands=[("rlvr chat runs/x", "ask it something")],
        )
    return seen(on)


def test_a_pipe_gets_one_line_every_fifth_step_and_each_evaluation() -> None:
    lines = show_a_run(console()).splitlines()
    steps = [int(line.split()[0]) for line in lines if line[:5].strip().isdigit()]
    assert steps == [0, 1, 4, 5, 8, 10, 12]
    assert [line.split() for line in lines].count([name for name, _ in COLUMNS]) == 1
    assert all("\x1b" not in line for line in lines)


def test_a_line_holds_the_step_s_numbers_and_the_latest_evaluation() -> None:
    line = next(line for line in show_a_run(console()).splitlines() if line.startswith("    5"))
    expected = "5 10 14 0.50 75.0% 75.0% 25% 12.3 0.125 25% 28.4k"
    assert line.split() == expected.split()


def test_a_long_opening_line_goes_on_under_its_own_text() -> None:
    on = console()
    Progress(on, STEPS).opening([("problems", "many kinds of sums; " * 6), ("seed", "0")])
    lines = seen(on).splitlines()
    assert lines[0].startswith("  problems  many kinds")
    assert lines[1].startswith("            ")
    assert any(line.startswith("  seed      0") for line in lines)


def test_nothing_is_wider_than_80_columns() -> None:
    for terminal in (False, True):
        plain = show_a_run(console(terminal=terminal))
        assert all(len(line) <= 80 for line in plain.splitlines() if "\x1b" not in line)
    assert sum(width for _, width in COLUMNS) <= 80


def test_a_terminal_sees_progress_rate_time_left_and_the_course_so_far() -> None:
    shown = show_a_run(console(terminal=True))
    assert "step 12 of 12" in shown
    assert "0.50 steps/s" in shown
    assert "held-out, greedy" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor comes back


def test_the_terminal_is_given_back_when_the_run_breaks() -> None:
    on = console(terminal=True)

    def break_off() -> None:
        with Progress(on, STEPS) as progress:
            progress.step(metrics(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert seen(on).endswith("\x1b[?25h")


def test_a_terminal_without_unicode_is_no_reason_to_stop() -> None:
    for terminal in (False, True):
        assert "step" in show_a_run(console(terminal=terminal, encoding="ascii"))


def test_a_resumed_run_does_not_count_the_time_before_it_into_its_rate() -> None:
    on = console()
    progress = Progress(on, steps=100, first_step=51)
    progress.step({"step": 51, "wall_s": 1000.0})
    progress.step({"step": 52, "wall_s": 1002.0}, evaluation(52, 1))
    lines = seen(on).splitlines()
    assert lines[1].split()[:3] == ["51", "16:40", "-"]
    assert lines[2].split()[:3] == ["52", "16:42", "1:36"]


def test_missing_numbers_show_as_dashes() -> None:
    on = console()
    Progress(on, STEPS).step({"step": 1, "reward/mean": None})
    assert seen(on).splitlines()[1].split() == ["1", *["-"] * 10]


def test_the_reader_is_told_once_why_no_loss_is_shown() -> None:
    assert " ".join(show_a_run(console()).split()).count("The loss is not shown") == 1


def answers(verdicts: Sequence[str], text: str = "no") -> list[Row]:
    return [
        {"problem_id": i, "problem": f"p{i}", "reference": "1", "text": text, "verdict": verdict}
        for i, verdict in enumerate(verdicts)
    ]


def test_the_example_is_a_problem_that_turned_from_wrong_to_right() -> None:
    before = answers(["correct", "incorrect", "incorrect"])
    after = answers(["correct", "incorrect", "correct"], text="<think>1</think>")
    found = telling_example(before, after)
    assert found is not None
    assert (found.problem, found.before, found.after) == ("p2", "no", "<think>1</think>")
    unturned = telling_example(before[:2], after[:2])
    assert unturned is not None
    assert unturned.problem == "p0"
    assert telling_example([], after) is None


def test_hostile_text_in_the_example_does_not_stop_the_closing() -> None:
    hostile = "\x1b[2J [/nope] \udcff"
    for encoding in ("utf-8", "ascii"):
        example = Example("p", "1", hostile, hostile, "incorrect", "correct")
        shown = show_a_run(console(encoding=encoding), example)
        assert "[/nope]" in shown
        assert "\x1b" not in shown


def test_a_long_course_is_squeezed_and_keeps_its_ends() -> None:
    drawn = sparkline([0.0] * 99 + [1.0], width=20)
    assert (len(drawn), drawn[0], drawn[-1]) == (20, "▁", "█")
    assert sparkline([1.0], width=20) == "█"
    assert sparkline([0.0, 1.0], width=20, ascii_only=True).isascii()


def test_seconds_round_before_they_are_split_into_minutes() -> None:
    assert [duration(value) for value in (59.6, 3599.7)] == ["1:00", "1:00:00"]

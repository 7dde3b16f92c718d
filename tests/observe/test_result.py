"""The result: intervals, honest conclusions, and hostile text."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from rlvr.observe.result import (
    Example,
    accuracy_table,
    meaning,
    printable,
    side_by_side,
)
from rlvr.observe.statistics import wilson

Row = dict[str, object]


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


def rendered(shown: RenderableType, *, terminal: bool = False) -> str:
    file = io.StringIO()
    on = Console(file=file, force_terminal=terminal, width=80, no_color=True)
    on.print(shown)
    return file.getvalue()


def test_the_result_has_both_intervals_and_every_kind() -> None:
    shown = rendered(accuracy_table(evaluation(0, 20), evaluation(9, 190)))
    greedy = next(line for line in shown.splitlines() if "greedy" in line)
    assert " ".join(greedy.split()) == "greedy 10.0% 6.6% - 14.9% 95.0% 91.0% - 97.3% 200"
    assert "sampled, by kind" in shown
    assert [name for name in ("sum", "word") if name in shown] == ["sum", "word"]


HOSTILE = "[bold]\\boxed{1}[/bold] \x1b[2J\x1b]0;own\x07 \r\x08 \u202e\u200b :smile: [/nope] \udcff"


def test_hostile_text_reaches_the_screen_as_harmless_characters() -> None:
    example = Example(HOSTILE, HOSTILE, HOSTILE, HOSTILE * 50, "incorrect", "correct")
    for terminal in (False, True):
        shown = rendered(side_by_side(example), terminal=terminal)
        assert "[bold]" in shown
        assert "smile" in shown
        assert not any(sign in shown for sign in ("\x1b[2J", "\x1b]", "\x07", "\x08", "\u202e"))


@given(st.text())
def test_what_is_printable_has_no_control_characters_left(text: str) -> None:
    shown = printable(text)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert printable(shown) == shown


def test_the_conclusion_claims_no_more_than_the_intervals_allow() -> None:
    start = evaluation(0, 100, thinks=0.1)
    assert "elicitation" in meaning(start, evaluation(9, 180, thinks=0.9))
    assert "elicitation" not in meaning(start, evaluation(9, 180, thinks=0.1))
    assert "overlap" in meaning(start, evaluation(9, 104, thinks=0.9))
    assert "fell" in meaning(start, evaluation(9, 20, thinks=0.9))


def test_the_conclusion_says_how_often_the_base_model_was_right_when_it_thought() -> None:
    start = evaluation(0, 20)
    split: Row = {"correct_if_thinks": {"accuracy": 0.47}, "correct_if_not": {"accuracy": 0.05}}
    said = meaning([row | split for row in start], evaluation(9, 180, thinks=0.9))
    assert "47.0% of those, against 5.0% of the rest" in said

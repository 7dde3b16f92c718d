"""What a run came to: accuracy before and after, what that means, two answers side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

Row = Mapping[str, object]
"""A line of `metrics.jsonl`, of `evals.jsonl`, or of a file under `answers/`."""

LONGEST_ANSWER = 600  # characters of an answer shown side by side
NO_NUMBER = "-"


@dataclass(frozen=True, slots=True)
class Example:
    """Two answers to one held-out problem."""

    problem: str
    reference: str
    before: str
    after: str
    before_verdict: str
    after_verdict: str


def accuracy_table(before: Sequence[Row], after: Sequence[Row]) -> Table:
    """Accuracy before and after with 95% intervals: over all problems, then by kind."""
    table = Table(box=None, pad_edge=True, header_style="bold", padding=(0, 1))
    table.add_column("held-out accuracy")
    headings = ("before", ""), ("95%", "dim"), ("after", "bold"), ("95%", "dim"), ("n", "")
    for name, style in headings:
        table.add_column(name, justify="right", style=style)
    for mode in ("greedy", "sampled"):
        was, now = of_mode(before, mode), of_mode(after, mode)
        if was and now:
            _compare(table, mode, was, now)
    mode = "sampled" if of_mode(after, "sampled") else "greedy"
    kinds_before, kinds_after = kinds_of(before, mode), kinds_of(after, mode)
    shared = [name for name in kinds_after if name in kinds_before]
    if len(shared) > 1:
        table.add_row()
        table.add_row(Text(f"{mode}, by kind", style="dim"))
        for name in shared:
            _compare(table, f"  {printable(name)}", kinds_before[name], kinds_after[name])
    return table


def _compare(table: Table, label: str, was: Row, now: Row) -> None:
    cells = [Text(label)]
    for row in (was, now):
        low, high = percent(number(row, "low")), percent(number(row, "high"))
        cells += [Text(percent(number(row, "accuracy"))), Text(f"{low} - {high}")]
    table.add_row(*cells, Text(str(int(number(now, "n") or 0))))


def meaning(before: Sequence[Row], after: Sequence[Row]) -> str:
    """What a reader may conclude from an evaluation before and one after, and what not."""
    mode = "sampled" if of_mode(after, "sampled") and of_mode(before, "sampled") else "greedy"
    was, now = of_mode(before, mode) or {}, of_mode(after, mode) or {}
    low, high = number(now, "low"), number(was, "high")
    thought, thinks = number(was, "thinks"), number(now, "thinks")
    if low is None or high is None:
        return "There is no pair of evaluations to compare."
    if low <= high:
        fell = (number(now, "high") or 0.0) < (number(was, "low") or 0.0)
        if fell:
            return (
                "Accuracy fell: this run made the model worse. Its checkpoints go back to step 0."
            )
        return (
            "The two intervals overlap: this run shows no gain in accuracy that chance can't give."
        )
    if thought and thinks and thinks > thought:
        return (
            f"The base model could do this already, but rarely chose to: it thought first in "
            f"{percent(thought)} of its answers{_if_thought(was)}; now it does in "
            f"{percent(thinks)}. The reward for right answers made a habit of what worked. That is "
            "elicitation of a skill the base model had, not a new one."
        )
    return (
        "Accuracy rose beyond what chance can give. Rewards pick out what the base model could "
        "do now and then; they show no new ability by themselves."
    )


def _if_thought(row: Row) -> str:
    thinking, direct = row.get("correct_if_thinks"), row.get("correct_if_not")
    if not isinstance(thinking, Mapping) or not isinstance(direct, Mapping):
        return ""
    right, otherwise = number(thinking, "accuracy"), number(direct, "accuracy")
    return f" and was right in {percent(right)} of those, against {percent(otherwise)} of the rest"


def side_by_side(example: Example) -> Table:
    """Two answers to one problem, beside each other, every character made harmless."""
    title = Text(f"{printable(example.problem)}   (answer: {printable(example.reference)})")
    table = Table(title=title, title_justify="left", title_style="bold", show_lines=False)
    for name, verdict in (("before", example.before_verdict), ("after", example.after_verdict)):
        style = "green" if verdict == "correct" else "dim"
        table.add_column(Text(f"{name}: {printable(verdict)}", style=style), ratio=1)
    table.add_row(Text(shortened(example.before)), Text(shortened(example.after)))
    return table


def shortened(text: str, longest: int = LONGEST_ANSWER) -> str:
    """A model's text for the screen: harmless, blank ends cut, its middle left out if long.

    >>> shortened("one two three four five", longest=9)
    'one t ... five'
    """
    shown = printable(text).strip()
    if len(shown) <= longest:
        return shown
    tail = longest // 2
    return f"{shown[: longest - tail]} ... {shown[-tail:]}"


def printable(text: str) -> str:
    r"""Text without control and invisible characters, which could drive or deceive a terminal.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent.

    >>> percent(0.975), percent(1.0, 0), percent(None)
    ('97.5%', '100%', '-')
    """
    return NO_NUMBER if share is None else f"{share:.{digits}%}"


def of_mode(rows: Sequence[Row], mode: str) -> Row | None:
    """The evaluation of a mode, `greedy` or `sampled`, if there is one."""
    return next((row for row in rows if row.get("mode") == mode), None)


def kinds_of(rows: Sequence[Row], mode: str) -> dict[str, Row]:
    """Accuracy by kind of problem, as the evaluation of a mode has it."""
    found = (of_mode(rows, mode) or {}).get("by_subject")
    if not isinstance(found, Mapping):
        return {}
    return {str(name): value for name, value in found.items() if isinstance(value, Mapping)}


def number(row: Row, key: str) -> float | None:
    """The number under a key, if there is one."""
    value = row.get(key)
    return float(value) if isinstance(value, (int, float)) else None

"""The run folder: settings, metrics, rollouts, evaluations; appended, locked, cut on resume."""

import fcntl
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

from rlvr.errors import UsageError
from rlvr.folders import SETTINGS
from rlvr.records import Group, Problem, Rollout

METRICS, EVALS, ROLLOUTS, ANSWERS = "metrics.jsonl", "evals.jsonl", "rollouts", "answers"


class RunFolder:
    """A run folder that this process alone writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    def create(self) -> None:
        """Make the folder; it must be new or empty.

        Raises:
            UsageError: There is something in it already, or it can't be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"can't make the run folder {self.path}: {error}.") from error
        if any(entry.name != "lock" for entry in self.path.iterdir()):
            what = "a run" if (self.path / SETTINGS).exists() else "something else"
            raise UsageError(
                f"{self.path} holds {what} already. Give another --out"
                + (f", or go on with --resume {self.path}." if what == "a run" else ".")
            )

    def lock(self) -> None:
        """Hold the folder until this process ends, however it ends.

        Raises:
            UsageError: Another process writes to it.
        """
        handle = (self.path / "lock").open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            raise UsageError(
                f"another process trains in {self.path}. Wait for it, stop it, or give "
                "another --out."
            ) from None
        self._lock = handle

    def release(self) -> None:
        """Let other processes have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def write_settings(self, text: str) -> None:
        """Write `run.toml`, whole or not at all."""
        write_whole(self.path / SETTINGS, text)

    def append_metrics(self, row: Mapping[str, object]) -> None:
        """Add the line of one step to `metrics.jsonl`."""
        append_line(self.path / METRICS, row)

    def append_eval(self, row: Mapping[str, object]) -> None:
        """Add one evaluation to `evals.jsonl`."""
        append_line(self.path / EVALS, row)

    def write_rollouts(self, step: int, sampled: Sequence[Group], trained: Sequence[Group]) -> None:
        """Write every rollout of a step to `rollouts/step-NNNNNN.jsonl`.

        First those that train, in the order in which they do, then those that do not.
        """
        folder = self.path / ROLLOUTS
        folder.mkdir(exist_ok=True)
        used = {id(group) for group in trained}
        others = [group for group in sampled if id(group) not in used]
        rows = [(group, True) for group in trained] + [(group, False) for group in others]
        lines = (
            rollout_line(group.problem, rollout, step=step, trained=trains)
            for group, trains in rows
            for rollout in group.rollouts
        )
        write_whole(folder / f"step-{step:06d}.jsonl", "".join(lines))

    def write_answers(self, name: str, answers: Iterable[tuple[Problem, Rollout]]) -> None:
        """Write the answers of one evaluation to `answers/NAME.jsonl`."""
        folder = self.path / ANSWERS
        folder.mkdir(exist_ok=True)
        lines = (rollout_line(problem, rollout) for problem, rollout in answers)
        write_whole(folder / f"{name}.jsonl", "".join(lines))

    def metrics(self) -> list[dict[str, object]]:
        """All whole lines of `metrics.jsonl`."""
        return read_lines(self.path / METRICS)

    def evals(self) -> list[dict[str, object]]:
        """All whole lines of `evals.jsonl`."""
        return read_lines(self.path / EVALS)

    def cut_back(self, step: int) -> None:
        """Forget what lies after a step, so that going on equals never having stopped."""
        for name in (METRICS, EVALS):
            kept = [row for row in read_lines(self.path / name) if _step(row) <= step]
            write_whole(self.path / name, "".join(map(json_line, kept)))
        for path in (self.path / ROLLOUTS).glob("step-*.jsonl*"):
            if int(path.name[5:11]) > step:
                path.unlink()


def _step(row: Mapping[str, object]) -> int:
    step = row.get("step")
    return step if isinstance(step, int) else 0


def json_line(row: Mapping[str, object]) -> str:
    """One line of strict JSON; a number that is not finite becomes null."""
    return json.dumps(_finite(row), allow_nan=False) + "\n"


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return value


def append_line(path: Path, row: Mapping[str, object]) -> None:
    """Add one line to a file, in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json_line(row))


def read_lines(path: Path) -> list[dict[str, object]]:
    """The whole lines of a JSONL file; a last line cut by a kill is left out."""
    return list(_whole_lines(path)) if path.is_file() else []


def _whole_lines(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if line.endswith("\n") and isinstance(row, dict):
                yield row


def write_whole(path: Path, text: str) -> None:
    """Replace a file by its new text: written beside, then renamed."""
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def rollout_line(
    problem: Problem, rollout: Rollout, step: int | None = None, trained: bool | None = None
) -> str:
    """One rollout as a line of JSON: problem, tokens with log-probabilities, score."""
    score = rollout.score
    judging: dict[str, object] = {}
    if problem.alternatives:
        judging |= {"alternatives": list(problem.alternatives)}
    if problem.scorer:
        judging |= {"scorer": problem.scorer, "entry": problem.entry}
    return json_line(
        {
            "step": step,
            "trained": trained,
            "problem_id": problem.id,
            "problem": problem.prompt,
            "reference": problem.answer,
            **judging,
            "subject": problem.subject,
            "group_id": rollout.group_id,
            "slot": rollout.slot,
            "text": rollout.text,
            "opened": rollout.opened,
            "value": score.value if score else None,
            "verdict": score.verdict if score else None,
            "reason": score.reason if score else None,
            "answer": score.answer if score else None,
            "parts": dict(score.parts) if score else {},
            "finish_reason": rollout.finish_reason,
            "prompt_tokens": list(rollout.prompt_tokens),
            "answer_tokens": list(rollout.answer_tokens),
            "sampler_logprobs": [_short(value) for value in rollout.sampler_logprobs],
            "sampler_entropies": [round(value, 5) for value in rollout.sampler_entropies],
            "sampling": asdict(rollout.sampling),
            "kept": [list(ids) for ids in rollout.kept],
            "seed": rollout.seed,
            "weights_version": rollout.weights_version,
        }
    )


def _short(value: float) -> float:
    """A float32 in the fewest digits that give it back exactly."""
    return float(f"{value:.9g}")

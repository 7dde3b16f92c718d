"""`rlvr eval` at work: models load, answer, are graded, and their answers are stored."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rlvr.commands.options import write_json
from rlvr.config import Config
from rlvr.errors import UsageError
from rlvr.folders import SETTINGS
from rlvr.model.suggested import not_applied
from rlvr.model.tokens import load_tokens
from rlvr.model.weights import load_model, read_shape
from rlvr.observe.evaluate import Accuracy, Evaluated, evaluate
from rlvr.observe.runlog import rollout_line, write_whole
from rlvr.observe.statistics import pass_at_k_interval
from rlvr.problems.names import short_name
from rlvr.problems.prompts import render
from rlvr.records import Problem, Sampling
from rlvr.run import check_references
from rlvr.training.machine import measure
from rlvr.training.memory import available_memory, memory_needed, refuse_too_large


@dataclass(frozen=True, slots=True)
class Asked:
    """What an evaluation was asked for."""

    problems: Sequence[Problem]
    set_name: str
    sampling: Sampling
    samples: int
    seed: int
    lenient: bool
    """Whether the last number of an unmarked answer is taken, of whatever model."""


def evaluate_all(
    folders: Mapping[str, Path],
    trained: Mapping[str, Config],
    asked: Asked,
    threads: int,
    *,
    as_json: bool,
) -> None:
    """Evaluate models one by one, each result told when it is there.

    Args:
        folders: Model directories by the name that was given.
        trained: The settings each was trained with, with the template and stop asked for.
        asked: What to evaluate.
        threads: Processor threads; 0 measures.
        as_json: An object a line instead of lines for a reader.

    Raises:
        UsageError: A reference can't be graded, or a model can't be read, is too small for the
            answers or too large for the memory.
    """
    check_references(asked.problems)
    for name, folder in folders.items():
        check_room(folder, trained[name].template, asked)
        note = not_applied(name, folder, asked.sampling)
        sys.stderr.write(f"rlvr: {note}\n" if note else "")
    machine = measure(threads)
    for name, folder in folders.items():
        model = load_model(folder)
        with torch.no_grad():
            weights = model.decoder.weights(getattr(torch, machine.dtype))
        result = evaluate(
            weights,
            model.tokens,
            asked.problems,
            replace(asked.sampling, stop=trained[name].rollouts.stops),
            template=trained[name].template,
            set_name=asked.set_name,
            samples=asked.samples,
            seed=asked.seed,
            lenient=asked.lenient or trained[name].reward.lenient,
        )
        stored = store(name, result)
        if as_json:
            write_json({"model": name, **result.row(), **passes(result), "answers": str(stored)})
        else:
            sys.stdout.write(report(name, result, stored))


def check_room(folder: Path, template: str, asked: Asked) -> None:
    """Refuse what passes the model's context or the memory, before any weights load."""
    shape, tokens = read_shape(folder), load_tokens(folder)
    longest = max(
        len(tokens.encode_prompt(render(template, problem))) for problem in asked.problems
    )
    room = shape.max_position_embeddings - longest
    if asked.sampling.max_new_tokens > room:
        raise UsageError(
            f"--max-new-tokens is {asked.sampling.max_new_tokens}, but {folder.name} reads "
            f"{shape.max_position_embeddings} tokens and the longest prompt has {longest}. "
            f"Use {room} or less."
        )
    rows, width = len(asked.problems) * asked.samples, longest + asked.sampling.max_new_tokens
    needed = memory_needed(shape, rows=rows, width=width, trains=False)
    refuse_too_large(folder.name, needed, "--max-new-tokens or --count", available_memory())


def store(name: str, result: Evaluated) -> Path:
    """Keep the answers: in the run's folder, else under `runs/evals/`."""
    run = Path(name)
    folder = run / "answers" if (run / SETTINGS).is_file() else Path("runs/evals")
    label = "" if (run / SETTINGS).is_file() else f"{run.name}-"
    problems = short_name(result.set)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't keep the answers in {folder}: {error}.") from error
    path = folder / f"eval-{label}{problems}-{result.mode}.jsonl"
    write_whole(path, "".join(rollout_line(problem, answer) for problem, answer in result.answers))
    return path


def passes(result: Evaluated) -> dict[str, object]:
    """pass@k over the problems for k = 1, 2, 4, … up to the answers per problem."""
    if result.samples == 1:
        return {}
    correct: dict[int, int] = {}
    for _, rollout in result.answers:
        right = bool(rollout.score and rollout.score.verdict == "correct")
        correct[rollout.group_id] = correct.get(rollout.group_id, 0) + right
    found: dict[str, object] = {}
    k = 1
    while k <= result.samples:
        over = pass_at_k_interval(list(correct.values()), result.samples, k)
        found[f"pass@{k}"] = {
            "accuracy": over.estimate,
            "low": over.low,
            "high": over.high,
            "n": len(correct),
        }
        k *= 2
    return found


def report(name: str, result: Evaluated, stored: Path) -> str:
    """An evaluation as lines for a reader."""
    lines = [
        f"{name} on {result.set}, {result.mode}, {result.overall.n} answers",
        f"  accuracy        {interval(result.overall)}",
        *(f"    {subject:<14}{interval(found)}" for subject, found in result.by_subject.items()),
        *(f"  {key:<16}{interval(Accuracy(**found))}" for key, found in passes(result).items()),  # type: ignore[arg-type]
        f"  thinks          {result.thinks:.1%} of the answers",
    ]
    for label, found in (
        ("right if it does", result.correct_if_thinks),
        ("right if not", result.correct_if_not),
    ):
        if found:
            lines.append(f"  {label:<16}{interval(found)}")
    lines.append(f"  length          {result.length:.1f} tokens, {result.truncated:.1%} cut")
    lines.append(f"  answers         {stored}")
    return "\n".join(lines) + "\n"


def interval(found: Accuracy) -> str:
    """A share with its 95% interval."""
    return f"{found.accuracy:6.1%}  (95%: {found.low:.1%} to {found.high:.1%}, n {found.n})"

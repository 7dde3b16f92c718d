"""`rlvr eval`: accuracy of models and runs on held-out problems, answers stored."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from rlvr.commands.options import Options, number, whole_number, write_json
from rlvr.config import Config, read_toml, resolve
from rlvr.errors import UsageError
from rlvr.model.tokens import load_tokens
from rlvr.model.weights import load_model, read_shape
from rlvr.observe.evaluate import SEED, Accuracy, Evaluated, evaluate
from rlvr.observe.runlog import SETTINGS, rollout_line, write_whole
from rlvr.observe.statistics import pass_at_k_interval
from rlvr.problems.names import short_name
from rlvr.problems.prompts import render
from rlvr.problems.sources import load_problems
from rlvr.records import Problem, Sampling
from rlvr.run import check_references, model_folder
from rlvr.training.machine import measure


@dataclass(frozen=True, slots=True)
class Asked:
    """What an evaluation was asked for."""

    problems: Sequence[Problem]
    set_name: str
    sampling: Sampling
    samples: int
    seed: int


def eval_command(about: str, words: Sequence[str]) -> int:
    """Evaluate each model on the same problems with the same draws."""
    parser = Options("eval", about, "MODEL-OR-RUN... [--problems NAME] [--temperature T] ...")
    parser.add_argument("models", nargs="*", metavar="MODEL-OR-RUN")
    parser.add_argument(
        "--problems", default="arithmetic", help="a name of rlvr problems, or a file"
    )
    parser.add_argument("--count", default="0", help="only the first so many held-out problems")
    parser.add_argument("--temperature", default="0", help="0 is greedy, the default")
    parser.add_argument("--samples", default="1", help="answers per problem, for pass@k")
    parser.add_argument("--max-new-tokens", default="128", help="longest answer in tokens")
    parser.add_argument(
        "--lenient", action="store_true", help="also take the last number of an unmarked answer"
    )
    parser.add_argument("--seed", default=str(SEED), help="names the draws")
    parser.add_argument("--threads", default="0", help="0 measures")
    parser.add_argument("--json", action="store_true", help="one object a line, nothing else")
    given = parser.parse(words)
    if not given.models:
        parser.error("name a model or a run, such as abacus")
    temperature = number(parser, "--temperature", given.temperature, 0, 100)
    samples = whole_number(parser, "--samples", given.samples, 1)
    if samples > 1 and temperature == 0:
        parser.error("several greedy answers are all the same; add --temperature 1")
    source = load_problems(given.problems)
    count = whole_number(parser, "--count", given.count, 0) or len(source.held_out)
    longest = whole_number(parser, "--max-new-tokens", given.max_new_tokens, 1)
    asked = Asked(
        problems=source.held_out[:count],
        set_name=source.name,
        sampling=Sampling(temperature=temperature, max_new_tokens=longest),
        samples=samples,
        seed=whole_number(parser, "--seed", given.seed, 0),
    )
    check_references(asked.problems)
    folders = {name: model_folder(name) for name in given.models}
    templates = {name: settings_of(name).template for name in given.models}
    for name, folder in folders.items():
        check_room(folder, templates[name], asked)
    machine = measure(whole_number(parser, "--threads", given.threads, 0))
    for name, folder in folders.items():
        model = load_model(folder)
        with torch.no_grad():
            weights = model.decoder.weights(getattr(torch, machine.dtype))
        result = evaluate(
            weights,
            model.tokens,
            asked.problems,
            asked.sampling,
            template=templates[name],
            set_name=asked.set_name,
            samples=samples,
            seed=asked.seed,
            lenient=given.lenient or settings_of(name).reward.lenient,
        )
        stored = store(name, result)
        if given.json:
            write_json({"model": name, **result.row(), **passes(result), "answers": str(stored)})
        else:
            sys.stdout.write(report(name, result, stored))
    return 0


def settings_of(name: str) -> Config:
    """The settings a run was trained with; the defaults for a model."""
    settings = Path(name) / SETTINGS
    return resolve(read_toml(settings)) if settings.is_file() else Config()


def check_room(folder: Path, template: str, asked: Asked) -> None:
    """Refuse answers longer than the model's context, before any weights load."""
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

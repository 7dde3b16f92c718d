"""One GRPO step of a real model, by rlvr and by the installed trl, on this machine.

    .venv/bin/python benchmarks/step.py [--steps 2] [--only rlvr|trl-fp32|trl-bf16] [--json]

SmolLM2-135M, all weights trained: 4 prompts, 8 answers each of exactly 128 tokens, one optimizer
step. Each side runs in a process of its own, one after the other: rlvr (bfloat16 where the machine
is faster in it, over float32 master weights), trl with a float32 model, trl with a pure bfloat16
model. One step warms up, the median of the others counts. Half of the answers of every group get
reward 1, so nothing is skipped. trl: all 32 answers in one device batch, no gradient checkpointing,
end tokens held back to 128; the rest are its defaults. Ratios hold better than seconds.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from measuring import (
    arguments,
    find_model,
    in_its_own_process,
    machine_line,
    number,
    peak_bytes,
    prompts,
    say,
    table,
    told,
)

from rlvr.errors import UsageError
from rlvr.model.tokens import load_tokens
from rlvr.model.weights import Model, load_model
from rlvr.objective.loss import Controls
from rlvr.objective.variants import variant
from rlvr.records import Group, Problem, Rollout, Sampling, Score
from rlvr.rollout.engine import Draws, sample_rows
from rlvr.training.batching import make_batch, outcomes_of
from rlvr.training.machine import measure
from rlvr.training.optimiser import make_optimizer
from rlvr.training.settings import Optimiser
from rlvr.training.update import Learner, optimise

SIDES = ("rlvr", "trl-fp32", "trl-bf16")
PHASES = ("rollout", "logprobs", "update")
VARIANT = variant("olmo3")
LR = 1e-6
NUMBERS = {
    "problems": (4, "prompts in the step"),
    "answers": (8, "answers per prompt"),
    "length": (128, "tokens of each answer"),
    "steps": (2, "steps that count"),
    "warm": (1, "steps before them"),
}
"""Options by name: default and meaning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The step that every side does, and how often."""

    model: Path
    problems: int = 4
    answers: int = 8
    """Per problem."""
    length: int = 128
    """Of each answer, in tokens."""
    steps: int = 2
    """Counted ones."""
    warm: int = 1
    """Steps before them."""
    threads: int = 0
    """0 measures."""


@dataclass(slots=True)
class Measured:
    """What one side took; a list has a number per counted step."""

    version: str
    dtype: str
    threads: int
    step_seconds: list[float] = field(default_factory=list)
    rollout_seconds: list[float] = field(default_factory=list)
    logprobs_seconds: list[float] = field(default_factory=list)
    """Of ours alone: forward passes. trl's are in its update."""
    update_seconds: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    """Mean distance of the sampler's log-probabilities to the learner's, in nats."""
    peak_bytes: int = 0


def reward(slot: int) -> float:
    """Of an answer by its place in the group: every group of two or more has a signal."""
    return float(slot % 2)


def run_rlvr(task: Task) -> Measured:
    """Steps by rlvr, with its default settings."""
    machine = measure(task.threads)
    model = load_model(task.model)
    settings = Optimiser(lr=LR)
    dtype = getattr(torch, machine.dtype)
    optimizer = make_optimizer(model.decoder, settings)
    learner = Learner(model.decoder, optimizer, VARIANT, settings, dtype)
    found = Measured(importlib.metadata.version("rlvr"), machine.dtype, machine.threads)
    for step in range(1, task.warm + task.steps + 1):
        began = time.perf_counter()
        groups = sampled(model, task, step, dtype)
        rollout = time.perf_counter() - began
        update = optimise(
            learner,
            make_batch(groups, VARIANT, model.tokens.pad_id, weights_version=step),
            outcomes_of(groups, {}, VARIANT),
            Controls.of(VARIANT),
            lr=LR,
            seed=0,
            step=step,
        )
        whole = time.perf_counter() - began
        seen = update.seen[0]
        trained, tokens = len(seen.logprobs), task.problems * task.answers * task.length
        if update.skipped or trained != tokens:
            raise UsageError(f"rlvr trained {trained} of {tokens} tokens: not the step to measure.")
        if step > task.warm:
            found.step_seconds.append(whole)
            found.rollout_seconds.append(rollout)
            found.logprobs_seconds.append(update.seconds_logprobs)
            found.update_seconds.append(whole - rollout - update.seconds_logprobs)
            found.gap.append(float((seen.logprobs - seen.sampler_logprobs).abs().mean()))
    found.peak_bytes = peak_bytes()
    return found


def sampled(model: Model, task: Task, step: int, dtype: torch.dtype) -> list[Group]:
    """Scored groups of answers of full length: no token ends them."""
    texts = prompts(task.problems)
    encoded = [model.tokens.encode(text) for text in texts]
    sampling = Sampling(max_new_tokens=task.length)
    with torch.no_grad():
        weights = model.decoder.weights(dtype)
    keys, draws = list(range(task.problems)), Draws(0, step)
    answers = sample_rows(weights, encoded, keys, task.answers, sampling, draws, ())
    ids, logprobs = answers.tokens.tolist(), answers.logprobs.tolist()
    entropies = answers.entropies.tolist()
    groups = []
    for group, text in enumerate(texts):
        rollouts = [
            Rollout(
                problem_id=str(group),
                group_id=group,
                slot=slot,
                prompt_tokens=encoded[group],
                answer_tokens=ids[row],
                sampler_logprobs=logprobs[row],
                finish_reason="length",
                text=model.tokens.decode(ids[row]),
                sampling=sampling,
                seed=0,
                weights_version=step,
                sampler_entropies=entropies[row],
                score=Score(reward(slot), "correct" if reward(slot) else "incorrect", ""),
            )
            for slot, row in enumerate(range(group * task.answers, (group + 1) * task.answers))
        ]
        groups.append(Group(Problem(str(group), text, "", "benchmark"), rollouts))
    return groups


def run_trl(task: Task, dtype: str) -> Measured:
    """Steps by trl's GRPOTrainer, the model and its optimizer in `dtype`."""
    if importlib.util.find_spec("trl") is None:
        raise UsageError("trl is not installed. Install it with: make install-dev")
    trl, transformers, datasets = map(import_module, ("trl", "transformers", "datasets"))
    transformers.utils.logging.set_verbosity_error()
    threads = measure(task.threads).threads
    found = Measured(importlib.metadata.version("trl"), dtype, threads)
    rows = task.problems * task.answers
    spent = 0.0  # in generation, this step

    def reward_by_slot(completion_ids: list[list[int]], **_: object) -> list[float]:
        lengths = {len(ids) for ids in completion_ids}
        if len(completion_ids) != rows or lengths != {task.length}:
            raise UsageError(f"trl made answers of {lengths} tokens, not of {task.length}.")
        return [reward(row % task.answers) for row in range(rows)]

    class Watch(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        """Times whole steps, from the first prompt to the last weight."""

        began = 0.0

        def on_step_begin(self, *_: object, **__: object) -> None:
            nonlocal spent
            self.began, spent = time.perf_counter(), 0.0

        def on_step_end(self, _: object, state: Any, *__: object, **___: object) -> None:
            whole = time.perf_counter() - self.began
            if state.global_step > task.warm:
                found.step_seconds.append(whole)
                found.rollout_seconds.append(spent)
                found.update_seconds.append(whole - spent)

    with tempfile.TemporaryDirectory() as folder:
        trainer = trl.GRPOTrainer(
            model=str(task.model),
            reward_funcs=reward_by_slot,
            args=trl.GRPOConfig(output_dir=folder, **trl_settings(task, dtype)),
            train_dataset=datasets.Dataset.from_list(
                [{"prompt": p} for p in prompts(task.problems)]
            ),
            callbacks=[Watch()],
        )
        same_prompts(trainer, task)
        generate = trainer.model.generate

        def timed(*given: Any, **named: Any) -> Any:
            nonlocal spent
            began = time.perf_counter()
            made = generate(*given, **named)
            spent += time.perf_counter() - began
            return made

        trainer.model.generate = timed
        trainer.train()
    if torch.get_num_threads() != threads or len(found.step_seconds) != task.steps:
        raise UsageError("trl changed the number of threads or of steps: nothing to compare.")
    found.peak_bytes = peak_bytes()
    return found


def trl_settings(task: Task, dtype: str) -> dict[str, object]:
    """One update on all answers at once; whatever is not the step itself is off."""
    return dict(
        model_init_kwargs={"dtype": dtype},
        bf16=False,  # no autocast: all in the model's own format
        use_cpu=True,
        per_device_train_batch_size=task.problems * task.answers,
        gradient_accumulation_steps=1,
        gradient_checkpointing=False,
        num_generations=task.answers,
        max_completion_length=task.length,
        generation_kwargs={"min_new_tokens": task.length},
        temperature=1.0,
        beta=0.0,
        learning_rate=LR,
        lr_scheduler_type="constant",
        max_steps=task.warm + task.steps,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=0,
    )


def same_prompts(trainer: Any, task: Task) -> None:
    """Refuse to compare steps on other tokens."""
    texts = prompts(task.problems)
    tokens = load_tokens(task.model)
    if trainer.processing_class(text=texts)["input_ids"] != [tokens.encode(t) for t in texts]:
        raise UsageError("trl and rlvr read the prompts as other tokens: nothing to compare.")


def result_of(sides: Mapping[str, Measured], task: Task, machine: str) -> dict[str, object]:
    """Medians of each side, and how many times faster and larger trl is, where both ran.

    Args:
        sides: By name, of `SIDES`.
        task: What they did.
        machine: In words.
    """
    step = f"{task.problems} prompts x {task.answers} answers x {task.length} tokens"
    result: dict[str, object] = {"machine": machine, "step": step, "counted_steps": task.steps}
    for name, side in sides.items():
        for part, value in asdict(side).items():
            result[f"{key_of(name)}/{part}"] = middle(value) if isinstance(value, list) else value
        result[f"{key_of(name)}/each_step_seconds"] = side.step_seconds
    ours = sides.get("rlvr")
    for name, side in sides.items():
        if ours is not None and name != "rlvr":
            theirs_seconds, our_seconds = (
                statistics.median(one.step_seconds) for one in (side, ours)
            )
            result[f"faster_than_{key_of(name)}"] = theirs_seconds / our_seconds
            result[f"memory_of_{key_of(name)}"] = ours.peak_bytes / side.peak_bytes
    return result


def middle(values: list[float]) -> float | None:
    """The median; None where nothing was measured."""
    return statistics.median(values) if values else None


def key_of(side: str) -> str:
    """A side's name as keys of the result spell it."""
    return side.replace("-", "_")


def shown(result: Mapping[str, Any]) -> str:
    """The result as a table of plain text."""
    rows = []
    for name in SIDES:
        key = key_of(name)
        if f"{key}/version" not in result:
            continue
        of = {part.partition("/")[2]: v for part, v in result.items() if part.startswith(key + "/")}
        phases = [number(of[f"{phase}_seconds"], 1) for phase in PHASES]
        rows.append(
            [
                f"{name.partition('-')[0]} {of['version']} {of['dtype']}",
                number(of["step_seconds"], 1),
                *phases,
                number(of["peak_bytes"] / 1e9),
                number(result.get(f"faster_than_{key}")),
                number(result.get(f"memory_of_{key}")),
            ]
        )
    head = ("", "step s", "rollout", "logprobs", "update", "peak GB", "rlvr faster", "its memory")
    lines = [f"{result['step']}, one update, on {result['machine']}", table(head, rows)]
    gap = result.get("rlvr/gap")
    if gap is not None:
        lines.append(f"log-probabilities, sampler to learner: {gap:.4f} nats apart on average\n")
    return "\n".join(lines)


def measured(side: str, task: Task) -> Measured:
    """A side's steps, in a process of its own."""
    return Measured(**in_its_own_process(Path(__file__), {"side": side, **asdict(task)}))


RUNS: dict[str, Callable[[Task], Measured]] = {
    "rlvr": run_rlvr,
    "trl-fp32": lambda task: run_trl(task, "float32"),
    "trl-bf16": lambda task: run_trl(task, "bfloat16"),
}


def main() -> None:
    """Measure each side in its own process and print; or be one of them."""
    parser = arguments(__doc__ or "", NUMBERS)
    parser.add_argument("--only", choices=SIDES, help="one side alone")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    numbers = {name: getattr(given, name) for name in (*NUMBERS, "threads")}
    task = Task(model=find_model(given.model), **numbers)
    if given.side:
        done = RUNS[given.side](task)
        given.into.write_text(json.dumps(asdict(done)), encoding="utf-8")
        return
    sides: dict[str, Measured] = {}
    for name in [given.only] if given.only else SIDES:
        say(f"{name}: {task.warm} + {task.steps} steps ...")
        sides[name] = measured(name, task)
        task = replace(task, threads=sides[name].threads)  # the same for all
        say(f"{name}: {statistics.median(sides[name].step_seconds):.1f} s a step")
    result = result_of(sides, task, machine_line())
    sys.stdout.write(json.dumps(result) + "\n" if given.json else shown(result))


if __name__ == "__main__":
    told(main)

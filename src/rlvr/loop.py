"""The training loop: the page to read first.

Data flows down the page: problems, groups of rollouts, scores, a batch, an optimizer step, metrics.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from rlvr.errors import UsageError
from rlvr.objective.variants import Variant
from rlvr.observe.evaluate import Evaluated, evaluate
from rlvr.observe.metrics import (
    Values,
    advantage_metrics,
    rollout_metrics,
    row,
    update_metrics,
)
from rlvr.problems.prompts import render
from rlvr.records import Group, Problem, Rollout
from rlvr.rewards import Reward, reward
from rlvr.rollout.engine import Draws, rollouts
from rlvr.run import Run
from rlvr.training.batching import make_batch
from rlvr.training.checkpoint import save_checkpoint
from rlvr.training.machine import peak_memory_bytes
from rlvr.training.optimiser import Update, learning_rate, optimise

NONFINITE_MOST = 3  # steps in a row without a finite gradient before the run stops


@runtime_checkable
class Watcher(Protocol):
    """Who is shown a run while it goes on."""

    def evaluated(self, step: int, results: Sequence[Evaluated]) -> None:
        """An evaluation ended, greedy and sampled."""

    def stepped(self, metrics: Values) -> None:
        """A step ended."""


def train(run: Run, watcher: Watcher) -> None:
    """Train to the last step, or to the end of the step in which stopping is asked."""
    begin(run, watcher)
    for step in range(run.progress.step + 1, run.config.steps + 1):
        timer = Timer(run.clock)
        problems = run.source.take(run.config.seed, step, run.config.rollouts.problems_per_step)
        with timer("rollout"):
            groups = sample_groups(run, step, problems)
        with timer("reward"):
            groups = [score_group(group, run.config.reward, run.config.variant) for group in groups]
        run.folder.write_rollouts(step, groups)
        batch = make_batch(groups, run.config.variant, run.model.tokens.pad_id)
        update = optimise(
            run.model.decoder,
            run.optimizer,
            batch,
            run.config.variant,
            run.config.optimiser,
            lr=learning_rate(run.config.optimiser, step, run.config.steps),
            dtype=run.dtype,
            reference=run.reference,
            clock=run.clock,
        )
        with timer("eval"):
            evaluate_if_due(run, step, watcher)
        metrics = rollout_metrics(groups) | step_metrics(run, update) | timer.metrics(update)
        advance(run, step, metrics, watcher)
        save_if_due(run, step)
        if run.stop_asked:
            break


def begin(run: Run, watcher: Watcher) -> None:
    """Before the first step: evaluate the start and save it as checkpoint 0."""
    if run.progress.step == 0:
        run.folder.cut_back(-1)
        evaluate_now(run, 0, run.config.evaluation.final_problems, watcher)
        save_checkpoint(run.folder.path, run.model, run.optimizer, run.progress)
    run.resumed_at = run.clock()


def sample_groups(run: Run, step: int, problems: Sequence[Problem]) -> list[Group]:
    """G answers to each problem from the weights as they are now."""
    size = run.config.rollouts.group_size
    sampled = rollouts(
        run.sampling_weights(),
        run.model.tokens,
        problems,
        [render(run.config.template, problem) for problem in problems],
        size,
        run.config.rollouts.sampling,
        Draws(run.config.seed, step),
        weights_version=step - 1,
    )
    return [
        Group(problem, [next(sampled) for _ in range(size)]) for problem in problems
    ]  # a problem's answers come side by side


def score_group(group: Group, settings: Reward, variant: Variant) -> Group:
    """The group with a score on every rollout."""
    return Group(
        group.problem,
        [score_rollout(group.problem, rollout, settings, variant) for rollout in group.rollouts],
    )


def score_rollout(
    problem: Problem, rollout: Rollout, settings: Reward, variant: Variant
) -> Rollout:
    """The rollout with its score."""
    score = reward(
        problem,
        rollout.text,
        settings,
        tokens=len(rollout.answer_tokens),
        finished=rollout.finish_reason == "stop",
        limit=rollout.sampling.max_new_tokens,
        overlong=variant.overlong,
    )
    return replace(rollout, score=score)


def step_metrics(run: Run, update: Update) -> Values:
    """What the optimizer step did."""
    row, settings = run.config.variant, run.config.optimiser
    return {
        **advantage_metrics(update.row_advantages),
        **update_metrics(
            update,
            clip_low=row.clip_low,
            clip_high=row.clip_high,
            max_grad_norm=settings.max_grad_norm,
        ),
        "update/relative": update.relative,
    }


@dataclass(slots=True)
class Timer:
    """Exclusive seconds of the stages of one step."""

    clock: Callable[[], float]
    began: float = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Count the seconds inside to a stage."""
        before = self.clock()
        yield
        self.seconds[stage] = self.clock() - before

    def metrics(self, update: Update) -> Values:
        """The step's seconds by stage, and the memory it took."""
        seconds = self.seconds | {
            "logprob": update.seconds_logprobs,
            "update": update.seconds_update,
        }
        return {
            **{f"time/{stage}": value for stage, value in seconds.items()},
            "mem/peak": peak_memory_bytes(),
        }


def advance(run: Run, step: int, metrics: Values, watcher: Watcher) -> None:
    """Note the step in the run's progress and in `metrics.jsonl`."""
    done = run.progress
    nonfinite = done.nonfinite_in_a_row + 1 if metrics["grad/nonfinite"] else 0
    tokens = int(metrics["length/total"] or 0)
    run.progress = replace(
        done,
        step=step,
        tokens_seen=done.tokens_seen + tokens,
        wall_s=done.wall_s + run.clock() - run.resumed_at,
        nonfinite_in_a_row=nonfinite,
    )
    run.resumed_at = run.clock()
    line = row(
        {
            "step": step,
            "time": time.time(),
            "tokens_seen": run.progress.tokens_seen,
            "wall_s": run.progress.wall_s,
            "tokens_per_s": tokens / max(metrics["time/rollout"] or 0.0, 1e-9),
            **metrics,
        }
    )
    run.folder.append_metrics(line)
    watcher.stepped(line)
    if nonfinite >= NONFINITE_MOST:
        raise UsageError(
            f"the gradient was not finite in {nonfinite} steps in a row, up to step {step}. "
            f"Start from an older checkpoint in {run.folder.path} with a lower optimiser.lr."
        )


def evaluate_if_due(run: Run, step: int, watcher: Watcher) -> None:
    """Evaluate every so many steps on the first held-out problems, at the end on more."""
    settings = run.config.evaluation
    if step == run.config.steps:
        evaluate_now(run, step, settings.final_problems, watcher)
    elif settings.every_steps and step % settings.every_steps == 0:
        evaluate_now(run, step, settings.problems, watcher)


def evaluate_now(run: Run, step: int, count: int, watcher: Watcher) -> None:
    """Greedy and sampled accuracy on the first `count` held-out problems."""
    results, weights = [], run.sampling_weights()
    for temperature in (0.0, run.config.rollouts.temperature):
        result = evaluate(
            weights,
            run.model.tokens,
            run.source.held_out[:count],
            replace(run.config.rollouts.sampling, temperature=temperature),
            template=run.config.template,
            set_name=run.source.name,
        )
        wall = run.progress.wall_s + run.clock() - run.resumed_at if step else 0.0
        run.folder.append_eval({"step": step, "wall_s": wall, **result.row()})
        if step in (0, run.config.steps):
            run.folder.write_answers(f"step-{step:06d}-{result.mode}", result.answers)
        results.append(result)
    watcher.evaluated(step, results)


def save_if_due(run: Run, step: int) -> None:
    """Save a checkpoint every so many steps, at the end, and where stopping is asked."""
    due = step % run.config.checkpoints.every_steps == 0 or step == run.config.steps
    if due or run.stop_asked:
        save_checkpoint(run.folder.path, run.model, run.optimizer, run.progress)

"""The training loop: the page to read first.

Data flows down the page: problems, groups of rollouts, scores, a batch, an optimizer step, metrics.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from rlvr.errors import UsageError
from rlvr.groups import Gathered, gather
from rlvr.objective.loss import Outcomes
from rlvr.observe.evaluate import Evaluated, evaluate
from rlvr.observe.metrics import (
    Values,
    advantage_metrics,
    effective,
    rollout_metrics,
    row,
    update_metrics,
)
from rlvr.preflight import all_cut, cut_answers, unseen_tags
from rlvr.records import Group
from rlvr.run import Run
from rlvr.training.batching import Batch, make_batch, outcomes_of
from rlvr.training.checkpoint import save_checkpoint
from rlvr.training.machine import peak_memory_bytes
from rlvr.training.optimiser import learning_rate
from rlvr.training.update import Update, optimise

NONFINITE_MOST = 3  # steps in a row without a finite gradient before the run stops


@runtime_checkable
class Watcher(Protocol):
    """Who is shown a run while it goes on."""

    def evaluated(self, step: int, results: Sequence[Evaluated]) -> None:
        """An evaluation ended, greedy and sampled."""

    def stepped(self, metrics: Values) -> None:
        """A step ended."""

    def warned(self, text: str) -> None:
        """Something is most likely not meant."""


def train(run: Run, watcher: Watcher) -> None:
    """Train to the last step, or to the end of the step in which stopping is asked."""
    begin(run, watcher)
    for step in range(run.progress.step + 1, run.config.steps + 1):
        timer = Timer(run.clock)
        found = gather(run, step, timer)
        run.folder.write_rollouts(step, found.sampled, found.trained)
        update = optimise(
            run.learner,
            *batch_of(run, found.trained),
            run.progress.controls,
            lr=learning_rate(run.config.optimiser, step, run.config.steps),
            seed=run.config.seed,
            step=step,
        )
        with timer("eval"):
            evaluate_if_due(run, step, watcher)
        metrics = gathered_metrics(run, found) | step_metrics(run, update) | timer.metrics(update)
        advance(run, step, metrics, update, watcher)
        reset_reference_if_due(run, step)
        save_if_due(run, step)
        if run.stop_asked:
            break


def begin(run: Run, watcher: Watcher) -> None:
    """Before the first step: evaluate the start, say what can't work, save checkpoint 0."""
    if run.progress.step == 0:
        run.folder.cut_back(-1)
        results = evaluate_now(run, 0, run.config.evaluation.final_problems, watcher)
        warn(run, results, watcher)
        save_checkpoint(run.folder.path, run.model, run.optimizer, run.progress, run.carried)
    run.resumed_at = run.clock()


def warn(run: Run, results: Sequence[Evaluated], watcher: Watcher) -> None:
    """Say what the first evaluation shows will not be learnt."""
    config, model = run.config, run.model
    held_out = run.source.held_out
    weights = run.sampling_weights()
    found = [
        unseen_tags(config, weights, model.tokens, run.sampling, held_out, results),
        cut_answers(results, config.rollouts.max_new_tokens),
    ]
    for text in filter(None, found):
        watcher.warned(text)


def batch_of(run: Run, groups: Sequence[Group]) -> tuple[Batch | None, Outcomes | None]:
    """The answers that count, as tensors, and what they got; None where there are none."""
    if not groups:
        return None, None
    variant, pad_id = run.config.variant, run.model.tokens.pad_id
    batch = make_batch(groups, variant, pad_id, run.progress.updates)
    return batch, outcomes_of(groups, run.config.reward.weights, variant)


def gathered_metrics(run: Run, found: Gathered) -> Values:
    """What the sampled answers show, all of them, and how old those are that train."""
    now = run.progress.updates
    ages = [now - r.weights_version for group in found.trained for r in group.rollouts]
    weights = run.config.reward.weights
    return {
        **(rollout_metrics(found.sampled, weights) if found.sampled else {"length/total": 0}),
        "batch/rounds": found.rounds,
        "batch/carried": found.carried,
        "batch/effective": effective(found.trained, run.config.variant),
        "staleness/mean": sum(ages) / len(ages) if ages else None,
        "staleness/max": max(ages, default=None),
    }


def step_metrics(run: Run, update: Update) -> Values:
    """What the optimizer steps did."""
    return {
        **advantage_metrics(update.row_advantages),
        **update_metrics(update, max_grad_norm=run.config.optimiser.max_grad_norm),
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
        self.seconds[stage] = self.seconds.get(stage, 0.0) + self.clock() - before

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


def advance(run: Run, step: int, metrics: Values, update: Update, watcher: Watcher) -> None:
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
        updates=done.updates + update.optimizer_steps - update.nonfinite,
        controls=update.controls,
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
    alarm = all_cut(line, run.config.rollouts.max_new_tokens)
    if alarm and "cut" not in run.alarms:
        run.alarms.add("cut")
        watcher.warned(alarm)
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


def evaluate_now(run: Run, step: int, count: int, watcher: Watcher) -> list[Evaluated]:
    """Greedy and sampled accuracy on the first `count` held-out problems."""
    results, weights = list[Evaluated](), run.sampling_weights()
    for temperature in (0.0, run.config.rollouts.temperature):
        result = evaluate(
            weights,
            run.model.tokens,
            run.source.held_out[:count],
            replace(run.sampling, temperature=temperature),
            template=run.config.template,
            set_name=run.source.name,
            lenient=run.config.reward.lenient,
        )
        wall = run.progress.wall_s + run.clock() - run.resumed_at if step else 0.0
        run.folder.append_eval({"step": step, "wall_s": wall, **result.row()})
        if step in (0, run.config.steps):
            run.folder.write_answers(f"step-{step:06d}-{result.mode}", result.answers)
        results.append(result)
    watcher.evaluated(step, results)
    return results


def reset_reference_if_due(run: Run, step: int) -> None:
    """Make the policy the reference every so many steps, where the variant asks."""
    if resets_reference(run, step):
        run.reset_reference()


def resets_reference(run: Run, step: int) -> bool:
    """Whether the reference becomes the policy after this step."""
    every = run.config.variant.reference_every_steps
    return every > 0 and step % every == 0


def save_if_due(run: Run, step: int) -> None:
    """Save a checkpoint every so many steps, at the end, and where stopping is asked.

    Also where the reference became the policy: a resumed run finds it there.
    """
    due = step % run.config.checkpoints.every_steps == 0 or step == run.config.steps
    if due or run.stop_asked or resets_reference(run, step):
        save_checkpoint(run.folder.path, run.model, run.optimizer, run.progress, run.carried)

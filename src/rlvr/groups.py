"""The groups of a step: problems drawn, answers sampled and scored, again where too few teach."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from rlvr.errors import UsageError
from rlvr.objective.selection import still_hard
from rlvr.problems.prompts import render
from rlvr.records import Group, Problem
from rlvr.rollout.engine import Draws, rollouts
from rlvr.run import PROMPTS_CHECKED, Run
from rlvr.training.batching import groups_with_signal

Timing = Callable[[str], AbstractContextManager[None]]


@dataclass(slots=True)
class Gathered:
    """What a step sampled, and what of it trains."""

    sampled: list[Group] = field(default_factory=list)
    """All groups of this step's rounds, before any filter."""
    trained: list[Group] = field(default_factory=list)
    """The groups that count, those carried over from the step before first."""
    carried: int = 0
    """How many of them were carried over."""
    rounds: int = 0


def gather(run: Run, step: int, timing: Timing) -> Gathered:
    """The groups of a step, sampled in rounds until enough have a signal, where that is asked for.

    Each round asks all P problems of a step. Groups with a signal beyond P are carried to the next
    step. Source: dynamic sampling, DAPO, arXiv:2503.14476, section 3.2; active sampling, Olmo 3,
    arXiv:2512.13961. Differs: surplus groups are kept for the next step.
    """
    settings, variant = run.config.rollouts, run.config.variant
    wanted, found = settings.problems_per_step, Gathered()
    most = settings.rounds if variant.groups == "active" else 1
    found.trained, found.carried = run.carried.surplus, len(run.carried.surplus)
    while len(found.trained) < wanted and found.rounds < most:
        problems = draw_problems(run, wanted)
        with timing("rollout"):
            groups = sample_groups(run, step, found.rounds, problems)
        with timing("reward"):
            groups = run.scoring(
                groups, prompts_of(run, groups), Draws(run.config.seed, step, found.rounds)
            )
        found.rounds += 1
        found.sampled += groups
        found.trained += groups if variant.groups == "all" else groups_with_signal(groups, variant)
        remember(run, groups)
    found.trained, run.carried.surplus = found.trained[:wanted], found.trained[wanted:]
    return found


def draw_problems(run: Run, count: int) -> list[Problem]:
    """The next problems of the stream, without those that are solved too often to teach.

    Problems of a stream without end whose prompts are too long are passed over, as those of a list
    were when it was loaded.

    Raises:
        UsageError: One after the other is too long.
    """
    most, problems = run.config.variant.pass_rate_most, list[Problem]()
    passed_over, patience, too_long = 0, max(len(run.source.listed), count), 0
    while len(problems) < count:
        problem = run.source.training(run.config.seed, run.progress.drawn)
        run.progress = replace(run.progress, drawn=run.progress.drawn + 1)
        too_long = 0 if run.fits(problem) else too_long + 1
        if too_long > PROMPTS_CHECKED:
            raise UsageError(
                f"the last {too_long} problems of {run.source.name} were too long for the model "
                "with rollouts.max_new_tokens. Start with fewer, or ask for shorter problems."
            )
        if too_long:
            continue
        right, of = run.carried.pass_rates.get(problem.id, (0, 0))
        hard = most is None or still_hard(right / of if of else None, most)
        if hard or passed_over >= patience:  # where all are solved, any will do
            problems.append(problem)
        else:
            passed_over += 1
    return problems


def remember(run: Run, groups: Sequence[Group]) -> None:
    """Add a round's answers to the pass rates, where the variant asks for them."""
    if run.config.variant.pass_rate_most is None:
        return
    for group in groups:
        verdicts = [
            r.score.verdict for r in group.rollouts if r.score and r.score.value is not None
        ]
        right, of = run.carried.pass_rates.get(group.problem.id, (0, 0))
        now = (right + verdicts.count("correct"), of + len(verdicts))
        run.carried.pass_rates[group.problem.id] = now


def sample_groups(run: Run, step: int, round: int, problems: Sequence[Problem]) -> list[Group]:
    """G answers to each problem from the weights as they are now."""
    size = run.config.rollouts.group_size
    sampled = rollouts(
        run.sampling_weights(),
        run.model.tokens,
        problems,
        [render(run.config.template, problem) for problem in problems],
        size,
        run.sampling,
        Draws(run.config.seed, step, round),
        weights_version=run.progress.updates,
    )
    return [
        Group(problem, [next(sampled) for _ in range(size)]) for problem in problems
    ]  # a problem's answers come side by side


def prompts_of(run: Run, groups: Sequence[Group]) -> list[str]:
    """The prompt of each group as the model read it, whatever template made it."""
    return [run.model.tokens.decode(group.rollouts[0].prompt_tokens) for group in groups]

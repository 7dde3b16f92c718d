"""Accuracy on held-out problems: greedy or sampled, with intervals, by subject."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from rlvr.judging import judge_all
from rlvr.model.decoder import Weights
from rlvr.model.tokens import Tokens
from rlvr.observe.settings import SEED
from rlvr.observe.statistics import mean_interval, wilson
from rlvr.problems.prompts import render
from rlvr.records import OPEN, Problem, Rollout, Sampling
from rlvr.rollout.engine import Draws, rollouts


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A share of answers judged correct, with its 95% interval."""

    accuracy: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, correct: int, n: int) -> "Accuracy":
        """Of `correct` answers among `n`."""
        low, high = wilson(correct, n)
        return cls(correct / n, low, high, n)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Answers to a set of problems, graded, and what they come to."""

    set: str
    mode: str
    """`greedy` or `sampled`."""
    samples: int
    """Answers per problem."""
    overall: Accuracy
    by_subject: dict[str, Accuracy]
    thinks: float
    """Share of answers that open a thought, or begin in one that the prompt opened."""
    length: float
    """Mean answer length in tokens."""
    truncated: float
    """Share of answers that the length limit cut."""
    correct_if_thinks: Accuracy | None
    correct_if_not: Accuracy | None
    answers: tuple[tuple[Problem, Rollout], ...]
    """Every answer with its verdict, in the order of the problems."""

    def row(self) -> dict[str, object]:
        """As it stands in `evals.jsonl` and in `--json`."""
        names = ("correct_if_thinks", "correct_if_not")
        either = {
            name: value and asdict(value) for name in names for value in [getattr(self, name)]
        }
        return {
            "set": self.set,
            "mode": self.mode,
            "samples": self.samples,
            **asdict(self.overall),
            "thinks": self.thinks,
            "length": self.length,
            "truncated": self.truncated,
            **either,
            "by_subject": {name: asdict(value) for name, value in self.by_subject.items()},
        }


def evaluate(
    weights: Weights,
    tokens: Tokens,
    problems: Sequence[Problem],
    sampling: Sampling,
    *,
    template: str,
    set_name: str,
    samples: int = 1,
    seed: int = SEED,
    lenient: bool = False,
) -> Evaluated:
    """Answer problems and grade the answers; temperature 0 is greedy.

    An answer that could not be judged counts as not correct, and one cut by the length limit too.
    """
    prompts = [render(template, problem) for problem in problems]
    sampled = rollouts(
        weights,
        tokens,
        problems,
        prompts,
        samples,
        sampling,
        Draws(seed, step=0),
        weights_version=0,
    )
    answers = tuple(_graded(problems, list(sampled), lenient=lenient))
    by_subject: dict[str, list[Rollout]] = {}
    for problem, rollout in answers:
        by_subject.setdefault(problem.subject or "all", []).append(rollout)
    everything = [rollout for _, rollout in answers]
    thinking = [rollout for rollout in everything if OPEN in rollout.response]
    direct = [rollout for rollout in everything if OPEN not in rollout.response]
    count = len(everything)
    return Evaluated(
        set=set_name,
        mode="sampled" if sampling.temperature > 0 else "greedy",
        samples=samples,
        overall=accuracy(everything),
        by_subject={name: accuracy(found) for name, found in by_subject.items()},
        thinks=len(thinking) / count,
        length=sum(len(rollout.answer_tokens) for rollout in everything) / count,
        truncated=sum(rollout.finish_reason == "length" for rollout in everything) / count,
        correct_if_thinks=accuracy(thinking) if thinking else None,
        correct_if_not=accuracy(direct) if direct else None,
        answers=answers,
    )


def _graded(
    problems: Sequence[Problem], sampled: Sequence[Rollout], *, lenient: bool
) -> Iterator[tuple[Problem, Rollout]]:
    asked = [(problems[rollout.group_id], rollout.response) for rollout in sampled]
    scores = judge_all(asked, lenient=lenient)
    for (problem, _), rollout, score in zip(asked, sampled, scores, strict=True):
        if rollout.finish_reason == "length":
            score = replace(score, value=0.0, verdict="incorrect", reason="cut by the length limit")
        yield problem, replace(rollout, score=score)


def accuracy(rollouts: Sequence[Rollout]) -> Accuracy:
    """Share judged correct, with its interval.

    Several answers to a problem are no independent trials: where each problem has as many, the
    interval is that of a mean over problems, else Wilson's.
    """
    by_problem: dict[int, list[float]] = {}
    for rollout in rollouts:
        right = bool(rollout.score and rollout.score.verdict == "correct")
        by_problem.setdefault(rollout.group_id, []).append(float(right))
    sizes = {len(found) for found in by_problem.values()}
    if len(sizes) == 1 and sizes != {1}:
        over = mean_interval([sum(found) / len(found) for found in by_problem.values()])
        return Accuracy(over.estimate, over.low, over.high, len(rollouts))
    return Accuracy.of(int(sum(map(sum, by_problem.values()))), len(rollouts))

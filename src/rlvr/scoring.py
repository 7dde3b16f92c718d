"""Scores of sampled groups: each answer by itself, then beside its group, then by your function."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rlvr.errors import UsageError
from rlvr.judging import judge_all
from rlvr.length import LENGTHS, Lengths
from rlvr.model.distribution import uniforms
from rlvr.objective.slots import Variant
from rlvr.records import Group, Problem, Rollout, Score
from rlvr.rewards import Answer, Reward, reward, total
from rlvr.rollout.engine import Draws
from rlvr.verify.pool import Done, Pool

COIN = -3  # names the draws of the random reward, apart from all others


def own_function(settings: Reward) -> Pool | None:
    """Workers for the function of `reward.function`, one of them started; None without one.

    Raises:
        UsageError: The function can't be imported, or can't be called as it must be.
    """
    if not settings.function:
        return None
    pool = Pool(
        f"rlvr.verify.own:judge_of:{settings.function}",
        workers=settings.function_workers,
        deadline_seconds=settings.function_deadline_seconds,
        memory_mib=settings.function_memory_mib,
        path=[str(Path.cwd())],
        name=f"reward.function {settings.function}",
    )
    pool.start()
    return pool


@dataclass(frozen=True, slots=True)
class Scoring:
    """How the answers of a run are rewarded."""

    settings: Reward
    variant: Variant
    own: Pool | None = None
    """Workers for the function of `settings`, where it names one."""

    def __call__(
        self, groups: Sequence[Group], prompts: Sequence[str], draws: Draws
    ) -> list[Group]:
        """The groups with a score on every rollout.

        Args:
            groups: As sampled.
            prompts: Of each group, as the model read it, special tokens kept.
            draws: Names the coins of the random reward.

        Raises:
            UsageError: Your function broke its contract, or failed too often.
        """
        settings, overlong = self.settings, self.variant.overlong
        asked = [(group.problem, r.response) for group in groups for r in group.rollouts]
        judged, scored = iter(judge_all(asked, lenient=settings.lenient)), []
        for group, prompt in zip(groups, prompts, strict=True):
            answers = [answer_of(group.problem, r, prompt, settings, draws) for r in group.rollouts]
            scores = [
                reward(answer, settings, overlong=overlong, judged=next(judged))
                for answer in answers
            ]
            if settings.length != "none":
                scores = with_lengths(answers, scores, settings, counts_cut=overlong != "mask")
            scored.append(_with(group, scores))
        return with_function(scored, settings, self.own) if self.own else scored


def _with(group: Group, scores: Sequence[Score]) -> Group:
    pairs = zip(group.rollouts, scores, strict=True)
    return Group(group.problem, [replace(rollout, score=score) for rollout, score in pairs])


def answer_of(
    problem: Problem, rollout: Rollout, prompt: str, settings: Reward, draws: Draws
) -> Answer:
    """A rollout as the parts of its reward look at it."""
    return Answer(
        problem,
        rollout.said,
        tokens=len(rollout.answer_tokens),
        finished=rollout.finish_reason == "stop",
        limit=rollout.sampling.max_new_tokens,
        prompt=prompt,
        coin=coin(rollout, draws) if settings.random > 0 else 0.0,
        opened=rollout.opened,
    )


def coin(rollout: Rollout, draws: Draws) -> float:
    """0 or 1 by chance, whatever the answer says."""
    names = (draws.seed, draws.step, draws.round, COIN, rollout.group_id, rollout.slot)
    return float(uniforms(*names) < 0.5)


def with_lengths(
    answers: Sequence[Answer], scores: Sequence[Score], settings: Reward, *, counts_cut: bool
) -> list[Score]:
    """The scores of one group with what the lengths add.

    Args:
        answers: Of the group.
        scores: Of each answer by itself.
        settings: Which formula, and its weight.
        counts_cut: False where answers cut by the limit leave every statistic of their group.
    """
    counted = [
        n
        for n, (answer, score) in enumerate(zip(answers, scores, strict=True))
        if score.value is not None and (answer.finished or counts_cut)
    ]
    group = Lengths(
        [answers[n].tokens for n in counted],
        [float(scores[n].verdict == "correct") for n in counted],
        limit=answers[0].limit,
        target=settings.length_target,
        slope=settings.length_slope,
    )
    found = list(scores)
    for n, term in zip(counted, LENGTHS[settings.length](group), strict=True):
        found[n] = with_part(found[n], "length", term, settings)
    return found


def with_part(score: Score, name: str, value: float, settings: Reward) -> Score:
    """The score with one part more."""
    parts = {**score.parts, name: value}
    return replace(score, value=total(parts, settings), parts=parts)


def with_function(groups: Sequence[Group], settings: Reward, own: Pool) -> list[Group]:
    """The groups with what your function says of each answer, all of them asked at once.

    Raises:
        UsageError: It broke its contract, or failed on more answers than allowed.
    """
    asked = [[asdict(g.problem), rollout.said] for g in groups for rollout in g.rollouts]
    done, judged = own.run(asked), []
    left = iter(done)
    for group in groups:
        scores = []
        for rollout in group.rollouts:
            assert rollout.score is not None, "your function comes after the other parts"
            row = f"answer {rollout.slot} to problem {group.problem.id!r}"
            scores.append(with_judgement(rollout.score, next(left), settings, row))
        judged.append(_with(group, scores))
    check_failures(done, settings)
    return judged


def with_judgement(score: Score, done: Done, settings: Reward, row: str) -> Score:
    """The score of one answer with what your function made of it.

    An answer that it can't judge, or fails on, has no reward, unless the function weighs nothing.
    One that takes it too long gets 0 from it. A reason of the function stands behind that of the
    verdict, and each says whose it is.

    Args:
        score: Without the function.
        done: What became of the call.
        settings: Name and weight of the function.
        row: The answer, in words.

    Raises:
        UsageError: It returned what it may not.
    """
    said = done.value if isinstance(done.value, dict) else {}
    if "refused" in said:
        raise UsageError(
            f"reward.function {settings.function} returned {said['refused']}. It was {row}."
        )
    value, reason = said.get("value"), str(said.get("reason", "")) or done.reason
    trouble = score.trouble
    if done.failure:
        trouble = "late" if done.failure == "deadline" else "failed"
        value = 0.0 if trouble == "late" else None
    reason = f"verdict: {score.reason}; {settings.function}: {reason}" if reason else score.reason
    score = replace(score, reason=reason, trouble=trouble)
    if isinstance(value, float) and score.value is not None:
        return with_part(score, "function", value, settings)
    return score if settings.function_weight == 0 else replace(score, value=None)


def check_failures(done: Sequence[Done], settings: Reward) -> None:
    """Stop where your function fails so often that what is left teaches something else.

    Raises:
        UsageError: With the last failure, in the function's own words.
    """
    failed = [one for one in done if one.failure not in ("", "deadline")]
    if len(failed) > settings.function_failures_most * len(done):
        share = math.floor(100 * len(failed) / len(done))
        raise UsageError(
            f"reward.function {settings.function} failed on {len(failed)} of {len(done)} answers "
            f"({share}%), and reward.function_failures_most is {settings.function_failures_most}. "
            f"The last: {failed[-1].reason}. Mend the function; it may return None where it can't "
            "judge."
        )

"""What a step's records and its update come to, in numbers; the keys are declared in `keys`."""

import math
import re
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlvr.objective.advantages import mixed
from rlvr.objective.correction import mismatch
from rlvr.objective.loss import Cut
from rlvr.objective.slots import Variant
from rlvr.objective.surrogates import FARTHEST
from rlvr.observe.keys import METRICS
from rlvr.observe.statistics import percentile
from rlvr.records import Group, Rollout, Score
from rlvr.rewards import repeated
from rlvr.training.batching import outcomes_of, rewards_of
from rlvr.training.update import Update, joined

Values = dict[str, float | int | None]
PART = "reward/part/"
"""Each part of a reward has a key of its own under this."""


_DECLARED = frozenset(metric.key for metric in METRICS)


def row(values: Mapping[str, float | int | None]) -> Values:
    """A line of `metrics.jsonl`: declared keys alone, None for what is not a finite number.

    Raises:
        KeyError: A key is not in `METRICS` and is no part of a reward.

    >>> row({"step": 3, "grad/norm": float("nan"), "grad/clipped": True})
    {'step': 3, 'grad/norm': None, 'grad/clipped': 1}
    """
    unknown = [key for key in values if key not in _DECLARED and not key.startswith(PART)]
    if unknown:
        raise KeyError(f"metrics that are not declared in METRICS: {', '.join(unknown)}")
    return {key: _plain(value) for key, value in values.items()}


def _plain(value: float | int | None) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, (bool, int)) else float(value)


def rollout_metrics(groups: Sequence[Group], weights: Mapping[str, float] | None = None) -> Values:
    """What the sampled answers of a step show, all of them, before any filter.

    Args:
        groups: Groups of one size, scored; a rollout whose score has no value counts in the
            lengths and the text, and nowhere else.
        weights: Weight of each part of the reward; parts without one are taken to count.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    scores = [_score(rollout) for rollout in rollouts]
    rewards, scored = rewards_of(groups)
    correct = torch.tensor([score.verdict == "correct" for score in scores]).view(scored.shape)
    return (
        reward_metrics(scores)
        | group_metrics(rewards, correct, scored)
        | length_metrics(rollouts)
        | token_metrics(rollouts)
        | text_metrics([rollout.response for rollout in rollouts])
        | {
            "text/answer_found": _mean([score.answer is not None for score in scores]),
            "groups/cancelled": _mean([cancelled(group, weights or {}) for group in groups]),
        }
    )


def cancelled(group: Group, weights: Mapping[str, float]) -> bool:
    """Whether the parts of the rewards differ within a group and yet add up to the same.

    Parts of weight 0, which are only measured, are left out.
    """
    known = [s for s in map(_score, group.rollouts) if s.value is not None]
    parts = {
        tuple(sorted((name, value) for name, value in s.parts.items() if weights.get(name, 1.0)))
        for s in known
    }
    return len(parts) > 1 and len({score.value for score in known}) == 1


def _score(rollout: Rollout) -> Score:
    assert rollout.score is not None, "metrics are taken after scoring"
    return rollout.score


def reward_metrics(scores: Sequence[Score]) -> Values:
    """Means of the reward, of its parts, and of the verdicts."""
    judged = [score for score in scores if score.verdict != "could not judge" or score.value == 0]
    names = sorted({name for score in scores for name in score.parts})
    parts = {
        f"{PART}{name}": _mean([s.parts[name] for s in scores if name in s.parts]) for name in names
    }
    formed = [score for score in judged if "format" in score.parts]
    form_only = [s.parts["format"] > 0 and s.verdict == "incorrect" for s in formed]
    return {
        "reward/mean": _mean([score.value for score in scores if score.value is not None]),
        "reward/correct": _mean([score.verdict == "correct" for score in judged]),
        "reward/format_only": _mean(form_only),
        "reward/none": _mean([score.value is None for score in scores]),
        "verifier/error": _mean(
            [s.verdict == "could not judge" and s.value is None for s in scores]
        ),
        "verifier/unreadable": _mean(
            [s.verdict == "could not judge" and s.value is not None for s in scores]
        ),
        **parts,
        **function_metrics(scores),
    }


def function_metrics(scores: Sequence[Score]) -> Values:
    """How often a function of the user's was late or failed; nothing where there is none."""
    if not any(score.trouble or "function" in score.parts for score in scores):
        return {}
    return {
        "reward/late": _mean([score.trouble == "late" for score in scores]),
        "reward/failed": _mean([score.trouble == "failed" for score in scores]),
    }


def group_metrics(
    rewards: Float[Tensor, "P G"], correct: Bool[Tensor, "P G"], scored: Bool[Tensor, "P G"]
) -> Values:
    """How many groups can teach, and how much rewards differ within a group.

    Args:
        rewards: Rewards, any number where there is none.
        correct: True where the answer was judged correct.
        scored: True where there is a reward; a group without any is left out.
    """
    judged = scored.any(dim=1)
    rewards, correct, scored = rewards[judged], correct[judged], scored[judged]
    right = (correct | ~scored).all(dim=1)
    wrong = ~(correct & scored).any(dim=1)
    highest = rewards.where(scored, -math.inf).amax(dim=1)
    lowest = rewards.where(scored, math.inf).amin(dim=1)
    equal = highest == lowest
    within = [group[mask] for group, mask in zip(rewards, scored, strict=True)]
    return {
        "groups/all_wrong": _mean(wrong.tolist()),
        "groups/all_right": _mean(right.tolist()),
        "groups/mixed": _mean((~right & ~wrong).tolist()),
        "groups/zero_std": _mean(equal.tolist()),
        "reward/within_std": _mean([group.std().item() for group in within if len(group) > 1]),
    }


def length_metrics(rollouts: Sequence[Rollout]) -> Values:
    """Answer lengths in tokens, the end token included."""
    lengths = [len(rollout.answer_tokens) for rollout in rollouts]
    verdicts = [rollout.score.verdict if rollout.score else None for rollout in rollouts]
    pairs = list(zip(lengths, verdicts, strict=True))
    return {
        "length/mean": _mean(lengths),
        "length/p50": percentile(lengths, 0.5),
        "length/p95": percentile(lengths, 0.95),
        "length/max": max(lengths),
        "length/total": sum(lengths),
        "length/correct": _mean([length for length, verdict in pairs if verdict == "correct"]),
        "length/wrong": _mean([length for length, verdict in pairs if verdict == "incorrect"]),
        "length/truncated": _mean([rollout.finish_reason == "length" for rollout in rollouts]),
    }


def token_metrics(rollouts: Sequence[Rollout]) -> Values:
    """Entropy and log-probability, in nats, of all answer tokens as the sampler recorded them."""
    entropies = [value for rollout in rollouts for value in rollout.sampler_entropies]
    return {
        "entropy/mean": _mean(entropies),
        "entropy/p90": percentile(entropies, 0.9),
        "logprob/mean": _mean([value for r in rollouts for value in r.sampler_logprobs]),
    }


def text_metrics(texts: Sequence[str]) -> Values:
    """Loops, several answers and thoughts in the answers' text."""
    repeated = [repetition(text) for text in texts]
    return {
        "text/repetition": _mean(repeated),
        "text/repetition_p95": percentile(repeated, 0.95),
        "text/multi_answer": _mean([len(set(boxes(text))) > 1 for text in texts]),
        "text/think_open": _mean(["<think>" in text for text in texts]),
        "text/think_close": _mean(["</think>" in text for text in texts]),
        "text/think_ok": _mean([thinks_well(text) for text in texts]),
    }


def repetition(text: str) -> float:
    """Share of a text's 4-grams of words that occurred before in it.

    >>> repetition("so it is so it is so it is"), repetition("too short")
    (0.5, 0.0)
    """
    return repeated(text.split(), 4)


def boxes(text: str) -> list[str]:
    r"""What starts each box, up to its first closing brace: enough to tell answers apart.

    >>> boxes(r"\boxed{12} or \boxed{ 13 }")
    ['12', '13']
    """
    return [found.strip() for found in re.findall(r"\\boxed\{([^{}]*)", text)]


def thinks_well(text: str) -> bool:
    r"""Exactly one thought, opened, closed, and the box, if any, after it.

    >>> [thinks_well(t) for t in (r"<think>1</think>\boxed{1}", r"\boxed{1}<think></think>")]
    [True, False]
    """
    before, opened, rest = text.partition("<think>")
    thought, closed, after = rest.partition("</think>")
    once = opened and closed and text.count("<think>") == text.count("</think>") == 1
    boxed = "\\boxed{"
    return bool(once) and (boxed in after or boxed not in before + thought)


def effective(groups: Sequence[Group], variant: Variant) -> int:
    """Answers that count, in groups whose rewards differ."""
    if not groups:
        return 0
    seen = outcomes_of(groups, {}, variant)
    return int(seen.scored[mixed(seen.rewards, seen.scored)].sum())


def advantage_metrics(advantages: Float[Tensor, " N"]) -> Values:
    """Size of the advantages of the answers that train."""
    if not len(advantages):
        return {}
    return {
        "adv/mean": advantages.mean().item(),
        "adv/std": advantages.std(correction=0).item(),
        "adv/min": advantages.min().item(),
        "adv/max": advantages.max().item(),
        "adv/abs_max": advantages.abs().max().item(),
    }


def update_metrics(update: Update, *, max_grad_norm: float | None = None) -> Values:
    """What the optimizer steps of a step did, over the tokens that trained.

    Every share and mean is a sum over a count, across micro-batches and optimizer steps alike.

    Args:
        update: All optimizer steps on the step's answers.
        max_grad_norm: Longest gradient allowed; None leaves `grad/clipped` out.
    """
    taken: Values = {
        "lr": update.lr,
        "optim/skipped": update.skipped,
        "optim/steps": update.optimizer_steps,
        "grad/nonfinite": update.nonfinite > 0,
        "grad/norm": _mean(update.grad_norms),
        "control/kl_coefficient": update.controls.kl_coefficient,
        "control/entropy_coefficient": update.bonus,
        "control/clip_extra": update.controls.clip_extra,
    }
    if not update.seen:
        return taken
    if max_grad_norm is not None:
        taken["grad/clipped"] = _mean([norm > max_grad_norm for norm in update.grad_norms])
    every = joined(update.seen)
    first, last = update.seen[0], update.seen[-1]
    taken |= {
        **ratio_metrics(every.logprobs - every.old_logprobs),
        "ratio/first": (first.logprobs - first.old_logprobs).exp().mean().item(),
        "ratio/last": (last.logprobs - last.old_logprobs).exp().mean().item(),
        **cut_metrics(update.cuts),
        **mismatch(every.old_logprobs, every.sampler_logprobs),
        "mismatch/dropped": (every.importance == 0).float().mean().item(),
        "mismatch/capped": every.capped.float().mean().item(),
        "update/relative": update.relative,
        "update/changed": update.changed,
        "update/kl": update.probe_kl,
    }
    if every.ref_logprobs is not None:
        away = every.ref_logprobs - every.logprobs
        to_ref = divergences(away.clamp(-FARTHEST, FARTHEST))
        taken |= {f"kl_ref/{name}": value for name, value in to_ref.items()}
        taken["kl_ref/far"] = (away.abs() > FARTHEST).float().mean().item()
    return taken


def ratio_metrics(difference: Float[Tensor, " N"]) -> Values:
    """The policy now against the policy at the start of the update, from log ratios of tokens."""
    ratio, kl = difference.exp(), divergences(difference)
    return {
        "ratio/mean": ratio.mean().item(),
        "ratio/min": ratio.min().item(),
        "ratio/max": ratio.max().item(),
        "ratio/kl_k1": kl["k1"],
        "ratio/kl_k3": kl["k3"],
    }


def cut_metrics(cuts: Sequence[Cut]) -> Values:
    """Shares whose gradient a surrogate cut, by the ratio as it was before clipping."""
    of = max(1, sum(cut.of for cut in cuts))
    return {
        "ratio/clip_low": sum(cut.low for cut in cuts) / of,
        "ratio/clip_high": sum(cut.high for cut in cuts) / of,
    }


def divergences(difference: Float[Tensor, " N"]) -> dict[str, float]:
    """Estimates of KL(q to p), in nats, from log p - log q of tokens drawn from q.

    Source: Schulman, "Approximating KL divergence", 2020. Differs: k3 uses expm1, which stays
        exact for tiny differences.
    """
    return {
        "k1": (-difference).mean().item(),
        "k2": (difference**2 / 2).mean().item(),
        "k3": (difference.expm1() - difference).mean().item(),
    }


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None

"""Metrics: every key declared once, and the functions that work them out from a step's records."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlvr.objective.correction import mismatch
from rlvr.observe.statistics import percentile
from rlvr.records import Group, Rollout, Score
from rlvr.training.batching import rewards_of
from rlvr.training.optimiser import Update

Values = dict[str, float | int | None]
PART = "reward/part/"
"""Each part of a reward has a key of its own under this."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One key of `metrics.jsonl`."""

    key: str
    unit: str
    meaning: str
    healthy: str = ""
    """Where it usually lies in a run that learns; empty where nothing general can be said."""


METRICS = (
    Metric("step", "count", "optimizer steps done, this one included"),
    Metric("time", "Unix seconds", "when the step ended"),
    Metric("tokens_seen", "tokens", "answer tokens sampled so far"),
    Metric("wall_s", "seconds", "training so far, evaluation included, summed over resumes"),
    Metric("reward/mean", "reward", "mean over all sampled answers, before any filter", "rises"),
    Metric("reward/part/correctness", "reward", "mean of this part, unweighted", "rises"),
    Metric("reward/part/format", "reward", "mean of this part, unweighted"),
    Metric("reward/correct", "share", "judged correct, of those that could be judged", "rises"),
    Metric("reward/within_std", "reward", "standard deviation within a group, mean", "0.2 to 0.5"),
    Metric("reward/format_only", "share", "right form and a wrong answer", "falls"),
    Metric("groups/all_wrong", "share", "groups without a correct answer"),
    Metric("groups/all_right", "share", "groups with correct answers alone"),
    Metric("groups/mixed", "share", "groups with correct and wrong answers", "0.3 to 0.8"),
    Metric("groups/zero_std", "share", "groups of equal rewards: no signal", "below 0.5"),
    Metric("batch/effective", "answers", "answers in groups with a signal", "half or more"),
    Metric("adv/mean", "advantage", "mean over the answers kept", "about 0"),
    Metric("adv/std", "advantage", "standard deviation over the answers kept"),
    Metric("adv/min", "advantage", "lowest of the answers kept"),
    Metric("adv/max", "advantage", "highest of the answers kept"),
    Metric("adv/abs_max", "advantage", "largest size of the answers kept", "below sqrt(G)"),
    Metric("length/mean", "tokens", "answer length, the end token included"),
    Metric("length/p50", "tokens", "median answer length"),
    Metric("length/p95", "tokens", "length that 95% of the answers do not pass"),
    Metric("length/max", "tokens", "longest answer"),
    Metric("length/total", "tokens", "all answers of the step together"),
    Metric("length/correct", "tokens", "mean length of the correct answers"),
    Metric("length/wrong", "tokens", "mean length of the wrong answers", "near length/correct"),
    Metric("length/truncated", "share", "answers that the limit cut", "below 0.05"),
    Metric("entropy/mean", "nats", "of the whole vocabulary, mean over answer tokens"),
    Metric("entropy/p90", "nats", "entropy that 90% of the answer tokens do not pass"),
    Metric("logprob/mean", "nats", "of the sampled tokens", "within 20% of -entropy/mean"),
    Metric("ratio/mean", "ratio", "policy now to before the update, mean over tokens", "1"),
    Metric("ratio/min", "ratio", "smallest of a trained token"),
    Metric("ratio/max", "ratio", "largest of a trained token", "below 10"),
    Metric("ratio/first", "ratio", "mean in the first mini-batch", "1 within 0.0001"),
    Metric("ratio/kl_k1", "nats", "-log ratio, mean"),
    Metric("ratio/kl_k3", "nats", "ratio - 1 - log ratio, mean", "below 0.02"),
    Metric("ratio/clip_low", "share", "tokens cut: A < 0, ratio too low", "below 0.02"),
    Metric("ratio/clip_high", "share", "tokens cut: A > 0, ratio too high", "below 0.02"),
    Metric("kl_ref/k1", "nats", "policy to reference, k1"),
    Metric("kl_ref/k2", "nats", "policy to reference, k2"),
    Metric("kl_ref/k3", "nats", "policy to reference, k3", "below 0.2"),
    Metric("mismatch/kl_k1", "nats", "sampler to learner, k1", "about 0"),
    Metric("mismatch/kl_k3", "nats", "sampler to learner, k3", "below 0.001"),
    Metric("mismatch/prob_diff", "probability", "mean gap of the sampled tokens' probabilities"),
    Metric("mismatch/prob_diff_max", "probability", "largest gap of a sampled token's probability"),
    Metric("mismatch/mult_error", "ratio", "mean of exp |log ratio|", "below 1.02"),
    Metric("mismatch/ess", "share", "effective sample size of the importance weights", "above 0.9"),
    Metric("mismatch/chi2", "variance", "mean squared importance weight, less 1", "about 0"),
    Metric("mismatch/rho_mean", "ratio", "mean importance weight", "0.99 to 1.01"),
    Metric("mismatch/pearson", "correlation", "of the two probabilities of each token", "about 1"),
    Metric("grad/norm", "L2 norm", "of the gradient before clipping", "within x3 of its median"),
    Metric("grad/clipped", "0 or 1", "the gradient was longer than allowed"),
    Metric("grad/nonfinite", "0 or 1", "the gradient was not finite", "0"),
    Metric("update/relative", "ratio", "weights' change to the weights", "1e-6 to 1e-4"),
    Metric("lr", "per step", "learning rate as the optimizer used it"),
    Metric("optim/skipped", "0 or 1", "the step changed no weight"),
    Metric("text/repetition", "share", "4-grams of words that occurred before, mean", "below 0.2"),
    Metric("text/repetition_p95", "share", "what 95% of the answers do not pass", "below 0.5"),
    Metric("text/answer_found", "share", "a final answer could be read", "over 0.95"),
    Metric("text/multi_answer", "share", "answers with two or more different boxes", "below 0.05"),
    Metric("text/think_open", "share", "answers that open a thought"),
    Metric("text/think_close", "share", "answers that close a thought", "near text/think_open"),
    Metric("text/think_ok", "share", "answers with one whole thought before the answer"),
    Metric("verifier/error", "share", "answers that could not be judged", "below 0.001"),
    Metric("time/rollout", "seconds", "sampling the answers"),
    Metric("time/reward", "seconds", "grading the answers"),
    Metric("time/logprob", "seconds", "forward passes of the learner"),
    Metric("time/update", "seconds", "losses, backward passes and the optimizer"),
    Metric("time/eval", "seconds", "evaluation, where one was due"),
    Metric("tokens_per_s", "tokens per second", "sampled, while sampling"),
    Metric("mem/peak", "bytes", "most memory that the process has held"),
)
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


def rollout_metrics(groups: Sequence[Group]) -> Values:
    """What the sampled answers of a step show, all of them, before any filter.

    Args:
        groups: Groups of one size, scored; a rollout whose score has no value counts in the
            lengths and the text, and nowhere else.
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
        | text_metrics([rollout.text for rollout in rollouts])
        | {"text/answer_found": _mean([score.answer is not None for score in scores])}
    )


def _score(rollout: Rollout) -> Score:
    assert rollout.score is not None, "metrics are taken after scoring"
    return rollout.score


def reward_metrics(scores: Sequence[Score]) -> Values:
    """Means of the reward, of its parts, and of the verdicts."""
    judged = [score for score in scores if score.verdict != "could not judge"]
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
        "verifier/error": _mean([score.verdict == "could not judge" for score in scores]),
        **parts,
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
        "batch/effective": int(scored[~equal].sum()),
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
    words = text.split()
    grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


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


def advantage_metrics(
    advantages: Float[Tensor, "B 1"], mask: Bool[Tensor, "B T"] | None = None
) -> Values:
    """Size of the advantages over the answers kept.

    Args:
        advantages: One per answer.
        mask: Tokens that train; answers without any are left out. None keeps all.
    """
    rows = torch.ones(len(advantages), dtype=torch.bool) if mask is None else mask.any(dim=1)
    kept = advantages[rows, 0]
    if not len(kept):
        return {}
    return {
        "adv/mean": kept.mean().item(),
        "adv/std": kept.std(correction=0).item(),
        "adv/min": kept.min().item(),
        "adv/max": kept.max().item(),
        "adv/abs_max": kept.abs().max().item(),
    }


def update_metrics(
    update: Update,
    *,
    clip_low: float | None = None,
    clip_high: float | None = None,
    max_grad_norm: float | None = None,
) -> Values:
    """What an optimizer step did, over the tokens that trained.

    Args:
        update: The step.
        clip_low: Ratios under 1 - clip_low are cut where A < 0; None where nothing is cut.
        clip_high: Ratios over 1 + clip_high are cut where A > 0; None where nothing is cut.
        max_grad_norm: Longest gradient allowed; None leaves `grad/clipped` out.
    """
    taken: Values = {"lr": update.lr, "optim/skipped": update.skipped}
    taken["grad/nonfinite"] = update.nonfinite
    if not len(update.logprobs):
        return taken | {"grad/norm": None}
    taken["grad/norm"] = update.grad_norm
    if max_grad_norm is not None:
        taken["grad/clipped"] = update.grad_norm > max_grad_norm
    difference = update.logprobs - update.old_logprobs
    taken |= ratio_metrics(difference, update.advantages, clip_low, clip_high)
    if update.ref_logprobs is not None:
        to_ref = divergences(update.ref_logprobs - update.logprobs)
        taken |= {f"kl_ref/{name}": value for name, value in to_ref.items()}
    return taken | mismatch(update.old_logprobs, update.sampler_logprobs)


def ratio_metrics(
    difference: Float[Tensor, " N"],
    advantages: Float[Tensor, " N"],
    clip_low: float | None,
    clip_high: float | None,
) -> Values:
    """The policy now against the policy before, from log ratios and advantages of each token.

    The clip shares count only where the gradient is cut, by the ratio as it was before clipping.
    """
    ratio, kl = difference.exp(), divergences(difference)
    low = (ratio < 1 - clip_low) & (advantages < 0) if clip_low is not None else None
    high = (ratio > 1 + clip_high) & (advantages > 0) if clip_high is not None else None
    return {
        "ratio/mean": ratio.mean().item(),
        "ratio/min": ratio.min().item(),
        "ratio/max": ratio.max().item(),
        "ratio/first": ratio.mean().item(),  # one mini-batch per step: the first is the only one
        "ratio/kl_k1": kl["k1"],
        "ratio/kl_k3": kl["k3"],
        "ratio/clip_low": low.float().mean().item() if low is not None else 0.0,
        "ratio/clip_high": high.float().mean().item() if high is not None else 0.0,
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

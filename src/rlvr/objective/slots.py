"""The slots of an objective: what a variant chooses, and which choices contradict each other."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rlvr.errors import UsageError

Advantage = Literal[
    "raw", "batch_centred", "centred", "zscore", "rloo", "leave_one_out", "raw_std", "batch_std",
    "whitened", "maxrl", "pass_at_k", "best_minus_second", "gdpo", "f_grpo", "lead", "beta", "opo",
    "gpg",
]  # fmt: skip
Surrogate = Literal[
    "clip", "reinforce", "importance", "cispo", "sapo", "tv", "tv_ratio", "gmpo", "vespo", "dcpo"
]
Level = Literal["token", "sequence", "sequence_token", "answer"]
Weighting = Literal["token", "sequence", "budget", "problem", "sum", "delta_l"]
Kl = Literal["none", "k1", "k2", "k3", "k3_plus", "unbiased", "reward"]
Correction = Literal["none", "truncated", "masked", "band", "keep_band"]

WIDE, NARROW = 0.05, 0.01  # clip bounds from which, and below which, a level makes no sense
BY_REWARDS_ALONE = ("gdpo", "pass_at_k", "gpg", "maxrl", "f_grpo", "lead", "beta")
COUNTS = ("epochs", "mini_batches", "pass_k")
EXAMPLES = {
    "clip_low": 0.2, "clip_high": 0.28, "kl_coefficient": 0.001, "entropy_coefficient": 0.001,
    "entropy_target": 0.2, "importance_floor": 0.5, "reference_every_steps": 400, "epochs": 1,
    "mini_batches": 1, "pass_k": 2,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One objective: a choice for every slot."""

    advantage: Advantage = "centred"
    """How an answer is compared with others."""
    pass_k: int = 2
    """Answers per set of the advantage `pass_at_k`."""
    surrogate: Surrogate = "clip"
    """The policy loss per token."""
    level: Level = "token"
    """What has a ratio: a token, the geometric mean of an answer, or the answer as a product."""
    clip_low: float = 0.2
    """How far the ratio may fall below 1."""
    clip_high: float = 0.2
    """How far the ratio may rise above 1; for cispo the cap less 1, for tv a probability."""
    dual_clip: float | None = None
    """Largest ratio that counts where the advantage is negative; none leaves it open."""
    ratio_cap: float | None = None
    """Ratios above it count as this much, for either sign; none leaves them."""
    weighting: Weighting = "token"
    """What counts the same: every token, rollout or problem; budget divides by a constant."""
    kl: Kl = "none"
    """Divergence from the reference: an estimate as a loss, or k1 taken off the reward."""
    kl_coefficient: float = 0.0
    """Weight of the divergence (the papers' beta)."""
    kl_whole_answer: bool = False
    """Of the sum over an answer, as if it were one action, instead of token by token."""
    kl_target: float | None = None
    """Nats per token that the coefficient adapts to; none keeps it constant."""
    reference_every_steps: int = 0
    """Steps after which the reference becomes the policy, optimizer state cleared; 0 never."""
    entropy: Literal["none", "bonus", "adaptive", "adaptive_clip"] = "none"
    """What holds entropy up: a bonus, one whose weight adapts, or an upper clip that does."""
    entropy_coefficient: float = 0.0
    """Weight of the bonus."""
    entropy_target: float = 0.2
    """Nats below which an adaptive kind acts."""
    tokens: Literal["all", "top_entropy", "clip_cov", "kl_cov"] = "all"
    """Which tokens the policy loss sees; kl_cov instead pulls a few back to where they were."""
    correction: Correction = "none"
    """Importance weights of answers that other weights, or another engine, sampled."""
    correction_level: Literal["token", "sequence", "answer"] = "token"
    """Whose ratio: a token's, the answer's geometric mean, or its product."""
    importance_floor: float = 0.0
    """Lower bound of band and keep_band."""
    importance_cap: float = 2.0
    """Upper bound of the importance weights."""
    off_policy_mask: float | None = None
    """Nats per token of drift from which an answer with a negative advantage is dropped."""
    keep_sampling_mask: bool = False
    """Let the learner renormalise over the tokens that top-p, top-k or min-p had kept."""
    groups: Literal["all", "mixed", "active"] = "all"
    """All, only those with unequal rewards, or those and more sampling in place of the others."""
    pass_rate_most: float | None = None
    """Problems solved this often are not drawn again; none draws all."""
    overlong: Literal["zero", "soft", "mask"] = "zero"
    """An answer cut by the limit: reward 0; a penalty that ramps up before; or no loss."""
    epochs: int = 1
    """Passes over the answers of a step."""
    mini_batches: int = 1
    """Optimizer steps per pass."""
    source: str = ""
    """Paper, equation or section."""
    differs: tuple[str, ...] = ()
    """Where this is not the paper's, and what had to be settled."""

    def __post_init__(self) -> None:
        for problem in (*_out_of_range(self), *_contradictions(self)):
            raise UsageError(problem)

    @property
    def updates(self) -> int:
        """Optimizer steps on the answers of a step, at most."""
        return self.epochs * self.mini_batches

    @property
    def needs_reference(self) -> bool:
        """Whether a frozen copy of the starting policy is kept."""
        return self.kl != "none" and self.kl_coefficient > 0

    @property
    def learns_without_signal(self) -> bool:
        """Whether answers of advantage 0 have a gradient, from another term of the loss.

        An adaptive entropy bonus is not counted: it acts in some steps alone.
        """
        pulled = self.kl_in_loss and self.kl_coefficient > 0
        held_back = self.surrogate == "tv_ratio" or self.tokens == "kl_cov"
        return pulled or held_back or self.entropy == "bonus"

    @property
    def kl_in_loss(self) -> bool:
        """Whether the divergence is a term of the loss, not a cost in the reward."""
        return self.kl not in ("none", "reward")


def _out_of_range(row: Variant) -> Iterator[str]:
    for name, example in EXAMPLES.items():
        value, least = getattr(row, name), 1 if name in COUNTS else 0
        if not (math.isfinite(value) and value >= least):
            yield f"variant.{name} is {value}. Use {least} or more, such as {example}."
    above = ("dual_clip", "ratio_cap", "kl_target", "importance_cap", "pass_rate_most")
    for name in above:
        value = getattr(row, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            yield f"variant.{name} is {value}. Use above 0, or none."
    if row.clip_low > 1:
        yield f"variant.clip_low is {row.clip_low}. Use 0 to 1, such as 0.2."
    if row.dual_clip is not None and row.dual_clip <= 1 + row.clip_high:
        yield (
            f"variant.dual_clip is {row.dual_clip}, not above 1 + variant.clip_high: it would cut "
            "ordinary steps. Use 3, or none."
        )
    if row.importance_floor >= row.importance_cap:
        yield (
            f"variant.importance_floor is {row.importance_floor} and variant.importance_cap is "
            f"{row.importance_cap}: no weight lies between. Use 0.5 and 5, say."
        )
    if row.pass_rate_most is not None and row.pass_rate_most > 1:
        yield f"variant.pass_rate_most is {row.pass_rate_most}; it is a share. Use 0.9, say."


def _contradictions(row: Variant) -> Iterator[str]:
    yield from _idle_settings(row)
    yield from _mixed_levels(row)


def _idle_settings(row: Variant) -> Iterator[str]:
    if row.kl == "none" and row.kl_coefficient > 0:
        yield (
            f"variant.kl_coefficient is {row.kl_coefficient} but variant.kl is none. "
            "Set --variant.kl k3 as well, or leave the coefficient out."
        )
    if row.kl == "none" and (row.kl_target is not None or row.reference_every_steps):
        yield (
            "variant.kl is none, so there is no reference to adapt to or to reset. Set "
            "--variant.kl k3 as well, or leave kl_target and reference_every_steps out."
        )
    if row.kl_target is not None and row.kl_coefficient == 0:
        yield (
            "variant.kl_target adapts variant.kl_coefficient by factors, and from 0 there is no "
            "way up. Set --variant.kl-coefficient 0.001, say."
        )
    if row.entropy == "bonus" and row.entropy_coefficient == 0:
        yield (
            "variant.entropy is bonus but variant.entropy_coefficient is 0. "
            "Set --variant.entropy-coefficient 0.001, or --variant.entropy none."
        )
    if row.entropy in ("none", "adaptive_clip") and row.entropy_coefficient > 0:
        yield (
            f"variant.entropy_coefficient is {row.entropy_coefficient} but variant.entropy is "
            f"{row.entropy}. Set --variant.entropy bonus as well, or leave the coefficient out."
        )
    if row.entropy == "adaptive_clip" and row.surrogate != "clip":
        yield (
            f"variant.entropy is adaptive_clip but variant.surrogate is {row.surrogate}, which has "
            "no upper clip bound. Set --variant.surrogate clip, or --variant.entropy adaptive."
        )


def _mixed_levels(row: Variant) -> Iterator[str]:
    if row.kl_whole_answer and row.kl_in_loss and row.weighting != "sequence":
        yield (
            "variant.kl_whole_answer gives one number per answer, but variant.weighting "
            f"{row.weighting} would count it once per token. Set --variant.weighting sequence."
        )
    if row.surrogate in ("tv", "tv_ratio") and row.correction != "none":
        yield (
            f"variant.surrogate {row.surrogate} already weighs by the sampler's probability, and "
            f"variant.correction {row.correction} would do so again. Set --variant.correction none."
        )
    if row.kl == "reward" and row.advantage in BY_REWARDS_ALONE:
        yield (
            f"variant.advantage {row.advantage} reads the rewards of right and wrong answers, and "
            "variant.kl reward changes them by what tokens cost. Set --variant.kl k2, or "
            "--variant.advantage rloo."
        )
    if row.kl == "reward" and row.groups != "all":
        yield (
            f"variant.groups {row.groups} leaves out groups of equal rewards, which differ once "
            "variant.kl reward has taken its cost off. Set --variant.groups all."
        )
    if row.level == "answer" and row.weighting != "sequence":
        yield (
            f"variant.level is answer, so a loss speaks of a whole answer, but variant.weighting "
            f"{row.weighting} would count it once per token. Set --variant.weighting sequence."
        )
    if row.level != "token" and row.surrogate in ("gmpo", "vespo", "tv", "tv_ratio", "dcpo"):
        yield (
            f"variant.surrogate {row.surrogate} fixes its own level. Set --variant.level token, "
            "or --variant.surrogate clip."
        )
    if row.groups != "all" and row.advantage in ("raw", "batch_centred", "whitened", "gdpo"):
        yield (
            f"variant.advantage {row.advantage} also learns from groups of equal rewards, but "
            f"variant.groups is {row.groups}. Set --variant.groups all."
        )
    if row.advantage == "whitened" and row.level in ("sequence", "answer"):
        yield (
            "variant.advantage whitened gives every token its own, but variant.level is "
            f"{row.level}. Set --variant.level sequence_token, or token."
        )


def doubts(row: Variant, start: Variant | None = None) -> list[str]:
    """What works and is most likely not meant, in words; shown before a run starts.

    Args:
        row: As it will run.
        start: The row of the table that it was changed from; None for the plain one.
    """
    unused = _unused(row, start or Variant())
    found = [f"variant.{name} has no part in it: {why}" for name, why in unused]
    clipping = row.surrogate == "clip"
    if clipping and row.level.startswith("sequence") and min(row.clip_low, row.clip_high) >= WIDE:
        found.append(
            f"variant.clip_low/high {row.clip_low}/{row.clip_high} never cut a mean over an "
            "answer's tokens; GSPO uses 0.0003/0.0004"
        )
    if clipping and row.level == "token" and 0 < max(row.clip_low, row.clip_high) < NARROW:
        found.append(
            f"variant.clip_low/high {row.clip_low}/{row.clip_high} cut almost every token; "
            "these are bounds for --variant.level sequence, tokens take 0.2"
        )
    if row.level == "sequence" and row.weighting in ("token", "sum", "budget", "problem"):
        found.append(
            f"variant.level sequence with variant.weighting {row.weighting} counts an answer's "
            "one ratio once per token, so long answers weigh more; GSPO uses sequence"
        )
    if row.correction in ("masked", "band", "keep_band") and row.correction_level == "answer":
        found.append(
            f"variant.correction {row.correction} of an answer's product drops most long answers: "
            "0.01 nats a token make a factor of e^10 over 1,000; use level sequence or token"
        )
    if row.surrogate == "cispo" and row.clip_high < WIDE:
        found.append(f"variant.clip_high {row.clip_high} caps cispo's weight at 1 and a bit")
    if row.kl == "k1" and row.kl_coefficient > 0:
        found.append(
            "variant.kl k1 as a loss has a gradient of 0 on average and pushes every sampled "
            "token down once the policy moves; k2, unbiased or reward are right"
        )
    if row.surrogate == "reinforce" and row.updates > 1:
        found.append(
            f"variant.surrogate reinforce takes {row.updates} updates per step without a ratio: "
            "all but the first are off-policy; clip or importance have one"
        )
    return found


NO_BOUNDS = ("reinforce", "importance", "sapo", "vespo", "dcpo")
UPPER_ALONE = ("cispo", "tv", "tv_ratio")


def _unused(row: Variant, start: Variant) -> Iterator[tuple[str, str]]:
    """Settings that were given and that nothing reads, each with the reason."""
    ignored = {
        "pass_k": row.advantage != "pass_at_k" and f"variant.advantage is {row.advantage}",
        "clip_low": row.surrogate in (*NO_BOUNDS, *UPPER_ALONE)
        and f"variant.surrogate is {row.surrogate}",
        "clip_high": row.surrogate in NO_BOUNDS and f"variant.surrogate is {row.surrogate}",
        "dual_clip": row.surrogate != "clip" and f"variant.surrogate is {row.surrogate}",
        "ratio_cap": row.surrogate != "clip" and f"variant.surrogate is {row.surrogate}",
        "kl_whole_answer": not row.kl_in_loss and f"variant.kl is {row.kl}",
        "entropy_target": row.entropy in ("none", "bonus") and f"variant.entropy is {row.entropy}",
        "importance_cap": row.correction == "none" and "variant.correction is none",
        "importance_floor": row.correction in ("none", "truncated", "masked")
        and f"variant.correction is {row.correction}",
        "correction_level": row.correction == "none" and "variant.correction is none",
    }
    for name, why in ignored.items():
        if why and getattr(row, name) != getattr(start, name):
            yield name, why

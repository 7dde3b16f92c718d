"""A variant at work: advantages from outcomes, weights from the mask, the loss of each token.

Names of slots are mapped to functions here alone. A new idea is one pure function in its slot's
file, one line in a table here, and one row in `variants`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlvr.objective import advantages, surrogates
from rlvr.objective.advantages import Lengths, Rewards, Scored
from rlvr.objective.correction import CORRECTIONS, importance_ratio, off_policy_keep
from rlvr.objective.divergence import adapted_clip, adapted_entropy, adapted_kl, kl_loss
from rlvr.objective.selection import clip_cov, top_cov, top_entropy
from rlvr.objective.slots import Variant
from rlvr.objective.surrogates import LEVELS, Advantages, Mask, PerToken, clip_parts, ratio_of
from rlvr.objective.weightings import WEIGHTINGS

PULL = 1.0  # of KL-Cov: weight of |log-ratio| on the tokens it holds back


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What P groups of G answers got; advantages are made from nothing else."""

    rewards: Rewards
    scored: Scored
    """False where there is no score: such an answer leaves every statistic."""
    lengths: Lengths
    """Answer tokens, the end token included."""
    parts: Float[Tensor, "P G K"]
    """Each part of the reward before weights."""
    part_weights: Float[Tensor, " K"]
    penalties: Float[Tensor, "P G T"] | None = None
    """What each answer token costs in reward, from `divergence.penalty`; None where nothing."""

    @property
    def total(self) -> Rewards:
        """Rewards, less what their tokens cost."""
        return self.rewards if self.penalties is None else self.rewards - self.penalties.sum(dim=2)

    @property
    def tokens(self) -> Bool[Tensor, "P G T"]:
        """True at answer tokens of scored answers."""
        width = int(self.lengths.max()) if self.penalties is None else self.penalties.shape[2]
        return (torch.arange(width) < self.lengths[..., None]) & self.scored[..., None]

    @property
    def returns(self) -> Float[Tensor, "P G T"]:
        """The reward still to come from each token on."""
        tokens = self.tokens
        if self.penalties is None:
            return self.rewards[..., None].expand(tokens.shape)
        to_come = self.penalties.flip(2).cumsum(dim=2).flip(2)
        return self.rewards[..., None] - to_come


Rule = Callable[[Variant, Outcomes], Float[Tensor, "P G T"]]


def _by_group(function: Callable[[Rewards, Scored], Rewards]) -> Rule:
    return lambda row, seen: function(seen.total, seen.scored)[..., None]


ADVANTAGES: dict[str, Rule] = {
    "raw": _by_group(advantages.raw),
    "batch_centred": _by_group(advantages.batch_centred),
    "centred": _by_group(advantages.centred),
    "zscore": _by_group(advantages.zscore),
    "rloo": _by_group(advantages.rloo),
    "leave_one_out": _by_group(advantages.leave_one_out),
    "raw_std": _by_group(advantages.raw_std),
    "batch_std": _by_group(advantages.batch_std),
    "maxrl": _by_group(advantages.maxrl),
    "best_minus_second": _by_group(advantages.best_minus_second),
    "f_grpo": _by_group(advantages.f_grpo),
    "lead": _by_group(advantages.lead),
    "beta": _by_group(advantages.beta),
    "gpg": _by_group(advantages.gpg),
    "pass_at_k": lambda row, seen: advantages.pass_at_k(seen.total, seen.scored, k=row.pass_k)[
        ..., None
    ],
    "opo": lambda row, seen: advantages.opo(seen.total, seen.scored, seen.lengths)[..., None],
    "gdpo": lambda row, seen: advantages.gdpo(seen.parts, seen.part_weights, seen.scored)[
        ..., None
    ],
    "whitened": lambda row, seen: advantages.whitened(seen.returns, seen.tokens),
}


def advantages_of(row: Variant, seen: Outcomes) -> Float[Tensor, "P G T"]:
    """One advantage per answer (T is 1) or per answer token; 0 where there is no score."""
    return ADVANTAGES[row.advantage](row, seen)


def weights_of(
    row: Variant,
    mask: Bool[Tensor, "B T"],
    group_of_row: Int[Tensor, " B"],
    rows: int,
    max_new_tokens: int,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "B T"]:
    """One weight per token, from the mask of the whole optimizer step.

    Args:
        row: The variant.
        mask: True where a token trains.
        group_of_row: Which group each row belongs to.
        rows: Rows of the step that count, masked or not; the budget divides by them.
        max_new_tokens: Longest answer allowed, in tokens; the budget divides by it too.
        dtype: Of the weights.
    """
    return WEIGHTINGS[row.weighting](mask, group_of_row, rows, max_new_tokens, dtype)


@dataclass(frozen=True, slots=True)
class Controls:
    """Coefficients that some variants adapt from step to step."""

    kl_coefficient: float = 0.0
    entropy_coefficient: float = 0.0
    clip_extra: float = 0.0
    """Room added to the upper clip bound."""

    @classmethod
    def of(cls, row: Variant) -> "Controls":
        """As a run starts."""
        return cls(row.kl_coefficient, row.entropy_coefficient)

    def before_update(self, row: Variant, entropy: float | None) -> "Controls":
        """After the step's entropy, in nats, is known: it acts on the same step."""
        if entropy is None:
            return self
        target = row.entropy_target
        if row.entropy == "adaptive":
            adapted = adapted_entropy(self.entropy_coefficient, entropy, target=target)
            return replace(self, entropy_coefficient=adapted)
        if row.entropy == "adaptive_clip":
            adapted = adapted_clip(self.clip_extra, entropy, target=target)
            return replace(self, clip_extra=adapted)
        return self

    def after_update(self, row: Variant, kl: float | None) -> "Controls":
        """After the step's divergence, in nats per token, is known: it acts on the next."""
        if row.kl_target is None or kl is None or not math.isfinite(kl):
            return self
        return replace(
            self, kl_coefficient=adapted_kl(self.kl_coefficient, kl, target=row.kl_target)
        )

    def entropy_bonus(self, row: Variant, entropy: float | None) -> float:
        """Weight of the bonus in this step; an adaptive one acts below its target alone."""
        if row.entropy == "bonus":
            return self.entropy_coefficient
        below = entropy is not None and entropy < row.entropy_target
        return self.entropy_coefficient if row.entropy == "adaptive" and below else 0.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What the loss of some rows is made from; index `t` always speaks of token `t`."""

    logprobs: PerToken
    """Of the policy now; the only ones with a gradient, beside the entropies."""
    old_logprobs: PerToken
    """Of the policy at the start of this update."""
    sampler_logprobs: PerToken
    """As the sampler recorded them."""
    advantages: Advantages
    mask: Mask
    ref_logprobs: PerToken | None = None
    """Of the frozen reference; needed where the variant has a divergence in the loss."""
    entropies: PerToken | None = None
    """Of the policy now; needed where there is an entropy bonus."""
    corrected: Bool[Tensor, "B 1"] | None = None
    """True for answers that other weights or another engine sampled; None where no answer was."""
    chosen: Mask | None = None
    """From `chosen_tokens`; None for all."""


Surrogate = Callable[[Variant, Terms, Controls], PerToken]

SURROGATES: dict[str, Surrogate] = {
    "clip": lambda row, t, now: surrogates.clipped(
        t.logprobs, t.old_logprobs, t.advantages, t.mask,
        low=row.clip_low, high=row.clip_high + now.clip_extra,
        dual=row.dual_clip, most=row.ratio_cap,
    ),
    "reinforce": lambda row, t, now: surrogates.reinforce(
        t.logprobs, t.old_logprobs, t.advantages, t.mask
    ),
    "importance": lambda row, t, now: surrogates.importance(
        t.logprobs, t.old_logprobs, t.advantages, t.mask
    ),
    "cispo": lambda row, t, now: surrogates.cispo(
        t.logprobs, t.old_logprobs, t.advantages, t.mask, cap=1 + row.clip_high
    ),
    "sapo": lambda row, t, now: surrogates.sapo(
        t.logprobs, t.old_logprobs, t.advantages, t.mask
    ),
    "tv": lambda row, t, now: surrogates.tv(
        t.logprobs, t.sampler_logprobs, t.advantages, t.mask, far=row.clip_high
    ),
    "tv_ratio": lambda row, t, now: surrogates.tv_ratio(
        t.logprobs, t.sampler_logprobs, t.advantages, t.mask, far=row.clip_high
    ),
    "gmpo": lambda row, t, now: surrogates.gmpo(
        t.logprobs, t.old_logprobs, t.advantages, t.mask, low=row.clip_low, high=row.clip_high
    ),
    "vespo": lambda row, t, now: surrogates.vespo(
        t.logprobs, t.old_logprobs, t.advantages, t.mask
    ),
    "dcpo": lambda row, t, now: surrogates.dcpo(
        t.logprobs, t.old_logprobs, t.advantages, t.mask
    ),
}  # fmt: skip


def at_level(row: Variant, terms: Terms) -> Terms:
    """The terms with log-probabilities of what the variant gives a ratio: tokens or answers."""
    level = LEVELS[row.level]
    return replace(
        terms,
        logprobs=level(terms.logprobs, terms.mask),
        old_logprobs=level(terms.old_logprobs, terms.mask),
    )


def chosen_tokens(
    row: Variant,
    old_logprobs: PerToken,
    entropies: PerToken,
    advantage: Advantages,
    mask: Mask,
    chance: PerToken,
) -> Mask | None:
    """The tokens that the policy loss sees, or that KL-Cov pulls back; None for all.

    Args:
        row: The variant.
        old_logprobs: Of the whole optimizer step at its start.
        entropies: There too, in nats, as the sampler recorded them.
        advantage: One per rollout, or per token.
        mask: True where a token trains.
        chance: One number in [0, 1) per token.
    """
    return CHOICES[row.tokens](old_logprobs, entropies, advantage, mask, chance)


Choice = Callable[[PerToken, PerToken, Advantages, Mask, PerToken], Mask | None]

CHOICES: dict[str, Choice] = {
    "all": lambda logprobs, entropies, advantage, mask, chance: None,
    "top_entropy": lambda logprobs, entropies, advantage, mask, chance: top_entropy(
        entropies, mask
    ),
    "clip_cov": lambda logprobs, entropies, advantage, mask, chance: clip_cov(
        logprobs, advantage, mask, chance
    ),
    "kl_cov": lambda logprobs, entropies, advantage, mask, chance: top_cov(
        logprobs, advantage, mask
    ),
}


def correction_of(row: Variant, terms: Terms) -> tuple[PerToken, Mask]:
    """The importance weight of each token, and whether it was cut.

    1 where the learner's own weights sampled the answer, and where the variant has no correction.
    """
    if row.correction == "none" or terms.corrected is None:
        return torch.ones_like(terms.old_logprobs), torch.zeros_like(terms.mask)
    ratio = importance_ratio(
        terms.old_logprobs, terms.sampler_logprobs, terms.mask, level=row.correction_level
    )
    weight = CORRECTIONS[row.correction](ratio, row.importance_floor, row.importance_cap)
    cut = terms.corrected & terms.mask & (weight > 0) & (weight < ratio)
    return torch.where(terms.corrected, weight, 1.0), cut


def per_token_loss(row: Variant, terms: Terms, now: Controls, bonus: float = 0.0) -> PerToken:
    """The variant's loss of each token, 0 outside the mask; times the weights, it is the step's.

    Args:
        row: The variant.
        terms: Log-probabilities, advantages and mask of some rows.
        now: The coefficients of this step.
        bonus: Weight of the entropy bonus.
    """
    loss = SURROGATES[row.surrogate](row, at_level(row, terms), now)
    if row.correction != "none" and terms.corrected is not None:
        loss = loss * correction_of(row, terms)[0]
    if row.off_policy_mask is not None:
        kept = off_policy_keep(
            terms.logprobs, terms.sampler_logprobs, terms.advantages, terms.mask,
            farthest=row.off_policy_mask,
        )  # fmt: skip
        loss = loss * kept
    if terms.chosen is not None and row.tokens == "kl_cov":
        away = surrogates.keep(terms.mask & terms.chosen, terms.logprobs - terms.old_logprobs)
        loss = loss + PULL * away.abs()
    elif terms.chosen is not None:
        loss = loss * terms.chosen
    if row.kl_in_loss and now.kl_coefficient > 0:
        assert terms.ref_logprobs is not None, "a divergence needs a reference"
        logprobs = (terms.logprobs, terms.old_logprobs, terms.ref_logprobs)
        away = kl_loss(row.kl, *logprobs, terms.mask, whole_answer=row.kl_whole_answer)
        loss = loss + now.kl_coefficient * away
    if bonus:
        assert terms.entropies is not None, "an entropy bonus needs entropies"
        loss = loss - bonus * surrogates.keep(terms.mask, terms.entropies)
    return loss


@dataclass(frozen=True, slots=True)
class Cut:
    """How many tokens, or answers where these have the ratio, a surrogate cuts."""

    low: int
    high: int
    of: int


Parts = tuple[Mask, Mask]


def _no_cut(row: Variant, t: Terms, now: Controls) -> Parts:
    none = torch.zeros_like(t.mask)
    return none, none


def _clip_cut(row: Variant, t: Terms, now: Controls) -> Parts:
    policy = (t.logprobs, t.old_logprobs, t.advantages, t.mask)
    high = row.clip_high + now.clip_extra
    return clip_parts(*policy, low=row.clip_low, high=high, dual=row.dual_clip, most=row.ratio_cap)


def _cispo_cut(row: Variant, t: Terms, now: Controls) -> Parts:
    ratio = ratio_of(t.logprobs, t.old_logprobs, t.mask)
    return torch.zeros_like(t.mask), t.mask & (ratio > 1 + row.clip_high)


def _tv_cut(row: Variant, t: Terms, now: Controls) -> Parts:
    sampled = (t.logprobs, t.sampler_logprobs, t.advantages, t.mask)
    far = surrogates.far_in_probability(*sampled, far=row.clip_high)
    return far & (t.advantages < 0), far & (t.advantages > 0)


def _gmpo_cut(row: Variant, t: Terms, now: Controls) -> Parts:
    log_ratio = surrogates.keep(t.mask, t.logprobs - t.old_logprobs)
    low = t.mask & (log_ratio < -row.clip_low) & (t.advantages < 0)
    return low, t.mask & (log_ratio > row.clip_high) & (t.advantages > 0)


def _dcpo_cut(row: Variant, t: Terms, now: Controls) -> Parts:
    ratio = ratio_of(t.logprobs, t.old_logprobs, t.mask)
    lower, upper = surrogates.dcpo_bounds(surrogates.keep(t.mask, t.old_logprobs))
    low = t.mask & (ratio < lower) & (t.advantages < 0)
    return low, t.mask & (ratio > upper) & (t.advantages > 0)


CUTS: dict[str, Callable[[Variant, Terms, Controls], Parts]] = {
    "clip": _clip_cut,
    "cispo": _cispo_cut,
    "tv": _tv_cut,
    "tv_ratio": _tv_cut,
    "gmpo": _gmpo_cut,
    "dcpo": _dcpo_cut,
}


@torch.no_grad()
def cut_of(row: Variant, terms: Terms, now: Controls) -> Cut:
    """Whose gradient is cut for having moved too far down, and too far up; by the unclamped ratio.

    For cispo: whose weight is capped. Answers are counted where they have the ratio.
    """
    terms = at_level(row, terms)
    low, high = CUTS.get(row.surrogate, _no_cut)(row, terms, now)
    of = terms.mask
    if LEVELS[row.level] in (surrogates.sequence, surrogates.answer):
        low, high, of = (part.any(dim=1) for part in (low, high, of))
    return Cut(int(low.sum()), int(high.sum()), int(of.sum()))

"""A variant in words and formulas, made from its slots."""

from collections.abc import Iterator
from dataclasses import fields

from rlvr.objective.slots import Variant
from rlvr.objective.variants import VARIANTS

ADVANTAGES = {
    "raw": "reward",
    "batch_centred": "reward - mean of the batch",
    "centred": "reward - mean of the group",
    "zscore": "(reward - mean of the group) / (std of the group + 1e-4)",
    "rloo": "reward - mean of the others in the group",
    "leave_one_out": "(reward - mean of the others) / (std of the others + 1e-6)",
    "raw_std": "(reward - mean of the group) / (std of all rewards + 1e-4)",
    "batch_std": "(reward - mean of the group) / (std of all centred rewards + 1e-8)",
    "whitened": "reward still to come, mean 0 and variance 1 over all tokens of the batch",
    "maxrl": "(reward - mean of the group) / mean of the group; 0 where the mean is 0",
    "pass_at_k": "what being in a random set of pass_k answers adds to solving the problem",
    "best_minus_second": "(best - second) / (std of the group + 1e-6) for the best, else 0",
    "gdpo": "zscore of each part of the reward, weighted, summed, normalised over the batch",
    "f_grpo": "zscore * (1 - mean of the group)^0.5",
    "lead": "zscore, heavier where right answers are rare",
    "beta": "(reward - mean of the group) / density of that mean under the batch's Beta",
    "opo": "reward - mean of the group weighted by answer length",
    "gpg": "(reward - mean of the group) * answers / answers with a reward",
}
SURROGATES = {
    "clip": "-min(r A, clip(r, {low}, {high}) A)",
    "reinforce": "-A log p",
    "importance": "-r A",
    "cispo": "-[min(r, {high})] A log p",
    "sapo": "-(4/t) sigmoid(t (r - 1)) A,  t = 1 where A > 0, else 1.05",
    "tv": "-[min(p/q, 20)] A log p, 0 where p - q has passed {far} the way A asks",
    "tv_ratio": "-(p/q) A + 0.001 (log p/q)^2, the first 0 where p - q has passed {far}",
    "gmpo": "-A geometric mean of r, log r cut to {log_low} (A < 0) or {log_high} (A > 0)",
    "vespo": "-[e^l W^k e^(-l W)] A log p,  (k, l) = (2, 3) where A >= 0, else (3, 2)",
    "dcpo": "-min(r A, clip(r, bounds of the token's probability) A)",
}
LEVELS = {
    "token": "r = p / p_old of a token",
    "sequence": "r = geometric mean of p / p_old over the answer",
    "sequence_token": "r = geometric mean over the answer, the gradient the token's own",
    "answer": "r = product of p / p_old over the answer",
}
WEIGHTINGS = {
    "token": "w = 1 / tokens of the optimizer step",
    "sequence": "w = 1 / tokens of the answer / answers",
    "budget": "w = 1 / (answers * rollouts.max_new_tokens)",
    "problem": "w = 1 / tokens of the problem's answers / problems",
    "sum": "w = 1 / answers",
    "delta_l": "w = L^-0.75 / mean of that / answers, L the answer's length",
}
KLS = {
    "k1": "d",
    "k2": "d^2 / 2",
    "k3": "exp(-d) - 1 + d",
    "k3_plus": "exp(-d) - 1 + d with the gradient of d^2 / 2",
    "unbiased": "r (exp(-d) - 1 + d)",
}
CORRECTIONS = {
    "truncated": "min(rho, {cap})",
    "masked": "rho, 0 above {cap}",
    "band": "rho, 0 outside {floor} to {cap}",
    "keep_band": "1, 0 where rho is outside {floor} to {cap}",
}
GROUPS = {
    "all": "all count",
    "mixed": "those with unequal rewards alone",
    "active": "those with unequal rewards; up to rollouts.rounds rounds of sampling for more",
}
OVERLONG = {
    "zero": "an answer cut by the limit gets reward 0",
    "soft": "the reward falls by up to 1 over the last fifth of the limit",
    "mask": "an answer cut by the limit is left out",
}
TOKENS = {
    "top_entropy": "the policy loss sees the fifth of the tokens with the highest entropy",
    "clip_cov": "a few tokens of high covariance of A and log p are left out",
    "kl_cov": "the tokens of the highest covariance of A and log p are pulled back",
}
ENTROPY = {
    "bonus": "- {coefficient} * entropy is added",
    "adaptive": "- c * entropy is added below {target} nats, c adapts",
    "adaptive_clip": "the upper bound of r widens while entropy is below {target} nats",
}


def brief(row: Variant) -> tuple[str, str, str, str]:
    """Advantage, surrogate with its bounds, weighting, divergence; a few words each."""
    bounds = {
        "clip": f" {row.clip_low:g}/{row.clip_high:g}",
        "cispo": f" <= {1 + row.clip_high:g}",
        "tv": f" {row.clip_high:g}",
    }.get(row.surrogate, "")
    level = "" if row.level == "token" else f" by {row.level}"
    weight = f" {row.kl_coefficient:g}" if row.kl != "none" else ""
    return row.advantage, f"{row.surrogate}{bounds}{level}", row.weighting, f"{row.kl}{weight}"


def formulas(row: Variant) -> Iterator[tuple[str, str]]:
    """What is computed, a name and a formula a line; [x] stands for a constant."""
    yield (
        "loss",
        f"sum over tokens of w * ({SURROGATES[row.surrogate]})".format(
            low=f"{1 - row.clip_low:g}",
            high=f"{1 + row.clip_high:g}",
            far=f"{row.clip_high:g}",
            log_low=f"{-row.clip_low:g}",
            log_high=f"{row.clip_high:g}",
        ),
    )
    yield "", LEVELS[row.level]
    yield "", f"A = {ADVANTAGES[row.advantage]}"
    yield "", WEIGHTINGS[row.weighting]
    if row.dual_clip is not None:
        yield "", f"where A < 0 the loss is at most {row.dual_clip:g} |A|"
    if row.ratio_cap is not None:
        yield "", f"r counts as at most {row.ratio_cap:g}"
    yield from _divergence(row)
    if row.entropy != "none":
        words = ENTROPY[row.entropy]
        yield (
            "entropy",
            words.format(
                coefficient=f"{row.entropy_coefficient:g}", target=f"{row.entropy_target:g}"
            ),
        )
    if row.correction != "none":
        words = CORRECTIONS[row.correction]
        weight = words.format(cap=f"{row.importance_cap:g}", floor=f"{row.importance_floor:g}")
        yield "correction", f"the loss times {weight}; rho = p_old / q of the sampler"
    if row.off_policy_mask is not None:
        drift = f"the policy moved more than {row.off_policy_mask:g} nats a token away from"
        yield "", f"0 for answers with A < 0 that {drift}"
    if row.keep_sampling_mask:
        yield "", "p and q over the tokens that top-p, top-k or min-p had left"
    if row.tokens != "all":
        yield "tokens", TOKENS[row.tokens]
    yield "groups", GROUPS[row.groups]
    if row.pass_rate_most is not None:
        yield (
            "",
            f"problems solved in {row.pass_rate_most:.0%} of their answers are drawn no more",
        )
    yield "length", OVERLONG[row.overlong]
    if row.updates > 1:
        yield "updates", f"{row.epochs} passes of {row.mini_batches} optimizer steps each"


def _divergence(row: Variant) -> Iterator[tuple[str, str]]:
    if row.kl == "none":
        return
    what = "of the answer's sum" if row.kl_whole_answer else "of a token"
    if row.kl == "reward":
        yield "divergence", f"reward less {row.kl_coefficient:g} * sum of d, a constant"
    else:
        yield "divergence", f"+ {row.kl_coefficient:g} * ({KLS[row.kl]}), with the same weights"
    yield "", f"d = log p - log p_ref {what}"
    if row.kl_target is not None:
        yield "", f"the coefficient adapts to {row.kl_target:g} nats per token"
    if row.reference_every_steps:
        yield "", f"the reference becomes the policy every {row.reference_every_steps} steps"


def slots(row: Variant) -> Iterator[tuple[str, object, bool]]:
    """Every slot with its value, and whether it differs from the plain row."""
    plain = Variant()
    for item in fields(Variant):
        if item.name not in ("source", "differs"):
            value = getattr(row, item.name)
            yield item.name, value, value != getattr(plain, item.name)


PAGE = """# Objectives

Every variant: what it computes, from which paper, and where it is not the paper's. This page is
made from the table in `src/rlvr/objective/variants.py`; `rlvr variants NAME` prints one of them
with all its slots, and each slot is an option: `rlvr train --variant dapo --variant.clip-high 0.3`.

`p`, `p_old`, `q` and `p_ref` are the probabilities of a sampled token: of the policy now, of the
policy at the start of the update, as the sampler recorded it, and of the frozen reference. `[x]`
stands for a constant. Numbers behind every formula are in `tests/objective/test_oracles.py`. Loss
and gradient of the rows that TRL has too are held to `trl` 1.16 within 1e-6, on the same logits,
rewards and masks: `tests/objective/test_peers.py`.

| | advantage | surrogate | weighting | KL | source |
| --- | --- | --- | --- | --- | --- |
{rows}

## Where ours and TRL's settings differ

- TRL's `epsilon_high` of `cispo` is the cap itself; ours is how far the cap lies above 1.
- TRL's `bnpo` is the token mean of each micro-batch, so it depends on the micro-batch. Not here.
- TRL's sequence means divide by the answers of a micro-batch and average over micro-batches: the
  same number where all hold as many. Ours are made from the whole optimizer step.
- TRL's adaptive entropy bonus applies the coefficient of the step before; ours the step's own.
- Answers masked for their length leave our group means; they stay in TRL's.
"""


def page() -> str:
    """All variants as the text of docs/objectives.md."""
    rows = [
        f"| [`{name}`](#{name}) | {' | '.join(brief(row))} | {row.source} |"
        for name, row in VARIANTS.items()
    ]
    text = [PAGE.format(rows="\n".join(rows))]
    for name, row in VARIANTS.items():
        text += [f"## {name}", "", row.source, "", "```"]
        text += [f"{label:<12}{line}".rstrip() for label, line in formulas(row)]
        text += [
            "```",
            *(["", *(f"- {point}" for point in row.differs)] if row.differs else []),
            "",
        ]
    return "\n".join(text).rstrip() + "\n"

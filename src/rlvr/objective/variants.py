"""The table of variants: a name means a paper's whole objective, a choice for every slot.

A row fixes the objective. What else a paper sets (learning rate, group size, rewards) are settings
of a run. `differs` says where a row is not its paper's, and how what the paper leaves open was
settled; `rlvr variants NAME` prints it.
"""

from rlvr.errors import unknown_name
from rlvr.objective.slots import Variant

BOOK = "Raschka, Build a Reasoning Model From Scratch"
CARRIED = "answers carried over from the step before train without importance weights"
BY_PROBLEM = (
    "the paper's equation divides by the tokens of one problem's answers; here, as in public code, "
    "by those of the optimizer step (--variant.weighting problem is the other)"
)
MANY_STEPS = "the paper takes {0} optimizer steps per batch: --variant.mini-batches {0}"

VARIANTS = {
    "olmo3": Variant(
        clip_high=0.272,
        correction="truncated",
        importance_cap=2.0,
        groups="active",
        source="Olmo 3, arXiv:2512.13961, eq. 1",
        differs=(
            "the importance weights act only on answers from other weights or another engine: a "
            "sampler that is the learner's own model needs none",
        ),
    ),
    "grpo": Variant(
        advantage="zscore",
        weighting="sequence",
        kl="k3",
        kl_coefficient=0.04,
        source="DeepSeekMath, arXiv:2402.03300, eq. 3 and 4",
        differs=("the paper prints no clip bound: 0.2 is PPO's and that of public code",),
    ),
    "dr_grpo": Variant(
        weighting="budget",
        source="Dr. GRPO, arXiv:2503.20783, section 3.2",
        differs=("the constant is rollouts.max_new_tokens",),
    ),
    "dapo": Variant(
        advantage="zscore",
        clip_high=0.28,
        groups="active",
        overlong="soft",
        source="DAPO, arXiv:2503.14476, eq. 8 to 13",
        differs=(
            MANY_STEPS.format(16),
            "the slope of the length penalty is the last fifth of the limit, as 4,096 of 20,480",
            BY_PROBLEM,
            CARRIED,
        ),
    ),
    "scalerl": Variant(
        advantage="batch_std",
        surrogate="cispo",
        clip_high=4.0,
        weighting="problem",
        groups="mixed",
        pass_rate_most=0.9,
        source="ScaleRL, arXiv:2510.13786, section 3",
        differs=(
            "the paper's cap of 5 is written as 1 + clip_high; it finds 4 to 8 alike",
            "the ratio is to the policy at the start of the update, the paper's to the sampler",
            "no forced end of thoughts at the limit; sampling and learning take turns",
        ),
    ),
    "gspo": Variant(
        advantage="zscore",
        level="sequence",
        clip_low=3e-4,
        clip_high=4e-4,
        weighting="sequence",
        source="GSPO, arXiv:2507.18071, eq. 5 to 7",
        differs=(MANY_STEPS.format(4),),
    ),
    "cispo": Variant(
        advantage="zscore",
        surrogate="cispo",
        clip_high=4.0,
        source="MiniMax-M1, arXiv:2506.13585, eq. 4 and 5",
        differs=(
            "the paper prints no epsilon: a cap of 5 is ScaleRL's",
            "the paper's dynamic sampling and length penalty are left to --variant.groups active "
            "and --variant.overlong soft",
            BY_PROBLEM,
            MANY_STEPS.format(16),
        ),
    ),
    "sapo": Variant(
        advantage="zscore",
        surrogate="sapo",
        weighting="sequence",
        source="SAPO, arXiv:2511.20347, eq. 5 and 6",
        differs=("clip_low and clip_high have no part in it: the gates' temperatures are 1, 1.05",),
    ),
    "deepseek_v32": Variant(
        advantage="centred",
        weighting="sequence",
        kl="unbiased",
        off_policy_mask=0.5,
        keep_sampling_mask=True,
        source="DeepSeek-V3.2, arXiv:2512.02556, section 3.1",
        differs=(
            "the divergence has weight 0, as the paper for mathematics: kl_coefficient is 0",
            "the paper takes the group's mean off and divides by nothing",
            "the paper prints neither the clip bound (0.2 here) nor the mask's (0.5 here)",
            "no experts, so no routing to keep",
        ),
    ),
    "rloo": Variant(
        advantage="rloo",
        surrogate="reinforce",
        weighting="sum",
        kl="reward",
        source="RLOO, arXiv:2402.14740, eq. 8",
        differs=(
            "the divergence has weight 0 unless variant.kl_coefficient is given; the paper's 0.03 "
            "and 0.1 (appendix C) are for learnt rewards",
        ),
    ),
    "reinforce_pp": Variant(
        advantage="whitened",
        kl="reward",
        source="REINFORCE++, arXiv:2501.03262",
        differs=(
            "the divergence has weight 0 unless variant.kl_coefficient is given; the paper's is "
            "0.001 (section 4.2.3)",
            "the paper's eq. 1 averages within an answer first; all tokens alike here, as in the "
            "authors' code",
        ),
    ),
    "lite_ppo": Variant(
        advantage="raw_std",
        source="LitePPO, arXiv:2508.08221, section 5",
        differs=("the paper prints no clip bound: 0.2 here",),
    ),
    "magistral": Variant(
        advantage="batch_std",
        clip_high=0.28,
        groups="mixed",
        source="Magistral, arXiv:2506.10910, section 2.1",
        differs=(
            "the paper's upper bound is 0.26 to 0.28, its lower one is not printed: 0.2 here",
            "its rewards are settings of a run",
            BY_PROBLEM,
        ),
    ),
    "prorl": Variant(
        advantage="zscore",
        clip_high=0.4,
        kl="k3",
        kl_coefficient=1e-4,
        reference_every_steps=200,
        groups="active",
        source="ProRL, arXiv:2505.24864, section 3",
        differs=(
            "the paper resets reference and optimizer by hand, when validation stalls",
            "the paper prints neither estimator nor coefficient: k3 and 0.0001 here",
            MANY_STEPS.format(4),
            CARRIED,
        ),
    ),
    "maxrl": Variant(
        advantage="maxrl",
        source="MaxRL, arXiv:2602.02710",
        differs=(
            "clip 0.2 and the token mean are those of the authors' code, which takes one optimizer "
            "step per batch, so that the clip never acts",
        ),
    ),
    "gdpo": Variant(
        advantage="gdpo",
        source="GDPO, arXiv:2601.05242",
        differs=(
            "the parts of the reward are compared ungated; with one part it is zscore, normalised "
            "once more over the batch",
            "clip 0.2, token mean and no divergence are verl's example, not the paper's text",
            "normalised over answers as in the paper; verl whitens over tokens",
        ),
    ),
    "dppo": Variant(
        advantage="centred",
        surrogate="tv",
        clip_high=0.2,
        weighting="budget",
        source="DPPO, arXiv:2602.04879, the total-variation form",
        differs=(
            "advantage and weighting are those of the authors' script, not of the paper's text",
            "a probability may move by 0.2, as in public code; the authors' largest run uses 0.15",
            MANY_STEPS.format(8),
        ),
    ),
    "book_ch6": Variant(
        advantage="zscore",
        surrogate="reinforce",
        weighting="sum",
        source=f"{BOOK}, chapter 6",
        differs=("the script updates on one problem at a time",),
    ),
    "book_ch7_clip": Variant(
        advantage="zscore",
        level="answer",
        clip_low=1.0,
        clip_high=10.0,
        weighting="sequence",
        epochs=2,
        source=f"{BOOK}, chapter 7",
        differs=(
            "the script takes the larger of the two products where the advantage is negative, "
            "which cuts the wrong side; here the smaller, for both signs",
            "the script's lower bound, 1 - 10, never acts: a ratio is not negative; here it is 0",
        ),
    ),
    "book_ch7_kl": Variant(
        advantage="zscore",
        level="answer",
        clip_low=1.0,
        clip_high=10.0,
        weighting="sequence",
        kl="k2",
        kl_whole_answer=True,
        kl_coefficient=0.001,
        epochs=2,
        source=f"{BOOK}, chapter 7",
        differs=(
            "the script's divergence is k1 of the answer's sum as a loss, whose gradient is 0 on "
            "average and off-policy pushes every sampled token down; here k2 of that sum",
            "the clip as in book_ch7_clip",
        ),
    ),
}


def variant(name: str) -> Variant:
    """The row of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in VARIANTS:
        raise unknown_name("variant", name, VARIANTS)
    return VARIANTS[name]

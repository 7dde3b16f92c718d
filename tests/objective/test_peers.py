"""Against the installed `trl`: the same logits, rewards and masks give the same loss and gradient.

TRL's own loss function is called, with what it reads of its trainer put in its place.
"""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlvr.objective.loss import (
    Controls,
    Outcomes,
    Terms,
    advantages_of,
    per_token_loss,
    weights_of,
)
from rlvr.objective.slots import Variant
from rlvr.objective.variants import VARIANTS

trl = pytest.importorskip("trl")

GROUPS, SIZE, WIDTH, VOCABULARY, LIMIT = 2, 4, 6, 9, 7
ROWS = GROUPS * SIZE


def setup(seed: int = 3) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(ROWS, WIDTH, VOCABULARY, generator=generator, dtype=torch.float64)
    moved = 0.6 * torch.randn(logits.shape, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, WIDTH + 1, (ROWS, 1), generator=generator)
    return {
        "logits": logits.requires_grad_(),
        "old_logits": (logits + moved).detach(),
        "ref_logits": (logits - moved).detach(),
        "tokens": torch.randint(0, VOCABULARY, (ROWS, WIDTH), generator=generator),
        "mask": torch.arange(WIDTH)[None] < lengths,
        "rewards": torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64),
    }


def taken(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)


def trl_advantages(rewards: Tensor, scale_rewards: str) -> Tensor:
    """As its documentation has them: by group, and by group or by batch a standard deviation."""
    mean = rewards.mean(dim=1, keepdim=True)
    if scale_rewards == "none":
        return rewards - mean
    std = rewards.std(dim=1, keepdim=True) if scale_rewards == "group" else rewards.std()
    return (rewards - mean) / (std + 1e-4)


def trl_loss(case: dict[str, Tensor], settings: dict[str, Any], scale_rewards: str) -> Tensor:
    """TRL's loss of one optimizer step in one micro-batch."""
    logprobs = taken(case["logits"], case["tokens"])
    entropies = torch.zeros_like(logprobs)
    accelerator = SimpleNamespace(
        num_processes=1,
        reduce=lambda value, reduction: value,
        gather=lambda value: value,
    )
    given = {
        "loss_type": "grpo", "importance_sampling_level": "token", "beta": 0.0,
        "epsilon_low": 0.2, "epsilon_high": 0.2,
    } | settings  # fmt: skip
    arguments = SimpleNamespace(
        delta=given.pop("delta", None),
        use_bias_correction_kl=given.pop("use_bias_correction_kl", False),
        sapo_temperature_pos=1.0,
        sapo_temperature_neg=1.05,
        vespo_k_pos=2.0, vespo_lambda_pos=3.0, vespo_k_neg=3.0, vespo_lambda_neg=2.0,
        steps_per_generation=1,
    )  # fmt: skip
    trainer = SimpleNamespace(
        **({"off_policy_mask_threshold": None} | given),
        args=arguments,
        model=SimpleNamespace(training=True),
        accelerator=accelerator,
        current_gradient_accumulation_steps=1,
        max_completion_length=LIMIT,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        get_off_policy_mask=trl.GRPOTrainer.get_off_policy_mask,
        get_gamma_weights=getattr(trl.GRPOTrainer, "get_gamma_weights", None),
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (logprobs, entropies, None),
    )
    inputs = {
        "prompt_ids": torch.zeros(ROWS, 1, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 1, dtype=torch.long),
        "completion_ids": case["tokens"],
        "completion_mask": case["mask"].long(),
        "advantages": trl_advantages(case["rewards"], scale_rewards).flatten(),
        "old_per_token_logps": taken(case["old_logits"], case["tokens"]),
        "ref_per_token_logps": taken(case["ref_logits"], case["tokens"]),
        "num_items_in_batch": case["mask"].sum(),
    }
    loss = trl.GRPOTrainer._compute_loss(trainer, None, inputs)
    assert isinstance(loss, Tensor)
    return loss


def our_loss(case: dict[str, Tensor], row: Variant) -> Tensor:
    mask = case["mask"]
    old = taken(case["old_logits"], case["tokens"])
    seen = Outcomes(
        case["rewards"],
        torch.ones(GROUPS, SIZE, dtype=torch.bool),
        mask.sum(dim=1).view(GROUPS, SIZE),
        torch.zeros(GROUPS, SIZE, 0),
        torch.zeros(0),
    )
    terms = Terms(
        taken(case["logits"], case["tokens"]),
        old,
        old,
        advantages_of(row, seen).view(ROWS, 1),
        mask,
        ref_logprobs=taken(case["ref_logits"], case["tokens"]),
    )
    groups = torch.arange(GROUPS).repeat_interleave(SIZE)
    weights = weights_of(row, mask, groups, ROWS, LIMIT, torch.float64)
    return (per_token_loss(row, terms, Controls.of(row)) * weights).sum()


WIDE = {"epsilon_low": 0.05, "epsilon_high": 0.07}
SAME: dict[str, tuple[Variant, dict[str, Any], str]] = {
    # ours: the row, TRL's settings for it, and its scale_rewards
    "grpo": (VARIANTS["grpo"], {"beta": 0.04}, "group"),
    "dr_grpo": (VARIANTS["dr_grpo"], {"loss_type": "dr_grpo"}, "none"),
    "dapo": (VARIANTS["dapo"], {"loss_type": "dapo", "epsilon_high": 0.28}, "group"),
    # TRL's epsilon_high is the cap itself, ours how far it lies above 1
    "cispo": (VARIANTS["cispo"], {"loss_type": "cispo", "epsilon_high": 5.0}, "group"),
    "cispo, a low cap": (
        replace(VARIANTS["cispo"], clip_high=0.2),
        {"loss_type": "cispo", "epsilon_high": 1.2},
        "group",
    ),
    "gspo": (
        VARIANTS["gspo"],
        {"importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
        "group",
    ),
    "gspo, wide bounds": (
        replace(VARIANTS["gspo"], clip_low=0.05, clip_high=0.07),
        {"importance_sampling_level": "sequence", **WIDE},
        "group",
    ),
    "sapo": (VARIANTS["sapo"], {"loss_type": "sapo"}, "group"),
    "lite_ppo": (VARIANTS["lite_ppo"], {"loss_type": "dapo"}, "batch"),
    "luspo": (
        Variant(level="sequence", weighting="sum", advantage="zscore"),
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        "group",
    ),
    "vespo": (Variant(surrogate="vespo", advantage="zscore"), {"loss_type": "vespo"}, "group"),
    "two-sided clip": (
        Variant(advantage="zscore", weighting="sequence", ratio_cap=1.5),
        {"delta": 1.5},
        "group",
    ),
    "unbiased divergence": (
        Variant(advantage="zscore", weighting="sequence", kl="unbiased", kl_coefficient=0.1),
        {"beta": 0.1, "use_bias_correction_kl": True},
        "group",
    ),
    "off-policy mask": (
        Variant(advantage="zscore", weighting="sequence", off_policy_mask=0.05),
        {"off_policy_mask_threshold": 0.05},
        "group",
    ),
}


@pytest.mark.parametrize("name", list(SAME))
def test_loss_and_gradient_are_those_of_trl(name: str) -> None:
    row, settings, scale_rewards = SAME[name]
    case = setup()
    ours, theirs = our_loss(case, row), trl_loss(case, settings, scale_rewards)
    (our_gradient,) = torch.autograd.grad(ours, case["logits"], allow_unused=True)
    (their_gradient,) = torch.autograd.grad(theirs, case["logits"], allow_unused=True)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-6)
    assert torch.allclose(our_gradient, their_gradient, rtol=1e-6, atol=1e-9)
    if name != "gspo":  # its narrow bounds cut every answer of the case
        assert our_gradient.abs().max() > 1e-3

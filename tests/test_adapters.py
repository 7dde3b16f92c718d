"""Runs with adapters: what learns and what doesn't, the reference, checkpoints, taking up again."""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlvr.config import Config, read_toml, resolve
from rlvr.errors import UsageError
from rlvr.folders import checkpoint_folder, checkpoints
from rlvr.loop import train
from rlvr.model.weights import load_model
from rlvr.observe.evaluate import Evaluated
from rlvr.observe.metrics import Values
from rlvr.run import Run, prepare, take_up

SMALL: dict[str, object] = {
    "steps": 3,
    "variant": "grpo",
    "lora.rank": 4,
    "lora.alpha": 8.0,
    "rollouts.problems_per_step": 4,
    "rollouts.group_size": 4,
    "rollouts.max_new_tokens": 40,
    "evaluation.final_problems": 3,
    "evaluation.every_steps": 0,
    "checkpoints.every_steps": 1,
    "optimiser.lr": 3e-2,
    "optimiser.weight_decay": 0.1,
    "optimiser.warmup_steps": 0,
    "threads": 1,
    "dtype": "float32",
    "seed": 7,
}
DIVERGENCE: dict[str, object] = {"variant.kl": "k3", "variant.kl_coefficient": 0.01}
RESET = DIVERGENCE | {"variant.reference_every_steps": 2}
TAGS: dict[str, object] = {
    "think_tokens": True,
    "lora.targets": "q_proj,down_proj",
    "rollouts.max_new_tokens": 24,
    "reward.format": 0.5,
    "reward.format_gate": "additive",
    "template": "think_prefilled",
}
"""With rows for new tokens: the base is then no model directory that was there before."""


class Watch:
    """Keeps metrics; asks to stop after a step."""

    def __init__(self, run: Run, stop_after: int | None) -> None:
        self.run, self.stop_after = run, stop_after
        self.lines: list[Values] = []

    def evaluated(self, step: int, results: Sequence[Evaluated]) -> None:
        """Nothing to show."""

    def stepped(self, metrics: Values) -> None:
        """Stop where asked."""
        self.lines.append(metrics)
        self.run.stop_asked = metrics["step"] == self.stop_after

    def warned(self, text: str) -> None:
        """Nothing to keep."""


def settings(model: Path | str, **more: object) -> Config:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return resolve(SMALL | {"model": str(model)} | named)


def trained(run: Run, stop_after: int | None = None) -> list[Values]:
    watch = Watch(run, stop_after)
    train(run, watch)
    run.folder.release()
    return watch.lines


def files(folder: Path) -> dict[str, str]:
    """Digests: where megabytes differ, pytest would explain how, for hours."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.suffix == ".safetensors"
    }


def masters(run: Run) -> list[Tensor]:
    return [p.detach().clone().view(torch.int32) for p in run.model.decoder.parameters()]


def test_the_adapters_learn_and_alone_have_optimizer_state_while_every_bit_of_the_base_stays(
    tmp_path: Path,
) -> None:
    run = prepare(settings("abacus"), tmp_path / "run")
    before, ups = masters(run), run.model.decoder.learning()
    lines = trained(run)
    assert [line["grad/nonfinite"] for line in lines] == [0, 0, 0]
    assert all(torch.equal(a, b) for a, b in zip(before, masters(run), strict=True))
    assert all(parameter.grad is None for parameter in run.model.decoder.parameters())
    learnt = {id(tensor): tensor for tensor in ups.values()}
    assert {id(tensor) for tensor in run.optimizer.state} == set(learnt)
    groups = run.optimizer.param_groups
    assert {id(tensor) for group in groups for tensor in group["params"]} == set(learnt)
    assert all(bool(tensor.any()) for name, tensor in ups.items() if "lora_B" in name)
    for line in lines:
        assert (line["update/relative"] or 0) > 0


def test_the_reference_is_the_policy_with_its_adapters_off_and_no_copy(tmp_path: Path) -> None:
    run = prepare(settings("abacus", **DIVERGENCE), tmp_path / "run")
    assert run.reference is not None
    trained(run)
    with torch.no_grad():
        base = load_model(checkpoint_folder(tmp_path / "run", 0)).decoder.weights(torch.float32)
        policy = run.sampling_weights()
    blocks = zip(run.reference.blocks, base.blocks, policy.blocks, strict=True)
    for ours, theirs, now in blocks:
        assert torch.equal(ours.qkv, theirs.qkv)
        assert torch.equal(ours.down, theirs.down)
        assert not torch.equal(ours.down, now.down)
    embedding = run.model.decoder.model.embed_tokens.weight
    assert run.reference.head.data_ptr() == embedding.data_ptr()


MORE: dict[str, dict[str, object]] = {"plain": {}, "kl": DIVERGENCE, "reset": RESET, "tags": TAGS}


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_stopped_and_taken_up_again_gives_the_bits_of_never_having_stopped(
    more: dict[str, object], tmp_path: Path, tagless_folder: Callable[..., Path]
) -> None:
    model = tagless_folder(tied=False) if more is TAGS else "abacus"
    straight = prepare(settings(model, **more), tmp_path / "straight")
    lines = trained(straight)
    stopped = prepare(settings(model, **more), tmp_path / "stopped")
    trained(stopped, stop_after=1)
    again = take_up(resolve(read_toml(tmp_path / "stopped" / "run.toml")), tmp_path / "stopped")
    assert again.progress.step == 1
    others = trained(again)
    assert [line["reward/mean"] for line in lines[1:]] == [line["reward/mean"] for line in others]
    saved = [checkpoints(run.folder.path) for run in (straight, again)]
    assert len(saved[0]) == 4
    for one, other in zip(*saved, strict=True):
        assert files(one) == files(other)
    adapters = [files(folder)["adapter/adapter_model.safetensors"] for folder in saved[0]]
    assert len(set(adapters)) == 4


def test_checkpoints_are_whole_models_the_first_of_them_the_base(tmp_path: Path) -> None:
    """Also in transformers where PEFT is installed: adapters beside the weights count twice."""
    run = prepare(settings("abacus"), tmp_path / "run")
    before = masters(run)
    trained(run)
    first, *_, last = checkpoints(tmp_path / "run")
    base = load_model(first).decoder.parameters()
    assert all(torch.equal(a, b.view(torch.int32)) for a, b in zip(before, base, strict=True))
    with torch.no_grad():
        policy, whole = run.sampling_weights(), load_model(last).decoder.weights(torch.float32)
    for ours, theirs in zip(policy.blocks, whole.blocks, strict=True):
        assert torch.equal(ours.qkv, theirs.qkv)
        assert torch.equal(ours.gate_up, theirs.gate_up)
    config = json.loads((last / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(first)
    transformers: Any = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(last, dtype=torch.float32)
    found = dict(theirs.named_parameters())
    for name, value in run.model.decoder.merged().items():
        assert torch.equal(found[name], value), name


def test_a_new_run_goes_on_from_the_merged_model(tmp_path: Path) -> None:
    trained(prepare(settings("abacus", steps=1), tmp_path / "run"))
    run = prepare(settings(tmp_path / "run", steps=1), tmp_path / "next")
    assert run.model.decoder.adapters is not None
    whole = load_model(checkpoints(tmp_path / "run")[-1]).decoder.parameters()
    ours = run.model.decoder.merged().values()
    assert all(torch.equal(a, b) for a, b in zip(ours, whole, strict=True))
    run.folder.release()


def test_a_run_whose_base_is_gone_is_refused_in_words(tmp_path: Path) -> None:
    trained(prepare(settings("abacus", steps=1), tmp_path / "run"))
    shutil.rmtree(checkpoint_folder(tmp_path / "run", 0))
    with pytest.raises(UsageError, match=r"step-000000 is gone, the base of the adapters"):
        take_up(resolve(read_toml(tmp_path / "run" / "run.toml")), tmp_path / "run")


def test_any_micro_batch_size_gives_the_same_adapters(tmp_path: Path) -> None:
    found = []
    for tokens_at_once in (4096, 60):
        config = settings("abacus", steps=1, optimiser__tokens_at_once=tokens_at_once)
        run = prepare(config, tmp_path / str(tokens_at_once))
        norms = [line["grad/norm"] for line in trained(run)]
        found.append((norms, run.model.decoder.learning()))
    (norms, one), (others, other) = found
    assert norms == pytest.approx(others, rel=1e-4)
    assert all(torch.allclose(one[name], other[name], atol=2e-3) for name in one)

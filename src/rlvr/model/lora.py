"""LoRA: adapters that learn in place of a model's matrices; made, merged, saved in PEFT's format.

Letters: R rank, I inputs of a matrix, O its outputs. Source: arXiv:2106.09685, section 4.1. Here an
adapter is added to its matrix before the product, in a new tensor, so that models with and without
adapters have one forward pass, and the base is never written to.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlvr.errors import UsageError
from rlvr.model.distribution import uniforms

ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX = "base_model.model."
"""What PEFT puts before the names of a model's modules."""
DRAWS = -1  # stands where other draws have the number of a step


@dataclass(frozen=True, slots=True)
class Adapter:
    """What is added to one matrix: `alpha / R * up @ down`."""

    name: str
    """Of the matrix's module, such as `model.layers.0.self_attn.q_proj`."""
    down: Float[Tensor, "R I"]
    """PEFT's lora_A."""
    up: Float[Tensor, "O R"]
    """PEFT's lora_B; 0 at first."""
    alpha: float

    @property
    def scale(self) -> float:
        """What multiplies `up @ down`."""
        return self.alpha / len(self.down)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """What learns, by name."""
        return {f"{self.name}.lora_A.weight": self.down, f"{self.name}.lora_B.weight": self.up}

    def merged(self, matrix: Float[Tensor, "O I"]) -> Float[Tensor, "O I"]:
        """The matrix and what is added to it, in a new tensor.

        The matrix itself while nothing is added: every bit is then the base's, -0 too.
        """
        if not self.up.any():
            return matrix
        return torch.addmm(matrix, self.up, self.down, alpha=self.scale)

    def gradients(self, merged: Float[Tensor, "O I"]) -> tuple[tuple[Tensor, Tensor], ...]:
        """What learns, each with its gradient, from the gradient of the merged matrix."""
        g = merged.to(self.up.dtype)
        return (
            (self.down, (self.up.t() @ g).mul_(self.scale)),
            (self.up, (g @ self.down.t()).mul_(self.scale)),
        )


Adapters = Mapping[Tensor, Adapter]
"""By the master weight that each is added to, in the order of the model."""


def new_adapters(
    model: nn.Module, *, rank: int, alpha: float, targets: Collection[str], seed: int
) -> Adapters:
    """Adapters that add nothing yet.

    As in PEFT, `down` is uniform in ±1/sqrt(I) (Kaiming's with a = sqrt(5)) and `up` is 0.

    Args:
        model: Has its matrices in modules of their Hugging Face names.
        rank: R, at least 1.
        alpha: What is added is multiplied by `alpha / rank`.
        targets: Names of the modules, such as `q_proj`, in every block.
        seed: Of the run; names the draws.
    """
    found: dict[Tensor, Adapter] = {}
    for number, (name, module) in enumerate(model.named_modules()):
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in targets:
            outputs, inputs = module.weight.shape
            draws = uniforms(seed, DRAWS, number, torch.arange(rank * inputs)).view(rank, inputs)
            down = (2 * draws - 1) / inputs**0.5
            found[module.weight] = Adapter(name, down, torch.zeros(outputs, rank), alpha)
    return found


def save_adapters(adapters: Adapters, base: Path, folder: Path) -> None:
    """Write a directory that PEFT loads on top of the model in `base`; `folder` must exist."""
    parts = list(adapters.values())
    tensors = {
        PREFIX + name: value.contiguous() for part in parts for name, value in part.tensors.items()
    }
    save_file(tensors, folder / ADAPTER, metadata={"format": "pt"})
    config = {
        "base_model_name_or_path": str(base.absolute()),
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": len(parts[0].down),
        "lora_alpha": parts[0].alpha,
        "target_modules": sorted({part.name.rpartition(".")[2] for part in parts}),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_dropout": 0.0,
    }
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_adapters(model: nn.Module, folder: Path) -> Adapters:
    """Adapters of a model, as `save_adapters` wrote them.

    Raises:
        UsageError: They are not all there, or belong to another model.
    """
    for name in (ADAPTER, ADAPTER_CONFIG):
        if not (folder / name).is_file():
            raise UsageError(f"{folder} holds no whole adapter: {name} is missing.")
    alpha = float(json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))["lora_alpha"])
    stored, found = load_file(folder / ADAPTER), dict[Tensor, Adapter]()
    for name, module in model.named_modules():
        keys = [f"{PREFIX}{name}.lora_{part}.weight" for part in "AB"]
        if isinstance(module, nn.Linear) and all(key in stored for key in keys):
            down, up = (stored.pop(key) for key in keys)
            if (len(up), *down.shape[1:], len(down)) != (*module.weight.shape, *up.shape[1:]):
                raise UsageError(f"{folder / ADAPTER}: the adapter of {name} does not fit it.")
            found[module.weight] = Adapter(name, down, up, alpha)
    if stored:
        raise UsageError(f"{folder / ADAPTER} has {next(iter(stored))}, which the model lacks.")
    return found

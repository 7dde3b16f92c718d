"""Settings of the adapters that learn in place of the model's matrices."""

import math
from dataclasses import dataclass

from rlvr.errors import UsageError, unknown_name

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The matrices of a block, by their Hugging Face names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lora:
    """Settings of LoRA, arXiv:2106.09685."""

    rank: int = 0
    """Inner width of each adapter; 0 has none: every weight of the model learns."""
    alpha: float = 32.0
    """What an adapter adds is multiplied by alpha / rank."""
    targets: str = "all"
    """Matrices with an adapter, such as `q_proj,v_proj`; `all` those of every block."""

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise UsageError(
                f"lora.rank is {self.rank}. Use 1 or more, such as 16, or 0 for no adapters."
            )
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise UsageError(f"lora.alpha is {self.alpha}; it must be above 0, such as 32.")
        for name in self._named():
            if name not in TARGETS:
                raise unknown_name("matrix in lora.targets", name, (*TARGETS, "all"))

    def _named(self) -> list[str]:
        everything = self.targets.strip() == "all"
        return [*TARGETS] if everything else [name.strip() for name in self.targets.split(",")]

    @property
    def names(self) -> tuple[str, ...]:
        """The matrices with an adapter, in the order of a block."""
        given = self._named()
        return tuple(name for name in TARGETS if name in given)

    def doubts(self) -> list[str]:
        """What is most likely not meant, in words."""
        if self.rank == 0 and self != Lora():
            return ["lora.alpha and lora.targets have no effect while lora.rank is 0"]
        return []

"""Settings of what is observed."""

from dataclasses import dataclass

from rlvr.errors import UsageError

SEED = 1_000_003
"""Of evaluation's draws, so that it never touches training's and curves can be compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Settings of the evaluations within a run."""

    every_steps: int = 10
    """Steps between evaluations; 0 leaves only the first and the last."""
    problems: int = 200
    """First held-out problems used on the way."""
    final_problems: int = 1000
    """First held-out problems used before and after training."""

    def __post_init__(self) -> None:
        if self.every_steps < 0:
            raise UsageError(
                f"evaluation.every_steps is {self.every_steps}. Use 0 or more, such as 10."
            )
        for name in ("problems", "final_problems"):
            if getattr(self, name) < 1:
                raise UsageError(f"evaluation.{name} is {getattr(self, name)}. Use 1 or more.")

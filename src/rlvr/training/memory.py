"""How much memory a run will take at least, and how much there is: asked before weights load."""

from dataclasses import dataclass
from pathlib import Path

from rlvr.errors import UsageError
from rlvr.model.decoder import Shape
from rlvr.model.logprobs import CHUNK_LOGITS
from rlvr.model.weights import parameters_of
from rlvr.rollout.engine import rows_at_once

LOGITS_COPIES = 3
"""The sampler's logits, their log-softmax and the probabilities, each as large as the logits."""
TRAINING_LEVERS = "rollouts.max_new_tokens, rollouts.group_size or rollouts.problems_per_step"


@dataclass(frozen=True, slots=True)
class Needed:
    """Bytes by what they are for."""

    weights: int
    """Master weights, float32."""
    gradient: int
    adamw: int
    """Its two averages, float32."""
    copy: int
    """The weights in the number format of the products."""
    reference: int
    """The frozen policy, where a divergence needs it."""
    packed: int
    """The weights laid out once more for the token steps of sampling."""
    cache: int
    """Keys and values of the rows that are sampled at once."""
    logits: int

    @property
    def fixed(self) -> int:
        """What the model takes, whatever is asked of it."""
        return self.weights + self.gradient + self.adamw + self.copy + self.reference

    @property
    def total(self) -> int:
        """All that is held at once: the gradient is gone while answers are sampled."""
        return (
            self.fixed - self.gradient + max(self.gradient, self.packed + self.cache) + self.logits
        )

    def told(self) -> str:
        """The parts in words, those of nothing left out."""
        turns = "or, at other times, " if self.gradient else ""
        parts = {
            "weights": self.weights,
            "AdamW": self.adamw,
            "weights again for products": self.copy,
            "reference": self.reference,
            "logits": self.logits,
            "gradient": self.gradient,
            f"{turns}weights laid out for sampling": self.packed,
            "keys and values": self.cache,
        }
        return ", ".join(f"{name} {value / 1e9:.1f}" for name, value in parts.items() if value)


def memory_needed(
    shape: Shape,
    *,
    rows: int,
    width: int,
    product_bytes: int = 2,
    trains: bool = True,
    reference: bool = False,
    adapters: bool = False,
) -> Needed:
    """The least that a run holds at its fullest, in bytes; activations come on top.

    Args:
        shape: Sizes of the model.
        rows: Answers that are wanted; the sampler takes so many at once, up to a bound.
        width: Tokens of a row, prompt and longest answer together.
        product_bytes: Bytes of a number in products, 2 for bfloat16 and 4 for float32.
        trains: False where answers are only sampled.
        reference: Whether a frozen policy is kept.
        adapters: Whether these learn in place of the weights: next to nothing beside them.
    """
    parameters = parameters_of(shape)
    rows = min(rows, rows_at_once(shape, width, product_bytes))
    heads = shape.num_hidden_layers * shape.num_key_value_heads * shape.head_dim
    learner = min(CHUNK_LOGITS, rows * width * shape.vocab_size) if trains else 0
    return Needed(
        weights=4 * parameters,
        gradient=4 * parameters if trains and not adapters else 0,
        adamw=8 * parameters if trains and not adapters else 0,
        copy=product_bytes * parameters,
        reference=product_bytes * parameters if reference else 0,
        packed=product_bytes * parameters + 4 * shape.vocab_size * shape.hidden_size,
        cache=2 * product_bytes * heads * rows * width,
        logits=4 * max(LOGITS_COPIES * rows * shape.vocab_size, learner),
    )


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take; None where the system does not say.

    The smallest of what the machine has free and what is left of the limits of the control groups
    that the process is in, whose file caches count as free.
    """
    found = [_free(root), *_left_of_groups(root)]
    known = [free for free in found if free is not None]
    return max(0, min(known)) if known else None


def _free(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(value.split()[0])
    return None


def _left_of_groups(root: Path) -> list[int]:
    """What is left of each limit, of the process's own groups and of those around them."""
    left = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = base / path.strip("/")
        for group in (own, *own.parents[: len(own.parts) - len(base.parts)]):
            most, used = (_text(group / name).strip() for name in names[:2])
            if not (most.isdigit() and used.isdigit()):
                continue  # "max", or a group without the file
            stat = dict(row.split() for row in _text(group / "memory.stat").splitlines())
            left.append(int(most) - int(used) + int(stat.get(names[2], 0)))
    return left


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def refuse_too_large(name: str, needed: Needed, levers: str, available: int | None) -> None:
    """Refuse what the memory can't hold.

    Args:
        name: Of the model.
        needed: From `memory_needed`.
        levers: The settings that make it less.
        available: Bytes, from `available_memory`; None refuses nothing.

    Raises:
        UsageError: More is needed than there is: how much of what, and what to lower.
    """
    if available is None or needed.total <= available:
        return
    way_out = "Take a smaller model, or a machine with more memory."
    if needed.fixed < available:
        way_out = f"Lower {levers}, or take a smaller model."
    raise UsageError(
        f"{name} needs at least {needed.total / 1e9:.1f} GB of memory and "
        f"{available / 1e9:.1f} GB are available. In GB: {needed.told()}. {way_out}"
    )

"""Rotary positions: the frequencies of a head's pairs, by the kind that a `config.json` names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from rlvr.errors import UsageError

Kind = Literal["default", "linear", "llama3", "yarn"]
KINDS: tuple[str, ...] = get_args(Kind)
POSITIONS_AT_ONCE = 8192  # of a table under construction, in float64


@dataclass(frozen=True, kw_only=True, slots=True)
class Rope:
    """How positions turn into angles, beside the base; the words are those of `config.json`."""

    kind: Kind = "default"
    factor: float = 1.0
    """How many times longer than before the context has become."""
    original_positions: int = 1
    """Longest context before that, in tokens (llama3, yarn)."""
    low_freq_factor: float = 1.0
    """Pairs that turn fewer times in the original context are slowed by the factor (llama3)."""
    high_freq_factor: float = 4.0
    """Pairs that turn more often are left as they are (llama3)."""
    beta_fast: float = 32.0
    """Pairs that turn more often in the original context are left as they are (yarn)."""
    beta_slow: float = 1.0
    """Pairs that turn fewer times are slowed by the factor (yarn)."""
    truncate: bool = True
    """Whether the ends of yarn's ramp are whole pairs."""
    attention_factor: float = 1.0
    """Scales cosines and sines (yarn)."""


PLAIN = Rope()


def read_rope(folder: Path, config: Mapping[str, object], positions: int) -> tuple[Rope, float]:
    """How a config's positions turn into angles, and the base of their frequencies.

    Reads `rope_parameters`, as new directories have it, or `rope_theta` and `rope_scaling`.

    Args:
        folder: Named in messages.
        config: What `config.json` holds.
        positions: The model's longest context, in tokens.

    Raises:
        UsageError: A kind that is not read, or numbers that can't be right.
    """
    given: dict[str, object] = {"rope_theta": config.get("rope_theta")}
    for key in ("rope_scaling", "rope_parameters"):
        part = config.get(key)
        if isinstance(part, dict):
            given |= {name: value for name, value in part.items() if value is not None}
        elif part is not None:
            raise UsageError(f"{folder}/config.json has {key} {part!r}; it takes an object.")
    kind = given.get("rope_type", given.get("type", "default"))
    share = given.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if kind not in KINDS or share not in (None, 1):
        what = f"kind {kind!r}" if kind not in KINDS else f"a part of each head ({share})"
        raise UsageError(
            f"{folder}/config.json has rotary positions of {what}; read are "
            f"{', '.join(KINDS)}, over whole heads. Give another model."
        )

    def number(name: str, default: float) -> float:
        value = given.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e18:
            raise UsageError(
                f"{folder}/config.json has {name} {value!r}; it takes a number above 0. "
                "Save the model again."
            )
        return value

    theta = number("rope_theta", 10_000.0)
    if kind == "default":
        return PLAIN, theta
    above = config.get("original_max_position_embeddings")
    if above is not None:
        given["original_max_position_embeddings"] = above
    original = int(number("original_max_position_embeddings", positions))
    factor = number("factor", positions / original)
    scales = number("mscale", 1.0), number("mscale_all_dim", 1.0)
    both = "mscale" in given and "mscale_all_dim" in given
    scales = scales if both else (1.0, 0.0)
    rope = Rope(
        kind=kind,  # type: ignore[arg-type]
        factor=factor,
        original_positions=original,
        low_freq_factor=number("low_freq_factor", 1.0),
        high_freq_factor=number("high_freq_factor", 4.0),
        beta_fast=number("beta_fast", 32.0),
        beta_slow=number("beta_slow", 1.0),
        truncate=given.get("truncate", True) is True,
    )
    if kind == "yarn":
        usual = _scaled(factor, scales[0]) / _scaled(factor, scales[1])
        rope = replace(rope, attention_factor=number("attention_factor", usual))
    if kind == "yarn" and theta <= 1:
        raise UsageError(f"{folder}/config.json has rope_theta {theta}; yarn needs one above 1.")
    if kind == "llama3" and rope.high_freq_factor <= rope.low_freq_factor:
        raise UsageError(
            f"{folder}/config.json has high_freq_factor {rope.high_freq_factor}, which must be "
            f"above low_freq_factor {rope.low_freq_factor}. Save the model again."
        )
    return rope, theta


def _scaled(factor: float, scale: float) -> float:
    """Source: YaRN, arXiv:2309.00071, section 3.4: the square root of 1/t."""
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0


def inverse_frequencies(rope: Rope, theta: float, width: int) -> Float[Tensor, " pairs"]:
    """Angle per position of each pair of a head's numbers, in radians, in float64.

    Args:
        rope: The kind, and what it takes.
        theta: The base.
        width: Of a head (K); it has half as many pairs.

    Source: RoFormer, arXiv:2104.09864, section 3.2.2; linear: position interpolation,
    arXiv:2306.15595; yarn: arXiv:2309.00071, section 3.2; llama3: the code of Llama 3.1, as the
    `transformers` library has it. Differs: float64, where that library computes in float32.
    """
    plain = theta ** -(torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    slowed = plain / rope.factor
    if rope.kind == "default":
        return plain
    if rope.kind == "linear":
        return slowed
    if rope.kind == "llama3":
        turns = rope.original_positions * plain / (2 * math.pi)
        kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    else:
        betas = rope.beta_fast, rope.beta_slow
        low, high = (_pair_that_turns(times, rope, theta, width) for times in betas)
        if rope.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        pair = torch.arange(width // 2, dtype=torch.float64, device="cpu")
        kept = 1 - (pair - low) / (high - low if high != low else 0.001)
    kept = kept.clamp(0, 1)
    return slowed * (1 - kept) + plain * kept


def _pair_that_turns(times: float, rope: Rope, theta: float, width: int) -> float:
    """Number of the pair that turns so many times in the original context."""
    return width * math.log(rope.original_positions / (times * 2 * math.pi)) / (2 * math.log(theta))


@lru_cache(maxsize=4)
def rotary_tables(
    rope: Rope, theta: float, width: int, positions: int
) -> tuple[Float[Tensor, "positions K"], Float[Tensor, "positions K"]]:
    """Cosines and sines of the rotary angles in float32; decoders of one size share them.

    A head's first half is paired with its second; the sines of the first half are negative, so
    that a rotation is two products and a sum.
    """
    per_position = inverse_frequencies(rope, theta, width)
    cos, sin = (torch.empty(positions, width, device="cpu") for _ in range(2))
    half = width // 2
    for first in range(0, positions, POSITIONS_AT_ONCE):
        last = min(first + POSITIONS_AT_ONCE, positions)
        position = torch.arange(first, last, dtype=torch.float64, device="cpu")
        angle = position[:, None] * per_position
        for table, found in ((cos, angle.cos()), (sin, angle.sin())):
            table[first:last, half:] = found * rope.attention_factor
        cos[first:last, :half] = cos[first:last, half:]
        sin[first:last, :half] = -sin[first:last, half:]
    return cos, sin

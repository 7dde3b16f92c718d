"""What this machine can do, by a short measurement: threads, number format, matrix products."""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from rlvr.training.settings import cores

ROWS, WIDTH, INNER = 2048, 128, 512
SECONDS = 0.06  # per measurement


@dataclass(frozen=True, slots=True)
class Machine:
    """Settled once at the start of a run, written to `run.toml`, kept by `--resume`."""

    threads: int
    dtype: Literal["float32", "bfloat16"]
    """`bfloat16` where products in it are faster here, else `float32`."""


def keep_freed_memory() -> None:
    """Ask the C library to keep large pieces of memory that are freed, for the next of their kind.

    By default it gives each back and has the next one zeroed page by page: a sixth of an optimizer
    step of a model of 135 million weights (docs/performance.md). Nothing happens without glibc.
    """
    largest_piece_mapped, trimmed_above = -4, -1  # M_MMAP_MAX, M_TRIM_THRESHOLD of mallopt(3)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(largest_piece_mapped, 0)
    mallopt(trimmed_above, 2**31 - 1)


def measure(threads: int = 0, dtype: Literal["auto", "float32", "bfloat16"] = "auto") -> Machine:
    """Settle what is not given: `threads` 0 and `dtype` "auto" are measured.

    Threads are worth a measurement because two of them on a busy machine wait for each other and
    are slower than one.
    """
    keep_freed_memory()
    if dtype == "auto":
        torch.set_num_threads(1)
        faster = layers_per_second(torch.bfloat16) > 1.2 * layers_per_second(torch.float32)
        dtype = "bfloat16" if faster else "float32"
    if threads == 0:
        speeds = {}
        for count in sorted({1, cores() // 2, cores()} - {0}):
            torch.set_num_threads(count)
            speeds[count] = max(layers_per_second(getattr(torch, dtype)) for _ in range(3))
        best = max(speeds.values())
        threads = min(count for count, speed in speeds.items() if speed > 0.95 * best)
    torch.set_num_threads(threads)
    return Machine(threads, dtype)


def layers_per_second(dtype: torch.dtype) -> float:
    """Speed of a small feed-forward layer, the kind of work a run is made of."""
    x = torch.ones(ROWS, WIDTH, dtype=dtype)
    up, down = torch.ones(INNER, WIDTH, dtype=dtype), torch.ones(WIDTH, INNER, dtype=dtype)
    return rate(lambda: F.linear(F.silu(F.linear(x, up)), down))


def rate(work: Callable[[], object], seconds: float = SECONDS) -> float:
    """Calls per second of `work`, over at least `seconds`."""
    work()
    began, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        work()
        calls += 1
    return calls / passed


def matrix_limit(dtype: torch.dtype, size: int = 2048, seconds: float = 1.0) -> float:
    """Measured speed of a square matrix product, in FLOP per second."""
    a = torch.ones(size, size, dtype=dtype)
    return 2 * size**3 * rate(lambda: a @ a, seconds)


def peak_memory_bytes() -> int:
    """Most memory this process has held so far."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

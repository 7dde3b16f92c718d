"""Sampled tokens per second: rlvr's engine, transformers' generate, and what the machine allows.

    .venv/bin/python benchmarks/rollout.py [--quick] [--patience 300] [--json]

SmolLM2-135M, temperature 1, no filters, every answer as long as asked, in one process and in turn.
Both get the same prompts, up to 8 answers to each; generate gets a prompt once per answer. A time
is of the whole call: reading the prompts, sampling, log-probabilities where the engine has them.
The best of `--repeats` counts, or of as many as fit a minute. Where generate would take longer than
`--patience` seconds, as 16 tokens of it say, there is a dash.

The limit is a sum over the parts of a token's step, each as slow as its arithmetic or its memory,
whichever takes longer: the blocks' matrices and the cache (in the run's number format), and the
head in float32. FLOP per second are those of a square matrix product, bytes per second those of a
sum over 1 GiB, both measured in the same run; the prompt, softmax and draws are not in it.
"""

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from measuring import arguments, find_model, machine_line, number, prompts, say, table, told
from torch import Tensor

from rlvr.errors import UsageError
from rlvr.model.decoder import Shape
from rlvr.model.tokens import load_tokens
from rlvr.model.weights import load_model, parameters_of
from rlvr.records import Sampling
from rlvr.rollout.engine import Draws, sample_rows
from rlvr.training.machine import matrix_limit, measure

BATCHES, LENGTHS = (1, 8, 32, 128), (128, 512)
QUICK_BATCHES, QUICK_LENGTHS = (1, 32), (128,)
ANSWERS = 8  # per prompt, where the batch has so many
PROBE = 16  # tokens that warm up, and tell how long the others will take
ENOUGH_SECONDS = 60.0
NUMBERS = {
    "patience": (300, "seconds that one call of generate may take"),
    "repeats": (2, "calls, of which the best counts"),
}
Generate = Callable[[list[list[int]], int, int], float]
"""Seconds for prompts, answers to each, and tokens of each answer."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """What this machine was measured to do, a second."""

    flops_per_s: float
    """In the run's number format."""
    flops_fp32_per_s: float
    memory_bytes_per_s: float


def memory_limit(repeats: int = 5) -> float:
    """Bytes a second that a sum over 1 GiB reads."""
    numbers = torch.ones(2**28)
    return numbers.nbytes / min(seconds(numbers.sum) for _ in range(repeats))


def seconds(work: Callable[[], object]) -> float:
    """Of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def limit_per_second(
    shape: Shape, rows: int, context: float, itemsize: int, speeds: Speeds
) -> float:
    """Tokens a second that arithmetic and memory allow, as the head of this file says.

    Args:
        shape: Of the decoder.
        rows: Answers that grow side by side.
        context: Tokens that each of them sees, on average.
        itemsize: Bytes of a number in the run's format.
        speeds: Of the machine.
    """
    head = shape.vocab_size * shape.hidden_size
    blocks = parameters_of(shape) - head * (1 if shape.tie_word_embeddings else 2)
    layers, width = shape.num_hidden_layers, shape.head_dim
    seen = 4 * context * shape.num_attention_heads * width * layers * rows
    cached = 2 * context * shape.num_key_value_heads * width * layers * rows * itemsize
    parts = (
        max(2 * blocks * rows / speeds.flops_per_s, blocks * itemsize / speeds.memory_bytes_per_s),
        max(seen / speeds.flops_per_s, cached / speeds.memory_bytes_per_s),
        max(2 * head * rows / speeds.flops_fp32_per_s, head * 4 / speeds.memory_bytes_per_s),
    )
    return rows / sum(parts)


def best(
    generate: Generate, encoded: list[list[int]], answers: int, length: int, most: int
) -> float:
    """Seconds of the fastest call, of at most so many."""
    taken: list[float] = []
    while not taken or (len(taken) < most and sum(taken) < ENOUGH_SECONDS):
        taken.append(generate(encoded, answers, length))
    return min(taken)


def our_engine(folder: Path, dtype: torch.dtype) -> tuple[Generate, Shape]:
    """Our sampler, and the sizes of its decoder."""
    model = load_model(folder)
    with torch.no_grad():
        weights = model.decoder.weights(dtype)

    def generate(encoded: list[list[int]], answers: int, length: int) -> float:
        settings, keys = Sampling(max_new_tokens=length), list(range(len(encoded)))
        return seconds(
            lambda: sample_rows(weights, encoded, keys, answers, settings, Draws(0, 1), ())
        )

    return generate, model.decoder.shape


def their_engine(folder: Path, dtype: torch.dtype) -> Generate:
    """`generate` of transformers, without an end token: answers grow to the limit."""
    if importlib.util.find_spec("transformers") is None:
        raise UsageError("transformers is not installed. Install it with: make install-dev")
    transformers = import_module("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    model.generation_config.eos_token_id = None

    def generate(encoded: list[list[int]], answers: int, length: int) -> float:
        width = max(map(len, encoded))
        padded = [[0] * (width - len(ids)) + ids for ids in encoded]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in encoded]
        settings = transformers.GenerationConfig(
            max_new_tokens=length,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            pad_token_id=0,
        )
        given = {"input_ids": padded, "attention_mask": mask}
        tensors = {k: torch.tensor(v).repeat_interleave(answers, 0) for k, v in given.items()}
        made: list[Tensor] = []
        with torch.no_grad():
            taken = seconds(
                lambda: made.append(model.generate(**tensors, generation_config=settings))
            )
        if made[0].shape[1] != width + length:
            raise UsageError(f"generate made {made[0].shape[1] - width} tokens, not {length}.")
        return taken

    return generate


def measure_cell(
    ours: Generate,
    theirs: Generate,
    encoded: list[list[int]],
    answers: int,
    length: int,
    *,
    repeats: int,
    patience: float,
) -> dict[str, float | None]:
    """Tokens per second of both at one batch and length."""
    tokens = len(encoded) * answers * length
    ours(encoded, answers, PROBE)
    our_seconds = best(ours, encoded, answers, length, repeats)
    theirs(encoded, answers, 2)
    expected = theirs(encoded, answers, PROBE) * length / PROBE
    their_seconds = None
    if expected <= patience:
        their_seconds = best(theirs, encoded, answers, length, repeats)
    return {
        "rlvr_tokens_per_s": tokens / our_seconds,
        "transformers_tokens_per_s": tokens / their_seconds if their_seconds else None,
        "faster_than_transformers": their_seconds / our_seconds if their_seconds else None,
    }


def shown(result: Mapping[str, Any], cells: Sequence[tuple[int, int]]) -> str:
    """The result as a table of plain text."""
    rows = []
    for batch, length in cells:
        of = {name: result[f"{batch}x{length}/{name}"] for name in CELL}
        rows.append(
            [
                f"{batch} x {length}",
                number(of["rlvr_tokens_per_s"], 0),
                number(of["limit_tokens_per_s"], 0),
                f"{of['share_of_limit']:.0%}",
                number(of["transformers_tokens_per_s"], 0),
                number(of["faster_than_transformers"], 1),
            ]
        )
    head = ("answers x tokens", "rlvr tok/s", "limit", "share", "transformers", "rlvr faster")
    speeds = (
        f"{result['dtype']} {result['flops_per_s'] / 1e9:.0f} GFLOP/s, float32 "
        f"{result['flops_fp32_per_s'] / 1e9:.0f} GFLOP/s, memory "
        f"{result['memory_bytes_per_s'] / 1e9:.0f} GB/s, "
        f"{result['threads']} threads, transformers {result['transformers']}"
    )
    return f"{result['machine']}\n{speeds}\n{table(head, rows)}"


CELL = (
    *("rlvr_tokens_per_s", "limit_tokens_per_s", "share_of_limit"),
    *("transformers_tokens_per_s", "faster_than_transformers"),
)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "", NUMBERS)
    parser.add_argument("--quick", action="store_true", help="batches 1 and 32 of 128 tokens alone")
    given = parser.parse_args()
    folder, machine = find_model(given.model), measure(given.threads)
    dtype: torch.dtype = getattr(torch, machine.dtype)
    speeds = Speeds(matrix_limit(dtype), matrix_limit(torch.float32), memory_limit())
    ours, shape = our_engine(folder, dtype)
    theirs = their_engine(folder, dtype)
    result: dict[str, object] = {
        "machine": machine_line(),
        "threads": machine.threads,
        "dtype": machine.dtype,
        "transformers": import_module("transformers").__version__,
        **{name: getattr(speeds, name) for name in Speeds.__slots__},
    }
    batches, lengths = (QUICK_BATCHES, QUICK_LENGTHS) if given.quick else (BATCHES, LENGTHS)
    cells = [(batch, length) for length in lengths for batch in batches]
    tokens = load_tokens(folder)
    for batch, length in cells:
        say(f"{batch} answers of {length} tokens ...")
        answers = min(batch, ANSWERS)
        encoded = [tokens.encode(text) for text in prompts(batch // answers)]
        found = measure_cell(
            ours, theirs, encoded, answers, length, repeats=given.repeats, patience=given.patience
        )
        context = sum(map(len, encoded)) / len(encoded) + length / 2
        limit = limit_per_second(shape, batch, context, dtype.itemsize, speeds)
        assert found["rlvr_tokens_per_s"] is not None
        found |= {
            "limit_tokens_per_s": limit,
            "share_of_limit": found["rlvr_tokens_per_s"] / limit,
        }
        result |= {f"{batch}x{length}/{name}": found[name] for name in CELL}
    sys.stdout.write(json.dumps(result) + "\n" if given.json else shown(result, cells))


if __name__ == "__main__":
    told(main)

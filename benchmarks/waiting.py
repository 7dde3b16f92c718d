"""Answers of many lengths: batch after batch, beside a batch that waiting answers enter.

    .venv/bin/python benchmarks/waiting.py [--answers 128] [--rows 32] [--length 256] [--json]

SmolLM2-135M writes one paragraph to each of so many prompts: an answer ends with its first line end
or at the limit. Both ways sample the same answers with so many rows at once; the ratio is the gain.
"""

import json
import sys
import time
from pathlib import Path

import torch
from measuring import arguments, find_model, machine_line, number, prompts, say, table, told

from rlvr.model.decoder import Weights
from rlvr.model.weights import load_model
from rlvr.records import Sampling
from rlvr.rollout.engine import Draws, sample_rows
from rlvr.training.machine import measure

NUMBERS = {
    "answers": (128, "answers in all"),
    "rows": (32, "rows at once"),
    "length": (256, "longest answer, in tokens"),
}
APART, TOGETHER = "batch after batch", "waiting ones enter"


def sampled(
    weights: Weights, encoded: list[list[int]], limit: int, ends: list[int], rows: int, apart: bool
) -> tuple[float, list[int]]:
    """Seconds, and the length of each answer."""
    size = rows if apart else len(encoded)
    began, lengths = time.perf_counter(), list[int]()
    for first in range(0, len(encoded), size):
        part = encoded[first : first + size]
        keys = range(first, first + len(part))
        settings = Sampling(max_new_tokens=limit)
        found = sample_rows(weights, part, keys, 1, settings, Draws(0, 1), ends, at_once=rows)
        lengths += found.lengths.tolist()
    return time.perf_counter() - began, lengths


def measured(folder: Path, answers: int, rows: int, length: int, threads: int) -> dict[str, object]:
    """Both ways, one after the other; a small round warms up."""
    machine, model = measure(threads), load_model(folder)
    with torch.no_grad():
        weights = model.decoder.weights(getattr(torch, machine.dtype))
    tokens = model.tokens
    ends = [token for token in range(tokens.vocab_size) if "\n" in tokens.decode([token])]
    encoded = [tokens.encode(text) for text in prompts(answers)]
    sampled(weights, encoded[:rows], length, ends, rows, apart=True)
    result: dict[str, object] = {"machine": machine_line(), "dtype": machine.dtype}
    for way in (APART, TOGETHER):
        say(f"{way} ...")
        seconds, lengths = sampled(weights, encoded, length, ends, rows, way == APART)
        result[way] = {"seconds": seconds, "tokens_per_s": sum(lengths) / seconds}
        result["mean_length"], result["longest"] = sum(lengths) / len(lengths), max(lengths)
    return result


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", NUMBERS).parse_args()
    result = measured(
        find_model(given.model), given.answers, given.rows, given.length, given.threads
    )
    if given.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    ways: list[dict[str, float]] = [result[way] for way in (APART, TOGETHER)]  # type: ignore[misc]
    cells = [
        [name, number(way["seconds"], 1), number(way["tokens_per_s"], 0)]
        for name, way in zip((APART, TOGETHER), ways, strict=True)
    ]
    gain = f"{ways[0]['seconds'] / ways[1]['seconds']:.2f} times as fast"
    sys.stdout.write(
        f"{given.answers} answers of {result['mean_length']:.0f} tokens on average, "
        f"{result['longest']} at most, {given.rows} rows at once; {result['dtype']}, "
        f"{result['machine']}\n{table(('', 'seconds', 'tokens/s'), cells)}{gain}\n"
    )


if __name__ == "__main__":
    told(main)

"""Where a step of the built-in model's run spends its time, against what the machine can do.

    .venv/bin/python benchmarks/abacus.py [--threads N] [--steps 40] [--json]

Three measurements in one process: sampling at batch 256 with answers of fixed length, training on
256 rows of fixed length, and real steps of a run (the median of each stage's seconds). Shares are
of the matrix products' speed measured beside them.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from rlvr.abacus import FOLDER
from rlvr.config import resolve
from rlvr.loop import train
from rlvr.model.decoder import Shape
from rlvr.model.weights import load_model, parameters_of
from rlvr.objective.loss import Controls, Outcomes
from rlvr.objective.variants import variant
from rlvr.observe.evaluate import Evaluated
from rlvr.observe.metrics import Values
from rlvr.problems.arithmetic import NORMAL, training_problem
from rlvr.records import Sampling
from rlvr.rollout.engine import Draws, sample_rows
from rlvr.run import prepare
from rlvr.training.batching import Batch
from rlvr.training.machine import Machine, matrix_limit, measure, peak_memory_bytes
from rlvr.training.optimiser import make_optimizer
from rlvr.training.settings import Optimiser
from rlvr.training.update import Learner, optimise

PROBLEMS, ANSWERS, LENGTH = 32, 8, 48


class Silent:
    """Watches a run without a word."""

    def stepped(self, metrics: Values) -> None:
        """A step ended."""

    def warned(self, text: str) -> None:
        """Nothing to show."""

    def evaluated(self, step: int, results: Sequence[Evaluated]) -> None:
        """An evaluation ended."""


def seconds(work: Callable[[], object], repeats: int = 7) -> float:
    """Median seconds of a call, after one call to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def flops_per_token(shape: Shape, context: float) -> float:
    """FLOP of one token's forward pass, with attention over `context` tokens."""
    attention = 4 * context * shape.num_attention_heads * shape.head_dim
    head = 0 if shape.tie_word_embeddings else -shape.vocab_size * shape.hidden_size
    return 2 * (parameters_of(shape) + head) + shape.num_hidden_layers * attention


def measure_sampling(machine: Machine, limit: float) -> dict[str, float]:
    """Tokens per second at batch 256, every answer 48 tokens long."""
    model = load_model(FOLDER)
    prompts = [model.tokens.encode(training_problem(NORMAL, 0, i).prompt) for i in range(PROBLEMS)]
    with torch.no_grad():
        weights = model.decoder.weights(getattr(torch, machine.dtype))
    settings = Sampling(max_new_tokens=LENGTH)
    keys, draws = list(range(PROBLEMS)), Draws(0, 1)
    taken = seconds(lambda: sample_rows(weights, prompts, keys, ANSWERS, settings, draws, [-1]))
    tokens = PROBLEMS * ANSWERS * LENGTH
    work = tokens * flops_per_token(model.decoder.shape, LENGTH / 2)
    return {"sampled_tokens_per_s": tokens / taken, "sampling_share": work / taken / limit}


def measure_training(machine: Machine, limit: float) -> dict[str, float]:
    """Tokens per second of whole optimizer steps on 256 rows of 48 tokens, 36 of which train."""
    model = load_model(FOLDER)
    rows = PROBLEMS * ANSWERS
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, 100, (rows, LENGTH), generator=generator)
    mask = (torch.arange(LENGTH) >= LENGTH // 4).expand(rows, -1)
    batch = Batch(
        tokens=tokens,
        mask=mask,
        sampler_logprobs=torch.zeros(rows, LENGTH),
        sampler_entropies=torch.zeros(rows, LENGTH),
        groups=torch.arange(PROBLEMS).repeat_interleave(ANSWERS),
        counted=torch.ones(rows, dtype=torch.bool),
        corrected=torch.zeros(rows, 1, dtype=torch.bool),
        lengths=torch.full((rows,), LENGTH),
        sampling=Sampling(),
    )
    outcomes = Outcomes(
        torch.randn(PROBLEMS, ANSWERS, generator=generator),
        torch.ones(PROBLEMS, ANSWERS, dtype=torch.bool),
        torch.full((PROBLEMS, ANSWERS), LENGTH - LENGTH // 4),
        parts=torch.zeros(PROBLEMS, ANSWERS, 0),
        part_weights=torch.zeros(0),
    )
    settings = Optimiser()
    optimizer = make_optimizer(model.decoder, settings)
    dtype = getattr(torch, machine.dtype)
    learner = Learner(model.decoder, optimizer, variant("olmo3"), settings, dtype)
    taken = seconds(lambda: optimise(learner, batch, outcomes, Controls(), lr=1e-6, seed=0, step=1))
    flops = 3 * rows * LENGTH * flops_per_token(model.decoder.shape, LENGTH / 2)
    return {
        "trained_tokens_per_s": rows * LENGTH / taken,
        "training_share": flops / taken / limit,
    }


def measure_steps(machine: Machine, steps: int) -> dict[str, float]:
    """Median seconds of each stage over real steps of the default run."""
    with tempfile.TemporaryDirectory() as folder:
        config = resolve({"steps": steps, "threads": machine.threads, "dtype": machine.dtype})
        config = replace(config, evaluation=replace(config.evaluation, final_problems=8))
        run = prepare(config, Path(folder) / "run")
        train(run, Silent())
        rows = run.folder.metrics()
    keys = [key for key in rows[-1] if key.startswith("time/")] + ["tokens_per_s"]
    return {
        f"median {key}": statistics.median(float(str(row[key])) for row in rows) for key in keys
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0, help="0 measures")
    parser.add_argument("--steps", type=int, default=40, help="real steps to time")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    machine = measure(given.threads)
    limit = matrix_limit(getattr(torch, machine.dtype))
    figures: dict[str, object] = {
        "threads": machine.threads,
        "dtype": machine.dtype,
        "limit_gflops": limit / 1e9,
        **measure_sampling(machine, limit),
        **measure_training(machine, limit),
        **measure_steps(machine, given.steps),
        "peak_memory_mb": peak_memory_bytes() / 1e6,
    }
    if given.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    for name, value in figures.items():
        digits = ",.0f" if isinstance(value, float) and value >= 100 else ".4g"
        shown = format(value, digits) if isinstance(value, float) else value
        sys.stdout.write(f"{name:<24}{shown}\n")


if __name__ == "__main__":
    main()

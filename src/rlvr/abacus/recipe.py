"""How the built-in model was made: `python -m rlvr.abacus.recipe --out DIR` makes it again.

Supervised pretraining on `corpus`, in three phases: learn to work answers out, learn short numbers
as well, and last take on the habit of answering at once. The loss is on answers alone.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from rlvr.abacus.corpus import Mix, document
from rlvr.abacus.vocabulary import END, PAD, build_tokenizer
from rlvr.model.decoder import Decoder, Shape
from rlvr.model.logprobs import token_logprobs
from rlvr.model.tokens import Tokens
from rlvr.model.weights import FAMILY, Model, save_model
from rlvr.problems.arithmetic import Range
from rlvr.records import Sampling

LONG_NUMBERS = Range(
    name="long numbers",
    kinds=(
        ("sum", 0.15),
        ("difference", 0.2),
        ("product", 0.2),
        ("three_terms", 0.35),
        ("word", 0.1),
    ),
    digits=((2, 0.3), (3, 0.7)),
)
"""Where working out is learnt: three terms have the most columns to know, so they come often."""
DOCUMENTS_PER_STEP = 256
MICRO_BATCHES = 4
PEAK_LR = 2e-3
WARMUP_STEPS = 30


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of pretraining on one mix."""

    name: str
    steps: int
    mix: Mix
    lr_from: float
    lr_to: float


PHASES = (
    Phase(
        "work", 1000, Mix(thinks=0.8, sloppy=0.15, slips=0.04, hard=0.15, span=LONG_NUMBERS),
        PEAK_LR, PEAK_LR,
    ),
    Phase("short", 250, Mix(thinks=0.7, sloppy=0.2, slips=0.05, hard=0.2), PEAK_LR, 1.2e-3),
    Phase("habit", 250, Mix(thinks=0.15, sloppy=0.4, slips=0.08, hard=0.1), 1.2e-3, 5e-5),
)  # fmt: skip


def shape(vocab_size: int) -> Shape:
    """Sizes of the built-in model: 0.8 million parameters."""
    return Shape(
        vocab_size=vocab_size,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        rope_theta=10_000.0,
    )


def fresh_decoder(vocab_size: int, seed: int) -> Decoder:
    """Random weights from a seed: normal, scaled by the fan-in, outputs of blocks smaller."""
    sizes = shape(vocab_size)
    decoder = Decoder(sizes)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in decoder.named_parameters():
        if weight.dim() == 1:
            weight.data.fill_(1.0)
            continue
        scale = 0.02 if "embed" in name else weight.shape[1] ** -0.5
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            scale /= math.sqrt(2 * sizes.num_hidden_layers)
        weight.data.copy_(torch.randn(weight.shape, generator=generator) * scale)
    return decoder


def micro_batches(tokens: Tokens, random: Random, mix: Mix) -> Iterator[tuple[Tensor, Tensor]]:
    """One step's documents as right-padded tokens and answer masks, similar lengths together."""
    encode = tokens.encode
    pairs = [document(random, mix) for _ in range(DOCUMENTS_PER_STEP)]
    rows = sorted(((encode(q), encode(a)) for q, a in pairs), key=lambda row: len(row[0] + row[1]))
    size = DOCUMENTS_PER_STEP // MICRO_BATCHES
    for first in range(0, DOCUMENTS_PER_STEP, size):
        chosen = rows[first : first + size]
        width = max(len(question) + len(answer) for question, answer in chosen)
        ids = torch.full((size, width), tokens.pad_id)
        mask = torch.zeros(size, width, dtype=torch.bool)
        for row, (question, answer) in enumerate(chosen):
            ids[row, : len(question) + len(answer)] = torch.tensor(question + answer)
            mask[row, len(question) : len(question) + len(answer)] = True
        yield ids, mask


def pretrain(tokens: Tokens, seed: int, dtype: torch.dtype) -> Decoder:
    """All phases; the same seed, machine and threads give the same bits."""
    decoder = fresh_decoder(tokens.vocab_size, seed)
    optimiser = torch.optim.AdamW(
        decoder.parameters(), lr=PEAK_LR, betas=(0.9, 0.98), weight_decay=0.05, fused=True
    )
    random, done, began = Random(seed), 0, time.perf_counter()
    for phase in PHASES:
        for step in range(phase.steps):
            share = step / phase.steps
            lr = phase.lr_to + (phase.lr_from - phase.lr_to) * (1 + math.cos(math.pi * share)) / 2
            optimiser.param_groups[0]["lr"] = lr * min(1.0, (done + 1) / WARMUP_STEPS)
            batches = list(micro_batches(tokens, random, phase.mix))
            count = sum(int(mask.sum()) for _, mask in batches)
            loss = 0.0
            for ids, mask in batches:
                logprobs, _ = token_logprobs(decoder.weights(dtype), ids, mask, Sampling())
                part = -logprobs.sum() / count
                part.backward()
                loss += part.item()
            torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            done += 1
            if done % 25 == 0:
                seconds = time.perf_counter() - began
                print(f"{phase.name} {done} loss {loss:.3f} {seconds:.0f} s", file=sys.stderr)
    return decoder


def built_in_tokens() -> Tokens:
    """The built-in model's tokenizer with its end and padding tokens."""
    tokenizer = build_tokenizer()
    end, pad = tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)
    assert end is not None
    assert pad is not None
    return Tokens(tokenizer, (end,), pad)


def write_tokenizer(folder: Path, vocab_size: int) -> None:
    """Tokenizer and configuration files as `transformers` and `rlvr` read them."""
    tokens = built_in_tokens()
    tokens.tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "architectures": [FAMILY],
        "model_type": "qwen3",
        **{k: v for k, v in asdict(shape(vocab_size)).items()},
        "hidden_act": "silu",
        "attention_bias": False,
        "eos_token_id": tokens.stop_ids[0],
        "pad_token_id": tokens.pad_id,
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def main() -> None:
    """Make the built-in model again."""
    parser = argparse.ArgumentParser(description="Pretrain the built-in model abacus.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model directory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    given.out.mkdir(parents=True, exist_ok=True)
    tokens = built_in_tokens()
    write_tokenizer(given.out, tokens.vocab_size)
    decoder = pretrain(tokens, given.seed, getattr(torch, given.dtype))
    save_model(Model(decoder, tokens, given.out), given.out, dtype=torch.bfloat16)


if __name__ == "__main__":
    main()

"""`rlvr chat` at work: the model loads once, then answers one question or one a line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from rlvr.errors import UsageError
from rlvr.model.decoder import Weights
from rlvr.model.suggested import not_applied
from rlvr.model.tokens import Tokens
from rlvr.model.weights import load_model, read_shape
from rlvr.observe.result import printable
from rlvr.problems.prompts import render
from rlvr.records import CLOSE, OPEN, Problem, Prompt, Rollout, Sampling
from rlvr.rollout.engine import Draws, rollouts
from rlvr.training.machine import measure
from rlvr.training.memory import available_memory, memory_needed, refuse_too_large

BARE_SUM = set("0123456789+-* ")
"""A question of these alone gets the equals sign that arithmetic prompts end with, out of chats."""


def converse(
    name: str,
    folder: Path,
    template: str,
    question: str | None,
    sampling: Sampling,
    seed: int,
    *,
    sums: bool,
) -> None:
    """Answer one question, or one a line until the end of the input.

    Args:
        name: Of the model or run, as it was given.
        folder: The model directory.
        template: A text with `{problem}`, or a name of `TEMPLATES` that needs no model.
        question: The one that is asked; None reads one a line.
        sampling: How answers are drawn.
        seed: Names the draws.
        sums: Whether a bare sum gets the equals sign.

    Raises:
        UsageError: The model can't be read, the memory can't hold it, or the question does not fit.
    """
    needed = memory_needed(read_shape(folder), rows=1, width=sampling.max_new_tokens, trains=False)
    refuse_too_large(name, needed, "--max-new-tokens", available_memory())
    note = not_applied(name, folder, sampling)
    sys.stderr.write(f"rlvr: {note}\n" if note else "")
    machine = measure(threads=1)
    model = load_model(folder)
    room = model.decoder.shape.max_position_embeddings - sampling.max_new_tokens
    with torch.no_grad():
        weights = model.decoder.weights(getattr(torch, machine.dtype))
    if question is None and sys.stdin.isatty():
        sys.stdout.write(f"{name}: ask, such as 345+678=, and end with Ctrl-D\n")
    for turn, text in enumerate(questions() if question is None else [question]):
        asked = f"{text}=" if sums and set(text) <= BARE_SUM else text
        prompt = render(template, Problem("chat", asked, "", "chat"))
        fault = unfit(prompt, model.tokens, room)
        if fault and question is not None:
            raise UsageError(fault)
        if fault:
            sys.stdout.write(f"  {fault}\n")
            continue
        answer = ask(weights, model.tokens, prompt, sampling, Draws(seed, turn))
        sys.stdout.write(shown(answer))


def unfit(prompt: Prompt, tokens: Tokens, room: int) -> str:
    """Why a prompt can't be asked; empty where it can."""
    try:
        prompt.text.encode()
    except UnicodeEncodeError:
        return "that is no UTF-8 text; write the question in UTF-8."
    needed = len(tokens.encode_prompt(prompt))
    if needed > room:
        return (
            f"the question takes {needed} tokens, and beside the longest answer {max(room, 0)} "
            "fit. Ask for less, or give a smaller --max-new-tokens."
        )
    return ""


def questions() -> Iterator[str]:
    """Lines of the input, one question each."""
    interactive = sys.stdin.isatty()
    while True:
        if interactive:
            sys.stdout.write("> ")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def ask(
    weights: Weights, tokens: Tokens, prompt: Prompt, sampling: Sampling, draws: Draws
) -> Rollout:
    """One answer to one prompt."""
    problem = Problem("chat", prompt.problem, "", "chat")
    return next(rollouts(weights, tokens, [problem], [prompt], 1, sampling, draws, 0))


def shown(answer: Rollout) -> str:
    """The thought behind a bar, then the answer."""
    thought, closed, rest = answer.response.rpartition(CLOSE)
    if not closed and OPEN in answer.response:
        thought, rest = answer.response, ""
    lines = [f"  | {line}" for line in thought.replace(OPEN, "").strip().splitlines()]
    lines.append(f"  {rest.strip() or '(no answer after the thought)'}")
    if answer.finish_reason == "length":
        lines.append(f"  (cut at {len(answer.answer_tokens)} tokens; --max-new-tokens takes more)")
    return printable("\n".join(lines)) + "\n"

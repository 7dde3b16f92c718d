"""`rlvr chat`: ask a model or the newest checkpoint of a run."""

import sys
from collections.abc import Iterator, Sequence

import torch

from rlvr.commands.evaluation import settings_of
from rlvr.commands.options import Options, number, whole_number
from rlvr.model.decoder import Weights
from rlvr.model.tokens import Tokens
from rlvr.model.weights import load_model
from rlvr.observe.result import printable
from rlvr.problems.prompts import render
from rlvr.records import CLOSE, OPEN, Problem, Prompt, Rollout, Sampling
from rlvr.rollout.engine import Draws, rollouts
from rlvr.run import model_folder
from rlvr.training.machine import measure

BARE_SUM = set("0123456789+-* ")
"""A question of these alone gets the equals sign that arithmetic prompts end with."""


def chat_command(about: str, words: Sequence[str]) -> int:
    """Answer one question, or one a line until the end of the input."""
    parser = Options("chat", about, "MODEL-OR-RUN [QUESTION] [--temperature T]")
    parser.add_argument("model", nargs="?", default="abacus", metavar="MODEL-OR-RUN")
    parser.add_argument("question", nargs="?", help="else one a line")
    parser.add_argument("--temperature", default="0", help="0 is greedy, the default")
    parser.add_argument("--seed", default="0", help="names the draws")
    parser.add_argument("--max-new-tokens", default="128", help="longest answer in tokens")
    given = parser.parse(words)
    sampling = Sampling(
        temperature=number(parser, "--temperature", given.temperature, 0, 100),
        max_new_tokens=whole_number(parser, "--max-new-tokens", given.max_new_tokens, 1),
    )
    seed = whole_number(parser, "--seed", given.seed, 0)
    folder, template = model_folder(given.model), settings_of(given.model).template
    machine = measure(threads=1)
    model = load_model(folder)
    room = model.decoder.shape.max_position_embeddings - sampling.max_new_tokens
    with torch.no_grad():
        weights = model.decoder.weights(getattr(torch, machine.dtype))
    alone = given.question is not None
    if not alone and sys.stdin.isatty():
        sys.stdout.write(f"{given.model}: ask, such as 345+678=, and end with Ctrl-D\n")
    for turn, question in enumerate([given.question] if alone else questions()):
        asked = f"{question}=" if set(question) <= BARE_SUM else question
        prompt = render(template, Problem("chat", asked, "", "chat"))
        if len(model.tokens.encode_prompt(prompt)) > room:
            sys.stdout.write(f"  too long: at most {room} tokens fit\n")
            continue
        answer = ask(weights, model.tokens, prompt, sampling, Draws(seed, turn))
        sys.stdout.write(shown(answer))
    return 0


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

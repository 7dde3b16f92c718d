"""What is said before the first step, and once on the way, of a run that will learn nothing."""

from collections.abc import Mapping, Sequence

import torch

from rlvr.config import Config
from rlvr.model.decoder import Weights
from rlvr.model.logprobs import token_logprobs
from rlvr.model.tokens import Tokens
from rlvr.observe.evaluate import Evaluated
from rlvr.problems.prompts import render
from rlvr.records import OPEN, Problem, Prompt, Sampling

PROMPTS = 16  # prompts that the probability of the tag is measured on
FIRST_STEPS = 3  # steps in which the tag should turn up at least once
CUT_MOST = 0.1  # share of cut answers above which a run is warned before it starts
NEARLY_ALL = 0.9  # share of cut answers that makes a step without a right answer an alarm


@torch.no_grad()
def tag_probability(
    weights: Weights, tokens: Tokens, prompts: Sequence[Prompt], sampling: Sampling
) -> float:
    """Probability that an answer begins with the opening tag, as a mean over prompts.

    A tag of several pieces has the product of their probabilities. Other ways to split it are not
    counted, and filters (top-p and the like) not applied.

    Args:
        weights: For sampling.
        tokens: Of the model.
        prompts: At least one.
        sampling: The temperature and the banned tokens.
    """
    tag, found = tokens.encode(OPEN), list[float]()
    for prompt in prompts:
        ids = tokens.encode_prompt(prompt) + tag
        if len(ids) > weights.shape.max_position_embeddings:
            found.append(0.0)  # no room for it
            continue
        mask = torch.arange(len(ids))[None] >= len(ids) - len(tag)
        logprobs, _ = token_logprobs(weights, torch.tensor([ids]), mask, sampling)
        found.append(logprobs[mask].sum().exp().item())
    return sum(found) / len(found)


def unseen_tags(
    config: Config,
    weights: Weights,
    tokens: Tokens,
    sampling: Sampling,
    problems: Sequence[Problem],
    results: Sequence[Evaluated],
) -> str:
    """A warning where the template asks for tags that will not be sampled; else empty.

    Args:
        config: Of the run.
        weights: For sampling.
        tokens: Of the model.
        sampling: As training samples.
        problems: Some, of which the first few are asked.
        results: Evaluations before the first step: where one saw a thought, all is well.
    """
    prompts = [render(config.template, problem) for problem in problems[:PROMPTS]]
    prompts = [prompt for prompt in prompts if prompt.asks_for_tags and not prompt.opened]
    if not prompts or any(result.thinks for result in results):
        return ""
    probability = tag_probability(weights, tokens, prompts, sampling)
    rows = config.rollouts.problems_per_step * config.rollouts.group_size
    expected = FIRST_STEPS * rows * probability
    if expected >= 1:
        return ""
    return (
        f"the template asks for {OPEN}, and the model begins an answer with it with probability "
        f"{probability:.2g} (mean of {len(prompts)} prompts): of the {FIRST_STEPS * rows:,} "
        f"answers of the first {FIRST_STEPS} steps about {expected:.2g} will. What is never "
        "sampled is never rewarded. Let the prompt open the thought (--template think_prefilled), "
        "show some (--template think_examples), or fine-tune on a few thoughts first"
    )


def cut_answers(results: Sequence[Evaluated], limit: int) -> str:
    """A warning where many answers of the first evaluation were cut; else empty."""
    share = max((result.truncated for result in results if result.mode == "sampled"), default=0.0)
    if share <= CUT_MOST:
        return ""
    return (
        f"{share:.0%} of the answers of the first evaluation were cut at rollouts.max_new_tokens "
        f"{limit}, and an answer that was cut counts as wrong. Use more, such as {2 * limit}, or a "
        "template that asks for less"
    )


def all_cut(metrics: Mapping[str, float | int | None], limit: int) -> str:
    """An alarm where nearly all answers of a step were cut and none was right; else empty."""
    cut, right = metrics.get("length/truncated"), metrics.get("reward/correct")
    if cut is None or cut < NEARLY_ALL or right:
        return ""
    return (
        f"step {metrics.get('step')}: {cut:.0%} of the answers were cut at rollouts.max_new_tokens "
        f"{limit} and none was right: nothing is learnt from such steps. Stop (Ctrl-C) and start "
        f"again with more, such as {2 * limit}"
    )

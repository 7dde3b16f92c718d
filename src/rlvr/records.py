"""The records that pass between floors: problem, prompt, score, rollout, group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["correct", "incorrect", "could not judge"]
Kept = Sequence[Sequence[Sequence[int]]]
"""By row and answer token, the tokens that the sampler's filters had left."""
FinishReason = Literal["stop", "length"]
OPEN, CLOSE = "<think>", "</think>"
"""Tags around a thought."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A question and its reference answer."""

    id: str
    prompt: str
    """The question as text, before any template."""
    answer: str
    """The reference answer, as the data set writes it."""
    source: str
    """Where it came from: a name of `rlvr problems`, or a file and line."""
    subject: str | None = None
    """Its kind within the source, such as `sum`; evaluations are split by it."""
    level: int | None = None
    """Difficulty within the source, if known."""
    alternatives: tuple[str, ...] = ()
    """Other right answers, where the question allows one of several."""
    scorer: str | None = None
    """Who scores answers instead of the verifier: `countdown`, or `gym:` and a task's name."""
    entry: str = ""
    """What that scorer needs to know of the problem, as JSON."""


def problem_of(fields: Mapping[str, Any]) -> Problem:
    """A problem from its fields as JSON holds them, where a tuple has become a list."""
    return Problem(**{**fields, "alternatives": tuple(fields.get("alternatives", ()))})


@dataclass(frozen=True, slots=True)
class Prompt:
    """A problem as its template puts it; the problem's text stays apart from the template's.

    What the problem spells is ordinary text: only the template's own tags become special tokens.
    """

    problem: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """All of it."""
        return f"{self.before}{self.problem}{self.after}"

    @property
    def opened(self) -> bool:
        """Whether the template ends with an opening tag: the answer then begins in a thought."""
        return self.after.rstrip().endswith(OPEN)

    @property
    def asks_for_tags(self) -> bool:
        """Whether the template speaks of think tags."""
        return OPEN in self.before + self.after


def response(text: str, *, opened: bool, stop: Sequence[str] = ()) -> str:
    r"""An answer as graders read it: with the opening tag, where the prompt has given that.

    Args:
        text: As sampled.
        opened: Whether the prompt ends with the opening tag.
        stop: Texts that end an answer: none of them, and nothing after one, is read.

    >>> response("1+1=2</think>2", opened=True)
    '<think>1+1=2</think>2'
    >>> response(" 12\n\nQuestion:", opened=False, stop=["\n"])
    ' 12'
    """
    text = before_stop(text, stop)
    return OPEN + text if opened else text


def before_stop(text: str, stop: Sequence[str]) -> str:
    """A text up to where the first of some texts begins in it."""
    return text[: min((at for s in stop if (at := text.find(s)) >= 0), default=len(text))]


def stored_response(row: Mapping[str, Any], text: str) -> str:
    """As `response`, of the text of a line that holds a stored rollout, or of anybody's line."""
    sampling = row.get("sampling")
    named = sampling.get("stop") if isinstance(sampling, dict) else None
    listed = named if isinstance(named, list) else []
    stop = [found for found in listed if isinstance(found, str) and found]
    return response(text, opened=row.get("opened") is True, stop=stop)


@dataclass(frozen=True, slots=True)
class Score:
    """What a grader or a reward says of one answer.

    `value` is None where we are the cause (an unreadable reference, a grader's fault): such a
    rollout leaves its group's statistics and gets advantage 0. An exception is never a zero.
    """

    value: float | None
    verdict: Verdict
    reason: str
    answer: str | None = None
    """The answer that was found in the text, if any."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Each part of the reward before weights and gates, by name."""
    trouble: Literal["", "late", "failed"] = ""
    """Your own function: late, which counts as 0 from it, or failed, which is our fault."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Training needs temperature above 0."""

    temperature: float = 1.0
    """Divides the logits; 0 takes the likeliest token (evaluation only)."""
    top_p: float = 1.0
    """Nucleus: the smallest set of likeliest tokens with at least this mass; 1 keeps all."""
    top_k: int = 0
    """Keep this many likeliest tokens; 0 keeps all."""
    min_p: float = 0.0
    """Drop tokens less likely than this share of the likeliest one; 0 keeps all."""
    max_new_tokens: int = 128
    """Longest answer in tokens, without the prompt, the end token among them."""
    banned: tuple[int, ...] = ()
    """Tokens that are never drawn; the learner's distribution is without them too."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer, with the token after which its text holds one of them."""

    @property
    def filters(self) -> bool:
        """Whether tokens are dropped by their probability, so that the record must say which."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled answer. The learner reads nothing that is not in here."""

    problem_id: str
    group_id: int
    """Number of its group within the step."""
    slot: int
    """Number of the answer within its group, 0 to G-1."""
    prompt_tokens: Sequence[int]
    answer_tokens: Sequence[int]
    """As sampled, with the end token or that which completed a stop; never made from text again."""
    sampler_logprobs: Sequence[float]
    """Log-probability, in nats, of each answer token under the distribution it was drawn from."""
    finish_reason: FinishReason
    """`stop` where the model or a stop text ended the answer, `length` where the limit cut it."""
    text: str
    """The answer decoded, special tokens kept; a stop text at its end is in it."""
    sampling: Sampling
    seed: int
    """Seed of the run; with step, problem, slot and position it names every draw."""
    weights_version: int
    """Optimizer steps that the sampling weights had seen."""
    sampler_entropies: Sequence[float] = ()
    """Entropy, in nats, over the whole vocabulary where each answer token was drawn."""
    kept: Sequence[Sequence[int]] = ()
    """Where filters were on: the tokens they had left at each answer token."""
    score: Score | None = None
    opened: bool = False
    """Whether the prompt had opened the thought that the answer begins in."""

    @property
    def said(self) -> str:
        """The text up to where a stop text begins."""
        return before_stop(self.text, self.sampling.stop)

    @property
    def response(self) -> str:
        """The answer as graders read it."""
        return response(self.text, opened=self.opened, stop=self.sampling.stop)


@dataclass(frozen=True, slots=True)
class Group:
    """The G rollouts of one problem."""

    problem: Problem
    rollouts: Sequence[Rollout]

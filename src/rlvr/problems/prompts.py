r"""Templates: how a problem is put to the model.

Nothing is formatted: `{problem}` is the place of the problem's text, and every other brace, in the
template and in the problem, is itself.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rlvr.errors import UsageError, unknown_name
from rlvr.records import Problem, Prompt

PLACE = "{problem}"
SHOWN = 60  # characters of a template in a message
GOOD = r"An example: '{problem}\nThe answer is '."
OTHER_PLACES = ("{question}", "{prompt}", "{input}", "{query}", "{}", "{0}", "%s", "$problem")
FILE_ENDINGS = (".txt", ".md", ".prompt")


@dataclass(frozen=True, slots=True)
class Template:
    """A built-in template."""

    text: str
    about: str
    chat: bool = False
    """The text is what a user says, and the model's own chat template surrounds it."""


EXAMPLES = (
    ("58+24=", "8+4=12 5+2+1=8", "82"),
    ("403-16=", "13-6=7 9-1=8 3-0=3", "387"),
    ("12*9=", "2*9=18 1*9+1=10", "108"),
)
"""Questions with their work and answer; none is held out by `arithmetic`."""


SMALL = (("7 + 5", "12"), ("9 - 4", "5"), ("3 * 6", "18"), ("23 + 14", "37"))
"""Questions in small numbers with their answers; none is held out by `arithmetic`."""


def _worked(answers: list[str]) -> str:
    """Questions with the answers, then the place of the problem."""
    asked = [f"Question: {question}\nAnswer: " for question, _, _ in EXAMPLES]
    shown = [f"{ask}{answer}\n\n" for ask, answer in zip(asked, answers, strict=True)]
    return f"{''.join(shown)}Question: {PLACE}\nAnswer:"


_BOXED = f"{PLACE}\nPut the final answer in \\boxed{{}}."
_THINK = (
    f"{PLACE}\nThink first, between <think> and </think>. Then put the final answer in \\boxed{{}}."
)
TEMPLATES = {
    "plain": Template(PLACE, "the problem and nothing else"),
    "boxed": Template(f"{_BOXED}\n", "asks for the answer in a box"),
    "think": Template(f"{_THINK}\n", "asks for a thought between tags, then a boxed answer"),
    "think_prefilled": Template(f"{_THINK}\n<think>", "as `think`, and opens the thought itself"),
    "think_answer": Template(
        f"{PLACE}\nThink first, between <think> and </think>. "
        "Then give the final answer between <answer> and </answer>.\n",
        "asks for a thought and an answer, each between tags",
    ),
    "examples": Template(
        _worked([f"\\boxed{{{answer}}}" for _, _, answer in EXAMPLES]),
        "three questions with their answers before the problem: arithmetic, for base models",
    ),
    "think_examples": Template(
        _worked([f"<think>{work}</think>\\boxed{{{answer}}}" for _, work, answer in EXAMPLES]),
        "the same three, each worked out between tags",
    ),
    "answers": Template(
        "".join(f"Question: {asked}\nAnswer: {answer}\n\n" for asked, answer in SMALL)
        + f"Question: {PLACE}\nAnswer:",
        "four small sums with their answers before the problem, no box: for base models",
    ),
    "chat": Template(
        PLACE, "the problem as a user's message in the model's own chat template", chat=True
    ),
    "chat_boxed": Template(_BOXED, "the message of `boxed` in that chat template", chat=True),
    "chat_think": Template(_THINK, "the message of `think` in that chat template", chat=True),
}


def render(template: str, problem: Problem) -> Prompt:
    r"""The prompt of a problem.

    Args:
        template: A name of `TEMPLATES`, or a text that holds `{problem}`.
        problem: Its text is put in as it is.

    Raises:
        UsageError: There is no such template, the text can't be one, or it needs a model.

    >>> render("boxed", Problem("1", "What is 1+1?", "2", "here")).text
    'What is 1+1?\nPut the final answer in \\boxed{}.\n'
    >>> render("Q: {problem} A:", Problem("1", "{problem} %s {}", "2", "here")).text
    'Q: {problem} %s {} A:'
    """
    before, after = halves(template)
    return Prompt(problem.prompt, before, after)


@lru_cache(maxsize=32)
def halves(template: str) -> tuple[str, str]:
    """What stands before the problem, and what behind it.

    Raises:
        UsageError: As `render`.
    """
    check_template(template)
    row = TEMPLATES.get(template, Template(template, "a text"))
    if row.chat:
        raise UsageError(
            f"the template {template} is made from a model's own chat template. Name the model: "
            f"rlvr templates {template} --model DIR."
        )
    before, _, after = row.text.partition(PLACE)
    return before, after


def check_template(template: str) -> None:
    """Refuse what is neither a name of the table nor a text that can be a template.

    Raises:
        UsageError: It is neither.
    """
    fault = fault_of(template) if template not in TEMPLATES else ""
    if fault:
        raise UsageError(fault)


def fault_of(template: str) -> str:
    r"""What is wrong with a template that is no name of the table; empty where nothing is."""
    shown = repr(template if len(template) <= SHOWN else f"{template[:SHOWN]}...")
    if not template.strip():
        return (
            "the template is empty. Give a text that holds {problem} where the problem belongs, or "
            f"a name ({', '.join(TEMPLATES)}). {GOOD}"
        )
    if "{{problem}}" in template:
        return (
            f"the template {shown} has {{{{problem}}}}: no brace is doubled here, and the outer "
            f"two would stay in the prompt. Write {{problem}}, and \\boxed{{}} as it is."
        )
    found = template.count(PLACE)
    if found > 1:
        return (
            f"the template {shown} holds {{problem}} {found} times, and the problem is put in "
            f"once. Leave one. {GOOD}"
        )
    if any("\ud800" <= letter <= "\udfff" for letter in template):
        return f"the template {shown} holds half of a character pair, which no tokenizer reads."
    if found == 1:
        return ""
    other = next((place for place in OTHER_PLACES if place in template), None)
    if other or any(mark in template for mark in "{}\n "):
        instead = f" in the place of {other}" if other else " where the problem belongs"
        return (
            f"the template {shown} does not hold {{problem}}: the model would never see the "
            f"question. Write {{problem}}{instead}. {GOOD}"
        )
    told = str(unknown_name("template", template, TEMPLATES))
    return f"{told} Or give a text with {{problem}} in it, or a file of one."


def doubt_of(template: str) -> str:
    r"""What is most likely not meant in a template that works; empty where nothing is.

    >>> doubt_of(r"{problem}\n")
    'the template spells \\n, which stays two characters: give a file for several lines'
    >>> doubt_of(r"{problem} $a \neq b$")
    ''
    """
    if re.search(r"\\n(?![a-z])", template):
        return r"the template spells \n, which stays two characters: give a file for several lines"
    return ""


def resolved(template: str) -> str:
    r"""A name as it is; a text as it is; a file as its text, less one line end at its end.

    Raises:
        UsageError: The file is not there, or can't be read, or no template.
    """
    if template in TEMPLATES or PLACE in template or "\n" in template:
        return template
    try:
        there = Path(template).is_file()
        text = Path(template).read_text(encoding="utf-8-sig") if there else None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the template file {template} can't be read: {error}. It must be text in UTF-8."
        ) from None
    if text is None:
        if template.endswith(FILE_ENDINGS):
            raise UsageError(
                f"no template file {template}. Give a file whose text holds {{problem}}, or a name "
                f"({', '.join(TEMPLATES)})."
            )
        return template
    if not text.strip():
        raise UsageError(
            f"the template file {template} is empty. It must hold {{problem}} where the problem "
            f"belongs, and the text around it. {GOOD}"
        )
    text = text.removesuffix("\n")
    fault = fault_of(text) if text not in TEMPLATES else "it holds only the name of a template."
    if fault:
        raise UsageError(f"{template}: {fault}")
    return text

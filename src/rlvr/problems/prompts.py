"""Templates: how a problem is put to the model."""

from rlvr.errors import unknown_name
from rlvr.records import Problem

TEMPLATES = {
    "plain": "{problem}",
    "boxed": "{problem}\nPut the final answer in \\boxed{{}}.\n",
    "think": (
        "{problem}\nThink first, between <think> and </think>. "
        "Then put the final answer in \\boxed{{}}.\n"
    ),
}


def render(template: str, problem: Problem) -> str:
    r"""The prompt of a problem.

    Raises:
        UsageError: There is no such template.

    >>> render("boxed", Problem("1", "What is 1+1?", "2", "here"))
    'What is 1+1?\nPut the final answer in \\boxed{}.\n'
    """
    if template not in TEMPLATES:
        raise unknown_name("template", template, TEMPLATES)
    return TEMPLATES[template].format(problem=problem.prompt)

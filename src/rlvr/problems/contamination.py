"""Whether evaluation problems also stand in the training set, whole or in part."""

import re
import string
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rlvr.records import Problem

WORDS = 13
COMMON = 10  # training problems that may share words before these are taken for mere wording
PUNCTUATION = str.maketrans("", "", string.punctuation)
WRITTEN_WITHOUT_BLANKS = re.compile("([\u3040-\u30ff\u3400-\u9fff])")  # Chinese, Japanese

Pair = tuple[str, str]
"""Ids of an evaluation problem and of the first training problem that it meets."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """What an evaluation set has in common with a training set."""

    training: int
    """Problems in the training set."""
    evaluation: int
    """Problems in the evaluation set."""
    same: tuple[Pair, ...]
    """Evaluation problems whose text is that of a training problem."""
    shared: tuple[Pair, ...]
    """Others with so many words in a row in common with one."""
    words: int

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.same and not self.shared

    def lines(self, named: int = 3) -> list[str]:
        """What was found in words, a line each, with the first ids."""
        found = []
        what = f"have {self.words} words in a row in common with a training problem"
        for pairs, says in (
            (self.same, "are training problems word for word"),
            (self.shared, what),
        ):
            if pairs:
                ids = ", ".join(f"{ours} ({theirs})" for ours, theirs in pairs[:named])
                more = ", ..." if len(pairs) > named else ""
                found.append(
                    f"{len(pairs):,} of {self.evaluation:,} evaluation problems {says}: {ids}{more}"
                )
        return found


def overlap(
    training: Sequence[Problem], evaluation: Sequence[Problem], words: int = WORDS
) -> Overlap:
    """Compare two sets of problems by their texts.

    Same text: equal but for case and blanks. Shared: a run of `words` words, where case and
    punctuation are dropped and blanks part the words; a Chinese or Japanese character is a word.

    Source: GPT-3, arXiv:2005.14165, appendix C (13 words). Differs: a run of words that more than
    10 training problems share is wording or drawing code, not a question, and does not count; texts
    shorter than 13 words are compared as wholes only.

    >>> one, two = Problem("a", "What is 1+1 ?", "2", ""), Problem("b", "what is 1+1?", "2", "")
    >>> overlap([one], [two]).same
    (('b', 'a'),)
    """
    whole: dict[str, str] = {}
    for problem in training:
        whole.setdefault(squeezed(problem.prompt), problem.id)
    same = {
        number: whole[text]
        for number, problem in enumerate(evaluation)
        if (text := squeezed(problem.prompt)) in whole
    }
    ours = defaultdict(list)
    for number, problem in enumerate(evaluation):
        for run in _runs(problem.prompt, words):
            ours[run].append(number)
    sought = frozenset(ours)
    meets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for problem in training:
        for run in sought & _runs(problem.prompt, words):
            meets[run].append(problem.id)
    first: dict[int, str] = {}
    for run, ids in meets.items():
        if len(ids) <= COMMON:
            for number in ours[run]:
                first.setdefault(number, ids[0])
    return Overlap(
        len(training),
        len(evaluation),
        tuple((evaluation[number].id, same[number]) for number in sorted(same)),
        tuple((evaluation[n].id, first[n]) for n in sorted(first) if n not in same),
        words,
    )


def squeezed(text: str) -> str:
    """A text without case and blanks, to tell whether two are the same.

    >>> squeezed("What is  1 + 1?")
    'whatis1+1?'
    """
    return "".join(text.casefold().split())


def _runs(text: str, words: int) -> set[tuple[str, ...]]:
    """Every run of so many words in a text."""
    text = text.casefold().translate(PUNCTUATION)
    if not text.isascii():
        text = WRITTEN_WITHOUT_BLANKS.sub(r" \1 ", text)
    found = text.split()
    return set(zip(*(found[start:] for start in range(words)), strict=False))

"""Which part of a text is the answer: computes nothing, in time linear in its length."""

import re
from dataclasses import dataclass

MACRO = re.compile(r"\\(?:boxed|fbox) {0,8}\{")
CHAT_TOKENS = re.compile(r"(?:(?:<\|[a-z_]{1,30}\|>|</s>|<eos>)\s*)+\Z")
LONGEST_PLAIN = 200  # characters of a box-less remainder that may be an answer as a whole
MOST_CANDIDATES = 8  # boxes in one line that are looked at


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, or the reason why there is none."""

    answer: str | None
    reason: str
    candidates: tuple[str, ...] = ()
    """Different texts boxed in one line; one answer if all have one value.

    The last in the text stands last. Empty where there are too many to look at.
    """


@dataclass(frozen=True, slots=True)
class Box:
    """One box: where its macro begins, what it holds, where it ends."""

    start: int
    content: str
    end: int


def extract(text: str) -> Found:
    r"""The answer of a response: its last box after the thought, else a short remainder.

    A thought that never ends gives no answer. A box that is never closed means that the text was
    cut. Different boxes in one line are candidates: none is the answer unless all have one value.

    >>> extract(r"<think>\boxed{1}</think>It is \boxed{\frac{1}{2}}.").answer
    '\\frac{1}{2}'
    >>> extract(r"<think>\boxed{1}").reason
    'the thought never ends'
    """
    _, closed, rest = text.rpartition("</think>")
    if "<think>" in rest:
        return Found(None, "the thought never ends")
    boxes, cut = find_boxes(rest)
    if cut:
        return Found(None, "the last box is not closed")
    if boxes:
        return _last_box(rest, boxes)
    plain = rest.strip()
    if closed and len(plain) <= LONGEST_PLAIN:
        plain = CHAT_TOKENS.sub("", plain).rstrip()
        if plain and "\n" not in plain:
            return Found(plain, "what follows the thought")
    return Found(None, "no boxed answer")


def _last_box(text: str, boxes: list[Box]) -> Found:
    last = boxes[-1]
    line_start = text.rfind("\n", 0, last.start) + 1
    content = unboxed(last.content)
    if not content:
        return Found(None, "the last box is empty")
    in_line = {unboxed(box.content) for box in boxes if box.start >= line_start} - {""}
    if len(in_line) > 1:
        candidates = (*sorted(in_line - {content}), content)
        looked_at = candidates if len(candidates) <= MOST_CANDIDATES else ()
        return Found(None, "several different boxes in one line", looked_at)
    return Found(content, "boxed")


def unboxed(content: str) -> str:
    r"""The content of the box that is all of a box's content, however often.

    >>> unboxed(r" \boxed{ 7 } ")
    '7'
    """
    for _ in range(10):
        content = content.strip()
        inner, cut = find_boxes(content)
        if cut or len(inner) != 1 or inner[0].start != 0 or inner[0].end != len(content):
            break
        content = inner[0].content
    return content


def find_boxes(text: str) -> tuple[list[Box], bool]:
    r"""Outermost boxes with matched braces, and whether the last one is never closed.

    A `\boxed` without a brace behind it is no box. One pass over the text.
    """
    boxes: list[Box] = []
    place = 0
    while found := MACRO.search(text, place):
        end = closing_brace(text, found.end() - 1)
        if end < 0:
            return boxes, True
        boxes.append(Box(found.start(), text[found.end() : end], end + 1))
        place = end + 1
    return boxes, False


def closing_brace(text: str, brace: int) -> int:
    r"""Index of the brace that closes the one at `brace`, -1 if none does; `\{` is no brace."""
    depth, place = 0, brace
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 2
            continue
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return place
        place += 1
    return -1

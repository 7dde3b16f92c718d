"""Which part of a text is the answer: computes nothing, in time linear in its length."""

import re
from dataclasses import dataclass

MACRO = re.compile(r"\\(?:boxed|fbox)\s{0,8}\{([^{}\\]*\})?")
BRACE = re.compile(r"\\[\s\S]|[{}]")
CHAT_TOKENS = re.compile(r"(?:(?:<\|[A-Za-z_]{1,30}\|>|</s>|<eos>)\s*)+\Z")
ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
SENTENCE = re.compile(
    r"\banswer(?:\s+(?:is|equals|(?:should|must|would|will)\s+be)"
    r"(?:\s+(?:therefore|thus|hence|then|simply|just|exactly))?\b\s*:?"
    r"|\*{0,2}\s*[:=]\s*\*{0,2}|\s*(?=\\\[|\$\$)|\*{0,2}\s*\n(?=\s*\S))",
    re.IGNORECASE,
)
HASHES = re.compile(r"#{4}[ \t]*(?=[^\s#])")
NUMBER = re.compile(
    r"(?<![\w.])[-+\u2212]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?(?![\w])"
)
BECAUSE = re.compile(r",?\s+(?:because|since|as|which|so|when|where|by)\s.*", re.IGNORECASE)
SENTENCE_END = re.compile(r"[.!?]+(?=\s|\Z|\*)")
SAID_IN_BOX = re.compile(
    r"\A\s*(?:\\text[a-z]*\s*\{)?[^{}\\$]{0,40}\banswer\s*(?:is)?\s*:?\s*"
    r"(?P<brace>\}?)(?=[^a-zA-Z])",
    re.IGNORECASE,
)
CONNECTED = re.compile(r"(?:[\s,;.$()*]|\\[\[\]()]|\b(?:and|or|either)\b)*", re.IGNORECASE)
LONGEST_PLAIN = 200  # characters of a box-less remainder that may be an answer as a whole
LONGEST_MARKED = 4000  # characters of an answer that is looked into for marks and boxes
LONGEST_JOIN = 40  # characters between boxes of two lines that may be one answer
LONGEST_SAID = 400  # characters of a marked answer without a box
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


def extract(text: str, *, lenient: bool = False) -> Found:
    r"""The answer of a response, by one rule for rewards and evaluation.

    Only what follows the last thought counts; a thought that never ends gives no answer. The last
    box is the answer, and nothing beside a box is fallen back to. Different boxes in one line are
    candidates: none is the answer unless all mean the same. Without a box, the last of these:
    `<answer>...</answer>`, a sentence such as "the answer is ...", a label `Answer: ...`,
    `#### ...`. Without those, a short line that is all that follows a thought.

    Args:
        text: The whole response.
        lenient: Then also the last number in the text.

    >>> extract(r"<think>\boxed{1}</think>It is \boxed{\frac{1}{2}}.").answer
    '\\frac{1}{2}'
    >>> extract(r"<think>\boxed{1}").reason
    'the thought never ends'
    >>> extract("So the answer is 12 apples. Done.").answer
    '12 apples'
    """
    _, closed, rest = text.rpartition("</think>")
    if "<think>" in rest:
        return Found(None, "the thought never ends")
    boxes, cut = find_boxes(rest)
    if cut:
        return Found(None, "the last box is not closed")
    if boxes:
        return _last_box(boxes)
    said = _said(rest)
    if said is not None:
        return said
    plain = rest.strip()
    if closed and len(plain) <= LONGEST_PLAIN:
        plain = CHAT_TOKENS.sub("", plain).rstrip()
        if plain and "\n" not in plain:
            return Found(plain, "what follows the thought")
    if lenient:
        numbers = NUMBER.findall(rest[-20_000:])
        if numbers:
            return Found(numbers[-1], "the last number")
    return Found(None, "no boxed or marked answer")


def _said(text: str) -> Found | None:
    """What a text without a box marks as its answer, if anything."""
    opened, tagged = -1, None
    for tag in ANSWER_TAG.finditer(text):
        if not tag[1]:
            opened = tag.end()
        elif opened >= 0:
            tagged, opened = text[opened : tag.start()], -1
    if opened >= 0:
        return Found(None, "the answer tag is not closed")
    if tagged is not None:
        inside = _marked(tagged)
        return inside or Found(plain_answer(tagged), "between answer tags")
    return _marked(text)


def _marked(text: str) -> Found | None:
    """What a sentence, a label or `####` marks as the answer, if anything."""
    marks = [found.end() for pattern in (SENTENCE, HASHES) for found in pattern.finditer(text)]
    if not marks:
        return None
    hashes = HASHES.search(text, max(0, max(marks) - 40), max(marks) + 1)
    said = text[max(marks) : max(marks) + LONGEST_SAID]
    answer = plain_answer(_first_sentence(said))
    if not answer:
        return Found(None, "nothing follows where the answer should be")
    return Found(answer, "behind ####" if hashes else "said to be the answer")


def _first_sentence(said: str) -> str:
    """The line that follows a mark, or the display behind it, up to the end of its sentence."""
    said = said.lstrip(" \t\r\n*:")
    for opening, closing in (("\\[", "\\]"), ("$$", "$$"), ("\\(", "\\)"), ("$", "$")):
        if said.startswith(opening):
            inside, closed, after = said[len(opening) :].partition(closing)
            tail = after.partition("\n")[0].lstrip(" ")
            if closed and (not tail or tail[0] in ".,;!*" or opening in ("\\[", "$$")):
                return inside
    line = CHAT_TOKENS.sub("", said.partition("\n")[0])
    end = SENTENCE_END.search(line)
    line = line[: end.start()] if end and not line[end.end() :].startswith("m.") else line
    return BECAUSE.sub("", line)


def plain_answer(said: str) -> str:
    r"""A marked answer without markdown, quotation marks and dollar signs around it.

    >>> plain_answer(" **`42`** "), plain_answer("$x=5$")
    ('42', 'x=5')
    """
    if len(said) > LONGEST_MARKED:
        return said.strip()
    said = CHAT_TOKENS.sub("", said.strip()).strip()
    for _ in range(6):
        stripped = said.strip().strip('`"\u201c\u201d').strip()
        stripped = stripped.removeprefix("**").removesuffix("**").removesuffix(".")
        if stripped.startswith("\\(") and stripped.endswith("\\)"):
            stripped = stripped[2:-2]
        if stripped.startswith("\\[") and stripped.endswith("\\]"):
            stripped = stripped[2:-2]
        if stripped == said:
            break
        said = stripped
    return said.replace("**", "").strip("$").strip()


def _last_box(boxes: list[Box]) -> Found:
    last = boxes[-1]
    content = unboxed(last.content)
    if not content:
        return Found(None, "the last box is empty")
    others = {unboxed(inside) for inside in {box.content for box in boxes[:-1]}} - {""}
    if others - {content}:
        candidates = (*sorted(others - {content}), content)
        looked_at = candidates if len(candidates) <= MOST_CANDIDATES else ()
        return Found(None, "several different boxes in one line", looked_at)
    return Found(content, "boxed")


def unboxed(content: str) -> str:
    r"""The content of the box that is all of a box's content, however often.

    A sentence in a box counts by its answer.

    >>> unboxed(r" \boxed{ 7 } "), unboxed(r"\text{The answer is } 6")
    ('7', '6')
    """
    if len(content) > LONGEST_MARKED:
        return content.strip()
    for _ in range(10):
        content = content.strip()
        inner, cut = find_boxes(content)
        if cut or len(inner) != 1 or inner[0].start != 0 or inner[0].end != len(content):
            break
        content = inner[0].content
    said = SAID_IN_BOX.match(content)
    if said is None:
        return content
    after = content[said.end() :].strip()
    if ("{" in said[0]) == bool(said["brace"]):
        return after
    whole = after.endswith("}") and after.count("{") < after.count("}")
    return after[:-1].strip() if whole else content


def find_boxes(text: str) -> tuple[list[Box], bool]:
    r"""The last box and those beside it, and whether the last one is never closed.

    Boxes are outermost and end at the brace that matches; a `\boxed` without a brace behind it is
    no box. Beside each other are boxes in one line, or joined by nothing but commas. One pass over
    the text, which keeps no box that later ones have left behind.
    """
    spans: list[tuple[int, int, int]] = []  # where each begins, where its content does, its brace
    place = 0
    while found := MACRO.search(text, place):
        start, end = found.span()
        brace = end - 1
        first, last = (found.start(1), brace) if found[1] else (end, closing_brace(text, brace))
        if last < 0:
            return _cut_out(text, spans), True
        if spans and not _beside(text[place:start]):
            spans.clear()
        spans.append((start, first, last))
        place = last + 1
    return _cut_out(text, spans), False


def _cut_out(text: str, spans: list[tuple[int, int, int]]) -> list[Box]:
    return [Box(start, text[first:last], last + 1) for start, first, last in spans]


def _beside(between: str) -> bool:
    """Whether the boxes with this text between them stand in one line, or are joined by commas."""
    if "\n" not in between:
        return True
    joined = len(between) < LONGEST_JOIN and CONNECTED.fullmatch(between)
    return bool(joined) and "\n\n" not in between


def closing_brace(text: str, brace: int) -> int:
    r"""Index of the brace that closes the one at `brace`, -1 if none does; `\{` is no brace."""
    depth = 0
    for found in BRACE.finditer(text, brace):
        if found[0] == "{":
            depth += 1
        elif found[0] == "}":
            depth -= 1
            if depth == 0:
                return found.start()
    return -1

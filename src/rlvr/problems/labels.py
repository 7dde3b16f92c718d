"""Labels of MATH that are broken or doubtful, by problem: left out, cleaned, or given company.

Found by reading the 12,500 problems: the rule "the answer is the last box of the solution" gives
these labels, and they are not what a right answer looks like. None is in MATH-500. A problem is
known by its text, so that copies of MATH without ids are mended as well.
"""

from dataclasses import dataclass
from hashlib import sha256

EMPTY = "the label is empty"
WRONG = "the label is wrong"
PART = "the label is only the last part of the answer"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A problem that nothing can be learned from as it is labelled."""

    id: str
    """In MATH: split, subject and number."""
    key: str
    """`key_of` its text."""
    why: str


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A label with stray punctuation or remarks."""

    id: str
    key: str
    printed: str
    """As MATH has it."""
    answer: str
    """The answer alone."""


@dataclass(frozen=True, slots=True)
class Either:
    """A question that allows one of several answers, of which the label is one."""

    id: str
    key: str
    answers: tuple[str, ...]
    """All of them."""


LEFT_OUT = (
    LeftOut("train/number_theory/7115", "8661fac1c823", EMPTY),
    LeftOut("train/number_theory/7117", "f25e61792419", EMPTY),
    LeftOut("test/algebra/1730", "483ac9306461", WRONG),
    LeftOut("train/algebra/152", "8694d6cee93e", PART),
    LeftOut("train/algebra/1771", "3cebf59612cf", PART),
    LeftOut("train/intermediate_algebra/1113", "6d92b67e400b", PART),
    LeftOut("train/intermediate_algebra/1486", "bbc8b3775d9d", PART),
    LeftOut("train/intermediate_algebra/1964", "d9c146c8c43b", PART),
    LeftOut("train/precalculus/571", "a051a87dfe49", PART),
    LeftOut("train/precalculus/722", "8dfb3e1d2df2", PART),
    LeftOut("train/precalculus/860", "a85f548c3a61", PART),
    LeftOut("train/precalculus/1040", "28dc2e839a38", PART),
    LeftOut("train/precalculus/1089", "e2ca57b01b10", PART),
    LeftOut("train/precalculus/1149", "922296ac6bcf", PART),
    LeftOut("train/precalculus/1269", "0498977eb295", PART),
    LeftOut("test/algebra/1878", "301981661117", PART),
    LeftOut("test/intermediate_algebra/225", "0fbca7e4248d", PART),
    LeftOut("test/intermediate_algebra/1020", "f278eb2e65b4", PART),
    LeftOut("test/intermediate_algebra/1855", "7710eb237209", PART),
    LeftOut("test/intermediate_algebra/2089", "c13764456b68", PART),
    LeftOut("test/precalculus/679", "abadab1befb1", PART),
    LeftOut("test/precalculus/1227", "9bc2cbf52fba", PART),
    LeftOut("test/precalculus/1233", "50fe45023eae", PART),
)
CLEANED = (
    Cleaned("train/algebra/719", "8f588a4b3b9b", r"\approx 8.24 \text{ mph}", "8.24"),
    Cleaned("train/algebra/866", "e7769a6f43f8", r"-\frac{5}{3}.", r"-\frac{5}{3}"),
    Cleaned("train/counting_and_probability/358", "e34f3241454a", r"240\text{ ways.}", "240"),
    Cleaned(
        "train/counting_and_probability/360", "308b47f568c6", r"\$\dfrac23 \approx \$0.67", "0.67"
    ),
    Cleaned("train/counting_and_probability/557", "c4168cd8b8bc", r"0.56 = 56\%", r"56\%"),
    Cleaned("train/geometry/536", "3ac933e29032", r"30^\circ.", r"30^\circ"),
    Cleaned("train/number_theory/852", "df8ead54fa6e", "43_5.", "43_5"),
    Cleaned("train/number_theory/1012", "f933631b63c8", r"\text{(E)},", r"\text{(E)}"),
    Cleaned("train/prealgebra/635", "146ff76ea33d", r"7\text{ hours}.", "7"),
    Cleaned(
        "train/precalculus/1308",
        "b575f9b8baaa",
        r"\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}.",
        r"\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}",
    ),
    Cleaned("test/counting_and_probability/231", "147b19ee0a2a", r"18\text{ ways.}", "18"),
    Cleaned("test/counting_and_probability/991", "64270c6370e4", r"1920\text{ ways.}", "1920"),
    Cleaned(
        "test/intermediate_algebra/1289",
        "d435be1cd460",
        r"\frac{7}{5} + \frac{1}{5} i.",
        r"\frac{7}{5} + \frac{1}{5} i",
    ),
)
EITHER = (
    Either("train/intermediate_algebra/396", "1249c9da6e54", ("(-5, 1)", "(-5, 7)")),
    Either("test/intermediate_algebra/25", "cc3965c961c6", ("(0,0)", "(10,0)")),
    Either(
        "test/intermediate_algebra/702",
        "954404a5b222",
        (r"\left(-\tfrac52, -\tfrac52\right)", r"\left(\tfrac32, -\tfrac52\right)"),
    ),
    Either("test/intermediate_algebra/747", "07bd57853bcf", ("(0,0)", "(3,-5)")),
    Either(
        "train/precalculus/865",
        "9a5ef6fcb5d4",
        (
            r"\begin{pmatrix} -2/3 \\ 2/3 \\ 1/3 \end{pmatrix}",
            r"\begin{pmatrix} 2/3 \\ -2/3 \\ -1/3 \end{pmatrix}",
        ),
    ),
    Either("train/precalculus/982", "219585057226", (r"-\frac{\pi}{3}", r"\frac{\pi}{3}")),
)


def key_of(problem: str) -> str:
    """A problem's text in 12 hexadecimal digits; blanks and line breaks don't matter."""
    return sha256("".join(problem.split()).encode("utf-8", "backslashreplace")).hexdigest()[:12]


BY_KEY: dict[str, LeftOut | Cleaned | Either] = {
    row.key: row for row in (*LEFT_OUT, *CLEANED, *EITHER)
}

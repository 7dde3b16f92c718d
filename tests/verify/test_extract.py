"""Which part of a response is its answer."""

import time

import pytest

from rlvr.verify import grade
from rlvr.verify.extract import extract

RESPONSES = [
    ("The final answer is **42**.", "42", True),
    ("**Final Answer:** 42", "42", True),
    ("### Final Answer\n\n42", "42", True),
    ("Final Answer: $\\frac{3}{4}$", "3/4", True),
    ("Therefore, the answer is: 3.5", "7/2", True),
    ("so the answer is \\(x = 5\\).", "5", True),
    ("Answer: 12 apples", "12", True),
    ("The answer is $12.50.", "12.5", True),
    ("The answer is 1,234.", "1234", True),
    ("The answer is 1.5.", "1.5", True),
    ("The answer is $x^2+1$", "x^2+1", True),
    ("Answer:\n42", "42", True),
    ("**Answer**: 42", "42", True),
    ("ANSWER: 42", "42", True),
    ("#### 42", "42", True),
    ("#### $42", "42", True),
    ("#### -1,200", "-1200", True),
    ("blah\n####42", "42", True),
    ("<answer>42</answer>", "42", True),
    ("<answer>\n\\frac12\n</answer>", "0.5", True),
    ("<answer>41</answer> <answer>42</answer>", "42", True),
    ("<think>I guess 41</think>The answer is 42.", "42", True),
    ("<think>The answer is 42.</think>", "42", False),
    ("<think>The answer is 42", "42", False),
    ("The answer is 41. Wait, the answer is 42.", "42", True),
    ("The answer is 42. Wait, the answer is 41.", "42", False),
    ("The answer is not 42.", "42", False),
    ("The answer is either 41 or 42.", "42", False),
    ("I think 42.", "42", False),
    ("42", "42", False),
    ("= 42", "42", False),
    ("So 6*7=42.", "42", False),
    ("The answer is \\boxed{42}.\n\nNote that 43 would be wrong.", "42", True),
    ("\\boxed{42}\n\nHence the answer is 43.", "42", True),
    ("The answer is 42. \\boxed{41}", "42", False),
    ("The correct option is \\boxed{\\text{(B) }}", "B", True),
    ("\\boxed{B}. 12", "B", True),
    ("The answer is (C).", "C", True),
    ("The answer is C", "C", True),
    ("Answer: (C) 42", "C", False),
    ("$\\boxed{42}$", "42", True),
    ("\\[ \\boxed{\\dfrac{1}{2}} \\]", "1/2", True),
    ("$$\\boxed{\\frac{1}{2}}$$", "1/2", True),
    ("\\boxed{\\frac{1}{2}", "1/2", False),
    ("\\boxed{x = 2 \\text{ or } x = 3}", "2,3", True),
    ("The solutions are \\boxed{2} and \\boxed{3}.", "2,3", False),
    ("\\boxed{2, 3}", "2,3", True),
    ("\\boxed{\\boxed{42}}", "42", True),
    ("\\boxed{ \\fbox{42} }", "42", True),
    ("\\boxed\n{42}", "42", True),
    ("\\boxed{42} <|im_end|>", "42", True),
    ("\\boxed{42}<|endoftext|>", "42", True),
    ("\\boxed{42}</s>", "42", True),
    ("The answer is 42<|im_end|>", "42", True),
    ("The answer is 42</s>", "42", True),
    ("<answer>42</answer><|eot_id|>", "42", True),
    ("\\boxed{\\mathbf{42}}", "42", True),
    ("\\boxed{\\color{red}42}", "42", True),
    ("\\boxed{{\\bf 42}}", "42", True),
    ("\\boxed{42 \\quad \\text{(units)}}", "42", True),
    ("\\boxed{\\textbf{42}}", "42", True),
    ("The answer is `42`", "42", True),
    ('The answer is "blue".', "blue", True),
    ("The answer is blue.", "blue", True),
    ("Answer: Yes.", "yes", True),
    ("The answer is 50%.", "50\\%", True),
    ("The answer is five.", "5", False),
    ("The answer is 3 hours and 20 minutes.", "3", False),
    ("The answer is 10^2.", "100", True),
    ("Answer: 1/2", "0.5", True),
    ("Answer: x = 7", "7", True),
    ("Final answer: 3, 4", "4,3", True),
    ("**Final Answer**: The final answer is $\\boxed{7}$", "7", True),
    ("The answer is:\n\n$$42$$", "42", True),
    ("The answer is:\n\\[\n42\n\\]", "42", True),
    ("The final answer is\n42", "42", True),
    ("Question: 1+1?\nAnswer: 2\n\nQuestion: 2+2?\nAnswer: 4", "2", False),
    ("\\text{Answer: } \\boxed{42}", "42", True),
    ("The answer is $42$ because $6 \\cdot 7 = 42$.", "42", True),
    ("The answer is 42, since 6*7=42.", "42", True),
    ("Thus, the total is $42.\n#### 42", "42", True),
    ("The answer should be 42.", "42", True),
    ("answer = 42", "42", True),
    ("My answer: 42", "42", True),
    ("The answer is $\\$42$.", "42", True),
    ("Answer: 42.", "42", True),
    ("Answer: $42", "42", True),
    ("The answer is: A", "A", True),
    ("Then $\\boxed{x=41}$.\nActually no.\n\n$\\boxed{x=42}$", "42", True),
    ("\\boxed{41}, no: \\boxed{42}", "42", False),
    ("The answer is \\boxed{42}, i.e. \\boxed{forty-two}", "42", False),
    ("Answer: m/n = 3/4, so m+n = 7", "7", False),
    ("\\boxed{42}\\boxed{}", "42", False),
    ("\\boxed{\\text{The answer is 42}}", "42", True),
    ("\\boxed{\\text{Answer: }42}", "42", True),
    ("\\boxed{The final answer is 42.}", "42", True),
    ("\\boxed{$42$}", "42", True),
    ("\\boxed{\\(42\\)}", "42", True),
    ("\\boxed{42}.", "42", True),
    ("\\boxed{``42''}", "42", False),
]


@pytest.mark.parametrize(("response", "reference", "right"), RESPONSES)
def test_the_answer_is_found_where_it_is_marked(response: str, reference: str, right: bool) -> None:
    score = grade(reference, response)
    assert (score.verdict == "correct") == right, score.reason


@pytest.mark.parametrize(
    ("response", "answer"),
    [("I think it is 42", "42"), ("12, 30, 42", "42"), ("costs $1,250.50 a day", "1250.5")],
)
def test_the_last_number_counts_only_where_that_was_asked_for(response: str, answer: str) -> None:
    assert grade(answer, response).verdict == "incorrect"
    assert grade(answer, response, lenient=True).verdict == "correct"


def test_leniency_falls_back_past_no_box() -> None:
    assert grade("42", r"\boxed{41} or 42", lenient=True).verdict == "incorrect"
    assert grade("42", "The answer is 41. Or 42", lenient=True).verdict == "incorrect"


@pytest.mark.parametrize(
    "text",
    [
        "<answer>" * 100_000 + "42",
        r"\boxed{" * 100_000 + "42" + "}" * 100_000,
        "<answer>" + "</s>" * 100_000 + "x</answer>",
        "answer " * 200_000,
        "the answer is " * 100_000,
        "answer" + " " * 500_000,
        "#### " * 200_000,
        "</think>" + "<|im_end|>" * 100_000 + "x",
        "</think>" * 200_000,
    ],
)
def test_looking_for_an_answer_takes_time_linear_in_the_text(text: str) -> None:
    began = time.thread_time()
    extract(text, lenient=True)
    assert time.thread_time() - began < 2.0


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>The answer is 18</answer>", "18"),
        ("<answer>Answer: 18</answer>", "18"),
        ("<answer>17</answer> no: <ANSWER> 18 </ANSWER>", "18"),
        ("<answer>17</answer><answer>18", None),
        ("<answer><answer>42</answer>", "42"),
    ],
)
def test_answer_tags(text: str, answer: str | None) -> None:
    assert extract(text).answer == answer

"""Prompts as token ids: one encoding, nothing put before it, no special token from a problem."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from rlvr.abacus import FOLDER
from rlvr.model.tokens import Tokens, added_ids, load_tokens, with_tokens, without_added
from rlvr.problems.prompts import TEMPLATES, render
from rlvr.records import CLOSE, OPEN, Problem, Prompt

TAGS = (OPEN, CLOSE)
ABACUS = load_tokens(FOLDER)
TEXTS = ["", "37+48=", "the answer is 12.\n", "a < b > c </ think", "\u00e9\u6240 \\boxed{1}\n\n"]


@pytest.fixture(scope="session")
def plain(tagless_folder: Callable[..., Path]) -> Tokens:
    return load_tokens(tagless_folder())


@pytest.fixture(scope="session")
def tagged(plain: Tokens) -> Tokens:
    return with_tokens(plain, TAGS)


def prompt(template: str, problem: str) -> Prompt:
    return render(template, Problem("1", problem, "", "test"))


def test_tags_that_are_ordinary_text_become_one_token_each(plain: Tokens, tagged: Tokens) -> None:
    assert all(len(plain.encode(tag)) > 1 for tag in TAGS)
    assert [tagged.encode(tag) for tag in TAGS] == [[plain.vocab_size], [plain.vocab_size + 1]]
    assert tagged.added == TAGS
    assert tagged.decode(tagged.encode("a<think>b</think>c")) == "a<think>b</think>c"
    assert plain.added == ()
    assert len(plain.encode(OPEN)) > 1, "the tokenizer that was given is left as it was"


def test_tags_that_are_tokens_already_stay_as_they_are(tagged: Tokens) -> None:
    abacus = load_tokens(FOLDER)
    assert with_tokens(abacus, TAGS) is abacus
    assert with_tokens(tagged, TAGS) is tagged


def test_a_tag_that_is_an_unknown_word_is_no_token() -> None:
    tokenizer = Tokenizer(WordLevel({"<unknown>": 0, "a": 1, "<end>": 2}, unk_token="<unknown>"))
    tokens = Tokens(tokenizer, (2,), 2)
    assert tokens.encode(OPEN) == tokens.encode(CLOSE) == [0]
    assert [with_tokens(tokens, TAGS).id_of(tag) for tag in TAGS] == [3, 4]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_without_tags_have_the_same_ids_with_and_without_tag_tokens(
    plain: Tokens, tagged: Tokens, text: str
) -> None:
    assert tagged.encode(text) == plain.encode(text)


@pytest.mark.parametrize("name", [name for name, row in TEMPLATES.items() if not row.chat])
def test_a_prompt_is_one_encoding_of_the_whole_text(
    plain: Tokens, tagged: Tokens, name: str
) -> None:
    for tokens in (plain, tagged, load_tokens(FOLDER)):
        found = prompt(name, "37+48=")
        assert tokens.encode_prompt(found) == tokens.encode(found.text)


def test_nothing_is_put_before_a_prompt_and_what_the_template_puts_stands_once(
    plain: Tokens,
) -> None:
    """BC-56: the tokenizer would begin every text with a token of its own."""
    begin = plain.tokenizer.token_to_id("<|begin|>")
    assert plain.tokenizer.encode("1+1=").ids[0] == begin
    assert begin not in plain.encode_prompt(prompt("plain", "1+1="))
    assert plain.encode_prompt(prompt("<|begin|>{problem}", "1+1=")).count(begin) == 1


def test_a_problem_that_spells_a_token_is_read_as_text(tagged: Tokens) -> None:
    """The template's own tags stay tokens; what the problem spells becomes none, and is kept."""
    open_id, close_id = tagged.id_of(OPEN), tagged.id_of(CLOSE)
    for hostile in (
        "</think>",
        "<|end|>",
        "x<think>",
        "<|begin|>1<|end|>",
        "a</think>b{problem}%s",
    ):
        for name in ("plain", "think", "think_prefilled"):
            found = prompt(name, hostile)
            ids = tagged.encode_prompt(found)
            assert tagged.decode(ids) == found.text
            own = tagged.encode(f"{found.before}{found.after}")
            known = added_ids(tagged.tokenizer)
            assert [i for i in ids if i in known] == [i for i in own if i in known]
        assert ids[-1] == open_id
        assert ids.count(close_id) == 1


def test_a_tag_made_half_by_the_template_and_half_by_the_problem_is_text(tagged: Tokens) -> None:
    found = Prompt("nk>1+1=", before="<thi")
    assert tagged.id_of(OPEN) not in tagged.encode_prompt(found)
    assert tagged.decode(tagged.encode_prompt(found)) == "<think>1+1="


def test_what_lies_between_the_template_s_tokens_is_encoded_in_one_piece(tagged: Tokens) -> None:
    """Pieces that cross from the template into the problem are those of the whole text."""
    found = Prompt("he <|end|> answer", before="<think>t", after=" is</think>")
    between = without_added(tagged.tokenizer).encode(
        "the <|end|> answer is", add_special_tokens=False
    )
    assert tagged.encode("the")[0] == between.ids[0]
    expected = [tagged.id_of(OPEN), *between.ids, tagged.id_of(CLOSE)]
    assert tagged.encode_prompt(found) == expected


@given(st.text(alphabet="<>/think|end begin{}%s1+\u00e9", max_size=40))
def test_any_problem_is_kept_to_the_letter_and_adds_no_token(text: str) -> None:
    tokens = ABACUS
    known = added_ids(tokens.tokenizer)
    for name in ("plain", "think", "think_prefilled"):
        found = prompt(name, text)
        ids = tokens.encode_prompt(found)
        own = tokens.encode(found.before + found.after)
        assert [i for i in ids if i in known] == [i for i in own if i in known]
        if text.isascii():
            assert tokens.decode(ids) == found.text

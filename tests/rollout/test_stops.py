"""Stop texts: found with the token that completes them, however a tokenizer cuts them up."""

import random
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers

from rlvr.abacus import FOLDER
from rlvr.model.tokens import Tokens, load_tokens
from rlvr.rollout.stops import Stops, spelled_out

SMOLLM2 = Path(__file__).parents[2] / "models/smollm2-135m-instruct"
PIECES = ["\u2581", "\u2581a", "a", "b", "\u2581b", "ab", "\u2581\u2581", "1", "</s>"]


@cache
def read(folder: Path) -> Tokens:
    return load_tokens(folder)


@cache
def blank_marking() -> Tokens:
    """As Llama 2 writes: blanks as marks, unknown characters as bytes, the first blank dropped."""
    names = [*PIECES, *(f"<0x{n:02X}>" for n in range(256))]
    vocabulary = {name: n for n, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return Tokens(tokenizer, (PIECES.index("</s>"),), 0)


@pytest.fixture(params=["abacus", "smollm2", "blank_marking"])
def tokens(request: pytest.FixtureRequest) -> Tokens:
    if request.param == "blank_marking":
        return blank_marking()
    if request.param == "smollm2" and not SMOLLM2.is_dir():
        pytest.skip("make smollm2 makes the model")
    return read(FOLDER if request.param == "abacus" else SMOLLM2)


def first_by_text(tokens: Tokens, answer: list[int], texts: tuple[str, ...]) -> int | None:
    """The plain rule: decode all of it after every token."""
    for length in range(1, len(answer) + 1):
        if any(text in tokens.decode(answer[:length]) for text in texts):
            return length
    return None


def first_by_stops(stops: Stops, answer: list[int]) -> int | None:
    lengths = range(1, len(answer) + 1)
    return next((n for n in lengths if stops.completed(answer[:n])), None)


def made_of(tokens: Tokens, texts: tuple[str, ...], chance: random.Random) -> list[int]:
    """An answer in which the pieces of the texts come often, and any token sometimes."""
    stops = Stops.of(tokens, texts)
    assert stops is not None
    pools = [
        sorted(stops.candidates) or [0],
        [i for text in texts for i in tokens.encode(text)] or [0],
        sorted(stops.parts) or [0],
        range(tokens.highest_id + 3),  # with ids that are no token
    ]
    found: list[int] = []
    while len(found) < 30:
        found.append(chance.choice(chance.choices(pools, weights=[2, 4, 1, 3])[0]))
        if chance.random() < 0.1:
            found += tokens.encode(chance.choice(texts))[: chance.randint(1, 20)]
    return [i for i in found if i not in tokens.stop_ids]


TEXTS = [
    ("\n",),
    ("\n\n",),
    ("a b",),
    (" a",),
    (" ",),
    ("\n\nQuestion:",),
    ("12\n", "\nb", "</answer>"),
    ("é",),
    ("1é", "所"),
    ("🙂\n",),
    ("\\boxed{1}",),
]


@pytest.mark.parametrize("texts", TEXTS)
def test_an_answer_ends_with_the_token_after_which_its_text_holds_a_stop(
    tokens: Tokens, texts: tuple[str, ...]
) -> None:
    stops, chance, ends = Stops.of(tokens, texts), random.Random(7), list[int]()
    assert stops is not None
    for _ in range(25):
        answer = made_of(tokens, texts, chance)
        expected = first_by_text(tokens, answer, texts)
        assert first_by_stops(stops, answer) == expected, (texts, answer)
        ends += [] if expected is None else [expected]
    known = tokens.decode(tokens.encode("".join(texts))).strip() == "".join(texts).strip()
    assert ends or not known, "the answers that are tried hold the text"


def test_a_text_of_several_tokens_ends_with_its_last(tokens: Tokens) -> None:
    stops = Stops.of(tokens, ("12\n34",))
    assert stops is not None
    vocabulary = spelled_out(tokens.tokenizer, tokens.highest_id)
    names = [*"12", "\n", *"34"]
    if any(name not in vocabulary for name in names):
        return
    answer = [vocabulary.index(name) for name in ["1", *names, "1"]]
    assert [stops.completed(answer[:n]) for n in range(8)] == [n in (6,) for n in range(8)]


@pytest.mark.skipif(not SMOLLM2.is_dir(), reason="make smollm2 makes the model")
def test_a_worked_example_s_end_is_found_within_tokens_and_across_them() -> None:
    tokens = read(SMOLLM2)
    line, question = Stops.of(tokens, ("\n",)), Stops.of(tokens, ("\n\nQuestion:",))
    assert line is not None
    assert question is not None
    answer = tokens.encode(" 12\n\nQuestion: 3 + 4")
    ends = first_by_stops(line, answer), first_by_stops(question, answer)
    assert [tokens.decode(answer[:end]) for end in ends] == [" 12\n", " 12\n\nQuestion:"]
    double = spelled_out(tokens.tokenizer, tokens.highest_id).index("\n\n")
    assert line.completed([*tokens.encode(" 12"), double])
    assert len(line.candidates) == 129, "tokens with a line end in them"


@pytest.mark.skipif(not SMOLLM2.is_dir(), reason="make smollm2 makes the model")
@pytest.mark.parametrize("text", ["é", "所", "🙂"])
def test_a_character_of_several_tokens_ends_with_its_last_byte(text: str) -> None:
    tokens = read(SMOLLM2)
    stops, answer = Stops.of(tokens, (text,)), tokens.encode(f"7 {text}")
    assert stops is not None
    assert first_by_stops(stops, [*answer, *answer]) == len(answer)
    assert not stops.completed(answer[:-1] + tokens.encode("é所🙂".replace(text, ""))[-1:])


def test_few_tokens_are_looked_at_and_no_text_makes_no_stops(tokens: Tokens) -> None:
    assert Stops.of(tokens, ()) is None
    stops = Stops.of(tokens, ("a", "b"))
    assert stops is not None
    vocabulary = spelled_out(tokens.tokenizer, tokens.highest_id)
    assert stops.candidates == {n for n, text in enumerate(vocabulary) if {*"ab"} & {*text}}
    assert not stops.completed([])
    assert Stops.of(tokens, ("a", "b")) is stops, "made once, since a vocabulary is long"
    assert stops.window([tokens.encode("1")[0]] * 50) == 48
    with pytest.raises(AssertionError, match="empty"):
        Stops.of(tokens, ("",))

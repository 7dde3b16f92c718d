"""Rows of added tokens: means of their pieces' rows, free rows first, saved and loaded whole."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from plain import hidden_states, logits_of
from torch import Tensor

from rlvr.model.added import grown, grown_shape
from rlvr.model.tokens import load_tokens, with_tokens
from rlvr.model.weights import Model, load_model, read_shape, save_model
from rlvr.records import CLOSE, OPEN

TAGS = (OPEN, CLOSE)
Folders = Callable[..., Path]


def tagged(folder: Path) -> Model:
    model = load_model(folder)
    return grown(model, with_tokens(model.tokens, TAGS))


def matrices(model: Model) -> list[Tensor]:
    found = [model.decoder.model.embed_tokens.weight]
    return (
        found if model.decoder.shape.tie_word_embeddings else [*found, model.decoder.lm_head.weight]
    )


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("free_rows", [0, 1, 2, 7])
def test_new_rows_are_the_means_of_the_rows_of_their_pieces(
    tagless_folder: Folders, tied: bool, free_rows: int
) -> None:
    folder = tagless_folder(tied=tied, free_rows=free_rows)
    before, after = load_model(folder), tagged(folder)
    there, tokens = before.decoder.shape.vocab_size, before.tokens.vocab_size
    assert after.decoder.shape.vocab_size == max(there, tokens + 2)
    assert after.decoder.shape == grown_shape(before.decoder.shape, after.tokens)
    for old, new in zip(matrices(before), matrices(after), strict=True):
        assert len(new) == after.decoder.shape.vocab_size
        assert torch.equal(new[:tokens], old[:tokens])
        for tag in TAGS:
            pieces = [old[i] for i in before.tokens.encode(tag)]
            by_hand = torch.stack(pieces).sum(dim=0) / len(pieces)
            assert torch.allclose(new[after.tokens.id_of(tag)], by_hand, atol=1e-6)
        used = {after.tokens.id_of(tag) for tag in TAGS}
        for row in set(range(tokens, there)) - used:
            assert torch.equal(new[row], old[row]), "other free rows are left as they were"


def test_all_other_weights_and_so_all_other_logits_stay(tagless_folder: Folders) -> None:
    folder = tagless_folder(tied=False)
    before, after = load_model(folder), tagged(folder)
    ids = torch.tensor([before.tokens.encode("the answer is 12")])
    with torch.no_grad():
        logits = []
        for model in (before, after):
            weights = model.decoder.weights(torch.float32)
            logits.append(logits_of(weights, hidden_states(weights, ids)))
    old = before.decoder.shape.vocab_size
    assert torch.allclose(logits[0], logits[1][..., :old], atol=1e-6)
    pieces = before.tokens.encode(OPEN)
    assert torch.allclose(logits[1][..., old], logits[0][..., pieces].mean(dim=-1), atol=1e-5)


def test_the_same_twice_gives_the_same_bits(tagless_folder: Folders) -> None:
    folder = tagless_folder()
    first, second = tagged(folder), tagged(folder)
    pairs = zip(first.decoder.parameters(), second.decoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_model_whose_tags_are_tokens_is_left_as_it_is(tiny_model_folder: Path) -> None:
    model = load_model(tiny_model_folder)
    assert grown(model, with_tokens(model.tokens, TAGS)) is model


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_loads_again_with_its_tags(
    tagless_folder: Folders, tmp_path: Path, tied: bool
) -> None:
    model = tagged(tagless_folder(tied=tied))
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.decoder.shape == model.decoder.shape == read_shape(tmp_path)
    assert load_tokens(tmp_path).encode("a<think>b</think>") == model.tokens.encode(
        "a<think>b</think>"
    )
    assert again.tokens.added == (), "they are the directory's own now"
    pairs = zip(again.decoder.parameters(), model.decoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert tagged(tmp_path).decoder.shape == model.decoder.shape, "and are not added twice"


def test_a_second_list_of_added_tokens_is_kept_whole(
    tagless_folder: Folders, tmp_path: Path
) -> None:
    model = tagged(tagless_folder())
    settings = json.loads((model.folder / "tokenizer_config.json").read_text())
    row = {"content": "<|end|>", "special": True}
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(settings | {"added_tokens_decoder": {"1": row}})
    )
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text((model.folder / name).read_text())
    save_model(Model(model.decoder, model.tokens, tmp_path), tmp_path)
    listed = json.loads((tmp_path / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    assert [listed[key]["content"] for key in sorted(listed, key=int)] == ["<|end|>", *TAGS]


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_reads_the_same_tokens_and_the_same_logits(
    tagless_folder: Folders, tmp_path: Path, tied: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    model = tagged(tagless_folder(tied=tied))
    save_model(model, tmp_path)
    text = "think first<think>1+1=2</think>2"
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = theirs(text, add_special_tokens=False)["input_ids"]
    assert ids == model.tokens.encode(text)
    assert theirs.decode(ids, skip_special_tokens=True) == text, "tags are not left out"
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
        mine = logits_of(weights, hidden_states(weights, torch.tensor([ids])))
        assert torch.allclose(other(torch.tensor([ids])).logits, mine, atol=1e-4)

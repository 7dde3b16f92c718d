"""The built-in model as it is shipped."""

from pathlib import Path

import pytest
import torch

from rlvr.abacus import FOLDER
from rlvr.abacus.recipe import built_in_tokens, fresh_decoder, pretrain, shape, write_tokenizer
from rlvr.model.tokens import load_tokens
from rlvr.model.weights import load_model, parameters_of, read_shape

MOST_BYTES = 4_000_000


def test_it_is_an_ordinary_model_directory_of_at_most_4_mb() -> None:
    names = {path.name for path in FOLDER.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= MOST_BYTES


def test_it_has_the_sizes_of_the_recipe_and_about_a_million_weights() -> None:
    assert read_shape(FOLDER) == shape(load_tokens(FOLDER).vocab_size)
    decoder = load_model(FOLDER).decoder
    norms = sum(p.numel() for p in decoder.parameters() if p.dim() == 1)
    total = sum(p.numel() for p in decoder.parameters())
    assert parameters_of(decoder.shape) == total - norms
    assert 0.7e6 < total < 1.1e6


def test_the_tokenizer_shipped_is_the_one_the_recipe_writes(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, built_in_tokens().vocab_size)
    assert (tmp_path / "tokenizer.json").read_text() == (FOLDER / "tokenizer.json").read_text()


def test_it_loads_in_transformers_with_the_same_logits() -> None:
    transformers = pytest.importorskip("transformers")
    from packed import packed_logits

    model, twin = load_model(FOLDER), transformers.AutoModelForCausalLM.from_pretrained(FOLDER)
    tokens = torch.tensor([model.tokens.encode("970+583=<think>0+3+0=3 7+8")])
    with torch.no_grad():
        weights = model.decoder.weights(torch.float32)
        ours = packed_logits(weights, tokens)
        assert (ours - twin.float()(tokens).logits).abs().max() < 1e-4


def test_the_recipe_gives_the_same_bits_from_the_same_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rlvr.abacus import recipe

    short = [recipe.Phase(p.name, 1, p.mix, p.lr_from, p.lr_to) for p in recipe.PHASES]
    monkeypatch.setattr(recipe, "PHASES", tuple(short))
    monkeypatch.setattr(recipe, "DOCUMENTS_PER_STEP", 16)
    tokens = built_in_tokens()
    one, two, other = (pretrain(tokens, seed, torch.float32) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.model.norm.weight, other.model.norm.weight)
    start = fresh_decoder(tokens.vocab_size, 0)
    assert not torch.equal(one.model.norm.weight, start.model.norm.weight)

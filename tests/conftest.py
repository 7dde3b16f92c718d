"""What every test stands on: shape checks on, one thread, where the shared data lie."""

import json
from pathlib import Path

import jaxtyping
import pytest
import torch

# Before any test imports rlvr. A whole number will do for a float, as for type checkers.
jaxtyping.install_import_hook(
    "rlvr", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)
torch.set_num_threads(1)

SHARED = Path(__file__).parents[1] / "../shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder beside the checkout with data and oracles; the test is skipped without it."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder of shared data beside this checkout")
    return SHARED.resolve()


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory with small random weights and the built-in tokenizer."""
    from rlvr.abacus.recipe import built_in_tokens, write_tokenizer
    from rlvr.model.decoder import Decoder, Shape
    from rlvr.model.tokens import read_json
    from rlvr.model.weights import Model, save_model

    tokens, folder = built_in_tokens(), tmp_path_factory.mktemp("tiny")
    shape = Shape(
        vocab_size=tokens.vocab_size,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        rope_theta=10_000.0,
    )
    decoder, generator = Decoder(shape), torch.Generator().manual_seed(0)
    for parameter in decoder.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.1 * noise if parameter.dim() == 1 else 0.3 * noise
    write_tokenizer(folder, tokens.vocab_size)
    config = read_json(folder / "config.json")
    config |= {name: getattr(shape, name) for name in Shape.__slots__}
    (folder / "config.json").write_text(json.dumps(config))
    save_model(Model(decoder, tokens, folder), folder)
    return folder

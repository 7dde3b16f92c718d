"""What every test stands on: shape checks on, one thread, where the shared data lie."""

import json
from collections.abc import Callable
from pathlib import Path

import jaxtyping
import pytest
import torch
from beartype import BeartypeConf
from beartype.claw import beartype_packages
from hypothesis import settings

# Before any test imports rlvr: types are checked in every call, and shapes where there are tensors.
# A whole number will do for a float, as for type checkers. Checking shapes costs 20 times as much.
WITHOUT_TENSORS = ("verify", "problems")
FLOORS = {path.stem for path in (Path(__file__).parents[1] / "src/rlvr").iterdir()}
jaxtyping.install_import_hook(
    [f"rlvr.{floor}" for floor in FLOORS - {*WITHOUT_TENSORS}],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)
beartype_packages(
    [f"rlvr.{floor}" for floor in WITHOUT_TENSORS], conf=BeartypeConf(is_pep484_tower=True)
)
torch.set_num_threads(1)

# The same examples in every run, however slow the machine; new ones: --hypothesis-profile=default.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")

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
    config |= {name: getattr(shape, name) for name in Shape.__slots__ if name != "rope"}
    (folder / "config.json").write_text(json.dumps(config))
    save_model(Model(decoder, tokens, folder), folder)
    return folder


@pytest.fixture(scope="session")
def tagless_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes model directories with small random weights whose tokenizer has no think tags.

    Byte-level pairs as in many models, a token before every text unless one says no, an end token;
    the head tied or not, some rows more than the tokenizer has tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    from rlvr.model.decoder import Decoder, Shape
    from rlvr.model.tokens import load_tokens
    from rlvr.model.weights import FAMILY, Model, save_model

    def make(*, tied: bool = True, free_rows: int = 0, positions: int = 192) -> Path:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=290,
            special_tokens=["<|begin|>", "<|end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        text = ["think first, then answer.\n", "the answer is \\boxed{12}.\n", "<think>1</think>"]
        tokenizer.train_from_iterator(text * 3, trainer)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]
        )
        folder, rows = tmp_path_factory.mktemp("tagless"), tokenizer.get_vocab_size() + free_rows
        shape = Shape(
            vocab_size=rows,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=positions,
            rope_theta=10_000.0,
            tie_word_embeddings=tied,
        )
        decoder, generator = Decoder(shape), torch.Generator().manual_seed(0)
        for parameter in decoder.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.data = 1 + 0.1 * noise if parameter.dim() == 1 else 0.3 * noise
        tokenizer.save(str(folder / "tokenizer.json"))
        config = {"architectures": [FAMILY], "model_type": "qwen3", "eos_token_id": 1}
        config |= {name: getattr(shape, name) for name in Shape.__slots__ if name != "rope"}
        (folder / "config.json").write_text(json.dumps(config))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        save_model(Model(decoder, load_tokens(folder), folder), folder)
        return folder

    return make

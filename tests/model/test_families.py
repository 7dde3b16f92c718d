"""Model directories as `transformers` writes them: each family and each kind of rotary positions.

A directory is loaded here and there; logits of whole rows, of rows read with a cache and of padded
rows are compared, and what is saved here loads there again.
"""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from packed import packed_logits
from plain import logits_of

from rlvr.abacus import FOLDER
from rlvr.errors import UsageError
from rlvr.model.cache import Cache, extend
from rlvr.model.rope import Rope, inverse_frequencies, rotary_tables
from rlvr.model.weights import FAMILIES, Model, load_model, read_shape, save_model

SIZES: dict[str, Any] = {
    "vocab_size": 130,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_theta": 5000.0},
    "linear": {"rope_theta": 5000.0, "factor": 2.5},
    "llama3": {
        "rope_theta": 5000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"rope_theta": 5000.0, "factor": 4.0, "original_max_position_embeddings": 16},
}
CASES = [(family, "default", tied) for family in FAMILIES for tied in (True, False)]
CASES += [("LlamaForCausalLM", kind, True) for kind in ROPES if kind != "default"]
CASES += [("Qwen2ForCausalLM", "yarn", False), ("Qwen3ForCausalLM", "yarn", True)]
Saved = Callable[..., tuple[Any, Path]]


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Makes a model of `transformers` with small random weights, and its directory."""
    transformers = pytest.importorskip("transformers")

    def make(family: str, kind: str = "default", tied: bool = True, **more: Any) -> Any:
        config = getattr(transformers, family.replace("ForCausalLM", "Config"))(
            **SIZES,
            **({"head_dim": 16} if family.startswith("Qwen3") else {}),
            tie_word_embeddings=tied,
            rope_parameters={"rope_type": kind, **ROPES[kind]},
        )
        theirs = getattr(transformers, family)(config).eval()
        generator = torch.Generator().manual_seed(0)
        for name, parameter in theirs.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.data = 1 + 0.2 * noise if "norm" in name else 0.3 * noise
        folder = tmp_path_factory.mktemp(family)
        theirs.save_pretrained(folder, **more)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(FOLDER / name, folder / name)
        return theirs, folder

    return make


def change(folder: Path, **values: Any) -> Path:
    """Set keys of a directory's config; None removes one."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return folder


@torch.no_grad()
def mine(model: Model, tokens: torch.Tensor) -> torch.Tensor:
    weights = model.decoder.weights(torch.float32)
    return packed_logits(weights, tokens)


def tokens_of(rows: int, width: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(2, 125, (rows, width), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def assert_equal(theirs: Any, model: Model) -> None:
    """Whole rows, rows read with a cache, and padded rows give the logits of `transformers`."""
    tokens = tokens_of(3, 40)
    expected = theirs(tokens).logits
    assert (mine(model, tokens) - expected).abs().max() < 1e-4
    weights = model.decoder.weights(torch.float32)
    cache = Cache.empty(weights, torch.zeros(3, dtype=torch.long))
    for first, last in ((0, 8), *((t, t + 1) for t in range(8, 40))):
        step = logits_of(weights, extend(weights, tokens[:, first:last], cache))
        assert (step - expected[:, last - 1]).abs().max() < 1e-4
    start = torch.tensor([0, 5, 21])
    mask = torch.arange(40)[None] >= start[:, None]
    position = (torch.arange(40)[None] - start[:, None]).clamp(min=0)
    padded = theirs(tokens, attention_mask=mask.long(), position_ids=position).logits[:, -1]
    left = Cache.empty(weights, start)
    assert (logits_of(weights, extend(weights, tokens, left)) - padded).abs().max() < 1e-4


@pytest.mark.parametrize(("family", "kind", "tied"), CASES)
def test_logits_equal_those_of_transformers_within_1e_4_before_and_after_saving(
    saved: Saved, tmp_path: Path, family: str, kind: str, tied: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    theirs, folder = saved(family, kind, tied)
    model = load_model(folder)
    assert model.decoder.shape.rope.kind == kind
    assert model.decoder.shape.tie_word_embeddings == tied
    assert_equal(theirs, model)
    save_model(model, tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert type(again).__name__ == family
    assert_equal(again, load_model(tmp_path))


@pytest.mark.parametrize("kind", ROPES)
def test_the_old_spelling_of_rotary_positions_is_read_as_the_new_one(
    saved: Saved, kind: str
) -> None:
    _, folder = saved("Qwen2ForCausalLM", kind)
    new = read_shape(folder)
    theta = ROPES[kind]["rope_theta"]
    scaling = {"type": kind, **ROPES[kind]}
    del scaling["rope_theta"]
    old = None if kind == "default" else scaling
    change(folder, rope_parameters=None, rope_theta=theta, rope_scaling=old)
    assert read_shape(folder) == new


@pytest.mark.parametrize(
    "more",
    [
        {"attention_factor": 1.5},
        {"mscale": 0.7, "mscale_all_dim": 0.4},
        {"truncate": False},
        {"beta_fast": 8.0, "beta_slow": 2.0},
        {"factor": None},
    ],
)
def test_frequencies_of_yarn_are_those_of_transformers_with_every_option(
    saved: Saved, more: dict[str, Any]
) -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    theirs, folder = saved("LlamaForCausalLM", "yarn")
    parameters = {"rope_type": "yarn", **ROPES["yarn"], **more}
    theirs.config.rope_parameters = parameters
    expected, scale = ROPE_INIT_FUNCTIONS["yarn"](theirs.config)
    shape = read_shape(change(folder, rope_parameters=parameters))
    found = inverse_frequencies(shape.rope, shape.rope_theta, shape.head_dim)
    assert torch.allclose(found.float(), expected, rtol=1e-5)
    assert abs(shape.rope.attention_factor - scale) < 1e-6


def test_llama_3_slows_long_waves_keeps_short_ones_and_blends_between() -> None:
    """By hand: theta 10,000, heads of 4, so that pairs turn by 1 and 0.01 a position."""
    waves = 1000 / 6.283185307179586 * 0.01  # the second pair's turns in 1,000 positions: 1.59
    rope = Rope(kind="llama3", factor=2, original_positions=1000, high_freq_factor=4)
    blend = (waves - 1) / 3
    by_hand = [1.0, 0.01 * (blend + (1 - blend) / 2)]
    assert inverse_frequencies(rope, 1e4, 4).tolist() == pytest.approx(by_hand)


def test_tables_are_made_once_for_decoders_of_one_size() -> None:
    first, second = (rotary_tables(Rope(), 1e4, 8, 20_000) for _ in range(2))
    assert first[0] is second[0]
    angle = 19_999 * 1e4**-0.25
    cos, sin = math.cos(angle), math.sin(angle)
    assert first[0][-1, [1, 5]].tolist() == pytest.approx([cos, cos], abs=1e-6)
    assert first[1][-1, [1, 5]].tolist() == pytest.approx([-sin, sin], abs=1e-6)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rope_parameters": {"rope_type": "longrope", "factor": 2}}, "default, linear, llama3, yarn"),
    ({"rope_parameters": {"rope_type": "dynamic", "factor": 2}}, "'dynamic'"),
    ({"rope_parameters": {"rope_type": "linear", "factor": -2}}, "factor -2"),
    ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "part of each head"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "rope_theta 1.0"),
    ({"rope_scaling": "yarn"}, "rope_scaling 'yarn'"),
    ({"rope_parameters": {**ROPES["llama3"], "type": "llama3", "low_freq_factor": 9}}, "above"),
    ({"use_sliding_window": True}, "slides"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "slides"),
    ({"mlp_bias": True}, "mlp_bias"),
    ({"architectures": ["GemmaForCausalLM"]}, "Qwen3ForCausalLM, Qwen2ForCausalLM, Llama"),
    ({"architectures": None}, "llama"),
    ({"max_position_embeddings": None}, "incomplete"),
    ({"num_attention_heads": None}, "incomplete"),
    ({"vocab_size": 120}, "has shape (130, 48), config.json asks for (120, 48)"),
    ({"pad_token_id": 130}, "ids to 130, the model to 129"),
]


@pytest.mark.parametrize(("values", "says"), WRONG)
def test_a_config_that_is_not_read_is_refused_before_weights_load(
    saved: Saved, values: dict[str, Any], says: str
) -> None:
    _, folder = saved("LlamaForCausalLM")
    (folder / "generation_config.json").unlink()  # its stop and padding ids come first
    change(folder, **{"eos_token_id": 2, **values})
    with pytest.raises(UsageError) as refused:
        load_model(folder)
    assert says in str(refused.value)


def test_keys_that_a_config_leaves_out_mean_what_they_mean_in_transformers(saved: Saved) -> None:
    theirs, folder = saved("LlamaForCausalLM", tied=False)
    change(folder, head_dim=None, tie_word_embeddings=None, rms_norm_eps=None, mlp_bias=None)
    assert_equal(theirs, load_model(folder))

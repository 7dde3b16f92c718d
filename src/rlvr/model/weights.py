"""Model directories in and out: config.json, weights as safetensors, tokenizer.json."""

import json
import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from rlvr.errors import UsageError
from rlvr.folders import check_whole
from rlvr.model.decoder import Decoder, Shape
from rlvr.model.rope import read_rope
from rlvr.model.shards import WHOLE, find_weights, opened, weight_files
from rlvr.model.tokens import Tokens, load_tokens, read_json

REFUSED = (("attention_bias", False), ("mlp_bias", False), ("hidden_act", "silu"))
"""Keys of a `config.json` with the only value that is read."""
FAMILY = "Qwen3ForCausalLM"
FAMILIES: dict[str, dict[str, bool]] = {
    FAMILY: {"qk_norm": True},
    "Qwen2ForCausalLM": {"qk_norm": False, "qkv_bias": True},
    "LlamaForCausalLM": {"qk_norm": False},
}
COPIED = (
    *("config.json", "generation_config.json", "chat_template.jinja"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
)
DEFAULTS: dict[str, object] = {"tie_word_embeddings": False, "rms_norm_eps": 1e-6}
"""What a `config.json` of these families means where it leaves a key out."""


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder with its tokens, and the directory it came from."""

    decoder: Decoder
    tokens: Tokens
    folder: Path


def read_shape(folder: Path) -> Shape:
    """The sizes in a directory's `config.json`, checked before any weights load.

    Raises:
        UsageError: The directory is missing, incomplete, damaged, or of another family.
    """
    check_whole(folder)
    files = weight_files(folder)
    config = read_json(folder / "config.json")
    family = config.get("architectures")
    if not isinstance(family, list) or len(family) != 1 or family[0] not in FAMILIES:
        named = (
            ", ".join(map(str, family)) if isinstance(family, list) else config.get("model_type")
        )
        raise UsageError(
            f"{folder} is a model of the family {named}; this version reads "
            f"{', '.join(FAMILIES)}. Give such a directory, or --model abacus for the built-in "
            "model."
        )
    for key, wanted in REFUSED:
        if config.get(key, wanted) != wanted:
            raise UsageError(
                f"{folder}/config.json has {key} {config[key]!r}; only {wanted!r} is read."
            )
    kinds = config.get("layer_types") or []
    slides = not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)
    if config.get("use_sliding_window") or slides:
        raise UsageError(
            f"{folder}/config.json has layers whose attention slides, which is not read. "
            "Give another model."
        )
    if config.get("quantization_config"):
        raise UsageError(
            f"{folder} holds quantised weights, which can't be trained. Take the copy of the model "
            "that is not quantised."
        )
    shape = _shape(folder, config)
    stored = sum(path.stat().st_size for path in files)
    if parameters_of(shape) > stored:
        raise UsageError(
            f"{folder}: its weights are {stored:,} bytes, too few for the "
            f"{parameters_of(shape):,} numbers that config.json describes. "
            "Download or save the model again."
        )
    find_weights(folder, shapes_of(shape), tied=shape.tie_word_embeddings)
    return shape


def _shape(folder: Path, config: dict[str, object]) -> Shape:
    family = config["architectures"]
    assert isinstance(family, list)
    given = DEFAULTS | {name: value for name, value in config.items() if value is not None}
    values: dict[str, object] = dict(FAMILIES[family[0]])
    width, heads = (given.get(name) for name in ("hidden_size", "num_attention_heads"))
    if isinstance(width, int) and isinstance(heads, int) and heads > 0:
        given.setdefault("num_key_value_heads", heads)
        if not values["qk_norm"]:  # Qwen3 says it always
            given.setdefault("head_dim", width // heads)
    for field in fields(Shape):
        if field.name not in given or field.name in {*values, "rope_theta", "rope"}:
            continue
        value = given[field.name]
        kind = float if field.type is float else field.type
        good = isinstance(value, (int, float)) and (kind is bool) == isinstance(value, bool)
        if not good or (kind is int and (not isinstance(value, int) or value < 1)):
            raise UsageError(
                f"{folder}/config.json has {field.name} {value!r}; it takes a positive number "
                "(or true and false for a switch). Save the model again."
            )
        values[field.name] = value
    positions = values.get("max_position_embeddings", 1)
    assert isinstance(positions, int)
    values["rope"], values["rope_theta"] = read_rope(folder, config, positions)
    try:
        shape = Shape(**values)  # type: ignore[arg-type]
    except TypeError as error:
        raise UsageError(f"{folder}/config.json is incomplete: {error}.") from error
    if shape.num_attention_heads % shape.num_key_value_heads or shape.head_dim % 2:
        raise UsageError(
            f"{folder}/config.json can't be right: query heads must be a multiple of key heads, "
            "and head_dim even. Save the model again."
        )
    return shape


def parameters_of(shape: Shape) -> int:
    """Number of weights of a decoder, without the gains of its norms."""
    heads = 2 * shape.num_attention_heads + 2 * shape.num_key_value_heads
    block = shape.hidden_size * (heads * shape.head_dim + 3 * shape.intermediate_size)
    embeddings = 1 if shape.tie_word_embeddings else 2
    return shape.num_hidden_layers * block + embeddings * shape.vocab_size * shape.hidden_size


def shapes_of(shape: Shape) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a decoder, by name; takes no memory."""
    with torch.device("meta"):
        decoder = Decoder(replace(shape, max_position_embeddings=1))
    return {name: tuple(weight.shape) for name, weight in decoder.named_parameters()}


def check_tokens(folder: Path, tokens: Tokens, shape: Shape) -> None:
    """Refuse a tokenizer that names ids the model has no row for.

    Raises:
        UsageError: It does.
    """
    highest = max(tokens.highest_id, tokens.pad_id, *tokens.stop_ids)
    if highest >= shape.vocab_size:
        raise UsageError(
            f"{folder}: the tokenizer has ids to {highest}, the model to {shape.vocab_size - 1}. "
            "Use the tokenizer that belongs to the model; more rows than ids are fine."
        )


def load_model(folder: Path) -> Model:
    """Load a model directory, master weights in float32.

    Raises:
        UsageError: As `read_shape` and `check_tokens`; or a weight is not finite.
    """
    shape = read_shape(folder)
    tokens = load_tokens(folder)
    check_tokens(folder, tokens, shape)
    decoder = Decoder(shape)
    places = find_weights(folder, shapes_of(shape), tied=shape.tie_word_embeddings)
    for path in sorted(set(places.values())):
        with opened(path) as file:
            for name, parameter in decoder.named_parameters():
                if places[name] == path:
                    value = file.get_tensor(name)
                    if not value.isfinite().all():
                        raise UsageError(
                            f"{path}: weight {name} is not finite. Go back to another."
                        )
                    parameter.data.copy_(value)
    return Model(decoder, tokens, folder)


def save_model(model: Model, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write a directory that loads here and in `transformers`, adapters merged.

    `folder` must exist.
    """
    tensors = {name: value.to(dtype).contiguous() for name, value in model.decoder.merged().items()}
    save_file(tensors, folder / WHOLE, metadata={"format": "pt"})
    for name in COPIED:
        if folder != model.folder and (model.folder / name).is_file():
            shutil.copyfile(model.folder / name, folder / name)
    if model.tokens.added:
        _write_added(model, folder)
    config = read_json(folder / "config.json") | {
        "dtype": str(dtype).removeprefix("torch."),
        "vocab_size": model.decoder.shape.vocab_size,
    }
    config.pop("torch_dtype", None)  # the old name of dtype
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _write_added(model: Model, folder: Path) -> None:
    """The tokenizer with the tokens that were added here; a second list of them is kept whole."""
    tokenizer = model.tokens.tokenizer
    tokenizer.save(str(folder / "tokenizer.json"))
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.is_file() else {}
    listed = settings.get("added_tokens_decoder")
    if isinstance(listed, dict):
        flags = ("lstrip", "normalized", "rstrip", "single_word", "special")
        for text in model.tokens.added:
            row = {"content": text, **dict.fromkeys(flags, False)}
            listed[str(model.tokens.id_of(text))] = row
        path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

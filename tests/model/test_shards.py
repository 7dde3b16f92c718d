"""Where weights lie: one file or several with an index, each checked before any weight loads."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from rlvr.errors import UsageError
from rlvr.model.shards import INDEX, WHOLE
from rlvr.model.weights import load_model, parameters_of, read_shape, save_model, shapes_of

Folders = Callable[..., Path]
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def sharded(folder: Path, target: Path) -> Path:
    """A copy of a model directory with its weights in two files."""
    shutil.copytree(folder, target, dirs_exist_ok=True)
    tensors = load_file(target / WHOLE)
    (target / WHOLE).unlink()
    names = sorted(tensors)
    parts = {FIRST: names[:7], SECOND: names[7:]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, target / file, metadata={"format": "pt"})
    places = {name: file for file, held in parts.items() for name in held}
    (target / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return target


def index_with(folder: Path, **places: str) -> None:
    """Change the file of weights in the index."""
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"] |= {name.replace("__", "."): file for name, file in places.items()}
    (folder / INDEX).write_text(json.dumps(index))


@pytest.fixture
def two(tiny_model_folder: Path, tmp_path: Path) -> Path:
    return sharded(tiny_model_folder, tmp_path / "two")


def refusal(folder: Path) -> str:
    """What is said before weights load; loading says the same."""
    said = []
    for read in (read_shape, load_model):
        with pytest.raises(UsageError) as refused:
            read(folder)
        said.append(str(refused.value))
    assert said[0] == said[1]
    return said[0]


def test_weights_in_several_files_load_as_those_in_one(two: Path, tiny_model_folder: Path) -> None:
    pairs = zip(
        load_model(two).decoder.named_parameters(),
        load_model(tiny_model_folder).decoder.named_parameters(),
        strict=True,
    )
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_directories_that_transformers_splits_load(two: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(two)
    theirs.save_pretrained(tmp_path / "split", max_shard_size="5KB")
    shutil.copyfile(two / "tokenizer.json", tmp_path / "split" / "tokenizer.json")
    assert len(list((tmp_path / "split").glob("*.safetensors"))) > 2
    found = load_model(tmp_path / "split").decoder.model.embed_tokens.weight
    assert torch.equal(found, theirs.get_input_embeddings().weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_stored_in_another_number_format_become_float32(
    tiny_model_folder: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    model = load_model(tiny_model_folder)
    save_model(model, tmp_path, dtype)
    for mine, found in zip(
        model.decoder.parameters(), load_model(tmp_path).decoder.parameters(), strict=True
    ):
        assert found.dtype == torch.float32
        assert torch.equal(found, mine.to(dtype).float())


def test_a_shard_that_is_missing_cut_short_or_no_weights_is_refused_by_name(two: Path) -> None:
    content = (two / SECOND).read_bytes()
    for cut in (0, 4, 100, len(content) - 1):
        (two / SECOND).write_bytes(content[:cut])
        said = refusal(two)
        assert SECOND in said
        assert "damaged" in said
    (two / SECOND).write_bytes(b"\x80\x04pickle" * 1000)
    assert f"{SECOND} is damaged" in refusal(two)
    (two / SECOND).unlink()
    assert f"{SECOND}, which its index names, is missing" in refusal(two)


NORM = "model__norm__weight"


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ({NORM: "../secret.safetensors"}, "no safetensors file of this directory"),
        ({NORM: "/etc/passwd"}, "no safetensors file of this directory"),
        ({NORM: "weights.bin"}, "no safetensors file of this directory"),
        ({"model__none__weight": FIRST}, "puts model.none.weight into"),
        ({NORM: FIRST}, "which does not hold it"),
    ],
)
def test_an_index_that_can_not_be_right_is_refused(
    two: Path, places: dict[str, str], says: str
) -> None:
    index_with(two, **places)
    assert says in refusal(two)


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', "not json", "[1]"])
def test_a_damaged_index_is_refused(two: Path, content: str) -> None:
    (two / INDEX).write_text(content)
    assert INDEX in refusal(two)


def test_weights_that_are_missing_or_surplus_are_counted_and_named(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_model_folder, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / WHOLE)
    tensors["model.surplus"] = tensors.pop("model.norm.weight")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(tensors, tmp_path / "model" / WHOLE)
    said = refusal(tmp_path / "model")
    assert "1 missing (model.norm.weight) and 1 surplus (model.surplus)" in said


def test_quantised_weights_are_refused(tiny_model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model_folder, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / WHOLE)
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.int8)
    save_file(tensors, tmp_path / "model" / WHOLE)
    assert "stored as I8" in refusal(tmp_path / "model")


def test_pickled_weights_are_refused_with_the_way_out(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_model_folder, tmp_path / "model")
    (tmp_path / "model" / WHOLE).rename(tmp_path / "model" / "pytorch_model.bin")
    said = refusal(tmp_path / "model")
    assert "pytorch_model.bin, a pickle file" in said
    assert "safe_serialization" in said


def test_more_rows_than_tokens_are_fine_and_fewer_are_refused(tagless_folder: Folders) -> None:
    folder = tagless_folder(free_rows=7)
    model = load_model(folder)
    assert model.decoder.shape.vocab_size == model.tokens.highest_id + 8
    rows = model.decoder.shape.vocab_size
    gap = Tokenizer(WordLevel({"a": 0, "<end>": 1, "far": rows}, unk_token="a"))
    gap.save(str(folder / "tokenizer.json"))
    assert gap.get_vocab_size() < rows, "ids are what counts, and some are left out"
    with pytest.raises(UsageError, match=f"ids to {rows}, the model to {rows - 1}"):
        load_model(folder)


def test_the_shapes_of_a_model_of_billions_take_no_memory(tiny_model_folder: Path) -> None:
    shape = replace(read_shape(tiny_model_folder), hidden_size=2**14, intermediate_size=2**16)
    assert parameters_of(shape) > 6e9
    assert shapes_of(shape)["model.layers.1.mlp.down_proj.weight"] == (2**14, 2**16)

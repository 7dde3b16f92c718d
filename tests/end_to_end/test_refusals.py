"""Wrong use and wrong input: one message, exit status 2, no traceback, nothing left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr.abacus import FOLDER
from rlvr.cli import COMMANDS

Command = Callable[..., subprocess.CompletedProcess[str]]

WRONG_WORDS = [
    ("tran", "Did you mean 'train'?"),
    ("train --stepz 3", "Did you mean '--steps'?"),
    ("train --group-size 4", "Did you mean '--rollouts.group-size'?"),
    ("train --steps -1", "steps is -1"),
    ("train --steps many", "a whole number"),
    ("train --steps 2.5", "a whole number"),
    ("train --steps", "--steps"),
    ("train extra words", "words"),
    ("train --variant dappo", "Did you mean 'dapo'?"),
    ("train --problems arithmetik", "Did you mean 'arithmetic'?"),
    ("train --variant.surrogate clipp", "Did you mean 'clip'?"),
    ("train --variant.surogate clip", "Did you mean '--variant.surrogate'?"),
    ("train --variant.advantage zscored", "Did you mean 'zscore'?"),
    ("train --variant.level answer", "--variant.weighting sequence"),
    ("train --variant.kl-coefficient 0.1", "--variant.kl k3"),
    ("train --variant.entropy bonus", "--variant.entropy-coefficient"),
    ("train --variant.mini-batches 33", "groups stay whole"),
    ("train --variant.epochs 0", "Use 1 or more"),
    ("train --variant.dual-clip 1.1", "Use 3"),
    ("train --variant.pass-k 9 --variant.advantage pass_at_k", "a group has 8"),
    ("train --rollouts.top-p 0.9", "--variant.keep-sampling-mask true"),
    ("train --rollouts.rounds 0", "Use 1 or more"),
    ("train --rollouts.ban hello", "one token each"),
    ("train --reward.function mine.py", "path/to/file.py:function"),
    ("train --reward.function folder/mine:score", "path/to/file.py:function"),
    ("train --reward.function mine.py:score", "mine.py. Give module:function"),
    ("train --reward.function no.such:score", "No module named 'no'"),
    ("train --reward.correctness 0", "every reward would be 0"),
    ("train --reward.random -1", "reward.random"),
    ("train --problems none.jsonl", "none.jsonl"),
    ("train --model none", "abacus"),
    ("train --template no", "template"),
    ("train --template {question}", "Write {problem} in the place of {question}"),
    ("train --template {problem}{problem}", "2 times"),
    ("train --template none.txt", "no template file none.txt"),
    ("train --think-tokens maybe", "true or false"),
    ("templates bloxed", "Did you mean 'boxed'?"),
    ("train --dtype float16", "float32"),
    ("train --rollouts.group-size 1", "Use 2 or more"),
    ("train --rollouts.problems-per-step 0", "1 or more"),
    ("train --rollouts.temperature 0", "above 0"),
    ("train --rollouts.temperature nan", "number"),
    ("train --rollouts.top-p 0", "top_p"),
    ("train --rollouts.top-p 1.5", "top_p"),
    ("train --rollouts.max-new-tokens 5000", "Use "),
    ("train --optimiser.lr 0", "lr"),
    ("train --optimiser.lr inf", "lr"),
    ("train --reward.format-gate sometimes", "if_correct"),
    ("train --seed -1", "seed"),
    ("train --threads -2", "threads"),
    ("train --threads 4096", "cores"),
    ("train --resume none", "none"),
    ("train --resume none --out x", "--out"),
    ("train none.toml", "none.toml"),
    ("eval", "abacus"),
    ("eval none", "none"),
    ("eval abacus --problems nosuch", "arithmetic"),
    ("eval abacus --threads 4096", "cores"),
    ("eval abacus --temperature hot", "--temperature"),
    ("eval abacus --samples 4", "--temperature"),
    ("eval abacus --max-new-tokens 1000", "Use "),
    ("eval abacus --seed 99999999999999999999", "2^63-1"),
    ("chat none", "none"),
    ("chat abacus 1+1 --temperature 1 --seed 99999999999999999999", "2^63-1"),
    ("chat abacus 1+1 --max-new-tokens 100000", "a smaller --max-new-tokens"),
    ("chat abacus \udcff", "UTF-8"),
    ("verify", "--reference"),
    ("verify --jsonl none.jsonl", "none.jsonl"),
    ("variants dappo", "dapo"),
]


@pytest.mark.parametrize(("words", "says"), WRONG_WORDS)
def test_wrong_use_is_refused_in_words(
    rlvr: Command, tmp_path: Path, words: str, says: str
) -> None:
    refused = rlvr(*words.split())
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert refused.stdout == ""
    assert list(tmp_path.iterdir()) == []


WRONG_FILES = [
    ("steps = 'many'", "a whole number"),
    ("stepz = 3", "Did you mean 'steps'?"),
    ("steps = [", "not TOML"),
    ("steps = true", "a whole number"),
    ("[rollouts]\ngroup_size = 1", "Use 2 or more"),
    ("[rollout]\ngroup_size = 8", "rollouts.group_size"),
    ("variant = 'dappo'", "dapo"),
    ("[variant]\nname = 'dapo'\nclip_hihg = 0.3", "clip_high"),
    ("[variant]\nclip_high = -1.0", "clip_high"),
]


@pytest.mark.parametrize(("text", "says"), WRONG_FILES)
def test_a_wrong_settings_file_is_refused_in_words(
    rlvr: Command, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "run.toml").write_text(text)
    refused = rlvr("train", "run.toml")
    assert refused.returncode == 2, refused.stderr
    assert says in refused.stderr
    assert not (tmp_path / "runs").exists()


WRONG_PROBLEMS = [
    ('{"problem": "1+1=", "answer": "2"}\nnot json\n', "line 2"),
    ('{"problem": "1+1="}\n', "no row has a field answer"),
    ("", "no problem"),
    ('{"problem": "1+1=", "answer": "{"}\n{"problem": "1+2=", "answer": "3"}\n', ". Mend the"),
]


@pytest.mark.parametrize(("text", "says"), WRONG_PROBLEMS)
def test_a_broken_problem_file_is_refused_with_the_line(
    rlvr: Command, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "mine.jsonl").write_text(text)
    refused = rlvr("train", "--problems", "mine.jsonl")
    assert refused.returncode == 2
    assert says in refused.stderr.replace("empty", "no problem").replace("no rows", "no problem")


def copy_of_the_model(folder: Path, without: str = "") -> Path:
    folder.mkdir()
    for path in FOLDER.iterdir():
        if path.is_file() and path.name != without:
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_an_incomplete_model_directory_is_refused_with_what_is_missing(
    rlvr: Command, tmp_path: Path, missing: str
) -> None:
    folder = copy_of_the_model(tmp_path / "model", without=missing)
    refused = rlvr("train", "--model", folder)
    assert refused.returncode == 2
    assert missing in refused.stderr


def test_a_model_of_another_family_is_refused_by_name(rlvr: Command, tmp_path: Path) -> None:
    folder = copy_of_the_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["GPT2LMHeadModel"]
    (folder / "config.json").write_text(json.dumps(config))
    refused = rlvr("train", "--model", folder)
    assert refused.returncode == 2
    assert "GPT2LMHeadModel" in refused.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 10**9),
        ("hidden_size", 64),
        ("num_hidden_layers", "four"),
        ("num_key_value_heads", 3),
        ("head_dim", 31),
        ("vocab_size", 40),
        ("vocab_size", -1),
        ("eos_token_id", None),
        ("eos_token_id", 4000),
        ("hidden_act", "gelu"),
    ],
)
def test_a_config_that_can_not_be_right_is_refused(
    rlvr: Command, tmp_path: Path, key: str, value: object
) -> None:
    folder = copy_of_the_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text()) | {key: value}
    (folder / "config.json").write_text(json.dumps(config))
    refused = rlvr("eval", folder)
    assert refused.returncode == 2, refused.stderr
    assert "Traceback" not in refused.stderr


def test_damaged_weights_are_refused(rlvr: Command, tmp_path: Path) -> None:
    folder = copy_of_the_model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"\xff" * 10**6)
    refused = rlvr("eval", folder)
    assert refused.returncode == 2
    assert "damaged" in refused.stderr


def test_a_run_folder_that_holds_something_else_is_refused(rlvr: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    refused = rlvr("train", "--out", "mine")
    assert refused.returncode == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_help_answers_without_loading_torch(rlvr: Command) -> None:
    code = (
        "import sys; from rlvr.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0
    assert "train" in done.stdout
    assert rlvr("--help").stdout == done.stdout


LIGHT = [
    "train --model none",
    "train --model hollow",
    "train --problems nosuch",
    "train --lora.rank -1",
    "train --lora.rank 4 --lora.targets q_prj",
    "train --threads 4096",
    "train --model nobody/none",
    "train --template chat_boxed",
    "train --template empty.txt",
    "train --reward.function mine.py",
    "train --reward.function folder/mine:score",
    "train --reward.function mine.py:score",
    "train --reward.function no.such:score",
    "train --resume run",
    "train --rollouts.ban hello",
    "train --rollouts.ban <answer> --think-tokens true",
    "eval none",
    "eval hollow",
    "eval abacus --problems nosuch",
    "eval abacus --seed -1",
    "eval abacus --threads 4096",
    "eval nobody/none",
    "eval abacus --template chat",
    "eval abacus --template bloxed",
    "chat none",
    "chat hollow",
    "chat abacus --temperature hot",
    "chat nobody/none",
    "chat abacus 1+1 --template chat_think",
    "chat abacus 1+1 --template none.txt",
]


def test_wrong_models_options_and_templates_are_refused_before_torch_loads(
    tmp_path: Path,
) -> None:
    (tmp_path / "hollow").mkdir()
    (tmp_path / "empty.txt").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text("[reward]\nfunction = 'gone.py:score'\n")
    code = (
        "import sys; from rlvr.cli import main\n"
        f"for words in {LIGHT!r}:\n"
        "    assert main(words.split()) == 2, words\n"
        "    assert 'torch' not in sys.modules, words"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_command_explains_itself(rlvr: Command) -> None:
    for command in COMMANDS:
        told = rlvr(command, "--help")
        assert told.returncode == 0
        assert f"rlvr {command}" in told.stdout


def test_the_help_of_train_lists_the_words_that_a_setting_takes(rlvr: Command) -> None:
    told = " ".join(rlvr("train", "--help").stdout.split())
    assert "one of auto, float32, bfloat16; default" in told
    assert "one of none, k1, k2, k3" in told

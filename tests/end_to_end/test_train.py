"""Whole runs: same seed same bits, killed and resumed, stopped, continued, refused."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
TIMES = ("time", "wall", "mem", "tokens_per_s")


def weights_digest(run: Path) -> str:
    last = sorted(run.glob("checkpoints/step-*/model.safetensors"))[-1]
    return hashlib.sha256(last.read_bytes()).hexdigest()


def rows(run: Path, name: str = "metrics.jsonl") -> list[dict[str, object]]:
    """Lines of a log without what depends on the clock."""
    lines = [json.loads(line) for line in (run / name).read_text().splitlines()]
    return [{k: v for k, v in r.items() if not any(t in k for t in TIMES)} for r in lines]


def rollout_digests(run: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((run / "rollouts").iterdir())
    }


def same(a: Path, b: Path) -> bool:
    return (
        weights_digest(a) == weights_digest(b)
        and rows(a) == rows(b)
        and rows(a, "evals.jsonl") == rows(b, "evals.jsonl")
        and rollout_digests(a) == rollout_digests(b)
    )


@pytest.fixture
def straight(rlvr: Command, small: list[str], tmp_path: Path) -> Path:
    """A run of 8 steps that was never stopped."""
    done = rlvr("train", "--out", tmp_path / "straight", "--steps", 8, "--seed", 3, *small)
    assert done.returncode == 0, done.stderr
    return tmp_path / "straight"


def test_same_seed_and_threads_twice_gives_equal_metrics_and_weights(
    rlvr: Command, small: list[str], straight: Path, tmp_path: Path
) -> None:
    again = rlvr("train", "--out", tmp_path / "again", "--steps", 8, "--seed", 3, *small)
    assert again.returncode == 0, again.stderr
    assert same(straight, tmp_path / "again")


def test_the_suggested_comparison_asks_before_and_after_in_the_same_way(
    rlvr: Command, small: list[str], tmp_path: Path
) -> None:
    template = ("--template", "0+{problem}")
    done = rlvr("train", "--out", "run", "--steps", 1, *template, *small)
    assert done.returncode == 0, done.stderr
    (suggested,) = [line.split() for line in done.stdout.splitlines() if "rlvr eval" in line]
    fewer = ("--count", 3, "--max-new-tokens", 48)
    evaluated = rlvr(*suggested[1:], *fewer)
    assert evaluated.returncode == 0, evaluated.stderr
    before, after = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (
            *tmp_path.glob("runs/evals/eval-step-000000-*-sampled.jsonl"),
            *tmp_path.glob("run/answers/eval-*-sampled.jsonl"),
        )
    )
    assert len(before) == len(after) == 3 * 16
    assert [a["prompt_tokens"] for a in before] == [a["prompt_tokens"] for a in after]
    plain = rlvr("eval", "abacus", "--temperature", 1, *fewer)
    assert plain.returncode == 0, plain.stderr
    (stored,) = tmp_path.glob("runs/evals/eval-abacus-*-sampled.jsonl")
    other = json.loads(stored.read_text().splitlines()[0])["prompt_tokens"]
    assert other == before[0]["prompt_tokens"][2:], "the template stands before the problem"


def test_another_seed_gives_another_run(
    rlvr: Command, small: list[str], straight: Path, tmp_path: Path
) -> None:
    rlvr("train", "--out", tmp_path / "other", "--steps", 8, "--seed", 4, *small)
    assert weights_digest(straight) != weights_digest(tmp_path / "other")


def test_killed_at_three_random_moments_and_resumed_equals_never_stopped(
    small: list[str], straight: Path, rlvr: Command, tmp_path: Path
) -> None:
    run, moments = tmp_path / "killed", random.Random(5)
    words = ["train", "--out", str(run), "--steps", "8", "--seed", "3", *small]
    for least_steps in (1, 3, 5):
        kill_after(words, run, least_steps, moments.uniform(0, 0.3), tmp_path)
        words = ["train", "--resume", str(run)]
    done = rlvr(*words)
    assert done.returncode == 0, done.stderr
    assert same(straight, run)


def kill_after(words: list[str], run: Path, steps: int, pause: float, folder: Path) -> None:
    """Start `rlvr`, wait until some steps are logged, and a moment, then SIGKILL."""
    started = subprocess.Popen(
        [sys.executable, "-m", "rlvr", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_steps(run, steps, started)
    time.sleep(pause)
    started.send_signal(signal.SIGKILL)
    started.wait(timeout=60)


def wait_for_steps(run: Path, steps: int, started: subprocess.Popen[Any]) -> None:
    """Wait until some steps are logged or the process has ended, two minutes at most."""
    log, until = run / "metrics.jsonl", time.monotonic() + 120
    while not (log.is_file() and len(log.read_text().splitlines()) >= steps):
        if started.poll() is not None:
            return
        if time.monotonic() > until:
            started.kill()
            pytest.fail(f"step {steps} did not come within two minutes")
        time.sleep(0.02)


def test_ctrl_c_saves_says_how_to_go_on_and_exits_with_130(
    small: list[str], straight: Path, rlvr: Command, tmp_path: Path
) -> None:
    run = tmp_path / "stopped"
    words = ["train", "--out", str(run), "--steps", "8", "--seed", "3", *small]
    started = subprocess.Popen(
        [sys.executable, "-m", "rlvr", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_steps(run, 1, started)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=120)
    assert started.returncode == 130, err
    assert f"--resume {run}" in out + err
    assert "Traceback" not in err
    logged = len(rows(run))
    assert (run / "checkpoints" / f"step-{logged:06d}" / "model.safetensors").is_file()
    assert rlvr("train", "--resume", run).returncode == 0
    assert weights_digest(run) == weights_digest(straight)
    assert rows(run) == rows(straight)


def test_a_half_written_line_and_later_rollouts_are_cut_on_resume(
    rlvr: Command, small: list[str], straight: Path, tmp_path: Path
) -> None:
    run = straight
    before = rows(run), weights_digest(run), rollout_digests(run)
    for step in (8,):
        folder = run / "checkpoints" / f"step-{step:06d}"
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "reward/me')
    (run / "rollouts" / "step-000099.jsonl").write_text("{}\n")
    assert rlvr("train", "--resume", run).returncode == 0
    assert before == (rows(run), weights_digest(run), rollout_digests(run))


def test_resuming_a_run_that_is_done_changes_nothing(rlvr: Command, straight: Path) -> None:
    before = rows(straight), weights_digest(straight)
    done = rlvr("train", "--resume", straight)
    assert done.returncode == 0, done.stderr
    assert before == (rows(straight), weights_digest(straight))


def test_resuming_with_other_settings_is_refused_and_lists_the_difference(
    rlvr: Command, straight: Path
) -> None:
    refused = rlvr("train", "--resume", straight, "--optimiser.lr", "1e-3", "--steps", "8")
    assert refused.returncode == 2
    assert "optimiser.lr" in refused.stderr
    assert "0.0003" in refused.stderr
    assert "steps" not in refused.stderr


def test_a_folder_that_holds_a_run_is_not_written_over(
    rlvr: Command, small: list[str], straight: Path
) -> None:
    refused = rlvr("train", "--out", straight, *small)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr


def test_two_processes_cannot_train_in_one_folder(
    rlvr: Command, small: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "busy"
    words = [sys.executable, "-m", "rlvr", "train", "--out", str(run), "--steps", "500", *small]
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_steps(run, 1, first)
        refused = rlvr("train", "--resume", run)
        assert refused.returncode == 2
        assert "another process" in refused.stderr
    finally:
        first.kill()
        first.wait(timeout=60)


def test_every_rollout_is_recorded_with_the_logprob_of_every_token(straight: Path) -> None:
    files = sorted((straight / "rollouts").iterdir())
    assert len(files) == 8
    for path in files:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(lines) == 16
        for line in lines:
            assert len(line["answer_tokens"]) == len(line["sampler_logprobs"]) > 0
            assert line["verdict"] in ("correct", "incorrect", "could not judge")
            assert line["reason"]


def test_a_checkpoint_loads_in_transformers(straight: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = straight / "checkpoints" / "step-000008"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("12+34=", return_tensors="pt", add_special_tokens=False).input_ids
    answer = model.generate(ids, max_new_tokens=60, do_sample=False)
    assert "\\boxed{" in tokenizer.decode(answer[0])


def test_metrics_are_strict_json_with_declared_keys(straight: Path) -> None:
    from rlvr.observe.keys import METRICS

    declared = {metric.key for metric in METRICS}
    for line in (straight / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in the log"))
        assert set(row) <= declared, set(row) - declared


def test_user_problems_train_and_are_split(rlvr: Command, small: list[str], tmp_path: Path) -> None:
    lines = [
        json.dumps({"problem": f"{a}+{b}=", "answer": a + b}) for a in range(9) for b in range(9)
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    done = rlvr("train", "--problems", "mine.jsonl", "--out", "run", "--steps", 2, *small)
    assert done.returncode == 0, done.stderr
    trained = {
        json.loads(line)["problem"]
        for path in (tmp_path / "run" / "rollouts").iterdir()
        for line in path.read_text().splitlines()
    }
    evaluated = {
        json.loads(line)["problem"]
        for path in (tmp_path / "run" / "answers").iterdir()
        for line in path.read_text().splitlines()
    }
    assert trained
    assert not trained & evaluated


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "dapo"])
def test_every_variant_trains(rlvr: Command, small: list[str], name: str) -> None:
    done = rlvr("train", "--variant", name, "--out", name, "--steps", 2, *small)
    assert done.returncode == 0, done.stderr


def test_no_space_left_is_said_in_words(rlvr: Command, small: list[str], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk],
            check=False,
            capture_output=True,
            timeout=60,
        ).returncode
    ):
        pytest.skip("needs the right to mount a small disk")
    try:
        refused = rlvr("train", "--out", disk / "run", "--steps", 4, *small)
        assert refused.returncode == 2
        assert "MB are free" in refused.stderr
        assert "Traceback" not in refused.stderr
    finally:
        subprocess.run(["umount", disk], check=True, timeout=60)


def test_any_number_of_problems_and_answers_makes_a_step(
    rlvr: Command, small: list[str], tmp_path: Path
) -> None:
    """What the user gives is problems times group size; nothing has to divide anything."""
    odd = ["--rollouts.problems-per-step", 5, "--rollouts.group-size", 3]
    odd += ["--optimiser.tokens-at-once", 70]
    done = rlvr("train", "--out", "odd", "--steps", 2, *small, *odd)
    assert done.returncode == 0, done.stderr
    for path in (tmp_path / "odd" / "rollouts").iterdir():
        assert len(path.read_text().splitlines()) == 15


def test_a_run_killed_before_its_first_checkpoint_starts_over_and_equals_never_stopped(
    rlvr: Command, straight: Path, tmp_path: Path
) -> None:
    run = tmp_path / "early"
    run.mkdir()
    (run / "run.toml").write_text((straight / "run.toml").read_text())
    (run / "evals.jsonl").write_text('{"step": 0, "mode": "gree')
    done = rlvr("train", "--resume", run)
    assert done.returncode == 0, done.stderr
    assert same(straight, run)


def test_settings_left_out_of_a_run_are_settled_again_on_resume(
    rlvr: Command, tmp_path: Path
) -> None:
    run = tmp_path / "sparse"
    run.mkdir()
    text = "steps = 1\n[rollouts]\nproblems_per_step = 2\n[evaluation]\nfinal_problems = 4\n"
    (run / "run.toml").write_text(text)
    done = rlvr("train", "--resume", run)
    assert done.returncode == 0, done.stderr

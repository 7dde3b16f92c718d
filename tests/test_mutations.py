"""Faults put in on purpose: each must turn a test with a telling name red."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

MUTATIONS = [
    # (file, what stands there, the fault, the test that must notice)
    (
        "objective/surrogates.py",
        "gain = torch.minimum(",
        "gain = torch.maximum(",
        "tests/objective/test_surrogates.py::test_clipping_stops_only_moves_that_went_far_enough",
    ),
    (
        "objective/surrogates.py",
        "    return -gain * mask",
        "    return gain * mask",
        "tests/training/test_step.py::test_the_gradient_of_a_step_agrees_with_the_twin_on_one_page",
    ),
    (
        "training/batching.py",
        "mask = (prompt[:, None] <= position)",
        "mask = (prompt[:, None] < position)",
        "tests/training/test_step.py::test_the_end_token_trains_once_and_nothing_behind_it",
    ),
    (
        "training/batching.py",
        "& (position < lengths[:, None])",
        "& (position < lengths[:, None] - 1)",
        "tests/training/test_step.py::test_the_end_token_trains_once_and_nothing_behind_it",
    ),
    (
        "model/packing.py",
        "answers[-1].first - first[row] - 1",
        "answers[-1].first - first[row]",
        "tests/model/test_logprobs.py::"
        "test_each_logprob_is_that_of_its_own_token_given_those_before_it",
    ),
    (
        "model/logprobs.py",
        "logits.div_(sampling.temperature)",
        "logits.div_(1.0)",
        "tests/model/test_logprobs.py::"
        "test_each_logprob_is_that_of_its_own_token_given_those_before_it",
    ),
    (
        "model/logprobs.py",
        "sampling.banned) / sampling.temperature",
        "sampling.banned)",
        "tests/rollout/test_engine.py::test_recorded_logprobs_are_those_the_learner_finds",
    ),
    (
        "model/packing.py",
        "dtype=torch.bool).tril(begin)",
        "dtype=torch.bool).tril(begin + 1)",
        "tests/model/test_decoder.py::test_logits_equal_those_of_transformers_within_1e_4",
    ),
    (
        "model/cache.py",
        "padding = (after < 0) & (column >= cache.prefix)",
        "padding = (after < 0) & (column < 0)",
        "tests/model/test_decoder.py::test_a_left_padded_prompt_reads_as_it_does_alone",
    ),
    (
        "training/update.py",
        "bonus) * part.weights).sum()",
        "bonus) * part.weights / part.weights.sum()).sum()",
        "tests/training/test_step.py::test_any_micro_batch_size_gives_the_same_gradient",
    ),
    (
        "training/optimiser.py",
        'fall = 1.0 if settings.schedule == "constant" else (steps - step + 1) / steps',
        'fall = 1.0 if settings.schedule == "constant" else step / steps',
        "src/rlvr/training/optimiser.py::rlvr.training.optimiser.learning_rate",
    ),
    (
        "rollout/engine.py",
        "found = torch.isin(token, self.ids)",
        "found = token == self.ids[0]",
        "tests/rollout/test_engine.py::test_every_stop_token_ends_an_answer_and_belongs_to_it",
    ),
    (
        "problems/arithmetic.py",
        "map(str, sorted(self.operands))",
        "map(str, self.operands)",
        "tests/problems/test_arithmetic.py::test_all_forms_of_a_question_fall_on_the_same_side",
    ),
    (
        "objective/advantages.py",
        "(_deviation(rewards, scored, 1) + eps)",
        "(_deviation(centred(rewards, scored), scored, 1) + eps)",
        "tests/objective/test_surrogates.py::"
        "test_two_groups_of_different_spread_get_the_scale_that_the_name_says",
    ),
    (
        "objective/loss.py",
        "cap=1 + row.clip_high",
        "cap=row.clip_high",
        "tests/objective/test_oracles.py::test_oracle[loss_cispo_1_plus_eps_high-float64]",
    ),
    (
        "objective/loss.py",
        "kl_loss(row.kl, *logprobs",
        'kl_loss("k1", *logprobs',
        "tests/objective/test_oracles.py::test_oracle[loss_kl_k3-float64]",
    ),
    (
        "objective/correction.py",
        "return (advantages >= 0) | (away <= farthest)",
        "return (advantages <= 0) | (away <= farthest)",
        "tests/objective/test_oracles.py::test_oracle[opsm_drops-float64]",
    ),
    (
        "training/update.py",
        "at_start = logprobs.detach() if part.old_logprobs is None else part.old_logprobs",
        "at_start = logprobs.detach()",
        "tests/test_groups.py::test_many_updates_per_batch_move_ratios_and_clip",
    ),
    (
        "groups.py",
        "found.trained[:wanted], found.trained[wanted:]",
        "found.trained[:wanted], []",
        "tests/test_groups.py::"
        "test_surplus_groups_are_used_first_in_the_next_step_and_count_as_stale",
    ),
    (
        "run.py",
        "else frozen(reference)",
        "else reference",
        "tests/test_groups.py::test_the_reference_is_a_frozen_copy_of_the_policy_that_started",
    ),
    (
        "verify/process.py",
        "self.item, self.outgoing, self.since = position, memoryview(line), time.monotonic()",
        "self.item, self.outgoing = position, memoryview(line)",
        "tests/verify/test_pool.py::test_the_deadline_counts_work_and_not_the_wait",
    ),
    (
        "verify/pool.py",
        "if limit <= looked and",
        "if limit <= time.monotonic() and",
        "tests/verify/test_pool.py::"
        "test_an_answer_that_is_there_counts_however_late_we_look[_serve]",
    ),
    (
        "scoring.py",
        'value = 0.0 if trouble == "late" else None',
        "value = 0.0",
        "tests/test_scoring.py::test_three_states_of_a_function_stay_apart",
    ),
    (
        "rewards.py",
        "value += weight * parts[name]",
        "value += parts[name]",
        "tests/test_rewards.py::test_every_part_has_a_weight_and_is_logged_without_it",
    ),
    (
        "model/lora.py",
        "(self.up, (g @ self.down.t()).mul_(self.scale)),",
        "(self.up, g @ self.down.t()),",
        "tests/model/test_lora.py::test_the_gradient_of_one_adapter_worked_out_by_hand",
    ),
    (
        "model/leaves.py",
        "elif master in added:",
        "elif master is masters[0] and master in added:",
        "tests/model/test_lora.py::test_the_fast_path_equals_the_slow_one_with_adapters",
    ),
    (
        "training/checkpoint.py",
        "model = load_model(base if adapted else folder)",
        "model = load_model(folder)",
        "tests/test_adapters.py::"
        "test_stopped_and_taken_up_again_gives_the_bits_of_never_having_stopped[plain]",
    ),
    (
        "run.py",
        "adapted=became > 0)",
        "adapted=True)",
        "tests/test_adapters.py::"
        "test_stopped_and_taken_up_again_gives_the_bits_of_never_having_stopped[kl]",
    ),
]


def run_tests(
    nodes: list[str], folder: Path, seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run some tests against the package in `folder`, within bounds, differences not told."""
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    words = ["-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, *words, "--assert=plain", "--doctest-modules", *nodes],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutant")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    return folder


@pytest.mark.parametrize(("file", "right", "wrong", "node"), MUTATIONS)
def test_a_fault_put_in_on_purpose_is_noticed(
    copy: Path, file: str, right: str, wrong: str, node: str
) -> None:
    path = copy / "src" / "rlvr" / file
    text = path.read_text()
    assert text.count(right) == 1, f"{right!r} stands {text.count(right)} times in {file}"
    path.write_text(text.replace(right, wrong))
    try:
        found = run_tests([node], copy)
    finally:
        path.write_text(text)
    assert found.returncode == 1, found.stdout[-3000:] + found.stderr[-1000:]
    assert " failed" in found.stdout


def test_the_tests_named_above_pass_on_the_code_as_it_is(copy: Path) -> None:
    found = run_tests(sorted({node for *_, node in MUTATIONS}), copy, seconds=550)
    assert found.returncode == 0, found.stdout[-3000:]

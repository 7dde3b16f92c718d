"""The groups of a step: rounds of sampling, what is carried on, what is drawn no more, resets."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlvr.config import Config, read_toml, resolve
from rlvr.errors import UsageError
from rlvr.groups import gather
from rlvr.loop import train
from rlvr.objective.variants import VARIANTS
from rlvr.observe.evaluate import Evaluated
from rlvr.observe.metrics import Values
from rlvr.observe.runlog import read_lines
from rlvr.run import Run, prepare, take_up
from rlvr.training.batching import groups_with_signal

SMALL: dict[str, object] = {
    "rollouts.problems_per_step": 4,
    "rollouts.group_size": 4,
    "rollouts.max_new_tokens": 40,
    "evaluation.problems": 2,
    "evaluation.final_problems": 2,
    "evaluation.every_steps": 0,
    "checkpoints.every_steps": 100,
    "optimiser.lr": 1e-3,
    "threads": 1,
    "dtype": "float32",
    "seed": 7,
}


class Watch:
    """Asks a run to stop after a step, and keeps its metrics."""

    def __init__(self, run: Run, stop_after: int | None = None) -> None:
        self.run, self.stop_after = run, stop_after
        self.lines: list[Values] = []
        self.warnings: list[str] = []

    def evaluated(self, step: int, results: Sequence[Evaluated]) -> None:
        """Nothing to show."""

    def stepped(self, metrics: Values) -> None:
        """Stop where asked."""
        self.lines.append(metrics)
        self.run.stop_asked = metrics["step"] == self.stop_after

    def warned(self, text: str) -> None:
        """Keep it."""
        self.warnings.append(text)


def settings(**more: object) -> Config:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return resolve(SMALL | named)


def ran(config: Config, path: Path, stop_after: int | None = None) -> tuple[Run, list[Values]]:
    run = prepare(config, path)
    watch = Watch(run, stop_after)
    train(run, watch)
    run.folder.release()
    return run, watch.lines


def resumed(path: Path) -> tuple[Run, list[Values]]:
    run = take_up(resolve(read_toml(path / "run.toml")), path)
    watch = Watch(run)
    train(run, watch)
    run.folder.release()
    return run, watch.lines


def weights(run: Run) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in run.model.decoder.parameters()])


def no_timing(stage: str) -> "Nothing":
    return Nothing()


class Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_rounds_go_on_until_enough_groups_have_a_signal_and_no_further(tmp_path: Path) -> None:
    """BC-75: whole groups are replaced, rounds are bounded, and a counter shows it."""
    run = prepare(settings(variant="dapo", rollouts__rounds=10), tmp_path / "run")
    found = gather(run, 1, no_timing)
    assert found.rounds > 1
    assert len(found.trained) == 4
    assert groups_with_signal(found.trained, run.config.variant) == found.trained
    assert len(found.sampled) == 4 * found.rounds
    assert run.progress.drawn == 4 * found.rounds
    with_signal = groups_with_signal(found.sampled, run.config.variant)
    assert found.trained + run.carried.surplus == with_signal
    few = prepare(settings(variant="dapo", rollouts__rounds=1), tmp_path / "few")
    assert gather(few, 1, no_timing).rounds == 1


def test_rounds_of_a_step_draw_other_problems_and_other_answers(tmp_path: Path) -> None:
    """BC-23."""
    run = prepare(settings(variant="dapo", rollouts__rounds=10), tmp_path / "run")
    found = gather(run, 1, no_timing)
    problems = [group.problem.id for group in found.sampled]
    assert len(set(problems)) > len(problems) / 2
    answers = [tuple(r.answer_tokens) for r in found.sampled[0].rollouts]
    others = [tuple(r.answer_tokens) for r in found.sampled[4].rollouts]
    assert answers != others


def test_surplus_groups_are_used_first_in_the_next_step_and_count_as_stale(tmp_path: Path) -> None:
    config = settings(variant="olmo3", rollouts__rounds=10, steps=6)
    run, lines = ran(config, tmp_path / "run")
    carried = [line["batch/carried"] for line in lines]
    assert any(carried)
    for line in lines:
        assert line["staleness/max"] == (1 if line["batch/carried"] else 0)
        assert line["batch/effective"] == 16
    step = next(i for i, count in enumerate(carried) if count) + 1
    rows = read_lines(tmp_path / "run" / "rollouts" / f"step-{step:06d}.jsonl")
    trained = [row for row in rows if row["trained"]]
    assert len(trained) == 16
    assert trained[0]["weights_version"] == step - 2
    assert rows[-1]["trained"] is False or len(rows) == 16
    del run


def test_stopped_with_a_surplus_and_resumed_equals_never_stopped(tmp_path: Path) -> None:
    """BC-62: surplus, pass rates, the cursor and adapted coefficients are in the checkpoint."""
    config = settings(
        variant="scalerl", rollouts__rounds=10, steps=6, variant__groups="active",
        variant__entropy="adaptive", variant__entropy_target=2.0, variant__epochs=2,
        variant__mini_batches=2,
    )  # fmt: skip
    whole, lines = ran(config, tmp_path / "whole")
    at = next(i for i, line in enumerate(lines) if line["batch/carried"])
    stopped, before = ran(config, tmp_path / "parts", stop_after=at)
    assert stopped.carried.surplus
    assert stopped.carried.pass_rates
    assert stopped.progress.controls.entropy_coefficient > 0
    again, after = resumed(tmp_path / "parts")
    assert torch.equal(weights(again), weights(whole))
    timeless = [
        {k: v for k, v in line.items() if not k.startswith(("time", "wall", "mem", "tokens_per"))}
        for line in (*before, *after)
    ]
    for line, other in zip(timeless, lines, strict=True):
        assert line == {k: other[k] for k in line}
    assert again.carried == whole.carried
    assert again.progress.drawn == whole.progress.drawn


def test_the_reference_is_a_frozen_copy_of_the_policy_that_started(tmp_path: Path) -> None:
    """BC-43: also of weights changed in memory; the divergence is 0 at the first step."""
    config = settings(variant="grpo", steps=3, variant__epochs=2)
    run = prepare(config, tmp_path / "run")
    assert run.reference is not None
    start = run.reference.embedding.clone()
    assert torch.equal(start, run.sampling_weights().embedding)
    watch = Watch(run)
    train(run, watch)
    assert torch.equal(run.reference.embedding, start)
    assert not torch.equal(run.sampling_weights().embedding, start)
    assert all((line["kl_ref/k3"] or 0) > 0 for line in watch.lines)


def test_one_update_from_the_start_has_a_divergence_of_0(tmp_path: Path) -> None:
    """BC-43."""
    _, lines = ran(settings(variant="grpo", steps=1), tmp_path / "run")
    assert lines[0]["kl_ref/k3"] == lines[0]["kl_ref/k1"] == 0.0


def test_weights_changed_in_memory_are_the_reference(tmp_path: Path) -> None:
    """BC-43: no reload by name; the copy is of what will train."""
    from rlvr.run import _assemble

    run = prepare(settings(variant="grpo"), tmp_path / "run")
    with torch.no_grad():
        for parameter in run.model.decoder.parameters():
            parameter.mul_(1.1)
    other = _assemble(run.config, run.folder, run.source, run.scoring, run.model, run.progress)
    assert other.reference is not None
    assert torch.equal(other.reference.embedding, other.sampling_weights().embedding)


def test_a_reset_makes_the_policy_the_reference_and_survives_a_resume(tmp_path: Path) -> None:
    """ProRL's reset, at steps 2 and 4; a run stopped at step 3 finds the reference of step 2."""
    config = settings(
        variant="prorl", steps=5, variant__reference_every_steps=2, variant__kl_coefficient=0.5
    )
    whole, lines = ran(config, tmp_path / "whole")
    kl = [line["kl_ref/k3"] or 0.0 for line in lines]
    assert kl[0] == kl[2] == kl[4] == 0.0
    assert kl[1] > 0
    ran(config, tmp_path / "parts", stop_after=3)
    again, _ = resumed(tmp_path / "parts")
    assert torch.equal(weights(again), weights(whole))


def test_problems_that_are_solved_are_drawn_no_more(tmp_path: Path) -> None:
    """ScaleRL's rule, on a file of 40 problems of which 20 are solved."""
    lines = [f'{{"problem": "{n}+1=", "answer": "{n + 1}"}}\n' for n in range(40)]
    (tmp_path / "sums.jsonl").write_text("".join(lines))
    config = settings(variant="scalerl", problems=str(tmp_path / "sums.jsonl"))
    run = prepare(config, tmp_path / "run")
    solved = [run.source.training(7, index).id for index in range(20)]
    run.carried.pass_rates = {name: (9, 10) for name in solved}
    found = gather(run, 1, no_timing)
    assert not {group.problem.id for group in found.sampled} & set(solved)
    assert {group.problem.id for group in found.sampled} <= set(run.carried.pass_rates)
    run.carried.pass_rates = {run.source.training(7, index).id: (1, 1) for index in range(40)}
    assert len(gather(run, 2, no_timing).sampled) == 4, "where all are solved, any will do"


def test_banned_tokens_are_never_sampled_in_training_and_evaluation(tmp_path: Path) -> None:
    config = settings(rollouts__ban="<think> ?", steps=2, rollouts__group_size=8)
    run, lines = ran(config, tmp_path / "run")
    assert all(line["text/think_open"] == 0.0 for line in lines)
    answers = read_lines(tmp_path / "run" / "answers" / "step-000000-sampled.jsonl")
    assert not any("<think>" in str(row["text"]) for row in answers)
    assert len(run.sampling.banned) == 2
    gaps = [line["mismatch/kl_k1"] for line in lines if "mismatch/kl_k1" in line]
    assert gaps
    assert all(abs(gap or 0) < 1e-3 for gap in gaps)
    with pytest.raises(UsageError, match="one token each"):
        prepare(settings(rollouts__ban="<think>12"), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_random_reward_looks_at_nothing_and_is_the_same_for_the_same_seed(
    tmp_path: Path,
) -> None:
    config = settings(reward__correctness=0.0, reward__random=1.0, steps=2)
    _, lines = ran(config, tmp_path / "one")
    _, again = ran(config, tmp_path / "two")
    parts = [line["reward/part/random"] for line in lines]
    assert parts == [line["reward/part/random"] for line in again]
    assert all(0.1 < (part or 0) < 0.9 for part in parts)
    assert [line["reward/mean"] for line in lines] == parts


def test_rounds_toss_other_coins(tmp_path: Path) -> None:
    config = settings(
        reward__correctness=0.0, reward__random=1.0, variant="dapo", rollouts__rounds=10,
        rollouts__group_size=2,
    )  # fmt: skip
    found = gather(prepare(config, tmp_path / "run"), 1, no_timing)
    tosses = [[r.score.value for r in g.rollouts if r.score] for g in found.sampled]
    assert found.rounds > 1
    assert tosses[:4] != tosses[4:8]


def test_many_updates_per_batch_move_ratios_and_clip(tmp_path: Path) -> None:
    config = settings(
        steps=2, variant__epochs=3, variant__mini_batches=2, optimiser__lr=1e-2,
        rollouts__group_size=8,
    )  # fmt: skip
    run, lines = ran(config, tmp_path / "run")
    last = next(line for line in lines if line["optim/steps"])
    assert last["optim/steps"] == 3 * min(2, (last["batch/effective"] or 0) // 8)
    assert last["ratio/first"] == 1.0
    assert last["ratio/last"] != 1.0
    assert (last["ratio/clip_low"] or 0) + (last["ratio/clip_high"] or 0) > 0
    assert run.progress.updates == sum(int(line["optim/steps"] or 0) for line in lines)
    del run


@pytest.mark.parametrize("name", list(VARIANTS))
def test_every_variant_trains_and_moves_the_weights(tmp_path: Path, name: str) -> None:
    """With a divergence where it can have one."""
    coefficient = {"variant__kl_coefficient": 0.01} if VARIANTS[name].kl != "none" else {}
    run, lines = ran(settings(variant=name, steps=2, **coefficient), tmp_path / "run")
    assert any(line["optim/steps"] for line in lines)
    assert all(line["grad/nonfinite"] == 0 for line in lines)
    assert any((line.get("update/relative") or 0) > 0 for line in lines)
    assert ("kl_ref/k3" in lines[0]) == bool(coefficient)
    del run


@pytest.mark.parametrize(
    "slot",
    [
        {"surrogate": "importance"}, {"surrogate": "gmpo"}, {"surrogate": "vespo"},
        {"surrogate": "dcpo"}, {"surrogate": "tv_ratio", "correction": "none"},
        {"advantage": "pass_at_k"},
        {"advantage": "opo"}, {"advantage": "beta"}, {"advantage": "leave_one_out"},
        {"tokens": "top_entropy"}, {"tokens": "clip_cov"}, {"tokens": "kl_cov"},
        {"entropy": "bonus", "entropy_coefficient": 0.01}, {"entropy": "adaptive"},
        {"entropy": "adaptive_clip"}, {"weighting": "delta_l"}, {"overlong": "mask"},
        {"level": "sequence_token", "weighting": "sequence"},
        {"kl": "k3_plus", "kl_coefficient": 0.01, "kl_target": 0.01},
    ],
    ids=str,
)  # fmt: skip
def test_every_slot_trains_with_two_updates(tmp_path: Path, slot: dict[str, object]) -> None:
    named = {f"variant__{name}": value for name, value in slot.items()}
    _, lines = ran(settings(steps=2, variant__epochs=2, **named), tmp_path / "run")
    assert any(line["optim/steps"] for line in lines)
    assert all(line["grad/nonfinite"] == 0 for line in lines)


def test_lengths_and_your_function_train_and_survive_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("def f(problem, text): return len(text) / 100\n")
    monkeypatch.chdir(tmp_path)
    config = settings(
        reward__function="mine.py:f", reward__function_weight=0.5, reward__length="kimi",
        reward__length_weight=0.2, reward__repetition=0.1, variant="gdpo", steps=4,
    )  # fmt: skip
    whole, lines = ran(config, tmp_path / "whole")
    ran(config, tmp_path / "parts", stop_after=2)
    again, after = resumed(tmp_path / "parts")
    assert torch.equal(weights(again), weights(whole))
    for part in ("function", "length", "repetition", "correctness"):
        key = f"reward/part/{part}"
        assert [line[key] for line in lines[2:]] == [line[key] for line in after]
    assert len({line["reward/part/length"] for line in lines}) > 1


def test_a_coefficient_adapts_to_the_divergence_that_was_measured(tmp_path: Path) -> None:
    config = settings(
        steps=3, variant__kl="k3", variant__kl_coefficient=0.1, variant__kl_target=1e-6,
        variant__epochs=2,
    )  # fmt: skip
    _, lines = ran(config, tmp_path / "run")
    found = [line["control/kl_coefficient"] for line in lines]
    assert found == pytest.approx([0.1 * 1.02**n for n in (1, 2, 3)])


def test_more_mini_batches_than_problems_are_refused() -> None:
    with pytest.raises(UsageError, match="groups stay whole"):
        settings(variant__mini_batches=5)
    config = settings()
    assert replace(config.variant, mini_batches=4).updates == 4


def test_rounds_that_nothing_asks_for_are_said() -> None:
    assert any("replaces none" in doubt for doubt in settings(
        variant="grpo", rollouts__rounds=3).doubts())  # fmt: skip
    assert settings(variant="dapo", rollouts__rounds=3).doubts() == []

"""BC-58: prompts longer than the context less the answer: left out with a count, never cut."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rlvr.config import Config, resolve
from rlvr.errors import UsageError
from rlvr.groups import draw_problems
from rlvr.model.tokens import load_tokens
from rlvr.model.weights import read_shape
from rlvr.problems.listed import Source, paired_source, split_source
from rlvr.records import Problem
from rlvr.run import fitting, prepare, take_up

SMALL: dict[str, object] = {
    "rollouts.problems_per_step": 4,
    "rollouts.group_size": 2,
    "rollouts.max_new_tokens": 40,
    "evaluation.final_problems": 2,
    "threads": 1,
    "dtype": "float32",
}
FITS = 64 - 40
"""Longest prompt that the tiny model reads with that answer, in tokens."""


def problem(tokens: int, name: str) -> Problem:
    return Problem(name, "1" * (tokens - 1) + "=", "1", "test")


def long_and_short(*lengths: int) -> list[Problem]:
    return [problem(length, f"p{n}-{length}") for n, length in enumerate(lengths)]


def fitted(folder: Path, source: Source, **more: object) -> Source:
    config = resolve(SMALL | more)
    return fitting(config, read_shape(folder), load_tokens(folder), source)


def test_training_problems_that_are_too_long_are_left_out_with_a_count(
    tiny_model_folder: Path,
) -> None:
    trained, held_out = long_and_short(5, FITS, FITS + 1, 60, 200), [problem(6, "h")]
    found = fitted(tiny_model_folder, paired_source("mine", trained, held_out))
    assert list(found.trained) == trained[:2]
    assert {found.training(0, n).id for n in range(20)} == {p.id for p in trained[:2]}
    assert found.held_out == held_out
    (note,) = found.notes
    assert note.startswith("3 of the 5 training problems are left out")
    assert f"p2-{FITS + 1}: {FITS + 1} tokens" in note


def test_a_source_whose_problems_all_fit_is_the_same_object(tiny_model_folder: Path) -> None:
    source = paired_source("mine", long_and_short(5, FITS), long_and_short(FITS))
    assert fitted(tiny_model_folder, source) is source


@pytest.mark.parametrize(
    "source",
    [
        paired_source("mine", long_and_short(5, 6), long_and_short(6, FITS + 1)),
        paired_source("mine", long_and_short(FITS + 1, 60), long_and_short(6)),
        split_source("mine", long_and_short(5, FITS + 1)),
    ],
    ids=["held out", "none left", "shared"],
)
def test_a_run_is_refused_where_a_held_out_problem_is_too_long_or_none_is_left(
    tiny_model_folder: Path, source: Source
) -> None:
    with pytest.raises(UsageError, match=f"prompt of p.*has {FITS + 1}. Use 39 or less"):
        fitted(tiny_model_folder, source)


def test_a_prompt_longer_than_the_model_reads_is_refused_without_a_number_to_use(
    tiny_model_folder: Path,
) -> None:
    source = paired_source("mine", long_and_short(5), long_and_short(64))
    with pytest.raises(UsageError, match="Leave it out"):
        fitted(tiny_model_folder, source)


def write(path: Path, problems: Sequence[Problem]) -> Path:
    rows = [{"id": p.id, "problem": p.prompt, "answer": p.answer} for p in problems]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def mine(tiny_model_folder: Path, tmp_path: Path) -> Config:
    """A run whose file has problems that are too long."""
    trained = write(tmp_path / "mine.jsonl", long_and_short(5, 6, 7, 30, 63, 64, 300))
    held_out = write(tmp_path / "other.jsonl", long_and_short(8, 9))
    name = f"{trained}?held_out={held_out}"
    return resolve(SMALL | {"model": str(tiny_model_folder), "problems": name})


def test_a_new_run_and_one_taken_up_draw_the_same_problems(mine: Config, tmp_path: Path) -> None:
    run = prepare(mine, tmp_path / "run")
    first = [p.id for p in draw_problems(run, 12)]
    run.folder.release()
    assert all(len(p.prompt) <= FITS for p in draw_problems(run, 12))
    assert any("4 of the 7 training problems" in note for note in run.source.notes)
    again = take_up(run.config, tmp_path / "run")
    assert [p.id for p in draw_problems(again, 12)] == first
    again.folder.release()


def test_a_stream_without_end_passes_over_what_is_too_long(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    run = prepare(resolve(SMALL | {"model": str(tiny_model_folder)}), tmp_path / "run")
    run.folder.release()

    def every_third_is_long(seed: int, index: int) -> Problem:
        return problem(5 if index % 3 else 60, str(index))

    run.source = replace(run.source, training=every_third_is_long)
    assert [p.id for p in draw_problems(run, 4)] == ["1", "2", "4", "5"]
    assert run.progress.drawn == 6
    note = fitting(
        run.config, run.model.decoder.shape, run.model.tokens, replace(run.source, notes=())
    ).notes
    assert note[0].startswith("86 of the first 256 training problems would be passed over")
    run.source = replace(run.source, training=lambda seed, index: problem(60, str(index)))
    with pytest.raises(UsageError, match="too long"):
        draw_problems(run, 1)

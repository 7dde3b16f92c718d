"""What the documents quote is what the code says."""

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from rlvr.cli import COMMANDS
from rlvr.commands.train import read_words
from rlvr.config import read_toml, resolve, settings
from rlvr.length import LENGTHS
from rlvr.model.settings import TARGETS
from rlvr.objective.explain import page
from rlvr.problems.prompts import TEMPLATES
from rlvr.rewards import GATES, Reward
from rlvr.scoring import own_function

ROOT = Path(__file__).parents[1]


def test_the_readme_quotes_the_loop_as_it_is() -> None:
    code = (ROOT / "src/rlvr/loop.py").read_text()
    loop = code[code.index("def train(run") : code.index("def begin(")].rstrip()
    assert loop in (ROOT / "README.md").read_text()


def test_the_readme_shows_every_command() -> None:
    text = (ROOT / "README.md").read_text()
    assert all(f"rlvr {command}" in text for command in COMMANDS)


def test_the_objectives_page_is_made_from_the_table() -> None:
    """Make it anew: python -c 'from rlvr.objective.explain import page; print(page(), end="")'."""
    assert (ROOT / "docs/objectives.md").read_text() == page()


REWARDS_PAGE = (ROOT / "docs/rewards.md").read_text()


def test_the_rewards_page_has_every_part_every_length_and_every_setting() -> None:
    parts = [line.split("|")[1] for line in REWARDS_PAGE.splitlines() if line.startswith("| `")]
    for name in (*Reward().weights, *LENGTHS, *GATES):
        assert any(f"`{name}`" in part for part in parts), name
    for path in settings():
        if path.startswith("reward."):
            assert path in REWARDS_PAGE or f"--{path.replace('_', '-')}" in REWARDS_PAGE, path


@pytest.mark.parametrize("line", re.findall(r"^rlvr train .*$", REWARDS_PAGE, re.M))
def test_every_command_of_the_rewards_page_is_accepted_without_a_doubt(line: str) -> None:
    words = shlex.split(line)[2:]
    assert resolve(read_words("train", words)[-1]).doubts() == []


def test_the_function_of_the_rewards_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(REWARDS_PAGE.split("```python\n")[1].split("```")[0])
    monkeypatch.chdir(tmp_path)
    pool = own_function(Reward(function="mine.py:score"))
    assert pool is not None
    with pool:
        found = [done.value for done in pool.run([[{}, ""], [{}, "one"], [{}, "one\ntwo"]])]
    assert found == [
        {"value": None, "reason": ""},
        {"value": 1.0, "reason": "lines: 1"},
        {"value": 0.0, "reason": "lines: 2"},
    ]


TEMPLATES_PAGE = (ROOT / "docs/templates.md").read_text()


def test_the_templates_page_is_the_table() -> None:
    rows = [line.split("|")[1:3] for line in TEMPLATES_PAGE.splitlines() if line.startswith("| `")]
    named = [(name.split("`")[1], about.strip().replace("\\", "")) for name, about in rows]
    assert named == [(name, row.about) for name, row in TEMPLATES.items()]


@pytest.mark.parametrize("line", re.findall(r"^rlvr train .*$", TEMPLATES_PAGE, re.M))
def test_every_command_of_the_templates_page_is_accepted_without_a_doubt(line: str) -> None:
    assert resolve(read_words("train", shlex.split(line)[2:])[-1]).doubts() == []


LORA_PAGE = (ROOT / "docs/lora.md").read_text()


@pytest.mark.parametrize("line", re.findall(r"^rlvr train .*$", LORA_PAGE, re.M))
def test_every_command_of_the_adapters_page_is_accepted_without_a_doubt(line: str) -> None:
    assert resolve(read_words("train", shlex.split(line)[2:])[-1]).doubts() == []


def test_the_adapters_page_has_every_setting_and_every_target() -> None:
    named = [path for path in settings() if path.startswith("lora.")]
    assert len(named) == 3
    assert all(f"`{name}`" in LORA_PAGE for name in (*named, *TARGETS))


RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_accepted_and_says_what_to_expect(path: Path) -> None:
    config = resolve(read_toml(path))
    wrong_on_purpose = path.stem == "kl-script"
    assert bool(config.doubts()) == wrong_on_purpose
    title, expect, *_ = path.read_text().splitlines()
    assert title.startswith(f"# {path.stem}: ")
    seeds = "seeds 0 to 2" if path.parent.name == "lessons" else "seed 0"
    assert expect.startswith(f"# Expect at the last step, {seeds}: sampled ")


def lessons() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "lessons_text", ROOT / "benchmarks/lessons_text.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_lesson_has_its_recipes_its_plot_and_what_it_showed() -> None:
    page_text = (ROOT / "docs/lessons.md").read_text()
    used = set()
    for lesson in lessons().LESSONS:
        assert f"## {lesson.title}" in page_text
        assert lesson.shown in page_text
        for _, recipe in lesson.arms:
            used.add(recipe)
            assert f"../recipes/lessons/{recipe}.toml" in page_text
        if lesson.arms:
            assert (ROOT / "docs/lessons" / f"{lesson.slug}.png").is_file()
    assert used == {path.stem for path in RECIPES if path.parent.name == "lessons"}

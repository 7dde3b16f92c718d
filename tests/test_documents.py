"""What the documents quote is what the code says."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rlvr.cli import COMMANDS
from rlvr.config import read_toml, resolve
from rlvr.objective.explain import page

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


RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_accepted_and_says_what_to_expect(path: Path) -> None:
    config = resolve(read_toml(path))
    wrong_on_purpose = path.stem == "kl-script"
    assert bool(config.doubts()) == wrong_on_purpose
    title, expect, *_ = path.read_text().splitlines()
    assert title.startswith(f"# {path.stem}: ")
    assert expect.startswith("# Expect at the last step, seeds 0 to 2: sampled ")


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
    assert used == {path.stem for path in RECIPES}

"""What the documents quote is what the code says."""

from pathlib import Path

from rlvr.cli import COMMANDS
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

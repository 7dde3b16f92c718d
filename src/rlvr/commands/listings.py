"""`rlvr models`, `rlvr problems`, `rlvr variants`: what there is."""

import sys
import textwrap
from collections.abc import Sequence

from rlvr.commands.options import Options, write_json


def models_command(about: str, words: Sequence[str]) -> int:
    """List the built-in models, and the runs under `runs/`."""
    from pathlib import Path

    from rlvr.model.weights import parameters_of, read_shape
    from rlvr.run import BUILT_IN
    from rlvr.training.checkpoint import checkpoints

    parser = Options("models", about, "[--json]")
    parser.add_argument("--json", action="store_true", help="one object a line")
    as_json = parser.parse(words).json
    for name, folder in BUILT_IN.items():
        shape = read_shape(folder)
        million = parameters_of(shape) / 1e6
        size = (folder / "model.safetensors").stat().st_size / 1e6
        text = f"built in; Qwen3, {million:.2f} million parameters, {size:.1f} MB; arithmetic"
        _show(as_json, name, text, parameters=parameters_of(shape), folder=str(folder))
    for run in sorted(Path("runs").glob("*/run.toml")):
        saved = checkpoints(run.parent)
        state = f"run, newest checkpoint {saved[-1].name}" if saved else "run, no checkpoint yet"
        _show(as_json, str(run.parent), state)
    if not as_json:
        sys.stdout.write("\nAny Qwen3 model directory works as well: --model DIR\n")
    return 0


def problems_command(about: str, words: Sequence[str]) -> int:
    """List the built-in problems, with examples."""
    from rlvr.problems.arithmetic import RANGES
    from rlvr.problems.sources import load_problems

    parser = Options("problems", about, "[--json]")
    parser.add_argument("--json", action="store_true", help="one object a line")
    as_json = parser.parse(words).json
    for name in RANGES:
        source = load_problems(name)
        examples = {p.subject: p for p in source.held_out}
        _show(as_json, name, source.about, held_out=len(source.held_out))
        for subject, problem in () if as_json else examples.items():
            sys.stdout.write(f"  {'':<18}{subject}: {problem.prompt} {problem.answer}\n")
    if not as_json:
        sys.stdout.write(
            "\nYour own: --problems FILE.jsonl, with lines such as "
            '{"problem": "1+1=", "answer": "2"}\n'
        )
    return 0


def variants_command(about: str, words: Sequence[str]) -> int:
    """List the variants, or explain one: its formula, every slot, where it is not its paper's."""
    from rlvr.objective.explain import brief, slots
    from rlvr.objective.variants import VARIANTS, variant

    parser = Options("variants", about, "[NAME] [--json]")
    parser.add_argument("name", nargs="?", help="explain this one")
    parser.add_argument("--json", action="store_true", help="one object a line")
    given = parser.parse(words)
    if given.json:
        rows = {given.name: variant(given.name)} if given.name else VARIANTS
        for name, row in rows.items():
            named = {slot: value for slot, value, _ in slots(row)}
            write_json({"name": name, **named, "source": row.source, "differs": row.differs})
    elif given.name:
        explained(given.name)
    else:
        columns = "  {:<15}{:<11}{:<31}{:<10}{:<12}{}\n"
        head = ("", "advantage", "surrogate", "weighting", "KL", "source")
        sys.stdout.write(columns.format(*head))
        for name, row in VARIANTS.items():
            sys.stdout.write(columns.format(name, *brief(row), row.source))
        sys.stdout.write("\nOne in full, with its formula: rlvr variants dapo\n")
    return 0


def explained(name: str) -> None:
    """Print one variant in full."""
    from rlvr.config import to_toml
    from rlvr.objective.explain import formulas, slots
    from rlvr.objective.variants import variant

    row = variant(name)
    lines = [f"{name}: {row.source}", ""]
    lines += [f"  {label:<12}{text}" for label, text in formulas(row)]
    if row.differs:
        lines += ["", "  Where it is not the paper's, or the paper leaves it open"]
        for point in row.differs:
            first, *rest = textwrap.wrap(point, 88)
            lines += [f"  - {first}", *(f"    {line}" for line in rest)]
    lines += ["", "  Slots (* not that of the plain row), each an option --variant.NAME"]
    for slot, value, differs in slots(row):
        option = slot.replace("_", "-")
        shown = to_toml(value).strip('"')
        lines.append(f"  {'*' if differs else ' '} {option:<24}{shown}")
    sys.stdout.write("\n".join(lines) + "\n")


def _show(as_json: bool, name: str, about: str, **more: object) -> None:
    if as_json:
        write_json({"name": name, "about": about, **more})
    else:
        sys.stdout.write(f"  {name:<18}{about}\n")

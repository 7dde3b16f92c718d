"""`rlvr models`, `rlvr problems`, `rlvr variants`: what there is."""

import sys
from collections.abc import Sequence
from dataclasses import fields

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
    """List the variants, or explain one: every slot, and its source."""
    from rlvr.objective.slots import Variant
    from rlvr.objective.variants import VARIANTS, variant

    parser = Options("variants", about, "[NAME] [--json]")
    parser.add_argument("name", nargs="?", help="explain this one")
    parser.add_argument("--json", action="store_true", help="one object a line")
    given = parser.parse(words)
    rows = {given.name: variant(given.name)} if given.name else VARIANTS
    for name, row in rows.items():
        slots = {item.name: getattr(row, item.name) for item in fields(Variant)}
        if given.json:
            write_json({"name": name, **slots})
        elif given.name:
            sys.stdout.write(f"{name}\n")
            for slot, value in slots.items():
                shown = "; ".join(value) if isinstance(value, tuple) else value
                sys.stdout.write(f"  {slot:<18}{shown}\n")
        else:
            text = f"{row.advantage}, {row.surrogate} {row.clip_low}/{row.clip_high}, "
            text += f"{row.weighting} mean, KL {row.kl}, {row.groups} groups; {row.source}"
            _show(False, name, text)
    return 0


def _show(as_json: bool, name: str, about: str, **more: object) -> None:
    if as_json:
        write_json({"name": name, "about": about, **more})
    else:
        sys.stdout.write(f"  {name:<18}{about}\n")

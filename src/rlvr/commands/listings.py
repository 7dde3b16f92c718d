"""`rlvr models`, `problems`, `templates` and `variants`: what there is."""

import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rlvr.commands.options import Options, write_json
from rlvr.observe.result import printable

MEMBERS = {
    "Qwen3ForCausalLM": "Qwen3, dense",
    "Qwen2ForCausalLM": "Qwen2, Qwen2.5, QwQ, DeepSeek-R1-Distill-Qwen",
    "LlamaForCausalLM": "Llama 2 and 3, SmolLM2, TinyLlama, DeepSeek-R1-Distill-Llama",
}
"""Models of each family that is read, such as."""


def models_command(about: str, words: Sequence[str]) -> int:
    """List the built-in models, the runs under `runs/`, and which others can be read."""
    from pathlib import Path

    from rlvr.folders import BUILT_IN, SETTINGS, checkpoints
    from rlvr.model.weights import FAMILIES, parameters_of, read_shape

    parser = Options("models", about, "[--json]")
    parser.add_argument("--json", action="store_true", help="one object a line")
    as_json = parser.parse(words).json
    for name, folder in BUILT_IN.items():
        shape = read_shape(folder)
        million = parameters_of(shape) / 1e6
        size = (folder / "model.safetensors").stat().st_size / 1e6
        text = f"built in; Qwen3, {million:.2f} million parameters, {size:.1f} MB; arithmetic"
        _show(as_json, name, text, parameters=parameters_of(shape), folder=str(folder))
    for run in sorted(Path("runs").glob(f"*/{SETTINGS}")):
        saved = checkpoints(run.parent)
        state = f"run, newest checkpoint {saved[-1].name}" if saved else "run, no checkpoint yet"
        _show(as_json, str(run.parent), state)
    if as_json:
        for family in FAMILIES:
            write_json({"family": family, "about": MEMBERS[family]})
        return 0
    sys.stdout.write(
        "\nFamilies that are read (architectures in config.json), weights as safetensors:\n"
    )
    for family in FAMILIES:
        sys.stdout.write(f"  {family:<20}{MEMBERS[family]}\n")
    sys.stdout.write(
        "\nGive one as a directory, or by its name on the hub, fetched once into its cache:\n"
        "  --model DIR\n"
        "  --model Qwen/Qwen3-0.6B-Base      (or NAME@REVISION; HF_HUB_OFFLINE=1: cache alone)\n"
    )
    return 0


def problems_command(about: str, words: Sequence[str]) -> int:
    """List the problems there are, show one source, or compare two sets of problems."""
    from rlvr.problems.sources import DATASETS

    parser = Options("problems", about, "[NAME | --contamination TRAIN EVAL] [--json]")
    parser.add_argument("name", nargs="?", help="show this one: counts, and a few problems")
    parser.add_argument(
        "--contamination",
        nargs=2,
        metavar=("TRAIN", "EVAL"),
        help="which problems of EVAL also stand in TRAIN; exit status 1 if there are any",
    )
    parser.add_argument("--json", action="store_true", help="one object a line")
    given = parser.parse(words)
    if given.contamination and given.name:
        parser.error("--contamination takes two names; leave the third out")
    if given.contamination:
        return compared(*given.contamination, as_json=given.json)
    if given.name:
        shown(given.name, as_json=given.json)
        return 0
    for name, row in DATASETS.items():
        _show(given.json, name, row.about, **({"forms": row.forms} if given.json else {}))
        for form in () if given.json else row.forms:
            sys.stdout.write(f"  {'':<18}--problems '{form}'\n")
    if not given.json:
        sys.stdout.write(
            "\nYour own: --problems FILE (.jsonl, .json, .csv or .parquet), with rows such as "
            '{"problem": "1+1=", "answer": "2"}\nA few of one: rlvr problems arithmetic\n'
        )
    return 0


def shown(name: str, *, as_json: bool) -> None:
    """Print how many problems a source has, by kind and level, and a few of them."""
    from rlvr.problems.sources import load_problems

    source = load_problems(name)
    everything = source.listed or source.held_out
    kinds = Counter(problem.subject for problem in everything if problem.subject)
    levels = Counter(problem.level for problem in everything if problem.level is not None)
    training = [] if source.eval_only else source.take(0, 0, 3)
    examples = [("training", p) for p in training] + [("held out", p) for p in source.held_out[:3]]
    if as_json:
        write_json(
            {
                "name": name,
                "about": source.about,
                "training": len(source.trained) or None,
                "held_out": len(source.held_out),
                "notes": source.notes,
                "subjects": dict(sorted(kinds.items())),
                "levels": {str(level): count for level, count in sorted(levels.items())},
                "examples": [
                    {"side": side, "id": p.id, "problem": p.prompt, "answer": p.answer}
                    for side, p in examples
                ],
            }
        )
        return
    sys.stdout.write(f"{name}: {source.about}; {len(source.held_out):,} held out\n")
    sys.stdout.write("".join(f"  note: {note}\n" for note in source.notes))
    whole = "all" if source.listed else "held out"
    for what, counted in (("subject", kinds), ("level", levels)):
        told = ", ".join(f"{key} {count:,}" for key, count in sorted(counted.items()))
        sys.stdout.write(f"  {what} ({whole}): {told}\n" if told else "")
    for side, problem in examples:
        sys.stdout.write(f"\n  {side}, {problem.id}\n{indented(problem.prompt)}\n")
        sys.stdout.write(f"    answer: {' or '.join((problem.answer, *problem.alternatives))}\n")


def indented(text: str, longest: int = 1000) -> str:
    """The beginning of a text, set in."""
    return textwrap.indent(text if len(text) <= longest else f"{text[:longest]} ...", "    ")


def compared(train: str, evaluation: str, *, as_json: bool) -> int:
    """Print what two sets of problems have in common; 1 if they have anything."""
    from rlvr.problems.contamination import overlap
    from rlvr.problems.sources import whole_list

    found = overlap(whole_list(train, "training"), whole_list(evaluation, "evaluation"))
    if as_json:
        write_json(asdict(found))
    else:
        sizes = f"{found.training:,} problems to train on, {found.evaluation:,} to evaluate on"
        lines = found.lines(10) or [f"no text and no {found.words} words in a row in common"]
        sys.stdout.write("\n".join([sizes, *lines]) + "\n")
    return 0 if found.clean else 1


def templates_command(about: str, words: Sequence[str]) -> int:
    """List the templates, or show what one makes of a problem."""
    from rlvr.problems.prompts import TEMPLATES, halves, render, resolved
    from rlvr.problems.sources import load_problems

    usage = "[NAME | TEXT | FILE] [--problems NAME] [--model DIR] [--json]"
    parser = Options("templates", about, usage)
    parser.add_argument("template", nargs="?", help="show the prompt that this one makes")
    parser.add_argument("--problems", default="arithmetic", help="where the problem is from")
    parser.add_argument("--model", help="whose chat template is meant by chat, chat_boxed, ...")
    parser.add_argument("--json", action="store_true", help="one object a line")
    given = parser.parse(words)
    if given.template is None:
        for name, row in TEMPLATES.items():
            _show(given.json, name, row.about, **({"text": row.text} if given.json else {}))
        if not given.json:
            sys.stdout.write(
                "\nYour own: --template 'TEXT with {problem} in it', or a file of such a text\n"
                "What the model is shown: rlvr templates think\n"
            )
        return 0
    template = resolved(given.template)
    if given.model is not None:
        from rlvr.folders import model_folder
        from rlvr.model.chat import for_model

        template = for_model(template, model_folder(given.model))
    halves(template)
    source = load_problems(given.problems)
    prompt = render(template, source.held_out[0])
    if given.json:
        write_json({"template": given.template, "prompt": prompt.text, "opened": prompt.opened})
    else:
        sys.stdout.write(f"{printable(prompt.text)}\n")
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

"""`rlvr train`: a new run, or one taken up again, shown while it goes on."""

import sys
from argparse import SUPPRESS
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args, get_origin

from rlvr.commands.options import Options, spelled
from rlvr.config import Config, Setting, read_toml, resolve, settings, to_toml
from rlvr.errors import UsageError
from rlvr.folders import SETTINGS, model_folder
from rlvr.model.chat import for_model
from rlvr.model.tokens import load_tokens, with_tokens
from rlvr.problems.names import short_name
from rlvr.problems.sources import load_problems
from rlvr.records import CLOSE, OPEN
from rlvr.training.settings import check_threads
from rlvr.verify.own import check_there

SECTIONS = {
    "": "run",
    "variant": "variant (the objective's slots; defaults are those of the row)",
    "rollouts": "rollouts",
    "reward": "reward",
    "optimiser": "optimiser",
    "lora": "lora (adapters that learn in place of the model's weights)",
    "evaluation": "evaluation",
    "checkpoints": "checkpoints",
}


def train_command(about: str, words: Sequence[str]) -> int:
    """Read what was asked, train, show the result; exit status 130 where Ctrl-C stopped it.

    What is wrong with settings or problems is said before anything heavy is imported.
    """
    file, out, resume, as_json, given = read_words(about, words)
    values = (read_toml(Path(file)) if file else {}) | given
    if resume is not None:
        if out is not None:
            raise UsageError(f"--resume goes on in {resume}; leave --out away.")
        config = settings_of(Path(resume), values)
        check_there(config.reward.function)
        from rlvr.commands.running import go_on

        return go_on(config, Path(resume), as_json)
    config = resolve(values)
    for doubt in config.doubts():
        sys.stderr.write(f"rlvr: {doubt}\n")
    check_threads(config.threads)
    check_there(config.reward.function)
    folder = model_folder(config.model)
    check_banned(config, folder)
    config = replace(config, template=for_model(config.template, folder))
    source = load_problems(config.problems)
    from rlvr.commands.running import start

    return start(config, source, Path(out) if out else free_folder(config), as_json)


def read_words(
    about: str, words: Sequence[str]
) -> tuple[str | None, str | None, str | None, bool, dict[str, object]]:
    """The options: settings file, run folder, run to resume, --json, and the settings given."""
    parser = Options("train", about, "[SETTINGS.toml] [--out DIR | --resume RUN] [--SETTING VALUE]")
    parser.add_argument("file", nargs="?", metavar="SETTINGS.toml", help="settings, as in run.toml")
    parser.add_argument("--out", metavar="DIR", help="the run folder (default: a name in runs/)")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was stopped")
    parser.add_argument("--json", action="store_true", help="the result as one JSON object")
    for section, title in SECTIONS.items():
        group = parser.add_argument_group(title)
        for setting in settings().values():
            if setting.path.rpartition(".")[0] == section:
                group.add_argument(*option(setting)[0], **option(setting)[1])  # type: ignore[arg-type]
    given = vars(parser.parse(words))
    file, out, resume, as_json = (given.pop(name) for name in ("file", "out", "resume", "json"))
    if "rollouts.stop" in given:
        given["rollouts.stop"] = spelled(given["rollouts.stop"])
    return file, out, resume, as_json, given


def option(setting: Setting) -> tuple[tuple[str], dict[str, object]]:
    """A setting as an option of the same name, with dashes."""
    name = setting.path.replace("_", "-")
    known = f"one of {', '.join(map(str, get_args(setting.kind)))}; "
    known = known if get_origin(setting.kind) is Literal else ""
    about = f"{setting.help} ({known}default: {to_toml(setting.default)})".replace("%", "%%")
    metavar = name.rpartition(".")[2].upper()
    return (f"--{name}",), {
        "dest": setting.path,
        "metavar": metavar,
        "help": about,
        "default": SUPPRESS,
    }


def check_banned(config: Config, folder: Path) -> None:
    """Refuse banned texts that are not one token of the model.

    Raises:
        UsageError: One is not, or the tokenizer can't be read.
    """
    if config.rollouts.ban:
        tokens = load_tokens(folder)
        if config.think_tokens:
            tokens = with_tokens(tokens, (OPEN, CLOSE))
        config.rollouts.sampling(tokens)


def free_folder(config: Config) -> Path:
    """A readable name under `runs/` that is not taken."""
    parts = (
        Path(config.model).name,
        short_name(config.problems),
        config.name,
        f"seed{config.seed}",
    )
    name = "-".join(part for part in parts if part)
    for number in range(1, 10_000):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            return path
    raise UsageError("runs/ is full of runs of that name. Give --out.")


def settings_of(path: Path, values: Mapping[str, object]) -> Config:
    """The settings of a run that is to be taken up again.

    Raises:
        UsageError: There is no run, or other settings were given, whose difference is listed.
    """
    if not (path / SETTINGS).is_file():
        raise UsageError(
            f"no run to resume in {path}: it has no {SETTINGS}. Give the folder of a run, "
            "such as one of those that rlvr models lists."
        )
    saved = read_toml(path / SETTINGS)
    config = resolve(saved)
    changed = resolve({**saved, **values})
    if changed != config:
        before, after = flat(config), flat(changed)
        differ = [f"{k} {before[k]} -> {after[k]}" for k in after if before[k] != after[k]]
        raise UsageError(
            f"{path} was started with other settings ({'; '.join(differ)}). A resumed run goes on "
            "as it began: leave them out, or start a new run."
        )
    return config


def flat(config: Config) -> dict[str, object]:
    """Settings by dotted name."""
    found: dict[str, object] = {"variant": config.name}
    for path in settings():
        owner, _, last = path.rpartition(".")
        if path != "variant":
            found[path] = getattr(getattr(config, owner) if owner else config, last)
    return found

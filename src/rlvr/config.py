"""Every setting of a run: frozen, strict, the same names in TOML files and as options."""

import ast
import inspect
import math
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rlvr.errors import UsageError, unknown_name
from rlvr.model.settings import Lora
from rlvr.objective.slots import Variant, doubts
from rlvr.objective.variants import VARIANTS, variant
from rlvr.observe.settings import Evaluation
from rlvr.problems.prompts import check_template, doubt_of, resolved
from rlvr.rewards import Reward
from rlvr.rollout.settings import Rollouts
from rlvr.training.settings import Checkpoints, Optimiser

NOT_SET_BY_USERS = ("source", "differs")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A whole run."""

    model: str = "abacus"
    """Built-in model, model directory or run folder to start from."""
    problems: str = "arithmetic"
    """Problems by name (`rlvr problems`), or a file with `problem` and `answer`."""
    template: str = "plain"
    """How a problem is put to the model: a name (`rlvr templates`), a text, or a file of one."""
    think_tokens: bool = False
    """Make `<think>` and `</think>` tokens of their own, where the tokenizer has none."""
    steps: int = 200
    """Optimizer steps."""
    seed: int = 0
    """Names every draw of the run."""
    threads: int = 0
    """Processor threads; 0 measures at the start and keeps the best."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the products; master weights, head and softmax are float32 always."""
    name: str = "olmo3"
    """Name of the variant that the slots below start from."""
    variant: Variant = field(default_factory=lambda: variant("olmo3"))
    """The objective's slots."""
    rollouts: Rollouts = field(default_factory=Rollouts)
    reward: Reward = field(default_factory=Reward)
    optimiser: Optimiser = field(default_factory=Optimiser)
    lora: Lora = field(default_factory=Lora)
    evaluation: Evaluation = field(default_factory=Evaluation)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    def __post_init__(self) -> None:
        check_template(self.template)
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}. Use 1 or more, such as 200.")
        if self.threads < 0:
            raise UsageError(f"threads is {self.threads}. Use 0 (measured) or more, such as 1.")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed is {self.seed}. Use a whole number from 0 to 2^63-1.")
        if self.variant.mini_batches > self.rollouts.problems_per_step:
            raise UsageError(
                f"variant.mini_batches is {self.variant.mini_batches}, but a step has "
                f"{self.rollouts.problems_per_step} problems and groups stay whole. Use at most "
                "that many, or raise rollouts.problems_per_step."
            )
        filtered = self.rollouts.top_p < 1 or self.rollouts.top_k > 0 or self.rollouts.min_p > 0
        if filtered and not self.variant.keep_sampling_mask:
            raise UsageError(
                "rollouts.top_p, top_k or min_p drop tokens that the learner would still give a "
                "probability: its log-probabilities would be those of another distribution. Set "
                "--variant.keep-sampling-mask true, or sample from all tokens."
            )
        if self.variant.advantage == "pass_at_k" and self.variant.pass_k > self.rollouts.group_size:
            raise UsageError(
                f"variant.pass_k is {self.variant.pass_k}, but a group has "
                f"{self.rollouts.group_size} answers. Use at most that many."
            )

    def doubts(self) -> list[str]:
        """What works and is most likely not meant, in words."""
        found = [*doubts(self.variant, variant(self.name)), *self.reward.doubts()]
        found += self.lora.doubts()
        found += [doubt for doubt in [doubt_of(self.template)] if doubt]
        if self.template == "answers" and not self.reward.lenient:
            found.append(
                "the template answers shows bare numbers, and a bare number is read as an answer "
                "only with --reward.lenient true"
            )
        if self.rollouts.rounds > 1 and self.variant.groups != "active":
            found.append(
                f"rollouts.rounds is {self.rollouts.rounds}, but variant.groups "
                f"{self.variant.groups} replaces none: one round is sampled"
            )
        if self.reward.length != "none" and self.variant.overlong == "soft":
            found.append(
                f"variant.overlong soft and reward.length {self.reward.length} both pay for "
                "shorter answers, and their sum is in no paper"
            )
        limit = self.rollouts.max_new_tokens
        if self.reward.length != "none" and self.reward.length_target > limit:
            found.append(
                f"reward.length_target is {self.reward.length_target}, and no answer is longer "
                f"than rollouts.max_new_tokens {limit}"
            )
        gdpo = self.variant.advantage == "gdpo"
        if gdpo and self.reward.format > 0 and self.reward.format_gate != "additive":
            found.append(
                f"reward.format_gate {self.reward.format_gate} has no effect on gdpo, which "
                "compares each part of the reward by itself"
            )
        return found


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as files and options name it."""

    path: str
    """Dotted, such as `rollouts.group_size`."""
    kind: Any
    default: object
    help: str


@cache
def settings() -> dict[str, Setting]:
    """All settings by dotted name; `variant` is the name of the row."""
    return {setting.path: setting for setting in _settings(Config, "")}


def _settings(owner: type, prefix: str) -> Iterator[Setting]:
    hints, helps = get_type_hints(owner), field_docstrings(owner)
    defaults = VARIANTS["olmo3"] if owner is Variant else None
    for item in fields(owner):
        if item.name in NOT_SET_BY_USERS or (owner is Config and item.name == "name"):
            continue
        kind = hints[item.name]
        if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
            if kind is Variant:
                about = "Objective: a row of `rlvr variants`; its slots can be changed one by one."
                yield Setting("variant", str, "olmo3", about)
            yield from _settings(kind, f"{item.name}.")
            continue
        default = getattr(defaults, item.name) if defaults else item.default
        assert default is not MISSING, f"{owner.__name__}.{item.name} needs a default"
        yield Setting(prefix + item.name, kind, default, helps.get(item.name, ""))


def field_docstrings(owner: type) -> dict[str, str]:
    """The line under each field of a dataclass, by the field's name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for first, second in zip(body.body, body.body[1:], strict=False):
        is_doc = isinstance(second, ast.Expr) and isinstance(second.value, ast.Constant)
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name) and is_doc:
            found[first.target.id] = inspect.cleandoc(str(second.value.value))  # type: ignore[attr-defined]
    return found


def resolve(values: Mapping[str, object]) -> Config:
    """A config from dotted names and values; text is read as the setting's type.

    Raises:
        UsageError: An unknown name, a value of the wrong type, or settings that can't work.
    """
    known, checked = settings(), {}
    for path, value in values.items():
        if path not in known:
            raise _unknown(path)
        checked[path] = check(known[path], value)
    if "template" in checked:
        checked["template"] = resolved(str(checked["template"]))
    name = str(checked.pop("variant", "olmo3"))
    groups: dict[str, dict[str, object]] = {}
    for path, value in checked.items():
        group, _, last = path.rpartition(".")
        groups.setdefault(group, {})[last] = value
    hints = get_type_hints(Config)
    parts = {
        group: hints[group](**given)
        for group, given in groups.items()
        if group not in ("", "variant")
    }
    try:
        row = replace(variant(name), **groups.get("variant", {}))  # type: ignore[arg-type]
        return Config(name=name, variant=row, **groups.get("", {}), **parts)  # type: ignore[arg-type]
    except UsageError:
        raise


def _unknown(path: str) -> UsageError:
    leaf = path.rpartition(".")[2]
    same_leaf = [known for known in settings() if known.rpartition(".")[2] == leaf]
    if same_leaf:
        return UsageError(f"unknown setting '{path}'. Did you mean '{same_leaf[0]}'?")
    return unknown_name("setting", path, settings())


def check(setting: Setting, value: object) -> object:
    """The value in the setting's type; text is parsed, everything else must fit as it is."""
    kinds = get_args(setting.kind) if isinstance(setting.kind, UnionType) else (setting.kind,)
    for kind in kinds:
        try:
            return _read(kind, value)
        except (ValueError, TypeError):
            continue
    choices = get_args(setting.kind) if get_origin(setting.kind) is Literal else ()
    if choices and isinstance(value, str):
        raise unknown_name(setting.path, value, choices)
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    takes = f"one of {', '.join(choices)}" if choices else names.get(kinds[0], "another value")
    raise UsageError(
        f"{setting.path} is {value!r}; it takes {takes}, such as {to_toml(setting.default)}."
    )


def _read(kind: Any, value: object) -> object:
    if get_origin(kind) is Literal:
        if value in get_args(kind):
            return value
        raise ValueError(value)
    if kind is type(None):
        if value is None or value == "none":
            return None
        raise ValueError(value)
    if kind is bool:
        named = {"true": True, "false": False}
        return (
            value if isinstance(value, bool) else named[str(value)] if value in named else int("x")
        )
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(value)
    if kind is int and isinstance(value, float):
        raise TypeError(value)
    if kind is str and not isinstance(value, str):
        raise TypeError(value)
    read = kind(value)
    if isinstance(read, float) and not math.isfinite(read):
        raise ValueError(value)
    return read


def read_toml(path: Path) -> dict[str, object]:
    """A TOML file as dotted names and values.

    Raises:
        UsageError: The file is missing or is not TOML.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"no settings file {path}. Give a TOML file, or leave it out for the defaults."
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not TOML: {error}. An example line: steps = 200") from None
    return dict(_flatten(content, ""))


def _flatten(content: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            path = f"{prefix}{key}"
            yield ("variant" if path == "variant.name" else path), value


def write_toml(config: Config) -> str:
    """The whole config as TOML that `read_toml` and `resolve` give back."""
    values, tables = asdict(config), []
    name = values.pop("name")
    for key, value in values.items():
        if isinstance(value, dict):
            value = {k: v for k, v in value.items() if k not in NOT_SET_BY_USERS}
            value = {"name": name, **value} if key == "variant" else value
            tables.append(f"\n[{key}]\n" + "".join(_line(k, v) for k, v in value.items()))
    top = "".join(_line(k, v) for k, v in values.items() if not isinstance(v, dict))
    return top + "".join(tables)


def _line(key: str, value: object) -> str:
    return f"{key} = {to_toml(value)}\n"


def to_toml(value: object) -> str:
    """A value as TOML writes it; None is the text "none"."""
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        plain = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in plain) + '"'
    return repr(value)

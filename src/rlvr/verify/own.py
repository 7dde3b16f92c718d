"""Your own function as a reward: loaded and held to its contract within a worker.

The function takes a problem (as a dict) and the text of an answer. It returns a number, None where
it can't judge, or a dict with `value` and `reason`. Anything else is refused in words.
"""

import importlib
import importlib.util
import inspect
import math
import numbers
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from rlvr.errors import UsageError

Function = Callable[[dict[str, object], str], object]

LARGEST = 1e6  # of a value, up or down, and of a weight: the squares of rewards must fit float32
REASON_CHARACTERS_MOST = 1000  # a reason is stored with every answer


def judge_of(name: str) -> Callable[[object], object]:
    """The function of that name, which a worker can call with `[problem, text]`.

    What it returns is JSON: `{"value": number or None, "reason": text}`, or `{"refused": text}`
    where the function broke its contract. An exception of the function passes through.

    Raises:
        ImportError: There is no such function, or it can't be called with a problem and a text.
    """
    function = load(name)
    problem = unfit(function)
    if problem:
        raise ImportError(f"{problem}; it must be def {name.rpartition(':')[2]}(problem, text)")

    def judge(item: object) -> object:
        assert isinstance(item, list), "items are [problem, text]"
        try:
            value, reason = contents(function(*item))
        except BreachError as breach:
            return {"refused": str(breach)}
        return {"value": value, "reason": reason}

    return judge


class BreachError(Exception):
    """What a function returned that it may not."""


def load(name: str) -> Function:
    """The function that `module:function` or `path/to/file.py:function` names.

    Raises:
        ImportError: There is no such file, module or function.
    """
    place, _, function = name.rpartition(":")
    module = load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    found = getattr(module, function, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        listed = ", ".join(known) or "none"
        raise ImportError(f"{place} has no function '{function}'. It has: {listed}")
    return found  # type: ignore[no-any-return]


def check_there(name: str) -> None:
    """Refuse a function whose file or module is not there, without running anything of it.

    Args:
        name: As `load` takes it; empty is no function, and fine.

    Raises:
        UsageError: There is no such file, or no such module in the present folder or elsewhere.
    """
    place, fault = name.rpartition(":")[0], ""
    if place.endswith(".py"):
        if not Path(place).is_file():
            fault = f"there is no file {Path(place).absolute()}"
    elif place:
        top, here = place.partition(".")[0], str(Path.cwd())
        found = top in sys.modules or PathFinder.find_spec(top, [here])
        if not found and importlib.util.find_spec(top) is None:
            fault = f"No module named '{top}' in {here} or where Python looks"
    if fault:
        raise UsageError(
            f"reward.function {name}: {fault}. Give module:function, or path/to/file.py:function."
        )


def load_file(path: Path) -> ModuleType:
    """The module in a file; it may import its neighbours."""
    if not path.is_file():
        raise ImportError(f"there is no file {path.absolute()}")
    sys.path.insert(0, str(path.parent.absolute()))
    name = f"own_{path.stem}"  # apart from modules that have the file's name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def unfit(function: Function) -> str:
    """Why a function can't be called as it must be; empty where it can."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "it is async"
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return ""  # some functions written in C have none
    try:
        signature.bind({}, "")
    except TypeError:
        return f"it takes {signature}"
    return ""


def contents(returned: object) -> tuple[float | None, str]:
    """Value and reason of what a function returned.

    Raises:
        BreachError: It is not what the contract allows, and what is.

    >>> contents(0), contents(None), contents({"value": 0.5, "reason": "half"})
    ((0.0, ''), (None, ''), (0.5, 'half'))
    """
    if not isinstance(returned, Mapping):
        return number_of(returned), ""
    extra = set(returned) - {"value", "reason"}
    reason = returned.get("reason", "")
    if extra or "value" not in returned or not isinstance(reason, str):
        raise BreachError(
            f"a dict {shown(returned)}; it takes 'value' and, as text, 'reason', and nothing else"
        )
    return number_of(returned["value"]), reason[:REASON_CHARACTERS_MOST]


def number_of(value: object) -> float | None:
    """A number of a size that can be trained on, or None.

    Raises:
        BreachError: It is neither.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise BreachError(f"the bool {value}; return 1.0 or 0.0")
    if inspect.iscoroutine(value):
        value.close()
        raise BreachError("a coroutine that nobody waits for; return its result")
    if not isinstance(value, numbers.Real):
        kind = type(value).__name__
        raise BreachError(f"{shown(value)} ({kind}); return a number, None, or a dict")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BreachError(f"{shown(value)}, which is not finite; return a finite number, or None")
    if abs(number) > LARGEST:
        raise BreachError(
            f"{shown(value)}, too large to train on; return {-LARGEST:g} to {LARGEST:g}"
        )
    return number


def shown(value: object) -> str:
    """The beginning of a value as Python writes it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."

"""How the maker of a model would draw answers: told, and never applied."""

from pathlib import Path

from rlvr.model.tokens import read_json
from rlvr.records import Sampling

REPETITION = "repetition_penalty"


def suggested(folder: Path) -> dict[str, float]:
    """The sampling that `generation_config.json` suggests, by name; only numbers are read."""
    path = folder / "generation_config.json"
    found = read_json(path) if path.is_file() else {}
    named = {name: found.get(name) for name in ("temperature", "top_p", "top_k", REPETITION)}
    numbers = {n: v for n, v in named.items() if isinstance(v, (int, float))}
    return {name: value for name, value in numbers.items() if not isinstance(value, bool)}


def not_applied(name: str, folder: Path, sampling: Sampling) -> str:
    """A line that says what a model suggests and what is used; empty where they agree.

    Args:
        name: Of the model, as the user knows it.
        folder: Its directory.
        sampling: What is used.
    """
    used = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        REPETITION: 1.0,
    }
    differ = {key: value for key, value in suggested(folder).items() if value != used[key]}
    if not differ:
        return ""
    told = ", ".join(f"{key} {value:g}" for key, value in differ.items())
    ours = ", ".join(f"{key} {used[key]:g}" for key in differ)
    greedy = " (greedy)" if sampling.temperature == 0 else ""
    return (
        f"{name} suggests {told} in its generation_config.json, which is not applied; "
        f"used: {ours}{greedy}"
    )

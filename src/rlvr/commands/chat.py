"""`rlvr chat`: ask a model or the newest checkpoint of a run."""

from collections.abc import Sequence
from pathlib import Path

from rlvr.commands.evaluation import settings_of, with_stop
from rlvr.commands.options import Options, number, whole_number
from rlvr.folders import SETTINGS, model_folder
from rlvr.model.chat import for_model, read_chat_template
from rlvr.problems.prompts import TEMPLATES, resolved
from rlvr.records import Sampling


def chat_command(about: str, words: Sequence[str]) -> int:
    """Answer one question, or one a line until the end of the input."""
    parser = Options("chat", about, "MODEL-OR-RUN [QUESTION] [--template T] ...")
    parser.add_argument("model", nargs="?", default="abacus", metavar="MODEL-OR-RUN")
    parser.add_argument("question", nargs="?", help="else one a line")
    parser.add_argument(
        "--template", help="a name, text or file (default: the run's, else the model's chat)"
    )
    parser.add_argument(
        "--stop", help=r"a text that ends an answer, such as '\n' (default: the run's, else none)"
    )
    parser.add_argument("--temperature", default="0", help="0 is greedy, the default")
    parser.add_argument("--seed", default="0", help="names the draws")
    parser.add_argument("--max-new-tokens", default="128", help="longest answer in tokens")
    given = parser.parse(words)
    stops = with_stop(settings_of(given.model).rollouts, given.stop).stops
    sampling = Sampling(
        temperature=number(parser, "--temperature", given.temperature, 0, 100),
        max_new_tokens=whole_number(parser, "--max-new-tokens", given.max_new_tokens, 1),
        stop=stops,
    )
    seed = whole_number(parser, "--seed", given.seed, 0)
    folder = model_folder(given.model)
    named = resolved(given.template) if given.template else usual_template(given.model, folder)
    template, sums = for_model(named, folder), named not in TEMPLATES or not TEMPLATES[named].chat
    from rlvr.commands.chatting import converse

    converse(given.model, folder, template, given.question, sampling, seed, sums=sums)
    return 0


def usual_template(name: str, folder: Path) -> str:
    """The template that a run was trained with; else the model's own chat, where it has one."""
    if (Path(name) / SETTINGS).is_file() or read_chat_template(folder) is None:
        return settings_of(name).template
    return "chat"

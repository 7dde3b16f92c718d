"""`rlvr chat`: ask a model or the newest checkpoint of a run."""

from collections.abc import Sequence

from rlvr.commands.evaluation import settings_of
from rlvr.commands.options import Options, number, whole_number
from rlvr.folders import model_folder
from rlvr.records import Sampling


def chat_command(about: str, words: Sequence[str]) -> int:
    """Answer one question, or one a line until the end of the input."""
    parser = Options("chat", about, "MODEL-OR-RUN [QUESTION] [--temperature T]")
    parser.add_argument("model", nargs="?", default="abacus", metavar="MODEL-OR-RUN")
    parser.add_argument("question", nargs="?", help="else one a line")
    parser.add_argument("--temperature", default="0", help="0 is greedy, the default")
    parser.add_argument("--seed", default="0", help="names the draws")
    parser.add_argument("--max-new-tokens", default="128", help="longest answer in tokens")
    given = parser.parse(words)
    sampling = Sampling(
        temperature=number(parser, "--temperature", given.temperature, 0, 100),
        max_new_tokens=whole_number(parser, "--max-new-tokens", given.max_new_tokens, 1),
    )
    seed = whole_number(parser, "--seed", given.seed, 0)
    folder, template = model_folder(given.model), settings_of(given.model).template
    from rlvr.commands.chatting import converse

    converse(given.model, folder, template, given.question, sampling, seed)
    return 0

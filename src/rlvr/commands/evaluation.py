"""`rlvr eval`: accuracy of models and runs on held-out problems, answers stored."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlvr.commands.options import Options, number, spelled, whole_number
from rlvr.config import Config, read_toml, resolve
from rlvr.folders import CHECKPOINTS, SETTINGS, model_folder
from rlvr.model.chat import for_model
from rlvr.observe.settings import SEED
from rlvr.problems.prompts import resolved
from rlvr.problems.sources import load_problems
from rlvr.records import Sampling
from rlvr.rollout.settings import Rollouts
from rlvr.training.settings import check_threads


def options(about: str) -> Options:
    """What can be asked for."""
    parser = Options("eval", about, "MODEL-OR-RUN... [--problems NAME] [--temperature T] ...")
    parser.add_argument("models", nargs="*", metavar="MODEL-OR-RUN")
    parser.add_argument(
        "--problems", default="arithmetic", help="a name of rlvr problems, or a file"
    )
    parser.add_argument(
        "--template", help="how problems are put (default: as a run was trained, else plain)"
    )
    parser.add_argument(
        "--stop", help=r"a text that ends an answer, such as '\n' (default: the run's, else none)"
    )
    parser.add_argument("--count", default="0", help="only the first so many held-out problems")
    parser.add_argument("--temperature", default="0", help="0 is greedy, the default")
    parser.add_argument("--samples", default="1", help="answers per problem, for pass@k")
    parser.add_argument("--max-new-tokens", default="128", help="longest answer in tokens")
    parser.add_argument(
        "--lenient", action="store_true", help="also take the last number of an unmarked answer"
    )
    parser.add_argument("--seed", default=str(SEED), help="names the draws")
    parser.add_argument("--threads", default="0", help="0 measures")
    parser.add_argument("--json", action="store_true", help="one object a line, nothing else")
    return parser


def eval_command(about: str, words: Sequence[str]) -> int:
    """Evaluate each model on the same problems with the same draws.

    What is wrong with options, problems or names is said before anything heavy is imported.
    """
    parser = options(about)
    given = parser.parse(words)
    if not given.models:
        parser.error("name a model or a run, such as abacus")
    temperature = number(parser, "--temperature", given.temperature, 0, 100)
    samples = whole_number(parser, "--samples", given.samples, 1)
    if samples > 1 and temperature == 0:
        parser.error("several greedy answers are all the same; add --temperature 1")
    longest = whole_number(parser, "--max-new-tokens", given.max_new_tokens, 1)
    count = whole_number(parser, "--count", given.count, 0)
    seed = whole_number(parser, "--seed", given.seed, 0)
    threads = whole_number(parser, "--threads", given.threads, 0)
    check_threads(threads)
    trained = {name: settings_of(name) for name in given.models}
    folders = {name: model_folder(name) for name in given.models}
    for name, folder in folders.items():
        template = for_model(resolved(given.template or trained[name].template), folder)
        sampled = with_stop(trained[name].rollouts, given.stop)
        trained[name] = replace(trained[name], template=template, rollouts=sampled)
    source = load_problems(given.problems)
    from rlvr.commands.evaluating import Asked, evaluate_all

    asked = Asked(
        problems=source.held_out[: count or None],
        set_name=source.name,
        sampling=Sampling(temperature=temperature, max_new_tokens=longest),
        samples=samples,
        seed=seed,
        lenient=given.lenient,
    )
    evaluate_all(folders, trained, asked, threads, as_json=given.json)
    return 0


def with_stop(trained: Rollouts, given: str | None) -> Rollouts:
    """The settings of the rollouts with the text of `--stop`, where that was given."""
    return trained if given is None else replace(trained, stop=spelled(given))


def settings_of(name: str) -> Config:
    """The settings that a run, or the run of a checkpoint, was trained with; else the defaults."""
    path = Path(name)
    run = path.parent.parent if path.parent.name == CHECKPOINTS else path
    settings = run / SETTINGS
    return resolve(read_toml(settings)) if settings.is_file() else Config()

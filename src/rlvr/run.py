"""What a run holds, how it is made ready, checked before any weights load, and taken up again."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from rlvr import abacus
from rlvr.config import Config, write_toml
from rlvr.errors import UsageError
from rlvr.model.decoder import Shape, Weights
from rlvr.model.tokens import Tokens, load_tokens
from rlvr.model.weights import Model, check_tokens, load_model, parameters_of, read_shape
from rlvr.objective.loss import Controls
from rlvr.observe.runlog import SETTINGS, RunFolder
from rlvr.problems.prompts import render
from rlvr.problems.sources import Source, load_problems
from rlvr.records import Problem, Sampling
from rlvr.training.checkpoint import (
    Carried,
    Progress,
    checkpoint_folder,
    checkpoints,
    load_checkpoint,
    restore_optimizer,
)
from rlvr.training.machine import cores, measure
from rlvr.training.optimiser import make_optimizer
from rlvr.training.update import Learner
from rlvr.verify import compare

BUILT_IN = {"abacus": abacus.FOLDER}
BYTES_PER_ROLLOUT = 4096
PROMPTS_CHECKED = 256


@dataclass(slots=True)
class Run:
    """Everything that `loop.train` works on."""

    config: Config
    folder: RunFolder
    source: Source
    model: Model
    reference: Weights | None
    """The frozen policy that the run started from, where a divergence needs it."""
    optimizer: torch.optim.Optimizer
    progress: Progress
    carried: Carried = field(default_factory=Carried)
    clock: Callable[[], float] = time.perf_counter
    stop_asked: bool = False
    """Set from outside: save after this step and stop."""
    resumed_at: float = field(init=False)
    """When the step under way began, by `clock`."""

    def __post_init__(self) -> None:
        self.resumed_at = self.clock()

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the products."""
        dtype = getattr(torch, self.config.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def sampling(self) -> Sampling:
        """How answers are drawn."""
        return self.config.rollouts.sampling(self.model.tokens)

    @property
    def learner(self) -> Learner:
        """The policy and what an update of it needs to know."""
        return Learner(
            self.model.decoder,
            self.optimizer,
            self.config.variant,
            self.config.optimiser,
            self.dtype,
            self.reference,
            self.clock,
        )

    def reset_reference(self) -> None:
        """Make the policy as it is the reference, and forget the optimizer's state.

        Source: ProRL, arXiv:2505.24864, section 3.
        """
        self.reference = frozen(self.sampling_weights())
        self.optimizer = make_optimizer(self.model.decoder, self.config.optimiser)

    @torch.no_grad()
    def sampling_weights(self) -> Weights:
        """The weights as they are now, for sampling."""
        return self.model.decoder.weights(self.dtype)


def model_folder(name: str) -> Path:
    """The model directory that a name means: built in, a run's newest checkpoint, or a path.

    Raises:
        UsageError: There is no such model.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    if (path / SETTINGS).is_file():
        saved = checkpoints(path)
        if not saved:
            raise UsageError(
                f"the run {path} has no checkpoint yet. Wait for its first, or give another model."
            )
        return saved[-1]
    if not path.exists():
        known = ", ".join(sorted(BUILT_IN))
        raise UsageError(
            f"no model '{name}'. Give a built-in one ({known}), a run folder, or a model directory."
        )
    return path


def check(config: Config, shape: Shape, tokens: Tokens, source: Source) -> None:
    """Refuse what can't work before weights load.

    Raises:
        UsageError: Prompt and answer do not fit the model, or a reference can't be graded.
    """
    problems = source.listed or [
        *source.take(config.seed, 0, PROMPTS_CHECKED),
        *source.held_out,
    ]
    check_references(problems)
    lengths = {
        problem.id: len(tokens.encode(render(config.template, problem))) for problem in problems
    }
    longest = max(lengths, key=lengths.__getitem__)
    room = shape.max_position_embeddings - lengths[longest]
    if config.rollouts.max_new_tokens > room:
        raise UsageError(
            f"rollouts.max_new_tokens is {config.rollouts.max_new_tokens}, but the model reads "
            f"{shape.max_position_embeddings} tokens and the longest prompt has {lengths[longest]} "
            f"({longest}). " + (f"Use {room} or less." if room > 0 else "Leave it out.")
        )


def check_references(problems: Sequence[Problem]) -> None:
    """Refuse reference answers that would not be accepted as answers to themselves.

    Raises:
        UsageError: The first that can't be graded, and where it stands.
    """
    for problem in problems:
        score = compare(problem.answer, problem.answer)
        if score.verdict != "correct":
            raise UsageError(
                f"{problem.source}: the answer {problem.answer[:60]!r} can't be graded: "
                f"{score.reason}. Give a number or a word, or leave the row out."
            )


def check_space(config: Config, folder: Path, parameters: int) -> None:
    """Refuse a run that the disk can't hold.

    Raises:
        UsageError: Less space is free than checkpoints and rollouts will take.
    """
    saved = 2 + config.steps // config.checkpoints.every_steps
    rows = config.steps * config.rollouts.problems_per_step * config.rollouts.group_size
    needed = saved * parameters * 12 + rows * BYTES_PER_ROLLOUT
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise UsageError(
            f"{folder} needs about {needed / 1e6:.0f} MB and {free / 1e6:.0f} MB are free. "
            "Make room, give another --out, or save less often: "
            f"--checkpoints.every-steps {config.steps}."
        )


def prepare(config: Config, path: Path) -> Run:
    """A new run in a new folder: checked, measured, settings written, weights loaded.

    Raises:
        UsageError: Something in the settings can't work; nothing has been written then.
    """
    if config.threads > cores():
        raise UsageError(
            f"threads is {config.threads}, but this process may use {cores()} cores. "
            f"Use {cores()} or less, or 0 to measure."
        )
    start = model_folder(config.model)
    shape, tokens, source = read_shape(start), load_tokens(start), load_problems(config.problems)
    check_tokens(start, tokens, shape)
    config.rollouts.sampling(tokens)
    check(config, shape, tokens, source)
    check_space(config, path, parameters_of(shape))
    folder = RunFolder(path)
    folder.create()
    folder.lock()
    machine = measure(config.threads, config.dtype)
    config = replace(config, threads=machine.threads, dtype=machine.dtype)
    folder.write_settings(write_toml(config))
    fresh = Progress(controls=Controls.of(config.variant))
    return _assemble(config, folder, source, load_model(start), fresh)


def take_up(config: Config, path: Path) -> Run:
    """A run as its newest checkpoint left it, what came after it cut back.

    Raises:
        UsageError: The folder is in use or its checkpoint is damaged.
    """
    folder = RunFolder(path)
    folder.lock()
    machine = measure(config.threads, config.dtype)
    config = replace(config, threads=machine.threads, dtype=machine.dtype)
    source, saved = load_problems(config.problems), checkpoints(path)
    if not saved:
        folder.cut_back(-1)
        fresh = Progress(controls=Controls.of(config.variant))
        return _assemble(config, folder, source, load_model(model_folder(config.model)), fresh)
    model, tensors, progress, carried = load_checkpoint(saved[-1])
    folder.cut_back(progress.step)
    run = _assemble(config, folder, source, model, progress)
    run.carried = carried
    restore_optimizer(model, run.optimizer, tensors)
    return run


def _assemble(
    config: Config, folder: RunFolder, source: Source, model: Model, progress: Progress
) -> Run:
    reference = None
    if config.variant.needs_reference:
        every = config.variant.reference_every_steps
        became = progress.step // every * every if every else 0
        there = became == progress.step
        start = model if there else load_model(checkpoint_folder(folder.path, became))
        with torch.no_grad():
            reference = frozen(start.decoder.weights(getattr(torch, config.dtype)))
    optimizer = make_optimizer(model.decoder, config.optimiser)
    return Run(config, folder, source, model, reference, optimizer, progress)


def frozen(weights: Weights) -> Weights:
    """A copy that later optimizer steps can't reach."""
    blocks = tuple(
        type(block)(**{name: getattr(block, name).clone() for name in block.__slots__})
        for block in weights.blocks
    )
    return replace(
        weights,
        embedding=weights.embedding.clone(),
        blocks=blocks,
        norm=weights.norm.clone(),
        head=weights.head.clone(),
    )

"""What a run holds, how it is made ready, checked before any weights load, and taken up again."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from rlvr.config import Config, write_toml
from rlvr.errors import UsageError
from rlvr.folders import checkpoint_folder, checkpoints, model_folder
from rlvr.model.added import grown, grown_shape
from rlvr.model.chat import for_model
from rlvr.model.decoder import Shape, Weights
from rlvr.model.lora import new_adapters
from rlvr.model.tokens import Tokens, load_tokens, with_tokens
from rlvr.model.weights import Model, check_tokens, load_model, parameters_of, read_shape
from rlvr.objective.loss import Controls
from rlvr.observe.runlog import RunFolder
from rlvr.problems.listed import Source, fewer, with_overlap
from rlvr.problems.prompts import render
from rlvr.problems.sources import load_problems
from rlvr.records import CLOSE, OPEN, Problem, Sampling
from rlvr.scoring import Scoring, own_function
from rlvr.training.checkpoint import (
    Carried,
    Progress,
    load_checkpoint,
    restore_optimizer,
)
from rlvr.training.machine import measure
from rlvr.training.memory import (
    TRAINING_LEVERS,
    available_memory,
    memory_needed,
    refuse_too_large,
)
from rlvr.training.optimiser import make_optimizer
from rlvr.training.settings import check_threads
from rlvr.training.update import Learner
from rlvr.verify import readable

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
    scoring: Scoring
    """How answers are rewarded."""
    optimizer: torch.optim.Optimizer
    progress: Progress
    carried: Carried = field(default_factory=Carried)
    clock: Callable[[], float] = time.perf_counter
    stop_asked: bool = False
    """Set from outside: save after this step and stop."""
    alarms: set[str] = field(default_factory=set)
    """Names of the alarms that were given, each once."""
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

    def fits(self, problem: Problem) -> bool:
        """Whether a problem's prompt leaves room for the longest answer."""
        shape = self.model.decoder.shape
        room = shape.max_position_embeddings - self.config.rollouts.max_new_tokens
        return length_of(self.config, self.model.tokens, problem) <= room

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


def check(config: Config, source: Source) -> None:
    """Refuse problems that can't be trained on, before weights load.

    Raises:
        UsageError: All is held out, or a reference can't be graded.
    """
    source.take(config.seed, 0, 1)  # refused, where all is held out
    if config.reward.needs_verdict:
        asked = source.listed or [
            *source.take(config.seed, 0, PROMPTS_CHECKED),
            *source.held_out,
        ]
        check_references(asked)


def length_of(config: Config, tokens: Tokens, problem: Problem) -> int:
    """Tokens of a problem's prompt."""
    return len(tokens.encode_prompt(render(config.template, problem)))


def fitting(config: Config, shape: Shape, tokens: Tokens, source: Source) -> Source:
    """The source without training problems whose prompts leave no room for the longest answer.

    Nothing is ever cut. What is held out stays whole, so that accuracies can be compared.

    Raises:
        UsageError: A held-out problem is too long, or all that there is to train on.
    """
    reads, wanted = shape.max_position_embeddings, config.rollouts.max_new_tokens
    listed = bool(source.trained)
    trained = source.trained or source.take(config.seed, 0, PROMPTS_CHECKED)
    lengths = [length_of(config, tokens, problem) for problem in trained]
    good = [n for n, length in enumerate(lengths) if length <= reads - wanted]
    held_out = [(length_of(config, tokens, p), p.id) for p in source.held_out]
    tight = [
        *held_out,
        *([] if good else [min(zip(lengths, (p.id for p in trained), strict=True))]),
    ]
    longest, name = max(tight, default=(0, ""))
    if longest > reads - wanted:
        room = reads - longest
        raise UsageError(
            f"rollouts.max_new_tokens is {wanted}, but the model reads {reads} tokens and the "
            f"prompt of {name} has {longest}. "
            + (f"Use {room} or less." if room > 0 else "Leave it out, or take a shorter template.")
        )
    dropped = len(trained) - len(good)
    if not dropped:
        return source
    first = next(n for n, length in enumerate(lengths) if length > reads - wanted)
    example = f"{trained[first].id}: {lengths[first]} tokens"
    of, fate = ("the", "are left out") if listed else ("the first", "would be passed over")
    note = (
        f"{dropped:,} of {of} {len(trained):,} training problems {fate}: with {wanted} answer "
        f"tokens they pass the {reads} that the model reads ({example})"
    )
    kept = [trained[n] for n in good] if listed else ()
    return fewer(source, kept, note)


def check_references(problems: Sequence[Problem]) -> None:
    """Refuse reference answers that no answer could be compared with.

    Raises:
        UsageError: How many can't be graded, the first of them and why.
    """
    asked = [problem for problem in problems if not problem.scorer]  # the others bring their own
    faults = [(problem, readable(problem.answer)) for problem in asked]
    broken = [(problem, fault) for problem, fault in faults if fault]
    if broken:
        first, fault = broken[0]
        others = ", ".join(problem.id for problem, _ in broken[1:4])
        raise UsageError(
            f"{first.source}: the answer {first.answer[:60]!r} can't be graded: {fault}. "
            + (
                f"So it is with {len(broken) - 1} more of {len(asked)} ({others}). "
                if others
                else ""
            )
            + "Mend the answers, or leave the rows out."
        )


def check_space(config: Config, folder: Path, parameters: int) -> None:
    """Refuse a run that the disk can't hold.

    Raises:
        UsageError: Less space is free than checkpoints and rollouts will take.
    """
    saved = 2 + config.steps // config.checkpoints.every_steps
    weight_bytes = 4 if config.lora.rank else 12  # moments of AdamW too; adapters are small
    rows = config.steps * config.rollouts.problems_per_step * config.rollouts.group_size
    needed = saved * parameters * weight_bytes + rows * BYTES_PER_ROLLOUT
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise UsageError(
            f"{folder} needs about {needed / 1e6:.0f} MB and {free / 1e6:.0f} MB are free. "
            "Make room, give another --out, or save less often: "
            f"--checkpoints.every-steps {config.steps}."
        )


def check_memory(config: Config, shape: Shape, tokens: Tokens, source: Source) -> None:
    """Refuse a run that the memory can't hold.

    Raises:
        UsageError: It needs more than there is.
    """
    asked = source.trained[:PROMPTS_CHECKED] or source.take(config.seed, 0, PROMPTS_CHECKED)
    longest = max(length_of(config, tokens, problem) for problem in asked)
    needed = memory_needed(
        shape,
        rows=config.rollouts.problems_per_step * config.rollouts.group_size,
        width=longest + config.rollouts.max_new_tokens,
        product_bytes=4 if config.dtype == "float32" else 2,
        reference=config.variant.needs_reference,
        adapters=config.lora.rank > 0,
    )
    refuse_too_large(config.model, needed, TRAINING_LEVERS, available_memory())


def prepare(config: Config, path: Path, source: Source | None = None) -> Run:
    """A new run in a new folder: checked, measured, settings written, weights loaded.

    Raises:
        UsageError: Something in the settings can't work; nothing has been written then.
    """
    check_threads(config.threads)
    start = model_folder(config.model)
    config = replace(config, template=for_model(config.template, start))
    shape, tokens = read_shape(start), load_tokens(start)
    source = with_overlap(source or load_problems(config.problems))
    check_tokens(start, tokens, shape)
    if config.think_tokens:
        tokens = with_tokens(tokens, (OPEN, CLOSE))
        shape = grown_shape(shape, tokens)
    config.rollouts.sampling(tokens)
    check(config, source)
    source = fitting(config, shape, tokens, source)
    check_space(config, path, parameters_of(shape))
    check_memory(config, shape, tokens, source)
    scoring = Scoring(config.reward, config.variant, own_function(config.reward))
    folder = RunFolder(path)
    folder.create()
    folder.lock()
    machine = measure(config.threads, config.dtype)
    config = replace(config, threads=machine.threads, dtype=machine.dtype)
    folder.write_settings(write_toml(config))
    fresh = Progress(controls=Controls.of(config.variant))
    return _assemble(config, folder, source, scoring, started(config, start), fresh)


def started(config: Config, start: Path) -> Model:
    """The model a run begins with: as on disk, with tokens for tags and adapters where asked."""
    model, lora = load_model(start), config.lora
    if config.think_tokens:
        model = grown(model, with_tokens(model.tokens, (OPEN, CLOSE)))
    if lora.rank:
        model.decoder.adapters = new_adapters(
            model.decoder, rank=lora.rank, alpha=lora.alpha, targets=lora.names, seed=config.seed
        )
    return model


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
    scoring = Scoring(config.reward, config.variant, own_function(config.reward))
    if not saved:
        folder.cut_back(-1)
        fresh = Progress(controls=Controls.of(config.variant))
        start = started(config, model_folder(config.model))
        source = fitting(config, start.decoder.shape, start.tokens, source)
        return _assemble(config, folder, source, scoring, start, fresh)
    model, tensors, progress, carried = load_checkpoint(saved[-1])
    folder.cut_back(progress.step)
    source = fitting(config, model.decoder.shape, model.tokens, source)
    run = _assemble(config, folder, source, scoring, model, progress)
    run.carried = carried
    restore_optimizer(model, run.optimizer, tensors)
    return run


def _assemble(
    config: Config,
    folder: RunFolder,
    source: Source,
    scoring: Scoring,
    model: Model,
    progress: Progress,
) -> Run:
    reference = None
    if config.variant.needs_reference:
        every = config.variant.reference_every_steps
        became = progress.step // every * every if every else 0
        there = became == progress.step or (config.lora.rank > 0 and became == 0)
        start = model if there else load_model(checkpoint_folder(folder.path, became))
        with torch.no_grad():
            reference = start.decoder.weights(getattr(torch, config.dtype), adapted=became > 0)
        reference = reference if config.lora.rank else frozen(reference)  # no base ever changes
    optimizer = make_optimizer(model.decoder, config.optimiser)
    return Run(config, folder, source, model, reference, scoring, optimizer, progress)


def frozen(weights: Weights) -> Weights:
    """A copy that later optimizer steps can't reach."""
    blocks = tuple(
        replace(
            block,
            **{
                name: part.clone()
                for name in block.__slots__
                if (part := getattr(block, name)) is not None
            },
        )
        for block in weights.blocks
    )
    return replace(
        weights,
        embedding=weights.embedding.clone(),
        blocks=blocks,
        norm=weights.norm.clone(),
        head=weights.head.clone(),
    )

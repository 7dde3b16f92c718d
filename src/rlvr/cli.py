"""The command line: which command, and every wrong use answered in words."""

import errno
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType

from rlvr.errors import UsageError, unknown_name

COMMANDS = {
    "train": "train a model by reinforcement learning with verifiable rewards",
    "eval": "accuracy of models and runs on held-out problems",
    "chat": "ask a model, its thoughts shown apart from its answer",
    "verify": "grade answers, with the reason for each verdict",
    "models": "the models there are",
    "problems": "the problems there are",
    "templates": "how a problem is put to the model",
    "variants": "the objectives there are, with their sources",
}
MODULES = {
    "eval": "evaluation",
    "models": "listings",
    "problems": "listings",
    "templates": "listings",
    "variants": "listings",
}
WRONG_USE, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; exit status 0 fine, 1 bad news, 2 wrong use or input, 130 after Ctrl-C.

    Args:
        arguments: The command and its words; None where this is the program, with its own.
    """
    if arguments is None:
        end_without_traceback()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0 if words else WRONG_USE
    if words[0] == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"rlvr {version('rlvr')}\n")
        return 0
    try:
        return run(words[0], words[1:])
    except UsageError as error:
        sys.stderr.write(f"rlvr: {error}\n")
        return WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.stderr.write(
            f"rlvr: no space left on the disk: {error.filename or error}. Make room, then go on "
            "with rlvr train --resume RUN; its last whole checkpoint is there.\n"
        )
        return WRONG_USE


def end_without_traceback() -> None:
    """Let Ctrl-C end this program with status 130 and no traceback, at whatever moment.

    Where a command works, it is a KeyboardInterrupt: all is closed on its way to `main`. Elsewhere
    that would be shown or lost: an import turns it into another error (that of torch aborts the
    process), a destructor prints it, and at the end of the program nobody waits for it. There the
    process ends at once, and workers that it had end by themselves.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return  # as in the background of a script, which Ctrl-C is not meant for

    def interrupt(number: int, frame: FrameType | None) -> None:
        codes = list(stack(frame))
        imports = any(code.co_filename.startswith("<frozen importlib") for code in codes)
        if run.__code__ not in codes or imports:
            os._exit(INTERRUPTED)
        raise KeyboardInterrupt

    def unraisable(lost: "sys.UnraisableHookArgs") -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            os._exit(INTERRUPTED)
        sys.__unraisablehook__(lost)

    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = unraisable


def stack(frame: FrameType | None) -> Iterator[CodeType]:
    """The code that is being run, from the inside out."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def run(command: str, words: Sequence[str]) -> int:
    """Load a command's module and run it.

    Raises:
        UsageError: There is no such command, or it can't do what was asked.
    """
    if command not in COMMANDS:
        known = str(unknown_name("command", command, COMMANDS))
        raise UsageError(f"{known} See rlvr --help.")
    module = importlib.import_module(f"rlvr.commands.{MODULES.get(command, command)}")
    status = getattr(module, f"{command}_command")(COMMANDS[command], words)
    assert isinstance(status, int)
    return status


def overview() -> str:
    """What `rlvr --help` says."""
    lines = "\n".join(f"  {name:<10}{about}" for name, about in COMMANDS.items())
    return (
        "rlvr trains language models to reason, with rewards that a program can verify.\n\n"
        f"commands:\n{lines}\n\n"
        "Start with: rlvr train     (the built-in model learns to think, in a minute or two)\n"
        "More about a command: rlvr COMMAND --help\n"
    )

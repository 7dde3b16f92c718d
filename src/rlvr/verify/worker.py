"""A worker process of a pool: reads items as lines of JSON, answers with lines of JSON.

Started by `process`, as `python -m rlvr.verify.worker module:function SECONDS MIB [FOLDER...]`. The
protocol has file descriptors of its own, so that what the function prints or reads disturbs
nothing. Here everything is caught: what the function raised is told apart from what it returned.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import BinaryIO, NoReturn

ANSWER_BYTES_MOST = 64 * 2**20
REASON_CHARACTERS_MOST = 1000
LOADERS = (__file__, importlib.__file__, __file__.replace("worker.py", "own.py"), "<frozen ")
"""Files that only load or call a function: a fault that shows there is none of theirs."""
GRACE_SECONDS = 5.0  # the parent ends a worker at its deadline; one without a parent ends then
IMPORT_SECONDS_MOST = 600.0  # longer than any parent waits for a worker to be ready


def main(task: str, deadline_seconds: float, memory_mib: int, folders: list[str]) -> None:
    """Answer items until there are no more."""
    items, answers = taken_from_the_function()
    limit_memory(memory_mib)
    sys.path[:0] = folders
    end_without_parent(IMPORT_SECONDS_MOST)
    try:
        function = function_of(task)
    except BaseException as error:
        say(answers, json.dumps(["failed", reason_of(error)]))
        return
    say(answers, '["ready"]')
    process = os.getpid()
    for line in items:
        number, item = json.loads(line)
        text = answered(function, item, deadline_seconds)
        if os.getpid() != process:
            return  # the function forked: the copy has nothing to say
        say(answers, f"[{number}, {text}]")


def taken_from_the_function() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for us alone; the function reads nothing and prints to errors."""
    items, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return items, answers


def limit_memory(mib: int) -> None:
    """Bound the address space, and write no core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # macOS has no such bound
        resource.setrlimit(resource.RLIMIT_AS, (mib * 2**20, mib * 2**20))


def function_of(task: str) -> Callable[[object], object]:
    """The function that `module:function` names; `module:maker:text` what the maker makes of text.

    Raises:
        ImportError: There is no such module, or no such function in it.
    """
    module, _, rest = task.partition(":")
    name, made, text = rest.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        raise ImportError(f"the module {module!r} has no function {name!r}")
    return found(text) if made else found  # type: ignore[no-any-return]


def answered(function: Callable[[object], object], item: object, deadline_seconds: float) -> str:
    """As JSON: seconds that the function took, failure or nothing, and the reason or the value."""
    end_without_parent(deadline_seconds)
    began = time.monotonic()
    try:
        value = function(item)
    except BaseException as error:
        return json.dumps([time.monotonic() - began, "raised", reason_of(error)])
    seconds = time.monotonic() - began
    try:
        text = json.dumps([seconds, "", value], allow_nan=False)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        return json.dumps([seconds, "not json", reason_of(error)])
    if len(text) > ANSWER_BYTES_MOST:
        reason = f"it has {len(text)} bytes, of at most {ANSWER_BYTES_MOST}"
        return json.dumps([seconds, "not json", reason])
    return text


def end_without_parent(deadline_seconds: float) -> None:
    """Let the kernel end this process where the parent, killed itself, no longer can.

    A parent's death is no signal here: the kernel sends that one when the thread ends that started
    the worker, and pools work from any thread.
    """
    seconds = deadline_seconds + GRACE_SECONDS
    signal.setitimer(signal.ITIMER_REAL, seconds)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    most, bound = resource.getrlimit(resource.RLIMIT_CPU)[1], int(used + 10 * seconds)
    if most == resource.RLIM_INFINITY or bound < most:
        resource.setrlimit(resource.RLIMIT_CPU, (bound, most))


def reason_of(error: BaseException) -> str:
    """The kind of an exception, what it says, and where it was raised, if not by a loader."""
    if isinstance(error, SyntaxError):  # it shows the line too, and a message has one
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    text = "".join(traceback.format_exception_only(error)).strip()[:REASON_CHARACTERS_MOST]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(LOADERS)
    ]
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text


def say(answers: BinaryIO, text: str) -> None:
    """One line; a parent that is gone ends the worker."""
    try:
        answers.write(text.encode() + b"\n")
        answers.flush()
    except BrokenPipeError:
        leave()
    signal.setitimer(signal.ITIMER_REAL, 0.0)


def leave() -> NoReturn:
    """End with all that the function started, threads too; a copy that it forked ends alone."""
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    if os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    leave()

"""One worker process of a pool, seen from its parent."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TAIL_BYTES = 2000
READ_BYTES = 2**20
SOURCE = Path(__file__).parents[2]
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # the same order of sets in every worker
    "CUDA_VISIBLE_DEVICES": "",  # a worker is no place for a GPU
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process, seen from the parent."""

    process: subprocess.Popen[bytes]
    since: float
    """When it was started or was given its item, by the monotonic clock."""
    start: int = 1
    """Which start in a row it is, all before it having come to nothing."""
    ready: bool = False
    item: int | None = None
    """Position of the item it works on."""
    outgoing: memoryview = field(default_factory=lambda: memoryview(b""))
    incoming: bytearray = field(default_factory=bytearray)
    complaints: bytearray = field(default_factory=bytearray)
    """The end of what it wrote to standard error."""
    complains: bool = True
    """False once it has closed its standard error."""

    def __post_init__(self) -> None:
        for pipe in self.pipes:
            os.set_blocking(pipe, False)

    @property
    def pipes(self) -> tuple[int, int, int]:
        """Our ends of its standard input, output and error."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        return process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()

    @property
    def idle(self) -> bool:
        """Whether it waits for an item."""
        return self.ready and self.item is None

    def give(self, position: int, item: object) -> None:
        """Start on an item."""
        line = json.dumps([position, item], allow_nan=False).encode() + b"\n"
        self.item, self.outgoing, self.since = position, memoryview(line), time.monotonic()
        self.write()

    def write(self) -> None:
        """Send as much of its item as the pipe takes."""
        try:
            while self.outgoing:
                self.outgoing = self.outgoing[os.write(self.pipes[0], self.outgoing) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # it has ended, which shows when it is read from
            self.outgoing = memoryview(b"")

    def read(self) -> bool:
        """Take in what it has said; False where it has ended."""
        try:
            said = os.read(self.pipes[1], READ_BYTES)
        except BlockingIOError:
            return True
        self.incoming += said
        return bool(said)

    def listen(self) -> bool:
        """Keep the end of its complaints; False where there is nothing to hear now."""
        try:
            said = os.read(self.pipes[2], READ_BYTES)
        except BlockingIOError:
            return False
        self.complaints = (self.complaints + said)[-TAIL_BYTES:]
        self.complains = bool(said)
        return self.complains

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        if self.complains:
            self.listen()  # a pipe holds less than one read takes
        return self.complaints.decode(errors="replace").strip()

    def said(self) -> list[Any]:
        """The line that it has said, taken out; empty where that is no list in JSON."""
        line = bytes(self.incoming)
        self.incoming.clear()
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return []
        return said if isinstance(said, list) else []

    def kill(self) -> None:
        """End it and all that it started; how it had ended before stays known.

        What the function put into a session of its own is out of reach, and lives on.
        """
        if self.process.returncode is None:  # its number is not used again until we have waited
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)

    def close(self) -> None:
        """Close our ends of its pipes, after which it ends by itself."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def dismiss(self) -> None:
        """End it for good; its last words are kept. May be called twice."""
        self.kill()
        self.last_words()
        self.complains = False
        self.close()

    @property
    def end(self) -> str:
        """How it ended, in words."""
        status = self.process.returncode
        by_signal = status is not None and status < 0
        how = f"was ended by {signal.Signals(-status).name}" if by_signal else f"ended ({status})"
        words = self.last_words()
        return f"{how}; its last words: {words}" if words else how


def started(arguments: Sequence[str], start: int = 1) -> Worker:
    """A fresh worker, which will say when it is ready.

    Args:
        arguments: Of `worker`: the function, seconds, MiB, folders.
        start: Which one in a row this start is.

    Raises:
        OSError: There is no process or no memory to be had.
    """
    before = os.environ.get("PYTHONPATH")
    known = os.pathsep.join([str(SOURCE), *([before] if before else [])])
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "rlvr.verify.worker", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        env=os.environ | ENVIRONMENT | {"PYTHONPATH": known},
    )
    return Worker(process, time.monotonic(), start)

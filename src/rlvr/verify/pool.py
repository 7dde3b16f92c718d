"""A pool of bounded worker processes, for functions that may hang, crash or eat memory.

A function takes JSON and returns JSON, and is named as text, `module:function`. Each worker has one
item at a time, so that a deadline counts work and never the wait for a worker. A worker that passes
its deadline or dies is killed with all that it started, and replaced; other items lose nothing.

The first worker must be ready within `READY_SECONDS_MOST`, else the function is refused: it can't
be imported, or hangs at it. Later the function is known to be good, and a worker that does not get
ready shows a machine that is busy or short of memory for now, which ends no run: it is killed, what
happened is said, and after a pause another is started, which gets twice the time. Only where
`STARTS_MOST` in a row came to nothing, and no other worker is left, is that an error.
"""

import contextlib
import math
import os
import select
import signal
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from rlvr.errors import UsageError
from rlvr.verify.process import Worker, started

Failure = Literal["", "deadline", "died", "raised", "not json"]

READY_SECONDS_MOST = 60.0  # of the first worker; doubled with each start that came to nothing
STARTS_MOST = 4  # starts in a row that came to nothing
PAUSE_SECONDS = 1.0  # after the first of them; doubled with each
LOOK_SECONDS = 1.0  # longest that nothing is looked at, such as whether the pool was closed
TRIES = 2  # an item whose worker died is tried once more, by a fresh worker


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one item."""

    value: object
    """What the function returned, as JSON; None where it failed."""
    failure: Failure = ""
    """Empty where the function returned; else what went wrong."""
    reason: str = ""
    """Why it failed, in words."""
    seconds: float = 0.0
    """How long the function worked, without any wait for a worker."""


@dataclass(slots=True)
class Shift:
    """The items of one `run`, and what became of them."""

    items: Sequence[object]
    done: dict[int, Done] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)
    tries: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.waiting.extend(range(len(self.items)))

    @property
    def left(self) -> int:
        """How many items are not done."""
        return len(self.items) - len(self.done)


def to_errors(text: str) -> None:
    """Say something on standard error, in a line of its own."""
    sys.stderr.write(f"rlvr: {text}\n")


class Pool:
    """Workers for one function: started when they are needed, ended with the program at latest."""

    def __init__(
        self,
        task: str,
        *,
        workers: int,
        deadline_seconds: float,
        memory_mib: int = 1024,
        path: Sequence[str] = (),
        name: str = "",
        say: Callable[[str], None] = to_errors,
    ) -> None:
        """Nothing is started yet.

        Args:
            task: The function, as `module:function`; `module:maker:text` for a function that is
                made from text in each worker, before any deadline counts.
            workers: Processes at most.
            deadline_seconds: Longest that one item may take, from when a worker starts on it.
            memory_mib: Address space of a worker, in MiB.
            path: Folders where the module may lie, before those that Python knows.
            name: What messages call the function; the task where empty.
            say: Takes a line about a worker that did not get ready and is replaced.
        """
        if workers < 1 or not 0 < deadline_seconds < math.inf or memory_mib < 1:
            raise UsageError(
                f"a pool of {workers} workers with a deadline of {deadline_seconds} seconds and "
                f"{memory_mib} MiB each can't work. Use 1 or more workers, and more than 0 of both."
            )
        self.name, self.workers, self.deadline_seconds = name or task, workers, deadline_seconds
        self._arguments = [task, str(deadline_seconds), str(memory_mib), *path]
        self._staff: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False
        self._say = say
        self._proven = False  # whether a worker was ever ready
        self._start = 1  # which one in a row the next start is, all before it came to nothing
        self._rest_until = 0.0  # by the monotonic clock; no worker is started before
        weakref.finalize(self, _dismiss_all, self._staff)  # also where the program ends
        _POOLS.add(self)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, items: Sequence[object]) -> list[Done]:
        """What the function makes of each item, in the order of the items.

        May be called from any thread; calls take turns.

        Raises:
            UsageError: No worker for the function could be started, or the pool was closed.
        """
        shift = Shift(items)
        with self._lock, self._clean_slate_on_error():
            while shift.left:
                self._hire(min(self.workers, shift.left))
                for worker in self._staff:
                    if worker.idle and shift.waiting:
                        position = shift.waiting.popleft()
                        worker.give(position, items[position])
                self._attend(shift)
        return [shift.done[position] for position in range(len(items))]

    def start(self) -> None:
        """Start one worker and wait for it.

        Raises:
            UsageError: The function can't be imported, or the pool was closed.
        """
        with self._lock, self._clean_slate_on_error():
            self._hire(1)
            while not any(worker.ready for worker in self._staff):
                self._attend(Shift(()))
                self._hire(1)

    def close(self) -> None:
        """End all workers, and a `run` under way in another thread; may be called twice."""
        self._closed = True
        for worker in list(self._staff):
            worker.kill()
        with self._lock:
            _dismiss_all(self._staff)

    @contextlib.contextmanager
    def _clean_slate_on_error(self) -> Iterator[None]:
        """Keep no worker of which it is not known what it does, Ctrl-C included."""
        try:
            yield
        except BaseException:
            _dismiss_all(self._staff)
            raise

    def _hire(self, wanted: int) -> None:
        """Start workers until there are as many as wanted; they say when they are ready."""
        while len(self._staff) < wanted and not self._closed:
            if time.monotonic() < self._rest_until:
                break
            try:
                with _FORKS:
                    self._staff.append(started(self._arguments, self._start))
            except OSError as error:  # no process or no memory to be had
                self._came_to_nothing(self._start, str(error))
        if self._closed:  # looked at last: who closes it may have missed one that was just started
            raise UsageError(f"the pool of {self.name} was closed: nothing more can be run by it.")

    def _attend(self, shift: Shift) -> None:
        """Wait until a worker says something or is late, and see to it.

        A worker is late only where its time had passed before we looked whether it has answered:
        however long we were kept from looking, an answer that is there counts.
        """
        looked = time.monotonic()
        limits = {worker: self._limit(worker) for worker in self._staff if not worker.idle}
        poll, owner = select.poll(), dict[int, Worker]()
        for worker in self._staff:
            items, answers, complaints = worker.pipes
            owner |= dict.fromkeys(worker.pipes, worker)
            poll.register(answers, select.POLLIN)
            if worker.complains:
                poll.register(complaints, select.POLLIN)
            if worker.outgoing:
                poll.register(items, select.POLLOUT)
        wait = max(0.0, min([looked + LOOK_SECONDS, *limits.values()]) - looked)
        for pipe, _ in poll.poll(math.ceil(1000 * wait)):
            worker = owner[pipe]
            if worker in self._staff:
                self._serve(worker, worker.pipes.index(pipe), shift)
        for worker, limit in limits.items():
            if limit <= looked and worker in self._staff and not worker.idle:
                self._end_late(worker, shift)

    def _limit(self, worker: Worker) -> float:
        """When a worker is late, by the monotonic clock."""
        most = self.deadline_seconds if worker.ready else ready_seconds(worker.start)
        return worker.since + most

    def _serve(self, worker: Worker, pipe: int, shift: Shift) -> None:
        """Move what one pipe of a worker has ready."""
        if pipe == 0:
            worker.write()
        elif pipe == 2:
            worker.listen()
        elif not worker.read():
            self._end_lost(worker, shift)
        elif worker.incoming.endswith(b"\n"):
            self._hear(worker, shift)

    def _hear(self, worker: Worker, shift: Shift) -> None:
        """Note what a worker says in a whole line."""
        said = worker.said()
        if not worker.ready:
            if said == ["ready"]:
                worker.ready, self._proven, self._start = True, True, 1
                return
            self._dismiss(worker)
            reason = str(said[-1]) if said else "it said no sense"
            self._came_to_nothing(worker.start, reason, worker.last_words())
            return
        if len(said) != 2 or said[0] != worker.item:
            self._end_lost(worker, shift)  # something else wrote where only we should
            return
        position, (seconds, failure, value) = said
        if seconds > self.deadline_seconds:
            done = self._late(seconds)
        elif failure:
            done = Done(None, cast(Failure, failure), value, seconds)
        else:
            done = Done(value, seconds=seconds)
        shift.done[position], worker.item = done, None

    def _late(self, seconds: float) -> Done:
        reason = f"took longer than {self.deadline_seconds:g} seconds"
        return Done(None, "deadline", reason, seconds)

    def _end_late(self, worker: Worker, shift: Shift) -> None:
        """Kill a worker that took too long.

        One that had died before is lost and not late: a copy of it may keep its pipes open.
        """
        self._dismiss(worker)
        if worker.process.returncode not in (None, -signal.SIGKILL):
            self._lose(worker, shift)
        elif worker.item is not None:
            shift.done[worker.item] = self._late(time.monotonic() - worker.since)
        else:
            late = f"not ready after {ready_seconds(worker.start):g} seconds"
            reason = f"{late}: the import hangs, or other work keeps the machine busy"
            self._came_to_nothing(worker.start, reason, worker.last_words())

    def _end_lost(self, worker: Worker, shift: Shift) -> None:
        """See to the end of a worker that ended, or that can't be understood."""
        self._dismiss(worker)
        self._lose(worker, shift)

    def _lose(self, worker: Worker, shift: Shift) -> None:
        """Give the item of a worker that is gone to another, once."""
        if not worker.ready:
            self._came_to_nothing(worker.start, f"it {worker.end}")
        if worker.item is None:
            return
        shift.tries[worker.item] += 1
        if shift.tries[worker.item] < TRIES:
            shift.waiting.appendleft(worker.item)
        else:
            seconds = time.monotonic() - worker.since
            shift.done[worker.item] = Done(None, "died", f"the worker {worker.end}", seconds)

    def _dismiss(self, worker: Worker) -> None:
        """End a worker for good; another takes its place where one is needed."""
        _end(worker, self._staff)

    def _came_to_nothing(self, start: int, reason: str, last_words: str = "") -> None:
        """Let the next worker start later and take longer, or give up.

        Args:
            start: Which one in a row this start was.
            reason: Why there is no worker now.
            last_words: Of the worker, where the reason lacks them.

        Raises:
            UsageError: It was the first worker, or the last that is tried and none is left.
        """
        if self._closed:
            return
        reason += f". Its last words: {last_words}" if last_words else ""
        left = any(worker.ready for worker in self._staff)
        if not self._proven or (start >= STARTS_MOST and not left):
            raise UsageError(
                f"no worker for {self.name} could be started: {reason}. Check that the module can "
                f"be imported and has this function, and that it needs no more than "
                f"{self._arguments[2]} MiB."
            )
        self._start = max(self._start, min(start + 1, STARTS_MOST))
        self._rest_until = time.monotonic() + PAUSE_SECONDS * 2 ** (start - 1)
        more = f"The next one gets {ready_seconds(self._start):g} seconds"
        self._say(f"a worker for {self.name} could not be replaced: {reason}. {more}.")


def ready_seconds(start: int) -> float:
    """Longest that a worker may take to be ready, where `start` - 1 before it came to nothing."""
    return float(READY_SECONDS_MOST * 2 ** (start - 1))


def _dismiss_all(staff: list[Worker]) -> None:
    for worker in list(staff):
        _end(worker, staff)


def _end(worker: Worker, staff: list[Worker]) -> None:
    """End a worker, which is on the list until it has ended, whatever comes between."""
    worker.dismiss()
    with contextlib.suppress(ValueError):  # another thread was faster
        staff.remove(worker)


def _forget_all() -> None:
    """In a fork of this process: the workers are the parent's."""
    for pool in list(_POOLS):
        for worker in pool._staff:
            worker.process.returncode = 0  # not ours to wait for
            worker.close()
        pool._staff.clear()
        pool._lock = threading.Lock()
    _FORKS.release()


_POOLS: "weakref.WeakSet[Pool]" = weakref.WeakSet()
_FORKS = threading.RLock()
"""Held while a worker is started: a fork by another thread would keep its pipes open unseen."""
os.register_at_fork(
    before=_FORKS.acquire, after_in_parent=_FORKS.release, after_in_child=_forget_all
)

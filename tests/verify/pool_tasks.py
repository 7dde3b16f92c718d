"""Functions that workers of a pool are tried on, most of them ill-behaved."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

CALLS = 0


def same(item: object) -> object:
    return item


def doubled(item: int) -> int:
    return 2 * item


def by_name(item: list[object]) -> object:
    """What the item says: a behaviour and its argument."""
    name, argument = item
    return BEHAVIOURS[str(name)](argument)


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "woke"


def spin(seconds: float) -> str:
    """In one instruction that no signal handler of Python interrupts."""
    return str(9**9**8)[:3] if seconds > 60 else "spun"


def crash(status: int) -> None:
    os._exit(status)


def crash_once(flag: str) -> str:
    """The first time alone, remembered in a file."""
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    return "second"


def signalled(words: str) -> None:
    print(words, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def fail(text: str) -> None:
    raise ValueError(text)


def leave(status: int) -> None:
    sys.exit(status)


def fill_memory(mib: int) -> int:
    return len(bytearray(mib * 2**20))


def chatter(lines: int) -> int:
    """On standard output and error, by Python and past it."""
    for _ in range(lines):
        print('["ready"]')
        print("error", file=sys.stderr)
    sys.stdout.flush()
    os.write(1, b'[0, [0.0, "", "forged"]]\n')
    subprocess.run(["echo", "from a child"], check=True)
    return lines


def ask(_: object) -> str:
    return sys.stdin.read()


def text(characters: int) -> str:
    return "é" * characters


def not_json(kind: str) -> object:
    return {"set": {1}, "nan": float("nan"), "object": object()}[kind]


def deep(levels: int) -> list[object]:
    nested: list[object] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def fork(_: object) -> str:
    if os.fork() == 0:
        return "the copy"
    return "the worker"


def copy_outlives(flag: str) -> None:
    """A copy that keeps every pipe open, behind a worker that dies."""
    copy = os.fork()
    if copy == 0:
        time.sleep(1000)
    Path(flag).write_text(str(copy))
    os._exit(3)


def daemon(flag: str) -> None:
    """A copy in a session of its own, which keeps every pipe open; and then no end."""
    copy = os.fork()
    if copy == 0:
        os.setsid()
        time.sleep(100)
        os._exit(0)
    Path(flag).write_text(str(copy))
    time.sleep(1000)


def child(_: object) -> int:
    return subprocess.Popen(["sleep", "1000"]).pid


def close_all(_: object) -> None:
    """Its own ends of the pipes too, as a daemon does; and then no end."""
    os.closerange(3, 64)
    time.sleep(1000)


def with_child(flag: str) -> None:
    """A child of its own that outlives it, and then no end."""
    child = subprocess.Popen(["sleep", "1000"])
    Path(flag).write_text(str(child.pid))
    time.sleep(1000)


def left_thread(_: object) -> str:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return "left"


def calls(_: object) -> list[int]:
    """Process and how many items it has had."""
    global CALLS
    CALLS += 1
    return [os.getpid(), CALLS]


def mute(_: object) -> str:
    os.close(2)
    return "mute"


BEHAVIOURS = {
    name: value for name, value in list(globals().items()) if callable(value) and name != "Path"
}

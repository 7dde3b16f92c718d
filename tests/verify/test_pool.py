"""The pool of workers: order, deadlines, crashes, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr.errors import UsageError
from rlvr.verify import pool as pool_module
from rlvr.verify import process as process_module
from rlvr.verify import worker as worker_module
from rlvr.verify.pool import Done, Pool

HERE = str(Path(__file__).parent)


def pool(
    function: str = "by_name", workers: int = 2, seconds: float = 10.0, mib: int = 512
) -> Pool:
    return Pool(
        f"pool_tasks:{function}",
        workers=workers,
        deadline_seconds=seconds,
        memory_mib=mib,
        path=[HERE],
    )


@pytest.fixture(scope="module")
def shared() -> Iterator[Pool]:
    with pool() as made:
        yield made


def short(done: Done) -> tuple[object, str]:
    return done.value, done.failure


def alive(number: int) -> bool:
    """Whether there is such a process, a dead one that nobody waited for not counted."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def gone(number: int, seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while alive(number) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(number)


def wait_for(come: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not come():
        assert time.monotonic() < until, f"it has not come in {seconds:g} seconds"
        time.sleep(0.01)


def workers_of(made: Pool) -> list[int]:
    return [worker.process.pid for worker in made._staff]


def test_results_come_in_the_order_of_the_items_whoever_is_first(shared: Pool) -> None:
    items = [["sleep", 0.2], ["same", 1], ["same", {"a": [None, True]}], ["sleep", 0.0]]
    assert [d.value for d in shared.run(items)] == ["woke", 1, {"a": [None, True]}, "woke"]
    assert shared.run([]) == []


def test_text_of_any_kind_comes_back_as_it_was(shared: Pool) -> None:
    items = ["", "é\n\r\u2028\x00", "\ud800", "🙂", '"\\', "a\nb"]
    assert [d.value for d in shared.run([["same", item] for item in items])] == items


@pytest.mark.parametrize("behaviour", ["sleep", "spin"])
def test_a_hang_costs_its_deadline_and_nothing_else(behaviour: str) -> None:
    """BC-52: also inside one instruction, where no exception can be raised."""
    with pool(seconds=0.5) as made:
        began = time.monotonic()
        found = made.run([["same", 0], [behaviour, 100], *(["same", n] for n in range(20))])
        assert time.monotonic() - began < 30
        assert short(found[1]) == (None, "deadline")
        assert "0.5 seconds" in found[1].reason
        assert found[1].seconds >= 0.5
        assert [d.value for d in (found[0], *found[2:])] == [0, *range(20)]
        assert short(made.run([["same", 1]])[0]) == (1, "")


def test_a_crash_is_told_apart_and_costs_its_own_item_alone(shared: Pool) -> None:
    found = shared.run([["same", 1], ["crash", 3], ["same", 2], ["fail", "no"], ["leave", 0]])
    assert [short(d) for d in found] == [
        (1, ""), (None, "died"), (2, ""), (None, "raised"), (None, "raised")
    ]  # fmt: skip
    assert "(3)" in found[1].reason
    assert "ValueError: no" in found[3].reason
    assert "pool_tasks.py" in found[3].reason
    assert "SystemExit" in found[4].reason


def test_an_item_whose_worker_died_is_tried_once_more(shared: Pool, tmp_path: Path) -> None:
    found = shared.run([["crash_once", str(tmp_path / "flag")]])
    assert short(found[0]) == ("second", "")


def test_what_ended_a_worker_is_said_with_its_last_words() -> None:
    with pool() as made:
        by_signal, by_itself = made.run([["signalled", "farewell"], ["crash", 9]])
    assert by_signal.reason == "the worker was ended by SIGSEGV; its last words: farewell"
    assert by_itself.reason == "the worker ended (9)"


def test_memory_is_bounded_and_the_worker_goes_on(shared: Pool) -> None:
    found = shared.run([["fill_memory", 4096], ["fill_memory", 1]])
    assert short(found[0]) == (None, "raised")
    assert "MemoryError" in found[0].reason
    assert found[1].value == 2**20


def test_large_items_and_answers_pass_both_ways_at_once() -> None:
    """More than pipes hold: no side waits for the other."""
    large = "x" * 8_000_000
    with pool("same", workers=2) as made:
        found = made.run([large, large + "y", large])
        assert [len(str(d.value)) for d in found] == [8_000_000, 8_000_001, 8_000_000]


def test_an_answer_too_large_is_refused_and_not_read(shared: Pool) -> None:
    done = shared.run([["text", 12_000_000]])[0]
    assert short(done) == (None, "not json")
    assert "at most" in done.reason


def test_prints_and_reads_of_the_function_disturb_nothing(shared: Pool) -> None:
    found = shared.run([["chatter", 20_000], ["ask", None], ["chatter", 1]])
    assert [d.value for d in found] == [20_000, "", 1]


@pytest.mark.parametrize("kind", ["set", "nan", "object"])
def test_what_is_no_json_is_said(shared: Pool, kind: str) -> None:
    done = shared.run([["not_json", kind]])[0]
    assert short(done) == (None, "not json")
    assert "JSON" in done.reason


def test_nesting_without_end_fails_and_harms_nobody(shared: Pool) -> None:
    deep, other = shared.run([["deep", 100_000], ["same", 1]])
    assert deep.failure in ("not json", "died", "raised")
    assert other.value == 1


def test_the_deadline_counts_work_and_not_the_wait() -> None:
    """BC-53: 1,000 items for 2 workers, together longer than the deadline, as without any load."""
    items = [["sleep", 0.002] if n % 2 else ["same", n] for n in range(1000)]
    with pool(seconds=0.5) as made:
        began = time.monotonic()
        found = made.run(items)
        took = time.monotonic() - began
    assert took > 0.5, "else this shows nothing"
    assert [short(d) for d in found] == [("woke" if n % 2 else n, "") for n in range(1000)]


@pytest.mark.parametrize("busy_in", ["_attend", "_serve"])
def test_an_answer_that_is_there_counts_however_late_we_look(
    monkeypatch: pytest.MonkeyPatch, busy_in: str
) -> None:
    """A parent that was kept busy for longer than the deadline loses no answer."""
    with pool(workers=2, seconds=0.4) as made:
        made.run([["same", 1], ["sleep", 0.1]])
        at_once = getattr(made, busy_in)

        def late(*arguments: object) -> None:
            if busy_in == "_attend":
                time.sleep(0.6)
            at_once(*arguments)
            if busy_in == "_serve":
                time.sleep(0.6)

        monkeypatch.setattr(made, busy_in, late)
        found = made.run([["same", 1], ["sleep", 0.1], ["sleep", 0.1]])
        assert [d.value for d in found] == [1, "woke", "woke"]


def test_threads_take_turns_and_get_their_own_results(shared: Pool) -> None:
    found: dict[int, list[Done]] = {}

    def ask(number: int) -> None:
        found[number] = shared.run([["same", [number, n]] for n in range(50)])

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    for number in range(8):
        assert [d.value for d in found[number]] == [[number, n] for n in range(50)]


def test_workers_outlive_the_thread_that_started_them() -> None:
    with pool("calls", workers=1) as made:
        thread = threading.Thread(target=made.run, args=([0],), daemon=True)
        thread.start()
        thread.join(timeout=60)
        assert made.run([0])[0].value == [workers_of(made)[0], 2]


def test_workers_are_started_when_needed_and_not_more_than_that() -> None:
    with pool("doubled", workers=8) as made:
        assert workers_of(made) == []
        made.run([1])
        assert len(workers_of(made)) == 1
        made.run([1, 2, 3])
        assert len(workers_of(made)) <= 3


def test_closed_twice_is_closed_and_says_so() -> None:
    made = pool("doubled")
    made.run([1])
    numbers = workers_of(made)
    made.close()
    made.close()
    assert all(gone(number) for number in numbers)
    with pytest.raises(UsageError, match="was closed"):
        made.run([1])


def test_closing_ends_a_run_of_another_thread() -> None:
    made = pool("sleep", seconds=100)
    caught: list[BaseException] = []

    def work() -> None:
        try:
            made.run([50.0, 50.0])
        except UsageError as error:
            caught.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    wait_for(lambda: [worker.item is not None for worker in list(made._staff)] == [True, True])
    made.close()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert "was closed" in str(caught[0])


def test_closing_ends_a_run_whose_pipes_another_process_keeps_open(tmp_path: Path) -> None:
    flag, made = tmp_path / "copy", pool("daemon", workers=1, seconds=50.0)

    def work() -> None:
        with pytest.raises(UsageError, match="was closed"):
            made.run([str(flag)])

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        wait_for(lambda: flag.is_file() and flag.read_text() != "")
        began = time.monotonic()
        made.close()
        assert time.monotonic() - began < 20
        thread.join(timeout=60)
        assert not thread.is_alive()
    finally:
        os.kill(int(flag.read_text()), signal.SIGKILL)


def test_ctrl_c_while_a_worker_is_being_ended_loses_sight_of_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, calls = process_module.Worker.dismiss, list[int]()

    def interrupted(worker: process_module.Worker) -> None:
        calls.append(worker.process.pid)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(worker)

    monkeypatch.setattr(process_module.Worker, "dismiss", interrupted)
    with pool(workers=1, seconds=0.5) as made, pytest.raises(KeyboardInterrupt):
        made.run([["sleep", 1000]])
    assert calls[0] in calls[1:]
    assert made._staff == []
    assert gone(calls[0])


def test_what_a_function_started_ends_with_it(tmp_path: Path) -> None:
    flag = tmp_path / "child"
    with pool("with_child", workers=1, seconds=1.0) as made:
        assert made.run([str(flag)])[0].failure == "deadline"
    assert gone(int(flag.read_text()))


def test_a_worker_that_died_is_not_late_where_a_copy_of_it_keeps_its_pipes_open(
    tmp_path: Path,
) -> None:
    flag = tmp_path / "copy"
    with pool(workers=1, seconds=1.0) as made:
        died, other = made.run([["copy_outlives", str(flag)], ["same", 1]])
    assert (short(died), short(other)) == ((None, "died"), (1, ""))
    assert "(3)" in died.reason
    assert gone(int(flag.read_text()))


def test_a_worker_that_closes_its_pipes_and_lives_is_ended() -> None:
    with pool(workers=1, seconds=100.0) as made:
        began = time.monotonic()
        closed, other = made.run([["close_all", 0], ["same", 1]])
        assert time.monotonic() - began < 60
    assert (short(closed), short(other)) == ((None, "died"), (1, ""))


def test_a_function_may_fork_leave_threads_or_close_its_errors(shared: Pool) -> None:
    for behaviour, value in [("fork", "the worker"), ("left_thread", "left"), ("mute", "mute")]:
        with pool() as made:
            assert made.run([[behaviour, 0], ["same", 1]])[0].value == value
            assert [d.value for d in made.run([["same", n] for n in range(9)])] == list(range(9))


def test_a_worker_that_died_idle_is_replaced() -> None:
    with pool("doubled", workers=1) as made:
        made.run([1])
        first = workers_of(made)[0]
        os.kill(first, signal.SIGKILL)
        time.sleep(0.1)
        assert short(made.run([2])[0]) == (4, "")
        assert workers_of(made) != [first]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("pool_tasks:no_such_function", "no function 'no_such_function'"),
        ("pool_tasks:CALLS", "no function 'CALLS'"),
        ("pool_tasks", "no function ''"),
        ("broken:f", "ZeroDivisionError"),
        ("leaver:f", "SystemExit"),
        ("crasher:f", "farewell"),
    ],
)
def test_a_function_that_cant_be_had_is_said_at_once(task: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaver.py").write_text("raise SystemExit(0)")
    (tmp_path / "crasher.py").write_text("import os; print('farewell', flush=True); os._exit(7)")
    folders = [HERE, str(tmp_path)]
    made = Pool(task, workers=2, deadline_seconds=1.0, path=folders)
    for begin in (made.start, lambda: made.run([1])):
        with pytest.raises(UsageError, match="could be started") as caught:
            begin()
        assert words in str(caught.value)
        assert task in str(caught.value)
    assert made._staff == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "ImportError: there is no file {path}. Check"),
        ("import nosuch_module", "No module named 'nosuch_module' ({path}, line 1). Check"),
        (
            "def score(problem, text):\n  1\n 2",
            "any outer indentation level ({path}, line 3). Check",
        ),
        ("def score(text): 1", "it must be def score(problem, text). Check"),
        ("other = 1", "{path} has no function 'score'. It has: none. Check"),
    ],
)
def test_a_function_that_does_not_load_is_told_in_one_line_that_names_no_file_of_ours(
    text: str | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    task = f"rlvr.verify.own:judge_of:{path}:score"
    made = Pool(task, workers=1, deadline_seconds=1.0, name="mine.py:score")
    with pytest.raises(UsageError) as caught:
        made.start()
    assert says.format(path=path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_import_that_takes_longer_than_a_deadline_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(0.6)\ndef f(x): return x\n")
    with Pool("slow:f", workers=1, deadline_seconds=0.2, path=[str(tmp_path)]) as made:
        assert made.run([1])[0].value == 1
    monkeypatch.setattr("rlvr.verify.pool.READY_SECONDS_MOST", 0.2)
    with (
        Pool("slow:f", workers=1, deadline_seconds=0.2, path=[str(tmp_path)]) as made,
        pytest.raises(UsageError, match=r"not ready after .* busy"),
    ):
        made.start()


FLAKY = """
import os, sys, time
from pathlib import Path

starts = Path(__file__).with_name("starts")
starts.open("a").write(f"{os.getpid()}\\n")
count = len(starts.read_text().split())
if __BAD__:
    __FATE__

def f(item):
    if item == "die":
        os._exit(1)
    time.sleep(0.05)
    return item
"""


def flaky(
    folder: Path, bad: str, fate: str, monkeypatch: pytest.MonkeyPatch, workers: int = 1
) -> tuple[Pool, list[str]]:
    """A pool whose starts have a fate, and what it says of them."""
    (folder / "flaky.py").write_text(FLAKY.replace("__BAD__", bad).replace("__FATE__", fate))
    monkeypatch.setattr(pool_module, "PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(pool_module, "STARTS_MOST", 3)
    said = list[str]()
    made = Pool(
        "flaky:f",
        workers=workers,
        deadline_seconds=5.0,
        path=[str(folder)],
        name="mine",
        say=said.append,
    )
    return made, said


@pytest.mark.parametrize(
    ("fate", "says"),
    [
        ("time.sleep(1000)", "not ready after 3 seconds: the import hangs"),
        ("raise MemoryError('by hand')", "MemoryError: by hand"),
        ("os._exit(7)", "it ended (7)"),
    ],
)
def test_a_replacement_that_does_not_get_ready_is_tried_anew_and_ends_no_run(
    fate: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, said = flaky(tmp_path, "count == 2", fate, monkeypatch)
    with made:
        made.start()
        monkeypatch.setattr(pool_module, "READY_SECONDS_MOST", 3.0)
        assert [short(d) for d in made.run(["die", 1, 2])] == [(None, "died"), (1, ""), (2, "")]
        assert [short(d) for d in made.run(["die", 1])] == [(None, "died"), (1, "")]
    assert len(said) == 1
    assert f"a worker for mine could not be replaced: {says}" in said[0]
    assert said[0].endswith("The next one gets 6 seconds.")
    assert all(gone(int(number)) for number in (tmp_path / "starts").read_text().split())


def test_only_so_many_starts_in_a_row_come_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, said = flaky(tmp_path, "count > 1", "raise OSError('by hand')", monkeypatch)
    with made, pytest.raises(UsageError, match="no worker for mine could be started: OSError"):
        made.run([0, "die", 1])
    assert len((tmp_path / "starts").read_text().split()) == 1 + 3
    assert len(said) == 2
    assert made._staff == []


def test_where_another_worker_is_left_the_run_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, said = flaky(tmp_path, "count > 1", "os._exit(7)", monkeypatch, workers=2)
    monkeypatch.setattr(pool_module, "STARTS_MOST", 1)
    with made:
        made.start()
        wait_for(lambda: [d.value for d in made.run([1, 2])] == [1, 2] and len(said) == 2)


def test_no_process_to_be_had_for_a_moment_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, said = flaky(tmp_path, "False", "pass", monkeypatch)
    real, calls = process_module.started, list[int]()

    def scarce(arguments: list[str], start: int) -> process_module.Worker:
        calls.append(start)
        if len(calls) in (2, 3):
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real(arguments, start)

    monkeypatch.setattr(pool_module, "started", scarce)
    with made:
        assert [short(d) for d in made.run([0, "die", 1])] == [(0, ""), (None, "died"), (1, "")]
    assert calls[:4] == [1, 1, 2, 3]
    assert [line.count("temporarily unavailable") for line in said] == [1, 1]


def test_a_worker_ends_by_itself_only_after_all_that_a_pool_may_wait_for_it() -> None:
    assert pool_module.ready_seconds(pool_module.STARTS_MOST) < worker_module.IMPORT_SECONDS_MOST


def test_an_item_that_is_no_json_leaves_the_pool_usable(shared: Pool) -> None:
    with pytest.raises(TypeError):
        shared.run([["same", 1], ["same", {1}]])
    assert shared.run([["same", 1]])[0].value == 1


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"seconds": 0.0}, {"seconds": float("inf")}, {"mib": 0}]
)
def test_a_pool_that_cant_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="can't work"):
        pool(**wrong)  # type: ignore[arg-type]


def python(code: str, status: int = 0) -> str:
    """What a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": str(process_module.SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def test_a_worker_brings_neither_torch_nor_anything_else_heavy() -> None:
    code = "import rlvr.verify.worker, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert python(code).split() == ["False", "False"]


PROGRAM = """
    import os, signal, sys, threading, time
    from rlvr.verify.pool import Pool
    pool = Pool("pool_tasks:by_name", workers=2, deadline_seconds=300, path=[{here!r}])
    pool.run([["sleep", 0.2], ["sleep", 0.2]])
    def say():
        print(*[worker.process.pid for worker in pool._staff], flush=True)
"""


def program(ending: str) -> subprocess.Popen[str]:
    code = textwrap.dedent(PROGRAM).format(here=HERE) + textwrap.dedent(ending)
    environment = os.environ | {"PYTHONPATH": str(process_module.SOURCE)}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def line_of(running: subprocess.Popen[Any]) -> Any:
    """The next line that it prints; it is ended where none comes."""
    assert running.stdout
    late = threading.Timer(60, running.kill)
    late.start()
    try:
        return running.stdout.readline()
    finally:
        late.cancel()


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("say()", 0),
        ("say(); sys.exit(3)", 3),
        ("say(); os._exit(4)", 4),
        ("say(); 1 / 0", 1),
        (
            "threading.Thread(target=pool.run, args=([['sleep', 100]],), daemon=True).start()\n"
            "time.sleep(0.3); say()",
            0,
        ),
    ],
    ids=["end", "exit", "_exit", "exception", "a run in a daemon thread"],
)
def test_the_end_of_the_program_leaves_no_worker(ending: str, status: int) -> None:
    running = program(ending)
    out, err = running.communicate(timeout=60)
    assert running.returncode == status, err
    numbers = [int(word) for word in out.split()]
    assert numbers
    assert all(gone(number) for number in numbers)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_program_ended_from_outside_while_workers_work_leaves_none(how: signal.Signals) -> None:
    """Ctrl-C ends them at once; where the program itself is killed, they end when they look up."""
    running = program("say(); pool.run([['sleep', 1.0], ['sleep', 1.0]])")
    numbers = [int(word) for word in line_of(running).split()]
    time.sleep(0.2)
    running.send_signal(how)
    running.communicate(timeout=60)
    assert len(numbers) == 2
    assert all(gone(number) for number in numbers)


def test_a_worker_without_a_parent_ends_even_inside_one_instruction() -> None:
    """The kernel ends it, some seconds after its deadline."""
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "rlvr.verify.worker", "pool_tasks:spin", "0.2", "512", HERE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(process_module.SOURCE)},
    )
    assert running.stdin
    assert line_of(running) == b'["ready"]\n'
    running.stdin.write(b"[0, 100]\n")
    running.stdin.flush()
    assert running.wait(timeout=60) == -signal.SIGALRM


def test_a_worker_whose_import_hangs_ends_without_a_parent_too(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import time; time.sleep(50)")
    code = f"""
        from rlvr.verify import worker
        worker.IMPORT_SECONDS_MOST, worker.GRACE_SECONDS = 0.2, 0.0
        worker.main("hangs:f", 1.0, 512, [{str(tmp_path)!r}])
    """
    python(code, status=-signal.SIGALRM)


def test_a_worker_bears_a_bound_on_its_processor_time_below_its_own() -> None:
    code = """
        import resource
        from rlvr.verify import worker
        resource.setrlimit(resource.RLIMIT_CPU, (50, 60))
        worker.end_without_parent(1000.0)
        print(*resource.getrlimit(resource.RLIMIT_CPU))
    """
    assert python(code) == "50 60\n"


def test_a_program_that_was_killed_leaves_nothing_that_a_function_started() -> None:
    running = program("print(pool.run([['child', 0]])[0].value, flush=True); time.sleep(50)")
    number = int(line_of(running))
    running.kill()
    running.communicate(timeout=60)
    assert gone(number)


FORK = """
    signal.alarm(50)
    numbers = [worker.process.pid for worker in pool._staff]
    child = os.fork()
    if child == 0:
        signal.alarm(50)
        found = pool.run([["calls", 0]])[0].value
        pool.close()
        os._exit(found[0] in numbers)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, pool.run([["calls", 0]])[0].value[0] in numbers)
"""


def test_a_fork_of_the_program_leaves_the_workers_to_it() -> None:
    """In a program of its own: a copy of one that has threads may hang."""
    out, err = program(FORK).communicate(timeout=120)
    assert out == "0 True\n", err


FORK_MEANWHILE = """
    from rlvr.verify import pool as module
    real = module.started
    def slow(*arguments):
        worker = real(*arguments)
        time.sleep(1.0)  # its pipes are open, and it is not on the list yet
        return worker
    module.started = slow
    fresh = Pool("pool_tasks:by_name", workers=1, deadline_seconds=50, path=sys.path)
    thread = threading.Thread(target=fresh.run, args=([["sleep", 0]],), daemon=True)
    thread.start()
    time.sleep(0.5)
    signal.alarm(50)
    child = os.fork()
    if child == 0:
        paths = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
        os.write(1, b"%d pipes" % len({path for path in paths if "pipe:" in path}))
        os._exit(0)
    os.waitpid(child, 0)
    thread.join(50)
"""


def test_a_fork_while_a_worker_is_started_holds_none_of_its_pipes() -> None:
    """Else that worker would not see that the program is gone."""
    out, err = program(FORK_MEANWHILE).communicate(timeout=120)
    assert out == "2 pipes", f"those of its standard output and error: {err}"

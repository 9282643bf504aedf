"""The process pool: real processes, real signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from process_tasks import blas_thread_counts
from sparsetoken.support.blas import blas_threads
from sparsetoken.support.errors import InvalidInput, WorkerDied
from sparsetoken.support.processes import Worker, results

PROGRAM = """
import os, sys, time
from sparsetoken.support import processes

def begin(path):
    open(f"{path}/{os.getpid()}", "w").close()

def busy(path):
    begin(path)
    until = time.monotonic() + 60
    while time.monotonic() < until:  # it never waits for anything
        pass

if __name__ == "__main__":
    try:
        if sys.argv[2] == "idle":
            workers = [processes.Worker(), processes.Worker()]
            for worker in workers:
                worker.run(begin, sys.argv[1])
            time.sleep(60)
        elif sys.argv[2] == "exit":
            worker = processes.Worker()
            worker.submit(busy, sys.argv[1])
            time.sleep(1)
            sys.exit()
        else:
            list(processes.results(busy, [[sys.argv[1]] * 4], 2, tries=1))
    except KeyboardInterrupt:
        print("interrupted")
"""


def alive(pid):
    """Running, and not only waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, seconds=20.0):
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, pids))


def begun(folder, count):
    """The processes that have left their number in a folder."""
    until = time.monotonic() + 60
    while len(os.listdir(folder)) < count and time.monotonic() < until:
        time.sleep(0.05)
    pids = [int(name) for name in os.listdir(folder)]
    assert len(pids) == count
    return pids


@pytest.fixture
def program(tmp_path):
    """A program with workers, in a session of its own, and a folder for its workers' numbers."""
    script, folder = tmp_path / "program.py", tmp_path / "pids"
    script.write_text(PROGRAM)
    folder.mkdir()
    started = []

    def start(how):
        started.append(
            subprocess.Popen(
                [sys.executable, str(script), str(folder), how],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        )
        return started[-1], folder

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def square(number):
    return number * number


def refuse(number):
    raise InvalidInput(f"number must be even, got {number}")


def deadly(item):
    """An item is (number, path): a negative number kills, until the path has so many bytes."""
    number, path = item
    if number < 0 and path.stat().st_size < -number:
        with path.open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def collected(function, groups, processes, tries=2):
    return {item: reply for item, reply in results(function, groups, processes, tries)}


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_every_item_is_answered_once(processes):
    groups = [range(7), [], range(7, 9), (number for number in range(9, 20))]
    found = list(results(square, groups, processes, tries=1))
    assert sorted(item for item, _ in found) == list(range(20))
    assert all(reply == (item * item, None) for item, reply in found)
    assert list(results(square, [], processes, tries=1)) == []


def which(item):
    time.sleep(0.01)
    return os.getpid()


def test_groups_stay_in_a_process():
    groups = [[(group, number) for number in range(8)] for group in range(4)]
    found = collected(which, groups, 2)
    by_group = [{found[item].value for item in group} for group in groups]
    assert sum(len(pids) for pids in by_group) <= 5  # the last group may be shared


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_worker_is_replaced_and_its_item_tried_again_then_blamed(tmp_path, processes):
    once, always = tmp_path / "once", tmp_path / "always"
    once.touch(), always.touch()
    items = [(1, once), (-1, once), (2, once), (-99, always), (3, once), (4, once)]
    found = collected(deadly, [items], processes, tries=3)
    assert set(found) == set(items)
    assert always.stat().st_size == 3 and once.stat().st_size == 1
    culprit = found.pop((-99, always))
    assert isinstance(culprit.error, WorkerDied)
    assert str(culprit.error) == "the process that computed it died, 3 times"
    assert all(reply == (item[0], None) for item, reply in found.items())


def test_an_error_is_the_answer_of_its_item():
    found = collected(refuse, [[1, 2]], 2)
    for number, reply in found.items():
        assert isinstance(reply.error, InvalidInput)
        assert str(reply.error) == f"number must be even, got {number}"
        assert "in refuse" in reply.error.__notes__[0]  # where it was raised, over there


class Stubborn(Exception):
    def __init__(self, one, two):
        super().__init__("both are needed")


def stubborn(_):
    raise Stubborn(1, 2)


def local(_):
    return lambda: 1


def leaves(_):
    raise SystemExit(3)


def test_what_cannot_be_sent_is_an_error_of_its_item():
    worker = Worker()
    with pytest.raises(TypeError, match=r"cannot be sent between processes: .*local object"):
        worker.run(lambda: 1)
    with pytest.raises(TypeError, match=r"cannot be sent between processes: .*lambda"):
        worker.run(local, 1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        worker.run(stubborn, 1)
    with pytest.raises(SystemExit):
        worker.run(leaves, 1)
    assert worker.run(square, 3) == 9
    worker.kill()


def test_large_tasks_and_results_pass_each_other():
    """More than a pipe holds, both ways: neither side waits for the other for ever."""
    worker = Worker()
    for _ in range(3):
        worker.submit(bytes.upper, b"x" * 10**7)
    for _ in range(3):
        assert worker.reply(60).value == b"X" * 10**7
    worker.kill()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_one_blas_thread(method):
    with blas_threads(2):
        assert set(blas_thread_counts()) == {2}
        worker = Worker(method)
        assert set(worker.run(blas_thread_counts)) == {1}
        worker.kill()


def test_a_worker_is_stopped_in_the_middle_of_its_work():
    worker = Worker()
    pid = worker.run(os.getpid)
    worker.submit(time.sleep, 60)
    assert worker.reply(0.2) is None and worker.alive
    with pytest.raises(TimeoutError, match=r"within 0\.1 seconds"):
        worker.run(time.sleep, 60, timeout=0.1)
    threading.Timer(0.3, worker.kill).start()  # any thread may
    start = time.monotonic()
    with pytest.raises(WorkerDied):
        worker.reply()
    assert time.monotonic() - start < 30 and gone([pid]) and not worker.alive
    worker.submit(square, 1)
    with pytest.raises(WorkerDied):
        worker.reply()


def test_a_forgotten_worker_ends():
    worker = Worker()
    pid = worker.run(os.getpid)
    del worker
    assert gone([pid])


def slow(number):
    time.sleep(60 * (number > 0))
    return os.getpid()


def test_closing_ends_what_is_under_way():
    begun = results(slow, [[0, 1, 2, 3]], 2, tries=1)
    item, reply = next(begun)
    start = time.monotonic()
    begun.close()
    assert item == 0 and gone([reply.value]) and time.monotonic() - start < 30


@pytest.mark.parametrize("how", ["busy", "idle"])
def test_a_killed_parent_leaves_no_process(program, how):
    process, folder = program(how)
    workers = begun(folder, 2)
    assert all(map(alive, workers))
    process.kill()
    process.wait()  # its pipes are open while a worker lives
    assert gone(workers)


def test_a_parent_that_exits_waits_for_no_worker(program):
    process, folder = program("exit")
    workers = begun(folder, 1)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (0, "") and gone(workers)


def test_a_worker_does_not_hear_ctrl_c():
    worker = Worker()
    pid = worker.run(os.getpid)
    worker.submit(time.sleep, 0.5)
    time.sleep(0.1)
    os.kill(pid, signal.SIGINT)
    assert worker.reply(30) == (None, None)
    worker.kill()


def test_ctrl_c_is_the_parents(program):
    process, folder = program("busy")
    workers = begun(folder, 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, error = process.communicate(timeout=30)
    assert (out, error, process.returncode) == ("interrupted\n", "", 0) and gone(workers)


def test_a_script_that_cannot_start_workers_is_told_why(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from sparsetoken.support import processes\n"
        "processes.START_METHOD = 'spawn'\n"
        "list(processes.results(abs, [[1, 2]], 2, tries=1))\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    last = run.stderr.splitlines()[-1]
    assert run.returncode == 1 and last.startswith(
        "sparsetoken.WorkerDied: worker processes cannot"
    )
    assert "a script keeps its work under 'if __name__" in last

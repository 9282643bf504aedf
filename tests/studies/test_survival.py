"""Sweeps survive: kill −9, dead workers, clusters, a full disk. Real processes, real signals."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import sparsetoken as st
import sweep_study
from clusters import dask_cluster
from sweep_study import same, study

EXAMPLE = Path(__file__).parents[2] / "examples" / "study.toml"
BIN = Path(sys.executable).parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wanted():
    return st.sweep(study())


@pytest.fixture(scope="module")
def wanted_long():
    return st.sweep(study(60))


def start(store, where=0, repeats=6, before=(), **options):
    command = [*before, sys.executable, sweep_study.__file__, store, where, repeats]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, **options)


def finish(process):
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error.decode()


def children(process):
    """Worker processes, oldest first."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--sort", "start_time", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
    )
    return [int(pid) for pid in listed.stdout.split()]


def alive(pid):
    """Running, and not only waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("processes", [0, 2])
def test_kill_9_at_random_moments(wanted_long, tmp_path, processes):
    """15 times or more: every committed row is intact, resuming finishes, no worker is left."""
    path = tmp_path / "runs.sqlite"
    expected = wanted_long.set_index("key").test_error
    rng = np.random.default_rng(processes)
    begun = time.monotonic()
    process = start(path, processes, 60)
    wait_for_rows(path, 1)
    first = time.monotonic() - begun  # how long it takes on this machine, today
    process.kill()
    process.communicate()
    seen = struck = rows = 0
    workers = []
    while struck < 15 or (rows <= 50 and struck < 40):  # more and later where starts are slow
        process = start(path, processes, 60)
        time.sleep(rng.uniform(0.2 * first, first + 0.5 + 0.3 * max(0, struck - 15)))
        if process.poll() is not None:  # it was faster: begin again
            finish(process)
            same(st.sweep(study(60), path), wanted_long)
            path.unlink()
            seen = 0
            continue
        struck += 1
        workers += children(process)
        process.kill()
        process.communicate()
        if path.exists():
            with st.Store(path) as store:
                found = list(store.rows())
            assert len(found) >= seen
            rows, seen = rows + len(found) - seen, len(found)
            for row in found:
                assert row["test_error"] == pytest.approx(expected[row["key"]], rel=1e-9)
    assert rows > 50  # there was something to lose
    deadline = time.monotonic() + 30
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, workers))
    same(st.sweep(study(60), path), wanted_long)


def test_workers_killed_20_times_are_replaced(tmp_path):
    """kill −9 of worker processes while the sweep runs: it goes on by itself.

    A machine may be so fast that a sweep ends before 20: then it ended well, and another begins.
    """
    cells = st.grid(
        length=5, sparsity=1, strength=[2.0, 4.0], classifier=st.Pooled(), ridge=0.01,
        kind="simulation", dim=400, repeats=400,
    )  # fmt: skip
    wanted = st.sweep(cells)
    rng, killed, sweeps = np.random.default_rng(0), 0, 0
    while killed < 20:
        path = tmp_path / f"runs{sweeps}.sqlite"
        process = Fork(lambda path=path: st.sweep(cells, path, 2))
        while killed < 20 and process.poll() is None:
            time.sleep(rng.uniform(0.2, 0.7))
            for worker in children(process)[:1]:  # the one that has lived longest
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    killed += 1
        assert process.wait() == 0
        same(st.sweep(cells, path), wanted)
        sweeps += 1
    assert sweeps < 10  # workers were there to kill


class Fork:
    """A child process of this one that does something."""

    def __init__(self, action):
        self.pid, self.code = os.fork(), None
        if self.pid == 0:
            try:
                action()
                os._exit(0)
            except BaseException as error:
                print(error, file=sys.__stderr__)
                os._exit(1)

    def poll(self, options=os.WNOHANG):
        """Its exit code; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, options)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self):
        return self.poll(0)


def test_two_sweeps_at_once_lose_and_double_nothing(wanted, tmp_path):
    both = [start(tmp_path / "runs.sqlite", 1), start(tmp_path / "runs.sqlite", 0)]
    for process in both:
        finish(process)
    with st.Store(tmp_path / "runs.sqlite") as store:
        assert len(list(store.rows())) == len(wanted)
    same(st.sweep(study(), tmp_path / "runs.sqlite"), wanted)


def test_a_dask_cluster_gives_the_same_table(wanted, tmp_path):
    with dask_cluster(tmp_path) as (address, _):
        finish(start(tmp_path / "runs.sqlite", address))
    same(st.sweep(study(), tmp_path / "runs.sqlite"), wanted)


def test_a_dask_worker_killed_in_the_middle_loses_nothing(wanted_long, tmp_path):
    path = tmp_path / "runs.sqlite"
    with dask_cluster(tmp_path) as (address, (_, first, _)):
        process = start(path, address, 60)
        wait_for_rows(path, 30)
        first.kill()
        finish(process)
        with st.Store(path) as store:
            assert len(list(store.rows())) == len(wanted_long)
    same(st.sweep(study(60), path), wanted_long)


def test_a_dask_scheduler_that_dies_is_one_sentence_and_the_rest_can_be_resumed(
    wanted_long, tmp_path
):
    path = tmp_path / "runs.sqlite"
    with dask_cluster(tmp_path) as (address, (scheduler, *_)):
        process = start(path, address, 60)
        wait_for_rows(path, 5)
        scheduler.kill()
        _, error = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "ExecutorError: the executor broke" in error.decode()
    assert "run the same again to compute the rest" in error.decode()
    same(st.sweep(study(60), path), wanted_long)


def wait_for_rows(path, count):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists():
            with contextlib.suppress(st.StoreError), st.Store(path) as store:
                if len(list(store.rows())) >= count:
                    return
        time.sleep(0.05)
    raise AssertionError(f"no {count} rows")


def test_mpi_gives_the_same_table(wanted, tmp_path):
    finish(start(tmp_path / "runs.sqlite", "mpi", before=[BIN / "mpiexec", "-n", "3"]))
    same(st.sweep(study(), tmp_path / "runs.sqlite"), wanted)


@pytest.mark.parametrize(
    ("before", "where"), [([], ["--dask", "local"]), ([BIN / "mpiexec", "-n", "3"], ["--mpi"])]
)
def test_clusters_from_the_command_line(tmp_path, before, where):
    store = tmp_path / "runs.sqlite"
    command = [*before, BIN / "sparsetoken", "sweep", EXAMPLE, "--store", store, *where]
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    assert out.stdout == f"32 rows in {store}: 32 ok\n"
    command[command.index(EXAMPLE)] = tmp_path / "none.toml"
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert out.returncode != 0 and out.stderr.count("cannot be read") == 1
    assert "Traceback" not in out.stderr


BESIDE_ANOTHER = """
import contextlib, socket, sparsetoken as st
if __name__ == "__main__":
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # somebody else's: as good
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        with st.dask_executor("local", 1) as executor:
            print(executor.submit(abs, -3).result())
"""


def test_a_local_cluster_beside_another_says_nothing_of_ports(tmp_path):
    """Dask's own port, 8787, is taken; a warning is an error here."""
    (tmp_path / "script.py").write_text(BESIDE_ANOTHER)
    command = [sys.executable, "-W", "error::UserWarning", "script.py"]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert out.stdout == "3\n", out.stderr


def unblocked():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_says_how_to_resume(tmp_path, processes):
    study_file, store = tmp_path / "study.toml", tmp_path / "runs.sqlite"
    text = EXAMPLE.read_text().replace("repeats = 3", "repeats = 400")
    study_file.write_text(text)
    command = [BIN / "sparsetoken", "sweep", study_file, "--store", store, "--processes", processes]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=unblocked,
    )
    wait_for_rows(store, 10)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130 and out == ""
    with st.Store(store) as kept:
        rows = len(list(kept.rows()))
    assert error.count("\n") == 1 and "Traceback" not in error
    assert f"interrupted: {rows} of 3208 rows are finished and kept in '{store}'" in error
    assert "run the same again to compute the rest" in error


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_a_full_disk_is_one_sentence_and_the_rest_can_be_resumed(wanted_long, tmp_path):
    path = tmp_path / "runs.sqlite"
    process = start(path, 0, 60, preexec_fn=small_files)
    _, error = process.communicate(timeout=120)
    last = error.decode().splitlines()[-1]
    assert (
        process.returncode == 1 and "StoreError" in last and "rows that are in it are safe" in last
    )
    with st.Store(path) as store:
        found = list(store.rows())
    assert 0 < len(found) < len(wanted_long)
    expected = wanted_long.set_index("key").test_error
    for row in found:
        assert row["test_error"] == pytest.approx(expected[row["key"]], rel=1e-9)
    same(st.sweep(study(60), path), wanted_long)


def test_a_store_deleted_under_way_is_rescued(wanted_long, tmp_path):
    path = tmp_path / "runs.sqlite"
    process = start(path, 0, 60)
    wait_for_rows(path, 20)
    for each in tmp_path.glob("runs.sqlite*"):
        each.unlink()
    _, error = process.communicate(timeout=120)
    last = error.decode().splitlines()[-1]
    rescued = tmp_path / "runs.sqlite.rescued"
    assert process.returncode == 1 and f"all its rows are in '{rescued}'" in last
    with st.Store(rescued) as store:
        assert len(list(store.rows())) > 20
    rescued.rename(path)
    same(st.sweep(study(60), path), wanted_long)

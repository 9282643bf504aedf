r"""Where the work is done: here, in processes, or on any `concurrent.futures.Executor`.

Cells that share a law follow one another, so that a worker builds it once. Of our own processes
each works through one law at a time, and takes from the longest queue when there are fewer laws
than processes. Workers may die (out of memory, a signal): their work is tried again elsewhere, at
most three times, then it is a failed row, and the sweep goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from itertools import islice
from typing import Any, cast

import numpy as np

from sparsetoken.studies.questions import Row, Unit, answer, failed
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput

RETRIES = 3  # as a Dask scheduler has it
_QUEUED = 2  # units under way per process: one runs, one waits for it
_QUEUED_ELSEWHERE = 1024  # with an executor of the user's: enough for a cluster


class ExecutorError(RuntimeError):
    """The executor is gone; rows that were finished are in the store.

    >>> raise ExecutorError("the executor broke: no scheduler at tcp://127.0.0.1:8786")
    Traceback (most recent call last):
        ...
    sparsetoken.studies.execution.ExecutorError: the executor broke: no scheduler at
    tcp://127.0.0.1:8786
    """


def check_executor(executor: object) -> None:
    """Refuse, before anything is done, what is not a place to work at."""
    if executor is None or isinstance(executor, Executor):
        return
    if isinstance(executor, bool) or not isinstance(executor, (int, np.integer)) or executor < 1:
        raise InvalidInput(
            "sweep: executor must be None, a whole number of processes of at least 1, or a "
            f"concurrent.futures.Executor, got {executor!r}"
        )


def answers(units: list[Unit], executor: Executor | int | None) -> Generator[Row]:
    """Rows as they are finished, with a bounded number of units under way.

    `executor` is None (here, one after the other), a number of processes, or any executor.
    """
    laws: dict[Any, deque[Unit]] = {}
    for unit in units:
        laws.setdefault(unit.cell.shares, deque()).append(unit)
    queues = list(laws.values())
    if executor is None:
        yield from map(answer, _in_order(queues))
    elif isinstance(executor, Executor):
        yield from _submitted(_in_order(queues), executor)
    else:
        yield from _in_processes(queues, int(executor))


def _in_order(queues: list[deque[Unit]]) -> Iterator[Unit]:
    return (unit for queue in queues for unit in queue)


def _in_processes(queues: list[deque[Unit]], processes: int) -> Iterator[Row]:
    """Our own processes: one that dies names the unit it was at."""
    fresh = deque(queues)
    lanes = [_Lane() for _ in range(min(processes, sum(map(len, queues))))]
    deaths: Counter[str] = Counter()
    try:
        while True:
            # one for each, then one to wait behind it, but not when others would have nothing
            for depth in range(1, _QUEUED + 1):
                for lane in lanes:
                    left = len(fresh) + sum(len(each.queue) for each in lanes)
                    plenty = depth == 1 or left >= len(lanes)
                    if len(lane.under_way) < depth and plenty:
                        if not lane.queue:
                            others = (each.queue for each in lanes)  # begun, and not empty
                            lane.queue = fresh.popleft() if fresh else max(others, key=len)
                        if lane.queue:
                            lane.submit(lane.queue.popleft())
            waiting = [future for lane in lanes for future in lane.under_way]
            if not waiting:
                return
            wait(waiting, return_when=FIRST_COMPLETED)
            for lane in lanes:
                yield from lane.finished()
                culprit = lane.mourn()
                if culprit is not None:
                    deaths[culprit.key] += 1
                    if deaths[culprit.key] <= RETRIES:
                        lane.queue.appendleft(culprit)
                    else:
                        yield failed(culprit, _died(RETRIES + 1))
    finally:
        for lane in lanes:
            lane.end()


class _Lane:
    """One process, the units it has under way in order, and the queue it takes them from."""

    def __init__(self) -> None:
        self.under_way: dict[Future[Row], Unit] = {}
        self.queue: deque[Unit] = deque()
        self.false_starts = 0
        self._start()

    def _start(self) -> None:
        self.pool = ProcessPoolExecutor(1, initializer=_settle_in)
        self.greeting = self.pool.submit(_greet)

    def submit(self, unit: Unit) -> None:
        try:
            future = self.pool.submit(answer, unit)
        except BrokenExecutor as error:  # noticed here first
            future = Future()
            future.set_exception(error)
        self.under_way[future] = unit

    def finished(self) -> Iterator[Row]:
        for future in list(self.under_way):
            if not future.done() or _broken(future):
                return
            unit = self.under_way.pop(future)
            problem = future.exception()  # such as a unit that cannot be sent
            yield future.result() if problem is None else failed(unit, repr(problem))

    def mourn(self) -> Unit | None:
        """If the process died: a new one, and the unit that was running; the rest goes back.

        A process that died before it greeted blames nobody; one that never starts ends the sweep.
        """
        first = next(iter(self.under_way), None)
        if first is None or not _broken(first):
            return None
        greeted = self.greeting.done() and not _broken(self.greeting)
        self.false_starts = 0 if greeted else self.false_starts + 1
        if self.false_starts > RETRIES:
            raise ExecutorError(
                "worker processes cannot start (a script keeps its work under "
                "'if __name__ == \"__main__\":')"
            )
        self.pool.shutdown()
        blamed, innocent = list(self.under_way.values())[:greeted], self.under_way.values()
        self.queue.extendleft(reversed(list(innocent)[greeted:]))
        self.under_way.clear()
        self._start()
        return blamed[0] if blamed else None

    def end(self) -> None:
        """What is under way is given up: whoever stops does not want to wait for it."""
        if self.under_way:
            for process in list((self.pool._processes or {}).values()):
                process.kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


def _broken(future: Future[Any]) -> bool:
    return future.done() and isinstance(future.exception(), BrokenExecutor)


def _settle_in() -> None:
    """Ctrl-C reaches every process of a terminal: the parent alone answers to it.

    A worker whose parent is killed would wait for work for ever: it leaves with it. Its standard
    error is the real one: that of a progress bar has a lock, which may be locked since the fork.
    """
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _greet() -> None:
    """A worker that answers has started."""


def _died(times: int) -> str:
    return f"the process that computed it died, {times} times"


def _submitted(units: Iterator[Unit], executor: Executor) -> Iterator[Row]:
    """Rows from an executor that looks after its own workers."""
    waiting: dict[Future[Row], Unit] = {}
    try:
        while True:
            for unit in islice(units, _QUEUED_ELSEWHERE - len(waiting)):
                waiting[executor.submit(answer, unit)] = unit
            if not waiting:
                return
            finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in sorted(finished, key=_troubled):  # what is good first
                unit = waiting.pop(future)
                try:
                    row = future.result()
                except _killed_workers() as error:
                    row = failed(unit, _died(error.allowed_failures + 1))
                yield row
    except CancelledError:
        raise ExecutorError("the executor broke: it cancelled its work") from None
    except Exception as error:  # `answer` raises nothing: this is the executor's own
        reason = f"{type(error).__name__}: {error}"
        raise ExecutorError(f"the executor broke: {reason}") from error
    finally:
        for future in waiting:
            future.cancel()


def _troubled(future: Future[Row]) -> bool:
    return future.cancelled() or future.exception() is not None


def _killed_workers() -> Any:
    """What Dask raises for work that killed too many of its workers."""
    dask = sys.modules.get("distributed")
    return dask.KilledWorker if dask else ()


@contextmanager
def dask_executor(address: str, processes: int = 2) -> Iterator[Executor]:
    """A Dask cluster: the scheduler at an address, or "local" for processes on this machine.

    Local workers import the script that starts them: keep its work under `if __name__ ==
    "__main__":`.
    """
    try:
        import distributed
    except ImportError:
        raise InvalidInput("dask needs distributed (pip install 'sparsetoken[dask]')") from None
    if address == "local":
        cluster = distributed.LocalCluster(
            n_workers=whole("sweep", "processes", processes, least=1),
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
        )
        with cluster, distributed.Client(cluster) as client:
            yield client.get_executor(pure=False)
        return
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(
            "dask must be 'local' or the address of a running scheduler such as "
            f"tcp://10.0.0.1:8786, got {address!r} ({_first_line(error)})"
        ) from None
    with client:
        yield client.get_executor(pure=False)


@contextmanager
def mpi_executor() -> Iterator[Executor | None]:
    """All ranks of an MPI job: rank 0 gets the executor, the others work, then get None."""
    try:
        from mpi4py.futures import MPICommExecutor
    except (ImportError, RuntimeError) as error:
        raise InvalidInput(
            "mpi needs mpi4py (pip install 'sparsetoken[mpi]') and an MPI library "
            f"({_first_line(error)})"
        ) from None
    with MPICommExecutor() as executor:
        yield cast("Executor | None", executor)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

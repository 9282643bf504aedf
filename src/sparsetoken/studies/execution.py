r"""Where the work is done: here, in processes, or on any `concurrent.futures.Executor`.

Cells that share a law follow one another, so that a worker builds it once. Of our own processes
each works through one law at a time, and takes from the longest queue when there are fewer laws
than processes. Workers may die (out of memory, a signal): their work is tried again elsewhere, at
most three times, then it is a failed row, and the sweep goes on.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from itertools import chain, islice
from typing import cast

import numpy as np

from sparsetoken.studies.questions import Row, Unit, answer, failed
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput, WorkerDied
from sparsetoken.support.processes import killed_workers, results

TRIES = 4  # of a unit whose process dies, as a Dask scheduler has it
_QUEUED_ELSEWHERE = 1024  # units under way with an executor of the user's: enough for a cluster


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
    laws: dict[Hashable, list[Unit]] = {}
    for unit in units:
        laws.setdefault(unit.cell.shares, []).append(unit)
    queues = list(laws.values())
    if executor is None:
        yield from map(answer, chain.from_iterable(queues))
    elif isinstance(executor, Executor):
        yield from _submitted(chain.from_iterable(queues), executor)
    else:
        yield from _in_processes(queues, int(executor))


def _in_processes(queues: list[list[Unit]], processes: int) -> Iterator[Row]:
    """Our own processes: one that dies names the unit it was at."""
    try:
        for unit, reply in results(answer, queues, processes, TRIES):
            if reply.error is None:
                yield reply.value
            else:  # `answer` raises nothing: its process died, or the unit cannot be sent
                died = isinstance(reply.error, WorkerDied)
                yield failed(unit, str(reply.error) if died else repr(reply.error))
    except WorkerDied as error:
        raise ExecutorError(str(error)) from None


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
                except killed_workers() as error:
                    times = error.allowed_failures + 1
                    row = failed(unit, f"the process that computed it died, {times} times")
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


@contextmanager
def dask_executor(address: str, processes: int = 2) -> Iterator[Executor]:
    """A Dask cluster: the scheduler at an address, or "local" for processes on this machine.

    Local workers import the script that starts them: keep its work under `if __name__ ==
    "__main__":`.

    Parameters
    ----------
    address : str
        "local", or that of a scheduler, such as `tcp://10.0.0.1:8786`.
    processes : int
        Workers of a local cluster, with one thread each.

    Yields
    ------
    Executor
        For `sweep(…, executor=…)`.

    Raises
    ------
    InvalidInput
        No such scheduler, or the extra `dask` is not installed.

    Examples
    --------
    >>> with dask_executor("local") as executor:  # doctest: +SKIP
    ...     table = sweep(cells, executor=executor)
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
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # its port is any that is free
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
    """All ranks of an MPI job: rank 0 gets the executor, the others work, then get None.

    Yields
    ------
    Executor or None
        For `sweep(…, executor=…)` on rank 0; None on the others, when all work is done.

    Raises
    ------
    InvalidInput
        The extra `mpi` or an MPI library is not installed.

    Examples
    --------
    >>> with mpi_executor() as executor:  # doctest: +SKIP
    ...     if executor is not None:
    ...         table = sweep(cells, executor=executor)
    """
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

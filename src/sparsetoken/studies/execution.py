r"""Where the work is done: here, in processes, or on any `concurrent.futures.Executor`.

Processes may die (out of memory, a signal). A pool that broke is replaced; what it had under way is
tried again, each unit in a process of its own, at most three times. What kills three processes is a
failed row, and the sweep goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from itertools import islice

from sparsetoken.model.checks import whole
from sparsetoken.studies.cells import Row, Unit, answer

TRIES = 3
_IN_FLIGHT = 4  # units per process under way
_IN_FLIGHT_ELSEWHERE = 256  # with an executor of the user's: enough for a cluster


def answers(units: list[Unit], executor: Executor | int | None) -> Iterator[Row]:
    """Rows as they are finished, with a bounded number of units under way.

    `executor` is None (here, one after the other), a number of processes, or any executor.
    """
    if executor is None:
        yield from map(answer, units)
    elif isinstance(executor, Executor):
        yield from _submitted(iter(units), executor, _IN_FLIGHT_ELSEWHERE, [])
    else:
        yield from _in_processes(units, whole("sweep", "executor", executor, least=1))


def _in_processes(units: list[Unit], processes: int) -> Iterator[Row]:
    left = iter(units)
    while True:
        lost: list[Unit] = []
        with _pool(processes) as pool:
            try:
                yield from _submitted(left, pool, _IN_FLIGHT * processes, lost)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        if not lost:
            return
        yield from map(_alone, lost)  # one of them may be to blame, the others are not


def _alone(unit: Unit) -> Row:
    """A unit in a process of its own: if that dies, it was this unit's doing, or bad luck."""
    for _ in range(TRIES):
        with _pool(1) as pool:
            try:
                return pool.submit(answer, unit).result()
            except BrokenExecutor:
                continue
    message = f"the process that computed it died, {TRIES} times"
    return Row(unit.key, unit.repeat, unit.cell.parameters(), "failed", message, {}, 0.0)


def _pool(processes: int) -> ProcessPoolExecutor:
    """Ctrl-C reaches every process of a terminal: the parent alone answers to it."""
    ignore = (signal.SIGINT, signal.SIG_IGN)
    return ProcessPoolExecutor(processes, initializer=signal.signal, initargs=ignore)


def _submitted(
    left: Iterator[Unit], executor: Executor, most: int, lost: list[Unit]
) -> Iterator[Row]:
    """Rows from an executor; units under way when it breaks are put into `lost`."""
    waiting: dict[Future[Row], Unit] = {}
    try:
        while True:
            for unit in islice(left, most - len(waiting)):
                try:
                    waiting[executor.submit(answer, unit)] = unit
                except BrokenExecutor:
                    lost.append(unit)
                    break
            if not waiting:
                return
            finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                unit = waiting.pop(future)
                try:
                    row = future.result()
                except BrokenExecutor:
                    lost.append(unit)
                    continue
                yield row
            if lost:
                lost += waiting.values()
                waiting.clear()
                return
    finally:
        for future in waiting:
            future.cancel()

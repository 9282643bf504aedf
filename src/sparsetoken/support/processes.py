r"""Worker processes: one at a time (`Worker`), or several that share work (`results`).

What a worker does:

- it starts by an explicit method: fork on Linux, where it costs milliseconds and inherits all that
  is loaded, else spawn; a server with threads asks for spawn;
- Ctrl-C reaches every process of a terminal: the parent alone answers to it;
- it ends with its parent, in the middle of its work too, however the parent ends (kill -9);
- its work has one BLAS thread, and writes to the real standard output and error: those of a
  progress bar have a lock, which may be locked since the fork;
- it takes tasks in order and answers in order, so if it dies the first task that is not answered
  is the one it died of; a task, a result or an error that cannot be sent is an error of that task;
- it says when it has started: a script without `if __name__ == "__main__":` never gets there;
- whoever stops does not wait for it: it is killed, also when its owner forgets it, or exits.

`results` bounds what is under way, answers as results come, tries again what its process died of,
and keeps tasks that share something (a law) in one process.

Of the libraries, loky (3.7) ends with the first dead worker, names no culprit, and its workers
outlive a parent that is killed. pebble (5.2) replaces dead workers and names the task; but busy
workers outlive the parent, nothing is tried again or bounded, and any worker takes any task, so
that a law would be built in each of them: what is below would be written around it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar, cast

from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import WorkerDied

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
_FALSE_STARTS = 4  # in a row: as many as a sweep tries a row whose process dies

Item = TypeVar("Item")
Value = TypeVar("Value")


class Reply(NamedTuple):
    """What a task gave, or the error it raised."""

    value: Any
    error: BaseException | None = None


def killed_workers() -> Any:
    """What Dask raises for work that killed too many of its workers."""
    dask = sys.modules.get("distributed")
    return dask.KilledWorker if dask else ()


class Worker:
    """One process; tasks are sent with `submit`, and answered in order by `reply`.

    >>> worker = Worker()
    >>> worker.run(max, 2, 5)
    5
    >>> worker.kill()
    """

    def __init__(self, start_method: str | None = None) -> None:
        context: Any = multiprocessing.get_context(start_method or START_METHOD)
        self.started = False
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=_work, args=(far_end,))
        self._process.start()
        far_end.close()
        # called by `kill`, when the worker is forgotten, or at the exit, before children are joined
        self._end = Finalize(self, _end, (self._process,), exitpriority=0)

    @property
    def handles(self) -> tuple[Connection, int]:
        """To wait for: an answer, the process' end."""
        return self._pipe, self._process.sentinel

    @property
    def alive(self) -> bool:
        return not wait([self._process.sentinel], 0.0)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Send a task; it waits behind those that were sent before."""
        with suppress(OSError):  # the process has died: `reply` says so
            self._pipe.send_bytes(_packed((function, arguments)))

    def reply(self, timeout: float | None = None) -> Reply | None:
        """The next answer; None if there is none within `timeout` seconds. WorkerDied if it died.

        A task that is not answered in time goes on, until `kill`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while wait(self.handles, None if end is None else max(0.0, end - time.monotonic())):
            content = None
            with suppress(EOFError, OSError):
                content = self._pipe.recv_bytes() if self._pipe.poll() else None
            if content is None:
                raise WorkerDied("the process that computed it died")
            if content:
                try:
                    return cast(Reply, pickle.loads(content))
                except Exception as error:  # such as an error that cannot be made again here
                    return Reply(None, error)
            self.started = True  # an empty message
        return None

    def result(self, timeout: float | None = None) -> Any:
        """What the next task returned; raises what it raised, WorkerDied or TimeoutError."""
        reply = self.reply(timeout)
        if reply is None:
            raise TimeoutError(f"no answer within {timeout:.3g} seconds")
        if reply.error is not None:
            raise reply.error
        return reply.value

    def run(
        self, function: Callable[..., Value], *arguments: Any, timeout: float | None = None
    ) -> Value:
        """The result of this task, if no other is under way."""
        self.submit(function, *arguments)
        value: Value = self.result(timeout)
        return value

    def kill(self) -> None:
        """End the process, whatever it does; any thread may."""
        self._end()


def _end(process: Any) -> None:
    process.kill()
    process.join()


def _work(pipe: Connection) -> None:
    """In the process: settle in, then one task after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    tasks: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, tasks), daemon=True).start()
    pipe.send_bytes(b"")  # it has started
    while True:
        try:
            function, arguments = pickle.loads(tasks.get())
            if function is None:  # the task could not be sent
                raise arguments
            with one_blas_thread():
                reply = Reply(function(*arguments))
        except BaseException as error:
            error.add_note("In a worker process:\n" + traceback.format_exc())
            reply = Reply(None, error)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # `kill` does not
        pipe.send_bytes(_packed(reply))


def _listen(pipe: Connection, tasks: SimpleQueue[bytes]) -> None:
    """Tasks are read at once, so that the parent never waits to send; its end is ours."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    with suppress(EOFError, OSError):
        while pipe in wait([pipe, parent.sentinel]):
            tasks.put(pipe.recv_bytes())
    os._exit(1)


def _packed(content: tuple[Any, ...]) -> bytes:
    """Pickled; what cannot be pickled is replaced by None and the reason."""
    try:
        return pickle.dumps(content)
    except Exception as error:
        reason = TypeError(f"cannot be sent between processes: {error}")
        return pickle.dumps(Reply(None, reason))


@dataclass
class _Task:
    item: Any
    deaths: int = 0


@dataclass
class _Station:
    """A worker, the tasks it has under way in order, and the queue it takes them from."""

    worker: Worker = field(default_factory=Worker)
    under_way: deque[_Task] = field(default_factory=deque)
    queue: deque[_Task] = field(default_factory=deque)

    def replace_worker(self, tries: int) -> _Task | None:
        """After a death: all is queued again, but a task that now has killed `tries` workers."""
        self.worker.kill()
        culprit = None
        if self.worker.started:
            self.under_way[0].deaths += 1
            if self.under_way[0].deaths == tries:
                culprit = self.under_way.popleft()
        self.queue.extendleft(reversed(self.under_way))
        self.under_way.clear()
        self.worker = Worker()
        return culprit


def results(
    function: Callable[[Item], Any],
    groups: Iterable[Iterable[Item]],
    processes: int,
    tries: int,
) -> Generator[tuple[Item, Reply]]:
    """Items and what the function gave for them, as they are finished; closing it ends all work.

    Items of a group share something: a process works through one group at a time, and takes from
    the longest when there are fewer groups than processes. An item whose process dies `tries` times
    is answered with WorkerDied, and the rest goes on. Processes that cannot start raise it.

    >>> sorted((item, reply.value) for item, reply in results(abs, [[-1, 2], [-3]], 2, tries=1))
    [(-3, 3), (-1, 1), (2, 2)]
    """
    queues = (deque(map(_Task, group)) for group in groups)
    fresh = deque(queue for queue in queues if queue)
    stations = [_Station() for _ in range(min(processes, sum(map(len, fresh))))]
    false_starts = 0
    try:
        while True:
            for station, task in _assignments(stations, fresh):
                station.worker.submit(function, task.item)
                station.under_way.append(task)
            busy = [station for station in stations if station.under_way]
            if not busy:
                return
            wait([handle for station in busy for handle in station.worker.handles])
            for station in busy:
                try:
                    while station.under_way and (reply := station.worker.reply(0.0)) is not None:
                        yield station.under_way.popleft().item, reply
                        false_starts = 0
                except WorkerDied:
                    false_starts += not station.worker.started
                    if false_starts == _FALSE_STARTS:
                        raise WorkerDied(
                            "worker processes cannot start (a script keeps its work under "
                            "'if __name__ == \"__main__\":')"
                        ) from None
                    culprit = station.replace_worker(tries)
                    if culprit is not None:
                        died = f"the process that computed it died, {tries} times"
                        yield culprit.item, Reply(None, WorkerDied(died))
    finally:
        for station in stations:
            station.worker.kill()


def _assignments(
    stations: list[_Station], fresh: deque[deque[_Task]]
) -> Iterator[tuple[_Station, _Task]]:
    """One task for each worker, then one to wait behind it, unless others would have nothing."""
    for depth in (1, 2):
        for station in stations:
            left = len(fresh) + sum(len(other.queue) for other in stations)
            if len(station.under_way) < depth and (depth == 1 or left >= len(stations)):
                if not station.queue:
                    begun = (other.queue for other in stations)
                    station.queue = fresh.popleft() if fresh else max(begun, key=len)
                if station.queue:
                    yield station, station.queue.popleft()

"""`Pool`: a few processes for all pages; the newest wish of a page counts, answers are shared.

All of its state lives in the event loop; a worker's pipe is waited for in a thread of its own.

- A wish is what a page wants to know of one kind. A newer one takes the place of an older one that
  has not begun; whoever waited for that is told `Outdated`.
- Pages that wish for the same work wait for one computation, and what was computed is kept.
- Of what waits, the more urgent comes first, then the page that was served longest ago.
- Long work leaves at least one process to the others, and is ended when nobody waits for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError, WorkerDied
from sparsetoken.support.plugins import PLUGINS, import_plugins
from sparsetoken.support.processes import START_METHOD, Worker

NAMED = (InvalidInput, NoMinimiserError, ConvergenceError)  # told on the page; all else is a bug
_KEPT = 512  # answers


class Outdated(Exception):
    """The page has moved on; nobody waits for this answer."""


@dataclass
class _Job:
    key: Any
    urgency: int
    long: bool
    number: int
    waiters: dict[tuple[str, str], asyncio.Future[Any]] = field(default_factory=dict)
    worker: int | None = None  # the place of the one that has begun


class Pool:
    """Workers for functions of picklable, hashable arguments, asked for by `ask`."""

    def __init__(self, workers: int, gentle: bool = True) -> None:
        self._gentle = gentle
        # a fork takes milliseconds, but a program with threads must not be forked
        method = START_METHOD if threading.active_count() == 1 else "spawn"
        self._workers = [self._started(method) for _ in range(workers)]
        self._threads = ThreadPoolExecutor(workers, "worker")
        self._waiting: dict[Any, _Job] = {}
        self._begun: dict[Any, _Job] = {}
        self._idle = set(range(workers))
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._served: dict[str, int] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        wish: tuple[str, str],
        work: Callable[..., Any],
        *arguments: Any,
        urgency: int = 0,
        long: bool = False,
    ) -> Any:
        """What the work gives for the arguments, or raises; `wish` is the page and the kind."""
        key = work, *arguments
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        self._withdraw(wish, key)
        job = self._begun.get(key) or self._waiting.get(key)
        if job is None:
            self._count += 1
            job = self._waiting[key] = _Job(key, urgency, long, self._count)
        job.urgency = min(job.urgency, urgency)
        waiter = job.waiters.get(wish)
        if waiter is None or waiter.done():
            waiter = job.waiters[wish] = asyncio.get_running_loop().create_future()
        self._begin()
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            if job.waiters.get(wish) is waiter:
                del job.waiters[wish]
                self._abandon(job)
            raise

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _withdraw(self, wish: tuple[str, str], key: Any) -> None:
        """An older wish of the same page and kind that has not begun."""
        for job in list(self._waiting.values()):
            if job.key != key and (waiter := job.waiters.pop(wish, None)) is not None:
                if not waiter.done():
                    waiter.set_exception(Outdated())
                    waiter.exception()  # looked at, whoever waited or not
                self._abandon(job)

    def _abandon(self, job: _Job) -> None:
        """Drop a job that nobody waits for; one that has begun goes on, unless it is long."""
        if job.waiters:
            return
        self._waiting.pop(job.key, None)
        if job.long and job.worker is not None:
            self._workers[job.worker].kill()

    def _begin(self) -> None:
        """Give idle workers what is next."""
        while self._idle and (job := self._next()) is not None:
            del self._waiting[job.key]
            self._begun[job.key] = job
            job.worker = self._idle.pop()
            for page, _ in job.waiters:
                self._served[page] = self._count = self._count + 1
            while len(self._served) > _KEPT:
                del self._served[next(iter(self._served))]
            task = asyncio.get_running_loop().create_task(self._work(job, job.worker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> _Job | None:
        long = sum(job.long for job in self._begun.values())
        room = long < max(1, len(self._workers) - 1)
        ready = [job for job in self._waiting.values() if room or not job.long]
        return min(ready, key=self._rank, default=None)

    def _rank(self, job: _Job) -> tuple[int, int, int]:
        served = min((self._served.get(page, 0) for page, _ in job.waiters), default=0)
        return job.urgency, served, job.number

    async def _work(self, job: _Job, place: int) -> None:
        loop = asyncio.get_running_loop()
        value, error = None, None
        try:
            value = await loop.run_in_executor(self._threads, self._run, place, job.key)
        except asyncio.CancelledError:
            raise
        except Exception as raised:
            error = raised
        self._begun.pop(job.key, None)
        self._idle.add(place)
        if error is None:
            self._kept[job.key] = value
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        for waiter in job.waiters.values():
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(value)
            else:
                waiter.set_exception(error)
                waiter.exception()
        self._begin()

    def _run(self, place: int, key: Any) -> Any:
        """In a thread: by this worker, or another if it has died."""
        if not self._workers[place].alive:
            self._workers[place] = self._started("spawn")
        function, *arguments = key
        try:
            return self._workers[place].run(function, *arguments)
        except WorkerDied:
            self._workers[place].kill()
            raise

    def _started(self, method: str) -> Worker:
        worker = Worker(method)
        if method == "spawn":
            worker.run(import_plugins, PLUGINS)  # first: the states name their classes
        if self._gentle:
            worker.run(_let_others_go_first)
        return worker


def _let_others_go_first() -> None:
    """Drafts and the browser."""
    if hasattr(os, "nice"):
        os.nice(5)

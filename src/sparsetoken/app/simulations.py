"""Simulations in the background: one a page, bounded in number, ended when the page goes away."""

from __future__ import annotations

import multiprocessing
import queue
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparsetoken.app.numbers import Row, classifiers
from sparsetoken.app.state import State
from sparsetoken.app.workers import NAMED, end_with_parent
from sparsetoken.support.errors import InvalidInput

POINTS = (0.5, 1.0, 2.0, 4.0, 8.0)  # readout samples per dimension
_MOST = 2  # simulations at once
_PATIENCE = 10.0  # seconds without a question from the page


@dataclass
class Job:
    """A simulation under way or done: rows of test error, AUC and training loss."""

    state: State
    process: Any
    results: Any
    asked: float
    total: int
    rows: dict[str, list[Row]] = field(default_factory=dict)
    done: int = 0
    message: str = ""

    @property
    def running(self) -> bool:
        return bool(self.process.is_alive())

    def collect(self) -> None:
        while True:
            try:
                kind, content = self.results.get_nowait()
            except (queue.Empty, OSError, EOFError):
                return
            if kind == "error":
                self.message = content
                continue
            self.done += 1
            for metric, row in content.items():
                self.rows.setdefault(metric, []).append(Row(*row))


class Simulations:
    """The jobs of all pages, by the page's name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._context = multiprocessing.get_context("spawn")
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self, page: str, state: State) -> Job:
        """Begin; an older one of the same page is ended. InvalidInput if too many are under way."""
        with self._lock:
            ended = [*self._gone(), self._jobs.pop(page, None)]
            busy = sum(job.running for job in self._jobs.values()) >= _MOST
            if not busy:
                results = self._context.Queue()
                process = self._context.Process(target=_work, args=(state, results), daemon=True)
                total = len(POINTS) * len(classifiers(state)) * state.repeats
                job = Job(state, process, results, time.monotonic(), total)
                process.start()
                self._jobs[page] = job
        _end(ended)
        if busy:
            raise InvalidInput(
                f"{_MOST} simulations are under way on this server already: try again later"
            )
        return job

    def look(self, page: str) -> Job | None:
        """The job of a page, with what it has found; asking keeps it alive."""
        with self._lock:
            job = self._jobs.get(page)
            if job is not None:
                job.asked = time.monotonic()
                job.collect()
            return job

    def cancel(self, page: str) -> None:
        with self._lock:
            job = self._jobs.pop(page, None)
        _end([job])

    def close(self) -> None:
        """End them all."""
        with self._lock:
            jobs = list(self._jobs.values())
            self._jobs.clear()
        _end(jobs)

    def _watch(self) -> None:
        """Ends the simulations of pages that have gone away."""
        while True:
            time.sleep(1.0)
            with self._lock:
                gone = self._gone()
            _end(gone)

    def _gone(self) -> list[Job]:
        """Jobs whose pages ask no more, taken off the list."""
        now = time.monotonic()
        old = [page for page, job in self._jobs.items() if now - job.asked > _PATIENCE]
        return [self._jobs.pop(page) for page in old]


def _end(jobs: Sequence[Job | None]) -> None:
    """Without the lock: a process may take a second to go, and nobody else waits for it."""
    for job in jobs:
        if job is not None:
            if job.running:
                job.process.terminate()
            job.process.join(timeout=2)
            if job.running:  # it does not listen
                job.process.kill()
                job.process.join(timeout=2)
            job.results.close()


def _work(state: State, results: Any) -> None:
    """In a process of its own: one run after another, all classifiers and sizes in turn."""
    from dataclasses import replace

    from sparsetoken.simulation.experiment import simulate
    from sparsetoken.support.blas import one_blas_thread

    end_with_parent()
    try:
        with one_blas_thread():
            for seed in range(state.repeats):
                for samples in POINTS:
                    protocol = replace(state.protocol, readout_samples=samples)
                    for name, classifier in classifiers(state).items():
                        run = simulate(
                            state.task, classifier, protocol, dim=state.dim, repeats=1, seed=seed
                        )
                        found = {"test_error": float(run.test_error[0]),
                                 "train_loss": float(run.train_loss[0]),
                                 "auc": float(run.scores(0).auc)}  # fmt: skip
                        rows = {metric: (name, samples, y) for metric, y in found.items()}
                        results.put(("rows", rows))
    except NAMED as error:
        results.put(("error", str(error)))
    except Exception as error:
        traceback.print_exc()  # on the server's own terminal
        bug = f"a bug of the explorer ({type(error).__name__}: {error}); its log has the traceback"
        results.put(("error", bug))

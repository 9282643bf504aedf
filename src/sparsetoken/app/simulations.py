"""Simulations in the background: one a page, bounded in number, ended when the page goes away."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from itertools import product

from sparsetoken.app.numbers import Row, classifiers
from sparsetoken.app.state import State
from sparsetoken.app.workers import NAMED
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation.experiment import simulate
from sparsetoken.support.errors import InvalidInput, WorkerDied
from sparsetoken.support.processes import Worker

POINTS = (0.5, 1.0, 2.0, 4.0, 8.0)  # readout samples per dimension
_MOST = 2  # simulations at once
_PATIENCE = 10.0  # seconds without a question from the page


class Job:
    """A simulation under way or done: rows of test error, AUC and training loss."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.asked = time.monotonic()
        self.total = len(POINTS) * len(classifiers(state)) * state.repeats
        self.rows: dict[str, list[Row]] = {}
        self.done = 0
        self.message = ""
        self._worker = Worker("spawn")
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def abandoned(self) -> bool:
        """Whether its page has gone away."""
        return time.monotonic() - self.asked > _PATIENCE

    def end(self) -> None:
        self._worker.kill()
        self._thread.join()

    def _collect(self) -> None:
        """One run after another, all classifiers and sizes in turn."""
        state = self.state
        kinds = classifiers(state).items()
        try:
            for seed, samples, (name, kind) in product(range(state.repeats), POINTS, kinds):
                protocol = state.protocol.with_readout_samples(samples)
                scores = self._worker.run(_simulated, state.task, kind, protocol, state.dim, seed)
                for metric, value in scores.items():
                    self.rows.setdefault(metric, []).append(Row(name, samples, value))
                self.done += 1
        except NAMED as error:
            self.message = str(error)
        except WorkerDied as error:
            self.message = f"{error} (killed, or out of memory)"
        except Exception as error:
            traceback.print_exc()  # on the server's own terminal
            bug = f"{type(error).__name__}: {error}"
            self.message = f"a bug of the explorer ({bug}); its log has the traceback"
        finally:
            self._worker.kill()


class Simulations:
    """The jobs of all pages, by the page's name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self, page: str, state: State) -> Job:
        """Begin; an older one of the same page is ended. InvalidInput if too many are under way."""
        with self._lock:
            ended = self._taken(lambda name, job: name == page or job.abandoned)
            busy = sum(job.running for job in self._jobs.values()) >= _MOST
            if not busy:
                started = self._jobs[page] = Job(state)
        for job in ended:
            job.end()
        if busy:
            raise InvalidInput(
                f"{_MOST} simulations are under way on this server already: try again later"
            )
        return started

    def look(self, page: str) -> Job | None:
        """The job of a page; asking keeps it alive."""
        with self._lock:
            job = self._jobs.get(page)
            if job is not None:
                job.asked = time.monotonic()
            return job

    def cancel(self, page: str) -> None:
        self._end(lambda name, job: name == page)

    def close(self) -> None:
        """End them all."""
        self._end(lambda name, job: True)

    def _watch(self) -> None:
        while True:
            time.sleep(1.0)
            self._end(lambda name, job: job.abandoned)

    def _end(self, which: Callable[[str, Job], bool]) -> None:
        """Without the lock: a process may take a moment to go, and nobody else waits for it."""
        with self._lock:
            jobs = self._taken(which)
        for job in jobs:
            job.end()

    def _taken(self, which: Callable[[str, Job], bool]) -> list[Job]:
        """Jobs, taken off the list."""
        pages = [page for page, job in self._jobs.items() if which(page, job)]
        return [self._jobs.pop(page) for page in pages]


def _simulated(
    task: Task, classifier: Classifier, protocol: Protocol, dim: int, seed: int
) -> dict[str, float]:
    """One run, in the worker."""
    run = simulate(task, classifier, protocol, dim=dim, repeats=1, seed=seed)
    return {
        "test_error": float(run.test_error[0]),
        "train_loss": float(run.train_loss[0]),
        "auc": float(run.scores(0).auc),
    }

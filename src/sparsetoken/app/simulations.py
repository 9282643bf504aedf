"""Simulations in the background: a few at a time, run by run, ended when their page goes away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import NamedTuple

from sparsetoken.app.numbers import classifiers
from sparsetoken.app.state import State
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation.experiment import simulate
from sparsetoken.support.plugins import PLUGINS, import_plugins
from sparsetoken.support.processes import Worker

POINTS = (0.5, 1.0, 2.0, 4.0, 8.0)  # readout samples per dimension
_MOST = 2  # simulations at once; others wait


class Dot(NamedTuple):
    """One simulated run."""

    series: str
    x: float
    test_error: float
    auc: float
    train_loss: float


class Simulations:
    """All of a server's."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_MOST)
        self._threads = ThreadPoolExecutor(_MOST, "simulation")
        self._workers: set[Worker] = set()
        self._lock = threading.Lock()

    def total(self, state: State) -> int:
        """Runs of a simulation."""
        return len(POINTS) * len(classifiers(state)) * state.repeats

    async def run(self, state: State) -> AsyncGenerator[Dot, None]:
        """One run after another, all classifiers and sizes in turn; closing it ends the process."""
        loop = asyncio.get_running_loop()
        kinds = classifiers(state).items()
        async with self._turns:
            worker = await loop.run_in_executor(self._threads, self._start)
            try:
                for seed, samples, (name, kind) in product(range(state.repeats), POINTS, kinds):
                    protocol = state.protocol.with_readout_samples(samples)
                    arguments = state.task_of_dim, kind, protocol, state.dim, seed
                    scores = await loop.run_in_executor(
                        self._threads, worker.run, _simulated, *arguments
                    )
                    yield Dot(name, samples, *scores)
            finally:
                with self._lock:
                    self._workers.discard(worker)
                worker.kill()

    def close(self) -> None:
        """End them all."""
        with self._lock:
            for worker in self._workers:
                worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> Worker:
        worker = Worker("spawn")  # the server has threads, which a fork would not
        with self._lock:
            self._workers.add(worker)
        worker.run(import_plugins, PLUGINS)
        return worker


def _simulated(
    task: Task, classifier: Classifier, protocol: Protocol, dim: int, seed: int
) -> tuple[float, float, float]:
    """One run, in the worker: test error, AUC, training loss."""
    run = simulate(task, classifier, protocol, dim=dim, repeats=1, seed=seed)
    return float(run.test_error[0]), float(run.scores(0).auc), float(run.train_loss[0])

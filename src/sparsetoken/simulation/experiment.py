r"""`simulate`: the four-stage protocol at finite size, repeated.

Repeat i of seed s draws from SeedSequence(s, spawn_key=(i,)): its numbers do not depend on how many
repeats there are, on the order they run in, or on the number of processes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.noise import Noise
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation import reduced, tokens
from sparsetoken.simulation.outcome import Outcome, Training
from sparsetoken.simulation.results import Simulation
from sparsetoken.simulation.settings import Learner, Sampler, Settings
from sparsetoken.support.blas import blas_threads
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput, NoMinimiserError, WorkerDied
from sparsetoken.support.processes import results
from sparsetoken.support.progress import progress_bar

_TRIES = 3  # of a repeat whose process dies


def simulate(
    task: Task,
    classifier: Classifier | Learner,
    protocol: Protocol,
    dim: int,
    repeats: int = 8,
    seed: int = 0,
    sampler: Sampler = "reduced",
    device: str | None = None,
    *,
    dtype: str = "float64",
    test_samples: int = 10_000,
    reuse_data: bool = False,
    workers: int = 1,
    threads: int = 1,
    training: Training = "stages",
    noise: Noise | None = None,
    progress: bool = False,
) -> Simulation:
    """Run the four-stage protocol at finite size.

    Parameters
    ----------
    task, classifier, protocol
        What is learned, by what, how. n₀ = query_samples·dim and n₁ = readout_samples·dim samples.
        Or a learner of its own, `MessagePassing()`, from the n₁ samples.
    dim : int
        Embedding dimension d.
    repeats : int
        Independent runs.
    seed : int
        Of all random numbers; the same seed gives the same numbers, repeat by repeat.
    sampler : "reduced" or "tokens"
        Exact in law without tokens, far cheaper; or the plain experiment, streamed in blocks.
    device : str, optional
        None for NumPy; "cuda", "cpu", … for torch (other random numbers, same law).
    dtype : "float64" or "float32"
        float32 halves memory; docs/simulation.md says what it costs in accuracy.
    test_samples : int
        Fresh samples for the test error at token level.
    reuse_data : bool
        Query and readout learn from the same samples (token level only).
    workers : int
        Processes; the numbers do not depend on it.
    threads : int
        BLAS threads of each repeat.
    training : "stages", "joint", "joint from stages" or "joint with free query"
        The protocol; or, on the same samples, all parameters at once by L-BFGS on their gradient,
        from zero or from what the protocol learned, the ridge on readout and query or on the
        readout alone (token level, with reuse_data).
    noise : Noise, optional
        Other noise than the task's Gaussian, such as `NOISES.make("rademacher")` (token level).
    progress : bool
        Show a progress bar.

    Returns
    -------
    Simulation
        Arrays with an entry a repeat (`test_error`, `train_error`, `cosine`, …), `mean` and `sem`
        of each. Interrupting (Ctrl-C) returns the repeats that are finished, with `interrupted`
        set; with none finished the interrupt goes through.

    Raises
    ------
    InvalidInput
        A value that is not allowed, or more memory than the machine has.
    WorkerDied
        A worker process died three times at the same repeat.

    Examples
    --------
    >>> from sparsetoken import Attention
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> run = simulate(task, Attention(), Protocol(), dim=200, repeats=3, seed=1)
    >>> run.cosine.round(2).tolist(), run.mean("test_error") < 0.06
    ([0.95, 0.95, 0.95], True)
    """
    settings = Settings(
        task,
        cast(Classifier, classifier),
        protocol,
        dim,
        seed,
        sampler,
        device,
        dtype,
        test_samples,
        reuse_data,
        threads,
        training,
        noise,
    )
    settings.place  # noqa: B018 (a device that is not there is refused before any work)
    repeats = whole("simulate", "repeats", repeats, least=1)
    workers = whole("simulate", "workers", workers, least=1)
    needed, memory = settings.memory * min(workers, repeats), _memory()
    if device is None and needed > memory:
        raise InvalidInput(
            f"simulate: dim must be small enough for this machine's memory: {settings.sizes[1]} "
            f"readout samples in {settings.dim} dimensions need about {needed / 2**30:.3g} GiB "
            f"with {min(workers, repeats)} at a time, {memory / 2**30:.3g} GiB are there, got "
            f"{settings.dim}"
        )
    if device is not None and workers > 1:
        raise InvalidInput(
            f"simulate: workers must be 1 with a device (they would share it), got {workers}"
        )
    done: dict[int, Outcome] = {}
    interrupted = False
    with progress_bar(repeats, "simulating", progress) as advance:
        try:
            for index, outcome in _outcomes(settings, repeats, min(workers, repeats)):
                done[index] = outcome
                advance()
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
    return Simulation(settings, tuple(done[index] for index in sorted(done)), interrupted)


def _memory() -> float:
    """Bytes of this machine's memory; inf where that cannot be asked."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def run_repeat(settings: Settings, index: int) -> Outcome:
    """One repeat, anywhere: the unit of work that processes and clusters share."""
    seed = np.random.SeedSequence(settings.seed, spawn_key=(index,))
    start = time.perf_counter()
    settings.place  # noqa: B018 (torch, if it is needed, is loaded before its threads are limited)
    with blas_threads(settings.threads):
        try:
            if settings.learner is not None:
                outcome = settings.learner.learn(settings, seed)
            elif settings.sampler == "reduced":
                outcome = reduced.run(settings, seed)
            else:
                outcome = tokens.run(settings, tokens.draw_streams(settings, seed))
        except NoMinimiserError as error:
            outcome = Outcome(status=str(error))
    return replace(outcome, seconds=time.perf_counter() - start)


def is_separable(settings: Settings, index: int) -> bool:
    """Whether a hyperplane classifies all training samples of that repeat (reduced sampler)."""
    seed = np.random.SeedSequence(settings.seed, spawn_key=(index,))
    return reduced.is_separable(settings, seed)


def _outcomes(settings: Settings, repeats: int, workers: int) -> Iterator[tuple[int, Outcome]]:
    if workers == 1:
        for index in range(repeats):
            yield index, run_repeat(settings, index)
        return
    left = repeats
    for index, reply in results(partial(run_repeat, settings), [range(repeats)], workers, _TRIES):
        if isinstance(reply.error, WorkerDied):
            raise WorkerDied(
                f"simulate: processes died {_TRIES} times (killed, or out of memory) at repeat "
                f"{index}, with {left} of {repeats} repeats left; fewer workers need less memory"
            )
        if reply.error is not None:
            raise reply.error
        left -= 1
        yield index, reply.value

r"""`simulate`: the four-stage protocol at finite size, repeated.

Repeat i of seed s draws from SeedSequence(s, spawn_key=(i,)): its numbers do not depend on how many
repeats there are, on the order they run in, or on the number of processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sparsetoken.model.checks import real, whole
from sparsetoken.model.classifiers import Attention, Classifier
from sparsetoken.model.errors import NoMinimiserError
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import FloatArray, Task
from sparsetoken.progress import progress_bar
from sparsetoken.simulation import reduced, tokens
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.outcome import Outcome

if TYPE_CHECKING:
    import pandas as pd

Sampler = Literal["reduced", "tokens"]
QUANTITIES = (
    "test_error",
    "train_error",
    "train_loss",
    "cosine",
    "norm",
    "bias",
    "readout_norm",
)


@dataclass(frozen=True)
class Settings:
    """Everything that fixes the numbers of a repeat, but its index."""

    task: Task
    classifier: Classifier
    protocol: Protocol
    dim: int
    seed: int = 0
    sampler: Sampler = "reduced"
    device: str | None = None
    dtype: str = "float64"
    test_samples: int = 10_000
    reuse_data: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        _check_kinds(self.task, self.classifier, self.protocol)
        set_ = object.__setattr__
        set_(self, "dim", whole("simulate", "dim", self.dim, least=self._least_dim, why=self._why))
        set_(self, "seed", whole("simulate", "seed", self.seed, least=0))
        set_(self, "test_samples", whole("simulate", "test_samples", self.test_samples, least=1))
        set_(self, "threads", whole("simulate", "threads", self.threads, least=1))
        if self.sampler not in ("reduced", "tokens"):
            raise ValueError(
                f"simulate: sampler must be 'reduced' or 'tokens', got {self.sampler!r}"
            )
        if self.reuse_data and self.sampler != "tokens":
            raise ValueError(
                "simulate: reuse_data must be False with sampler='reduced' (a query that has seen "
                "the readout's samples leaves no simple law), got True; use sampler='tokens'"
            )
        if self.reuse_data and not self.classifier.learns_query:
            raise ValueError(
                "simulate: reuse_data must be False for a classifier without a learned query, "
                "got True"
            )
        if self.sizes[1] < 2:
            raise ValueError(
                "simulate: readout_samples·dim must be at least 2 (a sample of each class), got "
                f"{self.protocol.readout_samples:g}·{self.dim} = {self.sizes[1]} samples"
            )
        if self.classifier.learns_query and self.sizes[0] < 1:
            raise ValueError(
                "simulate: query_samples·dim must be at least 1, got "
                f"{self.protocol.query_samples:g}·{self.dim} = {self.sizes[0]} samples"
            )
        self.place  # noqa: B018 (a device that is not there is refused before any work)

    @property
    def _least_dim(self) -> int:
        return 2 if isinstance(self.classifier, Attention) else 1

    @property
    def _why(self) -> str:
        return "the explicit directions of the features"

    @property
    def sizes(self) -> tuple[int, int]:
        """n₀ and n₁."""
        counts = []
        for name in ("query_samples", "readout_samples"):
            share = getattr(self.protocol, name)
            needed = name == "readout_samples" or self.classifier.learns_query
            if needed:
                real("simulate", name, share, above=0)  # inf has no finite size
            counts.append(round(share * self.dim) if needed else 0)
        return counts[0], counts[1]

    @property
    def place(self) -> Device:
        """Where the arrays live."""
        return Device(self.device, self.dtype)


@dataclass(frozen=True, eq=False)
class Simulation:
    """What repeated runs of the protocol did: an array for each quantity, one entry a repeat.

    A repeat without a fit (`status` says why) has NaN; `mean` and `sem` leave it out.

    >>> from sparsetoken import Pooled
    >>> run = simulate(Task(5, 1, 4.0), Pooled(), Protocol(), dim=100, repeats=4, seed=0)
    >>> run.test_error.shape, run.mean("test_error").round(3), run.failed
    ((4,), 0.223, 0)
    """

    settings: Settings
    outcomes: tuple[Outcome, ...]
    interrupted: bool = False

    def __len__(self) -> int:
        return len(self.outcomes)

    def _column(self, name: str) -> FloatArray:
        return np.array([getattr(outcome, name) for outcome in self.outcomes], dtype=float)

    def _query_column(self, name: str) -> FloatArray:
        frozen = getattr(self.settings.classifier, name, None)
        missing = math.nan if frozen is None else frozen
        queries = (outcome.query for outcome in self.outcomes)
        return np.array([getattr(query, name) if query else missing for query in queries])

    @property
    def test_error(self) -> FloatArray:
        """Probability that a fresh sample is misclassified: exact given the fitted readout with
        the reduced sampler, measured on `test_samples` fresh samples at token level."""
        return self._column("test_error")

    @property
    def train_error(self) -> FloatArray:
        """Fraction of the readout's training samples that are misclassified."""
        return self._column("train_error")

    @property
    def train_loss(self) -> FloatArray:
        """Mean loss on the readout's training samples, without the ridge term."""
        return self._column("train_loss")

    @property
    def cosine(self) -> FloatArray:
        """Cosine of query and signal; NaN for a classifier without a query."""
        return self._query_column("cosine")

    @property
    def norm(self) -> FloatArray:
        """‖q‖ of a learned query, NaN without one."""
        return self._query_column("norm")

    @property
    def sharpness(self) -> FloatArray:
        """β‖q‖; NaN for a classifier without a query."""
        return self._query_column("sharpness")

    @property
    def bias(self) -> FloatArray:
        """b of the fitted readout."""
        readouts = (outcome.readout for outcome in self.outcomes)
        return np.array([readout.bias if readout else math.nan for readout in readouts])

    @property
    def readout_norm(self) -> FloatArray:
        """‖w‖ of the fitted readout."""
        return self._column("readout_norm")

    @property
    def certificate(self) -> FloatArray:
        """Relative gradient at the fitted readout (see `simulation/fitting.py`)."""
        return self._column("certificate")

    @property
    def seconds(self) -> FloatArray:
        """Wall time of each repeat."""
        return self._column("seconds")

    @property
    def auc(self) -> FloatArray:
        """Area under the ROC curve of each fitted readout, exact given the readout."""
        return np.array(
            [self.scores(index).auc if ok else math.nan for index, ok in enumerate(self._fitted)]
        )

    @property
    def status(self) -> tuple[str, ...]:
        """ "ok", or why a repeat has no fit."""
        return tuple(outcome.status for outcome in self.outcomes)

    @property
    def _fitted(self) -> list[bool]:
        return [outcome.readout is not None for outcome in self.outcomes]

    @property
    def failed(self) -> int:
        """Repeats without a fit."""
        return len(self.outcomes) - sum(self._fitted)

    def scores(self, repeat: int, other_task: Task | None = None) -> Scores:
        """Test scores of one repeat's readout: every metric, on this task or on another one."""
        outcome = self.outcomes[repeat]
        if outcome.readout is None:
            raise ValueError(f"Simulation: repeat {repeat} has no readout ({outcome.status})")
        task = self.settings.task if other_task is None else other_task
        return self.settings.classifier.scores(task, outcome.readout, outcome.query)

    def _finite(self, name: str) -> FloatArray:
        values = np.asarray(getattr(self, name), dtype=float)
        return values[np.isfinite(values)]

    def mean(self, name: str) -> float:
        """Mean over the repeats that have the quantity; NaN if none has."""
        values = self._finite(name)
        return float(values.mean()) if len(values) else math.nan

    def sem(self, name: str) -> float:
        """Standard error of that mean; NaN for fewer than two repeats."""
        values = self._finite(name)
        return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan

    def to_frame(self) -> pd.DataFrame:
        """One row per repeat."""
        import pandas as pd

        columns: dict[str, Any] = {name: getattr(self, name) for name in QUANTITIES}
        extra = {"certificate": self.certificate, "seconds": self.seconds, "status": self.status}
        frame = pd.DataFrame({**columns, **extra})
        frame.index.name = "repeat"
        return frame

    def summary(self) -> pd.DataFrame:
        """One row per quantity: mean, its standard error, lowest and highest repeat."""
        import pandas as pd

        rows = {}
        for name in QUANTITIES:
            values = self._finite(name)
            if len(values):
                ends = {"lowest": values.min(), "highest": values.max(), "repeats": len(values)}
                rows[name] = {"mean": self.mean(name), "sem": self.sem(name), **ends}
        return pd.DataFrame.from_dict(rows, orient="index")


def simulate(
    task: Task,
    classifier: Classifier,
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
    progress: bool = False,
) -> Simulation:
    """Run the four-stage protocol at finite size.

    Parameters
    ----------
    task, classifier, protocol
        What is learned, by what, how. n₀ = query_samples·dim and n₁ = readout_samples·dim samples.
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
    progress : bool
        Show a progress bar.

    Interrupting (Ctrl-C) returns the repeats that are finished, with `interrupted` set; with none
    finished the interrupt goes through.

    Examples
    --------
    >>> from sparsetoken import Attention
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> run = simulate(task, Attention(), Protocol(), dim=200, repeats=3, seed=1)
    >>> run.cosine.round(2).tolist(), run.mean("test_error") < 0.06
    ([0.94, 0.94, 0.95], True)
    """
    settings = Settings(
        task, classifier, protocol, dim, seed, sampler, device, dtype, test_samples, reuse_data,
        threads,
    )  # fmt: skip
    repeats = whole("simulate", "repeats", repeats, least=1)
    workers = whole("simulate", "workers", workers, least=1)
    if device is not None and workers > 1:
        raise ValueError(
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


def run_repeat(settings: Settings, index: int) -> Outcome:
    """One repeat, anywhere: the unit of work that processes and clusters share."""
    seed = np.random.SeedSequence(settings.seed, spawn_key=(index,))
    start = time.perf_counter()
    arguments = (
        settings.task,
        settings.classifier,
        settings.protocol,
        settings.dim,
        settings.sizes,
        seed,
        settings.place,
    )
    with _blas().limit(limits=settings.threads):
        try:
            if settings.sampler == "reduced":
                outcome = reduced.run(*arguments)
            else:
                outcome = tokens.run(*arguments, settings.test_samples, settings.reuse_data)
        except NoMinimiserError as error:
            outcome = Outcome(status=str(error))
    return replace(outcome, seconds=time.perf_counter() - start)


def _outcomes(settings: Settings, repeats: int, workers: int) -> Iterator[tuple[int, Outcome]]:
    if workers == 1:
        for index in range(repeats):
            yield index, run_repeat(settings, index)
        return
    with ProcessPoolExecutor(workers) as pool:
        futures = {pool.submit(run_repeat, settings, index): index for index in range(repeats)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def _check_kinds(task: object, classifier: object, protocol: object) -> None:
    """Arguments in the wrong order, or a class where an object is meant, get a sentence."""
    if not isinstance(task, Task):
        raise ValueError(f"simulate: task must be a Task, got {task!r}")
    if isinstance(classifier, type) or not callable(getattr(classifier, "draw", None)):
        raise ValueError(
            "simulate: classifier must be a classifier such as Attention() or Pooled(), "
            f"got {classifier!r}"
        )
    if not isinstance(protocol, Protocol):
        raise ValueError(f"simulate: protocol must be a Protocol, got {protocol!r}")

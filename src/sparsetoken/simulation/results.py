"""`Simulation`: what repeated runs of the protocol did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsetoken.model.law import Readout
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task
from sparsetoken.model.words import classifier_words, protocol_words, task_words
from sparsetoken.simulation.outcome import Outcome
from sparsetoken.simulation.settings import Settings
from sparsetoken.support.arrays import Column, FloatArray
from sparsetoken.support.checks import one_of
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.showing import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

QUANTITIES = (
    "test_error",
    "train_error",
    "train_loss",
    "cosine",
    "norm",
    "bias",
    "readout_norm",
)
_WORDS = {"train_error": "training error", "train_loss": "training loss", "auc": "AUC"}


@dataclass(frozen=True, eq=False)
class Simulation(Shown):
    """What repeated runs of the protocol did: an array for each quantity, one entry a repeat.

    A repeat without a fit (`status` says why) has NaN; `mean` and `sem` leave it out.

    >>> from sparsetoken import Pooled, Protocol, simulate
    >>> run = simulate(Task(5, 1, 4.0), Pooled(), Protocol(), dim=100, repeats=4, seed=0)
    >>> run.test_error.shape, round(run.mean("test_error"), 2), run.failed
    ((4,), 0.28, 0)
    """

    settings: Settings
    outcomes: tuple[Outcome, ...]
    interrupted: bool = False

    def __len__(self) -> int:
        return len(self.outcomes)

    train_error = Column(
        "outcomes", "Fraction of the readout's training samples that are misclassified."
    )
    train_loss = Column(
        "outcomes", "Mean loss on the readout's training samples, without the ridge term."
    )
    readout_norm = Column("outcomes", "‖w‖ of the fitted readout.")
    certificate = Column("outcomes", "Relative gradient at the fitted readout.")
    seconds = Column("outcomes", "Wall time of each repeat.")

    def _query_column(self, name: str) -> FloatArray:
        frozen = getattr(self.settings.classifier, name, None)
        missing = math.nan if frozen is None else frozen
        queries = (outcome.query for outcome in self.outcomes)
        return np.array([getattr(query, name) if query else missing for query in queries])

    @property
    def test_error(self) -> FloatArray:
        """Probability that a fresh sample is misclassified: exact given the fitted readout with
        the reduced sampler, measured on `test_samples` fresh samples at token level. A repeat whose
        readout samples had one class says that class of every sample."""
        errors = np.array([outcome.test_error for outcome in self.outcomes])
        for repeat, outcome in enumerate(self.outcomes):
            if outcome.only_class:
                errors[repeat] = self.scores(repeat).test_error
        return errors

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
    def cosines(self) -> FloatArray:
        """Cosine of direction and signal after each round of message passing (repeats, rounds)."""
        return np.array([outcome.cosines for outcome in self.outcomes])

    @property
    def bias(self) -> FloatArray:
        """b of the fitted readout."""
        readouts = (outcome.readout for outcome in self.outcomes)
        return np.array([readout.bias if readout else math.nan for readout in readouts])

    @property
    def auc(self) -> FloatArray:
        """Area under the ROC curve of each readout, exact given the readout; ½ after one class."""
        return np.array(
            [
                self.scores(repeat).auc if outcome.readout or outcome.only_class else math.nan
                for repeat, outcome in enumerate(self.outcomes)
            ]
        )

    @property
    def status(self) -> tuple[str, ...]:
        """ "ok", or why a repeat has no fit."""
        return tuple(outcome.status for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """Repeats without a fit."""
        return sum(status != "ok" for status in self.status)

    def scores(self, repeat: int, other_task: Task | None = None) -> Scores:
        """Test scores of one repeat's readout: every metric, on this task or on another one.

        A repeat whose readout samples had one class says that class of every sample.
        """
        outcome = self.outcomes[repeat]
        task = self.settings.task if other_task is None else other_task
        if outcome.only_class:
            return Scores.always(outcome.only_class, task.prevalence)
        if outcome.readout is None:
            why = outcome.status if self.settings.learner is None else "test_error is measured"
            raise InvalidInput(f"Simulation: repeat {repeat} has no readout ({why})")
        if not isinstance(outcome.readout, Readout):  # of coloured noise: with its covariances
            return outcome.readout.scores(task)
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

    def plot(self, ax: Axes | None = None, quantity: str = "test_error") -> Axes:
        """Every repeat as a dot, their mean with a bar of two standard errors.

        They stand at their number of readout samples, where `LearningCurve.plot` has its line:
        give its axes. `quantity` is a name that `mean` takes. Needs matplotlib.

        >>> from sparsetoken import Pooled, Protocol, learning_curve, simulate
        >>> task = Task(5, 1, 4.0)
        >>> ax = learning_curve(task, Pooled(), Protocol(), [1.0, 10.0]).plot()
        >>> run = simulate(task, Pooled(), Protocol(), dim=100, repeats=4, seed=0)
        >>> run.plot(ax) is ax
        True
        """
        from sparsetoken.figures import runs

        quantity = one_of("Simulation", "quantity", quantity, (*QUANTITIES, "auc", "sharpness"))
        settings = self.settings
        return runs(
            ax,
            settings.protocol.readout_samples,
            getattr(self, quantity),
            name=CLASSIFIERS.kind(settings.classifier),
            label=f"{classifier_words(settings.classifier)}, {len(self)} runs, d = {settings.dim}",
            y=_WORDS.get(quantity, quantity.replace("_", " ")),
        )

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """What was run, and means with their standard errors."""
        settings = self.settings
        learns = settings.classifier.learns_query
        yield (
            f"{len(self)} runs of {classifier_words(settings.classifier)} on "
            f"{task_words(settings.task)}, trained with "
            f"{protocol_words(settings.protocol, None, learns)}, d = {settings.dim}"
            + (f"; {self.failed} without a fit" if self.failed else "")
            + ("; interrupted" if self.interrupted else "")
        )
        yield self.summary().reset_index(names="quantity")

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

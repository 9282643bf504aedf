r"""From a task, a classifier and a protocol to what the trained classifier does.

    align (stages 1–3)  →  classifier.law(task, query)  →  solve (stage 4)  →  Prediction

Samples are counted per *embedding* dimension d for every classifier; `Vectorized` has L features
for each, so its readout sees n/p = readout_samples/L.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, overload

import numpy as np

from sparsetoken.model.classifiers import AnyQuery, Classifier
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.protocol import Protocol, check_kinds
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task
from sparsetoken.model.words import classifier_words, protocol_words, task_words
from sparsetoken.support.arrays import Column, Curve, FloatArray
from sparsetoken.support.checks import one_of, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate
from sparsetoken.support.showing import Shown
from sparsetoken.theory.alignment import align
from sparsetoken.theory.asymptotics import solve_many
from sparsetoken.theory.capacity import separability_threshold
from sparsetoken.theory.finite_size import FinitePrediction, finite_predictions
from sparsetoken.theory.fit import Fit

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_QUANTITIES = {
    "test_error": "test error",
    "train_error": "training error",
    "train_loss": "training loss",
    "auc": "AUC",
}


@dataclass(frozen=True, eq=False)
class Prediction(Fit):
    """What a classifier trained by the protocol does, in the limit of many dimensions.

    The `Fit` of its readout, with where that comes from; `query` is None for a classifier without a
    learned one.

    >>> from sparsetoken import Attention
    >>> p = predict(Task(length=10, sparsity=1, strength=5.0), Attention(), Protocol())
    >>> round(p.query.cosine, 3), round(p.scores.sensitivity(0.95), 3), p.converged
    (0.948, 0.965, True)
    """

    task: Task
    classifier: Classifier
    protocol: Protocol
    query: AnyQuery | None

    @property
    def fit(self) -> Fit:
        """The prediction itself: a fit with more to it."""
        return self

    def on(self, other_task: Task) -> Scores:
        """The trained classifier met with another task: length generalisation, any shift.

        >>> from sparsetoken import Attention
        >>> trained = predict(Task(10, 1, 5.0), Attention(cosine=0.95, sharpness=1.0), Protocol())
        >>> trained.on(Task(20, 1, 5.0)).test_error > trained.test_error
        True
        """
        if not isinstance(other_task, Task):
            raise InvalidInput(
                f"Prediction: on(other_task) must be given a Task, got {other_task!r}"
            )
        why = self.classifier.possible(other_task, trained_on=self.task)
        if why is not None:
            raise InvalidInput(f"Prediction: on(other_task): {why}")
        if other_task.is_white:
            return self.classifier.frozen(self.query).scores(other_task, self.readout)
        return self.classifier.scores(other_task, self.readout, self.query)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The ROC curve, with a dot at the classifier's own threshold.

        Needs matplotlib; `ax` is where to draw, a new figure if None.
        """
        from sparsetoken.figures import roc

        name = CLASSIFIERS.kind(self.classifier)
        point = float(self.scores.false_positive_rate), 1 - float(self.scores.false_negative_rate)
        label = f"{classifier_words(self.classifier)}, AUC {self.auc:.3g}"
        return roc(ax, *self.roc(), name=name, label=label, point=point)

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """What was asked, and what the trained classifier does."""
        learns = self.classifier.learns_query
        yield (
            f"{classifier_words(self.classifier)} on {task_words(self.task)}, trained with "
            f"{protocol_words(self.protocol, None, learns)}, in the limit of many dimensions"
        )
        cosine = {} if self.query is None else {"cosine": self.query.cosine}
        yield from self._numbers(**cosine)


@dataclass(frozen=True, eq=False)
class LearningCurve(Shown, Curve):
    """Predictions along a range of readout samples, with their numbers as arrays.

    >>> from sparsetoken import Pooled
    >>> curve = learning_curve(Task(5, 1, 4.0), Pooled(), Protocol(), [1.0, 10.0])
    >>> curve.train_loss.round(4).tolist(), curve[1].test_error in curve.test_error
    ([0.0006, 0.3506], True)
    """

    readout_samples: FloatArray
    predictions: tuple[Prediction, ...] | tuple[FinitePrediction, ...]

    test_error = Column("predictions", "Test error at each number of samples, shape (points,).")
    train_error = Column("predictions", "Training error, shape (points,).")
    train_loss = Column("predictions", "Mean training loss, shape (points,).")
    auc = Column("predictions", "Area under the ROC curve, shape (points,).")

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of the test error between training sets, 0 in the limit; (points,)."""
        return np.array([getattr(prediction, "spread", 0.0) for prediction in self.predictions])

    def plot(self, ax: Axes | None = None, quantity: str = "test_error") -> Axes:
        """A quantity against the number of samples; at your size with its spread as a band.

        `quantity` is test_error, train_error, train_loss or auc. Curves of several classifiers,
        and simulations, go on the same axes one after another. Needs matplotlib.

        >>> from sparsetoken import Pooled
        >>> ax = learning_curve(Task(5, 1, 4.0), Pooled(), Protocol(), [1.0, 10.0]).plot()
        >>> ax.get_ylabel(), ax.get_legend().get_texts()[0].get_text()
        ('test error', 'pooled')
        """
        from sparsetoken.figures import learning_curve

        quantity = one_of("LearningCurve", "quantity", quantity, _QUANTITIES)
        if not self.predictions:
            raise InvalidInput("LearningCurve: plot needs a curve of at least one point, got none")
        first = self.predictions[0]
        finite = isinstance(first, FinitePrediction) and quantity == "test_error"
        return learning_curve(
            ax,
            self.readout_samples,
            getattr(self, quantity),
            name=CLASSIFIERS.kind(first.classifier),
            label=classifier_words(first.classifier),
            y=_QUANTITIES[quantity],
            spread=self.spread if finite else None,
            log=quantity == "test_error",
        )

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """What was asked, and a row for each number of samples."""
        if not self.predictions:
            yield "a learning curve of no points"
            return
        first, few, many = self.predictions[0], min(self.readout_samples), max(self.readout_samples)
        given = {"readout_samples": f"{few:g} to {many:g}"}
        learns = first.classifier.learns_query
        size = f"d = {first.dim}" if isinstance(first, FinitePrediction) else "many dimensions"
        yield (
            f"{classifier_words(first.classifier)} on {task_words(first.task)}, trained with "
            f"{protocol_words(first.protocol, given, learns)}, {size}"
        )
        yield self.to_frame().drop(columns="residual")

    def to_frame(self) -> pd.DataFrame:
        """A table with one row per number of samples."""
        import pandas as pd

        names = ["test_error", "train_error", "train_loss", "auc", "bias", "residual"]
        if self.predictions and isinstance(self.predictions[0], FinitePrediction):
            learned = self.predictions[0].useless is not None
            names[1:1] = ["spread", "useless"] if learned else ["spread"]
        rows = [[getattr(prediction, name) for name in names] for prediction in self.predictions]
        table = pd.DataFrame(np.array(rows, dtype=float), columns=names)
        table.insert(0, "readout_samples", self.readout_samples)
        return table


@overload
def predict(
    task: Task, classifier: Classifier, protocol: Protocol, dim: None = None, *, seed: int = 0
) -> Prediction: ...


@overload
def predict(
    task: Task, classifier: Classifier, protocol: Protocol, dim: int, *, seed: int = 0
) -> FinitePrediction: ...


def predict(
    task: Task,
    classifier: Classifier,
    protocol: Protocol,
    dim: int | None = None,
    *,
    seed: int = 0,
) -> Prediction | FinitePrediction:
    """What a classifier does on a task when it was trained by a protocol, without simulating it.

    The query after stages 1–3 (`align`) gives the law of the features, and the readout fitted to
    them is the solution of the equations in `theory/saddle.py`. Without `dim` that is the limit of
    many dimensions, in which all training sets are alike:

        test error = E Φ(−yμ/(σr)),   μ = Σ_k m_k w_k + b,

    over labels y, coordinates m and scales σ of the law, for the readout (w, b) with noise r. With
    `dim`, numbers are means of the same over training sets of n₀ = query_samples·d and
    n₁ = readout_samples·d samples.

    Parameters
    ----------
    task : Task
        What a sample is.
    classifier : Classifier
        `Attention()`, `Pooled()`, `Vectorized()`, or one of your own.
    protocol : Protocol
        How it is trained: numbers of samples, loss, ridge, steps.
    dim : int, optional
        Embedding dimension d, at least 3.
    seed : int
        Of the training sets drawn, where `dim` is given.

    Returns
    -------
    Prediction or FinitePrediction
        `.test_error`, `.train_error`, `.train_loss`, `.auc`, `.bias`, `.roc()`, `.on(other_task)`;
        with `dim` also `.spread`, the standard deviation of the test error between training sets,
        and `.useless`, the chance of a query that does not help.

    Raises
    ------
    InvalidInput
        For an argument of the wrong kind or beyond its bounds, or a classifier that is not defined
        on the task.
    NoMinimiserError
        Without a ridge, where the data are separable or the readout is not unique.
    ConvergenceError
        If the equations' residual stays above 1e-9.

    Examples
    --------
    >>> from sparsetoken import Attention, Pooled
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> learned = predict(task, Attention(), Protocol(query_samples=2.0, readout_samples=4.0))
    >>> linear = predict(task, Pooled(), Protocol(readout_samples=4.0))
    >>> round(learned.test_error, 3), round(linear.test_error, 3)
    (0.04, 0.291)
    >>> few = Protocol(query_samples=0.6, readout_samples=0.8)
    >>> small = predict(task, Attention(), few, dim=100)
    >>> small.test_error > small.spread > 0.01
    True
    """
    check_kinds("predict", task, classifier, protocol)
    samples = [protocol.readout_samples]
    curve = learning_curve(task, classifier, protocol, samples, dim, seed=seed)
    return curve.predictions[0]


def learning_curve(
    task: Task,
    classifier: Classifier,
    protocol: Protocol,
    readout_samples: Sequence[float],
    dim: int | None = None,
    *,
    seed: int = 0,
) -> LearningCurve:
    """`predict` at many numbers of readout samples n₁/d, solved together.

    The formulas are those of `predict`; the law of the features does not depend on n₁, so that one
    law serves the whole curve.

    Parameters
    ----------
    task, classifier, protocol
        As in `predict`; `protocol.readout_samples` is not used.
    readout_samples : sequence of float
        α₁ = n₁/d, samples per embedding dimension; inf is allowed without `dim`.
    dim : int, optional
        Embedding dimension, as in `predict`. The same queries, drawn once, serve all numbers of
        samples.
    seed : int
        Of the training sets drawn, where `dim` is given.

    Returns
    -------
    LearningCurve
        A sequence of predictions; `.readout_samples`, `.test_error`, `.train_error`, `.train_loss`,
        `.auc` and `.spread` are arrays, `.to_frame()` is a table.

    Raises
    ------
    InvalidInput, NoMinimiserError, ConvergenceError
        As in `predict`.

    Examples
    --------
    >>> from sparsetoken import Pooled
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> curve = learning_curve(task, Pooled(), Protocol(), readout_samples=[2.0, 8.0, float("inf")])
    >>> curve.test_error.round(4).tolist()
    [0.3405, 0.2524, 0.2146]
    """
    check_kinds("learning_curve", task, classifier, protocol)
    values = np.asarray(readout_samples, dtype=object)
    if values.ndim != 1:
        raise InvalidInput(
            "learning_curve: readout_samples must be a sequence of numbers, "
            f"got {readout_samples!r}"
        )
    protocols = [protocol.with_readout_samples(value) for value in values]
    samples = np.array([at.readout_samples for at in protocols])
    if dim is not None:
        dim = whole("predict", "dim", dim, least=3, why="two directions, and others")
        seed = whole("predict", "seed", seed, least=0)
    if not len(samples):
        return LearningCurve(samples, ())
    if dim is not None:
        finite = finite_predictions(task, classifier, protocols, dim, seed)
        return LearningCurve(samples, tuple(finite))
    query = align(task, protocol) if classifier.learns_query else None
    law = classifier.law(task, query)
    fits = solve_many(law, protocol.loss, protocol.ridge, samples / law.features_per_dim)
    predictions = []
    for at, fit in zip(protocols, fits, strict=True):
        solution = {field.name: getattr(fit, field.name) for field in fields(fit)}
        predictions.append(
            Prediction(**solution, task=task, classifier=classifier, protocol=at, query=query)
        )
    return LearningCurve(samples, tuple(predictions))


def capacity(task: Task, classifier: Classifier, protocol: Protocol | None = None) -> Estimate:
    r"""Samples per embedding dimension below which the training data are linearly separable.

    α* = p/d / min_{w,b} E[(sG − y(Σ m_k w_k + b)/σ)₊²], s² = 1 + Σ_noisy w_k² (Conjecture 1;
    `theory/capacity.py`). With fewer than α*·d samples some readout classifies all of them rightly,
    whatever it does on others.

    Parameters
    ----------
    task : Task
        What a sample is.
    classifier : Classifier
        Whose features are separated.
    protocol : Protocol, optional
        Teaches a learned query, and must then be given (or freeze the query:
        `Attention(cosine=…, sharpness=…)`). Its readout samples, loss and ridge do not matter.

    Returns
    -------
    Estimate
        α*. Exact for linear classifiers; with a `standard_error` for attention, whose law is
        sampled. inf where it is beyond what the law resolves.

    Raises
    ------
    InvalidInput
        For an argument of the wrong kind, or a learned query without its protocol.
    ConvergenceError
        If the minimum is not reached.

    Examples
    --------
    >>> from sparsetoken import Pooled, Vectorized
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> round(capacity(task, Pooled()), 4), round(capacity(task, Vectorized()), 3)
    (2.9501, 29.501)
    """
    check_kinds("capacity", task, classifier, protocol or Protocol())
    if classifier.learns_query and protocol is None:
        raise InvalidInput(
            "capacity: protocol must be given for a learned query "
            "(or freeze it: Attention(cosine=…, sharpness=…)), got None"
        )
    query = align(task, protocol) if protocol and classifier.learns_query else None
    law = classifier.tail_law(task, query)
    threshold = separability_threshold(law)
    scale = law.features_per_dim
    return Estimate(threshold * scale, threshold.standard_error * scale)

r"""From a task, a classifier and a protocol to what the trained classifier does.

    align (stages 1–3)  →  classifier.law(task, query)  →  solve (stage 4)  →  Prediction

Samples are counted per *embedding* dimension d for every classifier; `Vectorized` has L features
for each, so its readout sees n/p = readout_samples/L.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sparsetoken.model.classifiers import AnyQuery, Classifier
from sparsetoken.model.protocol import Protocol, check_kinds
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import Column, FloatArray
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.alignment import align
from sparsetoken.theory.asymptotics import solve_many
from sparsetoken.theory.capacity import separability_threshold
from sparsetoken.theory.finite_size import FinitePrediction, finite_predictions
from sparsetoken.theory.fit import Fit

if TYPE_CHECKING:
    import pandas as pd


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


@dataclass(frozen=True, eq=False)
class LearningCurve(Sequence[Any]):
    """Predictions along a range of readout samples, with their numbers as arrays.

    >>> from sparsetoken import Pooled
    >>> curve = learning_curve(Task(5, 1, 4.0), Pooled(), Protocol(), [1.0, 10.0])
    >>> curve.train_loss.round(4).tolist(), curve[1].test_error in curve.test_error
    ([0.0006, 0.3506], True)
    """

    readout_samples: FloatArray
    predictions: tuple[Prediction, ...] | tuple[FinitePrediction, ...]

    def __len__(self) -> int:
        return len(self.predictions)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return LearningCurve(self.readout_samples[index], self.predictions[index])
        return self.predictions[index]

    test_error = Column("predictions", "Test error at each number of samples, shape (points,).")
    train_error = Column("predictions", "Training error, shape (points,).")
    train_loss = Column("predictions", "Mean training loss, shape (points,).")
    auc = Column("predictions", "Area under the ROC curve, shape (points,).")

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of the test error between training sets, 0 in the limit; (points,)."""
        return np.array([getattr(prediction, "spread", 0.0) for prediction in self.predictions])

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
    many dimensions, in which all training sets are alike. With it, numbers are means over training
    sets of n₀ = query_samples·d and n₁ = readout_samples·d samples.

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
    """`predict` at many numbers of readout samples, solved together.

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

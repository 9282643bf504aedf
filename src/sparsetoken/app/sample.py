"""`sample_data`: what a browser needs to draw samples of a task and let trained classifiers judge.

Projections are enough (`static/sample/law.js` draws them): the query's cosine and sharpness, and of
each readout its weights along the law's directions, its bias and the norm of its rest. With them
come the exact numbers that a stream of samples must converge to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from sparsetoken.model.classifiers import Attention, Classifier, Query
from sparsetoken.model.names import CLASSIFIERS, WEIGHTINGS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.model.task import Task
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory.alignment import align
from sparsetoken.theory.prediction import predict

DRAWN = ("attention", "vectorized", "pooled")
_BINS = 60  # of a score's distribution, between
_TAIL = 1e-3  # of either class's scores, left out at each end


def sample_data(
    task: Task, protocol: Protocol, classifiers: Mapping[str, Classifier] | None = None
) -> dict[str, Any]:
    """Task, query, readouts and their exact errors, ready for JSON.

    Without `classifiers` (name → object, as `app.numbers.classifiers` has them) the three of the
    paper; those that have no theory of the task are left out, and so is any that is none of these
    three: how a browser draws its scores is not known. Attention's frozen query, or the learned
    one, is the direction along which tokens are drawn, whoever judges them.

    >>> data = sample_data(Task(length=10, sparsity=1, strength=5.0), Protocol())
    >>> data["length"], round(data["cosine"], 4), sorted(data["classifiers"])
    (10, 0.9476, ['attention', 'pooled', 'vectorized'])
    >>> round(data["classifiers"]["pooled"]["test_error"], 4)
    0.2908
    """
    if task.varies or not task.uniform_places:
        raise InvalidInput(
            "sample_data: task must have one strength, one sparsity and uniform places, "
            f"got {task!r}"
        )
    wanted = classifiers or {name: CLASSIFIERS.make(name) for name in DRAWN}
    drawn = {
        name: classifier
        for name, classifier in wanted.items()
        if name in DRAWN
        and CLASSIFIERS.kind(classifier) == name
        and classifier.possible(task) is None
    }
    attention = cast(Attention, drawn.get("attention", Attention()))
    weighting = WEIGHTINGS.name(attention.weighting)
    if weighting is None:
        raise InvalidInput(
            f"sample_data: weighting must be one with a name, got {attention.weighting!r}"
        )
    query = _query(task, attention, protocol)
    return {
        "length": task.length,
        "sparsity": task.fixed_sparsity,
        "strength": task.fixed_strength,
        "prevalence": task.prevalence,
        "token_correlation": task.token_correlation,
        "cosine": min(1.0, max(-1.0, query.cosine)),
        "sharpness": query.sharpness,
        "weighting": weighting,
        "classifiers": {name: _judge(task, kind, protocol) for name, kind in drawn.items()},
    }


def _query(task: Task, attention: Attention, protocol: Protocol) -> Query:
    if attention.cosine is None or attention.sharpness is None:
        return align(task, protocol)
    return Query(overlap=attention.cosine, norm=1.0, sharpness=attention.sharpness)


def _judge(task: Task, classifier: Classifier, protocol: Protocol) -> dict[str, Any]:
    """A trained readout, in units of its scores' spread, with its exact numbers."""
    prediction = predict(task, classifier, protocol)
    scores, readout = prediction.scores, prediction.readout
    unit = _spread(scores)
    weights = np.asarray(readout.weights) / unit
    noisy = classifier.law(task, prediction.query).noisy
    rest = math.sqrt(max(0.0, (readout.noise / unit) ** 2 - float(weights[noisy] @ weights[noisy])))
    return {
        "weights": weights.tolist(),
        "bias": float(readout.bias) / unit,
        "rest": rest,
        "test_error": float(scores.test_error),
        "false_positive_rate": float(scores.false_positive_rate),
        "false_negative_rate": float(scores.false_negative_rate),
        "distribution": _distribution(scores, unit),
    }


def _spread(scores: Scores) -> float:
    """The scores' standard deviation within a class, their square averaged over both."""
    return math.sqrt((_variance(scores.positive) + _variance(scores.negative)) / 2)


def _variance(side: Mixture) -> float:
    mean = side.weight @ side.mean
    return float(side.weight @ (side.deviation**2 + (side.mean - mean) ** 2))


def _distribution(scores: Scores, unit: float) -> dict[str, Any]:
    """Chances of both classes' scores between equally spaced edges that hold nearly all of them."""
    sides = (scores.positive.merged(), scores.negative.merged())
    low = min(0.0, *(side.quantile(1 - _TAIL) for side in sides))
    high = max(0.0, *(side.quantile(_TAIL) for side in sides))
    edges = np.linspace(low, high, _BINS + 1)
    chances = [(-np.diff(side.above(edges))).round(7).tolist() for side in sides]
    return {
        "low": low / unit, "high": high / unit, "positive": chances[0], "negative": chances[1],
    }  # fmt: skip

r"""Exact-in-law simulation without tokens (docs/simulation.md).

The same random variables as the token-level experiment, drawn from their joint law; nothing is
approximated.

**Stages 1–3.** The query, from O(n₀) random numbers: `model/queries.py`.

**Stage 4.** Coordinates (y, m, σ) from the classifier, then Gaussian columns. With fewer
samples than columns only their Gram matrix matters: Z Zᵀ is Wishart with p − K degrees of freedom
and has the Cholesky factor of Bartlett (normals below, √χ²_{p−K−i} on the diagonal), n²/2 numbers
whatever p is. Its rows are as good as the features.

**No test set.** Given the readout the test error is the law's own formula.

Where noise has a covariance or the signal a spread: `coloured.py`, and `model/coloured_queries.py`.
"""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.fitting.fit import fit
from sparsetoken.fitting.objective import Fitted
from sparsetoken.fitting.separability import separable
from sparsetoken.model.classifiers import Query
from sparsetoken.model.coloured_queries import draw_query_vector
from sparsetoken.model.law import Coordinates, Readout
from sparsetoken.model.layout import draw_layout
from sparsetoken.model.queries import draw_query
from sparsetoken.simulation import coloured
from sparsetoken.simulation.devices import Source
from sparsetoken.simulation.gram import bartlett
from sparsetoken.simulation.outcome import Outcome, one_class, outcome_of, query_of
from sparsetoken.simulation.settings import Settings
from sparsetoken.support.arrays import Array, FloatArray
from sparsetoken.support.devices import to_numpy


def run(settings: Settings, seed: np.random.SeedSequence) -> Outcome:
    """One run of the protocol."""
    task, classifier, protocol = settings.task, settings.classifier, settings.protocol
    if not task.is_white:
        return _run_coloured(settings, seed)
    query, labels, source = _learned(settings, seed)
    without_fit = one_class(labels, query)
    if without_fit is not None:
        return without_fit
    coordinates = classifier.draw(task, labels, source.rng, query)
    features = draw_features(coordinates, settings.dim, source)
    fitted = fit(features, labels, protocol.loss, protocol.ridge)
    readout = readout_of(fitted, coordinates)
    error = classifier.scores(task, readout, query).test_error
    return outcome_of(fitted, labels, protocol.loss, readout, error, query)


def _run_coloured(settings: Settings, seed: np.random.SeedSequence) -> Outcome:
    query, labels, source, frame = _learned_coloured(settings, seed)
    without_fit = one_class(labels, query)
    if without_fit is not None:
        return without_fit
    task, protocol = settings.task, settings.protocol
    drawn = coloured.draw_features(settings.classifier, task, labels, frame, source)
    fitted = fit(drawn.features, labels, protocol.loss, protocol.ridge)
    readout = drawn.readout(fitted)
    error = readout.scores(task).test_error
    return outcome_of(fitted, labels, protocol.loss, readout, error, query)


def is_separable(settings: Settings, seed: np.random.SeedSequence) -> bool:
    """Whether the training data of `run` with this seed are linearly separable."""
    if not settings.task.is_white:
        _, labels, source, frame = _learned_coloured(settings, seed)
        if one_class(labels):
            return True
        drawn = coloured.draw_features(settings.classifier, settings.task, labels, frame, source)
        return separable(drawn.features, labels)
    query, labels, source = _learned(settings, seed)
    if one_class(labels):
        return True
    coordinates = settings.classifier.draw(settings.task, labels, source.rng, query)
    return separable(draw_features(coordinates, settings.dim, source), labels)


def _learned(
    settings: Settings, seed: np.random.SeedSequence
) -> tuple[Query | None, FloatArray, Source]:
    """The query, if there is one to learn; labels (n₁,) and random numbers of stage 4."""
    for_query, for_readout = seed.spawn(2)
    (n0, n1), query = settings.sizes, None
    if settings.classifier.learns_query:
        rng = np.random.default_rng(for_query)
        query = draw_query(settings.task, settings.protocol, settings.dim, n0, rng)
    source = settings.place.source(for_readout)
    return query, settings.task.sample_labels(n1, source.rng), source


def _learned_coloured(
    settings: Settings, seed: np.random.SeedSequence
) -> tuple[Query | None, FloatArray, Source, coloured.Frame]:
    """The same, and the coordinates in which signal and query lie."""
    task, protocol, query = settings.task, settings.protocol, None
    for_query, for_readout = seed.spawn(2)
    rng = np.random.default_rng(for_query)
    layout = draw_layout(task.noise, task.signal_spread, settings.dim, rng)
    vector = settings.classifier.query_vector(layout.signal, rng)
    if settings.classifier.learns_query:
        learned = draw_query_vector(task, protocol, layout, settings.sizes[0], rng)
        vector = protocol.inverse_temperature * learned
        query = query_of(learned, layout.signal, protocol)
    source = settings.place.source(for_readout)
    labels = task.sample_labels(settings.sizes[1], source.rng)
    return query, labels, source, coloured.frame_of(layout, vector)


def draw_features(coordinates: Coordinates, dim: int, source: Source) -> Array:
    """Features (n, K + min(n, p − K)) with the Gram matrix, in law, of the p features.

    The first K columns are the coordinates along the explicit directions.
    """
    count = len(coordinates.labels)
    explicit = len(coordinates.noisy)
    rest = coordinates.features_per_dim * dim - explicit
    features = (
        bartlett(count, explicit, rest, source)
        if count <= rest
        else source.standard_normal((count, explicit + rest))
    )
    features *= source.device.array(coordinates.scales)[:, None]
    noisy = source.device.array(coordinates.noisy)
    features[:, :explicit] *= noisy
    features[:, :explicit] += source.device.array(coordinates.means)
    return features


def readout_of(fitted: Fitted, coordinates: Coordinates) -> Readout:
    """The readout in the law's coordinates."""
    explicit = len(coordinates.noisy)
    weights = to_numpy(fitted.weights[:explicit])
    norm = float(np.linalg.norm(to_numpy(fitted.weights)))
    silent = weights[~coordinates.noisy]  # on directions that z does not reach
    noise = math.sqrt(max(0.0, norm**2 - float(silent @ silent)))
    return Readout(weights, fitted.bias, noise)

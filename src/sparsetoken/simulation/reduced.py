r"""Exact-in-law simulation without tokens (section 9 of docs/theory.md).

The same random variables as the token-level experiment, drawn from their joint law; nothing is
approximated.

**Stages 1–3.** The query, from O(n₀) random numbers: `model/queries.py`.

**Stage 4.** Coordinates (y, m, σ) from the classifier, then Gaussian columns. With fewer
samples than columns only their Gram matrix matters: Z Zᵀ is Wishart with p − K degrees of freedom
and has the Cholesky factor of Bartlett (normals below, √χ²_{p−K−i} on the diagonal), n²/2 numbers
whatever p is. Its rows are as good as the features.

**No test set.** Given the readout the test error is the law's own formula.
"""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.fitting.fit import fit
from sparsetoken.fitting.objective import Fitted
from sparsetoken.fitting.separability import separable
from sparsetoken.model.classifiers import Classifier, Query
from sparsetoken.model.law import Coordinates, Readout
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.queries import draw_query
from sparsetoken.model.task import Task
from sparsetoken.simulation.devices import Device, Source, to_numpy
from sparsetoken.simulation.outcome import Outcome, one_class, training_numbers
from sparsetoken.support.arrays import Array, floats

_ROWS = 256  # of a Bartlett factor drawn at once


def run(
    task: Task,
    classifier: Classifier,
    protocol: Protocol,
    dim: int,
    sizes: tuple[int, int],
    seed: np.random.SeedSequence,
    device: Device,
) -> Outcome:
    """One run of the protocol with n₀, n₁ = sizes."""
    query, source = _learned(task, classifier, protocol, dim, sizes[0], seed, device)
    labels = task.sample_labels(sizes[1], source.rng)
    alone = one_class(labels, query)
    if alone is not None:
        return alone
    coordinates = classifier.draw(task, labels, source.rng, query)
    features = draw_features(coordinates, dim, source)
    fitted = fit(features, labels, protocol.loss, protocol.ridge)
    readout, norm = readout_of(fitted, coordinates)
    train_error, train_loss = training_numbers(fitted.scores, labels, protocol.loss)
    return Outcome(
        query=query,
        readout=readout,
        readout_norm=norm,
        train_error=train_error,
        train_loss=train_loss,
        test_error=classifier.scores(task, readout, query).test_error,
        certificate=fitted.certificate,
    )


def is_separable(
    task: Task,
    classifier: Classifier,
    protocol: Protocol,
    dim: int,
    sizes: tuple[int, int],
    seed: np.random.SeedSequence,
) -> bool:
    """Whether the training data of `run` with this seed are linearly separable."""
    query, source = _learned(task, classifier, protocol, dim, sizes[0], seed, Device())
    labels = task.sample_labels(sizes[1], source.rng)
    if one_class(labels):
        return True
    coordinates = classifier.draw(task, labels, source.rng, query)
    return separable(draw_features(coordinates, dim, source), labels)


def _learned(
    task: Task,
    classifier: Classifier,
    protocol: Protocol,
    dim: int,
    count: int,
    seed: np.random.SeedSequence,
    device: Device,
) -> tuple[Query | None, Source]:
    """The query, if there is one to learn, and the random numbers of stage 4."""
    for_query, for_readout = seed.spawn(2)
    query = None
    if classifier.learns_query:
        query = draw_query(task, protocol, dim, count, np.random.default_rng(for_query))
    return query, device.source(for_readout)


def draw_features(coordinates: Coordinates, dim: int, source: Source) -> Array:
    """Features (n, K + min(n, p − K)) with the Gram matrix, in law, of the p features.

    The first K columns are the coordinates along the explicit directions.
    """
    count = len(coordinates.labels)
    explicit = len(coordinates.noisy)
    rest = coordinates.features_per_dim * dim - explicit
    features = (
        _bartlett(count, explicit, rest, source)
        if count <= rest
        else source.normal((count, explicit + rest))
    )
    features *= source.device.array(coordinates.scales)[:, None]
    noisy = source.device.array(coordinates.noisy)
    features[:, :explicit] *= noisy
    features[:, :explicit] += source.device.array(coordinates.means)
    return features


def _bartlett(count: int, explicit: int, freedoms: int, source: Source) -> Array:
    """K columns of normals, then the lower factor of a Wishart matrix (count × count)."""
    factor = source.device.empty((count, explicit + count))
    for start in range(0, count, _ROWS):
        stop = min(start + _ROWS, count)
        xp, block = floats(source.normal((stop - start, explicit + stop)))
        block[:, explicit + start :] = xp.tril(block[:, explicit + start :])
        factor[start:stop, : explicit + stop] = block
        factor[start:stop, explicit + stop :] = 0.0
    index = np.arange(count)
    factor[index, explicit + index] = source.chi(freedoms - index.astype(float))
    return factor


def readout_of(fitted: Fitted, coordinates: Coordinates) -> tuple[Readout, float]:
    """The readout in the law's coordinates, and ‖w‖."""
    explicit = len(coordinates.noisy)
    weights = to_numpy(fitted.weights[:explicit])
    norm = float(np.linalg.norm(to_numpy(fitted.weights)))
    silent = weights[~coordinates.noisy]  # on directions that z does not reach
    noise = math.sqrt(max(0.0, norm**2 - float(silent @ silent)))
    return Readout(weights, fitted.bias, noise), norm

r"""Exact-in-law simulation without tokens (section 9 of docs/theory.md).

The same random variables as the token-level experiment, drawn from their joint law; nothing is
approximated.

**Stages 1–3.** P = I − 11ᵀ/L makes P X_i independent of the mean token. The query lies in the span
of ξ, the noise in Σ c_i x̄_i, and fresh noise; all it needs of a sample is

    its logit,   ⟨v, t⟩,   ⟨ζ, t⟩,   ‖t‖²      for t = P(a v + s ζ),  a = θ⟨ξ, w¹⟩1₊,  s = ‖w¹‖:

with ϱ = ‖Pv‖² = R(1 − R/L), g ~ N(0,1) and h ~ χ²(L−2) they are aϱ + s√ϱ g, g(a√ϱ + sg) + sh and
(a√ϱ + sg)² + s²h. So the query costs O(n₀) random numbers, whatever L and d are. Tokens that share
a part ρ of their noise have a mean token of variance ρ + (1−ρ)/L, and √(1−ρ) ζ in place of ζ.

**Stage 4.** Coordinates (y, m, σ) from the classifier, then Gaussian columns. With fewer
samples than columns only their Gram matrix matters: Z Zᵀ is Wishart with p − K degrees of freedom
and has the Cholesky factor of Bartlett (normals below, √χ²_{p−K−i} on the diagonal), n²/2 numbers
whatever p is. Its rows are as good as the features.

**No test set.** Given the readout the test error is the law's own formula.
"""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.model.arrays import Array, floats
from sparsetoken.model.classifiers import Classifier, Query
from sparsetoken.model.law import Coordinates, Readout
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation.devices import Device, Source, to_numpy
from sparsetoken.simulation.fitting import fit
from sparsetoken.simulation.objective import Fitted
from sparsetoken.simulation.outcome import Outcome, one_class, training_numbers
from sparsetoken.simulation.separability import separable

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
    problem = one_class(labels)
    if problem:
        return Outcome(query=query, status=problem)
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
        query = learn_query(task, protocol, dim, count, np.random.default_rng(for_query))
    return query, device.source(for_readout)


def learn_query(
    task: Task, protocol: Protocol, dim: int, n: int, rng: np.random.Generator
) -> Query:
    """Stages 1–3 with n samples in dimension d: the query's overlap and norm, exact in law."""
    length, loss = task.length, protocol.loss
    labels = task.sample_labels(n, rng)
    positive = labels > 0
    theta, sparsity = task.sample_signals(n, rng)
    share = sparsity / length
    doses = theta * share * positive
    c = labels * float(loss.slope(0.0))
    # Σ c_i Z̄_i = ‖c‖ √v̄ g₀, v̄ = 1/L or so: its component along ξ, and the length of the rest
    size = float(np.linalg.norm(c)) * math.sqrt(task.mean_variance)
    along, across = rng.standard_normal(), math.sqrt(rng.chisquare(dim - 1))
    step = -protocol.readout_step / n
    on_signal = step * (doses @ c + size * along)  # ⟨w¹, ξ⟩
    off_signal = step * size * across
    norm = math.hypot(on_signal, off_signal)  # ‖w¹‖
    bias = -protocol.bias_step * c.mean()
    # logits: the sample's own contribution to w¹, and noise orthogonal to c
    own = c / np.linalg.norm(c)
    noise = rng.standard_normal(n)
    noise = (noise - own * (own @ noise)) * norm + own * (along * on_signal + across * off_signal)
    logits = bias + doses * on_signal + noise * math.sqrt(task.mean_variance)
    h = labels * loss.slope(labels * logits)
    if length == 1 or norm == 0:  # one token is its own mean: the query has no gradient
        return Query(0.0, 0.0, 0.0)
    own_part = math.sqrt(1 - task.token_correlation)  # of the noise
    spread = theta * np.sqrt(sparsity * (1 - share)) * positive  # θ‖Pv‖
    g = rng.standard_normal(n)
    rest = rng.chisquare(length - 2, n) if length > 2 else np.zeros(n)
    moved = spread * on_signal + own_part * norm * g
    on_signal_pull = float((h * spread) @ moved)  # Σ h θ⟨v, t⟩
    on_readout_pull = own_part * float(h @ (g * moved + own_part * norm * rest))  # Σ h √(1−ρ)⟨ζ, t⟩
    free = own_part * math.sqrt(float((h * h) @ (moved * moved + (own_part * norm) ** 2 * rest)))
    cosine = on_signal / norm
    sine = abs(off_signal) / norm
    parallel = on_signal_pull * cosine + on_readout_pull  # along w¹
    sideways = on_signal_pull * sine + free * rng.standard_normal()  # in the plane of w¹ and ξ
    elsewhere = free * math.sqrt(rng.chisquare(dim - 2)) if dim > 2 else 0.0
    scale = -protocol.query_step * protocol.inverse_temperature / (n * length)
    overlap = scale * (parallel * cosine + sideways * sine)
    total = abs(scale) * math.sqrt(parallel**2 + sideways**2 + elsewhere**2)
    return Query(overlap, total, protocol.inverse_temperature * total)


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

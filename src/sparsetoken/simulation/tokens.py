r"""Token-level simulation: the plain experiment, streamed. The witness of `reduced.py`.

Tokens are drawn in blocks from a stream that can be started again, so no more than a block of them
exists at a time; each stage is one pass. A block holds all coordinates of some samples. For
features wider than a token (`Vectorized`, whose features are the tokens themselves), with fewer
samples than features, it holds some coordinates of all samples, and only the Gram matrix is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.fitting.fit import fit, fit_gram
from sparsetoken.fitting.groups import Groups
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.law import Readout
from sparsetoken.model.layout import Layout, draw_layout
from sparsetoken.model.noise import Noise
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation.coloured import readout_of_vectors
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.outcome import AnyReadout, Outcome, one_class, outcome_of, query_of
from sparsetoken.simulation.pooling import PositionReadout
from sparsetoken.simulation.settings import Settings
from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.devices import to_numpy

_BLOCK = 1 << 22  # numbers in a block of tokens: 32 MiB in float64


@dataclass(frozen=True, eq=False)
class TokenStream:
    """n samples of a task in dimension d with this noise, drawn again in each pass."""

    task: Task
    noise: Noise
    labels: FloatArray  # (n,)
    signal: FloatArray  # (d,)
    seed: np.random.SeedSequence
    device: Device
    block: int = field(default_factory=lambda: _BLOCK)  # numbers; the draws depend on it
    layout: Layout | None = None  # of the task's covariances; None for white tokens

    @property
    def axis(self) -> FloatArray:
        """The unit vector (d,) along which the signal lies in the tokens as they are given."""
        return self.signal

    @property
    def by_coordinates(self) -> bool:
        """Whether `coordinates` can be drawn."""
        layouts = self.layout is None or self.layout.by_coordinates
        return layouts and self.noise.by_coordinates

    def samples(self, count: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Tokens (rows, L, d) of the first `count` samples, a block of samples at a time."""
        source = self.device.source(self.seed)
        dim, n = len(self.signal), len(self.labels)
        signal = self.device.array(self.signal)
        rows = max(1, self.block // (self.task.length * dim))
        for start in range(0, n if count is None else count, rows):
            part = slice(start, min(start + rows, n))
            which, where, strengths = self._signals(part, source.rng)
            tokens = self.noise.draw((part.stop - start, self.task.length, dim), source)
            if self.layout is not None:
                tokens = self.layout.coloured(tokens, which, where)
            tokens[which, where, :] += self.device.array(strengths)[:, None] * signal
            if count is not None and part.stop > count:
                part = slice(start, count)
                tokens = tokens[: count - start]
            yield part, tokens

    def coordinates(self, columns: int) -> Iterator[tuple[slice, Array]]:
        """Tokens (n, L, columns) of all samples, some coordinates at a time."""
        source = self.device.source(self.seed)
        dim, n = len(self.signal), len(self.labels)
        which, where, strengths = self._signals(slice(0, n), source.rng)
        for start in range(0, dim, columns):
            part = slice(start, min(start + columns, dim))
            tokens = self.noise.draw((n, self.task.length, part.stop - start), source)
            if self.layout is not None:
                tokens = self.layout.coloured(tokens, which, where, part)
            signal = self.device.array(self.signal[part])
            tokens[which, where, :] += self.device.array(strengths)[:, None] * signal
            yield part, tokens

    def _signals(
        self, part: slice, rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Which samples carry the signal in which of their tokens, and how strong it is there."""
        positive = self.labels[part] > 0
        strength, sparsity = self.task.sample_signals(len(positive), rng)
        places = self.task.sample_places(len(positive), rng, sparsity) & positive[:, None]
        which, where = np.nonzero(places)
        return which, where, np.broadcast_to(strength, len(positive)).astype(float)[which]


class Streams(NamedTuple):
    """The samples of one run."""

    query: TokenStream
    readout: TokenStream
    test: TokenStream
    rng: np.random.Generator  # for what else is random: the direction of a frozen query


def draw_signal(task: Task, dim: int, rng: np.random.Generator) -> tuple[FloatArray, Layout | None]:
    """ξ (d,), random as far as the task leaves it open, and how tokens are coloured."""
    if not task.is_white:
        layout = draw_layout(task.noise, task.signal_spread, dim, rng)
        return layout.signal, layout
    signal = rng.standard_normal(dim)
    return signal / np.linalg.norm(signal), None


def draw_streams(settings: Settings, seed: np.random.SeedSequence) -> Streams:
    """Samples of the task, with a signal of random direction."""
    seeds, task, sizes = seed.spawn(4), settings.task, settings.sizes
    noise = settings.token_noise
    rng = np.random.default_rng(seeds[0])
    signal, layout = draw_signal(task, settings.dim, rng)

    def stream(n: int, tokens: np.random.SeedSequence) -> TokenStream:
        labels = task.sample_labels(n, rng)
        return TokenStream(task, noise, labels, signal, tokens, settings.place, layout=layout)

    readout = stream(max(sizes) if settings.reuse_data else sizes[1], seeds[1])
    test = stream(settings.test_samples, seeds[2])
    query = readout if settings.reuse_data else stream(sizes[0], seeds[3])
    return Streams(query, readout, test, rng)


def run(settings: Settings, streams: Streams) -> Outcome:
    """One run of the protocol, tested on fresh tokens."""
    classifier, protocol = settings.classifier, settings.protocol
    train, device, (n0, n1) = streams.readout, settings.place, settings.sizes
    query = None
    if classifier.learns_query:
        gradient = learn_query(streams.query, n0, protocol)
        query = query_of(gradient, streams.query.axis, protocol)
        direction: FloatArray | None = protocol.inverse_temperature * gradient  # βq
    else:
        direction = classifier.query_vector(train.axis, streams.rng)
    labels = train.labels[:n1]
    without_fit = one_class(labels, query)
    if without_fit is not None:
        return without_fit
    width = classifier.features_per_dim(settings.task) * settings.dim
    if max(n1, settings.dim) < width and train.by_coordinates:
        return _by_coordinates(streams, settings)
    if settings.training in ("joint", "joint with free query"):
        return _joint(streams, settings, None)
    query_vector = None if direction is None else device.array(direction)
    features = device.empty((n1, width))
    for part, tokens in train.samples(n1):
        features[part] = classifier.features(tokens, query_vector)
    fitted = fit(features, labels, protocol.loss, protocol.ridge)
    del features
    weights = to_numpy(fitted.weights)
    if settings.training == "joint from stages" and direction is not None:
        start = (direction / protocol.inverse_temperature, weights, fitted.bias)
        return _joint(streams, settings, start)
    readout = _readout(settings, train, weights, fitted.bias, direction)
    error = _test_error(streams.test, classifier, query_vector, fitted.weights, fitted.bias)
    return outcome_of(fitted, labels, protocol.loss, readout, error, query)


def _test_error(
    test: TokenStream, classifier: Classifier, direction: Array | None, weights: Array, bias: float
) -> float:
    wrong = 0.0
    for part, tokens in test.samples():
        scores = classifier.features(tokens, direction) @ weights + bias
        wrong += _wrong(test.labels[part], to_numpy(scores))
    return wrong / len(test.labels)


def _joint(
    streams: Streams, settings: Settings, start: tuple[FloatArray, FloatArray, float] | None
) -> Outcome:
    """All parameters at once, on the first n₁ samples."""
    train, protocol, n = streams.readout, settings.protocol, settings.sizes[1]
    tokens = np.concatenate([block for _, block in train.samples(n)])
    samples = Groups(tokens.reshape(-1, tokens.shape[2]), tokens.shape[1] * np.arange(n + 1))
    labels, beta = train.labels[:n], protocol.inverse_temperature
    query_ridge = 0.0 if settings.training == "joint with free query" else protocol.ridge
    trained = train_jointly(
        samples,
        labels,
        protocol.loss,
        protocol.ridge,
        query_ridge,
        inverse_temperature=beta,
        start=start,
    )
    direction, weights = beta * trained.query, trained.weights
    readout = _readout(settings, train, weights, trained.bias, direction)
    error = _test_error(streams.test, settings.classifier, direction, weights, trained.bias)
    query = query_of(trained.query, train.axis, protocol)
    return outcome_of(trained, labels, protocol.loss, readout, error, query)


def learn_query(stream: TokenStream, n: int, protocol: Protocol) -> FloatArray:
    """Stages 1–3 on the first n samples: the query (d,), by two passes over the tokens."""
    device, loss, length = stream.device, protocol.loss, stream.task.length
    labels = device.array(stream.labels[:n])
    c = labels * float(loss.slope(0.0))
    total = device.array(np.zeros(len(stream.signal)))
    for part, tokens in stream.samples(n):
        xp, tokens = floats(tokens)
        total = total + c[part] @ xp.mean(tokens, axis=1)
    readout = -protocol.readout_step / n * total  # w¹
    bias = -protocol.bias_step / n * float(xp.sum(c))
    pull = device.array(np.zeros(len(stream.signal)))
    for part, tokens in stream.samples(n):
        projected = tokens @ readout  # (rows, L)
        level = xp.mean(projected, axis=1)  # ⟨w¹, x̄⟩
        h = labels[part] * loss.slope(labels[part] * (level + bias))
        centred = h[:, None] * (projected - level[:, None])  # h_i P X_i w¹
        pull = pull + xp.reshape(centred, (-1,)) @ xp.reshape(tokens, (-1, tokens.shape[2]))
    scale = -protocol.query_step * protocol.inverse_temperature / (n * length)
    return scale * to_numpy(pull)


def _by_coordinates(streams: Streams, settings: Settings) -> Outcome:
    """Fewer samples than features, tokens side by side: through the Gram matrix."""
    train, test, protocol = streams.readout, streams.test, settings.protocol
    device, length = settings.place, settings.task.length
    columns = max(1, train.block // (length * max(len(train.labels), len(test.labels))))
    gram = device.array(np.zeros((len(train.labels),) * 2))
    for _, tokens in train.coordinates(columns):
        flat = settings.classifier.features(tokens)
        gram += flat @ flat.T
    dual, fitted = fit_gram(gram, train.labels, protocol.loss, protocol.ridge)
    scores = device.array(np.zeros(len(test.labels))) + fitted.bias
    by_position = np.zeros(length)  # readout along e_l⊗ξ
    squares = np.zeros((length, 2))  # w_lᵀSw_l
    passes = zip(train.coordinates(columns), test.coordinates(columns), strict=True)
    for (part, tokens), (_, fresh) in passes:
        xp, tokens = floats(tokens)
        weights = xp.tensordot(dual, tokens, axes=([0], [0]))  # (L, columns)
        scores = scores + xp.tensordot(fresh, weights, axes=([1, 2], [0, 1]))
        by_position += to_numpy(weights) @ train.signal[part]
        if train.layout is not None:
            for kind, root in enumerate(train.layout.roots):
                squares[:, kind] += to_numpy(weights) ** 2 @ root[part] ** 2
    norm = float(np.linalg.norm(to_numpy(fitted.weights)))
    error = _wrong(test.labels, to_numpy(scores)) / len(test.labels)
    readout: AnyReadout = Readout(by_position, fitted.bias, norm)
    if train.layout is not None:
        made_on = (settings.task.noise, settings.task.signal_spread)
        readout = PositionReadout(by_position, squares, fitted.bias, made_on)
    return outcome_of(fitted, train.labels, protocol.loss, readout, error)


def _wrong(labels: FloatArray, scores: FloatArray) -> float:
    """Number of misclassified samples, a tie counting half."""
    return float(np.sum(labels * scores < 0) + 0.5 * np.sum(scores == 0))


def _readout(
    settings: Settings,
    train: TokenStream,
    weights: FloatArray,
    bias: float,
    direction: FloatArray | None,
) -> AnyReadout | None:
    """The readout in the coordinates of the classifier's law, or by what scores depend on."""
    signal = train.axis
    if train.layout is not None:
        task, classifier = settings.task, settings.classifier
        return readout_of_vectors(classifier, task, train.layout, direction, weights, bias)
    norm = float(np.linalg.norm(weights))
    if direction is None:  # ξ, or one direction e_l⊗ξ per position
        return Readout(weights.reshape(-1, len(signal)) @ signal, bias, norm)
    size = float(np.linalg.norm(direction))
    along = direction / size if size > 0 else _orthogonal(signal)  # q̂; any for a query of zero
    across = signal - (along @ signal) * along
    length_across = float(np.linalg.norm(across))
    across = across / length_across if length_across > 1e-12 else np.zeros(len(signal))  # ξ⊥
    on_query = float(weights @ along)
    noise = math.sqrt(max(0.0, norm**2 - on_query**2))
    return Readout(np.array([on_query, weights @ across]), bias, noise)


def _orthogonal(signal: FloatArray) -> FloatArray:
    """A unit vector orthogonal to the signal."""
    other = np.zeros(len(signal))
    other[np.argmin(np.abs(signal))] = 1.0
    other -= (other @ signal) * signal
    return other / np.linalg.norm(other)

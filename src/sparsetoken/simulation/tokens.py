r"""Token-level simulation: the plain experiment, streamed. The witness of `reduced.py`.

Tokens are drawn in blocks from a stream that can be started again, so no more than a block of them
exists at a time; each stage is one pass. A block holds all coordinates of some samples. For
`Vectorized`, whose features are the tokens themselves, it holds some coordinates of all samples,
and with fewer samples than features only the Gram matrix is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsetoken.fitting.fit import fit, fit_gram
from sparsetoken.fitting.groups import Groups
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.model.classifiers import Attention, Classifier, Query, Vectorized
from sparsetoken.model.law import Readout
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation.devices import Device, Source, to_numpy
from sparsetoken.simulation.outcome import Outcome, Training, one_class, training_numbers
from sparsetoken.support.arrays import Array, FloatArray, floats

_BLOCK = 1 << 22  # numbers in a block of tokens: 32 MiB in float64


@dataclass(frozen=True, eq=False)
class TokenStream:
    """n samples of a task in dimension d, drawn again in each pass."""

    task: Task
    labels: FloatArray  # (n,)
    signal: FloatArray  # (d,)
    seed: np.random.SeedSequence
    device: Device

    def samples(self, count: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Tokens (rows, L, d) of the first `count` samples, a block of samples at a time."""
        source = self.device.source(self.seed)
        dim, n = len(self.signal), len(self.labels)
        signal = self.device.array(self.signal)
        rows = max(1, _BLOCK // (self.task.length * dim))
        for start in range(0, n if count is None else count, rows):
            part = slice(start, min(start + rows, n))
            which, where, strengths = self._signals(part, source.rng)
            tokens = self._noise(source, part.stop - start, dim)
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
            tokens = self._noise(source, n, part.stop - start)
            signal = self.device.array(self.signal[part])
            tokens[which, where, :] += self.device.array(strengths)[:, None] * signal
            yield part, tokens

    def _noise(self, source: Source, n: int, columns: int) -> Array:
        """Noise of tokens (n, L, columns)."""
        tokens, shared = source.normal((n, self.task.length, columns)), self.task.token_correlation
        if shared:
            tokens *= math.sqrt(1 - shared)
            tokens += math.sqrt(shared) * source.normal((n, 1, columns))
        return tokens

    def _signals(
        self, part: slice, rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Which samples carry the signal in which of their tokens, and how strong it is there."""
        positive = self.labels[part] > 0
        strength, sparsity = self.task.sample_signals(len(positive), rng)
        places = self.task.sample_places(len(positive), rng, sparsity) & positive[:, None]
        which, where = np.nonzero(places)
        return which, where, np.broadcast_to(strength, len(positive)).astype(float)[which]


def run(
    task: Task,
    classifier: Classifier,
    protocol: Protocol,
    dim: int,
    sizes: tuple[int, int],
    seed: np.random.SeedSequence,
    device: Device,
    test_samples: int,
    reuse_data: bool,
    training: Training,
) -> Outcome:
    """One run of the protocol with n₀, n₁ = sizes, tested on fresh tokens."""
    seeds = seed.spawn(4)
    rng = np.random.default_rng(seeds[0])
    signal = rng.standard_normal(dim)
    signal /= np.linalg.norm(signal)

    def stream(n: int, tokens: np.random.SeedSequence) -> TokenStream:
        return TokenStream(task, task.sample_labels(n, rng), signal, tokens, device)

    readout_count = max(sizes) if reuse_data else sizes[1]
    for_readout, for_test = stream(readout_count, seeds[1]), stream(test_samples, seeds[2])
    direction = None  # βq
    query = None
    if classifier.learns_query:
        for_query = for_readout if reuse_data else stream(sizes[0], seeds[3])
        gradient = learn_query(for_query, sizes[0], protocol)
        norm = float(np.linalg.norm(gradient))
        query = Query(float(gradient @ signal), norm, protocol.inverse_temperature * norm)
        direction = protocol.inverse_temperature * gradient
    elif isinstance(classifier, Attention):
        direction = frozen_query(classifier, signal, rng)
    labels = for_readout.labels[: sizes[1]]
    alone = one_class(labels, query)
    if alone is not None:
        return alone
    if isinstance(classifier, Vectorized) and sizes[1] < task.length * dim:
        return _by_coordinates(for_readout, for_test, protocol)
    if training in ("joint", "joint with free query"):
        query_ridge = protocol.ridge if training == "joint" else 0.0
        return _joint(for_readout, for_test, sizes[1], classifier, protocol, query_ridge, None)
    given = None if direction is None else device.array(direction)
    width = task.length * dim if isinstance(classifier, Vectorized) else dim
    features = device.empty((sizes[1], width))
    for part, tokens in for_readout.samples(sizes[1]):
        features[part] = classifier.features(tokens, given)
    fitted = fit(features, labels, protocol.loss, protocol.ridge)
    del features
    weights = to_numpy(fitted.weights)
    if training == "joint from stages" and direction is not None:
        start = (direction / protocol.inverse_temperature, weights, fitted.bias)
        ridge = protocol.ridge
        return _joint(for_readout, for_test, sizes[1], classifier, protocol, ridge, start)
    train_error, train_loss = training_numbers(fitted.scores, labels, protocol.loss)
    return Outcome(
        query=query,
        readout=_readout(weights, fitted.bias, signal, direction, task.length),
        readout_norm=float(np.linalg.norm(weights)),
        train_error=train_error,
        train_loss=train_loss,
        test_error=_test_error(for_test, classifier, given, fitted.weights, fitted.bias),
        certificate=fitted.certificate,
    )


def _test_error(
    test: TokenStream, classifier: Classifier, direction: Array | None, weights: Array, bias: float
) -> float:
    wrong = 0.0
    for part, tokens in test.samples():
        scores = classifier.features(tokens, direction) @ weights + bias
        wrong += _wrong(test.labels[part], to_numpy(scores))
    return wrong / len(test.labels)


def _joint(
    train: TokenStream,
    test: TokenStream,
    n: int,
    classifier: Classifier,
    protocol: Protocol,
    query_ridge: float,
    start: tuple[FloatArray, FloatArray, float] | None,
) -> Outcome:
    """All parameters at once, on the first n samples."""
    tokens = np.concatenate([block for _, block in train.samples(n)])
    samples = Groups(tokens.reshape(-1, tokens.shape[2]), tokens.shape[1] * np.arange(n + 1))
    labels, beta = train.labels[:n], protocol.inverse_temperature
    trained = train_jointly(
        samples,
        labels,
        protocol.loss,
        protocol.ridge,
        query_ridge,
        inverse_temperature=beta,
        start=start,
    )
    norm = float(np.linalg.norm(trained.query))
    direction = beta * trained.query
    train_error, train_loss = training_numbers(trained.scores, labels, protocol.loss)
    return Outcome(
        query=Query(float(trained.query @ train.signal), norm, beta * norm),
        readout=_readout(trained.weights, trained.bias, train.signal, direction, train.task.length),
        readout_norm=float(np.linalg.norm(trained.weights)),
        train_error=train_error,
        train_loss=train_loss,
        test_error=_test_error(test, classifier, direction, trained.weights, trained.bias),
        certificate=trained.certificate,
    )


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


def frozen_query(classifier: Attention, signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """βq with the given cosine to the signal and sharpness, its other direction random."""
    assert classifier.cosine is not None and classifier.sharpness is not None
    other = rng.standard_normal(len(signal))
    other -= (other @ signal) * signal
    other *= math.sqrt(1 - classifier.cosine**2) / np.linalg.norm(other)
    return classifier.sharpness * (classifier.cosine * signal + other)


def _by_coordinates(train: TokenStream, test: TokenStream, protocol: Protocol) -> Outcome:
    """`Vectorized` with fewer samples than features: through the Gram matrix."""
    device, length = train.device, train.task.length
    columns = max(1, _BLOCK // (length * max(len(train.labels), len(test.labels))))
    gram = device.array(np.zeros((len(train.labels),) * 2))
    for _, tokens in train.coordinates(columns):
        xp, tokens = floats(tokens)
        flat = xp.reshape(tokens, (len(train.labels), -1))
        gram += flat @ flat.T
    dual, fitted = fit_gram(gram, train.labels, protocol.loss, protocol.ridge)
    scores = device.array(np.zeros(len(test.labels))) + fitted.bias
    by_position = np.zeros(length)  # readout along e_l⊗ξ
    passes = zip(train.coordinates(columns), test.coordinates(columns), strict=True)
    for (part, tokens), (_, fresh) in passes:
        weights = xp.tensordot(dual, tokens, axes=([0], [0]))  # (L, columns)
        scores = scores + xp.tensordot(fresh, weights, axes=([1, 2], [0, 1]))
        by_position += to_numpy(weights) @ train.signal[part]
    norm = float(np.linalg.norm(to_numpy(fitted.weights)))
    train_error, train_loss = training_numbers(fitted.scores, train.labels, protocol.loss)
    return Outcome(
        readout=Readout(by_position, fitted.bias, norm),
        readout_norm=norm,
        train_error=train_error,
        train_loss=train_loss,
        test_error=_wrong(test.labels, to_numpy(scores)) / len(test.labels),
        certificate=fitted.certificate,
    )


def _wrong(labels: FloatArray, scores: FloatArray) -> float:
    """Number of misclassified samples, a tie counting half."""
    return float(np.sum(labels * scores < 0) + 0.5 * np.sum(scores == 0))


def _readout(
    weights: FloatArray, bias: float, signal: FloatArray, direction: FloatArray | None, length: int
) -> Readout:
    """The readout in the coordinates of the classifier's law."""
    norm = float(np.linalg.norm(weights))
    if len(weights) != len(signal):  # Vectorized: one direction e_l⊗ξ per position
        return Readout(weights.reshape(length, -1) @ signal, bias, norm)
    if direction is None:  # Pooled: ξ
        return Readout(np.array([weights @ signal]), bias, norm)
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

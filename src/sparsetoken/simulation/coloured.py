r"""The reduced sampler where noise has a covariance or the signal a spread: exact in law.

Within coordinates of equal eigenvalues (`Layout.counts`) everything is isotropic. So all that is
explicit in each group is the direction of ξ and that of the query beside it; the rest of the
columns is Gaussian, scaled sample by sample, and where a group has more columns than there are
samples only its Gram matrix matters: a Bartlett factor for each group. Matrices leave no such
groups: all their coordinates are explicit, and what is spared are the tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.fitting.objective import Fitted
from sparsetoken.model import classifiers, vectorized
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.layout import Layout, times
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.simulation.devices import Source
from sparsetoken.simulation.gram import gaussian_columns
from sparsetoken.simulation.pooling import PositionReadout, Pull, TokenReadout, pooled
from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.devices import to_numpy
from sparsetoken.support.errors import InvalidInput

_BLOCK = 1 << 20  # numbers worked on at once


class Group(NamedTuple):
    """Columns that are alike: isotropic noise of these two variances."""

    size: int
    noise: float  # eigenvalue of Σ
    signal: float  # eigenvalue of C


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates in which ξ and κ are known, and groups of those in which neither lies."""

    signal: FloatArray  # (m,), ξ
    query: FloatArray  # (m,), κ
    roots: tuple[FloatArray, FloatArray]  # of Σ and C, (m,) or (m, m)
    rest: tuple[Group, ...]

    @property
    def pull(self) -> Pull:
        """The query as tokens see it."""
        noise, signal = (float(np.linalg.norm(times(root, self.query))) for root in self.roots)
        return Pull(float(self.query @ self.signal), noise, signal)


def frame_of(layout: Layout, query: FloatArray | None) -> Frame:
    """The smallest one of a layout, with a query κ (d,) or none."""
    xi = layout.signal
    kappa = np.zeros(len(xi)) if query is None else query
    if not layout.by_coordinates:
        return Frame(xi, kappa, layout.roots, ())
    signal, along, roots, rest = [], [], [], []
    stop = np.cumsum(layout.counts)
    for low, high in zip(stop - layout.counts, stop, strict=True):
        if high == low:
            continue
        own, other = xi[low:high], kappa[low:high]
        length = float(np.linalg.norm(own))
        axis = own / length if length > 0 else np.zeros(high - low)
        on_axis = float(axis @ other)
        beside = float(np.linalg.norm(other - on_axis * axis)) if high - low > (length > 0) else 0.0
        coordinates = []
        if length > 0:
            coordinates.append((length, on_axis))
        if beside > 0:
            coordinates.append((0.0, beside))
        pair = (float(layout.noise_root[low]), float(layout.signal_root[low]))
        for on_signal, on_query in coordinates:
            signal.append(on_signal)
            along.append(on_query)
            roots.append(pair)
        left = int(high - low) - len(coordinates)
        if left:
            rest.append(Group(left, pair[0] ** 2, pair[1] ** 2))
    both = np.array(roots).reshape(-1, 2).T
    return Frame(np.array(signal), np.array(along), (both[0], both[1]), tuple(rest))


class Drawn(NamedTuple):
    """Training features, and how a fit to them is read."""

    features: Array  # (n, columns)
    frame: Frame
    groups: tuple[tuple[slice, Group], ...]  # columns of the rest
    task: Task
    weighting: Weighting | None  # None: side by side

    def readout(self, fitted: Fitted) -> TokenReadout | PositionReadout:
        """What the fitted readout is on fresh samples."""
        weights = to_numpy(fitted.weights)
        made_on = (self.task.noise, self.task.signal_spread)
        if self.weighting is None:
            return self._by_position(weights, fitted.bias, made_on)
        frame = self.frame
        explicit = weights[: len(frame.signal)]
        squares = np.array([float((times(root, explicit) ** 2).sum()) for root in frame.roots])
        for columns, group in self.groups:
            energy = float(weights[columns] @ weights[columns])
            squares += energy * np.array([group.noise, group.signal])
        return token_readout(
            float(explicit @ frame.signal),
            [float(times(root, explicit) @ times(root, frame.query)) for root in frame.roots],
            squares, fitted.bias, frame.pull, self.weighting, made_on,
        )  # fmt: skip

    def _by_position(
        self, weights: FloatArray, bias: float, made_on: tuple[object, object]
    ) -> PositionReadout:
        length, size = self.task.length, len(self.frame.signal)
        explicit = weights[: length * size].reshape(length, size)
        squares = np.stack([(times(root, explicit) ** 2).sum(1) for root in self.frame.roots], 1)
        for place, (columns, group) in enumerate(self.groups):
            energy = float(weights[columns] @ weights[columns])
            both = energy * np.array([group.noise, group.signal])
            if self.task.has_spread:  # groups of one position after those of another
                squares[place // len(self.frame.rest)] += both
            else:
                squares += both / length  # of all positions: only their sum matters
        return PositionReadout(explicit @ self.frame.signal, squares, bias, made_on)


def token_readout(
    on_signal: float,
    products: Any,
    squares: Any,
    bias: float,
    pull: Pull,
    weighting: Weighting,
    made_on: tuple[object, object],
) -> TokenReadout:
    """From ⟨w, ξ⟩, wᵀSκ and wᵀSw of both covariances S."""
    sizes = np.array([pull.noise, pull.signal])
    on_query = np.divide(products, sizes, out=np.zeros(2), where=sizes > 0)
    left = np.sqrt(np.maximum(np.asarray(squares) - on_query**2, 0.0))
    return TokenReadout(on_signal, on_query, left, bias, pull, weighting, made_on)


@singledispatch
def weighting_of(classifier: Classifier) -> Weighting | None:
    """How tokens are weighted by their scores before they are added; None where they are not."""
    return None


@weighting_of.register
def _(classifier: classifiers.Attention) -> Weighting:
    return classifier.weighting


@weighting_of.register
def _(classifier: classifiers.Pooled) -> Weighting:
    return SOFTMAX  # without a query all scores are equal


@singledispatch
def readout_of_vectors(
    classifier: Classifier,
    task: Task,
    layout: Layout,
    query: FloatArray | None,
    weights: FloatArray,
    bias: float,
) -> TokenReadout | PositionReadout | None:
    """The same from vectors, as tokens give them; None for a classifier unknown here."""
    made_on, weighting = (task.noise, task.signal_spread), weighting_of(classifier)
    if weighting is None:
        return None
    frame = Frame(
        layout.signal, np.zeros(len(weights)) if query is None else query, layout.roots, ()
    )
    ends = [(times(root, weights), times(root, frame.query)) for root in layout.roots]
    return token_readout(
        float(weights @ layout.signal), [float(w @ k) for w, k in ends],
        [float(w @ w) for w, _ in ends], bias, frame.pull, weighting, made_on,
    )  # fmt: skip


@readout_of_vectors.register
def _(
    classifier: vectorized.Vectorized,
    task: Task,
    layout: Layout,
    query: FloatArray | None,
    weights: FloatArray,
    bias: float,
) -> PositionReadout:
    rows = weights.reshape(task.length, -1)
    squares = np.stack([(times(root, rows) ** 2).sum(axis=1) for root in layout.roots], axis=1)
    return PositionReadout(rows @ layout.signal, squares, bias, (task.noise, task.signal_spread))


@singledispatch
def draw_features(
    classifier: Classifier, task: Task, labels: FloatArray, frame: Frame, source: Source
) -> Drawn:
    """Features of samples with these labels, exact in law."""
    raise InvalidInput(
        "simulate: sampler must be 'tokens' for coloured noise, or a signal with a spread, and "
        f"another classifier than Pooled(), Vectorized() or Attention(), got {classifier!r}"
    )


@draw_features.register(classifiers.Pooled)
@draw_features.register(classifiers.Attention)
def _(
    classifier: Classifier, task: Task, labels: FloatArray, frame: Frame, source: Source
) -> Drawn:
    weighting, rng, count = weighting_of(classifier), source.rng, len(labels)
    assert weighting is not None
    size, pull = len(frame.signal), frame.pull
    sizes = np.empty((count, 2))
    explicit = source.device.empty((count, size))
    kept = [
        (root, times(root, times(root, frame.query)) / max(scale, 1e-300), scale)
        for root, scale in zip(frame.roots, pull[1:], strict=True)
    ]
    rows = max(1, _BLOCK // (task.length + size))
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        strength, places = _signals(task, labels[part], rng)
        noise = rng.standard_normal((len(places), task.normals))
        tokens = pooled(noise, places, strength, task, weighting, pull)
        made = tokens.dose[:, None] * frame.signal
        for kind, (root, axis, scale) in enumerate(kept[: 1 + task.has_spread]):
            fresh = times(root, rng.standard_normal((len(places), size)))
            if scale > 0:  # what the scores have told is taken off, and put in as it was
                known = fresh @ frame.query / scale
                made += (tokens.along[:, kind] - tokens.sizes[:, kind] * known)[:, None] * axis
            made += tokens.sizes[:, kind, None] * fresh
        explicit[part], sizes[part] = source.device.array(made), tokens.sizes
    blocks, groups, column = [explicit], [], size
    for group in frame.rest:
        scales = np.sqrt(sizes**2 @ np.array([group.noise, group.signal]))
        block = gaussian_columns(scales, group.size, source)
        groups.append((slice(column, column + block.shape[1]), group))
        blocks.append(block)
        column += block.shape[1]
    return Drawn(_joined(blocks), frame, tuple(groups), task, weighting)


@draw_features.register
def _(
    classifier: vectorized.Vectorized,
    task: Task,
    labels: FloatArray,
    frame: Frame,
    source: Source,
) -> Drawn:
    if task.token_correlation:  # side by side, tokens that share noise are no blocks
        classifiers.refuse(classifier.possible(task))
    length, size, count = task.length, len(frame.signal), len(labels)
    strength, places = _signals(task, labels, source.rng)
    doses = np.broadcast_to(strength, count)[:, None] * places
    blocks = []
    for position in range(length):
        carries = places[:, position, None]
        white = source.rng.standard_normal((count, size))
        noise = times(frame.roots[0], white)
        if task.has_spread:
            noise = np.where(carries, times(frame.roots[1], white), noise)
        blocks.append(source.device.array(doses[:, position, None] * frame.signal + noise))
    groups, column = [], length * size
    # with a spread the scale of a sample's columns depends on the position, else on nothing
    for position in range(length if task.has_spread else 1):
        for group in frame.rest:
            scales = np.full(count, math.sqrt(group.noise))
            if task.has_spread:
                scales[places[:, position]] = math.sqrt(group.signal)
            columns = group.size if task.has_spread else length * group.size
            block = gaussian_columns(scales, columns, source)
            groups.append((slice(column, column + block.shape[1]), group))
            blocks.append(block)
            column += block.shape[1]
    return Drawn(_joined(blocks), frame, tuple(groups), task, None)


def _signals(
    task: Task, labels: FloatArray, rng: np.random.Generator
) -> tuple[float | FloatArray, Any]:
    """Strengths and places (n, L) of the signal in samples with these labels."""
    strength, sparsity = task.sample_signals(len(labels), rng)
    return strength, task.sample_places(len(labels), rng, sparsity) & (labels > 0)[:, None]


def _joined(blocks: list[Array]) -> Array:
    xp, _ = floats(blocks[0])
    return xp.concat(blocks, axis=1)

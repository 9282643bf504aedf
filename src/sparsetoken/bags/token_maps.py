r"""Maps of tokens: other coordinates, in which what is sought is one direction.

`NystroemMap`: with landmarks m_1, m_2, … among the tokens and the kernel

    k(x, m) = exp(−‖x − m‖²/(width·median of ‖m_i − m_j‖²)),      x → (K + εI)^{−1/2} k(x, ·),

inner products of mapped tokens are, about, the kernel itself; K holds that of landmarks. Distances
are in units of sizes (`Units`), landmarks are spread evenly over the different tokens ordered by
their length: neither units nor order of what the caller gives matter, and nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.repeats import RepeatedBags, repeated
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.units import Units, inverse
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real, whole
from sparsetoken.support.errors import InvalidInput

_ALIKE = 1e-9  # part of their squared length by which different tokens differ: more than rounding
_RIDGE = 1e-6  # ε: below it directions of the kernel are rounding of single precision
_BLOCK = 1 << 20  # numbers of a kernel made at once


class NystroemMap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Tokens by their likeness to landmarks: a kernel without its matrix of all pairs.

    Parameters
    ----------
    landmarks : int
        How many, at most: as many as there are different tokens, if they are fewer.
    width : float
        Of the kernel: squared distances are in units of this and of the median between landmarks.

    Attributes
    ----------
    mean_, unit_ : of the coordinates (d,); 0 where they do not vary.
    landmarks_ : in these units (m, d).
    scale_ : squared distance at which the kernel has fallen to 1/e.
    root_ : (K + εI)^{−1/2} (m, m).

    Examples
    --------
    >>> tokens = np.random.default_rng(0).standard_normal((500, 3))
    >>> mapped = NystroemMap(landmarks=100).fit(tokens).transform(tokens)
    >>> mapped.shape, mapped.dtype
    ((500, 100), dtype('float32'))
    >>> kernel = mapped[:2] @ mapped[:2].T
    >>> bool(abs(kernel[0, 0] - 1) < 0.05)
    True
    """

    # Labels are not used, nor bags: a map of all training tokens tells a fold nothing of what it is
    # tested on, and mapping tokens is what takes longest
    same_in_folds = True

    def __init__(self, landmarks: int = 400, width: float = 2.0) -> None:
        self.landmarks = landmarks
        self.width = width

    def fit(self, X: Any, y: Any = None) -> NystroemMap:
        """Choose landmarks among tokens X (N, d); y is not used."""
        most = whole("NystroemMap", "landmarks", self.landmarks, least=1)
        width = real("NystroemMap", "width", self.width, above=0)
        tokens = Bags.of(X, n_tokens=1).tokens
        units = Units.of(Bags(tokens, np.array([0, len(tokens)])), np.ones(1))
        self.mean_, self.unit_ = units.mean, units.size
        marks = _landmarks(self._squared_lengths(tokens), most)
        self.landmarks_ = self._measured(tokens[marks])
        apart = _squared_distances(self.landmarks_, self.landmarks_)
        above = apart[np.triu_indices(len(marks), 1)]
        self.scale_ = width * float(np.median(above)) if len(above) else width
        values, vectors = np.linalg.eigh(np.exp(-apart / self.scale_))
        self.root_ = (vectors / np.sqrt(np.maximum(values, 0.0) + _RIDGE)) @ vectors.T
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Mapped tokens (N, m), of single precision."""
        check_is_fitted(self)
        tokens = np.asarray(X)
        mapped = np.empty((len(tokens), len(self.landmarks_)), dtype=np.float32)
        for rows in _blocks(len(tokens), max(len(self.landmarks_), tokens.shape[1])):
            apart = _squared_distances(self._measured(tokens[rows]), self.landmarks_)
            mapped[rows] = np.exp(-apart / self.scale_) @ self.root_
        return mapped

    def _measured(self, tokens: NDArray[Any]) -> FloatArray:
        """In units of the coordinates' sizes, from their means."""
        return (np.asarray(tokens, dtype=float) - self.mean_) * inverse(self.unit_)

    def _squared_lengths(self, tokens: NDArray[Any]) -> FloatArray:
        """Of all tokens (N,), so measured."""
        blocks = [self._measured(tokens[rows]) for rows in _blocks(*tokens.shape)]
        return np.concatenate([np.einsum("td,td->t", block, block) for block in blocks])


@dataclass(frozen=True, eq=False)
class FoldByFold:
    """Bags as a transformer shows them, fitted anew to those that count."""

    transformer: Any
    once: ClassVar[bool] = False
    repeats: ClassVar[bool] = False

    def seen(self, data: TrainingData) -> tuple[Any, TrainingData]:
        """The transformer fitted to bags with a weight, and all bags as it shows them."""
        bags = data.bags.load()
        fitted = clone(self.transformer).fit(_counted(bags, data.weights).tokens)
        return fitted, data.seen_as(mapped(fitted, bags))


@dataclass(frozen=True, eq=False)
class Once:
    """Bags as a map without labels shows them, the same in all folds."""

    fitted: Any
    bags: Bags
    repeats: bool  # whether tokens of held-out bags are known from others, as new ones are not
    once: ClassVar[bool] = True

    @classmethod
    def of(cls, token_map: Any, data: TrainingData) -> Once:
        bags = data.bags.load()
        fitted = clone(token_map).fit(_counted(bags, data.weights).tokens)
        repeats = repeated(bags)
        if repeats is None:
            shown = mapped(fitted, bags)
        else:
            first, index = repeats
            once = mapped(fitted, Bags(bags.tokens[first], np.arange(len(first) + 1)))
            shown = RepeatedBags(once.tokens, bags.offsets, index)
        return cls(fitted, shown, repeats is not None)

    def seen(self, data: TrainingData) -> tuple[Any, TrainingData]:
        """The map, and all bags as it shows them."""
        return self.fitted, data.seen_as(self.bags)


def view(token_map: Any, data: TrainingData) -> FoldByFold | Once:
    """How folds see bags: each by a map of its own, unless the map says that one is enough."""
    once = getattr(token_map, "same_in_folds", False)
    return Once.of(token_map, data) if once else FoldByFold(token_map)


def _counted(bags: Bags, weights: FloatArray) -> Bags:
    """The bags that count."""
    return bags if np.all(weights > 0) else bags[weights > 0]


def mapped(token_map: Any, bags: Bags) -> Bags:
    """Bags as a fitted map has them, in single precision; as they are without one."""
    if token_map is None:
        return bags
    blocks = [
        np.asarray(token_map.transform(bags.tokens[rows]), dtype=np.float32)
        for _, rows in bags.blocks()
    ]
    tokens = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    if tokens.ndim != 2 or len(tokens) != len(bags.tokens) or not np.isfinite(tokens).all():
        raise InvalidInput(
            "token_map must turn tokens (N, d) into finite numbers (N, m), got shape "
            f"{tokens.shape} for {len(bags.tokens)} tokens"
        )
    return Bags(tokens, bags.offsets)


def _blocks(count: int, width: int) -> Iterator[slice]:
    """Rows of so many numbers, a few megabytes at a time."""
    step = max(1, _BLOCK // width)
    return (slice(start, start + step) for start in range(0, count, step))


def _landmarks(lengths: FloatArray, most: int) -> NDArray[np.intp]:
    """Places of some of the tokens, evenly spread over different ones ordered by length."""
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    different = np.append(True, np.diff(ordered) > _ALIKE * ordered[1:])
    order = order[different]
    count = min(most, len(order))
    return order[((np.arange(count) + 0.5) * len(order) / count).astype(np.intp)]


def _squared_distances(tokens: FloatArray, others: FloatArray) -> FloatArray:
    """(N, m)."""
    squares = np.einsum("td,td->t", tokens, tokens)[:, None] - 2 * tokens @ others.T
    return np.maximum(squares + np.einsum("td,td->t", others, others), 0.0)

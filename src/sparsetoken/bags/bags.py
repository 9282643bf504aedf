"""What a caller gives, checked: `Bags` of any number of tokens, their labels and weights.

Bags lie side by side in one array, never padded. What is learned from them is a few passes: sums
over bags, by parts of a few megabytes (`run`), which may as well be read from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsetoken.bags.stacks import Stack, parts, stacks
from sparsetoken.bags.summary import BagSummary, summarise
from sparsetoken.fitting.groups import Groups
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

Result = TypeVar("Result")
Arrays = dict[str, FloatArray]  # what a pass leaves
_ROOM = 1 << 24  # 128 megabytes: passes over memory are cheap


@dataclass(frozen=True, eq=False)
class Bags(Groups):
    """Tokens (N, d) and offsets (n + 1,): bag i is tokens[offsets[i]:offsets[i + 1]].

    >>> bags = Bags.of([np.ones((2, 3)), np.zeros((1, 3))])
    >>> len(bags), bags.dim, bags.lengths.tolist(), bags.mean().tolist()
    (2, 3, [2, 1], [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    """

    @property
    def tokens(self) -> NDArray[Any]:
        """Of all bags, (N, d)."""
        return self.rows

    @classmethod
    def of(cls, X: Any, mask: ArrayLike | None = None, n_tokens: int | None = 1) -> Bags:
        """From (n, L, d), with a mask (n, L) of tokens that count; a list of (L_i, d) arrays; or
        flat (n, n_tokens·d) rows."""
        if mask is not None and (isinstance(X, Bags) or is_ragged(X)):
            raise InvalidInput(
                "mask must be None for Bags and lists of bags: leave out what does not count"
            )
        if isinstance(X, Bags):
            return X
        if is_ragged(X):
            return cls._of_list(X)
        array = _numbers(np.asarray(X), "X")
        if array.ndim == 2 and n_tokens is not None:
            if array.shape[1] % n_tokens:
                raise InvalidInput(
                    f"X must have a multiple of n_tokens={n_tokens} features in each flat row, got "
                    f"{array.shape[1]}"
                )
            array = array.reshape(len(array), n_tokens, -1)
        if array.ndim != 3:
            raise InvalidInput(
                "X must be an array (n, tokens, dim), a list of arrays (tokens, dim), or flat rows "
                f"(n, n_tokens*dim), got an array of shape {array.shape}"
            )
        n, length, dim = array.shape
        if not n or not length or not dim:
            raise InvalidInput(
                f"Found array with 0 sample(s), token(s) or feature(s) (shape={array.shape}) while "
                "a minimum of 1 is required."
            )
        flat = array.reshape(n * length, dim)
        if mask is None:
            return cls(_finite(flat), np.arange(n + 1) * length)
        kept = np.asarray(mask)
        if kept.dtype != bool or kept.shape != (n, length):
            raise InvalidInput(
                f"mask must be truth values of shape {(n, length)}, got {kept.dtype} of shape "
                f"{kept.shape}"
            )
        return cls(_finite(flat[kept.ravel()]), _ends(kept.sum(axis=1)))._checked()

    @classmethod
    def _of_list(cls, bags: Any) -> Bags:
        arrays = [_numbers(np.asarray(bag), f"bag {index}") for index, bag in enumerate(bags)]
        dims = {array.shape[1] for array in arrays}
        if len(dims) > 1:
            raise InvalidInput(f"all bags must have the same dimension, got {sorted(dims)}")
        offsets = _ends([len(array) for array in arrays])
        tokens = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return cls(_finite(tokens), offsets)._checked()

    @classmethod
    def of_flat(cls, tokens: Any, offsets: ArrayLike) -> Bags:
        """From tokens (N, d) and offsets (n + 1,): 0, then where each bag ends, N at last."""
        tokens = _numbers(np.asarray(tokens), "X")
        bounds = np.asarray(offsets)
        if tokens.ndim != 2 or not tokens.size:
            raise InvalidInput(f"X must have shape (tokens, dim), none 0, got {tokens.shape}")
        if bounds.dtype.kind not in "iu" or bounds.ndim != 1 or len(bounds) < 2:
            raise InvalidInput(
                "offsets must be at least two whole numbers in one dimension, got "
                f"{bounds.dtype} of shape {bounds.shape}"
            )
        if bounds[0] != 0 or bounds[-1] != len(tokens):
            raise InvalidInput(
                f"offsets must go from 0 to the number of tokens, {len(tokens)}, got {bounds[0]} "
                f"to {bounds[-1]}"
            )
        falling = np.flatnonzero(bounds[1:] < bounds[:-1])
        if len(falling):
            k = int(falling[0])
            raise InvalidInput(
                f"offsets must not fall, got {bounds[k]} and then {bounds[k + 1]} (bag {k})"
            )
        return cls(_finite(tokens), bounds.astype(np.intp))._checked()

    def _checked(self) -> Bags:
        empty = np.flatnonzero(self.lengths == 0)
        if len(empty):
            raise InvalidInput(f"every bag must have at least one token, bag {empty[0]} has none")
        return self

    def __getitem__(self, chosen: Any) -> Bags:
        """Some of the bags; a slice shares their memory."""
        index = np.arange(len(self))[chosen]
        if len(index) and np.all(np.diff(index) == 1):
            low, high = index[0], index[-1] + 1
            start, stop = self.offsets[low], self.offsets[high]
            return Bags(self.tokens[start:stop], self.offsets[low : high + 1] - start)
        parts = [self.tokens[self.offsets[i] : self.offsets[i + 1]] for i in index]
        tokens = np.concatenate(parts) if parts else self.tokens[:0]
        return Bags(tokens, _ends(self.lengths[index]))

    def load(self) -> Bags:
        """These: they are in memory."""
        return self

    def stacks(self, device: str | None = None, chosen: IntArray | None = None) -> Iterator[Stack]:
        """All or chosen bags, those of one length side by side, to be worked on on the device."""
        if chosen is None:
            chosen = np.arange(len(self))
        return stacks(self.tokens, self.offsets, chosen, device)

    def run(self, kernel: Kernel[Any]) -> Arrays:
        """One pass: what the kernel makes of the parts, put together in their order."""
        return kernel.combined(
            (part, kernel.of_part(part)(self[part], None)) for part in parts(self.lengths, self.dim)
        )

    @property
    def room(self) -> int:
        """Numbers that what is made of the bags together may take."""
        return _ROOM

    @property
    def fits(self) -> bool:
        """Whether all bags can be in memory at once."""
        return True

    @cached_property
    def summary(self) -> BagSummary:
        """Range and moments of each bag."""
        return summary_of(self)

    def split(self, values: FloatArray) -> list[FloatArray]:
        """Values of all tokens (N,) by bags: arrays (L_i,)."""
        return np.split(values, self.offsets[1:-1])

    def pool(self, weights: FloatArray) -> FloatArray:
        """Σ_l weight_l · token_l of each bag: (n, d) for weights (N,), (k, n, d) for (k, N)."""
        from scipy.sparse import csr_array

        many = np.atleast_2d(weights)
        pooled = np.zeros((len(many), len(self), self.dim))
        for bags, rows in self.blocks():
            ends = np.clip(self.offsets[bags.start : bags.stop + 1], rows.start, rows.stop)
            ends = ends - rows.start
            tokens = np.asarray(self.tokens[rows], dtype=float)
            places, shape = np.arange(len(tokens)), (len(ends) - 1, len(tokens))
            for index, weight in enumerate(many):  # a row of the sparse matrix is a bag
                pooled[index, bags] += csr_array((weight[rows], places, ends), shape=shape) @ tokens
        return pooled if np.ndim(weights) == 2 else pooled[0]

    def mean(self) -> FloatArray:
        """Mean token of each bag (n, d)."""
        return self.summary.mean

    def count(self, weights: FloatArray) -> int:
        """Tokens of bags with a weight (n,)."""
        return int(self.lengths[weights > 0].sum())

    def covariance(self) -> tuple[FloatArray, FloatArray]:
        """Mean (d,) and covariance (d, d) of all tokens."""
        mean = self.tokens.mean(axis=0, dtype=float)
        total = np.zeros((self.dim, self.dim))
        for _, rows in self.blocks():
            tokens = np.asarray(self.tokens[rows], dtype=float) - mean
            total += tokens.T @ tokens
        return mean, total / len(self.tokens)

    def weigh(self, weighting: Weighting, logits: FloatArray) -> FloatArray:
        """Weights (N,) of any rule, bags of one length at a time."""
        if weighting == SOFTMAX:
            return self.softmax(logits)
        weights = np.empty(len(logits))
        for length in np.unique(self.lengths):
            starts = self.offsets[:-1][self.lengths == length]
            places = starts[:, None] + np.arange(length)
            weights[places] = weighting.weights(logits[places])
        return weights


class Walked(Protocol):
    """Bags in memory or on disk: all that passes over them need."""

    @property
    def lengths(self) -> IntArray: ...

    @property
    def dim(self) -> int: ...

    @property
    def summary(self) -> BagSummary: ...

    @property
    def room(self) -> int: ...

    @property
    def fits(self) -> bool: ...

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: Any) -> Walked: ...

    def count(self, weights: FloatArray) -> int: ...

    def load(self) -> Bags: ...

    def run(self, kernel: Kernel[Any]) -> Arrays: ...


class Kernel(Protocol[Result]):
    """What a pass makes of bags: a result for each part, and these put together.

    A dataclass, of numbers and arrays: it travels to other processes.
    """

    @property
    def words(self) -> str:
        """What the pass is for, to whoever waits."""
        ...

    def of_part(self, bags: slice) -> Kernel[Result]:
        """With what it needs to know of these bags alone."""
        ...

    def __call__(self, part: Bags, device: str | None) -> Result:
        """Of the bags of a part; the work is done where the device is."""
        ...

    def combined(self, results: Iterable[tuple[slice, Result]]) -> Arrays:
        """All parts, in order."""
        ...


@dataclass(frozen=True)
class SummaryKernel:
    """Range and moments of each bag (6, n, d), of tokens as they are."""

    count: int
    dim: int
    words: ClassVar[str] = "ranges and moments"

    def of_part(self, bags: slice) -> SummaryKernel:
        return self

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        table = np.empty((6, len(part), part.dim))
        for stack in part.stacks(device):
            table[:, stack.index] = summarise(stack)
        return table

    def combined(self, results: Iterable[tuple[slice, FloatArray]]) -> Arrays:
        table = np.empty((6, self.count, self.dim))
        for part, values in results:
            table[:, part] = values
        return {"table": table}


def summary_of(bags: Walked) -> BagSummary:
    """Range and moments of each bag, in one pass."""
    return BagSummary.of(bags.run(SummaryKernel(len(bags), bags.dim))["table"])


@dataclass(frozen=True, eq=False)
class ValueKernel:
    """Numbers of each bag or of each token, side by side."""

    values: Callable[[Bags], FloatArray]
    words: str

    def of_part(self, bags: slice) -> ValueKernel:
        return self

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        return self.values(part)

    def combined(self, results: Iterable[tuple[slice, FloatArray]]) -> Arrays:
        return {"values": np.concatenate([values for _, values in results])}


class LabelledBags(NamedTuple):
    """Bags, and their labels (n,) if there are any."""

    bags: Bags
    labels: NDArray[Any] | None


def is_ragged(X: Any) -> bool:
    """Whether these are bags in a list, of any lengths."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(np.ndim(bag) == 2 for bag in X)


def _numbers(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Floats stay what they are but for half precision, which becomes single; other numbers become
    float64."""
    if array.dtype.kind == "c":
        raise InvalidInput(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype == np.float16:
        return array.astype(np.float32)
    try:
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must hold numbers, got dtype {array.dtype}: {error}") from error


def _finite(tokens: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        total = tokens.sum(dtype=float)
    if not np.isfinite(total) and not np.isfinite(tokens).all():
        what = "NaN" if np.isnan(tokens).any() else "infinity"
        raise InvalidInput(f"Input X contains {what}.")
    return tokens


def _ends(lengths: ArrayLike) -> IntArray:
    """0, then where each bag of these lengths ends."""
    return np.concatenate([[0], np.cumsum(lengths)])

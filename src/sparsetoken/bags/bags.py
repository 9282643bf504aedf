"""`Bags`: samples of any number of tokens, side by side in one array, never padded.

Sums over the tokens of a bag go through `pool`: blocks of bags that fit in a cache of a few
megabytes, so that nothing of the size of the data is ever copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsetoken.fitting.groups import Groups
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput


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
        if isinstance(X, Bags):
            if mask is not None:
                raise InvalidInput(
                    "mask must be None for Bags: they hold nothing that does not count"
                )
            return X
        if isinstance(X, list | tuple) and len(X) and all(np.ndim(bag) == 2 for bag in X):
            return cls._of_list(X, mask)
        array = _numbers(np.asarray(X), "X")
        if array.ndim == 2 and n_tokens is not None:
            array = _unflattened(array, n_tokens)
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
        offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return cls(_finite(flat[kept.ravel()]), offsets)._checked()

    @classmethod
    def _of_list(cls, bags: Any, mask: ArrayLike | None) -> Bags:
        if mask is not None:
            raise InvalidInput(
                "mask must be None with a list of bags: leave the tokens out instead"
            )
        arrays = [_numbers(np.asarray(bag), f"bag {index}") for index, bag in enumerate(bags)]
        dims = {array.shape[1] for array in arrays}
        if len(dims) > 1:
            raise InvalidInput(f"all bags must have the same dimension, got {sorted(dims)}")
        offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])])
        return cls(_finite(np.concatenate(arrays)), offsets)._checked()

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
        offsets = np.concatenate([[0], np.cumsum(self.lengths[index])])
        tokens = np.concatenate(parts) if parts else self.tokens[:0]
        return Bags(tokens, offsets)

    def pool(self, weights: FloatArray) -> FloatArray:
        """Σ_l weight_l · token_l of each bag: (n, d) for weights (N,), (k, n, d) for (k, N)."""
        from scipy.sparse import csr_array

        many = np.atleast_2d(weights)
        pooled = np.empty((len(many), len(self), self.dim))
        for bags, rows in self.blocks():
            ends = self.offsets[bags.start : bags.stop + 1] - rows.start
            tokens = np.asarray(self.tokens[rows], dtype=float)
            places, shape = np.arange(len(tokens)), (len(ends) - 1, len(tokens))
            for index, weight in enumerate(many):  # a row of the sparse matrix is a bag
                pooled[index, bags] = csr_array((weight[rows], places, ends), shape=shape) @ tokens
        return pooled if np.ndim(weights) == 2 else pooled[0]

    def mean(self) -> FloatArray:
        """Mean token of each bag (n, d)."""
        return self.pool(1.0 / np.repeat(self.lengths, self.lengths))

    def weigh(self, weighting: Weighting, logits: FloatArray) -> FloatArray:
        """Weights (N,) of any rule, bags of one length at a time."""
        if weighting == SOFTMAX:
            return self.softmax(logits)
        weights = np.empty(len(logits))
        for length in np.unique(self.lengths):
            mine = np.flatnonzero(self.lengths == length)
            places = self.offsets[mine][:, None] + np.arange(length)
            weights[places] = weighting.weights(logits[places])
        return weights


def _numbers(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Floats stay what they are, other numbers become float64."""
    if array.dtype.kind == "c":
        raise InvalidInput(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype in (np.float32, np.float64):
        return array
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


def _unflattened(array: NDArray[Any], n_tokens: int) -> NDArray[Any]:
    n, width = array.shape
    if width % n_tokens:
        raise InvalidInput(
            f"X must have a multiple of n_tokens={n_tokens} features in each flat row, got {width}"
        )
    return array.reshape(n, n_tokens, width // n_tokens)

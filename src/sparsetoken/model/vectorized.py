r"""`Vectorized`: all tokens side by side, a readout with one weight per position and coordinate.

With uniform places, by symmetry the best readout treats all positions alike, so one direction is
enough for the law. A readout fitted to finitely many samples does not, so `draw`, and the law with
position weights, keep one coordinate per position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sparsetoken.model import coloured
from sparsetoken.model.classifiers import AnyQuery, Classifier, linear_law, other_noise, refuse
from sparsetoken.model.law import Coordinates, FeatureLaw, Readout
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.model.task import Task, in_short
from sparsetoken.model.task import coloured as not_white
from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput

_MOST_PLACES = 1 << 24  # entries of the table of subsets for `Vectorized` with position weights
_FEW_POSITIONS, _FEW_SUBSETS = 40, 1 << 10  # up to which drafts tell positions apart
_MANY_SUBSETS = 1 << 15  # sets of places averaged over in the scores of a `Vectorized` readout


@dataclass(frozen=True)
class Vectorized(Classifier):
    """All tokens side by side: f(X) = X, flattened.

    >>> Vectorized().law(Task(length=4, sparsity=2, strength=3.0)).means.ravel().tolist()
    [3.0, 0.0]
    """

    def features_per_dim(self, task: Task) -> int:
        """Every token has its d coordinates."""
        return task.length

    def possible(self, task: Task, trained_on: Task | None = None) -> str | None:
        """Not for tokens that share noise, too many sets of places, or at another length.

        >>> Vectorized().possible(Task(4, 1, 3.0, token_correlation=0.5))
        'Vectorized: token_correlation must be 0 (tokens that share noise, side by side, are
        features with coloured noise, for which this theory is not made), got 0.5; use Pooled() or
        Attention()'
        """
        if trained_on is None:
            why = _shared(task) or _coloured_places(task)
            return why or (None if task.uniform_places else _too_many_places(task))
        if task.length != trained_on.length:
            return (
                f"Vectorized: a trained readout must keep the length {trained_on.length} (one "
                f"weight per position), got {task.length}"
            )
        return (
            _shared(task) or _coloured_places(task) or other_noise("Vectorized", task, trained_on)
        )

    def features(self, tokens: Array, query: Array | None = None) -> Array:
        """(n, L, d) tokens to (n, L·d) features."""
        xp, tokens = floats(tokens)
        return xp.reshape(tokens, (tokens.shape[0], -1))

    def law(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """One direction for uniform places, one coordinate per position with weights; exact."""
        refuse(self.possible(task))
        if not task.uniform_places:
            return self.law_by_position(task)
        if not task.is_white:
            return coloured.linear_law(task, 1 / math.sqrt(task.length), 1.0, task.length)
        return linear_law(task, 1 / math.sqrt(task.length), 1.0, features_per_dim=task.length)

    def draft(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """One coordinate per position, if sets of places are few: each is learned on its own."""
        refuse(self.possible(task))
        few = task.length <= _FEW_POSITIONS and not task.varies
        if few and task.is_white and math.comb(task.length, task.fixed_sparsity) <= _FEW_SUBSETS:
            return self.law_by_position(task)
        return self.law(task)

    def law_by_position(self, task: Task) -> FeatureLaw:
        """One coordinate per position, one atom per set of places."""
        refuse(_too_many_places(task))
        length = task.length
        chosen, weights = _all_places(task)
        places = np.zeros((len(chosen), length))
        np.put_along_axis(places, chosen, 1.0, axis=1)
        positive = (task.fixed_strength * places, np.ones(len(chosen)), weights)
        negative = (np.zeros((1, length)), [1.0], [1.0])
        noisy = np.ones(length, dtype=bool)
        return FeatureLaw.of_classes(task.prevalence, positive, negative, noisy, length)

    def draw(
        self, task: Task, labels: FloatArray, rng: Generator, query: AnyQuery | None = None
    ) -> Coordinates:
        """One coordinate per position, θ where the signal sits."""
        refuse(_shared(task) or not_white("Vectorized", task))
        strength, sparsity = task.sample_signals(len(labels), rng)
        places = task.sample_places(len(labels), rng, sparsity) & (labels > 0)[:, None]
        means = np.reshape(strength, (-1, 1)) * places
        noisy = np.ones(task.length, dtype=bool)
        return Coordinates(labels, means.astype(float), np.ones(len(labels)), noisy, task.length)

    def scores(
        self, task: Task, readout: Readout, query: AnyQuery | None = None, *, seed: int = 0
    ) -> Scores:
        """Test scores of a readout with one weight per position, or one for all of them alike.

        All sets of places are averaged over, or 2^15 random ones where there are more (drawn with
        the seed): then metrics have standard errors.
        """
        refuse(_shared(task) or _coloured_places(task))
        if len(readout.weights) == 1:  # where the signal sits makes no difference
            return self.law(replace(task, places=None)).scores(readout)
        if len(readout.weights) != task.length:
            raise InvalidInput(
                f"Vectorized: scores of a readout with {len(readout.weights)} positions need a "
                f"task of that length (one weight per position), got {task.length}"
            )
        few = not task.varies and math.comb(task.length, task.fixed_sparsity) <= _MANY_SUBSETS
        if few:
            chosen, weights = _all_places(task)
            along = task.strength * np.asarray(readout.weights)[chosen].sum(axis=1)
        else:
            rng = np.random.default_rng(whole("Vectorized", "seed", seed, least=0))
            strength, sparsity = task.sample_signals(_MANY_SUBSETS, rng)
            places = task.sample_places(_MANY_SUBSETS, rng, sparsity)
            along = strength * (places @ np.asarray(readout.weights))
            weights = np.full(_MANY_SUBSETS, 1 / _MANY_SUBSETS)
        mean = readout.bias + along
        deviation = np.full(len(mean), float(readout.noise))
        return Scores(
            Mixture(mean, deviation, weights),
            Mixture(np.array([float(readout.bias)]), deviation[:1], np.ones(1)),
            task.prevalence,
            sampled=not few,
        )


def _coloured_places(task: Task) -> str | None:
    """With weights of positions a readout differs from position to position."""
    if task.is_white or task.uniform_places:
        return None
    return (
        "Vectorized: places must be None (uniform) where noise is not white or signals have a "
        f"spread, got weights with {in_short(task)}"
    )


def _shared(task: Task) -> str | None:
    """Side by side, tokens that share noise are features with coloured noise: no such law here."""
    if not task.token_correlation:
        return None
    return (
        "Vectorized: token_correlation must be 0 (tokens that share noise, side by side, are "
        "features with coloured noise, for which this theory is not made), "
        f"got {task.token_correlation:g}; use Pooled() or Attention()"
    )


def _too_many_places(task: Task) -> str | None:
    subsets = math.comb(task.length, task.fixed_sparsity)
    if subsets * task.length <= _MOST_PLACES:
        return None
    return (
        f"Vectorized: places with weights need one atom for each of C(length, sparsity) = "
        f"{subsets:.3g} sets of {task.length} coordinates; C(length, sparsity)·length must be at "
        f"most {_MOST_PLACES:.3g} (uniform places, places=None, have no such limit)"
    )


def _all_places(task: Task) -> tuple[NDArray[np.intp], FloatArray]:
    """Every possible set of places (subsets, R) and its probability (subsets,)."""
    chosen = np.array(list(combinations(range(task.length), task.fixed_sparsity)))
    weights = np.ones(len(chosen))
    if task.places is not None:
        with np.errstate(divide="ignore"):
            log_weights = np.log(task.places)[chosen].sum(axis=1)  # products may underflow
        weights = np.exp(log_weights - log_weights.max())
    possible = weights > 0
    return chosen[possible], weights[possible] / weights[possible].sum()

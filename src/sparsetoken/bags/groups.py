r"""Groups of bags (patients, recordings): which bag is of which, and what that does to numbers.

Bags of one group are alike, so that n of them say less than n strangers would. Two consequences:

* the standard error of a mean is that of independent groups,

      e² = G/(G − 1) · Σ_g (Σ_{i∈g} (x_i − x̄))²/n²,      and never below that of independent bags;

* n bags teach a classifier as much as n/D independent ones. It learns from differences of the
  classes' means, Σ s_i x_i with s_i = ±1/(bags of its class). Where two bags of a group correlate
  by ρ, the variance of such a sum is D times that of independent bags,

      D = 1 + ρ·(Σ_g (Σ_{i∈g} s_i)²/Σ_i s_i² − 1),      at least 1.

  For groups of m bags of one class each it is 1 + (m − 1)ρ; where a group holds as many bags of
  either class, what they share cancels and nothing is lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.labels import check_present
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

_KINDS = "biufUSO"  # of arrays that may hold names: numbers, words, or objects that are such


class Grouping(NamedTuple):
    """Names of the groups in the order of their first bags, and which of them each bag is of."""

    names: NDArray[Any]
    numbers: IntArray  # (n,)

    def of(self, bag: int) -> Any:
        """The name of a bag's group."""
        return self.names[self.numbers[bag]].item()


def read_groups(groups: Any, count: int, who: str) -> Grouping:
    """The groups of so many bags, checked.

    >>> read_groups(["b", "a", "b"], 3, "fit").numbers.tolist()
    [0, 1, 0]
    """
    names = np.asarray(groups)
    if names.ndim == 2 and names.shape[1] == 1:
        names = names[:, 0]
    if names.shape != (count,):
        raise InvalidInput(
            f"{who}: groups must have one name for each of the {count} bags, got "
            + (f"{len(names)}" if names.ndim == 1 else f"shape {names.shape}")
        )
    if names.dtype.kind not in _KINDS:
        raise InvalidInput(f"{who}: groups must be numbers or words, got dtype {names.dtype}")
    check_present(groups, "groups", who)
    try:
        different, first, numbers = np.unique(names, return_index=True, return_inverse=True)
    except TypeError as error:
        raise InvalidInput(
            f"{who}: groups must be names of one kind, got several ({error})"
        ) from error
    order = np.argsort(first)
    return Grouping(different[order], np.argsort(order)[numbers.ravel()])


def standard_error(values: NDArray[Any], groups: IntArray | None) -> float:
    """Of the mean of one number a bag (n,), by groups (n,) where there are any.

    >>> values = np.repeat([0.0, 1.0, 1.0, 0.0], 9)
    >>> round(standard_error(values, np.repeat(np.arange(4), 9)) / standard_error(values, None), 3)
    3.464
    """
    count, apart = len(values), np.asarray(values, dtype=float) - np.mean(values)
    alone = float(np.sqrt(np.mean(apart**2) / count))
    if groups is None:
        return alone
    _, number = np.unique(groups, return_inverse=True)
    sums = np.bincount(number, apart)
    if len(sums) < 2:
        return float("inf") if alone > 0 else 0.0
    together = float(np.sqrt(len(sums) / (len(sums) - 1) * np.sum(sums**2))) / count
    return max(alone, together)


def correlation(values: FloatArray, cells: IntArray, groups: IntArray) -> float:
    """Of two bags of one group and cell (ρ), by an analysis of variance within cells (n,).

    At least 0; 0 also where chance explains it, where no cell has two groups, or where no group of
    a cell has two bags.
    """
    _, cell = np.unique(cells, return_inverse=True)
    _, first, unit = np.unique(
        cell * (int(groups.max()) + 1) + groups, return_index=True, return_inverse=True
    )
    of_cell, of_unit = np.bincount(cell), np.bincount(unit)
    free_between, free_within = len(of_unit) - len(of_cell), len(values) - len(of_unit)
    if free_between < 1 or free_within < 1:
        return 0.0
    means = np.bincount(unit, values) / of_unit
    middles = (np.bincount(cell, values) / of_cell)[cell[first]]
    within = float(np.sum((values - means[unit]) ** 2)) / free_within
    between = float(np.sum(of_unit * (means - middles) ** 2)) / free_between
    size = (len(values) - float(np.sum(of_unit**2 / of_cell[cell[first]]))) / free_between
    if between <= within:
        return 0.0
    if within == 0:
        return 1.0
    # chance makes the ratio of variances differ from 1 by so much; shrunk as James and Stein do
    chance = 2 / free_between + 2 / free_within
    kept = max(0.0, 1 - chance / (between / within - 1) ** 2)
    shared = (between - within) / size
    return kept * shared / (shared + within)


def design_effect(correlated: float, labels: FloatArray, groups: IntArray) -> float:
    """D, for bags of labels ±1 (n,) of which two of a group correlate so.

    >>> round(design_effect(0.5, np.repeat([1.0, -1.0], 10), np.repeat(np.arange(4), 5)), 9)
    3.0
    >>> design_effect(0.5, np.tile([1.0, -1.0], 10), np.repeat(np.arange(10), 2))
    1.0
    """
    signed = labels / np.where(labels > 0, np.sum(labels > 0), np.sum(labels < 0))
    ratio = float(np.sum(np.bincount(groups, signed) ** 2) / np.sum(signed**2))
    return max(1.0, 1 + correlated * (ratio - 1))

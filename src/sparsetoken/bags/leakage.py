r"""The same bag twice, under two patients: what makes held-out bags no strangers.

A copy may be saved in another precision, its tokens in another order, a few of them missing. So
bags are sets of different tokens, and a token is a code: a few projections ⟨u, z⟩ of the token z in
units of deviations, rounded to a grid that is wide beside what half precision changes. A bag keeps
the smallest of its codes, by a hash: samples of two bags' tokens that can be compared.

Is it a copy, which has each code of the smaller bag with probability s, or a stranger, which has it
with the share f of all other bags that do? The log likelihood ratio

    Σ log(s/f) over codes that the other has  +  Σ log((1 − s)/(1 − f)) over those it has not

is above log(pairs) + log(1000) for some pair of strangers once in a thousand collections, at most,
if their codes are independent. What everyone has (background, padding) says nothing: f is 1.

The suspected are read again, and tokens compared: a large majority of the smaller bag's different
tokens must be in the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.groups import read_groups
from sparsetoken.bags.source import BagSource
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import real
from sparsetoken.support.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

_DIRECTIONS = 4  # of projections: the coarsest grids have 10⁷ cells then, others 10¹⁰
_SEED = 0  # of the directions: any will do
_CODES = 512  # that a bag keeps: 8 bags of 10 that are the same are seen as 8 ± 0.2
_SCALED_BY = 16  # bags that say in which units tokens are, evenly chosen
_LOOKED_AT = 4096  # tokens of each: deviations to 1 %, as grids need no more
# Standard deviation of rounding to half precision (steps of 2⁻¹⁰ between 1 and 2), in units of the
# number: for those just above a power of two, twice that of those just below the next
_ROUNDING = 2.0**-10 / np.sqrt(12)
# Cells of the grid, in deviations of rounding: of 100 codes about 4 change, and 25 by the eight
# times coarser rounding of bfloat16
_GRID = 64.0
_COARSEST = 0.1  # cells at most, in deviations of tokens, so that exact copies are always seen
_NEAR = 16.0  # deviations of rounding between tokens that are the same; bfloat16: 8√3 at most
_COMPARED = 512  # tokens of a suspected bag
_UNLIKELY = float(np.log(1000.0))  # one false alarm in a thousand collections
_COMMON = 64  # bags that share a code, from which it suspects nobody: pairs would be too many
_COPIED = 0.8  # s, at most: some codes change their cells


def find_duplicates(
    bags: Any, groups: Any = None, *, share: float = 0.8, progress: bool = False
) -> pd.DataFrame:
    """Pairs of bags in different groups that are nearly the same.

    The same slide under two patients, saved again in half precision, its tokens in another order, a
    few of them missing. Such a pair on both sides of a split makes every error look better than it
    is. Tokens that many bags have (background, padding, a vocabulary) raise no suspicion, nor do
    bags of one token, or of a few that might be shared by chance. What was scaled or turned is
    another bag.

    Parameters
    ----------
    bags : BagSource, or as for `estimate_task`
        Read one at a time, once; suspected ones once more.
    groups : array (n,), optional
        Names. Bags of one group may be the same. Each bag is a group of its own if not given.
    share : float
        Above 0, at most 1: of the different tokens of the smaller bag, that the other must have.
    progress : bool
        Show a bar on standard error.

    Returns
    -------
    pandas.DataFrame
        Columns `bag`, `other` (places), `name`, `other_name`, `group`, `other_group`, `shared` (the
        share); no rows where there is no such pair.

    Raises
    ------
    InvalidInput
        Bags or groups that cannot be read, or a `share` out of bounds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> slides = [rng.standard_normal((50, 8)) for _ in range(20)]
    >>> slides[7] = slides[3][::-1].astype(np.float16)
    >>> find_duplicates(slides)[["bag", "other", "shared"]].values.tolist()
    [[3.0, 7.0, 1.0]]
    """
    import pandas as pd

    share = real("find_duplicates", "share", share, above=0, most=1)
    source = bags if isinstance(bags, BagSource) else Bags.of(bags, n_tokens=None)
    names = np.arange(len(source)) if groups is None else groups
    grouping = read_groups(names, len(source), "find_duplicates")
    coder = _Coder.of(source)
    sketches = []
    with progress_bar(len(source), "copies", progress) as advance:
        for bag in range(len(source)):
            sketches.append(np.unique(_mixed(coder.codes(_tokens(source, bag))))[:_CODES])
            advance()
    labels = source.names if isinstance(source, BagSource) else tuple(map(str, range(len(source))))
    rows = []
    for one, two in _suspected(sketches, grouping.numbers, share):
        shared = coder.shared(_tokens(source, one), _tokens(source, two))
        if shared >= share:
            rows.append(
                (one, two, labels[one], labels[two], grouping.of(one), grouping.of(two), shared)
            )
    columns = ["bag", "other", "name", "other_name", "group", "other_group", "shared"]
    return pd.DataFrame(rows, columns=columns)


def _moments(tokens: FloatArray) -> tuple[int, FloatArray, FloatArray]:
    """How many tokens were looked at, of which there are at most so many; mean and variance."""
    some = tokens[np.unique(np.linspace(0, len(tokens) - 1, _LOOKED_AT).round().astype(int))]
    return len(some), some.mean(axis=0), some.var(axis=0)


def _tokens(bags: Bags | BagSource, bag: int) -> FloatArray:
    """Of one bag (L, d), in double precision."""
    read = bags.read(bag) if isinstance(bags, BagSource) else bags[bag : bag + 1]
    return np.asarray(read.tokens, dtype=float)


@dataclass(frozen=True, eq=False)
class _Coder:
    """How tokens become codes, and when two are the same."""

    centre: FloatArray  # (d,)
    per_deviation: FloatArray  # (d,), 0 for coordinates that do not vary
    directions: FloatArray  # (d, k), of unit length
    cells: FloatArray  # (k,), of the grid
    furthest: float  # distance of tokens that may be the same, whatever their rounding

    @classmethod
    def of(cls, bags: Bags | BagSource) -> _Coder:
        """In units that some of the bags say."""
        chosen = np.unique(np.linspace(0, len(bags) - 1, _SCALED_BY).round().astype(int))
        with np.errstate(over="ignore", invalid="ignore"):
            # of one bag at a time, as a few may be all that memory has room for
            parts = [_moments(_tokens(bags, bag)) for bag in chosen.tolist()]
            counts, means, variances = (np.array(column) for column in zip(*parts, strict=True))
            shares = counts / counts.sum()
            centre = shares @ means
            deviation = np.sqrt(shares @ (variances + (means - centre) ** 2))
            size = np.sqrt(shares @ (variances + means**2))
        varies = (deviation > 1e-12 * size) & np.isfinite(size)  # else there is rounding alone
        inverse = np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)
        rounding = _ROUNDING * np.where(varies, size, 0.0) * inverse  # of each coordinate
        rng = np.random.default_rng(_SEED)
        directions = rng.standard_normal((len(centre), _DIRECTIONS))
        directions /= np.linalg.norm(directions, axis=0)
        cells = np.minimum(_GRID * np.sqrt(rounding**2 @ directions**2), _COARSEST)
        furthest = _COARSEST * float(np.sqrt(varies.sum()))
        return cls(centre, inverse, directions, np.where(cells > 0, cells, 1.0), furthest)

    def measured(self, tokens: FloatArray) -> FloatArray:
        """Tokens (L, d) in units of deviations."""
        return (tokens - self.centre) * self.per_deviation

    def codes(self, tokens: FloatArray) -> IntArray:
        """Cells of tokens (L, k)."""
        with np.errstate(invalid="ignore"):
            places = np.floor(self.measured(tokens) @ self.directions / self.cells)
            return np.clip(places, -(2.0**62), 2.0**62).astype(np.int64)

    def shared(self, one: FloatArray, two: FloatArray) -> float:
        """Share of the different tokens of the smaller that the other has."""
        kept = [tokens[_first(_mixed(self.codes(tokens)))] for tokens in (one, two)]
        few, many = sorted(kept, key=len)
        few = few[np.unique(np.linspace(0, len(few) - 1, _COMPARED).round().astype(int))]
        small, large = self.measured(few), self.measured(many)
        squares = np.einsum("td,td->t", large, large) - 2 * small @ large.T
        nearest = squares.argmin(axis=1)
        apart = np.linalg.norm(small - large[nearest], axis=1)  # not from squares: they cancel
        rounding = _ROUNDING * np.linalg.norm(few * self.per_deviation, axis=1)
        return float(np.mean(apart <= np.minimum(_NEAR * rounding, self.furthest)))


def _first(codes: NDArray[np.uint64]) -> IntArray:
    """Where each different code is first, in order."""
    return np.sort(np.unique(codes, return_index=True)[1])


def _mixed(cells: IntArray) -> NDArray[np.uint64]:
    """A number for each row of cells (L, k), as if drawn: its order says nothing of the token."""
    mixed = np.zeros(len(cells), dtype=np.uint64)
    for column in cells.T.astype(np.uint64):  # the finaliser of splitmix64
        mixed += column + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _suspected(
    sketches: list[NDArray[np.uint64]], groups: IntArray, share: float
) -> list[tuple[int, int]]:
    """Pairs of bags in different groups that chance does not explain."""
    from scipy.sparse import csr_array, triu

    count = len(sketches)
    if count < 2:
        return []
    ends = np.concatenate([[0], np.cumsum([len(sketch) for sketch in sketches])])
    _, code, held_by = np.unique(np.concatenate(sketches), return_inverse=True, return_counts=True)
    code = code.ravel()
    codes = np.split(code, ends[1:-1])
    needed = float(np.log(count * (count - 1) / 2)) + _UNLIKELY
    # no likelihood ratio is greater than the sum of −log f over codes that both have
    most = -np.log(_chance(held_by - 2, count))
    most[(held_by < 2) | (held_by > _COMMON)] = 0.0
    shape = (count, len(held_by))
    ones = csr_array((np.ones(len(code)), code, ends), shape=shape)
    sums = csr_array((most[code], code, ends), shape=shape, copy=True)
    sums.eliminate_zeros()  # in place
    pairs = triu(sums @ ones.T, k=1).tocoo()
    possible = pairs.data > needed
    return sorted(
        (int(one), int(two))
        for one, two in zip(pairs.row[possible], pairs.col[possible], strict=True)
        if groups[one] != groups[two]
        and _ratio(codes[one], codes[two], held_by, count, min(share, _COPIED)) > needed
    )


def _chance(held_by: IntArray, count: int) -> FloatArray:
    """f: of so many bags, others than two, by how many these codes are held; half a bag more, for
    what was not seen."""
    return (np.maximum(held_by, 0) + 0.5) / (count - 1)


def _ratio(one: IntArray, two: IntArray, held_by: IntArray, count: int, copied: float) -> float:
    """Log likelihood ratio of a copy and a stranger, from codes up to where both keep all of
    theirs."""
    end = min(codes[-1] if len(codes) == _CODES else len(held_by) for codes in (one, two))
    small, large = sorted((codes[codes <= end] for codes in (one, two)), key=len)
    both = np.isin(small, large, assume_unique=True)
    held, missed = held_by[small[both]] - 2, held_by[small[~both]] - 1  # by others
    chance = 1 - _chance(missed, count)  # above 0: neither of two bags is among them
    return float(
        np.sum(np.log(copied / _chance(held, count))) + np.sum(np.log((1 - copied) / chance))
    )

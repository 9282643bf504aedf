r"""Second moments of the tokens of several sets of bags, from one pass over all of them.

Sets share most of their bags: they are all bags but those of a fold. Bags that are in the same sets
make a cell, and sums are those of cells, each about its own mean μ_c and in its own units u_c, so
that nothing cancels. With W_c the weight of a cell's tokens, W that of a set's,

    covariance of a set = Σ_c (W_c/W)·(diag(u_c)·S_c·diag(u_c) + (μ_c − μ)(μ_c − μ)ᵀ).

The fourth power of the tokens' length, from the set's mean and in its units, is summed in the same
pass. Of fewer tokens than coordinates the tokens themselves are kept, not their products.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from sparsetoken.bags.bags import Arrays, Bags, Walked
from sparsetoken.bags.units import Units, inverse
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray


class NoisePart(NamedTuple):
    """Sums over some bags of a cell; of few tokens these themselves."""

    products: FloatArray  # Σ weight·zzᵀ (d, d), z = (x − mean)/deviation; (0, d) with tokens
    tokens: FloatArray  # x (m, d)
    weights: FloatArray  # of these tokens (m,)
    fourth: FloatArray  # Σ weight·‖x‖⁴ (sets, targets), of all

    def joined(self, other: NoisePart) -> NoisePart:
        """Of both."""
        return NoisePart(
            self.products + other.products,
            np.concatenate([self.tokens, other.tokens]),
            np.concatenate([self.weights, other.weights]),
            self.fourth + other.fourth,
        )


_SUMS = NoisePart._fields


@dataclass(frozen=True, eq=False)
class Cell:
    """Bags that are in the same sets."""

    weight: float  # of all its tokens
    units: Units
    products: FloatArray  # as in a part
    tokens: FloatArray
    weights: FloatArray
    fourth: FloatArray

    def measured(self, mean: FloatArray, scale: FloatArray) -> FloatArray:
        """Few tokens (m, d) from a mean, scaled, each times the root of its weight."""
        return (self.tokens - mean) * scale * np.sqrt(self.weights)[:, None]

    def moment(self, mean: FloatArray, scale: FloatArray) -> FloatArray:
        """Σ weight·(x − mean)(x − mean)ᵀ, scaled (d, d)."""
        if len(self.tokens):
            rows = self.measured(mean, scale)
            return np.asarray(rows.T @ rows)
        unit, apart = self.units.deviation * scale, (self.units.mean - mean) * scale
        return np.outer(unit, unit) * self.products + self.weight * np.outer(apart, apart)


@dataclass(frozen=True, eq=False)
class NoiseSums:
    """All cells, and which of them each set has."""

    cells: tuple[Cell, ...]
    members: BoolArray  # (sets, cells)
    still: BoolArray  # (sets, d), coordinates in which the tokens of a set are alike
    fourth: FloatArray  # (sets, targets), mean of ‖x‖⁴ from the set's mean

    @classmethod
    def of(
        cls,
        bags: Walked,
        sets: Sequence[FloatArray],
        means: FloatArray,
        scales: FloatArray,
    ) -> NoiseSums:
        """From bags with weights (n,) for each set: one weight in all sets that have the bag.

        Lengths are from `means` (sets, d), in coordinates multiplied by `scales` (sets, targets,
        d).
        """
        table = np.stack(sets)
        patterns, cell_of = np.unique(table > 0, axis=1, return_inverse=True)
        weights, cell_of = table.max(axis=0), cell_of.ravel()
        places = np.flatnonzero(patterns.any(axis=0))  # but for bags that are in no set
        units = [Units.of(bags, np.where(cell_of == place, weights, 0.0)) for place in places]
        sizes = np.array([bags.lengths[cell_of == place].sum() for place in places])
        kernel = NoiseKernel(
            cell_of=np.where(weights > 0, np.searchsorted(places, cell_of), -1),
            weights=weights,
            means=np.stack([unit.mean for unit in units]),
            deviations=np.stack([unit.deviation for unit in units]),
            few=sizes < bags.dim,
            set_means=means,
            scales=scales,
        )
        arrays = bags.run(kernel)
        total = [
            (weights * bags.lengths)[kernel.cell_of == place].sum() for place in range(len(units))
        ]
        cells = tuple(
            Cell(weight, unit, *(arrays[f"{place}.{name}"] for name in _SUMS))
            for place, (weight, unit) in enumerate(zip(total, units, strict=True))
        )
        members = patterns[:, places]
        fourth = np.einsum("sc,cst->st", members.astype(float), [cell.fourth for cell in cells])
        still = np.stack([Units.of(bags, set_weights).deviation == 0 for set_weights in sets])
        return cls(cells, members, still, fourth / (members @ np.array(total))[:, None])

    def tokens(self, place: int, mean: FloatArray, scale: FloatArray) -> FloatArray:
        """Of a set of few (m, d): from a mean, scaled, each times the root of its share."""
        cells = self._of(place)
        total = sum(cell.weight for cell in cells)
        rows = [cell.measured(mean, scale) / np.sqrt(total) for cell in cells]
        return np.where(self.still[place], 0.0, np.concatenate(rows))

    def covariance(self, place: int, mean: FloatArray, scale: FloatArray) -> FloatArray:
        """Of a set (d, d), from its mean, in coordinates multiplied by `scale`."""
        cells = self._of(place)
        total = sum(cell.weight for cell in cells)
        return np.asarray(sum(cell.moment(mean, scale) / total for cell in cells))

    def _of(self, place: int) -> list[Cell]:
        """Cells of a set."""
        return [self.cells[number] for number in np.flatnonzero(self.members[place])]


@dataclass(frozen=True, eq=False)
class NoiseKernel:
    """Sums over the bags of each cell."""

    cell_of: IntArray  # (n,), below 0 for bags that do not count
    weights: FloatArray  # (n,)
    means: FloatArray  # of cells (c, d)
    deviations: FloatArray  # of cells (c, d)
    few: BoolArray  # (c,), cells whose tokens are kept
    set_means: FloatArray  # (s, d)
    scales: FloatArray  # (s, targets, d)

    words: ClassVar[str] = "covariances"

    def of_part(self, bags: slice) -> NoiseKernel:
        return replace(self, cell_of=self.cell_of[bags], weights=self.weights[bags])

    def __call__(self, part: Bags, device: str | None) -> dict[int, NoisePart]:
        sums: dict[int, NoisePart] = {}
        for place in np.unique(self.cell_of[self.cell_of >= 0]):
            sums[int(place)] = self._sums(part, int(place), device)
        return sums

    def combined(self, results: Iterable[tuple[slice, dict[int, NoisePart]]]) -> Arrays:
        known: dict[int, NoisePart] = {}
        for _, sums in results:
            for place, part in sums.items():
                known[place] = known[place].joined(part) if place in known else part
        return {
            f"{place}.{name}": array
            for place, part in known.items()
            for name, array in zip(_SUMS, part, strict=True)
        }

    def _sums(self, bags: Bags, place: int, device: str | None) -> NoisePart:
        """Of the bags of one cell."""
        mean, deviation = self.means[place], self.deviations[place]
        # ‖(x − set's mean)·scale‖² = Σ a²z² + 2abz + b² with x = mean + deviation·z
        a = (self.scales * deviation).reshape(-1, bags.dim)
        b = (self.scales * (mean - self.set_means)[:, None]).reshape(-1, bags.dim)
        constant, few = np.sum(b**2, axis=1), bool(self.few[place])
        products, fourth, rows = 0.0, 0.0, [np.zeros((0, bags.dim))]
        shares = [np.zeros(0)]
        for stack in bags.stacks(device, np.flatnonzero(self.cell_of == place)):
            squares, lines, centre, per_unit, one = (
                stack.on_device(values)
                for values in (a.T**2, 2 * (a * b).T, mean, inverse(deviation), constant)
            )
            weight = self.weights[stack.index]
            root = stack.on_device(np.sqrt(weight))[:, None, None]
            for tokens in stack.pieces():
                z = (tokens - centre) * per_unit
                lengths = (z * z) @ squares + z @ lines + one  # squared (k, l, sets·targets)
                fourth = fourth + ((root * lengths) ** 2).reshape(-1, len(a)).sum(axis=0)
                if few:
                    rows.append(stack.numbers(tokens).reshape(-1, bags.dim))
                    shares.append(np.repeat(weight, tokens.shape[1]))
                else:
                    flat = (z * root).reshape(-1, bags.dim)
                    products = products + flat.T @ flat
        return NoisePart(
            np.zeros((0, bags.dim)) if few else stack.numbers(products),
            np.concatenate(rows),
            np.concatenate(shares),
            stack.numbers(fourth).reshape(self.scales.shape[:2]),
        )

"""A smooth function of two variables, dear to evaluate: its minimum in a dozen or two of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsetoken.support.arrays import FloatArray


def descend(
    objective: Callable[[FloatArray], float], x: FloatArray, radius: float, least: float
) -> None:
    """Minimise a smooth function of two variables by parabolas through six points.

    A cross around the best point so far and the corner downhill of it fix a parabola; its bottom is
    the next centre. The cross shrinks when the bottom is inside, until it is smaller than `least`.
    """
    known: dict[tuple[float, ...], float] = {}

    def value(at: FloatArray) -> float:
        key = tuple(np.round(at, 12).tolist())
        if key not in known:
            known[key] = objective(at)
        return known[key]

    # Not all the way: each round that ends inside its cross shrinks it by 0.4, so eight reach 0.4⁷
    # of the first radius, and the best point seen is what counts (tests compare it with grids).
    for _ in range(8):
        cross = radius * np.array([[0.0, 0.0], [1, 0], [-1, 0], [0, 1], [0, -1]])
        heights = [value(x + step) for step in cross]
        slope = np.array([heights[1] - heights[2], heights[3] - heights[4]]) / (2 * radius)
        bend = (
            np.array([heights[1] + heights[2], heights[3] + heights[4]]) - 2 * heights[0]
        )  # of the parabola, times radius²
        corner = -radius * np.where(slope > 0, 1.0, -1.0)
        twist = value(x + corner) - heights[0] - slope @ corner - 0.5 * bend.sum()
        mixed = twist / (corner[0] * corner[1])
        matrix = np.array([[bend[0] / radius**2, mixed], [mixed, bend[1] / radius**2]])
        best = np.array(min(known, key=lambda key: known[key]))
        if np.linalg.eigvalsh(matrix)[0] > 0:
            step = np.clip(-np.linalg.solve(matrix, slope), -2 * radius, 2 * radius)
            inside = np.abs(step).max() <= radius
            if inside and radius <= least:
                value(x + step)
                return
            if value(x + step) <= known[tuple(best.tolist())]:
                best = x + step
        else:
            inside = bool(np.all(best == np.round(x, 12)))
        x = best
        if inside:
            radius *= 0.4

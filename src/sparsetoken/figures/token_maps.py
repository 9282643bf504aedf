"""Tokens of a bag as a map: squares, coloured by the probability that they carry the signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as FreeFigure  # that pyplot does not keep
from matplotlib.ticker import MaxNLocator

from sparsetoken.figures.style import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of probabilities: even steps look even, in grey and to the colour-blind too; noise recedes
_POSTERIOR = "cividis"
DISCOVERED = (213, 94, 0)  # Okabe and Ito's vermilion, as red, green and blue
_LONG_SIDE = 6.0  # of a map, in inches
_LARGEST = 0.5  # of a square, in inches
_LEAST_WIDTH = 4.2  # of the figure, in inches: for its title


def token_colours(posterior: Any) -> list[tuple[int, int, int]]:
    """Of probabilities: red, green and blue from 0 to 255."""
    colours = mpl.colormaps[_POSTERIOR](posterior, bytes=True)
    return [(int(red), int(green), int(blue)) for red, green, blue, _ in colours]


def token_map(
    places: Any,
    patch: float,
    posterior: Any,
    discovered: Any,
    *,
    title: str,
    colour: str,
    in_rows_of: int | None = None,
) -> Figure:
    """Tokens as squares with a corner at their places (L, 2), y downwards; discovered ones framed.

    With `in_rows_of`, places are columns and rows of a table, whose lines are numbered by tokens.
    """
    low, high = places.min(axis=0), places.max(axis=0) + patch
    extent = high - low
    scale = min(_LONG_SIDE / extent.max(), _LARGEST / patch)  # inches for each unit of places
    width, height = extent * scale
    left, right, bottom, top = 0.75, 1.1, 0.5, 0.55  # inches for words around the map
    bar = float(np.clip(height, 1.6, 3.0))  # its height
    size = (max(width + left + right, _LEAST_WIDTH), max(height, bar) + bottom + top)

    def place(x: float, y: float, wide: float, high: float) -> tuple[float, float, float, float]:
        """Inches from the left and from the top, as shares of the figure."""
        return x / size[0], 1 - (y + high) / size[1], wide / size[0], high / size[1]

    with mpl.rc_context(STYLE | {"axes.grid": False}):
        figure = FreeFigure(figsize=size)
        axes = figure.add_axes(place(left, top, width, height))
        squares = places[:, None, :] + patch * np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        points = 72 * patch * scale  # side of a square
        drawn = PolyCollection(
            squares,
            array=posterior,
            cmap=_POSTERIOR,
            clim=(0, 1),
            edgecolors="white" if in_rows_of else "none",
            linewidths=points / 40 if in_rows_of else 0.0,
            antialiased=in_rows_of is not None,
        )
        frames = PolyCollection(
            squares[discovered],
            facecolors="none",
            edgecolors=[part / 255 for part in DISCOVERED],
            linewidths=float(np.clip(points / 8, 0.5, 2.0)),
            clip_on=False,
            zorder=3,
        )
        axes.add_collection(drawn)
        axes.add_collection(frames)
        axes.set(xlim=(low[0], high[0]), ylim=(high[1], low[1]), facecolor="#f4f4f4")
        axes.spines[:].set(visible=in_rows_of is None, color="#bbbbbb", linewidth=0.6)
        if in_rows_of is None:
            axes.set(xlabel="x", ylabel="y")
            axes.xaxis.set_major_locator(MaxNLocator(max(1, int(width / 0.8))))
            axes.yaxis.set_major_locator(MaxNLocator(max(1, int(height / 0.5))))
        else:
            _number_rows(axes, round(float(extent[1])), in_rows_of, height)
        colours = figure.add_axes(place(left + width + 0.15, top, 0.14, bar))
        figure.colorbar(drawn, cax=colours, label=colour, ticks=[0, 0.25, 0.5, 0.75, 1])
        colours.yaxis.label.set_fontsize(8)
        lines = (_cut(line, int(11 * (size[0] - left))) for line in title.split("\n"))
        x, y, _, _ = place(left, 0.08, 0, 0)
        figure.text(x, y, "\n".join(lines), fontsize=9, va="top", parse_math=False)
    return figure


def _cut(line: str, most: int) -> str:
    """So many letters at most."""
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _number_rows(axes: Axes, rows: int, wide: int, height: float) -> None:
    """Columns from 0, rows by their first token, a few in each inch."""
    step, skipped = max(1, wide // 5), max(1, round(rows / (3 * height)))
    columns, shown = range(0, wide, step), range(0, rows, skipped)
    axes.set_xticks([column + 0.5 for column in columns], [str(column) for column in columns])
    firsts = [str(row * wide) for row in shown]
    axes.set_yticks([row + 0.5 for row in shown], firsts if rows > 1 else [""])
    axes.tick_params(length=0)
    axes.set(xlabel="token", ylabel="from token" if rows > 1 else "")

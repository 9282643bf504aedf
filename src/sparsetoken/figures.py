"""Figures: tables in, matplotlib out. Nothing is computed here.

One look for all: the same colour for a classifier everywhere (safe for the colour-blind, told apart
in grey by line style), lines for theory, labels in words with symbols.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.bbox": "tight",
}

# Okabe and Ito's colours; darkness and dashes differ too.
LOOK: dict[str, dict[str, Any]] = {
    "attention": {"color": "#D55E00", "linestyle": "-", "marker": "o"},
    "vectorized": {"color": "#009E73", "linestyle": "--", "marker": "s"},
    "pooled": {"color": "#0072B2", "linestyle": "-.", "marker": "^"},
    "bayes": {"color": "#000000", "linestyle": ":", "marker": "D"},
}
_OTHERS: list[dict[str, Any]] = [  # for series that are not classifiers, in order
    {"color": "#D55E00", "linestyle": "-", "marker": "o"},
    {"color": "#CC79A7", "linestyle": "--", "marker": "s"},
    {"color": "#56B4E9", "linestyle": "-.", "marker": "^"},
    {"color": "#009E73", "linestyle": (0, (5, 1)), "marker": "D"},
    {"color": "#555555", "linestyle": (0, (1, 1)), "marker": "v"},
]
_REFERENCE: dict[str, Any] = {"color": "#888888", "linestyle": (0, (4, 3)), "linewidth": 1.0}


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a figure: which rows of a table it shows, and its words.

    Lines are the column theory, marks with error bars (two standard errors) the column simulation.
    A series whose name begins with "reference:" is a thin grey line. With `colour` the panel is a
    map over x and y of that series, with lines of equal `contours`.
    """

    name: str
    x: str
    y: str
    log: Literal["", "x", "y", "xy"] = ""
    low: float | None = None  # lower end of the y axis
    colour: str = ""
    contours: str = ""
    legend: bool = True


def panels(table: pd.DataFrame, shown: Sequence[Panel], title: str = "") -> Figure:
    """A figure of the given panels, at most two in a row; empty ones are left out."""
    shown = [panel for panel in shown if (table["panel"] == panel.name).any()]
    columns = min(2, len(shown))
    height = -(-len(shown) // columns)
    with mpl.rc_context(STYLE):
        figure, grid = plt.subplots(
            height, columns, figsize=(4.1 * columns, 3.1 * height), layout="constrained",
            squeeze=False,
        )  # fmt: skip
        for axes, panel in zip(grid.flat, shown, strict=False):
            rows = table[table["panel"] == panel.name]
            axes.set_title(panel.name, fontsize=9)
            axes.set_xlabel(panel.x)
            axes.set_ylabel(panel.y)
            if "x" in panel.log:
                axes.set_xscale("log")
            if "y" in panel.log:
                axes.set_yscale("log")
            if panel.colour:
                _map(axes, rows, panel)
            else:
                _lines(axes, rows)
            if panel.low is not None:
                axes.set_ylim(bottom=panel.low)
            if not panel.colour:
                _plain_numbers(axes, panel.log)
            if not panel.legend:
                axes.get_legend().remove()
        for axes in list(grid.flat)[len(shown) :]:
            axes.set_axis_off()
        figure.suptitle(title, fontsize=9)
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write PATH.png and PATH.pdf (fonts embedded as fonts), and let go of the figure."""
    with mpl.rc_context(STYLE):
        for suffix in ("png", "pdf"):
            figure.savefig(f"{os.fspath(path)}.{suffix}")
    plt.close(figure)


def _lines(axes: Axes, rows: pd.DataFrame) -> None:
    others = iter(_OTHERS)
    for name, mine in rows.groupby("series", sort=False):
        series = str(name)
        if series.startswith("reference:"):
            line = mine.sort_values("x")
            axes.plot(line["x"], line["theory"], label=series.split(":")[1].strip(), **_REFERENCE)
            continue
        look = LOOK.get(series) or next(others)
        line = mine.dropna(subset=["theory"]).sort_values("x")
        dots = mine.dropna(subset=["simulation"]).sort_values("x")
        color, marker = look["color"], look["marker"]
        if len(line):
            axes.plot(line["x"], line["theory"], color=color, linestyle=look["linestyle"])
        if len(dots):
            error = 2 * dots["simulation_error"].fillna(0.0)
            axes.errorbar(
                dots["x"], dots["simulation"], error, fmt=marker, color=color, markersize=4,
                markerfacecolor="white", markeredgewidth=1.1, elinewidth=0.9, capsize=1.5,
                linestyle="none" if len(line) else look["linestyle"], linewidth=0.8,
            )  # fmt: skip
        axes.plot(
            [], [], color=color, linestyle=look["linestyle"], marker=marker if len(dots) else "",
            markerfacecolor="white", markersize=4, label=series,
        )  # fmt: skip
    axes.legend(fontsize=7, handlelength=2.8)


def _map(axes: Axes, rows: pd.DataFrame, panel: Panel) -> None:
    def square(series: str) -> pd.DataFrame:
        mine = rows[rows["series"] == series]
        return mine.pivot(index="y", columns="x", values="theory")

    colours, levels = square(panel.colour), square(panel.contours)
    x, y = colours.columns.to_numpy(float), colours.index.to_numpy(float)
    drawn = axes.pcolormesh(x, y, colours.to_numpy(), cmap="cividis", shading="nearest")
    plt.colorbar(drawn, ax=axes, label=panel.colour)
    heights = [0.01, 0.1, 1.0, 10.0, 100.0]
    lines = axes.contour(x, y, levels.to_numpy(), heights, colors="white", linewidths=0.9)
    axes.clabel(lines, fmt="%g", fontsize=7)
    axes.grid(False)


def _plain_numbers(axes: Axes, log: str) -> None:
    """0.05 instead of 5 × 10⁻² where there are few decades."""
    for name, axis, (low, high) in (
        ("x", axes.xaxis, axes.get_xlim()),
        ("y", axes.yaxis, axes.get_ylim()),
    ):
        if name in log and high / low < 300:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())

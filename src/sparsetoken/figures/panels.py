"""Panels of a table, theory beside simulation: the figures of claims and plans."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.patheffects import AbstractPathEffect, withStroke

from sparsetoken.figures.style import (
    LOOK,
    OTHERS,
    REFERENCE,
    REFERENCE_DASHES,
    STYLE,
    TRAINED,
    plain_numbers,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OVER_MAPS: list[Any] = ["-", (0, (3, 2))]


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a figure: which rows of a table it shows, and its words.

    Lines are the column theory, marks the column simulation; bars are two standard errors.
    A series whose name begins with "reference:" is a thin grey line. With `colour` the panel is a
    map over x and y of that series, with lines of equal `contours` if that is given; references are
    drawn over it.
    """

    name: str
    x: str
    y: str
    log: Literal["", "x", "y", "xy"] = ""
    low: float | None = None  # lower end of the y axis
    colour: str = ""
    contours: str = ""
    legend: bool = True  # False: one for all panels, below them
    join: bool = True  # simulations without theory, by thin lines


def panels(table: pd.DataFrame, shown: Sequence[Panel], title: str = "") -> Figure:
    """A figure of the given panels, at most two in a row; empty ones are left out."""
    shown = [panel for panel in shown if (table["panel"] == panel.name).any()]
    columns = min(2, len(shown))
    height = -(-len(shown) // columns)
    with mpl.rc_context(STYLE):
        figure, grid = plt.subplots(
            height,
            columns,
            figsize=(4.1 * columns, 3.1 * height),
            layout="constrained",
            squeeze=False,
        )
        shared: dict[str, Any] = {}  # handle of each label
        for axes, panel in zip(grid.flat, shown, strict=False):
            rows = table[table["panel"] == panel.name]
            axes.set_title(panel.name, fontsize=9)
            axes.set(xlabel=panel.x, ylabel=panel.y)
            axes.set(**{f"{name}scale": "log" for name in panel.log})
            if panel.colour:
                _map(axes, rows, panel)
            else:
                _lines(axes, rows, panel.join)
            axes.set_ylim(bottom=panel.low)  # as it is, if None
            if not panel.colour:
                plain_numbers(axes, panel.log)
            if not panel.legend:
                axes.get_legend().remove()
                for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                    shared.setdefault(label, handle)
        for axes in grid.flat[len(shown) :]:
            axes.set_axis_off()
        if shared:
            handles, labels = list(shared.values()), list(shared)
            figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7)
        figure.suptitle(title, fontsize=9)
    return figure


def mark(figure: Figure, places: dict[str, float]) -> None:
    """Upright lines with words at places on the x axis of the first panel."""
    axes = figure.axes[0]
    with mpl.rc_context(STYLE):
        for name, x in places.items():
            axes.axvline(x, color="#888888", linewidth=0.8, linestyle=(0, (1, 2)))
            axes.text(
                x,
                0.98,
                f"{name} {x:.4g}",
                rotation=90,
                fontsize=6.5,
                color="#555555",
                bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.8},
                transform=axes.get_xaxis_transform(),
                ha="right",
                va="top",
            )


def _lines(axes: Axes, rows: pd.DataFrame, join: bool) -> None:
    others, dashes = itertools.cycle(OTHERS), itertools.cycle(REFERENCE_DASHES)
    size = 5.5  # smaller from one series to the next: marks on top of one another stay visible
    for name, own in rows.groupby("series", sort=False):
        series = str(name)
        if series.startswith("reference:"):
            words = series.split(":")[1].strip()
            look = {"linestyle": next(dashes), **REFERENCE}
            axes.plot(own["x"], own["theory"], label=words, **look)
            continue
        look = LOOK.get(series) or TRAINED.get(series) or next(others)
        line = own.dropna(subset=["theory"]).sort_values("x")
        dots = own.dropna(subset=["simulation"]).sort_values("x")
        color, marker = look["color"], look["marker"]
        style: dict[str, Any] = {
            "color": color, "linestyle": look["linestyle"], "linewidth": look["width"],
        }  # fmt: skip
        if len(line):
            axes.plot(line["x"], line["theory"], **style)
        bars = line[line.get("theory_error", 0.0 * line["theory"]) > 0]
        if len(bars):
            axes.errorbar(
                bars["x"],
                bars["theory"],
                2 * bars["theory_error"],
                fmt="none",
                ecolor=color,
                elinewidth=0.9,
                capsize=1.5,
            )
        joined = join and not len(line)
        if len(dots):
            axes.errorbar(
                dots["x"],
                dots["simulation"],
                2 * dots["simulation_error"].fillna(0.0),
                fmt=marker,
                color=color,
                markersize=size,
                markerfacecolor="white",
                markeredgewidth=1.1,
                elinewidth=0.9,
                capsize=1.5,
                linewidth=0.8,
                linestyle=look["linestyle"] if joined else "none",
            )
        if not len(line) and not joined:
            style["linestyle"] = "none"
        axes.plot(
            [],
            [],
            marker=marker if len(dots) else "",
            markerfacecolor="white",
            markersize=size,
            label=series,
            **style,
        )
        size = max(size - 0.8, 3.0)
    axes.legend(fontsize=7, handlelength=2.8)


def _map(axes: Axes, rows: pd.DataFrame, panel: Panel) -> None:
    def square(series: str) -> pd.DataFrame:
        return rows[rows["series"] == series].pivot(index="y", columns="x", values="theory")

    colours = square(panel.colour)
    x, y = colours.columns.to_numpy(float), colours.index.to_numpy(float)
    drawn = axes.pcolormesh(x, y, colours.to_numpy(), cmap="cividis", shading="nearest")
    plt.colorbar(drawn, ax=axes, label=panel.colour)
    halo: list[AbstractPathEffect] = [withStroke(linewidth=2.4, foreground="black")]
    if panel.contours:
        heights, levels = [0.01, 0.1, 1.0, 10.0, 100.0], square(panel.contours).to_numpy()
        contours = axes.contour(x, y, levels, heights, colors="white", linewidths=1.0)
        contours.set_path_effects(halo)
        for label in axes.clabel(contours, fmt="%g", fontsize=7):
            label.set_path_effects(halo)
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # where the references do not reach
    references = rows[rows["series"].str.startswith("reference:")]
    for (name, line), dashes in zip(
        references.groupby("series", sort=False), itertools.cycle(_OVER_MAPS), strict=False
    ):
        words = str(name).split(":")[1].strip()
        axes.plot(
            line["x"],
            line["theory"],
            label=words,
            color="white",
            linewidth=1.4,
            linestyle=dashes,
            path_effects=halo,
        )
    if len(references):
        look = {"frameon": True, "facecolor": "#333333", "labelcolor": "white", "framealpha": 0.85}
        axes.legend(loc="upper left", fontsize=7, handlelength=2.8, **look)
    axes.grid(False)

"""Figures: tables in, matplotlib out. Nothing is computed here.

One look for all: the same colour for a classifier everywhere (safe for the colour-blind, told apart
in grey by line style), lines for theory, labels in words with symbols.
"""

from __future__ import annotations

import io
import itertools
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as FreeFigure  # that pyplot does not keep
from matplotlib.patheffects import AbstractPathEffect, withStroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

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
}

# A picture in a page: nothing in it depends on the hour, and a label's $ is a $.
_PICTURE: dict[Any, Any] = {
    "svg.hashsalt": "sparsetoken",
    "svg.fonttype": "none",
    "text.parse_math": False,
}


def _look(color: str, linestyle: Any, marker: str, width: float) -> dict[str, Any]:
    return {"color": color, "linestyle": linestyle, "marker": marker, "width": width}


# Okabe and Ito's colours; dashes and marks tell them apart in grey, widths on top of another.
LOOK = {
    "attention": _look("#D55E00", "-", "o", 2.0),
    "vectorized": _look("#009E73", "--", "s", 2.6),
    "pooled": _look("#0072B2", "-.", "^", 1.3),
    "bayes": _look("#000000", ":", "D", 1.3),
    "message passing": _look("#E69F00", (0, (4, 2)), "X", 1.3),
    "maximum": _look("#CC79A7", (0, (6, 1)), "v", 1.6),
    "higher criticism": _look("#56B4E9", (0, (3, 1, 1, 1)), "P", 1.6),
}
_THIN = (0, (1, 1))
TRAINED = {  # beside exact curves, in the colour of their next of kin
    "exact: attention, four stages": LOOK["attention"],
    "exact: vectorized": LOOK["vectorized"],
    "exact: pooled": LOOK["pooled"],
    "simple attention": _look("#D55E00", _THIN, "o", 0.8),
    "query, key and value": _look("#CC79A7", _THIN, "s", 0.8),
    "several heads": _look("#E69F00", _THIN, "D", 0.8),
    "two layers": _look("#000000", _THIN, "v", 0.8),
    "mean and MLP": _look("#0072B2", _THIN, "^", 0.8),
    "flat MLP": _look("#009E73", _THIN, "P", 0.8),
}
_OTHERS = [  # for series that are not classifiers, in order
    _look("#D55E00", "-", "o", 1.8),
    _look("#CC79A7", (0, (6, 1)), "s", 1.6),
    _look("#56B4E9", (0, (1, 1)), "^", 2.2),
    _look("#009E73", (0, (3, 1, 1, 1)), "D", 1.2),
    _look("#555555", (0, (1, 3)), "v", 1.6),
]
_REFERENCE: dict[str, Any] = {"color": "#888888", "linewidth": 1.0}
_OVER_MAPS: list[Any] = ["-", (0, (3, 2))]
_REFERENCE_DASHES: list[Any] = [(0, (4, 3)), (0, (1, 1.5)), (0, (6, 2, 1, 2))]


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
                _plain_numbers(axes, panel.log)
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
                f" {name} {x:.4g}",
                rotation=90,
                fontsize=6.5,
                color="#555555",
                transform=axes.get_xaxis_transform(),
                ha="right",
                va="top",
            )


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write PATH.png and PATH.pdf (fonts embedded as fonts), and let go of the figure."""
    with mpl.rc_context(STYLE):
        for suffix in ("png", "pdf"):
            figure.savefig(f"{os.fspath(path)}.{suffix}")
            figure.set_layout_engine("none")  # the first has found its layout: keep it
    plt.close(figure)


def svg(figure: Figure) -> bytes:
    """As vectors, the same bytes for the same figure; lets go of it.

    Words stay words: the reader's fonts have letters that those of matplotlib do not.
    """
    content = io.BytesIO()
    with mpl.rc_context({**STYLE, **_PICTURE}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return content.getvalue()


def whiskers(table: pd.DataFrame, x: str, reference: float | None = None) -> Figure:
    """A dot with a whisker from `low` to `high` for each row, from top to bottom, by its `name`.

    A grey line stands at the reference; the row that is `best` has a filled dot.
    """
    with mpl.rc_context({**STYLE, **_PICTURE}):
        figure, axes = plt.subplots(figsize=(4.4, 0.9 + 0.34 * len(table)), layout="constrained")
        if reference is not None:
            axes.axvline(reference, linestyle=_REFERENCE_DASHES[0], **_REFERENCE)
        for place, best in enumerate(table["best"]):
            color = LOOK["attention" if best else "pooled"]["color"]
            low, value, high = table[["low", "value", "high"]].iloc[place].to_numpy(float)
            axes.plot([low, high], [place, place], color=color, solid_capstyle="butt")
            face = color if best else "white"
            axes.plot(value, place, "o", color=color, markerfacecolor=face, markersize=6)
        axes.set_yticks(range(len(table)), table["name"])
        axes.set(xlabel=x, ylim=(len(table) - 0.5, -0.5))
        axes.grid(axis="y", visible=False)
    return figure


def chart(
    table: pd.DataFrame,
    x: str,
    y: str,
    *,
    log: Literal["", "x", "y", "xy"] = "",
    unit_square: bool = False,
    from_zero: bool = False,
) -> Figure:
    """Rows of x and y by `series`, each drawn in the way of its `kind`.

    A "line"; a "band", a line with all between `low` and `high` shaded; "dots", with bars from
    `low` to `high`; a "reference", thin and grey. Series of one `look` have one colour, that of the
    classifier of this name.
    """
    with mpl.rc_context({**STYLE, **_PICTURE}):
        height = 4.0 if unit_square else 3.2
        figure, axes = plt.subplots(figsize=(4.4, height), layout="constrained")
        axes.set(**{f"{name}scale": "log" for name in log})
        others = itertools.cycle(_OTHERS)
        for name, own in table.groupby("series", sort=False):
            look = LOOK.get(own["look"].iloc[0]) or next(others)
            words = str(name)  # one that begins with _ would have no entry in the legend
            _series(axes, f"\u200b{words}" if words.startswith("_") else words, own, look)
        axes.set(xlabel=x, ylabel=y)
        if unit_square:
            axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        if from_zero:
            axes.set_ylim(bottom=0.0)
        _plain_numbers(axes, log)
        if unit_square:  # curves leave a corner free
            axes.legend(fontsize=8, handlelength=2.2)
        else:
            figure.legend(loc="outside lower center", ncols=2, fontsize=8, handlelength=2.2)
    return figure


def histogram(counts: Sequence[int], edges: Sequence[float], x: str, y: str) -> Figure:
    """Bars of counts between edges."""
    with mpl.rc_context({**STYLE, **_PICTURE}):
        figure, axes = plt.subplots(figsize=(4.4, 2.4), layout="constrained")
        color = LOOK["pooled"]["color"]
        axes.stairs(counts, edges, fill=True, color=color, alpha=0.8)
        axes.set(xlabel=x, ylabel=y)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    return figure


def _series(axes: Axes, name: str, own: pd.DataFrame, look: dict[str, Any]) -> None:
    kind, color = own["kind"].iloc[0], look["color"]
    if kind == "reference":
        axes.plot(own["x"], own["y"], label=name, linestyle=_REFERENCE_DASHES[0], **_REFERENCE)
    elif kind == "dots":
        bars = [own["y"] - own["low"], own["high"] - own["y"]]
        style: dict[str, Any] = {"markerfacecolor": "white", "markersize": 5, "capsize": 2.0}
        axes.errorbar(
            own["x"], own["y"], bars, fmt=look["marker"], color=color, label=name, **style
        )
    else:
        axes.plot(own["x"], own["y"], label=name, color=color, linestyle=look["linestyle"])
        if kind == "band":
            ends = own["low"], own["high"]
            axes.fill_between(own["x"], *ends, color=color, alpha=0.18, linewidth=0)


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


def save_map(figure: Figure, path: str | os.PathLike[str]) -> None:
    """As PNG; letters that the font does not have are boxes."""
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(path, format="png", dpi=150)


def _lines(axes: Axes, rows: pd.DataFrame, join: bool) -> None:
    others, dashes = itertools.cycle(_OTHERS), itertools.cycle(_REFERENCE_DASHES)
    size = 5.5  # smaller from one series to the next: marks on top of one another stay visible
    for name, own in rows.groupby("series", sort=False):
        series = str(name)
        if series.startswith("reference:"):
            words = series.split(":")[1].strip()
            look = {"linestyle": next(dashes), **_REFERENCE}
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

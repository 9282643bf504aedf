"""Charts of numbers from data: whiskers, series with bands, bars."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from sparsetoken.figures.style import (
    LOOK,
    OTHERS,
    PICTURE,
    REFERENCE,
    REFERENCE_DASHES,
    STYLE,
    plain_numbers,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def whiskers(table: pd.DataFrame, x: str, reference: float | None = None) -> Figure:
    """A dot with a whisker from `low` to `high` for each row, from top to bottom, by its `name`.

    A grey line stands at the reference; the row that is `best` has a filled dot.
    """
    with mpl.rc_context({**STYLE, **PICTURE}):
        figure, axes = plt.subplots(figsize=(4.4, 0.9 + 0.34 * len(table)), layout="constrained")
        if reference is not None:
            axes.axvline(reference, linestyle=REFERENCE_DASHES[0], **REFERENCE)
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
    with mpl.rc_context({**STYLE, **PICTURE}):
        height = 4.0 if unit_square else 3.2
        figure, axes = plt.subplots(figsize=(4.4, height), layout="constrained")
        axes.set(**{f"{name}scale": "log" for name in log})
        others = itertools.cycle(OTHERS)
        for name, own in table.groupby("series", sort=False):
            look = LOOK.get(own["look"].iloc[0]) or next(others)
            words = str(name)  # one that begins with _ would have no entry in the legend
            _series(axes, f"\u200b{words}" if words.startswith("_") else words, own, look)
        axes.set(xlabel=x, ylabel=y)
        if unit_square:
            axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        if from_zero:
            axes.set_ylim(bottom=0.0)
        plain_numbers(axes, log)
        if unit_square:  # curves leave a corner free
            axes.legend(fontsize=8, handlelength=2.2)
        else:
            figure.legend(loc="outside lower center", ncols=2, fontsize=8, handlelength=2.2)
    return figure


def histogram(counts: Sequence[int], edges: Sequence[float], x: str, y: str) -> Figure:
    """Bars of counts between edges."""
    with mpl.rc_context({**STYLE, **PICTURE}):
        figure, axes = plt.subplots(figsize=(4.4, 2.4), layout="constrained")
        color = LOOK["pooled"]["color"]
        axes.stairs(counts, edges, fill=True, color=color, alpha=0.8)
        axes.set(xlabel=x, ylabel=y)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    return figure


def _series(axes: Axes, name: str, own: pd.DataFrame, look: dict[str, Any]) -> None:
    kind, color = own["kind"].iloc[0], look["color"]
    if kind == "reference":
        axes.plot(own["x"], own["y"], label=name, linestyle=REFERENCE_DASHES[0], **REFERENCE)
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

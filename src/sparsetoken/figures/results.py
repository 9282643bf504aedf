"""Results on axes of the caller's, or on new ones: what `.plot()` draws. The axes come back.

Series that a caller draws one after another share axes, colours and a legend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from sparsetoken.figures.style import (
    LOOK,
    OTHERS,
    REFERENCE,
    REFERENCE_DASHES,
    STYLE,
    plain_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (4.4, 3.2)
_NARROW = 5.0  # ends of a logarithmic axis on which 1, 2, 5 would leave too few ticks
_ROW = 0.42  # height of one, in inches


def new_axes(ax: Axes | None, size: tuple[float, float] = _SIZE) -> Axes:
    """The axes given, or those of a new figure in the look of all."""
    if ax is not None:
        return ax
    with mpl.rc_context(STYLE):
        _, made = plt.subplots(figsize=size, layout="constrained")
    return made


def look_of(ax: Axes, name: str) -> dict[str, Any]:
    """That of a classifier; for others the next that these axes do not have."""
    if name in LOOK:
        return LOOK[name]
    used = {line.get_color() for line in ax.lines}
    return next((look for look in OTHERS if look["color"] not in used), OTHERS[-1])


_DASHES: list[Any] = ["-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 1, 1, 1))]


def _line(ax: Axes, look: dict[str, Any]) -> dict[str, Any]:
    """A line in a look; a second one of the same colour has other dashes."""
    again = sum(
        line.get_color() == look["color"] and not str(line.get_label()).startswith("_")
        for line in ax.lines
    )
    dashes = look["linestyle"] if not again else _DASHES[again % len(_DASHES)]
    return {"color": look["color"], "linestyle": dashes, "linewidth": look["width"]}


def learning_curve(
    ax: Axes | None,
    samples: Any,
    values: Any,
    *,
    name: str,
    label: str,
    y: str,
    x: str = "readout samples per dimension  $n_1/d$",
    spread: Any = None,
    log: bool = False,
    hard: Any = None,
) -> Axes:
    """A line against numbers of samples; infinitely many are a dashed line across.

    A band of `spread` on either side; a grey one over the samples that are `hard`.
    """
    ax = new_axes(ax)
    look = look_of(ax, name)
    samples, values = np.asarray(samples, float), np.asarray(values, float)
    order = np.argsort(samples)
    order = order[np.isfinite(samples[order])]
    style = _line(ax, look)
    if len(order):
        few = {"marker": look["marker"]} if len(order) == 1 else {}
        ax.plot(samples[order], values[order], label=label, **style, **few)
        ax.set_xscale("log")
    for value in values[np.isinf(samples)]:
        words = None if len(order) else f"{label}, infinitely many"
        ax.axhline(value, color=look["color"], linewidth=0.9, linestyle=(0, (5, 4)), label=words)
    if log and (values > 0).all():
        ax.set_yscale("log")
    if spread is not None and len(order):
        half = np.asarray(spread, float)[order]
        low = values[order] - half
        if log:  # a band that reaches 0 ends at the bottom
            low = np.maximum(low, 1e-3 * values[order])
        band = {"color": look["color"], "alpha": 0.18, "linewidth": 0}
        bottom, _ = ax.get_ylim()
        ax.fill_between(samples[order], low, values[order] + half, **band)
        if log and low.min() < bottom:
            least = max(float(low.min()), 0.5 * float(values[order].min()))
            ax.set_ylim(bottom=min(bottom, 0.95 * least))
    if hard is not None:
        _shade(ax, samples[order], np.asarray(hard)[order])
    return _named(ax, x, y)


def _shade(ax: Axes, samples: Any, hard: Any) -> None:
    """Grey where something is true of neighbouring points, up to halfway to others."""
    edges = np.sqrt(samples[1:] * samples[:-1])
    edges = np.concatenate([samples[:1], edges, samples[-1:]])
    words: str | None = "hard"
    for k in np.flatnonzero(hard):
        ax.axvspan(edges[k], edges[k + 1], color="#888888", alpha=0.25, linewidth=0, label=words)
        words = None


def runs(ax: Axes | None, x: float, values: Any, *, name: str, label: str, y: str) -> Axes:
    """Repeats as faint dots, their mean with a bar of two standard errors, at one x."""
    ax = new_axes(ax)
    look, values = look_of(ax, name), np.asarray(values, float)
    values = values[np.isfinite(values)]
    color, marker = look["color"], look["marker"]
    if np.isfinite(x):
        ax.set_xscale("log")
    place = np.full(len(values), x if np.isfinite(x) else 1.0)
    ax.plot(place, values, marker=marker, color=color, alpha=0.35, markersize=3, linestyle="none")
    if len(values):
        error = 2 * values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        dot: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 1.1, "markersize": 6}
        ax.errorbar(
            place[:1], [values.mean()], [error], fmt=marker, color=color, capsize=2.5,
            label=label, zorder=3, **dot,
        )  # fmt: skip
    return _named(ax, "readout samples per dimension  $n_1/d$", y)


def roc(
    ax: Axes | None,
    false: Any,
    true: Any,
    *,
    name: str,
    label: str,
    point: tuple[float, float] | None = None,
) -> Axes:
    """True against false positive rates; a dot at the classifier's own threshold."""
    fresh = ax is None
    ax = new_axes(ax, (3.8, 3.8))
    look = look_of(ax, name)
    if fresh:
        ax.plot([0, 1], [0, 1], linestyle=REFERENCE_DASHES[1], label="a coin", **REFERENCE)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style = _line(ax, look)
    ax.plot(false, true, label=label, **style)
    if point is not None:
        ax.plot(*point, look["marker"], color=look["color"], markerfacecolor="white", markersize=6)
    return _named(ax, "false positive rate", "true positive rate")


class Option(NamedTuple):
    """A row of `options`: NaN for a value that there is not, whose words stand instead."""

    name: str
    value: float
    low: float
    high: float
    tick: float
    words: str = ""


def options(
    table: Sequence[Option],
    ax: Axes | None,
    *,
    x: str,
    bars: str,
    ticks: str,
    log: bool = False,
    best: str | None = None,
    title: str = "",
) -> Axes:
    """A row for each option: a dot at its value, a bar from low to high, a tick.

    The best has a filled dot.
    """
    ax = new_axes(ax, (4.8, 1.35 + _ROW * len(table)))
    for place, row in enumerate(table):
        look = look_of(ax, row.name)
        color = look["color"]
        if not math.isfinite(row.value):
            words = ax.text(0.02, place, row.words, color=color, fontsize=7.5, va="center")
            words.set_transform(ax.get_yaxis_transform())
            continue
        ax.plot([row.low, row.high], [place, place], color=color, linewidth=1.6)
        ax.plot([row.tick], [place], "|", color=color, markersize=11, markeredgewidth=1.6)
        face = color if row.name == best else "white"
        ax.plot([row.value], [place], look["marker"], color=color, markerfacecolor=face)
        number = f"{row.value:.0f}" if row.value >= 1000 else f"{row.value:.3g}"
        ax.text(row.value, place - 0.24, number, color=color, fontsize=7, ha="center")
    some = [row for row in table if math.isfinite(row.value)]
    key: dict[str, Any] = {"color": "#555555", "linewidth": 1.6}
    if some and bars:
        ax.plot([], [], label=bars, **key)
    if any(math.isfinite(row.tick) for row in some):
        ax.plot([], [], "|", color="#555555", markersize=9, markeredgewidth=1.6, label=ticks)
    if log and some:
        ax.set_xscale("log")
        ends = [end for row in some for end in (row.low, row.high) if math.isfinite(end)]
        ax.set_xlim(min(ends) / 2, max(ends) * 2)
        _plain(ax)
    ax.set_yticks(range(len(table)), [row.name for row in table])
    ax.set(ylim=(len(table) - 0.5, -0.5), xlabel=x)
    ax.grid(axis="y", visible=False)
    if not some:
        ax.set_xticks([])
    if title:
        ax.set_title(title, fontsize=8)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.32), ncols=2, fontsize=7.5, frameon=False
        )
    return ax


def _named(ax: Axes, x: str, y: str) -> Axes:
    """Words on axes that have none yet; a legend of all that is drawn."""
    ax.set_xlabel(ax.get_xlabel() or x)
    ax.set_ylabel(ax.get_ylabel() or y)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=7.5, handlelength=2.6, frameon=False)
    _plain(ax)
    return ax


def _plain(ax: Axes) -> None:
    """0.05 instead of 5 × 10⁻² where there are few decades; even steps where there is none."""
    scales = {"x": ax.get_xscale(), "y": ax.get_yscale()}
    plain_numbers(ax, "".join(name for name, scale in scales.items() if scale == "log"))
    for name, axis, (low, high) in (
        ("x", ax.xaxis, ax.get_xlim()),
        ("y", ax.yaxis, ax.get_ylim()),
    ):
        if scales[name] == "log" and high / low < _NARROW:
            axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))

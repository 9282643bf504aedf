"""Figures: tables in, matplotlib out. Nothing is computed here.

One look for all: the same colour for a classifier everywhere (safe for the colour-blind, told apart
in grey by line style), lines for theory, labels in words with symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
    "attention": {"color": "#D55E00", "linestyle": "-"},
    "vectorized": {"color": "#009E73", "linestyle": "--"},
    "pooled": {"color": "#0072B2", "linestyle": "-."},
    "bayes": {"color": "#000000", "linestyle": ":"},
}


def learning_curves(
    table: pd.DataFrame,
    capacity: Mapping[str, float],
    floor: Mapping[str, float],
    title: str = "",
) -> Figure:
    """Test error and training loss against readout samples, one line for each classifier.

    `table` has columns classifier, readout_samples, test_error, train_loss; `capacity` gives each
    classifier's separability threshold, `floor` its best possible error (and that of "bayes").
    """
    with mpl.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.4), layout="constrained")
        for name, rows in table.groupby("classifier", sort=False):
            look = LOOK[str(name)]
            for axes, column in ((left, "test_error"), (right, "train_loss")):
                axes.plot(
                    rows["readout_samples"],
                    rows[column],
                    color=look["color"],
                    linestyle=look["linestyle"],
                    label=str(name),
                )
            _mark_capacity(right, capacity[str(name)], look["color"])
        for names, error in _grouped(floor):
            color = LOOK[names[-1]]["color"]
            left.axhline(error, color=color, linewidth=0.8, linestyle=":")
            left.annotate(
                "best possible: " + ", ".join(names),
                (0.01, error),
                xycoords=("axes fraction", "data"),
                xytext=(0, 1),
                textcoords="offset points",
                va="bottom",
                fontsize=6.5,
                color=color,
            )
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xlabel("readout samples per dimension  $n_1/d$")
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        left.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        left.yaxis.set_minor_formatter(NullFormatter())
        left.set_ylabel("test error")
        right.set_ylabel("training loss")
        right.plot([], [], "v", color="#555555", label="capacity")
        right.legend(loc="upper left", fontsize=8)
        figure.suptitle(title, fontsize=9)
    return figure


def _grouped(values: Mapping[str, float]) -> list[tuple[list[str], float]]:
    """Names whose values cannot be told apart in a figure (2 %), together."""
    groups: list[tuple[list[str], float]] = []
    for name, value in values.items():
        for names, first in groups:
            if abs(value - first) <= 0.02 * first:
                names.append(name)
                break
        else:
            groups.append(([name], value))
    return groups


def _mark_capacity(axes: Axes, threshold: float, color: str) -> None:
    """A tick at the top where the training data stop being separable."""
    axes.plot(
        [threshold],
        [1.0],
        transform=axes.get_xaxis_transform(),
        marker="v",
        color=color,
        clip_on=False,
        markersize=5,
    )

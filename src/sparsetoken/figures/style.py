"""One look for all figures: colours, lines, marks, numbers on axes.

The same colour for a classifier everywhere (safe for the colour-blind, told apart in grey by line
style), lines for theory, labels in words with symbols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
PICTURE: dict[Any, Any] = {
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
OTHERS = [  # for series that are not classifiers, in order
    _look("#D55E00", "-", "o", 1.8),
    _look("#CC79A7", (0, (6, 1)), "s", 1.6),
    _look("#56B4E9", (0, (1, 1)), "^", 2.2),
    _look("#009E73", (0, (3, 1, 1, 1)), "D", 1.2),
    _look("#555555", (0, (1, 3)), "v", 1.6),
]
REFERENCE: dict[str, Any] = {"color": "#888888", "linewidth": 1.0}
REFERENCE_DASHES: list[Any] = [(0, (4, 3)), (0, (1, 1.5)), (0, (6, 2, 1, 2))]


def plain_numbers(axes: Axes, log: str) -> None:
    """0.05 instead of 5 × 10⁻² where there are few decades."""
    for name, axis, (low, high) in (
        ("x", axes.xaxis, axes.get_xlim()),
        ("y", axes.yaxis, axes.get_ylim()),
    ):
        if name in log and high / low < 300:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())

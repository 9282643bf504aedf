"""Figures: tables in, matplotlib out. Nothing is computed here, and no room is known.

The one door to matplotlib; whoever draws imports this when it draws, not before.
"""

from sparsetoken.figures.charts import chart, histogram, whiskers
from sparsetoken.figures.files import save, save_map, svg
from sparsetoken.figures.panels import Panel, mark, panels
from sparsetoken.figures.results import Option, learning_curve, options, roc, runs
from sparsetoken.figures.style import LOOK, STYLE, TRAINED
from sparsetoken.figures.token_maps import DISCOVERED, token_colours, token_map

__all__ = [
    "DISCOVERED",
    "LOOK",
    "STYLE",
    "TRAINED",
    "Option",
    "Panel",
    "chart",
    "histogram",
    "learning_curve",
    "mark",
    "options",
    "panels",
    "roc",
    "runs",
    "save",
    "save_map",
    "svg",
    "token_colours",
    "token_map",
    "whiskers",
]

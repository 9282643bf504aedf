"""Figures as files."""

from __future__ import annotations

import io
import os
import warnings
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt

from sparsetoken.figures.style import PICTURE, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    with mpl.rc_context({**STYLE, **PICTURE}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return content.getvalue()


def save_map(figure: Figure, path: str | os.PathLike[str]) -> None:
    """As PNG; letters that the font does not have are boxes."""
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(path, format="png", dpi=150)

"""Figures show what the table holds."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

from sparsetoken import figures
from sparsetoken.figures import LOOK, TRAINED, Panel
from sparsetoken.reproduction.claim import collect, rows

NAMES = ["attention", "vectorized", "pooled"]
X = [1.0, 2.0, 4.0]


@pytest.fixture
def table():
    parts = [
        rows(
            "errors", name, X, theory=[0.1 * k, 0.05 * k, 0.02 * k], repeats=4, dim=50,
            simulation=[0.11 * k, np.nan, 0.021 * k], simulation_error=[0.01, np.nan, 0.001],
        )
        for k, name in enumerate(NAMES, start=1)
    ]  # fmt: skip
    parts.append(rows("errors", "reference: 1/n", X, theory=[0.3, 0.15, 0.075]))
    parts.append(rows("other ways", "one", X, theory=X))
    parts.append(rows("other ways", "two", X, simulation=X, simulation_error=0.1))
    for y in X:
        parts.append(rows("map", "height", X, y=y, theory=[y, 2 * y, 4 * y]))
        parts.append(rows("map", "level", X, y=y, theory=[0.1, 1.0, 10.0]))
    return collect(parts)


PANELS = [
    Panel("errors", "samples", "error", log="xy"),
    Panel("other ways", "samples", "error", legend=False),
    Panel("map", "step", "other step", log="xy", colour="height", contours="level"),
    Panel("not there", "x", "y"),
]


def test_every_number_is_drawn(table):
    figure = figures.panels(table, PANELS, "a title")
    errors, others, chart = figure.axes[:3]
    for name in NAMES:
        mine = table[table.series == name]
        lines = [line for line in errors.lines if line.get_color() == LOOK[name]["color"]]
        drawn = [line for line in lines if len(line.get_xdata()) == 3]
        np.testing.assert_array_equal(drawn[0].get_ydata(), mine.theory)
        marks = [line for line in lines if line.get_marker() == LOOK[name]["marker"]]
        known = mine.dropna(subset=["simulation"])
        assert any(np.array_equal(line.get_ydata(), known.simulation) for line in marks)
    bars = [bar.get_segments()[0] for bar in errors.collections]
    np.testing.assert_allclose(bars[0][:, 1], [0.11 - 0.02, 0.11 + 0.02])  # two standard errors
    labels = [text.get_text() for text in errors.get_legend().get_texts()]
    assert labels == [*NAMES, "1/n"]
    assert others.get_legend() is None and errors.get_xscale() == "log"
    heights = chart.collections[0].get_array()
    np.testing.assert_array_equal(np.ravel(heights), [1, 2, 4, 2, 4, 8, 4, 8, 16])
    assert figure.get_suptitle() == "a title"


def test_looks_differ_in_grey():
    styles = {str(look["linestyle"]) for look in LOOK.values()}
    marks = {look["marker"] for look in LOOK.values()}
    assert len(styles) == len(marks) == len(LOOK)
    trained = [look["marker"] for name, look in TRAINED.items() if not name.startswith("exact: ")]
    assert len(set(trained)) == len(trained) == 6


def test_saved_as_picture_and_as_vectors(table, tmp_path):
    figures.save(figures.panels(table, PANELS[:1]), tmp_path / "figure")
    assert (tmp_path / "figure.png").stat().st_size > 5000
    assert b"/FontFile2" in (tmp_path / "figure.pdf").read_bytes()


def test_a_chart_draws_each_series_in_its_way():
    numbers = {"x": [1, 2], "y": [0.2, 0.3], "low": [0.0, 0.1], "high": [0.4, 0.5]}
    parts = [
        pd.DataFrame({"series": name, "kind": kind, "look": "", **numbers})
        for name, kind in (("a", "line"), ("b", "band"), ("_c $", "dots"), ("d", "reference"))
    ]  # fmt: skip
    figure = figures.chart(pd.concat(parts), "bags", "error", log="x", from_zero=True)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and axes.get_ylim()[0] == 0
    drawn = [line for line in axes.lines if np.array_equal(line.get_ydata(), [0.2, 0.3])]
    assert len(drawn) == 4
    shade, bars = axes.collections
    assert shade.get_paths()[0].get_extents().ymax == pytest.approx(0.5)
    np.testing.assert_allclose([bar[:, 1] for bar in bars.get_segments()], [[0, 0.4], [0.1, 0.5]])
    legend = [text.get_text().strip("\u200b") for text in figure.legends[0].get_texts()]
    assert sorted(legend) == ["_c $", "a", "b", "d"]
    content = figures.svg(figure)
    assert content.startswith(b"<?xml") and b"_c $" in content and b"<dc:date>" not in content


def test_whiskers_go_from_low_to_high_and_the_best_is_filled():
    table = pd.DataFrame(
        {"name": ["one", "two"], "value": [0.2, 0.3], "low": [0.1, 0.2], "high": [0.4, 0.5],
         "best": [False, True]}
    )  # fmt: skip
    figure = figures.whiskers(table, "error", reference=0.5)
    (axes,) = figure.axes
    _, first, dot, second, best = axes.lines
    np.testing.assert_allclose(first.get_xdata(), [0.1, 0.4])
    np.testing.assert_allclose(second.get_xdata(), [0.2, 0.5])
    assert dot.get_markerfacecolor() == "white" != best.get_markerfacecolor()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["one", "two"]
    low, high = axes.get_ylim()
    assert low > high  # the first row is on top
    assert figures.svg(figure) == figures.svg(figures.whiskers(table, "error", reference=0.5))

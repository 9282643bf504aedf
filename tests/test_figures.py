"""Figures show what the table holds."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd

mpl.use("Agg")

from sparsetoken import figures


def test_learning_curves_draw_every_row(tmp_path):
    names = ["attention", "vectorized", "pooled"]
    table = pd.DataFrame(
        [
            dict(classifier=name, readout_samples=x, test_error=0.1 * k + 0.1 / x, train_loss=x)
            for k, name in enumerate(names, start=1)
            for x in (1.0, 2.0, 4.0)
        ]
    )
    floor = {"attention": 0.0178, "vectorized": 0.2, "pooled": 0.2, "bayes": 0.01782}
    figure = figures.learning_curves(table, dict.fromkeys(names, 3.0), floor, title="a title")
    left, right = figure.axes
    for axes, column in ((left, "test_error"), (right, "train_loss")):
        lines = {line.get_label(): line for line in axes.lines}
        for name in names:
            rows = table[table.classifier == name]
            np.testing.assert_array_equal(lines[name].get_xdata(), rows.readout_samples)
            np.testing.assert_array_equal(lines[name].get_ydata(), rows[column])
        assert len({lines[name].get_linestyle() for name in names}) == 3  # readable in grey
    notes = {text.get_text() for text in left.texts}
    assert notes == {"best possible: attention, bayes", "best possible: vectorized, pooled"}
    figure.savefig(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").stat().st_size > 5000

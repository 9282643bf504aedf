"""Forecast and true learning curves side by side, one panel a world."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

COLOURS = {"attention": "#1f6fb4", "pooled": "#d0812b"}
COLUMNS = 4


def draw(rows: pd.DataFrame, worlds: list[str], path: Path) -> None:
    """Rows as `calibration.judged` gives them; truth as a line, each pilot's forecast as a dot with
    its interval, pilots side by side around the number of bags."""
    there = [world for world in worlds if (rows.world == world).any()]
    height = -(-len(there) // COLUMNS)
    figure, axes = plt.subplots(height, COLUMNS, figsize=(12, 2.9 * height), squeeze=False)
    for axis, world in zip(axes.flat, there, strict=False):
        for classifier, colour in COLOURS.items():
            part = rows[(rows.world == world) & (rows.classifier == classifier)]
            truth = part.groupby("samples").truth.first()
            axis.plot(truth.index, truth, "-", color=colour, linewidth=2, label=f"{classifier}")
            for samples, here in part.groupby("samples"):
                places = samples * np.geomspace(0.75, 1.33, len(here) + 2)[1:-1]
                ends = here[["low", "high"]].to_numpy().T
                lines = axis.vlines(places, *ends, color=colour, linewidth=0.8, alpha=0.6)
                lines.set_zorder(1)
                axis.plot(places, here.forecast, "o", color=colour, markersize=2.5)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(max(1e-3, 0.4 * rows[rows.world == world].truth.min()), 0.6)
        axis.set_xticks([300, 1000, 3000], ["300", "1000", "3000"])
        axis.minorticks_off()
        ticks = [tick for tick in (0.003, 0.01, 0.03, 0.1, 0.3) if tick > axis.get_ylim()[0]]
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        pilots = rows[rows.world == world].drop_duplicates(["pilot", "seed"])
        axis.set_title(f"{world} ({len(pilots)} pilots)", fontsize=10)
    for axis in list(axes.flat)[len(there) :]:
        axis.axis("off")
    for axis in axes[:, 0]:
        axis.set_ylabel("test error")
    for axis in axes[-1]:
        axis.set_xlabel("labelled bags")
    axes[0, 0].legend(fontsize=8, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)

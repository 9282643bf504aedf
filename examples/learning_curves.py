"""Compare the three classifiers over a range of sample sizes: what `make demo` runs.

Prints test errors with capacity and the best possible errors; writes the figure and its numbers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import sparsetoken as st
from sparsetoken import figures

TASK = st.Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)
PROTOCOL = st.Protocol(query_samples=2.0, loss=st.Logistic(), ridge=1e-5)
CLASSIFIERS = {"attention": st.Attention(), "vectorized": st.Vectorized(), "pooled": st.Pooled()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    samples = np.logspace(np.log10(0.3), np.log10(60), 41)
    shown = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    frames, columns = [], {}
    for name, classifier in CLASSIFIERS.items():
        frame = st.learning_curve(TASK, classifier, PROTOCOL, samples).to_frame()
        frames.append(frame.assign(classifier=name))
        columns[name] = st.learning_curve(TASK, classifier, PROTOCOL, shown).test_error
    capacity = {name: st.capacity(TASK, c, PROTOCOL) for name, c in CLASSIFIERS.items()}
    floor = {name: float(st.oracle_error(TASK, c)) for name, c in CLASSIFIERS.items()}
    floor["bayes"] = float(st.bayes_error(TASK))
    query = st.align(TASK, PROTOCOL)

    title = (
        f"L = {TASK.length}, R = {TASK.sparsity}, θ = {TASK.strength:g}, π = {TASK.prevalence:g}, "
        f"λ = {PROTOCOL.ridge:g}, logistic loss; query from {PROTOCOL.query_samples:g} samples per "
        f"dimension (cosine {query.cosine:.3f})"
    )
    table = Table(title="Test error\n" + title, title_justify="left")
    table.add_column("readout samples per dimension", justify="right")
    for name in CLASSIFIERS:
        table.add_column(name, justify="right")
    for row, value in enumerate(shown):
        table.add_row(f"{value:g}", *(f"{columns[name][row]:.4f}" for name in CLASSIFIERS))
    table.add_section()
    table.add_row("capacity (separable below)", *(f"{capacity[name]:.4g}" for name in CLASSIFIERS))
    table.add_row("best possible error", *(f"{floor[name]:.4f}" for name in CLASSIFIERS))
    table.caption = f"Bayes error {floor['bayes']:.4f}"
    Console(width=100).print(table)

    data = pd.concat(frames, ignore_index=True)
    data.to_csv(out / "learning_curves.csv", index=False)
    figures.save(figures.learning_curves(data, capacity, floor, title), out / "learning_curves")
    print(f"wrote {out}/learning_curves.png, .pdf and .csv")


if __name__ == "__main__":
    main()

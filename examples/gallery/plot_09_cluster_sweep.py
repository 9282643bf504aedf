"""
A sweep on a cluster: Dask on this machine
==========================================

A grid of questions, answered by workers of a Dask cluster (here two on this machine; the address of
a scheduler takes the same code to many), each answer kept in an SQLite file as soon as it is there.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import sparsetoken as st

cells = st.grid(
    length=[5, 10, 20, 40],
    sparsity=1,
    strength=5.0,
    classifier=[st.Attention(), st.Pooled()],
    query_samples=2.0,
    readout_samples=[1.0, 4.0],
    ridge=1e-2,
    kind=["theory", "simulation"],
    dim=100,
    repeats=4,
    seed=0,
)
store = Path(tempfile.mkdtemp()) / "runs.sqlite"

if __name__ == "__main__":  # workers import this file
    with st.dask_executor("local", processes=2) as executor:
        table = st.sweep(cells, store=store, executor=executor)
    print(f"{len(cells)} cells, {len(table)} rows (a simulated cell has a row for each repeat)")

    # the same again, by one process: all rows are there, nothing is computed
    again = st.sweep(cells, store=store)
    print(again.equals(table))

    figure, axes = plt.subplots(figsize=(6.4, 4))
    for (name, count), rows in table.groupby(["classifier", "readout_samples"]):
        color = "#D55E00" if name == "attention" else "#0072B2"
        style = "-" if count == 4 else "--"
        theory = rows[rows.kind == "theory"]
        runs = rows[rows.kind == "simulation"].groupby("length").test_error
        label = f"{name}, {count:g}"
        axes.plot(theory.length, theory.test_error, style, color=color, label=label)
        mean, bars = runs.mean(), 2 * runs.sem()
        axes.errorbar(mean.index, mean, bars, fmt="o", color=color)
    axes.set(xlabel="tokens in a sample", ylabel="test error")
    axes.legend(title="classifier, samples per dimension", loc="lower right")
    figure.tight_layout()

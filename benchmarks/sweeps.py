"""What a sweep costs beyond its work, and what a second process gains.

python benchmarks/sweeps.py [--cells 10000]

Overhead: theory cells through `sweep` with a store, one after the other, against a bare loop over
the same cells; the two alternate, and the medians of the differences are shown. Processes: cells
over 20 laws of attention, serial against two processes, both in fresh processes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np

import sparsetoken as st
from sparsetoken.studies.questions import answer, units_of
from sparsetoken.support.processes import Worker


def overhead(count: int = 400) -> None:
    cells = st.grid(
        length=10,
        sparsity=1,
        strength=5.0,
        classifier=st.Pooled(),
        readout_samples=np.geomspace(0.5, 20, count).tolist(),
    )
    units = units_of(cells)
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        st.sweep(cells[:1])  # imports
        for turn in range(7):
            start = time.perf_counter()
            for unit in units:
                answer(unit)
            middle = time.perf_counter()
            st.sweep(cells, os.path.join(folder, f"{turn}.sqlite"))
            end = time.perf_counter()
            differences.append(((end - middle) - (middle - start)) / count)
    milliseconds = 1e3 * np.array(differences)
    print(
        f"overhead of a row: {np.median(milliseconds):.2f} ms "
        f"({milliseconds.min():.2f} to {milliseconds.max():.2f} over 7 turns), target 2 ms"
    )


def _seconds(cells: list[st.Cell], executor: int | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        table = st.sweep(cells, os.path.join(folder, "runs.sqlite"), executor)
        assert (table.status == "ok").all()
        return time.perf_counter() - start


def processes(count: int) -> None:
    cells = st.grid(
        length=10,
        sparsity=1,
        strength=5.0,
        ridge=np.geomspace(1e-4, 1, 20).tolist(),
        readout_samples=np.geomspace(0.5, 20, count // 400).tolist(),
        loss=st.Square(),
        classifier=[st.Attention(float(c), 1.0) for c in np.linspace(0.5, 0.95, 20)],
    )
    taken = []
    for executor in (None, 2):
        worker = Worker("spawn")  # a fresh process: no law is built yet
        taken.append(worker.run(_seconds, cells, executor))
        worker.kill()
        print(f"{len(cells)} cells over 20 laws, executor={executor}: {taken[-1]:.1f} s")
    print(f"2 processes: {taken[0] / taken[1]:.2f} times faster than serial, target 1.7")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=10_000, help="of the second comparison")
    arguments = parser.parse_args()
    overhead()
    processes(arguments.cells)

"""Small studies, for the tests of sweeps: imported by them, and run by them as a program.

python sweep_study.py STORE WHERE REPEATS; WHERE is 0 (here), a number of processes, `mpi`, or the
address of a Dask scheduler.
"""

from __future__ import annotations

import sys

import numpy as np

import sparsetoken as st


def study(repeats=6):
    simulated = st.grid(
        length=5,
        sparsity=1,
        strength=[2.0, 4.0],
        classifier=[st.Attention(), st.Pooled()],
        ridge=0.01,
        kind="simulation",
        dim=60,
        repeats=repeats,
    )
    theory = st.grid(
        length=5,
        sparsity=1,
        strength=[2.0, 4.0],
        classifier=[st.Pooled(), st.Vectorized()],
        readout_samples=[1.0, 4.0, float("inf")],
    )
    return simulated + theory


def same(left, right):
    """Equal but for how long it took; numbers to what processes with other threads share."""
    left, right = (table.drop(columns="seconds") for table in (left, right))
    assert list(left.columns) == list(right.columns)
    for name in left.columns:
        a, b = left[name], right[name]
        if a.dtype == float:
            np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=name)
        else:
            assert ((a == b) | (a.isna() & b.isna())).all(), name


def main(store, where, repeats):
    cells = study(int(repeats))
    if where == "mpi":
        with st.mpi_executor() as executor:
            if executor is not None:
                st.sweep(cells, store, executor)
    elif ":" in where:
        with st.dask_executor(where) as executor:
            st.sweep(cells, store, executor)
    else:
        st.sweep(cells, store, int(where) or None)


if __name__ == "__main__":
    main(*sys.argv[1:])

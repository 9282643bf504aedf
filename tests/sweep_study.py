"""A small study, for the tests of sweeps: imported by them, and run by them as a program."""

from __future__ import annotations

import sys

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


if __name__ == "__main__":
    st.sweep(study(), store=sys.argv[1], executor=int(sys.argv[2]) or None)

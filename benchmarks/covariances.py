"""What covariances cost: a learning curve with spectra and matrices beside that with white noise.

    python benchmarks/covariances.py [--dim 500] [--repeats 5]

The same ten points, the same loss and classifier; laws are made and compressed beforehand. Times
are processor seconds of one thread, the least of the repeats.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import sparsetoken as st
from sparsetoken.support.blas import one_blas_thread

SAMPLES = np.geomspace(0.3, 30, 10)
FROZEN = st.Attention(cosine=0.8, sharpness=1.0)


def least_seconds(law, loss, repeats):
    law.refined  # noqa: B018 (made beforehand)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        fits = st.solve_many(law, loss, 0.01, SAMPLES)
        times.append(time.process_time() - start)
    assert max(fit.residual for fit in fits) < 1e-9
    return min(times), sum(fit.iterations for fit in fits)


def random_covariance(rng, dim):
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    values = np.exp(rng.normal(0, 1, dim))
    return turn * (values / values.mean()) @ turn.T


def noises_of(dim):
    """Fields of a task by name; matrices in `dim` dimensions."""
    rng = np.random.default_rng(0)
    matrices = [random_covariance(rng, dim) for _ in range(2)]
    several = tuple(np.exp(rng.normal(size=100)).tolist())
    law = st.Spectrum.power_law
    return {
        "white": {},
        "1 atom": {"noise": st.Spectrum((1.0001,))},
        "100 atoms": {"noise": law(1.0, 100)},
        "1000 atoms": {"noise": law(1.0, 1000)},
        "100 atoms, a spread": {"noise": law(1.0, 100), "signal_spread": several},
        f"matrices, d = {dim}": {"noise": st.Covariances(*matrices, rng.standard_normal(dim))},
    }


def law_of(fields):
    return FROZEN.law(st.Task(6, 2, 3.0, 0.4, **fields))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for loss in (st.Square(), st.Logistic()):
        usual = None
        for name, fields in noises_of(options.dim).items():
            repeats = options.repeats if name.startswith(("white", "1")) else 1
            seconds, evaluations = least_seconds(law_of(fields), loss, repeats)
            usual = usual or seconds
            cost = f"{seconds:8.3f} s {seconds / usual:7.2f} x {evaluations:5d} evaluations"
            print(f"{loss!r:12} {name:20} {cost}")


if __name__ == "__main__":
    with one_blas_thread():
        main()

"""A signal planted in noise: what the theory predicts beside what the estimator reaches.

    python examples/planted_signal.py
    python examples/planted_signal.py --length 20 --strength 4 --coloured

Half of the bags teach the query, half the readout, as in the theory. With --coloured the noise is
correlated, and the estimator whitens it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import sparsetoken as st


def predicted(task: st.Task, bags: int, dim: int, sharpness: float, ridge: float) -> float:
    """Test error of the four-stage protocol with these settings, in the limit."""
    half = bags / 2 / dim
    protocol = st.Protocol(half, half, ridge=ridge, readout_step=1e-3, query_step=1.0)
    step = sharpness / st.align(task, protocol).sharpness
    return st.predict(task, st.Attention(), replace(protocol, query_step=step)).test_error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=10, help="tokens in a bag")
    parser.add_argument("--strength", type=float, default=5.0, help="of the signal")
    parser.add_argument("--dim", type=int, default=80, help="of an embedding")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--coloured", action="store_true", help="correlated noise")
    given = parser.parse_args()
    task, dim = st.Task(given.length, 1, given.strength), given.dim
    sharpness, ridge = 1.5, 0.05
    print(f"{'bags':>6} {'theory':>8} {'estimator':>10}   (mean ± standard error)")
    for bags in (2 * dim, 4 * dim, 8 * dim, 16 * dim):
        errors = []
        for seed in range(given.repeats):
            rng = np.random.default_rng(seed)
            train = task.sample(bags, dim, rng)
            test = task.sample(4000, dim, rng, signal=train.signal)
            mixing = np.eye(dim)
            if given.coloured:
                noise = rng.standard_normal((dim, dim)) / np.sqrt(dim)
                mixing = noise @ noise.T + 0.3 * np.eye(dim)
            classifier = st.AttentionClassifier(
                reuse="split", sharpness=sharpness, ridge=ridge, whiten=given.coloured,
                calibrate=False,
            ).fit(train.tokens @ mixing, train.labels)  # fmt: skip
            errors.append(1 - classifier.score(test.tokens @ mixing, test.labels))
        spread = np.std(errors, ddof=1) / np.sqrt(len(errors))
        theory = predicted(task, bags, dim, sharpness, ridge)
        print(f"{bags:>6} {theory:>8.4f} {np.mean(errors):>10.4f} ± {spread:.4f}")


if __name__ == "__main__":
    main()

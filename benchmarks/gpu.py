"""What the GPU gives: the same simulate call, timed against the card's own matrix product.

    python benchmarks/gpu.py --out benchmarks/results/gpu.json

Times, then checks: the fit against NumPy on the same numbers, the law of repeats against the CPU
(Kolmogorov–Smirnov). Operations are counted as in a plain implementation: 2np² for a Gram matrix
or a Hessian and p³/3 for a Cholesky factor, whatever part of them was skipped.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from array_api_compat import array_namespace
from scipy.stats import ks_2samp

import sparsetoken as st
from sparsetoken.fitting import algebra
from sparsetoken.fitting.fit import fit
from sparsetoken.simulation import reduced
from sparsetoken.simulation.devices import Device

TASK = st.Task(length=10, sparsity=1, strength=5.0)
SPACE = array_namespace(torch.empty(0))
QUANTITIES = ("test_error", "train_loss", "cosine", "norm", "bias", "readout_norm")


def seconds(job: Callable[[], Any], repeats: int = 5, warm: int = 1) -> float:
    """Median wall time, the device's work included."""
    times = []
    for index in range(warm + repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        job()
        torch.cuda.synchronize()
        if index >= warm:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def ceilings(n: int, p: int) -> dict[str, float]:
    """The card's float64 matrix product, square and in the shape of the Gram matrix; its copy."""
    square = torch.randn(8192, 8192, dtype=torch.float64, device="cuda")
    tall = torch.randn(n, p, dtype=torch.float64, device="cuda")
    product = 2 * 8192**3 / seconds(lambda: square @ square)
    gram = 2 * n * p**2 / seconds(lambda: tall.T @ tall, 3)
    copy = 2 * tall.nbytes / seconds(lambda: tall.clone())
    draw = tall.numel() / seconds(lambda: torch.randn(n, p, dtype=torch.float64, device="cuda"))
    return {
        "matrix product 8192³ (TFLOP/s)": product / 1e12,
        "plain Gram product of the size below (TFLOP/s)": gram / 1e12,
        "copy (TB/s)": copy / 1e12,
        "float64 normals (10⁹/s)": draw / 1e9,
    }


def same_fit() -> dict[str, float]:
    """Largest relative difference of coefficients, GPU against NumPy, on the same features."""
    rng = np.random.default_rng(0)
    worst = {}
    for loss in (st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber()):
        gaps = []
        for n, p in ((3000, 700), (600, 1500)):
            labels = np.sign(rng.standard_normal(n))
            features = rng.standard_normal((n, p)) + 0.1 * labels[:, None]
            here = fit(features, labels, loss, 1e-3)
            there = fit(torch.as_tensor(features, device="cuda"), labels, loss, 1e-3)
            gap = np.abs(there.weights.cpu().numpy() - here.weights).max()
            gaps.append(gap / np.abs(here.weights).max())
        worst[repr(loss)] = max(gaps)
    return worst


def same_law(repeats: int) -> dict[str, float]:
    """Smallest Kolmogorov–Smirnov p-value over quantities, CPU repeats against GPU repeats."""
    result = {}
    for loss in (st.Square(), st.Logistic()):
        for classifier in (st.Attention(), st.Pooled(), st.Vectorized()):
            protocol = st.Protocol(loss=loss, ridge=1e-3)
            there = st.simulate(TASK, classifier, protocol, 100, repeats, seed=1, device="cuda")
            here = st.simulate(TASK, classifier, protocol, 100, repeats, seed=2)
            pairs = [(getattr(here, q), getattr(there, q)) for q in QUANTITIES]
            values = [ks_2samp(a, b).pvalue for a, b in pairs if np.isfinite(a).all()]
            result[f"{classifier!r} {loss!r}"] = float(min(values))
    return result


def timings(n: int, p: int, ceiling: float) -> list[dict[str, Any]]:
    """Sampling and fit, by loss and method, and the whole simulate call."""
    device = Device("cuda")
    rows = []
    methods = [(loss, way) for loss in (st.Square(), st.Logistic()) for way in (None, True)]
    for loss, factorise in methods:
        found: list[Any] = []

        def job(loss: Any = loss, factorise: Any = factorise, found: Any = found) -> None:
            source = device.source(np.random.SeedSequence(0))
            labels = TASK.sample_labels(n, source.rng)
            coordinates = st.Attention(0.95, 1.0).draw(TASK, labels, source.rng)
            features = reduced.draw_features(coordinates, p, source)
            found.append(fit(features, labels, loss, 1e-5, factorise=factorise))

        took = seconds(job, 3)
        fitted = found[-1]
        protocol = st.Protocol(readout_samples=n / p, loss=loss, ridge=1e-5)
        row: dict[str, Any] = {
            "loss": repr(loss),
            "by": "Cholesky" if factorise else "conjugate gradients (the default)",
            "sampling and fit (s)": took,
            "steps": fitted.steps,
            "products": fitted.products,
            "certificate": fitted.certificate,
        }
        # panels of the lower triangle alone are executed
        panels = sum((p - k) * min(algebra._PANEL, p - k) for k in range(0, p, algebra._PANEL))
        if factorise:
            plain = fitted.steps * (2 * n * p**2 + p**3 / 3) / took / 1e12
            executed = fitted.steps * (2 * n * panels + p**3 / 3) / took / 1e12
            row["rate (TFLOP/s)"] = plain
            row["share of the matrix product"] = plain / ceiling
            row["executed rate (TFLOP/s)"] = executed
            row["executed share of the matrix product"] = executed / ceiling
        else:
            run = st.simulate(TASK, st.Attention(), protocol, p, 3, device="cuda")
            row["whole simulate call (s a repeat)"] = float(np.median(run.seconds[1:]))
            row["test error"] = run.mean("test_error")
            row["theory"] = st.predict(TASK, st.Attention(), protocol).test_error
        rows.append(row)
        torch.cuda.empty_cache()
    return rows


def breakdown(n: int, p: int) -> dict[str, float]:
    """Where the time of the square loss goes, piece by piece."""
    device = Device("cuda")
    source = device.source(np.random.SeedSequence(0))
    labels = TASK.sample_labels(n, source.rng)
    classifier = st.Attention(0.95, 1.0)
    coordinates = classifier.draw(TASK, labels, source.rng)
    features = reduced.draw_features(coordinates, p, source)
    gram = algebra.outer_gram(SPACE, features)
    algebra.add_to_diagonal(gram, 1.0)
    low = features.float()
    return {
        "coordinates, on the CPU (s)": seconds(lambda: classifier.draw(TASK, labels, source.rng)),
        "normals and scaling (s)": seconds(lambda: reduced.draw_features(coordinates, p, source)),
        "half of the Gram matrix (s)": seconds(lambda: algebra.outer_gram(SPACE, features)),
        "Cholesky factor (s)": seconds(lambda: algebra.cholesky(SPACE, gram)),
        "a product with F and one with its transpose, float32 (s)": seconds(
            lambda: low.T @ (low @ low[0])
        ),
    }


def message_passing(dim: int, rounds: int = 4) -> dict[str, Any]:
    """Token by token, at one sample per dimension, beside the equation it follows."""
    learner, protocol = st.MessagePassing(rounds), st.Protocol(readout_samples=1.0)
    runs = {
        device: st.simulate(
            TASK, learner, protocol, dim, 4, 0, "tokens", device, test_samples=10_000
        )
        for device in ("cuda", None)
    }
    run = runs["cuda"]
    theory = st.message_passing_rounds(TASK, 1.0, rounds)
    return {
        "dim": dim,
        "rounds": rounds,
        "cosine after each round": run.cosines.mean(axis=0).tolist(),
        "its standard error": (run.cosines.std(axis=0, ddof=1) / 2).tolist(),
        "theory": [float(one.cosine) for one in theory],
        "test error": run.mean("test_error"),
        "its theory": float(theory[-1].test_error),
        "a repeat (s)": float(np.median(run.seconds[1:])),
        "a repeat by NumPy (s)": float(np.median(runs[None].seconds[1:])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dim", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=60, help="of the comparison of laws")
    given = parser.parse_args()
    measured = ceilings(given.samples, given.dim)
    rows = timings(given.samples, given.dim, measured["matrix product 8192³ (TFLOP/s)"])
    report = {
        "command": f"python benchmarks/gpu.py --dim {given.dim} --samples {given.samples} "
        f"--repeats {given.repeats}",
        "machine": f"{torch.cuda.get_device_name()}, torch {torch.__version__}, "
        f"Python {platform.python_version()}",
        "ceilings": measured,
        "timings": rows,
        "pieces of the square loss": breakdown(given.samples, given.dim),
        "message passing": message_passing(min(given.dim, 5000)),
        "largest relative difference of coefficients, GPU and NumPy": same_fit(),
        "smallest Kolmogorov–Smirnov p-value, GPU and CPU repeats": same_law(given.repeats),
    }
    text = json.dumps(report, indent=1, ensure_ascii=False)
    print(text)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()

"""How fast is the simulation? One run, side by side with the obvious way (`make bench`).

The obvious way draws tokens, computes features with NumPy, fits with scikit-learn and draws a test
set of 10,000. The floor is what the method itself cannot avoid: its random numbers and its matrix
products, timed alone in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

import sparsetoken as st
from sparsetoken.fitting.fit import fit
from sparsetoken.fitting.objective import Objective
from sparsetoken.model.queries import draw_query
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.reduced import draw_features

THREADS = os.cpu_count() or 1
DIM, QUERY, READOUT, RIDGE, TESTS = 1000, 2.0, 4.0, 1e-5, 10_000


def seconds(job: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall time of a job."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def fastest(job: Callable[[], Any], repeats: int) -> float:
    """Smallest wall time of a job: what is left when nothing else disturbs it."""
    return min(seconds(job, 1) for _ in range(repeats))


def peak_bytes(job: Callable[[], Any]) -> float:
    """Most memory allocated at once while a job runs."""
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


# --- the obvious way ------------------------------------------------------------------------------


def draw(task: st.Task, n: int, dim: int, rng: np.random.Generator) -> tuple[Any, Any]:
    labels = np.where(rng.random(n) < task.prevalence, 1.0, -1.0)
    tokens = rng.standard_normal((n, task.length, dim))
    for i in np.flatnonzero(labels > 0):
        tokens[i, rng.choice(task.length, task.sparsity, replace=False), 0] += task.strength
    return labels, tokens


def attend(tokens: Any, query: Any) -> Any:
    scores = tokens @ query
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("nl,nld->nd", weights, tokens)


def obvious(task: st.Task, loss: Any, seed: int = 0) -> float:
    """The four stages as one would write them down; returns the test error."""
    rng = np.random.default_rng(seed)
    n0, n1 = int(QUERY * DIM), int(READOUT * DIM)
    logistic = isinstance(loss, st.Logistic)
    labels, tokens = draw(task, n0, DIM, rng)
    mean = tokens.mean(axis=1)
    c = -labels / 2 if logistic else -labels
    w, b = -c @ mean / n0, -c.mean()
    u = mean @ w + b
    h = -labels / (1 + np.exp(labels * u)) if logistic else u - labels
    projected = (tokens - mean[:, None]) @ w
    pull = (h[:, None] * projected).ravel() @ (tokens - mean[:, None]).reshape(-1, DIM)
    query = -10.0 / (n0 * task.length) * pull
    labels, tokens = draw(task, n1, DIM, rng)
    features = attend(tokens, query)
    del tokens
    if logistic:
        model = LogisticRegression(C=1 / (n1 * RIDGE), max_iter=10_000)
    else:
        model = Ridge(alpha=n1 * RIDGE)
    model.fit(features, labels)
    weights, bias = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    labels, tokens = draw(task, TESTS, DIM, rng)
    return float(np.mean(labels * (attend(tokens, query) @ weights + bias) < 0))


# --- ours -----------------------------------------------------------------------------------------


def protocol(loss: Any) -> st.Protocol:
    return st.Protocol(QUERY, READOUT, loss=loss, ridge=RIDGE)


def ours(task: st.Task, loss: Any, seed: int, repeats: int = 1) -> st.Simulation:
    return st.simulate(task, st.Attention(), protocol(loss), DIM, repeats, seed, threads=THREADS)


def floor(task: st.Task, loss: Any) -> float:
    """The method's random numbers and matrix products, alone."""
    n0, n1 = int(QUERY * DIM), int(READOUT * DIM)
    source = Device().source(np.random.SeedSequence(0))
    query = draw_query(task, protocol(loss), DIM, n0, source.rng)
    labels = task.sample_labels(n1, source.rng)
    coordinates = st.Attention().draw(task, labels, source.rng, query)
    features = draw_features(coordinates, DIM, source)
    fitted = fit(features, labels, loss, RIDGE)
    low, rng = features.astype(np.float32), source.rng
    narrow, thin = low[0].copy(), low[:, 0].copy()
    wide, tall = features[0].copy(), features[:, 0].copy()
    draws = seconds(
        lambda: (rng.standard_normal((n1, DIM)), rng.standard_normal((n1, task.length)))
    )
    inner = seconds(lambda: (low @ narrow, low.T @ thin))
    outer = seconds(lambda: (features @ wide, features.T @ tall))
    return draws + fitted.products * inner + (fitted.steps + 1) * outer


def simulations(quick: bool) -> list[dict[str, Any]]:
    rows = []
    targets = {"Logistic()": {10: 10, 100: 80}, "Square()": {10: 15, 100: 150}}
    for length in (10,) if quick else (10, 100):
        for loss in (st.Logistic(), st.Square()):
            task = st.Task(length=length, sparsity=1, strength=5.0)
            first = seconds(lambda t=task, s=loss: ours(t, s, 99), 1)  # type: ignore[misc]
            times = [float(ours(task, loss, seed).seconds[0]) for seed in range(7)]
            took = statistics.median(times)
            start = time.perf_counter()
            error = obvious(task, loss)
            plain = time.perf_counter() - start
            memory = peak_bytes(lambda t=task, s=loss: ours(t, s, 1))  # type: ignore[misc]
            plain_memory = peak_bytes(lambda t=task, s=loss: obvious(t, s))  # type: ignore[misc]
            lowest = floor(task, loss)
            rows.append(
                {
                    "length": length,
                    "loss": repr(loss),
                    "obvious (s)": plain,
                    "ours (s)": took,
                    "ours, first repeat (s)": first,
                    "times faster": plain / took,
                    "target": targets[repr(loss)][length],
                    "floor (s)": lowest,
                    "ours / floor (target 2)": took / lowest,
                    "obvious (MB)": plain_memory / 1e6,
                    "ours (MB)": memory / 1e6,
                    "memory share (target 0.1)": memory / plain_memory,
                    "obvious test error": error,
                    "our test error": ours(task, loss, 0, 8).mean("test_error"),
                }
            )
            show(rows[-1])
    return rows


# --- the fit against scikit-learn -----------------------------------------------------------------


def features_of(kind: str, n: int, p: int) -> tuple[Any, Any]:
    task = st.Task(length=10, sparsity=1, strength=5.0)
    source = Device().source(np.random.SeedSequence(3))
    labels = task.sample_labels(n, source.rng)
    classifier = st.Attention(0.95, 2.0) if kind == "attention" else st.Pooled()
    coordinates = classifier.draw(task, labels, source.rng)
    noise = source.rng.standard_normal((n, p)) * coordinates.scales[:, None]
    explicit = len(coordinates.noisy)
    noise[:, :explicit] = noise[:, :explicit] * coordinates.noisy + coordinates.means
    return noise, labels


def scikit_learn(n: int, ridge: float, loss: Any) -> dict[str, Any]:
    """Its solvers at a loose and a tight tolerance."""
    models = {}
    for tolerance in (1e-4, 1e-8):
        if isinstance(loss, st.Logistic):
            for solver in ("lbfgs", "newton-cg", "newton-cholesky"):
                models[solver, tolerance] = LogisticRegression(
                    C=1 / (n * ridge), solver=solver, tol=tolerance, max_iter=10_000
                )
        else:
            for solver in ("cholesky", "lsqr", "sparse_cg", "svd"):
                models[solver, tolerance] = Ridge(
                    alpha=n * ridge, solver=solver, tol=tolerance, max_iter=10_000
                )
    return models


def fits(quick: bool) -> list[dict[str, Any]]:
    """At each gradient norm scikit-learn reaches: its fastest solver there, and ours."""
    rows = []
    sizes = [(4000, 1000)] if quick else [(4000, 1000), (1000, 4000), (20000, 500)]
    for n, p in sizes:
        for kind in ("attention", "pooled"):
            features, labels = features_of(kind, n, p)
            for ridge in (1e-5, 1e-2):
                for loss in (st.Logistic(), st.Square()):
                    rows += compare(features, labels, loss, ridge, kind)
    return rows


def compare(features: Any, labels: Any, loss: Any, ridge: float, kind: str) -> list[dict[str, Any]]:
    objective = Objective.of(features, labels, loss, ridge, None)
    n, p = features.shape
    found = {}
    for name, model in scikit_learn(n, ridge, loss).items():
        if "newton-cholesky" in name and p > 2000:
            continue  # minutes
        took = fastest(lambda m=model: m.fit(features, labels), 3)  # type: ignore[misc]
        weights, bias = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        gradient = objective.gradient(weights, features @ weights + bias)
        found[name] = (took, gradient)
    rows = []
    for tolerance in (1e-4, 1e-8):
        reference = {s: g for (s, t), g in found.items() if t == tolerance}
        solver = min(reference, key=lambda s: reference[s][0])
        took, gradient = reference[solver]
        goal = {"tolerance": 1e-8, "gradient_norm": gradient.norm}
        reached = fit(features, labels, loss, ridge, **goal)
        mine = fastest(lambda g=goal: fit(features, labels, loss, ridge, **g), 7)  # type: ignore[misc]
        rows.append(
            {
                "n": n,
                "p": p,
                "features": kind,
                "ridge": ridge,
                "loss": repr(loss),
                "fastest of scikit-learn": f"{solver}, tol={tolerance:g}",
                "its gradient": gradient.norm,
                "our gradient": reached.gradient_norm,
                "its time (s)": took,
                "our time (s)": mine,
                "times faster": took / mine,
            }
        )
        show(rows[-1])
    return rows


# --- further tables: each figure of the documentation has its command -----------------------------


def floors(_: bool) -> list[dict[str, Any]]:
    """Our time over the floor alone, three times each."""
    rows = []
    for length in (10, 100):
        for loss in (st.Logistic(), st.Square()):
            task = st.Task(length=length, sparsity=1, strength=5.0)
            ours(task, loss, 99)  # builds the law's cloud once
            for _ in range(3):
                times = [float(ours(task, loss, seed).seconds[0]) for seed in range(7)]
                took, lowest = statistics.median(times), floor(task, loss)
                rows.append({"length": length, "loss": repr(loss), "ours / floor": took / lowest})
                show(rows[-1])
    return rows


def sizes(_: bool) -> list[dict[str, Any]]:
    """Sizes nobody else reaches; resident memory is the process's highest so far."""
    rows = []
    cases = [
        (st.Vectorized(), st.Task(1000, 3, 20.0), 10**6, 0.002, loss)
        for loss in (st.Square(), st.Logistic(), st.SquaredHinge())
    ]
    cases.append((st.Attention(), st.Task(1000, 1, 8.0), 20_000, 0.25, st.Logistic()))
    for classifier, task, dim, samples, loss in cases:
        given = st.Protocol(2.0, samples, loss=loss, ridge=1e-3)
        run = st.simulate(task, classifier, given, dim, 1, threads=THREADS)
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        row = {"classifier": repr(classifier), "dim": dim, "loss": repr(loss)}
        rows.append({**row, "seconds": float(run.seconds[0]), "resident (GiB)": resident})
        show(rows[-1])
    return rows


def float32(_: bool) -> list[dict[str, Any]]:
    """How far float32 moves the readout, against float64 on the same features."""
    rows = []
    for kind, n, p in (("attention", 2000, 500), ("attention", 500, 2000), ("attention", 500, 500),
                       ("pooled", 2000, 500)):  # fmt: skip
        features, labels = features_of(kind, n, p)
        for ridge in (1e-5, 1e-4, 1e-3, 1e-2):
            for loss in (st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber()):
                exact = fit(features, labels, loss, ridge).weights
                rough = fit(features.astype(np.float32), labels, loss, ridge).weights
                moved = float(np.linalg.norm(rough - exact) / np.linalg.norm(exact))
                case = {"features": kind, "n": n, "p": p, "ridge": ridge, "loss": repr(loss)}
                rows.append({**case, "readout moved by": moved})
                show(rows[-1])
    return rows


TABLES = {
    "simulation": simulations,
    "floor": floors,
    "fit": fits,
    "sizes": sizes,
    "float32": float32,
}


def show(row: dict[str, Any]) -> None:
    words = (f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print(" | ".join(words), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first size and length only")
    parser.add_argument("--only", choices=list(TABLES), help="one of the tables")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers to a file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn says where it stops short
    chosen = [given.only] if given.only else list(TABLES)
    report = {name: TABLES[name](given.quick) for name in chosen}
    if "fit" in report:
        slowest = min(row["times faster"] for row in report["fit"])
        print(f"fit against the fastest solver, at its gradient norm: at worst {slowest:.2f} times")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()

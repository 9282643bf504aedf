"""How fast is the theory? One run, side by side with the textbook way (`make bench`).

The textbook way is a damped fixed point on the self-consistent equations, each average a
`scipy.integrate.quad`, each proximal point a `scipy.optimize.minimize_scalar`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import sparsetoken as st
from sparsetoken.model import attention, clouds

# Test errors of the two-Gaussian mixture with ridge 0.1/α (tests/reference/mixture.json).
KNOWN = {0.5: 0.293568526, 1: 0.259397705, 2: 0.232206069, 5: 0.201099776, 10: 0.182861123}
SAMPLES = np.array(sorted([*KNOWN, *np.logspace(np.log10(0.6), np.log10(9), 15)]))
RIDGES = 0.1 / SAMPLES


def textbook(alpha: float, ridge: float, tolerance: float = 1e-7) -> float:
    """Test error of logistic regression on the mixture N(±1, 1), the plain way."""

    def prox(x: float, v: float) -> float:
        def objective(u: float) -> float:
            return float(np.log1p(np.exp(-u)) + (u - x) ** 2 / (2 * v))

        return float(minimize_scalar(objective, bracket=(x, x + v), options={"xtol": 1e-10}).x)

    def average(f: Callable[[float, float], float], w: float, r: float, v: float) -> float:
        def integrand(g: float) -> float:
            x = w + r * g
            psi = (x - prox(x, v)) / v
            return f(psi, g) * np.exp(-0.5 * g * g) / np.sqrt(2 * np.pi)

        return float(quad(integrand, -8, 8, epsabs=1e-9, epsrel=1e-9, limit=200)[0])

    w, rho, chi = 0.1, 1.0, 1.0
    for _ in range(1000):
        r = np.hypot(rho, w)
        first = average(lambda psi, g: psi, w, r, chi)
        second = average(lambda psi, g: psi * psi, w, r, chi)
        kappa = average(lambda psi, g: psi * g, w, r, chi) / r
        new = (
            -first / (ridge + kappa),
            np.sqrt(second / alpha) / (ridge + kappa),
            1 / (alpha * (ridge + kappa)),
        )
        change = max(abs(a - b) for a, b in zip(new, (w, rho, chi), strict=True))
        w, rho, chi = (0.5 * a + 0.5 * b for a, b in zip(new, (w, rho, chi), strict=True))
        if change < tolerance:
            break
    from scipy.special import ndtr

    return float(ndtr(-w / np.hypot(rho, w)))


def seconds(job: Callable[[], Any], repeats: int) -> float:
    """Median wall time of a job."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_seconds(module: str) -> float:
    """Median wall time of `import module` in a fresh interpreter."""
    code = f"import time; s = time.perf_counter(); import {module}; print(time.perf_counter() - s)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            for _ in range(7)]  # fmt: skip
    return statistics.median(float(run.stdout) for run in runs)


def error_against_known(errors: dict[float, float]) -> float:
    return max(abs(errors[alpha] - known) for alpha, known in KNOWN.items())


def against_the_floor(law: st.FeatureLaw, loss: st.Logistic) -> float:
    """How far from the floor: the three exponentials a node that an average over G needs."""
    samples = np.logspace(-0.5, 1.5, 20)
    fits = st.solve_many(law, loss, 1e-3, samples)
    small = law.refined
    mean = np.array([small.labels * (small.means @ fit.weights + fit.bias) for fit in fits])
    deviation = np.array([small.scales * fit.noise for fit in fits])
    variance = np.array([small.scales**2 * fit.susceptibility for fit in fits])
    nodes = loss._nodes(mean, deviation, variance)[0].clip(-50, 50)
    exponentials = seconds(lambda: [np.exp(nodes) for _ in range(3)], 5)
    averages = seconds(lambda: loss.moments(mean, deviation, variance), 5)
    return averages / exponentials


def measure(quick: bool) -> dict[str, float]:
    task = st.Task(length=1, sparsity=1, strength=2.0)
    mixture, loss = st.Pooled().law(task), st.Logistic()

    def curve() -> list[st.Fit]:
        return st.solve_many(mixture, loss, RIDGES, SAMPLES)

    ours = {float(a): fit.test_error for a, fit in zip(SAMPLES, curve(), strict=True)}
    ours_seconds = seconds(curve, 20)
    chosen = SAMPLES[::10] if quick else SAMPLES
    start = time.perf_counter()
    plain = {float(a): textbook(a, 0.1 / a) for a in chosen}
    plain_seconds = (time.perf_counter() - start) * len(SAMPLES) / len(chosen)

    sparse = st.Task(length=10, sparsity=1, strength=5.0)
    query = st.Attention(cosine=0.95, sharpness=1.0)
    query.law(st.Task(length=2, sparsity=1, strength=1.0))  # imports scipy.stats once

    def build() -> tuple[st.FeatureLaw, st.FeatureLaw]:
        attention.cached_attention_law.cache_clear()
        clouds._kept_blocks.cache_clear()
        law = query.law(sparse)
        return law.compressed, law.refined

    law_seconds = seconds(build, 5)
    law = query.law(sparse)
    pooled = st.Pooled().law(sparse)
    points = [(1e-5, 0.5), (1e-5, 4.0), (1e-2, 2.0), (1e-3, 30.0)]
    ratios, attention_times, mixture_times = [], [], []
    for ridge, alpha in points:
        slow = seconds(lambda r=ridge, a=alpha: st.solve(law, loss, r, a), 15)  # type: ignore[misc]
        fast = seconds(lambda r=ridge, a=alpha: st.solve(pooled, loss, r, a), 15)  # type: ignore[misc]
        ratios.append(slow / fast)
        attention_times.append(slow)
        mixture_times.append(fast)
    floor = against_the_floor(law, loss)
    result = {
        "textbook curve, 20 points (s)": plain_seconds,
        "our curve, 20 points (s)": ours_seconds,
        "speed-up": plain_seconds / ours_seconds,
        "our largest error at the 5 known points": error_against_known(ours),
        "law at L = 10, built and compressed (s)": law_seconds,
        "mixture point, one solve (ms)": 1e3 * statistics.mean(mixture_times),
        "attention point, one solve (ms)": 1e3 * statistics.mean(attention_times),
        "attention / mixture, worst of 4 points": max(ratios),
        "Gaussian averages / their exponentials": floor,
        "import numpy (ms)": 1e3 * import_seconds("numpy"),
        "import sparsetoken (ms)": 1e3 * import_seconds("sparsetoken"),
        "import of all the theory (ms)": 1e3 * import_seconds("sparsetoken.theory.prediction"),
    }
    if not quick:
        result["textbook's largest error at the 5 known points"] = error_against_known(plain)
    result["import ratio"] = result["import sparsetoken (ms)"] / result["import numpy (ms)"]
    return result


TARGETS = {
    "speed-up": (">=", 500),
    "law at L = 10, built and compressed (s)": ("<=", 1.0),
    "attention / mixture, worst of 4 points": ("<=", 10),
    "import ratio": ("<=", 3.0),
}


WHO = ("our", "textbook's")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quick", action="store_true", help="two textbook points, extrapolated")
    options = parser.parse_args()
    result = measure(options.quick)
    met = {
        name: result[name] >= bound if sign == ">=" else result[name] <= bound
        for name, (sign, bound) in TARGETS.items()
    }
    if "textbook's largest error at the 5 known points" in result:
        ours, theirs = (result[f"{who} largest error at the 5 known points"] for who in WHO)
        met["equal or better accuracy"] = ours <= theirs
    if options.json:
        print(json.dumps({"measured": result, "met": met}, indent=1))
    else:
        for name, value in result.items():
            sign, bound = TARGETS.get(name, ("", 0))
            target = f"target {sign} {bound:g}: {'met' if met[name] else 'NOT MET'}" if sign else ""
            print(f"{name:50s} {value:12.4g}   {target}")
        if "equal or better accuracy" in met:
            print(
                "equal or better accuracy:", "met" if met["equal or better accuracy"] else "NOT MET"
            )
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

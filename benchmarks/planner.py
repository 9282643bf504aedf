"""How long does a plan take, and how many solves? (`make bench`)

Targets: 3 seconds forward, 10 seconds inverse with the crossover, on two cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sparsetoken as st
import sparsetoken.planning.ridges as ridges

SOLVES: list[int] = []  # of the asymptotic equations, while a plan is tuned
_solve_many = ridges.solve_many


def _counted(*problem: Any) -> list[st.Fit]:
    fits = _solve_many(*problem)
    SOLVES.append(len(fits))
    return fits


ridges.solve_many = _counted

QUESTIONS: dict[str, tuple[st.Task, int, dict[str, Any]]] = {
    "forward, L = 10": (st.Task(10, 1, 5.0), 200, {"samples": 1600}),
    "forward, L = 30, rare, AUC": (
        st.Task(30, 3, 3.5, 0.1),
        200,
        {"samples": 1600, "metric": "auc"},
    ),
    "forward, L = 30, rare, cost": (
        st.Task(30, 3, 3.5, 0.1),
        200,
        {"samples": 1600, "metric": "cost", "cost_false_negative": 10.0},
    ),
    "forward, L = 200": (st.Task(200, 3, 4.0, 0.3), 384, {"samples": 4000}),
    "inverse, L = 10": (st.Task(10, 1, 5.0), 200, {"target_error": 0.04}),
    "inverse, L = 30, rare, sensitivity": (
        st.Task(30, 3, 3.5, 0.1),
        200,
        {"target_sensitivity": 0.8, "specificity": 0.95},
    ),
    "inverse, L = 60": (st.Task(60, 1, 5.0), 768, {"target_error": 0.05}),
    "inverse, L = 200": (st.Task(200, 3, 4.0, 0.3), 384, {"target_auc": 0.98}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    st.plan(st.Task(5, 1, 4.0), 50, samples=100)  # imports, once
    print(f"{'question':<36} {'seconds':>8} {'target':>7} {'solves':>7}  answer")
    for name, (task, dim, question) in QUESTIONS.items():
        times = []
        for _ in range(repeats):
            SOLVES.clear()
            start = time.perf_counter()
            advice = st.plan(task, dim, **question)
            if advice.unknown is not None:
                st.crossover(advice)
            times.append(time.perf_counter() - start)
        best = advice.best
        target = 3 if advice.unknown is None else 10
        answer = "unreachable"
        if best is not None:
            answer = f"{best.classifier}: {best.needed or best.value:.4g}"
        print(f"{name:<36} {statistics.median(times):>8.1f} {target:>7} {sum(SOLVES):>7}  {answer}")


if __name__ == "__main__":
    main()

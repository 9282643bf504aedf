"""Real architectures at d = 500 on a GPU: the claim, its timings, and the GPU against the CPU.

    python benchmarks/architectures.py results/architectures-gpu

runs `sparsetoken reproduce architectures --full` into that folder (csv, json, png, pdf, report),
resumable, then writes timings.json beside it: seconds of every training, the same scores and
gradients on GPU and CPU, and the same test errors up to their spread. Exit code 1 if a check fails.
Without a GPU it says so; `--scale quick` tries the script anywhere.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsetoken as st
from sparsetoken.simulation.architectures.models import ARCHITECTURES
from sparsetoken.simulation.architectures.training import best_device, train_architecture
from sparsetoken.studies.sweep import tidy

TASK = st.Task(length=10, sparsity=1, strength=5.0)


def same_gradients(device: str) -> dict[str, float]:
    """Largest difference of gradients in float64, relative to their size, device against CPU."""
    worst = {}
    for name, architecture in ARCHITECTURES.items():
        found = []
        rng = np.random.default_rng(0)
        tokens = rng.standard_normal((3, 50, 10, 60))
        start = {
            key: each.centre + (each.spread + 0.1) * rng.standard_normal((3, *each.shape))
            for key, each in architecture.shapes(10, 60).items()
        }
        for where in ("cpu", device):
            models = {
                key: torch.tensor(value, device=where, requires_grad=True)
                for key, value in start.items()
            }
            scores = architecture.scores(models, torch.tensor(tokens, device=where))
            loss = torch.nn.functional.softplus(scores).sum()
            found.append([each.cpu() for each in torch.autograd.grad(loss, list(models.values()))])
        gaps = [
            (a - b).abs().max() / a.abs().max().clamp(min=1e-12)
            for a, b in zip(*found, strict=True)
        ]
        worst[name] = float(max(gaps))
    return worst


def same_errors(device: str) -> dict[str, float]:
    """Mean test error, device less CPU, in standard errors (other random numbers, same law)."""
    result = {}
    for name in ("simple attention", "mean and MLP", "flat MLP"):
        here, there = (
            train_architecture(TASK, name, 30, 240, 16, seed, where, 4000).test_error
            for seed, where in ((1, "cpu"), (2, device))
        )
        spread = np.sqrt((here.var(ddof=1) + there.var(ddof=1)) / len(here))
        result[name] = float((there.mean() - here.mean()) / spread)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for everything that is written")
    parser.add_argument("--scale", default="full", choices=("tiny", "quick", "full"))
    given = parser.parse_args()
    device = best_device()
    if device == "cpu" and given.scale == "full":
        print("torch sees no GPU: --scale quick tries the script without one", file=sys.stderr)
        return 2
    start = time.perf_counter()
    (section,) = st.reproduce(
        ["architectures"], given.scale, given.out, started=lambda name, *_: print(f"running {name}")
    )  # in this process: CUDA does not survive a fork
    with st.Store(given.out / "store.sqlite") as store:
        table = tidy(store.rows())
    trained = table[table.kind == "architecture"].sort_values(["classifier", "samples"])
    columns = ["classifier", "dim", "samples", "repeats", "test_error", "standard_error", "epochs"]
    report: dict[str, Any] = {
        "command": f"python benchmarks/architectures.py {given.out} --scale {given.scale}",
        "machine": torch.cuda.get_device_name() if device == "cuda" else platform.processor(),
        "device": device,
        "torch": torch.__version__,
        "verdict": section.verdict,
        "claim (s)": round(time.perf_counter() - start, 1),
        "training (s)": round(float(trained.seconds.sum()), 1),
        "largest relative difference of gradients, device and CPU": same_gradients(device),
        "mean test error, device less CPU, in standard errors": same_errors(device),
        "trainings": trained[[*columns, "seconds"]].round(4).to_dict("records"),
    }
    report["all (s)"] = round(time.perf_counter() - start, 1)
    gradients = report["largest relative difference of gradients, device and CPU"]
    errors = report["mean test error, device less CPU, in standard errors"]
    checks = {
        "the claim does not fail": section.verdict != "fails",
        "gradients agree to 1e-8": max(gradients.values()) < 1e-8,
        "errors agree to 4 standard errors": max(map(abs, errors.values())) < 4,
        "within 8 minutes": report["all (s)"] < 480,
    }
    report["checks"] = checks
    print(trained[[*columns, "seconds"]].round(4).to_string(index=False))
    for check in section.checks:
        print(f"{check.verdict:12} {check.what}: {check.measured}")
    print("\n".join(section.remarks))
    print(json.dumps({key: value for key, value in report.items() if key != "trainings"}, indent=1))
    text = json.dumps(report, indent=1, ensure_ascii=False, default=float)
    (given.out / "timings.json").write_text(text + "\n", encoding="utf-8")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Adds to bayes_learning.json what an own witness finds: plain sums over tokens, many Sobol points.

    python tests/reference/make_bayes_learning.py

It shares no code with the package. For each row the equation m = Γ(m)/(1 + Γ(m)) is solved by
secants next to the given solutions, with F = E⟨v, v̂⟩ and I_v = log C(L, R) + E log P(v | g) from
averages over whole samples; both have standard errors from scrambles.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

PATH = Path(__file__).with_name("bayes_learning.json")
SCRAMBLES = 8
NUMBERS = 1 << 23  # of a cloud and its likelihoods


def noise(length: int, sparsity: int, scramble: int) -> np.ndarray:
    bits = min(18, (NUMBERS // (math.comb(length, sparsity) + length)).bit_length() - 1)
    points = qmc.Sobol(length, rng=np.random.default_rng([7, scramble])).random(1 << bits)
    return ndtri(np.clip(points, 1e-12, 1 - 1e-12))


def told(z: np.ndarray, sparsity: int, strength: float) -> tuple[float, float]:
    """E⟨v, v̂⟩ and log C(L, R) + E log P(v | g), the first R tokens with the signal."""
    scores = strength * z
    scores[:, :sparsity] += strength**2
    subsets = list(itertools.combinations(range(z.shape[1]), sparsity))
    if len(subsets) > 1:
        logs = np.stack([scores[:, list(s)].sum(axis=1) for s in subsets], axis=1)
        logs -= logsumexp(logs, axis=1, keepdims=True)
        common = np.array([len(set(s) & set(range(sparsity))) for s in subsets])
        return float((np.exp(logs) @ common).mean()), math.log(len(subsets)) + float(
            logs[:, 0].mean()
        )
    return float(sparsity), 0.0


def solve(row: dict[str, float], guess: float) -> tuple[float, float, float, float]:
    """m and I, each with its standard error."""
    sparsity, theta = int(row["sparsity"]), row["strength"]
    alpha, prevalence = row["samples"], row["prevalence"]
    found = []
    for scramble in range(SCRAMBLES):
        z = noise(int(row["length"]), sparsity, scramble)

        def excess(m: float, z: np.ndarray = z) -> float:
            overlap = told(z.copy(), sparsity, theta * math.sqrt(m))[0]
            return (1 - m) * alpha * prevalence * theta**2 * overlap - m

        near = guess - 1e-3 * min(guess, 1 - guess)
        m = root_scalar(excess, x0=guess, x1=near, method="secant", xtol=1e-8).root
        overlap, information = told(z.copy(), sparsity, theta * math.sqrt(m))
        value = alpha * prevalence * theta**2 * overlap
        rest = (alpha * prevalence * theta**2 * sparsity - value) * (1 - m) / 2
        found.append((m, math.log1p(value) / 2 + alpha * prevalence * information + rest))
    means, errors = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(SCRAMBLES)
    return float(means[0]), float(errors[0]), float(means[1]), float(errors[1])


if __name__ == "__main__":
    reference = json.loads(PATH.read_text())
    reference["witness"] = (
        "by tests/reference/make_bayes_learning.py, with standard errors over 8 scrambles"
    )
    for row in reference["rows"]:
        for branch in ("below", "above"):
            names = [f"witness_{x}_{branch}" for x in ("m", "m_error", "I", "I_error")]
            row.update(zip(names, solve(row, row[f"m_{branch}"]), strict=True))
        print(row, flush=True)
        PATH.write_text(json.dumps(reference, indent=1) + "\n")

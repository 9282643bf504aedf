"""Adds to bayes_learning.json what an own witness finds: plain sums over tokens, many Sobol points.

    python tests/reference/make_bayes_learning.py
    python tests/reference/make_bayes_learning.py --deviations

The second prints where the given values are further from what is found here than they may be. It
shares no code with the package. For each row the equation m = Γ(m)/(1 + Γ(m)) is solved by
secants next to the given solutions, with F = E⟨v, v̂⟩ and I_v = log C(L, R) + E log P(v | g) from
averages over whole samples; both have standard errors from scrambles. For R = 1 both are known
exactly as well, by integrals over one number: with x_l = e^{ag_l}, Z their sum, φ(t) = E e^{−tx},

    E log Z = ∫ (e^{−t} − φ₁(t) φ₀(t)^{L−1}) dt/t,    E x₁/Z = −∫ φ₁′(t) φ₀(t)^{L−1} dt.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

PATH = Path(__file__).with_name("bayes_learning.json")
SCRAMBLES = 8
ALLOWED = 1e-3  # or three times the spread of the given m
EXACT = 1e-6  # of the integrals
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


def integrals(length: int, strength: float) -> tuple[float, float]:
    """E⟨v, v̂⟩ and log L + E log P(v | g) for one token of many, both to ten digits."""
    z = np.arange(-12.0, 12.0, 0.04)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * 0.04
    reach = strength**2 + 12 * strength + 40
    s = np.arange(-reach, reach, 0.05)  # log t
    noise, signal, slope = np.empty((3, len(s)))
    for part in np.array_split(np.arange(len(s)), 1 + len(s) // 500):
        tx = s[part][:, None] + strength * z
        noise[part] = np.exp(-np.exp(np.minimum(tx, 50.0))) @ density
        tx = np.minimum(tx + strength**2, 50.0)  # of the token with the signal
        signal[part] = np.exp(-np.exp(tx)) @ density
        slope[part] = np.exp(tx - np.exp(tx)) @ density  # −t φ₁′(t)
    others = noise ** (length - 1)
    log_sum = float(np.sum(np.exp(-np.exp(np.minimum(s, 50.0))) - signal * others) * 0.05)
    return float(np.sum(slope * others) * 0.05), math.log(length) + strength**2 - log_sum


def exact(row: dict[str, float], guess: float) -> tuple[float, float]:
    """m and I where one token carries the signal."""
    length, theta = int(row["length"]), row["strength"]
    scale = row["samples"] * row["prevalence"] * theta**2

    def excess(m: float) -> float:
        return (1 - m) * scale * integrals(length, theta * math.sqrt(m))[0] - m

    near = guess - 1e-3 * min(guess, 1 - guess)
    m = root_scalar(excess, x0=guess, x1=near, method="secant", xtol=1e-10).root
    overlap, information = integrals(length, theta * math.sqrt(m))
    rest = scale * (1 - overlap) * (1 - m) / 2
    return m, math.log1p(scale * overlap) / 2 + scale / theta**2 * information + rest


def deviations(rows: list[dict[str, float]]) -> list[tuple[int, str, float, float, float]]:
    """Row, name, what is given, found and its standard error, where they are too far apart."""
    found = []
    for number, row in enumerate(rows):
        for kind, allowed in (("m", max(ALLOWED, 3 * row["spread"])), ("I", ALLOWED)):
            for branch in ("below", "above"):
                name, error = f"{kind}_{branch}", row[f"witness_{kind}_error_{branch}"]
                value = row[f"witness_{name}"]
                if f"exact_{name}" in row:
                    value, error = row[f"exact_{name}"], EXACT
                if abs(row[name] - value) > allowed:
                    found.append((number, name, row[name], value, error))
    return found


def print_deviations(rows: list[dict[str, float]]) -> None:
    print("length  sparsity  strength  prevalence  samples  what     given     found     ±")
    for number, name, given, value, error in deviations(rows):
        row = rows[number]
        print(
            f"{row['length']:>6}  {row['sparsity']:>8}  {row['strength']:>8g}  "
            f"{row['prevalence']:>10g}  {row['samples']:>7g}  {name:<7}  {given:.4f}  "
            f"{value:.4f}  {error:.0e}"
        )


if __name__ == "__main__":
    reference = json.loads(PATH.read_text())
    if sys.argv[1:] == ["--deviations"]:
        print_deviations(reference["rows"])
        sys.exit()
    reference["witness"] = (
        "by tests/reference/make_bayes_learning.py, with standard errors over 8 scrambles"
    )
    for row in reference["rows"]:
        for branch in ("below", "above"):
            names = [f"witness_{x}_{branch}" for x in ("m", "m_error", "I", "I_error")]
            row.update(zip(names, solve(row, row[f"m_{branch}"]), strict=True))
            if row["sparsity"] == 1:
                names = [f"exact_{x}_{branch}" for x in ("m", "I")]
                row.update(zip(names, exact(row, row[f"m_{branch}"]), strict=True))
        print(row, flush=True)
        PATH.write_text(json.dumps(reference, indent=1) + "\n")

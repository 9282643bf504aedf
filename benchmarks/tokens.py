"""How reliable are probabilities of tokens? Drawn from the model, with numbers that vary, digits.

    python benchmarks/tokens.py      # the table of docs/bags.md, within two minutes

For new bags: in each bin of the stated probability, how many tokens do carry the signal; the share
of wrong discoveries at three rates, over all bags; the squared error beside that of Bayes's rule
with everything known, where that is known.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.special import expit

import sparsetoken as st
from sparsetoken.bags.carriers import FixedCount

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from digit_bags import digit_bags

EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.01)
RATES = (0.05, 0.1, 0.2)


def report(name: str, tokens: st.TokenPosterior, bags, carried, exact=None) -> None:
    """One line of the table."""
    chances = np.concatenate(tokens.posterior(bags))
    truth = np.concatenate(list(carried))
    cells = []
    for low, high in pairwise(EDGES):
        rows = (chances >= low) & (chances < high)
        cells.append(f"{chances[rows].mean():.2f} {truth[rows].mean():.2f}" if rows.any() else "")
    for rate in RATES:
        chosen = np.concatenate(tokens.discoveries(bags, rate))
        cells.append(f"{np.mean(~truth[chosen]):.3f}" if chosen.any() else "none")
    error = np.mean((chances - truth) ** 2)
    least = "" if exact is None else f" ({np.mean((np.concatenate(exact) - truth) ** 2):.5f})"
    print(f"| {name} | {' | '.join(cells)} | {error:.5f}{least} |", flush=True)


def drawn(length: int, sparsity, strength: float, prevalence: float, bags: int) -> None:
    """Bags of the model."""
    task = st.Task(length, sparsity, strength, prevalence)
    sample = task.sample(bags, dim=30, rng=1)
    new = task.sample(200_000 // length, dim=30, rng=2, signal=sample.signal)
    tokens = st.TokenPosterior().fit(sample.tokens, sample.labels)
    exact = None
    if isinstance(sparsity, int):
        odds = np.log(prevalence / (1 - prevalence))
        ratios = strength * (new.tokens @ sample.signal) - strength**2 / 2
        law = (FixedCount(sparsity).bag(bag) for bag in ratios)
        exact = [expit(bag.log_ratio + odds) * bag.chances for bag in law]
    words = sparsity if isinstance(sparsity, int) else "2 to 40"
    name = f"{length} tokens, {words} of strength {strength:g}, prevalence {prevalence:g}"
    report(
        f"{name}; {bags} bags", tokens, new.tokens, new.places & (new.labels > 0)[:, None], exact
    )


def digits(length: int, bags: int) -> None:
    """Bags of digits; a nine is the signal."""
    images, labels, _ = digit_bags(bags, length, seed=0)
    test, _, nines = digit_bags(2000, length, seed=0, test=True)
    tokens = st.TokenPosterior().fit(images, labels)
    report(f"digits, {length} in a bag; {bags} bags", tokens, test, nines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    bins = [f"{low:g} to {min(high, 1):g}" for low, high in pairwise(EDGES)]
    print(f"| bags | {' | '.join([*bins, *(f'wrong at {rate:g}' for rate in RATES)])} | error |")
    print("|---" * (len(bins) + len(RATES) + 2) + "|")
    for length, sparsity, strength, prevalence in (
        (10, 1, 4.0, 0.5), (10, 2, 2.5, 0.5), (30, 5, 2.5, 0.2), (50, 3, 3.0, 0.5),
        (200, 1, 6.0, 0.5), (200, 5, 3.5, 0.2),
    ):  # fmt: skip
        drawn(length, sparsity, strength, prevalence, 400)
    drawn(200, st.Discrete((2, 10, 40), (0.4, 0.3, 0.3)), 3.0, 0.5, 400)
    for length, bags in ((10, 300), (10, 1000), (30, 300), (30, 1000)):
        digits(length, bags)


if __name__ == "__main__":
    main()

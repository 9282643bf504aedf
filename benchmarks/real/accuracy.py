"""Accuracy on real bags: this project's classifiers beside plain baselines.

    python benchmarks/real/accuracy.py             # hours; goes on where it was stopped
    python benchmarks/real/accuracy.py --quick     # one seed, the smallest sizes
    python benchmarks/real/accuracy.py --summary   # only the table of what is there

Pools of instances: bags for training and 2000 for the test are drawn from disjoint pools, anew
for each seed. Ready bags: stratified five-fold cross-validation, folds drawn anew for each seed.
Every classifier sees the same bags. A row of `results/accuracy.csv` is one of these tests: mean
accuracy and AUC of the fits (three networks, one of everything else), the standard deviation of
accuracy between them, and the seconds of a fit, selection included; or, where a fit of this project
raises `ConvergenceError`, its sentence. Rows that exist are kept. Seconds are those of the
processor, on one thread, which other programs hardly change; rows of other methods than "attention
mapped" and "mil hidden" may be older, and have those of the clock.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from methods import METHODS, Method
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sources import SOURCES, Instances, NotInstalled, ReadyBags, load
from summary import FOLDS, summary

import sparsetoken as st

RESULTS = Path(__file__).parent / "results" / "accuracy.csv"
KEY = ["source", "size", "seed", "fold", "method"]
COLUMNS = [*KEY, "accuracy", "auc", "spread", "seconds", "failure"]
SIZES = (100, 300, 1000)
TEST_BAGS = 2000  # 0.5 % standard error of an accuracy of 0.95


def tests(source: Instances | ReadyBags, size: int, seed: int) -> Iterator[tuple]:
    """(fold, training bags, labels, test bags, labels)."""
    if isinstance(source, Instances):
        train = source.bags(size, part="train", rng=np.random.default_rng([seed, size, 0]))
        yield 0, *train, *source.bags(TEST_BAGS, part="test", rng=np.random.default_rng([seed, 1]))
        return
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for fold, (train, test) in enumerate(folds.split(source.labels, source.labels)):
        bags = [[source.bags[i] for i in index] for index in (train, test)]
        yield fold, bags[0], source.labels[train], bags[1], source.labels[test]


def measure(method: Method, bags, labels, test_bags, test_labels) -> dict[str, float]:
    """Accuracy, AUC and seconds, means of the fits."""
    accuracies, areas, seconds = [], [], 0.0
    for seed in range(method.fits):
        start = time.process_time()
        classifier = method.make(bags[0].shape[1], seed).fit(bags, labels)
        seconds += time.process_time() - start
        scores = classifier.decision_function(test_bags)
        accuracies.append(np.mean((scores > 0) == (test_labels > 0)))
        areas.append(roc_auc_score(test_labels, scores))
    return {
        "accuracy": round(float(np.mean(accuracies)), 5),
        "auc": round(float(np.mean(areas)), 5),
        "spread": round(float(np.std(accuracies, ddof=1)), 5) if method.fits > 1 else 0.0,
        "seconds": round(seconds / method.fits, 3),
    }


def run(given: argparse.Namespace) -> None:
    """All rows that are not there yet, small ones and cheap ones first."""
    done = set(read()[KEY].itertuples(index=False, name=None))
    sources = {}
    for name in given.sources:
        try:
            sources[name] = load(name)
        except NotInstalled as error:
            print(f"left out: {error}", file=sys.stderr)
    ready = {name: source for name, source in sources.items() if isinstance(source, ReadyBags)}
    pools = {name: source for name, source in sources.items() if isinstance(source, Instances)}
    st.AttentionClassifier(token_map="auto").fit(
        *_few()
    )  # libraries are loaded before a fit counts
    for seed in range(given.seeds):
        cells = [(name, len(source.labels)) for name, source in ready.items()]
        cells += [(name, size) for size in given.sizes for name in pools]
        for name, size in cells:
            for fold, *bags in tests(sources[name], size, seed):
                for method in given.methods:
                    key = (name, size, seed, fold, method)
                    if key in done:
                        continue
                    row = dict(zip(KEY, key, strict=True))
                    try:
                        row |= measure(METHODS[method], *bags)
                    except st.ConvergenceError as error:
                        row |= {"failure": str(error)}
                    append(row)
                    print(*row.values(), flush=True)


def _few() -> tuple[np.ndarray, np.ndarray]:
    """Bags that take no time."""
    labels = np.arange(20) % 2
    return np.random.default_rng(0).standard_normal((20, 3, 2)) + labels[:, None, None], labels


def read() -> pd.DataFrame:
    return pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame(columns=COLUMNS)


def append(row: dict) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, the smallest sizes")
    parser.add_argument("--summary", action="store_true", help="the table of what is there")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--sources", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    given = parser.parse_args()
    if given.quick:
        given.seeds, given.sizes = 1, [min(SIZES)]
    if not given.summary:
        run(given)
    table = summary(read())
    RESULTS.with_suffix(".md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()

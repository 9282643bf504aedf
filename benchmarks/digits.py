"""Digit bags: the estimators beside attention trained end to end, written plainly.

End to end: tokens standardised, softmax attention with a free query and a linear readout, all
parameters by L-BFGS from three random starts (the one with the least training loss is kept), one
ridge for query and readout chosen among four by five-fold cross-validation. Times are seconds of
one core for the whole fit, selection included: what else the machine does does not count.

    python benchmarks/digits.py --seeds 10 --out benchmarks/results/digits.json

The file has a row a classifier: accuracies and seconds of each seed, means with standard errors,
and how much more accurate it is than two-step (`--against`), seed by seed on the same bags. It is
written after every seed; begun again, the same command goes on where it has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from digit_bags import digit_bags

import sparsetoken as st


class EndToEnd:
    """score = ⟨w, Σ softmax(⟨q, x_l⟩) x_l⟩ + b, everything at once."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, tokens, labels):
        self.mean, self.scale = tokens.mean(axis=(0, 1)), tokens.std(axis=(0, 1)) + 1e-6
        x = (tokens - self.mean) / self.scale
        losses = {}
        for ridge in (1e-3, 1e-2, 3e-2, 1e-1):
            losses[ridge] = 0.0
            for train, held in StratifiedKFold(5).split(labels, labels):
                found = self._train(x[train], labels[train], ridge)
                margin = labels[held] * self._scores(x[held], found)
                losses[ridge] += np.logaddexp(0.0, -margin).sum()
        self.found = self._train(x, labels, min(losses, key=losses.get))
        return self

    def _train(self, x, labels, ridge):
        dim = x.shape[2]

        def objective(p):
            q, w, b = p[:dim], p[dim:-1], p[-1]
            logits, level = x @ q, x @ w
            a = np.exp(logits - logits.max(axis=1, keepdims=True))
            a /= a.sum(axis=1, keepdims=True)
            pooled = (a * level).sum(axis=1)
            margin = labels * (pooled + b)
            h = -labels / (1 + np.exp(np.clip(margin, -500, 500))) / len(x)
            g_w = np.einsum("n,nl,nld->d", h, a, x, optimize=True) + ridge * w
            turn = a * (level - pooled[:, None])
            g_q = np.einsum("n,nl,nld->d", h, turn, x, optimize=True) + ridge * q
            value = np.logaddexp(0.0, -margin).mean() + 0.5 * ridge * (w @ w + q @ q)
            return value, np.concatenate([g_q, g_w, [h.sum()]])

        rng = np.random.default_rng(self.seed)
        tries = []
        for _ in range(3):
            start = np.append(0.3 * rng.standard_normal(2 * dim), 0.0)
            tries.append(minimize(objective, start, jac=True, method="L-BFGS-B"))
        return min(tries, key=lambda each: each.fun).x

    def _scores(self, x, p):
        dim = x.shape[2]
        logits = x @ p[:dim]
        a = np.exp(logits - logits.max(axis=1, keepdims=True))
        return ((a / a.sum(axis=1, keepdims=True)) * (x @ p[dim:-1])).sum(axis=1) + p[-1]

    def score(self, tokens, labels):
        x = (tokens - self.mean) / self.scale
        return float(np.mean(np.sign(self._scores(x, self.found)) == labels))


def mean_and_error(values):
    """Mean, and its standard error; None where there is a single value."""
    values = np.asarray(values)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    return float(values.mean()), None if error is None else float(error)


def row_of(length, bags, name, pairs, first):
    """A row of the table, from (accuracy, seconds) of each seed; paired with those of the first."""
    accuracies, seconds = np.array(pairs).T
    row = {"length": length, "bags": bags, "classifier": name}
    row["accuracy"], row["standard_error"] = mean_and_error(accuracies)
    row["median_seconds"] = float(np.median(seconds))
    apart = accuracies - np.array(first[1]).T[0]
    row["compared_with"] = first[0]
    row["more_accurate_by"], row["more_accurate_standard_error"] = mean_and_error(apart)
    return row | {"accuracies": accuracies.tolist(), "seconds": seconds.tolist()}


CLASSIFIERS = {
    "mean pooling": lambda seed: st.PooledClassifier(),
    "two-step": lambda seed: st.AttentionClassifier(),
    "two-step, Ledoit": lambda seed: st.AttentionClassifier(shrinkage=0.0),
    "two-step, cross": lambda seed: st.AttentionClassifier(reuse="cross"),
    "two-step, split": lambda seed: st.AttentionClassifier(reuse="split"),
    "joint": lambda seed: st.AttentionClassifier(query="joint"),
    "posterior": lambda seed: st.AttentionClassifier(query="posterior"),
    "end to end": EndToEnd,
}


def measure(length, bags, seed, names, tests):
    """(accuracy, seconds) by classifier, on the bags of a seed."""
    tokens, labels, _ = digit_bags(bags, length, seed)
    test, truth, _ = digit_bags(tests, length, seed, test=True)
    pairs = {}
    for name in names:
        classifier = CLASSIFIERS[name](seed)
        start = time.process_time()
        classifier.fit(tokens, labels)
        seconds = time.process_time() - start
        pairs[name] = classifier.score(test, truth), seconds
    return pairs


def table_of(measured, against):
    """Rows, size by size, from pairs by (length, bags) and classifier."""
    table = []
    for (length, bags), by_name in measured.items():
        first = against if against in by_name else next(iter(by_name))
        for name, pairs in by_name.items():
            table.append(row_of(length, bags, name, pairs, (first, by_name[first])))
    return table


def measured_before(path, command):
    """Pairs that a run of the same command has left."""
    measured = {}
    if path is not None and path.exists():
        kept = json.loads(path.read_text())
        if kept["command"] != command:
            sys.exit(f"{path} is of another command: {kept['command']}")
        for row in kept["rows"]:
            pairs = list(zip(row["accuracies"], row["seconds"], strict=True))
            measured.setdefault((row["length"], row["bags"]), {})[row["classifier"]] = pairs
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 30])
    parser.add_argument("--bags", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--only", nargs="+", choices=CLASSIFIERS, default=list(CLASSIFIERS))
    parser.add_argument("--against", default="two-step", help="whom all are compared with")
    parser.add_argument("--tests", type=int, default=2000, help="bags to test on")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    given = parser.parse_args()
    command = "python benchmarks/digits.py " + shlex.join(sys.argv[1:])
    measured = measured_before(given.out, command)
    print("length  bags  classifier        accuracy  ±       seconds")
    for length in given.lengths:
        for bags in given.bags:
            own = measured.setdefault((length, bags), {name: [] for name in given.only})
            for seed in range(len(own[given.only[0]]), given.seeds):
                for name, pair in measure(length, bags, seed, given.only, given.tests).items():
                    own[name].append(pair)
                if given.out is not None:
                    text = {"command": command, "rows": table_of(measured, given.against)}
                    given.out.write_text(json.dumps(text, indent=1, allow_nan=False) + "\n")
            for row in table_of({(length, bags): own}, given.against):
                error = np.nan if row["standard_error"] is None else row["standard_error"]
                print(
                    f"{length:>6}  {bags:>4}  {row['classifier']:<16}  {row['accuracy']:.3f}"
                    f"     {error:.3f}   {row['median_seconds']:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Over 200 public results as they are, to the last bit: what a rebuilding must not change.

    python benchmarks/public_results.py --out before.json     (about three minutes)
    python benchmarks/public_results.py --against before.json

The second says which results are bit for bit the same, which moved, and by how much. Only public
names are used, so both sides may be any version of the package. `results/public_results.json` is
the table of the last rebuilding, from before it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import sparsetoken as st

TASKS = {
    "even": st.Task(10, 1, 5.0),
    "rare": st.Task(20, 2, 3.0, 0.2),
    "long": st.Task(200, 4, 4.0, 0.4),
    "varying": st.Task(12, st.Discrete([1, 3]), st.Discrete([3.0, 5.0]), 0.4),
    "correlated": st.Task(10, 2, 4.0, 0.5, token_correlation=0.3),
    "placed": st.Task(4, 1, 4.0, 0.5, places=[0.4, 0.3, 0.2, 0.1]),
}
LOSSES = (st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber())
LINEAR = (st.Pooled(), st.Vectorized())
FROZEN = st.Attention(0.9, 1.5)
Results = Iterator[tuple[str, float]]


def theory() -> Results:
    for word in ("even", "rare"):
        for loss in LOSSES:
            protocol = st.Protocol(2.0, 4.0, loss, 1e-2)
            for classifier in (*LINEAR, st.Attention()):
                p = st.predict(TASKS[word], classifier, protocol)
                for field in ("test_error", "train_loss", "auc"):
                    name = f"predict {word} {type(loss).__name__} {type(classifier).__name__}"
                    yield f"{name} {field}", getattr(p, field)
            yield f"align {word} {type(loss).__name__}", st.align(TASKS[word], protocol).cosine
    for word in ("long", "varying", "correlated", "placed"):
        p = st.predict(TASKS[word], st.Attention(), st.Protocol(2.0, 4.0, ridge=1e-2))
        yield f"predict {word}", p.test_error
        yield f"predict {word} elsewhere", p.on(TASKS["even"]).test_error
    for weighting in (st.HardMax(), st.TopK(3), st.Sparsemax()):
        p = st.predict(TASKS["even"], st.Attention(weighting=weighting), st.Protocol(2.0, 4.0))
        yield f"predict {weighting!r}", p.test_error
    curve = st.learning_curve(
        TASKS["even"], st.Attention(), st.Protocol(), readout_samples=[1.0, 2.0, 8.0]
    )
    for place, value in enumerate(curve.test_error):
        yield f"learning curve {place}", value
    for word in ("even", "rare"):
        for classifier in (*LINEAR, st.Attention()):
            p = st.predict(TASKS[word], classifier, st.Protocol(2.0, 4.0, ridge=1e-2), dim=100)
            yield f"at 100 {word} {type(classifier).__name__}", p.test_error
            yield f"at 100 {word} {type(classifier).__name__} spread", p.spread
    for classifier in (*LINEAR, FROZEN):
        yield f"capacity {type(classifier).__name__}", st.capacity(TASKS["even"], classifier)
    yield (
        "solve",
        st.solve(FROZEN.law(TASKS["even"]), st.Square(), 1e-2, samples_per_dim=2.0).train_loss,
    )
    yield "best steps", st.best_steps(TASKS["rare"], st.Logistic(), 2.0).cosine


def oracles() -> Results:
    for word, task in TASKS.items():
        for classifier in (st.Pooled(), st.Vectorized(), st.Attention()):
            try:
                error = st.oracle_error(task, classifier)
            except st.InvalidInput:  # there is no such oracle
                continue
            yield f"oracle {word} {type(classifier).__name__}", error
        yield f"bayes {word}", st.bayes_error(task)
    for weighting in (st.HardMax(), st.TopK(3), st.Sparsemax()):
        classifier = st.Attention(weighting=weighting)
        yield f"oracle {weighting!r}", st.oracle_error(TASKS["even"], classifier)
    for classifier in (*LINEAR, st.Attention()):
        name = type(classifier).__name__
        yield f"threshold {name}", st.signal_threshold(TASKS["even"], classifier, error=0.01)


def simulation() -> Results:
    for word in TASKS:
        for sampler in ("reduced", "tokens"):
            for classifier in (st.Pooled(), st.Attention()):
                if sampler == "tokens" and word == "long":
                    continue
                protocol = st.Protocol(2.0, 4.0, ridge=1e-2)
                run = st.simulate(TASKS[word], classifier, protocol, 40, 1, seed=3, sampler=sampler)
                name = f"simulate {word} {sampler} {type(classifier).__name__}"
                yield f"{name} test", run.test_error[0]
                yield f"{name} train", run.train_loss[0]
    for loss in LOSSES:
        protocol = st.Protocol(2.0, 4.0, loss, 1e-2)
        run = st.simulate(TASKS["even"], st.Vectorized(), protocol, 30, 1, seed=5)
        yield f"simulate Vectorized {type(loss).__name__}", run.test_error[0]


def plans() -> Results:
    questions = {
        "error": dict(samples=1000),
        "auc": dict(samples=400, metric="auc"),
        "sensitivity": dict(samples=600, metric="sensitivity", specificity=0.95),
        "precision": dict(samples=600, metric="average precision"),
        "cost": dict(samples=600, metric="cost", cost_false_negative=5.0),
        "samples": dict(target_error=0.05),
    }
    for word, question in questions.items():
        advice = st.plan(TASKS["even"], dim=200, check=False, **question)
        for name in ("attention", "pooled", "vectorized"):
            option = advice[name]
            yield f"plan {word} {name} value", _number(option.value)
            if option.value is not None:
                yield f"plan {word} {name} ridge", option.protocol.ridge
                yield f"plan {word} {name} query", option.protocol.query_samples
        yield f"plan {word} needed", _number(advice["attention"].needed)
    inverse = st.plan(
        st.Task(10, 1, 5.0),
        dim=200,
        samples=800,
        target_error=0.05,
        unknown="strength",
        check=False,
    )
    yield "plan strength", _number(inverse["attention"].needed)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def bags() -> Results:
    rng = np.random.default_rng(0)
    task = st.Task(10, 2, 4.0)
    sample = task.sample(160, 12, rng)
    x, y = sample.tokens, sample.labels
    fits = {
        "Pooled": st.PooledClassifier(),
        "Vectorized": st.VectorizedClassifier(),
        "Attention": st.AttentionClassifier(),
    }
    for name, estimator in fits.items():
        fitted = estimator.fit(x[:120], y[:120])
        scores = fitted.decision_function(x[120:])
        for place in range(4):
            yield f"{name}Classifier score {place}", scores[place]
        yield f"{name}Classifier probability", fitted.predict_proba(x[120:])[0, 1]
        yield f"{name}Classifier ridge", fitted.ridge_
    yield "AttentionClassifier sharpness", fits["Attention"].sharpness_
    pilot = st.estimate_task(x, y)
    yield "pilot strength", pilot.task.strength
    yield "pilot sparsity", pilot.task.sparsity
    table = st.compare_poolings(x, y, folds=3)
    for row in table.itertuples():
        yield f"compare {row[1]}", float(row[2])


GROUPS: dict[str, Callable[[], Results]] = {
    each.__name__: each for each in (theory, oracles, simulation, plans, bags)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", choices=GROUPS, help="one group of results")
    arguments = parser.parse_args()
    values: dict[str, float] = {}
    for name, group in GROUPS.items():
        if arguments.only in (None, name):
            start = time.perf_counter()
            new = {key: float(value) for key, value in group()}
            values |= new
            print(f"{name}: {len(new)} results, {time.perf_counter() - start:.0f} s")
    if arguments.out:
        arguments.out.write_text(
            json.dumps({key: value.hex() for key, value in values.items()}, indent=1) + "\n"
        )
    if arguments.against:
        kept = {k: float.fromhex(v) for k, v in json.loads(arguments.against.read_text()).items()}
        compare(kept, values)


def compare(kept: dict[str, float], values: dict[str, float]) -> None:
    common = [key for key in values if key in kept]
    moved = [
        key
        for key in common
        if kept[key] != values[key] and not np.isnan([kept[key], values[key]]).all()
    ]
    print(f"{len(common) - len(moved)} of {len(common)} are bit for bit the same")
    for key in moved:
        change = abs(values[key] - kept[key]) / max(abs(kept[key]), 1e-300)
        print(f"  {key}: {kept[key]:.10g} → {values[key]:.10g} (relative {change:.1e})")
    for key in kept.keys() ^ values.keys():
        print(f"  {key}: only {'before' if key in kept else 'now'}")


if __name__ == "__main__":
    main()

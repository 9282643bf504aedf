"""The floor under every learner: how long it takes (`make bench`), and does anything get below it?

    python benchmarks/floors.py
    python benchmarks/floors.py --settings 22 --out benchmarks/results/floors.json

The second (a few minutes, needs torch) tries all that learns here on so many random tasks: the
classifiers, in the limit, at the best of several ridges and query steps; attention trained jointly;
message passing; the estimators, on bags drawn from the task; the architectures, trained by Adam. A
row of the file is a task, with the floor and the error of each learner, and their standard errors
(over training sets, where these are drawn). It is written after every task; begun again, the same
command goes on where it has ended.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.base import clone

import sparsetoken as st

DIM, REPEATS, TESTS = 50, 4, 3000  # of what is trained on tokens
WIDE, MANY = 1000, 16  # dimensions and runs of message passing, which is at the floor itself
EPOCHS = 30  # of Adam
SHARE = 0.3  # of the samples, for the query
LEAST, MOST = 0.02, 0.8  # floors: an error, and a share of what takes no data at all
ALLOWED = 3.0  # standard errors below it
TARGETS = {"a point, L = 10": 0.05, "a point, L = 10,000": 2.0, "hard phase, L = 100": 20.0}

CLASSIFIERS = {
    "attention": st.Attention(),
    "attention, hard-max": st.Attention(weighting=st.HardMax()),
    "attention, top-2": st.Attention(weighting=st.TopK(2)),
    "attention, sparsemax": st.Attention(weighting=st.Sparsemax()),
    "mean pooling": st.Pooled(),
    "all tokens": st.Vectorized(),
}
JOINT = ("joint", "joint from stages", "joint with free query")
ESTIMATORS = {
    "PooledClassifier": st.PooledClassifier(),
    "VectorizedClassifier": st.VectorizedClassifier(),
    "AttentionClassifier": st.AttentionClassifier(),
    "AttentionClassifier, joint": st.AttentionClassifier(query="joint"),
    "AttentionClassifier, posterior": st.AttentionClassifier(query="posterior"),
    "StatisticsClassifier": st.StatisticsClassifier(),
}


class Setting(NamedTuple):
    """A task, and labelled samples per dimension: a whole number of them in DIM dimensions."""

    number: int
    task: st.Task
    samples: float


def settings(count: int) -> Iterator[Setting]:
    """Those where there is something to learn, and whose floor the test bags resolve."""
    rng = np.random.default_rng(21)
    number = 0
    while number < count:
        length = int(rng.integers(3, 25))
        sparsity = int(rng.integers(1, min(length, 5)))
        strength, prevalence = (float(rng.uniform(*ends)) for ends in ((1.5, 5.0), (0.25, 0.6)))
        samples = round(DIM * math.exp(rng.uniform(math.log(0.5), math.log(4)))) / DIM
        task = st.Task(length, sparsity, strength, prevalence)
        floor = st.bayes_curve(task, [samples])[0].test_error
        if LEAST < floor < MOST * min(prevalence, 1 - prevalence):
            yield Setting(number, task, samples)
            number += 1


def in_the_limit(setting: Setting) -> Iterator[tuple[str, list[float], float]]:
    """Of the best of several protocols."""
    query = SHARE * setting.samples
    steps = st.best_steps(setting.task, st.Logistic(), query)
    for name, classifier in CLASSIFIERS.items():
        learned = classifier.learns_query
        readout = (1 - SHARE if learned else 1.0) * setting.samples
        errors = []
        for ridge, factor in itertools.product((0.03, 0.3), (8.0, 32.0) if learned else (1.0,)):
            protocol = st.Protocol(
                query, readout, st.Logistic(), ridge,
                readout_step=steps.readout, bias_step=steps.bias, query_step=factor,
            )  # fmt: skip
            errors.append(st.predict(setting.task, classifier, protocol).test_error)
        best = min(errors)
        yield name, [float(best)], getattr(best, "standard_error", 0.0)


def simulated(setting: Setting) -> Iterator[tuple[str, list[float], None]]:
    """Joint training, and message passing."""
    task, samples = setting.task, setting.samples
    protocol = st.Protocol(samples, readout_samples=samples, ridge=0.03)
    for training in JOINT:
        run = st.simulate(
            task, st.Attention(), protocol, DIM, REPEATS, setting.number, "tokens",
            reuse_data=True, training=training, test_samples=TESTS,
        )  # fmt: skip
        yield f"attention, {training}", run.test_error.tolist(), None
    protocol = st.Protocol(readout_samples=samples)
    run = st.simulate(task, st.MessagePassing(), protocol, WIDE, MANY, setting.number)
    yield "message passing", run.test_error.tolist(), None


def estimated(setting: Setting) -> Iterator[tuple[str, list[float], None]]:
    """Fitted to bags drawn from the task, tested on others with the same signal."""
    errors: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for repeat in range(REPEATS):
        seeds = [[setting.number, repeat, part] for part in range(2)]
        count = round(DIM * setting.samples)
        train = setting.task.sample(count, DIM, rng=np.random.default_rng(seeds[0]))
        rng = np.random.default_rng(seeds[1])
        test = setting.task.sample(TESTS, DIM, rng=rng, signal=train.signal)
        for name, estimator in ESTIMATORS.items():
            own = clone(estimator).fit(train.tokens, train.labels)
            errors[name].append(1 - own.score(test.tokens, test.labels))
    yield from ((name, values, None) for name, values in errors.items())


def architectures(setting: Setting) -> Iterator[tuple[str, list[float], None]]:
    import torch

    from sparsetoken.simulation.architectures.models import ARCHITECTURES
    from sparsetoken.simulation.architectures.training import train_architecture

    torch.set_num_threads(1)
    count = round(DIM * setting.samples)
    for name in ARCHITECTURES:
        trained = train_architecture(
            setting.task, name, DIM, count, REPEATS, setting.number, "cpu", TESTS, EPOCHS
        )
        yield f"{name}, by Adam", trained.test_error.tolist(), None


def row_of(setting: Setting) -> dict[str, Any]:
    task, samples = setting.task, setting.samples
    point = st.bayes_curve(task, [samples])[0]
    row: dict[str, Any] = {"setting": setting.number, "length": task.length}
    row |= {"sparsity": task.sparsity, "strength": task.strength, "prevalence": task.prevalence}
    row |= {"samples": samples, "hard": point.hard}
    row["floor"] = [float(point.test_error), point.test_error.standard_error]
    row["learners"] = {}
    for kind in (in_the_limit, simulated, estimated, architectures):
        for learner, errors, doubt in kind(setting):
            if doubt is None:
                doubt = statistics.stdev(errors) / math.sqrt(len(errors))
            row["learners"][learner] = [statistics.mean(errors), doubt]
    return row


def standard_errors_above(row: dict[str, Any], learner: str) -> float:
    (floor, first), (error, second) = row["floor"], row["learners"][learner]
    return float((error - floor) / max(math.hypot(first, second), 1e-300))


def kept_rows(path: Path | None, command: str) -> list[dict[str, Any]]:
    """What a run of the same command has left."""
    if path is None or not path.exists():
        return []
    kept = json.loads(path.read_text())
    if kept["command"] != command:
        sys.exit(f"{path} is of another command: {kept['command']}")
    return list(kept["rows"])


def anything_below(count: int, out: Path | None) -> bool:
    """Prints the nearest of each learner; whether one is below by more than chance allows."""
    command = "python benchmarks/floors.py " + shlex.join(sys.argv[1:])
    rows = kept_rows(out, command)
    for setting in list(settings(count))[len(rows) :]:
        rows.append(row_of(setting))
        if out is not None:
            lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
            out.write_text(f'{{"command": {json.dumps(command)}, "rows": [\n{lines}\n]}}\n')
    print(f"{'learner':32s} {'least times the floor':>22s} {'least standard errors above':>28s}")
    for name in rows[0]["learners"]:
        ratio = min(row["learners"][name][0] / row["floor"][0] for row in rows)
        print(f"{name:32s} {ratio:22.3f} {min(standard_errors_above(r, name) for r in rows):28.3g}")
    above = [standard_errors_above(row, name) for row in rows for name in row["learners"]]
    below = sum(value < -ALLOWED for value in above)
    print(f"{below} of {len(above)} below the floor by more than {ALLOWED:g} standard errors")
    return below > 0


def seconds(job: Callable[[], Any]) -> float:
    """Of one core: what else the machine does does not count."""
    start = time.process_time()
    job()
    return time.process_time() - start


def times(repeats: int = 3) -> dict[str, float]:
    """Medians; a seed of its own has draws of its own, so that nothing is known before."""
    st.bayes_curve(st.Task(4, 1, 3.0), [1.0])  # imports, once
    found = {}
    samples = np.geomspace(0.5, 2, 4).tolist()
    tasks = {
        "L = 10": st.Task(10, 1, 5.0),
        "L = 10,000": st.Task(10_000, 1, 6.0),
        "L = 10,000, R = 30": st.Task(10_000, 30, 3.0),
        "L = 10,000, R = 300": st.Task(10_000, 300, 2.0),
    }
    for name, task in tasks.items():
        first, further = [], []
        for seed in range(repeats):
            first.append(seconds(lambda t=task, s=seed: st.bayes_curve(t, [1.0], seed=s)))  # type: ignore[misc]
            all_of_them = seconds(lambda t=task, s=seed: st.bayes_curve(t, samples, seed=s))  # type: ignore[misc]
            further.append(all_of_them / len(samples))
        found[f"a point, {name}"] = statistics.median(further)
        found[f"the first of a task, {name}"] = statistics.median(first)
    rare = st.Task(100, 1, 4.0, 0.3)
    phases = [seconds(lambda s=seed: st.hard_phase(rare, seed=s)) for seed in range(repeats)]  # type: ignore[misc]
    found["hard phase, L = 100"] = statistics.median(phases)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=0, help="random tasks; 0 measures times")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows of the tasks")
    given = parser.parse_args()
    if given.settings:
        return int(anything_below(given.settings, given.out))
    found = times()
    for name, value in found.items():
        target = TARGETS.get(name)
        words = "" if target is None else f"target <= {target:g}: "
        words += "" if target is None else ("met" if value <= target else "NOT MET")
        print(f"{name:42s} {value:9.4f} s   {words}")
    return int(any(found[name] > target for name, target in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(main())

"""Planning on real bags: what a pilot forecasts, beside what came true.

    python benchmarks/real/planning.py             # an hour; goes on where it was stopped
    python benchmarks/real/planning.py --summary   # only the tables of what is there
    python benchmarks/real/planning.py --summary --figure docs/images/forecasts.png

Pilots and training sets are drawn from all instances of a source: what is planned for is more bags
like the pilot's. Truth is the error of `attention` and `pooled`, fitted to N bags, on others, a
mean over training sets. A row of `results/planning.csv` is one pilot, classifier and N, with all
that a forecast is made of; rows that exist are kept. The summary (`results/planning.md`) sets the
forecast beside theory alone, the pilot's own cross-validated error, and a power law through that of
two and of four fifths of the bags.

Forecasts have three numbers for each classifier that were learned from such rows
(`sparsetoken.bags.anchors.DOUBTS`). The summary learns them anew for each family of sources, from
the rows of all other families: a forecast that it judges has seen nothing of the family. It also
prints what all rows together teach, which is what the package has. Bags of the model itself teach
nothing, and are judged apart.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from calibration import MODEL, judged, summary
from forecast_figure import draw
from sources import SOURCES, VARIANTS, Instances, NotInstalled, ReadyBags, load

import sparsetoken as st
from sparsetoken.bags.forecast import tuned_at

RESULTS = Path(__file__).parent / "results" / "planning.csv"
KEY = ["world", "pilot", "seed"]
COLUMNS = [
    *KEY, "family", "classifier", "samples", "truth", "theory", "spread", "few", "few_samples",
    "measured", "counted", "standard_error", "anchor_samples", "anchor_theory", "worst", "white",
    "unlearned", "evidence", "found", "fits",
]  # fmt: skip
CLASSIFIERS = ("attention", "pooled")
SAMPLES = (300, 1000, 3000)
PILOTS = (100, 200)
SEEDS = 5
FEWER_SEEDS = 2  # for variants of a source
TRAINING_SETS = {300: 4, 1000: 2, 3000: 1}  # of which the truth is a mean
SPLITS = 10  # of bags that are collected, of which it is one
TEST_BAGS = 4000
MODEL_TEST_BAGS = 40_000  # that cost nothing: the standard error of an error of 0.05 is 0.001
MODEL_SETS = 4  # times as many training sets
FEWEST = 8  # bags of each class, that a pilot needs


@dataclass(frozen=True)
class World:
    """Where bags come from."""

    family: str  # worlds of one family share instances
    open: Callable[[], Pool | Collection | Model]
    seeds: int = FEWER_SEEDS


@dataclass(frozen=True, eq=False)
class Pool:
    """Bags without end, of the instances of both parts of a source."""

    instances: Instances
    drawn: dict[str, float]  # arguments of `Instances.bags`
    samples: tuple[int, ...] = SAMPLES

    @classmethod
    def of(cls, name: str, **drawn: float) -> Pool:
        source = load(name)
        tokens = np.concatenate([source.train_tokens, source.test_tokens])
        is_target = np.concatenate([source.train_is_target, source.test_is_target])
        return cls(Instances(tokens, is_target, tokens, is_target, source.length), drawn)

    def bags(self, count: int, *seed: int) -> tuple:
        return self.instances.bags(count, rng=np.random.default_rng(seed), **self.drawn)

    def errors(self, name: str, samples: int) -> list[float]:
        return errors(self, name, samples, TRAINING_SETS[samples], TEST_BAGS)


@dataclass(frozen=True, eq=False)
class Model:
    """Bags without end, of the model itself, with one signal."""

    task: st.Task
    dim: int
    samples: tuple[int, ...] = SAMPLES

    def bags(self, count: int, *seed: int) -> tuple:
        signal = np.eye(self.dim)[0]
        drawn = self.task.sample(count, self.dim, rng=np.random.default_rng(seed), signal=signal)
        return drawn.tokens, drawn.labels

    def errors(self, name: str, samples: int) -> list[float]:
        return errors(self, name, samples, MODEL_SETS * TRAINING_SETS[samples], MODEL_TEST_BAGS)


def errors(bags: Pool | Model, name: str, samples: int, sets: int, tests: int) -> list[float]:
    """Of a classifier, for each training set."""
    new, labels = bags.bags(tests, 999)
    return [
        1 - st.ESTIMATORS.make(name).fit(*bags.bags(samples, samples, k)).score(new, labels)
        for k in range(sets)
    ]


@dataclass(frozen=True, eq=False)
class Collection:
    """Bags as they were collected: a part of them, drawn anew each time."""

    source: ReadyBags

    @property
    def samples(self) -> tuple[int, ...]:
        """Numbers of bags that leave at least a third of them for the test."""
        return tuple(n for n in SAMPLES if n <= 2 * len(self.source.labels) / 3)

    def _split(self, count: int, *seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Some of the bags and the rest, with the same share of positives."""
        rng, labels = np.random.default_rng(seed), self.source.labels
        some = np.zeros(len(labels), dtype=bool)
        positives = round(count * np.mean(labels > 0))
        for side, number in ((1, positives), (-1, count - positives)):
            some[rng.permutation(np.flatnonzero(labels == side))[:number]] = True
        return np.flatnonzero(some), np.flatnonzero(~some)

    def _take(self, index: np.ndarray) -> tuple:
        return [self.source.bags[i] for i in index], self.source.labels[index]

    def bags(self, count: int, *seed: int) -> tuple:
        return self._take(self._split(count, *seed)[0])

    def errors(self, name: str, samples: int) -> list[float]:
        splits = [self._split(samples, samples, k) for k in range(SPLITS)]
        return [
            1 - st.ESTIMATORS.make(name).fit(*self._take(some)).score(*self._take(rest))
            for some, rest in splits
        ]


def _world(name: str, seeds: int = FEWER_SEEDS, **drawn: float) -> World:
    source = (SOURCES | VARIANTS)[name]
    if source.form is Instances:
        return World(source.family, partial(Pool.of, name, **drawn), seeds)
    return World(source.family, lambda: Collection(load(name)), seeds)


def _model(task: st.Task, dim: int) -> World:
    return World(MODEL, lambda: Model(task, dim), SEEDS)


WORLDS: dict[str, World] = {
    **{name: _world(name, SEEDS) for name in SOURCES if SOURCES[name].form is Instances},
    **{name: _world(name) for name in VARIANTS},
    "fours-10, one bag in four": _world("fours-10", prevalence=0.25),
    "sentences, one bag in three": _world("sentences", prevalence=1 / 3),
    "garments, two of 20": _world("garments", length=20, sparsity=2),
    "b-cells, three of 30": _world("b-cells-10", length=30, sparsity=3),
    "birds": _world("birds", SEEDS),
    "corel-dogs": _world("corel-dogs"),
    "model, one of 10": _model(st.Task(10, 1, 4.0), 30),
    "model, three of 20": _model(st.Task(20, 3, 2.5), 40),
    "model, two of 10, 30 %": _model(st.Task(10, 2, 3.0, prevalence=0.3), 30),
    "model, strengths": _model(st.Task(10, 1, st.Discrete((3.0, 5.0, 7.0), (1, 2, 1))), 30),
}


# In the figure: sources as they are, and variants on which forecasts do best and worst
SHOWN = [
    *(name for name in SOURCES if SOURCES[name].form is Instances),
    "fours-10, one bag in four", "zeros-20", "mnist-fours-5",
]  # fmt: skip


def rows_of(bags: Pool | Collection, size: int, seed: int, truth: dict) -> list[dict]:
    """All that the forecasts of one pilot are made of; a single row where no signal is found, or
    where there are too few bags of a class."""
    tokens, labels = bags.bags(size, size, seed)
    if min(np.sum(labels > 0), np.sum(labels < 0)) < FEWEST:
        return [{"found": False}]
    pilot = st.estimate_task(tokens, labels)
    common = {"evidence": pilot.evidence, "found": pilot.found, "fits": pilot.fits}
    if not pilot.found:
        return [common]
    error = st.METRICS.make("error")
    rows = []
    for anchor in pilot.anchors:
        name = anchor.classifier
        few, many = (p for p in pilot.measured if p.classifier == name)
        tuned = tuned_at(pilot.setting, pilot.task, name, bags.samples)
        here = {
            "classifier": name, "few": few.value(error), "few_samples": few.samples,
            "counted": many.value(error), "measured": anchor.measured,
            "standard_error": anchor.standard_error, "anchor_samples": anchor.samples,
            "anchor_theory": anchor.theory, "worst": anchor.worst, "white": anchor.white,
            "unlearned": anchor.unlearned,
        }  # fmt: skip
        for samples, theory in zip(bags.samples, tuned, strict=True):
            values = {"theory": float(theory.value), "spread": float(theory.spread)}
            there = {"samples": samples, "truth": truth[name, samples]} | values
            rows.append(common | here | there)
    return rows


def run(names: list[str]) -> None:
    """All that is not there yet."""
    RESULTS.parent.mkdir(exist_ok=True)
    if not RESULTS.exists():
        RESULTS.write_text(",".join(COLUMNS) + "\n")
    done = set(pd.read_csv(RESULTS)[KEY].itertuples(index=False, name=None))
    for name in names:
        world = WORLDS[name]
        pilots = [(size, seed) for seed in range(world.seeds) for size in PILOTS]
        missing = [pilot for pilot in pilots if (name, *pilot) not in done]
        if not missing:
            continue
        try:
            bags = world.open()
        except NotInstalled as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        truth = {
            (classifier, samples): float(np.mean(bags.errors(classifier, samples)))
            for samples in bags.samples
            for classifier in CLASSIFIERS
        }
        for size, seed in missing:
            rows = rows_of(bags, size, seed, truth)
            key = {"world": name, "pilot": size, "seed": seed, "family": world.family}
            with RESULTS.open("a", newline="") as file:
                csv.DictWriter(file, COLUMNS).writerows(key | row for row in rows)
            print(name, size, seed, f"{len(rows)} rows", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--summary", action="store_true", help="of what is there")
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--figure", type=Path, help="forecast and true curves, drawn to this file")
    options = parser.parse_args()
    if not options.summary:
        run(options.worlds)
    table = pd.read_csv(RESULTS)
    rows = judged(table)
    if options.figure:
        draw(rows, SHOWN, options.figure)
    text = summary(table, rows)
    RESULTS.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

"""Planning on real bags: what a pilot forecasts, beside what came true.

    python benchmarks/real/planning.py             # hours; goes on where it was stopped
    python benchmarks/real/planning.py --quick     # one pilot of 200 bags for each source
    python benchmarks/real/planning.py --summary   # only the table of what is there

Pilots and training sets are drawn from all instances of a source: what is planned for is more bags
like the pilot's. Truth is the error of `attention` and `pooled`, fitted to N bags, on 4000 others,
a mean over training sets. Beside the forecast stand theory alone, the pilot's own cross-validated
error, and a power law through that of two and of four fifths of the bags. A row of
`results/planning.csv` is one forecast; rows that exist are kept.

`MODEL_ERROR` and `DRIFT` of `sparsetoken.bags.forecast` were set after such rows, so that for them
the summary says nothing of new sources: it gives the error and coverage of each source by itself.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sources import SOURCES, Instances, NotInstalled, load

import sparsetoken as st

RESULTS = Path(__file__).parent / "results" / "planning.csv"
KEY = ["source", "pilot", "seed"]
COLUMNS = [
    *KEY, "classifier", "samples", "truth", "forecast", "low", "high", "theory", "measured",
    "power_law", "evidence", "fits",
]  # fmt: skip
CLASSIFIERS = ("attention", "pooled")
SAMPLES = (300, 1000, 3000)
PILOTS, SEEDS = (100, 200), 5
TRAINING_SETS = {300: 4, 1000: 2, 3000: 1}  # of which the truth is a mean
TEST_BAGS = 4000


def population(source: Instances) -> Instances:
    """Both pools in one."""
    tokens = np.concatenate([source.train_tokens, source.test_tokens])
    is_target = np.concatenate([source.train_is_target, source.test_is_target])
    return Instances(tokens, is_target, tokens, is_target, source.length)


def truths(bags: Instances) -> dict[tuple[str, int], float]:
    """Errors of classifiers by the number of bags they learn from."""
    new, labels = bags.bags(TEST_BAGS, rng=np.random.default_rng([999]))
    errors = {}
    for samples, repeats in TRAINING_SETS.items():
        sets = [bags.bags(samples, rng=np.random.default_rng([samples, k])) for k in range(repeats)]
        for name in CLASSIFIERS:
            fits = [st.ESTIMATORS.make(name).fit(*given) for given in sets]
            errors[name, samples] = float(np.mean([1 - fit.score(new, labels) for fit in fits]))
    return errors


def rows_of(bags: Instances, size: int, seed: int, truth: dict) -> list[dict]:
    """All forecasts of one pilot; a single row without any where no signal is found."""
    pilot = st.estimate_task(*bags.bags(size, rng=np.random.default_rng([size, seed])))
    common = {"evidence": pilot.evidence, "fits": pilot.fits}
    if not pilot.found:
        return [common]
    error = st.METRICS.make("error")
    rows = []
    for samples in SAMPLES:
        advice = pilot.plan(samples=samples)
        for name in CLASSIFIERS:
            few, many = (p.value(error) for p in pilot.measured if p.classifier == name)
            option, anchor = advice[name], next(a for a in pilot.anchors if a.classifier == name)
            fall = np.log2(max(few, 1 / size) / max(many, 1 / size))
            power_law = many * (anchor.samples / samples) ** min(max(fall, 0.0), 0.5)
            rows.append(
                common
                | {
                    "classifier": name, "samples": samples, "truth": truth[name, samples],
                    "forecast": option.value, "low": option.low, "high": option.high,
                    "theory": option.theory, "measured": many, "power_law": power_law,
                }
            )  # fmt: skip
    return rows


def run(names: list[str], pilots: tuple[int, ...], seeds: int) -> None:
    """All that is not there yet."""
    done = set()
    if RESULTS.exists():
        done = set(pd.read_csv(RESULTS)[KEY].itertuples(index=False, name=None))
    else:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(",".join(COLUMNS) + "\n")
    for name in names:
        missing = [
            (size, seed)
            for seed in range(seeds)
            for size in pilots
            if (name, size, seed) not in done
        ]
        if not missing:
            continue
        try:
            bags = population(load(name))
        except NotInstalled as error:
            print(error, file=sys.stderr)
            continue
        truth = truths(bags)
        for size, seed in missing:
            rows = rows_of(bags, size, seed, truth)
            with RESULTS.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                key = {"source": name, "pilot": size, "seed": seed}
                writer.writerows(key | row for row in rows)
            print(name, size, seed, f"{len(rows)} rows", file=sys.stderr, flush=True)


def summary() -> str:
    """Mean absolute errors, typical factors and coverage, by classifier and by source."""
    table = pd.read_csv(RESULTS)
    pilots = table.groupby(KEY).classifier.count()
    table = table.dropna(subset="classifier")
    lines = [f"{len(pilots)} pilots, a signal found in {int((pilots > 0).sum())} of them."]
    table["covered"] = table.truth.between(table.low, table.high)
    floor = 1 / TEST_BAGS
    for by in (["classifier"], ["classifier", "source"]):
        rows = []
        for group, part in table.groupby(by):
            row = dict(zip(by, group, strict=True)) | {"forecasts": len(part)}
            for rule in ("forecast", "theory", "measured", "power_law"):
                ratio = np.log(part[rule].clip(floor) / part.truth.clip(floor))
                row[f"{rule}: error"] = round((part[rule] - part.truth).abs().mean(), 4)
                row[f"{rule}: factor"] = round(float(np.exp(ratio.abs().median())), 2)
            rows.append(row | {"covered": round(part.covered.mean(), 2)})
        lines.append(pd.DataFrame(rows).to_string(index=False))
    far = table.forecast.clip(floor) / table.truth.clip(floor)
    wrong = table.fits & ((far > 2) | (far < 0.5))
    lines.append(f"'The model fits' with a forecast off by more than a factor 2: {wrong.sum()}")
    return "\n\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one pilot of 200 bags a source")
    parser.add_argument("--summary", action="store_true", help="of what is there")
    parser.add_argument("--sources", nargs="*", help="names; all pools if none are given")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    pools = [name for name, source in SOURCES.items() if source.form is Instances]
    if not options.summary:
        quick = options.quick
        run(
            options.sources or pools, PILOTS[1:] if quick else PILOTS, 1 if quick else options.seeds
        )
    print(summary())


if __name__ == "__main__":
    main()

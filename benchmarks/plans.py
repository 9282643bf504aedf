"""Random plans, simulated as they stand: is what is promised what happens, at the user's size?

Each plan is drawn at random (length 2 to 60, prevalence 0.02 to 0.98 and one in five within 0.01
of ½, dim 50 to 500, four losses, forward and inverse questions, errors and AUCs). What it
recommends is simulated 24 times, and beside it attention with an even split and default steps.
Where errors have long tails, 24 runs can miss what one in fifty does: a plan that looks off after
them is judged by 480 others.

    python benchmarks/plans.py --count 200 --processes 2 --out docs/plans

writes docs/plans.csv, one row a plan, and docs/plans.md. `make plans` does that.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import pandas as pd

import sparsetoken as st
from sparsetoken.support.processes import results

RUNS, MORE_RUNS = 24, 480
LOSSES = (st.Logistic(), st.Square(), st.SquaredHinge(), st.Huber())


def question(seed: int) -> tuple[st.Task, int, dict]:
    """A task, a dimension and what is asked of `plan`."""
    rng = np.random.default_rng([2026, seed])
    length = int(rng.integers(2, 61))
    sparsity = int(min(length, rng.choice([1, 1, 1, 2, 3, 5])))
    dim = int(np.exp(rng.uniform(math.log(50), math.log(500))))
    near_even = seed % 5 == 0
    prevalence = rng.uniform(0.49, 0.51) if near_even else rng.uniform(0.02, 0.98)
    strength = rng.uniform(2.5, 7) / math.sqrt(sparsity) * max(1.0, (length / 20) ** 0.25)
    task = st.Task(length, sparsity, float(strength), float(prevalence))
    asked: dict = {"loss": LOSSES[int(rng.integers(4))], "seed": seed}
    metric = "auc" if rng.random() < 0.2 else "error"
    if seed % 2:
        count = int(dim * np.exp(rng.uniform(math.log(0.7), math.log(12))))
        return task, dim, asked | {"samples": count, "metric": metric}
    # a target between knowing nothing and everything
    share = rng.uniform(0.2, 0.6)
    if metric == "auc":
        return task, dim, asked | {"target_auc": float(0.5 + 0.5 * (1 - share * 0.5))}
    floor, worst = float(st.bayes_error(task)), min(prevalence, 1 - prevalence)
    target = math.exp(share * math.log(max(floor, 1e-4)) + (1 - share) * math.log(worst))
    return task, dim, asked | {"target_error": float(min(target, 0.97 * worst))}


def values(run: st.Simulation, metric) -> np.ndarray:
    return np.array([metric.value(run.scores(repeat)) for repeat in range(len(run))])


def row(seed: int) -> dict:
    """One plan: promised and found."""
    task, dim, asked = question(seed)
    advice = st.plan(task, dim, check=False, **asked)
    what = next(name for name in ("samples", "target_error", "target_auc") if name in asked)
    found: dict = {
        "seed": seed, "length": task.length, "sparsity": task.sparsity,
        "strength": task.strength, "prevalence": task.prevalence, "dim": dim,
        "loss": type(asked["loss"]).__name__, "asked": what, "given": asked[what],
        "metric": advice.metric.name,
    }  # fmt: skip
    best = advice.best
    if best is None:
        return found | {"recommended": "none"}
    total = best.tuned.count
    found |= {
        "recommended": best.classifier, "total_samples": total, "ridge": best.protocol.ridge,
        "promised": float(best.value), "promised_error": best.value.standard_error,
        "spread": float(best.spread),
    }  # fmt: skip
    judged = compared(advice, asked["loss"], RUNS, seed)
    if judged["beyond"] > 3 or judged["worse_than_even_split"] > 1.5:
        judged = compared(advice, asked["loss"], MORE_RUNS, seed + 1000)
    return found | judged


def compared(advice: st.Plan, loss: st.Loss, runs: int, seed: int) -> dict:
    """What was promised beside runs of it, and of attention with an even split."""
    task, dim, metric, best = advice.task, advice.dim, advice.metric, advice.best
    half = best.tuned.count / 2 / dim
    plain = st.Protocol(half, half, loss)
    mine, even = (
        values(st.simulate(task, classifier, protocol, dim, repeats=runs, seed=seed), metric)
        for classifier, protocol in (
            (best.tuned.classifier, best.protocol),
            (st.Attention(), plain),
        )
    )
    error = math.hypot(mine.std(ddof=1) / math.sqrt(runs), best.value.standard_error)
    limit = metric.value(st.predict(task, best.tuned.classifier, best.protocol).scores)
    apart = math.hypot(mine.std(ddof=1), even.std(ddof=1)) / math.sqrt(runs)
    return {
        "runs": runs,
        "found": mine.mean(), "found_error": mine.std(ddof=1) / math.sqrt(runs),
        "spread_found": mine.std(ddof=1), "limit": limit,
        "beyond": (abs(mine.mean() - best.value) - 2 / dim) / max(error, 1e-12),
        "limit_beyond": (abs(mine.mean() - limit) - 2 / dim) / max(error, 1e-12),
        "even_split": even.mean(),
        "worse_than_even_split":
            (metric.badness(mine.mean()) - metric.badness(even.mean())) / max(apart, 1e-12),
    }  # fmt: skip


def missed(table: pd.DataFrame) -> pd.DataFrame:
    """Beyond 4 standard errors + 2/d, or worse than an even split by more than 2 of them."""
    return table[(table.beyond > 4) | (table.worse_than_even_split > 2)]


def report(table: pd.DataFrame) -> str:
    answered = table[table.recommended != "none"]
    near = answered[(answered.prevalence - 0.5).abs() < 0.011]
    error = np.hypot(answered.found_error, answered.promised_error)
    apart = (answered.found - answered.promised).abs() / error.clip(lower=1e-12)
    ratio = (answered.spread / answered.spread_found)[answered.spread_found > 1e-3]
    lines = [
        "# Random plans, simulated as they stand",
        "",
        f"{len(table)} random plans (`make plans`; benchmarks/plans.py says how they are drawn), "
        f"{RUNS} simulated runs of what each recommends. One that looks off after them is judged "
        f"by {MORE_RUNS} others (where one training set in fifty has a useless query, {RUNS} runs "
        f"say little): {int((answered.runs > RUNS).sum())} did. {len(table) - len(answered)} had "
        "no answer (a target out of reach) and said so.",
        "",
        "| | |",
        "|---|---|",
        f"| promised and found differ by more than 4 standard errors + 2/d | "
        f"{int((answered.beyond > 4).sum())} of {len(answered)} |",
        f"| by more than 4 standard errors alone (chance gives 0.01 of 200) | "
        f"{int((apart > 4).sum())} of {len(answered)} |",
        f"| by more than 3 of them (chance gives 0.5 of 200) | "
        f"{int((apart > 3).sum())} of {len(answered)} |",
        f"| 4 standard errors + 2/d with the limit of many dimensions in place of the promise | "
        f"{int((answered.limit_beyond > 4).sum())} of {len(answered)} |",
        f"| prevalence within 0.01 of ½ | {int((near.beyond > 4).sum())} of {len(near)} |",
        f"| worse than an even split with default steps by more than 2 standard errors | "
        f"{int((answered.worse_than_even_split > 2).sum())} of {len(answered)} |",
        f"| promised over found spread between training sets, median and middle 80 % | "
        f"{ratio.median():.2f}; {ratio.quantile(0.1):.2f} to {ratio.quantile(0.9):.2f} |",
        "",
        "All rows are in [plans.csv](plans.csv).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", default="docs/plans")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count)
    rows = {}
    for seed, reply in results(row, [seeds], given.processes, tries=2):
        if reply.error is not None:
            raise reply.error
        rows[seed] = reply.value
        print(
            f"{len(rows)}/{given.count} " + " ".join(
                f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                for k, v in reply.value.items()
            ),
            flush=True,
        )  # fmt: skip
    table = pd.DataFrame([rows[seed] for seed in seeds])
    out = Path(given.out)
    table.to_csv(out.with_suffix(".csv"), index=False, float_format="%.6g")
    table = pd.read_csv(out.with_suffix(".csv"))  # what others will read
    out.with_suffix(".md").write_text(report(table))
    print(report(table))
    print(missed(table).to_string())


if __name__ == "__main__":
    main()

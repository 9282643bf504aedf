"""What the theory of the simplest attention says about real architectures (needs torch)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled, Vectorized
from sparsetoken.model.task import Task
from sparsetoken.reproduction import claim
from sparsetoken.simulation.architectures.models import ARCHITECTURES
from sparsetoken.simulation.architectures.training import best_device, train_architecture
from sparsetoken.studies.cells import grid
from sparsetoken.studies.oracles import OracleCell
from sparsetoken.studies.questions import Question

_SAMPLES = {
    "tiny": (2.0, 8.0),
    "quick": (2.0, 4.0, 8.0, 16.0),
    "full": (2.0, 4.0, 8.0, 16.0, 32.0),
}
_CURVE = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
_DIMS = {"tiny": 20, "quick": 40, "full": 100}
_REPEATS = {"tiny": 3, "quick": 4, "full": 8}
_ON_GPU = 500  # dimension of "full" where torch sees a GPU
_RIDGES = {
    "attention": [1e-3, 1e-2, 3e-2],
    "pooled": [1e-2, 1e-1, 1.0],
    "vectorized": [1e-2, 1e-1, 1.0],
}
_EXACT = {
    "attention": "exact: attention, four stages",
    "pooled": "exact: pooled",
    "vectorized": "exact: vectorized",
}
_BAYES, _POOLED_FLOOR = "reference: Bayes error", "reference: best on the mean"
_ATTENTION = ("simple attention", "query, key and value", "several heads")
_ERRORS, _TIMES = "test error", "over the exact curve of attention"
_LOWEST, _HIGHEST = "lowest test error of a run", "highest test error of a run"  # not drawn
_ABOVE = 1.25  # times an exact curve, as in `training`


@dataclass(frozen=True)
class ArchitectureCell(Question):
    """An architecture trained on n samples, all repeats at once: a row of means over them."""

    task: Task
    name: str
    dim: int
    samples: int
    repeats: int
    seed: int
    device: str
    test_samples: int = 10_000

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        task = {each.name: getattr(self.task, each.name) for each in fields(Task)}
        return {
            "kind": "architecture", "classifier": self.name, **task, "dim": self.dim,
            "samples": self.samples, "repeats": self.repeats, "seed": self.seed,
            "device": self.device, "test_samples": self.test_samples,
        }  # fmt: skip

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """Train and test; the standard error is that of the mean over repeats."""
        trained = train_architecture(
            self.task, self.name, self.dim, self.samples, self.repeats, self.seed, self.device,
            self.test_samples,
        )  # fmt: skip
        error = trained.test_error
        return "", {
            "test_error": error.mean(),
            "standard_error": error.std(ddof=1) / np.sqrt(len(error)),
            "lowest": error.min(),
            "highest": error.max(),
            "train_error": trained.train_error.mean(),
            "epochs": trained.epochs.mean(),
            "weights": trained.parameters,
        }


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Test error against all samples: six architectures, three exact curves, two floors."""
    device = best_device()
    dim = _ON_GPU if scale.name == "full" and device != "cpu" else _DIMS[scale.name]
    names = sorted(ARCHITECTURES, key=lambda name: name != "two layers")  # the longest work first
    cells = [
        ArchitectureCell(
            claim.PAPER, name, dim, round(each * dim), _REPEATS[scale.name], scale.seed, device
        )
        for name in names
        for each in reversed(_SAMPLES[scale.name])
    ]  # fmt: skip
    trained = ask(cells).assign(x=lambda table: table.samples / table.dim).sort_values("x")
    exact = _exact(scale, ask)
    parts = []
    for name, series in _EXACT.items():
        curve = exact[name]
        parts.append(claim.rows(_ERRORS, series, list(curve), theory=list(curve.values())))
    for series, classifier in ((_BAYES, None), (_POOLED_FLOOR, Pooled())):
        floor = ask([OracleCell(claim.PAPER, classifier)])
        best, error = float(floor.best_error.iloc[0]), float(floor.standard_error.iloc[0])
        ends = [min(exact["pooled"]), max(exact["pooled"])]
        parts.append(claim.rows(_ERRORS, series, ends, theory=best, theory_error=error))
    ends = [min(trained.x), max(trained.x)]
    parts.append(claim.rows(_TIMES, "reference: the exact curve", ends, theory=1.0))
    for name in ARCHITECTURES:
        mine = trained[trained.classifier == name]
        same = {"repeats": mine.repeats.to_numpy(), "dim": mine.dim.to_numpy()}
        mean, error = mine.test_error.to_numpy(), mine.standard_error.to_numpy()
        same["features"] = mine.weights.to_numpy()
        x = mine.x.to_numpy()
        parts.append(claim.rows(_ERRORS, name, x, simulation=mean, simulation_error=error, **same))
        parts.append(claim.rows(_LOWEST, name, x, simulation=mine.lowest.to_numpy(), **same))
        parts.append(claim.rows(_HIGHEST, name, x, simulation=mine.highest.to_numpy(), **same))
        if name in (*_ATTENTION, "two layers"):
            by = np.array([exact["attention"][each] for each in x])
            times = {"simulation": mean / by, "simulation_error": error / by}
            parts.append(claim.rows(_TIMES, name, x, **times, **same))
    return claim.collect(parts)


def _exact(scale: claim.Scale, ask: claim.Ask) -> dict[str, dict[float, float]]:
    """Test error at each number of samples, with the best of a few ridges.

    Attention gives a third of the samples to its query, as in `training`.
    """
    totals = {"tiny": _SAMPLES["tiny"], "quick": _CURVE[::2], "full": _CURVE}[scale.name]
    found: dict[str, dict[float, float]] = {name: {} for name in _EXACT}
    for total in totals:
        split = {"query_samples": total / 3, "readout_samples": 2 * total / 3}
        whole = {"query_samples": 1.0, "readout_samples": total}
        cells = grid(task=claim.PAPER, classifier=Attention(), ridge=_RIDGES["attention"], **split)
        for classifier in (Pooled(), Vectorized()):
            cells += grid(task=claim.PAPER, classifier=classifier, ridge=_RIDGES["pooled"], **whole)
        for name, answers in ask(cells).groupby("classifier"):
            found[str(name)][total] = float(answers.test_error.min())
    return found


def judge(table: claim.Table) -> claim.Judgement:
    """Floors, simple attention at the theory, an MLP on the mean at pooling, a flat MLP far off."""
    errors = table[table.panel == _ERRORS].pivot(index="x", columns="series")
    mean, sem, theory = errors["simulation"], errors["simulation_error"], errors["theory"]
    measured = mean.dropna(how="all").index
    most = float(measured.max())
    floor, linear = theory[_BAYES].dropna().iloc[0], theory[_POOLED_FLOOR].dropna().iloc[0]
    names = [name for name in ARCHITECTURES if name in mean]
    below = ((mean[names] - floor) / sem[names]).loc[measured].to_numpy()
    checks = [
        claim.Check(
            "no architecture beats the Bayes test",
            f"at least {floor:.4f}",
            f"{float(mean[names].min().min()):.4f} the smallest; {np.nanmin(below):+.1f} "
            "standard errors from the floor the nearest",
            "every mean ≥ Bayes error − 4 standard errors",
            _known(below, below.min() >= -4),
        ),
        _near(mean, sem, theory, "simple attention", _EXACT["attention"], most, 2 / 3),
        _near(mean, sem, theory, "mean and MLP", _EXACT["pooled"], most, 0.8),
    ]
    pooled = float(theory[_EXACT["pooled"]][most])
    for name in _ATTENTION:
        checks.append(
            claim.Check(
                f"{name} leaves linear pooling behind",
                f"far below {pooled:.3f}, the exact error of pooled",
                f"{mean[name][most]:.4f} ± {sem[name][most]:.4f} at {most:g} samples per dimension",
                "below half the exact error of pooled (inconclusive within 4 standard errors)",
                _beyond(pooled / 2 - mean[name][most], sem[name][most]),
            )
        )
    above = ((mean["mean and MLP"] - linear) / sem["mean and MLP"]).loc[measured]
    checks.append(
        claim.Check(
            "an MLP on the mean cannot beat the best linear readout of it",
            f"at least {linear:.4f}",
            f"{float(mean['mean and MLP'].min()):.4f} the smallest",
            "every mean ≥ best error on the mean − 4 standard errors",
            _known(above, above.min() >= -4),
        )
    )
    gap = (mean["flat MLP"] - mean["simple attention"]).loc[measured]
    doubt = np.hypot(sem["flat MLP"], sem["simple attention"]).loc[measured]
    checks.append(
        claim.Check(
            "a flat MLP does not find out that tokens are alike",
            "worse than simple attention",
            f"{gap.min():.3f} to {gap.max():.3f} worse",
            "flat MLP − simple attention > 0 at every number of samples (inconclusive within 4 "
            "standard errors)",
            _beyond(gap, doubt),
        )
    )
    return claim.Judgement(checks, _remarks(table, mean, theory))


def _near(
    mean: Any, sem: Any, theory: Any, name: str, curve: str, most: float, below: float
) -> claim.Check:
    """With the most samples an architecture is at an exact curve; Bayes is 0.7 of attention's."""
    exact = float(theory[curve][most])
    ratio, error = float(mean[name][most]) / exact, float(sem[name][most]) / exact
    excess = max(ratio - _ABOVE, below - ratio)
    verdict: claim.Verdict = (
        "holds" if excess <= 0 else "fails" if excess > 4 * error else "inconclusive"
    )
    return claim.Check(
        f"{name}, end to end, against “{curve}”",
        f"about {exact:.4f} at {most:g} samples per dimension",
        f"{ratio:.2f} ± {error:.2f} times it",
        f"between {below:.2f} and {_ABOVE:g} times it (inconclusive if outside by less than 4 "
        "standard errors)",
        "inconclusive" if not np.isfinite([ratio, error]).all() else verdict,
    )


def _beyond(gaps: Any, errors: Any) -> claim.Verdict:
    """Gaps that must be positive, and are known up to 4 standard errors."""
    gaps, doubt = np.atleast_1d(gaps), 4 * np.atleast_1d(errors)
    if (gaps < -doubt).any():
        return "fails"
    return "holds" if len(gaps) and (gaps > doubt).all() else "inconclusive"


def _known(values: Any, truth: Any) -> claim.Verdict:
    """Missing numbers decide nothing."""
    return (
        claim.decide(bool(truth))
        if np.isfinite(np.asarray(values, float)).all()
        else "inconclusive"
    )


def _remarks(table: claim.Table, mean: Any, theory: Any) -> list[str]:
    curve = theory[_EXACT["attention"]].dropna()
    lines = []
    for name in (name for name in ARCHITECTURES if name in mean):
        mine = mean[name].dropna()
        ratios = ", ".join(f"{mine[x] / curve[x]:.2f}" for x in mine.index)
        there = (table.series == name) & (table.x == mine.index[-1])
        runs = [
            float(table[there & (table.panel == panel)].simulation.iloc[0])
            for panel in (_LOWEST, _HIGHEST)
        ]
        lines.append(
            f"{name}: {ratios} times the exact four-stage error at "
            f"{', '.join(f'{x:g}' for x in mine.index)} samples per dimension; "
            f"{_worth(curve, mine)}. Runs from {runs[0]:.4f} to {runs[1]:.4f} there."
        )
    sizes = table[table.panel == _LOWEST].groupby("series", sort=False).features.first()
    trained = "; ".join(f"{name} {size:.0f}" for name, size in sizes.items())
    return [
        "All architectures: Adam, logistic loss, the same n samples, a fifth of them held out for "
        "ridge and epoch. The exact curves: a third of the n samples for the query, the best of "
        "three ridges.",
        *lines,
        f"Parameters: {trained}.",
    ]


def _worth(curve: Any, mine: Any) -> str:
    """With how many samples the exact curve has the last error of an architecture."""
    most, error = float(mine.index[-1]), float(mine.iloc[-1])
    falling = curve.iloc[::-1]
    if error > falling.iloc[-1]:
        return f"with {most:g} it is above the protocol with {curve.index[0]:g}"
    if error < falling.iloc[0]:
        return f"with {most:g} it is below the protocol with {curve.index[-1]:g}"
    worth = float(np.exp(np.interp(error, falling.to_numpy(), np.log(falling.index.to_numpy()))))
    return (
        f"with {most:g} it does what the protocol does with {worth:.1f}: {most / worth:.1f} times "
        "as many samples"
    )


_X = "all samples per dimension  $n/d$"
CLAIM = claim.Claim(
    "architectures",
    "Beyond the paper's protocol",
    "Attention trained end to end by Adam ends near the exact curve of the four-stage protocol; an "
    "MLP on the mean stays with linear pooling and a flat MLP far above.",
    compute,
    judge,
    [
        Panel(_ERRORS, _X, "test error", log="xy", legend=False),
        Panel(_TIMES, _X, "times the exact error", log="xy", legend=False),
    ],
    needs="torch",
)

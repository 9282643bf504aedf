"""What the theory of the simplest attention says about real architectures (needs torch)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.task import Task
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.reproduction import claim
from sparsetoken.simulation.architectures.models import ARCHITECTURES
from sparsetoken.simulation.architectures.training import best_device, train_architecture
from sparsetoken.studies.cells import Cell, grid
from sparsetoken.studies.oracles import OracleCell
from sparsetoken.studies.questions import Question


class _Size(NamedTuple):
    samples: tuple[float, ...]  # per dimension, of the architectures
    curve: tuple[float, ...]  # and of the exact curves
    dim: int
    repeats: int


_CURVE = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
_SIZES = {
    "tiny": _Size((2.0, 8.0), (2.0, 8.0), 20, 3),
    "quick": _Size((2.0, 4.0, 8.0, 16.0), _CURVE[::2], 40, 4),
    "full": _Size((2.0, 4.0, 8.0, 16.0, 32.0), _CURVE, 100, 8),
}
_ON_GPU = 500  # dimension of "full" where torch sees a GPU
_RIDGES, _LINEAR_RIDGES = [1e-3, 1e-2, 3e-2], [1e-2, 1e-1, 1.0]
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
_X = "all samples per dimension  $n/d$"


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
        own = asdict(self)
        return {"kind": "architecture", "classifier": own.pop("name"), **own.pop("task"), **own}

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """Train and test; the standard error is that of the mean over repeats."""
        trained = train_architecture(**vars(self))
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


class Architectures(claim.Claim):
    source = "Beyond the paper's protocol"
    sentence = (
        "Attention trained end to end by Adam ends near the exact curve of the four-stage "
        "protocol; an MLP on the mean stays with linear pooling and a flat MLP far above."
    )
    panels = tuple(
        Panel(name, _X, label, log="xy", legend=False)
        for name, label in ((_ERRORS, "test error"), (_TIMES, "times the exact error"))
    )
    needs = "torch"

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        ridges, linear = (", ".join(f"{x:g}" for x in tried) for tried in (_RIDGES, _LINEAR_RIDGES))
        return {
            "": f"{claim.setting(claim.PAPER)}; logistic loss, n/d = {claim.span(_CURVE)}; exact "
            f"attention: a third of the samples for the query, the best λ of {ridges}; exact "
            f"linear ones: of {linear}"
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Test error against all samples: six architectures, three exact curves, two floors."""
        size, device = _SIZES[scale.name], best_device()
        dim = _ON_GPU if scale.name == "full" and device != "cpu" else size.dim
        longest_first = sorted(ARCHITECTURES, key=lambda name: name != "two layers")
        cells = [
            ArchitectureCell(
                claim.PAPER, name, dim, round(x * dim), size.repeats, scale.seed, device
            )
            for name in longest_first
            for x in reversed(size.samples)
        ]  # fmt: skip
        trained = ask(cells).assign(x=lambda table: table.samples / table.dim).sort_values("x")
        exact = _exact(size.curve, ask)
        for name, series in _EXACT.items():
            yield claim.rows(_ERRORS, series, exact.index, theory=exact[name])
        ends = [min(exact.index), max(exact.index)]
        for series, classifier in ((_BAYES, None), (_POOLED_FLOOR, Pooled())):
            (floor,) = ask([OracleCell(claim.PAPER, classifier)]).itertuples()
            best, error = floor.best_error, floor.standard_error
            yield claim.rows(_ERRORS, series, ends, theory=best, theory_error=error)
        ends = [min(trained.x), max(trained.x)]
        yield claim.rows(_TIMES, "reference: the exact curve", ends, theory=1.0)
        for name in ARCHITECTURES:
            own = trained[trained.classifier == name]
            same = {"repeats": own.repeats, "dim": own.dim, "features": own.weights}
            mean, error = own.test_error, own.standard_error
            yield claim.rows(_ERRORS, name, own.x, simulation=mean, simulation_error=error, **same)
            yield claim.rows(_LOWEST, name, own.x, simulation=own.lowest, **same)
            yield claim.rows(_HIGHEST, name, own.x, simulation=own.highest, **same)
            if name in (*_ATTENTION, "two layers"):
                curve = own.x.map(exact.attention)
                times = {"simulation": mean / curve, "simulation_error": error / curve}
                yield claim.rows(_TIMES, name, own.x, **times, **same)

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """Floors; simple attention at the theory, an MLP on the mean at pooling, a flat one off."""
        errors = claim.part(table, _ERRORS)
        theory = claim.wide(errors, "theory", [*_EXACT.values(), _BAYES, _POOLED_FLOOR])
        floor, linear = theory[_BAYES].dropna().iloc[0], theory[_POOLED_FLOOR].dropna().iloc[0]
        dots = errors.dropna(subset=["simulation"])
        names = [name for name in ARCHITECTURES if name in set(dots.series)]
        mean, sem = (claim.wide(dots, name, names) for name in ("simulation", "simulation_error"))
        most = float(mean.index.max())
        below = (mean - floor) / sem
        yield claim.Check(
            "no architecture beats the Bayes test",
            f"at least {floor:.4f}",
            f"{mean.min(axis=None):.4f} the smallest; {below.min(axis=None):+.1f} "
            "standard errors from the floor the nearest",
            "every mean ≥ Bayes error − 4 standard errors",
            claim.graded(-4 - below),
        )
        for name, curve, least in (
            ("simple attention", _EXACT["attention"], 2 / 3),  # Bayes is 0.7 of it
            ("mean and MLP", _EXACT["pooled"], 0.8),
        ):
            exact = theory[curve][most]
            ratio, error = mean[name][most] / exact, sem[name][most] / exact
            yield claim.Check(
                f"{name}, end to end, against “{curve}”",
                f"about {exact:.4f} at {most:g} samples per dimension",
                f"{ratio:.2f} ± {error:.2f} times it",
                f"between {least:.2f} and {_ABOVE:g} times it (inconclusive if outside by less "
                "than 4 standard errors)",
                claim.graded(max(ratio - _ABOVE, least - ratio), 4 * error),
            )
        pooled = theory[_EXACT["pooled"]][most]
        for name in _ATTENTION:
            error, doubt = mean[name][most], sem[name][most]
            yield claim.Check(
                f"{name} leaves linear pooling behind",
                f"far below {pooled:.3f}, the exact error of pooled",
                f"{error:.4f} ± {doubt:.4f} at {most:g} samples per dimension",
                "below half the exact error of pooled (inconclusive within 4 standard errors)",
                claim.beyond(pooled / 2 - error, doubt),
            )
        yield claim.Check(
            "an MLP on the mean cannot beat the best linear readout of it",
            f"at least {linear:.4f}",
            f"{mean['mean and MLP'].min():.4f} the smallest",
            "every mean ≥ best error on the mean − 4 standard errors",
            claim.graded(-4 - (mean["mean and MLP"] - linear) / sem["mean and MLP"]),
        )
        gap = mean["flat MLP"] - mean["simple attention"]
        yield claim.Check(
            "a flat MLP does not find out that tokens are alike",
            "worse than simple attention",
            f"{gap.min():.3f} to {gap.max():.3f} worse",
            "flat MLP − simple attention > 0 at every number of samples (inconclusive within 4 "
            "standard errors)",
            claim.beyond(gap, np.hypot(sem["flat MLP"], sem["simple attention"])),
        )
        yield (
            "All architectures: Adam, logistic loss, the same n samples, a fifth of them held out "
            "for ridge and epoch. The exact curves: a third of the n samples for the query, the "
            "best of three ridges."
        )
        yield from _remarks(table, mean, theory[_EXACT["attention"]].dropna())


def _exact(totals: tuple[float, ...], ask: claim.Ask) -> claim.Table:
    """Test errors with the best of a few ridges: a row for each number of samples.

    Attention gives a third of the samples to its query, as in `training`.
    """
    same = {"task": claim.PAPER, "query_samples": 1.0}
    linear = {**same, "classifier": [Pooled(), Vectorized()], "ridge": _LINEAR_RIDGES}
    cells: list[Cell] = []
    for total in totals:
        split = {**same, "query_samples": total / 3, "readout_samples": 2 * total / 3}
        cells += grid(classifier=Attention(), ridge=_RIDGES, **split)
        cells += grid(readout_samples=total, **linear)
    answers = ask(cells)
    share = np.where(answers.classifier == "attention", 1.5, 1.0)  # all samples a readout sample
    answers = answers.assign(total=(share * answers.readout_samples).round(9))
    return answers.pivot_table("test_error", "total", "classifier", aggfunc="min")


def _remarks(table: claim.Table, mean: claim.Table, curve: claim.Table) -> Iterator[str]:
    """Beside the exact curve of attention."""
    for name in mean:
        errors = mean[name].dropna()
        ratios = ", ".join(f"{errors[x] / curve[x]:.2f}" for x in errors.index)
        places = ", ".join(f"{x:g}" for x in errors.index)
        lowest, highest = (
            claim.part(table, panel, name).set_index("x").simulation[errors.index[-1]]
            for panel in (_LOWEST, _HIGHEST)
        )
        yield (
            f"{name}: {ratios} times the exact four-stage error at {places} samples per dimension; "
            f"{_worth(curve, errors)}. Runs from {lowest:.4f} to {highest:.4f} there."
        )
    sizes = claim.part(table, _LOWEST).groupby("series", sort=False).features.first()
    yield f"Parameters: {'; '.join(f'{name} {size:.0f}' for name, size in sizes.items())}."


def _worth(curve: claim.Table, errors: claim.Table) -> str:
    """With how many samples the exact curve has the last error of an architecture."""
    most, error = errors.index[-1], errors.iloc[-1]
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

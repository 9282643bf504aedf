"""What any learner can do with n samples: the floor, who reaches it, and where nobody fast does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.oracles.bayes_learning import bayes_curve, hard_phase, message_passing_rounds
from sparsetoken.reproduction import claim
from sparsetoken.simulation.message_passing import MessagePassing
from sparsetoken.studies.cells import Cell
from sparsetoken.studies.learners import LearnerCell

_ROUND = "cosine, round by round"
_ERROR = "test error"
_HARD = "cosine where learning is hard"
_TASKS = {  # off their hard phases, with their samples per dimension
    "L = 10, R = 1": (claim.PAPER, 1.0),
    "L = 20, R = 3": (Task(20, 3, 2.5, prevalence=0.4), 1.0),
    "L = 60, R = 2": (Task(60, 2, 3.5, prevalence=0.3), 1.5),
}
_ROUNDS = 6
_MOST_SIMULATED = 4.0  # samples per dimension with attention: more take long and say the same
_LINE = np.geomspace(0.25, 64, 33)
_RARE = Task(100, 1, 4.0, prevalence=0.3)
_AROUND = (0.25, 0.46, 0.9)  # samples before, in and after its hard phase
_LONG = 15  # rounds there
_UNFINISHED = 0.02  # what more rounds would change outside the phase, at most
_BEST, _FAST = "best possible; from the truth", "message passing, from the class mean"


class _Size(NamedTuple):
    samples: tuple[float, ...]  # per dimension, at which classifiers are tried
    shares: tuple[float, ...]  # of them for attention's query
    ridges: tuple[float, ...]
    wider: int  # than the scale's own dimension, for the hard phase


_SIZES = {  # by scale
    "tiny": _Size((1.0, 8.0), (0.3,), (1e-2,), 8),
    "quick": _Size((1.0, 4.0, 16.0, 64.0), (0.2, 0.5), (1e-2, 1e-1), 8),
    "full": _Size(
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0),
        (0.1, 0.25, 0.5),
        (1e-3, 1e-2, 0.1, 1.0),
        8,
    ),
}


class Learning(claim.Claim):
    source = "section 11 of docs/theory.md"
    sentence = (
        "No learner does better than the Bayes curve; message passing follows its equation round "
        "by round and reaches the curve within a few, but for a hard phase; attention, pooling and "
        "all tokens side by side need many times the samples."
    )
    panels = (
        Panel(_ROUND, "round", "cosine of direction and signal"),
        Panel(_ERROR, "samples per dimension  $n/d$", "test error", log="xy"),
        Panel(_HARD, "samples per dimension  $n/d$", "cosine of direction and signal"),
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        around = ", ".join(f"{x:g}" for x in _AROUND)
        return {
            _ROUND: "; ".join(
                f"{claim.setting(task)}, n/d = {samples:g}" for task, samples in _TASKS.values()
            ),
            _ERROR: f"{claim.setting(claim.PAPER)}; classifiers with logistic loss, the best of "
            "several ridges and splits at every number of samples",
            _HARD: f"{claim.setting(_RARE)}; dots at n/d = {around}",
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Rounds of three tasks; errors of all classifiers; both branches of a hard task."""
        yield from _by_rounds(scale, ask)
        yield from _errors(scale, ask)
        yield from _branches(scale, ask)

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """Dots on their lines, nothing below the floor, both branches where they should be."""
        yield from claim.agreement(claim.part(table, _ROUND), "message passing, cosines")
        errors = claim.part(table, _ERROR)
        yield from claim.agreement(errors[errors.simulation.notna()], "test errors")
        yield _nothing_below(errors)
        yield _above(errors)
        yield _two_branches(claim.part(table, _HARD))
        yield from _remarks(errors)


def _by_rounds(scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
    cells = {
        name: LearnerCell(
            task, samples, scale.dim, MessagePassing(_ROUNDS), scale.repeats, scale.seed
        )
        for name, (task, samples) in _TASKS.items()
    }
    answers = ask(list(cells.values()))
    for name, (task, samples) in _TASKS.items():
        theory = message_passing_rounds(task, samples, _ROUNDS)
        own = claim.of(answers, [cells[name]])
        cosines = own[[f"cosine_{i}" for i in range(1, _ROUNDS + 1)]]
        yield claim.rows(
            _ROUND,
            name,
            np.arange(1, _ROUNDS + 1),
            theory=[learner.cosine for learner in theory],
            theory_error=[learner.cosine.standard_error for learner in theory],
            **_dots(cosines.mean(), cosines.sem(), scale.repeats, scale.dim),
        )


def _errors(scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
    """Of the best setting of each classifier, in theory and simulated as it stands."""
    task, size = claim.PAPER, _SIZES[scale.name]
    curve = bayes_curve(task, np.union1d(_LINE, size.samples).tolist())
    doubts = [point.test_error.standard_error for point in curve]
    yield claim.rows(_ERROR, "bayes", curve.samples, theory=curve.test_error, theory_error=doubts)
    learned = {
        samples: LearnerCell(task, samples, scale.dim, repeats=scale.repeats, seed=scale.seed)
        for samples in size.samples
    }
    tried = {
        (name, samples): [
            Cell(task, classifier, protocol)
            for protocol in _protocols(classifier.learns_query, samples, size)
        ]
        for name, classifier in claim.THREE.items()
        for samples in size.samples
    }
    answers = ask([cell for cells in tried.values() for cell in cells])
    best = {}
    for key, cells in tried.items():
        own = [float(claim.of(answers, [cell]).test_error.iloc[0]) for cell in cells]
        best[key] = cells[int(np.argmin(own))], min(own)
    finite = claim.finite(scale)
    simulated = {
        key: replace(cell, **finite)
        for key, (cell, _) in best.items()
        if key[0] == "attention" and key[1] <= _MOST_SIMULATED
    }
    runs = ask([*learned.values(), *simulated.values()])
    for samples, cell in learned.items():
        floor = bayes_curve(task, [samples]).reachable[0].test_error
        errors = claim.of(runs, [cell]).test_error
        dots = _dots([errors.mean()], [errors.sem()], scale.repeats, scale.dim)
        doubt = floor.standard_error
        yield claim.rows(
            _ERROR, "message passing", samples, theory=floor, theory_error=doubt, **dots
        )
    for key, (_, error) in best.items():
        dots = {}
        if key in simulated:
            errors = claim.of(runs, [simulated[key]]).test_error
            dots = _dots([errors.mean()], [errors.sem()], scale.repeats, scale.dim)
        yield claim.rows(_ERROR, key[0], key[1], theory=error, **dots)


def _protocols(learns_query: bool, samples: float, size: _Size) -> Iterator[Protocol]:
    """All ways to spend the samples that are tried."""
    for ridge in size.ridges:
        for share in size.shares if learns_query else (0.0,):
            query = share * samples if learns_query else 1.0  # which is not used
            yield Protocol(query, readout_samples=(1 - share) * samples, ridge=ridge)


def _branches(scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
    phase = hard_phase(_RARE)
    assert phase is not None and _AROUND[0] < phase.begin < _AROUND[1] < phase.end < _AROUND[2]
    starts = {_BEST: 1.0, _FAST: 0.0}
    dim = _SIZES[scale.name].wider * scale.dim
    cells = {
        (series, samples): LearnerCell(
            _RARE, samples, dim, MessagePassing(_LONG, start), scale.repeats, scale.seed
        )
        for series, start in starts.items()
        for samples in _AROUND
    }
    answers = ask(list(cells.values()))
    grid = np.union1d(np.linspace(0.2, 1.0, 41), _AROUND)
    curve = bayes_curve(_RARE, grid.tolist())
    for series, branch in ((_BEST, curve), (_FAST, curve.reachable)):
        means, errors = np.full((2, len(grid)), np.nan)
        for samples in _AROUND:
            cosine = claim.of(answers, [cells[series, samples]]).cosine
            means[grid == samples], errors[grid == samples] = cosine.mean(), cosine.sem()
        dots = _dots(means, errors, scale.repeats, dim)
        yield claim.rows(_HARD, series, grid, theory=branch.cosine, **dots)


def _dots(
    means: Sequence[float] | np.ndarray,
    errors: Sequence[float] | np.ndarray,
    repeats: int,
    dim: int,
) -> dict[str, object]:
    """Columns of simulated means."""
    return {
        "simulation": np.asarray(means, dtype=float),
        "simulation_error": np.asarray(errors, dtype=float),
        "repeats": repeats,
        "dim": float(dim),
        "features": float(dim),
    }


def _nothing_below(errors: claim.Table) -> claim.Check:
    others = errors[errors.series != "bayes"]
    floor = claim.part(errors, _ERROR, "bayes").set_index("x").theory
    under = floor.reindex(others.x).to_numpy()
    exact = under - others.theory.to_numpy() - 4 * others.theory_error.fillna(0).to_numpy()
    allowed = 3 * others.simulation_error + 3 / others.dim
    drawn = (under - others.simulation - allowed).dropna().to_numpy()
    excess = np.concatenate([exact - 1e-9, drawn])
    return claim.Check(
        "the Bayes curve",
        "nobody is below it",
        f"{int((excess > 0).sum())} of {len(excess)} numbers below",
        "theory ≥ floor up to 4 standard errors; simulations ≥ floor − 3 standard errors − 3/dim",
        claim.graded(excess),
    )


def _above(errors: claim.Table) -> claim.Check:
    """Attention beside the floor, at the fewest samples and at the most."""
    wide = claim.wide(errors, "theory", ["bayes", "attention"]).dropna()
    ratio = wide.attention / wide.bayes
    first = float(wide.index[0])
    return claim.Check(
        "attention's distance from the floor",
        "well above at few samples, nearer at many",
        f"{ratio.iloc[0]:.2f} times the floor at n/d = {first:g}, {ratio.iloc[-1]:.2f} times at "
        f"{wide.index[-1]:g}",
        "above 1.5 times the floor at the fewest samples, and farther than at the most",
        claim.decide(len(ratio) > 1 and ratio.iloc[0] > max(1.5, ratio.iloc[-1])),
    )


def _two_branches(table: claim.Table) -> claim.Check:
    branches = {name: claim.part(table, _HARD, name).set_index("x") for name in (_BEST, _FAST)}
    excess, grey, measured = [], [], []
    for series, other in ((_FAST, _BEST), (_BEST, _FAST)):
        for samples, row in branches[series].dropna(subset=["simulation"]).iterrows():
            beside = branches[other].theory[samples]
            hard = abs(row.theory - beside) > 1e-6
            gap, doubt = abs(row.simulation - row.theory), row.simulation_error
            if hard:
                excess.append(gap - abs(row.simulation - beside) + 4 * doubt)
            else:
                excess.append(gap - 4 * doubt - 30 / row.dim - _UNFINISHED)
            grey.append(8 * doubt if hard else 0.0)
            measured.append(f"{series}, n/d = {samples:g}: {row.simulation:.2f}")
    return claim.Check(
        "hard phase",
        "message passing stays at the solution on its side; outside there is one",
        "; ".join(measured),
        "in the phase nearer to its own branch than to the other by 4 standard errors; outside "
        f"within 4 standard errors + 30/dim + {_UNFINISHED} (rounds that are left) of the only one",
        claim.graded(excess, grey),
    )


def _remarks(errors: claim.Table) -> Iterator[str]:
    wide = claim.wide(errors, "theory", ["bayes", "attention"])
    own = wide.attention.dropna()
    if 1.0 not in wide.index or len(own) < 2:
        return
    floor = float(wide.bayes[1.0])
    words = f"with none of the numbers of samples tried, up to {own.index[-1]:g}"
    if own.min() <= floor < own.max():
        logs = np.log(own.to_numpy())[::-1], np.log(own.index.to_numpy(float))[::-1]
        words = (
            f"with about {math.exp(np.interp(math.log(floor), *logs)):.0f} samples per dimension"
        )
    yield (
        f"One sample per dimension allows an error of {floor:.4f}. Attention, at its best split "
        f"and ridge of those tried, has {own.get(1.0, math.nan):.4f} there, and the floor's error "
        f"{words}."
    )

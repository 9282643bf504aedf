"""Attention does not always win: a query that points elsewhere is worse than none."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq

from sparsetoken.figures import Panel
from sparsetoken.model.attention import white_pooling
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.losses import Logistic
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import grid
from sparsetoken.theory.asymptotics import solve

_COSINES = [round(0.1 * i, 1) for i in range(11)]
_DOTS = (0.1, 0.4, 0.7, 1.0)
_SHARPNESSES = (0.5, 1.0, 4.0)
_SAMPLES = 20.0  # per dimension, of the simulated panel
_LIMIT, _FINITE = "limit of many samples", f"{_SAMPLES:g} samples per dimension"
_CRITICAL = "critical cosine"
_CLOUDS = 4
_ROUGH, _FINE = 1 << 12, 1 << 14  # points of a class, to know where to look, and of each cloud
_X = "cosine of query and signal  $s$"


class Crossover(claim.Claim):
    source = "Consequence of Theorems 4 and 5"
    sentence = (
        "Attention wins over linear pooling only if its query is aligned beyond a critical cosine."
    )
    panels = (Panel(_LIMIT, _X, "test error"), Panel(_FINITE, _X, "test error"))

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        return {
            panel: claim.setting(
                claim.PAPER, Protocol(ridge=claim.RIDGE), False, readout_samples=f"{samples:g}"
            )
            + f"; attention's query frozen at sharpness {', '.join(f'{x:g}' for x in _SHARPNESSES)}"
            for panel, samples in {_LIMIT: math.inf, _FINITE: _SAMPLES}.items()
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Errors of frozen queries against their cosine, and where they equal the linear one."""
        panels = {_LIMIT: math.inf, _FINITE: _SAMPLES}
        same = {"task": claim.PAPER, "ridge": claim.RIDGE}
        cosines = sorted({*scale.thinned(_COSINES), *_DOTS})
        frozen = [Attention(cosine, tau) for tau in _SHARPNESSES for cosine in cosines]
        some = [Attention(cosine, tau) for tau in _SHARPNESSES for cosine in _DOTS]
        dots = {**same, "readout_samples": _SAMPLES, **claim.finite(scale, scale.dim // 5)}
        answers = ask(
            grid(classifier=[Pooled(), *frozen], readout_samples=list(panels.values()), **same)
            + grid(classifier=some, **dots)
        )
        marks = []
        for panel, samples in panels.items():
            here = answers[answers.readout_samples == samples]
            linear = float(here[here.classifier == "pooled"].test_error.iloc[0])
            yield claim.rows(panel, "pooled", [0.0, 1.0], theory=linear)
            for tau in _SHARPNESSES:
                series = f"attention, sharpness {tau:g}"
                own = here[here.frozen_sharpness == tau]
                errors = claim.compare(panel, series, own, "frozen_cosine", "test_error")
                yield errors
                if panel == _LIMIT:
                    place, doubt = critical_cosine(tau, linear, errors)
                    yield claim.rows(_CRITICAL, series, tau, theory=place, theory_error=doubt)
                    marks += [(place, 0.0), (place, linear), (math.nan, math.nan)]
            if panel == _LIMIT:
                x, y = np.array(marks).T
                yield claim.rows(panel, "reference: critical cosine", x, theory=y)

    def check(self, table: claim.Table) -> Iterator[claim.Check]:
        """Above its critical cosine attention wins, below it it loses."""
        linear = float(claim.part(table, _LIMIT, "pooled").theory.iloc[0])
        for row in claim.part(table, _CRITICAL).itertuples():
            errors = claim.part(table, _LIMIT, row.series).set_index("x").theory
            ends = f"error {errors.iloc[0]:.3f} at cosine 0, {errors.iloc[-1]:.3f} at 1"
            verdict: claim.Verdict = "fails"
            measured = f"no crossing ({ends})"
            if row.theory == row.theory:
                lower, upper = errors[errors.index < row.theory], errors[errors.index > row.theory]
                certain = 4 * row.theory_error < min(row.theory, 1 - row.theory)
                right = claim.decide((lower > linear).all() and (upper < linear).all())
                verdict = right if certain else "inconclusive"
                measured = f"critical cosine {row.theory:.5f} ± {row.theory_error:.5f}; {ends}"
            yield claim.Check(
                row.series,
                f"loses to the linear limit {linear:.4f} at small cosines, wins at large ones",
                measured,
                "above it at every cosine below the critical one, below it at every one above; "
                "the critical cosine is 4 standard errors from 0 and 1",
                verdict,
            )
        some = claim.part(table, _FINITE)
        what = f"finite experiments, {_SAMPLES:g} samples per dimension"
        yield from claim.agreement(some[some.series != "pooled"], what)


def critical_cosine(sharpness: float, linear: float, known: claim.Table) -> tuple[float, float]:
    """Where attention's limit error equals the linear one; NaN if nowhere between 0 and 1.

    `known` has errors at some cosines. The root on a small cloud of token noise, moved on four
    larger ones by one step of Newton's method; the mean over these and its standard error.
    """

    def gap(cosine: float, seed: int, points: int) -> float:
        law = white_pooling(claim.PAPER, cosine, sharpness).law(seed, points)
        fit = solve(law, Logistic(), claim.RIDGE, math.inf)
        return float(law.scores(fit.readout).test_error) - linear

    cosines, errors = known.x.to_numpy(), known.theory.to_numpy()
    wins = errors < linear
    if wins[0] or not wins[-1]:
        return math.nan, math.nan
    first = int(np.argmax(wins))
    low, high = cosines[first - 1], cosines[first]
    root = float(brentq(gap, low, high, args=(0, _ROUGH), xtol=1e-3))
    slope = (errors[first] - errors[first - 1]) / (high - low)
    roots = [root - gap(root, seed, _FINE) / slope for seed in range(_CLOUDS)]
    return float(np.mean(roots)), float(np.std(roots, ddof=1) / math.sqrt(_CLOUDS))

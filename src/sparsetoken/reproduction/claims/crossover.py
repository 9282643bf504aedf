"""Attention does not always win: a query that points elsewhere is worse than none."""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.attention import attention_law
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.losses import Logistic
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


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Errors of frozen queries against their cosine, and where they equal the linear one."""
    panels = {_LIMIT: math.inf, _FINITE: _SAMPLES}
    same = {"task": claim.PAPER, "ridge": claim.RIDGE}
    cosines = sorted({*scale.thinned(_COSINES), *_DOTS})
    frozen = [Attention(c, sharpness) for sharpness in _SHARPNESSES for c in cosines]
    some = [Attention(c, sharpness) for sharpness in _SHARPNESSES for c in _DOTS]
    answers = ask(
        grid(classifier=[Pooled(), *frozen], readout_samples=list(panels.values()), **same)
        + grid(
            classifier=some,
            readout_samples=_SAMPLES,
            **same,
            **claim.finite(scale, scale.dim // 5),
        )
    )
    parts, marks = [], []
    for panel, samples in panels.items():
        here = answers[answers.readout_samples == samples]
        linear = float(here[here.classifier == "pooled"].test_error.iloc[0])
        parts.append(claim.rows(panel, "pooled", [0.0, 1.0], theory=linear))
        for sharpness in _SHARPNESSES:
            series = f"attention, sharpness {sharpness:g}"
            mine = here[here.frozen_sharpness == sharpness]
            parts.append(claim.compare(panel, series, mine, "frozen_cosine", "test_error"))
            if panel == _LIMIT:
                where, error = critical_cosine(sharpness, linear, parts[-1])
                parts.append(
                    claim.rows(_CRITICAL, series, sharpness, theory=where, theory_error=error)
                )
                marks += [(where, 0.0), (where, linear), (math.nan, math.nan)]
        if panel == _LIMIT:
            x, y = np.array(marks).T
            parts.append(claim.rows(panel, "reference: critical cosine", x, theory=y))
    return claim.collect(parts)


def critical_cosine(sharpness: float, linear: float, known: claim.Table) -> tuple[float, float]:
    """Where attention's limit error equals the linear one; NaN if nowhere between 0 and 1.

    `known` has errors at some cosines. The root on a small cloud of token noise, moved on four
    larger ones by one step of Newton's method; the mean over these and its standard error.
    """
    from scipy.optimize import brentq

    def gap(cosine: float, seed: int, points: int) -> float:
        law = attention_law(claim.PAPER, cosine, sharpness, seed=seed, points=points)
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


def judge(table: claim.Table) -> claim.Judgement:
    """Above its critical cosine attention wins, below it it loses."""
    checks = []
    limit = table[table.panel == _LIMIT]
    linear = float(limit[limit.series == "pooled"].theory.iloc[0])
    for row in table[table.panel == _CRITICAL].itertuples():
        errors = limit[limit.series == row.series].set_index("x").theory
        ends = f"error {errors.iloc[0]:.3f} at cosine 0, {errors.iloc[-1]:.3f} at 1"
        verdict: claim.Verdict = "fails"
        measured = f"no crossing ({ends})"
        if row.theory == row.theory:
            lower, upper = (errors[errors.index < row.theory], errors[errors.index > row.theory])
            right = bool((lower > linear).all() and (upper < linear).all())
            certain = 4 * row.theory_error < min(row.theory, 1 - row.theory)
            verdict = ("holds" if right else "fails") if certain else "inconclusive"
            measured = f"critical cosine {row.theory:.5f} ± {row.theory_error:.5f}; {ends}"
        checks.append(
            claim.Check(
                row.series,
                f"loses to the linear limit {linear:.4f} at small cosines, wins at large ones",
                measured,
                "above it at every cosine below the critical one, below it at every one above; "
                "the critical cosine is 4 standard errors from 0 and 1",
                verdict,
            )
        )
    some = table[(table.panel == _FINITE) & (table.series != "pooled")]
    checks += claim.agreement(some, f"finite experiments, {_SAMPLES:g} samples per dimension")
    return claim.Judgement(checks)


_X = "cosine of query and signal  $s$"
CLAIM = claim.Claim(
    "crossover",
    "Consequence of Theorems 4 and 5",
    "Attention wins over linear pooling only if its query is aligned beyond a critical cosine.",
    compute,
    judge,
    [Panel(_LIMIT, _X, "test error"), Panel(_FINITE, _X, "test error")],
)

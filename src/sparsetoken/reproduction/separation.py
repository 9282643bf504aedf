"""Proposition 1, Theorems 1 and 2: what is possible at all, and how it grows with the length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.reproduction.claims import (
    PAPER,
    Ask,
    Check,
    Claim,
    Judgement,
    Scale,
    Table,
    collect,
    decide,
    rows,
    slope,
)
from sparsetoken.studies.oracles import OracleCell

_SERIES: dict[str, Classifier | None] = {
    "attention": Attention(),
    "vectorized": Vectorized(),
    "pooled": Pooled(),
    "bayes": None,
}
_SHOWN = (10, 1000, 10**6)  # lengths whose errors are drawn
_LENGTHS = (10, 100, 1000, 10**4, 10**5, 10**6)
_NEEDED, _PER_LOG = "strength for 1 % error", "attention: strength / log L"


def compute(scale: Scale, ask: Ask) -> Table:
    """Oracle errors against strength, and the strength for an error of 1 % against length."""
    lengths = [each for each in _LENGTHS if each <= scale.longest]
    strengths = np.linspace(1, 8, scale.strengths).tolist()
    cells: list[OracleCell] = []
    for classifier in _SERIES.values():
        for length in lengths:
            at = replace(PAPER, length=length)
            cells.append(OracleCell(at, classifier, target=0.01, seed=scale.seed))
            if length in _SHOWN:
                cells += [
                    OracleCell(replace(at, strength=each), classifier, seed=scale.seed)
                    for each in strengths
                ]
    answers = ask(cells)
    parts = []
    for name in _SERIES:
        mine = answers[answers.classifier == name]
        for length in (each for each in _SHOWN if each <= scale.longest):
            errors = mine[(mine.length == length) & mine.best_error.notna()]
            parts.append(
                rows(
                    _errors(length), name, errors.strength.to_numpy(),
                    theory=errors.best_error.to_numpy(),
                    theory_error=errors.standard_error.to_numpy(),
                )
            )  # fmt: skip
        needed = mine[mine.strength_needed.notna()]
        at, strength = needed.length.to_numpy(), needed.strength_needed.to_numpy()
        error = needed.standard_error.to_numpy()
        parts.append(rows(_NEEDED, name, at, theory=strength, theory_error=error))
        if name == "attention":
            logs = np.log(at)
            values = {"theory": strength / logs, "theory_error": error / logs}
            parts.append(rows(_PER_LOG, name, at, **values))
    return collect(parts)


def _errors(length: int) -> str:
    return f"best possible error at L = {length:,}".replace(",", " ")


def judge(table: Table) -> Judgement:
    """√L for linear classifiers, at most log L for attention, Bayes below all."""
    needed = table[table.panel == _NEEDED].pivot(index="x", columns="series")
    strength, error = needed["theory"], needed["theory_error"].fillna(0.0)
    checks = [
        slope(strength.index, strength[name], 0.5, f"strength needed against length, {name}")
        for name in ("pooled", "vectorized")
    ]
    per_log = table[table.panel == _PER_LOG].sort_values("x")
    steps, spread = np.diff(per_log.theory), per_log.theory_error.fillna(0.0).to_numpy()
    noise = 4 * np.hypot(spread[1:], spread[:-1])
    checks.append(
        Check(
            "strength needed by attention",
            "of order log L at most",
            "strength / log L falls from "
            f"{per_log.theory.iloc[0]:.2f} to {per_log.theory.iloc[-1]:.2f}",
            "falls from each length to the next, beyond 4 standard errors",
            decide(bool((steps < -noise).all())),
        )
    )
    errors = table[table.panel.str.startswith("best")]
    by = errors.pivot(index=["panel", "x"], columns="series")
    doubt = by["theory_error"].fillna(0.0)
    margins = []
    for name in ("attention", "vectorized", "pooled"):
        allowed = 4 * np.hypot(doubt["bayes"], doubt[name])
        margins.append(float((by["theory"]["bayes"] - by["theory"][name] - allowed).max()))
    checks.append(
        Check(
            "Bayes error",
            "no classifier is below it",
            f"Bayes − classifier is at most {max(margins):.1e} beyond 4 standard errors",
            "Bayes ≤ every classifier + 4 standard errors, everywhere",
            decide(max(margins) <= 1e-12),
        )
    )
    ratio = strength["attention"] / strength["bayes"]
    sure = ratio * np.hypot(error["attention"] / strength["attention"], error["bayes"])
    remark = (
        "Attention at its best sharpness needs "
        f"{ratio.min():.3f} to {ratio.max():.3f} times the strength that the likelihood-ratio test "
        f"needs for an error of 1 % (standard errors at most {float(sure.max()):.3f})."
    )
    return Judgement(checks, [remark])


_THETA = "strength  $\\theta$"
CLAIM = Claim(
    "separation",
    "Proposition 1, Theorems 1 and 2",
    "A linear classifier needs a signal of strength √L, attention one of at most log L.",
    compute,
    judge,
    [
        *(Panel(_errors(length), _THETA, "error", log="y", low=1e-4) for length in _SHOWN),
        Panel(_NEEDED, "length  $L$", _THETA, log="xy"),
    ],
)

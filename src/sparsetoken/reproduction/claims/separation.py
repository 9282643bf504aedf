"""Proposition 1, Theorems 1 and 2: what is possible at all, and how it grows with the length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.reproduction import claim
from sparsetoken.studies.oracles import OracleCell

_SERIES: dict[str, Classifier | None] = {
    "attention": Attention(),
    "vectorized": Vectorized(),
    "pooled": Pooled(),
    "bayes": None,
}
_SHOWN = (10, 1000, 10**6)  # lengths whose errors are drawn
_LENGTHS = (10, 100, 1000, 10**4, 10**5, 10**6)
_NEEDED = "strength for 1 % error"


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Oracle errors against strength, and the strength for an error of 1 % against length."""
    lengths = [each for each in _LENGTHS if each <= scale.longest]
    strengths = np.linspace(1, 8, scale.strengths).tolist()
    cells: list[OracleCell] = []
    for classifier in _SERIES.values():
        for length in lengths:
            at = replace(claim.PAPER, length=length)
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
                claim.rows(
                    _errors(length), name, errors.strength.to_numpy(),
                    theory=errors.best_error.to_numpy(),
                    theory_error=errors.standard_error.to_numpy(),
                )
            )  # fmt: skip
        needed = mine[mine.strength_needed.notna()]
        at, strength = needed.length.to_numpy(), needed.strength_needed.to_numpy()
        error = needed.standard_error.to_numpy()
        parts.append(claim.rows(_NEEDED, name, at, theory=strength, theory_error=error))
        if name in ("attention", "pooled"):
            growth = np.log(at) if name == "attention" else np.sqrt(at)
            label = "reference: ∝ log L" if name == "attention" else "reference: ∝ √L"
            parts.append(
                claim.rows(_NEEDED, label, at, theory=1.15 * strength[0] * growth / growth[0])
            )
    return claim.collect(parts)


def _errors(length: int) -> str:
    return f"best possible error at L = {length:,}".replace(",", " ")


def judge(table: claim.Table) -> claim.Judgement:
    """√L for linear classifiers, at most log L for attention, Bayes below all."""
    shown = table[table.series.isin(list(_SERIES))]
    needed = shown[shown.panel == _NEEDED].pivot(index="x", columns="series")
    strength, error = needed["theory"].reindex(columns=list(_SERIES)), needed["theory_error"]
    error = error.reindex(columns=list(_SERIES))
    checks = [
        claim.slope(strength.index, strength[name], 0.5, f"strength needed against length, {name}")
        for name in ("pooled", "vectorized")
    ]
    logs = np.log(strength.index.to_numpy())
    per_log, spread = (strength.attention / logs).to_numpy(), (error.attention / logs).to_numpy()
    falls = np.diff(per_log) / np.hypot(spread[1:], spread[:-1]).clip(1e-12)
    checks.append(
        claim.Check(
            "strength needed by attention",
            "of order log L at most",
            f"strength / log L goes from {per_log[0]:.2f} to {per_log[-1]:.2f}",
            "falls from each length to the next, beyond 4 standard errors",
            claim.decide(len(falls) > 0 and bool((falls < -4).all())),
        )
    )
    errors = shown[shown.panel != _NEEDED].pivot(index=["panel", "x"], columns="series")
    best = errors["theory"].reindex(columns=list(_SERIES))
    doubt = errors["theory_error"].reindex(columns=list(_SERIES))
    names = ["attention", "vectorized", "pooled"]
    above = best[names].sub(best.bayes, axis=0)
    allowed = 4 * np.hypot(doubt[names], doubt[["bayes"]].to_numpy())
    known = bool(best.notna().all().all() and doubt.notna().all().all())
    least = above.min(axis=None)
    checks.append(
        claim.Check(
            "Bayes error",
            "no classifier is below it",
            f"classifier − Bayes is at least {least:.1e}, with 4 standard errors "
            f"{allowed.to_numpy().max():.1e} at most",
            "Bayes ≤ every classifier + 4 standard errors, everywhere",
            claim.decide(known and bool((above >= -allowed - 1e-12).all().all())),
        )
    )
    ratio = strength.attention / strength.bayes
    sure = ratio * np.hypot(error.attention / strength.attention, error.bayes / strength.bayes)
    remark = (
        "Attention at its best sharpness needs "
        f"{ratio.min():.4f} to {ratio.max():.4f} times the strength that the likelihood-ratio test "
        f"needs for an error of 1 % (standard errors at most {float(sure.max()):.4f})."
    )
    return claim.Judgement(checks, [remark])


_THETA = "strength  $\\theta$"
CLAIM = claim.Claim(
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

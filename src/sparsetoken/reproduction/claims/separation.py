"""Proposition 1, Theorems 1 and 2: what is possible at all, and how it grows with the length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Classifier
from sparsetoken.reproduction import claim
from sparsetoken.studies.oracles import OracleCell

_SERIES: dict[str, Classifier | None] = {**claim.THREE, "bayes": None}
_SHOWN = {  # lengths whose errors are drawn
    length: f"best possible error at L = {length:,}".replace(",", " ")
    for length in (10, 1000, 10**6)
}
_LENGTHS = (10, 100, 1000, 10**4, 10**5, 10**6)
_NEEDED = "strength for 1 % error"
_GROWTH = {"attention": ("log L", np.log), "pooled": ("√L", np.sqrt)}
_ABOVE = 1.15  # times the line it is a reference for, so that both are seen
_THETA = "strength  $\\theta$"


class Separation(claim.Claim):
    source = "Proposition 1, Theorems 1 and 2"
    sentence = "A linear classifier needs a signal of strength √L, attention one of at most log L."
    panels = (
        *(Panel(panel, _THETA, "error", log="y", low=1e-4) for panel in _SHOWN.values()),
        Panel(_NEEDED, "length  $L$", _THETA, log="xy"),
    )

    def settings(self) -> dict[str, str]:
        """The tasks; the signal is known, nothing is trained."""
        needed = claim.setting(claim.PAPER, length=claim.span(_LENGTHS), strength="sought")
        return {
            **{
                panel: claim.setting(replace(claim.PAPER, length=length), strength="1 to 8")
                for length, panel in _SHOWN.items()
            },
            _NEEDED: f"{needed}; error 0.01",
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Oracle errors against strength, and the strength for an error of 1 % against length."""
        strengths = np.linspace(1, 8, scale.strengths).tolist()
        cells: list[OracleCell] = []
        for classifier in _SERIES.values():
            for length in (length for length in _LENGTHS if length <= scale.longest):
                task = replace(claim.PAPER, length=length)
                cells.append(OracleCell(task, classifier, target=0.01, seed=scale.seed))
                for strength in strengths if length in _SHOWN else ():
                    task = replace(task, strength=strength)
                    cells.append(OracleCell(task, classifier, seed=scale.seed))
        answers = ask(cells)
        for name in _SERIES:
            own = answers[answers.classifier == name]
            for length, panel in _SHOWN.items():
                errors = own[(own.length == length) & own.best_error.notna()]
                if length <= scale.longest:
                    yield claim.rows(
                        panel,
                        name,
                        errors.strength,
                        theory=errors.best_error,
                        theory_error=errors.standard_error,
                    )
            needed = own[own.strength_needed.notna()]
            at, strength = needed.length.to_numpy(), needed.strength_needed.to_numpy()
            yield claim.rows(_NEEDED, name, at, theory=strength, theory_error=needed.standard_error)
            if name in _GROWTH:
                words, growth = _GROWTH[name]
                line = _ABOVE * strength[0] * growth(at) / growth(at)[0]
                yield claim.rows(_NEEDED, f"reference: ∝ {words}", at, theory=line)

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """√L for linear classifiers, at most log L for attention, Bayes below all."""
        table = table[table.series.isin(list(_SERIES))]
        needed = table[table.panel == _NEEDED]
        strength, error = (
            claim.wide(needed, column, list(_SERIES)) for column in ("theory", "theory_error")
        )
        for name in ("pooled", "vectorized"):
            what = f"strength needed against length, {name}"
            yield claim.slope(strength.index, strength[name], 0.5, what)
        logs = np.log(strength.index.to_numpy())
        per_log, spread = (numbers.attention.to_numpy() / logs for numbers in (strength, error))
        falls = np.diff(per_log) / np.hypot(spread[1:], spread[:-1]).clip(1e-12)
        yield claim.Check(
            "strength needed by attention",
            "of order log L at most",
            f"strength / log L goes from {per_log[0]:.2f} to {per_log[-1]:.2f}",
            "falls from each length to the next, beyond 4 standard errors",
            claim.decide(len(falls) > 0 and (falls < -4).all()),
        )
        above, allowed = claim.above_bayes(table[table.panel != _NEEDED], list(_SERIES))
        yield claim.Check(
            "Bayes error",
            "no classifier is below it",
            f"classifier − Bayes is at least {above.min(axis=None):.1e}, with 4 standard errors "
            f"{allowed.to_numpy().max():.1e} at most",
            "Bayes ≤ every classifier + 4 standard errors, everywhere",
            claim.decide((above >= -allowed - 1e-12).all(axis=None)),  # up to rounding,
        )
        ratio = strength.attention / strength.bayes
        doubt = ratio * np.hypot(error.attention / strength.attention, error.bayes / strength.bayes)
        yield (
            "Attention at its best sharpness needs "
            f"{ratio.min():.4f} to {ratio.max():.4f} times the strength that the likelihood-ratio "
            f"test needs for an error of 1 % (standard errors at most {float(doubt.max()):.4f})."
        )

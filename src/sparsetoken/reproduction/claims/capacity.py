"""Conjecture 1: until when the training data are linearly separable."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import expit

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Classifier
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError
from sparsetoken.theory.prediction import capacity

_COSINE = 0.95
_SERIES: dict[str, Classifier] = {**claim.THREE, "attention": Attention(_COSINE, 1.0)}
_RATIOS = (0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3)
_PROBABILITY, _HALF = "probability that the data are separable", "half-point over prediction"
_VALUES = {
    "cosine": np.linspace(0, 1, 11).tolist(),
    "length": [3, 5, 10, 20, 40],
    "strength": np.linspace(1, 7, 7).tolist(),
}
_BY = {name: f"capacity against {name}" for name in _VALUES}  # panels
_CAPACITY = "samples per dimension  $\\alpha^*$"


class Capacity(claim.Claim):
    source = "Conjecture 1"
    sentence = (
        "Below a predicted number of samples per dimension the training data are linearly "
        "separable, above it they are not; vectorized > attention > pooled."
    )
    panels = (
        Panel(_PROBABILITY, "samples over predicted capacity", "probability", join=False),
        Panel(_BY["cosine"], "cosine  $s$  (sharpness 1)", _CAPACITY, log="y"),
        Panel(_BY["length"], "length  $L$", _CAPACITY, log="xy"),
        Panel(_BY["strength"], "strength  $\\theta$", _CAPACITY, log="y"),
    )

    def settings(self) -> dict[str, str]:
        """The task, the frozen query, what is varied; loss and ridge do not matter."""
        varied = {name: claim.span(values) for name, values in _VALUES.items()}
        frozen = f"{_COSINE:g}, sharpness 1"
        varied["cosine"] += ", sharpness 1"
        return {
            _PROBABILITY: claim.setting(claim.PAPER, cosine=frozen),
            **{
                panel: claim.setting(claim.PAPER, **{"cosine": frozen, name: varied[name]})
                for name, panel in _BY.items()
            },
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Separability of finite data around the predicted threshold, and thresholds."""
        thresholds = {name: capacity(claim.PAPER, kind) for name, kind in _SERIES.items()}
        dims = {name: max(10, scale.dim // 10) for name in _SERIES}
        dims["vectorized"] = max(3, scale.dim // 40)  # it has length × dim features
        cells: list[Cell] = []
        for name, threshold in thresholds.items():
            cells += grid(
                task=claim.PAPER,
                classifier=_SERIES[name],
                kind="separability",
                dim=dims[name],
                readout_samples=[ratio * float(threshold) for ratio in _RATIOS],
                repeats=scale.trials,
                seed=scale.seed,
            )
        answers = ask(cells)
        yield claim.rows(_PROBABILITY, "reference: predicted", [1.0, 1.0], theory=[0.0, 1.0])
        for name, threshold in thresholds.items():
            own = answers[answers.classifier == name]
            own = own.assign(ratio=(own.readout_samples / float(threshold)).round(9))
            yield claim.compare(_PROBABILITY, name, own, "ratio", "separable")
            half, error = half_point(own.ratio.to_numpy(), own.separable.to_numpy())
            yield claim.rows(
                _HALF,
                name,
                float(threshold),
                theory=1.0,
                theory_error=threshold.standard_error / float(threshold),
                simulation=half,
                simulation_error=error,
                repeats=len(own),
                dim=dims[name],
                features=dims[name] * _SERIES[name].features_per_dim(claim.PAPER),
            )
        for field, values in _VALUES.items():
            for name in _SERIES:
                places = [claim.varied(claim.PAPER, _COSINE, field, value) for value in values]
                limits = [
                    capacity(task, CLASSIFIERS.make(name, cosine=cosine, sharpness=1.0), Protocol())
                    for task, cosine in places
                ]
                yield claim.rows(
                    _BY[field],
                    name,
                    values,
                    theory=[float(limit) for limit in limits],
                    theory_error=[limit.standard_error for limit in limits],
                )

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """Half-points at the prediction, and the paper's ordering."""
        halves = claim.part(table, _HALF)
        for row in halves.itertuples():
            allowed = 4 * np.hypot(row.simulation_error, row.theory_error) + 3 / row.features
            verdict = claim.decide(abs(row.simulation - 1) <= allowed)
            yield claim.Check(
                f"half-point of {row.series}",
                f"{row.x:.4g} samples per dimension",
                f"{row.simulation:.3f} ± {row.simulation_error:.3f} times that, "
                f"with {row.features:.0f} features",
                "|ratio − 1| ≤ 4 standard errors + 3/features (inconclusive if that is above 25 %)",
                "inconclusive" if verdict == "holds" and allowed > 0.25 else verdict,
            )
        at = halves.set_index("series").x
        yield claim.Check(
            "ordering",
            "vectorized > attention > pooled",
            f"{at.vectorized:.4g}, {at.attention:.4g}, {at.pooled:.4g}",
            "in this order",
            claim.decide(at.vectorized > at.attention > at.pooled),
        )
        by = {
            field: claim.wide(claim.part(table, _BY[field]), "theory", list(_SERIES))
            for field in ("strength", "length")
        }
        ratio = by["length"].vectorized / by["length"].pooled / by["length"].index
        yield claim.Check(
            "vectorized against pooled",
            "L times as many",
            f"{ratio.min():.6f} to {ratio.max():.6f} of that",
            "equal to 1e-6 at every length",
            claim.decide((ratio - 1).abs().max() <= 1e-6),
        )
        for field, limits in by.items():
            higher = limits.index[limits.attention > limits.vectorized]
            if len(higher):
                yield (
                    "The ordering is not universal: attention (cosine 0.95, sharpness 1) has a "
                    f"higher capacity than vectorized at {field} "
                    f"{', '.join(f'{value:g}' for value in higher)}."
                )


def half_point(ratio: FloatArray, separable: FloatArray) -> tuple[float, float]:
    """Where the probability of separability crosses ½, and its standard error.

    NaN if the data do not show a crossing. Logistic regression of the outcomes on the logarithm of
    the ratio, by Newton's method, with half an outcome of each kind added at both ends so that a
    perfect step has a finite slope.
    """
    ends = [separable[ratio == end].mean() for end in (ratio.min(), ratio.max())]
    if not ends[0] > 0.5 > ends[1]:
        return math.nan, math.nan
    x = np.log(np.append(ratio, [ratio.min(), ratio.max()] * 2))
    y = np.append(separable, [0.0, 0.0, 1.0, 1.0])
    weight = np.append(np.ones(len(ratio)), np.full(4, 0.5))
    design = np.column_stack([np.ones(len(x)), x])
    line = np.zeros(2)
    for _ in range(100):
        p = expit(design @ line)
        curvature = design.T @ (design * (weight * p * (1 - p))[:, None])
        step = np.linalg.solve(curvature, design.T @ (weight * (y - p)))
        line = line + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
        if np.abs(step).max() < 1e-10:
            break
    else:
        raise ConvergenceError(
            f"capacity: the logistic regression still moves by {np.abs(step).max():.1e} after 100 "
            "steps, 1e-10 is required"
        )
    covariance = np.linalg.inv(curvature)
    half = float(np.exp(-line[0] / line[1]))
    gradient = np.array([-1 / line[1], line[0] / line[1] ** 2])
    return half, float(half * np.sqrt(gradient @ covariance @ gradient))

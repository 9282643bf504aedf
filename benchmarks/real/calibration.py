"""What rows of planning.py teach about forecasts, and how forecasts do on what taught nothing.

σ, gain and drift of a classifier are the likeliest: with r the deviate of the truth less that of
the forecast and v the forecast's variance, they minimise the mean of log v + 5·log(1 + r²/(4v)), a
Student distribution of four degrees of freedom, in which a few pilots may be far off. Every family
of sources counts the same, however many rows it has. Intervals are then widened or narrowed, by one
factor on all of the drift, until 90 % of the rows lie within.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import ndtri
from sources import SOURCES

from sparsetoken.bags.forecast import DOUBTS, Anchor, Doubt

LEVEL = 0.9
MODEL = "model"  # the family of bags that are of no real source
FLOOR = 1 / 4000  # test bags: smaller errors are not told apart
RULES = ("forecast", "theory", "counted", "power_law")
_START = Doubt(0.3, 0.2, 0.1)


def _anchor(row, doubt: Doubt) -> Anchor:
    return Anchor(
        row.classifier, row.anchor_samples, row.measured, row.standard_error, row.anchor_theory,
        row.worst, row.white, doubt,
    )  # fmt: skip


def _residuals(rows: pd.DataFrame, doubt: Doubt) -> tuple[np.ndarray, np.ndarray]:
    """Deviates of truths less those of forecasts, and the forecasts' standard deviations."""
    values = []
    for row in rows.itertuples():
        anchor = _anchor(row, doubt)
        middle = anchor.scale.deviate(row.theory) + anchor.move(row.samples)
        own = anchor.scale.error(anchor.scale.badness(middle), row.spread)
        deviation = anchor.deviation(row.samples, own)
        values.append((anchor.scale.deviate(max(row.truth, FLOOR)) - middle, deviation))
    residual, deviation = np.array(values).T
    return residual, deviation


def learned(rows: pd.DataFrame) -> Doubt:
    """From the rows of one classifier."""
    weights = 1 / rows.groupby("family").truth.transform("count").to_numpy()
    weights /= weights.sum()

    def doubt_at(x: np.ndarray) -> Doubt:
        return Doubt(float(np.exp(x[0])), float(x[1]), float(np.exp(x[2])))

    def cost(x: np.ndarray) -> float:
        residual, deviation = _residuals(rows, doubt_at(x))
        ratio = (residual / deviation) ** 2
        return float(weights @ (2 * np.log(deviation) + 5 * np.log1p(ratio / 4)))

    start = np.array([np.log(_START.error), _START.gain, np.log(_START.drift)])
    steps = np.vstack([np.zeros(3), np.diag([0.5, 0.1, 0.5])])
    options = {"initial_simplex": start + steps, "xatol": 0.01, "fatol": 1e-4}
    doubt = doubt_at(minimize(cost, start, method="Nelder-Mead", options=options).x)
    reach = ndtri((1 + LEVEL) / 2)
    factors = np.geomspace(0.2, 5.0, 33)
    covers = []
    for factor in factors:
        residual, deviation = _residuals(rows, doubt._replace(drift=factor * doubt.drift))
        covers.append(float(weights @ (np.abs(residual) <= reach * deviation)))
    enough = factors[np.array(covers) >= LEVEL]
    factor = float(enough[0]) if len(enough) else float(factors[-1])
    return doubt._replace(drift=factor * doubt.drift)


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with forecasts of numbers that were learned from all families but their own."""
    rows = table.dropna(subset="classifier").copy()
    reach = float(ndtri((1 + LEVEL) / 2))
    for (classifier, family), part in rows.groupby(["classifier", "family"]):
        others = rows[(rows.classifier == classifier) & ~rows.family.isin([family, MODEL])]
        doubt = learned(others)
        for index, row in zip(part.index, part.itertuples(), strict=True):
            forecast = _anchor(row, doubt).forecast(row.samples, row.theory, row.spread, reach)
            rows.loc[index, ["forecast", "low", "high"]] = forecast
    # a power law through two sizes, no steeper than 1/√N, and never rising
    few, many = (rows[name].clip(lower=1 / rows.pilot) for name in ("few", "counted"))
    fall = np.log(few / many) / np.log(rows.anchor_samples / rows.few_samples)
    power = (rows.anchor_samples / rows.samples) ** fall.clip(0.0, 0.5)
    rows["power_law"] = rows.counted * power
    rows["covered"] = rows.truth.between(rows.low, rows.high)
    return rows


def _line(part: pd.DataFrame) -> dict:
    """Mean absolute errors and typical factors of all rules, coverage and bias of forecasts."""
    line: dict = {"forecasts": len(part)}
    for rule in RULES:
        ratio = np.log(part[rule].clip(lower=FLOOR) / part.truth.clip(lower=FLOOR))
        line[f"{rule}: error"] = f"{(part[rule] - part.truth).abs().mean():.4f}"
        line[f"{rule}: factor"] = f"{float(np.exp(ratio.abs().median())):.2f}"
    bias = part.forecast.mean() / part.truth.mean() - 1
    return line | {"bias": f"{bias:+.1%}", "covered": f"{part.covered.mean():.0%}"}


def _table(rows: pd.DataFrame, by: list[str]) -> str:
    lines = [dict(zip(by, group, strict=True)) | _line(part) for group, part in rows.groupby(by)]
    head = list(lines[0])
    text = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    text += ["| " + " | ".join(str(line[name]) for name in head) + " |" for line in lines]
    return "\n".join(text)


def summary(table: pd.DataFrame, everything: pd.DataFrame) -> str:
    """Markdown."""
    rows, model = (everything[(everything.family == MODEL) == own] for own in (False, True))
    pilots = table[table.family != MODEL].drop_duplicates(["world", "pilot", "seed"])
    far = rows.forecast.clip(lower=FLOOR) / rows.truth.clip(lower=FLOOR)
    wrong = rows.fits.astype(bool) & ((far > 2) | (far < 0.5))
    told = rows.drop_duplicates(["world", "pilot", "seed"]).fits.astype(bool).sum()
    parts = [
        "# Forecasts on real bags",
        f"{len(pilots)} pilots in {pilots.world.nunique()} worlds of {pilots.family.nunique()} "
        f"families; a signal was found in {int(pilots.found.sum())} of them. Errors are means of "
        "|forecast − truth|, factors medians of the ratio of both, the bias is that of the mean "
        "forecast. σ, gain and drift are those learned from all families but the one that is "
        "judged.",
        _table(rows, ["classifier"]),
        f'"The model fits" was said of {told} pilots; a forecast of theirs was off by more than a '
        f"factor of two {int(wrong.sum())} times.",
        "## The sources of accuracy.py alone",
        _table(rows[rows.world.isin(list(SOURCES))], ["classifier"]),
    ]
    for title, by in (("pilot", "pilot"), ("number of bags", "samples"), ("family", "family")):
        parts += [f"## By {title}", _table(rows, ["classifier", by])]
    parts += ["## By world", _table(rows, ["classifier", "world"])]
    if len(model):
        parts += ["## Bags of the model itself", _table(model, ["classifier", "world"])]
    parts.append("## What all rows teach")
    for name, part in rows.groupby("classifier"):
        doubt = learned(part)
        parts.append(
            f"{name}: σ {doubt.error:.3f}, gain {doubt.gain:.3f}, drift {doubt.drift:.3f} (the "
            f"package has {', '.join(f'{value:g}' for value in DOUBTS[name])})"
        )
    return "\n\n".join(parts) + "\n"

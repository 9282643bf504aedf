"""What rows of planning.py teach about forecasts, and how forecasts do on what taught nothing.

σ and gain of a classifier are those, of a grid, with the least mean absolute error of forecasts;
the drift is the least with which 90 % of the truths lie in their intervals. Every family of sources
counts the same, however many rows it has.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri
from sources import SOURCES

from sparsetoken.bags.anchors import DOUBTS, Anchor, Doubt

LEVEL = 0.9
MODEL = "model"  # the family of bags that are of no real source
FLOOR = 1 / 4000  # test bags: smaller errors are not told apart
RULES = ("forecast", "theory", "counted", "power_law")
ERRORS = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5)
GAINS = np.arange(0.0, 1.01, 0.05)
DRIFTS = np.arange(0.01, 0.5, 0.01)
SHIFTS = np.arange(-1.0, 1.01, 0.0125)  # of all forecasts of a family, in deviates
REACH = float(ndtri((1 + LEVEL) / 2))


def _anchor(row, doubt: Doubt) -> Anchor:
    return Anchor(
        row.classifier, row.anchor_samples, row.measured, row.standard_error, row.anchor_theory,
        row.worst, row.white, row.unlearned, doubt,
    )  # fmt: skip


def forecasts(rows: pd.DataFrame, doubt: Doubt) -> np.ndarray:
    """Middle, lower and upper end (rows, 3)."""
    return np.array(
        [
            _anchor(row, doubt).forecast(row.samples, row.theory, row.spread, REACH)
            for row in rows.itertuples()
        ]
    )


def learned(rows: pd.DataFrame) -> Doubt:
    """From the rows of one classifier."""
    weights = 1 / rows.groupby("family").truth.transform("count").to_numpy()
    weights /= weights.sum()
    truth = rows.truth.to_numpy()
    by_dimension = DOUBTS[rows.classifier.iloc[0]].dimension > 0  # which gain it has is a choice
    tried = {}
    for error in ERRORS:
        for gain in GAINS:
            gains = (0.0, float(gain)) if by_dimension else (float(gain), 0.0)
            doubt = Doubt(error, *gains, drift=0.1)
            tried[doubt] = weights @ np.abs(forecasts(rows, doubt)[:, 0] - truth)
    doubt = min(tried, key=tried.__getitem__)
    for drift in DRIFTS:
        doubt = doubt._replace(drift=float(drift))
        _, low, high = forecasts(rows, doubt).T
        if weights @ ((low <= truth) & (truth <= high)) >= LEVEL:
            break
    return doubt


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with forecasts of numbers that were learned from all families but their own."""
    rows = table.dropna(subset="classifier").copy()
    for (classifier, family), part in rows.groupby(["classifier", "family"]):
        others = rows[(rows.classifier == classifier) & ~rows.family.isin([family, MODEL])]
        made = forecasts(part, learned(others))
        rows.loc[part.index, ["forecast", "low", "high"]] = made
    # a power law through two sizes, no steeper than 1/√N, and never rising
    few, many = (rows[name].clip(lower=1 / rows.pilot) for name in ("few", "counted"))
    fall = np.log(few / many) / np.log(rows.anchor_samples / rows.few_samples)
    power = (rows.anchor_samples / rows.samples) ** fall.clip(0.0, 0.5)
    rows["power_law"] = rows.counted * power
    rows["covered"] = rows.truth.between(rows.low, rows.high)
    rows["scatter"], rows["hindsight"] = _scatter(rows), _hindsight(rows)
    return rows


def _deviates(badness: pd.Series, worst: pd.Series | float) -> np.ndarray:
    """As `anchors.Scale` has them, of many."""
    return -ndtri(np.clip(np.asarray(badness / (2 * worst)), 1e-9, 0.5))


def _scatter(rows: pd.DataFrame) -> pd.Series:
    """What forecasts would be off by if their mean, over the pilots of a size and world, were the
    truth: pilots differ. None of a single pilot, which has no mean.

    A guess is 1/2 here for all: with that of each pilot's own prevalence scales would differ."""
    deviates = pd.Series(_deviates(rows.forecast, 0.5), rows.index)
    pilots = deviates.groupby([rows[name] for name in ("classifier", "world", "pilot", "samples")])
    count = pilots.transform("size")
    off = (deviates - pilots.transform("mean")) * np.sqrt(count / (count - 1).where(count > 1))
    return (ndtr(-_deviates(rows.truth, 0.5) - off) - rows.truth).abs()


def _hindsight(rows: pd.DataFrame) -> pd.Series:
    """What forecasts would be off by if the deviates of each family were moved by the one number
    that is best for its truths."""
    off = pd.Series(np.nan, rows.index)
    for _, part in rows.groupby(["classifier", "family"]):
        worst, truth = part.worst.to_numpy(), part.truth.to_numpy()
        moved = _deviates(part.forecast, part.worst) + SHIFTS[:, None]  # (shifts, rows)
        errors = np.abs(np.minimum(2 * worst * ndtr(-moved), worst) - truth)
        off[part.index] = errors[errors.mean(axis=1).argmin()]
    return off


def _line(part: pd.DataFrame) -> dict:
    """Mean absolute errors and typical factors of all rules, coverage and bias of forecasts."""
    line: dict = {"forecasts": len(part)}
    for rule in RULES:
        ratio = np.log(part[rule].clip(lower=FLOOR) / part.truth.clip(lower=FLOOR))
        line[f"{rule}: error"] = f"{(part[rule] - part.truth).abs().mean():.4f}"
        line[f"{rule}: factor"] = f"{float(np.exp(ratio.abs().median())):.2f}"
    density = np.exp(-0.5 * _deviates(part.truth, part.worst) ** 2)
    here = np.exp(-0.5 * _deviates(part.measured, part.worst) ** 2)
    chance = np.sqrt(2 / np.pi) * part.standard_error * density / here
    for name, values in (
        ("chance", chance), ("scatter", part.scatter), ("hindsight", part.hindsight),
    ):  # fmt: skip
        line[name] = f"{values.mean():.4f}"
    return line | {"bias": _bias(part), "covered": f"{part.covered.mean():.0%}"}


def _bias(part: pd.DataFrame) -> str:
    """Of the mean forecast, with the standard error that pilots give it."""
    off = (part.forecast - part.truth) / part.truth.mean()
    pilots = off.groupby([part[name] for name in ("world", "pilot", "seed")]).sum() / len(part)
    error = np.sqrt(len(pilots)) * pilots.std()
    return f"{off.mean():+.1%} ± {error:.1%}"


def _table(rows: pd.DataFrame, by: list[str]) -> str:
    lines = [dict(zip(by, group, strict=True)) | _line(part) for group, part in rows.groupby(by)]
    head = list(lines[0])
    text = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    text += ["| " + " | ".join(str(line[name]) for name in head) + " |" for line in lines]
    return "\n".join(text)


def _words(doubt: Doubt) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in doubt._asdict().items())


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
        "judged. Chance is the error that the standard error of what was measured would make "
        "alone, by a curve that is right: where it is larger than the forecast's, theory knows "
        "more than the measurement. Scatter is the error that forecasts would have if, in each "
        "world, they were right on average: no constants make it less. Hindsight is that with all "
        "deviates of a family moved by the one number that its truths prefer.",
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
        parts += ["## Bags of the model itself", _table(model, ["classifier"])]
        parts.append(_table(model, ["classifier", "world"]))
    parts.append("## What all rows teach")
    for name, part in rows.groupby("classifier"):
        doubt = learned(part)
        parts.append(f"{name}: {_words(doubt)} (the package has {_words(DOUBTS[name])})")
    return "\n\n".join(parts) + "\n"

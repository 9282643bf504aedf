"""Each claim at tiny size: the true table does not fail, a wrong theory does."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from pages import DOCS
from sparsetoken import figures
from sparsetoken.reproduction.claim import COLUMNS, SCALES, Judgement, agreement, rows, slope
from sparsetoken.reproduction.claims.capacity import half_point
from sparsetoken.reproduction.reproduce import CLAIMS


def scaled(table, factor, **where):
    """The table with its theory multiplied where columns have the given values."""
    chosen = np.ones(len(table), bool)
    for name, value in where.items():
        chosen &= table[name].astype(str).str.startswith(value)
    table = table.copy()
    table.loc[chosen, "theory"] *= factor(table[chosen]) if callable(factor) else factor
    return table


def exact(table):
    """As if the simulation had been long and large, and its means were the theory's."""
    table = table.copy()
    dots = table.simulation.notna()
    table.loc[dots, "simulation"] = table.loc[dots, "theory"]
    table.loc[dots, ["simulation_error", "dim", "features"]] = [1e-4, 10_000.0, 10_000.0]
    return table


def swapped(table, one="attention", two="pooled"):
    return table.assign(series=table.series.replace({one: two, two: one}))


def capacity_off(table):
    """Sharp experiments whose half-points are 20 % beyond the prediction."""
    half = table.panel == "half-point over prediction"
    table = table.copy()
    columns = ["simulation", "simulation_error", "theory_error", "features"]
    table.loc[half, columns] = [1.2, 0.001, 0.0, 1000.0]
    return table


def never_separable(table):
    half = table.panel == "half-point over prediction"
    table = table.copy()
    table.loc[half, ["simulation", "simulation_error"]] = np.nan
    return table


def attention_never_wins(table):
    limit = (table.panel == "limit of many samples") & (table.series != "pooled")
    table = table.copy()
    table.loc[limit, "theory"] = 0.45
    table.loc[table.panel == "critical cosine", "theory"] = np.nan
    return table


def without(table, **where):
    """The table with some theory missing."""
    return scaled(table, np.nan, **where)


def attention_wins_everywhere(table):
    limit = (table.panel == "limit of many samples") & (table.series != "pooled")
    table = table.copy()
    table.loc[limit, "theory"] = 0.01
    table.loc[table.panel == "critical cosine", "theory"] = np.nan
    return table


def joint_is_bad(table):
    joint = table.series.eq("all parameters at once") & table.panel.str.startswith("test error")
    table = table.copy()
    table.loc[joint, "simulation"] *= 3
    table["simulation_error"] *= 0.1
    return table


def sharp(table, panel, value=None, **where):
    """Simulations without error in a panel, with another value (of its rows)."""
    chosen = table.panel.str.endswith(panel) & table.simulation.notna()
    for name, wanted in where.items():
        chosen &= table[name] == wanted
    table = table.copy()
    table.loc[chosen, "simulation_error"] = 1e-4
    if value is not None:
        table.loc[chosen, "simulation"] = value(table[chosen]) if callable(value) else value
    return table


def gap_of_a_tenth(table):
    """Attention far above Bayes, and sure of it."""
    gap = table.panel.str.startswith("attention − Bayes") & table.y.notna()
    table = table.copy()
    table.loc[gap, ["theory", "theory_error"]] = [0.1, 0.001]
    return table


WRONG = {
    "learning-curves": [
        lambda t: scaled(exact(t), 1.3, panel="test error"),
        lambda t: scaled(exact(t), 1.3, panel="training loss, logistic"),
        lambda t: scaled(t, 0.5, panel="test error", series="attention"),  # as it was simulated
        lambda t: without(t, panel="test error, square", series="attention"),
        swapped,
    ],
    "alignment": [
        lambda t: scaled(exact(t), 0.9, panel="cosine of"),
        lambda t: scaled(exact(t), 1.2, panel="norm of"),
        lambda t: scaled(t, lambda r: r.x**0.2, panel="1 − cosine", series="attention"),
        lambda t: scaled(t, 1.1, panel="1 − cosine", series="reference"),
        lambda t: scaled(exact(t), 1.2, panel="1 − cosine"),
    ],
    "separation": [
        lambda t: scaled(t, lambda r: r.x**0.1, panel="strength for", series="pooled"),
        lambda t: scaled(t, lambda r: r.x**0.4, panel="strength for", series="attention"),
        lambda t: scaled(t, 1.5, panel="best possible", series="bayes"),
        lambda t: without(t, panel="best possible error at L = 10", series="bayes"),
        lambda t: without(t, panel="strength for", series="attention"),
        lambda t: without(t, panel="strength for", series="pooled"),
    ],
    "capacity": [
        capacity_off,
        never_separable,
        lambda t: scaled(t, 1.01, panel="capacity against length", series="vectorized"),
    ],
    "crossover": [
        attention_wins_everywhere,
        attention_never_wins,
        lambda t: scaled(exact(t), 1.3, panel="20 samples"),
    ],
    "rates": [
        lambda t: scaled(t, lambda r: r.x**0.2, series="pooled"),
        lambda t: scaled(exact(t), 1.3, series="vectorized"),
        lambda t: scaled(t, 2.0, series="pooled"),
        lambda t: t.assign(theory=-t.theory),
    ],
    "training": [lambda t: scaled(exact(t), 1.5, series="four stages, data split"), joint_is_bad],
    "lengths": [
        lambda t: scaled(exact(t), 1.3, panel="tested at other lengths"),
        lambda t: scaled(t, 2.0, panel="tested at other strengths"),
    ],
    "weightings": [
        lambda t: scaled(exact(t), 1.5, panel="alignment"),
        lambda t: scaled(t, 0.9, panel="length", series="sparsemax"),
        lambda t: scaled(t, 0.8, panel="several", series="softmax"),
        lambda t: swapped(t, "hard-max", "softmax"),
        lambda t: without(t, panel="strength", series="softmax"),
    ],
    "boundary": [
        lambda t: scaled(t, lambda r: r.x**-0.1, panel="b = 0.7", series="pooled"),
        lambda t: scaled(t, lambda r: r.x**0.2, panel="b = 0.7, r = 0.4", series="bayes"),
        lambda t: scaled(t, lambda r: r.x**-0.2, panel="b = 0.55", series="maximum"),
        lambda t: scaled(t, 1.2, panel="b = ", series="bayes"),
        lambda t: without(t, panel="b = 0.4", series="bayes"),
        lambda t: without(t, panel="b = 0.85", series="higher criticism"),
        lambda t: swapped(t, "attention", "maximum"),
        gap_of_a_tenth,
    ],
    "learning": [
        lambda t: scaled(exact(t), 0.9, panel="cosine, round by round"),
        lambda t: scaled(exact(t), 1.3, panel="test error", series="message passing"),
        lambda t: scaled(t, 1.5, panel="test error", series="bayes"),
        lambda t: scaled(t, 0.3, panel="test error", series="attention"),
        lambda t: sharp(t, "learning is hard", 0.5),
        lambda t: sharp(t, "learning is hard", lambda r: r.theory[::-1].to_numpy()),
    ],
    "universality": [
        lambda t: sharp(t, "simulation − theory", 0.01, series="attention, test error"),
        lambda t: sharp(t, "any task and dimension", lambda r: 1.1 * r.x),
        lambda t: scaled(sharp(t, "random signal direction"), 3.0, panel="other noise"),
        lambda t: scaled(sharp(t, "random signal direction"), 0.9, panel="query cosine, other"),
        lambda t: scaled(sharp(t, "random signal direction"), 1.3, panel="pooled, other"),
        lambda t: sharp(t, "beyond the rule of thumb", 0.031),  # all is well where it should not be
        lambda t: sharp(t, "along one coordinate", 0.031, series="±1"),
        lambda t: sharp(t, "used as it is", lambda r: r.theory),
        lambda t: sharp(t, "coloured noise, whitened", lambda r: r.theory),  # with few tokens too
        lambda t: sharp(t, "coloured noise, whitened", lambda r: r.theory + 0.1),
        lambda t: scaled(sharp(t, "more tokens than dimensions (d = 30)"), 1.3, panel="more"),
    ],
    "colours": [
        lambda t: scaled(exact(t), 1.3, panel="power-law noise"),
        lambda t: scaled(exact(t), 1.3, panel="signals with a spread"),
        lambda t: scaled(exact(t), 0.8, panel="signals wide where noise is narrow"),
        lambda t: scaled(exact(t), 1.3, panel="token by token", series="vectorized"),
        lambda t: scaled(t, 2.0, panel="whitening, 4", series="attention, whitened"),
        lambda t: scaled(t, 0.4, panel="whitening, 0.5", series="attention, whitened"),
        lambda t: scaled(t, 0.2, panel="whitening, 4", series="attention, as it is"),
        lambda t: scaled(t, -1.0, panel="what a spread leaves", series="difference in white"),
        lambda t: scaled(t, lambda r: 1 + r.x, panel="what a spread leaves", series="error of p"),
        lambda t: scaled(t, 0.2, panel="what a", series="difference in power-law noise, whitened"),
    ],
}

LIGHT = [name for name in CLAIMS if not CLAIMS.make(name).needs]  # others: tests/torch_backend


def test_every_claim_has_wrong_theories():
    assert set(WRONG) == set(LIGHT)


CHOSEN = {  # the best of what a scale tries, or of sampled numbers: not comparable
    "learning": ("test error", ["attention", "vectorized", "pooled"]),
    "boundary": ("best sharpness over strength", ["map"]),
}


def check_the_record(name, table):
    """At places that both have, the theory of the record is what is computed today."""
    places = ["panel", "series", "x", "y"]
    old, new = (
        rows.assign(**{axis: rows[axis].map("{:.6g}".format) for axis in ("x", "y")})
        .dropna(subset="theory")
        .drop_duplicates(places, keep=False)
        .fillna({"theory_error": 0.0})
        for rows in (pd.read_csv(DOCS / "reproduction" / f"{name}.csv"), table)
    )
    both = new.merge(old, on=places, suffixes=("", "_before"))
    panel, series = CHOSEN.get(name, ("", []))
    both = both[(both.panel != panel) | ~both.series.isin(series)]
    allowed = 1e-6 * both.theory_before.abs()
    allowed += 4 * np.hypot(both.theory_error, both.theory_error_before)
    off = (both.theory - both.theory_before).abs() > allowed
    assert len(both) > 5 and not off.any(), both[off]


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_a_claim_and_its_rules(name, tmp_path):
    claim = CLAIMS.make(name)
    table = claim.compute(SCALES["tiny"], lambda cells: st.sweep(cells, executor=2))
    assert list(table.columns) == list(COLUMNS)
    assert {panel.name for panel in claim.panels} <= {
        *table.panel, *(f"best possible error at L = {n}" for n in ("1 000", "1 000 000"))
    }  # fmt: skip
    judgement = claim.judge(table)
    assert judgement.verdict != "fails", [c for c in judgement.checks if c.verdict == "fails"]
    again = tmp_path / "table.csv"
    table.to_csv(again, index=False)
    assert claim.judge(pd.read_csv(again)).checks == judgement.checks  # the CSV is all it needs
    check_the_record(name, table)
    for wrong in WRONG[name]:
        assert claim.judge(wrong(table)).verdict == "fails"
    figures.save(figures.panels(table, claim.panels), tmp_path / "figure")
    assert b"/FontFile2" in (tmp_path / "figure.pdf").read_bytes()  # fonts are embedded


class Asked(Exception):
    """What a claim asks first."""


SYMBOLS = {"length": "L", "sparsity": "R", "strength": "θ", "prevalence": "π", "ridge": "λ"}


@pytest.mark.parametrize("name", LIGHT)
def test_the_report_names_what_every_panel_was_computed_for(name):
    """Each panel has words; what all questions of the claim have in common is in them."""
    claim = CLAIMS.make(name)
    words, panels = claim.settings(), {panel.name for panel in claim.panels}
    assert set(words) - {""} <= panels and ("" in words or set(words) == panels)

    def ask(questions):
        raise Asked(questions)

    with pytest.raises(Asked) as asked:
        claim.compute(SCALES["tiny"], ask)
    (questions,) = asked.value.args
    parameters = [question.parameters() for question in questions]
    fitted = any(row["kind"] in ("theory", "simulation") for row in parameters)
    for field, symbol in SYMBOLS.items():
        values = {row[field] for row in parameters if row.get(field) is not None}
        said = {
            part for text in words.values() for part in re.findall(rf"{symbol} = ([^,;]+)", text)
        }
        if len(values) == 1 and (fitted or field != "ridge"):
            assert f"{min(values):g}" in said, field
        if len(values) > 1:
            assert said - {f"{min(values):g}"}, field
    losses = {row["loss"] for row in parameters if row.get("loss")}
    if fitted:
        assert all(any(loss in text for text in words.values()) for loss in losses), losses


def dots(simulation, error, dim=100, theory=(1.0, 1.0)):
    return rows(
        "p", "s", [1.0, 2.0], theory=theory, simulation=simulation, simulation_error=error,
        repeats=4, dim=dim, features=10 * dim,
    )  # fmt: skip


def verdicts(*arguments, **options):
    return [check.verdict for check in agreement(dots(*arguments, **options), "x")]


def test_agreement_both_ways():
    assert verdicts([1.0, 1.06], [0.01, 0.01]) == ["holds", "holds"]  # 0.04 + 0.03
    assert verdicts([1.0, 1.08], [0.01, 0.01])[0] == "fails"
    assert verdicts([1.06, 1.06], [0.01, 0.01]) == ["holds", "fails"]  # 4·0.01/√2 + 0.003
    assert verdicts([1.0, 1.0], [0.01, np.nan])[0] == "inconclusive"
    assert verdicts([np.nan, np.nan], [np.nan, np.nan]) == ["inconclusive", "inconclusive"]
    # small numbers, off by a factor, within 3/dim
    small = dict(theory=[0.01, 0.01])
    assert verdicts([0.012, 0.012], [1e-4, 1e-4], **small) == ["holds", "fails"]
    assert verdicts([0.0101, 0.0099], [1e-4, 1e-4], **small) == ["holds", "holds"]
    assert verdicts([0.012, 0.012], [2e-3, 2e-3], **small) == ["holds", "inconclusive"]
    assert verdicts([1.0, 1.0], [0.01, 0.01], theory=[1.0, np.nan])[0] == "inconclusive"


def test_slope_both_ways():
    x = np.geomspace(1, 100, 9)
    assert slope(x, 3 / x, -1.0, "x").verdict == "holds"
    assert slope(x, x**-0.9, -1.0, "x").verdict == "fails"
    assert slope(x, x**-0.9, -1.0, "x", error=0.3 * x**-0.9).verdict == "inconclusive"
    assert slope(x[:2], x[:2], 1.0, "x").verdict == "inconclusive"
    for bad in (np.nan, -1.0, 0.0):
        assert slope(x, np.append(3 / x[:-1], bad), -1.0, "x").verdict == "fails"


def test_a_claim_without_checks_does_not_hold():
    assert Judgement([]).verdict == "fails"


def test_half_points():
    rng = np.random.default_rng(0)
    ratio = np.repeat(np.linspace(0.7, 1.3, 9), 400)
    outcome = rng.random(len(ratio)) < 1 / (1 + (ratio / 1.05) ** 20)
    half, error = half_point(ratio, outcome.astype(float))
    assert abs(half - 1.05) < 4 * error and error < 0.01
    half, error = half_point(ratio, (ratio < 1.01).astype(float))  # a perfect step
    assert 0.9 < half < 1.1 and np.isfinite(error)
    for outcome in (np.ones(len(ratio)), np.zeros(len(ratio))):
        assert np.isnan(half_point(ratio, outcome)).all()

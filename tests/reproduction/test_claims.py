"""Each claim at tiny size: the true table does not fail, a wrong theory does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from sparsetoken import figures
from sparsetoken.reproduction.capacity import half_point
from sparsetoken.reproduction.claims import COLUMNS, SCALES, Judgement, agreement, rows, slope
from sparsetoken.reproduction.reproduce import CLAIMS


def scaled(table, factor, **where):
    """The table with its theory multiplied where columns have the given values."""
    chosen = np.ones(len(table), bool)
    for name, value in where.items():
        chosen &= table[name].astype(str).str.startswith(value)
    table = table.copy()
    table.loc[chosen, "theory"] *= factor(table[chosen]) if callable(factor) else factor
    return table


def exact(table, **where):
    """As if the simulation had been long and large, and its means were the theory's."""
    table = table.copy()
    dots = table.simulation.notna()
    table.loc[dots, "simulation"] = table.loc[dots, "theory"]
    table.loc[dots, ["simulation_error", "dim"]] = [1e-4, 10_000.0]
    return table


def swapped(table):
    names = {"attention": "pooled", "pooled": "attention"}
    return table.assign(series=table.series.replace(names))


def capacity_off(table):
    """Sharp experiments whose half-points are 20 % beyond the prediction."""
    half = table.panel == "half-point over prediction"
    table = table.copy()
    columns = ["simulation", "simulation_error", "theory_error", "dim"]
    table.loc[half, columns] = [1.2, 0.001, 0.0, 1000.0]
    return table


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


WRONG = {
    "learning-curves": [
        lambda t: scaled(exact(t), 1.3, panel="test error"),
        lambda t: scaled(exact(t), 1.3, panel="training loss, logistic"),
        swapped,
    ],
    "alignment": [
        lambda t: scaled(exact(t), 0.9, panel="cosine of"),
        lambda t: scaled(exact(t), 1.2, panel="norm of"),
        lambda t: scaled(t, lambda r: r.x**0.2, panel="1 − cosine", series="attention"),
        lambda t: scaled(t, 1.1, panel="1 − cosine", series="reference"),
    ],
    "separation": [
        lambda t: scaled(t, lambda r: r.x**0.1, panel="strength for", series="pooled"),
        lambda t: scaled(t, lambda r: r.x**0.4, panel="attention: strength"),
        lambda t: scaled(t, 1.5, panel="best possible", series="bayes"),
    ],
    "capacity": [
        capacity_off,
        lambda t: scaled(t, 1.01, panel="capacity against length", series="vectorized"),
    ],
    "crossover": [
        attention_wins_everywhere,
        lambda t: scaled(exact(t), 1.3, panel="20 samples"),
    ],
    "rates": [
        lambda t: scaled(t, lambda r: r.x**0.2, series="pooled"),
        lambda t: scaled(exact(t), 3.0, series="vectorized"),
    ],
    "training": [lambda t: scaled(exact(t), 1.5, series="four stages, data split"), joint_is_bad],
    "lengths": [lambda t: scaled(exact(t), 1.3, panel="tested at other lengths")],
}


def test_every_claim_has_wrong_theories():
    assert set(WRONG) == set(CLAIMS)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CLAIMS))
def test_a_claim_and_its_rules(name, tmp_path):
    claim = CLAIMS[name]
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
    for wrong in WRONG[name]:
        assert claim.judge(wrong(table)).verdict == "fails"
    figures.save(figures.panels(table, claim.panels), tmp_path / "figure")
    assert b"/FontFile2" in (tmp_path / "figure.pdf").read_bytes()  # fonts are embedded


def dots(simulation, error, dim=100):
    return rows(
        "p", "s", [1.0, 2.0], theory=[1.0, 1.0], simulation=simulation, simulation_error=error,
        repeats=4, dim=dim,
    )  # fmt: skip


def test_agreement_both_ways():
    assert agreement(dots([1.0, 1.06], [0.01, 0.01]), "x").verdict == "holds"  # 0.04 + 0.03
    assert agreement(dots([1.0, 1.08], [0.01, 0.01]), "x").verdict == "fails"
    assert agreement(dots([1.0, 1.0], [0.01, np.nan]), "x").verdict == "inconclusive"
    assert agreement(dots([np.nan, np.nan], [np.nan, np.nan]), "x").verdict == "inconclusive"


def test_slope_both_ways():
    x = np.geomspace(1, 100, 9)
    assert slope(x, 3 / x, -1.0, "x").verdict == "holds"
    assert slope(x, x**-0.9, -1.0, "x").verdict == "fails"
    assert slope(x, x**-0.9, -1.0, "x", error=0.3 * x**-0.9).verdict == "inconclusive"
    assert slope(x[:2], x[:2], 1.0, "x").verdict == "inconclusive"


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

"""Numbers computed elsewhere, by unrelated programs, reproduced (tests/reference/*.json)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sparsetoken as st

REFERENCE = Path(__file__).parent.parent / "reference"
LOSSES = {"square": st.Square(), "logistic": st.Logistic()}


def rows(name):
    return json.loads((REFERENCE / f"{name}.json").read_text())


def task_of(row):
    return st.Task(row["length"], row["sparsity"], row["strength"], row["prevalence"])


def protocol_of(row, *names):
    return st.Protocol(loss=LOSSES[row["loss"]], **{name: row[name] for name in names})


@pytest.mark.parametrize(
    "row", rows("mixture"), ids=lambda r: f"{r['loss']}-{r['readout_samples']}"
)
def test_gaussian_mixture(row):
    prediction = st.predict(task_of(row), st.Pooled(), protocol_of(row, "readout_samples", "ridge"))
    assert abs(prediction.test_error - row["test_error"]) <= 1e-7
    assert abs(prediction.train_loss - row["train_loss"]) <= 1e-7


@pytest.mark.parametrize("row", rows("alignment"), ids=lambda r: f"{r['loss']}-{r['length']}")
def test_alignment(row):
    names = "query_samples readout_step bias_step query_step inverse_temperature".split()
    query = st.align(task_of(row), protocol_of(row, *names))
    for name in ("overlap", "norm", "cosine"):
        assert abs(getattr(query, name) - row[name]) <= 1e-9, name
    assert query.sharpness == pytest.approx(row["inverse_temperature"] * row["norm"], abs=1e-9)


@pytest.mark.parametrize("row", rows("attention"), ids=lambda r: f"{r['loss']}-{r['length']}")
def test_attention(row):
    classifier = st.Attention(row["cosine"], row["sharpness"])
    got = st.predict(task_of(row), classifier, protocol_of(row, "readout_samples", "ridge"))
    doubt = row["uncertainty"]
    assert abs(got.test_error - row["test_error"]) <= 1e-4 + 3 * doubt["test_error"]
    assert (
        abs(got.train_loss - row["train_loss"])
        <= 1e-3 * row["train_loss"] + 3 * doubt["train_loss"]
    )
    # the reference counted training errors on quadrature nodes: good to a few 1e-3
    assert abs(got.train_error - row["train_error"]) <= 5e-3
    want = [row["weight_query"], row["weight_signal_perp"], row["bias"]]
    np.testing.assert_allclose([*got.fit.weights, got.bias], want, rtol=3e-3)
    capacity = st.capacity(task_of(row), classifier)
    assert abs(capacity - row["capacity"]) <= 3e-3 * row["capacity"]


@pytest.mark.parametrize("row", rows("capacity"), ids=lambda r: str(r["length"]))
def test_linear_capacity(row):
    task = task_of(row)
    pooled, vectorized = st.capacity(task, st.Pooled()), st.capacity(task, st.Vectorized())
    assert pooled == pytest.approx(row["pooled"], rel=1e-6)
    assert vectorized == pytest.approx(row["vectorized"], rel=2e-6)
    assert vectorized == pytest.approx(task.length * pooled, rel=1e-9)

"""The readout of one training set scatters around the limit as the theory says: against runs."""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.theory import fluctuations
from sparsetoken.theory.fluctuations import readout_covariance

DIM, RUNS = 150, 400  # a standard deviation over 400 runs is known to 3.5 %


def fitted(task, classifier, loss, ridge, samples):
    """(w, b, log ρ) of every run, and the theory's fit at the same size."""
    protocol = st.Protocol(1.0, samples, loss, ridge)
    run = st.simulate(task, classifier, protocol, dim=DIM, repeats=RUNS, seed=11)
    law = classifier.law(task)
    width = DIM * law.features_per_dim
    readouts = [outcome.readout for outcome in run.outcomes]
    weights = np.array([readout.weights for readout in readouts])
    noise = np.array([readout.noise for readout in readouts])
    rest = np.sqrt(noise**2 - weights**2 @ law.noisy)
    found = np.column_stack([weights, [readout.bias for readout in readouts], np.log(rest)])
    fit = st.solve(law, loss, ridge, samples * DIM / (width - len(law.noisy)))
    return found, fit


CASES = {
    "pooled": (st.Task(10, 1, 5.0), st.Pooled(), st.Logistic(), 0.1, 4.0),
    "pooled square": (st.Task(10, 3, 3.0, 0.3), st.Pooled(), st.Square(), 0.01, 2.0),
    "attention": (st.Task(10, 1, 5.0), st.Attention(0.8, 2.0), st.Logistic(), 0.05, 3.0),
    "attention hinge": (
        st.Task(6, 1, 4.0, 0.7), st.Attention(0.9, 1.5), st.SquaredHinge(), 0.02, 5.0,
    ),
    "attention huber": (st.Task(20, 2, 5.0), st.Attention(0.7, 1.5), st.Huber(), 0.1, 0.6),
    "near one class": (st.Task(8, 2, 4.0, 0.93), st.Attention(0.9, 1.0), st.Logistic(), 0.1, 4.0),
}  # fmt: skip


def compare(case):
    found, fit = fitted(*case)
    n = case[-1] * DIM
    covariance = readout_covariance(fit) / n
    predicted = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.std(axis=0, ddof=1), predicted, rtol=0.15)
    correlation = covariance / np.outer(predicted, predicted)
    # 1/√400 a correlation; beside it some 1/√d of the next order
    np.testing.assert_allclose(np.corrcoef(found.T), correlation, atol=0.2)


@pytest.mark.parametrize("name", ["pooled", "attention"])
def test_standard_deviations_and_correlations(name):
    compare(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("pooled", "attention")])
def test_standard_deviations_and_correlations_everywhere(name):
    compare(CASES[name])


def test_within_classes_the_share_of_positives_does_not_move():
    """A readout held down by its ridge has a bias that follows the share; without it, far less."""
    law = st.Pooled().law(st.Task(10, 1, 3.0))
    fit = st.solve(law, st.Logistic(), ridge=100.0, samples_per_dim=4.0)
    every, within = readout_covariance(fit), readout_covariance(fit, within_classes=True)
    assert np.linalg.eigvalsh(every - within).min() > -1e-9
    share = 16 * 0.25  # b ≈ 4(share − ½) where nothing else is learned
    assert every[1, 1] == pytest.approx(share, rel=0.01) and within[1, 1] < 0.01 * share


def test_no_fluctuations_with_endless_samples():
    law = st.Pooled().law(st.Task(10, 1, 3.0))
    assert not readout_covariance(st.solve(law, st.Logistic(), 0.1, np.inf)).any()


@pytest.mark.parametrize("loss", [st.Logistic(), st.SquaredHinge(), st.Huber()], ids=repr)
def test_the_quadrature_is_fine_enough(loss, monkeypatch):
    fit = st.solve(st.Pooled().law(st.Task(10, 1, 5.0)), loss, 0.02, 1.5)
    coarse = np.sqrt(np.diag(readout_covariance(fit)))
    for name in ("NODES", "MANY_NODES", "_ORDERS"):
        monkeypatch.setattr(fluctuations, name, 2 * getattr(fluctuations, name))
    fluctuations.gauss.cache_clear()
    fine = np.sqrt(np.diag(readout_covariance(fit)))
    fluctuations.gauss.cache_clear()
    np.testing.assert_allclose(coarse, fine, rtol=0.02)

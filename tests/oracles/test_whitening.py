"""Oracles with coloured noise: in whitened units; and what a spread of the signal allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import sparsetoken as st
from sparsetoken.model.layout import draw_layout
from sparsetoken.oracles.whitening import SpreadPooled, two_gaussians

SPECTRUM = st.Spectrum((0.25, 1.0, 4.0), (0.4, 0.3, 0.3), (0.2, 0.1, 0.7))
TASK = st.Task(6, 1, 3.0, 0.4, noise=SPECTRUM)
LENGTH = np.sqrt(0.2 / 0.25 + 0.1 + 0.7 / 4)  # √μ[1/x]
WHITE = st.Task(6, 1, 3.0 * LENGTH, 0.4)


def matrices(dim, seed=0, signal=True):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((2, dim, dim + 3)) / np.sqrt(dim)
    noise, own = (root @ root.T for root in roots)
    return st.Covariances(noise, own if signal else None, rng.standard_normal(dim))


@pytest.mark.parametrize("classifier", [st.Pooled(), st.Vectorized(), st.Attention()], ids=repr)
def test_known_noise_is_whitened(classifier):
    assert st.oracle_error(TASK, classifier) == pytest.approx(st.oracle_error(WHITE, classifier))
    one = st.signal_threshold(TASK, classifier, error=0.1)
    white = st.signal_threshold(WHITE, classifier, error=0.1)
    assert one == pytest.approx(white / LENGTH)


def test_the_likelihood_ratio_is_that_of_whitened_tokens():
    assert st.bayes_error(TASK) == pytest.approx(st.bayes_error(WHITE))
    assert st.bayes_error(TASK, dim=50) == pytest.approx(st.bayes_error(WHITE))
    noise = matrices(9, signal=False)
    task = st.Task(6, 1, 2.0, 0.4, noise=noise)
    whitened = np.linalg.cholesky(np.linalg.inv(noise.noise)).T @ noise.mean
    white = st.Task(6, 1, 2.0 * float(np.linalg.norm(whitened)), 0.4)
    assert st.bayes_error(task) == pytest.approx(st.bayes_error(white))
    varying = st.Task(6, 1, st.Discrete([1.0, 4.0]), 0.4, noise=SPECTRUM)
    scaled = st.Task(6, 1, st.Discrete([LENGTH, 4.0 * LENGTH]), 0.4)
    assert st.bayes_error(varying) == pytest.approx(st.bayes_error(scaled))


def test_no_readout_of_the_mean_token_beats_the_oracle_of_mean_pooling():
    for spread in ((0.1, 5.0, 1.0), (9.0, 0.1, 0.0), 3.0):
        for prevalence in (0.5, 0.05):
            task = replace(TASK, strength=6.0, signal_spread=spread, prevalence=prevalence)
            oracle = SpreadPooled(task)
            signal, negative, positive = oracle._groups()

            def error(w, of=(signal, negative, positive), prevalence=prevalence):
                signal, negative, positive = of
                sizes = np.sqrt(w**2 @ negative), np.sqrt(w**2 @ positive)
                return two_gaussians(float(w @ signal), *sizes, prevalence)

            least = min(
                minimize(error, start, method="Nelder-Mead", options={"xatol": 1e-9}).fun
                for start in np.random.default_rng(0).standard_normal((8, 3))
            )
            assert st.oracle_error(task, st.Pooled()) == pytest.approx(least, abs=1e-6)
    same = replace(TASK, signal_spread=1 + 1e-9)
    assert st.oracle_error(same, st.Pooled()) == pytest.approx(st.oracle_error(TASK, st.Pooled()))


def test_mean_pooling_with_matrices_and_their_spectrum():
    task = replace(TASK, signal_spread=(2.0, 0.5, 3.0))
    layout = draw_layout(task.noise, task.signal_spread, 20, np.random.default_rng(0))
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 20)))[0]
    noise, signal = (turn @ np.diag(root**2) @ turn.T for root in layout.roots)
    turned = st.Covariances((noise + noise.T) / 2, (signal + signal.T) / 2, turn @ layout.signal)
    same = st.Task(6, 1, 3.0, 0.4, noise=turned)
    assert st.oracle_error(same, st.Pooled()) == pytest.approx(st.oracle_error(task, st.Pooled()))
    one, other = st.bayes_error(same), st.bayes_error(task, dim=20)
    assert abs(one - other) < 4 * np.hypot(one.standard_error, other.standard_error)


@pytest.mark.parametrize("kind", ["spectrum", "matrices"])
def test_the_test_of_a_spread_against_densities(kind):
    """Bags drawn as they are, and both densities evaluated as they are."""
    task = replace(TASK, length=3, strength=1.0, signal_spread=(2.0, 0.5, 3.0))
    if kind == "matrices":
        task = st.Task(3, 1, 1.0, 0.4, noise=matrices(5))
    rng, n = np.random.default_rng(3), 6000
    layout = draw_layout(task.noise, task.signal_spread, 5, rng)
    roots = [np.diag(root) if root.ndim == 1 else root for root in layout.roots]
    losses = []
    for positive, share in ((True, 0.4), (False, 0.6)):
        tokens = rng.standard_normal((n, 3, 5)) @ roots[0]
        if positive:
            tokens[:, 0] = rng.standard_normal((n, 5)) @ roots[1] + layout.signal
        signal = multivariate_normal(layout.signal, roots[1] @ roots[1]).pdf(tokens)
        noise = multivariate_normal(np.zeros(5), roots[0] @ roots[0]).pdf(tokens)
        odds = 0.4 * (signal / noise).mean(axis=1) / 0.6
        losses.append(share * np.minimum(odds, 1) / (1 + odds))
    direct = sum(loss.mean() for loss in losses)
    doubt = np.sqrt(sum(loss.var() for loss in losses) / n)
    error = st.bayes_error(task, dim=5)
    assert abs(error - direct) < 4 * np.hypot(doubt, error.standard_error)


def test_a_spread_tells_ever_better_with_more_dimensions():
    task = replace(TASK, signal_spread=2.0)
    errors = [st.bayes_error(task, dim=dim) for dim in (5, 20, 80)]
    assert errors[0] > 1.3 * errors[1] > 2 * errors[2] > 0
    assert st.bayes_error(task) == 0
    assert st.bayes_error(replace(TASK, signal_spread=0.0), dim=5) == 0
    few = st.Spectrum((1.0, 2.0), (1.0, 0.0), (0.5, 0.5))
    bounded = st.Task(6, 1, 3.0, noise=few, signal_spread=(1.0, 5.0))
    assert st.bayes_error(bounded, dim=200) > 0.01
    with pytest.raises(st.InvalidInput, match="differ from noise in a few directions only"):
        st.bayes_error(bounded)


SPREAD = replace(TASK, signal_spread=2.0)


@pytest.mark.parametrize("ask, match", [
    (lambda: st.oracle_error(SPREAD, st.Attention()), "is known only to lie between"),
    (lambda: st.oracle_error(SPREAD, st.Vectorized()), "is known only to lie between"),
    (lambda: st.signal_threshold(SPREAD, error=0.1), "is known only to lie between"),
    (lambda: st.bayes_curve(SPREAD, [1.0]), "an error of 0 with no samples at all"),
    (lambda: st.bayes_curve(st.Task(3, 1, 2.0, noise=matrices(9, signal=False)), [1.0]),
     "noise must be White"),
    (lambda: st.bayes_curve(
        st.Task(3, 1, 2.0, noise=st.Spectrum((1.0, 2.0), (1.0, 0.0), (0.5, 0.5))), [1.0]),
     "a density above 0 wherever"),
    (lambda: st.bayes_error(replace(SPREAD, strength=st.Discrete([1.0, 2.0])), dim=9),
     "one strength, one sparsity and uniform places where the signal has a spread"),
    (lambda: st.bayes_error(TASK, dim=1), "dim must be at least 3"),
])  # fmt: skip
def test_what_is_not_known_is_refused(ask, match):
    with pytest.raises(st.InvalidInput, match=match):
        ask()


def test_learning_with_equal_eigenvalues_is_that_in_white_noise():
    flat = st.Spectrum((1.0, 1.0 + 1e-9), (0.5, 0.5))
    ours = st.bayes_curve(replace(TASK, noise=flat), [0.3, 2.0])
    white = st.bayes_curve(st.Task(6, 1, 3.0, 0.4), [0.3, 2.0])
    for name in ("cosine", "test_error", "information"):
        np.testing.assert_allclose(getattr(ours, name), getattr(white, name), rtol=1e-6)


@pytest.mark.slow
def test_the_information_of_learning_is_stationary():
    """I(m) has its extremum where m solves the equation, with a spectrum too."""
    from sparsetoken.oracles.bayes_learning import _equation

    equation = _equation("test", TASK, 0.0, 0.0, 0.0, 0)
    root = equation.solutions(0.7)[0]
    here, low, high = (
        float(equation.information(at, 0.7)[0]) for at in (root, root - 1e-3, root + 1e-3)
    )
    assert abs(high - low) < 1e-2 * abs(high + low - 2 * here) + 1e-9
    infinite = st.bayes_curve(TASK, [np.inf])[0]
    assert infinite.cosine == 1 and infinite.test_error == pytest.approx(
        st.bayes_error(TASK), abs=3e-3
    )

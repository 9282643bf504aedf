"""The sigmoid of scores, against a minimiser that shares no code with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from sparsetoken.fitting.calibration import fit_sigmoid


def misfit(x, scores, labels, weights):
    """Weighted cross entropy with Platt's targets."""
    up, down = weights[labels > 0].sum(), weights[labels < 0].sum()
    target = np.where(labels > 0, (up + 1) / (up + 2), 1 / (down + 2))
    z = x[0] * scores + x[1]
    return np.average(np.logaddexp(0.0, z) - target * z, weights=weights)


def test_the_sigmoid_has_the_least_misfit():
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(200) < 0.3, 1.0, -1.0)
    weights = rng.exponential(size=200)
    scores = 40 * (labels + 1.5 * rng.standard_normal(200))
    given = (scores, labels, weights)
    fitted = fit_sigmoid(*given)
    best = minimize(misfit, [0.01, 0.0], args=given, method="Nelder-Mead",
                    options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 2000})  # fmt: skip
    np.testing.assert_allclose(fitted, best.x, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(expit(fitted.logit(scores)).mean(), 0.3, atol=0.1)


def test_without_a_shift_the_slope_has_the_least_misfit():
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(200) < 0.3, 1.0, -1.0)
    given = (3 * labels + 4 * rng.standard_normal(200) + 2, labels, rng.exponential(size=200))
    slope, offset = fit_sigmoid(*given, shifted=False)
    best = minimize_scalar(lambda x: misfit((x, 0.0), *given), bounds=(0, 5), method="bounded",
                           options={"xatol": 1e-10})  # fmt: skip
    assert offset == 0 and slope == pytest.approx(best.x, rel=1e-5)
    assert abs(fit_sigmoid(*given).offset) > 0.1


def test_sigmoids_that_scores_cannot_fit():
    labels = np.where(np.arange(40) % 4 == 0, 1.0, -1.0)
    ones = np.ones(40)
    slope, offset = fit_sigmoid(-labels, labels, ones)  # the wrong way round
    assert slope == 0 and 1 / (1 + np.exp(-offset)) == pytest.approx(0.25, abs=0.05)
    slope, offset = fit_sigmoid(5 * labels, labels, ones)  # separated: Platt's targets
    assert 0 < slope < 10
    slope, _ = fit_sigmoid(np.zeros(40), labels, ones)
    assert np.isfinite(slope)

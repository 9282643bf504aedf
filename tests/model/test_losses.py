"""Losses: values at extremes, derivatives, prox and Gaussian averages.

Reference values come from mpmath at 40 digits, computed in the tests themselves.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from sparsetoken import Huber, Logistic, Square, SquaredHinge
from sparsetoken.model.envelopes import Moments
from sparsetoken.support.errors import InvalidInput

LOSSES = [Square(), Logistic(), SquaredHinge(), Huber(), Huber(width=0.3), Huber(width=2.5)]
MARGINS = [-1e4, -700.0, -37.0, -3.0, -0.7, 0.0, 1e-9, 0.7, 1.0, 1.3, 5.0, 37.0, 700.0, 1e4]
VARIANCES = [1e-12, 1e-6, 0.01, 0.5, 1.0, 30.0, 1e4, 1e8, 1e12]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def exact(loss, x):
    """(value, slope, curvature) with mpmath."""
    x = mp.mpf(x)
    if isinstance(loss, Logistic):
        e = mp.e ** (-x)
        return mp.log1p(e), -e / (1 + e), e / (1 + e) ** 2
    gap = 1 - x
    if isinstance(loss, Square):
        return gap**2 / 2, -gap, mp.mpf(1)
    if gap <= 0:
        return mp.mpf(0), mp.mpf(0), mp.mpf(0)
    if isinstance(loss, Huber) and gap > loss.width:
        width = mp.mpf(loss.width)
        return width * gap - width**2 / 2, -width, mp.mpf(0)
    return gap**2 / 2, -gap, mp.mpf(1)


@every_loss
def test_value_slope_curvature_at_extremes(loss):
    with mp.workdps(40):
        for margin in MARGINS:
            if margin == 1.0 or margin == 1 - getattr(loss, "width", 0.5):
                continue  # the curvature jumps
            for got, want in zip(
                (loss.value(margin), loss.slope(margin), loss.curvature(margin)),
                exact(loss, margin),
                strict=True,
            ):
                assert abs(float(got) - float(want)) <= 4e-16 * abs(float(want)), margin


@every_loss
def test_derivatives_are_those_of_the_value(loss):
    margins = np.array([-30.1, -2.2, -0.4, 0.2, 0.55, 0.9, 1.7, 6.0])
    h = 1e-5
    slope = (loss.value(margins + h) - loss.value(margins - h)) / (2 * h)
    bend = (loss.slope(margins + h) - loss.slope(margins - h)) / (2 * h)
    np.testing.assert_allclose(loss.slope(margins), slope, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(loss.curvature(margins), bend, rtol=1e-7, atol=1e-8)


@every_loss
def test_prox_residual_is_certified_at_extremes(loss):
    """u + Vℓ′(u) = x with every term exact: the residual is that of rounding u alone."""
    with mp.workdps(40):
        for x in MARGINS:
            for variance in VARIANCES:
                u = float(loss.prox(x, variance))
                _, slope, bend = exact(loss, u)
                residual = mp.mpf(u) + mp.mpf(variance) * slope - mp.mpf(x)
                error = residual / (1 + mp.mpf(variance) * bend)  # in u, by one Newton step
                scale = max(abs(u), abs(x), 1e-300) if isinstance(loss, Huber) else abs(u)
                assert abs(error) <= 8e-16 * max(scale, min(1.0, abs(x))), (x, variance, u)


@every_loss
def test_prox_beats_a_grid(loss):
    grid = np.linspace(-60, 60, 24001)
    for x in (-20.0, -1.0, 0.3, 4.0):
        for variance in (0.05, 1.0, 17.0):
            u = loss.prox(x, variance)

            def objective(v, x=x, variance=variance):
                return loss.value(v) + (v - x) ** 2 / (2 * variance)

            assert objective(u) <= objective(grid).min() + 1e-12


def brute_moments(loss, mean, deviation, variance):
    """The averages over G by Gauss–Legendre on many panels, with the prox, split at its kinks."""
    kinks = [] if isinstance(loss, (Square, Logistic)) else [1.0]
    kinks += [1 - loss.width] if isinstance(loss, Huber) else []
    breaks = [(u + variance * float(loss.slope(u)) - mean) / deviation for u in kinks]
    edges = np.unique(np.concatenate([np.linspace(-10, 10, 4001), np.clip(breaks, -10, 10)]))
    x, w = np.polynomial.legendre.leggauss(10)
    half = np.diff(edges)[:, None] / 2
    g = (edges[:-1, None] + half * (1 + x)).ravel()
    weight = np.exp(-0.5 * g * g) / np.sqrt(2 * np.pi) * (half * w).ravel()
    u = loss.prox(mean + deviation * g, variance)
    psi, bend = loss.slope(u), loss.curvature(u)
    delta = bend / (1 + variance * bend)
    integrands = [psi, psi * g, psi**2, delta, delta * g, delta * g**2]
    integrands += [psi * delta, psi * delta * g, psi**2 * delta]
    return Moments(*(weight @ f for f in integrands)), weight @ loss.value(u)


@every_loss
@pytest.mark.parametrize(
    "mean, deviation, variance",
    [
        (0.3, 1.0, 0.0),
        (-0.18, 0.0265, 0.0),
        (0.3, 0.7, 1.0),
        (-4.0, 2.0, 3.0),
        (9.0, 2.0, 50.0),
        (1.0, 30.0, 10.0),
        (-200.0, 60.0, 1e4),
        (40.0, 25.0, 1e7),
    ],
)
def test_gaussian_averages_against_a_plain_sum(loss, mean, deviation, variance):
    moments = loss.moments(mean, deviation, variance)
    value = loss.mean_value(mean, deviation, variance)
    want, want_value = brute_moments(loss, mean, deviation, variance)
    psi, delta = np.sqrt(want.psi_squared), want.delta
    sizes = [psi, psi, psi**2, delta, delta, delta, psi * delta, psi * delta, psi**2 * delta]
    for name, got, reference, size in zip(Moments._fields, moments, want, sizes, strict=True):
        assert abs(got - reference) <= 1e-9 * max(size, abs(reference)) + 1e-20, name
    assert abs(value - want_value) <= 1e-9 * want_value


@every_loss
def test_averages_accept_any_shape_and_agree_elementwise(loss):
    rng = np.random.default_rng(0)
    mean, deviation = rng.normal(size=(3, 4)), np.exp(rng.normal(size=(3, 4)))
    variance = np.exp(rng.normal(size=4))
    together = loss.moments(mean, deviation, variance)
    for i, j in [(0, 0), (2, 3)]:
        alone = loss.moments(mean[i, j], deviation[i, j], variance[j])
        for a, b in zip(together, alone, strict=True):
            assert a.shape == (3, 4)
            np.testing.assert_allclose(a[i, j], b, rtol=2e-9)


@every_loss
def test_stein_identity(loss):
    """E ψG = deviation · E δ, whatever the variance: two moments computed by different sums."""
    rng = np.random.default_rng(1)
    mean, deviation = rng.normal(size=50) * 5, np.exp(rng.normal(size=50))
    variance = np.exp(rng.normal(size=50) * 4)
    moments = loss.moments(mean, deviation, variance)
    np.testing.assert_allclose(moments.psi_noise, deviation * moments.delta, rtol=2e-9, atol=1e-14)


def test_huber_between_hinge_and_square():
    x = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(Huber(width=100.0).value(x), SquaredHinge().value(x))
    assert np.all(Huber(width=0.5).value(x) <= SquaredHinge().value(x))


@pytest.mark.parametrize("width", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_huber_width_is_validated(width):
    with pytest.raises(InvalidInput, match=r"Huber: width must be a (finite )?number above 0, got"):
        Huber(width=width)


def test_which_losses_penalise_confidence():
    flags = [loss.penalises_confidence for loss in LOSSES]
    assert flags == [True, False, False, False, False, False]

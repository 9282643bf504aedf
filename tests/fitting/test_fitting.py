"""The convex fit against other people's solvers, its own optimality conditions, and hard cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

import sparsetoken as st
import witness as plain
from sparsetoken.fitting.fit import fit, fit_gram
from sparsetoken.model.envelopes import Piece, PiecewiseQuadratic
from sparsetoken.support.errors import InvalidInput

LOSSES = [st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber(), st.Huber(width=0.3)]
SHAPES = [(400, 60), (300, 250), (80, 300)]


def problem(n, p, seed=0, shift=0.6, prevalence=0.5):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < prevalence, 1.0, -1.0)
    features = rng.standard_normal((n, p)) * rng.uniform(0.3, 1.5, n)[:, None] + 0.2
    features[:, 0] += 3 * shift * labels
    return features, labels


def gradient(features, labels, loss, ridge, weights, bias):
    """∇ of the objective, written out; the slopes are the witness's."""
    if loss == st.Huber(width=0.3):
        slope = np.clip(labels * (features @ weights + bias) - 1, -0.3, 0)
    else:
        slope = plain.SLOPES[repr(loss)](labels * (features @ weights + bias))
    pull = labels * slope / len(labels)
    return np.append(features.T @ pull + ridge * weights, pull.sum())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ridge", [1e-8, 1e-5, 1e-2, 10.0])
def test_the_gradient_vanishes(loss, shape, ridge):
    features, labels = problem(*shape, prevalence=0.3)
    fitted = fit(features, labels, loss, ridge)
    left = gradient(features, labels, loss, ridge, fitted.weights, fitted.bias)
    np.testing.assert_allclose(np.linalg.norm(left), fitted.gradient_norm, rtol=1e-2, atol=1e-14)
    pulls = np.abs(loss.slope(labels * fitted.scores)).mean()
    size = np.sqrt((features**2).sum(axis=1).mean())
    rounding = 2e-16 * 2 * size * np.linalg.norm(fitted.weights) / pulls
    assert np.linalg.norm(left[:-1]) <= 2 * max(1e-8, rounding) * pulls * size
    assert abs(left[-1]) <= 2 * max(1e-8, rounding) * pulls
    np.testing.assert_allclose(fitted.scores, features @ fitted.weights + fitted.bias, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ridge", [1e-4, 1e-2, 1.0])
def test_ridge_regression_is_scikit_learns(shape, ridge):
    features, labels = problem(*shape)
    fitted = fit(features, labels, st.Square(), ridge)
    other = Ridge(alpha=len(labels) * ridge, solver="svd").fit(features, labels)
    np.testing.assert_allclose(fitted.weights, other.coef_, atol=1e-6)
    assert fitted.bias == pytest.approx(other.intercept_, abs=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ridge", [1e-4, 1e-2, 1.0])
def test_logistic_regression_is_scikit_learns(shape, ridge):
    features, labels = problem(*shape)
    fitted = fit(features, labels, st.Logistic(), ridge)
    other = LogisticRegression(
        C=1 / (len(labels) * ridge), solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(features, labels)
    np.testing.assert_allclose(fitted.weights, other.coef_[0], atol=1e-6)
    assert fitted.bias == pytest.approx(other.intercept_[0], abs=1e-6)


@pytest.mark.parametrize("loss", [st.SquaredHinge(), st.Huber()], ids=repr)
def test_kinked_losses_agree_with_a_general_minimiser(loss):
    features, labels = problem(300, 40)
    fitted = fit(features, labels, loss, 1e-2)
    weights, bias = plain.fit(features, labels, loss, 1e-2)
    np.testing.assert_allclose(fitted.weights, weights, atol=2e-5)
    assert fitted.bias == pytest.approx(bias, abs=2e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", [(500, 300), (200, 600)], ids=str)
def test_every_way_to_take_a_step_gives_the_same_answer(loss, shape):
    features, labels = problem(*shape, shift=0.3)
    ways = [fit(features, labels, loss, 1e-3, factorise=way) for way in (None, True, False)]
    for other in ways[1:]:
        np.testing.assert_allclose(other.weights, ways[0].weights, atol=2e-6)
    dual, reduced = fit_gram(features @ features.T, labels, loss, 1e-3)
    np.testing.assert_allclose(features.T @ dual, ways[0].weights, atol=2e-6)
    norm = np.linalg.norm(ways[0].weights)
    assert np.linalg.norm(reduced.weights) == pytest.approx(norm, rel=1e-5)
    assert reduced.bias == pytest.approx(ways[0].bias, abs=2e-6)


def test_conjugate_gradients_are_used_where_they_are_cheap():
    features, labels = problem(1500, 400)
    assert fit(features, labels, st.Logistic(), 1e-3).products > 0
    assert fit(features, labels, st.Logistic(), 1e-3, factorise=True).products == 0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_gradient_norm_that_is_small_enough(loss):
    features, labels = problem(600, 200)
    exact = fit(features, labels, loss, 1e-3)
    rough = fit(features, labels, loss, 1e-3, gradient_norm=1e-3)
    assert exact.gradient_norm < rough.gradient_norm <= 1e-3
    if loss in (st.Square(), st.Logistic()):
        assert rough.products <= exact.products


def test_a_singular_gram_matrix():
    """Two equal samples: no Cholesky factor, the same answer."""
    features, labels = problem(60, 200)
    features[1], labels[1] = features[0], labels[0]
    dual, _ = fit_gram(features @ features.T, labels, st.Logistic(), 1e-2)
    direct = fit(features, labels, st.Logistic(), 1e-2)
    np.testing.assert_allclose(features.T @ dual, direct.weights, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES[1:], ids=repr)
@pytest.mark.parametrize("ridge", [1e-6, 1e-9])
def test_separable_data_with_a_tiny_ridge(loss, ridge):
    features, labels = problem(200, 150, shift=3.0)
    fitted = fit(features, labels, loss, ridge)
    assert np.all(labels * fitted.scores > 0)
    # the readout approaches the one of largest margin
    directions = [fitted.weights / np.linalg.norm(fitted.weights)]
    hinge = fit(features, labels, st.SquaredHinge(), 1e-9)
    directions.append(hinge.weights / np.linalg.norm(hinge.weights))
    assert directions[0] @ directions[1] > (0.95 if loss == st.Logistic() else 0.9999)


@pytest.mark.parametrize("samples", [2.6, 3.0, 3.2])
def test_at_the_edge_of_separability_with_a_tiny_ridge(samples):
    """Newton's steps lower the objective for long before they lower its gradient."""
    protocol = st.Protocol(readout_samples=samples, ridge=1e-7)
    run = st.simulate(st.Task(10, 1, 5.0), st.Pooled(), protocol, dim=300, repeats=6, seed=1)
    assert run.failed == 0 and run.certificate.max() <= 1e-8


@pytest.mark.parametrize("loss", [st.Logistic(), st.SquaredHinge(), st.Huber()], ids=repr)
def test_without_a_ridge_separable_data_have_no_minimiser(loss):
    features, labels = problem(100, 20, shift=5.0)
    with pytest.raises(st.NoMinimiserError, match=r"ridge=0 .* separable"):
        fit(features, labels, loss, 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_without_a_ridge_where_there_is_a_minimiser(loss):
    features, labels = problem(400, 20, shift=0.1)
    fitted = fit(features, labels, loss, 0.0)
    close = fit(features, labels, loss, 1e-10)
    np.testing.assert_allclose(fitted.weights, close.weights, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_without_a_ridge_fewer_samples_than_features(loss):
    features, labels = problem(20, 30)
    with pytest.raises(st.NoMinimiserError, match="infinitely many"):
        fit(features, labels, loss, 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_units_do_not_matter(loss):
    """Features times c with ridge times c²: weights over c, same bias, same certificate."""
    features, labels = problem(300, 200)
    one = fit(features, labels, loss, 1e-3)
    other = fit(1e6 * features, labels, loss, 1e-3 * 1e12)
    np.testing.assert_allclose(other.weights * 1e6, one.weights, atol=1e-6)
    assert other.bias == pytest.approx(one.bias, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("scale", [1e25, 1e-25, 0.0])
def test_extreme_units(loss, scale):
    """Beyond the range of float32, and features that say nothing."""
    features, labels = problem(300, 200)
    one = fit(features, labels, loss, 1e-2)
    other = fit(scale * features, labels, loss, 1e-2 * scale**2 if scale else 1e-2)
    if scale:
        np.testing.assert_allclose(other.weights * scale, one.weights, atol=1e-5)
        assert other.bias == pytest.approx(one.bias, abs=1e-5)
    else:
        assert np.all(other.weights == 0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", [(400, 150), (150, 400)], ids=str)
def test_float32_loses_what_the_documentation_says(loss, shape):
    """docs/simulation.md: relative error of the readout below 1e-3, and with kinks on separable
    data, where the slopes are of the size of the ridge, below 2e-6/ridge more."""
    features, labels = problem(*shape)
    for ridge in (1e-4, 1e-2):
        exact = fit(features, labels, loss, ridge)
        rough = fit(features.astype(np.float32), labels, loss, ridge)
        assert rough.weights.dtype == np.float32
        gap = np.linalg.norm(rough.weights - exact.weights) / np.linalg.norm(exact.weights)
        kinks = getattr(loss, "dual_box", None) is not None
        assert gap < 1e-3 + kinks * 2e-6 / ridge, (ridge, gap)


class ThreePieces(PiecewiseQuadratic):
    """A loss with two curved pieces: no box in the dual, plain Newton must do."""

    pieces = (
        Piece(-np.inf, 0.0, c=0.0, a=0.0, k=0.0),
        Piece(0.0, 1.0, c=1.0, a=0.0, k=0.0),
        Piece(1.0, np.inf, c=0.5, a=0.5, k=-0.25),
    )

    def __repr__(self):
        return "ThreePieces()"


def test_a_loss_of_another_shape():
    loss = ThreePieces()
    assert loss.dual_box is None
    features, labels = problem(300, 60)
    fitted = fit(features, labels, loss, 1e-2)
    pull = labels * loss.slope(labels * fitted.scores) / 300
    np.testing.assert_allclose(features.T @ pull + 1e-2 * fitted.weights, 0, atol=1e-7)


def test_boxes_are_the_slopes():
    gap = np.linspace(-2, 3, 101)
    for loss in (st.SquaredHinge(), st.Huber(), st.Huber(width=0.4)):
        c, a, top = loss.dual_box
        np.testing.assert_allclose(-loss.slope(1 - gap), np.clip(c * gap + a, 0, top), atol=1e-15)
    assert st.Square().dual_box is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(features=np.zeros(4)), "features must be a matrix"),
        (dict(features=np.zeros((0, 3))), "features must be a matrix"),
        (dict(features=np.full((4, 2), np.nan)), "features must be finite"),
        (dict(labels=[1, -1, 1]), "labels must be 4 numbers"),
        (dict(labels=[1, -1, 0, 1]), "labels must be 4 numbers"),
        (dict(labels=[1, 1, 1, 1]), r"labels must hold both \+1 and -1, got only \+1"),
        (dict(ridge=-1.0), "ridge must be a number at least 0, got -1.0"),
        (dict(tolerance=2.0), "tolerance must be"),
    ],
)
def test_bad_input(change, message):
    given = dict(features=np.eye(4)[:, :2], labels=[1, -1, 1, -1], ridge=0.1) | change
    tolerance = given.pop("tolerance", None)
    with pytest.raises(InvalidInput, match=message):
        fit(loss=st.Logistic(), tolerance=tolerance, **given)
    with pytest.raises(InvalidInput, match="gram must be a square matrix"):
        fit_gram(np.zeros((2, 3)), [1, -1], st.Logistic(), 0.1)


def by_scipy(features, labels, loss, ridge, weights, offsets):
    """The weighted objective with offsets, by a minimiser that shares no code with `fit`."""
    share = weights / weights.sum()

    def objective(x):
        margin = labels * (features @ x[:-1] + x[-1] + offsets)
        pull = share * labels * loss.slope(margin)
        value = share @ loss.value(margin) + 0.5 * ridge * x[:-1] @ x[:-1]
        return value, np.append(pull @ features + ridge * x[:-1], pull.sum())

    options = {"gtol": 1e-10, "ftol": 1e-16, "maxiter": 10_000, "maxfun": 20_000}
    return minimize(objective, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B",
                    options=options).x  # fmt: skip


@pytest.mark.parametrize("loss", [st.Logistic(), st.Square(), st.SquaredHinge(), st.Huber()])
@pytest.mark.parametrize(("n", "p"), [(60, 30), (30, 60), (200, 80), (80, 200)])
def test_weights_offsets_and_a_start(loss, n, p):
    """From either end of the ridges, each fit beginning at the one before."""
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    features = rng.standard_normal((n, p)) + 0.3 * labels[:, None]
    weights, offsets = rng.integers(0, 4, n).astype(float), rng.standard_normal(n)
    weights[:4], labels[:4] = 1.0, [1, 1, -1, -1]
    start = None
    for ridge in (10.0, 0.1, 1e-2):
        fitted = fit(features, labels, loss, ridge, weights=weights, offsets=offsets, start=start)
        start = (fitted.weights, fitted.bias)
        expected = by_scipy(features, labels, loss, ridge, weights, offsets)
        np.testing.assert_allclose(fitted.weights, expected[:-1], atol=2e-5)
        assert fitted.bias == pytest.approx(expected[-1], abs=2e-5)
        scores = features @ fitted.weights + fitted.bias + offsets
        np.testing.assert_allclose(fitted.scores, scores, atol=1e-9)
        assert fitted.certificate < 1e-8
    assert fit(
        features, labels, loss, ridge, weights=weights, offsets=offsets, start=start
    ).steps <= 1  # fmt: skip


@pytest.mark.parametrize("loss", [st.Logistic(), st.Square(), st.Huber()])
def test_a_weight_is_a_number_of_copies(loss):
    rng = np.random.default_rng(2)
    features, labels = rng.standard_normal((40, 5)), np.repeat([1.0, -1.0], 20)
    copies = rng.integers(0, 4, 40)
    copies[[0, 20]] = 1
    weighted = fit(features, labels, loss, 0.1, weights=7.0 * copies)
    copied = fit(np.repeat(features, copies, axis=0), np.repeat(labels, copies), loss, 0.1)
    np.testing.assert_allclose(weighted.weights, copied.weights, atol=1e-7)
    np.testing.assert_allclose(weighted.bias, copied.bias, atol=1e-7)


def test_weights_and_offsets_that_are_refused():
    features, labels = np.eye(4), np.array([1.0, 1.0, -1.0, -1.0])
    for given, words in (
        ({"weights": [1.0, 1.0, 0.0, 0.0]}, "weights must be at least 0.*sums of 2 and 0"),
        ({"weights": [1.0, -1.0, 1.0, 1.0]}, "weights must be at least 0.*smallest of -1"),
        ({"weights": [1.0, 1.0]}, r"weights must be 4 finite numbers.*got shape \(2,\)"),
        ({"offsets": [0.0, np.nan, 0.0, 0.0]}, "offsets must be 4 finite numbers"),
    ):
        with pytest.raises(st.InvalidInput, match=words):
            fit(features, labels, st.Logistic(), 0.1, **given)


def test_directions_that_the_gram_matrix_does_not_resolve_are_fitted_too(monkeypatch):
    """58 bags of 64 features once ended at 1.1e-8 where 1e-8 is asked for."""
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    right = np.linalg.qr(rng.standard_normal((40, 30)))[0]
    features = (left * np.r_[np.full(26, 3.0), np.full(4, 1e-3)]) @ right.T
    labels = np.where(left[:, -1] > 0, 1.0, -1.0)  # what a small direction tells

    def coarse(xp, gram):
        values, vectors = np.linalg.eigh(gram)
        basis, scale = vectors[:, values > 1e-4], np.sqrt(values[values > 1e-4])
        return basis * scale, lambda weights: basis @ (weights / scale)

    def fitted():
        return fit(features, labels, st.Logistic(), 1e-3, factorise=True)

    whole = fitted()
    monkeypatch.setattr("sparsetoken.fitting.fit._rows_of", coarse)
    assert fitted().certificate < 1e-8
    np.testing.assert_allclose(fitted().weights, whole.weights, atol=1e-6)

"""The saddle point: independent potential, limits, closed forms, refusals, batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory import newton, saddle

LOSSES = [st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def small_law(seed=0, atoms=6):
    rng = np.random.default_rng(seed)
    return st.FeatureLaw(
        labels=np.where(np.arange(atoms) % 2, 1.0, -1.0),
        means=rng.normal(size=(atoms, 2)) + 0.8 * (np.arange(atoms) % 2)[:, None],
        scales=np.exp(0.3 * rng.normal(size=atoms)),
        weights=rng.random(atoms) + 0.1,
        noisy=[False, True],
    )


LOSS_VALUES = {
    "Square()": lambda x: 0.5 * (1 - x) ** 2,
    "Logistic()": lambda x: np.logaddexp(0, -x),
    "SquaredHinge()": lambda x: 0.5 * np.maximum(1 - x, 0) ** 2,
    "Huber(width=1.0)": lambda x: np.where(x > 1, 0, np.where(x > 0, 0.5 * (1 - x) ** 2, 0.5 - x)),
}


def potential(law, loss, ridge, alpha, w, b, rho, t):
    """E M(ω; V) − ρt/(2√α) + (λ/2)(Σw² + ρ²), with nothing of the package but the law's numbers.

    The Moreau envelope is minimised by golden-section search, G integrated panel by panel.
    """
    x, weight = np.polynomial.legendre.leggauss(4)
    centres = np.linspace(-9, 9, 1201)[:-1] + 9 / 1200
    g = (centres[:, None] + 9 / 1200 * x).ravel()
    weight = np.tile(9 / 1200 * weight, 1200) * np.exp(-0.5 * g * g) / np.sqrt(2 * np.pi)
    r = np.sqrt(rho**2 + sum(w[k] ** 2 for k in range(2) if law.noisy[k]))
    omega = (law.means @ w + b)[:, None] + law.scales[:, None] * r * g  # (atoms, nodes)
    v = (law.scales**2 * rho / (np.sqrt(alpha) * t))[:, None]
    margin = law.labels[:, None] * omega
    value = LOSS_VALUES[repr(loss)]

    def objective(u):
        return value(u) + (u - margin) ** 2 / (2 * v)

    reach = v * (1 + np.abs(1 - margin))  # slopes are at most 1 + |1 − x|
    low, high = margin - reach, margin + reach
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(45):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        down = objective(left) < objective(right)
        low, high = np.where(down, low, left), np.where(down, right, high)
    envelope = objective((low + high) / 2)
    return (
        law.weights @ (envelope @ weight)
        - rho * t / (2 * np.sqrt(alpha))
        + 0.5 * ridge * (w @ w + rho**2)
    )


@every_loss
@pytest.mark.parametrize("ridge, alpha", [(0.3, 0.7), (0.02, 3.0), (1e-3, 12.0)])
def test_solution_is_the_saddle_of_an_independent_potential(loss, ridge, alpha):
    law = small_law()
    fit = st.solve(law, loss, ridge, alpha)
    t = fit.rest / (np.sqrt(alpha) * fit.susceptibility)

    def at(dw=(0.0, 0.0), db=0.0, drho=0.0, dt=0.0):
        return potential(
            law, loss, ridge, alpha, fit.weights + dw, fit.bias + db, fit.rest * (1 + drho),
            t * (1 + dt),
        )  # fmt: skip

    centre, h = at(), 5e-4
    moves = [dict(dw=(h, 0.0)), dict(dw=(0.0, h)), dict(db=h), dict(drho=h), dict(dt=h)]
    back = [dict(dw=(-h, 0.0)), dict(dw=(0.0, -h)), dict(db=-h), dict(drho=-h), dict(dt=-h)]
    for forward, backward in zip(moves, back, strict=True):
        up, down = at(**forward), at(**backward)
        slope, bend = (up - down) / (2 * h), (up + down - 2 * centre) / h**2
        assert abs(slope) <= 1e-5 * abs(bend), forward  # stationary: at 1e-5 of a unit away …
        assert (bend < 0) == ("dt" in forward), forward  # … min in w, b, ρ and max in t


@every_loss
def test_exact_derivatives_of_the_equations(loss):
    law = small_law(1)
    problem = saddle.Saddle(law, loss, np.array([0.05, 1e-3]), np.array([0.4, 3.0]))
    state = 0.4 * np.random.default_rng(2).normal(size=(2, 5))
    h = 1e-5
    _, jacobian = saddle.equations(problem, state)
    for j in range(5):
        e = h * np.eye(5)[j]
        plus, minus = (saddle.equations(problem, state + s * e)[0] for s in (1, -1))
        np.testing.assert_allclose(
            jacobian[:, :, j], (plus - minus) / (2 * h), rtol=2e-6, atol=1e-7
        )


@every_loss
def test_residual_is_certified_and_a_wrong_point_is_not(loss):
    law = small_law(2)
    problem = saddle.Saddle(law, loss, np.array([1e-6]), np.array([0.3]))
    fit = st.solve(law, loss, 1e-6, 0.3)
    assert fit.residual <= 1e-9 and fit.converged
    state = np.concatenate([fit.weights, [fit.bias, np.log(fit.rest), np.log(fit.susceptibility)]])[
        None
    ]
    assert np.abs(saddle.equations(problem, state)[0]).max() <= 1e-9
    shrunk = state + np.log(1e-3) * np.array([0, 0, 0, 1, 0])  # ρ → 0, where plain gradients vanish
    assert np.abs(saddle.equations(problem, shrunk)[0]).max() > 0.1


def test_square_loss_closed_form_is_the_general_solution():
    for seed in range(5):
        law = small_law(seed)
        for ridge, alpha in [(1.0, 0.2), (1e-3, 0.9), (1e-6, 0.5), (1e-2, 30.0), (0.0, 2.0)]:
            closed = st.solve_square(law, ridge, alpha)
            problem = saddle.Saddle(law, st.Square(), np.array([ridge]), np.array([alpha]))
            start = np.array([[0.1, -0.1, 0.0, 0.3, -np.log(alpha * (ridge + 0.3))]])
            state, residual, _ = newton.newton(problem, start, 1e-11)  # a start that knows nothing
            assert residual[0] <= 1e-9
            got = [*closed.weights, closed.bias, np.log(closed.rest), np.log(closed.susceptibility)]
            np.testing.assert_allclose(state[0], got, rtol=1e-8, atol=1e-9)


def test_ridgeless_square_loss():
    """α E[σ²χ/(1+σ²χ)] = 1 for α > 1, and the limit of small ridges."""
    law = small_law(3)
    fit = st.solve(law, st.Square(), 0.0, 1.7)
    v = law.scales**2 * fit.susceptibility
    assert 1.7 * (law.weights @ (v / (1 + v))) == pytest.approx(1, abs=1e-10)
    near = st.solve(law, st.Square(), 1e-9, 1.7)
    assert near.test_error == pytest.approx(fit.test_error, abs=1e-7)


@every_loss
def test_population_limit(loss):
    law = small_law(4)
    limit = st.solve(law, loss, 0.01, np.inf)
    assert limit.rest == 0 and limit.residual <= 1e-9
    gaps = []
    for alpha in (1e3, 1e4, 1e5):
        fit = st.solve(law, loss, 0.01, alpha)
        gaps.append(np.linalg.norm(np.append(fit.weights, fit.bias) - [*limit.weights, limit.bias]))
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05)  # everything converges as 1/α
    assert gaps[1] / gaps[2] == pytest.approx(10, rel=0.05)
    close = st.solve(law, loss, 0.01, 1e8)
    np.testing.assert_allclose(close.weights, limit.weights, atol=1e-6)
    assert close.train_loss == pytest.approx(limit.train_loss, abs=1e-6)
    assert limit.train_error == limit.test_error


@every_loss
def test_population_minimiser_minimises_the_population_loss(loss):
    law = small_law(5)
    fit = st.solve(law, loss, 0.05, np.inf)

    def objective(w, b):
        r = np.sqrt(w[1] ** 2)
        margin = law.labels * (law.means @ w + b)
        x, weight = np.polynomial.hermite_e.hermegauss(120)
        inside = LOSS_VALUES[repr(loss)](margin[:, None] + law.scales[:, None] * r * x)
        return law.weights @ (inside @ weight) / weight.sum() + 0.025 * (w @ w)

    best = objective(fit.weights, fit.bias)
    rng = np.random.default_rng(0)
    for size in (0.3, 0.03):
        for _ in range(20):
            move = size * rng.normal(size=3)
            assert objective(fit.weights + move[:2], fit.bias + move[2]) > best - 1e-9


def test_no_signal_in_the_limit_gives_the_constant_classifier():
    task = st.Task(5, 2, 0.0, prevalence=0.2)
    for classifier in (st.Pooled(), st.Vectorized(), st.Attention(cosine=0.5, sharpness=1.0)):
        for loss in LOSSES:
            fit = st.solve(classifier.law(task), loss, 1e-3, np.inf)
            assert fit.test_error == pytest.approx(0.2, abs=1e-6), (classifier, loss)


@every_loss
def test_large_ridge_expansion(loss):
    """As λ → ∞, w → −E[ψm]/λ and ρ² → E[σ²ψ²]/(αλ²) at the bias that balances the classes."""
    law = small_law(6)
    alpha, ridge = 2.0, 1e6
    fit = st.solve(law, loss, ridge, alpha)
    slope = np.array([float(loss.slope(y * fit.bias)) for y in law.labels]) * law.labels
    assert abs(law.weights @ slope) < 1e-5
    np.testing.assert_allclose(fit.weights, -(law.weights * slope) @ law.means / ridge, rtol=1e-4)
    want = np.sqrt(law.weights @ (law.scales * slope) ** 2 / alpha) / ridge
    assert fit.rest == pytest.approx(want, rel=1e-4)


def test_length_one_is_the_gaussian_mixture_for_every_classifier():
    task = st.Task(1, 1, 2.0, prevalence=0.3)
    protocol = st.Protocol(readout_samples=3.0, ridge=0.01)
    want = st.predict(task, st.Pooled(), protocol)
    got = st.predict(task, st.Vectorized(), protocol)
    assert got.test_error == pytest.approx(want.test_error, abs=1e-12)
    for classifier in (st.Attention(), st.Attention(cosine=0.4, sharpness=3.0)):
        got = st.predict(task, classifier, protocol)
        assert abs(got.test_error - want.test_error) < 1e-5
        assert abs(got.train_loss / want.train_loss - 1) < 1e-5


def test_batches_equal_single_solves():
    law = st.Attention(cosine=0.8, sharpness=2.0).law(st.Task(8, 1, 4.0))
    ridges, samples = [1e-5, 1e-2, 1.0], [0.3, 2.0, np.inf]
    together = st.solve_many(law, st.Logistic(), ridges, samples)
    for fit, ridge, sample in zip(together, ridges, samples, strict=True):
        alone = st.solve(law, st.Logistic(), ridge, sample)
        np.testing.assert_allclose(fit.weights, alone.weights, rtol=1e-8)
        assert fit.test_error == pytest.approx(alone.test_error, abs=1e-10)


def test_continuation_reaches_the_same_solution():
    law = small_law(7)
    for loss in LOSSES:
        for ridge in (1e-5, 0.3):
            problem = saddle.Saddle(law, loss, np.array([ridge]), np.array([1.5]))
            state, residual, _ = newton.continuation(problem, 1e-11)
            fit = st.solve(law, loss, ridge, 1.5)
            assert residual[0] <= 1e-9
            np.testing.assert_allclose(state[0, :2], fit.weights, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("loss", [st.Logistic(), st.SquaredHinge(), st.Huber()], ids=repr)
def test_without_a_ridge_separable_data_have_no_minimiser(loss):
    law = small_law(8)
    threshold = st.separability_threshold(law)
    with pytest.raises(st.NoMinimiserError, match=r"threshold .* use a positive ridge"):
        st.solve(law, loss, 0.0, 0.9 * threshold)
    fit = st.solve(law, loss, 0.0, 1.3 * threshold)
    assert fit.residual <= 1e-9
    near = st.solve(law, loss, 1e-9, 1.3 * threshold)
    assert near.test_error == pytest.approx(fit.test_error, abs=1e-6)


def test_without_a_ridge_the_square_loss_needs_more_samples_than_dimensions():
    with pytest.raises(st.NoMinimiserError, match="interpolate"):
        st.solve(small_law(), st.Square(), 0.0, 1.0)
    with pytest.raises(st.NoMinimiserError, match="interpolate"):
        st.solve_square(small_law(), 0.0, 0.7)


@pytest.mark.parametrize(
    "ridge, samples, name",
    [
        ([1.0, 2.0], 1.0, "ridge"),
        (True, 1.0, "ridge"),
        (-1.0, 1.0, "ridge"),
        (np.nan, 1.0, "ridge"),
        (1.0, 0.0, "samples_per_dim"),
        (1.0, -2.0, "s"),
    ],
)
def test_wrong_values_are_named(ridge, samples, name):
    with pytest.raises(InvalidInput, match=f"solve: {name}"):
        st.solve(small_law(), st.Square(), ridge, samples)


def test_kinks_without_noise_in_the_population_limit():
    """At cosine ±1 the limit leaves no noise to smooth a loss: only convexity helps."""
    for sharpness, task, loss in [
        (1.0, st.Task(1, 1, 6.0, 0.3), st.SquaredHinge()),
        (1.0, st.Task(1, 1, 6.0, 0.3), st.Huber()),
        (3.0, st.Task(10, 1, 5.0, 0.1), st.Huber()),
        (100.0, st.Task(5, 5, 3.0), st.SquaredHinge()),
    ]:
        fit = st.solve(st.Attention(1.0, sharpness).law(task), loss, 1e-3, np.inf)
        assert fit.residual <= 1e-9
    # L = 1 is the Gaussian mixture: Φ(−3)-like errors up to the threshold's own shift
    want = st.solve(st.Pooled().law(st.Task(1, 1, 4.0, 0.3)), st.Huber(), 1e-3, np.inf)
    got = st.solve(st.Attention(1.0, 1.0).law(st.Task(1, 1, 4.0, 0.3)), st.Huber(), 1e-3, np.inf)
    assert abs(got.test_error - want.test_error) < 2e-4


def test_long_curves_are_solved_in_parts():
    law = small_law(3)
    samples = np.logspace(-1, 2, 70)
    fits = st.solve_many(law, st.Logistic(), 1e-2, samples)
    assert [fit.samples_per_dim for fit in fits] == samples.tolist()
    alone = st.solve(law, st.Logistic(), 1e-2, float(samples[50]))
    assert fits[50].test_error == pytest.approx(alone.test_error, abs=1e-10)


def test_a_loss_must_be_an_object():
    for loss in (st.Logistic, "square", None):
        with pytest.raises(InvalidInput, match="solve: loss must be a loss such as"):
            st.solve(small_law(), loss, 1.0, 1.0)


def test_a_solve_that_falls_short_raises(monkeypatch):
    monkeypatch.setattr(newton, "MOST_STEPS", 0)
    with pytest.raises(st.ConvergenceError, match=r"residual .* is required"):
        st.solve(small_law(9), st.Logistic(), 1e-7, 0.5)


@pytest.mark.parametrize("loss", [st.Logistic(), st.SquaredHinge(), st.Square()])
def test_a_fit_nearby_is_only_a_place_to_begin(loss):
    """Near or far, with another ridge, number of samples or law: the same solution."""
    task = st.Task(10, 1, 4.0, prevalence=0.05)
    law = st.Attention(0.7, 1.5).law(task)
    (cold,) = st.solve_many(law, loss, 0.02, 3.0)
    starts = [
        st.solve(law, loss, 0.03, 2.5),
        st.solve(law, loss, 10.0, 300.0),
        st.solve(st.Attention(0.2, 0.1).law(task), loss, 1e-4, 0.5),
        st.solve(law, loss, 0.02, np.inf),
    ]
    for near in starts:
        (warm,) = st.solve_many(law, loss, 0.02, 3.0, near)
        assert warm.test_error == pytest.approx(cold.test_error, rel=1e-8)
        np.testing.assert_allclose(warm.state, cold.state, rtol=1e-6, atol=1e-8)


def test_a_place_to_begin_does_not_change_the_end():
    law, loss = small_law(3), st.Logistic()
    samples = [0.5, 1.5, np.inf, 6.0]
    cold = st.solve_many(law, loss, 0.1, samples)
    fits = st.solve_many(law, loss, 0.11, samples)
    for near in (fits, fits[1], fits[::-1]):
        for one, other in zip(cold, st.solve_many(law, loss, 0.1, samples, near), strict=True):
            np.testing.assert_allclose(one.weights, other.weights, rtol=1e-7, atol=1e-9)
    steps = [sum(fit.iterations for fit in st.solve_many(law, loss, 0.1, samples, near))
             for near in (None, fits)]  # fmt: skip
    assert steps[1] < steps[0]
    with pytest.raises(InvalidInput, match=r"near must be one fit, or 4 \(one a problem\), got 2"):
        st.solve_many(law, loss, 0.1, samples, fits[:2])


@pytest.mark.parametrize(
    ("loss", "ridge", "alpha"),
    [(st.Huber(), 1e-3, 200.0), (st.Logistic(), 1e-2, 4.0), (st.SquaredHinge(), 0.1, np.inf)],
    ids=["huber", "logistic", "limit"],
)
def test_the_gap_is_what_compression_costs(loss, ridge, alpha):
    """Against solving on every one of the 65,536 atoms."""
    law = st.Attention(1.0, 1.0).law(st.Task(10, 1, 5.0))
    fit = st.solve(law, loss, ridge, alpha)
    gap = fit.gap
    whole = replace(law)
    whole.__dict__["compressed"] = whole.__dict__["refined"] = whole
    exact = st.solve(whole, loss, ridge, alpha)
    assert fit.residual < 1e-9 < gap.residual  # of the atoms solved on; of the law itself
    assert exact.gap.residual < 1e-9 and exact.gap.test_error == 0
    for name in ("test_error", "train_loss"):
        moved = abs(getattr(exact, name) - getattr(fit, name))
        assert getattr(gap, name) == pytest.approx(moved, rel=0.05, abs=1e-8), name
        assert moved < 2e-4

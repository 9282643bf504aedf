"""Laws with several covariances: the equations, published values, limits, what changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.geometry import SpectralGeometry
from sparsetoken.theory import several

REFERENCE = Path(__file__).parent.parent / "reference"
LOSSES = {"square": st.Square(), "logistic": st.Logistic()}
EVERY_LOSS = (st.Square(), st.Logistic(), st.Huber(), st.SquaredHinge())
SPECTRUM = st.Spectrum((0.2, 1.0, 4.0), (0.5, 0.35, 0.15), (0.1, 0.2, 0.7))
FROZEN = st.Attention(cosine=0.8, sharpness=1.0)
NUMBERS = ("test_error", "train_error", "train_loss", "auc", "norm", "bias")


def rows(name):
    return json.loads((REFERENCE / f"{name}.json").read_text())["rows"]


def random_law(rng, directions=3, covariances=2, atoms=3, size=30):
    def gram(count):
        factor = rng.standard_normal((count, directions, directions + 1))
        return factor @ np.swapaxes(factor, 1, 2) / 10

    density = rng.dirichlet(np.ones(atoms))
    geometry = SpectralGeometry(np.exp(rng.normal(size=(covariances, atoms))), density, gram(atoms))
    noisy = np.ones((covariances, directions), dtype=bool)
    return st.FeatureLaw(
        np.where(np.arange(size) < 0.4 * size, 1.0, -1.0),
        rng.standard_normal((size, directions)),
        rng.random((size, covariances)) + 0.1,
        rng.random(size) + 0.1,
        noisy,
        geometry=geometry,
    )


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("alpha", [(0.4, 3.0), (np.inf, np.inf)])
def test_exact_derivatives_of_the_equations(loss, alpha):
    rng = np.random.default_rng(0)
    law = random_law(rng)
    law = replace(law, noisy=np.array([[False, True, True], [True, False, True]]))
    problem = several.SeveralSaddle(law, loss, np.array([0.05, 1e-3]), np.array(alpha))
    state = rng.normal(size=(2, 4 + problem.logarithms)) * 0.5
    _, jacobian = problem.equations(state)
    for k, e in enumerate(1e-6 * np.eye(state.shape[1])):
        plus, minus = (problem.equations(state + s * e)[0] for s in (1, -1))
        np.testing.assert_allclose(jacobian[..., k], (plus - minus) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("samples", [0.3, 2.0, 20.0, np.inf])
def test_one_white_covariance_gives_the_equations_of_white_noise_back(loss, samples):
    white = FROZEN.law(st.Task(6, 1, 3.0, prevalence=0.4)).compressed
    geometry = SpectralGeometry([[1.0]], [1.0], [np.eye(2)])
    law = replace(white, scales=white.scales[:, None], noisy=white.noisy[None], geometry=geometry)
    for ridge in (0.1, 1e-4):
        usual = st.solve(white, loss, ridge, samples)
        general = st.solve(law, loss, ridge, samples)
        for name in NUMBERS:
            assert getattr(general, name) == pytest.approx(getattr(usual, name), abs=1e-10)
        assert general.iterations <= usual.iterations + 1


@pytest.mark.parametrize("row", rows("coloured"))
def test_published_values_with_coloured_noise(row):
    noise = st.Spectrum(row["eigenvalues"], row["density"], row["signal"])
    check(row, noise, None, row["query_signal"], row["inverse_temperature"])


@pytest.mark.parametrize("row", rows("spread"))
def test_published_values_with_a_spread(row):
    noise = st.Spectrum([1.0] * len(row["density"]), row["density"], row["signal"])
    check(row, noise, row["signal_covariance"], row["cosine"], row["sharpness"])


def check(row, noise, spread, cosine, sharpness):
    numbers = [row[name] for name in ("length", "sparsity", "strength", "prevalence")]
    task = st.Task(*numbers, noise=noise, signal_spread=spread)
    protocol = st.Protocol(
        readout_samples=row["readout_samples"], ridge=row["ridge"], loss=LOSSES[row["loss"]]
    )
    p = st.predict(task, st.Attention(cosine=cosine, sharpness=sharpness), protocol)
    allowed = 1e-4 + 3 * row["uncertainty"]["test_error"]
    assert abs(p.test_error - row["test_error"]) < allowed
    assert p.train_loss == pytest.approx(row["train_loss"], rel=1e-3)
    assert p.residual < 1e-9 and p.gap.test_error < 1e-5


CLASSIFIERS = (st.Pooled(), st.Vectorized(), FROZEN, st.Attention(0.7, 2.0, st.HardMax()))


def numbers(task, classifier, loss=st.Logistic(), samples=2.0):  # noqa: B008
    p = st.predict(task, classifier, st.Protocol(readout_samples=samples, ridge=0.02, loss=loss))
    return [float(getattr(p, name)) for name in NUMBERS]


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_ones_are_white_noise(classifier):
    usual = numbers(st.Task(6, 2, 3.0), classifier)
    for noise, spread in (
        (st.Spectrum((1.0,)), None),
        (st.Spectrum((1.0, 1.0), (0.3, 0.7), (0.9, 0.1)), (1.0, 1.0)),
        (st.Covariances(np.eye(5), np.eye(5), np.ones(5)), None),
    ):
        found = numbers(st.Task(6, 2, 3.0, noise=noise, signal_spread=spread), classifier)
        np.testing.assert_allclose(found, usual, atol=1e-10)


@pytest.mark.parametrize("classifier", CLASSIFIERS[:3])
def test_white_noise_is_a_limit_and_not_a_case_apart(classifier):
    """A spectrum of nearly equal eigenvalues goes the general way and arrives at the same."""
    usual = numbers(st.Task(6, 2, 3.0), classifier)
    noise = st.Spectrum((1 - 1e-9, 1 + 1e-9), (0.5, 0.5), (0.2, 0.8))
    np.testing.assert_allclose(
        numbers(st.Task(6, 2, 3.0, noise=noise), classifier), usual, atol=1e-6
    )
    task = st.Task(6, 2, 3.0, noise=noise, signal_spread=(1.0, 1 + 2e-9))  # two covariances
    np.testing.assert_allclose(numbers(task, classifier), usual, atol=3e-5)


def test_units_change_nothing():
    """Noise of variance v is white noise with a strength, a query and a ridge in other units."""
    task = st.Task(6, 1, 3.0)
    scaled = st.Task(6, 1, 6.0, noise=st.Spectrum((4.0,)))
    for classifier, other in (
        (st.Pooled(), st.Pooled()),
        (st.Vectorized(), st.Vectorized()),
        (FROZEN, replace(FROZEN, sharpness=0.5)),
    ):
        usual = st.predict(task, classifier, st.Protocol(ridge=0.02))
        found = st.predict(scaled, other, st.Protocol(ridge=0.08))
        for name in ("test_error", "train_error", "train_loss", "auc", "bias"):
            assert getattr(found, name) == pytest.approx(getattr(usual, name), abs=2e-6)
        assert 2 * found.norm == pytest.approx(usual.norm, rel=1e-5)


@pytest.mark.parametrize("spread", [None, 3.0, (1.0, 0.3, 6.0)])
@pytest.mark.parametrize("classifier", CLASSIFIERS[:3])
def test_splitting_and_permuting_atoms_changes_nothing(spread, classifier):
    usual = numbers(st.Task(6, 2, 3.0, noise=SPECTRUM, signal_spread=spread), classifier)
    order = [2, 0, 1, 1]
    part = np.array([1.0, 1.0, 0.4, 0.6])
    x, density, share = (
        np.array(values)[order]
        for values in (SPECTRUM.eigenvalues, SPECTRUM.density, SPECTRUM.signal_share)
    )
    other = st.Spectrum(x.tolist(), (density * part).tolist(), (share * part).tolist())
    same = tuple(np.array(spread)[order].tolist()) if isinstance(spread, tuple) else spread
    found = numbers(st.Task(6, 2, 3.0, noise=other, signal_spread=same), classifier)
    np.testing.assert_allclose(found, usual, atol=1e-7)


def test_a_spread_in_proportion_is_two_covariances_as_well():
    """C = cΣ is solved with one covariance; nearly the same C with two."""
    one = numbers(st.Task(6, 2, 3.0, noise=SPECTRUM, signal_spread=3.0), FROZEN)
    nearly = tuple(3 * x * (1 + 1e-7 * i) for i, x in enumerate(SPECTRUM.eigenvalues))
    two = numbers(st.Task(6, 2, 3.0, noise=SPECTRUM, signal_spread=nearly), FROZEN)
    np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)


def test_the_readout_meets_other_tasks_with_the_same_noise():
    task = st.Task(6, 1, 4.0, noise=SPECTRUM, signal_spread=(1.0, 2.0, 3.0))
    for classifier in (st.Pooled(), FROZEN):
        p = st.predict(task, classifier, st.Protocol())
        assert p.on(task).test_error == pytest.approx(p.test_error, abs=1e-12)
        longer = p.on(replace(task, length=12)).test_error
        assert longer > p.test_error
        with pytest.raises(st.InvalidInput, match="must meet the noise and the signal_spread"):
            p.on(st.Task(6, 1, 4.0))
        with pytest.raises(st.InvalidInput, match="must meet the noise and the signal_spread"):
            p.on(replace(task, signal_spread=2.0))
    false, true = p.roc()
    assert false[0] == true[0] == 0 and false[-1] == true[-1] == 1


def random_problem(seed):
    rng = np.random.default_rng([22, seed])
    atoms = int(np.exp(rng.uniform(0, np.log(200))))
    exponent = rng.uniform(0, 2)
    x = np.arange(1, atoms + 1) ** -exponent
    density, share = (rng.dirichlet(np.full(atoms, 10 ** rng.uniform(-1, 1))) for _ in range(2))
    noise = st.Spectrum((x / (x @ density)).tolist(), density.tolist(), share.tolist())
    kind = rng.integers(3)
    spread = (None, rng.uniform(0, 10), tuple(rng.uniform(0, 10, atoms).tolist()))[kind]
    length = int(rng.integers(1, 20))
    task = st.Task(
        length,
        int(rng.integers(1, length + 1)),
        float(rng.uniform(0, 6)),
        float(10 ** rng.uniform(-2, np.log10(0.9))),
        noise=noise,
        signal_spread=spread,
    )
    classifier = (
        st.Pooled(),
        st.Vectorized(),
        st.Attention(rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1)),
    )[rng.integers(3)]
    loss = EVERY_LOSS[rng.integers(4)]
    return classifier.law(task), loss, 10 ** rng.uniform(-8, 0), 10 ** rng.uniform(-1.3, 2)


def solve_random(seed):
    law, loss, ridge, samples = random_problem(seed)
    fit = st.solve(law, loss, ridge, samples)
    assert fit.residual < 1e-9 and 0 <= fit.test_error <= 1 and fit.train_loss >= 0
    limit = st.solve(law, loss, ridge, np.inf)
    assert limit.residual < 1e-9


@pytest.mark.parametrize("seed", range(30))
def test_random_problems_are_solved_from_a_cold_start(seed):
    solve_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 300))
def test_many_random_problems_are_solved_from_a_cold_start(seed):
    solve_random(seed)


def random_matrix(rng, dim, spread):
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    values = np.exp(rng.normal(0, spread, dim))
    return turn * (values / values.mean()) @ turn.T


class Unrelated(st.Covariances):
    """Matrices whose common eigenvectors, if they have any, are not looked for."""

    def joint(self, spread):
        return None


EVERY = (*CLASSIFIERS[:3], st.Attention())


@pytest.mark.parametrize("classifier", EVERY)
@pytest.mark.parametrize("loss", [st.Logistic(), st.Square()])
def test_atoms_and_matrices_agree(classifier, loss):
    rng = np.random.default_rng(5)
    dim = 12
    x, c, xi = np.exp(rng.normal(size=dim)), np.exp(rng.normal(size=dim)), rng.normal(size=dim)
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    arrays = (turn * x @ turn.T, turn * c @ turn.T, turn @ xi)
    spectrum = st.Spectrum(x.tolist(), None, (xi**2 / (xi @ xi)).tolist())
    usual = numbers(st.Task(6, 2, 3.0, noise=spectrum, signal_spread=c.tolist()), classifier, loss)
    for noise in (st.Covariances(*arrays), Unrelated(*arrays)):
        found = numbers(st.Task(6, 2, 3.0, noise=noise), classifier, loss)
        np.testing.assert_allclose(found, usual, atol=1e-8)


@pytest.mark.parametrize("classifier", EVERY)
def test_rotating_matrices_changes_nothing(classifier):
    rng = np.random.default_rng(6)
    sigma, c = random_matrix(rng, 15, 1.0), 2 * random_matrix(rng, 15, 1.0)
    xi, turn = rng.normal(size=15), np.linalg.qr(rng.standard_normal((15, 15)))[0]
    usual = numbers(st.Task(6, 2, 3.0, noise=st.Covariances(sigma, c, xi)), classifier)
    noise = st.Covariances(turn @ sigma @ turn.T, turn @ c @ turn.T, turn @ xi)
    assert noise.joint(None) is None
    found = numbers(st.Task(6, 2, 3.0, noise=noise), classifier)
    np.testing.assert_allclose(found, usual, atol=1e-8)


def test_exact_derivatives_with_matrices():
    rng = np.random.default_rng(7)
    matrices = [random_matrix(rng, 6, 1.0), random_matrix(rng, 6, 1.0), rng.normal(size=6)]
    task = st.Task(4, 2, 3.0, noise=st.Covariances(*matrices))
    law = FROZEN.law(task).smaller(2, 2)
    problem = several.SeveralSaddle(law, st.Logistic(), np.array([0.05]), np.array([0.7]))
    state = rng.normal(size=(1, 8)) * 0.5
    _, jacobian = problem.equations(state)
    for k, e in enumerate(1e-6 * np.eye(8)):
        plus, minus = (problem.equations(state + s * e)[0] for s in (1, -1))
        np.testing.assert_allclose(jacobian[..., k], (plus - minus) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_random_matrices_are_solved_from_a_cold_start(seed):
    rng = np.random.default_rng([23, seed])
    dim = int(rng.integers(5, 60))
    sigma, c = (random_matrix(rng, dim, rng.uniform(0, 1.5)) for _ in range(2))
    noise = st.Covariances(sigma, rng.uniform(0.1, 10) * c, rng.normal(size=dim))
    task = st.Task(8, int(rng.integers(1, 8)), rng.uniform(0, 5), noise=noise)
    classifier = EVERY[seed % 4]
    query = st.align(task, st.Protocol()) if classifier.learns_query else None
    law = classifier.law(task, query)
    samples = [0.2, 2.0, 50.0, np.inf]
    for loss in EVERY_LOSS:
        for fit in st.solve_many(law, loss, 10 ** rng.uniform(-6, 0), samples):
            assert fit.residual < 1e-9 and fit.norm > 0


@pytest.mark.parametrize(
    ("classifier", "length", "sparsity"),
    [(st.Pooled(), 1, 1), (st.Vectorized(), 4, 4), (FROZEN, 1, 1), (CLASSIFIERS[3], 6, 2)],
)
@pytest.mark.parametrize("spread", [0.0, (0.0, 0.0, 2.0)])
def test_signals_without_noise_are_a_limit(classifier, length, sparsity, spread):
    """A cloud that shrinks to a point: nothing jumps, and it is solved."""
    task = st.Task(length, sparsity, 3.0, noise=SPECTRUM, signal_spread=spread)
    point = numbers(task, classifier)
    small = 1e-7 if isinstance(spread, float) else (1e-7, 1e-7, 2.0)
    nearly = numbers(replace(task, signal_spread=small), classifier)
    np.testing.assert_allclose(point, nearly, rtol=2e-3, atol=2e-4)

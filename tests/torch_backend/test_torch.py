"""The same code on torch tensors (`make test-torch`); `benchmarks/gpu.py` checks it on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from array_api_compat import array_namespace
from scipy.stats import ks_2samp

import sparsetoken as st
from sparsetoken.fitting import algebra
from sparsetoken.fitting.fit import fit, fit_gram
from sparsetoken.model.noise import Coloured, Elliptical, Rademacher, Sparse, Student
from sparsetoken.model.weightings import SOFTMAX
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.reduced import draw_features
from sparsetoken.support.devices import to_numpy
from sparsetoken.support.errors import InvalidInput

LOSSES = [st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber(), st.Huber(width=0.3)]
TASK = st.Task(length=3, sparsity=1, strength=2.5, prevalence=0.4)


def problem(n, p, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.sign(rng.standard_normal(n))
    features = rng.standard_normal((n, p)) * rng.uniform(0.3, 1.5, n)[:, None]
    features[:, 0] += labels
    return features, labels


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_answer_in_torch(loss, dtype):
    margin = np.linspace(-30, 30, 401)
    for name in ("value", "slope", "curvature"):
        there = getattr(loss, name)(torch.as_tensor(margin, dtype=dtype))
        assert isinstance(there, torch.Tensor) and there.dtype == dtype
        here = getattr(loss, name)(margin)
        tolerance = 1e-14 if dtype == torch.float64 else 2e-6
        np.testing.assert_allclose(to_numpy(there), here, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", [(300, 80), (400, 300), (90, 250)], ids=str)
@pytest.mark.parametrize("ridge", [1e-5, 1e-2])
def test_the_fit_is_numpys(loss, shape, ridge):
    features, labels = problem(*shape)
    here = fit(features, labels, loss, ridge)
    there = fit(torch.as_tensor(features), labels, loss, ridge)
    assert isinstance(there.weights, torch.Tensor) and there.weights.dtype == torch.float64
    scale = np.abs(here.weights).max()
    np.testing.assert_allclose(to_numpy(there.weights), here.weights, atol=1e-5 * scale)
    assert there.bias == pytest.approx(here.bias, abs=1e-5 * (1 + abs(here.bias)))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_fit_in_float32(loss):
    features, labels = problem(400, 150)
    here = fit(features, labels, loss, 1e-3)
    there = fit(torch.as_tensor(features, dtype=torch.float32), labels, loss, 1e-3)
    assert there.weights.dtype == torch.float32
    gap = np.linalg.norm(to_numpy(there.weights) - here.weights)
    assert gap < 1e-3 * np.linalg.norm(here.weights)


def test_the_gram_matrix():
    features, labels = problem(60, 200)
    features[1], labels[1] = features[0], labels[0]  # singular
    for rows in (features, features[2:]):
        signs = labels[-len(rows) :]
        dual, fitted = fit_gram(torch.as_tensor(rows @ rows.T), signs, st.Logistic(), 1e-2)
        direct = fit(rows, signs, st.Logistic(), 1e-2)
        np.testing.assert_allclose(rows.T @ to_numpy(dual), direct.weights, atol=1e-6)
        assert fitted.bias == pytest.approx(direct.bias, abs=1e-6)


def test_half_a_gram_matrix_is_the_whole():
    rows = torch.randn(50, 2500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert rows.shape[1] > 2 * algebra._PANEL
    ours = algebra.outer_gram(array_namespace(rows), rows)
    torch.testing.assert_close(ours, rows.T @ rows)


def test_features_are_numpys():
    sample = TASK.sample(20, dim=6, rng=0)
    tokens, query = torch.as_tensor(sample.tokens), np.linspace(-1, 1, 6)
    for classifier, given in (
        (st.Pooled(), None),
        (st.Vectorized(), None),
        (st.Attention(), query),
    ):
        there = classifier.features(tokens, None if given is None else torch.as_tensor(given))
        assert isinstance(there, torch.Tensor)
        here = classifier.features(sample.tokens, given)
        np.testing.assert_allclose(to_numpy(there), here, atol=1e-12)
    torch.testing.assert_close(SOFTMAX.weights(tokens), torch.softmax(tokens, -1))


@pytest.mark.parametrize(
    "noise", [Rademacher(), Student(5.0), Sparse(0.1), Elliptical(5.0), Coloured(0.5, Rademacher())]
)
def test_noise_on_a_device(noise):
    """NumPy's numbers, but for normals."""
    drawn = noise.draw((50, 2, 4), Device("cpu").source(np.random.SeedSequence(1)))
    assert isinstance(drawn, torch.Tensor) and drawn.shape == (50, 2, 4)
    here = noise.draw((50, 2, 4), np.random.default_rng(np.random.SeedSequence(1)))
    if noise != Elliptical(5.0):
        np.testing.assert_allclose(to_numpy(drawn), here, rtol=1e-12, atol=1e-15)
    assert 0.5 < float((drawn**2).mean()) < 2


@pytest.mark.parametrize("count", [10, 100])
def test_drawn_features_have_their_explicit_coordinates(count):
    """Fewer and more samples than columns: the first are m + σz where noisy, m where not."""
    rng = np.random.default_rng(0)
    labels = np.sign(rng.standard_normal(count))
    coordinates = st.Attention(0.5, 1.0).draw(TASK, labels, rng)
    features = draw_features(coordinates, 40, Device("cpu").source(np.random.SeedSequence(1)))
    assert features.shape == (count, 2 + min(count, 38))
    np.testing.assert_allclose(to_numpy(features[:, 0]), coordinates.means[:, 0])
    noise = (to_numpy(features[:, 1]) - coordinates.means[:, 1]) / coordinates.scales
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * count)


@pytest.mark.parametrize("loss", [st.Logistic(), st.Square()], ids=repr)
@pytest.mark.parametrize("sampler", ["reduced", "tokens"])
@pytest.mark.parametrize("classifier", [st.Attention(), st.Pooled(), st.Vectorized()], ids=repr)
def test_the_law_of_repeats_is_numpys(classifier, sampler, loss):
    protocol = st.Protocol(query_samples=3.0, readout_samples=2.0, loss=loss, ridge=0.02)
    settings = dict(task=TASK, classifier=classifier, protocol=protocol, dim=16, repeats=200)
    there = st.simulate(**settings, seed=1, sampler=sampler, device="cpu", test_samples=200)
    here = st.simulate(**settings, seed=2, sampler=sampler, test_samples=200)
    for name in ("cosine", "norm", "bias", "readout_norm", "train_loss", "test_error"):
        ours, theirs = (getattr(run, name) for run in (there, here))
        if np.isfinite(theirs).any():
            ours, theirs = ours[np.isfinite(ours)], theirs[np.isfinite(theirs)]
            assert ks_2samp(ours, theirs).pvalue > 1e-4, name


def test_the_same_seed_gives_the_same_numbers():
    settings = dict(task=TASK, classifier=st.Attention(), protocol=st.Protocol(), dim=20, repeats=3)
    first = st.simulate(**settings, seed=1, device="cpu")
    again = st.simulate(**settings, seed=1, device="cpu")
    np.testing.assert_array_equal(first.test_error, again.test_error)
    rough = st.simulate(**settings, seed=1, device="cpu", dtype="float32")
    assert np.all(rough.certificate < 1e-4)


def test_devices_that_cannot_be_used():
    settings = dict(task=TASK, classifier=st.Pooled(), protocol=st.Protocol(), dim=20, repeats=2)
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match=r"device must be None \(NumPy\) or .*got 'cuda'"):
            st.simulate(**settings, device="cuda")
    with pytest.raises(InvalidInput, match="got 'nonsense'"):
        st.simulate(**settings, device="nonsense")
    with pytest.raises(InvalidInput, match="got 3"):
        st.simulate(**settings, device=3)
    with pytest.raises(InvalidInput, match="workers must be 1 with a device"):
        st.simulate(**settings, device="cpu", workers=2)


@pytest.mark.parametrize("sampler", ["reduced", "tokens"])
@pytest.mark.parametrize("sparsity", [1, 3])
def test_message_passing_on_tensors_follows_its_equation(sampler, sparsity):
    """Beliefs, sums over places and drawn products of another library."""
    task = st.Task(8, sparsity, 4.0, prevalence=0.4)
    samples, dim = 1.5, 300
    run = st.simulate(
        task, st.MessagePassing(3), st.Protocol(readout_samples=samples), dim=dim, repeats=6,
        sampler=sampler, device="cpu", test_samples=4000,
    )  # fmt: skip
    assert run.cosines.shape == (6, 3)
    predicted = st.message_passing_rounds(task, samples, 3)
    errors = run.cosines.std(axis=0, ddof=1) / np.sqrt(6)
    for cosine, error, learner in zip(run.cosines.mean(axis=0), errors, predicted, strict=True):
        assert abs(cosine - learner.cosine) < 4 * error + 5 / dim
    doubt = run.sem("test_error")
    assert abs(run.mean("test_error") - predicted[-1].test_error) < 4 * doubt + 5 / dim


def test_message_passing_without_a_positive_bag():
    task = st.Task(5, 1, 3.0, prevalence=0.001)
    run = st.simulate(
        task, st.MessagePassing(2), st.Protocol(readout_samples=0.2), dim=50, device="cpu"
    )
    assert (run.cosines == 0).all()


ROOTS = np.random.default_rng(0).standard_normal((2, 40, 60)) / 8
COLOURED = {
    "spectrum": dict(
        noise=st.Spectrum((0.3, 3.0), (0.5, 0.5), (0.2, 0.8)), signal_spread=(2.0, 0.5)
    ),
    "matrices": dict(
        noise=st.Covariances(*(root @ root.T for root in ROOTS), np.arange(1.0, 41.0))
    ),
}


@pytest.mark.parametrize("sampler", ["reduced", "tokens"])
@pytest.mark.parametrize("kind", COLOURED)
def test_coloured_noise_on_a_device(kind, sampler):
    """Another stream of random numbers, the same law."""
    task = st.Task(3, 1, 2.5, 0.4, **COLOURED[kind])
    protocol = st.Protocol(3.0, 3.0, st.Square(), ridge=0.05)
    for classifier in (st.Attention(), st.Vectorized()):
        runs = [
            st.simulate(task, classifier, protocol, 40, 20, 1, sampler, device, test_samples=1000)
            for device in (None, "cpu")
        ]
        for quantity in ("test_error", "train_loss", "readout_norm"):
            gap = abs(runs[0].mean(quantity) - runs[1].mean(quantity))
            assert gap <= 4 * np.hypot(*(run.sem(quantity) for run in runs)), quantity


def test_messages_through_coloured_noise_on_a_device():
    task = st.Task(6, 1, 3.5, 0.4, noise=COLOURED["spectrum"]["noise"])
    protocol = st.Protocol(readout_samples=1.5)
    for sampler in ("reduced", "tokens"):
        run = st.simulate(
            task, st.MessagePassing(3), protocol, 300, 6, 0, sampler, "cpu", test_samples=1000
        )
        theory = [one.cosine for one in st.message_passing_rounds(task, 1.5, 3)]
        error = run.cosines.std(axis=0, ddof=1) / np.sqrt(6)
        assert np.all(np.abs(run.cosines.mean(axis=0) - theory) < 4 * error + 5 / 300)

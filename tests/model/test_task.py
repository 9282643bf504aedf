"""The task: validation, and that what it draws has the law it says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sparsetoken import Covariances, Spectrum, Task
from sparsetoken.support.errors import InvalidInput


@pytest.mark.parametrize(
    "field, value, allowed",
    [
        ("length", 0, "a whole number between 1 and"),
        ("length", 2.5, "a whole number"),
        ("length", "ten", "a whole number"),
        ("length", True, "a whole number"),
        ("length", 10**400, "between 1 and 1000000000"),
        ("strength", 10**400, "at most 1e"),
        ("prevalence", 1e-13, "between 1e-12 and 1 - 1e-12"),
        ("places", "abcdef", "6 position weights"),
        ("places", [1, 1, 1, 1, 1, {}], "6 position weights"),
        ("sparsity", 0, "between 1 and 6"),
        ("sparsity", 7, r"between 1 and 6 \(the length\)"),
        ("strength", -0.1, "at least 0"),
        ("strength", float("nan"), "at least 0"),
        ("strength", float("inf"), "at least 0"),
        ("strength", None, "at least 0"),
        ("prevalence", 0.0, "above 0 and below 1"),
        ("prevalence", 1.0, "above 0 and below 1"),
        ("places", [1, 2, 3], "6 position weights"),
        (
            "places",
            [1, 1, 1, 1, 1, -1],
            r"places\[5\] must be a number at least 0 and at most 1e\+100, got -1",
        ),
        ("places", [0, 0, 0, 0, 0, 1], "at least 2 positive weights"),
        ("places", [0, 0, 0, 0, 1, float("nan")], r"places\[5\]"),
    ],
)
def test_wrong_values_are_named(field, value, allowed):
    good = dict(length=6, sparsity=2, strength=1.0, prevalence=0.3, places=None)
    with pytest.raises(InvalidInput, match=allowed) as error:
        Task(**{**good, field: value})
    assert field in str(error.value)


def test_values_are_normalised_and_tasks_compare_by_value():
    task = Task(np.int64(6), 2.0, 1, places=[2, 2, 2, 2, 2, 2])
    assert task.length == 6 and isinstance(task.length, int)
    assert isinstance(task.strength, float)
    assert task == Task(6, 2, 1.0, places=np.ones(6)) and hash(task) == hash(
        Task(6, 2, 1.0, places=(1,) * 6)
    )
    assert task.uniform_places
    with pytest.raises(AttributeError):
        task.length = 7


def test_a_sample_is_noise_plus_signal_at_the_places():
    task = Task(length=5, sparsity=2, strength=7.0, prevalence=0.3)
    labels, tokens, places, signal = task.sample(2000, dim=8, rng=3)
    assert tokens.shape == (2000, 5, 8) and np.isclose(np.linalg.norm(signal), 1)
    assert np.all(places.sum(axis=1) == np.where(labels > 0, 2, 0))
    noise = tokens - 7.0 * places[..., None] * signal
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs((noise**2).mean() - 1) < 4 * np.sqrt(2 / noise.size)
    assert abs((labels > 0).mean() - 0.3) < 4 * np.sqrt(0.21 / 2000)


def test_the_same_seed_gives_the_same_sample_and_a_given_signal_is_used():
    task = Task(length=3, sparsity=1, strength=1.0)
    axis = np.array([0.0, 1.0])
    one, two = task.sample(10, 2, rng=1, signal=axis), task.sample(10, 2, rng=1, signal=axis)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert np.array_equal(one.signal, axis)
    with pytest.raises(InvalidInput, match="unit vector"):
        task.sample(10, 2, rng=1, signal=2 * axis)
    with pytest.raises(InvalidInput, match="dim must be"):
        task.sample(10, 0, rng=1)
    with pytest.raises(InvalidInput, match="n must be"):
        task.sample(-1, 2, rng=1)


ROTATED = np.linalg.qr(np.random.default_rng(4).standard_normal((4, 4)))[0]
NOISES = {
    "a spread": dict(signal_spread=3.0),
    "a spectrum": dict(noise=Spectrum((4.0, 0.5), (0.25, 0.75), (0.9, 0.1))),
    "both": dict(noise=Spectrum((4.0, 0.5), (0.25, 0.75)), signal_spread=(0.5, 2.0)),
    "matrices": dict(
        noise=Covariances(np.diag([1.0, 2, 3, 4]), ROTATED * [1, 2, 1, 0.5] @ ROTATED.T, np.ones(4))
    ),
}


@pytest.mark.parametrize("name", NOISES)
def test_tokens_of_a_sample_have_the_covariances_of_the_task(name):
    n, dim = 40_000, 4
    task = Task(length=2, sparsity=1, strength=2.0, **NOISES[name])
    _, tokens, places, signal = task.sample(n, dim, rng=6)
    if name == "matrices":
        expected = task.noise.noise, task.noise.signal
        assert np.allclose(signal, task.noise.mean)
    else:
        joint, counts = task.joint_spectrum, task.noise.counts(dim)
        expected = [np.diag(np.repeat(x, counts)) for x in (joint.noise, joint.signal)]
        shares = np.add.reduceat(signal**2, np.cumsum(counts) - counts)
        np.testing.assert_allclose(shares, joint.share)
    for carries, covariance in zip((~places, places), expected, strict=True):
        drawn = tokens[carries]
        found, own = np.cov(drawn.T), np.diag(covariance)
        error = np.sqrt((np.outer(own, own) + covariance**2) / len(drawn))
        assert np.all(np.abs(found - covariance) < 5 * error)
        mean = 2.0 * signal * carries[places].any()
        assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(own / len(drawn)))
    again = task.sample(10, dim, rng=7, signal=signal)
    assert np.array_equal(again.signal, signal)
    if name != "a spread":  # there every direction is as good
        with pytest.raises(InvalidInput, match="signal must lie in the noise as the task says"):
            task.sample(10, dim, rng=7, signal=np.eye(4)[3])


def test_tokens_of_coloured_noise_share_what_they_share():
    task = Task(2, 1, 0.0, token_correlation=0.6, noise=Spectrum((4.0, 0.5)))
    tokens = task.sample(40_000, 2, rng=1).tokens
    across = np.mean(tokens[:, 0] * tokens[:, 1], axis=0)
    np.testing.assert_allclose(across, [2.4, 0.3], rtol=0.05)


@pytest.mark.parametrize("weights", [None, (5, 1, 1, 1, 2), (1, 0, 2, 3, 0.5)])
@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_places_have_the_stated_probabilities(weights, sparsity):
    n = 40_000
    task = Task(length=5, sparsity=sparsity, strength=1.0, places=weights)
    drawn = task.sample_places(n, rng=5)
    p = np.ones(5) if weights is None else np.asarray(weights, dtype=float)
    subsets = list(itertools.combinations(range(5), sparsity))
    chance = np.array([np.prod(p[list(subset)]) for subset in subsets])
    chance /= chance.sum()
    for subset, probability in zip(subsets, chance, strict=True):
        share = np.mean(drawn[:, list(subset)].all(axis=1))
        assert abs(share - probability) <= 4.5 * np.sqrt(probability * (1 - probability) / n)

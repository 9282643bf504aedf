"""The likelihood of whole bags: what it is, what it finds, what it does not take for a signal."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import norm, t

import sparsetoken as st
from sparsetoken.bags.estimate import recognised
from sparsetoken.bags.likelihood import Levels, NoiseDensity, Signal, fit_signal


def bags_of(count, length, signal, rng, noise=None):
    """Levels of bags as the signal makes them, and of 4000 tokens of noise."""
    noise = rng.standard_normal if noise is None else noise
    tokens = noise((count, length))
    for bag in np.flatnonzero(rng.random(count) >= signal.silent):
        tokens[bag, : signal.count] = signal.shift + signal.width * rng.standard_normal(
            signal.count
        )
    density = NoiseDensity(noise(4000))
    return Levels(
        density.log(tokens.ravel()), tokens.ravel(), np.full(count, length), np.ones(count)
    )


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_likelihood_is_that_of_all_subsets(count):
    rng = np.random.default_rng(0)
    signal = Signal(2.0, 1.5, count, 0.2)
    levels = bags_of(6, 5, signal, rng)
    for tokens, value in zip(
        levels.tokens.reshape(6, 5), levels.log_likelihoods(signal), strict=True
    ):
        ratio = np.exp(norm.logpdf(tokens, 2.0, 1.5) - NoiseDensityOf(levels, tokens))
        mean = sum(np.prod(ratio[list(s)]) for s in combinations(range(5), count)) / comb(5, count)
        assert value == pytest.approx(np.log(0.2 + 0.8 * mean), rel=1e-9)


def NoiseDensityOf(levels, tokens):
    places = [int(np.flatnonzero(levels.tokens == token)[0]) for token in tokens]
    return levels.noise[places]


@pytest.mark.parametrize(
    "signal",
    [
        Signal(4.0, 1.0, 1, 0.0),
        Signal(2.0, 1.0, 3, 0.0),
        Signal(6.0, 2.5, 1, 0.0),
        Signal(6.0, 1.5, 1, 0.3),
        Signal(0.8, 1.0, 10, 0.0),
    ],
)
def test_what_made_the_bags_is_found(signal):
    fit = fit_signal(bags_of(400, 10, signal, np.random.default_rng(1)))
    assert min(fit.counts) <= signal.count <= max(fit.counts)
    assert fit.signal.shift == pytest.approx(signal.shift, rel=0.1)
    assert fit.signal.width == pytest.approx(signal.width, rel=0.2)
    assert fit.signal.silent == pytest.approx(signal.silent, abs=0.08)


def test_gaussian_noise_is_not_smeared_and_heavy_tails_are_seen():
    rng, at = np.random.default_rng(2), np.linspace(-3, 4, 15)
    plain = NoiseDensity(rng.standard_normal(50_000)).log(at)
    np.testing.assert_allclose(plain, norm.logpdf(at), atol=0.15)
    scale = np.sqrt(2.0)  # of Student's law with four degrees of freedom
    heavy = NoiseDensity(rng.standard_t(4, 50_000) / scale)
    far = np.array([6.0, 8.0, 10.0])
    assert np.all(heavy.log(far) > t.logpdf(far * scale, 4) + np.log(scale) - 1.0)


def test_strange_tokens_of_noise_are_no_signal():
    """Every hundredth token is ten deviations off, in all bags alike."""
    rng = np.random.default_rng(3)

    def noise(shape):
        return rng.standard_normal(shape) + 10.0 * (rng.random(shape) < 0.01)

    levels = bags_of(200, 10, Signal(3.0, 1.0, 1, 0.0), rng, noise)
    found = fit_signal(levels).signal
    assert found.count == 1 and found.shift == pytest.approx(3.0, rel=0.1)


def test_strengths_have_the_mean_and_spread_of_the_signal():
    law = Signal(6.0, 2.0, 1, 0.25).strengths(cosine=0.8)
    values, weights = law.atoms()
    loud = values > 0
    share = weights[loud] / weights[loud].sum()
    mean = share @ values[loud]
    assert weights[~loud].sum() == pytest.approx(0.25)
    assert mean == pytest.approx(7.5) and share @ (values[loud] - mean) ** 2 == pytest.approx(
        3 / 0.64
    )
    assert Signal(6.0, 1.0, 1, 0.0).strengths(0.8) == pytest.approx(7.5)
    assert st.Task(10, 1, law).varies


def test_the_signal_is_what_tells_labels_and_not_strange_tokens_of_either_class():
    """A tenth of all bags has a token far off: likely with a signal like that, and no signal."""
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((400, 8))
    positive = np.arange(400) < 200
    tokens[positive, 0] += 3.0
    tokens[::10, 1] = rng.normal(40.0, 5.0, 40)
    density = NoiseDensity(rng.standard_normal(4000))  # knows of none of them
    flat = tokens.ravel()
    bags = Levels(density.log(flat), flat, np.full(400, 8), np.ones(400))
    shift, strange = Signal(3.0, 1.0, 1, 0.0), Signal(40.0, 5.0, 1, 0.9)
    assert bags[positive].height(strange) > bags[positive].height(shift)
    assert recognised(bags, positive, shift) > 50 > 0 > recognised(bags, positive, strange)

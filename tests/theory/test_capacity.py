"""Capacity: known values, the convex problem checked by brute force, extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import sparsetoken as st
from sparsetoken.model.attention import white_pooling
from sparsetoken.support.errors import InvalidInput


def test_noise_alone_is_separable_up_to_two_samples_per_dimension():
    """Cover (1965): 2 for equal classes, whatever the classifier's scales."""
    for classifier in (st.Pooled(), st.Vectorized()):
        task = st.Task(4, 1, 0.0)
        factor = 4 if isinstance(classifier, st.Vectorized) else 1
        assert st.capacity(task, classifier) == pytest.approx(2.0 * factor, rel=1e-9)
    attention = st.Attention(cosine=0.3, sharpness=2.0)
    # random scales are no help: signs of symmetric noise do not depend on its size
    assert st.capacity(st.Task(4, 1, 0.0), attention) == pytest.approx(2.0, rel=2e-3)


def test_the_minimum_is_found():
    rng = np.random.default_rng(3)
    law = st.FeatureLaw(
        labels=[1, -1, 1, -1, 1],
        means=rng.normal(size=(5, 2)),
        scales=[0.5, 1.0, 0.8, 1.2, 1.0],
        weights=[0.2, 0.3, 0.1, 0.3, 0.1],
        noisy=[True, False],
    )
    g = np.linspace(-9, 9, 20001)
    weight = np.exp(-0.5 * g * g) / np.sqrt(2 * np.pi) * (g[1] - g[0])

    def objective(x):
        s = np.sqrt(1 + x[0] ** 2)
        shift = law.labels * (law.means @ x[:2] + x[2]) / law.scales
        return law.weights @ (np.maximum(s * g - shift[:, None], 0) ** 2 @ weight)

    best = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).fun
    assert st.separability_threshold(law) == pytest.approx(1 / best, rel=1e-6)


def test_ordering_of_the_paper():
    task = st.Task(10, 1, 5.0)
    pooled, vectorized = st.capacity(task, st.Pooled()), st.capacity(task, st.Vectorized())
    attention = st.capacity(task, st.Attention(cosine=0.95, sharpness=1.0))
    assert pooled < attention < vectorized
    # plain sampling: 23.07 ± 0.12 from four clouds of 2^18 random samples per class
    assert attention == pytest.approx(23.07, rel=0.015)


def test_strong_and_rare():
    assert st.capacity(st.Task(1, 1, 50.0), st.Pooled()) > 1e100
    assert st.capacity(st.Task(10_000, 10_000, 50.0), st.Vectorized()) == math.inf
    rare = [st.capacity(st.Task(5, 1, 2.0, prevalence=p), st.Pooled()) for p in (0.5, 0.1, 0.01)]
    assert rare[0] < rare[1] < rare[2]  # fewer positives are easier to separate
    flipped = st.capacity(st.Task(5, 1, 2.0, prevalence=0.9), st.Pooled())
    assert flipped == pytest.approx(rare[1], rel=1e-9)


def test_sampled_capacity_knows_its_error():
    """L = 1 must equal Pooled; a threshold the tails cannot resolve says so."""
    for strength in (2.0, 4.0, 6.0):
        exact = st.capacity(st.Task(1, 1, strength), st.Pooled())
        sampled = st.capacity(st.Task(1, 1, strength), st.Attention(1.0, 1.0))
        assert exact.standard_error == 0 < sampled.standard_error < 0.01 * sampled
        assert abs(sampled - exact) < 4 * sampled.standard_error
    beyond = st.capacity(st.Task(1, 1, 12.0), st.Attention(1.0, 1.0))
    assert beyond.standard_error > 0.05 * beyond > 0
    exact = st.capacity(st.Task(1, 1, 12.0), st.Pooled())
    assert abs(beyond - exact) < 4 * beyond.standard_error


@pytest.mark.parametrize(
    ("task", "cosine", "sharpness"),
    [
        (st.Task(4, 2, 4.65, 0.18), 0.804, 0.977),  # 181 ± 8 from the plain cloud
        (st.Task(5, 1, 6.5, 0.4), 0.95, 1.5),
        (st.Task(10, 2, 5.0, 0.5), 0.97, 1.2),
        pytest.param(st.Task(3, 1, 7.2, 0.3), 0.9, 0.9, marks=pytest.mark.slow),
    ],
)
def test_capacity_to_a_percent_up_to_a_thousand_samples_per_dimension(task, cosine, sharpness):
    """Other draws of the tails agree with it, and within what each says of itself."""
    classifier = st.Attention(cosine, sharpness)
    found = st.capacity(task, classifier)
    assert 20 < found < 1500 and 0 < found.standard_error < 0.01 * found
    law = white_pooling(task, cosine, sharpness).law()
    plain = st.separability_threshold(law)  # without the tails: noisy, but nobody's relative
    assert abs(found - plain) < 4 * math.hypot(found.standard_error, plain.standard_error)
    others = [
        st.separability_threshold(white_pooling(task, cosine, sharpness).tail_law(seed))
        for seed in (1, 2, 3)
    ]
    scatter = np.std(others, ddof=1)
    assert abs(np.mean(others) - found) < 5 * found.standard_error
    assert scatter < 4 * found.standard_error


@pytest.mark.parametrize("length", [400, 512])
def test_the_law_for_capacity_is_the_law(length):
    """A cloud turned to covariance 1 has light tails: at 512 tokens, a tenth of the error."""
    task, attention = st.Task(length, 1, 6.0), st.Attention(0.95, 2.0)
    law = attention.law(task)
    threshold = np.quantile(law.means[law.labels < 0, 0], 0.8)
    readout = st.Readout(np.array([1.0, 0.0]), -float(threshold), 0.2)
    plain, tails = (each.scores(readout).test_error for each in (law, attention.tail_law(task)))
    assert abs(plain - tails) < 4 * math.hypot(plain.standard_error, tails.standard_error)


@pytest.mark.parametrize("length", [128, 200])
def test_drafts_are_the_law_with_fewer_points(length):
    task, attention = st.Task(length, 1, 5.0), st.Attention(0.95, 2.0)

    def error(law):
        return float(st.solve(law, st.Logistic(), 1e-2, 4.0).test_error)

    points = len(attention.draft(task).labels) // 2
    assert points < 1 << 13
    drafts = [error(white_pooling(task, 0.95, 2.0).law(seed, points)) for seed in range(6)]
    spread = np.std(drafts, ddof=1) / math.sqrt(len(drafts))
    assert abs(np.mean(drafts) - error(attention.law(task))) < 4 * spread


def test_a_learned_query_needs_its_protocol():
    with pytest.raises(InvalidInput, match="protocol must be given for a learned query"):
        st.capacity(st.Task(5, 1, 2.0), st.Attention())
    protocol = st.Protocol(query_samples=3.0)
    query = st.align(st.Task(5, 1, 2.0), protocol)
    frozen = st.Attention(query.cosine, query.sharpness)
    got = st.capacity(st.Task(5, 1, 2.0), st.Attention(), protocol)
    assert got == pytest.approx(st.capacity(st.Task(5, 1, 2.0), frozen), rel=1e-9)


def test_below_capacity_the_training_error_vanishes_without_ridge():
    """Two separate computations agree on where training data can be fitted."""
    task = st.Task(6, 1, 4.0, prevalence=0.3)
    law = st.Attention(cosine=0.7, sharpness=1.5).law(task)
    threshold = st.separability_threshold(law)
    below = st.solve(law, st.Logistic(), 1e-8, 0.9 * threshold)
    above = st.solve(law, st.Logistic(), 1e-8, 1.1 * threshold)
    assert below.train_error < 1e-6 and below.train_loss < 1e-3
    assert above.train_error > 1e-3


def test_classes_too_far_apart_for_floats():
    """The objective falls into the last denormal numbers on its way to zero."""
    task = st.Task(48, 15, 4.4, prevalence=0.8)
    threshold = st.capacity(
        task, st.Attention(cosine=0.9981169819286178, sharpness=0.3852076250063224)
    )
    assert threshold > 1e8 and threshold.standard_error > 0.1 * threshold

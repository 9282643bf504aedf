"""Tokens of three kinds in one law: noise, distractors from another cloud, the signal.

A task has no distractors; a law that is written by hand has them, as one covariance more and one
direction more. Held against tokens, drawn, pooled and fitted as they are.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import sparsetoken as st
from sparsetoken.fitting.fit import fit
from sparsetoken.model.geometry import SpectralGeometry

LENGTH, SPARSITY, STRENGTH, SHARE, SHIFT, PREVALENCE = 6, 2, 3.0, 0.3, 2.0, 0.4
DIM, ALPHA, RIDGE, RUNS, TESTS = 300, 3.0, 0.05, 10, 2000
SHARPNESS, COSINE, COSINE_SHIFT = 0.7, 0.8, 0.2  # of a frozen query, with ξ and with u
# eigenvalues of noise, distractors and signal tokens in the two halves of the coordinates; the
# signal ξ lies in the first, the mean u of the distractors, at right angles to it, in both
NOISE, CLOUD, SIGNAL = np.array([[0.5, 2.0], [3.0, 0.3], [1.0, 4.0]])
XI, U = np.array([1.0, 0.0]), np.array([0.6, 0.8])  # lengths in the halves


def axes():
    """ξ, u and q (d,), one random direction for each."""
    half = DIM // 2
    xi, u, q = np.zeros((3, DIM))
    xi[0] = XI[0]
    u[1], u[half] = U
    q[0], free = COSINE, np.sqrt(1 - COSINE**2 - COSINE_SHIFT**2)
    q += COSINE_SHIFT * u
    q[2::half] += free / np.sqrt(2)  # one coordinate in each half
    return xi, u, q


def draw(n, rng):
    """Labels, kinds (n, L) 0, 1, 2 and tokens (n, L, d)."""
    labels = np.where(rng.random(n) < PREVALENCE, 1.0, -1.0)
    kinds = (rng.random((n, LENGTH)) < SHARE).astype(int)
    kinds[labels > 0, :SPARSITY] = 2
    variances = np.repeat([NOISE, CLOUD, SIGNAL], DIM // 2, axis=1)
    xi, u, _ = axes()
    means = np.array([0 * xi, SHIFT * u, STRENGTH * xi])
    tokens = rng.standard_normal((n, LENGTH, DIM)) * np.sqrt(variances)[kinds]
    return labels, kinds, tokens + means[kinds]


def trained(feature, seed):
    """Test error and training loss of a fit to tokens."""
    rng = np.random.default_rng([22, seed])
    labels, _, tokens = draw(round(ALPHA * DIM), rng)
    fitted = fit(feature(tokens), labels, st.Logistic(), RIDGE)
    margins = labels * (feature(tokens) @ fitted.weights + fitted.bias)
    fresh, _, others = draw(TESTS, rng)
    errors = fresh * (feature(others) @ fitted.weights + fitted.bias) < 0
    return errors.mean(), np.logaddexp(0, -margins).mean()


def check(law, feature):
    limit = st.solve(law, st.Logistic(), RIDGE, ALPHA)
    assert limit.residual < 1e-9
    runs = np.array([trained(feature, seed) for seed in range(RUNS)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(RUNS)
    gap = np.abs(runs.mean(axis=0) - [limit.test_error, limit.train_loss])
    assert np.all(gap < 4 * error + 5 / DIM), (runs.mean(axis=0), limit)
    return limit


def mean_law(share):
    """Of the mean token: ξ and u, and how many tokens are of each kind."""
    sides = []
    for ones in (SPARSITY, 0):
        counts = np.arange(LENGTH - ones + 1)
        means = np.column_stack([np.full(len(counts), STRENGTH * ones), SHIFT * counts]) / LENGTH
        kinds = np.column_stack([LENGTH - ones - counts, counts, np.full(len(counts), ones)])
        chances = binom(LENGTH - ones, share).pmf(counts)
        there = chances > 0
        sides.append((means[there], (np.sqrt(kinds) / LENGTH)[there], chances[there]))
    gram = [np.diag(lengths) for lengths in zip(XI**2, U**2, strict=True)]
    geometry = SpectralGeometry([NOISE, CLOUD, SIGNAL], [0.5, 0.5], gram)
    noisy = np.ones((3, 2), dtype=bool)
    return st.FeatureLaw.of_classes(PREVALENCE, *sides, noisy, geometry=geometry)


def test_the_mean_token():
    limit = check(mean_law(SHARE), lambda tokens: tokens.mean(axis=1))
    plain = st.solve(mean_law(0.0), st.Logistic(), RIDGE, ALPHA)
    assert limit.test_error > 1.05 * plain.test_error  # distractors cost something


def attention_law(samples, rng):
    """Of tokens weighted by a frozen query, from samples of their scores along it."""
    xi, u, q = axes()
    variances = np.array([NOISE, CLOUD, SIGNAL])
    halves = [slice(0, DIM // 2), slice(DIM // 2, DIM)]
    sizes = np.array([np.sqrt(sum(x[a] * (q[h] @ q[h]) for a, h in enumerate(halves)))
                      for x in variances])  # fmt: skip
    labels = np.repeat([1.0, -1.0], samples)
    kinds = (rng.random((2 * samples, LENGTH)) < SHARE).astype(int)
    kinds[:samples, :SPARSITY] = 2
    noise = rng.standard_normal(kinds.shape)
    shift = np.array([0.0, SHIFT * (u @ q), STRENGTH * (xi @ q)])
    scores = SHARPNESS * (shift[kinds] + sizes[kinds] * noise)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    pulled = [np.where(kinds == k, weights * noise, 0.0).sum(axis=1) for k in range(3)]
    caught = [np.where(kinds == k, weights, 0.0).sum(axis=1) for k in (2, 1)]
    scales = [np.sqrt(np.where(kinds == k, weights**2, 0.0).sum(axis=1)) for k in range(3)]
    means = np.column_stack([*pulled, STRENGTH * caught[0], SHIFT * caught[1]])
    # directions S_jq/σ_j, each taken off its own covariance, ξ and u
    directions = [
        np.concatenate([x[a] * q[h] for a, h in enumerate(halves)]) / size
        for x, size in zip(variances, sizes, strict=True)
    ]
    directions += [xi, u]
    gram = [[[d[h] @ e[h] for e in directions] for d in directions] for h in halves]
    geometry = SpectralGeometry(variances, [0.5, 0.5], gram)
    noisy = np.column_stack([~np.eye(3, dtype=bool), np.ones((3, 2), dtype=bool)])
    chances = np.where(labels > 0, PREVALENCE, 1 - PREVALENCE) / samples
    return st.FeatureLaw(labels, means, np.column_stack(scales), chances, noisy, geometry=geometry)


def test_tokens_weighted_by_a_frozen_query():
    _, _, q = axes()

    def feature(tokens):
        weights = np.exp(SHARPNESS * (tokens @ q))
        return np.einsum("nl,nld->nd", weights / weights.sum(axis=1, keepdims=True), tokens)

    law = attention_law(2000, np.random.default_rng(0))
    check(law, feature)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_three_covariances_that_are_one_are_one(share):
    """Distractors and signal tokens with the noise's covariance: one covariance, one scale."""
    law = mean_law(share)
    same = SpectralGeometry([NOISE] * 3, [0.5, 0.5], law.geometry.gram)
    one = SpectralGeometry([NOISE], [0.5, 0.5], law.geometry.gram)
    three = st.FeatureLaw(law.labels, law.means, law.scales, law.weights, law.noisy, geometry=same)
    scales = np.sqrt((law.scales**2).sum(axis=1, keepdims=True))
    plain = st.FeatureLaw(law.labels, law.means, scales, law.weights, law.noisy[:1], geometry=one)
    for samples in (0.5, 3.0):
        found = st.solve(three, st.Logistic(), RIDGE, samples)
        wanted = st.solve(plain, st.Logistic(), RIDGE, samples)
        assert found.test_error == pytest.approx(wanted.test_error, abs=1e-9)
        assert found.train_loss == pytest.approx(wanted.train_loss, abs=1e-9)

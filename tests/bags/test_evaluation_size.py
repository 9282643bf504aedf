"""Test bags for an AUC of a given width: against exact probabilities and simulated scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput


def measured(auc, positives, negatives, runs, rng):
    """AUCs (runs,) of binormal scores, by ranks."""
    shift = math.sqrt(2) * scipy.stats.norm.ppf(auc)
    scores = rng.standard_normal((runs, positives + negatives))
    scores[:, :positives] += shift
    ranks = scipy.stats.rankdata(scores, axis=1)[:, :positives].sum(axis=1)
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


@pytest.mark.parametrize(
    ("auc", "prevalence", "half_width", "level"),
    [(0.5, 0.5, 0.05, 0.95), (0.7, 0.3, 0.05, 0.95), (0.8, 0.1, 0.05, 0.9), (0.9, 0.5, 0.05, 0.95),
     (0.85, 0.8, 0.08, 0.8), (0.95, 0.2, 0.03, 0.95)],
)  # fmt: skip
def test_so_many_bags_have_that_coverage(auc, prevalence, half_width, level):
    bags = st.test_bags_needed(auc, prevalence, half_width, level)
    positives, runs = round(prevalence * bags), 1500
    rng = np.random.default_rng(0)
    values = measured(auc, positives, bags - positives, runs, rng)
    share = np.mean(np.abs(values - auc) <= half_width)
    error = math.sqrt(level * (1 - level) / runs)
    assert abs(share - level) <= 4 * error + 0.01  # a share of pairs is not quite normal
    width = scipy.stats.norm.ppf((1 + level) / 2) * values.std()
    assert width == pytest.approx(half_width, rel=0.08)
    fewer = round(0.7 * bags)
    values = measured(auc, round(prevalence * fewer), fewer - round(prevalence * fewer), runs, rng)
    assert np.mean(np.abs(values - auc) <= half_width) < level - 4 * error


def test_the_variance_is_exact():
    """Against the bivariate normal of scipy, and the two cases that are known in closed form."""
    for auc in (0.6, 0.75, 0.9):
        h = scipy.stats.norm.ppf(auc)
        both = scipy.stats.multivariate_normal.cdf([h, h], cov=[[1, 0.5], [0.5, 1]])
        prevalence, width, z = 0.3, 0.04, scipy.stats.norm.ppf(0.975)

        def variance(n, auc=auc, both=both, prevalence=prevalence):
            one, two = prevalence * n, (1 - prevalence) * n
            terms = auc * (1 - auc) + (one - 1 + two - 1) * (both - auc**2)
            return terms / (one * two)

        n = st.test_bags_needed(auc, prevalence, width)
        assert z * math.sqrt(variance(n)) <= width < z * math.sqrt(variance(n - 1))
    n = st.test_bags_needed(0.5)  # no signal: (n + 1)/(12 n₁n₀)
    assert 1.96 * math.sqrt((n + 1) / (3 * n**2)) == pytest.approx(0.05, rel=0.01)


def test_few_bags_of_a_rare_class_are_too_few():
    assert st.test_bags_needed(0.999, 0.01) == 1000  # ten positive bags
    assert st.test_bags_needed(0.8, 0.2) == st.test_bags_needed(0.8, 0.8)
    assert st.test_bags_needed(0.8, level=0.99) > st.test_bags_needed(0.8, level=0.9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"auc": 0.4}, "auc must be a number at least 0.5 and below 1, got 0.4"),
        ({"auc": 1}, "auc must be a number at least 0.5 and below 1"),
        ({"auc": "high"}, "auc must be a number"),
        ({"auc": math.nan}, "auc must be a number"),
        ({"auc": 0.8, "prevalence": 0}, "prevalence must be a number above 0 and below 1"),
        ({"auc": 0.8, "half_width": 0}, "half_width must be a number above 0 and below 0.5"),
        ({"auc": 0.8, "level": 1}, "level must be a number above 0 and below 1"),
    ],
)
def test_wrong_values_are_named(arguments, words):
    with pytest.raises(InvalidInput, match=f"test_bags_needed: {words}"):
        st.test_bags_needed(**arguments)

"""Intervals, each against a formula that shares no code with it, and by how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, roc_auc_score, roc_curve

import sparsetoken as st
from sparsetoken.bags import intervals
from sparsetoken.bags.intervals import calibration_curve, delong_difference, roc_points


def drawn(seed, bags=60, ties=False, gap=1.0, share=0.4):
    rng = np.random.default_rng(seed)
    positive = rng.random(bags) < share
    scores = rng.standard_normal(bags) + gap * positive
    return positive, np.round(scores, 1) if ties else scores


def kernel(positive, scores):
    """Of all pairs (m, n): 1 where the positive bag is above, a half for a tie."""
    gaps = scores[positive][:, None] - scores[~positive][None, :]
    return (gaps > 0) + 0.5 * (gaps == 0)


def brute_variance(first, second):
    """DeLong's covariance of two AUCs from their kernels, pair by pair."""
    m, n = first.shape
    rows = np.cov(first.mean(axis=1), second.mean(axis=1))[0, 1] / m
    return rows + np.cov(first.mean(axis=0), second.mean(axis=0))[0, 1] / n


@pytest.mark.parametrize("ties", [False, True])
def test_delong_is_that_of_all_pairs(ties):
    for seed in range(5):
        positive, scores = drawn(seed, ties=ties)
        pairs = kernel(positive, scores)
        area = intervals.area(positive, scores)
        assert area.value == pytest.approx(pairs.mean(), rel=1e-12)
        assert area.value == pytest.approx(roc_auc_score(positive, scores), rel=1e-12)
        assert area.standard_error**2 == pytest.approx(brute_variance(pairs, pairs), rel=1e-10)
        auc, low, high = st.delong_interval(positive, scores, level=0.8)
        half = norm.ppf(0.9) * math.sqrt(brute_variance(pairs, pairs)) / (auc * (1 - auc))
        for end, side in ((low, -1), (high, 1)):
            assert math.log(end / (1 - end)) == pytest.approx(
                math.log(auc / (1 - auc)) + side * half, rel=1e-9
            )


def test_the_difference_of_two_is_that_of_all_pairs():
    positive, first = drawn(0, bags=80)
    second = first + np.random.default_rng(1).standard_normal(80)
    one, other = kernel(positive, first), kernel(positive, second)
    variance = sum(
        sign * brute_variance(a, b)
        for sign, a, b in ((1, one, one), (1, other, other), (-2, one, other))
    )
    answer = delong_difference(positive, first, second)
    gap = one.mean() - other.mean()
    assert answer.value == pytest.approx(gap, rel=1e-12)
    assert answer.p_value == pytest.approx(2 * norm.sf(abs(gap) / math.sqrt(variance)), rel=1e-9)
    assert answer.high - gap == pytest.approx(norm.ppf(0.95) * math.sqrt(variance), rel=1e-9)
    back = delong_difference(positive, second, first)
    assert back.value == pytest.approx(-gap) and back.p_value == pytest.approx(answer.p_value)
    assert math.isnan(delong_difference([0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0]).p_value)


def test_folds_compare_only_their_own():
    positive, scores = drawn(3, bags=100)
    folds = np.arange(100) % 4
    shifted = scores + 100 * folds  # fits whose scores cannot be compared
    parts = [kernel(positive[folds == k], scores[folds == k]) for k in range(4)]
    answer = st.delong_interval(positive, shifted, folds=folds)
    assert answer.value == pytest.approx(np.mean([part.mean() for part in parts]), rel=1e-12)
    plain = st.delong_interval(positive, scores, folds=folds)
    np.testing.assert_allclose(answer, plain, rtol=1e-9)
    within = math.sqrt(sum(brute_variance(part, part) for part in parts)) / 4
    error = intervals.area(positive, shifted, folds).standard_error
    assert error == pytest.approx(within, rel=0.1)  # to first order in bags of a fold
    names = np.array(["a", "b", "c", "d"])[folds]
    assert st.delong_interval(positive, shifted, folds=names) == answer


def test_a_fold_of_one_class_has_no_pairs():
    positive, scores = drawn(3, bags=100)
    folds = np.where(positive & (np.cumsum(positive) <= 3), 1, 0)
    there = folds == 0
    answer = st.delong_interval(positive, scores, folds=folds)
    np.testing.assert_allclose(answer, st.delong_interval(positive[there], scores[there]))


def test_ranks_without_a_mistake_are_not_taken_for_certainty():
    y = np.arange(20) >= 10
    auc, low, high = st.delong_interval(y, np.arange(20.0), level=0.9)
    assert auc == high == 1.0 and 0.8 < low < 1.0

    def deviate(truth):  # from the measured one, in standard deviations of Hanley and McNeil
        q1, q2 = truth / (2 - truth), 2 * truth**2 / (1 + truth)
        variance = truth * (1 - truth) + 9 * (q1 - truth**2) + 9 * (q2 - truth**2)
        return (1 - truth) / math.sqrt(variance / 100)

    assert deviate(low) == pytest.approx(norm.ppf(0.95), rel=1e-6)
    mirrored = st.delong_interval(y, -np.arange(20.0))
    np.testing.assert_allclose(mirrored, [0.0, 0.0, 1 - low], atol=1e-9)
    blind = st.delong_interval(y, np.zeros(20))
    assert blind.value == 0.5 and blind.low < 0.35 and blind.high > 0.65


def test_hanley_and_mcneils_variance_is_that_of_exponential_scores():
    rng = np.random.default_rng(0)
    m, n, ratio = 12, 20, 4.0
    values = [
        kernel(np.arange(m + n) < m, np.append(ratio * rng.exponential(size=m),
                                               rng.exponential(size=n))).mean()
        for _ in range(4000)
    ]  # fmt: skip
    auc = ratio / (1 + ratio)
    assert np.mean(values) == pytest.approx(auc, abs=4 * np.std(values) / math.sqrt(4000))
    assert intervals.hanley_mcneil(auc, m, n) == pytest.approx(np.var(values), rel=0.1)


def test_wilson_is_where_the_share_is_just_not_refuted():
    for count, total, level in ((3, 20, 0.9), (0, 20, 0.95), (20, 20, 0.9), (51, 400, 0.5)):
        share, low, high = st.wilson_interval(count, total, level=level)
        assert share == count / total

        def distance(truth, share=share, total=total, level=level):
            reach = norm.ppf((1 + level) / 2)
            return (share - truth) ** 2 - reach**2 * truth * (1 - truth) / total

        if count:
            assert low == pytest.approx(brentq(distance, 1e-15, share - 1e-12), rel=1e-6)
        else:
            assert low == 0.0
        if count < total:
            assert high == pytest.approx(brentq(distance, share + 1e-12, 1 - 1e-15), rel=1e-6)
        else:
            assert high == 1.0


def test_calibration_bins_hold_all_bags_and_ties_together():
    rng = np.random.default_rng(0)
    chances = np.round(rng.random(400), 1)
    positive = rng.random(400) < chances
    curve = calibration_curve(positive, chances, bins=8)
    assert sum(group.bags for group in curve) == 400
    total = sum(group.bags * group.observed.value for group in curve)
    assert total == pytest.approx(positive.sum())
    assert sum(g.bags * g.predicted for g in curve) == pytest.approx(chances.sum())
    means = [group.predicted for group in curve]
    assert means == sorted(means)
    again = calibration_curve(positive[::-1], chances[::-1], bins=8)
    for group, other in zip(curve, again, strict=True):  # the order of bags does not matter
        assert group.observed == other.observed and group.bags == other.bags
    distinct = calibration_curve(positive, rng.random(400))
    assert {group.bags for group in distinct} == {40}
    assert len(calibration_curve(positive[:50], rng.random(50))) == 2
    assert len(calibration_curve(positive[:9], rng.random(9))) == 1


def test_brier_and_roc_are_scikit_learns():
    positive, scores = drawn(5, ties=True)
    chances = ndtr(scores)
    brier = intervals.brier_score(positive, chances)
    assert float(brier) == pytest.approx(brier_score_loss(positive, chances), rel=1e-12)
    rng = np.random.default_rng(0)
    means = [np.mean(rng.choice((chances - positive) ** 2, 60)) for _ in range(2000)]
    assert brier.standard_error == pytest.approx(np.std(means), rel=0.1)
    false, true, _ = roc_curve(positive, scores, drop_intermediate=False)
    np.testing.assert_allclose(roc_points(positive, scores), (false, true))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": [0, 0, 0, 0]}, "y must have labels of two kinds, got 1"),
        ({"y": [0, 1, 2, 0]}, "y must have labels of two kinds, got 3"),
        ({"y": [0, 0, 0, 1]}, "at least 2 bags of each class"),
        ({"scores": [1, 2, 3]}, "scores must be 4 numbers"),
        ({"scores": [1, 2, 3, math.nan]}, "scores must not be missing"),
        ({"scores": list("abcd")}, "scores must be 4 numbers"),
        ({"level": 1.0}, "level must be a number above 0 and below 1"),
        ({"folds": [0, 1]}, "folds must be 4"),
        ({"folds": [0, 1, 0, 1], "y": [0, 1, 0, 1]}, "got 0 positive and 0 negative"),
    ],
)
def test_what_is_refused(change, words):
    given = {"y": [0, 0, 1, 1], "scores": [1.0, 2.0, 3.0, 1.5]} | change
    with pytest.raises(st.InvalidInput, match=words):
        st.delong_interval(given.pop("y"), given.pop("scores"), **given)


def test_counts_out_of_bounds_are_refused():
    for count, total in ((5, 4), (-1, 4), (0, 0), (0.5, 4)):
        with pytest.raises(st.InvalidInput, match="wilson_interval"):
            st.wilson_interval(count, total)


@pytest.mark.slow
def test_delong_is_the_bootstraps():
    positive, scores = drawn(7, bags=150)
    rng = np.random.default_rng(0)
    up, down = np.flatnonzero(positive), np.flatnonzero(~positive)
    values = []
    for _ in range(3000):
        chosen = np.append(rng.choice(up, len(up)), rng.choice(down, len(down)))
        values.append(roc_auc_score(positive[chosen], scores[chosen]))
    error = intervals.area(positive, scores).standard_error
    assert error == pytest.approx(np.std(values), rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("folds", [1, 5])
@pytest.mark.parametrize("bags", [50, 200])
def test_nine_of_ten_intervals_hold_the_auc(gap, folds, bags):
    """Of normal scores, whose AUC is known. In folds of four positive bags they are too wide: there
    nine of ten is the least."""
    truth, repeats = float(ndtr(gap / math.sqrt(2))), 2000
    held = 0
    for seed in range(repeats):
        rng = np.random.default_rng([seed, bags])
        positive = np.arange(bags) % 5 < 2
        scores = rng.standard_normal(bags) + gap * positive
        fold = np.arange(bags) // 5 % folds  # of both classes alike
        _, low, high = st.delong_interval(positive, scores, folds=fold)
        held += low <= truth <= high
    tiny = bags // folds < 20
    assert 0.87 < held / repeats < (1.0 if tiny else 0.96), held / repeats


@pytest.mark.slow
def test_the_test_of_a_difference_is_wrong_as_often_as_it_says():
    """Two scores as good as each other, correlated: 5 % of p values are below 5 %."""
    small, repeats = 0, 2000
    for seed in range(repeats):
        positive, common = drawn(seed, bags=100)
        rng = np.random.default_rng([seed, 1])
        first, second = (common + rng.standard_normal(100) for _ in range(2))
        small += delong_difference(positive, first, second).p_value < 0.05
    assert 0.035 < small / repeats < 0.07, small / repeats

"""The oracle of any classifier, beside special ones, errors counted on tokens, and brute force."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import ndtr

from sparsetoken.model.classifiers import Attention, Pooled, Query
from sparsetoken.model.law import FeatureLaw, Readout
from sparsetoken.model.signals import Discrete
from sparsetoken.model.task import Task
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.model.weightings import HardMax, Softmax, Sparsemax, TopK
from sparsetoken.oracles import linear
from sparsetoken.oracles.exact import gaussian_error
from sparsetoken.oracles.laws import LawOracle, _best_readout
from sparsetoken.oracles.oracle import bayes_error, oracle_error, signal_threshold
from sparsetoken.oracles.posterior import PosteriorOracle, log_likelihood_ratio
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

SHARED = Task(6, 2, 3.0, 0.4, token_correlation=0.4)
MIXED = Task(6, Discrete([1, 3]), Discrete([2.0, 4.0]), 0.3)


def within(one, other, errors=4.0):
    spread = math.hypot(getattr(one, "standard_error", 0.0), getattr(other, "standard_error", 0.0))
    return abs(one - other) <= errors * spread + 1e-9


def draw_scores(task, positive, count, rng):
    """Tokens along ξ, token by token."""
    noise = math.sqrt(1 - task.token_correlation) * rng.standard_normal((count, task.length))
    noise += math.sqrt(task.token_correlation) * rng.standard_normal((count, 1))
    if not positive:
        return noise
    strength, sparsity = task.sample_signals(count, rng)
    places = task.sample_places(count, rng, sparsity)
    return noise + np.reshape(strength, (-1, 1)) * places


def counted(task, statistic, cut, count=200_000):
    """The error of a test, counted: the witness."""
    rng = np.random.default_rng(11)
    miss = statistic(draw_scores(task, True, count, rng)) <= cut
    alarm = statistic(draw_scores(task, False, count, rng)) > cut
    share = task.prevalence
    variance = (share**2 * miss.var() + (1 - share) ** 2 * alarm.var()) / count
    return Estimate(share * miss.mean() + (1 - share) * alarm.mean(), math.sqrt(variance))


# ------------------------------------------------------------------------ a new classifier


@dataclass(frozen=True)
class HalfAligned:
    """One class, and nothing of the oracles is touched: attention whose query stays at 60°."""

    learns_query = False

    def law(self, task, query=None):
        return Attention(0.5, 1.0).law(task)

    def draft(self, task, query=None):
        return Attention(0.5, 1.0).draft(task)


@dataclass(frozen=True)
class SoftPooling:
    """A stranger that learns a query and has attention's law."""

    learns_query = True

    def law(self, task, query=None):
        return Attention().law(task, query)

    def draft(self, task, query=None):
        return Attention().draft(task, query)


@pytest.mark.parametrize("prevalence", [0.5, 0.2])
def test_a_new_classifier_has_an_oracle(prevalence):
    """Two directions, one without noise: every angle and cut tried on other draws of the law."""
    task = Task(8, 2, 3.0, prevalence)
    error = oracle_error(task, HalfAligned())
    labels = np.repeat([1.0, -1.0], 20_000)
    rng = np.random.default_rng(3)
    drawn = Attention(0.5, 1.0).draw(task, labels, rng)
    best = 1.0
    for angle in np.linspace(0, np.pi / 2, 24):
        readout = math.cos(angle), math.sin(angle)
        scores = drawn.means @ readout
        for cut in np.linspace(0, 3, 41):
            wrong = ndtr(labels * (cut - scores) / (drawn.scales * max(readout[1], 1e-9)))
            up, down = wrong[labels > 0].mean(), wrong[labels < 0].mean()
            best = min(best, prevalence * up + (1 - prevalence) * down)
    assert 0 < error.standard_error < 1e-3
    assert within(error, Estimate(best, 1e-3))
    assert bayes_error(task) < oracle_error(task, Attention()) < error - 0.01


def test_a_new_classifier_with_a_query_has_the_best_sharpness():
    task = Task(10, 1, 3.0)
    stranger, special = oracle_error(task, SoftPooling()), oracle_error(task, Attention())
    assert within(stranger, special) and 0.5 < stranger.sharpness < 2 * special.sharpness


def test_a_new_classifier_has_a_threshold():
    task = Task(6, 1, 0.0)
    strength = signal_threshold(task, HalfAligned(), error=0.05)
    reached = oracle_error(replace(task, strength=float(strength)), HalfAligned())
    assert 0 < strength.standard_error < 0.05
    assert reached == pytest.approx(0.05, abs=4 * reached.standard_error)


# ------------------------------------------------------------ beside what is known better


@pytest.mark.parametrize("task", [Task(10, 1, 3.0), Task(8, 2, 2.0, 0.2)])
def test_special_oracles_agree_with_the_general_one(task):
    attention = LawOracle(Attention(), task).error(task.strength)
    assert within(attention, oracle_error(task, Attention()))
    assert within(PosteriorOracle(task, 0).error(), bayes_error(task))
    kappa = task.strength * task.sparsity / math.sqrt(task.length)
    pooled = LawOracle(Pooled(), task).error(task.strength)
    assert pooled == pytest.approx(gaussian_error(kappa, task.prevalence), rel=1e-12)
    assert pooled.standard_error == 0


def test_thresholds_of_laws_are_those_of_closed_forms():
    task = Task(20, 2, 1.0, 0.3)
    expected = signal_threshold(task, Pooled(), error=0.02)
    assert LawOracle(Pooled(), task).threshold(0.02) == pytest.approx(expected, rel=1e-9)


def test_readouts_by_position_are_those_of_the_vectorized_oracle():
    """With position weights its law has one direction for each of five positions."""
    task = Task(5, 1, 3.0, 0.3, (0.5, 0.2, 0.1, 0.1, 0.1))
    general = LawOracle(Vectorized(), task).error(task.strength)
    assert general == pytest.approx(linear.LinearOracle(task).error(3.0), rel=1e-6)


def test_no_signal_leaves_the_smaller_class():
    for classifier in (Pooled(), Attention(weighting=TopK(2)), HalfAligned()):
        assert oracle_error(Task(6, 1, 0.0, 0.2), classifier) == pytest.approx(0.2, abs=2e-4)


def test_readouts_of_exact_laws():
    """Directions that all atoms share are ignored, and a sign is found."""
    law = FeatureLaw(
        [1, -1], [[5.0, 1.0, -3.0], [5.0, 1.0, 0.0]], [1, 1], [0.4, 0.6], [True, False, True]
    )
    error, readout = _best_readout(law)
    assert error == pytest.approx(gaussian_error(3.0, 0.4), rel=1e-12)
    assert readout.weights.tolist() == [0, 0, -1] and readout.noise == 1
    assert law.scores(readout).test_error == pytest.approx(error, rel=1e-12)
    no_news = FeatureLaw([1, -1], [[1.0], [1.0]], [1, 1], [0.7, 0.3], [True])
    error, readout = _best_readout(no_news)
    assert error == no_news.scores(readout).test_error == pytest.approx(0.3)


def test_two_directions_without_noise_are_separated():
    """Points on either side of an oblique line: no error at all."""
    rng = np.random.default_rng(0)
    labels = np.repeat([1.0, -1.0], 500)
    along = rng.normal(size=1000)
    across = 0.3 * labels + rng.uniform(-0.2, 0.2, 1000)
    means = np.column_stack([along + across, along - across])
    law = FeatureLaw(labels, means, np.ones(1000), np.ones(1000), [False, False])
    error, readout = _best_readout(law)
    assert error == 0 and readout.weights[0] * readout.weights[1] < 0


# ------------------------------------------------------------------- beside what is counted


def pooled_statistic(weighting, sharpness):
    def statistic(scores):
        return np.einsum("nl,nl->n", weighting.weights(sharpness * scores), scores)

    return statistic


@pytest.mark.parametrize("task", [SHARED, MIXED], ids=["shared", "mixed"])
@pytest.mark.parametrize("weighting", [Softmax(), HardMax(), TopK(2), Sparsemax()], ids=repr)
def test_the_best_test_errs_as_tokens_do(task, weighting):
    error = oracle_error(task, Attention(weighting=weighting))
    law = Attention(weighting=weighting).law(task, Query(1.0, 1.0, error.sharpness))
    cut = law.scores(Readout(np.array([1.0, 0.0]), 0.0, 0.0)).best_cut(
        task.prevalence, 1 - task.prevalence
    )
    assert within(error, counted(task, pooled_statistic(weighting, error.sharpness), cut.threshold))


def test_a_hard_maximum_is_exact():
    task = Task(6, 2, 3.0, 0.4)
    exact = oracle_error(task, Attention(weighting=HardMax()))
    assert (exact.standard_error, exact.sharpness) == (0, math.inf)
    assert within(LawOracle(Attention(weighting=HardMax()), task).error(3.0), exact)
    strength = signal_threshold(task, Attention(weighting=HardMax()), error=0.01)
    reached = oracle_error(replace(task, strength=float(strength)), Attention(weighting=HardMax()))
    assert reached == pytest.approx(0.01, rel=1e-9) and strength.standard_error == 0


@pytest.mark.parametrize("task", [SHARED, MIXED], ids=["shared", "mixed"])
def test_posterior_errors_are_those_counted(task):
    level = math.log((1 - task.prevalence) / task.prevalence)
    tokens = counted(task, lambda scores: log_likelihood_ratio(task, scores), level)
    error = bayes_error(task)
    assert within(error, tokens) and error.standard_error < tokens.standard_error / 2


def test_standard_errors_are_honest():
    """The posterior's estimates with different seeds scatter as they say they do."""
    errors = [bayes_error(SHARED, seed=seed) for seed in range(8)]
    claimed = math.sqrt(np.mean([error.standard_error**2 for error in errors]))
    assert 0.4 < np.std(errors, ddof=1) / claimed < 2


def test_long_laws_are_those_of_their_draws():
    """600 tokens: with a dozen points per token, a cloud turned to covariance 1 has light tails."""
    task = Task(600, 2, 4.0)
    attention, rng = Attention(1.0, 3.0), np.random.default_rng(0)
    drawn = attention.draw(task, np.repeat([1.0, -1.0], 20_000), rng)
    readout = Readout(np.array([1.0, 0.0]), -float(np.median(drawn.means[:, 0])), 0.2)
    sample = FeatureLaw(
        drawn.labels, drawn.means, drawn.scales, np.ones(40_000), drawn.noisy, sampled=True
    )
    assert within(attention.law(task).scores(readout).test_error, sample.scores(readout).test_error)


def test_errors_too_small_to_count_have_no_threshold():
    with pytest.raises(InvalidInput, match=r"error must be at least 0.00.* for Half.* got 1e-06"):
        signal_threshold(Task(6, 1, 0.0), HalfAligned(), error=1e-6)

"""What is possible at all: closed forms, brute force written plainly, and the references."""

from __future__ import annotations

import copy
import json
import math
import pickle
import tracemalloc
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, logsumexp, ndtr
from scipy.stats import hypergeom

from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.places import log_subset_sums
from sparsetoken.model.task import Task
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.oracles import attention as attention_oracle
from sparsetoken.oracles import exact as exact_oracles
from sparsetoken.oracles import extremes, linear, symmetric
from sparsetoken.oracles.bayes import BayesOracle, bayes_oracle
from sparsetoken.oracles.extremes import mean_of_replicates
from sparsetoken.oracles.oracle import bayes_error, oracle_error, signal_threshold
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

REFERENCES = json.loads((Path(__file__).parents[1] / "reference" / "oracle.json").read_text())


@pytest.fixture
def fewer_draws(monkeypatch):
    """Samples of at most 2^12 draws: larger standard errors, the same code."""
    monkeypatch.setattr(extremes, "_MOST_SAMPLES", 1 << 12)


def within(one, other, errors=4.0):
    """Whether two estimates agree to so many combined standard errors."""
    spread = math.hypot(getattr(one, "standard_error", 0.0), getattr(other, "standard_error", 0.0))
    return abs(one - other) <= errors * spread + 1e-12


def random_tasks(count, seed, longest=40):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        length = int(rng.integers(1, longest))
        sparsity = int(rng.integers(1, min(length, 6) + 1))
        yield Task(length, sparsity, float(rng.uniform(0.3, 5)), float(rng.uniform(0.02, 0.9)))


def draw_scores(task, count, seed):
    """Tokens along ξ, token by token: negatives and positives, each (count, L)."""
    rng = np.random.default_rng(seed)
    negative = rng.standard_normal((count, task.length))
    positive = rng.standard_normal((count, task.length))
    positive += task.strength * task.sample_places(count, rng)
    return negative, positive


def counted(task, negative, positive):
    """π·share of positives at or below 0 + (1−π)·share of negatives above, with standard error."""
    miss, alarm = positive <= 0, negative > 0
    pi = task.prevalence
    variance = pi**2 * miss.var() / len(miss) + (1 - pi) ** 2 * alarm.var() / len(alarm)
    return Estimate(pi * miss.mean() + (1 - pi) * alarm.mean(), math.sqrt(variance))


@pytest.mark.parametrize("row", REFERENCES, ids=lambda row: f"L{row['length']}R{row['sparsity']}")
def test_references(row):
    task = Task(row["length"], row["sparsity"], row["strength"], row["prevalence"])
    assert oracle_error(task, Pooled()) == pytest.approx(row["pooled"], abs=1e-12)
    attention = oracle_error(task, Attention())
    assert within(attention, Estimate(row["attention"], row["attention_se"]))
    assert within(bayes_error(task), Estimate(row["bayes"], row["bayes_se"]))
    assert attention.standard_error < 1e-4


def test_short_samples_are_precise():
    task = Task(10, 1, 3.0)
    for result in (oracle_error(task, Attention()), bayes_error(task)):
        assert 0 < result.standard_error < 3e-5


# ------------------------------------------------------------------------------- Pooled


def test_pooled_is_the_minimum_over_the_cut():
    for task in random_tasks(30, seed=1):
        kappa = task.strength * task.sparsity / math.sqrt(task.length)
        cuts = np.linspace(-60, 60, 200_001)
        loss = task.prevalence * ndtr(cuts - kappa) + (1 - task.prevalence) * ndtr(-cuts)
        assert oracle_error(task, Pooled()) == pytest.approx(loss.min(), abs=1e-7)
        assert oracle_error(task, Pooled()) <= loss.min() + 1e-15


@pytest.mark.parametrize("strength", [0.0, 5e-324, 1e-200, 1e-8])
@pytest.mark.parametrize("prevalence", [1e-9, 0.2, 0.5, 0.8])
def test_no_signal_leaves_the_smaller_class(strength, prevalence):
    task = Task(7, 2, strength, prevalence)
    smaller = min(prevalence, 1 - prevalence)
    for classifier in (Pooled(), Vectorized()):
        assert oracle_error(task, classifier) == pytest.approx(smaller, rel=1e-7)


# --------------------------------------------------------------------------- Vectorized


def best_vector(task, seed, tries=20):
    """The best unit vector a and cut, by gradients on all L coordinates from random starts."""
    subsets = list(combinations(range(task.length), task.sparsity))
    places = np.array([[float(i in s) for i in range(task.length)] for s in subsets])
    weights = np.ones(len(subsets))
    if task.places is not None:
        weights = np.array([math.prod(task.places[i] for i in s) for s in subsets])
    weights /= weights.sum()

    def loss(point):
        scores = places @ (point[:-1] / np.linalg.norm(point[:-1]))
        miss = weights @ ndtr(point[-1] - task.strength * scores)
        return task.prevalence * miss + (1 - task.prevalence) * ndtr(-point[-1])

    rng = np.random.default_rng(seed)
    best = min(task.prevalence, 1 - task.prevalence)
    for _ in range(tries):
        start = np.append(rng.exponential(size=task.length) ** 3, rng.uniform(-1, 4))
        best = min(best, minimize(loss, start, method="CG").fun)
    return best


@pytest.mark.parametrize(
    ("length", "sparsity", "strength", "prevalence"),
    [(6, 1, 3.0, 0.03), (6, 1, 4.0, 0.3), (5, 2, 2.0, 0.05), (7, 1, 2.0, 0.1), (4, 3, 1.0, 0.9)],
)
def test_vectorized_against_all_vectors(length, sparsity, strength, prevalence):
    task = Task(length, sparsity, strength, prevalence)
    found, brute = oracle_error(task, Vectorized()), best_vector(task, seed=2)
    assert found == pytest.approx(brute, abs=1e-7)
    assert found.standard_error == 0


def test_vectorized_is_never_worse_than_pooled():
    for task in random_tasks(15, seed=3):
        assert oracle_error(task, Vectorized()) <= oracle_error(task, Pooled())


def test_vectorized_watches_few_positions_for_a_rare_class():
    rare, common = Task(100, 1, 4.0, prevalence=0.1), Task(100, 1, 40.0)
    assert oracle_error(rare, Vectorized()) < oracle_error(rare, Pooled()) - 5e-4
    both = [oracle_error(common, classifier) for classifier in (Vectorized(), Pooled())]
    assert both[0] == pytest.approx(both[1], rel=1e-9)


@pytest.mark.parametrize("sparsity", [1, 2])
def test_vectorized_with_position_weights(sparsity):
    places = (0.5, 0.2, 0.1, 0.1, 0.1)
    task = Task(5, sparsity, 2.5, 0.3, places)
    assert oracle_error(task, Vectorized()) == pytest.approx(best_vector(task, seed=4), abs=1e-7)
    assert oracle_error(task, Vectorized()) < oracle_error(task, Pooled()) - 1e-3


def test_counts_of_groups_are_hypergeometric():
    for length, sparsity, k in ((30, 7, 11), (10**6, 5000, 400), (12, 12, 4)):
        shares, weights = linear._grouped_places(length, sparsity, k)
        among = np.rint(shares[:, 0] * math.sqrt(k)).astype(int)
        single = np.rint(shares[:, 1]).astype(int)
        for i in (0, 1):
            expected = hypergeom.pmf(among, length - 1, k, sparsity - i)
            expected *= sparsity / length if i else 1 - sparsity / length
            np.testing.assert_allclose(weights[single == i], expected[single == i], atol=1e-10)
        assert weights.sum() == pytest.approx(1, abs=1e-12)


# ---------------------------------------------------------------------------- Attention


@pytest.mark.parametrize(
    ("length", "sparsity", "strength", "sharpness", "cut"),
    [
        (10, 1, 3.0, 1.2, 1.5),
        (10, 4, 1.5, 0.5, 1.0),
        (30, 3, 2.5, 5.0, 2.6),
        (40, 2, 2.0, 0.0, 0.1),
    ],
)
def test_losses_at_fixed_parameters_are_those_of_tokens(length, sparsity, strength, sharpness, cut):
    task = Task(length, sparsity, strength, 0.4)
    rest = extremes.draw_rest(length, sparsity, seed=5)
    integrated = mean_of_replicates(
        attention_oracle._losses(
            attention_oracle._sums(rest, sharpness, strength), task.prevalence, cut
        )
    )
    statistics = []
    for scores in draw_scores(task, 200_000, seed=6):
        weights = np.exp(sharpness * scores)
        statistics.append((weights * scores).sum(axis=1) / weights.sum(axis=1) - cut)
    assert within(integrated, counted(task, *statistics))
    assert integrated.standard_error < 1e-3


@pytest.mark.parametrize("task", [Task(10, 1, 3.0), Task(30, 3, 2.0, 0.2)], ids=["L10", "L30"])
def test_attention_is_the_best_of_all_sharpnesses_and_cuts(task):
    count = 200_000
    best = math.inf
    negative, positive = draw_scores(task, count, seed=7)
    for sharpness in (0.4, 0.7, 0.9, 1.2, 1.5, 2.5):
        values = []
        for scores in (negative, positive):
            weights = np.exp(sharpness * scores)
            values.append((weights * scores).sum(axis=1) / weights.sum(axis=1))
        order = np.argsort(np.concatenate(values), kind="stable")
        positives = order >= count  # walking the cut upwards: misses grow, false alarms fall
        losses = task.prevalence * np.cumsum(positives) / count
        losses += (1 - task.prevalence) * (1 - np.cumsum(~positives) / count)
        best = min(best, losses.min())
    found = oracle_error(task, Attention())
    assert within(found, Estimate(best, math.sqrt(best / (2 * count))))
    assert 0.3 < found.sharpness < 4


def test_attention_at_its_ends_is_exact(fewer_draws):
    strong = oracle_error(Task(100, 1, 6.0), Attention())
    assert (strong.sharpness, strong.standard_error) == (math.inf, 0.0)
    cut = minimize_scalar(
        lambda c: 0.5 * ndtr(c) ** 99 * ndtr(c - 6) + 0.5 * (1 - ndtr(c) ** 100),
        bounds=(2, 5),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert strong == pytest.approx(cut.fun, abs=1e-12)
    dense = oracle_error(Task(20, 20, 0.3), Attention())
    assert (dense.sharpness, dense.standard_error) == (0.0, 0.0)
    assert dense == pytest.approx(oracle_error(Task(20, 20, 0.3), Pooled()), rel=1e-9)


@pytest.mark.parametrize(("sparsity", "strength"), [(4, 17.5), (2, 9.0)])
def test_errors_too_small_to_sample_are_not_taken_for_nothing(fewer_draws, sparsity, strength):
    """No draw shows an error here; the exact mean and maximum bound it."""
    task = Task(25, sparsity, strength, 0.8)
    attention, floor = oracle_error(task, Attention()), bayes_error(task)
    assert 0 < attention <= oracle_error(task, Pooled())
    assert floor <= attention
    assert floor.standard_error <= attention


def test_attention_ignores_its_own_query(fewer_draws):
    task = Task(12, 2, 2.0)
    frozen = oracle_error(task, Attention(cosine=0.2, sharpness=9.0))
    assert frozen == pytest.approx(oracle_error(task, Attention()), rel=1e-9)


def test_lambert_branches():
    a = 1 + np.concatenate([[0.0], np.geomspace(1e-10, 650, 2000)])
    for u in attention_oracle._negative_branches(a):
        np.testing.assert_allclose(-u - np.log(-u), a, rtol=1e-11)
    upper, lower = attention_oracle._negative_branches(np.array([0.5, -3.0]))
    assert np.array_equal(upper, lower)


# -------------------------------------------------------------------------------- Bayes


def log_ratios(task, scores):
    """log likelihood ratio minus log((1−π)/π), with the sum over subsets written out."""
    weights = np.ones(task.length) if task.places is None else np.asarray(task.places)
    subsets = [list(s) for s in combinations(range(task.length), task.sparsity)]
    log_weights = np.array([np.log(weights[s]).sum() for s in subsets])
    terms = np.stack([task.strength * scores[:, s].sum(axis=1) for s in subsets], axis=1)
    ratio = logsumexp(terms + log_weights, axis=1) - logsumexp(log_weights)
    odds = math.log((1 - task.prevalence) / task.prevalence)
    return ratio - task.sparsity * task.strength**2 / 2 - odds


@pytest.mark.parametrize(
    "task",
    [
        Task(5, 1, 2.0, 0.3, (0.6, 0.2, 0.1, 0.05, 0.05)),
        Task(6, 2, 1.5, 0.6, (5.0, 4.0, 3.0, 2.0, 1.0, 0.01)),
        Task(6, 4, 1.2, 0.5, (9.0, 1.0, 1.0, 1.0, 1.0, 1.0)),
        Task(7, 3, 1.5, 0.2),
    ],
    ids=["R1", "R2", "R4", "uniform"],
)
def test_bayes_against_enumeration(task):
    found = bayes_error(task)
    ratios = [log_ratios(task, scores) for scores in draw_scores(task, 200_000, seed=8)]
    assert within(found, counted(task, *ratios))
    assert found.standard_error < 6e-4


def test_bayes_is_below_every_classifier(fewer_draws):
    for task in random_tasks(5, seed=9):
        floor = bayes_error(task)
        for classifier in (Pooled(), Vectorized(), Attention()):
            other = oracle_error(task, classifier)
            assert floor <= other + 4 * math.hypot(floor.standard_error, other.standard_error)


def test_bayes_ignores_positions_without_signal():
    padded = Task(9, 2, 2.0, 0.3, (1.0,) * 6 + (0.0,) * 3)
    assert bayes_error(padded) == pytest.approx(bayes_error(Task(6, 2, 2.0, 0.3)), rel=1e-9)
    known = Task(9, 2, 2.0, 0.3, (3.0, 1.0) + (0.0,) * 7)
    both = oracle_error(Task(2, 2, 2.0, 0.3), Pooled())
    assert bayes_error(known) == pytest.approx(both, abs=1e-12)


def test_signal_everywhere_is_two_gaussians():
    for length in (1, 4, 1000):
        task = Task(length, length, 1.1 / math.sqrt(length), 0.35)
        expected = exact_oracles.gaussian_error(1.1, 0.35)
        for error in (
            bayes_error(task),
            *(oracle_error(task, c) for c in (Pooled(), Vectorized(), Attention())),
        ):
            assert error == pytest.approx(expected, abs=1e-9)
            assert error.standard_error == 0


@pytest.mark.parametrize(
    ("count", "size", "strength"),
    [(3, 2, 1.0), (9, 9, 1.0), (29, 2, 2.5), (29, 28, 6.0), (100, 50, 0.0), (300, 120, 0.7)],
)
def test_elementary_symmetric_polynomials(count, size, strength):
    rng = np.random.default_rng(10)
    values = strength * rng.standard_normal((6, count))
    values[:, : size - 1] += strength**2
    lower, upper = symmetric.log_elementary(values, size)
    exact = [sums[:, -1] for sums in log_subset_sums(values, size)]
    np.testing.assert_allclose(lower, exact[size - 1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(upper, exact[size], rtol=0, atol=1e-9)


def test_elementary_symmetric_polynomials_of_many_values():
    _, upper = symmetric.log_elementary(np.zeros((1, 20_000)), 5_000)
    exact = gammaln(20_001) - gammaln(5_001) - gammaln(15_001)
    assert upper[0] == pytest.approx(exact, abs=1e-8)


# ------------------------------------------------------------------------- long samples


def mean_with_error(values):
    return Estimate(np.mean(values), np.std(values) / math.sqrt(len(values)))


@pytest.fixture(scope="module")
def tokens_of_2048():
    """2048 tokens, 1792 of them never drawn; and all of them, token by token."""
    (few,) = extremes.draw_tokens((2048,), np.random.SeedSequence(11), draws=1 << 14)
    assert few.hidden == 2048 - 256
    tokens = np.random.default_rng(12).standard_normal((6000, 2048))
    return few, extremes.Tokens(-np.sort(-tokens, axis=1), 0, np.empty((6000, 0)))


@pytest.mark.parametrize("sharpness", [0.0, 0.3, 1.0, 2.0, 5.0, 20.0])
def test_hidden_tokens_have_the_sums_of_drawn_ones(tokens_of_2048, sharpness):
    """Moments of log Σe^{τg} and of the softmax mean up to the third, and their product."""
    few, tokens = tokens_of_2048
    short, full = (extremes.softmax_sums(t, max(sharpness, 1e-9)) for t in (few, tokens))
    for one, other in zip(short, full, strict=True):
        centre = other.mean()
        for power in (1, 2, 3):
            found = mean_with_error((one - centre) ** power)
            assert within(found, mean_with_error((other - centre) ** power))
    joint = [
        (sums.log_total - full[0].mean()) * (sums.mean - full[1].mean()) for sums in (short, full)
    ]
    assert within(mean_with_error(joint[0]), mean_with_error(joint[1]))


def test_long_attention_against_full_draws(fewer_draws):
    full, short = (
        extremes.draw_rest(2048, 3, seed=13, largest=largest)
        for largest in (2048, extremes.LARGEST)
    )
    assert full.noise.hidden == 0 < short.noise.hidden
    for sharpness, cut in ((0.5, 0.55), (1.5, 1.9), (4.0, 3.6)):
        for strength in (3.0, 4.0):
            one, other = (
                mean_of_replicates(
                    attention_oracle._losses(
                        attention_oracle._sums(rest, sharpness, strength), 0.5, cut
                    )
                )
                for rest in (full, short)
            )
            assert within(one, other)
            assert 0.01 < one < 0.49


@pytest.mark.parametrize(("sparsity", "strength"), [(1, 4.0), (4, 2.5)])
def test_long_bayes_against_full_draws(fewer_draws, sparsity, strength):
    task = Task(2048, sparsity, strength)
    full = BayesOracle(task, extremes.draw_rest(2048, sparsity, seed=14, largest=2048))
    assert full.rest.noise.hidden == 0
    assert within(bayes_error(task), full.error(strength))


def test_standard_errors_are_honest(fewer_draws):
    """Estimates with different seeds scatter as they say they do."""
    task = Task(60, 2, 3.0)
    results = [bayes_error(task, seed=seed) for seed in range(10)]
    claimed = math.sqrt(np.mean([r.standard_error**2 for r in results]))
    assert 0.5 < np.std(results, ddof=1) / claimed < 1.8
    assert len(set(results)) == 10
    assert results[3] == pytest.approx(bayes_error(task, seed=3), rel=1e-12)


def test_memory_is_bounded():
    """At the widest that is accepted: 10⁴ tokens one by one, in both classes."""
    task = Task(10_000, 5_000, 0.05)
    tracemalloc.start()
    bayes = bayes_oracle("bayes_error", task, seed=0)
    few = bayes.error(task.strength, few=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 250e6
    assert few == pytest.approx(oracle_error(task, Pooled()), abs=0.05)


# --------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize("classifier", [Pooled(), Vectorized(), Attention(), None], ids=repr)
@pytest.mark.parametrize(
    ("task", "error"), [(Task(20, 1, 0.0), 0.01), (Task(8, 3, 0.0, 0.1), 0.06)], ids=["R1", "R3"]
)
def test_thresholds_invert_errors(fewer_draws, classifier, task, error):
    strength = signal_threshold(task, classifier, error=error)
    at = Task(task.length, task.sparsity, float(strength), task.prevalence)
    reached = bayes_error(at) if classifier is None else oracle_error(at, classifier)
    assert reached == pytest.approx(error, abs=max(1e-9, 0.5 * reached.standard_error))
    assert (strength.standard_error > 0) == (reached.standard_error > 0)


def test_threshold_with_position_weights(fewer_draws):
    task = Task(4, 1, 0.0, 0.4, (4.0, 2.0, 1.0, 1.0))
    weighted = signal_threshold(task, Vectorized(), error=0.1)
    assert weighted < signal_threshold(task, Pooled(), error=0.1) - 0.1
    assert signal_threshold(task, error=0.1) < weighted - 0.1


def test_growth_with_length(fewer_draws):
    lengths = [10, 1000, 1_000_000]
    tasks = [Task(length, 1, 0.0) for length in lengths]
    pooled = np.array([signal_threshold(task, Pooled(), error=0.01) for task in tasks])
    np.testing.assert_allclose(pooled / np.sqrt(lengths), 2 * 2.3263478740408408, rtol=1e-10)
    attention = [signal_threshold(task, Attention(), error=0.01) for task in tasks]
    assert np.all(np.diff(attention) > 0)
    assert np.all(np.diff(attention / np.log(lengths)) < 0)
    assert max(e.standard_error for e in attention) < 0.01
    floor = signal_threshold(tasks[-1], error=0.01)
    assert 0 < floor.standard_error < 0.01
    assert floor < attention[-1] + 4 * floor.standard_error


def test_an_error_that_needs_no_signal():
    task = Task(10, 1, 5.0, 0.2)
    for classifier in (Pooled(), Vectorized(), Attention(), None):
        assert signal_threshold(task, classifier, error=0.2) == 0.0


# ---------------------------------------------------------------- bad input and Estimate


@pytest.mark.parametrize("error", [0.0, -0.1, 0.5, 0.9, math.nan, "small", True])
def test_threshold_refuses_impossible_errors(error):
    with pytest.raises(InvalidInput, match="signal_threshold: error must be a number above 0"):
        signal_threshold(Task(10, 1, 1.0), Pooled(), error=error)


def test_unknown_classifiers_and_seeds_are_refused():
    task = Task(10, 1, 1.0)
    with pytest.raises(InvalidInput, match="oracle_error: classifier must be a classifier such"):
        oracle_error(task, "pooled")
    with pytest.raises(InvalidInput, match="signal_threshold: classifier must be a classifier"):
        signal_threshold(task, Attention, error=0.1)
    for call in (
        lambda: bayes_error(task, seed=-1),
        lambda: oracle_error(task, Pooled(), seed=0.5),
    ):
        with pytest.raises(InvalidInput, match="seed must be a whole number of at least 0"):
            call()


def test_bayes_problems_too_large_are_refused_in_words():
    with pytest.raises(InvalidInput, match="bayes_error: the Bayes test must need at most 10253"):
        bayes_error(Task(10**6, 10**5, 0.1))
    with pytest.raises(InvalidInput, match="signal_threshold: the Bayes test must need at most"):
        signal_threshold(Task(10**6, 10**5, 0.1), error=0.1)


def test_estimate_behaves_as_a_number():
    estimate = Estimate(0.25, 0.001, sharpness=2.0)
    assert isinstance(estimate, float)
    assert estimate == 0.25
    assert estimate + 1 == 1.25
    assert f"{estimate:.3f}" == "0.250"
    assert json.loads(json.dumps(estimate)) == 0.25
    assert hash(estimate) == hash(0.25)
    assert repr(estimate) == str(estimate) == "0.2500 ± 0.0010"
    assert repr(Estimate(0.5)) == "0.5"
    for twin in (
        pickle.loads(pickle.dumps(estimate)),
        copy.copy(estimate),
        copy.deepcopy(estimate),
    ):
        assert type(twin) is Estimate
        assert (twin, twin.standard_error, twin.sharpness) == (0.25, 0.001, 2.0)
    with pytest.raises(AttributeError):
        estimate.standard_error = 0.5

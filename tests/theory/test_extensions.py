"""Further than the paper: other weightings, signals that vary, tokens that share noise.

Every law against tokens drawn by the plain experiment (4 standard errors + 3/d), and against the
old law in the limit where the two meet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import sparsetoken as st
import witness as plain
from sparsetoken.model.queries import draw_query
from sparsetoken.oracles.detection import detection_error
from sparsetoken.oracles.posterior import log_likelihood_ratio
from sparsetoken.oracles.regret import attention_regret
from sparsetoken.support.errors import InvalidInput

DIM, RUNS = 160, 12
PROTOCOL = st.Protocol(3.0, 3.0, st.Logistic(), ridge=0.02, query_step=8.0)
SHARED = st.Task(6, 2, 3.0, 0.4, token_correlation=0.4)
MIXED = st.Task(6, st.Discrete([1, 3], [0.7, 0.3]), st.Discrete([2.0, 5.0]), 0.4)
SILENT = st.Task(6, st.Discrete([0, 1, 2], [0.3, 0.5, 0.2]), 4.0, 0.4)
GAMMA = st.Task(5, 1, scipy.stats.gamma(4), token_correlation=0.3)
SETTINGS = {
    "shared noise, attention": (SHARED, st.Attention()),
    "shared noise, frozen": (SHARED, st.Attention(0.7, 1.5)),
    "shared noise, pooled": (SHARED, st.Pooled()),
    "varying, attention": (MIXED, st.Attention()),
    "varying, frozen": (MIXED, st.Attention(-0.6, 1.2)),
    "varying, pooled": (MIXED, st.Pooled()),
    "varying, vectorized": (replace(MIXED, length=3), st.Vectorized()),
    "silent, attention": (SILENT, st.Attention()),
    "silent, pooled": (SILENT, st.Pooled()),
    "gamma, shared, top-2": (GAMMA, st.Attention(weighting=st.TopK(2))),
    "gamma, shared, pooled": (GAMMA, st.Pooled()),
    "hard max": (st.Task(5, 1, 4.0), st.Attention(weighting=st.HardMax())),
    "sparsemax": (st.Task(5, 1, 4.0, 0.3), st.Attention(weighting=st.Sparsemax())),
    "top-2, frozen": (st.Task(6, 2, 3.0), st.Attention(0.8, 0.5, weighting=st.TopK(2))),
}


def sorted_weights(scores, weighting):
    """The weightings written again, sample by sample, without the package's."""
    out = np.zeros_like(scores)
    for row, z in zip(out, scores, strict=True):
        order = np.argsort(-z)
        if isinstance(weighting, st.HardMax):
            row[order[0]] = 1.0
        elif isinstance(weighting, st.TopK):
            top = order[: weighting.k]
            row[top] = np.exp(z[top] - z[top].max()) / np.exp(z[top] - z[top].max()).sum()
        else:
            for k in range(len(z), 0, -1):
                cut = (z[order[:k]].sum() - 1) / k
                if z[order[k - 1]] > cut:
                    row[order[:k]] = z[order[:k]] - cut
                    break
    return out


def features_of(classifier):
    if isinstance(classifier, st.Pooled):
        return plain.pooled
    if isinstance(classifier, st.Vectorized):
        return plain.vectorized
    if classifier.weighting == st.Softmax():
        return plain.attention
    return lambda tokens, query: np.einsum(
        "nl,nld->nd", sorted_weights(tokens @ query, classifier.weighting), tokens
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_laws_against_tokens(name):
    task, classifier = SETTINGS[name]
    frozen = isinstance(classifier, st.Attention) and not classifier.learns_query
    query = (classifier.cosine, classifier.sharpness) if frozen else None
    runs = [
        plain.experiment(
            task, features_of(classifier), PROTOCOL, DIM, np.random.default_rng(seed),
            learned=classifier.learns_query, query=query, tests=3000,
        )
        for seed in np.random.SeedSequence(21).spawn(RUNS)
    ]  # fmt: skip
    prediction = st.predict(task, classifier, PROTOCOL)
    expected = {k: getattr(prediction, k) for k in ("test_error", "train_error", "train_loss")}
    if prediction.query is not None:
        expected |= {"cosine": prediction.query.cosine, "norm": prediction.query.norm}
    for quantity, theory in expected.items():
        values = np.array([run[quantity] for run in runs])
        error = values.std(ddof=1) / np.sqrt(RUNS)
        allowed = 4 * error + 3 / DIM
        assert abs(values.mean() - theory) <= allowed, (quantity, theory, values.mean(), error)
    run = st.simulate(task, classifier, PROTOCOL, DIM, 20, seed=3)  # the reduced sampler
    for quantity, theory in expected.items():
        gap = abs(run.mean(quantity) - theory)
        assert gap <= 4 * run.sem(quantity) + 3 / DIM, ("reduced", quantity)


@pytest.mark.parametrize("task", [SHARED, MIXED, GAMMA], ids=["shared", "mixed", "gamma"])
def test_alignment_to_three_digits(task):
    """Large and often enough to see a forgotten factor 1 − ρ."""
    dim, rng = 2000, np.random.default_rng(5)
    drawn = [draw_query(task, PROTOCOL, dim, 3 * dim, rng) for _ in range(200)]
    expected = st.align(task, PROTOCOL)
    for name in ("cosine", "norm"):
        values = np.array([getattr(query, name) for query in drawn])
        error, theory = values.std(ddof=1) / np.sqrt(len(values)), getattr(expected, name)
        assert error < 4e-3 * theory  # resolved
        assert abs(values.mean() - theory) <= 4 * error + 3 / dim


def errors(task, classifier):
    found = st.predict(task, classifier, PROTOCOL)
    return np.array([found.test_error, found.train_loss, found.auc])


PLAIN = st.Task(6, 2, 3.0, 0.4)


@pytest.mark.parametrize("classifier", [st.Pooled(), st.Attention(), st.Attention(0.8, 1.0)])
def test_little_shared_noise_is_none(classifier):
    near = replace(PLAIN, token_correlation=1e-10)
    exact = isinstance(classifier, st.Pooled)  # attention's clouds differ by a coordinate
    np.testing.assert_allclose(
        errors(near, classifier), errors(PLAIN, classifier), atol=1e-8 if exact else 5e-4
    )
    at, there = st.align(near, PROTOCOL), st.align(PLAIN, PROTOCOL)
    np.testing.assert_allclose(at, there, rtol=1e-8)
    assert st.capacity(near, classifier, PROTOCOL) == pytest.approx(
        st.capacity(PLAIN, classifier, PROTOCOL), rel=1e-7 if exact else 5e-3
    )


@pytest.mark.parametrize(
    "classifier", [st.Pooled(), st.Vectorized(), st.Attention(), st.Attention(0.8, 1.0)]
)
def test_a_point_distribution_is_a_number(classifier):
    point = st.Task(6, st.Discrete([2]), st.Discrete([3.0]), 0.4)
    exact = not isinstance(classifier, st.Attention)
    np.testing.assert_allclose(
        errors(point, classifier), errors(PLAIN, classifier), atol=1e-12 if exact else 5e-4
    )
    for number in (
        lambda task: st.align(task, PROTOCOL),
        lambda task: st.alignment_rate(task, PROTOCOL),
        lambda task: st.best_steps(task, st.Logistic(), 2.0),
    ):
        assert number(point) == pytest.approx(number(PLAIN), rel=1e-9)


@pytest.mark.parametrize(
    "weighting", [st.TopK(6), st.TopK(2), st.HardMax(), st.Sparsemax()], ids=repr
)
def test_at_sharpness_zero_every_weighting_is_the_mean(weighting):
    attention = st.Attention(0.6, 0.0, weighting=weighting)
    np.testing.assert_allclose(errors(PLAIN, attention), errors(PLAIN, st.Pooled()), atol=1e-5)
    same = errors(PLAIN, st.Attention(0.6, 1.3, weighting=st.TopK(6)))
    np.testing.assert_allclose(same, errors(PLAIN, st.Attention(0.6, 1.3)), rtol=1e-9)


def test_softmax_becomes_the_hard_maximum():
    hard = errors(PLAIN, st.Attention(0.9, 1.0, weighting=st.HardMax()))
    np.testing.assert_allclose(errors(PLAIN, st.Attention(0.9, 300.0)), hard, atol=2e-3)
    first = errors(PLAIN, st.Attention(0.9, 1.0, weighting=st.TopK(1)))
    np.testing.assert_allclose(first, hard, rtol=1e-9)


def test_the_rate_of_alignment():
    for task in (SHARED, MIXED, GAMMA):
        rate = st.alignment_rate(task, PROTOCOL)
        many = st.align(task, replace(PROTOCOL, query_samples=1e6))
        assert (1 - many.cosine) * 1e6 == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize("task", [replace(SHARED, prevalence=0.1), replace(MIXED, prevalence=0.1)])
def test_the_best_steps_are_best(task):
    steps = st.best_steps(task, st.Logistic(), 3.0)
    for bias in (0.6, 0.9, 1.1, 1.6):
        protocol = replace(PROTOCOL, readout_step=steps.readout, bias_step=bias * steps.bias)
        assert st.align(task, protocol).cosine < steps.cosine


def test_shared_noise_hurts_the_mean_most():
    """The mean token keeps the shared part; differences of scores do not feel it, and less noise
    is left in them: the query is even better aligned."""
    alone = replace(SHARED, token_correlation=0.0)
    assert st.align(SHARED, PROTOCOL).cosine > st.align(alone, PROTOCOL).cosine + 0.03
    loss = {
        name: errors(SHARED, kind)[0] - errors(alone, kind)[0]
        for name, kind in (("pooled", st.Pooled()), ("attention", st.Attention(0.95, 2.0)))
    }
    assert loss["pooled"] > 0.05 > loss["attention"]


@pytest.mark.parametrize("task", [SHARED, MIXED, GAMMA], ids=["shared", "mixed", "gamma"])
def test_nothing_beats_bayes(task):
    bayes = st.bayes_error(task)
    best = st.oracle_error(task, st.Attention())
    assert bayes <= best + 4 * np.hypot(bayes.standard_error, best.standard_error)
    assert best < st.oracle_error(task, st.Pooled()) < min(task.prevalence, 1 - task.prevalence)
    prediction = st.predict(task, st.Attention(), PROTOCOL)
    assert prediction.test_error > best - 4 * best.standard_error


def test_the_bayes_test_of_shared_noise_against_its_density():
    """Two tokens, one carries: the likelihood ratio from scipy's normal densities."""
    task = st.Task(2, 1, 2.0, token_correlation=0.5)
    scores = np.random.default_rng(0).normal(size=(200, 2)) * 2
    covariance = [[1.0, 0.5], [0.5, 1.0]]
    normal = scipy.stats.multivariate_normal
    positive = 0.5 * (
        normal([2.0, 0.0], covariance).pdf(scores) + normal([0.0, 2.0], covariance).pdf(scores)
    )
    expected = np.log(positive / normal([0.0, 0.0], covariance).pdf(scores))
    np.testing.assert_allclose(log_likelihood_ratio(task, scores), expected, atol=1e-9)


@pytest.mark.parametrize("prevalence", [1e-6, 1 - 1e-6])
def test_no_oracle_is_worse_than_naming_the_likelier_class(prevalence):
    task = st.Task(6, 1, 3.0, prevalence)
    best = st.oracle_error(task, st.Attention(weighting=st.TopK(2)))
    assert best <= 1.0000001e-6
    assert st.bayes_error(replace(task, token_correlation=0.2)) <= 1.0000001e-6


def test_equal_places_are_no_places():
    task = st.Task(4, 1, 3.0, token_correlation=0.3)
    placed = st.bayes_error(replace(task, places=(1,) * 4))
    assert placed == pytest.approx(st.bayes_error(task), rel=1e-9)


def test_what_has_no_oracle_says_so():
    for ask, message in (
        (lambda: st.oracle_error(MIXED, st.Vectorized()), "oracle_error: task must have one str"),
        (lambda: st.signal_threshold(SHARED, st.Pooled(), error=0.1), "task must have one stren"),
        (lambda: st.signal_threshold(PLAIN, st.Attention(weighting=st.TopK(2)), error=1e-5),
         r"error must be at least 0.0\d+ for Attention\(.*draws, got 1e-05"),
        (lambda: st.bayes_error(st.Task(3, 1, 1.0, places=(1, 2, 3), token_correlation=0.1)),
         "with position weights"),
        (lambda: detection_error(SHARED, "maximum"), "detection_error: task must have one stren"),
        (lambda: attention_regret(MIXED), "attention_regret: task must have one strength"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=message):
            ask()

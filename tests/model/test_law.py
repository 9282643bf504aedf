"""The feature law: what must not change the answer, and metrics against plain sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from sparsetoken import (
    Attention,
    FeatureLaw,
    Huber,
    Logistic,
    Pooled,
    Readout,
    Square,
    SquaredHinge,
    Task,
    separability_threshold,
    solve,
)
from sparsetoken.model import law as law_module
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory.saddle import Saddle, equations


def random_law(seed, atoms=12, directions=2):
    rng = np.random.default_rng(seed)
    return FeatureLaw(
        labels=np.where(np.arange(atoms) % 2, 1.0, -1.0),
        means=rng.normal(size=(atoms, directions)),
        scales=np.exp(0.3 * rng.normal(size=atoms)),
        weights=rng.random(atoms) + 0.05,
        noisy=rng.random(directions) < 0.6,
    )


def summary(law, loss, ridge, samples):
    fit = solve(law, loss, ridge, samples)
    return np.array(
        [fit.test_error, fit.train_loss, fit.train_error, fit.auc, fit.rest, fit.noise, fit.bias]
    )


problems = dict(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from([Square(), Logistic(), SquaredHinge(), Huber()]),
    ridge=st.floats(1e-4, 10.0),
    samples=st.floats(0.1, 50.0),
)
few = settings(max_examples=25, deadline=None, derandomize=True)


def same(left, right):
    np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8)


@few
@given(**problems)
def test_splitting_and_permuting_atoms_changes_nothing(seed, loss, ridge, samples):
    law = random_law(seed)
    rng = np.random.default_rng(seed + 1)
    order = rng.permutation(np.repeat(np.arange(12), 2))
    shuffled = FeatureLaw(
        law.labels[order], law.means[order], law.scales[order], law.weights[order], law.noisy
    )
    same(summary(law, loss, ridge, samples), summary(shuffled, loss, ridge, samples))


@few
@given(**problems)
def test_rotating_noisy_directions_changes_nothing(seed, loss, ridge, samples):
    law = random_law(seed, directions=3)
    noisy = np.array([True, False, True])
    turn = np.random.default_rng(seed).uniform(0, 2 * np.pi)
    rotation = np.eye(3)
    rotation[np.ix_([0, 2], [0, 2])] = [
        [np.cos(turn), -np.sin(turn)],
        [np.sin(turn), np.cos(turn)],
    ]
    one = FeatureLaw(law.labels, law.means, law.scales, law.weights, noisy)
    two = FeatureLaw(law.labels, law.means @ rotation, law.scales, law.weights, noisy)
    same(summary(one, loss, ridge, samples), summary(two, loss, ridge, samples))


@few
@given(noisy=st.booleans(), **problems)
def test_a_direction_without_a_mean_changes_nothing(seed, loss, ridge, samples, noisy):
    law = random_law(seed)
    wider = FeatureLaw(
        law.labels,
        np.column_stack([law.means, np.zeros(12)]),
        law.scales,
        law.weights,
        np.append(law.noisy, noisy),
    )
    same(summary(law, loss, ridge, samples), summary(wider, loss, ridge, samples))
    assert np.isclose(separability_threshold(law), separability_threshold(wider), rtol=1e-8)


@few
@given(factor=st.floats(0.05, 20.0), **problems)
def test_scaling_features_and_ridge_together_leaves_the_error_alone(
    seed, loss, ridge, samples, factor
):
    law = random_law(seed)
    scaled = FeatureLaw(law.labels, factor * law.means, factor * law.scales, law.weights, law.noisy)
    one = summary(law, loss, ridge, samples)
    two = summary(scaled, loss, ridge * factor**2, samples)
    same(one[:4], two[:4])
    assert np.isclose(separability_threshold(law), separability_threshold(scaled), rtol=1e-8)


@few
@given(**problems)
def test_swapping_the_classes_changes_only_the_sign_of_the_bias(seed, loss, ridge, samples):
    law = random_law(seed)
    swapped = FeatureLaw(-law.labels, law.means, law.scales, law.weights, law.noisy)
    one, two = summary(law, loss, ridge, samples), summary(swapped, loss, ridge, samples)
    two[-1] = -two[-1]
    same(one, two)


@pytest.mark.parametrize("loss", [Square(), Logistic(), SquaredHinge(), Huber()], ids=repr)
def test_attention_without_sharpness_is_pooled(loss):
    task = Task(length=7, sparsity=2, strength=4.0, prevalence=0.3)
    for cosine in (-1.0, 0.0, 0.6, 1.0):
        law = Attention(cosine=cosine, sharpness=0.0).law(task)
        one, two = solve(law, loss, 1e-3, 2.5), solve(Pooled().law(task), loss, 1e-3, 2.5)
        # quadrature accuracy: over scrambles the cloud's test error spreads by 5e-5 here
        assert abs(one.test_error - two.test_error) < 1e-4
        assert abs(one.train_loss / two.train_loss - 1) < 2e-4
        assert abs(one.auc - two.auc) < 1e-4


def test_metrics_agree_with_plain_sampling():
    """All test metrics against two million drawn scores."""
    law = Attention(cosine=0.7, sharpness=2.0).law(Task(8, 2, 3.0, prevalence=0.2))
    readout = Readout(np.array([0.8, 0.5]), bias=-2.0, noise=0.7)
    scores = law.scores(readout)
    rng = np.random.default_rng(0)
    n = 2_000_000
    labels, means, scales, *_ = law.sample(n, rng)
    drawn = means @ readout.weights + readout.bias + scales * readout.noise * rng.normal(size=n)
    positive, negative = drawn[labels > 0], np.sort(drawn[labels < 0])
    error = np.where(labels > 0, drawn < 0, drawn > 0)
    assert abs(scores.test_error - error.mean()) < 4 * error.std() / np.sqrt(n)
    assert abs(scores.false_negative_rate - (positive < 0).mean()) < 4 / np.sqrt(len(positive)) / 2
    assert abs(scores.false_positive_rate - (negative > 0).mean()) < 4 / np.sqrt(len(negative)) / 2
    rank = np.searchsorted(negative, positive) / len(negative)
    assert abs(scores.auc - rank.mean()) < 4 * rank.std() / np.sqrt(len(positive))
    threshold = np.quantile(negative, 0.9)
    sensitivity = (positive > threshold).mean()
    assert abs(scores.sensitivity(0.9) - sensitivity) < 5 * np.sqrt(0.25 / len(positive))
    order = np.argsort(-drawn)
    hits = labels[order] > 0
    precision = np.cumsum(hits) / np.arange(1, n + 1)
    assert abs(scores.average_precision - precision[hits].mean()) < 2e-3
    false, true = scores.roc()
    assert false[0] == true[0] == 0 and false[-1] == true[-1] == 1
    assert np.all(np.diff(false) >= 0) and np.all(np.diff(true) >= 0)
    area = np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2)
    assert abs(area - scores.auc) < 1e-4


def test_merging_many_atoms_keeps_the_auc():
    law = Attention(cosine=0.9, sharpness=4.0).law(Task(12, 1, 4.0, prevalence=0.1))
    for noise in (1.0, 0.1, 0.01):
        scores = law.scores(Readout(np.array([1.0, 0.4]), bias=-2.0, noise=noise))
        down = scores.negative
        up = Mixture(*(part[::16] for part in scores.positive))  # 2048 × 32768 pairs, one by one
        up = up._replace(weight=up.weight / up.weight.sum())
        exact = 0.0
        for mean, deviation, weight in zip(*up, strict=True):
            spread = np.hypot(deviation, down.deviation)
            exact += weight * (ndtr((mean - down.mean) / spread) @ down.weight)
        assert abs(Scores(up, down, 0.1).auc - exact) < 2e-6


@pytest.mark.parametrize("prevalence", [0.5, 0.01, 1e-3])
def test_average_precision_against_a_fine_grid(prevalence):
    """Rare classes and little noise included: both rates at 20,000 thresholds, every atom."""
    task = Task(10, 1, 5.0, prevalence)
    for noise in (0.7, 0.02, 0.0):
        law = Attention(cosine=0.95, sharpness=1.0).law(task)
        scores = law.scores(Readout(np.array([0.8, 0.5]), bias=-2.0, noise=noise))
        # thin both classes alike so that the fine grid stays cheap
        thin = Scores(*(_thinned(side) for side in (scores.positive, scores.negative)), prevalence)
        cuts = np.linspace(thin.negative.mean.min() - 6, thin.positive.mean.max() + 6, 20_000)[::-1]
        recall, false = thin.positive.above(cuts), thin.negative.above(cuts)
        true = prevalence * recall
        precision = true / np.maximum(true + (1 - prevalence) * false, 1e-300)
        want = np.diff(recall) @ (precision[1:] + precision[:-1]) / 2
        assert abs(thin.average_precision - want) < 2e-3 * want
        assert thin.average_precision <= 1


def _thinned(side):
    parts = Mixture(*(part[::64] for part in side))
    return parts._replace(weight=parts.weight / parts.weight.sum())


def test_noiseless_scores_of_separated_classes_are_perfect():
    law = FeatureLaw([1, -1], [[2.0], [0.0]], [1, 1], [0.5, 0.5], np.array([False]))
    scores = law.scores(Readout(np.array([1.0]), bias=-1.0, noise=0.0))
    assert scores.test_error == 0 and scores.auc == 1
    assert scores.average_precision == pytest.approx(1)


def test_a_law_leaves_the_callers_arrays_alone():
    labels, means = np.array([1.0, -1.0]), np.array([[2.0], [0.0]])
    law = FeatureLaw(labels, means, np.ones(2), np.ones(2), np.array([True]))
    labels[0], means[0, 0] = 5.0, 7.0
    assert law.labels[0] == 1 and law.means[0, 0] == 2
    with pytest.raises(ValueError, match="read-only"):  # NumPy's own
        law.means[0, 0] = 1.0


def test_nonsense_readouts_are_refused():
    law = random_law(0)
    for readout, name in [
        (Readout(np.array([np.nan, 1.0]), 0.0, 1.0), "weights"),
        (Readout(np.ones(3), 0.0, 1.0), "weights"),
        (Readout(np.ones(2), np.nan, 1.0), "bias"),
        (Readout(np.ones(2), 0.0, -1.0), "noise"),
    ]:
        with pytest.raises(InvalidInput, match=f"scores: {name} must be"):
            law.scores(readout)


def test_the_refined_law_stands_for_the_cloud():
    """A fit certified on the refined law nearly solves the equations of every atom."""
    for cosine in (0.95, 1.0):
        law = Attention(cosine, 1.0).law(Task(10, 1, 5.0))
        for loss, bound in [(Square(), 1e-5), (SquaredHinge(), 1e-3), (Huber(), 3e-2)]:
            for samples in (4.0, 200.0):
                fit = solve(law, loss, 1e-3, samples)
                logs = [np.log(fit.rest), np.log(fit.susceptibility)]
                problem = Saddle(law, loss, np.array([1e-3]), np.array([samples]))
                residual, _ = equations(problem, np.array([[*fit.weights, fit.bias, *logs]]))
                assert np.abs(residual).max() < bound, (cosine, loss, samples)


def test_a_constant_score_is_a_coin_flip_on_ties():
    law = random_law(3)
    scores = law.scores(Readout(np.zeros(2), bias=0.0, noise=0.0))
    assert scores.test_error == pytest.approx(0.5) and scores.auc == pytest.approx(0.5)
    assert scores.average_precision == pytest.approx(law.prevalence)
    sure = law.scores(Readout(np.zeros(2), bias=-1.0, noise=0.0))
    assert sure.test_error == pytest.approx(law.prevalence)


def test_a_law_is_compressed_once_for_all_prevalences(monkeypatch):
    calls = []
    whole = law_module.compress
    monkeypatch.setattr(law_module, "compress", lambda *a: calls.append(a) or whole(*a))
    classifier, readouts = Attention(cosine=0.512, sharpness=2.0), []
    for prevalence in (0.1, 0.1, 0.3, 0.5):  # the first is not ½: nothing may have been kept yet
        law = classifier.law(Task(6, 1, 3.0, prevalence))
        readouts.append(solve(law, Square(), 0.1, 2.0).weights)
        for small in (law.compressed, law.refined):
            assert small.prevalence == pytest.approx(prevalence)
    assert len(calls) == 4  # two classes, coarse and fine
    np.testing.assert_allclose(readouts[0], readouts[1], rtol=1e-9)


def test_sampling_follows_the_weights():
    law = random_law(5)
    labels, means, scales, *_ = law.sample(100_000, rng=2)
    assert abs((labels > 0).mean() - law.prevalence) < 0.01
    np.testing.assert_allclose(means.mean(axis=0), law.weights @ law.means, atol=0.02)
    assert abs(scales.mean() - law.weights @ law.scales) < 0.01


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(labels=[1, 1]), "labels must be both"),
        (dict(labels=[1, 0]), "labels must be both"),
        (dict(means=[[1.0], [np.nan]]), "means must be finite"),
        (dict(means=[1.0, 2.0]), r"means must be finite numbers of shape \(2, 1\)"),
        (dict(scales=[1.0, 0.0]), "scales must be positive"),
        (dict(weights=[1.0, -1.0]), "weights must be positive"),
        (dict(features_per_dim=0), "features_per_dim must be"),
        (dict(noisy=["no"]), "noisy must be truth values"),
        (dict(noisy=[[True]]), "noisy must be truth values"),
    ],
)
def test_wrong_laws_are_refused(change, message):
    good = dict(
        labels=[1, -1], means=[[1.0], [0.0]], scales=[1, 1], weights=[0.5, 0.5], noisy=[True]
    )
    with pytest.raises(InvalidInput, match=message):
        FeatureLaw(**{**good, **change})


def test_wrong_questions_to_a_law_are_refused():
    law = random_law(0)
    with pytest.raises(InvalidInput, match="prevalence must be a number above 0 and below 1"):
        law.with_prevalence(1.0)
    with pytest.raises(InvalidInput, match="n must be a whole number"):
        law.sample(-1, rng=0)
    with pytest.raises(InvalidInput, match="specificity must be"):
        law.scores(Readout(np.ones(2), 0.0, 1.0)).sensitivity(1.0)

"""What says nothing must change nothing: order of bags, tokens, coordinates; their units, signs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags.bags import Bags
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.units import Units
from sparsetoken.bags.whitening import TARGETS, Moments
from sparsetoken.support.errors import InvalidInput

KINDS = {
    "pooled": st.PooledClassifier(),
    "vectorized": st.VectorizedClassifier(),
    "all": st.AttentionClassifier(),
    "cross": st.AttentionClassifier(reuse="cross"),
    "split": st.AttentionClassifier(reuse="split"),
    "joint": st.AttentionClassifier(query="joint"),
    "posterior": st.AttentionClassifier(query="posterior"),
    "deviations": st.AttentionClassifier(target="deviations"),
    "sizes": st.AttentionClassifier(target="sizes"),
    "mapped": st.AttentionClassifier(token_map="auto"),
}
PLACED = {"vectorized"}  # places of tokens mean something there


def coloured(seed, count=90, length=6, dim=7):
    """Bags of correlated coordinates, one of them rarely other than 0; as new ones; labels."""
    rng = np.random.default_rng(seed)
    task = st.Task(length, 1, 4.0, prevalence=0.4)
    train = task.sample(count, dim, rng)
    test = task.sample(40, dim, rng, signal=train.signal)
    mixing = np.eye(dim) + 0.3 * rng.standard_normal((dim, dim))
    bags = [sample.tokens @ mixing + rng.standard_normal(dim) for sample in (train, test)]
    for tokens in bags:
        tokens[:, :, 0] *= rng.random(tokens.shape[:2]) < 0.1
    return *bags, train.labels


def scaling(rng, dim):
    """Any invertible diagonal one, over a dozen decades, of both signs."""
    return np.exp(5 * rng.standard_normal(dim)) * rng.choice([-1, 1], dim)


SHAPES = {"narrow": {}, "wide": {"count": 40, "length": 3, "dim": 130}}  # wide: 120 tokens


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_order_units_and_signs_say_nothing(kind, shape, seed, request):
    if (kind, shape) == ("joint", "wide"):
        reason = (
            "not reached: joint training ends up to 5e-6 apart where coordinates outnumber tokens"
        )
        request.applymarker(pytest.mark.xfail(reason=reason, strict=False))
    bags, new, labels = coloured(seed, **SHAPES[shape])
    rng = np.random.default_rng(100 + seed)
    expected = KINDS[kind].fit(bags, labels).predict_proba(new)
    rows, columns = rng.permutation(len(bags)), rng.permutation(bags.shape[2])
    factors = scaling(rng, bags.shape[2])

    def changed(tokens):
        if kind not in PLACED:
            tokens = np.stack([bag[rng.permutation(len(bag))] for bag in tokens])
        return (tokens * factors)[:, :, columns]

    again = KINDS[kind].fit(changed(bags[rows]), labels[rows])
    np.testing.assert_allclose(again.predict_proba(changed(new)), expected, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-160, 1e150])
@pytest.mark.parametrize("kind", KINDS)
def test_units_of_any_size(kind, unit):
    bags, new, labels = coloured(5)
    expected = KINDS[kind].fit(bags, labels).predict_proba(new)
    again = KINDS[kind].fit(unit * bags, labels).predict_proba(unit * new)
    np.testing.assert_allclose(again, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["pooled", "all", "cross"])
def test_a_file_in_order_is_as_good_as_a_shuffled_one(kind):
    """Recordings one after the other, each with a level of its own."""
    bags, new, labels = coloured(6, count=120)
    bags = bags + 0.5 * np.sort(np.random.default_rng(0).standard_normal(120))[:, None, None]
    order = np.lexsort((bags.mean(axis=(1, 2)), labels))
    one = KINDS[kind].fit(bags, labels).predict_proba(new)
    other = KINDS[kind].fit(bags[order], labels[order]).predict_proba(new)
    np.testing.assert_allclose(other, one, atol=1e-6)


def training_data(seed=0, count=60, groups=None, weights=None):
    bags, _, labels = coloured(seed, count)
    weights = np.ones(count) if weights is None else weights
    return TrainingData.of(Bags.of(bags), labels, weights, groups)


def test_folds_hold_out_every_bag_once_in_every_class():
    data = training_data()
    folds = np.array(list(data.folds(5)))
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    share = np.mean(data.labels > 0)
    assert all(abs(np.mean(data.labels[held] > 0) - share) < 0.1 for held in folds)
    again = np.array(list(training_data().folds(5)))
    np.testing.assert_array_equal(again, folds)


def test_folds_are_shuffled():
    """Not one stretch of bags after the other, in whatever order."""
    data = training_data(count=200)
    for held in data.folds(5):
        assert len(np.unique(np.flatnonzero(held[data.order]) // 40)) == 5


def test_bags_without_a_weight_are_in_no_fold():
    weights = np.ones(60)
    weights[::3] = 0
    folds = np.array(list(training_data(weights=weights).folds(4)))
    np.testing.assert_array_equal(folds.sum(axis=0), weights)


@pytest.mark.parametrize("kind", [int, str])
def test_groups_are_never_split(kind):
    rng = np.random.default_rng(0)
    groups = rng.integers(12, size=60)
    names = np.array([f"patient {number % 7} {number}" for number in groups])
    data = training_data(groups=groups if kind is int else names)
    for held in [*data.folds(4), data.half()]:
        assert not set(groups[held]) & set(groups[~held])
        assert len(set(data.labels[held])) == len(set(data.labels[~held])) == 2


def test_names_of_groups_say_nothing():
    groups = np.random.default_rng(0).integers(12, size=60)
    folds, others = (
        np.array(list(training_data(groups=names).folds(4)))
        for names in (groups, (7 * groups) % 13)
    )
    np.testing.assert_array_equal(folds, others)


def test_grouped_folds_are_honest():
    """Bags of a patient share a level that says nothing of new patients, and patients a label."""
    rng = np.random.default_rng(0)
    patients = np.repeat(np.arange(20), 10)
    labels = patients % 2
    bags = rng.standard_normal((200, 3, 30)) + 3 * rng.standard_normal((20, 1, 30))[patients]
    plain = st.PooledClassifier(whiten=False).fit(bags, labels)
    grouped = st.PooledClassifier(whiten=False).fit(bags, labels, groups=patients)
    assert min(plain.cv_losses_.values()) < 0.1
    assert min(grouped.cv_losses_.values()) > 0.6


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([1, 2], "groups must have one name for each of the 60 bags, got 2"),
        (np.zeros((60, 2)), "one name for each of the 60 bags, got shape"),
        (np.array([1, "a"] * 30, dtype=object), "groups must be names of one kind"),
    ],
)
def test_wrong_groups(groups, words):
    bags, _, labels = coloured(0, 60)
    with pytest.raises(InvalidInput, match=words):
        st.PooledClassifier().fit(bags, labels, groups=groups)


def test_a_class_in_one_group_is_warned_of():
    bags, _, labels = coloured(0, 60)
    with pytest.warns(UserWarning, match="bags in a single one of the groups"):
        st.PooledClassifier().fit(bags, labels, groups=np.where(labels > 0, 0, np.arange(60)))
    with pytest.raises(InvalidInput, match="needs at least 4 bags of each class"):
        st.AttentionClassifier(reuse="split").fit(bags, labels, groups=np.arange(60) % 3)


def test_units_are_those_of_central_moments():
    rng = np.random.default_rng(0)
    tokens = rng.gamma(2.0, size=(30, 4, 3)) + np.array([0.0, 1e6, -3.0])
    weights = rng.integers(0, 3, 30)
    units = Units.of(Bags.of(tokens), weights)
    flat = np.repeat(tokens, weights, axis=0).reshape(-1, 3)
    centred = flat - flat.mean(axis=0)
    second, fourth = (centred**2).mean(axis=0), (centred**4).mean(axis=0)
    np.testing.assert_allclose(units.mean, flat.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(units.deviation, np.sqrt(second), rtol=1e-9)
    np.testing.assert_allclose(units.size, np.sqrt(fourth / second), rtol=1e-8)


@pytest.mark.parametrize("target", ["deviations", "sizes"])
def test_noise_is_white_after_whitening(target):
    bags = Bags.of(coloured(1, count=400)[0])
    moments = Moments.of(bags, np.ones(400))
    whitening = replace(moments, shrinkage=dict.fromkeys(TARGETS, 0.0)).whitening(target)
    _, covariance = Bags(whitening(bags.tokens), bags.offsets).covariance()
    np.testing.assert_allclose(covariance, np.eye(7), atol=1e-10)
    wholly = moments.whitening(target, least=1.0)
    off = wholly.root - np.diag(np.diag(wholly.root))
    assert np.abs(off).max() < 1e-12 and np.all(np.diag(wholly.root) > 0)


def test_shrinkage_is_that_of_ledoit_and_wolf():
    from sklearn.covariance import ledoit_wolf_shrinkage

    tokens = coloured(2, count=10)[0]
    moments = Moments.of(Bags.of(tokens), np.ones(10))
    flat = tokens.reshape(-1, 7) - tokens.reshape(-1, 7).mean(axis=0)
    for target, unit in (("deviations", moments.units.deviation), ("sizes", moments.units.size)):
        expected = ledoit_wolf_shrinkage(flat / unit, assume_centered=True)
        assert moments.shrinkage[target] == pytest.approx(expected, rel=1e-9)

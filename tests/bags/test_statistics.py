"""Statistics of bags: right numbers, any unit, any order; where they win; what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags import stacks, statistics
from sparsetoken.bags.bags import Bags
from sparsetoken.support.errors import InvalidInput


@pytest.fixture(scope="module")
def ragged():
    """Bags of which the second class is wider in one coordinate, with means as the first has."""
    rng = np.random.default_rng(0)
    labels = np.arange(240) % 2
    bags = []
    for label in labels:
        bag = rng.standard_normal((rng.integers(3, 12), 5))
        bag[:, 0] *= 1 + 1.5 * label
        bags.append(bag)
    return bags, labels


@pytest.mark.parametrize("piece", [1 << 20, 16])  # the latter in many stacks and pieces
def test_statistics_are_those_of_numpy(ragged, monkeypatch, piece):
    monkeypatch.setattr(stacks, "_PIECE", piece)
    monkeypatch.setattr(stacks, "_PART", 10 * piece)
    bags, _ = ragged
    expected = [
        np.concatenate([bag.mean(axis=0), bag.std(axis=0), bag.min(axis=0), bag.max(axis=0)])
        for bag in bags
    ]
    np.testing.assert_allclose(statistics.statistics(Bags.of(bags), None), expected, rtol=1e-12)
    root = np.random.default_rng(0).standard_normal((bags[0].shape[1],) * 2)
    whitened = statistics.statistics(Bags.of([bag @ root for bag in bags]), None)
    found = statistics.statistics(Bags.of(bags), root)
    np.testing.assert_allclose(found, whitened, rtol=1e-9, atol=1e-12)


def test_features_have_the_inner_products_of_the_kernel():
    """For landmarks exactly, and nearly for all others when there are many landmarks."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 3))
    landmarks, factor = statistics._chosen(points, 0.3)
    pooling = statistics.Statistics(
        sharpnesses=(), whiten=False, rate=0.3, landmarks=landmarks, factor=factor
    )
    features = pooling._features(points)
    squares = ((points[:, None] - points) ** 2).sum(axis=-1)
    assert features.shape[1] <= 60
    np.testing.assert_allclose(features @ features.T, np.exp(-0.3 * squares), atol=2e-6)


def test_the_spread_is_found_where_attention_finds_none(ragged):
    bags, labels = ragged
    scores = {
        kind: kind().fit(bags[:160], labels[:160]).score(bags[160:], labels[160:])
        for kind in (st.StatisticsClassifier, st.AttentionClassifier)
    }
    assert scores[st.StatisticsClassifier] > 0.8
    assert scores[st.StatisticsClassifier] > scores[st.AttentionClassifier] + 0.1


def test_the_kernel_is_chosen_where_classes_are_not_on_two_sides():
    """Mean tokens of the second class lie around those of the first."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 2
    angle = rng.uniform(0, 2 * np.pi, 300)
    centre = 3.0 * labels[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    tokens = centre[:, None] + rng.standard_normal((300, 3, 2))
    kernel = st.StatisticsClassifier().fit(tokens[:200], labels[:200])
    linear = st.StatisticsClassifier(inverse_width=0.0).fit(tokens[:200], labels[:200])
    assert kernel.inverse_width_ > 0 and linear.inverse_width_ == 0
    assert kernel.score(tokens[200:], labels[200:]) > 0.9
    assert linear.score(tokens[200:], labels[200:]) < 0.7


@pytest.mark.parametrize("inverse_width", [0.0, 1.0])
def test_order_and_units_do_not_matter(ragged, inverse_width, monkeypatch):
    """Fixed numbers: folds are not these classifiers' own."""
    bags, labels = ragged
    rng = np.random.default_rng(1)
    monkeypatch.setattr(statistics, "_MOST_LANDMARKS", 50)  # of 240
    settings = {"inverse_width": inverse_width, "ridge": 0.01, "calibrate": False}
    expected = st.StatisticsClassifier(**settings).fit(bags, labels).decision_function(bags)
    order, columns = rng.permutation(len(bags)), rng.permutation(5)
    units = 10.0 ** np.array([-160, 150, 0, 3, -7])
    changed = [rng.permutation(bag)[:, columns] * units for bag in bags]
    fitted = st.StatisticsClassifier(**settings)
    fitted.fit([changed[k] for k in order], labels[order])
    np.testing.assert_allclose(fitted.decision_function(changed), expected, atol=1e-6)


def test_constant_columns_change_nothing(ragged):
    bags, labels = ragged
    more = [np.column_stack([bag, np.full(len(bag), 0.1), np.zeros(len(bag))]) for bag in bags]
    scores = [
        st.StatisticsClassifier(inverse_width=1.0, ridge=0.01).fit(x, labels).decision_function(x)
        for x in (bags, more)
    ]
    np.testing.assert_allclose(*scores, atol=1e-8)


def test_a_bag_twice_is_one_landmark(ragged):
    bags, labels = ragged
    twice = st.StatisticsClassifier(inverse_width=1.0).fit(bags[:40] * 2, np.tile(labels[:40], 2))
    assert twice.coef_.shape == (1, 40)
    assert np.isfinite(twice.decision_function(bags)).all()


def test_several_labels_and_saved(ragged, tmp_path):
    bags, labels = ragged
    names = np.where(np.arange(240) % 3 == 0, "third", np.where(labels, "wide", "narrow"))
    bags = [bag + (name == "third") for bag, name in zip(bags, names, strict=True)]
    fitted = st.StatisticsClassifier().fit(bags[:160], names[:160])
    assert fitted.score(bags[160:], names[160:]) > 0.7
    st.save_classifier(fitted, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(bags), fitted.predict_proba(bags))
    np.testing.assert_array_equal(again.inverse_width_, fitted.inverse_width_)


def test_contributions_of_tokens_are_refused_in_a_sentence(ragged):
    bags, labels = ragged
    fitted = st.StatisticsClassifier(inverse_width=0.0).fit(bags, labels)
    for method in (fitted.contributions, fitted.token_values):
        with pytest.raises(InvalidInput, match="not defined for statistics: the spread, the least"):
            method(bags)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"0.centre": np.zeros(3)}, "which do not fit dimension 5"),
        ({"0.landmarks": np.array(1.0)}, "which do not fit dimension 5"),
        ({"0.rate": np.array(-1.0)}, "not those of a kernel"),
        ({"0.rate": np.array(0.0)}, "not those of a kernel"),
        ({"0.factor": None}, "not those of a kernel"),
        ({"0.scale": np.full(20, np.nan)}, "not finite"),
    ],
)
def test_forged_files_are_refused(ragged, tmp_path, change, words):
    bags, labels = ragged
    path = tmp_path / "model"
    st.save_classifier(st.StatisticsClassifier(inverse_width=1.0).fit(bags, labels), path)
    with np.load(path) as content:
        arrays = dict(content)
    assert json.loads(str(arrays["about"]))["kind"] == "statistics"
    change = {k: np.zeros_like(arrays[k]) if v is None else v for k, v in change.items()}
    with path.open("wb") as stream:
        np.savez(stream, **(arrays | change))
    with pytest.raises(InvalidInput, match=words):
        st.load_classifier(path)


def test_tokens_that_are_all_the_same():
    labels = np.repeat(["blend", "plain"], [53, 47])
    classifier = st.StatisticsClassifier().fit([np.ones((5, 4))] * 100, labels)
    assert set(classifier.predict([np.ones((5, 4))] * 3)) == {"blend"}

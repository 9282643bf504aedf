"""Fewer tokens than coordinates: the same numbers as from (d, d) matrices, without any."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags import whitening
from sparsetoken.bags.bags import Bags
from sparsetoken.bags.whitening import TARGETS, Moments, Square
from sparsetoken.fitting.low_rank import LowRank
from sparsetoken.support.errors import InvalidInput

KINDS = {
    "pooled": st.PooledClassifier(),
    "plain": st.PooledClassifier(whiten=False),
    "vectorized": st.VectorizedClassifier(),
    "all": st.AttentionClassifier(),
    "cross": st.AttentionClassifier(reuse="cross"),
    "split": st.AttentionClassifier(reuse="split"),
    "sizes": st.AttentionClassifier(target="sizes"),
    "joint": st.AttentionClassifier(query="joint"),
    "posterior": st.AttentionClassifier(query="posterior"),
    # wholly shrunk, square matrices have rounding where they should be 0, and statistics blow it up
    "statistics": st.StatisticsClassifier(whiten=True, shrinkage=0.0),
    "mapped": st.AttentionClassifier(token_map="auto"),
}


def wide(count=40, length=4, dim=170, seed=0):
    """Bags of fewer tokens than correlated coordinates, some of them special; as new ones;
    labels."""
    rng = np.random.default_rng(seed)
    task = st.Task(length, 1, 6.0, prevalence=0.4)
    train = task.sample(count, dim, rng)
    test = task.sample(30, dim, rng, signal=train.signal)
    mixing = np.eye(dim) + 0.1 * rng.standard_normal((dim, dim))
    parts = []
    for sample in (train, test):
        tokens = sample.tokens @ mixing + 3.0
        tokens[:, :, 0] *= rng.random(tokens.shape[:2]) < 0.1  # rarely other than 0
        tokens[:, :, 1] = 0.1  # never varies
        positive = (sample.labels > 0)[:, None]
        tokens[:, :, 2] = 0.1 + positive * rng.random(tokens.shape[:2])  # noise does not
        parts.append(tokens)
    return *parts, train.labels


@pytest.fixture
def square(monkeypatch):
    """Has all covariances as (d, d) matrices, when called."""

    class Formed:
        @staticmethod
        def of(tokens):
            return Square(tokens.T @ tokens)

    return lambda: monkeypatch.setattr(whitening, "Wide", Formed)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_square_matrices(kind, square):
    bags, new, labels = wide()
    quick = KINDS[kind].fit(bags, labels).predict_proba(new)
    square()
    formed = KINDS[kind].fit(bags, labels)
    np.testing.assert_allclose(quick, formed.predict_proba(new), atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("least", [0.0, 0.3, 1.0])
def test_roots_are_those_of_square_matrices(target, least, square):
    bags, _, labels = wide()
    bags, weights = Bags.of(bags), np.where(labels < 0, 1.0, 0.0)
    moments = Moments.of(bags, weights, np.ones(len(labels)))
    root = moments.whitening(target, least).root
    square()
    formed = Moments.of(bags, weights, np.ones(len(labels)))
    assert isinstance(root, LowRank)
    assert moments.shrinkage[target] == pytest.approx(formed.shrinkage[target], rel=1e-12)
    expected = formed.whitening(target, least).root
    np.testing.assert_allclose(root @ np.eye(bags.dim), expected, atol=1e-12)


def test_shrinkage_is_that_of_ledoit_and_wolf():
    from sklearn.covariance import ledoit_wolf_shrinkage

    tokens = np.random.default_rng(0).gamma(2.0, size=(10, 3, 50))
    moments = Moments.of(Bags.of(tokens), np.ones(10))
    flat = tokens.reshape(-1, 50) - tokens.reshape(-1, 50).mean(axis=0)
    for target, unit in (("deviations", moments.units.deviation), ("sizes", moments.units.size)):
        expected = ledoit_wolf_shrinkage(flat / unit, assume_centered=True)
        assert moments.shrinkage[target] == pytest.approx(expected, rel=1e-9)


def test_as_few_tokens_as_there_can_be():
    """One without a signal: no noise to speak of."""
    tokens, labels = np.random.default_rng(0).standard_normal((3, 1, 20)), [0, 1, 1]
    with pytest.warns(UserWarning, match="nothing can be held out"):
        classifier = st.AttentionClassifier().fit(tokens, labels)
    assert np.isfinite(classifier.predict_proba(tokens)).all()


@pytest.mark.parametrize("kind", ["pooled", "joint"])
def test_no_square_matrix_is_made(kind):
    dim = 4000
    sample = st.Task(4, 1, 9.0).sample(20, dim, rng=0)
    tracemalloc.start()
    try:
        KINDS[kind].fit(sample.tokens, sample.labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * dim**2 / 2


@pytest.mark.parametrize("kind", ["pooled", "plain", "vectorized", "joint", "statistics"])
def test_a_file_keeps_it(tmp_path, kind):
    bags, new, labels = wide(dim=1000)
    classifier = KINDS[kind].fit(bags, labels)
    st.save_classifier(classifier, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(new), classifier.decision_function(new))
    assert (tmp_path / "model").stat().st_size < 8 * 1000**2 / 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"0.root_left": np.ones((170, 3))}, "root_right has shape"),
        ({"0.root_left": np.ones(5)}, "root_left has shape"),
        ({"0.root_diagonal": np.ones(3)}, "root_diagonal has shape"),
        ({"0.root_right": np.full((170, 1), np.nan)}, "not finite"),
        ({"low_rank": False}, "root is missing"),
        ({"low_rank": 3}, "low_rank"),
    ],
)
def test_wrong_files(tmp_path, change, words):
    bags, _, labels = wide()
    st.save_classifier(st.PooledClassifier().fit(bags, labels), tmp_path / "model")
    with np.load(tmp_path / "model") as content:
        arrays = dict(content)
    if "low_rank" in change:
        about = json.loads(str(arrays["about"]))
        about["models"][0] |= change
        change = {"about": np.array(json.dumps(about))}
    with (tmp_path / "forged").open("wb") as stream:
        np.savez(stream, **(arrays | change))
    with pytest.raises(InvalidInput, match=words):
        st.load_classifier(tmp_path / "forged")

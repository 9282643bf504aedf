"""Bags that share tokens, against the same tokens side by side."""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags import repeats, stacks
from sparsetoken.bags.bags import Bags
from sparsetoken.bags.queries import Job, refined, two_step_queries
from sparsetoken.bags.repeats import RepeatedBags, repeated
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Moments


def drawn(seed=0, count=40, kinds=30, dim=5, dtype=float):
    """Bags of 1 to 9 tokens drawn from a few, kept once and side by side; labels."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((kinds, dim)).astype(dtype)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 10, count))])
    index = rng.integers(kinds, size=offsets[-1])
    labels = np.where(np.arange(count) % 2, 1.0, -1.0)
    return RepeatedBags(rows, offsets, index), Bags(rows[index], offsets), labels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("part", [1 << 22, 64])
def test_sums_are_those_of_the_tokens_side_by_side(monkeypatch, dtype, part):
    monkeypatch.setattr(stacks, "_PART", part)
    few, all_of_them, _ = drawn(dtype=dtype)
    rng = np.random.default_rng(1)
    weights, direction = rng.random((3, len(all_of_them.tokens))), rng.standard_normal(5)
    np.testing.assert_array_equal(few.tokens, all_of_them.tokens)
    for one, other in (
        (few.pool(weights), all_of_them.pool(weights)),
        (few.pool(weights[0]), all_of_them.pool(weights[0])),
        (few.mean(), all_of_them.mean()),
        (few.project(direction), all_of_them.project(direction)),
        (few[3:7].tokens, all_of_them[3:7].tokens),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_queries_and_moments_are_those_of_the_tokens_side_by_side():
    few, all_of_them, labels = drawn()
    data = TrainingData.of(all_of_them, labels, np.random.default_rng(2).random(40))
    noise = [Moments.of(bags, data.weights_of(-1)) for bags in (few, all_of_them)]
    one, other = (moments.covariances["sizes"].matrix for moments in noise)
    np.testing.assert_allclose(one, other, atol=1e-12)
    counts = [bags.count(data.weights_of(-1)) for bags in (few, all_of_them)]
    assert counts[0] < counts[1] == all_of_them.lengths[labels < 0].sum()
    whitening = noise[1].whitening()
    queries = []
    for bags in (few, all_of_them):
        (query,) = two_step_queries([Job(data.seen_as(bags), whitening)])
        queries.append((query, refined(data.seen_as(bags), query, whitening)[0]))
    np.testing.assert_allclose(queries[0], queries[1], atol=1e-9)


def test_noise_of_a_covariance_is_that_of_its_different_tokens():
    """Drawing the same tokens more often does not tell more of them."""
    rng = np.random.default_rng(0)
    rows, once = rng.standard_normal((60, 20)), np.arange(60)
    parts = []
    for times in (1, 10):
        index = np.tile(once, times)
        bags = RepeatedBags(rows, np.arange(len(index) + 1), index)
        parts.append(Moments.of(bags, np.ones(len(bags))).shrinkage["deviations"])
    assert parts[0] == pytest.approx(parts[1]) and parts[0] > 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeated_tokens_are_found(dtype):
    _, bags, _ = drawn(dtype=dtype)
    first, index = repeated(bags)
    assert len(first) == len(np.unique(bags.tokens, axis=0))
    np.testing.assert_array_equal(bags.tokens[first[index]], bags.tokens)
    signed = Bags(np.array([[0.0], [-0.0], [-0.0], [0.0]]), np.arange(5))
    assert len(repeated(signed)[0]) == 1


def test_tokens_that_hardly_repeat_are_left_as_they_are():
    rng = np.random.default_rng(0)
    assert repeated(Bags(rng.standard_normal((50, 3)), np.arange(51))) is None
    assert repeated(Bags(rng.standard_normal((26, 3))[np.arange(50) % 26], np.arange(51))) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_of_round_numbers_differ(dtype):
    """Sixteenths have their bits in few places of a number."""
    tokens = np.random.default_rng(0).integers(17, size=(5000, 64)).astype(dtype) / 16
    assert len(np.unique(repeats._codes(tokens))) == len(np.unique(tokens, axis=0))


def test_tokens_with_one_code_are_told_apart(monkeypatch):
    _, bags, _ = drawn()
    expected = len(repeated(bags)[0])
    monkeypatch.setattr(repeats, "_codes", lambda tokens: np.zeros(len(tokens), dtype=np.uint64))
    first, index = repeated(bags)
    assert len(first) == expected
    np.testing.assert_array_equal(bags.tokens[first[index]], bags.tokens)


def pictures(count, seed, kinds=60):
    """Bags of six tokens drawn from few; positive ones hold one that lies far out."""
    pool = np.random.default_rng(9).standard_normal((kinds, 4))
    pool *= 2 / np.linalg.norm(pool, axis=1, keepdims=True)
    pool[kinds // 2 :] *= 2.5
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(count) % 2, 1, -1)
    index = rng.integers(kinds // 2, size=(count, 6))
    index[labels > 0, 0] += kinds // 2
    return pool[index], labels


@pytest.mark.parametrize("query", ["two-step", "joint"])
def test_scores_of_repeated_tokens_are_scaled_alone(query):
    """Held-out bags show known tokens: they do not say where the threshold is of new ones."""
    (tokens, labels), (new, truth) = pictures(80, 0), pictures(100, 1)
    settings = {"token_map": NystroemMap(), "query": query}
    plain = st.AttentionClassifier(**settings, calibrate=False).fit(tokens, labels)
    scaled = st.AttentionClassifier(**settings).fit(tokens, labels)
    assert scaled.sharpness_ == pytest.approx(4.0) or scaled.joint_
    if query == "two-step":
        ratio = scaled.decision_function(new) / plain.decision_function(new)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
        assert ratio[0] > 0 and abs(ratio[0] - 1) > 1e-3
    assert scaled.score(new, truth) > 0.95


def test_order_units_and_signs_of_repeated_tokens_say_nothing():
    (tokens, labels), (new, _) = pictures(80, 0), pictures(40, 1)
    rng = np.random.default_rng(0)
    factors = np.exp(3 * rng.standard_normal(4)) * rng.choice([-1, 1], 4)
    order, columns, places = rng.permutation(80), rng.permutation(4), rng.permutation(6)
    classifier = st.AttentionClassifier(token_map="auto")
    one = classifier.fit(tokens, labels).predict_proba(new)
    assert classifier.token_map_ is not None
    changed = (tokens * factors)[order][:, places][:, :, columns]
    other = classifier.fit(changed, labels[order]).predict_proba((new * factors)[:, :, columns])
    np.testing.assert_allclose(other, one, atol=1e-6)

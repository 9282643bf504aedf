"""Weightings: what every one of them must do, and what each does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput

ALL = [st.Softmax(), st.HardMax(), st.TopK(1), st.TopK(3), st.TopK(50), st.Sparsemax()]
every = pytest.mark.parametrize("weighting", ALL, ids=repr)
SCORES = arrays(
    np.float64,
    some.tuples(some.integers(1, 5), some.integers(1, 9)),
    elements=some.floats(-1e6, 1e6, allow_nan=False),
)


@every
@settings(max_examples=60, deadline=None)
@given(scores=SCORES)
def test_the_contract(weighting, scores):
    weights = weighting.weights(scores)
    assert weights.shape == scores.shape and np.all(weights >= 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    order = np.random.default_rng(0).permutation(scores.shape[1])
    np.testing.assert_allclose(weighting.weights(scores[:, order]), weights[:, order], atol=1e-12)
    larger = scores[:, :, None] > scores[:, None, :]  # a larger score has no smaller weight
    assert np.all((weights[:, :, None] >= weights[:, None, :] - 1e-12) | ~larger)


@every
def test_equal_scores_get_equal_weights(weighting):
    np.testing.assert_allclose(weighting.weights(np.zeros((2, 7))), 1 / 7)


@every
def test_a_common_shift_makes_no_difference(weighting):
    scores = np.random.default_rng(1).normal(size=(40, 6))
    np.testing.assert_allclose(weighting.weights(scores + 3.7), weighting.weights(scores))


def test_top_k_is_softmax_on_the_largest():
    scores = np.random.default_rng(2).normal(size=(50, 8))
    for k, other in ((8, st.Softmax()), (1, st.HardMax())):
        np.testing.assert_allclose(st.TopK(k).weights(scores), other.weights(scores), rtol=1e-12)
    weights = st.TopK(3).weights(scores)
    assert np.all((weights > 0).sum(axis=1) == 3)
    top = np.sort(scores, axis=1)[:, -3:]
    np.testing.assert_allclose(np.sort(weights, axis=1)[:, -3:], st.Softmax().weights(top))


def test_sparsemax_is_the_nearest_point_of_the_simplex():
    for seed in range(5):
        scores = np.random.default_rng(seed).normal(size=5) * 1.3
        found = minimize(
            lambda a, z=scores: np.sum((a - z) ** 2), np.full(5, 0.2), method="SLSQP",
            bounds=[(0, 1)] * 5, constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            options={"ftol": 1e-14},
        ).x  # fmt: skip
        np.testing.assert_allclose(st.Sparsemax().weights(scores), found, atol=1e-5)


def test_wrong_values_are_named():
    with pytest.raises(InvalidInput, match="TopK: k must be a whole number of at least 1, got 0"):
        st.TopK(0)
    for wrong in (st.Softmax, "softmax", None):
        with pytest.raises(InvalidInput, match="Attention: weighting must be a weighting such as"):
            st.Attention(weighting=wrong)
    with pytest.raises(InvalidInput, match="training must be 'stages' for a weighting other than"):
        st.simulate(
            st.Task(3, 1, 2.0), st.Attention(weighting=st.HardMax()), st.Protocol(), 10,
            sampler="tokens", reuse_data=True, training="joint",
        )  # fmt: skip


def test_a_weighting_that_breaks_its_word():
    class Double:
        def weights(self, scores):
            return 2 * st.Softmax().weights(scores)

    class Unhashable(st.Softmax):
        __hash__ = None

    with pytest.raises(InvalidInput, match="not negative and have sum 1"):
        st.Attention(weighting=Double())
    with pytest.raises(InvalidInput, match="weighting must be hashable"):
        st.Attention(weighting=Unhashable())

    class Nameless:
        weights = staticmethod(st.Softmax().weights)

    with pytest.raises(InvalidInput, match="must have a repr that tells its values"):
        st.Cell(st.Task(3, 1, 2.0), st.Attention(weighting=Nameless()), st.Protocol()).units()


def test_a_weighting_of_ones_own():
    """One small class is enough for law, solver, capacity and both simulations."""
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Cubed:
        def weights(self, scores):
            raw = np.maximum(scores - scores.mean(axis=-1, keepdims=True), 0.0) ** 3 + 1e-9
            return raw / raw.sum(axis=-1, keepdims=True)

    task, attention = st.Task(6, 1, 4.0), st.Attention(0.9, 2.0, weighting=Cubed())
    protocol = st.Protocol(readout_samples=3.0, loss=st.Square(), ridge=0.05)
    prediction = st.predict(task, attention, protocol)
    assert st.capacity(task, attention) > 2
    for sampler in ("reduced", "tokens"):
        run = st.simulate(task, attention, protocol, 120, 6, 0, sampler)
        assert abs(run.mean("test_error") - prediction.test_error) < (
            4 * run.sem("test_error") + 3 / 120
        )

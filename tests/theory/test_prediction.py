"""predict, learning_curve and what a prediction can be asked."""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput

TASK = st.Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)
PROTOCOL = st.Protocol(query_samples=2.0, readout_samples=4.0, loss=st.Logistic(), ridge=1e-5)


def test_the_public_contract():
    p = st.predict(TASK, st.Attention(), PROTOCOL)
    assert p.query == st.align(TASK, PROTOCOL)
    for name in ("test_error", "train_error", "train_loss", "auc", "bias", "residual"):
        assert isinstance(getattr(p, name), float), name
    assert isinstance(p.iterations, int) and p.converged is True
    false, true = p.roc()
    assert false.shape == true.shape == (201,)
    assert "Logistic()" in p.objective and "1e-05" in p.objective


def test_attention_beats_linear_classifiers_on_the_papers_task():
    errors = {
        name: st.predict(TASK, classifier, PROTOCOL).test_error
        for name, classifier in dict(a=st.Attention(), v=st.Vectorized(), p=st.Pooled()).items()
    }
    assert errors["a"] < errors["p"] / 3 and errors["p"] < errors["v"]


def test_a_frozen_query_at_the_learned_place_gives_the_learned_prediction():
    query = st.align(TASK, PROTOCOL)
    learned = st.predict(TASK, st.Attention(), PROTOCOL)
    frozen = st.predict(TASK, st.Attention(query.cosine, query.sharpness), PROTOCOL)
    assert frozen.test_error == pytest.approx(learned.test_error, abs=1e-12)
    assert frozen.query is None


@pytest.mark.parametrize("classifier", [st.Pooled(), st.Vectorized(), st.Attention()], ids=repr)
def test_learning_curve_equals_predictions_one_by_one(classifier):
    samples = [0.5, 4.0, 40.0, np.inf]
    curve = st.learning_curve(TASK, classifier, PROTOCOL, samples)
    assert len(curve) == 4 and [p.protocol.readout_samples for p in curve] == samples
    for prediction, sample in zip(curve, samples, strict=True):
        alone = st.predict(TASK, classifier, PROTOCOL.with_readout_samples(sample))
        assert prediction.test_error == pytest.approx(alone.test_error, abs=1e-10)
    frame = curve.to_frame()
    np.testing.assert_array_equal(frame["test_error"], curve.test_error)
    np.testing.assert_array_equal(frame["readout_samples"], samples)
    assert np.all(np.diff(curve.train_loss) > 0)  # harder to fit with more samples


def test_an_empty_curve_and_a_wrong_one():
    assert len(st.learning_curve(TASK, st.Pooled(), PROTOCOL, [])) == 0
    with pytest.raises(InvalidInput, match="readout_samples must be a number at least 1e-06"):
        st.learning_curve(TASK, st.Pooled(), PROTOCOL, [1.0, -1.0])


def test_vectorized_counts_samples_per_embedding_dimension():
    fit = st.predict(TASK, st.Vectorized(), PROTOCOL).fit
    assert fit.samples_per_dim == pytest.approx(0.4)


def test_on_the_same_task_nothing_changes():
    for classifier in (st.Pooled(), st.Vectorized(), st.Attention()):
        p = st.predict(TASK, classifier, PROTOCOL)
        assert p.on(TASK).test_error == pytest.approx(p.test_error, abs=1e-12)
        rarer = st.Task(10, 1, 5.0, prevalence=0.1)
        scores = p.on(rarer)
        assert scores.false_negative_rate == pytest.approx(p.scores.false_negative_rate, abs=1e-12)
        assert scores.prevalence == pytest.approx(0.1)


def test_on_other_lengths_and_places():
    attention = st.predict(TASK, st.Attention(), PROTOCOL)
    errors = [attention.on(st.Task(length, 1, 5.0)).test_error for length in (5, 10, 40, 160)]
    assert errors[1] < errors[2] < errors[3]
    vectorized = st.predict(TASK, st.Vectorized(), PROTOCOL)
    with pytest.raises(InvalidInput, match="must keep the length 10"):
        vectorized.on(st.Task(11, 1, 5.0))
    placed = st.Task(10, 1, 5.0, places=range(1, 11))
    assert vectorized.on(placed).test_error == pytest.approx(vectorized.test_error, abs=1e-12)
    trained = st.predict(placed, st.Vectorized(), PROTOCOL)
    assert trained.test_error < vectorized.test_error
    assert trained.on(TASK).test_error > trained.test_error
    assert trained.on(placed).test_error == pytest.approx(trained.test_error, abs=1e-12)


def test_wrong_kinds_get_a_sentence():
    wrong = [
        (TASK, st.Pooled, PROTOCOL, "classifier must be a classifier such as"),
        (TASK, "pooled", PROTOCOL, "classifier must be"),
        (PROTOCOL, st.Pooled(), TASK, "task must be a Task"),
        (TASK, st.Pooled(), None, "protocol must be a Protocol"),
    ]
    for task, classifier, protocol, message in wrong:
        with pytest.raises(InvalidInput, match=message):
            st.predict(task, classifier, protocol)
    with pytest.raises(InvalidInput, match="readout_samples must be a sequence"):
        st.learning_curve(TASK, st.Pooled(), PROTOCOL, 4.0)
    with pytest.raises(InvalidInput, match="must be given a Task"):
        st.predict(TASK, st.Pooled(), PROTOCOL).on(None)
    with pytest.raises(InvalidInput, match="length of at most 20000"):
        st.Attention(0.5, 1.0).law(st.Task(30_000, 1, 1.0))
    with pytest.raises(InvalidInput, match="Query: cosine must be"):
        st.Attention().law(TASK, st.Query(2.0, 1.0, 1.0))


def test_a_slice_of_a_curve_is_a_curve():
    curve = st.learning_curve(TASK, st.Pooled(), PROTOCOL, [1.0, 2.0, 4.0])
    assert isinstance(curve[1:], st.LearningCurve) and len(curve[1:]) == 2


def test_the_ridgeless_error_approaches_its_limit_as_one_over_samples():
    """Corollary 2, square loss."""
    protocol = st.Protocol(loss=st.Square(), ridge=0.0)
    for classifier in (st.Pooled(), st.Vectorized(), st.Attention(0.9, 1.0)):
        curve = st.learning_curve(TASK, classifier, protocol, [1e3, 1e4, 1e5, np.inf])
        excess = curve.test_error[:-1] - curve.test_error[-1]
        slopes = np.diff(np.log(excess)) / np.log(10)
        np.testing.assert_allclose(slopes, -1, atol=0.05)


def test_wrong_protocols_are_named():
    for field, value in [
        ("query_samples", 0.0),
        ("readout_samples", -1.0),
        ("ridge", -1e-9),
        ("inverse_temperature", 0.0),
        ("readout_step", 0.0),
        ("bias_step", -1.0),
        ("query_step", float("nan")),
        ("loss", "logistic"),
        ("loss", st.Logistic),
        ("query_step", 1e300),
    ]:
        with pytest.raises(InvalidInput, match=f"Protocol: {field} must be"):
            st.Protocol(**{field: value})

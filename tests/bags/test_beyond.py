"""Planner and estimators beyond the paper: weightings, varying signals, shared noise."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags.bags import Bags
from sparsetoken.support.errors import InvalidInput

MIXED = st.Task(8, st.Discrete([1, 2]), st.Discrete([3.0, 6.0]))


@pytest.mark.slow
def test_a_plan_for_shared_noise():
    task = st.Task(8, 1, 5.0, token_correlation=0.3)
    advice = st.plan(task, dim=100, samples=800, check=True)
    assert [option.classifier for option in advice.options] == ["attention", "pooled"]
    outlook = st.outlook(advice)
    assert set(outlook.floors.errors) == {"attention", "pooled", "bayes"}
    assert outlook.floors.errors["bayes"] < advice["attention"].value < advice["pooled"].value
    seen = advice.check
    assert abs(seen.mean - seen.predicted) < 4 * seen.standard_error + 3 / 100
    assert "ρ = 0.3" in advice.title and "vectorized" not in advice.headline
    assert json.loads(outlook.to_json())["task"]["token_correlation"] == 0.3
    # what it recommends is what predict says of it
    option = advice["attention"]
    again = st.predict(task, option.tuned.classifier, option.protocol, dim=100)
    assert again.test_error == pytest.approx(option.value, rel=1e-9)


@pytest.mark.slow
def test_the_limit_of_a_narrow_valley():
    """Shared noise makes the best sharpness matter: the limit is near the oracle's error."""
    task = st.Task(10, 1, 3.3, token_correlation=0.5)
    option = st.plan(task, dim=100, samples=2000)["attention"]
    assert option.limit < option.value
    assert option.limit == pytest.approx(st.oracle_error(task, st.Attention()), abs=2e-3)


@pytest.mark.slow
def test_a_plan_without_a_bayes_floor():
    task = st.Task(5, 1, 3.0, places=(3, 1, 1, 1, 1), token_correlation=0.2)
    assert set(st.floors(st.plan(task, dim=50, samples=400)).errors) == {"attention", "pooled"}


@pytest.mark.slow
def test_a_plan_for_signals_that_vary():
    advice = st.plan(MIXED, dim=100, samples=800)
    assert advice.best.classifier == "attention" and "varying over 3, 6" in advice.title
    outlook = st.outlook(advice)
    assert set(outlook.sensitivities.change.str.split().str[0]) == {"prevalence"}
    assert "vectorized" in [option.classifier for option in advice.options]
    assert "Discrete" in json.loads(outlook.to_json())["task"]["strength"]
    with pytest.raises(
        InvalidInput, match="unknown must not be 'strength' for a strength that var"
    ):
        st.plan(MIXED, dim=100, samples=800, target_error=0.1, unknown="strength")


@pytest.mark.slow
def test_a_plan_with_another_weighting():
    task = st.Task(8, 1, 5.0)
    soft, hard = (
        st.plan(task, dim=100, samples=800, weighting=rule) for rule in (st.Softmax(), st.HardMax())
    )
    assert hard["attention"].tuned.classifier.weighting == st.HardMax()
    assert soft["attention"].value < hard["attention"].value < soft["pooled"].value
    assert soft["pooled"].value == pytest.approx(hard["pooled"].value, rel=1e-9)
    with pytest.raises(InvalidInput, match="weighting must be a weighting such as"):
        st.plan(task, dim=100, samples=800, weighting="softmax")


RULES = [st.Softmax(), st.HardMax(), st.TopK(3), st.Sparsemax()]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_bags_are_weighed_one_by_one(rule):
    rng = np.random.default_rng(0)
    lengths = [3, 1, 5, 3, 2]
    tokens = [rng.normal(size=(length, 2)) for length in lengths]
    bags = Bags(np.concatenate(tokens), np.concatenate([[0], np.cumsum(lengths)]))
    logits = rng.normal(size=sum(lengths))
    expected = np.concatenate([rule.weights(part) for part in np.split(logits, bags.offsets[1:-1])])
    np.testing.assert_allclose(bags.weigh(rule, logits), expected, atol=1e-14)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_an_estimator_with_each_weighting(rule, tmp_path):
    task = st.Task(10, 1, 6.0)
    signal = np.eye(8)[0]
    train, test = (task.sample(400, 8, rng=seed, signal=signal) for seed in (0, 1))
    classifier = st.AttentionClassifier(weighting=rule).fit(train.tokens, train.labels)
    assert classifier.score(test.tokens, test.labels) > 0.9
    weights = np.array(classifier.attention(test.tokens))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    found = weights[test.places].mean()
    assert found > 0.6  # of the weight, on the token with the signal
    st.save_classifier(classifier, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    assert again.weighting == rule
    np.testing.assert_array_equal(
        again.decision_function(test.tokens), classifier.decision_function(test.tokens)
    )


def test_softmax_is_what_it_was():
    sample = st.Task(6, 1, 5.0).sample(120, 6, rng=0)
    plain, named = (
        st.AttentionClassifier(weighting=rule).fit(sample.tokens, sample.labels)
        for rule in (None, st.Softmax())
    )
    np.testing.assert_allclose(plain.coef_, named.coef_, rtol=1e-9)


def test_wrong_weightings_are_named(tmp_path):
    sample = st.Task(4, 1, 3.0).sample(40, 4, rng=0)
    with pytest.raises(InvalidInput, match="weighting must be a weighting such as"):
        st.AttentionClassifier(weighting="softmax").fit(sample.tokens, sample.labels)
    with pytest.raises(InvalidInput, match="query must be 'two-step' for a weighting other than"):
        st.AttentionClassifier(query="joint", weighting=st.HardMax()).fit(
            sample.tokens, sample.labels
        )

    class Own:
        def weights(self, scores):
            return np.full_like(scores, 1 / scores.shape[-1])

    fitted = st.AttentionClassifier(weighting=Own()).fit(sample.tokens, sample.labels)
    with pytest.raises(InvalidInput, match="save_classifier: weighting must be one of softmax"):
        st.save_classifier(fitted, tmp_path / "model")

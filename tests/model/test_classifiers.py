"""What every classifier must do, and what each one does."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput
from test_recipes import block


class ClassifierContract:
    """Tests that every classifier inherits: the law is the law of its features."""

    classifier: object
    query = None  # βq for `features`, in the plane of the first two axes

    def features(self, tokens):
        return self.classifier.features(tokens, self.query)

    @pytest.mark.parametrize("places", [None, (5, 1, 1, 2)])
    @pytest.mark.parametrize("label", [1.0, -1.0])
    def test_moments_of_features_are_those_of_the_law(self, label, places):
        """Mean and variance of ⟨w, f⟩ for a readout along the signal, one class at a time."""
        dim, n = 5, 60_000
        task = st.Task(4, 2, 2.5, prevalence=0.5, places=places)
        if places is not None and (why := self.classifier.possible(task)):
            with pytest.raises(InvalidInput, match=re.escape(why)):
                self.classifier.law(task)
            return
        sample = task.sample(n, dim, rng=7, signal=np.eye(dim)[0])
        chosen = sample.labels == label
        features = self.features(sample.tokens[chosen])
        law = self.classifier.law(task)
        weights, norm = self.random_readout(features.shape[1], task)
        coordinates = self.split(weights, law, task)
        side = law.labels == label
        p = law.weights[side] / law.weights[side].sum()
        mean = law.means[side] @ coordinates
        noise = norm**2 - coordinates**2 @ ~law.noisy
        total = p @ mean
        variance = p @ (mean - total) ** 2 + (p @ law.scales[side] ** 2) * noise
        scores = features @ weights
        error = scores.std() / np.sqrt(len(scores))
        assert abs(scores.mean() - total) < 4.5 * error + 2e-4
        if isinstance(self.classifier, st.Vectorized) and law.means.shape[1] == 1 and label > 0:
            # one direction carries the mean; where the signal sits adds variance to a readout
            # that does not treat positions alike (the fitted one does)
            along = self.by_position(weights, task)
            places = task.sample_places(200_000, rng=1) @ along
            variance += task.strength**2 * places.var()
        fourth = np.mean((scores - scores.mean()) ** 4)
        assert abs(scores.var() - variance) < 4.5 * np.sqrt(fourth / len(scores)) + 1e-3 * variance

    def random_readout(self, size, task):
        """Of size one in all directions, and not small along the signal: the first of each d."""
        weights = np.random.default_rng(11).normal(size=size)
        weights[:: size // max(1, size // 5)] += 1.5
        return weights, np.linalg.norm(weights)

    def test_draws_are_those_of_the_law(self):
        """Means and scales of draws in each class, where both have the same directions."""
        task, rng = st.Task(4, 2, 2.5), np.random.default_rng(3)
        labels = np.repeat([1.0, -1.0], 20_000)
        law = self.classifier.draft(task)
        drawn = self.classifier.draw(task, labels, rng)
        assert drawn.means.shape[1] == law.means.shape[1]
        np.testing.assert_array_equal(drawn.noisy, law.noisy)
        for label in (1.0, -1.0):
            rows, side = labels == label, law.labels == label
            weights = law.weights[side] / law.weights[side].sum()
            for values, atoms in (
                (drawn.means[rows], law.means[side]),
                (drawn.means[rows] ** 2, law.means[side] ** 2),
                (drawn.scales[rows, None], law.scales[side, None]),
            ):
                error = values.std(axis=0) / np.sqrt(len(values)) + 1e-3
                assert np.all(np.abs(values.mean(axis=0) - weights @ atoms) < 4.5 * error)

    def test_law_is_a_valid_probability(self):
        law = self.classifier.law(st.Task(6, 2, 3.0, prevalence=0.2))
        assert law.prevalence == pytest.approx(0.2) and law.weights.sum() == pytest.approx(1)
        assert np.all(law.scales > 0) and np.all(law.scales <= 1 + 1e-12)
        assert law.compressed.prevalence == pytest.approx(0.2)

    @pytest.mark.parametrize("task", [
        st.Task(4, 2, 3.0), st.Task(4, 2, 3.0, token_correlation=0.3),
        st.Task(5, 2, 3.0, places=(1, 2, 3, 4, 0)), st.Task(60, 20, 1.0, places=range(1, 61)),
        st.Task(5, st.Discrete([1, 2]), 3.0), st.Task(20_001, 1, 5.0),
    ], ids=repr)  # fmt: skip
    def test_possible_says_what_the_law_says(self, task):
        why = self.classifier.possible(task)
        laws = ("law", "draft", "sketch", "tail_law")
        for law in (getattr(self.classifier, name) for name in laws):
            if why is None:
                made = law(task).features_per_dim
                assert made == self.classifier.features_per_dim(task)
            else:
                with pytest.raises(InvalidInput) as error:
                    law(task)
                assert str(error.value) == why

    def test_a_frozen_query_is_the_query(self):
        query = st.Query(overlap=0.3, norm=0.5, sharpness=1.0)
        frozen, task = self.classifier.frozen(query), st.Task(3, 1, 1.0)
        assert not frozen.learns_query and frozen.frozen(None) == frozen
        law, same = frozen.law(task), self.classifier.law(task, query)
        np.testing.assert_array_equal(law.means, same.means)
        np.testing.assert_array_equal(law.scales, same.scales)

    def test_no_signal_gives_equal_classes(self):
        law = self.classifier.law(st.Task(6, 2, 0.0))
        up, down = (law.labels == label for label in (1.0, -1.0))
        for f in (law.means[:, 0], law.means[:, 0] ** 2, law.means[:, -1], law.scales):
            one, two = (2 * law.weights[side] @ f[side] for side in (up, down))
            assert one == pytest.approx(two, abs=1e-3)


class Exaggerated(st.Pooled):
    """Its law has a mean that its features do not have."""

    def law(self, task, query=None):
        law = super().law(task)
        return replace(law, means=1.2 * law.means)


def test_the_contract_sees_a_wrong_law():
    contract = TestPooled()
    contract.classifier = Exaggerated()
    with pytest.raises(AssertionError):
        contract.test_moments_of_features_are_those_of_the_law(1.0, None)
    with pytest.raises(AssertionError):
        contract.test_draws_are_those_of_the_law()


def recipe():
    """The classifier that CONTRIBUTING.md shows, without a name in the table."""
    names = {"__name__": "own"}
    exec(block("classifier", "python").split("st.CLASSIFIERS.register")[0], names)
    return names["FirstToken"]()


class TestTheRecipe(ClassifierContract):
    classifier = recipe()

    def split(self, weights, law, task):
        return weights[:1]


class TestPooled(ClassifierContract):
    classifier = st.Pooled()

    def split(self, weights, law, task):
        return weights[:1]

    def test_features(self):
        tokens = np.arange(24.0).reshape(2, 3, 4)
        np.testing.assert_array_equal(self.classifier.features(tokens), tokens.mean(axis=1))


class TestVectorized(ClassifierContract):
    classifier = st.Vectorized()

    def split(self, weights, law, task):
        along = weights.reshape(task.length, -1)[:, 0]  # readout on e_l ⊗ ξ
        if law.means.shape[1] == 1:
            return np.array([along.sum() / np.sqrt(task.length)])
        return along

    def by_position(self, weights, task):
        return weights.reshape(task.length, -1)[:, 0]

    def test_features(self):
        tokens = np.arange(24.0).reshape(2, 3, 4)
        assert self.classifier.features(tokens).shape == (2, 12)

    def test_one_coordinate_per_position_with_weights(self):
        task = st.Task(5, 2, 3.0, places=(1, 2, 3, 4, 0))
        law = self.classifier.law(task)
        assert law.means.shape == (math.comb(4, 2) + 1, 5) and law.features_per_dim == 5
        positive = law.labels > 0
        np.testing.assert_allclose(law.means[positive].sum(axis=1), 6.0)
        assert np.all(law.means[positive][:, 4] == 0)

    def test_equal_weights_by_position_agree_with_the_single_direction(self):
        task = st.Task(5, 2, 3.0, prevalence=0.3)
        one = st.solve(self.classifier.law(task), st.Logistic(), 0.01, 0.8)
        many = st.solve(self.classifier.law_by_position(task), st.Logistic(), 0.01, 0.8)
        np.testing.assert_allclose(many.weights, one.weights[0] / np.sqrt(5), rtol=1e-7)
        # the fitted readouts agree; so do their errors: a sum over places is R whatever they are
        assert many.test_error == pytest.approx(one.test_error, abs=1e-10)

    def test_what_is_not_possible(self):
        task = st.Task(4, 1, 2.0)
        many = st.Task(60, 20, 1.0, places=range(1, 61))
        shared = st.Task(4, 1, 2.0, token_correlation=0.1)
        assert "C(length, sparsity)" in self.classifier.possible(many)
        assert self.classifier.possible(many, trained_on=st.Task(60, 20, 1.0)) is None
        assert "token_correlation must be 0" in self.classifier.possible(shared)
        assert "token_correlation must be 0" in self.classifier.possible(shared, trained_on=task)
        assert self.classifier.possible(st.Task(4, 2, 1.0), trained_on=task) is None
        assert "keep the length 4" in self.classifier.possible(st.Task(5, 1, 2.0), trained_on=task)


class TestAttention(ClassifierContract):
    classifier = st.Attention(cosine=0.6, sharpness=1.7)
    query = 1.7 * np.array([0.6, 0.8, 0, 0, 0])

    def split(self, weights, law, task):
        unit = self.query / np.linalg.norm(self.query)
        across = np.array([0.8, -0.6, 0, 0, 0])
        return np.array([weights @ unit, weights @ across])

    def test_features(self):
        tokens = np.random.default_rng(0).normal(size=(3, 4, 2))
        query = np.array([0.5, -1.0])
        features = self.classifier.features(tokens, query)
        for sample, feature in zip(tokens, features, strict=True):
            weights = np.exp(sample @ query)
            np.testing.assert_allclose(feature, weights @ sample / weights.sum())

    def test_features_need_a_query(self):
        with pytest.raises(InvalidInput, match="features need query"):
            self.classifier.features(np.zeros((1, 2, 3)))

    def test_learned_query_needs_one_for_its_law(self):
        with pytest.raises(InvalidInput, match="the query is learned"):
            st.Attention().law(st.Task(3, 1, 1.0))
        query = st.Query(overlap=0.3, norm=0.5, sharpness=1.0)
        law = st.Attention().law(st.Task(3, 1, 1.0), query)
        same = st.Attention(cosine=0.6, sharpness=1.0).law(st.Task(3, 1, 1.0))
        np.testing.assert_allclose(law.means, same.means, atol=1e-12)

    @pytest.mark.parametrize(
        "cosine, sharpness, name",
        [
            (0.5, None, "together"),
            (None, 1.0, "together"),
            (1.1, 1.0, "cosine"),
            (0.5, -1, "sharp"),
        ],
    )
    def test_wrong_queries_are_refused(self, cosine, sharpness, name):
        with pytest.raises(InvalidInput, match=name):
            st.Attention(cosine, sharpness)

    def test_laws_are_shared_between_prevalences_and_places(self):
        one = self.classifier.law(st.Task(5, 1, 2.0))
        assert self.classifier.law(st.Task(5, 1, 2.0)) is one
        two = self.classifier.law(st.Task(5, 1, 2.0, prevalence=0.1, places=(1, 2, 3, 4, 5)))
        assert np.shares_memory(two.means, one.means)


@pytest.mark.slow
@pytest.mark.parametrize(
    "length, sparsity, strength, cosine, sharpness",
    [
        (1, 1, 50.0, 1.0, 100.0),
        (2, 2, 0.0, -1.0, 0.0),
        (64, 1, 50.0, 1.0, 100.0),
        (64, 64, 50.0, -1.0, 100.0),
        (1000, 10, 3.0, 0.5, 0.0),
        (10_000, 1, 50.0, -1.0, 100.0),
        (10_000, 10_000, 0.0, 1.0, 5.0),
    ],
)
def test_extreme_attention_laws_are_finite_and_solvable(
    length, sparsity, strength, cosine, sharpness
):
    task = st.Task(length, sparsity, strength)
    fit = st.solve(st.Attention(cosine, sharpness).law(task), st.Logistic(), 1e-3, 2.0)
    assert fit.residual <= 1e-9 and 0 <= fit.test_error <= 0.5 + 1e-6


@pytest.mark.slow
def test_memory_of_the_longest_law_stays_below_one_gibibyte():
    # VmHWM is of the program; ru_maxrss would begin with the peak of the process that started it
    code = """
import re, sparsetoken as st
law = st.Attention(cosine=0.5, sharpness=3.0).law(st.Task(10_000, 7, 5.0))
law.compressed
print(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(run.stdout) < 1024 * 1024  # KiB

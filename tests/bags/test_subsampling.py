"""At most so many tokens a bag: the choice, the task that remains, what it costs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.stats

import sparsetoken as st
import witness as plain
from sparsetoken.bags import subsampling
from sparsetoken.bags.subsampling import _hypergeometric
from sparsetoken.support.errors import InvalidInput

LENGTHS = [7, 3, 12, 1, 12]
ARRAYS = [np.arange(2.0 * n).reshape(n, 2) + 100 * k for k, n in enumerate(LENGTHS)]
NAMES = ("a", "b", "ü", "d", "e")


@dataclass(frozen=True)
class Kept:
    """Bags in a list, and which were read."""

    read: list

    def tokens(self, key):
        self.read.append(key)
        return ARRAYS[key]

    def coordinates(self, key):
        return None if key == 1 else ARRAYS[key] + 0.5


def source():
    return st.BagSource(NAMES, np.array(LENGTHS), 2, tuple(range(5)), Kept([]))


def test_bags_in_memory():
    bags = st.Bags.of(ARRAYS)
    fewer = st.subsampled(bags, 4, seed=3)
    assert fewer.lengths.tolist() == [4, 3, 4, 1, 4] and len(bags.tokens) == sum(LENGTHS)
    for k, rows in enumerate(np.split(fewer.tokens, fewer.offsets[1:-1])):
        places = [ARRAYS[k].tolist().index(row) for row in rows.tolist()]
        assert places == sorted(set(places))  # of the bag, once, in order
    order = [3, 2, 0, 4, 1]
    np.testing.assert_array_equal(
        st.subsampled(bags[order], 4, seed=3).tokens, fewer[order].tokens
    )  # whatever the order
    assert not np.array_equal(st.subsampled(bags, 4, seed=4).tokens, fewer.tokens)
    np.testing.assert_array_equal(st.subsampled(bags, 12).tokens, bags.tokens)
    assert st.subsampled(st.Bags.of([a.astype(np.float32) for a in ARRAYS]), 2).tokens.dtype == "f4"


def test_fewer_tokens_are_some_of_more():
    bags, kept = st.Bags.of(ARRAYS), None
    for most in range(12, 0, -1):
        rows = set(map(tuple, st.subsampled(bags, most).tokens.tolist()))
        assert kept is None or rows <= kept
        kept = rows


def test_bags_on_disk_stay_there():
    whole = source()
    fewer = st.subsampled(whole, 4, seed=3)
    assert not whole.format.read and fewer.lengths.tolist() == [4, 3, 4, 1, 4]
    bag = fewer.read(2)
    assert whole.format.read == [2] and bag.tokens.shape == (4, 2)
    np.testing.assert_array_equal(fewer.coordinates(2), bag.tokens + 0.5)
    assert fewer.coordinates(1) is None
    np.testing.assert_array_equal(fewer[[4, 2]].read(1).tokens, bag.tokens)  # whatever the order
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fewer)).read(2).tokens, bag.tokens)
    named = st.subsampled(st.Bags.of(ARRAYS), 4, seed=3, names=NAMES)
    np.testing.assert_array_equal(fewer.load().tokens, named.tokens)
    again = st.subsampled(fewer, 2, seed=3)
    assert again.lengths.tolist() == [2, 2, 2, 1, 2] and again.load().tokens.shape == (9, 2)


def test_every_token_is_as_likely():
    counts = np.zeros(12)
    for seed in range(2000):
        counts[st.subsampled(source(), 4, seed).read(2).tokens[:, 0].astype(int) % 100 // 2] += 1
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_wrong_values_are_named():
    bags = st.Bags.of(ARRAYS)
    for call, words in [
        (lambda: st.subsampled(bags, 0), "max_tokens must be a whole number of at least 1, got 0"),
        (lambda: st.subsampled(bags, 2.5), "max_tokens must be a whole number"),
        (lambda: st.subsampled(bags, 2, seed=-1), "seed must be a whole number of at least 0"),
        (lambda: st.subsampled(bags, 2, names=["a"]), "names must be 5, one a bag, got 1"),
        (lambda: st.subsampled(source(), 2, names=NAMES), "names must be None for bags on disk"),
        (lambda: st.subsampled_task(st.Task(5, 1, 1.0), 0), "max_tokens must be a whole number"),
        (
            lambda: st.subsampled_task(st.Task(3, 1, 1.0, places=(1, 2, 3)), 2),
            "places must be None",
        ),
    ]:
        with pytest.raises(InvalidInput, match=words):
            call()


@pytest.mark.parametrize(
    ("length", "ones", "drawn"),
    [(10, 2, 5), (1000, 10, 100), (20, 20, 7), (20, 15, 10), (7, 1, 6), (20_000, 5_000, 3_000)],
)
def test_the_law_of_what_remains(length, ones, drawn):
    counts, chances = _hypergeometric(length, ones, drawn)
    expected = scipy.stats.hypergeom.pmf(counts, length, ones, drawn)
    np.testing.assert_allclose(chances, expected, atol=1e-9)
    assert sum(chances) == pytest.approx(1, abs=1e-12)
    task = st.subsampled_task(st.Task(length, ones, 3.0, 0.3, token_correlation=0.2), drawn)
    assert task.length == drawn and task.prevalence == 0.3 and task.token_correlation == 0.2
    mean = task.signals.weights @ task.signals.sparsities
    assert mean == pytest.approx(drawn * ones / length, rel=1e-9)
    assert task.dose == pytest.approx(3.0 * ones / length, rel=1e-9)  # the mean token keeps it


def test_tasks_that_stay_simple():
    task = st.Task(6, 2, 3.0, places=(1.0,) * 6)
    assert st.subsampled_task(task, 6) is task and st.subsampled_task(task, 9) is task
    assert st.subsampled_task(st.Task(6, 6, 3.0), 4) == st.Task(4, 6 - 2, 3.0)
    twice = st.subsampled_task(st.subsampled_task(task, 5), 3)
    once = st.subsampled_task(task, 3)
    assert twice.sparsity.values == once.sparsity.values
    np.testing.assert_allclose(twice.sparsity.weights, once.sparsity.weights, rtol=1e-12)
    varied = replace(task, places=None, strength=st.Discrete([2.0, 5.0]))
    assert st.subsampled_task(varied, 3).strength == varied.strength


@dataclass(frozen=True)
class Subsample:
    """Samples of a task, of each some tokens: what the witness of the theory draws."""

    task: st.Task
    most: int

    def sample(self, n, dim, rng, signal):
        whole = self.task.sample(n, dim, rng, signal)
        marked = np.concatenate([whole.tokens, whole.places[:, :, None]], axis=2)
        fewer = st.subsampled(st.Bags.of(marked), self.most)
        tokens = fewer.tokens.reshape(n, self.most, dim + 1)
        return whole.labels, tokens[:, :, :dim], tokens[:, :, dim] > 0, signal


TASK = st.Task(8, 2, 4.0, 0.4)


def test_tokens_that_remain_are_those_of_the_task():
    draws, task = Subsample(TASK, 3), st.subsampled_task(TASK, 3)
    labels, tokens, places, signal = draws.sample(6000, 4, np.random.default_rng(1), np.eye(4)[0])
    ones = places.sum(axis=1)
    assert not ones[labels < 0].any()
    counts = np.bincount(ones[labels > 0], minlength=3)
    expected = counts.sum() * np.array(task.sparsity.weights)
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3
    theirs = task.sample(6000, 4, 2, np.eye(4)[0])
    for features in (lambda x: x.mean(axis=1), lambda x: x.max(axis=1), lambda x: x[:, 0]):
        mine, other = features(tokens @ signal.T), features(theirs.tokens @ signal.T)
        for label in (-1, 1):
            test = scipy.stats.ks_2samp(mine[labels == label], other[theirs.labels == label])
            assert test.pvalue > 1e-3


def test_theory_and_tokens_agree():
    task = st.subsampled_task(TASK, 3)
    protocol = st.Protocol(3.0, 4.0, st.Square(), ridge=0.05)
    run = st.simulate(task, st.Pooled(), protocol, 40, 12, seed=0, sampler="tokens")
    predicted = st.predict(task, st.Pooled(), protocol)
    assert abs(run.mean("test_error") - predicted.test_error) <= 4 * run.sem("test_error") + 1 / 40


@pytest.mark.slow
@pytest.mark.parametrize("classifier", [st.Pooled(), st.Attention()], ids=["pooled", "attention"])
def test_training_on_what_remains_is_as_predicted(classifier):
    """Tokens of the full task are drawn, sub-sampled, trained on by an experiment that shares no
    code with the theory; and the token-level sampler draws the task of what remains."""
    dim, runs = 160, 12
    protocol = st.Protocol(3.0, 3.0, st.Logistic(), ridge=0.02, query_step=8.0)
    features = plain.attention if classifier.learns_query else plain.pooled
    task = st.subsampled_task(TASK, 4)
    errors = [
        plain.experiment(
            Subsample(TASK, 4), features, protocol, dim, np.random.default_rng(seed),
            learned=classifier.learns_query, tests=3000,
        )["test_error"]
        for seed in np.random.SeedSequence(5).spawn(runs)
    ]  # fmt: skip
    predicted = st.predict(task, classifier, protocol).test_error
    spread = np.std(errors, ddof=1) / np.sqrt(runs)
    assert abs(np.mean(errors) - predicted) <= 4 * spread + 3 / dim
    full = st.predict(TASK, classifier, protocol).test_error
    assert np.mean(errors) > full + 8 * spread  # and not as if nothing were lost
    run = st.simulate(task, classifier, protocol, dim, 12, seed=1, sampler="tokens")
    assert abs(run.mean("test_error") - predicted) <= 4 * run.sem("test_error") + 3 / dim


@pytest.mark.slow
def test_the_cost_is_that_of_plans():
    cost = st.max_tokens_cost(st.Task(10, 1, 6.0), 5, dim=20, samples=200)
    assert cost.full < 0.05 and 0.25 <= cost.reduced < 0.35  # half of the positive bags are lost
    assert cost.full_classifier == cost.reduced_classifier == "attention"


def test_the_cost_in_a_sentence(monkeypatch):
    asked = []

    def planned(task, dim, samples, seed):
        asked.append(task)
        return (0.25, "pooled") if task.varies else (1e-9, "attention")

    monkeypatch.setattr(subsampling, "_best", planned)
    task = st.Task(10, 1, 6.0)
    cost = st.max_tokens_cost(task, 5, dim=50, samples=400)
    assert cost.silent == pytest.approx(0.5, rel=1e-12) and cost.kept == pytest.approx(0.5)
    assert str(cost) == (
        "With at most 5 of 10 tokens a positive bag keeps 0.5 of its 1 signal tokens on average, "
        "and none with probability 50.0 %. The predicted error with 400 bags is 25.0 % (pooled) "
        "instead of less than 0.1 % (attention)."
    )
    assert asked == [task, st.subsampled_task(task, 5)]
    same = st.max_tokens_cost(task, 10, dim=50, samples=400)
    assert same.silent == 0 and same.full == same.reduced == 1e-9 and len(asked) == 3

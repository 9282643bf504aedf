"""A task estimated from labelled bags: intervals cover, noise is called noise, misfits are told."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import sparsetoken as st
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.bags.pilot import _covariance
from sparsetoken.support.errors import InvalidInput

PILOTS = [  # task, bags, dimension, coloured noise
    (st.Task(10, 1, 4.0), 200, 30, False),
    (st.Task(20, 3, 2.0), 400, 40, False),
    (st.Task(10, 2, 2.5, prevalence=0.3), 300, 30, True),
    (st.Task(10, 10, 0.8), 200, 30, False),
    (st.Task(5, 1, 3.5, prevalence=0.2), 400, 20, True),
]


def pilot_of(task, bags, dim, seed, coloured=False, **settings):
    sample = task.sample(bags, dim, rng=seed)
    tokens = sample.tokens
    if coloured:
        rng = np.random.default_rng(seed + 999)
        turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        tokens = tokens @ (turn * np.geomspace(0.3, 3.0, dim)) + 5.0
    return st.estimate_task(tokens, sample.labels, **settings)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """60 pilots of five tasks, on all of which the plan's error is far better than chance."""
    strength, sparsity, problems = [], [], []
    for task, bags, dim, coloured in PILOTS:
        assert st.plan(task, dim, samples=bags).best.value < 0.7 * min(
            task.prevalence, 1 - task.prevalence
        )
        for seed in range(12):
            pilot = pilot_of(task, bags, dim, seed, coloured, measure=False)
            assert pilot.found, (task, seed)
            strength.append(pilot.strength.low <= task.strength <= pilot.strength.high)
            sparsity.append(pilot.sparsity.low <= task.sparsity <= pilot.sparsity.high)
            problems.append(bool(pilot.diagnosis.problems))
    assert len(strength) == 60
    assert 0.80 <= np.mean(strength) <= 0.98
    assert np.mean(sparsity) >= 0.80  # a whole number: the interval may be that number alone
    assert np.mean(problems) <= 0.1


def test_noise_is_called_noise():
    for seed in range(8):
        pilot = pilot_of(st.Task(10, 1, 0.0, prevalence=0.3), 150, 20, seed, measure=False)
        assert not pilot.found and pilot.task is None
        assert "No signal was found" in pilot.summary()
    with pytest.raises(InvalidInput, match="no signal was found in 150 bags"):
        pilot.plan(samples=1000)
    assert json.loads(pilot.to_json())["task"] is None


def test_long_bags_are_no_signal():
    """Lengths that go with the label: noise all the same."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        labels = np.arange(150) % 2
        bags = [rng.standard_normal((2 if label else 40, 10)) for label in labels]
        assert not st.estimate_task(bags, labels, measure=seed < 3).found


def test_a_signal_that_halves_of_the_bags_do_not_show_is_seen_by_cross_validation():
    """Nines among 30 digits: along directions that 100 bags teach, they are hard to see."""
    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng([200, 1])
    labels = np.arange(200) % 2
    chosen = rng.choice(np.flatnonzero(digits != 9), (200, 30))
    chosen[labels == 1, 0] = rng.choice(np.flatnonzero(digits == 9), 100)
    pilot = st.estimate_task(images[chosen], labels, blocks=3)
    attention = max(point.evidence for point in pilot.measured if point.classifier == "attention")
    assert pilot.found and pilot.evidence >= attention > 5


@pytest.mark.parametrize("strength", [30.0, 60.0, 1e4])
def test_strong_signals_are_not_capped(strength):
    pilot = pilot_of(st.Task(6, 1, strength), 80, 5, seed=0, measure=False)
    assert pilot.strength.value == pytest.approx(strength, rel=0.05)
    assert pilot.sparsity.value == pytest.approx(1.0, abs=0.05)


def test_noise_without_variance():
    """A constant column is no misfit, constant tokens are no crash."""
    sample = st.Task(6, 1, 4.0).sample(200, 8, rng=0)
    tokens = sample.tokens.copy()
    tokens[..., 3] = 2.0
    pilot = st.estimate_task(tokens, sample.labels, measure=False)
    assert pilot.found and pilot.diagnosis.problems == ()
    flat = st.estimate_task(np.ones((30, 3, 4)), np.arange(30) % 2, measure=False)
    assert not flat.found


def test_bags_that_nothing_could_confuse():
    """Tokens of noise do not vary at all: the strength has no bounds, the pilot has."""
    labels = np.arange(60) % 2
    pilot = st.estimate_task([np.full((5, 4), 1.0 + label) for label in labels], labels, blocks=3)
    assert pilot.found and pilot.task.strength <= 1e6
    assert pilot.plan(samples=100).best.value < 0.1


def test_the_estimate_feeds_the_plan():
    task = st.Task(10, 2, 3.0, prevalence=0.4)
    pilot = pilot_of(task, 600, 30, seed=1)
    assert (pilot.task.length, pilot.task.sparsity) == (10, 2)
    assert pilot.strength.value == pytest.approx(3.0, rel=0.1)
    assert pilot.prevalence.low < 0.4 < pilot.prevalence.high
    forecast, truth = pilot.plan(samples=1000), st.plan(task, 30, samples=1000, check=False)
    assert forecast.best.classifier == truth.best.classifier == "attention"
    for name in ("attention", "pooled"):
        assert forecast[name].low < truth[name].value < forecast[name].high
    assert "A signal is there" in pilot.summary() and "does not fit" not in pilot.summary()
    content = json.loads(pilot.to_json())
    assert content["task"]["sparsity"] == 2 and content["diagnosis"]["problems"] == []
    assert len(content["anchors"]) == 2


def test_sparse_and_dense_signals_are_told_apart():
    sparse = pilot_of(st.Task(10, 1, 4.0), 300, 20, seed=0)
    dense = pilot_of(st.Task(10, 10, 1.0), 300, 20, seed=0)
    assert sparse.diagnosis.sparse is True and "a sparse signal fits better" in sparse.summary()
    assert dense.diagnosis.sparse is not True  # a signal in all tokens is a mixture as well
    assert abs(dense.diagnosis.sparse_gain[0]) < 0.1 < sparse.diagnosis.sparse_gain[0]
    assert dense.sparsity.high == pytest.approx(10.0)
    assert dense.task.sparsity >= 8


@pytest.mark.parametrize("change", ["units", "order", "signs and scales", "a constant"])
def test_a_pilot_does_not_depend_on_how_bags_are_written_down(change):
    """Units of 1e-160 and 1e150, the order of bags, tokens and coordinates, a constant column."""
    sample = st.Task(8, 1, 5.0).sample(120, dim=10, rng=0)
    tokens, labels = sample.tokens, sample.labels
    settings = {"measure": False, "blocks": 3}
    first = st.estimate_task(tokens, labels, **settings)
    rng = np.random.default_rng(1)
    if change == "units":
        others = [(tokens * unit, labels) for unit in (1e-160, 1e150)]
    elif change == "order":
        bags, places, axes = (rng.permutation(size) for size in tokens.shape)
        others = [(tokens[bags][:, places][:, :, axes], labels[bags])]
    elif change == "signs and scales":
        others = [(tokens * (rng.choice([-1.0, 1.0], 10) * 10.0 ** rng.uniform(-3, 3, 10)), labels)]
    else:
        others = [(np.concatenate([tokens, np.full((*tokens.shape[:2], 1), 7.0)], axis=2), labels)]
    for changed, its_labels in others:
        pilot = st.estimate_task(changed, its_labels, **settings)
        assert pilot.found and first.found
        assert pilot.strength.value == pytest.approx(first.strength.value, rel=1e-6)
        assert pilot.sparsity.value == first.sparsity.value
        assert pilot.evidence == pytest.approx(first.evidence, rel=1e-6)


@pytest.mark.slow
def test_what_is_measured_and_forecast_depends_on_it_no_more():
    """All of these at once, with cross-validation and plan."""
    sample = st.Task(4, 1, 5.0).sample(60, dim=4, rng=0)
    error, rng = st.METRICS.make("error"), np.random.default_rng(1)
    bags, places, axes = (rng.permutation(size) for size in sample.tokens.shape)
    factors = rng.choice([-1.0, 1.0], 4) * 10.0 ** rng.uniform(-3, 3, 4)
    changed = (sample.tokens * factors)[bags][:, places][:, :, axes]
    pilots = [
        st.estimate_task(tokens, labels, blocks=3)
        for tokens, labels in ((sample.tokens, sample.labels), (changed, sample.labels[bags]))
    ]
    for first, second in zip(*(pilot.measured for pilot in pilots), strict=True):
        assert first.samples == second.samples
        assert first.value(error) == pytest.approx(second.value(error), rel=1e-9)
    for first, second in zip(*(pilot.plan(samples=200).options for pilot in pilots), strict=True):
        assert 0 < first.low < first.value < first.high < 0.5
        np.testing.assert_allclose(second[1:5], first[1:5], rtol=1e-6)


def test_a_signal_that_is_no_shift_does_not_fit():
    """Positive bags have louder tokens, along no direction: theory says nothing of them."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    tokens = rng.standard_normal((200, 6, 8)) * np.where(labels, 1.5, 1.0)[:, None, None]
    pilot = st.estimate_task(tokens, labels)
    assert pilot.found and not pilot.fits
    assert "The model does not fit" in pilot.summary()
    assert "The model fits" not in pilot.summary()


def test_covariance_of_the_noise_has_intervals():
    rng = np.random.default_rng(0)
    truth = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.2], [0.0, -0.2, 0.5]])
    inside = []
    for _ in range(40):
        tokens = rng.multivariate_normal(np.ones(3), truth, size=(60, 8))
        found = _covariance(st.Bags.of(tokens[::2]), 0.9)
        inside.append((found.low <= truth) & (truth <= found.high))
    assert 0.82 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, rng: x + 0.7 * rng.standard_normal((len(x), 1, x.shape[2])), "not independent"),
        (lambda x, rng: x * rng.exponential(1.0, x.shape) ** 1.5, "is not Gaussian"),
        (lambda x, rng: x * np.where(np.arange(len(x)) % 7 == 0, 6.0, 1.0)[:, None, None],
         "is not Gaussian"),
    ],
    ids=["shared", "heavy tails", "loud bags"],
)  # fmt: skip
def test_what_does_not_fit_is_told(change, words):
    sample = st.Task(10, 2, 4.0).sample(300, 20, rng=3)
    plain = st.estimate_task(sample.tokens, sample.labels, measure=False)
    assert plain.diagnosis.problems == ()
    changed = change(sample.tokens, np.random.default_rng(4))
    pilot = st.estimate_task(changed, sample.labels, measure=False)
    assert any(words in each for each in pilot.diagnosis.problems), pilot.diagnosis.problems
    assert ("The model does not fit" in pilot.summary()) == pilot.found


def test_noise_that_whitening_cannot_learn_is_told():
    """A direction that is loud in one negative bag only: a half knows it, the other does not."""
    sample = st.Task(6, 1, 5.0).sample(200, 15, rng=5)
    tokens = sample.tokens.copy()
    negative = np.flatnonzero(sample.labels < 0)
    tokens[negative[0], :, 0] *= 30.0
    problems = st.estimate_task(tokens, sample.labels, measure=False).diagnosis.problems
    assert any("not white after whitening" in each for each in problems)
    few = st.Task(3, 1, 5.0).sample(40, 80, rng=5)
    problems = st.estimate_task(few.tokens, few.labels, measure=False).diagnosis.problems
    assert any("too few to learn the covariance" in each for each in problems)


def test_ragged_bags_and_labels_of_any_kind():
    rng = np.random.default_rng(0)
    sample = st.Task(30, 3, 4.0).sample(300, 12, rng=0)
    order = np.argsort(~sample.places, axis=1, kind="stable")  # signal tokens first, none is lost
    tokens = np.take_along_axis(sample.tokens, order[..., None], axis=1)
    lengths = rng.integers(5, 31, 300)
    bags = [bag[:length] for bag, length in zip(tokens, lengths, strict=True)]
    words = np.where(sample.labels > 0, "yes", "no")
    pilot = st.estimate_task(bags, words, measure=False)
    assert pilot.sparsity.low <= 3 <= pilot.sparsity.high
    assert pilot.strength.value == pytest.approx(4.0, rel=0.1)
    assert pilot.length.value == pytest.approx(lengths.mean())
    assert pilot.lengths[0] == lengths.min() and pilot.lengths[-1] == lengths.max()
    assert any("lengths differ" in each for each in pilot.diagnosis.problems)
    again = st.estimate_task(bags[::-1], words[::-1], measure=False)
    assert again.strength == pytest.approx(pilot.strength)  # in any order


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": [0] * 5 + [1] * 15}, "at least 8 bags of each class, got 5"),
        ({"y": [0] * 20}, "needs two classes, got 1 class"),
        ({"y": [0, 1]}, "inconsistent numbers of samples"),
        ({"y": None}, "requires y to be passed"),
        ({"level": 1.0}, "level must be"),
        ({"blocks": 2}, "blocks must be a whole number"),
        ({"groups": [0] * 20}, "groups must be at least 4 with bags of each class, got 1"),
        ({"positive": "x"}, "positive must be one of the labels 0, 1"),
        ({"X": np.full((20, 2, 3), np.nan)}, "Input X contains NaN"),
        ({"X": np.ones((20, 6))}, "X must be an array .n, tokens, dim."),
    ],
)
def test_wrong_input(change, words):
    given = {"X": np.random.default_rng(0).standard_normal((20, 2, 3)), "y": np.arange(20) % 2}
    with pytest.raises(InvalidInput, match=words):
        st.estimate_task(**(given | change))


@pytest.mark.parametrize("share", [None, 0.2])
@pytest.mark.parametrize(("rho", "delta"), [(0.1, 3.0), (0.4, 1.2), (0.02, 6.0)])
def test_mixtures_are_the_likeliest(rho, delta, share):
    """Against a general optimiser on values that are not binned."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(5000) + delta * (rng.random(5000) < rho)
    found = Mixture.fit(histogram(values[None]), share)

    def cost(x):
        chance = 1 / (1 + np.exp(-x[0])) if share is None else share
        gain = np.clip(x[1] * values - x[1] ** 2 / 2, -700, 700)
        return -np.mean(np.log1p(chance * np.expm1(gain)))

    odds = np.log(found.share[0] / (1 - found.share[0]))
    for start in (0.5, delta):
        best = minimize(cost, [np.log(rho / (1 - rho)), start], method="Nelder-Mead")
        assert cost([odds, found.shift[0]]) < best.fun + 1e-5
    if share is not None:
        assert found.share[0] == share

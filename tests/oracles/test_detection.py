"""Rare and weak signals: boundaries, higher criticism by loops, attention's loss by counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.places import log_subset_sums
from sparsetoken.model.task import Task
from sparsetoken.oracles import extremes
from sparsetoken.oracles.detection import (
    TESTS,
    attention_efficiency,
    detection_boundary,
    detection_error,
    higher_criticism,
    maximum_boundary,
    rare_and_weak,
)
from sparsetoken.oracles.oracle import bayes_error, oracle_error
from sparsetoken.oracles.regret import attention_regret
from sparsetoken.oracles.symmetric import log_elementary
from sparsetoken.studies.oracles import DetectionCell, RegretCell
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate


def within(one, other, errors=4.0):
    spread = math.hypot(getattr(one, "standard_error", 0.0), getattr(other, "standard_error", 0.0))
    return abs(one - other) <= errors * spread + 1e-12


def counted(positive, negative, cut):
    miss, alarm = positive <= cut, negative > cut
    error = math.sqrt((miss.var() / len(miss) + alarm.var() / len(alarm)) / 4)
    return Estimate((miss.mean() + alarm.mean()) / 2, error)


# ---------------------------------------------------------------------------- boundaries


@pytest.mark.parametrize(
    ("rarity", "some_test", "maximum"),
    [(0.55, 0.05, 0.10836), (0.6, 0.1, 0.13509), (0.75, 0.25, 0.25), (0.84, 0.36, 0.36)],
)
def test_boundaries_at_known_points(rarity, some_test, maximum):
    assert detection_boundary(rarity) == pytest.approx(some_test, abs=1e-9)
    assert maximum_boundary(rarity) == pytest.approx(maximum, abs=1e-5)


def test_the_boundary_is_smooth_and_below_that_of_the_maximum():
    step = 1e-6
    left, right = detection_boundary(0.75 - step), detection_boundary(0.75 + step)
    assert left == pytest.approx(0.25 - step, abs=1e-9)
    assert right == pytest.approx(0.25 + step, abs=1e-9)  # (1 − √(1−b))² has slope 1 there
    for rarity in np.linspace(0.505, 0.995, 99):
        below = maximum_boundary(rarity) - detection_boundary(rarity)
        assert below > 0 if rarity < 0.749 else below >= 0
    assert detection_boundary(0.999999) > 0.99 and detection_boundary(0.3) == 0


def test_the_exponents_are_those_of_the_exact_maximum():
    """Signals beyond the largest noise: R P(g + θ > √(2 log L)) is a power of L."""
    for rarity, sign in ((0.6, 1), (0.6, -1), (0.9, 1), (0.9, -1)):
        root = math.sqrt(maximum_boundary(rarity)) + 0.02 * sign
        logs = np.array([1e4, 1e5])
        beyond = (1 - rarity) * logs + norm.logsf((1 - root) * np.sqrt(2 * logs))
        assert np.sign(beyond[1] - beyond[0]) == sign


# ----------------------------------------------------------------------- higher criticism


def plain_higher_criticism(tokens):
    """By the definition, sample by sample."""
    found = []
    for sample in tokens:
        tails = sorted(norm.sf(sample))
        n = len(tails)
        found.append(
            max(
                math.sqrt(n) * ((i + 1) / n - p) / math.sqrt(p * (1 - p))
                for i, p in enumerate(tails[: n // 2])
            )
        )
    return np.array(found)


@pytest.mark.parametrize(("length", "sparsity", "strength"), [(12, 3, 1.5), (25, 2, 2.5)])
def test_higher_criticism_against_a_plain_simulation(length, sparsity, strength):
    rng = np.random.default_rng(1)
    count = 6000
    negative = rng.standard_normal((count, length))
    positive = rng.standard_normal((count, length))
    for row in positive:
        row[rng.choice(length, sparsity, replace=False)] += strength
    positive, negative = plain_higher_criticism(positive), plain_higher_criticism(negative)
    half = count // 2
    cuts = np.quantile(np.concatenate([positive[:half], negative[:half]]), np.linspace(0, 1, 201))
    best = min(cuts, key=lambda cut: counted(positive[:half], negative[:half], cut))
    plain = counted(positive[half:], negative[half:], best)
    task = Task(length, sparsity, strength)
    assert within(detection_error(task, "higher criticism", draws=1 << 14), plain)


def test_higher_criticism_when_most_tokens_carry_the_signal():
    """The noise has then fewer p-values than are looked at."""
    rng = np.random.default_rng(2)
    tokens = rng.standard_normal((4000, 9)) + 0.7 * (np.arange(9) < 7)
    one, two = plain_higher_criticism(tokens), higher_criticism(9, 7, 0.7, 4000, 3)
    for level in (0.2, 0.5, 0.8):
        share = (two <= np.quantile(one, level)).mean()
        assert abs(share - level) < 4 * math.sqrt(2 * level * (1 - level) / 4000)


def test_no_signal_no_news():
    for test in TESTS:
        assert detection_error(Task(50, 3, 0.0), test, draws=1024) == pytest.approx(0.5, abs=1e-12)


# ------------------------------------------------------------------------- the other tests


def test_the_other_tests_are_the_oracles(monkeypatch):
    monkeypatch.setattr(extremes, "_MOST_SAMPLES", 1 << 12)
    task = rare_and_weak(57, 0.6, 0.3)
    assert detection_error(task, "pooled") == pytest.approx(oracle_error(task, Pooled()), rel=1e-12)
    for test, other in (
        ("attention", oracle_error(task, Attention(), seed=1)),
        ("bayes", bayes_error(task, seed=1)),
    ):
        found = detection_error(task, test, draws=1 << 12)
        assert within(found, other) and 0 < found.standard_error < 0.005


def test_maximum_by_counting():
    task, rng = rare_and_weak(60, 0.6, 0.4), np.random.default_rng(3)
    negative = rng.standard_normal((40_000, 60)).max(axis=1)
    positive = rng.standard_normal((40_000, 60))
    positive[:, : task.sparsity] += task.strength
    cuts = np.linspace(1, 4, 61)
    best = min((counted(positive.max(axis=1), negative, cut) for cut in cuts), key=float)
    assert within(best, detection_error(task, "maximum"), 5)


def test_efficiency_by_quadrature():
    """Moments of (g−τ)e^{τg} and of the likelihood ratio by Gauss-Hermite, every τ tried."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    for theta in (0.3, 1.0, 1.8, 2.5):
        ratio = np.exp(theta * nodes - theta**2 / 2)
        ideal = math.sqrt(weights @ ratio**2 - 1)
        found = []
        for tau in np.linspace(0.05, 3, 400):
            score = (nodes - tau) * np.exp(tau * nodes)
            moved = weights @ (score * ratio) - weights @ score
            found.append(moved / math.sqrt(weights @ score**2 - (weights @ score) ** 2) / ideal)
        assert attention_efficiency(theta) == pytest.approx(max(found), abs=2e-5)
    assert min(attention_efficiency(theta) for theta in np.geomspace(0.01, 100, 400)) > 0.988


def test_seeds():
    task = rare_and_weak(100, 0.6, 0.3)
    for test in ("higher criticism", "attention", "bayes"):
        one, again, other = (
            detection_error(task, test, draws=1024, seed=seed) for seed in (1, 1, 2)
        )
        assert one == again and one.standard_error == again.standard_error and one != other
    assert attention_regret(task, draws=64, seed=1) == attention_regret(task, draws=64, seed=1)


# --------------------------------------------------------------------------------- regret


@pytest.mark.parametrize(
    "task", [rare_and_weak(60, 0.55, 0.4), rare_and_weak(120, 0.8, 0.7), Task(20, 1, 2.0, 0.3)]
)
def test_regret_is_what_attention_adds(task):
    """Beside the oracles, which draw other samples and integrate a token out."""
    floor, regret = attention_regret(task, draws=4096)
    bayes, attention = (
        detection_error(task, test, draws=1 << 13) for test in ("bayes", "attention")
    )
    assert within(floor, bayes)
    assert within(Estimate(floor + regret, floor.standard_error), attention)
    assert 0 <= regret and within(
        Estimate(regret, regret.standard_error),
        Estimate(attention - bayes, math.hypot(attention.standard_error, bayes.standard_error)),
    )
    assert regret.standard_error < floor.standard_error / 3  # what it is for


def test_nothing_to_lose():
    floor, regret = attention_regret(Task(6, 6, 1.0), draws=2048)  # the mean is Bayes' own
    assert regret < 0.002 and abs(floor - ndtr(-math.sqrt(6) / 2)) < 4 * floor.standard_error
    assert attention_regret(Task(50, 5, 20.0), draws=128).bayes < 1e-6


@pytest.mark.parametrize("task", [Task(3000, 1, 3.0), Task(3000, 40, 1.2), Task(1500, 150, 0.5)])
def test_small_tokens_through_their_powers(task):
    """Long samples, beside the recursion that takes every token by itself."""
    tokens = np.random.default_rng(4).standard_normal((6, task.length))
    tokens[:3, : task.sparsity] += task.strength
    lower, upper = log_elementary(task.strength * tokens, task.sparsity)
    *_, below, at = log_subset_sums(task.strength * tokens, task.sparsity)
    np.testing.assert_allclose(upper, at[:, -1], atol=1e-7)
    np.testing.assert_allclose(lower, below[:, -1], atol=1e-7)


# ------------------------------------------------------------------------- bad arguments


def test_bad_arguments_are_named():
    task = Task(20, 2, 1.0)
    for bad in (0.0, 1.0, -1, math.nan, "b"):
        with pytest.raises(
            InvalidInput, match="detection_boundary: rarity must be a number above 0"
        ):
            detection_boundary(bad)
        with pytest.raises(InvalidInput, match="maximum_boundary: rarity must be"):
            maximum_boundary(bad)
        with pytest.raises(InvalidInput, match="rare_and_weak: rarity must be"):
            rare_and_weak(100, bad, 0.5)
    with pytest.raises(InvalidInput, match="length must be a whole number between 2 and 1000000"):
        rare_and_weak(1, 0.5, 0.5)
    with pytest.raises(InvalidInput, match="amplitude must be"):
        rare_and_weak(100, 0.5, -0.1)
    with pytest.raises(InvalidInput, match="strength must be a number above 0"):
        attention_efficiency(0.0)
    with pytest.raises(InvalidInput, match=r"test must be one of 'pooled', .* got 'median'"):
        detection_error(task, "median")
    for draws, words in ((1000, "between 1024"), (1025, "a power of two, got 1025")):
        with pytest.raises(InvalidInput, match=f"draws must be .*{words}"):
            detection_error(task, "bayes", draws=draws)
    with pytest.raises(InvalidInput, match="sparsity must be a whole number between 1 and 19"):
        detection_error(Task(20, 20, 1.0), "maximum")
    with pytest.raises(InvalidInput, match="detection_error: the Bayes test must need at most"):
        detection_error(Task(10**6, 5000, 1.0), "bayes")
    with pytest.raises(InvalidInput, match="attention_regret: draws must be"):
        attention_regret(task, draws=10)
    with pytest.raises(InvalidInput, match="attention_regret: length must be"):
        attention_regret(Task(10**6, 2, 1.0))


def test_cells_are_keyed_by_everything():
    task = Task(20, 2, 1.0)
    cells = [
        *(DetectionCell(task, test) for test in TESTS), DetectionCell(task, "bayes", 2048),
        DetectionCell(task, "bayes", seed=1), DetectionCell(Task(20, 2, 1.1), "bayes"),
        RegretCell(task), RegretCell(task, 128), RegretCell(task, seed=1),
    ]  # fmt: skip
    assert len({cell.units()[0].key for cell in cells}) == len(cells)

"""The best cut: of a smooth cost, of counted values, of mixtures of Gaussians."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from sparsetoken.model.cuts import counted_cut, smooth_cut
from sparsetoken.model.law import Readout
from sparsetoken.model.scores import Mixture, Scores


def mixture(*atoms):
    return Mixture(*(np.array(part, dtype=float) for part in zip(*atoms, strict=True)))


def test_counted_cut_against_every_cut():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, gains = rng.normal(size=12).round(1), rng.normal(size=12)  # with ties
        cuts = np.concatenate([[-9.0], np.unique(values)]) + 0.01
        sums = [gains[values <= cut].sum() for cut in cuts]
        cut = counted_cut(values, gains)
        assert cut.cost == pytest.approx(min(sums), abs=1e-12)
        assert gains[values <= cut.threshold].sum() == pytest.approx(cut.cost, abs=1e-12)


def test_one_class_for_all():
    values = np.arange(4.0)
    assert counted_cut(values, np.ones(4)).threshold == -math.inf
    assert counted_cut(values, -np.ones(4)).threshold == math.inf


def test_smooth_cut_is_refined_beyond_its_grid():
    grid = np.linspace(0, 3, 7)
    cost, threshold = smooth_cut(lambda c: (c - 1.234) ** 2, grid, (grid - 1.234) ** 2, 1e-9)
    assert threshold == pytest.approx(1.234, abs=1e-6) and cost < 1e-12


@pytest.mark.parametrize("apart", [0.1, 2.0, 30.0])
@pytest.mark.parametrize(("miss", "alarm"), [(0.5, 0.5), (0.9, 0.02)])
def test_two_gaussians_have_a_closed_form(apart, miss, alarm):
    scores = Scores(mixture((apart, 1, 1)), mixture((0, 1, 1)), 0.5)
    closed = apart / 2 + math.log(alarm / miss) / apart
    expected = miss * ndtr(closed - apart) + alarm * ndtr(-closed)
    cut = scores.best_cut(miss, alarm)
    assert cut.cost == pytest.approx(min(expected, miss, alarm), rel=1e-12)
    assert cut.cost <= min(miss, alarm)


def test_of_two_valleys_the_lower():
    """A strong and a weak part of the positives: a cut below both, or between them."""
    for weight in np.linspace(0.05, 0.95, 10):
        positive = mixture((3.0, 1, weight), (300.0, 1, 1 - weight))
        scores = Scores(positive, mixture((0, 1, 1)), 0.3)
        grid = np.linspace(-5, 305, 100_001)
        brute = 0.3 * (1 - positive.above(grid)) + 0.7 * scores.negative.above(grid)
        assert scores.best_cut(0.3, 0.7).cost == pytest.approx(brute.min(), abs=1e-6)


def test_points_without_noise_are_counted():
    rng = np.random.default_rng(1)
    up, down = rng.normal(1, 1, 400), rng.normal(0, 1, 300)
    weights = rng.random(400)
    weights /= weights.sum()
    negative = Mixture(down, np.zeros(300), np.full(300, 1 / 300))
    scores = Scores(Mixture(up, np.zeros(400), weights), negative, 0.5)
    cost, threshold = scores.best_cut(0.5, 0.5)
    brute = min(
        0.5 * weights[up <= cut].sum() + 0.5 * np.mean(down > cut) for cut in np.append(up, down)
    )
    assert cost == pytest.approx(brute, abs=1e-12)
    direct = 0.5 * weights[up <= threshold].sum() + 0.5 * np.mean(down > threshold)
    assert direct == pytest.approx(brute, abs=1e-12)


def test_many_atoms_are_merged_for_the_search_alone():
    import sparsetoken as st

    law = st.Attention(0.9, 1.5).law(st.Task(10, 1, 5.0))
    scores = law.scores(Readout(np.array([1.0, 0.8]), -2.0, 0.3))
    grid = np.linspace(-2, 3, 401)
    brute = 0.5 * scores.positive.below(grid) + 0.5 * scores.negative.above(grid)
    assert scores.best_cut(0.5, 0.5).cost <= brute.min() * (1 + 1e-5)

"""Other tokens: their moments, the Gaussian ones beside theory, whitening, seeds, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.simulation.settings import Settings
from sparsetoken.simulation.tokens import run as plain_run
from sparsetoken.simulation.universality import (
    DepartedStream,
    Departure,
    run_departed,
    whitening,
)
from sparsetoken.studies.cells import Cell
from sparsetoken.studies.departures import DepartureCell
from sparsetoken.support.errors import InvalidInput

TASK = st.Task(10, 1, 5.0)
PROTOCOL = st.Protocol(query_samples=2.0, readout_samples=4.0, ridge=1e-2)
KINDS = [
    ("gaussian", None, 3.0),
    ("rademacher", None, 1.0),
    ("student", 9.0, 3 + 6 / 5),
    ("sparse", 0.1, 10.0),
    ("elliptical", 9.0, 3 * 7 / 5),
]


def settings(classifier, dim=40, seed=0, task=TASK, **options):
    return Settings(task, classifier, PROTOCOL, dim, seed, "tokens", **options)


def runs(departure, classifier=None, repeats=24, dim=40):
    mine = settings(classifier or st.Attention(), dim, test_samples=2000)
    return [run_departed(mine, departure, index) for index in range(repeats)]


def mean(values):
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))


@pytest.mark.parametrize(("noise", "shape", "fourth"), KINDS)
def test_moments(noise, shape, fourth):
    drawn = Departure(noise, shape).draw((40_000, 5), np.random.default_rng(0))
    n = len(drawn)
    assert np.abs(drawn.mean(axis=0)).max() < 5 / math.sqrt(n)
    covariance = drawn.T @ drawn / n
    assert np.abs(covariance - np.eye(5)).max() < 5 * math.sqrt(fourth / n)
    assert abs(np.mean(drawn**4) / fourth - 1) < 0.2
    assert len(np.unique(drawn)) == {"rademacher": 2, "sparse": 3}.get(noise, drawn.size)
    sizes = (drawn**2).sum(axis=1)  # one scale for a token makes its coordinates dependent
    alone = np.var(drawn**2, axis=0).sum()
    assert (sizes.var() > 1.3 * alone) == (noise == "elliptical")


def test_coloured_noise_has_its_covariance():
    root = Departure(correlation=0.6).root(4)
    expected = [[1, 0.6, 0.36, 0.216], [0.6, 1, 0.6, 0.36], [0.36, 0.6, 1, 0.6]]
    assert np.allclose((root @ root.T)[:3], expected)
    assert Departure().root(4) is None
    rng = np.random.default_rng(0)
    assert Departure(direction="coordinate").signal(3, rng).tolist() == [1, 0, 0]
    signal = Departure(correlation=0.6, whitening=math.inf).signal(4, rng)
    assert math.isclose(signal @ np.linalg.solve(root @ root.T, signal), 1)  # strength 1, whitened


def test_gaussian_tokens_obey_the_theory_and_are_those_of_the_other_sampler():
    departed = runs(Departure())
    theory = st.predict(TASK, st.Attention(), PROTOCOL)
    for found, expected in (
        ([each.test_error for each in departed], theory.test_error),
        ([each.query.cosine for each in departed], theory.query.cosine),
        ([each.query.norm for each in departed], theory.query.norm),
        ([each.train_loss for each in departed], theory.train_loss),
    ):
        value, error = mean(found)
        assert abs(value - expected) < 4 * error + 3 / 40
    mine = settings(st.Attention(), test_samples=2000)
    others = [
        plain_run(
            TASK, mine.classifier, PROTOCOL, 40, mine.sizes, np.random.SeedSequence(i), mine.place,
            2000, False, "stages",
        ) for i in range(24)
    ]  # fmt: skip
    for name in ("test_error", "train_loss", "readout_norm"):
        (one, a), (other, b) = (
            mean([getattr(each, name) for each in both]) for both in (departed, others)
        )
        assert abs(one - other) < 4 * math.hypot(a, b), name


def test_a_signal_along_a_coordinate_sees_that_coordinate_alone():
    theory = st.predict(TASK, st.Attention(), PROTOCOL).test_error
    for direction, agrees in (("random", True), ("coordinate", False)):
        departed = runs(Departure("rademacher", direction=direction), repeats=12, dim=80)
        value, error = mean([each.test_error for each in departed])
        assert (abs(value - theory) < 4 * error + 1.1 / 80) == agrees
        assert agrees or value < theory / 4  # ±1 never looks like a signal of 5


@pytest.mark.parametrize("many", [16.0, math.inf])
def test_whitening_recovers_the_theory(many):
    theory = st.predict(TASK, st.Pooled(), PROTOCOL).test_error
    raw, whitened = (
        mean([each.test_error for each in runs(departure, st.Pooled(), 12)])
        for departure in (
            Departure(correlation=0.8),
            Departure(correlation=0.8, whitening=many),
        )
    )
    assert abs(raw[0] - theory) > 0.1
    assert abs(whitened[0] - theory) < 4 * whitened[1] + 1.1 / 40


def test_the_whitener_whitens():
    departure = Departure(correlation=0.8, whitening=math.inf)
    root = departure.root(6)
    found = whitening([], departure, 6)
    assert np.allclose(found @ root @ root.T @ found, np.eye(6))
    mine = settings(st.Pooled(), dim=6)
    labels = np.where(np.arange(4000) % 2, 1.0, -1.0)
    stream = DepartedStream(
        TASK, labels, np.eye(6)[0], np.random.SeedSequence(0), mine.place, departure, root
    )
    estimated = whitening([stream], Departure(correlation=0.8, whitening=3000.0), 6)
    assert np.abs(estimated - found).max() < 0.1
    positive = DepartedStream(
        TASK, np.ones(9), np.eye(6)[0], np.random.SeedSequence(0), mine.place, departure, root
    )
    with pytest.raises(InvalidInput, match="whitening needs at least 6 noise tokens"):
        whitening([positive], Departure(correlation=0.8, whitening=2.0), 6)


def test_seeds_reproduce():
    mine = settings(st.Attention(), 20, test_samples=500)
    departure = Departure("student", 5.0, correlation=0.5, whitening=4.0)
    first, again, other = (run_departed(mine, departure, index) for index in (3, 3, 4))
    assert (first.test_error, first.query) == (again.test_error, again.query)
    assert first.query != other.query
    row = DepartureCell(
        Cell(
            TASK, st.Attention(), PROTOCOL, "simulation", 20, 5, sampler="tokens", test_samples=500
        ),
        departure,
    )
    assert row.compute(3)[1]["cosine"] == pytest.approx(first.query.cosine, rel=1e-9)
    assert row.count == 5 and len({unit.key for unit in row.units()}) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"noise": "cauchy"}, "noise must be one of 'gaussian', .*, got 'cauchy'"),
        ({"direction": "up"}, "direction must be one of 'random', 'coordinate', got 'up'"),
        ({"noise": "student"}, "shape must be a number above 2 and at most 1e"),
        ({"noise": "student", "shape": 2.0}, "shape must be a number above 2 .*, got 2.0"),
        ({"noise": "sparse", "shape": 1.5}, "shape must be a number above 0 and at most 1, got"),
        ({"shape": 3.0}, "shape must be None for 'gaussian' noise, got 3.0"),
        ({"correlation": 1.0}, "correlation must be a number at least 0 and below 1, got 1.0"),
        ({"whitening": 0.5}, "whitening must be a number at least 1 .*, got 0.5"),
    ],
)
def test_bad_names_get_a_sentence(arguments, words):
    with pytest.raises(InvalidInput, match="Departure: " + words):
        Departure(**arguments)


def test_other_settings_are_refused():
    reduced = Settings(TASK, st.Pooled(), PROTOCOL, 20)
    with pytest.raises(InvalidInput, match=r"sampler='tokens', .* got 'reduced'"):
        run_departed(reduced, Departure(), 0)
    shared = st.Task(10, 1, 5.0, token_correlation=0.1)
    with pytest.raises(InvalidInput, match=r"task must have one strength, .* independent tokens"):
        run_departed(settings(st.Pooled(), task=shared), Departure(), 0)
    plain = Cell(TASK, st.Pooled(), PROTOCOL, "simulation", 20)
    with pytest.raises(InvalidInput, match="cell must have kind='simulation', sampler='tokens'"):
        DepartureCell(plain, Departure())
    with pytest.raises(InvalidInput, match="departure must be a Departure, got 'rademacher'"):
        DepartureCell(plain, "rademacher")

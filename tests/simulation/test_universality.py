"""Other tokens: the Gaussian ones beside theory, whitening, every classifier, seeds, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.noise import Coloured, Sparse, Student
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.settings import Settings
from sparsetoken.simulation.tokens import TokenStream, draw_streams, run
from sparsetoken.simulation.universality import Departure, run_departed, whitening
from sparsetoken.studies.cells import Cell
from sparsetoken.studies.departures import DepartureCell
from sparsetoken.support.errors import InvalidInput

TASK = st.Task(10, 1, 5.0)
PROTOCOL = st.Protocol(query_samples=2.0, readout_samples=4.0, ridge=1e-2)


def settings(classifier, dim=40, seed=0, task=TASK, **options):
    return Settings(task, classifier, PROTOCOL, dim, seed, "tokens", **options)


def runs(departure, classifier=None, repeats=24, dim=40):
    mine = settings(classifier or st.Attention(), dim, test_samples=2000)
    return [run_departed(mine, departure, index) for index in range(repeats)]


def mean(values):
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))


def test_directions_and_strengths_of_the_signal():
    rng = np.random.default_rng(0)
    assert Departure(direction="coordinate").signal(3, rng).tolist() == [1, 0, 0]
    departure = Departure(correlation=0.6, whitening=math.inf)
    signal = departure.signal(4, rng)
    covariance = departure.covariance(4)
    assert math.isclose(signal @ np.linalg.solve(covariance, signal), 1)  # strength 1, whitened


def test_names_and_shapes_are_noises():
    assert Departure("student", 5).token_noise == Student(5.0)
    assert Departure("sparse", 0.1, 0.6).token_noise == Coloured(0.6, Sparse(0.1))


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
    others = [run(mine, draw_streams(mine, np.random.SeedSequence(i))) for i in range(24)]
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
    found = whitening([], departure, 6)
    assert np.allclose(found @ departure.covariance(6) @ found, np.eye(6))

    def stream(labels):
        seed, noise = np.random.SeedSequence(0), departure.token_noise
        return TokenStream(TASK, noise, labels, np.eye(6)[0], seed, Device())

    labels = np.where(np.arange(4000) % 2, 1.0, -1.0)
    estimated = whitening([stream(labels)], Departure(correlation=0.8, whitening=3000.0), 6)
    assert np.abs(estimated - found).max() < 0.1
    with pytest.raises(InvalidInput, match="whitening needs at least 6 noise tokens"):
        whitening([stream(np.ones(9))], Departure(correlation=0.8, whitening=2.0), 6)


def test_every_classifier_meets_other_tokens():
    """Frozen queries, and tokens side by side: some coordinates at a time, or all of them."""
    theory = st.predict(TASK, st.Vectorized(), PROTOCOL).test_error
    for noise in (Departure("rademacher"), Departure(correlation=0.6, whitening=math.inf)):
        value, error = mean([each.test_error for each in runs(noise, st.Vectorized(), 12)])
        assert abs(value - theory) < 4 * error + 1.1 / 40
    frozen = st.Attention(cosine=0.9, sharpness=1.0)
    departed = runs(Departure(correlation=0.6, whitening=math.inf), frozen, 12)
    value, error = mean([each.test_error for each in departed])
    assert abs(value - st.predict(TASK, frozen, PROTOCOL).test_error) < 4 * error + 1.1 / 40


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
        ({"noise": "cauchy"}, "Departure: noise must be one of gaussian, .*, got 'cauchy'"),
        (
            {"direction": "up"},
            "Departure: direction must be one of 'random', .*, got 'up'",
        ),
        ({"noise": "student"}, "Student: shape must be a number above 2 and at most 1e"),
        ({"noise": "student", "shape": 2.0}, "Student: shape must be a number above 2 .*, got 2.0"),
        (
            {"noise": "sparse", "shape": 1.5},
            "Sparse: shape must be a number above 0 .*, got 1.5",
        ),
        ({"shape": 3.0}, "Departure: shape must be None for 'gaussian' noise, got 3.0"),
        (
            {"correlation": 1.0},
            "Departure: correlation must be .* at least 0 and below 1, got 1.0",
        ),
        ({"whitening": 0.5}, "Departure: whitening must be a number at least 1 .*, got 0.5"),
    ],
)
def test_bad_names_get_a_sentence(arguments, words):
    with pytest.raises(InvalidInput, match=words):
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

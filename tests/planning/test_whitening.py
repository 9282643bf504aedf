"""Plans where noise is not white: those of whitened tokens, and what they say of a shrinkage."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.fitting.fit import fit
from sparsetoken.planning.report import whitening_words
from sparsetoken.planning.whitening import Whitening, whitening_of

SPECTRUM = st.Spectrum((0.25, 4.0), (0.8, 0.2), (0.5, 0.5))
ASKED = st.Task(5, 1, 2.5, noise=SPECTRUM)
STRETCH = np.sqrt(0.5 / 0.25 + 0.5 / 4.0)
WHITE = st.Task(5, 1, 2.5 * STRETCH)


@pytest.fixture(scope="module")
def advice():
    return st.plan(ASKED, 40, samples=200, check=True)


def test_a_plan_is_that_of_the_whitened_task(advice):
    plain = st.plan(WHITE, 40, samples=200, check=True)
    assert advice.task.is_white and advice.task.strength == pytest.approx(WHITE.strength)
    assert advice.best.classifier == plain.best.classifier
    for option in plain.options:
        assert advice[option.classifier].value == pytest.approx(option.value, rel=1e-6)
    np.testing.assert_allclose(advice.check.values, plain.check.values, rtol=1e-6)
    assert plain.whitening is None and advice.whitening.task == ASKED


def test_whitened_tokens_do_what_the_plan_says(advice):
    """Coloured tokens, times the inverse root, pooled and fitted."""
    root = np.repeat(np.array(SPECTRUM.eigenvalues) ** -0.5, SPECTRUM.counts(40))
    option, errors = advice["pooled"], []
    for seed in range(30):
        sample = ASKED.sample(200, 40, rng=seed)
        fresh = ASKED.sample(2000, 40, rng=1000 + seed, signal=sample.signal)
        train, test = (root * drawn.tokens.mean(axis=1) for drawn in (sample, fresh))
        fitted = fit(train, sample.labels, option.protocol.loss, option.protocol.ridge)
        errors.append(np.mean(fresh.labels * (test @ fitted.weights + fitted.bias) < 0))
    own = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - option.value) < 4 * np.hypot(own, option.value.standard_error)
    assert np.linalg.norm(root * sample.signal) == pytest.approx(STRETCH)
    value, check = advice.best.value, advice.check
    assert abs(check.mean - value) < 4 * np.hypot(check.standard_error, value.standard_error)


def test_it_says_what_is_done_to_tokens_and_what_a_shrinkage_would_add(advice):
    text, best = str(advice), advice.whitening.shrinkage
    assert "Tokens are to be whitened first" in text
    assert f"the strength is {STRETCH:.4g} times the task's then" in text
    option = advice.best
    limit = st.predict(WHITE, option.tuned.classifier, option.protocol).test_error
    assert best.white == pytest.approx(limit, rel=1e-6) and best.test_error <= best.white


def test_whether_a_shrinkage_would_do_better_is_a_sentence():
    shrunk = st.Shrinkage(0.3, st.Estimate(0.05), st.Estimate(0.08), st.Estimate(0.06))
    whitening = Whitening(ASKED, 1.5, shrunk)
    assert whitening_words(whitening).endswith(
        "In many dimensions, trained in the same way, a shrinkage of 0.3 would do better: test "
        "error 0.05 instead of 0.06."
    )
    full = shrunk._replace(shrinkage=0.0, test_error=shrunk.white)
    whitening = Whitening(ASKED, 1.5, full)
    assert whitening_words(whitening).endswith(
        "trained in the same way, no shrinkage would do better."
    )


def test_matrices_are_planned_in_their_own_dimension():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((6, 12))
    noise = factor @ factor.T / 12
    task = st.Task(4, 1, 3.0, noise=st.Covariances(noise, None, np.ones(6)))
    white, xi = whitening_of(task, 6).white, np.ones(6) / np.sqrt(6)
    assert white.noise == st.White() and white.strength == pytest.approx(
        3.0 * np.sqrt(xi @ np.linalg.solve(noise, xi))
    )
    with pytest.raises(st.InvalidInput, match="dim must be 6"):
        st.plan(task, 7, samples=60)


OWN = "plan --length 5 --sparsity 1 --strength 2.5 --dim 40 --samples 200 --no-check".split()


def test_the_command_refuses_a_spread(capsys):
    assert main([*OWN, "--power-law", "0.8", "--signal-spread", "3"]) == 2
    error = capsys.readouterr().err
    assert "signal tokens must have the covariance of the noise" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.slow
def test_the_command_plans_coloured_noise(capsys, tmp_path):
    path = tmp_path / "noise.json"
    names = ("eigenvalues", "density", "signal_share")
    path.write_text(json.dumps({name: getattr(SPECTRUM, name) for name in names}))
    assert main([*OWN, "--spectrum", str(path), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["whitening"]["stretch"] == pytest.approx(STRETCH)
    assert content["whitening"]["best"]["shrinkage"] <= 1
    assert content["task"]["strength"] == pytest.approx(WHITE.strength)

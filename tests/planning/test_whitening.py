"""Plans where noise is not white: the shrinkage of whitening is a knob, a spread is no obstacle."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.fitting.fit import fit
from sparsetoken.planning.metrics import Error
from sparsetoken.planning.outlook import capacities
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.tuning import Knobs
from sparsetoken.planning.whitening import tuners

SPECTRUM = st.Spectrum((0.25, 4.0), (0.8, 0.2), (0.5, 0.5))
ASKED = st.Task(5, 1, 2.5, noise=SPECTRUM)
STRETCH = np.sqrt(0.5 / 0.25 + 0.5 / 4.0)
WHITE = st.Task(5, 1, 2.5 * STRETCH)
CLOUD = st.Task(5, 1, 4.0, noise=st.Spectrum.power_law(1.0, 20), signal_spread=(6.0,) * 20)
LOUD = st.Task(5, 1, 3.0, noise=st.Spectrum((4.0, 1.0), (0.1, 0.9), (0.9, 0.1)))


@lru_cache
def advice_on(task, **question):
    return st.plan(task, 40, **question or {"samples": 200, "check": True})


def simulated(task, option, dim, repeats=40):
    """Test errors of what was recommended, on tokens whitened as it says."""
    met = task if option.shrinkage is None else st.whitened(task, option.shrinkage)
    kind = st.CLASSIFIERS.make(option.classifier)
    return np.array(st.simulate(met, kind, option.protocol, dim, repeats, seed=3).test_error)


def agree(errors, value, dim=40):
    own = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - value) < 4 * np.hypot(own, value.standard_error) + 2 / dim


def test_where_the_signal_is_everywhere_it_is_the_plan_of_the_white_task():
    advice, plain = advice_on(ASKED), advice_on(WHITE)
    assert advice.best.classifier == plain.best.classifier and advice.best.shrinkage == 0
    assert advice.task == ASKED and plain.best.shrinkage is None
    for option in plain.options:
        found = advice[option.classifier]
        assert found.shrinkage == 0 and found.limit == pytest.approx(option.limit, rel=1e-6)
        assert found.value == pytest.approx(option.value, rel=1e-6)
    np.testing.assert_allclose(advice.check.values, plain.check.values, rtol=1e-6)
    assert "Tokens are to be whitened first, with all of the noise's" in str(advice)
    assert "whitened" not in str(plain) and "shrinkage" not in plain.to_frame()


def test_whitened_tokens_do_what_the_plan_says():
    """Coloured tokens, times the root that the plan names, pooled and fitted."""
    option = advice_on(LOUD)["pooled"]
    gamma = option.shrinkage
    variances = np.repeat(np.array(LOUD.noise.eigenvalues), LOUD.noise.counts(40))
    root = ((1 - gamma) * variances + gamma * variances.mean()) ** -0.5
    errors = []
    for seed in range(30):
        sample = LOUD.sample(200, 40, rng=seed)
        fresh = LOUD.sample(2000, 40, rng=1000 + seed, signal=sample.signal)
        train, test = (root * drawn.tokens.mean(axis=1) for drawn in (sample, fresh))
        fitted = fit(train, sample.labels, option.protocol.loss, option.protocol.ridge)
        errors.append(np.mean(fresh.labels * (test @ fitted.weights + fitted.bias) < 0))
    agree(errors, option.value)


@pytest.mark.parametrize("task", [LOUD, CLOUD, st.Task(5, 1, 4.0, signal_spread=4.0)])
def test_what_is_recommended_is_simulated_as_it_stands(task):
    advice = advice_on(task)
    for option in advice.options:
        agree(simulated(task, option, 40), option.value)
    check = advice.check
    error = np.hypot(check.standard_error, advice.best.value.standard_error)
    assert abs(check.mean - advice.best.value) < 4 * error + 2 / 40


def test_a_signal_in_loud_directions_is_not_whitened_in_full():
    """And that is better than full whitening by simulation too."""
    advice = advice_on(LOUD)
    for name in ("attention", "pooled"):
        option = advice[name]
        assert option.shrinkage > 0
        setting = Setting(40, st.Logistic(), Error())
        full = tuners(setting, st.whitened(LOUD))[name].best(st.whitened(LOUD), 200)
        assert option.value < full.value
        whole = np.array(
            st.simulate(
                st.whitened(LOUD), full.classifier, full.protocol, 40, repeats=40, seed=3
            ).test_error
        )
        gap = whole - simulated(LOUD, option, 40)
        assert gap.mean() > 2 * gap.std(ddof=1) / np.sqrt(len(gap))
    assert f"with a shrinkage of {advice.best.shrinkage:g}" in str(advice)


def test_the_best_of_all_shrinkages_tried():
    """None of the others, each with share, sharpness and ridge tuned, is better by a percent."""
    option = advice_on(CLOUD)["pooled"]
    tuner = tuners(Setting(40, st.Logistic(), Error()), CLOUD)["pooled"]
    for gamma in (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0):
        start = Knobs(option.protocol.ridge, shrinkage=gamma)
        knobs = tuner.search(CLOUD, 200, start)
        assert knobs.shrinkage == gamma
        assert tuner.predict(CLOUD, 200, knobs).value > 0.985 * option.value


def test_the_fewest_samples_for_a_cloud():
    advice = advice_on(CLOUD, target_error=0.25, check=False)
    option = advice.best
    assert option.value <= 0.25 and option.needed == option.tuned.count
    agree(simulated(CLOUD, option, 40), option.value)
    fewer = replace(advice.unknown, task=CLOUD).task_at(option.needed)
    less = tuners(advice.setting, fewer)[option.classifier].best(fewer, int(0.8 * option.needed))
    assert less.value > 0.25


def test_matrices_are_planned_in_their_own_dimension():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((2, 12, 24))
    noise, signal = factors @ factors.swapaxes(1, 2) / 24
    task = st.Task(4, 1, 4.0, noise=st.Covariances(noise, 3 * signal, np.ones(12)))
    advice = st.plan(task, 12, samples=150, check=False)
    for option in advice.options:
        assert option.shrinkage == 0
        agree(simulated(task, option, 12), option.value, 12)
    with pytest.raises(st.InvalidInput, match="dim must be 12"):
        st.plan(task, 13, samples=60)


def test_a_spectrum_of_more_eigenvalues_than_dimensions():
    task = st.Task(5, 1, 3.0, noise=st.Spectrum.power_law(0.8))
    advice = st.plan(task, 20, samples=100, check=False)
    assert advice.task == task.for_dim(20)
    agree(simulated(advice.task, advice["pooled"], 20), advice["pooled"].value, 20)


@pytest.mark.parametrize("task", [LOUD, CLOUD])
def test_floors_and_capacities_of_such_plans(task):
    """With a spread the floors are those of mean pooling and of any test, at this size."""
    advice = advice_on(task)
    floors = st.floors(advice)
    assert 0 < floors.errors["bayes"] < floors.errors["pooled"] <= advice["pooled"].value
    assert ("attention" in floors.left_out) == task.has_spread
    assert floors.errors["bayes"] == pytest.approx(
        st.bayes_error(task, dim=40 if task.has_spread else None), rel=1e-9
    )
    found = capacities(advice)
    assert found["pooled"] == pytest.approx(40 * st.capacity(task, st.Pooled()), rel=1e-6)
    assert 0 < found["attention"] < found["vectorized"]


OWN = "plan --length 5 --sparsity 1 --strength 2.5 --dim 40 --samples 200 --no-check".split()


@pytest.mark.slow
@pytest.mark.parametrize("spread", [None, 3.0])
def test_the_command_plans_coloured_noise(capsys, tmp_path, spread):
    path = tmp_path / "noise.json"
    names = ("eigenvalues", "density", "signal_share")
    path.write_text(json.dumps({name: getattr(SPECTRUM, name) for name in names}))
    more = [] if spread is None else ["--signal-spread", str(spread)]
    assert main([*OWN, "--spectrum", str(path), *more, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    advice = advice_on(replace(ASKED, signal_spread=spread), samples=200, check=False)
    assert content["recommended"] == advice.best.classifier
    for row, option in zip(content["options"], advice.options, strict=True):
        assert row["shrinkage"] == option.shrinkage
        assert row["value"] == pytest.approx(option.value, rel=1e-6)

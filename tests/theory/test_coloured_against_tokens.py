"""Theory against tokens over spectra and spreads: 60 random settings; matrices, weightings.

Spectra from flat to 1/k² of 1 to 200 atoms, signals that are points, as wide as the noise, or
clouds of another shape, all classifiers and losses, learned and frozen queries. Every comparison
allows four standard errors of the simulated mean, and 5/d for its finite size.
"""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st

SETTINGS = 60
QUICK = (1, 6, 9, 31)  # two covariances, frozen and learned; one, learned; four atoms
LOSSES = [st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber()]


def setting(seed):
    """A task, a classifier, a protocol and a dimension."""
    rng = np.random.default_rng([2022, seed])
    length = int(rng.integers(2, 8))
    sparsity = int(rng.integers(1, max(2, length // 2 + 1)))
    atoms = [1, 1, 2, 3, 4, 20, 100, 200][rng.integers(8)]
    exponent = [0.0, 0.5, 1.0, 2.0][rng.integers(4)]
    values = np.arange(1, atoms + 1.0) ** -exponent
    if atoms <= 4:
        density, share = rng.dirichlet(np.full(atoms, 4.0)), rng.dirichlet(np.full(atoms, 2.0))
    else:
        density, share = np.full(atoms, 1 / atoms), values ** rng.choice([0.0, 0.5]) / atoms
        share /= share.sum()
    values /= density @ values
    kind = rng.integers(4)
    spread = None
    if kind == 1:
        spread = float(rng.choice([0.0, 0.3, 2.0, 10.0]))
    if kind == 2:
        spread = tuple((values * rng.uniform(0.2, 4.0, atoms)).tolist())
    if kind == 3:
        spread = tuple(values[::-1].tolist())
    plain = atoms == 1 and exponent == 0
    noise = st.White() if plain else st.Spectrum(tuple(values), tuple(density), tuple(share))
    if atoms == 1 and isinstance(spread, tuple):
        spread = (float(rng.uniform(0, 10)),)
    strength, prevalence = float(rng.uniform(1.5, 5.0)), float(rng.uniform(0.15, 0.6))
    task = st.Task(length, sparsity, strength, prevalence, noise=noise, signal_spread=spread)
    loss, which = LOSSES[rng.integers(4)], int(rng.integers(4))
    classifier = [
        st.Attention(),
        st.Attention(float(rng.uniform(0.3, 1.0)), float(rng.uniform(0.3, 2.0))),
        st.Pooled(),
        st.Vectorized(),
    ][which]
    samples = float(rng.uniform(0.8, 4.0)) * (length**0.5 if which == 3 else 1)
    protocol = st.Protocol(
        float(rng.uniform(2, 5)),
        samples,
        loss,
        ridge=float(10 ** rng.uniform(-3, -0.7)),
        query_step=float(10 ** rng.uniform(0, 1)),
    )
    return task, classifier, protocol, int(rng.choice([300, 400, 500, 600]))


def compare(task, classifier, protocol, dim, seed):
    prediction = st.predict(task, classifier, protocol)
    run = st.simulate(task, classifier, protocol, dim, 6, seed, "tokens", test_samples=4000)
    for name in ("test_error", "train_error", "train_loss"):
        gap = abs(run.mean(name) - getattr(prediction, name))
        assert gap < 4 * run.sem(name) + 5 / dim, (
            f"{name}: simulated {run.mean(name):.4f} ± {run.sem(name):.4f}, predicted "
            f"{getattr(prediction, name):.4f}; {task!r}, {classifier!r}, {protocol!r}, d = {dim}"
        )


@pytest.mark.parametrize("seed", QUICK)
def test_quick_settings(seed):
    compare(*setting(seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in range(SETTINGS) if seed not in QUICK])
def test_random_settings(seed):
    compare(*setting(seed), seed)


def test_the_settings_cover_what_they_should():
    tasks, classifiers, protocols, _ = zip(*map(setting, range(SETTINGS)), strict=True)
    atoms = {len(task.joint_spectrum.noise) for task in tasks}
    assert atoms >= {1, 2, 4, 20, 100, 200}
    kinds = {type(one).__name__ for one in classifiers}
    assert kinds == {"Attention", "Pooled", "Vectorized"} and len(set(classifiers)) > 5
    assert {type(one.loss) for one in protocols} == {type(loss) for loss in LOSSES}
    assert sum(task.has_spread for task in tasks) > 30
    assert sum(not task.joint_spectrum.is_proportional for task in tasks) > 12
    assert sum(one.learns_query for one in classifiers) > 10


LOUD = st.Spectrum((0.3, 1.0, 4.0), (0.5, 0.3, 0.2), (0.2, 0.3, 0.5))
MIXED = st.Task(5, 2, 4.0, 0.4, noise=LOUD, signal_spread=(2.0, 0.5, 6.0))
PLAIN = st.Protocol(3.0, 3.0, ridge=0.02, query_step=3.0)


def with_matrices(dim):
    """A task whose covariances have no eigenvectors in common."""
    rng = np.random.default_rng(11)
    matrices = []
    for scale in (1.0, 3.0):
        turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        values = np.exp(rng.normal(size=dim))
        matrices.append(turn * (scale * values / values.mean()) @ turn.T)
    noise = st.Covariances(
        *(0.5 * (matrix + matrix.T) for matrix in matrices), rng.normal(size=dim)
    )
    assert noise.joint(None) is None
    return st.Task(5, 1, 4.0, 0.4, noise=noise)


@pytest.mark.parametrize(
    "classifier",
    [
        st.Attention(0.8, 1.0),
        st.Pooled(),
        pytest.param(st.Attention(), marks=pytest.mark.slow),
        pytest.param(st.Vectorized(), marks=pytest.mark.slow),
    ],
)
def test_matrices_that_do_not_commute(classifier):
    compare(with_matrices(300), classifier, PLAIN, 300, 1)


@pytest.mark.parametrize(
    "classifier",
    [
        st.Attention(0.8, 1.0, st.TopK(2)),
        pytest.param(st.Attention(weighting=st.TopK(2)), marks=pytest.mark.slow),
        pytest.param(st.Attention(weighting=st.Sparsemax()), marks=pytest.mark.slow),
        pytest.param(st.Attention(0.8, 1.0, st.HardMax()), marks=pytest.mark.slow),
    ],
)
def test_other_weightings_of_coloured_tokens(classifier):
    compare(MIXED, classifier, PLAIN, 300, 1)

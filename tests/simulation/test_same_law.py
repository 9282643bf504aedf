"""The reduced sampler draws the same random variables as the token-level one, and as the witness.

Kolmogorov–Smirnov over a few hundred repeats in a small dimension, where any term of order 1/d that
one of them had forgotten would show.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

import sparsetoken as st
import witness as plain
from sparsetoken.model.queries import draw_query
from sparsetoken.simulation import gram, reduced
from sparsetoken.simulation.devices import Device

DIM, REPEATS = 16, 400
QUANTITIES = ("cosine", "norm", "bias", "readout_norm", "train_loss", "train_error")
CLASSIFIERS = {
    "learned": (st.Attention(), plain.attention),
    "frozen": (st.Attention(cosine=-0.7, sharpness=1.5), plain.attention),
    "pooled": (st.Pooled(), plain.pooled),
    "vectorized": (st.Vectorized(), plain.vectorized),
}
# fewer samples than features, and more (Vectorized has L features for each dimension)
SHAPES = {"n<p": 0.75, "n>p": 4.0}
LOSSES = [st.Logistic(), st.Square()]
TASK = st.Task(length=3, sparsity=1, strength=2.5, prevalence=0.4)
LEAST = 1e-4  # p-value; about a hundred are taken below


def exact_errors(run):
    """Test errors from the law for both samplers: what tokens measure, without its noise."""
    return [run.scores(i).test_error for i in range(len(run)) if run.outcomes[i].readout]


def compare(ours, theirs, name):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    ours, theirs = ours[np.isfinite(ours)], theirs[np.isfinite(theirs)]
    assert len(ours) > 0.9 * REPEATS and len(theirs) > 0.2 * REPEATS
    assert ks_2samp(ours, theirs).pvalue > LEAST, (name, ours.mean(), theirs.mean())


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_reduced_and_tokens(name, shape, loss):
    classifier, _ = CLASSIFIERS[name]
    samples = SHAPES[shape] * (TASK.length if name == "vectorized" else 1)
    protocol = st.Protocol(
        query_samples=3.0, readout_samples=samples, loss=loss, ridge=0.02, query_step=4.0
    )
    settings = dict(task=TASK, classifier=classifier, protocol=protocol, dim=DIM, repeats=REPEATS)
    ours = st.simulate(**settings, seed=1)
    theirs = st.simulate(**settings, seed=2, sampler="tokens", test_samples=200)
    assert (samples * DIM < DIM * (TASK.length if name == "vectorized" else 1)) == (shape == "n<p")
    for quantity in QUANTITIES:
        values = getattr(theirs, quantity)
        if np.isfinite(values).any():
            compare(getattr(ours, quantity), values, quantity)
    compare(exact_errors(ours), exact_errors(theirs), "test_error")
    # what fresh tokens measure is what the law says of the same readout
    gap = theirs.test_error[np.isfinite(theirs.test_error)] - exact_errors(theirs)
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap))


BEYOND = {
    "shared, learned": (st.Task(3, 1, 2.5, 0.4, token_correlation=0.5), st.Attention()),
    "shared, pooled": (st.Task(3, 1, 2.5, 0.4, token_correlation=0.5), st.Pooled()),
    "varying, learned": (
        st.Task(4, st.Discrete([1, 3]), st.Discrete([1.5, 3.0, 5.0])),
        st.Attention(weighting=st.TopK(2)),
    ),
    "silent, learned": (st.Task(4, st.Discrete([0, 2]), 3.0), st.Attention()),
    "varying, pooled": (st.Task(3, st.Discrete([1, 3]), st.Discrete([1.0, 4.0])), st.Pooled()),
    "varying, vectorized": (st.Task(2, 1, st.Discrete([1.0, 4.0])), st.Vectorized()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BEYOND)
def test_reduced_and_tokens_beyond_the_paper(name):
    task, classifier = BEYOND[name]
    protocol = st.Protocol(query_samples=3.0, readout_samples=4.0, loss=st.Square(), ridge=0.02)
    settings = dict(task=task, classifier=classifier, protocol=protocol, dim=DIM, repeats=REPEATS)
    ours = st.simulate(**settings, seed=1)
    theirs = st.simulate(**settings, seed=2, sampler="tokens", test_samples=200)
    for quantity in QUANTITIES:
        values = getattr(theirs, quantity)
        if np.isfinite(values).any():
            compare(getattr(ours, quantity), values, quantity)
    compare(exact_errors(ours), exact_errors(theirs), "test_error")
    gap = theirs.test_error[np.isfinite(theirs.test_error)] - exact_errors(theirs)
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_tokens_and_the_plain_experiment(name):
    """The token-level sampler against an experiment that shares no code with it."""
    classifier, features = CLASSIFIERS[name]
    protocol = st.Protocol(query_samples=3.0, readout_samples=2.0, ridge=0.02, query_step=4.0)
    run = st.simulate(TASK, classifier, protocol, DIM, REPEATS, 3, "tokens", test_samples=200)
    frozen = None if classifier.learns_query else getattr(classifier, "cosine", None)
    query = (frozen, classifier.sharpness) if frozen is not None else None
    plainly = []
    for seed in np.random.SeedSequence(4).spawn(REPEATS // 4):
        rng = np.random.default_rng(seed)
        plainly.append(
            plain.experiment(
                TASK, features, protocol, DIM, rng, classifier.learns_query, query, tests=200
            )
        )
    for quantity in ("cosine", "norm", "train_loss", "train_error", "test_error"):
        if quantity in plainly[0]:
            compare(getattr(run, quantity), [each[quantity] for each in plainly], quantity)


@pytest.mark.slow
@pytest.mark.parametrize("task", [
    st.Task(2, 1, 3.0), st.Task(4, 4, 1.5), st.Task(6, 2, 2.0, 0.1),
    st.Task(4, st.Discrete([1, 3]), st.Discrete([1.0, 4.0]), token_correlation=0.5),
    st.Task(4, st.Discrete([0, 1]), 4.0),
])  # fmt: skip
@pytest.mark.parametrize("loss", [st.Square(), st.SquaredHinge()], ids=repr)
def test_the_query_alone(task, loss):
    """Edge cases of stages 1–3: L = 2, R = L, a rare class."""
    protocol = st.Protocol(query_samples=4.0, loss=loss)
    rng = np.random.default_rng(5)
    dim, n = 3, 24  # so few that a wrong number of degrees of freedom shows
    ours = [draw_query(task, protocol, dim, n, rng) for _ in range(4000)]
    signal = np.eye(dim)[0]
    theirs = []
    for _ in range(4000):
        labels, tokens, _, _ = task.sample(n, dim, rng, signal)
        theirs.append(plain.learn_query(labels, tokens, protocol))
    overlaps = [query @ signal for query in theirs]
    norms = [np.linalg.norm(query) for query in theirs]
    assert ks_2samp([query.overlap for query in ours], overlaps).pvalue > LEAST
    assert ks_2samp([query.norm for query in ours], norms).pvalue > LEAST
    assert ours[0].sharpness == ours[0].norm  # β = 1


@pytest.mark.parametrize("count", [10, 100])
def test_drawn_features_have_their_explicit_coordinates(count):
    """Fewer and more samples than columns: the first are m + σz where noisy, m where not."""
    rng = np.random.default_rng(0)
    labels = np.sign(rng.standard_normal(count))
    coordinates = st.Attention(0.5, 1.0).draw(TASK, labels, rng)
    features = reduced.draw_features(coordinates, 40, Device().source(np.random.SeedSequence(1)))
    assert features.shape == (count, 2 + min(count, 38))
    np.testing.assert_array_equal(features[:, 0], coordinates.means[:, 0])
    noise = (features[:, 1] - coordinates.means[:, 1]) / coordinates.scales
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * count)
    rest = features[:, 2:] / coordinates.scales[:, None]
    lengths = (rest**2).sum(axis=1)  # χ² with 38 degrees of freedom
    assert abs(lengths.mean() - 38) < 4 * np.sqrt(2 * 38 / count)


def test_one_token_has_no_query():
    query = draw_query(st.Task(1, 1, 3.0), st.Protocol(), 10, 20, np.random.default_rng(0))
    assert query == (0.0, 0.0, 0.0)
    run = st.simulate(st.Task(1, 1, 3.0), st.Attention(), st.Protocol(), 30, 2)
    tokens = st.simulate(st.Task(1, 1, 3.0), st.Attention(), st.Protocol(), 30, 2, sampler="tokens")
    assert run.cosine.tolist() == tokens.cosine.tolist() == [0.0, 0.0]
    assert np.isfinite(run.test_error).all() and np.isfinite(tokens.test_error).all()


@pytest.mark.slow
def test_position_weights():
    """Vectorized with uneven places: the readout's own weights by position."""
    task = st.Task(3, 2, 3.0, places=(5, 1, 2))
    protocol = st.Protocol(readout_samples=2.0, ridge=0.05)
    settings = dict(task=task, classifier=st.Vectorized(), protocol=protocol, dim=DIM)
    ours = st.simulate(**settings, repeats=REPEATS, seed=1)
    theirs = st.simulate(**settings, repeats=REPEATS, seed=2, sampler="tokens", test_samples=200)
    compare(exact_errors(ours), exact_errors(theirs), "test_error")
    for position in range(3):
        ours_at, theirs_at = (
            [outcome.readout.weights[position] for outcome in run.outcomes]
            for run in (ours, theirs)
        )
        compare(ours_at, theirs_at, f"weight {position}")


@pytest.mark.slow
def test_a_bartlett_factor_has_the_gram_matrix_of_gaussians():
    """Off-diagonal and diagonal entries of Z Zᵀ, at the first and the last sample."""
    rng = np.random.default_rng(0)
    count, freedoms = 5, 6
    factors, plainly = [], []
    for seed in np.random.SeedSequence(1).spawn(4000):
        source = Device().source(seed)
        factor = gram.bartlett(count, 0, freedoms, source)
        assert np.allclose(factor, np.tril(factor))
        factors.append(factor @ factor.T)
        noise = rng.standard_normal((count, freedoms))
        plainly.append(noise @ noise.T)
    factors, plainly = np.array(factors), np.array(plainly)
    for entry in ((0, 0), (4, 4), (0, 4), (3, 4)):
        assert ks_2samp(factors[:, *entry], plainly[:, *entry]).pvalue > LEAST, entry
    determinants = [np.linalg.slogdet(each)[1] for each in (factors, plainly)]
    assert ks_2samp(*determinants).pvalue > LEAST

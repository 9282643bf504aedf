"""Coloured noise and signals with a spread: tokens, queries, reduced sampler draw one law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

import sparsetoken as st
import witness as plain
from sparsetoken.model.coloured_queries import draw_query_vector
from sparsetoken.model.layout import draw_layout, times
from sparsetoken.simulation import coloured
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.tokens import TokenStream

DIM, REPEATS = 16, 300
LEAST = 1e-4  # p-value; a few hundred are taken below
SPECTRUM = st.Spectrum((0.3, 1.0, 3.0), (0.5, 0.25, 0.25), (0.2, 0.0, 0.8))


def matrices(dim=DIM, seed=0):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((2, dim, dim + 6)) / np.sqrt(dim)
    noise, signal = (root @ root.T for root in roots)
    return st.Covariances(noise, 2 * signal, rng.standard_normal(dim))


TASKS = {
    "spectrum": st.Task(3, 1, 2.5, 0.4, noise=SPECTRUM),
    "spectrum, spread": st.Task(3, 1, 2.5, 0.4, noise=SPECTRUM, signal_spread=(2.0, 3.0, 0.5)),
    "spread": st.Task(3, 2, 2.5, 0.4, signal_spread=4.0),
    "point": st.Task(3, 1, 2.5, 0.4, signal_spread=0.0),
    "matrices": st.Task(3, 1, 2.5, 0.4, noise=matrices()),
    "shared": st.Task(3, 1, 2.5, 0.4, noise=SPECTRUM, token_correlation=0.5),
    "varying": st.Task(
        4, st.Discrete([0, 1, 3]), st.Discrete([1.0, 4.0]), noise=SPECTRUM, signal_spread=3.0
    ),
}
CLASSIFIERS = {
    "learned": (st.Attention(), (0.75, 4.0)),
    "frozen": (st.Attention(cosine=-0.7, sharpness=1.5), (0.75, 4.0)),
    "top": (st.Attention(weighting=st.TopK(2)), (2.0,)),
    "pooled": (st.Pooled(), (0.75, 4.0)),
    "vectorized": (st.Vectorized(), (0.75, 2.5, 10.0)),  # below p, below a position's, above
}


def tokens_of(task, layout, n, seed):
    rng = np.random.default_rng(seed)
    labels = task.sample_labels(n, rng)
    made = TokenStream(
        task, task.white_noise, labels, layout.signal, np.random.SeedSequence(seed), Device(),
        layout=layout,
    )  # fmt: skip
    return labels, np.concatenate([block for _, block in made.samples()])


def compare(ours, theirs, name):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    ours, theirs = ours[np.isfinite(ours)], theirs[np.isfinite(theirs)]
    assert len(ours) > 0.9 * REPEATS and len(theirs) > 0.9 * REPEATS
    assert ks_2samp(ours, theirs).pvalue > LEAST, (name, ours.mean(), theirs.mean())


@pytest.mark.parametrize("name", ["spectrum, spread", "matrices"])
def test_tokens_have_their_covariances(name):
    task = TASKS[name]
    layout = draw_layout(task.noise, task.signal_spread, DIM, np.random.default_rng(1))
    labels, tokens = tokens_of(task, layout, 12_000, 2)
    roots = [np.diag(root) if root.ndim == 1 else root for root in layout.roots]
    noise = tokens[labels < 0].reshape(-1, DIM)
    sums = tokens[labels > 0].sum(axis=1)  # a mean that no selection of tokens has touched
    for sample, mean, covariance in (
        (noise, 0 * layout.signal, roots[0] @ roots[0]),
        (sums, 2.5 * layout.signal, 2 * roots[0] @ roots[0] + roots[1] @ roots[1]),
    ):
        count, size = len(sample), np.sqrt(np.diag(covariance))
        assert np.all(np.abs(sample.mean(axis=0) - mean) < 5 * size / np.sqrt(count))
        gap = np.abs(np.cov(sample.T) - covariance) / np.outer(size, size)
        assert gap.max() < 7 / np.sqrt(count)


def test_a_layout_has_the_shares_of_its_task():
    task = TASKS["spectrum, spread"]
    layout = draw_layout(task.noise, task.signal_spread, 101, np.random.default_rng(0))
    assert layout.counts.tolist() == SPECTRUM.counts(101).tolist() and layout.counts.sum() == 101
    groups = np.split(layout.signal**2, np.cumsum(layout.counts)[:-1])
    np.testing.assert_allclose([group.sum() for group in groups], SPECTRUM.signal_share, atol=1e-12)
    squares = np.unique(np.round(layout.noise_root**2, 12)).tolist()
    assert squares == [0.3, 1.0, 3.0] and layout.signal_root[-1] ** 2 == pytest.approx(0.5)
    white = draw_layout(st.White(), 2.0, 5, np.random.default_rng(0))
    assert white.has_spread and white.signal_root.tolist() == [2**0.5] * 5


@pytest.mark.parametrize("name", TASKS)
def test_a_frame_keeps_lengths_and_products(name):
    task = TASKS[name]
    rng = np.random.default_rng(3)
    layout = draw_layout(task.noise, task.signal_spread, DIM, rng)
    query = rng.standard_normal(DIM)
    frame = coloured.frame_of(layout, query)
    assert frame.signal @ frame.signal == pytest.approx(1)
    assert frame.query @ frame.query == pytest.approx(query @ query)
    assert len(frame.signal) + sum(group.size for group in frame.rest) == DIM
    assert frame.pull.overlap == pytest.approx(query @ layout.signal)
    for scale, root in zip(frame.pull[1:], layout.roots, strict=True):
        assert scale == pytest.approx(np.linalg.norm(times(root, query)))
    bare = coloured.frame_of(layout, None)
    assert bare.pull == (0.0, 0.0, 0.0) and len(bare.signal) <= len(frame.signal)


@pytest.mark.parametrize("name", ["spectrum, spread", "shared", "matrices"])
def test_reduced_and_tokens_agree_in_the_mean(name):
    """A quick look at what the slow tests look at closely."""
    protocol = st.Protocol(3.0, 4.0, st.Square(), ridge=0.02, query_step=4.0)
    settings = dict(task=TASKS[name], classifier=st.Attention(), protocol=protocol, dim=DIM)
    ours = st.simulate(**settings, repeats=60, seed=1)
    theirs = st.simulate(**settings, repeats=60, seed=2, sampler="tokens", test_samples=500)
    for quantity in ("cosine", "norm", "train_loss", "readout_norm", "test_error"):
        gap = abs(ours.mean(quantity) - theirs.mean(quantity))
        assert gap < 4 * np.hypot(ours.sem(quantity), theirs.sem(quantity)), quantity


@pytest.mark.slow
@pytest.mark.parametrize("loss", [st.Square(), st.SquaredHinge()], ids=repr)
@pytest.mark.parametrize("name", TASKS)
def test_the_query_alone(name, loss):
    """Few dimensions and samples: a wrong number of degrees of freedom would show."""
    task = TASKS[name]
    if name == "matrices":
        task = st.Task(3, 1, 2.5, 0.4, noise=matrices(4))
    protocol = st.Protocol(query_samples=4.0, loss=loss)
    rng = np.random.default_rng(5)
    layout = draw_layout(task.noise, task.signal_spread, 4, rng)
    ours = np.array([draw_query_vector(task, protocol, layout, 12, rng) for _ in range(3000)])
    theirs = np.array([
        plain.learn_query(*tokens_of(task, layout, 12, seed), protocol) for seed in range(3000)
    ])  # fmt: skip
    other = rng.standard_normal(4)
    for ends in (layout.signal, other, np.eye(4)[0], np.eye(4)[3]):
        assert ks_2samp(ours @ ends, theirs @ ends).pvalue > LEAST
    norms = (np.linalg.norm(queries, axis=1) for queries in (ours, theirs))
    assert ks_2samp(*norms).pvalue > LEAST


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("kind", TASKS)
def test_reduced_and_tokens(kind, name):
    task, (classifier, shapes) = TASKS[kind], CLASSIFIERS[name]
    if kind == "shared" and name == "vectorized":
        pytest.skip("tokens that share noise, side by side")
    for samples in shapes:
        protocol = st.Protocol(3.0, samples, st.Square(), ridge=0.02, query_step=4.0)
        settings = dict(
            task=task, classifier=classifier, protocol=protocol, dim=DIM, repeats=REPEATS
        )
        ours = st.simulate(**settings, seed=1)
        theirs = st.simulate(**settings, seed=2, sampler="tokens", test_samples=300)
        quantities = ["bias", "readout_norm", "train_loss", "train_error"]
        if classifier.learns_query:
            quantities += ["cosine", "norm"]
        for quantity in quantities:
            compare(getattr(ours, quantity), getattr(theirs, quantity), (samples, quantity))
        kept = [place for place, one in enumerate(theirs.outcomes) if one.readout]
        exact = np.array([theirs.scores(place).test_error for place in kept])
        compare(ours.test_error, exact, (samples, "test_error"))
        # what fresh tokens measure is what the readout's products say
        gap = theirs.test_error[kept] - exact
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap))


@pytest.mark.slow
def test_a_spectrum_and_its_turned_matrices_have_one_law():
    """Eigenvalues as atoms, and the same as matrices in another basis."""
    task = TASKS["spectrum, spread"]
    layout = draw_layout(task.noise, task.signal_spread, DIM, np.random.default_rng(7))
    turn = np.linalg.qr(np.random.default_rng(8).standard_normal((DIM, DIM)))[0]
    noise, signal = (turn @ np.diag(root**2) @ turn.T for root in layout.roots)
    turned = st.Covariances((noise + noise.T) / 2, (signal + signal.T) / 2, turn @ layout.signal)
    same = st.Task(3, 1, 2.5, 0.4, noise=turned)
    for classifier in (st.Attention(), st.Vectorized()):
        protocol = st.Protocol(3.0, 3.0, st.Square(), ridge=0.02, query_step=4.0)
        runs = [
            st.simulate(which, classifier, protocol, DIM, REPEATS, seed)
            for seed, which in enumerate((task, same))
        ]
        for quantity in ("test_error", "train_loss", "readout_norm", "bias"):
            compare(getattr(runs[0], quantity), getattr(runs[1], quantity), quantity)


def test_what_the_covariances_do_not_have_is_refused():
    protocol = st.Protocol(readout_samples=2.0)
    spectrum, turned = TASKS["spectrum"], TASKS["matrices"]
    with pytest.raises(st.InvalidInput, match="dim must be 16"):
        st.simulate(turned, st.Pooled(), protocol, dim=20)
    with pytest.raises(st.InvalidInput, match="dim must be at least 2"):
        st.simulate(spectrum, st.Pooled(), protocol, dim=1, sampler="tokens")
    run = st.simulate(spectrum, st.Pooled(), protocol, dim=30, repeats=1)
    assert 0 < run.scores(0, st.Task(5, 2, 3.0, noise=SPECTRUM)).test_error < 0.5
    with pytest.raises(st.InvalidInput, match="need the noise and the signal_spread of training"):
        run.scores(0, st.Task(3, 1, 2.5))
    side_by_side = st.simulate(spectrum, st.Vectorized(), protocol, dim=30, repeats=1)
    with pytest.raises(st.InvalidInput, match="must keep the length 3"):
        side_by_side.scores(0, st.Task(5, 2, 3.0, noise=SPECTRUM))
    with pytest.raises(st.InvalidInput, match="token_correlation must be 0"):
        st.simulate(TASKS["shared"], st.Vectorized(), protocol, dim=30, repeats=1)


def test_a_classifier_of_ones_own_needs_tokens():
    class First(st.Classifier):
        def features(self, tokens, query=None):
            return tokens[:, 0, :]

        def law(self, task, query=None):
            raise NotImplementedError

        def draw(self, task, labels, rng, query=None):
            raise NotImplementedError

    settings = dict(task=TASKS["spectrum"], classifier=First(), protocol=st.Protocol(), dim=20)
    with pytest.raises(st.InvalidInput, match="sampler must be 'tokens' for coloured noise"):
        st.simulate(**settings, repeats=1)
    run = st.simulate(**settings, repeats=2, sampler="tokens", test_samples=100)
    assert np.all(np.isfinite(run.test_error))


def test_other_noise_takes_the_covariances_too():
    """White noise of another kind, coloured alike: at many tokens it hardly matters."""
    protocol = st.Protocol(readout_samples=4.0, loss=st.Square(), ridge=0.1)
    settings = dict(protocol=protocol, dim=60, repeats=8, sampler="tokens", test_samples=1000)
    runs = [
        st.simulate(TASKS["spectrum, spread"], st.Pooled(), **settings, noise=noise)
        for noise in (None, st.NOISES.make("rademacher"))
    ]
    gap = abs(runs[0].mean("test_error") - runs[1].mean("test_error"))
    assert gap < 4 * np.hypot(*(run.sem("test_error") for run in runs))

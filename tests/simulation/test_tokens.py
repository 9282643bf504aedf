"""The token-level sampler step by step, against plain arrays; its memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import sparsetoken as st
import witness as plain
from sparsetoken.simulation import tokens
from sparsetoken.simulation.devices import Device

TASK = st.Task(length=4, sparsity=2, strength=3.0, prevalence=0.4)


def stream(n=50, dim=7, task=TASK, seed=1):
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal(dim)
    signal /= np.linalg.norm(signal)
    labels = task.sample_labels(n, rng)
    return tokens.TokenStream(
        task, task.white_noise, labels, signal, np.random.SeedSequence(seed), Device()
    )


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(tokens, "_BLOCK", 200)


def whole(of):
    return np.concatenate([block for _, block in of.samples()])


def test_a_stream_can_be_read_again_and_in_part(small_blocks):
    of = stream()
    blocks = list(of.samples())
    assert len(blocks) > 5 and sum(len(block) for _, block in blocks) == 50
    np.testing.assert_array_equal(whole(of), whole(of))
    first = np.concatenate([block for _, block in of.samples(33)])
    np.testing.assert_array_equal(first, whole(of)[:33])


def test_blocks_of_samples_and_of_coordinates_have_the_law_of_the_task(small_blocks):
    task = st.Task(length=3, sparsity=1, strength=4.0, prevalence=0.5)
    of = stream(4000, 3, task)
    by_sample = whole(of)
    by_column = np.concatenate([block for _, block in of.coordinates(2)], axis=2)
    for values in (by_sample, by_column):
        assert values.shape == (4000, 3, 3)
        along = values @ of.signal
        positive = along[of.labels > 0]
        assert positive.sum(axis=1).mean() == pytest.approx(4.0, abs=0.15)
        assert (positive**2).mean() == pytest.approx(1 + 16 / 3, rel=0.05)
        assert along[of.labels < 0].std() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("loss", [st.Logistic(), st.Square()], ids=repr)
def test_the_query_is_the_plain_one(small_blocks, loss):
    of = stream()
    protocol = st.Protocol(loss=loss, query_step=3.0, inverse_temperature=0.7, bias_step=0.4)
    ours = tokens.learn_query(of, 33, protocol)
    theirs = plain.learn_query(of.labels[:33], whole(of)[:33], protocol)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_a_frozen_query_has_its_cosine_and_sharpness():
    of = stream(dim=30)
    query = st.Attention(-0.6, 2.5).query_vector(of.signal, np.random.default_rng(0))
    assert np.linalg.norm(query) == pytest.approx(2.5)
    assert query @ of.signal / 2.5 == pytest.approx(-0.6)


def test_reused_samples_teach_query_and_readout():
    """With the same samples the training loss is lower than with others (the query has seen them),
    and the query is the one of a run without reuse on those samples."""
    protocol = st.Protocol(query_samples=2.0, readout_samples=2.0, ridge=1e-2)
    settings = dict(task=TASK, classifier=st.Attention(), protocol=protocol, dim=20, repeats=60)
    apart = st.simulate(**settings, sampler="tokens", test_samples=50)
    together = st.simulate(**settings, sampler="tokens", test_samples=50, reuse_data=True)
    gap = together.train_loss - apart.train_loss
    assert gap.mean() < -3 * gap.std() / np.sqrt(60)


@pytest.mark.parametrize(("query", "readout"), [(1.0, 3.0), (3.0, 1.0)])
def test_reuse_with_unequal_numbers_of_samples(query, readout):
    protocol = st.Protocol(query_samples=query, readout_samples=readout, ridge=1e-2)
    run = st.simulate(
        TASK, st.Attention(), protocol, 20, 3, sampler="tokens", reuse_data=True, test_samples=50
    )
    assert np.isfinite(run.test_error).all()


@pytest.mark.parametrize("classifier", [st.Attention(), st.Pooled(), st.Vectorized()], ids=repr)
def test_tokens_are_never_held_all_at_once(classifier, monkeypatch):
    monkeypatch.setattr(tokens, "_BLOCK", 1 << 17)  # 1 MiB
    task, dim = st.Task(length=40, sparsity=1, strength=6.0), 150
    protocol = st.Protocol(query_samples=4.0, readout_samples=4.0, ridge=1e-2)
    held = 8 * 4 * dim * task.length * dim  # bytes of n·L·d numbers
    tracemalloc.start()
    st.simulate(task, classifier, protocol, dim, 1, sampler="tokens", test_samples=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held > 28e6
    assert peak < 0.45 * held, (peak, held)  # a few blocks, and n×d or n×n numbers for the fit


@pytest.mark.slow
def test_sizes_nobody_else_reaches():
    """Vectorized with d = 10⁶ and L = 1000: a billion features, memory of the Gram matrix."""
    task = st.Task(length=1000, sparsity=1, strength=40.0)
    protocol = st.Protocol(readout_samples=0.002, loss=st.Square(), ridge=1e-2)
    tracemalloc.start()
    run = st.simulate(task, st.Vectorized(), protocol, 10**6, 1, threads=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e9
    theory = st.predict(task, st.Vectorized(), protocol)
    assert run.test_error[0] == pytest.approx(theory.test_error, abs=2e-3)

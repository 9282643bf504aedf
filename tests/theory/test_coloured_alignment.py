"""The query that stages 1–3 learn from tokens of other covariances: limits, and tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.theory.coloured_alignment import coloured_query

SPECTRUM = st.Spectrum((0.2, 1.0, 4.0), (0.5, 0.35, 0.15), (0.1, 0.2, 0.7))
TWO = st.Spectrum((0.5, 2.0), (0.7, 0.3), (0.2, 0.8))
PROTOCOLS = (st.Protocol(), st.Protocol(loss=st.Huber(), query_samples=0.5, bias_step=2.0))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "change", [{}, {"token_correlation": 0.3}, {"strength": st.Discrete([2, 5])}]
)
def test_white_noise_is_a_case_of_it(protocol, change):
    task = replace(st.Task(10, 2, 3.0, prevalence=0.3), **change)
    usual, general = st.align(task, protocol), coloured_query(task, protocol)
    assert general.overlap == pytest.approx(usual.overlap, abs=1e-13)
    assert general.norm == pytest.approx(usual.norm, abs=1e-13)
    assert general.cosine == pytest.approx(usual.cosine, abs=1e-12)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_spread_that_is_none_is_a_case_of_it(protocol):
    task = st.Task(10, 2, 3.0, noise=SPECTRUM)
    nearly = tuple(x * (1 + 1e-9 * place) for place, x in enumerate(SPECTRUM.eigenvalues))
    usual = st.align(task, protocol)
    found = st.align(replace(task, signal_spread=nearly), protocol)
    assert found.overlap == pytest.approx(usual.overlap, rel=1e-7)
    np.testing.assert_allclose(found.signal, usual.signal, rtol=1e-6)
    np.testing.assert_allclose(found.noise, usual.noise, rtol=1e-6)


def test_the_learned_query_leans_towards_large_eigenvalues_():
    task = st.Task(10, 1, 5.0, noise=st.Spectrum.power_law(1.0))
    query = st.align(task, st.Protocol())
    assert query.noise[0] > 100 * query.noise[-1] and query.cosine < 0.9
    p = st.predict(task, st.Attention(), st.Protocol())
    assert p.query == query and p.residual < 1e-9 and 0 < p.test_error < 0.1


def tokens_query(task, protocol, dim, rng):
    """⟨q, ξ⟩, ‖q‖², qᵀΣq and qᵀCq from tokens, by the steps of the protocol as they are written."""
    joint, counts = task.joint_spectrum, task.noise.counts(dim)
    atom = np.repeat(np.arange(len(counts)), counts)
    signal = rng.standard_normal(dim)
    for a, share in enumerate(joint.share):
        signal[atom == a] *= np.sqrt(share) / np.linalg.norm(signal[atom == a])
    n = round(protocol.query_samples * dim)
    labels = np.where(rng.random(n) < task.prevalence, 1.0, -1.0)
    carries = rng.random((n, task.length)).argsort(axis=1) < task.sparsity
    carries &= labels[:, None] > 0
    x = rng.standard_normal((n, task.length, dim))
    roots = np.sqrt(joint.noise[atom]), np.sqrt(joint.signal[atom])
    x = np.where(carries[..., None], roots[1] * x + task.strength * signal, roots[0] * x)
    mean = x.mean(axis=1)
    slope = protocol.loss.slope
    c = labels * slope(np.zeros(n))
    w = -protocol.readout_step / n * c @ mean
    b = -protocol.bias_step * c.mean()
    h = labels * slope(labels * (mean @ w + b))
    t = x @ w
    pulled = h[:, None] * (t - t.mean(axis=1, keepdims=True))
    q = np.einsum("nl,nld->d", pulled, x)
    q *= -protocol.query_step * protocol.inverse_temperature / (n * task.length)
    return q @ signal, q @ q, joint.noise[atom] @ q**2, joint.signal[atom] @ q**2


SETTINGS = [
    (st.Task(8, 2, 4.0, noise=SPECTRUM), st.Protocol(readout_step=2.0)),
    (st.Task(6, 1, 4.0, noise=TWO, signal_spread=3.0), st.Protocol(bias_step=0.5)),
    (
        st.Task(4, 2, 3.0, prevalence=0.4, noise=TWO, signal_spread=(4.0, 0.1)),
        st.Protocol(query_samples=1.0, loss=st.SquaredHinge()),
    ),
    (
        st.Task(4, 2, 3.0, prevalence=0.4, noise=TWO, signal_spread=(0.0, 6.0)),
        st.Protocol(query_samples=1.0, readout_step=2.0, loss=st.Square()),
    ),
    (  # where the sample's own contribution and what w¹ shares with the noise of q are large
        st.Task(3, 1, 2.0, prevalence=0.6, noise=st.Spectrum((1.0, 1.0)), signal_spread=(4.0, 8.0)),
        st.Protocol(query_samples=0.5, readout_step=4.0),
    ),
]


def check_against_tokens(task, protocol, dim, repeats):
    query, joint = st.align(task, protocol), task.joint_spectrum
    square = joint.share * np.array(query.signal) ** 2 + joint.density * np.array(query.noise)
    size = query.norm**2
    limit = np.array(
        [query.overlap, size, size * joint.noise @ square, size * joint.signal @ square]
    )
    rng = np.random.default_rng(dim)
    drawn = np.array([tokens_query(task, protocol, dim, rng) for _ in range(repeats)])
    error = drawn.std(axis=0) / np.sqrt(repeats)
    slack = 20 / dim * np.array([query.norm, *limit[1:]])
    assert np.all(np.abs(drawn.mean(axis=0) - limit) < 4 * error + slack)


@pytest.mark.parametrize(("task", "protocol"), SETTINGS)
def test_the_query_that_tokens_teach(task, protocol):
    check_against_tokens(task, protocol, dim=400, repeats=20)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "protocol"), SETTINGS)
def test_the_query_that_many_tokens_teach(task, protocol):
    check_against_tokens(task, protocol, dim=1000, repeats=60)


def test_a_query_prints_itself_in_a_line():
    task = st.Task(10, 1, 5.0, noise=st.Spectrum.power_law(1.0, 1000))
    query = st.align(task, st.Protocol())
    assert repr(query).startswith(f"ColouredQuery(overlap={query.overlap:.6g}, norm=")
    assert repr(query).endswith(f"cosine={query.cosine:.6g}, 1000 atoms)")
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((2, 9, 20))
    noise, signal = factors @ factors.swapaxes(1, 2) / 20
    matrices = st.Covariances(noise, signal, np.ones(9))
    query = st.align(st.Task(10, 1, 5.0, noise=matrices), st.Protocol())
    assert repr(query).startswith("MatrixQuery(overlap=") and repr(query).endswith("dim=9)")

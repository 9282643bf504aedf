"""No failures: random problems over many decades, each solved from a cold start and certified.

`make stress` is the full run of 1320 problems; `make test` draws fewer. Each is solved at a finite
number of samples and in the population limit.
Every decade of samples per dimension and of the ridge has its own seed.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest

from sparsetoken import (
    Attention,
    Continuous,
    Discrete,
    HardMax,
    Huber,
    Logistic,
    Pooled,
    Protocol,
    Softmax,
    Sparsemax,
    Square,
    SquaredHinge,
    Task,
    TopK,
    Vectorized,
)
from sparsetoken.theory.alignment import align
from sparsetoken.theory.asymptotics import solve_many

SAMPLE_DECADES = [(0.02, 0.2), (0.2, 2.0), (2.0, 20.0), (20.0, 500.0)]
RIDGE_DECADES = [(10.0**k, 10.0 ** (k + 1)) for k in range(-8, 3)]
CELLS = [(samples, ridge) for samples in SAMPLE_DECADES for ridge in RIDGE_DECADES]


def log_uniform(rng, low, high, size=None):
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def random_classifier(rng):
    kind = rng.integers(5)
    if kind == 4:
        return Attention()
    if kind == 0:
        return Pooled()
    if kind == 1:
        return Vectorized()
    cosine = rng.choice([rng.uniform(-1, 1), rng.uniform(0.8, 1), 1.0, -1.0])
    sharpness = rng.choice([rng.uniform(0, 20), log_uniform(rng, 0.1, 20), 0.0])
    return Attention(cosine=float(cosine), sharpness=float(sharpness))


def random_extension(rng, task, classifier):
    """Every other problem is one beyond the paper: shared noise, signals that vary, a weighting."""
    if rng.random() < 0.5:
        return task, classifier
    if rng.random() < 0.5:
        ones = sorted({1, task.sparsity, int(rng.integers(1, task.length + 1))})
        task = replace(task, sparsity=Discrete(ones))
    if rng.random() < 0.5:
        laws = [
            Discrete([0.5 * task.strength, 2 * task.strength], rng.uniform(0.1, 1, 2)),
            Continuous("gamma", (float(rng.uniform(1, 9)), 0.0, task.strength / 5)),
        ]
        task = replace(task, strength=laws[rng.integers(2)])
    if rng.random() < 0.5 and classifier != Vectorized():
        task = replace(task, token_correlation=float(rng.uniform(0, 0.95)))
    if isinstance(classifier, Attention):
        rules = [HardMax(), Sparsemax(), TopK(int(rng.integers(1, 6))), Softmax()]
        classifier = replace(classifier, weighting=rules[rng.integers(4)])
    return task, classifier


def random_task(rng):
    length = int(min(64, log_uniform(rng, 1, 65)))
    sparsity = int(min(length, log_uniform(rng, 1, length + 1)))
    prevalence = float(rng.choice([rng.uniform(0.01, 0.99), log_uniform(rng, 0.01, 0.5)]))
    return Task(length, sparsity, float(log_uniform(rng, 0.1, 20)), prevalence)


@pytest.mark.slow
@pytest.mark.parametrize("samples, ridge", CELLS)
def test_every_random_problem_is_solved(samples, ridge, request):
    rng = np.random.default_rng(zlib.crc32(repr((samples, ridge)).encode()))
    left = -(-request.config.getoption("--problems") // len(CELLS))
    while left > 0:
        task, classifier = random_extension(rng, random_task(rng), random_classifier(rng))
        steps = dict(
            bias_step=float(log_uniform(rng, 0.1, 10)), query_step=float(log_uniform(rng, 1, 100))
        )
        protocol = Protocol(query_samples=float(log_uniform(rng, 0.3, 100)), **steps)
        law = classifier.law(task, align(task, protocol) if classifier.learns_query else None)
        count = min(left, 3)  # a law is reused with other losses, samples and ridges
        left -= count
        for _ in range(count):
            loss = [Square(), Logistic(), SquaredHinge(), Huber(float(rng.uniform(0.2, 3)))]
            loss = loss[rng.integers(4)]
            several = [float(log_uniform(rng, *samples)), np.inf]
            for fit in solve_many(law, loss, log_uniform(rng, *ridge), several):
                assert fit.residual <= 1e-9, (task, classifier, loss)
                assert 0 <= fit.test_error <= 1 and 0 <= fit.train_error <= 1
                assert fit.train_loss >= 0 and (fit.rest > 0 or fit.samples_per_dim == np.inf)

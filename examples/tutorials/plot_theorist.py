"""
For theorists: a new classifier, from its law to a claim
========================================================

Reading every token may be too dear. Suppose a classifier looks at a window of M of the L tokens
and takes their mean: what does it lose, and how many samples would make up for it? We write down
the law of its features, and theory, capacity, simulation, plans and claims follow.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats

import sparsetoken as st
from sparsetoken.model.law import Coordinates

# %%
# The law
# -------
# The window holds a random number K of the R signal tokens: hypergeometric. Its mean is
# f = (θK/M) ξ + z/√M, so that along the signal the coordinate is m = θK/M, and the noise has scale
# σ = 1/√M. These few atoms of (m, σ), with their weights in each class, are all that solver and
# capacity see. ``draw`` gives samples of the same law at finite size, ``features`` is the map
# itself; the three are written down apart, so that they can contradict each other.


@dataclass(frozen=True)
class Window(st.Classifier):
    """The mean of the first ``size`` tokens."""

    size: int = 5

    def possible(self, task, trained_on=None):
        if not (task.is_plain and task.uniform_places):
            return f"Window: one strength, one sparsity, uniform places are needed, got {task!r}"
        if task.length < self.size:
            return f"Window: length must be {self.size} or more, got {task.length}"
        return None

    def features(self, tokens, query=None):
        return tokens[:, : self.size, :].mean(1)

    def law(self, task, query=None):
        if why := self.possible(task):
            raise st.InvalidInput(why)
        count = np.arange(min(self.size, task.fixed_sparsity) + 1)
        chances = scipy.stats.hypergeom(task.length, task.fixed_sparsity, self.size).pmf(count)
        count, chances = count[chances > 0], chances[chances > 0]
        means = task.fixed_strength * count[:, None] / self.size
        scale = 1 / np.sqrt(self.size)
        positive = (means, np.full(len(count), scale), chances)
        negative = ([[0.0]], [scale], [1.0])
        return st.FeatureLaw.of_classes(task.prevalence, positive, negative, noisy=[True])

    def draw(self, task, labels, rng, query=None):
        inside = task.sample_places(len(labels), rng)[:, : self.size].sum(1) * (labels > 0)
        means = task.fixed_strength * inside[:, None] / self.size
        scales = np.full(len(labels), 1 / np.sqrt(self.size))
        return Coordinates(labels, means, scales, np.array([True]))


# %%
# A first check
# -------------
# A window of all tokens is mean pooling.

task = st.Task(length=20, sparsity=4, strength=3.0)
protocol = st.Protocol(readout_samples=4.0, ridge=1e-2)
whole = st.predict(task, Window(20), protocol)
pooled = st.predict(task, st.Pooled(), protocol)
print(f"window of all tokens {whole.test_error:.6f}, mean pooling {pooled.test_error:.6f}")

# %%
# Theory
# ------
# Everything that takes a classifier takes this one: the error in the limit, at a size, the
# capacity, what is possible with a known signal.

sizes = [1, 2, 4, 8, 12, 16, 20]
exact = [st.predict(task, Window(size), protocol) for size in sizes]
print(" M  test error  at d = 200  capacity  signal known")
for size, prediction in zip(sizes, exact, strict=True):
    here = st.predict(task, Window(size), protocol, dim=200)
    capacity = st.capacity(task, Window(size))
    known = st.oracle_error(task, Window(size))
    row = (prediction.test_error, here.test_error, float(capacity), float(known))
    print(f"{size:2d}  " + "  ".join(f"{value:10.4f}" for value in row))

# %%
# The witness
# -----------
# ``simulate`` trains it at finite size, once on draws of the law and once on tokens. Neither shares
# a formula with the theory. If the law were wrong the second would say so.

runs = {}
for sampler, dim in (("reduced", 200), ("tokens", 60)):
    for size in (2, 8, 20):
        run = st.simulate(task, Window(size), protocol, dim=dim, repeats=8, seed=0, sampler=sampler)
        runs[sampler, size] = run.mean("test_error"), run.sem("test_error")
        mean, error = runs[sampler, size]
        print(f"{sampler:8} M = {size:2d}: {mean:.4f} ± {error:.4f}")

figure, axes = plt.subplots(figsize=(6.4, 4))
axes.plot(sizes, [prediction.test_error for prediction in exact], "-", label="theory, the limit")
for sampler, mark in (("reduced", "o"), ("tokens", "s")):
    values = [(size, *number) for (kind, size), number in runs.items() if kind == sampler]
    x, mean, error = zip(*values, strict=True)
    axes.errorbar(x, mean, 2 * np.array(error), fmt=mark, label=f"simulated, {sampler}")
axes.set(xlabel="tokens in the window", ylabel="test error")
axes.legend()
figure.tight_layout()

# %%
# A claim
# -------
# Half of the tokens are worse than all of them, and the theory knows by how much. A claim states
# its rules before it is judged; simulation at several numbers of samples must agree with theory,
# and the verdict is kept with a figure, a table and the command.

from sparsetoken.reproduction import claim  # noqa: E402

HALVES = ["half of the tokens", "all tokens"]


class HalfTheTokens(st.Claim):
    source = "A claim of this tutorial"
    sentence = "The mean of half of the tokens is as the theory says, and worse than that of all."
    panels = (claim.Panel("windows", "readout samples per dimension", "test error"),)

    def measure(self, scale, ask):
        for name, kind in zip(HALVES, (Window(10), Window(20)), strict=True):
            axes = dict(length=20, sparsity=4, strength=3.0, classifier=kind, ridge=1e-2)
            axes["readout_samples"] = [1.0, 2.0, 4.0, 8.0]
            answers = ask(st.grid(**axes) + st.grid(**axes, **claim.finite(scale)))
            yield claim.compare("windows", name, answers, "readout_samples", "test_error")

    def check(self, table):
        yield from claim.agreement(table, "test error")
        theory = claim.wide(table.dropna(subset=["theory"]), "theory", HALVES)
        ratio = theory[HALVES[0]] / theory[HALVES[1]]
        yield claim.Check(
            "half of the tokens are worse",
            "a higher error at every number of samples",
            f"{ratio.min():.2f} to {ratio.max():.2f} times the error",
            "the ratio is above 1 everywhere, in theory",
            claim.decide((ratio > 1).all()),
        )


st.CLASSIFIERS.register("window", Window)
st.CLAIMS.register("half-the-tokens", HalfTheTokens)

import tempfile  # noqa: E402

(section,) = st.reproduce("half-the-tokens", scale="tiny", out=tempfile.mkdtemp(), executor=None)
print(section.verdict)
for check in section.checks:
    print(f"{check.verdict}: {check.what}: {check.measured}")

# %%
# From here
# ---------
# In a file of its own, registered in the same way, the classifier is known to every command::
#
#     sparsetoken --plugin own.py predict --length 20 --sparsity 4 --strength 3 --classifiers window
#     sparsetoken --plugin own.py reproduce half-the-tokens --quick
#
# The mathematics that a law enters is in :doc:`/theory`; losses, weightings, noises, metrics and
# readers of your own are a class each, too (:doc:`/beyond`, :doc:`/contributing`).

"""
Learning curves: who finds a weak signal in one token of ten
============================================================

A positive sample hides a signal of strength 5 in one of its ten tokens. How many labelled samples,
counted per embedding dimension, does it take until attention, all tokens side by side and the mean
token find it? The lines are exact in the limit of many dimensions; nothing is trained to draw them.
"""

import numpy as np

import sparsetoken as st

task = st.Task(length=10, sparsity=1, strength=5.0)
protocol = st.Protocol(query_samples=2.0, loss=st.Logistic(), ridge=1e-2)
samples = np.geomspace(0.25, 64, 13)

curves = {
    "attention": st.learning_curve(task, st.Attention(), protocol, samples),
    "vectorized": st.learning_curve(task, st.Vectorized(), protocol, samples),
    "pooled": st.learning_curve(task, st.Pooled(), protocol, samples),
}

# %%
# Each curve draws itself, on the axes of the one before. The dotted line is the floor: the error of
# the best test there is, which knows the signal.

axes = None
for curve in curves.values():
    axes = curve.plot(axes)
floor = float(st.bayes_error(task))
axes.axhline(floor, color="black", linestyle=":", label="any test, signal known")
axes.legend()

# %%
# The same as numbers. A simulation in 300 dimensions, which shares no formula with the theory,
# stands beside it for attention.

print("samples  " + "  ".join(curves))
for row, count in enumerate(samples):
    errors = "  ".join(f"{curve.test_error[row]:9.4f}" for curve in curves.values())
    print(f"{count:7.2f}  {errors}")
four = st.Protocol(query_samples=2.0, readout_samples=4.0, loss=st.Logistic(), ridge=1e-2)
run = st.simulate(task, st.Attention(), four, dim=300, repeats=8, seed=0)
exact = st.predict(task, st.Attention(), four).test_error
print(f"4 samples per dimension: theory {exact:.4f}, ", end="")
print(f"simulation {run.mean('test_error'):.4f} ± {run.sem('test_error'):.4f}")

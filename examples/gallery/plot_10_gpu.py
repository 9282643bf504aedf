"""
On a GPU: the readout in ten thousand dimensions
================================================

``device="cuda"`` runs the simulation on torch tensors. This page needs no GPU: the numbers below
are those that ``benchmarks/gpu.py`` measured on one H200 and left in ``benchmarks/results``; a test
compares the two.
"""

import matplotlib.pyplot as plt

command = "python benchmarks/gpu.py --dim 10000 --samples 40000 --repeats 60"
machine = "NVIDIA H200, torch 2.11.0+cu130, Python 3.12.3"
measured = {  # loss and method: seconds for sampling and fit, certificate of the fit
    "square, conjugate gradients": (0.060, 4.7e-09),
    "square, Cholesky": (0.128, 1.6e-15),
    "logistic, conjugate gradients": (0.252, 1.9e-09),
    "logistic, Cholesky": (1.589, 2.3e-09),
}
print(command, "on", machine, sep="\n")

# %%
# Sampling and fit of one training run, by loss and by method, and how far its test error is from
# the theory's.

for name, (seconds, certificate) in measured.items():
    print(f"{name:<32} {seconds:6.3f} s   certificate {certificate:.1e}")
errors = {"square": (0.0433, 0.0431), "logistic": (0.0397, 0.0402)}
for loss, (simulated, theory) in errors.items():
    print(f"{loss:<9} test error {simulated}, theory {theory}")

figure, axes = plt.subplots(figsize=(6.4, 2.6))
axes.barh(list(measured), [seconds for seconds, _ in measured.values()], color="#0072B2")
axes.invert_yaxis()
axes.set(xlabel="seconds, sampling included")
figure.tight_layout()

# %%
# Bags on disk, their products on the same card (``python benchmarks/bags.py --device cuda``).

bags = {"bags": 1000, "tokens": 5000, "dim": 512, "passes": 4, "seconds": 14.9}
print("{bags} bags of {tokens} tokens in {dim} dimensions:".format(**bags), end=" ")
print("{seconds} s in {passes} passes".format(**bags))

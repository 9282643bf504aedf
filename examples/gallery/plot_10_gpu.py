"""
On a GPU: the readout in ten thousand dimensions
================================================

``device="cuda"`` runs the simulation on torch tensors. The numbers below were measured on one H200
by ``python benchmarks/gpu.py`` and are kept in ``benchmarks/results/gpu.json``; this page reads
them, it needs no GPU.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

# found from the folder of this page, wherever the build or a reader starts it
here = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "benchmarks/results").exists())
measured = json.loads((here / "benchmarks" / "results" / "gpu.json").read_text())
print(measured["command"], "on", measured["machine"], sep="\n")

# %%
# Sampling and fit of one training run, by loss and by method, and how far its test error is from
# the theory's.

names, seconds = [], []
for row in measured["timings"]:
    names.append(f"{row['loss'].lower()[:-2]}, {row['by'].split(' (')[0]}")
    seconds.append(row["sampling and fit (s)"])
    print(f"{names[-1]:<32} {seconds[-1]:6.2f} s   certificate {row['certificate']:.0e}")
    if "theory" in row:
        print(f"{'':<32} test error {row['test error']:.4f}, theory {row['theory']:.4f}")

figure, axes = plt.subplots(figsize=(6.4, 2.6))
axes.barh(names, seconds, color="#0072B2")
axes.invert_yaxis()
axes.set(xlabel="seconds, sampling included")
figure.tight_layout()

# %%
# Bags on disk, their products on the same card (``benchmarks/results/gpu_bags.json``).

bags = json.loads((here / "benchmarks" / "results" / "gpu_bags.json").read_text())
print(bags["command"])
print(f"{bags['bags']} bags of {bags['tokens']} tokens in {bags['dim']} dimensions: ", end="")
print(f"{bags['seconds']:.0f} s in {bags['passes']} passes")

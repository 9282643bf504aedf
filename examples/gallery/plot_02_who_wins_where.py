"""
Who wins where: length and strength
===================================

Attention must learn a query before it can look. When is that worth it? For each length and
strength the exact errors of attention and of mean pooling, with the same samples in all.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsetoken as st

lengths = [3, 5, 10, 20]
strengths = np.linspace(2.0, 6.0, 6)
protocol = st.Protocol(query_samples=2.0, readout_samples=4.0, ridge=1e-2)

gain = np.empty((len(strengths), len(lengths)))
for row, strength in enumerate(strengths):
    for column, length in enumerate(lengths):
        task = st.Task(length=length, sparsity=1, strength=float(strength))
        attention = st.predict(task, st.Attention(), protocol).test_error
        all_samples = st.Protocol(readout_samples=6.0, ridge=1e-2)  # pooling learns no query
        pooled = st.predict(task, st.Pooled(), all_samples).test_error
        gain[row, column] = pooled - attention

# %%
# Blue: attention has the lower error. Red: the mean does, because the query is not found yet.

figure, axes = plt.subplots(figsize=(6.4, 4))
image = axes.imshow(gain, origin="lower", cmap="RdBu", vmin=-0.3, vmax=0.3, aspect="auto")
axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
axes.set_yticks(range(len(strengths)), [f"{value:.1f}" for value in strengths])
axes.set(xlabel="tokens in a sample", ylabel="strength of the signal")
figure.colorbar(image, label="error of mean pooling − error of attention")
figure.tight_layout()
row, column = np.unravel_index(gain.argmax(), gain.shape)
print(f"attention gains most, {gain.max():.3f}, at length {lengths[column]} and ", end="")
print(f"strength {strengths[row]:.1f}; it loses most, {gain.min():.3f}")

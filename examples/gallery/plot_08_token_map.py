"""
Which patches: a map of a slide
===============================

Sixty slides of tissue, cut into patches; only slides are labelled. `TokenPosterior` says how likely
it is that a patch carries the signal, and `discoveries` chooses patches at a stated rate of false
ones.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsetoken as st

rng = np.random.default_rng(0)
signal = rng.standard_normal(32)
signal /= np.linalg.norm(signal)
x, y = (grid.ravel() for grid in np.meshgrid(np.arange(32), np.arange(24)))
inside = np.hypot((x - 16) / 15, (y - 12) / 11) < 1
places = np.stack([x, y], axis=1)[inside]


def slide(sick):
    """Embeddings of the patches, and which are of the lesion."""
    tokens = rng.standard_normal((len(places), 32))
    lesion = np.zeros(len(places), dtype=bool)
    if sick:
        centre = places[rng.integers(len(places))]
        lesion = np.hypot(*(places - centre).T) < rng.uniform(1.5, 5)
        tokens[lesion] += 4.0 * signal
    return tokens, lesion


labels = np.where(np.arange(60) % 2, "lesion", "healthy")
slides = [slide(label == "lesion") for label in labels]
tokens = st.TokenPosterior(positive="lesion").fit([each[0] for each in slides], labels)

# %%
# On new slides: of the patches that are called discoveries at a rate of 0.1, how many are wrong?

new = [slide(k % 2 == 1) for k in range(20)]
carried = np.concatenate([lesion for _, lesion in new])
found = np.concatenate(tokens.discoveries([each for each, _ in new], 0.1))
print(f"{found[carried].mean():.0%} of the lesions' patches are discovered, ", end="")
print(f"{(~carried[found]).mean():.1%} of the discoveries are wrong")

# %%
# One new slide: what was there, and what is said of it.

shown, lesion = max(new, key=lambda each: each[1].sum())
(posterior,) = tokens.posterior([shown])
figure, both = plt.subplots(1, 2, figsize=(6.4, 3), sharey=True)
for axes, values, title in zip(
    both, (lesion, posterior), ("the lesion", "probability of the signal"), strict=True
):
    axes.scatter(*places.T, c=values, s=16, marker="s", cmap="viridis", vmin=0, vmax=1)
    axes.set(title=title, xticks=[], yticks=[], aspect="equal")
figure.tight_layout()

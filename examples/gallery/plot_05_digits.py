"""
Bags of digits: is there a nine, and which image gave it away
=============================================================

A bag of ten handwritten digits (scikit-learn's, 8×8 pixels) is positive if it holds a nine. Only
bags are labelled. Images of training and test bags are disjoint.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import sparsetoken as st

images, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))


def bags_of_digits(rows, count, seed, length=10):
    """Bags (count, length, 64), labels, and which image is a nine."""
    rng = np.random.default_rng(seed)
    nines, others = rows[digits[rows] == 9], rows[digits[rows] != 9]
    chosen = rng.choice(others, (count, length))
    positive = np.arange(count) % 2 == 0
    places = rng.integers(length, size=count)
    chosen[positive, places[positive]] = rng.choice(nines, positive.sum())
    return images[chosen] / 16, np.where(positive, "nine", "none"), digits[chosen] == 9


bags, labels, _ = bags_of_digits(order[:900], 300, seed=1)
new, truth, nines = bags_of_digits(order[900:], 1000, seed=2)

# %%
# Cross-validation on the training bags says which pooling to take; new bags say whether it was
# right.

choice = ["pooled", "attention", "posterior", "statistics"]
table = st.compare_poolings(bags, labels, poolings=choice, positive="nine")
print(table[["pooling", "error", "auc"]].round(3).to_string(index=False))
classifier = st.AttentionClassifier(positive="nine").fit(bags, labels)
mean = st.PooledClassifier(positive="nine").fit(bags, labels)
print(f"new bags: attention {classifier.score(new, truth):.3f}, ", end="")
print(f"mean {mean.score(new, truth):.3f}")

# %%
# The images of positive bags, ranked by attention; frames around the nines.

positive = np.flatnonzero(truth == "nine")[:5]
figure, grid = plt.subplots(len(positive), 10, figsize=(6.4, 3.4))
for axes, bag in zip(grid, positive, strict=True):
    (weights,) = classifier.attention(new[[bag]])
    for axis, image in zip(axes, np.argsort(-weights), strict=True):
        axis.imshow(new[bag, image].reshape(8, 8), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
        for spine in axis.spines.values():
            spine.set(color="#D55E00" if nines[bag, image] else "#cccccc", linewidth=1.5)
figure.suptitle("bags with a nine (framed), images ranked by attention", fontsize=9)

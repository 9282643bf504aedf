"""Bags of handwritten digits: a bag is positive if it holds a nine. Which image gave it away?

    python examples/digit_bags.py            # a table and digit_bags.png
    python examples/digit_bags.py --bags 300 --length 30 --figure nines.png

scikit-learn's bundled digits (8×8 pixels, no download); images of training and test bags are
disjoint, both classes equally frequent. The bags are all the classifiers see: no image is labelled.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import sparsetoken as st


def digit_bags(bags: int, length: int, seed: int, test: bool = False):
    """Bags (n, length, 64), labels ±1 (n,) and which image is a nine (n, length)."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    half = order[len(order) // 2 :] if test else order[: len(order) // 2]
    images, nines = images[half] / 16.0, digits[half] == 9
    rng = np.random.default_rng([seed, int(test)])
    labels = np.where(np.arange(bags) % 2 == 0, 1, -1)
    chosen = rng.choice(np.flatnonzero(~nines), (bags, length))
    places = rng.integers(length, size=bags)
    positive = labels > 0
    chosen[positive, places[positive]] = rng.choice(np.flatnonzero(nines), positive.sum())
    return images[chosen], labels, nines[chosen]


def draw(classifier, tokens, nines, path: str) -> None:
    """Positive bags, images ranked by attention; frames around the nines."""
    import matplotlib.pyplot as plt

    rows, length = 6, tokens.shape[1]
    figure, grid = plt.subplots(rows, length, figsize=(0.5 * length, 0.55 * rows))
    for axes, bag, weights, true in zip(
        grid, tokens, classifier.attention(tokens[:rows]), nines, strict=False
    ):
        for axis, index in zip(axes, np.argsort(-weights), strict=True):
            axis.imshow(bag[index].reshape(8, 8), cmap="gray_r")
            axis.set(xticks=[], yticks=[])
            axis.set_title(f"{weights[index]:.2f}", fontsize=5, pad=1)
            for spine in axis.spines.values():
                spine.set(color="#D55E00" if true[index] else "#cccccc", linewidth=1.5)
    figure.suptitle("Bags with a nine (framed), images ranked by attention", fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=300, help="labelled bags to learn from")
    parser.add_argument("--length", type=int, default=10, help="images in a bag")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", default="digit_bags.png")
    given = parser.parse_args()
    tokens, labels, _ = digit_bags(given.bags, given.length, given.seed)
    test, truth, nines = digit_bags(1000, given.length, given.seed, test=True)
    print(f"{'pooling':<20} {'accuracy':>8} {'AUC':>6} {'seconds':>8}")
    for name, classifier in (
        ("mean", st.PooledClassifier()),
        ("vectorized", st.VectorizedClassifier()),
        ("attention", st.AttentionClassifier()),
        ("attention, joint", st.AttentionClassifier(query="joint")),
    ):
        start = time.perf_counter()
        classifier.fit(tokens, labels)
        seconds = time.perf_counter() - start
        auc = roc_auc_score(truth, classifier.decision_function(test))
        print(f"{name:<20} {classifier.score(test, truth):>8.3f} {auc:>6.3f} {seconds:>8.2f}")
    positive = truth > 0
    first = np.array([weights.argmax() for weights in classifier.attention(test[positive])])
    found = np.mean(nines[positive][np.arange(len(first)), first])
    print(f"the image with the most attention is the nine in {found:.0%} of positive test bags")
    draw(classifier, test[positive], nines[positive], given.figure)
    print(f"images ranked by attention: {given.figure}")


if __name__ == "__main__":
    main()

"""
Documents: one sentence of a kind among many
============================================

The documents are docstrings of an installed library, NumPy; their sentences become vectors by
scikit-learn's TF–IDF and a truncated decomposition, no model is downloaded. A document is made of
twelve sentences; in half of the documents one of them is from a docstring on random numbers.
"""

import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import sparsetoken as st


def sentences(module):
    """Different sentences of the docstrings of a module's functions, of six words or more."""
    texts = [getattr(module, name).__doc__ or "" for name in sorted(dir(module))]
    prose = (text.split("Examples\n")[0] for text in texts)
    parts = (part for text in prose for part in re.split(r"\.\s|\n\s*\n", text))
    plain = (re.sub(r"\s+", " ", part).strip() for part in parts if "---" not in part)
    return sorted({part for part in plain if len(part.split()) >= 6 and ">>>" not in part})


random = sentences(np.random.Generator)
other = sorted(set(sentences(np)) - set(random) - set(sentences(np.random)))
print(f"{len(random)} sentences on random numbers, {len(other)} others")

# %%
# Sentences of training and of new documents are different ones.

words = TfidfVectorizer(sublinear_tf=True, min_df=2)
vectors = TruncatedSVD(48, random_state=0).fit_transform(words.fit_transform(random + other))
rng = np.random.default_rng(0)
kind, rest = rng.permutation(len(random)), len(random) + rng.permutation(len(other))


def documents(needles, hay, count, seed, length=12):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(hay, (count, length))
    positive = np.arange(count) % 2 == 0
    places = rng.integers(length, size=count)
    chosen[positive, places[positive]] = rng.choice(needles, positive.sum())
    return vectors[chosen], np.where(positive, "random", "none"), chosen


half, middle = len(kind) // 2, len(rest) // 2
bags, labels, _ = documents(kind[:half], rest[:middle], 300, seed=1)
new, truth, chosen = documents(kind[half:], rest[middle:], 500, seed=2)

# %%
# Held-out errors on the training documents, and errors on new ones.

choice = ["pooled", "attention", "posterior", "statistics"]
table = st.compare_poolings(bags, labels, poolings=choice, positive="random")
print(table[["pooling", "error", "auc"]].round(3).to_string(index=False))
attention = st.AttentionClassifier(positive="random").fit(bags, labels)
mean = st.PooledClassifier(positive="random").fit(bags, labels)
errors = {"mean": 1 - mean.score(new, truth), "attention": 1 - attention.score(new, truth)}
print({name: round(float(error), 3) for name, error in errors.items()})

# %%
# Which sentence gave a document away?

text = random + other
for document in np.flatnonzero(truth == "random")[:3]:
    (weights,) = attention.attention(new[[document]])
    place = weights.argmax()
    print(f"{weights[place]:.2f}  {text[chosen[document, place]][:90]}")

ranks = []
for document in np.flatnonzero(truth == "random"):
    (weights,) = attention.attention(new[[document]])
    needle = np.flatnonzero(chosen[document] < len(random))[0]
    ranks.append(1 + int((weights > weights[needle]).sum()))
figure, axes = plt.subplots(figsize=(6.4, 3.4))
axes.bar(*np.unique(ranks, return_counts=True), color="#D55E00")
axes.set(xlabel="rank of the sentence in attention, of twelve", ylabel="new documents")
figure.tight_layout()

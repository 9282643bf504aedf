"""
Repertoires: a few receptors of a kind among thousands
======================================================

A person's immune repertoire is a bag of receptor sequences; in those who met a pathogen a few
sequences share a motif. Here sequences are drawn at random, and a motif is planted in four of two
hundred of each positive repertoire. `KmerEncoder` turns sequences into frequencies of k-mers.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsetoken as st

AMINO_ACIDS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
MOTIF = "GLRWY"


def repertoire(rng, positive, size=200, carriers=4):
    """Sequences of 10 to 16 amino acids, C at the front and F at the end."""
    lengths = rng.integers(8, 15, size)
    sequences = ["C" + "".join(rng.choice(AMINO_ACIDS, length)) + "F" for length in lengths]
    for place in rng.choice(size, carriers, replace=False) if positive else []:
        sequence = sequences[place]
        start = rng.integers(1, len(sequence) - len(MOTIF))
        sequences[place] = sequence[:start] + MOTIF + sequence[start + len(MOTIF) :]
    return sequences


rng = np.random.default_rng(0)
labels = np.where(np.arange(240) % 2, "exposed", "naive")
people = [repertoire(rng, label == "exposed") for label in labels]
encoder = st.KmerEncoder(k=3)
bags = [encoder(sequences) for sequences in people]
print(f"{len(bags)} repertoires of {len(bags[0])} sequences in {bags[0].shape[1]} dimensions")

# %%
# The mean drowns four sequences in two hundred.

attention = st.AttentionClassifier(positive="exposed").fit(bags[:160], labels[:160])
mean = st.PooledClassifier(positive="exposed").fit(bags[:160], labels[:160])
print(f"new repertoires: attention {attention.score(bags[160:], labels[160:]):.3f}, ", end="")
print(f"mean {mean.score(bags[160:], labels[160:]):.3f}")

# %%
# Where does attention look in new repertoires?

with_motif, without = [], []
for sequences, bag, label in zip(people[160:], bags[160:], labels[160:], strict=True):
    (weights,) = attention.attention([bag])
    if label == "exposed":
        carried = np.array([MOTIF in sequence for sequence in sequences])
        with_motif.extend(weights[carried] * len(bag))
        without.extend(weights[~carried] * len(bag))
figure, axes = plt.subplots(figsize=(6.4, 3.4))
bins = np.geomspace(1e-2, 2e2, 40)
axes.hist([without, with_motif], bins=bins, density=True, label=["other sequences", "with motif"])
axes.set(xlabel="attention over its mean in the repertoire", ylabel="density")
axes.loglog()
axes.legend()
figure.tight_layout()
print(f"a sequence with the motif has {np.mean(with_motif):.1f} times the mean attention")

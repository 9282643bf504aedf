"""
For practitioners: from folders of embeddings to a plan, a model, maps and a report
===================================================================================

A folder of HDF5 files, one for each slide, with the embeddings of its patches and where they lie; a
table with a label for each slide and the patient it is of. That is what CLAM and its kin write. We
make a small one, so that this page runs anywhere: sixty slides of thirty patients, about a hundred
patches each in 16 dimensions, and a round lesion of any size in half of the slides.
"""

import contextlib
import tempfile
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sparsetoken as st
from sparsetoken.cli import main

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
(folder / "slides" / "h5_files").mkdir(parents=True)
signal = rng.standard_normal(16)
signal /= np.linalg.norm(signal)


def slide(sick):
    """Embeddings of the patches, where they are, and which are of the lesion."""
    x, y = (grid.ravel() for grid in np.meshgrid(np.arange(14), np.arange(10)))
    inside = np.hypot((x - 7) / rng.uniform(6, 7), (y - 5) / rng.uniform(4, 5)) < 1
    places = np.stack([x, y], axis=1)[inside]
    tokens, lesion = rng.standard_normal((len(places), 16)), np.zeros(len(places), dtype=bool)
    if sick:
        centre = places[rng.integers(len(places))]
        lesion = np.hypot(*(places - centre).T) < rng.uniform(1, 3)
        tokens[lesion] += 3.5 * signal
    return tokens.astype("float16"), 256 * places, lesion


def write(name, sick):
    tokens, places, lesion = slide(sick)
    with h5py.File(folder / "slides" / "h5_files" / f"{name}.h5", "w") as file:
        file["features"], file["coords"] = tokens, places
    return lesion


sick = rng.permutation(np.repeat([True, False], 30))
for number, has_lesion in enumerate(sick):
    write(f"s{number:02d}", has_lesion)
table = pd.DataFrame({"slide_id": [f"s{number:02d}.svs" for number in range(60)]})
table["case_id"] = [f"patient {number // 2}" for number in range(60)]
table["label"] = np.where(sick, "lesion", "healthy")
table.to_csv(folder / "labels.csv", index=False)

# %%
# Open the folder
# ---------------
# Headers are read, bags when they are asked for. What is missing, doubled, unlabelled or damaged is
# told at once, in one list.

collection = st.open_bags(folder / "slides", labels=folder / "labels.csv")
print(len(collection.bags), "slides,", len(collection.problems), "problems")
print(collection.names[:3], collection.labels[:3], collection.groups[:3])
bags, labels, patients = collection.bags.load(), collection.labels, collection.groups

# %%
# Which pooling?
# --------------
# Held-out error of each, with 90 % intervals; slides of one patient are never on both sides.

choice = ["pooled", "attention", "posterior", "statistics"]
compared = st.compare_poolings(bags, labels, poolings=choice, groups=patients, positive="lesion")
columns = ["pooling", "error", "error_low", "error_high", "auc", "best"]
print(compared[columns].round(3).to_string(index=False))

# %%
# A plan
# ------
# What is in these slides, and what would more labelled ones give?

pilot = st.estimate_task(bags, labels, groups=patients, positive="lesion")
print(pilot.summary())
print(pilot.plan(samples=400).headline)

# %%
# A model, and which patches
# --------------------------
# The classifier and the probabilities of patches are kept in files in which nothing has to be
# unpickled.

classifier = st.AttentionClassifier(positive="lesion").fit(bags, labels, groups=patients)
tokens = st.TokenPosterior(positive="lesion").fit(bags, labels, groups=patients)
st.save_classifier(classifier, folder / "model", tokens)

# %%
# New slides: their predictions, and maps of their patches as pictures, tables and GeoJSON for
# QuPath.

(folder / "new" / "h5_files").mkdir(parents=True)
lesions = []
for number in range(6):
    tokens_of_slide, places, lesion = slide(number % 2 == 0)
    with h5py.File(folder / "new" / "h5_files" / f"n{number}.h5", "w") as file:
        file["features"], file["coords"] = tokens_of_slide, places
    lesions.append(lesion)
new = st.open_bags(folder / "new")
print(classifier.predict(new.bags).tolist())
maps = list(st.map_tokens(new.bags, tokens, classifier, rate=0.1))
written = st.write_maps(maps, folder / "maps")
print(sorted(path.name for path in written)[:3], "and", len(written) - 3, "more")

figure, grid = plt.subplots(2, 3, figsize=(6.4, 4))
for column, number in enumerate((0, 2, 4)):
    places = maps[number].coordinates
    pairs = ((lesions[number], "the lesion"), (maps[number].posterior, "probability"))
    for axes, (values, title) in zip(grid[:, column], pairs, strict=True):
        axes.scatter(*places.T, c=values, s=14, marker="s", cmap="viridis", vmin=0, vmax=1)
        axes.set(title=f"{maps[number].name}: {title}", xticks=[], yticks=[], aspect="equal")
figure.tight_layout()

# %%
# A report
# --------
# The same on the command line, with a page to send to a colleague that needs no other file::
#
#     sparsetoken fit slides --labels labels.csv --group case_id --save model --report report.html
#     sparsetoken score model new --maps maps
#
# This page calls the first of them from Python, in the folder of the slides.

command = "fit slides --labels labels.csv --group case_id --report report.html"
with contextlib.chdir(folder):
    main([*command.split(), "--poolings", "pooled", "attention", "--no-progress"])
print((folder / "report.html").stat().st_size > 10_000)

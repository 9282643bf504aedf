"""
A plan: how many labelled documents
===================================

A document has ten sentences with embeddings of 64 dimensions; half of the documents hold one
sentence of the kind we look for, five standard deviations from the others. How many labelled
documents until 95 % are classified correctly, and which pooling?
"""

import matplotlib.pyplot as plt

import sparsetoken as st

document = st.Task(length=10, sparsity=1, strength=5.0)
advice = st.plan(document, dim=64, target_error=0.05, check=False)
print(advice.headline)

# %%
# The curve behind it: every point is tuned anew (ridge, split between query and readout, steps,
# sharpness), and is a mean over training sets of that size in that dimension.

around = st.outlook(advice)
curve = st.tuned_curve(around)
print(curve.round(4).to_string(index=False))

figure, axes = plt.subplots(figsize=(6.4, 4))
looks = {
    "attention": ("#D55E00", "-o"),
    "vectorized": ("#009E73", "--s"),
    "pooled": ("#0072B2", "-.^"),
}
for name, (color, style) in looks.items():
    own = curve[curve.classifier == name]
    axes.loglog(own.samples, own.value, style, color=color, label=name)
axes.axhline(0.05, color="black", linestyle=":", label="target")
axes.set(xlabel="labelled documents", ylabel="test error")
axes.legend()
figure.tight_layout()

# %%
# The outlook has more: the floors, where attention begins to win, and the answer if the task is a
# little different from what was thought.

print(around)

"""
A plan: how many labelled documents
===================================

A document has ten sentences with embeddings of 64 dimensions; half of the documents hold one
sentence of the kind we look for, five standard deviations from the others. How many labelled
documents until 95 % are classified correctly, and which pooling?
"""

import sparsetoken as st

document = st.Task(length=10, sparsity=1, strength=5.0)
advice = st.plan(document, dim=64, target_error=0.05, check=False)
print(advice)
axes = advice.plot()

# %%
# And with what there is, 60 documents? Everything is tuned anew (ridge, split between query and
# readout, steps, sharpness); bars are two standard deviations between training sets.

axes = st.plan(document, dim=64, samples=60, check=False).plot()

# %%
# The floors, in the limit of many dimensions: no learner gets below the first with as many
# documents per dimension, and none below the second with any number of them.

print(st.bayes_curve(document, samples=[60 / 64]).test_error.round(3), end=" ")
print(round(float(st.bayes_error(document)), 3))

# %%
# ``outlook(advice)`` has more, in half a minute: the floors, where attention begins to win, and
# the answer if the task is a little different from what was thought; ``tuned_curve`` draws the
# error against the number of documents, each point tuned.

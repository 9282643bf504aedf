"""
A pilot: what is in these bags, and what would more of them give
================================================================

A hundred and fifty labelled bags are there. Before more are labelled: is there a signal, how
strong and how sparse is it, and what error would a thousand bags give?
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsetoken as st

task = st.Task(length=12, sparsity=2, strength=3.5, prevalence=0.4)
sample = task.sample(150, dim=20, rng=1)  # stands for your embeddings
bags, labels = list(sample.tokens), np.where(sample.labels > 0, "sick", "healthy")

pilot = st.estimate_task(bags, labels)
print(pilot.summary())

# %%
# The forecast sets out from what was measured on these bags, and says how sure it is.

advice = pilot.plan(samples=1000)
print(advice.headline)

# %%
# The bags were drawn from a known task, so that we can look: how much error does a classifier make
# that was trained on a thousand of them?

many = task.sample(1000, dim=20, rng=2, signal=sample.signal)
new = task.sample(4000, dim=20, rng=3, signal=sample.signal)
truth = 1 - st.AttentionClassifier().fit(many.tokens, many.labels).score(new.tokens, new.labels)
print(f"trained on 1000 bags: test error {truth:.4f}")

weights = st.AttentionClassifier().fit(bags, labels).attention(new.tokens[:30])
figure, axes = plt.subplots(figsize=(6.4, 4))
image = axes.imshow(np.stack(weights), cmap="Greys", aspect="auto")
rows, columns = np.nonzero(new.places[:30])
axes.plot(columns, rows, "o", color="#D55E00", fillstyle="none")
axes.set(xlabel="token", ylabel="new bag", title="attention; circles: where the signal is")
figure.colorbar(image, label="weight")
figure.tight_layout()

"""sparsetoken: when does attention pooling find a sparse signal that linear pooling misses?

A sample is L tokens in R^d. A positive sample hides a weak signal in R random tokens, a negative
one is pure noise. The story in the order of the public names:

1. `Task` says what a sample is; `Square`, `Logistic`, `SquaredHinge` and `Huber` what training
   minimises (any `Loss` does).
2. `Pooled`, `Vectorized`, `Attention` (each a `Classifier`; attention with any `Weighting`) turn
   tokens into features. Each has a `FeatureLaw`: all that the theory needs to know of it. They go
   by name in `LOSSES`, `WEIGHTINGS`, `CLASSIFIERS`, where you can register your own.
3. `Protocol` says how it is trained; `align` gives the query that two gradient steps learn.
4. `solve` fits a readout to any law, exactly, in the limit of many dimensions; `predict` and
   `learning_curve` do so for a task, a classifier and a protocol.
5. `capacity` says where data stop being separable; `oracle_error`, `bayes_error` and
   `signal_threshold` what is possible at all.
6. `simulate` runs the same protocol at finite size, exact in law: the independent witness.
7. `grid` and `sweep` ask many such questions and keep the answers in a `Store`.
8. `plan` says which pooling, how many labelled samples, and how many of them for the query.
9. `AttentionClassifier`, `PooledClassifier`, `VectorizedClassifier`, `StatisticsClassifier` learn
   from your own bags of embeddings, with the scikit-learn API; `estimate_task` says how strong and
   how sparse their signal is, ready for `plan`.
10. `explore` opens a page in the browser on which all of this moves (extra `app`).

>>> import sparsetoken as st
>>> task = st.Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)
>>> protocol = st.Protocol(query_samples=2.0, readout_samples=4.0, loss=st.Logistic(), ridge=1e-5)
>>> attention = st.predict(task, st.Attention(), protocol)
>>> pooled = st.predict(task, st.Pooled(), protocol)
>>> round(attention.test_error, 3), round(pooled.test_error, 3)
(0.04, 0.291)
"""

from __future__ import annotations

import lazy_loader

__version__ = "0.1.0"

# Public names stand in __init__.pyi, once, and are imported when first used: this stays fast.
__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __dir__() -> list[str]:
    return __all__

"""The classifiers that are compared, by name.

Those of this project come from `sparsetoken.ESTIMATORS`: a new name there is a new row here.
"choice" is what `sparsetoken fit` would take: the best in a cross-validation of the training bags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from attention_mil import AttentionMIL
from baselines import logistic, radial

import sparsetoken as st

CHOICE = "choice"
MAPPED = "attention mapped"
SIMPLE = ("logistic mean", "logistic max", "logistic mean+max", "svm statistics")
NETWORKS = ("mil", "mil hidden")
# Places in a bag mean nothing in any source: all tokens side by side are out of the question.
OURS = (*(name for name in st.ESTIMATORS if name != "vectorized"), CHOICE)


@dataclass(frozen=True)
class Method:
    """How a classifier is made, from the dimension of tokens and a seed."""

    make: Callable[[int, int], Any]  # with `fit(bags, labels)` and `decision_function(bags)`
    fits: int = 1  # with other seeds, where the seed changes the result


class Choice:
    """The best pooling in a cross-validation of the training bags."""

    def fit(self, bags, labels):
        table = st.compare_poolings(bags, labels)
        if not table.best.any():
            raise st.ConvergenceError("; ".join(table.failure[1:]))
        self.chosen = st.ESTIMATORS.make(table.pooling[table.best].iloc[0]).fit(bags, labels)
        return self

    def decision_function(self, bags):
        return self.chosen.decision_function(bags)


def _ours(name: str, dim: int, seed: int) -> Any:
    return Choice() if name == CHOICE else st.ESTIMATORS.make(name)


METHODS: dict[str, Method] = {
    "logistic mean": Method(lambda dim, seed: logistic("mean")),
    "logistic max": Method(lambda dim, seed: logistic("max")),
    "logistic mean+max": Method(lambda dim, seed: logistic("mean", "max")),
    "svm statistics": Method(lambda dim, seed: radial("mean", "std", "min", "max", dim=dim)),
    "mil": Method(lambda dim, seed: AttentionMIL(hidden=False, seed=seed), fits=3),
    "mil hidden": Method(lambda dim, seed: AttentionMIL(hidden=True, seed=seed), fits=3),
    MAPPED: Method(lambda dim, seed: st.AttentionClassifier(token_map="auto")),
    **{name: Method(partial(_ours, name)) for name in OURS},
}

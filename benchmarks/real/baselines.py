"""What anyone would try first: fixed statistics of a bag's tokens and a classifier of scikit-learn.

Features are standardised; what a classifier has to choose it chooses by five-fold cross-validation
inside the bags it learns from.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

PARTS = {"mean": np.mean, "max": np.max, "min": np.min, "std": np.std}


class OnStatistics:
    """A classifier of statistics of each coordinate, side by side."""

    def __init__(self, parts: tuple[str, ...], search: GridSearchCV):
        self.parts, self.search = parts, search

    def fit(self, bags, labels):
        self.search.fit(self._features(bags), labels)
        return self

    def decision_function(self, bags):
        return self.search.decision_function(self._features(bags))

    def _features(self, bags):
        return np.array(
            [np.concatenate([PARTS[p](bag, axis=0) for p in self.parts]) for bag in bags]
        )


def _search(classifier, grid: dict, scoring: str) -> GridSearchCV:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return GridSearchCV(
        make_pipeline(StandardScaler(), classifier), grid, scoring=scoring, cv=folds
    )


def logistic(*parts: str) -> OnStatistics:
    """Logistic regression; C over six decades."""
    grid = {"logisticregression__C": np.logspace(-4, 1, 6)}
    search = _search(LogisticRegression(max_iter=5000), grid, "neg_log_loss")
    return OnStatistics(parts, search)


def radial(*parts: str, dim: int) -> OnStatistics:
    """A support vector machine with a Gaussian kernel; widths around one over the features."""
    widths = np.array([0.1, 0.3, 1.0, 3.0]) / (len(parts) * dim)
    grid = {"svc__C": [1.0, 10.0, 100.0], "svc__gamma": widths}
    return OnStatistics(parts, _search(SVC(), grid, "accuracy"))

r"""Are the training data linearly separable? An exact answer by linear programming.

    maximise t  subject to  y_i(⟨w, f_i⟩ + b) ≥ t,  −1 ≤ w_k ≤ 1,  t ≤ 1

is feasible at zero, and its value is positive exactly if some (w, b) has every sample on its side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetoken.support.arrays import FloatArray

_NOTHING = 1e-9  # beside the unit scale of w and t


def separable(features: FloatArray, labels: FloatArray) -> bool:
    """True if a hyperplane has all features (n, p) with labels ±1 on their sides.

    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> separable(corners, np.array([-1, -1, -1, 1])), separable(corners, np.array([-1, 1, 1, -1]))
    (True, False)
    """
    from scipy.optimize import linprog

    n, p = features.shape
    signed = labels[:, None] * np.column_stack([features, np.ones(n)])
    limits = [(-1.0, 1.0)] * p + [(None, None), (None, 1.0)]
    program: Any = linprog(
        np.append(np.zeros(p + 1), -1.0),
        A_ub=np.column_stack([-signed, np.ones(n)]),
        b_ub=np.zeros(n),
        bounds=limits,
        method="highs",
    )
    if program.status != 0:
        raise RuntimeError(f"separable: the linear program was not solved ({program.message})")
    return bool(-program.fun > _NOTHING)

r"""The convex fit on arrays: NumPy, or torch on CPU or GPU, unchanged.

Conventions. Features F (n, p), labels y = ±1, margins x = y(Fw + b + o); the objective is

    Σ s_i ℓ(x_i) + (λ/2)‖w‖²,      bias not penalised,

with offsets o = 0 and shares s_i = 1/n of the samples, unless offsets or weights are given.

Newton's method (`newton.py`) takes its steps by conjugate gradients while those are cheap. Where
they are not, the square loss is one Cholesky factorisation of the centred Gram matrix, p×p or n×n,
whichever is smaller; losses with kinks go to the interior-point method (`interior.py`), and other
losses factor a matrix for each step. Every fit is certified by its gradient,

    certificate = ‖(∇_w/φ, ∇_b)‖ / Σ s_i|ℓ′(x_i)|,   φ² = mean‖f_i‖²:

the share of the samples' pulls that does not cancel. It does not depend on units, and it stays
meaningful on separable data with a tiny ridge, where all slopes vanish together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType

from sparsetoken.fitting import algebra
from sparsetoken.fitting.interior import minimise_kinked
from sparsetoken.fitting.newton import minimise
from sparsetoken.fitting.objective import Fitted, Objective
from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import Array, floats
from sparsetoken.support.errors import InvalidInput, NoMinimiserError

_MOST_SOLVES = 8  # with one Cholesky factor; one is enough unless the ridge is tiny


def fit(
    features: Array,
    labels: Array,
    loss: Loss,
    ridge: float,
    *,
    weights: Array | None = None,
    offsets: Array | None = None,
    start: tuple[Array, float] | None = None,
    tolerance: float | None = None,
    gradient_norm: float = 0.0,
    factorise: bool | None = None,
) -> Fitted:
    """Minimise Σ s ℓ(y(⟨w, f⟩ + b + o)) + (ridge/2)‖w‖² over w and b.

    Parameters
    ----------
    features : array
        (n, p), float64 or float32; a torch tensor is fitted where it lives.
    labels : array
        (n,), +1 or −1, both present.
    loss : Loss
        Any loss of the margin.
    ridge : float
        λ ≥ 0. With 0 the minimiser must exist (`NoMinimiserError` otherwise).
    weights : array, optional
        (n,), at least 0: the shares s are in proportion to them; all alike if not given.
    offsets : array, optional
        (n,), what the score of each sample has already.
    start : (w, b), optional
        Where Newton's method begins; at zero if not given. The minimiser is the same.
    tolerance : float, optional
        Largest certificate accepted; 1e-8 for float64, 1e-6 for float32.
    gradient_norm : float, optional
        A gradient this small is accepted too, whatever its certificate.
    factorise : bool, optional
        Cholesky from the start (True) or only if conjugate gradients fail (False); by default
        whichever is cheaper at that size.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetoken import Logistic
    >>> rng = np.random.default_rng(0)
    >>> labels = np.sign(rng.standard_normal(500))
    >>> features = rng.standard_normal((500, 3)) + labels[:, None]
    >>> fitted = fit(features, labels, Logistic(), ridge=0.1)
    >>> fitted.weights.round(2).tolist(), fitted.certificate < 1e-8
    ([0.68, 0.74, 0.8], True)
    """
    objective = Objective.of(
        features, labels, loss, ridge, tolerance, gradient_norm, weights, offsets
    )
    return _fit(objective, factorise, start)


def fit_path(
    features: Array,
    labels: Array,
    loss: Loss,
    ridges: Sequence[float],
    *,
    weights: Array | None = None,
    tolerance: float | None = None,
) -> Iterator[Fitted]:
    """`fit` for one ridge after another, each begun where the one before ended.

    >>> import numpy as np
    >>> from sparsetoken import Logistic
    >>> features = np.random.default_rng(1).standard_normal((30, 3))
    >>> path = fit_path(features, np.sign(features[:, 0]), Logistic(), [1.0, 0.1, 0.01])
    >>> [round(float(fitted.weights[0]), 2) for fitted in path]
    [0.27, 1.3, 3.77]
    """
    objective = Objective.of(features, labels, loss, 0.0, tolerance, weights=weights)
    start = None
    for ridge in ridges:
        fitted = _fit(objective.at(ridge), None, start)
        start = (fitted.weights, fitted.bias)
        yield fitted


def _fit(objective: Objective, factorise: bool | None, start: tuple[Array, float] | None) -> Fitted:
    """By the method that suits shape and loss."""
    if objective.ridge == 0 and objective.n <= objective.p:
        raise NoMinimiserError(
            f"fit: with ridge=0 and {objective.n} samples of {objective.p} features infinitely "
            "many readouts fit the data equally well; use a positive ridge"
        )
    fitted = minimise(objective, factorise, start)
    if fitted is not None:
        return fitted
    if objective.one_factor:
        return _fit_square(objective)
    if objective.n >= objective.p:
        return minimise_kinked(objective)
    # conjugate gradients were too slow, and n < p: factorisations of an n×n matrix are cheaper
    rows, dual_of = _rows_of(objective.xp, objective.features @ objective.features.T)
    reduced = _fit(replace(objective, features=rows), None, None)
    weights = objective.features.T @ dual_of(reduced.weights)
    counts = reduced.steps, reduced.products
    fitted, gradient = objective.judge(weights, reduced.bias, *counts)
    if objective.met(gradient):
        return fitted
    # directions whose squares are rounding in the Gram matrix are left to conjugate gradients
    polished = minimise(objective, factorise=False, start=(weights, reduced.bias))
    return polished or objective.settle(weights, reduced.bias, *counts)


def fit_gram(gram: Array, labels: Array, loss: Loss, ridge: float) -> tuple[Array, Fitted]:
    """The same fit when only K = FFᵀ (n, n) is known: w = Fᵀa.

    Returns a (n,) and the fit; its `weights` are w in another basis, so ‖weights‖ = ‖w‖.

    >>> import numpy as np
    >>> from sparsetoken import Logistic
    >>> features = np.random.default_rng(1).standard_normal((6, 20))
    >>> labels = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    >>> dual, _ = fit_gram(features @ features.T, labels, Logistic(), ridge=0.1)
    >>> direct = fit(features, labels, Logistic(), ridge=0.1)
    >>> bool(np.allclose(features.T @ dual, direct.weights))
    True
    """
    xp, gram = floats(gram)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise InvalidInput(f"fit_gram: gram must be a square matrix, got shape {tuple(gram.shape)}")
    rows, dual_of = _rows_of(xp, gram)
    fitted = fit(rows, labels, loss, ridge)
    return dual_of(fitted.weights), fitted


def _rows_of(xp: ModuleType, gram: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Features C with CCᵀ = K, and the map from their weights Cᵀa to a."""
    try:
        root = algebra.cholesky(xp, gram)
        return root, partial(algebra.solve_transposed_root, xp, root)
    except algebra.SingularError:  # keep the directions that count
        values, vectors = xp.linalg.eigh(gram)
        kept = values > float(xp.max(values)) * gram.shape[0] * float(xp.finfo(gram.dtype).eps)
        basis, scale = vectors[:, kept], xp.sqrt(values[kept])
        return basis * scale, lambda weights: basis @ (weights / scale)


def _fit_square(objective: Objective) -> Fitted:
    """(F_cᵀF_c/n + λ) w = F_cᵀy/n with F_c centred; through n×n if there are fewer samples.

    In the dual, w = F_cᵀa with (F_cF_cᵀ/n + λ) a = y_c/n. The factor also corrects its own
    rounding: the same equation again, for what is left of the right-hand side.
    """
    xp, features, n = objective.xp, objective.features, objective.n
    mean = xp.mean(features, axis=0)  # (p,)
    wide = n < objective.p
    root = _factor(objective, mean, wide)
    target = objective.labels if objective.offsets is None else objective.labels - objective.offsets
    level = float(xp.mean(target))
    unknown, residual = 0.0, target - level  # w, or a
    for steps in range(1, _MOST_SOLVES + 1):
        pull = residual / n if wide else features.T @ (residual / n)
        unknown = unknown + algebra.solve_root(xp, root, pull - objective.ridge * unknown)
        weights = features.T @ (unknown - xp.mean(unknown)) if wide else unknown
        bias = level - float(mean @ weights)
        fitted, gradient = objective.judge(weights, bias, steps, steps)
        if objective.met(gradient):
            return fitted
        residual = objective.labels - fitted.scores
    return objective.settle(weights, bias, steps, steps)


def _factor(objective: Objective, mean: Array, wide: bool) -> Array:
    """The Cholesky factor of the centred Gram matrix over n, plus λ."""
    xp, features, n = objective.xp, objective.features, objective.n
    if wide:
        gram = features @ features.T
        across = features @ mean  # FF̄: centring both sides of the Gram matrix
        gram -= across[:, None] + across[None, :] - float(mean @ mean)
    else:
        gram = algebra.outer_gram(xp, features)
        gram -= n * mean[:, None] * mean[None, :]
    gram /= n
    algebra.add_to_diagonal(gram, objective.ridge)
    try:
        return algebra.cholesky(xp, gram)
    except algebra.SingularError as error:
        raise NoMinimiserError(
            f"fit: ridge={objective.ridge:g} is too small for features that are linearly "
            f"dependent to rounding ({error})"
        ) from None

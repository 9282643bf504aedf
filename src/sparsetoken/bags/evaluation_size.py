r"""How many test bags show an AUC to a given width?

The AUC A that is measured with n₁ positive and n₀ negative bags (the share of pairs in order) has
the variance

    σ² = [A(1−A) + (n₁−1)(Q₁ − A²) + (n₀−1)(Q₀ − A²)] / (n₁n₀),

Q₁ the probability that two positive bags score above one negative, Q₀ that one positive does above
two negative: exact for any scores. For those of two Gaussians of one width (the binormal model)
A = Φ(h) and Q₁ = Q₀ = Φ₂(h, h; ½) = A − 2T(h, 1/√3), with T Owen's function. With n₁ = πn,
n₀ = (1−π)n and q = Q − A² the width z σ ≤ w is reached from

    n = [q + √(q² + 4c(A(1−A) − 2q))] / (2c),    c = π(1−π)w²/z²

on. This is the interval of DeLong and others, A ± z σ, planned instead of estimated.
"""

from __future__ import annotations

import math

from scipy.special import ndtri, owens_t

from sparsetoken.bags.intervals import reach_of
from sparsetoken.support.checks import real

_FEWEST = 10  # bags of each class: of fewer, a share of pairs is not nearly normal


def test_bags_needed(
    auc: float, prevalence: float = 0.5, half_width: float = 0.05, level: float = 0.95
) -> int:
    """Test bags with which an AUC is shown to ± `half_width`.

    n = [q + √(q² + 4c(A(1−A) − 2q))] / (2c) with c = π(1−π)w²/z² and q = Φ₂(h, h; ½) − A², where
    h = Φ⁻¹(A): the variance of the measured AUC for scores of two Gaussians. At least ten bags of
    each class.

    Parameters
    ----------
    auc : float
        A, expected; at least 0.5, below 1. Near 1 the interval is not symmetric, and the number is
        a guide.
    prevalence : float
        π, share of positive bags among the test bags.
    half_width : float
        w, of the interval.
    level : float
        Of the interval: the measured AUC is within ± w of A with this probability.

    Returns
    -------
    int
        Bags in all; none of them may have been trained on.

    Raises
    ------
    InvalidInput
        For values out of bounds.

    Examples
    --------
    >>> test_bags_needed(0.8), test_bags_needed(0.8, prevalence=0.1)
    (292, 807)
    >>> test_bags_needed(0.8, half_width=0.025)
    1161
    """
    owner = "test_bags_needed"
    auc = real(owner, "auc", auc, least=0.5, below=1)
    prevalence = real(owner, "prevalence", prevalence, above=0, below=1)
    half_width = real(owner, "half_width", half_width, above=0, below=0.5)
    level = real(owner, "level", level, above=0, below=1)
    both = auc - 2 * float(owens_t(float(ndtri(auc)), 1 / math.sqrt(3)))  # Q
    q = both - auc**2
    c = prevalence * (1 - prevalence) * (half_width / reach_of(level)) ** 2
    needed = (q + math.sqrt(q**2 + 4 * c * max(auc * (1 - auc) - 2 * q, 0.0))) / (2 * c)
    return math.ceil(max(needed, _FEWEST / min(prevalence, 1 - prevalence)))


test_bags_needed.__test__ = False  # type: ignore[attr-defined]  # a name, not a test of pytest's

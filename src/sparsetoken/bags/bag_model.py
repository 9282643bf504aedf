"""What training tries and what comes of it, as data: recipes, choices, fitted models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.poolings import Pooling
from sparsetoken.bags.token_maps import mapped
from sparsetoken.bags.units import Target
from sparsetoken.bags.whitening import Shrinking, Whitening
from sparsetoken.fitting.calibration import Sigmoid
from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import FloatArray

RIDGES = (1e2, 10.0, 1.0, 0.1, 0.01)  # that are tried, in units of the features' variance


@dataclass(frozen=True)
class Recipe:
    """What is tried, and how."""

    pooling: Pooling
    loss: Loss
    ridge: float | None  # None: the best of `RIDGES`
    shrinkings: Mapping[bool, tuple[Shrinking, ...]]  # of tokens, as they are and mapped, as tried
    token_map: Any  # a transformer of tokens, not fitted (in training its `view`); None without one
    calibrate: bool
    folds: int

    @property
    def factors(self) -> tuple[float, ...]:
        """Ridges that are tried, in units of the features' variance; the largest first, as each
        fit begins where the one before ended."""
        return RIDGES if self.ridge is None else (1.0,)

    def sharpnesses(self, is_mapped: bool) -> tuple[float, ...]:
        """That are tried of tokens as they are, and mapped."""
        if is_mapped and self.token_map.once:
            return self.pooling.sharpnesses_mapped(self.token_map.repeats)
        return self.pooling.sharpnesses

    @property
    def free(self) -> bool:
        """Whether anything is chosen on held-out bags."""
        tried = (self.factors, self.shrinkings, *self.shrinkings.values(), self.pooling.sharpnesses)
        return any(len(values) > 1 for values in tried) or self.calibrate


class Choice(NamedTuple):
    """What is chosen."""

    mapped: bool  # whether tokens are mapped
    shrinking: Shrinking  # of the whitening
    sharpness: float
    factor: float  # the ridge in units of the features' variance; 1 where the ridge is given

    @property
    def flat(self) -> tuple[bool, Target | None, float, float, float]:
        """Mapped, target, shrinkage, sharpness, factor."""
        return self.mapped, *self.shrinking, self.sharpness, self.factor


class Judged(NamedTuple):
    """Logistic loss of held-out bags, after the sigmoid that fits their scores; that sigmoid."""

    loss: float
    sigmoid: Sigmoid


@dataclass(frozen=True, eq=False)
class BagModel:
    """Everything that turns bags into scores."""

    token_map: Any  # fitted, or None
    whitening: Whitening
    pooling: Pooling  # with what it has learned
    weights: FloatArray  # (p,)
    bias: float
    ridge: float

    def scores(self, bags: Bags) -> FloatArray:
        """(n,)."""
        features = self.pooling.features(mapped(self.token_map, bags), self.whitening)
        return features @ self.weights + self.bias

    def contributions(self, bags: Bags) -> FloatArray:
        """What each token (N,) adds to the score of its bag."""
        bags = mapped(self.token_map, bags)
        return self.pooling.contributions(bags, self.whitening, self.weights)

    def attention(self, bags: Bags) -> FloatArray:
        """Weights of all tokens (N,), of sum 1 in each bag."""
        return self.pooling.attention(mapped(self.token_map, bags), self.whitening)

    def levels(self, bags: Bags) -> FloatArray:
        """⟨query, token⟩ of all tokens (N,), whitened."""
        return self.whitening.project(mapped(self.token_map, bags), self.pooling.query)

    def calibrated(self, sigmoid: Sigmoid) -> BagModel:
        """With scores that are the logits of probabilities."""
        bias = sigmoid.slope * self.bias + sigmoid.offset
        return replace(self, weights=sigmoid.slope * self.weights, bias=bias)


LearnedBy = Literal["two-step", "joint", "posterior", "likelihood"]
LEARNED_BY: tuple[LearnedBy, ...] = get_args(LearnedBy)


@dataclass(frozen=True, eq=False)
class Trained:
    """The model, what was chosen, and by which losses; none where nothing could be held out."""

    model: BagModel
    choice: Choice
    losses: Mapping[Choice, float]
    by: LearnedBy = "two-step"

r"""The signal of labelled bags, along directions that they have not taught.

For each way to whiten the noise the likelihood of whole bags (`likelihood.py`) gives signals of
four forms: of one strength or several, with silent bags or without. Of all of them that one is
taken which tells positive bags from others best: what noise has as well, strange tokens in a few
bags, is likely but does not tell a label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparsetoken.bags.likelihood import (
    Levels,
    NoiseDensity,
    Signal,
    fit_signal,
    refit,
    refit_freely,
)
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.units import TARGETS
from sparsetoken.bags.views import Split, levels_of, splits
from sparsetoken.bags.whitening import Shrinking
from sparsetoken.support.arrays import BoolArray

SHRINKINGS = tuple(Shrinking(target, least) for target in TARGETS for least in (0.0, 0.3, 0.6, 1.0))
_LEAST_AGREEMENT = 0.01  # s²: directions that agree less say nothing of the signal


def best_estimate(data: TrainingData) -> Estimate:
    """Over all ways to whiten the noise."""
    return max((Estimate.of(data, shrinking) for shrinking in SHRINKINGS), key=Estimate.recognition)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What some of the bags say, their noise whitened so."""

    shrinking: Shrinking
    splits: list[Split]
    bags: Levels  # of both classes
    positive: BoolArray  # which of them (b,)
    signal: Signal
    free: Signal  # with all parameters free
    counts: tuple[int, ...]  # of tokens with the signal, nearly as likely
    cosine: float

    @classmethod
    def of(cls, data: TrainingData, shrinking: Shrinking) -> Estimate:
        """From the bags that count; the signal that tells positive bags from others best."""
        parts, bags, positive, cosine = _seen(data, shrinking)
        fit = fit_signal(bags[positive])
        signal = max(fit.forms, key=lambda form: recognised(bags, positive, form))
        return cls(shrinking, parts, bags, positive, signal, fit.free, fit.counts, cosine)

    def without(self, data: TrainingData, block: BoolArray) -> Estimate:
        """The same from all bags but some, of the same R and near these parameters."""
        parts, bags, positive, cosine = _seen(data.without(block), self.shrinking)
        levels = bags[positive]
        free = refit_freely(levels, self.free)
        signal = free if self.signal == self.free else refit(levels, self.signal)
        return replace(
            self,
            splits=parts,
            bags=bags,
            positive=positive,
            signal=signal,
            free=free,
            cosine=cosine,
        )

    def recognition(self) -> float:
        """How well positive bags are told from others."""
        return recognised(self.bags, self.positive, self.signal)

    @property
    def strength(self) -> float:
        return self.signal.shift / self.cosine

    @property
    def spread(self) -> float:
        return float(np.sqrt(self.signal.width**2 - 1)) / self.cosine

    @property
    def free_spread(self) -> float:
        return float(np.sqrt(self.free.width**2 - 1)) / self.cosine


def _seen(data: TrainingData, shrinking: Shrinking) -> tuple[list[Split], Levels, BoolArray, float]:
    """Halves of the bags, all bags along the other half's direction, which are positive, and the
    directions' cosine with the signal."""
    parts = list(splits(data, shrinking))
    views = [view for part in parts for view in part.views]
    noise = NoiseDensity(np.concatenate([view.noise for view in views]))
    agreement = float(np.mean([part.agreement for part in parts]))
    cosine = float(np.sqrt(max(agreement, _LEAST_AGREEMENT)))
    positive = np.concatenate([view.positive for view in views])
    return parts, levels_of(views, noise, len(parts)), positive, cosine


def recognised(bags: Levels, positive: BoolArray, signal: Signal) -> float:
    """Log likelihood of the labels, given the bags, beyond that of their shares alone; less ½·log n
    for each parameter more (Bayes's information criterion).

    What noise has as well, strange tokens in a few bags, is likely but does not tell a label.
    """
    count = float(bags.counted.sum())
    share = float(bags.counted[positive].sum()) / count
    logits = bags.log_likelihoods(signal) + np.log(share / (1 - share))
    likelihoods = -np.logaddexp(0.0, np.where(positive, -logits, logits))
    alone = np.log(np.where(positive, share, 1 - share))
    return float(bags.counted @ (likelihoods - alone)) - 0.5 * float(np.log(count)) * signal.extras

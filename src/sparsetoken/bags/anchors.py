r"""Theory's curve of more labelled bags, anchored to what was measured on those at hand.

Badness (an error, or what is missing to a metric's best) is taken as a normal deviate

    z = −Φ⁻¹(badness/(2·worst)),      worst being that of a guess, for which z is 0.

With T(N) the deviate that theory predicts for the estimated task and N bags that teach query and
readout alike (`planning/reuse.py`), and m the measured one of the pilot's own n bags,

    forecast(N) = T(N) + w·(m − T(n)) + gain·(1 − n/N),      w = σ²/(σ² + e²).

e is the standard error of m; σ how far theory is off, as a rule, on real bags: what is measured
badly moves the forecast little. Where theory is off by more than that, σ² is what it is off by
beyond chance, (m − T(n))² − (1.5e)². There is a gain for bags whose noise is not white after
whitening: more of them teach its covariance too, which theory knows from the start. For mean
pooling it is in proportion to the dimension over the tokens of noise among n bags; for attention,
which has a query to learn besides, it is not. (Fewer bags than n lose gain·(1 − N/n).) The
forecast's variance is

    w·e²  +  drift²·(1 + log(N/n))  +  (spread of training sets)².

σ, gain and drift are those of `DOUBTS`, learned from real bags by benchmarks/real/planning.py,
which also says how forecasts do on sources that taught nothing.

Where bags come in groups (patients), N of them teach as much as N/D without (`groups.py`): T(N/D)
and T(n/D) stand for T(N) and T(n), with one D for each classifier, of the pilot's groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scipy.special import ndtr, ndtri

from sparsetoken.planning.metrics import Metric


class Doubt(NamedTuple):
    """How far theory is off on real bags, in deviates."""

    error: float  # σ, at the pilot's own size
    gain: float  # with very many more bags, where noise is not white
    dimension: float  # the same, for each token of noise that there is for a dimension, inversely
    drift: float  # standard deviation, at the pilot's own size and for each e-fold of bags


DOUBTS = {
    "attention": Doubt(error=0.5, gain=0.3, dimension=0.0, drift=0.09),
    "pooled": Doubt(error=0.1, gain=0.0, dimension=0.65, drift=0.07),
}
FEWEST = 4  # samples of a plan
LEAST_POWER = 0.8  # at least, or the check says nothing
_SIGNIFICANT = 1.645  # standard errors, one-sided 5 %
_CHANCE = 1.5  # standard errors up to which theory may be right after all
_TOLERATED = 0.1  # an offset that is not worth a sentence
_LEAST = 1e-12  # badness of a guess is 1/2 on this scale; nothing is nearer to 0 or to 1


class Scale(NamedTuple):
    """Badness as a normal deviate: 0 for a guess, the greater the better."""

    worst: float  # badness of a guess

    def deviate(self, badness: float) -> float:
        part = min(max(badness / (2 * self.worst), _LEAST), 1 - _LEAST)
        return -float(ndtri(part))

    def badness(self, deviate: float) -> float:
        return 2 * self.worst * float(ndtr(-deviate))

    def error(self, badness: float, standard_error: float) -> float:
        """Of the deviate."""
        density = math.exp(-0.5 * self.deviate(badness) ** 2) / math.sqrt(2 * math.pi)
        return standard_error / (2 * self.worst * density)


class Anchor(NamedTuple):
    """Theory and measurement at the size of the pilot, of one classifier and metric; badnesses."""

    classifier: str
    samples: int
    measured: float
    standard_error: float
    theory: float
    worst: float  # a guess
    white: bool  # whether noise is, after whitening
    unlearned: float  # the dimension over the tokens of noise, at most 1
    doubt: Doubt
    inflation: float = 1.0  # D: so many bags teach as much as one without groups

    def effective(self, samples: float) -> int:
        """Bags without groups that teach as much as so many, grouped as in the pilot."""
        return max(FEWEST, round(samples / self.inflation))

    @property
    def scale(self) -> Scale:
        return Scale(self.worst)

    @property
    def offset(self) -> float:
        """m − T(n)."""
        return self.scale.deviate(self.measured) - self.scale.deviate(self.theory)

    @property
    def error(self) -> float:
        """Standard error of m."""
        return self.scale.error(self.measured, self.standard_error)

    @property
    def weight(self) -> float:
        """w."""
        variance = max(self.doubt.error**2, self.offset**2 - (_CHANCE * self.error) ** 2)
        return variance / (variance + self.error**2)

    def move(self, samples: float) -> float:
        """Of the deviate, from theory's to the forecast's."""
        gain = self.doubt.gain + self.doubt.dimension * self.unlearned
        more = (samples - self.samples) / max(samples, self.samples)
        return self.weight * self.offset + (0.0 if self.white else gain * more)

    def deviation(self, samples: float, spread: float = 0.0) -> float:
        """Standard deviation of the forecast's deviate."""
        drift = self.doubt.drift**2 * (1 + math.log(max(samples / self.samples, 1.0)))
        return math.sqrt(self.weight * self.error**2 + drift + spread**2)

    def forecast(
        self, samples: float, theory: float, spread: float, reach: float
    ) -> tuple[float, float, float]:
        """Badness with so many samples: the middle, and what is so many deviations better, worse;
        from theory's, and the standard deviation of theory's between training sets."""
        middle = self.scale.deviate(theory) + self.move(samples)
        own = self.scale.error(self.scale.badness(middle), spread)
        half = reach * self.deviation(samples, own)
        value, low, high = (
            min(self.scale.badness(middle + step), self.worst) for step in (0.0, half, -half)
        )
        return value, low, high

    @property
    def factor_two(self) -> float:
        """What a badness twice or half as large changes, whichever is less."""
        here = self.scale.deviate(self.measured)
        twice, half = (self.scale.deviate(part * self.measured) for part in (2.0, 0.5))
        return min(here - twice, half - here)

    @property
    def power(self) -> float:
        """Chance that theory wrong by a factor of two would have been seen."""
        return float(ndtr(self.factor_two / self.error - _SIGNIFICANT))

    @property
    def fits(self) -> bool:
        """Whether theory agrees with what was measured, and a misfit would have been seen."""
        near = abs(self.offset) <= min(_SIGNIFICANT * self.error, self.factor_two / 2)
        return near and self.power >= LEAST_POWER


def anchor_words(anchor: Anchor, metric: Metric) -> str:
    """Theory beside measurement, in a sentence."""
    moved = anchor.scale.badness(anchor.scale.deviate(anchor.theory) + anchor.move(anchor.samples))
    return (
        f"{anchor.classifier} trained on {anchor.samples} of the pilot's bags: "
        f"{_both(anchor, metric)}; forecasts set out from {metric.badness(moved):.3g}."
    )


def disagreements(anchors: Sequence[Anchor], metric: Metric) -> Iterator[str]:
    """Where theory is not what was measured, by more than chance; and what that does."""
    for anchor in anchors:
        if abs(anchor.offset) > max(_SIGNIFICANT * anchor.error, _TOLERATED):
            side = "good" if anchor.offset < 0 else "bad"
            yield (
                f"theory alone is too {side} for {anchor.classifier}: for {anchor.samples} bags "
                f"{_both(anchor, metric)}; forecasts are moved to what was measured, and what they "
                "say of more bags is less certain"
            )


def _both(anchor: Anchor, metric: Metric) -> str:
    """Values of the metric, not badnesses."""
    return (
        f"{metric.words} {metric.badness(anchor.measured):.3g} ± {anchor.standard_error:.2g} "
        f"measured, {metric.badness(anchor.theory):.3g} by theory alone"
    )

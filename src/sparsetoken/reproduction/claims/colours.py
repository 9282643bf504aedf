"""Coloured noise, signals that are clouds: the law, what whitening costs, what attention keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Classifier, Pooled
from sparsetoken.model.covariances import Spectrum, White
from sparsetoken.model.preprocessing import whitened
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid
from sparsetoken.studies.oracles import BayesCell
from sparsetoken.support.arrays import FloatArray

_POWER, _SPREAD = "power-law noise", "signals with a spread"
_TOKENS, _TURNED = "token by token", "signals wide where noise is narrow"
_FEW, _MANY = "whitening, 0.5 samples per dimension", "whitening, 4 samples per dimension"
_AHEAD = "what a spread leaves of attention's advantage"
_EXPONENTS = (0.0, 0.2, 0.4, 0.6, 0.8)
_WIDTHS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
_SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_LOUD, _LOUDER = 0.1, 4.0  # a tenth of the directions has four times the variance of the others
_RIDGES = tuple(float(ridge) for ridge in np.geomspace(1e-3, 10.0, 9))
_ATOMS = 20  # of a power law: no more than dimensions at the least scale
_RIDGE = 1e-2  # of what is simulated: learned directions are then no lottery in a few dimensions
_STRENGTH = 4.0  # of the signal in whitened units, in the comparison of whitening
_SAMPLES = {_FEW: 0.5, _MANY: 4.0}
_RAW, _WHITE = "attention, as it is", "attention, whitened"
_RAW_MEAN, _WHITE_MEAN = "pooled, as it is", "pooled, whitened"
_FLOOR = "any learner that knows the shares"
_LAW = Spectrum.power_law(0.8, _ATOMS)
_IN_WHITE, _IN_LAW = "difference in white noise", "difference in power-law noise"
_WHITENED = "difference in power-law noise, whitened"
_TWO = {name: claim.THREE[name] for name in ("attention", "pooled")}
_GENERIC, _ALL = _LOUD, 1.0  # shares of a signal that knows nothing of the noise; in loud alone


class Colours(claim.Claim):
    source = "Beyond the paper: sections 12 and 13 of the theory"
    sentence = (
        "With coloured noise and signals that are clouds the laws hold as they do in white noise; "
        "whitening helps unless most of the signal lies in loud directions; a spread takes from "
        "attention more than from mean pooling, and leaves it ahead."
    )
    panels = (
        Panel(_POWER, "exponent of the power law", "test error", low=0.0),
        Panel(_SPREAD, "covariance of signal tokens over that of noise", "test error", low=0.0),
        Panel(_TURNED, "strength", "test error", low=0.0),
        Panel(_TOKENS, "strength", "test error", low=0.0),
        Panel(_FEW, "share of the signal in the loudest tenth", "test error", low=0.0),
        Panel(_MANY, "share of the signal in the loudest tenth", "test error", low=0.0),
        Panel(
            _AHEAD,
            "covariance of signal tokens over that of noise",
            "error pooled − attention; errors",
        ),
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        protocol = Protocol(readout_samples=4.0, ridge=_RIDGE)
        best = {"ridge": f"the best of {claim.span(_RIDGES)}"}
        quiet = f"a tenth of the directions {_LOUDER:g} times as loud as the others"
        turned = {"noise": f"{quiet}, in signal tokens the reverse", "strength": "3 to 7"}
        loud = {"noise": quiet, "strength": f"{_STRENGTH:g} in whitened units", **best}
        power = f"power law, exponents {claim.span(_EXPONENTS)}"
        spread = {"signal_spread": claim.span(_WIDTHS)}
        return {
            _POWER: claim.setting(claim.PAPER, protocol, noise=power),
            _SPREAD: claim.setting(claim.PAPER, protocol, **spread),
            _TURNED: claim.setting(claim.PAPER, protocol, **turned),
            _TOKENS: claim.setting(claim.PAPER, protocol, **turned),
            **{
                panel: claim.setting(claim.PAPER, Protocol(readout_samples=samples), **loud)
                for panel, samples in _SAMPLES.items()
            },
            _AHEAD: claim.setting(claim.PAPER, protocol, **spread, **best)
            + "; in power-law noise of exponent 0.8 too, as it is and whitened",
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Theory and simulations along spectra and spreads; theory at its best ridge."""
        turned = _two(0.5, _LOUD)
        clouds = replace(claim.PAPER, noise=turned, signal_spread=turned.eigenvalues[::-1])
        strengths = scale.thinned((3.0, 4.0, 5.0, 6.0, 7.0))
        along: Mapping[str, Mapping[float, Task]] = {
            _POWER: {
                x: replace(claim.PAPER, noise=Spectrum.power_law(x, _ATOMS))
                for x in scale.thinned(_EXPONENTS)
            },
            _SPREAD: {x: replace(claim.PAPER, signal_spread=x) for x in _WIDTHS},
            _TURNED: {x: replace(clouds, strength=x) for x in strengths},
        }
        same: dict[str, Any] = {"ridge": _RIDGE, "readout_samples": 4.0}
        for panel, tasks in along.items():
            yield from _beside(panel, tasks, _TWO, same, claim.finite(scale), ask)
        at_tokens = claim.finite(scale, 2 * scale.token_dim)
        at_tokens |= {"sampler": "tokens", "test_samples": 4000}
        yield from _beside(_TOKENS, along[_TURNED], claim.THREE, same, at_tokens, ask)
        for panel in (_FEW, _MANY):
            yield from _whitening(panel, scale, ask)
        loud = {x: replace(claim.PAPER, noise=_LAW, signal_spread=x) for x in _WIDTHS}
        settings = {
            _IN_WHITE: along[_SPREAD],
            _IN_LAW: loud,
            _WHITENED: {x: whitened(task) for x, task in loud.items()},
        }
        for name, clouds_of in settings.items():
            attention, pooled = (
                _at_best(clouds_of, kind, 4.0, ask) for kind in (Attention(), Pooled())
            )
            yield claim.rows(_AHEAD, name, _WIDTHS, theory=pooled - attention)
            if name == _IN_WHITE:
                yield claim.rows(_AHEAD, "error of attention", _WIDTHS, theory=attention)
                yield claim.rows(_AHEAD, "error of pooled", _WIDTHS, theory=pooled)

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """Every dot on its line; the order of the lines."""
        for panel in (_POWER, _SPREAD, _TURNED, _TOKENS):
            yield from claim.agreement(claim.part(table, panel), panel)
        for panel in (_FEW, _MANY):
            own = claim.wide(
                claim.part(table, panel), "theory", (_RAW, _WHITE, _RAW_MEAN, _WHITE_MEAN, _FLOOR)
            )
            yield _order(own, panel, _GENERIC, _WHITE, _RAW, "whitening helps a generic signal")
            yield _order(own, panel, _ALL, _RAW, _WHITE, "whitening harms a signal in loud alone")
            learned = own.drop(columns=_FLOOR).to_numpy()
            above = learned / own[[_FLOOR]].to_numpy()
            yield claim.Check(
                f"{panel}: nothing below the floor",
                "no error is below that of any learner",
                f"errors are {above.min():.2f} to {above.max():.2f} times the floor",
                "every error ≥ that of any learner that knows the shares, up to 1 %",
                claim.graded(0.99 - above),
            )
            yield _remark(own, panel)
        yield from _advantage(claim.wide(claim.part(table, _AHEAD), "theory", _AHEAD_SERIES))


_AHEAD_SERIES = (_IN_WHITE, _IN_LAW, _WHITENED, "error of attention", "error of pooled")


def _two(share: float, density: float) -> Spectrum:
    """Few loud directions and many quiet ones, of mean variance 1."""
    values = np.array([_LOUDER, 1.0]) / (density * _LOUDER + 1 - density)
    return Spectrum(tuple(values.tolist()), (density, 1 - density), (share, 1 - share))


def _beside(
    panel: str,
    tasks: Mapping[float, Task],
    kinds: Mapping[str, Classifier],
    same: Mapping[str, Any],
    finite: Mapping[str, Any],
    ask: claim.Ask,
) -> Iterator[claim.Table]:
    """Theory and simulation of classifiers along some tasks."""
    for name, kind in kinds.items():
        cells = {
            x: [
                *grid(task=task, classifier=kind, **same),
                *grid(task=task, classifier=kind, **same, **finite),
            ]
            for x, task in tasks.items()
        }
        answers = ask([cell for of_x in cells.values() for cell in of_x])
        parts = [claim.of(answers, of_x).assign(at=x) for x, of_x in cells.items()]
        yield claim.compare(panel, name, _stacked(parts), "at", "test_error")


def _stacked(parts: Sequence[claim.Table]) -> claim.Table:
    import pandas as pd

    return pd.concat([part.dropna(axis="columns", how="all") for part in parts], ignore_index=True)


def _at_best(
    tasks: Mapping[float, Task], kind: Classifier, samples: float, ask: claim.Ask
) -> FloatArray:
    """The theory's error at the best of the ridges, for each task."""
    cells: dict[float, list[Cell]] = {
        x: grid(task=task, classifier=kind, readout_samples=samples, ridge=list(_RIDGES))
        for x, task in tasks.items()
    }
    answers = ask([cell for of_x in cells.values() for cell in of_x])
    return np.array([claim.of(answers, of_x).test_error.min() for of_x in cells.values()])


def _whitening(panel: str, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
    """The same information in every task: the signal has one strength in whitened units."""
    samples, tasks = _SAMPLES[panel], {}
    for share in _SHARES:
        noise = _two(share, _LOUD)
        length = float(np.array(noise.signal_share) @ (1 / np.array(noise.eigenvalues)))
        tasks[share] = replace(claim.PAPER, strength=_STRENGTH / length**0.5, noise=noise)
    white = {0.0: replace(claim.PAPER, strength=_STRENGTH, noise=White())}
    for kind, raw, flat_name in (
        (Attention(), _RAW, _WHITE),
        (Pooled(), _RAW_MEAN, _WHITE_MEAN),
    ):
        yield claim.rows(panel, raw, _SHARES, theory=_at_best(tasks, kind, samples, ask))
        flat = float(_at_best(white, kind, samples, ask)[0])
        yield claim.rows(panel, flat_name, _SHARES, theory=np.full(len(_SHARES), flat))
    # what attention gets is split between query and readout: a floor has all of it
    total = samples + 2.0
    cells = {share: BayesCell(task, samples=total) for share, task in tasks.items()}
    answers = ask(list(cells.values()))
    floors = [float(claim.of(answers, [cell]).test_error.iloc[0]) for cell in cells.values()]
    yield claim.rows(panel, _FLOOR, _SHARES, theory=np.array(floors))


def _order(
    own: claim.Table, panel: str, share: float, less: str, more: str, what: str
) -> claim.Check:
    row = own.loc[share]
    return claim.Check(
        f"{panel}: {what}",
        f"{less} < {more} at a share of {share:g}",
        f"{less} {row[less]:.4f}, {more} {row[more]:.4f}",
        "the first is less by 5 % or more (inconclusive if by less)",
        claim.graded(0.0 if row[less] < 0.95 * row[more] else row[less] - 0.95 * row[more],
                     0.05 * row[more]),
    )  # fmt: skip


def _remark(own: claim.Table, panel: str) -> str:
    words = []
    for name, raw, white in (
        ("attention", _RAW, _WHITE),
        ("mean pooling", _RAW_MEAN, _WHITE_MEAN),
    ):
        gap = (own[raw] - own[white]).to_numpy()
        falls = np.flatnonzero((gap[:-1] > 0) & (gap[1:] <= 0))
        where = "at no share"
        if len(falls):
            i = int(falls[0])
            at = own.index[i] + (own.index[i + 1] - own.index[i]) * gap[i] / (gap[i] - gap[i + 1])
            where = f"from a share of {at:.2f} on"
        words.append(f"{name} {where}")
    generic = own.loc[_GENERIC]
    return (
        f"{panel}: whitening harms {' and '.join(words)} (in the loudest {_LOUD:.0%} of the "
        f"directions, {_LOUDER:g} times as loud). Of a generic signal whitened attention has an "
        f"error of {generic[_WHITE]:.4f}, any learner {generic[_FLOOR]:.4f}."
    )


def _advantage(own: claim.Table) -> Iterator[claim.Check | str]:
    *ahead, attention, pooled = (own[name] for name in _AHEAD_SERIES)
    least = [f"{one.name} {one.min():.3f} at {one.idxmin():g}" for one in ahead]
    yield claim.Check(
        "attention stays ahead",
        "error of pooled − error of attention is positive at every spread, each at its best ridge",
        "least: " + ", ".join(least),
        "every difference > 0",
        claim.decide(all((one > 0).all() for one in ahead)),
    )
    rise = [float(errors.iloc[-1] - errors.loc[1.0]) for errors in (attention, pooled)]
    yield claim.Check(
        "a spread costs attention more",
        "its error rises more than that of mean pooling",
        f"from spread 1 to {own.index.max():g}: attention {rise[0]:+.3f}, pooled {rise[1]:+.3f}",
        "the rise of attention's error is the larger",
        claim.decide(rise[0] > rise[1]),
    )
    white, law, whitened_law = ahead
    yield claim.Check(
        "whitening gives back what coloured noise takes",
        "with power-law noise attention's advantage is larger whitened, at wide spreads",
        f"at spread {own.index.max():g}: {law.iloc[-1]:.3f} as it is, {whitened_law.iloc[-1]:.3f} "
        "whitened",
        "larger by 5 % or more (inconclusive if by less)",
        claim.graded(1.05 * law.iloc[-1] - whitened_law.iloc[-1], 0.05 * abs(law.iloc[-1])),
    )
    shares = ", ".join(f"{one.iloc[-1] / one.loc[1.0]:.0%} ({one.name})" for one in ahead)
    yield (
        f"Of attention's advantage at spread 1, at spread {own.index.max():g} there is left: "
        f"{shares}; in white noise a signal that is a point has "
        f"{white.loc[0.0] / white.loc[1.0]:.0%}."
    )

"""The detection boundary: which signals, rare and weak, any test can find, and which attention can.

R = L^(1−b) tokens of strength θ = √(2r log L); see `oracles.detection`. Errors approach their
limits like powers L^(r − r*) with small exponents, or more slowly. What is checked is which way
they go as L grows: down above a boundary, up below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from sparsetoken.figures import Panel
from sparsetoken.oracles.detection import (
    TESTS,
    attention_efficiency,
    detection_boundary,
    maximum_boundary,
    rare_and_weak,
)
from sparsetoken.reproduction import claim
from sparsetoken.studies.oracles import DetectionCell, RegretCell

_MANY = 2000  # tokens with signal up to which attention and Bayes are sampled
_MAP_LENGTH = 10**4


class _Size(NamedTuple):
    lengths: tuple[int, ...]
    draws: int  # of attention and Bayes
    criticism_draws: int
    criticism_longest: int  # every token of which is drawn
    side: int  # of the map, in cells
    map_draws: int


_SIZES = {  # by scale
    "tiny": _Size((100, 1000), 1 << 10, 1 << 11, 1000, 3, 128),
    "quick": _Size((100, 10**4, 4 * 10**4), 1 << 11, 1 << 14, 10**4, 5, 128),
    "full": _Size((100, 1000, 10**4, 10**5, 10**6), 1 << 14, 1 << 15, 10**5, 12, 2048),
}
_POINTS = {  # panel: (b, r), on all sides of the two boundaries
    f"b = {b:g}, r = {r:g}: {where}": (b, r)
    for b, r, where in (
        (0.4, 0.05, "dense"),
        (0.7, 0.4, "sparse, above both"),
        (0.85, 0.6, "very sparse, above"),
        (0.7, 0.1, "below both"),
        (0.55, 0.08, "between the boundaries"),
    )
}
_BETWEEN, _VERY_SPARSE = list(_POINTS)[-1], list(_POINTS)[2]
_BAYES, _ATTENTION, _REGRET = (
    f"{what}, L = 10 000" for what in ("Bayes", "attention", "attention − Bayes")
)
_SHARPNESS = "best sharpness over strength"  # not drawn
_EXPECTED = {
    "pooled": "down for b < ½; up for b > ½, once log L > 1/(2b − 1)",
    "maximum": "down for r > (1 − √(1−b))², up below",
}
_B, _R = "rarity  $b$   ($R = L^{1-b}$)", "amplitude  $r$   ($\\theta^2 = 2 r \\log L$)"


class Boundary(claim.Claim):
    source = "Ingster; Donoho and Jin"
    sentence = (
        "Attention at its best sharpness finds rare and weak signals up to the boundary beyond "
        "which no test can; the mean finds only dense ones, the maximum only stronger or rarer "
        "ones."
    )
    panels = (
        Panel(_BAYES, _B, _R, colour="error", contours="error"),
        Panel(_ATTENTION, _B, _R, colour="error", contours="error"),
        Panel(_REGRET, _B, _R, colour="gap"),
        *(Panel(panel, "length  $L$", "error", log="x", legend=False) for panel in _POINTS),
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        return {
            "": "R = L^(1−b) tokens of strength θ = √(2 r log L), π = 0.5; signal known, maps at "
            f"L = {_MAP_LENGTH}"
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Errors of five tests against length at some points, and of two over the plane."""
        size = _SIZES[scale.name]
        tracked = {}
        for panel, point in _POINTS.items():
            for length in size.lengths:
                task = rare_and_weak(length, *point)
                few, short = task.fixed_sparsity <= _MANY, length <= size.criticism_longest
                possible = {"higher criticism": short, "attention": few, "bayes": few}
                for test in (test for test in TESTS if possible.get(test, True)):
                    draws = size.criticism_draws if test == "higher criticism" else size.draws
                    tracked[panel, test, length] = DetectionCell(task, test, draws, scale.seed)
        plane = [
            RegretCell(rare_and_weak(_MAP_LENGTH, float(b), float(r)), size.map_draws, scale.seed)
            for b in np.linspace(0.45, 0.925, size.side)
            for r in np.linspace(0.05, 0.8, size.side)
        ]
        answers = ask([*tracked.values(), *plane])
        detected = answers[answers.kind == "detection"].itertuples()
        for (panel, test, length), row in zip(tracked, detected, strict=True):
            doubt = row.standard_error
            yield claim.rows(panel, test, length, theory=row.best_error, theory_error=doubt)
        yield _gaussian(_BETWEEN, size.lengths)
        yield from _maps(answers[answers.kind == "regret"])

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """Which way every test goes, nothing below Bayes, attention beside it."""
        for test in TESTS:
            what = f"{test}, error as the length grows"
            predicted = _EXPECTED.get(test, "down above the detection boundary, up below")
            yield _directions(what, predicted, list(_tracked(table, test)))
        error, doubt = (
            claim.wide(claim.part(table, _BETWEEN), column, TESTS)
            for column in ("theory", "theory_error")
        )
        ahead = claim.rows(
            "",
            "",
            error.index,
            theory=error.attention - error.maximum,
            theory_error=np.hypot(doubt.attention, doubt.maximum),
        )
        yield _directions(
            "attention − maximum, between their boundaries",
            "ever farther below the maximum",
            [("gap at (0.55, 0.08)", ahead, True)],
        )
        tests = table[table.panel.isin(list(_POINTS)) & table.series.isin(TESTS)]
        yield _floor(tests)
        yield _beside_bayes(table)
        yield from _remarks(table, tests)


def _gaussian(panel: str, lengths: Sequence[int]) -> claim.Table:
    """Φ(−κ/2) with κ² = (e^{θ²} − 1)R²/L: the Bayes error where log-likelihoods are Gaussian."""
    tasks = [rare_and_weak(length, *_POINTS[panel]) for length in lengths]
    kappa = [
        task.fixed_sparsity * math.sqrt(math.expm1(task.fixed_strength**2) / task.length)
        for task in tasks
    ]
    return claim.rows(panel, "reference: Φ(−κ/2)", lengths, theory=ndtr(-0.5 * np.array(kappa)))


def _maps(answers: claim.Table) -> Iterator[claim.Table]:
    """Over the plane; b is that of the whole number R."""
    strength, tokens = answers.strength.to_numpy(float), answers.sparsity.to_numpy(float)
    b = (1 - np.log(tokens) / math.log(_MAP_LENGTH)).round(9)
    r = (strength**2 / (2 * math.log(_MAP_LENGTH))).round(9)
    floor, doubt = answers.best_error.to_numpy(), answers.standard_error.to_numpy()
    regret, small = answers.regret.to_numpy(), answers.regret_error.to_numpy()
    both = np.hypot(doubt, small)
    yield claim.rows(_BAYES, "error", b, y=r, theory=floor, theory_error=doubt)
    yield claim.rows(_ATTENTION, "error", b, y=r, theory=floor + regret, theory_error=both)
    yield claim.rows(_REGRET, "gap", b, y=r, theory=regret, theory_error=small)
    yield claim.rows(_SHARPNESS, "map", b, y=r, theory=answers.best_sharpness / strength)
    line = np.linspace(max(0.5, b.min()), 0.97, 60).tolist()
    boundaries = {
        "detection boundary": detection_boundary,
        "that of the maximum": maximum_boundary,
    }
    for panel in (_BAYES, _ATTENTION, _REGRET):
        for name, boundary in boundaries.items():
            heights = [boundary(x) for x in line]
            yield claim.rows(panel, f"reference: {name}", line, theory=heights)


def _tracked(table: claim.Table, test: str) -> Iterator[tuple[str, claim.Table, bool]]:
    """The errors of a test at every point where its limit is known, and whether that is 0."""
    for panel, (b, r) in _POINTS.items():
        own = claim.part(table, panel, test).sort_values("x")
        works = r > (maximum_boundary(b) if test == "maximum" else detection_boundary(b))
        if test == "pooled":
            works = b < 0.5
            # θR/√L = √(2r log L) L^(½−b) falls only beyond log L = 1/(2b − 1)
            own = own if works else own[np.log(own.x) > 1 / (2 * b - 1)]
        if len(own) > 1 and (b > 0.5 or test != "maximum"):
            yield f"({b:g}, {r:g})", own, works


def _directions(
    what: str, predicted: str, curves: Sequence[tuple[str, claim.Table, bool]]
) -> claim.Check:
    """Errors that go the way they should, from each length to the next and all the way."""
    verdicts: list[claim.Verdict] = []
    measured = []
    for name, own, down in curves:
        error, doubt = own.theory.to_numpy(float), own.theory_error.to_numpy(float)
        sign = -1 if down else 1
        steps = sign * np.diff(error) + 4 * np.hypot(doubt[1:], doubt[:-1])
        way, noise = sign * (error[-1] - error[0]), 4 * math.hypot(doubt[0], doubt[-1])
        right = (steps >= 0).all() and way > -noise  # False where a number is missing
        verdicts.append("fails" if not right else "holds" if way > noise else "inconclusive")
        measured.append(f"{name} {error[0]:.3f} to {error[-1]:.3f}")
    return claim.Check(
        what,
        predicted,
        "; ".join(measured) or "nothing",
        "from the shortest to the longest samples as predicted by more than 4 standard errors "
        "(inconclusive if by less), no step the other way by more",
        claim.overall(verdicts),
    )


def _floor(tests: claim.Table) -> claim.Check:
    above, allowed = claim.above_bayes(tests, TESTS)
    bad = int((above < -allowed - 1e-12).to_numpy().sum())  # up to rounding
    errors = claim.wide(tests, "theory", TESTS, ["panel", "x"])
    missing = errors.bayes.isna().all() or errors[errors.attention.notna()].bayes.isna().any()
    return claim.Check(
        "Bayes error",
        "no test is below it",
        f"{bad} of {int(above.notna().to_numpy().sum())} below; the least gap is "
        f"{above.min(axis=None):.1e}",
        "Bayes ≤ every test + 4 standard errors, at every point and length",
        claim.decide(not bad and not missing),
    )


def _beside_bayes(table: claim.Table) -> claim.Check:
    """Gaussian errors Φ(−κ/2) and Φ(−ηκ/2), η the efficiency, where sums are Gaussian."""
    gap, floor = (
        claim.part(table, panel, series).set_index(["x", "y"])
        for panel, series in ((_REGRET, "gap"), (_BAYES, "error"))
    )
    gap = gap.query("x < 0.75 and y < 0.25")
    bayes = floor.theory.reindex(gap.index).to_numpy()
    strength = np.sqrt(2 * gap.index.get_level_values("y") * math.log(_MAP_LENGTH))
    efficiency = np.array([attention_efficiency(theta) for theta in strength])
    bound = ndtr(efficiency * ndtri(bayes)) - bayes
    excess = gap.theory - bound - 4 * gap.theory_error
    return claim.Check(
        "attention beside Bayes, b < ¾ and r < ¼",
        "Φ(−ηκ/2) beside Φ(−κ/2), η ≥ 0.988: at most 0.003 apart",
        f"at most {gap.theory.max():.4f} apart where at most {bound.max(initial=0):.4f} is allowed "
        f"({len(gap)} points, standard errors at most {gap.theory_error.max():.4f})",
        "gap ≤ Φ(−ηκ/2) − Φ(−κ/2) + 4 standard errors at every point, κ from the Bayes error",
        claim.decide(len(gap) > 0 and (excess <= 0).all()),
    )


def _remarks(table: claim.Table, tests: claim.Table) -> Iterator[str]:
    gap = claim.part(table, _REGRET, "gap")
    if not gap.theory.notna().any():
        return
    worst = gap.loc[gap.theory.idxmax()]
    bayes = claim.part(table, _BAYES).set_index(["x", "y"]).theory[worst.x, worst.y]
    yield (
        "Attention is close to Bayes over the whole plane: on samples of 10 000 tokens its error "
        f"is above by {worst.theory:.4f} ± {worst.theory_error:.4f} at most, at b = {worst.x:.2f}, "
        f"r = {worst.y:.2f}, where that of Bayes is {bayes:.4f}."
    )
    errors, doubt = (
        claim.wide(tests, column, TESTS, ["panel", "x"]) for column in ("theory", "theory_error")
    )
    ahead = (errors[["pooled", "maximum"]].min(axis=1) - errors.attention).dropna()
    clearly = ahead > 4 * doubt.attention[ahead.index]
    ratio = claim.part(table, _SHARPNESS).theory
    yield (
        "A finite sharpness beats both the mean and the maximum by more than 4 standard errors in "
        f"{clearly.sum()} of {len(ahead)} tasks: between the boundaries, and also "
        "for b > ¾, where the maximum is enough in the limit. The best one is, in the median over "
        f"the plane, {ratio.median():.2f} times the strength."
    )
    last = errors.loc[_VERY_SPARSE].iloc[-1]
    yield (
        f"Very sparse and above the boundary the maximum goes to 0 too, but later: "
        f"{last.maximum:.3f} beside {last.attention:.3f} (attention) and {last.bayes:.3f} (Bayes) "
        "at the longest samples."
    )
    cost = (errors["higher criticism"] / errors.bayes).dropna()
    yield (
        "Higher criticism need not know b and r. At these lengths it pays for that: its error is "
        f"{cost.min():.2f} to {cost.max():.2f} times that of Bayes."
    )

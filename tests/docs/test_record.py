"""Figures quoted from the record of claims: each is compared with the table in docs/reproduction.

What a figure may be off is half a unit of the last digit that the page writes. On the page on trust
no decimal may be left over that nothing here or in its own code has compared.
"""

from __future__ import annotations

import re

import pandas as pd

from pages import DOCS, last_place, unfounded, value
from sparsetoken.reproduction.claims.departures import _TASKS

DECIMAL = re.compile(r"(?<![\w.])[-−]?\d+\.\d+(?![\d\w])")


class Quotes:
    """A page whose numbers are taken where they stand, each at most once."""

    def __init__(self, name: str) -> None:
        self.text = (DOCS / name).read_text()
        self.taken: list[tuple[int, int]] = []

    def numbers(self, words: str) -> list[str]:
        """Those in the places of # in the words, which the page has once."""
        pattern = re.escape(words).replace(r"\#", "([-−]?\\d[\\d,]*(?:\\.\\d+)?)")
        (found,) = re.finditer(pattern, self.text)
        self.taken += [found.span(place) for place in range(1, found.re.groups + 1)]
        return list(found.groups())

    def compare(self, words: str, *true: float) -> None:
        quoted = self.numbers(words)
        assert len(quoted) == len(true), words
        for text, each in zip(quoted, true, strict=True):
            assert abs(value(text) - each) <= 0.501 * last_place(text), (words, text, each)

    def left(self) -> list[str]:
        """Decimals outside of code that no words have taken."""
        code = [m.span() for m in re.finditer(r"^    .*$|^```.*?^```|`[^`\n]*`", self.text, re.M)]
        return [
            each[0]
            for each in DECIMAL.finditer(self.text)
            if not any(start <= each.start() < end for start, end in self.taken + code)
        ]


def table(name: str) -> pd.DataFrame:
    return pd.read_csv(DOCS / "reproduction" / f"{name}.csv")


def series(record: pd.DataFrame, panel: str, name: str, column: str = "simulation") -> pd.Series:
    """One line of a panel, by its x."""
    own = record[(record.panel == panel) & (record.series == name)].set_index("x")[column]
    assert len(own), (panel, name)
    return own


COLOUR, WHITE = "coloured noise, used as it is", "coloured noise, whitened"
BEYOND, OTHER = "noise beyond the rule of thumb", "other noise, random signal direction"
ALONG, LONG = "signal along one coordinate", "more tokens than dimensions (d = 30)"
GAUSSIAN, RULE = "Gaussian tokens: simulation − theory", "rule of thumb, any task and dimension"


def test_the_page_on_trust():
    """Every decimal outside of its code is in the record; what is left, the code prints."""
    trust, universality = Quotes("trust.md"), table("universality")
    finite_size(trust, universality)
    other_noise(trust, universality)
    coloured_and_long(trust, universality)
    assert len(trust.taken) > 50
    code = "\n".join(re.findall(r"^    .*$", trust.text, re.M))
    assert unfounded(" ".join(trust.left()), code + " 0.01") == []  # the ridge of the claim


def finite_size(trust: Quotes, universality: pd.DataFrame) -> None:
    error = series(universality, COLOUR, "attention", "theory")[0.0]
    pooled = series(universality, COLOUR, "pooled", "theory")[0.0]
    trust.compare("a test error of # for attention and # for mean pooling", error, pooled)
    protocols = [protocol for _, protocol, _ in _TASKS]
    dims = [dim for *_, dim in _TASKS]
    samples = [n for p in protocols for n in (p.query_samples, p.readout_samples)]
    own = universality[universality.panel == RULE]
    gaps = own.simulation / own.x
    gaps = gaps[own.simulation.notna()]
    trust.compare(
        "Over # pairs of task and classifier, in # to # dimensions, with # to # samples per "
        "dimension and ridges from 10⁻⁵ to #, the measured gap was # to # of that, and half of it "
        "or less in # of them",
        len(gaps), min(dims), max(dims), min(samples), max(samples),
        max(p.ridge for p in protocols), gaps.min(), gaps.max(), (gaps <= 0.5).sum(),
    )  # fmt: skip
    scaled = {}
    for name in ("attention, test error", "pooled, test error",
                 "cosine of the query, theory − simulation"):  # fmt: skip
        gap = series(universality, GAUSSIAN, name)
        scaled[name[:6]] = gap * gap.index
    ends = [end for each in scaled.values() for end in (each.min(), each.max())]
    trust.compare(
        "# to # over d for attention's test error, # to # for mean pooling's, # to # for the "
        "query's cosine", *ends,
    )  # fmt: skip
    report = (DOCS / "reproduction" / "report.md").read_text()
    measured = re.search(r"error of attention − theory [^±]* slope (\S+) ± ([\d.]+)", report)
    trust.compare("(measured slope # ± # from", *map(float, measured.groups()))


def other_noise(trust: Quotes, universality: pd.DataFrame) -> None:
    theory = series(universality, OTHER, "reference: theory (Gaussian tokens)", "theory")[20.0]
    cosine = series(
        universality, f"query cosine, {OTHER}", "reference: theory (Gaussian tokens)", "theory"
    )[20.0]
    sparse = series(universality, BEYOND, "2 % non-zero") - theory
    trust.compare(
        "2 % non-zero (fourth moment 50) | error too high by #, #, #, #, # at d = 20, 40, 80, "
        "160, 320", *sparse[[20.0, 40.0, 80.0, 160.0, 320.0]],
    )  # fmt: skip
    student = series(universality, BEYOND, "Student t, 3 degrees") - theory
    astray = cosine - series(universality, f"query cosine, {BEYOND}", "Student t, 3 degrees")
    trust.compare(
        "error too high by # at d = 20, # at 320; cosine too low by # and #",
        student[20.0], student[320.0], astray[20.0], astray[320.0],
    )  # fmt: skip
    scales = series(universality, BEYOND, "a scale for each token") - theory
    many = scales[[80.0, 160.0, 320.0]]
    trust.compare(
        "error too high by # at d = 20, by # to # from 80 to 320",
        scales[20.0], many.min(), many.max(),
    )  # fmt: skip
    along = [
        series(universality, ALONG, name)[320.0]
        for name in ("±1", "Student t, 5 degrees", "10 % non-zero")
    ]
    trust.compare(
        "at d = 320 error # for ±1, # for Student t with 5 degrees, # for 10 % non-zero", *along
    )


def coloured_and_long(trust: Quotes, universality: pd.DataFrame) -> None:
    both = [series(universality, COLOUR, name) for name in ("pooled", "attention")]
    trust.compare(
        "(neighbouring coordinates correlated #; #) | mean pooling #; #, attention #; #",
        0.6, 0.9, *(each[x] for each in both for x in (0.6, 0.9)),
    )  # fmt: skip
    white = series(universality, WHITE, "attention")
    counts = (1.5, 2.0, 4.0, 8.0, 16.0)
    trust.compare(
        "attention #, #, #, #, # with N = #, #, #, #, #", *(white[n] for n in counts), *counts
    )
    gaps = []
    for name in ("attention", "pooled"):
        gap = series(universality, LONG, name) - series(universality, LONG, name, "theory")
        gaps.append(gap.abs().max() * 30)
    panel = f"query cosine, {LONG}"
    low = series(universality, panel, "attention", "theory") - series(
        universality, panel, "attention"
    )
    low *= 30 / low.index
    trust.compare(
        "(d = 30, L up to #, R ∝ √L, ridge ∝ 1/L) | errors within #/d; the cosine is too low by # "
        "to # times L/d", low.index.max(), max(gaps), low.min(), low.max(),
    )  # fmt: skip
    wide = next(dim for _, protocol, dim in _TASKS if protocol.ridge == 0.3)
    own = series(universality, RULE, "pooled")
    trust.compare(
        "(λL = #, d = #) | mean pooling # too high", 10 * 0.3, wide, own[own.index == 0.0875].item()
    )


def test_weightings():
    page = Quotes("beyond.md")
    record = table("weightings")
    few = {name: series(record, "several signal tokens", name, "theory")
           for name in ("softmax", "top-3", "sparsemax")}  # fmt: skip
    less = [
        100 * (1 - min(few["top-3"][count], few["sparsemax"][count]) / few["softmax"][count])
        for count in (2.0, 3.0)
    ]
    page.compare("with two or three strong tokens top-3 or sparsemax has # and # % less", *less)
    badly = {name: series(record, "alignment", name, "theory")[0.4]
             for name in ("softmax", "sparsemax")}  # fmt: skip
    page.compare(
        "a badly aligned query (cosine #) does # % better with sparsemax",
        0.4, 100 * (1 - badly["sparsemax"] / badly["softmax"]),
    )  # fmt: skip


def test_colours():
    page, record = Quotes("beyond.md"), table("colours")
    four = "whitening, 4 samples per dimension"
    plain, white = (
        series(record, four, f"attention, {how}", "theory") for how in ("as it is", "whitened")
    )
    page.compare("takes attention's error from # to # at four", plain[0.1], white[0.1])
    page.compare("(# would become # if all of it is there)", plain[1.0], white[1.0])
    report = (DOCS / "reproduction" / "report.md").read_text()
    share = re.search(rf"{four}: whitening harms attention from a share of ([\d.]+) on", report)[1]
    page.compare("harms from a share of # of the signal in the loud tenth on", float(share))
    left = []
    for noise in ("white noise", "power-law noise", "power-law noise, whitened"):
        advantage = series(
            record, "what a spread leaves of attention's advantage", f"difference in {noise}",
            "theory",
        )  # fmt: skip
        assert (advantage > 0).all()
        left.append(100 * advantage[10.0] / advantage[1.0])
    page.compare(
        "leaves # % of attention's advantage over mean pooling in white noise, # % with noise of "
        "power law 0.8 as it is, # % whitened", *left,
    )  # fmt: skip

"""The page of a `FitReport`: HTML with its pictures inside. Renders; nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sparsetoken.bags.intervals import Interval
from sparsetoken.bags.report_pictures import (
    calibration,
    learning_curve,
    lengths,
    poolings,
    roc,
    side_by_side,
)
from sparsetoken.support.pages import Markup, element, joined, page, quiet, table
from sparsetoken.support.text import number_text

if TYPE_CHECKING:
    from sparsetoken.bags.fit_report import FitReport

_PLAINLY = 0.05  # a p value below which a difference is called more than chance
_SPOKEN = {  # names of poolings in a sentence
    "pooled": "mean pooling",
    "attention": "attention pooling",
    "joint": "jointly trained attention",
    "posterior": "attention by expectation–maximisation",
    "vectorized": "a weight for each place",
}
_WORDS = {
    "bag": "One thing to be classified, with one label: a slide, a document, a recording.",
    "token": "One of the parts a bag is made of, as a vector of numbers: a patch, a sentence, a "
    "frame. Which tokens made a bag positive is not known.",
    "pooled": "Mean pooling: the mean token of a bag, and a linear readout.",
    "attention": "A weighted mean of tokens, the more weight the more a token looks like the "
    "signal; what the signal looks like is learned from the labels in two steps.",
    "joint": "The same, with all parameters trained together afterwards.",
    "posterior": "Attention whose query is learned in rounds: how likely does each token carry the "
    "signal, and which query follows from that (expectation–maximisation)?",
    "vectorized": "All tokens side by side, a weight for each place.",
    "statistics": "Mean, spread, least and greatest of each coordinate, and a linear readout or a "
    "kernel.",
    "larger class": "The guess that every bag has the most frequent label.",
    "held-out": "Said of a bag by a classifier that has not learned from it. All numbers of "
    "quality on this page are of held-out bags.",
    "error": "The share of bags that are given a wrong label.",
    "AUC": "The area under the ROC curve: the chance that a positive bag is ranked above a "
    "negative one. 0.5 is guessing, 1 is perfect. Bags are ranked within a fold, since each fold "
    "has a classifier of its own; the AUC is the mean over folds.",
    "interval": "In brackets. It would hold the true value in {level} of repetitions: for errors "
    "Wilson's interval, for AUCs DeLong's. Both take the classifiers as they are: learning from "
    "other bags would make somewhat different ones.",
    "calibration": "Whether probabilities mean what they say: of bags given 0.8, are 80 % "
    "positive?",
    "Brier score": "The mean squared difference of probability and outcome; 0 is perfect.",
    "strength": "How far the signal shifts a token, in standard deviations of the noise.",
    "sparsity": "How many tokens of a positive bag carry the signal.",
    "spread": "How much strength varies from token to token, a standard deviation.",
    "silent": "The share of positive bags in which no token carries the signal.",
    "contribution": "What a token adds to the score of its bag, a log-odds.",
}


def render(report: FitReport) -> str:
    """The page; the same report gives the same bytes."""
    levels = f"Intervals, in brackets, are of {report.level:.0%}."
    return page(
        f"Bags of {report.source}",
        element("h1", "Which pooling suits these bags?"),
        quiet(f"{report.source}, by sparsetoken {report.version}. {levels}"),
        element("div", *(element("p", words) for words in headlines(report)), class_="short"),
        _section("The bags", _bags(report)),
        _section("The poolings, compared", _comparison(report)),
        _section(f"How good is {_spoken(report.chosen)}?", _quality(report)),
        _section("What is in the bags?", _pilot(report)),
        _section("What would more labelled bags give?", _more(report)),
        _section("How many test bags show it?", _tests(report)),
        _section("The most telling tokens", _tokens(report)),
        _section("Warnings", _warnings(report)),
        _section("To make this page again", _commands(report)),
        _section("What the words mean", _glossary(report)),
    )


def headlines(report: FitReport) -> Iterator[str]:
    """The page in a few sentences."""
    rows = {row["pooling"]: row for row in report.comparison.rows}
    row = rows[report.chosen]
    if row["failure"]:
        yield f"{report.chosen} does not arrive: {row['failure']}."
    else:
        yield (
            f"{_upper(_spoken(report.chosen))} is wrong on {_share(_error(row))} of held-out "
            f"bags, with an AUC of {_three(_auc(row))}; guessing the larger class is wrong on "
            f"{rows['larger class']['error']:.1%}."
        )
    gap = report.differences.get("pooled")
    if gap is not None and gap.value == gap.low == gap.high == 0:
        yield f"Its AUC is that of mean pooling, {rows['pooled']['auc']:.3f}."
    elif gap is not None:
        side = "above" if gap.value >= 0 else "below"
        ends = sorted((gap.low, gap.high)) if gap.value >= 0 else sorted((-gap.low, -gap.high))
        beyond = "more than chance" if gap.p_value < _PLAINLY else "no more than chance may be"
        yield (
            f"Its AUC is {_three(Interval(abs(gap.value), *ends))} {side} that of mean pooling: "
            f"{beyond} (p {_chance(gap.p_value)})."
        )
    if report.pilot is not None and not report.pilot.found:
        yield "No signal was found by the pilot: nothing can be planned."
    if report.plans:
        last = report.plans[-1]
        best = last.best
        assert best is not None
        yield (
            f"{last.question.samples} labelled bags like these would give "
            f"{_spoken(best.classifier)} an error of {_share(Interval(*best[1:4]))}."
        )
    for size in report.test_sizes:
        if size.half_width == 0.05:
            bags = size.cautious if size.bags is None else size.bags
            yield f"{bags} new test bags would show such an AUC to ± 0.05."


def _bags(report: FitReport) -> Iterator[str]:
    data = report.data
    least, lower, median, upper, greatest = data.lengths
    long = f"{median:g} (median); quartiles {lower:g} and {upper:g}, from {least:g} to {greatest:g}"
    if least == greatest:
        long = f"{median:g} in every bag"
    rows = [
        ("bags", f"{data.bags}"),
        ("tokens", f"{data.tokens}"),
        ("tokens in a bag", long),
        ("dimensions of a token", f"{data.dim}"),
        *((f"labelled {label}", f"{count} ({count / data.bags:.1%})")
          for label, count in data.labels),
    ]  # fmt: skip
    if data.groups is not None:
        rows.append(("groups, never split", f"{data.groups}"))
    listed = table(("", ""), rows, words=2)
    yield side_by_side(listed, lengths(report)) if least < greatest else listed
    signal = report.signal
    if signal is None:
        yield element("p", "Each label is the signal's in turn, against the rest.")
    else:
        yield element("p", "Bags with a signal are those labelled ", element("b", str(signal)), ".")
    if data.problems:
        yield element("p", "What is wrong with some of them:")
        yield table(("bag", "problem"), data.problems, words=2)


def _comparison(report: FitReport) -> Iterator[str]:
    rows = report.comparison.rows
    arrived = [row for row in rows if not row["failure"]]
    cells = []
    for row in arrived:
        gap = report.differences.get(row["pooling"])
        against = "" if gap is None else f"{gap.value:+.3f} (p\xa0{_chance(gap.p_value)})"
        guess = row["pooling"] == "larger class"
        cells.append(
            (
                row["pooling"],
                _three(_error(row)),
                "0.500" if guess else _three(_auc(row)),
                against,
            )
        )
    best = next((k for k, row in enumerate(arrived) if row["pooling"] == report.chosen), None)
    heads = ("pooling", "error", "AUC", f"{report.chosen} ahead, AUC")
    yield table(heads, cells, chosen=best)
    for row in rows:
        if row["failure"]:
            yield element("p", f"{row['pooling']} has no numbers: {row['failure']}.")

    if len(arrived) > 1:
        yield side_by_side(poolings(report, "error", "error"), poolings(report, "auc", "AUC"))
    yield quiet(
        "Everything that is learned or chosen is learned and chosen again without the bags held "
        f"out, in {len(set(report.comparison.folds.tolist()))} folds. The best of several was "
        "chosen on these bags: its own numbers are a little too good. p values are DeLong's, of "
        "one comparison each.",
    )


def _quality(report: FitReport) -> Iterator[str]:
    if not report.qualities:
        yield element("p", "It has no numbers.")
        return
    yield side_by_side(roc(report), calibration(report))
    for quality in report.qualities:
        yield element(
            "p",
            f"{quality.label}: AUC {_three(quality.auc)}, Brier score {_three(quality.brier)}; "
            f"{quality.guess:.3f} is that of saying {quality.prevalence:.1%} of every bag.",
        )


def _pilot(report: FitReport) -> Iterator[str]:
    pilot = report.pilot
    if pilot is None:
        yield element("p", _sentence(report.unplanned))
        return
    rows = [("prevalence", _few(pilot.prevalence), "share of positive bags")]
    if pilot.resolved:
        rows = [
            (
                "strength",
                _few(pilot.strength),
                "shift of a token with the signal, in units of noise",
            ),
            ("spread", _few(pilot.spread), "standard deviation of the strength"),
            ("sparsity", _few(pilot.sparsity), "tokens with the signal in a positive bag"),
            ("silent", _few(pilot.silent), "share of positive bags without such a token"),
            *rows,
        ]
    rows.append(("tokens in a bag", _few(pilot.length), "mean"))
    dims = (f"{pilot.effective_dim:.3g} of {pilot.dim}", "where noise is not negligible")
    rows.append(("dimensions after whitening", *dims))
    yield table(("", "estimate", ""), rows, words=3)
    groups = pilot.group_sentence()
    sentences = [*([f"Groups: {groups}"] if groups else []), *pilot.sentences()]
    yield element("ul", *(element("li", _sentence(words)) for words in sentences))


def _more(report: FitReport) -> Iterator[str]:
    if not report.plans:
        yield element("p", "Nothing could be planned; see above.")
        return
    names = [option.classifier for option in report.plans[0].options]
    rows = [
        (
            f"{plan.question.samples}",
            *(_three(Interval(*plan[name][1:4])) for name in names),
            "" if plan.best is None else plan.best.classifier,
        )
        for plan in report.plans
    ]
    heads = ("labelled bags", *(f"error of {name}" for name in names), "recommended")
    yield table(heads, rows)
    yield learning_curve(report)
    if report.target is not None:
        yield element("p", report.target.headline)


def _tests(report: FitReport) -> Iterator[str]:
    if not report.test_sizes:
        yield element(
            "p",
            "This needs a label of bags with a signal, and an AUC that was measured.",
        )
        return
    quality = report.qualities[0]
    rows = [
        (f"± {x.half_width:g}", number_text(x.bags), f"{x.cautious}") for x in report.test_sizes
    ]
    heads = (
        "AUC known to",
        f"test bags, if it is {quality.auc.value:.3g}",
        f"if it is {quality.auc.low:.3g}",
    )
    yield table(heads, rows)
    yield quiet(
        f"Test bags are new ones, {quality.prevalence:.1%} of them {quality.label} as here, that "
        f"nothing was learned from; intervals of {report.level:.0%}, by the variance for scores of "
        "two Gaussians. The last column takes the low end of the interval of the AUC.",
    )


def _tokens(report: FitReport) -> Iterator[str]:
    if not report.tokens:
        yield element("p", report.untold)
        return
    rows = [
        (
            token.bag,
            token.label,
            f"{token.token}\xa0of\xa0{token.tokens}",
            f"{token.contribution:+.3g}",
            "–" if token.attention is None else f"{token.attention:.2f}",
            f"{token.chance:.3f}",
        )
        for token in report.tokens
    ]
    heads = ("bag", "label", "token", "contribution", "attention", "probability")
    yield table(heads, rows, words=2)
    yield quiet(
        f"The token of a bag that speaks most for {report.signal}, and the bags where it does so "
        f"most; tokens are counted from 0. By {report.chosen} fitted to all bags; the probability "
        "is that of the bag, held out. sparsetoken score MODEL BAGS --tokens FILE lists them all.",
    )


def _warnings(report: FitReport) -> Iterator[str]:
    about: dict[str, list[str]] = {}  # a warning, and the plans that have it
    for words in report.plan_warnings:
        plan, _, warning = words.partition(": ")
        about.setdefault(warning, []).append(plan)
    sentences = [
        *dict.fromkeys(report.warnings),
        *(f"{', '.join(plans)}: {warning}" for warning, plans in about.items()),
    ]
    if not sentences:
        yield element("p", "None, but for what is said above.")
        return
    yield element("ul", *(element("li", _sentence(words)) for words in sentences))


def _commands(report: FitReport) -> Iterator[str]:
    yield element("pre", "\n".join(report.commands))
    yield quiet(
        f"With sparsetoken {report.version} and the same file: folds are drawn with a fixed seed, "
        "nothing else is random.",
    )


def _glossary(report: FitReport) -> Iterator[str]:
    poolings = {"vectorized", "statistics", "joint", "posterior"}
    absent = poolings - set(report.comparison.table.pooling)
    yield element(
        "dl",
        *(
            joined([element("dt", word), element("dd", _filled(words, report))])
            for word, words in _WORDS.items()
            if word not in absent
        ),
    )


def _filled(words: str, report: FitReport) -> str:
    return words.replace("{level}", f"{report.level:.0%}")


def _section(title: str, parts: Iterable[str]) -> Markup:
    return element("section", element("h2", title), *parts)


def _spoken(pooling: str) -> str:
    return _SPOKEN.get(pooling, pooling)


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def _error(row: dict[str, Any]) -> Interval:
    return Interval(row["error"], row["error_low"], row["error_high"])


def _auc(row: dict[str, Any]) -> Interval:
    return Interval(row["auc"], row["auc_low"], row["auc_high"])


def _share(error: Interval) -> str:
    value, low, high = (_rounded(share, ".1%", "0.1%") for share in error)
    return f"{value} [{low},\xa0{high}]"


def _three(interval: Interval) -> str:
    """With three decimals, so that columns line up; lines break before the brackets, not inside."""
    value, low, high = (_rounded(number, ".3f", "0.001") for number in interval)
    return f"{value} [{low},\xa0{high}]"


def _rounded(number: float, form: str, least: str) -> str:
    """What is not 0 is not shown as if it were."""
    if number and float(f"{number:.3f}") == 0:
        return f"<{least}" if number > 0 else f">-{least}"
    return f"{number:{form}}"


def _few(value: Interval) -> str:
    return str(value).replace(", ", ",\xa0")


def _chance(p_value: float) -> str:
    return "<\xa00.001" if p_value < 0.001 else f"=\xa0{p_value:.2g}"


def _sentence(words: str) -> str:
    return _upper(words) + ("" if words.endswith(".") else ".")

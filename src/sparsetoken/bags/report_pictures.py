"""The pictures of a report: its numbers as tables for `figures`, and what comes back as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsetoken.support.pages import Markup, element, picture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from sparsetoken.bags.fit_report import FitReport
    from sparsetoken.bags.judgement import CurvePoint, Quality

_LONGEST = 24  # letters of a label in a picture


def lengths(report: FitReport) -> Markup:
    """How many tokens bags have."""
    from sparsetoken.figures import histogram

    data = report.data
    drawn = histogram(data.counts, data.edges, "tokens in a bag", "bags")
    return _figure(drawn, "Histogram of the number of tokens in a bag")


def poolings(report: FitReport, measure: str, words: str) -> Markup:
    """A dot and a whisker for each pooling that arrives; a line for the guess."""
    import pandas as pd

    from sparsetoken.figures import whiskers

    guess, *rows = [row for row in report.comparison.rows if not row["failure"]]
    table = pd.DataFrame(
        {
            "name": [row["pooling"] for row in rows],
            "value": [row[measure] for row in rows],
            "low": [row[f"{measure}_low"] for row in rows],
            "high": [row[f"{measure}_high"] for row in rows],
            "best": [row["pooling"] == report.chosen for row in rows],
        }
    )
    drawn = whiskers(table, f"{words} on held-out bags", guess[measure])
    return _figure(drawn, f"{words} of each pooling with its interval; the dashed line is a guess")


def roc(report: FitReport) -> Markup:
    """The ROC curve of each label that is judged."""
    curves = [
        _series(*_named(report, quality, "held-out bags", "line"), *quality.roc)
        for quality in report.qualities
    ]
    return _square(
        [*curves, _diagonal("a guess")],
        "false positive rate",
        "true positive rate",
        f"ROC curve of {report.chosen} on held-out bags",
        f"ROC curve, all held-out bags together; positive are {_positive(report)}.",
    )


def calibration(report: FitReport) -> Markup:
    """Predicted probabilities beside shares of positive bags, for each label that is judged."""
    groups = [
        _series(
            *_named(report, quality, "bags of about one probability", "dots"),
            [group.predicted for group in quality.calibration],
            [group.observed.value for group in quality.calibration],
            low=[group.observed.low for group in quality.calibration],
            high=[group.observed.high for group in quality.calibration],
        )
        for quality in report.qualities
    ]
    return _square(
        [*groups, _diagonal("probabilities that are right")],
        "predicted probability",
        "share of positive bags",
        f"Calibration of the probabilities of {report.chosen} on held-out bags",
        "Calibration: held-out bags sorted by probability, in groups of about as many each; "
        f"positive are {_positive(report)}.",
    )


def learning_curve(report: FitReport) -> Markup:
    """Errors that were measured, and forecasts with all that is between their ends."""
    import pandas as pd

    from sparsetoken.figures import chart

    series: dict[tuple[bool, str], list[CurvePoint]] = {}
    for point in report.curve:
        series.setdefault((point.measured, point.classifier), []).append(point)
    parts = [
        _series(
            f"{name}, {'measured' if measured else 'forecast'}",
            "dots" if measured else "band",
            name,
            [point.bags for point in points],
            [point.error.value for point in points],
            low=[point.error.low for point in points],
            high=[point.error.high for point in points],
        )
        for (measured, name), points in series.items()
    ]
    return _figure(
        chart(pd.concat(parts), "labelled bags", "error", log="x", from_zero=True),
        "Learning curve: measured errors and forecasts with intervals",
        "Marks were measured by cross-validation, lines are forecast: theory for the estimated "
        "task, moved to what was measured.",
    )


def side_by_side(*parts: Markup) -> Markup:
    """Beside one another where there is room, else below."""
    return element("div", *parts, class_="figures")


def _named(report: FitReport, quality: Quality, alone: str, kind: str) -> tuple[str, str, str]:
    """Name, kind and look of what is shown of a label; of the only one, its own words."""
    return (_label(quality.label), kind, "") if _several(report) else (alone, kind, "attention")


def _several(report: FitReport) -> bool:
    return len(report.qualities) > 1


def _positive(report: FitReport) -> str:
    if _several(report):
        return "bags with the label"
    return f"bags labelled {report.qualities[0].label}"


def _label(words: str) -> str:
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def _series(name: str, kind: str, look: str, x: Any, y: Any, **ends: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({"series": name, "kind": kind, "look": look, "x": x, "y": y, **ends})


def _diagonal(name: str) -> pd.DataFrame:
    return _series(name, "reference", "", [0.0, 1.0], [0.0, 1.0])


def _square(parts: list[pd.DataFrame], x: str, y: str, words: str, caption: str) -> Markup:
    import pandas as pd

    from sparsetoken.figures import chart

    return _figure(chart(pd.concat(parts), x, y, unit_square=True), words, caption)


def _figure(drawn: Figure, words: str, caption: str = "") -> Markup:
    from sparsetoken.figures import svg

    width, height = (round(96 * inches) for inches in drawn.get_size_inches())
    image = picture(svg(drawn), "svg+xml", words, width=width, height=height)
    return element("figure", image, *([element("figcaption", caption)] if caption else []))

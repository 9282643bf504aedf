"""Results show themselves: printed, plotted, in a notebook; and they solve nothing to do so."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass, replace
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

import sparsetoken as st
from sparsetoken.figures import LOOK, Option, learning_curve, options
from sparsetoken.support.showing import Captioned, Shown

TASK = st.Task(length=6, sparsity=1, strength=4.0)
PROTOCOL = st.Protocol(query_samples=2.0, readout_samples=3.0, ridge=1e-2)
SAMPLES = [1.0, 3.0, 9.0, float("inf")]
ATTENTION = st.Attention()


@functools.cache
def pilot():
    sample = st.Task(length=6, sparsity=2, strength=3.0).sample(60, dim=4, rng=0)
    return st.estimate_task(sample.tokens, sample.labels, blocks=3)


MAKERS = {
    "prediction": lambda: st.predict(TASK, ATTENTION, PROTOCOL),
    "finite": lambda: st.predict(TASK, ATTENTION, PROTOCOL, dim=40),
    "curve": lambda: st.learning_curve(TASK, st.Pooled(), PROTOCOL, SAMPLES),
    "finite_curve": lambda: st.learning_curve(TASK, ATTENTION, PROTOCOL, SAMPLES[:3], dim=40),
    "run": lambda: st.simulate(TASK, ATTENTION, PROTOCOL, dim=40, repeats=4),
    "message_passing": lambda: st.simulate(TASK, st.MessagePassing(2), PROTOCOL, 40, repeats=3),
    "fit": lambda: st.solve(st.Pooled().law(TASK), st.Square(), 0.1, 5.0),
    "floor": lambda: st.bayes_curve(
        st.Task(100, 1, 4.0, prevalence=0.3), [0.2, 0.4, 0.6, float("inf")]
    ),
    "plan": lambda: st.plan(TASK, 40, samples=150, check=False),
    "target": lambda: st.plan(TASK, 40, target_error=0.1, check=False),
    "pilot": pilot,
    "forecast": lambda: pilot().plan(samples=300),
    "forecast_target": lambda: pilot().plan(target_error=0.08),
}
SLOW = {"target", "pilot", "forecast", "forecast_target"}
RESULTS = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MAKERS]


@functools.cache
def made(name):
    return MAKERS[name]()


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


class Tags(HTMLParser):
    """Open tags; an end must match the last one."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.words = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("name", RESULTS)
def test_printed_and_in_a_notebook(name):
    """A short text with the numbers, the same as HTML; `repr` is another matter."""
    result = made(name)
    text = str(result)
    assert 1 < len(text.splitlines()) < 25 and text != repr(result)
    assert "array(" not in text and "object at" not in text
    tags = Tags()
    tags.feed(result._repr_html_())
    assert not tags.open and "p" in tags.seen
    assert ("table" in tags.seen) == (name != "pilot")
    words = "".join(tags.words)
    assert all(word in words for word in text.split() if word.isalpha())


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "fit"])
def test_plotted_on_new_axes_and_on_given_ones(name):
    result = made(name)
    alone = result.plot()
    assert len(plt.get_fignums()) == 1
    alone.figure.canvas.draw()  # every glyph and label can be drawn
    _, (first, given) = plt.subplots(1, 2)
    assert result.plot(ax=given) is given and not first.lines and not first.texts
    assert alone.get_xlabel() == given.get_xlabel() != ""
    assert len(given.lines) > 0 and len(plt.get_fignums()) == 2
    assert isinstance(alone, mpl.axes.Axes)


def values_of(ax, name):
    """Of the first line in the colour of a classifier."""
    return next(line for line in ax.lines if line.get_color() == LOOK[name]["color"]).get_xydata()


def test_a_curve_is_its_numbers_and_infinitely_many_samples_are_a_line_across():
    curve = made("curve")
    ax = curve.plot()
    np.testing.assert_allclose(
        values_of(ax, "pooled"), np.column_stack([SAMPLES[:3], curve.test_error[:3]])
    )
    np.testing.assert_allclose(ax.lines[1].get_ydata(), curve.test_error[3])
    assert ax.get_xscale() == ax.get_yscale() == "log"
    loss = curve.plot(quantity="train_loss")
    np.testing.assert_allclose(values_of(loss, "pooled")[:, 1], curve.train_loss[:3])
    assert loss.get_yscale() == "linear" and loss.get_ylabel() == "training loss"
    only = curve[3:].plot()
    assert "infinitely many" in only.get_legend().get_texts()[0].get_text()


def test_at_your_size_there_is_a_band_as_wide_as_the_spread():
    curve = made("finite_curve")
    (band,) = curve.plot().collections
    top = band.get_paths()[0].get_extents().ymax
    assert top == pytest.approx(max(curve.test_error + curve.spread))
    assert not curve.plot(quantity="auc").collections


def test_runs_stand_on_the_curve():
    run, curve = made("run"), made("finite_curve")
    ax = curve.plot()
    assert run.plot(ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["attention", "attention, 4 runs, d = 40"]
    dots = next(line for line in ax.lines if len(line.get_ydata()) == 4)
    np.testing.assert_allclose(dots.get_ydata(), run.test_error)
    np.testing.assert_allclose(dots.get_xdata(), PROTOCOL.readout_samples)
    bars = ax.containers[0].lines[2][0].get_segments()[0][:, 1]
    np.testing.assert_allclose(np.diff(bars), 4 * run.sem("test_error"))
    cosine = run.plot(quantity="cosine")
    assert cosine.get_ylabel() == "cosine"


def test_second_curves_of_a_classifier_look_different():
    ax = made("finite_curve").plot()
    st.learning_curve(TASK, st.Attention(0.9, 2.0), PROTOCOL, SAMPLES[:3]).plot(ax)
    one, two = (line for line in ax.lines if len(line.get_xdata()) == 3)
    assert one.get_color() == two.get_color()
    assert (one.get_linestyle(), two.get_linestyle()) == ("-", "--")


def test_a_prediction_is_its_roc_curve_with_a_dot_at_its_threshold():
    p = made("prediction")
    ax = p.plot()
    line, dot = (line for line in ax.lines if line.get_color() == LOOK["attention"]["color"])
    np.testing.assert_allclose(line.get_xydata(), np.column_stack(p.roc()))
    ((x, y),) = dot.get_xydata()
    misses = p.task.prevalence * (1 - y) + (1 - p.task.prevalence) * x
    assert misses == pytest.approx(float(p.test_error))
    assert np.interp(x, *p.roc()) == pytest.approx(y, abs=2e-3)


def test_where_learning_is_hard_the_floor_is_grey():
    floor = made("floor")
    assert floor.hard.tolist() == [False, True, False, False]
    (grey,) = floor.plot().patches
    low, high = grey.get_extents().transformed(grey.axes.transData.inverted()).intervalx
    assert low == pytest.approx((0.2 * 0.4) ** 0.5) and high == pytest.approx((0.4 * 0.6) ** 0.5)
    assert str(floor).count(" hard") == 2  # of the head and of one row


def test_a_plan_shows_values_and_limits():
    plan = made("plan")
    ax = plan.plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        o.classifier for o in plan.options
    ]
    for place, option in enumerate(plan.options):
        mine = [line.get_xydata() for line in ax.lines if np.all(line.get_ydata() == place)]
        drawn = np.unique(np.concatenate(mine)[:, 0])
        half = 2 * option.spread
        expected = sorted([option.value - half, option.limit, option.value, option.value + half])
        np.testing.assert_allclose(drawn, expected)


@pytest.mark.slow
def test_a_plan_for_a_target_shows_what_is_out_of_reach():
    hopeless = st.plan(st.Task(6, 1, 0.2), 40, target_error=0.1, check=False)
    words = [text.get_text() for text in hopeless.plot().texts]
    assert len(words) == 3 and all(word.startswith("out of reach: at best") for word in words)
    assert str(round(made("target").best.needed)) in [
        text.get_text() for text in made("target").plot().texts
    ]
    with pytest.raises(st.InvalidInput, match="measure=False"):
        replace(made("pilot"), anchors=()).plot()


def test_what_cannot_be_drawn_says_so():
    with pytest.raises(st.InvalidInput, match="quantity must be one of 'test_error'"):
        made("curve").plot(quantity="luck")
    with pytest.raises(st.InvalidInput, match="quantity must be one of"):
        made("run").plot(quantity="luck")
    with pytest.raises(st.InvalidInput, match="at least one point"):
        made("curve")[:0].plot()
    with pytest.raises(st.InvalidInput, match="at least one point"):
        made("floor")[:0].plot()
    assert str(made("curve")[:0]) == "a learning curve of no points"


def test_long_tables_show_both_ends():
    curve = st.learning_curve(TASK, st.Pooled(), PROTOCOL, np.geomspace(1, 50, 40))
    lines = str(curve).splitlines()
    assert len(lines) == 15 and lines[9].split()[0] == "…" and lines[-1].startswith("50 ")
    assert curve._repr_html_().count("<tr>") == 41


@dataclass(frozen=True)
class Nasty(Shown):
    words: str

    def paragraphs(self):
        import pandas as pd

        yield self.words
        yield Captioned(self.words, pd.DataFrame({self.words: [self.words]}))


def test_words_are_escaped():
    html = Nasty("<script>alert('x')</script> & co")._repr_html_()
    assert "<script" not in html and html.count("&lt;script&gt;") == 4 and "&amp; co" in html


def test_a_name_that_is_no_classifier_has_the_next_colour():
    ax = learning_curve(None, [1, 2], [0.2, 0.1], name="mine", label="mine", y="error")
    learning_curve(ax, [1, 2], [0.3, 0.2], name="yours", label="yours", y="error")
    assert ax.lines[0].get_color() != ax.lines[1].get_color()
    rows = [Option("mine", 0.2, 0.1, 0.3, 0.15), Option("yours", 0.3, 0.2, 0.5, 0.25)]
    shown = options(rows, None, x="error", bars="", ticks="limit", best="yours")
    assert shown.get_legend().get_texts()[0].get_text() == "limit"


def test_nothing_is_imported_until_something_is_drawn():
    code = """
import sys, sparsetoken as st
p = st.learning_curve(st.Task(5, 1, 4.0), st.Pooled(), st.Protocol(), [1.0, 10.0])
run = st.simulate(p[0].task, st.Pooled(), st.Protocol(), dim=20, repeats=2)
str(p), str(run), p[0]._repr_html_()
assert "matplotlib" not in sys.modules
p.plot(); run.plot(); assert "matplotlib" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)

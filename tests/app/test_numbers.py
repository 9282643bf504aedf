"""States, numbers, maps, words and snippets of the explorer, without a server."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shlex
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st_

import sparsetoken as st
from sparsetoken.app import maps, numbers, reasons
from sparsetoken.app.answers import KINDS, answer, map_cells
from sparsetoken.app.snippets import as_command, as_python
from sparsetoken.app.state import CONTROLS, State
from sparsetoken.cli import main

SMALL = {"length": 4, "strength": 3.0, "query_samples": 1.5, "ridge": 0.1}


@settings(max_examples=200, deadline=None)
@given(st_.data())
def test_addresses_come_back(drawn):
    words = {}
    for name, control in CONTROLS.items():
        if control.choices:
            words[name] = drawn.draw(st_.sampled_from(control.choices))
        elif control.whole:
            words[name] = drawn.draw(st_.integers(int(control.least), int(control.most)))
        else:
            words[name] = float(f"{drawn.draw(st_.floats(control.lowest, control.highest)):.6g}")
            words[name] = min(max(words[name], control.lowest), control.highest)
    words["sparsity"] = min(words["sparsity"], words["length"])
    if words["token_correlation"]:
        words["signal_spread"] = 1.0
    if words["across"] == words["up"]:
        words["up"] = "strength" if words["across"] != "strength" else "ridge"
    state = State.of(words)
    assert State.from_query(state.to_query()) == state
    assert State.of({name: str(value) for name, value in words.items()}) == state


anything = st_.recursive(
    st_.none() | st_.booleans() | st_.integers() | st_.floats() | st_.text(max_size=80),
    lambda inner: st_.lists(inner, max_size=3) | st_.dictionaries(st_.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(name=st_.sampled_from([*CONTROLS, "evil", ""]), value=anything)
def test_wrong_values_are_a_sentence(name, value):
    try:
        state = State.of({name: value})
    except ValueError as error:
        assert len(str(error)) < 300 and "\n" not in str(error).replace(repr(value)[:37], "")
    else:
        assert math.isfinite(state.strength) and state.sparsity <= state.length


def test_exact_numbers_are_those_of_the_library():
    state = State.of(SMALL)
    for name, classifier in numbers.classifiers(state).items():
        theirs = st.learning_curve(state.task, classifier, state.protocol, numbers.samples(state))
        for metric in numbers.METRICS:
            curve = numbers.curves(replace(state, metric=metric))[name]
            np.testing.assert_allclose(curve.y, getattr(theirs, metric), rtol=1e-9)
            errors = [getattr(getattr(one, metric), "standard_error", 0.0) for one in theirs]
            assert curve.error == pytest.approx(max(errors), rel=1e-6)
        one = st.predict(state.task, classifier, state.protocol)
        at = numbers.chosen(state)[name]
        assert at.values["auc"] == pytest.approx(one.auc, rel=1e-9)
        assert at.errors["auc"] == pytest.approx(one.auc.standard_error, rel=1e-6)
        assert numbers.capacities(state)[name] == pytest.approx(
            st.capacity(state.task, classifier, state.protocol), rel=1e-9
        )
    for row in numbers.alignment(state):
        protocol = replace(state.protocol, query_samples=row.x)
        assert row.y == pytest.approx(st.align(state.task, protocol).cosine, rel=1e-9)
    frozen = replace(state, query="frozen", cosine=0.5, sharpness=2.0)
    assert numbers.classifiers(frozen)["attention"] == st.Attention(cosine=0.5, sharpness=2.0)
    assert {row.series for row in numbers.roc(state)} == set(st.CLASSIFIERS)
    floors = {floor.name: floor for floor in numbers.floors(state)}
    assert floors["Bayes"].error == pytest.approx(st.bayes_error(state.task), rel=1e-9)
    assert floors["Bayes"].standard_error == st.bayes_error(state.task).standard_error


@pytest.mark.parametrize("metric", ["test_error", "auc", "train_loss"])
@pytest.mark.parametrize(
    "words", [{}, {"length": 60, "sparsity": 2, "strength": 4.0}, {"loss": "huber"},
              {"length": 5, "sparsity": 3, "strength": 1.5}, {"query": "frozen"},
              {"power_law": 0.8, "signal_spread": 3.0}],
)  # fmt: skip
def test_drafts_are_near(words, metric):
    """What the page says of them: good to about 0.005 (training loss: to 0.01)."""
    state = State.of(words | {"metric": metric})
    exact = {
        (name, x): y
        for name, curve in numbers.curves(state).items()
        for x, y in zip(curve.x, curve.y, strict=True)
    }
    for row in numbers.curves_draft(state):
        allowed = 0.01 if metric == "train_loss" else 0.005
        assert abs(row.y - exact[row.series, row.x]) < allowed, row


def test_a_draft_of_the_roc_is_near():
    state = State.of({"length": 6})
    exact, draft = ({}, {})
    for rows, into in ((numbers.roc(state), exact), (numbers.roc_draft(state), draft)):
        for row in rows:
            into.setdefault(row.series, []).append((row.x, row.y))
    grid = np.linspace(0.02, 1, 20)
    for name, points in exact.items():
        there = np.interp(grid, *np.array(points).T)
        np.testing.assert_allclose(np.interp(grid, *np.array(draft[name]).T), there, atol=0.02)


def test_a_draft_begins_where_the_last_ended_and_ends_where_it_would_have():
    there = State.of({"strength": 5.1})
    numbers._last.clear()
    cold = numbers.curves_draft(there)
    for near in (4.9, 5.0):  # the second begins at the first
        numbers.curves_draft(State.of({"strength": near}))
    for one, other in zip(cold, numbers.curves_draft(there), strict=True):
        assert one[:2] == other[:2] and one.y == pytest.approx(other.y, abs=1e-8)


def test_the_page_beyond_the_paper():
    """Shared noise and another weighting: no vectorized, snippets that say so, drafts are near."""
    words = {"token_correlation": 0.4, "weighting": "top-3", "length": 6, "strength": 4.0}
    state = State.of(words)
    assert list(numbers.classifiers(state)) == ["attention", "pooled"]
    assert state.attention.weighting == st.TopK(3) and state.task.token_correlation == 0.4
    assert set(numbers.curves(state)) == {"attention", "pooled"}
    shown = {name: at.values["test_error"] for name, at in numbers.chosen(state).items()}
    assert printed_by_python(state) == pytest.approx(shown, rel=2e-6)
    command = shlex.split(as_command(state))
    assert "--token-correlation" in command and "top-3" in command
    assert printed_by_command(state) == pytest.approx(shown, rel=1e-9)
    assert math.isfinite(maps.cell(state).log_ratio)


COLOURED = {"length": 6, "strength": 4.0, "power_law": 0.8, "signal_spread": 2.5, "dim": 40}


@pytest.mark.parametrize("words", [{}, {"query": "frozen", "cosine": 0.8}])
def test_noise_that_is_not_white_and_a_cloud(words):
    """The sliders are the library's spectrum and spread; snippets say so."""
    state = State.of(COLOURED | words)
    task = st.Task(6, 1, 4.0, noise=st.Spectrum.power_law(0.8), signal_spread=2.5)
    assert state.task == task and list(numbers.classifiers(state)) == list(st.CLASSIFIERS)
    shown = {name: at.values["test_error"] for name, at in numbers.chosen(state).items()}
    attention = st.predict(task, state.attention, state.protocol)
    assert shown["attention"] == pytest.approx(attention.test_error, rel=1e-9)
    assert printed_by_python(state) == pytest.approx(shown, rel=5e-6)  # six digits
    command = shlex.split(as_command(state))
    assert "--power-law" in command and "--signal-spread" in command
    assert printed_by_command(state) == pytest.approx(shown, rel=1e-9)
    found = maps.cell(state)
    assert maps.cell_draft(state).log_ratio == pytest.approx(found.log_ratio, abs=0.05)
    assert [floor.name for floor in numbers.floors(state)] == ["pooled"]
    assert numbers.learners(state) == []
    narrow = replace(state, signal_spread=1.0)  # whoever knows the noise may whiten
    assert {floor.name for floor in numbers.floors(narrow)} == {"Bayes", "attention", "pooled"}
    assert len(numbers.learners(narrow)) == (0 if words else len(numbers.SAMPLES))
    doubts = answer("doubts", KINDS["doubts"].state(state))["words"]
    assert doubts.startswith("At d = 40") or (words and not doubts)  # a frozen query is the limit's
    with pytest.raises(st.InvalidInput, match="token_correlation must be 0 where signal_spread"):
        State.of(COLOURED | {"token_correlation": 0.2})


def test_the_weight_on_a_cloud_is_that_of_tokens():
    state = State.of(COLOURED | {"query": "frozen", "cosine": 0.7, "sharpness": 0.8})
    told = numbers.weight_on_signal(state, numbers.query_of(state))
    caught, dim = [], 400
    for seed in range(20):
        sample = state.task.sample(200, dim, rng=seed)
        query = state.attention.query_vector(sample.signal, np.random.default_rng([seed, 1]))
        weights = state.attention.weighting.weights(sample.tokens @ query)
        caught.append((weights * sample.places).sum(axis=1)[sample.labels > 0].mean())
    error = np.hypot(np.std(caught) / np.sqrt(len(caught)), told.standard_error)
    assert abs(np.mean(caught) - told) < 4 * error + 5 / dim


def test_what_a_plan_of_whitened_tokens_sets_the_page_to():
    words = {"length": 5, "strength": 2.5, "power_law": 0.6, "dim": 40, "target": 0.2}
    state = State.of(words | {"view": "plan"})
    made, advice = answer("plan", state), numbers.planned(state)
    assert "Tokens are to be whitened first" in made["headline"]
    for name, wanted in made["apply"].items():
        option = advice[name]
        assert option.shrinkage in (0.0, 1.0)
        there = State.of(words | wanted)
        if option.shrinkage == 0:
            assert there.task.is_white
            assert there.strength == pytest.approx(st.whitened(advice.task).strength, rel=1e-9)
            assert there.ridge == option.protocol.ridge


def printed_by_python(state):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(as_python(state), "snippet", "exec"), {})
    lines = (line.split() for line in out.getvalue().splitlines())
    return {words[0]: float(words[1]) for words in lines}


def printed_by_command(state):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(shlex.split(as_command(state))[1:]) == 0
    return {row["classifier"]: row["test_error"] for row in json.loads(out.getvalue())}


@pytest.mark.parametrize("words", [{}, {"query": "frozen", "loss": "square"}, {"view": "roc"}])
def test_snippets_print_the_numbers_of_the_page(words):
    state = State.of(SMALL | words)
    shown = {name: at.values["test_error"] for name, at in numbers.chosen(state).items()}
    assert printed_by_python(state) == pytest.approx(shown, rel=2e-6)
    assert printed_by_command(state) == pytest.approx(shown, rel=1e-9)


def test_the_snippet_of_the_alignment(capsys):
    state = State.of(SMALL | {"view": "alignment"})
    exec(compile(as_python(state), "snippet", "exec"), {})
    printed = capsys.readouterr().out.removeprefix("cosine ").partition(",")[0]
    cosine = st.align(state.task, state.protocol).cosine
    assert float(printed) == pytest.approx(cosine, rel=2e-6)


def test_what_any_learner_gets_and_where_learning_is_hard():
    state = State.of({"length": 100, "strength": 4.0, "prevalence": 0.3, "query_samples": 0.2})
    rows = numbers.learners(state)
    best = {row.x: row.y for row in rows if row.series == "any"}
    curve = st.bayes_curve(state.task, [0.2 + x for x in numbers.SAMPLES])
    assert list(best) == list(numbers.SAMPLES)
    assert list(best.values()) == pytest.approx(curve.test_error, rel=1e-9)
    # it has attention's samples, those of the query too: nothing drawn is below it
    for drawn in numbers.curves(state).values():
        points = zip(drawn.x, drawn.y, strict=True)
        assert all(y > best[x] for x, y in points)
    phase = st.hard_phase(state.task)
    stuck = [row for row in rows if row.series == "message passing"]
    assert phase.begin - 0.2 < stuck[0].x < stuck[-1].x < phase.end - 0.2
    assert all(row.y > 1.2 * st.bayes_curve(state.task, [0.2 + row.x])[0].test_error
               for row in stuck)  # fmt: skip
    assert numbers.learners(State.of({"length": 10, "query": "frozen"})) == []
    easy = numbers.learners(State.of({"length": 10}))
    assert {row.series for row in easy} == {"any"}


def test_the_map_is_coarse_first_signed_and_grey_where_neither_wins():
    places = list(maps.order(12, 9))
    assert len(places) == len(set(places)) == 108
    assert set(places[:4]) == {(0, 0), (8, 0), (0, 8), (8, 8)}
    state = State.of(SMALL | {"across": "strength", "up": "sparsity"})
    axes = maps.axes(state)
    assert axes.x[0] == 0 and axes.x[-1] == 20 and axes.y == [1, 2, 3, 4]
    there = maps.there(state, 4.0, 1.0)
    errors = {name: at.values["test_error"] for name, at in numbers.chosen(there).items()}
    linear = min(errors["pooled"], errors["vectorized"])
    found = maps.cell(there)
    assert found.log_ratio == pytest.approx(math.log10(errors["attention"] / linear))
    assert 0 < found.standard_error < 0.01
    assert maps.cell_draft(there).log_ratio == pytest.approx(found.log_ratio, abs=0.05)
    assert maps.there(replace(state, across="length"), 2.0, 3.0) is None
    assert maps.cell(maps.there(state, 0.0, 1.0)).log_ratio == 0  # nobody can tell
    tiny = {"attention": 1e-16, "pooled": 3e-17, "vectorized": 2e-14}
    assert maps._log_ratio(state, tiny)[1] == 0
    assert maps._log_ratio(state, {"attention": 0.2, "pooled": 0.2019, "vectorized": 0.3})[1] == 0
    by_auc = {"attention": 0.9, "pooled": 0.99, "vectorized": 0.5}
    assert maps._log_ratio(replace(state, metric="auc"), by_auc)[1] == pytest.approx(1)
    assert map_cells((there,), draft=False) == [maps.cell(there)]


@pytest.mark.parametrize(
    ("words", "said"),
    [({"length": 5, "strength": 5.0}, ["it has found the signal", "attention wins"]),
     ({"length": 60, "strength": 6.0, "prevalence": 0.1, "query_samples": 8.0,
       "query_step": 300.0}, ["wrong side", "looks away", "attention loses"]),
     ({"length": 60, "strength": 6.0, "prevalence": 0.1, "query_samples": 8.0},
      ["hardly more than the mean", "no difference worth a word"]),
     ({"length": 30, "strength": 2.5, "query": "frozen", "cosine": 0.3, "sharpness": 8.0},
      ["some of the signal", "attention loses"]),
     ({"length": 10, "sparsity": 10, "strength": 0.7}, ["nothing to find"]),
     ({"query": "frozen", "cosine": 0.2, "length": 30}, ["The frozen query", "not found"])],
)  # fmt: skip
def test_the_reason_in_words(words, said):
    told = " ".join(reasons.sentences(State.of(words)))
    for each in said:
        assert each in told, told


def test_the_weight_on_the_signal():
    state = State.of({"query": "frozen", "cosine": 0.9, "sharpness": 0.0, "length": 8})
    weight = numbers.weight_on_signal(state, numbers.query_of(state))
    assert weight == pytest.approx(1 / 8) and weight.standard_error == pytest.approx(0, abs=1e-12)
    sharp = replace(state, sharpness=3.0)
    found = numbers.weight_on_signal(sharp, numbers.query_of(sharp))
    assert 0.5 < found <= 1 and 0 < found.standard_error < 0.01


def test_doubts_stand_beside_the_numbers():
    few = State.of(SMALL | {"dim": 20, "query_samples": 0.5})
    here = st.predict(few.task, few.attention, few.protocol, few.dim)
    limit = numbers.chosen(few)["attention"].values["test_error"]
    warning = answer("doubts", few)["words"]
    assert warning.startswith("At d = 20: attention's mean test error is ")
    assert f"{here.test_error:.3g}, not {limit:.3g}" in warning
    assert f"{here.useless:.0%} of training sets give a query that does not help" in warning
    assert answer("doubts", State())["words"] == ""
    none = State.of({"dim": 20, "readout_samples": 0.05})
    assert answer("doubts", none)["words"] == "At d = 20: so few samples per dimension are none."
    assert "does not help" not in answer("doubts", replace(few, query="frozen"))["words"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plan"])
def test_an_answer_depends_on_its_fields_alone(kind):
    """And is JSON: pages that differ in other fields share it."""
    what = KINDS[kind]
    state = State.of(SMALL | {"view": "map", "repeats": 3, "across": "ridge"})
    reduced = what.state(state)
    told = answer(kind, reduced)
    json.dumps(told, allow_nan=False)
    if kind != "code":
        assert what.state(replace(state, target=0.2, up="length")) == reduced
        assert answer(kind, state) == told

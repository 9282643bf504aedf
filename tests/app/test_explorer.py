"""The explorer without a browser: states, numbers, snippets, simulations, hostile requests."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shlex
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st_

import process_tasks
import sparsetoken as st
from sparsetoken.app import numbers, page, pictures
from sparsetoken.app.server import doubts, exact_answer, make_app, marks_answer
from sparsetoken.app.simulations import Simulations
from sparsetoken.app.snippets import as_command, as_python
from sparsetoken.app.state import CONTROLS, DEFAULTS, PRESETS, VIEWS, State
from sparsetoken.app.workers import Calculator
from sparsetoken.cli import main
from sparsetoken.support.errors import InvalidInput

SMALL = {"length": 4, "strength": 3.0, "query_samples": 1.5, "ridge": 0.1}


@pytest.fixture(scope="module")
def client():
    app = make_app()
    yield app.server.test_client()
    app.simulations.close()
    app.worker.close()


def ask(client, output, inputs, state=(("visit", "data", "page of tests"),)):
    """A request as the page sends it."""
    name, _, prop = output.partition(".")
    sent = {
        "output": output,
        "outputs": {"id": name, "property": prop},
        "inputs": [{"id": i, "property": p, "value": v} for i, p, v in inputs],
        "changedPropIds": [f"{inputs[0][0]}.{inputs[0][1]}"],
        "state": [{"id": i, "property": p, "value": v} for i, p, v in state],
    }
    return client.post("/_dash-update-component", json=sent)


def data(answer, name):
    assert answer.status_code == 200, answer.data
    return answer.get_json()["response"][name]["data"]


def test_presets_and_controls_are_states():
    assert {name for name, control in CONTROLS.items() if control.choices} == set(page.CHOICES)
    shown = {name for members in page.GROUPS.values() for name in members}
    assert shown | {"view", "metric"} == set(CONTROLS)
    for words in PRESETS.values():
        state = State.of(words)
        assert State.from_query("?" + state.to_query()) == state


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
            words[name] = float(f"{drawn.draw(st_.floats(control.least, control.most)):.6g}")
            words[name] = min(max(words[name], control.least), control.most)
    words["sparsity"] = min(words["sparsity"], words["length"])
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
    rows = numbers.curves(state)
    for name, classifier in numbers.classifiers(state).items():
        mine = [row.y for row in rows if row.series == name]
        theirs = st.learning_curve(state.task, classifier, state.protocol, numbers.SAMPLES)
        np.testing.assert_allclose(mine, theirs.test_error, rtol=1e-9)
        one = st.predict(state.task, classifier, state.protocol)
        assert numbers.chosen(state)[name]["auc"] == pytest.approx(one.auc, rel=1e-9)
    for row in numbers.alignment(state):
        protocol = replace(state.protocol, query_samples=row.x)
        assert row.y == pytest.approx(st.align(state.task, protocol).cosine, rel=1e-9)
    frozen = replace(state, query="frozen", cosine=0.5, sharpness=2.0)
    assert numbers.classifiers(frozen)["attention"] == st.Attention(cosine=0.5, sharpness=2.0)
    assert {row.series for row in numbers.roc(state)} == {"attention", "vectorized", "pooled"}
    marks = {row.series: row for row in numbers.marks(state)}
    assert marks["floor: Bayes"].y == pytest.approx(st.bayes_error(state.task), rel=1e-9)
    assert marks["capacity: pooled"].x == pytest.approx(st.capacity(state.task, st.Pooled()))


@pytest.mark.parametrize("metric", ["test_error", "auc", "train_loss"])
@pytest.mark.parametrize(
    "words", [{}, {"length": 60, "sparsity": 2, "strength": 4.0}, {"loss": "huber"},
              {"length": 5, "sparsity": 3, "strength": 1.5}, {"query": "frozen"}],
)  # fmt: skip
def test_drafts_are_near(words, metric):
    """What the page says of them: good to about 0.005 (training loss: to 0.01)."""
    state = State.of(words | {"metric": metric})
    exact = {(row.series, row.x): row.y for row in numbers.curves(state)}
    for row in numbers.curves_draft(state):
        allowed = 0.01 if metric == "train_loss" else 0.005
        assert abs(row.y - exact[row.series, row.x]) < allowed, row


def test_a_draft_begins_where_the_last_ended_and_ends_where_it_would_have():
    there = State.of({"strength": 5.1})
    numbers._last.clear()
    cold = numbers.curves_draft(there)
    for near in (4.9, 5.0):  # the second begins at the first
        numbers.curves_draft(State.of({"strength": near}))
    for one, other in zip(cold, numbers.curves_draft(there), strict=True):
        assert one[:2] == other[:2] and one.y == pytest.approx(other.y, abs=1e-8)


def test_what_a_killed_server_began_ends_with_it(tmp_path):
    script = tmp_path / "server.py"
    script.write_text("""
from sparsetoken.app.explore import explore
if __name__ == "__main__":
    explore(browser=False, ready=lambda address: print(address, flush=True))
""")
    server = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().strip()
    body = json.dumps({
        "output": "exact.data", "outputs": {"id": "exact", "property": "data"},
        "inputs": [{"id": "settled", "property": "data", "value": DEFAULTS}],
        "state": [{"id": "visit", "property": "data", "value": "a page"}],
        "changedPropIds": ["settled.data"],
    })  # fmt: skip
    request = urllib.request.Request(
        address + "_dash-update-component", body.encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
    begun = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True)
    begun = [int(each) for each in begun.stdout.split()]
    assert begun
    server.kill()
    server.communicate()
    until = time.monotonic() + 20
    while time.monotonic() < until and any(map(alive, begun)):
        time.sleep(0.1)
    assert not any(map(alive, begun))


def alive(process):
    with contextlib.suppress(FileNotFoundError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def test_the_page_beyond_the_paper():
    """Shared noise and another weighting: no vectorized, snippets that say so, drafts are near."""
    words = {"token_correlation": 0.4, "weighting": "top-3", "length": 6, "strength": 4.0}
    state = State.of(words)
    assert list(numbers.classifiers(state)) == ["attention", "pooled"]
    assert state.attention.weighting == st.TopK(3) and state.task.token_correlation == 0.4
    exact = {(row.series, row.x): row.y for row in numbers.curves(state)}
    assert {series for series, _ in exact} == {"attention", "pooled"}
    for row in numbers.curves_draft(state):
        assert abs(row.y - exact[row.series, row.x]) < 0.005
    shown = {name: found["test_error"] for name, found in numbers.chosen(state).items()}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(as_python(state), {})
    printed = dict(line.split()[:2] for line in out.getvalue().splitlines())
    assert {k: float(v) for k, v in printed.items()} == pytest.approx(shown, rel=2e-6)
    command = shlex.split(as_command(state))
    assert "--token-correlation" in command and "top-3" in command
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(command[1:]) == 0
    answers = {row["classifier"]: row["test_error"] for row in json.loads(out.getvalue())}
    assert answers == pytest.approx(shown, rel=1e-9)
    caught = {row.series: row for row in numbers.attention(state)}
    assert 0 < caught["mean weight on signal"].x <= 1


def test_what_any_learner_gets_and_where_learning_is_hard():
    state = State.of({"length": 100, "strength": 4.0, "prevalence": 0.3, "query_samples": 0.2})
    rows = numbers.marks(state)
    best = {row.x: row.y for row in rows if row.series == "learner: any"}
    curve = st.bayes_curve(state.task, [0.2 + x for x in numbers.SAMPLES])
    assert list(best) == list(numbers.SAMPLES)
    assert list(best.values()) == pytest.approx(curve.test_error, rel=1e-9)
    # it has attention's samples, those of the query too: nothing drawn is below it
    assert all(row.y > best[row.x] for row in numbers.curves(state))
    phase = st.hard_phase(state.task)
    stuck = [row for row in rows if row.series == "learner: message passing"]
    assert phase.begin - 0.2 < stuck[0].x < stuck[-1].x < phase.end - 0.2
    assert all(row.y > 1.2 * st.bayes_curve(state.task, [0.2 + row.x])[0].test_error
               for row in stuck)  # fmt: skip
    drawn = pictures.marks(rows)
    assert [trace["name"] for trace in drawn[:2]] == [
        "any learner, of all samples", "hard: fast learners stay here",
    ]  # fmt: skip
    assert [trace["mode"] for trace in drawn[:2]] == ["lines", "lines"]
    told = numbers.marks(State.of({"length": 10, "query": "frozen"}))
    assert not any(row.series.startswith("learner") for row in told)
    easy = numbers.marks(State.of({"length": 10}))
    assert "learner: message passing" not in {row.series for row in easy}


def test_marks_and_maps_as_pictures():
    rows = [numbers.Row("floor: Bayes", np.nan, 0.1), numbers.Row("capacity: pooled", 3.0, np.nan),
            numbers.Row("capacity: attention", np.inf, np.nan)]  # fmt: skip
    floor, finite, infinite = pictures.marks(rows)
    assert set(floor["y"]) == {0.1} and floor["name"].endswith("Bayes")
    assert finite["x"] == [3.0] and infinite["x"] == [None]
    state = State.of({"across": "strength", "up": "ridge"})
    cells = [numbers.Cell(1.0, 0.1, "pooled", 0.2), numbers.Cell(5.0, 0.1, "attention", 0.4)]
    drawn = pictures.map_figure(state, [1.0, 5.0], [0.1, 1.0], cells)
    places = {trace["name"]: (trace["x"], trace["customdata"]) for trace in drawn["data"]}
    assert places["pooled wins"] == ([1.0], [0.2]) and places["vectorized wins"] == ([], [])
    assert drawn["layout"]["yaxis"]["type"] == "log"


def test_the_attention_view():
    state = State.of({"query": "frozen", "cosine": 0.9, "sharpness": 0.0, "length": 8})
    rows = {row.series: row for row in numbers.attention(state)}
    assert rows["mean weight on signal"].x == pytest.approx(1 / 8)
    signal = [row for row in numbers.attention(state) if row.series == "signal tokens"]
    assert max(signal, key=lambda row: row.y).x == pytest.approx(0.9 * 5, abs=0.1)


def test_the_map_fills_in_coarse_first_and_says_who_wins():
    places = list(numbers.map_order(12, 9))
    assert len(places) == len(set(places)) == 108
    assert set(places[:4]) == {(0, 0), (8, 0), (0, 8), (8, 8)}
    state = State.of(SMALL | {"across": "strength", "up": "sparsity"})
    xs, ys = numbers.map_axes(state)
    assert xs[0] == 0 and xs[-1] == 20 and ys == [1, 2, 3, 4]
    cell = numbers.map_cell(state, 4.0, 1.0)
    values = numbers.chosen(replace(state, strength=4.0, sparsity=1))
    errors = sorted((found["test_error"], name) for name, found in values.items())
    assert cell.winner == errors[0][1]
    assert cell.edge == pytest.approx(errors[1][0] - errors[0][0])
    assert numbers.map_cell(replace(state, across="length"), 2.0, 3.0) is None


@pytest.mark.parametrize("words", [{}, {"query": "frozen", "loss": "square"},
                                   {"view": "alignment"}], ids=repr)  # fmt: skip
def test_snippets_print_the_numbers_of_the_page(words, capsys):
    state = State.of(SMALL | words)
    exec(compile(as_python(state), "snippet", "exec"), {})
    printed = capsys.readouterr().out
    if state.view == "alignment":
        cosine = st.align(state.task, state.protocol).cosine
        assert float(printed.removeprefix("cosine ").partition(",")[0]) == pytest.approx(
            cosine, rel=2e-6
        )
    else:
        for line, (name, found) in zip(
            printed.splitlines(), numbers.chosen(state).items(), strict=True
        ):
            shown = [found[key] for key in ("test_error", "auc", "train_loss", "train_error")]
            assert line.split()[0] == name
            assert [float(word) for word in line.split()[1:]] == pytest.approx(shown, rel=2e-6)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(shlex.split(as_command(state))[1:]) == 0
    for row in json.loads(out.getvalue()):
        found = numbers.chosen(state)[row["classifier"]]
        assert row["test_error"] == pytest.approx(found["test_error"], rel=1e-9)
        assert row["auc"] == pytest.approx(found["auc"], rel=1e-9)


@pytest.mark.parametrize("view", [view for view in VIEWS if view not in ("map", "plan")])
def test_every_view_is_answered(client, view):
    words = SMALL | {"view": view}
    exact = data(ask(client, "exact.data", [("settled", "data", words)]), "exact")
    assert exact["words"] == words and "message" not in exact
    assert exact["figure"]["data"] and exact["python"] and exact["command"]
    assert [row["classifier"] for row in exact["table"]] == ["attention", "vectorized", "pooled"]
    draft = client.post("/draft", json=words).get_json()
    assert ("figure" in draft) == (view != "roc")
    assert "NaN" not in json.dumps(exact, allow_nan=False)


def test_the_map_is_answered_in_parts(client):
    words = SMALL | {"view": "map", "across": "ridge", "up": "sparsity", "length": 2}
    missing = []
    for tick in range(200):
        inputs = [("settled", "data", words), ("clock", "n_intervals", tick)]
        found = data(ask(client, "map.data", inputs), "map")
        missing.append(found["missing"])
        if not found["missing"]:
            break
    assert missing == sorted(missing, reverse=True) and missing[-1] == 0
    assert sum(len(trace["x"]) for trace in found["figure"]["data"]) == 24


def test_wrong_words_get_a_sentence_and_change_nothing(client):
    wrong = {"length": -1}
    exact = data(ask(client, "exact.data", [("settled", "data", wrong)]), "exact")
    for found in (exact, client.post("/draft", json=wrong).get_json()):
        assert found["message"].startswith("length must be a whole number between 1 and 200")
    again = data(ask(client, "exact.data", [("settled", "data", SMALL)]), "exact")
    assert "message" not in again


@settings(max_examples=150, deadline=None)
@given(
    output=st_.sampled_from(["exact.data", "marks.data", "map.data",
                             "simulated.data", "words.data", "..", ""]),
    value=anything, extra=anything, state=anything,
)  # fmt: skip
def test_hostile_requests_are_never_a_500(client, output, value, extra, state):
    inputs = [("settled", "data", value), ("words", "data", extra), ("clock", "n_intervals", 1)]
    answer = ask(client, output, inputs, [("settled", "data", state), ("visit", "data", extra)])
    assert answer.status_code < 500
    assert b"Traceback" not in answer.data
    assert client.post("/draft", json=value).status_code < 500


@settings(max_examples=100, deadline=None)
@given(body=st_.one_of(st_.binary(max_size=300), anything.map(lambda x: json.dumps(x).encode())))
def test_bodies_of_any_kind(client, body):
    for path in ("/draft", "/_dash-update-component", "/_dash-layout", "/_dash-dependencies", "/"):
        answer = client.post(path, data=body, content_type="application/json")
        assert answer.status_code < 500


def test_large_bodies_and_other_paths(client):
    for kind in ("application/json", "text/plain"):
        answer = client.post("/_dash-update-component", data=b"x" * (1 << 20), content_type=kind)
        assert answer.status_code in (400, 413, 415)
    for path in ("/..%2f..%2fetc/passwd", "/assets/../../server.py", "/nothing", "/assets/x"):
        assert client.get(path).status_code in (200, 400, 404)
        assert b"root:" not in client.get(path).data and b"make_app" not in client.get(path).data
    home = client.get("/")
    assert "default-src 'self'" in home.headers["Content-Security-Policy"]
    assert b"https://" not in home.data and b"http://" not in home.data


def test_simulations_run_are_cancelled_and_end_with_their_page(monkeypatch):
    monkeypatch.setattr("sparsetoken.app.simulations._PATIENCE", 2.0)
    jobs = Simulations()
    state = State.of(SMALL | {"dim": 20, "repeats": 1})
    job = jobs.start("page one", state)
    until = time.monotonic() + 60
    while jobs.look("page one").running and time.monotonic() < until:
        time.sleep(0.1)
    jobs.look("page one")
    assert job.done == job.total == 15 and job.message == ""
    for name, classifier in numbers.classifiers(state).items():
        protocol = replace(state.protocol, readout_samples=2.0)
        run = st.simulate(state.task, classifier, protocol, dim=20, repeats=1, seed=0)
        (mine,) = [row.y for row in job.rows["test_error"] if (row.series, row.x) == (name, 2.0)]
        assert mine == pytest.approx(run.test_error[0], rel=1e-9)
    long = State.of({"dim": 1000, "repeats": 32, "length": 100})
    first, second = jobs.start("page one", long), jobs.start("page two", long)
    with pytest.raises(InvalidInput, match="2 simulations are under way"):
        jobs.start("page three", long)
    jobs.cancel("page one")
    assert not first.running
    until = time.monotonic() + 30  # page two asks no more
    while second.running and time.monotonic() < until:
        time.sleep(0.2)
    assert not second.running and jobs.look("page two") is None
    jobs.close()


def test_the_newest_wish_of_a_page_counts():
    calculator, answers = Calculator(), {}
    assert calculator.run("a", process_tasks.echo, 0) == {"done": 0}  # it has started

    def ask(page, work, argument):
        answers[page, argument] = (calculator.run(page, work, argument), time.monotonic())

    asked = [("a", process_tasks.nap, 1), ("a", process_tasks.echo, 2),
             ("b", process_tasks.echo, 3), ("a", process_tasks.echo, 4)]  # fmt: skip
    requests = [threading.Thread(target=ask, args=each) for each in asked]
    for request in requests:
        request.start()
        time.sleep(0.2)
    for request in requests:
        request.join()
    found = {key: answer for key, (answer, _) in answers.items()}
    assert found == {
        ("a", 1): {"done": "nap"}, ("a", 2): {}, ("b", 3): {"done": 3}, ("a", 4): {"done": 4},
    }  # fmt: skip
    assert answers["a", 2][1] < answers["a", 1][1]  # at once
    assert "died (killed, or out of memory)" in calculator.run("a", process_tasks.die, 5)["message"]
    assert calculator.run("a", process_tasks.echo, 6) == {"done": 6}  # by another process
    calculator.close()


def test_a_busy_server_says_so(monkeypatch):
    monkeypatch.setattr("sparsetoken.app.workers._LONGEST_WAIT", 0.1)
    calculator = Calculator()
    request = threading.Thread(target=calculator.run, args=("a", process_tasks.nap, 0))
    request.start()
    time.sleep(0.2)
    assert "busy with other pages" in calculator.run("b", process_tasks.echo, 0)["message"]
    request.join()
    calculator.close()


def test_doubts_stand_beside_the_numbers():
    few = State.of(SMALL | {"view": "alignment", "dim": 20, "query_samples": 0.5})
    answer = exact_answer(few)
    assert answer["figure"] and answer["table"]  # nothing is held back
    here = st.predict(few.task, few.attention, few.protocol, few.dim)
    limit = numbers.chosen(few)["attention"]["test_error"]
    warning = marks_answer(few)["warning"]
    assert warning.startswith("At d = 20: attention's mean test error is ")
    assert f"{here.test_error:.3g}, not {limit:.3g}" in warning
    assert f"{here.useless:.0%} of training sets give a query that does not help" in warning
    assert marks_answer(State())["warning"] == ""
    none = State.of({"dim": 20, "readout_samples": 0.05})
    assert doubts(none) == "At d = 20: so few samples per dimension are none."
    rare = State.of({"view": "plan", "prevalence": 0.02, "target": 0.01, "length": 4})
    assert "Warning: one class is rare" in exact_answer(rare)["warning"]
    assert "does not help" not in doubts(replace(few, query="frozen"))  # nobody taught it
    assert "P(id='warning'" in str(page.layout())


def test_where_it_listens():
    with pytest.raises(InvalidInput, match="port must be a whole number"):
        st.explore(port=99999)
    with pytest.raises(InvalidInput, match="nothing can listen at 203"):
        st.explore(host="203.0.113.1", browser=False)


def test_a_bug_of_ours_is_a_500_and_in_the_log(monkeypatch, caplog):
    """Not "bad request": a page that is broken by us must not blame its visitor."""

    def broken(*_, **__):
        raise ValueError("on purpose")

    app = make_app()
    try:
        monkeypatch.setattr("sparsetoken.app.server._draft", broken)
        answer = app.server.test_client().post("/draft", json=SMALL)
    finally:
        app.simulations.close()
        app.worker.close()
    assert answer.status_code == 500 and b"a bug" in answer.data
    assert b"Traceback" not in answer.data and "on purpose" in caplog.text

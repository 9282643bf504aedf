"""The server without a browser: who may ask, what is answered, what hangs, what a bug is."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st_
from wsproto.events import CloseConnection, RejectConnection

import sparsetoken as st
from explorer_page import Talk, ask, serving
from sparsetoken.app import numbers
from sparsetoken.app.answers import KINDS
from sparsetoken.app.state import CONTROLS, State
from sparsetoken.cli import main

SMALL = {"length": 4, "strength": 3.0, "query_samples": 1.5, "ridge": 0.1}
SMALL_QUERY = State.of(SMALL).to_query()


@pytest.fixture(scope="module")
def address():
    with serving() as server:
        yield server.address
    assert "Traceback" not in server.log, server.log


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plan"])
def test_every_kind_is_answered_on_both_roads(address, kind):
    status, headers, body = ask(address, f"/answers/{kind}?{SMALL_QUERY}")
    assert status == 200 and headers["Content-Type"] == "application/json"
    talk = Talk(address)
    assert talk.answer(kind, SMALL)["answer"] == json.loads(body, parse_constant=pytest.fail)
    talk.close()


def test_answers_are_the_library_s(address):
    state = State.of(SMALL)
    for metric in numbers.METRICS:
        _, _, body = ask(address, f"/answers/curves?{SMALL_QUERY}&metric={metric}")
        series = json.loads(body)["series"]
        for name, kind in numbers.classifiers(state).items():
            curve = st.learning_curve(state.task, kind, state.protocol, numbers.samples(state))
            assert series[name]["y"] == pytest.approx(getattr(curve, metric), rel=1e-6)
    _, _, body = ask(address, f"/answers/floors?{SMALL_QUERY}")
    (bayes,) = [each for each in json.loads(body)["floors"] if each["name"] == "Bayes"]
    exact = st.bayes_error(state.task)
    assert bayes["error"] == pytest.approx(exact, rel=1e-6)
    assert bayes["standard_error"] == pytest.approx(exact.standard_error, rel=1e-6)


def test_only_our_own_name_and_origin_may_ask(address):
    port = urlsplit(address).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]", f"127.0.0.1.:{port}"):
        assert ask(address, "/answers/code", Host=host)[0] == 200, host
    for host in ("evil.example", f"127.0.0.1.evil.example:{port}", "192.0.2.1", "", "[", "::1"):
        assert ask(address, "/answers/code", Host=host)[0] in (400, 421), host
    here = f"http://127.0.0.1:{port}"
    assert ask(address, "/answers/code", Origin=here)[0] == 200
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{port + 1}",
        "http://localhost",
    ):
        assert ask(address, "/answers/code", Origin=origin)[0] == 403, origin
    assert ask(address, "/answers/code", Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(address, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    own = Talk(address, origin=here)
    assert "python" in own.answer("code", SMALL)["answer"]
    own.close()
    for options in ({"origin": "http://evil.example"}, {"origin": here, "host": "evil.example"}):
        refused = Talk(address, **options)
        assert isinstance(refused.opened, RejectConnection)
        refused.close()


def test_headers(address):
    for path in ("/", "/static/lab/main.js", "/answers/code", "/nothing"):
        _, headers, _ = ask(address, path)
        policy = headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy and "script-src 'self';" in policy
        assert "unsafe" not in policy and headers["X-Content-Type-Options"] == "nosniff"
        assert "server" not in headers
    body = ask(address, "/")[2]
    assert b"https://" not in body and b"http://" not in body


def test_other_paths_are_not_there(address):
    for path in ("/..%2f..%2fetc/passwd", "/static/../server.py", "/static/%2e%2e/server.py",
                 "/static//etc/passwd", "/answers/evil", "/static/nothing.js"):  # fmt: skip
        status, _, body = ask(address, path)
        assert status in (400, 404), path
        assert b"root:" not in body and b"make_app" not in body
    assert ask(address, "/?" + "x" * 5000)[0] == 414
    assert ask(address, "/answers/code?" + "&".join("x=1" for _ in range(300)))[0] == 400


def test_wrong_values_are_the_visitor_s_and_unknown_words_are_passed_over(address):
    status, _, body = ask(address, "/answers/table?length=0")
    assert status == 400 and body.startswith(b"length must be a whole number")
    assert ask(address, "/answers/code?evil=1")[0] == 200
    talk = Talk(address)
    for words in ({"length": 0}, {"evil": 1}, {"strength": math.inf}, {"view": "all"}, [], None):
        refused = talk.answer("table", words)
        assert "answer" not in refused and len(refused["refused"]) < 300
    talk.close()


anything = st_.recursive(
    st_.none() | st_.booleans() | st_.integers() | st_.floats() | st_.text(max_size=80),
    lambda inner: st_.lists(inner, max_size=3) | st_.dictionaries(st_.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(
    st_.text(max_size=100)
    | anything.map(json.dumps)
    | st_.fixed_dictionaries(
        {"ask": st_.sampled_from(["code", "evil", 3, None]), "id": anything, "words": anything}
    ).map(json.dumps)
)
def test_hostile_messages_end_or_are_answered(address, text):
    talk = Talk(address)
    talk.say(text)
    talk.say({"ask": "code", "id": 7, "words": SMALL})
    while True:  # either is well: answered, or shown the door
        event = talk.event()
        if isinstance(event, CloseConnection) or getattr(event, "get", dict().get)("id") == 7:
            break
        if isinstance(event, dict):
            assert "bug" not in event
    talk.close()


def test_of_a_flood_of_questions_the_newest_is_answered(address):
    """Nothing piles up: what has not begun gives way, and others do not wait for it."""
    count = 1000
    flood, other = Talk(address), Talk(address)
    for k in range(count):
        words = {"length": 3, "strength": 2 + k / 100}
        flood.say({"ask": "curves", "id": k, "words": words})
    assert "answer" in other.answer("curves", {"length": 3, "strength": 1.0}, 1)
    answered = set()
    while count - 1 not in answered:
        event = flood.event()
        assert isinstance(event, dict)
        if event["ask"] == "curves":
            assert "answer" in event
            answered.add(event["id"])
    assert len(answered) < count / 10
    flood.close()
    other.close()


def test_large_messages_are_refused(address):
    talk = Talk(address)
    with contextlib.suppress(OSError):
        talk.say("x" * (1 << 20))
    with contextlib.suppress(ConnectionResetError):
        while not isinstance(event := talk.event(), CloseConnection):
            assert not (isinstance(event, dict) and event["ask"] != "alive")
    talk.close()


def test_connections_that_hang_are_hung_up():
    code = """
from sparsetoken.app import explore, guard
guard._REQUEST = guard._RESPONSE = 1.0
explore.explore(port=0, browser=False, ready=lambda address: print(address, flush=True))
"""
    with serving("-", code=code) as server:
        parts = urlsplit(server.address)
        for said in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
            with socket.create_connection((parts.hostname, parts.port), timeout=30) as hanging:
                hanging.sendall(said)
                with contextlib.suppress(ConnectionResetError):
                    assert hanging.recv(100) == b""
        kept = Talk(server.address)  # a page is no hanging connection
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert kept.event()
        assert kept.answer("code", SMALL)["answer"]
        kept.close()


def test_a_bug_is_a_500_with_a_traceback_in_the_log():
    """Not "bad request": a page that is broken by us must not blame its visitor."""
    code = """
from sparsetoken.app import explore, snippets
import sparsetoken.app.answers as answers
def broken(state):
    raise ValueError("on purpose")
answers.as_python = broken
explore.explore(port=0, browser=False, ready=lambda address: print(address, flush=True))
"""
    with serving("-", code=code) as server:
        status, _, body = ask(server.address, "/answers/code")
        talk = Talk(server.address)
        told = talk.answer("code", SMALL)
        others = talk.answer("alignment", SMALL)
        talk.close()
    assert status == 500 and b"Traceback" not in body and b"a bug" in body
    assert "a bug" in told["bug"] and "refused" not in told
    assert others["answer"]["series"]
    assert server.log.count("ValueError: on purpose") >= 2


def test_the_map_comes_in_parts_and_a_newer_one_ends_it(address):
    words = SMALL | {"view": "map", "across": "ridge", "up": "sparsity", "length": 2}
    talk = Talk(address)
    parts = talk.answer("map", words)["parts"]
    cells = [(*cell[:2], part["draft"]) for part in parts for cell in part["cells"]]
    assert len(cells) == len(set(cells)) == 2 * 26  # drafts of all, then exact ones
    assert parts[0]["y"] == [1, 2]
    talk.say({"ask": "map", "id": 2, "words": words | {"strength": 2.0}})
    assert talk.answer("map", words, 3)["done"]
    talk.close()


def test_simulations_run_and_end(address):
    talk = Talk(address)
    parts = talk.answer("simulate", SMALL | {"dim": 20, "repeats": 1})["parts"]
    dots = [dot for part in parts for dot in part["dots"]]
    assert parts[0]["total"] == len(dots) == 15
    state = State.of(SMALL | {"dim": 20})
    for name, classifier in numbers.classifiers(state).items():
        protocol = state.protocol.with_readout_samples(2.0)
        run = st.simulate(state.task, classifier, protocol, dim=20, repeats=1, seed=0)
        (own,) = [dot for dot in dots if dot[:2] == [name, 2.0]]
        assert own[2] == pytest.approx(run.test_error[0], rel=1e-9)
    talk.say({"ask": "simulate", "id": 2, "words": {"dim": 1000, "repeats": 32, "length": 100}})
    while not (isinstance(event := talk.event(), dict) and event["id"] == 2):
        pass
    talk.say({"ask": "cancel", "id": 3})
    assert talk.answer("code", SMALL, 4)["answer"]
    talk.close()


def test_a_lecture_opens_one_link(address):
    """Forty pages: none refused, all the same, computed once."""
    words = SMALL | {"strength": 3.3}
    _crowd(address, [words] * 40)


@pytest.mark.slow
def test_forty_pages_of_their_own(address):
    _crowd(address, [{"length": 4, "strength": 2 + k / 20} for k in range(40)])


def _crowd(address, wishes):
    answers = [None] * len(wishes)

    def page(k):
        talk = Talk(address)
        answers[k] = talk.answer("curves", wishes[k])
        talk.close()

    threads = [threading.Thread(target=page, args=(k,)) for k in range(len(wishes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, wish in enumerate(wishes):
        assert "answer" in answers[k], answers[k]
        same = [other for other, words in zip(answers, wishes, strict=True) if words == wish]
        assert all(other["answer"] == answers[k]["answer"] for other in same)


def test_where_it_listens(capsys):
    with pytest.raises(st.InvalidInput, match="port must be a whole number"):
        st.explore(port=99999)
    with pytest.raises(st.InvalidInput, match="nothing can listen at 203"):
        st.explore(host="203.0.113.1", browser=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["explore", "--no-browser", "--port", port]) == 2
        assert "nothing can listen" in capsys.readouterr().err


def test_a_fixed_port_or_the_next_and_nothing_beyond_this_machine():
    command = [sys.executable, "-m", "sparsetoken", "explore", "--no-browser"]
    first, second = (subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in "12")
    try:
        ports = sorted(urlsplit(each.stdout.readline().split()[0]).port for each in (first, second))
        assert 8642 <= ports[0] < ports[1] < 8662
        listed = Path("/proc/net/tcp").read_text().splitlines()[1:]
        own = [line.split()[1].split(":") for line in listed]
        for host, port in own:
            if int(port, 16) in ports:
                assert host in ("0100007F",)
    finally:
        for each in (first, second):
            each.kill()
            each.communicate()


def test_what_a_killed_server_began_ends_with_it():
    with serving() as server:
        ask(server.address, f"/answers/curves?{SMALL_QUERY}")
        begun = server.workers()
        assert begun
        server.kill()
        until = time.monotonic() + 20
        while time.monotonic() < until and any(map(_alive, begun)):
            time.sleep(0.1)
        assert not any(map(_alive, begun))


def _alive(process):
    with contextlib.suppress(FileNotFoundError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def test_every_control_has_its_place():
    from sparsetoken.app.server import FIRST, GROUPS

    shown = [*FIRST, *(name for names in GROUPS.values() for name in names), "view", "metric"]
    assert sorted(shown) == sorted(CONTROLS)

"""The walks of CONTRIBUTING.md, followed: the order in which a call first enters the files."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import sparsetoken as st

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = dict(re.findall(r"^- `(\w+)\(.*?\)`: (.*?)\. ?(?:[A-Z].*)?$", TEXT, re.M))
ATTENTION, PROTOCOL = st.Attention(), st.Protocol(3.0, 5.0, ridge=0.02)
SAMPLE = st.Task(7, 2, 4.3).sample(60, dim=5, rng=0)
CALLS = {  # of a task: a second one finds modules imported, and nothing kept
    "predict": lambda task: st.predict(task, ATTENTION, PROTOCOL),
    "simulate": lambda task: st.simulate(task, ATTENTION, PROTOCOL, dim=20, repeats=1),
    "plan": lambda task: st.plan(task, dim=20, target_error=0.2, check=False),
    "AttentionClassifier": lambda task: ESTIMATOR.fit(SAMPLE.tokens, SAMPLE.labels),
}
ESTIMATOR = st.AttentionClassifier()


def entered(call, task):
    """(file, function) of the package in the order of their first calls."""
    source = str(ROOT / "src" / "sparsetoken")
    steps = {}

    def notice(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(source):
            file = Path(frame.f_code.co_filename).relative_to(source).as_posix()
            steps.setdefault((file, frame.f_code.co_qualname))

    sys.setprofile(notice)
    try:
        call(task)
    finally:
        sys.setprofile(None)
    return list(steps)


def stops(walk):
    """Each file of a walk, and the functions named beside it."""
    for stop in walk.split(" → "):
        names = re.findall(r"`([\w./]+)`", stop)
        yield names[0], names[1:]


@pytest.mark.parametrize("name", CALLS)
def test_a_walk_is_true(name):
    CALLS[name](st.Task(7, 2, 4.3))
    steps = entered(CALLS[name], st.Task(8, 2, 4.7))
    walk = list(stops(WALKS[name]))
    assert len(walk) > 5
    places = []
    for file, functions in walk:
        for function in functions:
            calls = (at for at, step in enumerate(steps) if is_call(step, file, function))
            place = next(calls, None)
            assert place is not None, (file, function)
            places.append(place)
    assert places == sorted(places), [steps[place] for place in places]


def is_call(step, file, function):
    """Of the function, or of the class by any of its methods."""
    return step[0] == file and (step[1] == function or step[1].startswith(f"{function}."))

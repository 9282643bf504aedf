"""`sparsetoken plan` as a person and as a program use it."""

from __future__ import annotations

import json

import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.planning import outlook

QUESTION = "plan --length 8 --sparsity 1 --strength 5 --dim 60".split()


@pytest.mark.slow
def test_it_prints_headline_table_and_sensitivities_and_draws(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(outlook, "_POINTS", 4)
    figure = tmp_path / "curve.png"
    assert main([*QUESTION, "--samples", "90", "--metric", "auc", "--figure", str(figure)]) == 0
    captured = capsys.readouterr()
    advice = st.plan(st.Task(8, 1, 5.0), 60, samples=90, metric="auc")
    assert captured.out.startswith(advice.headline)
    assert "strength 5 → 4" in captured.out and "readout count" in captured.out
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert str(figure) in captured.err


def agree(mine, other):
    """The same structure and words; numbers to what two computations share."""
    assert type(mine) is type(other)
    if isinstance(mine, dict):
        assert list(mine) == list(other)
        mine, other = list(mine.values()), list(other.values())
    if isinstance(mine, list):
        for one, two in zip(mine, other, strict=True):
            agree(one, two)
    elif isinstance(mine, float):
        assert mine == pytest.approx(other, rel=1e-9)
    else:
        assert mine == other


@pytest.mark.slow
def test_json_is_what_the_library_says(capsys):
    options = "--samples 300 --metric cost --cost-false-negative 5 --loss square --json --check"
    assert main([*QUESTION, *options.split()]) == 0
    content = json.loads(capsys.readouterr().out)
    advice = st.plan(
        st.Task(8, 1, 5.0), 60, samples=300, metric="cost", cost_false_negative=5.0,
        loss=st.Square(), check=True,
    )  # fmt: skip
    agree(content, json.loads(st.outlook(advice).to_json()))
    assert content["goal"]["name"] == "cost" and content["floors"] == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "give samples= (what is reached with them?) or a target"),
        ("--samples 100 --target-error 0.1", "say unknown='strength'"),
        ("--target-error 0.6", "target_error must be below 0.5"),
        ("--samples 2", "samples must be a whole number between 4"),
        ("--samples 100 --annotated 1.5", "plan: annotated must be a number at least 0"),
        ("--samples 100 --unlabelled -5", "plan: unlabelled must be a whole number"),
        ("--samples 100 --figure curve.gif", "figure must end in .png, .pdf or .svg"),
        (
            "--samples 100 --figure /nowhere/curve.png",
            "in a folder that is there (that folder is not there)",
        ),
    ],
)
def test_wrong_questions_are_one_line(capsys, options, words):
    assert main([*QUESTION, *options.split()]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1 and captured.out == ""

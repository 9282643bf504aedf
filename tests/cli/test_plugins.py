"""`--plugin FILE.py`: classes of one's own with every command; files that are none, or fail."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import pytest

from sparsetoken.cli import main

OWN = """
from dataclasses import dataclass
import sparsetoken as st
from beside import SCALE

@dataclass(frozen=True)
class Cubic:
    def weights(self, scores):
        raw = (SCALE * (scores - scores.min(axis=-1, keepdims=True)) + 1.0) ** 3
        return raw / raw.sum(axis=-1, keepdims=True)

@dataclass(frozen=True)
class Steep(st.Logistic):
    pass

@dataclass(frozen=True)
class Twin(st.Pooled):
    pass

st.WEIGHTINGS.register("cubic", Cubic)
st.LOSSES.register("steep", Steep)
st.CLASSIFIERS.register("twin", Twin)
"""
STUDY = """
classifier = ["twin", "pooled", "attention"]
weighting = "cubic"
kind = "simulation"
dim = 20
[task]
length = 4
sparsity = 1
strength = 3.0
[protocol]
loss = "steep"
ridge = 0.1
"""
TASK = "--length 4 --sparsity 1 --strength 3".split()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "beside.py").write_text("SCALE = 1.0\n")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def run(folder, *arguments, cwd=None):
    command = [sys.executable, "-m", "sparsetoken", *arguments]
    done = subprocess.run(command, cwd=cwd or folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_of_a_plugin_are_known_to_commands(folder):
    own = ["--loss", "steep", "--weighting", "cubic", "--json"]
    rows = json.loads(run(folder, "--plugin", "own.py", "predict", *TASK, *own))
    errors = {row["classifier"]: row["test_error"] for row in rows}
    assert set(errors) == {"attention", "vectorized", "pooled", "twin"}
    assert errors["twin"] == errors["pooled"]
    out = run(folder, "predict", "--help", f"--plugin={folder}/own.py", cwd=folder.parent)
    assert "cubic" in out and "twin" in out and "steep" in out


@pytest.mark.parametrize("where", ["--processes", pytest.param("--dask", marks=pytest.mark.slow)])
def test_and_to_other_processes(folder, where):
    places = [where, "local"] if where == "--dask" else [where, "2"]
    run(folder, "sweep", "study.toml", "--store", "runs.sqlite", *places, "--plugin", "own.py")
    run(folder, "--plugin", "own.py", "export", "runs.sqlite", "--csv", "runs.csv")
    import pandas as pd

    table = pd.read_csv(folder / "runs.csv")
    assert (table.status == "ok").all() and set(table.loss) == {"steep"}
    errors = table.set_index("classifier").test_error
    assert errors["twin"] == errors["pooled"]


def test_and_to_the_page(folder):
    """Its exact numbers come from a process that is sent names alone."""
    command = [sys.executable, "-m", "sparsetoken", "--plugin", "own.py", "explore", "--no-browser"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[0]
        words = "length=4&loss=steep&weighting=cubic"
        for kind in ("curves", "curves_draft"):
            with urllib.request.urlopen(f"{address}answers/{kind}?{words}", timeout=60) as answer:
                series = json.load(answer)["series"]
            assert list(series) == ["attention", "vectorized", "pooled", "twin"], series
    finally:
        server.terminate()
        server.communicate()


def test_help_says_how(folder):
    assert "--plugin FILE.py" in run(folder, "--help")


BAD = {
    "missing.py": (None, "must be a Python file (.py) that exists, got 'missing.py'"),
    "": (None, "must be a Python file (.py) that exists, got ''"),
    ".": (None, "must be a Python file (.py) that exists, got '.'"),
    "table.csv": ("a,b", "must be a Python file (.py) that exists, got 'table.csv'"),
    "two words.py": ("", "must have a file name that is a Python name"),
    "own.v2.py": ("", "must have a file name that is a Python name"),
    "json.py": ("", "and of no other module, got 'json.py'; rename it"),
    "time.py": ("", "and of no other module, got 'time.py'; rename it"),
    "sparsetoken.py": ("", "and of no other module, got 'sparsetoken.py'; rename it"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_none(capsys, tmp_path, monkeypatch, name):
    content, words = BAD[name]
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_text(content)
    assert main(["predict", *TASK, "--plugin", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and words in captured.err and captured.err.count("\n") == 1


def test_no_file_at_all(capsys):
    assert main(["predict", *TASK, "--plugin"]) == 2
    words = "sparsetoken: argument --plugin: expected one argument (a Python file)\n"
    assert capsys.readouterr().err == words


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("def steep():\n    raise KeyError('oh')\nsteep()\n", "KeyError: 'oh'"),
        ("steep = (\n", "SyntaxError"),
        ("import a_library_that_is_missing\n", "ModuleNotFoundError"),
        ("import sparsetoken as st\nst.LOSSES.register('square', int)\n", "must differ from those"),
        ("raise SystemExit(0)\n", "SystemExit: 0"),
    ],
)
def test_a_file_that_fails_shows_its_own_traceback(capsys, tmp_path, monkeypatch, content, words):
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"fails_{abs(hash(content))}.py"
    (tmp_path / name).write_text(content)
    assert main(["--plugin", str(tmp_path / name), "predict", *TASK]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and words in captured.err and name in captured.err
    assert captured.err.endswith("failed: see the lines above\n")
    assert "importlib" not in captured.err and "support/plugins.py" not in captured.err

"""Spectra and spreads on the command line and in study files."""

from __future__ import annotations

import json

import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.studies.study_file import load_study

TASK = "--length 5 --sparsity 1 --strength 4".split()
SPECTRUM = st.Spectrum((0.25, 4.0), (0.5, 0.5), (0.3, 0.7))


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(params=["json", "csv"])
def file(request, tmp_path):
    path = tmp_path / f"noise.{request.param}"
    if request.param == "csv":
        path.write_text("eigenvalue, density, signal_share\n0.25,0.5,0.3\n4.0,0.5,0.7\n")
    else:
        names = ("eigenvalues", "density", "signal_share")
        path.write_text(json.dumps({name: getattr(SPECTRUM, name) for name in names}))
    return str(path)


def test_simulate_prints_the_theory_beside_what_the_library_simulates(capsys, file):
    arguments = ["--spectrum", file, *"--signal-spread 2 --dim 40 --repeats 3 --json".split()]
    code, out, _ = run(capsys, "simulate", *TASK, *arguments)
    task = st.Task(5, 1, 4.0, noise=SPECTRUM, signal_spread=2.0)
    assert code == 0
    rows = {(row["classifier"], row["quantity"]): row for row in json.loads(out)}
    for name in ("attention", "pooled", "vectorized"):
        row = rows[name, "test_error"]
        kind, protocol = st.CLASSIFIERS.make(name), st.Protocol()
        wanted = st.simulate(task, kind, protocol, 40, 3)
        assert row["simulation"] == pytest.approx(wanted.mean("test_error"), rel=1e-6)
        here = st.predict(task, kind, protocol, dim=40)
        assert row["theory"] == pytest.approx(here.test_error, rel=1e-6)
    here = st.predict(task, st.Attention(), st.Protocol(), dim=40)
    assert rows["attention", "cosine"]["theory"] == pytest.approx(here.cosine)


def test_oracles_with_a_spread_say_what_is_not_known(capsys, file):
    arguments = ["--spectrum", file, "--signal-spread", "2", "--dim", "20", "--json"]
    code, out, err = run(capsys, "oracle", *TASK, *arguments)
    rows = {row["classifier"]: row["error"] for row in json.loads(out)}
    task = st.Task(5, 1, 4.0, noise=SPECTRUM, signal_spread=2.0)
    assert code == 0 and set(rows) == {"pooled", "bayes"}
    assert rows["bayes"] == pytest.approx(st.bayes_error(task, dim=20))
    assert "attention is left out" in err and "known only to lie between" in err


def test_a_power_law(capsys):
    code, out, _ = run(capsys, "oracle", *TASK, "--power-law", "0.5", "--json")
    task = st.Task(5, 1, 4.0, noise=st.Spectrum.power_law(0.5))
    errors = {row["classifier"]: row["error"] for row in json.loads(out)}
    assert code == 0 and errors["pooled"] == pytest.approx(st.oracle_error(task, st.Pooled()))


def test_a_power_law_in_fewer_dimensions_than_it_has_eigenvalues(capsys):
    own = ["--power-law", "0.8", "--json", "--dim", "20"]
    code, out, err = run(capsys, "simulate", *TASK, *own, "--classifiers", "pooled")
    rows = {row["quantity"]: row for row in json.loads(out)}
    task = st.Task(5, 1, 4.0, noise=st.Spectrum.power_law(0.8)).for_dim(20)
    wanted = st.predict(task, st.Pooled(), st.Protocol(), dim=20)
    assert code == 0 and rows["test_error"]["theory"] == pytest.approx(wanted.test_error, rel=1e-6)
    assert err.count("neighbours are averaged") == 1
    code, out, err = run(capsys, "predict", *TASK, *own, "--classifiers", "pooled")
    (row,) = json.loads(out)
    assert code == 0 and row["test_error"] == pytest.approx(wanted.test_error, rel=1e-6)
    assert err.count("neighbours are averaged") == 1
    code, out, _ = run(capsys, "oracle", *TASK, *own, "--signal-spread", "2")
    errors = {row["classifier"]: row["error"] for row in json.loads(out)}
    spread = st.Task(5, 1, 4.0, noise=st.Spectrum.power_law(0.8), signal_spread=2.0).for_dim(20)
    assert code == 0 and errors["bayes"] == pytest.approx(st.bayes_error(spread, dim=20))


@pytest.mark.parametrize("content", [
    "eigenvalue,density\n0.25,0.5\n4\n", "eigenvalue\nloud\n", "", "size\n1.0\n",
])  # fmt: skip
def test_a_table_that_is_none(capsys, tmp_path, content):
    path = tmp_path / "noise.csv"
    path.write_text(content)
    code, _, err = run(capsys, "predict", *TASK, "--spectrum", str(path))
    assert code == 2 and "spectrum: " in err and " must have " in err
    assert len(err.strip().splitlines()) == 1


STUDY = """
classifier = "pooled"

[task]
length = 5
sparsity = 1
strength = 4.0
noise = [{power_law = 0.8, atoms = 10}, {eigenvalues = [0.5, 2.0], density = [0.5, 0.5]}, "white"]
signal_spread = [1.0, 2.0]
"""


def test_study_files_have_spectra_and_spreads(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    cells = load_study(path)
    tasks = {cell.task for cell in cells}
    noises = {st.Spectrum.power_law(0.8, 10), st.Spectrum((0.5, 2.0), (0.5, 0.5)), st.White()}
    assert len(cells) == 6 and {task.noise for task in tasks} == noises
    assert {task.signal_spread for task in tasks} == {None, 2.0}
    table = st.sweep(cells, store=tmp_path / "runs.sqlite")
    assert set(table.status) == {"ok"} and table.test_error.nunique() == 6
    path.write_text(STUDY.replace("[1.0, 2.0]", "[[1.0, 3.0]]").replace(', "white"', ""))
    with pytest.raises(st.InvalidInput, match="signal_spread must be a number or 10 of them"):
        load_study(path)
    path.write_text(STUDY.replace('"white"', '"pink"'))
    with pytest.raises(st.InvalidInput, match="noise must be"):
        load_study(path)
    wide = STUDY.replace("{power_law = 0.8, atoms = 10}, ", "").replace(', "white"', "")
    path.write_text(wide.replace("signal_spread = [1.0, 2.0]", "signal_spread = [[1.0, 3.0]]"))
    assert {cell.task.signal_spread for cell in load_study(path)} == {(1.0, 3.0)}

"""Study files and the commands that use them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.studies.study_file import load_study

EXAMPLE = Path(__file__).parents[2] / "examples" / "study.toml"


def test_the_example_is_every_combination():
    cells = load_study(EXAMPLE)
    assert len(cells) == 2 * 2 * 2 * 2
    assert {cell.kind for cell in cells} == {"theory", "simulation"}
    assert {cell.task.strength for cell in cells} == {4.0, 5.0}
    assert cells[0].protocol.loss == st.Logistic() and cells[0].protocol.ridge == 1e-3


def test_sweep_and_export(tmp_path, capsys):
    store, table = str(tmp_path / "runs.sqlite"), str(tmp_path / "runs.csv")
    for processes in ("2", "1"):  # the second finds everything there
        assert main(["sweep", str(EXAMPLE), "--store", store, "--processes", processes]) == 0
        assert "32 rows" in capsys.readouterr().out  # 8 theory, 8 × 3 simulated
    assert main(["export", store, "--csv", table]) == 0
    frame = pd.read_csv(table)
    assert len(frame) == 32 and set(frame.status) == {"ok"}
    theory = frame[(frame.kind == "theory") & (frame.classifier == "pooled")]
    task = st.Task(10, 1, float(theory.strength.iloc[0]))
    samples = float(theory.readout_samples.iloc[0])
    wanted = st.predict(task, st.Pooled(), st.Protocol(ridge=1e-3, readout_samples=samples))
    assert theory.test_error.iloc[0] == pytest.approx(wanted.test_error, rel=1e-9)


def test_dry_run(tmp_path, capsys):
    store = tmp_path / "runs.sqlite"
    command = ["sweep", str(EXAMPLE), "--store", str(store)]
    assert main([*command, "--dry-run", "--processes", "2"]) == 0
    out = capsys.readouterr().out
    assert "16 cells, 32 rows to compute: about" in out and "with 2 processes" in out
    assert "strength: 4, 5" in out and "classifier: attention, pooled" in out
    assert not store.exists()
    assert main(command) == 0 and main([*command, "--dry-run"]) == 0
    assert "nothing to compute" in capsys.readouterr().out


def test_a_rehearsal_counts_laws_once():
    cells = st.grid(
        length=10, sparsity=1, strength=[4.0, 5.0, 6.0], ridge=1e-3, loss=st.Square(),
        readout_samples=np.geomspace(0.5, 8, 20).tolist(), classifier=st.Attention(0.9, 1.0),
    )  # fmt: skip
    (forecast,) = st.rehearse(cells)
    assert forecast.rows == forecast.missing == forecast.cells == 60
    assert forecast.seconds > 60 * forecast.seconds_per_row  # laws are counted
    table = st.sweep(cells)
    # not a clock: the same work timed twice on a busy machine is within a factor of four
    assert table.seconds.sum() / 4 < forecast.seconds < 4 * table.seconds.sum()


def test_a_rehearsal_without_patience_does_not_guess():
    cells = st.grid(
        length=10, sparsity=1, strength=5.0, classifier=st.Pooled(), kind="simulation", dim=5000
    )
    (forecast,) = st.rehearse(cells, patience=0.0)
    assert forecast.seconds is None and forecast.seconds_per_row is None


def test_parquet(tmp_path):
    store, table = str(tmp_path / "runs.sqlite"), tmp_path / "runs.parquet"
    frame = st.sweep(load_study(EXAMPLE)[:2], store)
    assert main(["export", store, "--parquet", str(table)]) == 0
    read = pd.read_parquet(table)
    assert len(read) == 2 and list(read.columns) == list(frame.columns)
    assert set(read.test_error) == set(frame.test_error)


def test_frozen_queries_and_places(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'classifier = "attention"\ncosine = 0.9\nsharpness = 2.0\n'
        "[task]\nlength = 3\nsparsity = 1\nstrength = 2.0\nplaces = [1, 2, 1]\n"
    )
    (cell,) = load_study(path)
    assert cell.classifier == st.Attention(0.9, 2.0) and cell.task.places == (0.25, 0.5, 0.25)


TASK = "[task]\nlength = 5\nsparsity = 1\nstrength = 2.0\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('classifiers = "pooled"\n' + TASK, "key 'classifiers' must be one of"),
        ('classifier = "pool"\n' + TASK, "classifier must be one of attention, vectorized, pooled"),
        ('classifier = "pooled"\n' + TASK + "strenght = 1\n", "key 'strenght' under [task]"),
        (
            'classifier = "pooled"\n' + TASK + '[protocol]\nloss = "hinge"\n',
            "[protocol]: loss must",
        ),
        ('classifier = "pooled"\n' + TASK.replace("2.0", "-2.0"), "strength must be"),
        ('classifier = "pooled"\n' + TASK.replace("2.0", "[]"), "strength must have at least one"),
        ('classifier = "attention"\ncosine = 0.5\n' + TASK, "must be given together"),
        ("classifier = []\n" + TASK, "classifier must have at least one"),
        (TASK, "classifier must be given"),
        ('classifier = "pooled"\n', "Task needs more: length, sparsity, strength"),
        ('classifier = "pooled"\ndim = [[1]]\n' + TASK, "dim must be"),
        ('classifier = "pooled"\ndim = {a = 1}\n' + TASK, "dim must be"),
        ('classifier = "pooled"\nsampler = [["x"]]\n' + TASK, "sampler must be"),
        ('classifier = "pooled"\ndevice = 2020-01-01\n' + TASK, "device must be"),
        (
            'classifier = "pooled"\nkind = "simulation"\ndim = ' + "9" * 400 + "\n" + TASK,
            "dim must",
        ),
        ("a = " + "[" * 5000 + "]" * 5000, "not a TOML file"),
        ('kind = "simulation"\nclassifier = "pooled"\n' + TASK, "dim must be given"),
        ("task = 3\n", "task must be a table"),
        ('classifier = "pooled"\n' + TASK + "places = 3\n", "places must be"),
        ('classifier = "pooled"\nrepeats = 0\nkind = "simulation"\ndim = 9\n' + TASK, "repeats"),
        ('classifier = "pooled"\nseed = "a"\nkind = "simulation"\ndim = 9\n' + TASK, "seed must"),
        ("classifier = ", "not a TOML file"),
    ],
)
def test_wrong_studies_are_one_line_that_names_the_key(tmp_path, capsys, text, words):
    path = tmp_path / "study.toml"
    path.write_text(text)
    store = tmp_path / "runs.sqlite"
    assert main(["sweep", str(path), "--store", str(store)]) == 2
    error = capsys.readouterr().err
    assert words in error and "study.toml" in error and error.count("\n") == 1
    assert not store.exists()


def test_an_export_does_not_overwrite_its_store(tmp_path, capsys):
    store = str(tmp_path / "runs.sqlite")
    st.sweep(load_study(EXAMPLE)[:1], store)
    for target in (store, str(tmp_path / "." / "runs.sqlite")):
        for kind in ("--csv", "--parquet"):
            assert main(["export", store, kind, target]) == 2
            assert "must not overwrite the store" in capsys.readouterr().err
    with st.Store(store) as opened:
        assert len(list(opened.rows())) == 1
    for target in (tmp_path / "none" / "x.csv", tmp_path, "/dev/null"):
        assert main(["export", store, "--csv", str(target)]) == 2
        assert "must be a file that is new or regular" in capsys.readouterr().err
    assert Path("/dev/null").is_char_device()
    (tmp_path / "empty").touch()
    assert main(["export", str(tmp_path / "empty"), "--csv", str(tmp_path / "x.csv")]) == 2
    assert (tmp_path / "empty").stat().st_size == 0


def test_lists_of_frozen_queries(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('classifier = "attention"\ncosine = [0.5, 0.9]\nsharpness = 2.0\n' + TASK)
    assert [cell.classifier.cosine for cell in load_study(path)] == [0.5, 0.9]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as some editors begin a file
    assert len(load_study(path)) == 2


def test_all_rows_failed_is_an_exit_code(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'classifier = "pooled"\n' + TASK + "[protocol]\nridge = 0.0\nreadout_samples = 0.5"
    )
    assert main(["sweep", str(path), "--store", str(tmp_path / "runs.sqlite")]) == 1


def test_wrong_exports(tmp_path, capsys):
    assert main(["export", str(tmp_path / "none.sqlite"), "--csv", "x.csv"]) == 2
    assert "must be a file that exists" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "none.sqlite")]) == 2
    assert "give one of" in capsys.readouterr().err
    assert main(["sweep", str(tmp_path / "none.toml"), "--store", "x.sqlite"]) == 2
    assert "cannot be read" in capsys.readouterr().err

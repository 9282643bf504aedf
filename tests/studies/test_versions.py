"""Rows know the version of the numerics that computed them."""

from __future__ import annotations

import sqlite3
import warnings

import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.studies import cells as cells_module
from sparsetoken.studies import store as store_module
from sparsetoken.studies.questions import Row, units_of
from sparsetoken.support.numerics import NUMERICS

CELLS = st.grid(length=5, sparsity=1, strength=[2.0, 4.0], classifier=st.Pooled())
STUDY = """
kind = "theory"
classifier = "pooled"
[task]
length = 5
sparsity = 1
strength = [2.0, 4.0]
"""


def older_store(path, count=2, version=1):
    """A store as an older version left it: rows under its keys, no columns of today's."""
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {store_module.APPLICATION}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute(store_module._TABLE)
    for unit in units_of(CELLS)[:count]:
        key = unit.older[-version]
        connection.execute(
            "INSERT INTO results VALUES (?, 0, ?, 'ok', '', ?, 0.1, '0.1.0')",
            (key, '{"length": 5}', '{"test_error": 0.123}'),
        )
    connection.commit()
    connection.close()


def test_keys_carry_the_version(monkeypatch):
    units = units_of(CELLS)
    assert all(len(unit.older) == NUMERICS - 1 and unit.key not in unit.older for unit in units)
    assert len({key for unit in units for key in (unit.key, *unit.older)}) == 2 * NUMERICS


def test_older_rows_are_used_and_counted(tmp_path):
    path = tmp_path / "runs.sqlite"
    older_store(path, count=1)
    with pytest.warns(st.OutdatedRows, match="1 of 2 rows were computed by an older version"):
        table = st.sweep(CELLS, path)
    assert table.test_error[0] == 0.123 and table.numerics.tolist() == [1, NUMERICS]


def test_they_are_renewed_on_request_and_then_there_is_no_warning(tmp_path):
    path = tmp_path / "runs.sqlite"
    older_store(path)
    table = st.sweep(CELLS, path, recompute=True)
    assert (table.test_error > 0.2).all() and (table.numerics == NUMERICS).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = st.sweep(CELLS, path)
    assert again.test_error.tolist() == table.test_error.tolist()
    with st.Store(path) as store:
        assert len(list(store.rows())) == 4  # the old ones are kept


def test_the_command_line_says_how_many(tmp_path, capsys):
    path, study = tmp_path / "runs.sqlite", tmp_path / "study.toml"
    older_store(path)
    study.write_text(STUDY)
    assert main(["sweep", str(study), "--store", str(path)]) == 0
    assert "2 of 2 rows were computed by an older version" in capsys.readouterr().err
    assert main(["sweep", str(study), "--store", str(path), "--recompute"]) == 0
    assert "older version" not in capsys.readouterr().err


def test_reproduce_judges_only_rows_of_its_own_version(tmp_path, monkeypatch):
    """What an older version left in the folder's store is computed again."""
    st.reproduce(["alignment"], out=tmp_path, scale="tiny", progress=False)
    connection = sqlite3.connect(tmp_path / "store.sqlite")
    rows = connection.execute("SELECT COUNT(*) FROM results").fetchone()[0]
    connection.execute("UPDATE results SET key = 'old-' || key, numerics = 1")
    connection.commit()
    connection.close()
    st.reproduce(["alignment"], out=tmp_path, scale="tiny", progress=False)
    with st.Store(tmp_path / "store.sqlite") as store:
        found = [row["numerics"] for row in store.rows()]
    assert rows > 0 and sorted(found) == [1] * rows + [NUMERICS] * rows


def test_a_failure_that_is_our_bug_keeps_its_traceback(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(cells_module, "predict", broken)
    table = st.sweep(CELLS[:1], tmp_path / "runs.sqlite")
    assert table.status[0] == "failed" and "ZeroDivisionError: on purpose" in table.message[0]
    assert "Traceback" in table.traceback[0] and "in broken" in table.traceback[0]
    named = st.grid(
        length=5, sparsity=1, strength=4.0, classifier=st.Pooled(), ridge=0.0, readout_samples=0.5
    )
    monkeypatch.undo()
    assert st.sweep(named).traceback[0] == ""  # an error with a name says all there is


def test_a_row_of_any_version_can_be_read(tmp_path):
    path = tmp_path / "runs.sqlite"
    older_store(path)
    with st.Store(path) as store:
        store.add(Row("k", 0, {}, "ok", "", {}, 0.0), "0.2.0")
        assert sorted(row["numerics"] for row in store.rows()) == [1, 1, NUMERICS]

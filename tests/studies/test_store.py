"""The store: what it keeps, what it refuses, and that a refused file is left as it was."""

from __future__ import annotations

import os
import shutil
import sqlite3

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.studies.questions import Row


def row(key="a", value=0.1, status="ok"):
    return Row(key, 0, {"length": 5, "places": [0.5, 0.5]}, status, "", {"test_error": value}, 0.2)


def test_rows_come_back_to_the_last_bit(tmp_path):
    path = tmp_path / "runs.sqlite"
    values = [*np.random.default_rng(0).standard_normal(50), 5e-324, 1e308]
    with st.Store(path) as store:
        for index, value in enumerate(values):
            store.add(row(str(index), float(value)), "0.1.0")
    with st.Store(path) as store:
        found = list(store.rows([str(index) for index in range(52)]))
    assert [each["test_error"] for each in found] == values
    assert found[0]["length"] == 5 and found[0]["version"] == "0.1.0" and found[0]["key"] == "0"


def test_a_key_is_written_once(tmp_path):
    with st.Store(tmp_path / "runs.sqlite") as store:
        store.add(row(value=0.1), "0.1.0")
        store.add(row(value=0.2), "0.1.0")
        assert [each["test_error"] for each in store.rows()] == [0.1]
        store.add(row(value=0.3), "0.1.0", again=True)
        assert [each["test_error"] for each in store.rows()] == [0.1]


def test_two_writers_at_once(tmp_path):
    path = tmp_path / "runs.sqlite"
    with st.Store(path) as one, st.Store(path) as other:
        for index in range(100):
            (one if index % 2 else other).add(row(str(index)), "0.1.0")
        assert len(list(one.rows())) == len(list(other.rows())) == 100


def foreign(path):
    path.write_text("dear diary")


def another_program(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()


def newer(path):
    with st.Store(path) as store:
        store.add(row(), "9.0")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def damaged(path):
    with st.Store(path) as store:
        for index in range(2000):
            store.add(row(str(index)), "0.1.0")
    content = bytearray(path.read_bytes())
    content[5000:60000] = os.urandom(55000)
    path.write_bytes(bytes(content))


def truncated(path):
    with st.Store(path) as store:
        for index in range(2000):
            store.add(row(str(index)), "0.1.0")
    path.write_bytes(path.read_bytes()[:50_000])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign, "not an SQLite file"),
        (another_program, "another program's"),
        (newer, "schema 99, this version reads up to 2"),
        (damaged, "damaged"),
        (truncated, "damaged"),
    ],
)
def test_files_that_cannot_be_used_are_refused_and_left_as_they_are(tmp_path, make, words):
    path = tmp_path / "runs.sqlite"
    make(path)
    before = path.read_bytes()
    with pytest.raises(st.StoreError, match=words):
        st.sweep(st.grid(length=5, sparsity=1, strength=4.0, classifier=st.Pooled()), store=path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["runs.sqlite"]


def test_folders_and_places_that_do_not_exist(tmp_path):
    with pytest.raises(st.StoreError, match="is a folder"):
        st.Store(tmp_path)
    with pytest.raises(st.StoreError, match="its folder does not exist"):
        st.Store(tmp_path / "nowhere" / "runs.sqlite")


def test_a_read_only_store(tmp_path, monkeypatch):
    path = tmp_path / "runs.sqlite"
    with st.Store(path) as store:
        store.add(row(), "0.1.0")
    before = path.read_bytes()
    # root may write anything, so the answer of the system is put in its mouth
    monkeypatch.setattr(os, "access", lambda name, mode: not mode & os.W_OK)
    with pytest.raises(st.StoreError, match="read-only"):
        st.Store(path)
    assert path.read_bytes() == before


def test_a_result_is_never_replaced_by_a_failure(tmp_path):
    bad = row("k")._replace(status="failed", message="no GPU", results={})
    with st.Store(tmp_path / "runs.sqlite") as store:
        store.add(bad, "1")
        store.add(bad._replace(message="later"), "2")
        assert next(store.rows())["message"] == "no GPU"
        store.add(bad._replace(message="again"), "2", again=True)
        assert next(store.rows())["message"] == "again"
        store.add(row("k"), "3")  # another sweep had more luck
        assert next(store.rows())["status"] == "ok"
        for again in (False, True):
            store.add(bad, "4", again=again)
            assert next(store.rows())["status"] == "ok"


def test_a_store_needs_a_name(tmp_path, monkeypatch):
    with pytest.raises(st.StoreError, match="must be a path or None"):
        st.Store(3)
    monkeypatch.chdir(tmp_path)
    with st.Store(":memory:") as store:  # a name like any other
        store.add(row("a"), "1")
    assert (tmp_path / ":memory:").exists()


def test_a_folder_deleted_under_way_is_rescued_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "folder"
    folder.mkdir()
    with st.Store(folder / "runs.sqlite") as store:
        store.add(row("a"), "1")
        shutil.rmtree(folder)
        with pytest.raises(st.StoreError, match="all its rows are in"):
            store.add(row("b"), "1")
    with st.Store(tmp_path / "runs.sqlite.rescued") as store:
        assert [each["key"] for each in store.rows()] == ["a", "b"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_deleted_or_replaced_under_way_is_rescued(tmp_path, replaced):
    path = tmp_path / "runs.sqlite"
    with st.Store(path) as store:
        store.add(row("a"), "0.1.0")
        path.unlink()
        if replaced:
            path.write_text("mine")
        with pytest.raises(st.StoreError, match="deleted, moved or replaced"):
            store.add(row("b"), "0.1.0")
    with st.Store(tmp_path / "runs.sqlite.rescued") as store:
        assert [each["key"] for each in store.rows()] == ["a", "b"]
    assert path.read_text() == "mine" if replaced else not path.exists()

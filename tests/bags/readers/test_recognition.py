"""Just one layout is recognised in a folder, whatever else lies beside the bags."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput

DATA = Path(__file__).parent / "data"


def slide(path, name="features"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file[name] = np.ones((5, 3))


def tensor(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(DATA / "tensor.pt", path)


def array(path, values=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.ones((5, 3)) if values is None else values)


def index(path):
    np.savez(path, np.ones((5, 2)))


FOLDERS = {
    "clam": lambda folder: slide(folder / "h5_files" / "a.h5"),
    "clam-pt": lambda folder: tensor(folder / "pt_files" / "a.pt"),
    "trident": lambda folder: slide(folder / "20x" / "features_uni" / "a.h5"),
    "stamp": lambda folder: slide(folder / "site" / "a.h5", "feats"),
    "slideflow": lambda folder: [tensor(folder / "a.pt"), index(folder / "a.index.npz")],
    "torchmil": lambda folder: [
        array(folder / "features" / "a.npy"), array(folder / "labels" / "a.npy", np.array(1)),
    ],
    "hdf5": lambda folder: slide(folder / "a.h5"),
    "one-file-a-bag": lambda folder: tensor(folder / "a.pt"),
}  # fmt: skip
BESIDE = {
    "nothing": lambda folder: None,
    "tables": lambda folder: [
        (folder / name).write_text("a,b\n") for name in ("labels.csv", "b.json", "c.xlsx", "d.txt")
    ],
    "what hides": lambda folder: [array(folder / ".a.npy"), slide(folder / "._a.h5")],
}


def known(folder):
    return [name for name in st.READERS if st.READERS.make(name).can_read(folder)]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("layout", FOLDERS)
def test_one_layout(tmp_path, layout, beside):
    FOLDERS[layout](tmp_path)
    BESIDE[beside](tmp_path)
    assert known(tmp_path) == [layout]
    assert [Path(name).name for name in st.open_bags(tmp_path).names] == ["a"]


@pytest.mark.parametrize("layout", ["clam", "clam-pt", "trident", "torchmil"])
def test_folders_with_names_of_their_own_come_first(tmp_path, layout):
    FOLDERS[layout](tmp_path)
    array(tmp_path / "statistics.npy")
    slide(tmp_path / "patches" / "a.h5")
    assert known(tmp_path) == [layout]


def test_tensors_beside_the_hdf5_files_of_clam(tmp_path):
    FOLDERS["clam"](tmp_path)
    FOLDERS["clam-pt"](tmp_path)
    assert known(tmp_path) == ["clam"]


@pytest.mark.parametrize("layout", ["hdf5", "stamp"])
def test_arrays_beside_hdf5_files(tmp_path, layout):
    FOLDERS[layout](tmp_path)
    array(tmp_path / "b.npy")
    assert known(tmp_path) == ["one-file-a-bag"]
    with pytest.raises(InvalidInput, match=r"of one kind, got 1 of .h5, 1 of .npy; layout hdf5"):
        st.open_bags(tmp_path)
    assert len(st.open_bags(tmp_path, layout="hdf5")) == 1


@pytest.mark.parametrize(
    ("name", "header", "layout"),
    [
        ("t.csv", "bag,label,f", "long-table"),
        ("t.tsv", "bag\tlabel\tf", "long-table"),
        ("t.tsv", "repertoire_id\tjunction_aa", "airr"),
        ("folder/t.tsv", "junction_aa\tn", "airr"),
        ("t.h5ad", "", "anndata"),
        ("t.parquet", "", "long-table"),
    ],
)
def test_tables(tmp_path, name, header, layout):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(header + "\n")
    assert known(tmp_path / name.split("/")[0]) == [layout]


def test_a_store_is_one_file(tmp_path):
    """What is inside of a store of zarr is no bag of its own."""
    slide(tmp_path / "a.zarr" / "c" / "a.h5")
    assert known(tmp_path) == ["one-file-a-bag"]


@pytest.mark.parametrize("layout", FOLDERS)
def test_a_layout_that_is_not_there(tmp_path, layout):
    """What is named and not found is a sentence."""
    (tmp_path / "a.txt").write_text("a")
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(InvalidInput, match=rf"{path.name}: (there (is|are) no |1 bag cannot)"):
            st.open_bags(path, layout=layout)

"""AnnData files: cells by donors, from every way to write them; the rest in one sentence."""

from __future__ import annotations

import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import sparsetoken as st
from sparsetoken.bags.readers import anndata_file
from sparsetoken.bags.readers.anndata_file import AnnDataFile
from sparsetoken.support.errors import InvalidInput

h5py = pytest.importorskip("h5py")
DONORS = ["b", "a", "b", "ü", "a", "b"]
DISEASE = ["sick", "well", "sick", "well", "well", "sick"]
X = np.where(np.arange(24).reshape(6, 4) % 3, np.arange(24.0).reshape(6, 4), 0.0)
ROWS = {"b": [0, 2, 5], "a": [1, 4], "ü": [3]}


def kinds(words):
    """Categories, as pandas had them before its own kind of words."""
    known = sorted(set(words) - {None})
    return pd.Categorical(words, categories=pd.Index(known, dtype=object))


def written(path, matrix=X, obs=None, **parts):
    """An h5ad file as anndata writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of anndata about newer libraries
        import anndata

        columns = {"donor_id": kinds(DONORS), "disease": DISEASE} if obs is None else obs
        cells = pd.Index([f"cell {k}" for k in range(len(DONORS))], dtype=object)
        frame = pd.DataFrame(index=cells)
        for name, values in columns.items():
            kind = object if isinstance(values[0], str) and isinstance(values, list) else None
            frame[name] = pd.Series(values, index=cells, dtype=kind)
        frame.columns = frame.columns.astype(object)
        data = anndata.AnnData(matrix, obs=frame, **parts)
        data.var_names = data.var_names.astype(object)
        data.write_h5ad(path, convert_strings_to_categoricals=False)
    return path


def check(path, expected=X, reader=None, tokens=None):
    source, labels = (reader or AnnDataFile()).read(path)
    assert source.names == tuple(ROWS) and source.lengths.tolist() == [3, 2, 1]
    assert labels.tolist() == ["sick", "well", "well"] and source.dim == expected.shape[1]
    for bag, rows in enumerate(ROWS.values()):
        np.testing.assert_array_equal(source.read(bag).tokens, expected[rows])
    return source


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_dense_and_sparse(tmp_path, kind, dtype, monkeypatch):
    path = tmp_path / "cells.h5ad"
    written(path, kind(X.astype(dtype))) if kind is np.asarray else written_sparse(
        path, kind, dtype
    )
    source = check(path)
    check(path, reader=pickle.loads(pickle.dumps(AnnDataFile())))
    assert pickle.loads(pickle.dumps(source)).load().tokens.shape == (6, 4)
    if dtype != np.int32:
        assert source.read(0).tokens.dtype == dtype
    monkeypatch.setattr(anndata_file, "_BLOCK", 8)  # two rows at once
    check(path)
    assert st.load_bags(path).bags.lengths.tolist() == [3, 2, 1]


def written_sparse(path, kind, dtype):
    written(path, np.zeros((6, 4)), layers={"raw": kind(X.astype(dtype))})
    with h5py.File(path, "r+") as file:  # the layer as X
        del file["X"]
        file.move("layers/raw", "X")


def test_every_kind_of_column(tmp_path):
    path = tmp_path / "cells.h5ad"
    check(written(path, obs={"patient": kinds(DONORS), "status": DISEASE}))
    check(written(path, obs={"Sample ID": DONORS, "label": kinds(DISEASE)}))
    written(path, obs={"donor": [2, 1, 2, 3, 1, 2], "label": [1.0, 0, 1, 0, 0, 1]})
    source, labels = AnnDataFile().read(path)
    assert source.names == ("2", "1", "3") and labels.tolist() == [1.0, 0.0, 0.0]
    written(path)  # as anndata 0.7 kept categories
    with h5py.File(path, "r+") as file:
        del file["obs/disease"]
        file["obs/disease"] = np.array([0, 1, 0, 1, 1, 0], np.int8)
        file["obs/__categories/disease"] = ["sick", "well"]
    check(path)


def test_layers_embeddings_and_places(tmp_path):
    where = np.column_stack([np.arange(6.0), -np.arange(6.0)])
    path = written(
        tmp_path / "cells.h5ad",
        layers={"double": 2 * X},
        obsm={"X_pca": X[:, :2] + 1, "spatial": where},
    )
    check(path, 2 * X, AnnDataFile(layer="double"))
    source = check(path, X[:, :2] + 1, AnnDataFile(obsm="X_pca"))
    np.testing.assert_array_equal(source.coordinates(1), where[[1, 4]])
    for options, words in [
        ({"layer": "raw"}, "layer must be one of 'double', got 'raw'"),
        ({"obsm": "X_umap"}, "obsm must be one of 'X_pca', 'spatial', got 'X_umap'"),
        ({"obsm": "../X"}, "obsm must be one of"),
        ({"obsm": "X_pca", "layer": "double"}, "layer or obsm must be None"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            AnnDataFile(**options).read(path)
    assert AnnDataFile().read(written(path))[0].coordinates(0) is None
    assert st.READERS.make("anndata", bag_column="b", label_column="l") == AnnDataFile("b", "l")


@pytest.mark.parametrize(
    ("obs", "options", "words"),
    [
        ({"cluster": DONORS}, {}, "which donor a cell is of: none of .*'cluster'"),
        ({"donor": DONORS, "sample": DONORS}, {}, "bag_column must be given: any of 'donor', 'sam"),
        ({"donor": DONORS, "disease": DISEASE, "y": DISEASE}, {}, "label_column must be given"),
        ({"donor": DONORS}, {"label_column": "sick"}, "label_column must be one of"),
        ({"donor": ["b", "a", "", "a", "b", "b"]}, {}, "row 3 must say which bag it is of"),
        ({"donor": kinds(["b", "a", None, "a", "b", "b"])}, {}, "row 3 must say which"),
        ({"donor": [1.0, 2, 3, np.nan, 5, 6]}, {}, "row 4 must say which bag it is of"),
    ],
)  # fmt: skip
def test_columns_that_do_not_tell(tmp_path, obs, options, words):
    path = written(tmp_path / "cells.h5ad", obs=obs)
    with pytest.raises(InvalidInput, match=words):
        AnnDataFile(**options).read(path)


def test_donors_without_a_label_or_with_two_are_problems(tmp_path):
    path = written(tmp_path / "cells.h5ad", obs={"donor": DONORS, "disease": DISEASE[::-1]})
    source, _ = AnnDataFile().read(path)
    assert {problem.problem for problem in source.problems} == {"doubled"}
    assert "column 'disease' is" in source.problems[0].explanation
    some = np.array(DISEASE, dtype=object)
    some[np.array(DONORS) == "b"] = ""
    path = written(tmp_path / "cells.h5ad", obs={"donor": DONORS, "disease": some.tolist()})
    with pytest.raises(InvalidInput, match=r"1 bag cannot be taken \(1 unlabelled\)"):
        st.open_bags(path)
    collection = st.open_bags(path, leave_out=True)
    assert collection.names == ("a", "ü") and len(collection.labels) == 2
    assert collection.problems.bag.tolist() == ["b"]


def test_samples_are_bags_and_donors_groups(tmp_path):
    owners = ["p" if donor == "b" else "q" for donor in DONORS]
    obs = {"sample_id": DONORS, "disease": DISEASE, "donor_id": owners}
    path = written(tmp_path / "cells.h5ad", obs=obs)
    collection = st.open_bags(path, bag_column="sample_id")
    assert collection.names == ("b", "a", "ü") and collection.groups.tolist() == ["p", "q", "q"]
    assert collection.bags[1:].groups == ("q", "q")
    path = written(path, obs=obs | {"donor_id": list("pqrstu")})
    collection = st.open_bags(path, bag_column="sample_id")
    assert collection.groups is None and "'donor_id' is not taken for groups" in collection.notes[0]
    with pytest.raises(InvalidInput, match="2 bags cannot be taken"):
        st.open_bags(path, bag_column="sample_id", group_column="donor_id")


def test_columns_may_be_named(tmp_path):
    path = written(tmp_path / "cells.h5ad", obs={"who": DONORS, "donor": DISEASE, "what": DISEASE})
    check(path, reader=AnnDataFile(bag_column="who", label_column="what"))
    assert AnnDataFile(bag_column="who").read(path)[1] is None


def changed(path, change):
    written(path)
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def forged(name, **attributes):
    def change(file):
        del file["X"]
        group = file.create_group("X")
        group.attrs["encoding-type"] = name
        group.attrs["shape"] = (6, 4)
        parts = {"data": np.ones(3), "indices": np.array([0, 1, 3]),
                 "indptr": np.array([0, 1, 2, 3, 3, 3, 3])} | attributes  # fmt: skip
        for key, value in parts.items():
            group[key] = value

    return change


def replaced(name, **settings):
    def change(file):
        del file[name]
        file.create_dataset(name, **settings)

    return change


def typed(name):
    def change(file):
        del file[name]
        file[name] = np.dtype("f8")  # a datatype of that name, no data

    return change


def linked(name, soft=False):
    def change(file):
        other = file.filename.replace("cells", "other")
        written(other)
        del file[name]
        file["door" if soft else name] = h5py.ExternalLink(other, "/" if soft else f"/{name}")
        if soft:
            file[name] = h5py.SoftLink(f"/door/{name}")

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (forged("csc_matrix"), "X must be dense or sparse by rows .CSR., got 'csc_matrix'"),
        (forged("other"), "got 'other'"),
        (forged("csr_matrix", indptr=np.array([0, 3])), "claims shape .6, 4., its indptr is of 2"),
        (forged("csr_matrix", indptr=np.array([0, 9, 9, 9, 9, 9, 9])), "indptr must rise within"),
        (forged("csr_matrix", indptr=np.array([0, 2, 1, 3, 3, 3, 3])), "indptr must rise within"),
        (forged("csr_matrix", indptr=np.array([-1, 1, 1, 3, 3, 3, 3])), "indptr must rise within"),
        (forged("csr_matrix", indices=np.array([0, 1, 4])), "indices must be from 0 to 3"),
        (forged("csr_matrix", indices=np.array([0, -1, 3])), "indices must be from 0 to 3"),
        (forged("csr_matrix", indices=np.array([0, 1])), "indices must be from 0 to 3"),
        (forged("csr_matrix", data=np.array([b"a", b"b", b"c"])), "X/data must be numbers"),
        (replaced("X", data=np.ones(6)), "X must be a matrix of numbers, got float64 of shape"),
        (replaced("X", data=np.ones((5, 4))), "a value for each of 5 cells, got 6"),
        (replaced("X", data=np.full((6, 4), b"a")), "X must be a matrix of numbers"),
        (replaced("X", data=np.full((6, 4), np.nan)), "bag b: Input X contains NaN"),
        (replaced("X", shape=(10**12, 10**6), dtype="f8"), "and nothing is stored there"),
        (replaced("X", shape=(6, 4), dtype="f8", external="/etc/passwd"), "kept in another file"),
        (replaced("obs", data=np.ones(6)), "obs must be a group, as anndata 0.7 and later"),
        (replaced("obs/donor_id/codes", data=np.full(6, 9)), "codes of column 'donor_id'"),
        (replaced("obs/donor_id/codes", data=np.zeros(5, int)), "each of 6 cells, got 5"),
        (replaced("obs/donor_id/codes", shape=(10**12,), dtype="i1"), "nothing is stored there"),
        (linked("X"), "X leads to another file"),
        (linked("X", soft=True), "X leads to another file"),
        (linked("obs"), "obs leads to another file"),
        (lambda file: file.pop("X"), "the matrix X is missing; give obsm"),
        (lambda file: file.pop("obs"), "obs is missing"),
        (typed("X"), "X must be an array or a group"),
        (typed("obs/donor_id"), "donor_id must be an array or a group"),
    ],
)  # fmt: skip
def test_hostile_files_are_refused_in_a_sentence(tmp_path, change, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        st.load_bags(changed(tmp_path / "cells.h5ad", change))
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_file(tmp_path):
    path = written(tmp_path / "cells.h5ad")
    whole = path.read_bytes()
    for content in (b"", b"no hdf5", whole[:100], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="not an AnnData file, or it is damaged"):
            st.load_bags(path)


def test_memory_and_missing_libraries(tmp_path, monkeypatch):
    path = written(tmp_path / "cells.h5ad")
    with monkeypatch.context() as small:
        small.setattr(anndata_file, "free_memory", lambda: 6 * 64 + 1)
        AnnDataFile().read(path)[0].read(0)
        small.setattr(anndata_file, "free_memory", lambda: 50)
        with pytest.raises(InvalidInput, match="more than memory has room for"):
            AnnDataFile().read(path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InvalidInput, match=r"need h5py \(pip install 'sparsetoken\[bags\]'\)"):
        AnnDataFile().read(path)

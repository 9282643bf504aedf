"""Folders of torchmil, as its ProcessedMILDataset reads them: a folder for each kind of array."""

from __future__ import annotations

import os
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput

LENGTHS = {"a": 2, "b": 4, "c": 1}


def tokens(name):
    return np.arange(LENGTHS[name] * 3.0).reshape(-1, 3) + ord(name)


def written(folder, features="features"):
    for part in (features, "labels", "coords", "inst_labels"):
        (folder / part).mkdir(parents=True)
    for k, (name, length) in enumerate(LENGTHS.items()):
        np.save(folder / features / f"{name}.npy", tokens(name).astype(np.float32))
        np.save(folder / "labels" / f"{name}.npy", np.array([k % 2]))
        np.save(folder / "coords" / f"{name}.npy", np.arange(2 * length).reshape(-1, 2))
        np.save(folder / "inst_labels" / f"{name}.npy", np.zeros(length))
    return folder


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "data")


def source_of(folder):
    assert st.READERS.make("torchmil").can_read(folder)
    return st.READERS.make("torchmil").read(folder)


@pytest.mark.parametrize("features", ["features", "features/features_resnet50"])
def test_tokens_labels_and_places(tmp_path, features):
    folder = written(tmp_path / "data", features)
    source, labels = source_of(folder)
    source = pickle.loads(pickle.dumps(source))
    assert source.names == ("a", "b", "c") and source.lengths.tolist() == [2, 4, 1]
    assert labels.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(source.coordinates(1), np.arange(8).reshape(4, 2))
    bags, labels = st.load_bags(folder)
    np.testing.assert_array_equal(bags.tokens, np.vstack([tokens(name) for name in "abc"]))
    assert labels.tolist() == [0, 1, 0]


def test_labels_of_other_forms(folder):
    for name, label in zip("abc", (np.array(2), np.array([[1.0]]), np.array([True])), strict=True):
        np.save(folder / "labels" / f"{name}.npy", label)
    assert source_of(folder)[1].tolist() == [2, 1, 1]
    for name in "abc":
        np.save(folder / "labels" / f"{name}.npy", np.array(["tumour"]))
    assert source_of(folder)[1].tolist() == ["tumour"] * 3


def test_without_labels_or_places(folder):
    for part in ("labels", "coords"):
        for path in (folder / part).iterdir():
            path.unlink()
        (folder / part).rmdir()
    source, labels = source_of(folder)
    assert labels is None and source.coordinates(0) is None


def test_places_that_are_not_in_a_plane_are_not_known(folder):
    np.save(folder / "coords" / "a.npy", np.arange(2).reshape(2, 1))
    assert source_of(folder)[0].coordinates(0) is None
    np.save(folder / "coords" / "a.npy", np.zeros((2, 2), complex))
    with pytest.raises(InvalidInput, match="must hold x and y of each token"):
        source_of(folder)[0].coordinates(0)


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_labels_that_are_none(folder, tmp_path):
    path = folder / "labels" / "b.npy"
    for content, words in [
        (np.array([0, 1]), r"one number or word.*shape \(2,\)"),
        (np.array([]), "a label must be one number or word"),
        (np.array([1j]), "a label must be one number or word"),
    ]:
        np.save(path, content)
        unlabelled(folder, b=words)
    np.save(path, np.array([Hostile(tmp_path / "made")], object), allow_pickle=True)
    unlabelled(folder, b="unpickled, which is never done")
    assert not (tmp_path / "made").exists()
    path.write_bytes(b"")
    unlabelled(folder, b="this is not an npy file")
    path.unlink()
    unlabelled(folder, b="it is missing")
    np.save(folder / "features" / "a.npy", np.ones((2, 3, 4)))
    unlabelled(folder, b="it is missing", a="tokens must have shape")
    for name in "ac":
        (folder / "labels" / f"{name}.npy").unlink()
    assert source_of(folder)[1] is None


def test_a_label_without_features_is_a_problem(folder):
    np.save(folder / "labels" / "gone.npy", np.array([1]))
    source, labels = source_of(folder)
    assert source.names == ("a", "b", "c") and labels.tolist() == [0, 1, 0]
    assert source.problems == (("gone", "missing", "labels/gone.npy has no features"),)


def unlabelled(folder, **words):
    """All other bags have their labels, in order; these have problems."""
    source, labels = source_of(folder)
    assert source.names == tuple(name for name in LENGTHS if name not in words)
    assert labels.tolist() == [1 if name == "b" else 0 for name in source.names]
    problems = {problem.bag: problem for problem in source.problems}
    assert set(problems) == set(words)
    for name, part in words.items():
        assert re.search(part, problems[name].explanation)
        kind = "unreadable" if "tokens" in part else "unlabelled"
        assert problems[name].problem == kind
    with pytest.raises(InvalidInput, match=rf"b +unlabelled +labels/b.npy: .*{words['b']}"):
        st.open_bags(folder)
    collection = st.open_bags(folder, leave_out=True)
    assert collection.names == source.names and collection.labels.tolist() == labels.tolist()
    assert len(collection.problems) == len(words)


def test_labels_reach_the_collection_unless_a_table_has_them(folder):
    assert st.open_bags(folder).labels.tolist() == [0, 1, 0]
    table = pd.DataFrame({"bag": ["c.npy", "a", "b"], "label": ["z", "x", "y"]})
    assert st.open_bags(folder, labels=table).labels.tolist() == ["x", "y", "z"]


def test_a_link_has_a_label_and_places_of_its_own(folder):
    os.symlink("a.npy", folder / "features" / "d.npy")
    np.save(folder / "labels" / "d.npy", 7)
    np.save(folder / "coords" / "d.npy", np.full((2, 2), 9))
    source, labels = source_of(folder)
    assert source.names == ("a", "b", "c", "d") and labels.tolist() == [0, 1, 0, 7]
    np.testing.assert_array_equal(source.read(3).tokens, tokens("a"))
    np.testing.assert_array_equal(source.coordinates(3), np.full((2, 2), 9))


def test_features_of_two_kinds(tmp_path):
    folder = written(tmp_path / "data", "features/features_resnet50")
    (folder / "features" / "features_vit").mkdir()
    np.save(folder / "features" / "features_vit" / "a.npy", np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="got features_resnet50, features_vit: leave one"):
        source_of(folder)


def test_features_that_cannot_be_read(folder):
    np.save(folder / "features" / "b.npy", np.ones((2, 3, 4)))
    (folder / "features" / "c.npy").write_bytes(b"hello")
    source, labels = source_of(folder)
    assert source.names == ("a",) and labels.tolist() == [0]
    assert [problem[:2] for problem in source.problems] == [
        ("b", "unreadable"),
        ("c", "unreadable"),
    ]
    assert "tokens must have shape" in source.problems[0].explanation
    assert "not an npy file" in source.problems[1].explanation


def test_links_out_of_the_folder(folder, tmp_path):
    np.save(tmp_path / "secret.npy", np.ones(1))
    (folder / "labels" / "a.npy").unlink()
    os.symlink(tmp_path / "secret.npy", folder / "labels" / "a.npy")
    assert "labels/a.npy: the file is a link that leads out" in str(source_of(folder)[0].problems)


def test_other_folders_are_not_of_torchmil(tmp_path):
    (tmp_path / "features").mkdir()
    np.save(tmp_path / "features" / "a.npy", np.ones((2, 2)))
    reader = st.READERS.make("torchmil")
    assert not reader.can_read(tmp_path) and not reader.can_read(tmp_path / "features")
    (tmp_path / "labels").mkdir()
    assert reader.can_read(tmp_path)
    (tmp_path / "features" / "a.npy").rename(tmp_path / "features" / "a.h5")
    assert not reader.can_read(tmp_path)


@pytest.mark.parametrize("nothing", [np.nan, ""])
def test_a_label_that_is_none_is_a_problem(folder, nothing):
    np.save(folder / "labels" / "b.npy", np.array([nothing]))
    source, labels = source_of(folder)
    assert source.names == ("a", "c") and labels.tolist() == [0, 0]
    assert [(p.bag, p.problem) for p in source.problems] == [("b", "unlabelled")]
    assert "a label must be one number or word, got" in source.problems[0].explanation

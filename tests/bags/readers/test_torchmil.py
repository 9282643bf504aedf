"""Folders of torchmil, as its ProcessedMILDataset reads them: a folder for each kind of array."""

from __future__ import annotations

import os
import pickle

import numpy as np
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
        (np.array([0, 1]), r"labels/b.npy: a label must be one number or word.*shape \(2,\)"),
        (np.array([]), "a label must be one number or word"),
        (np.array([1j]), "a label must be one number or word"),
    ]:
        np.save(path, content)
        with pytest.raises(InvalidInput, match=words):
            source_of(folder)
    np.save(path, np.array([Hostile(tmp_path / "made")], object), allow_pickle=True)
    with pytest.raises(InvalidInput, match=r"labels/b.npy: .* unpickled, which is never done"):
        source_of(folder)
    assert not (tmp_path / "made").exists()
    path.write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"labels/b.npy: this is not an npy file"):
        source_of(folder)
    path.unlink()
    (folder / "labels" / "c.npy").unlink()
    with pytest.raises(InvalidInput, match=r"labels/b.npy is missing .and 1 more"):
        source_of(folder)


def test_features_of_two_kinds(tmp_path):
    folder = written(tmp_path / "data", "features/features_resnet50")
    (folder / "features" / "features_vit").mkdir()
    np.save(folder / "features" / "features_vit" / "a.npy", np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="got features_resnet50, features_vit: leave one"):
        source_of(folder)


def test_features_that_cannot_be_read(folder):
    np.save(folder / "features" / "b.npy", np.ones((2, 3, 4)))
    with pytest.raises(InvalidInput, match=r"b.npy: tokens must have shape .* got \(2, 3, 4\)"):
        source_of(folder)
    (folder / "features" / "c.npy").write_bytes(b"hello")
    with pytest.raises(InvalidInput, match=r"b.npy.*and 1 more that cannot be read"):
        source_of(folder)


def test_links_out_of_the_folder(folder, tmp_path):
    np.save(tmp_path / "secret.npy", np.ones(1))
    (folder / "labels" / "a.npy").unlink()
    os.symlink(tmp_path / "secret.npy", folder / "labels" / "a.npy")
    with pytest.raises(InvalidInput, match=r"labels/a.npy: the file is a link that leads out"):
        source_of(folder)


def test_other_folders_are_not_of_torchmil(tmp_path):
    (tmp_path / "features").mkdir()
    np.save(tmp_path / "features" / "a.npy", np.ones((2, 2)))
    reader = st.READERS.make("torchmil")
    assert not reader.can_read(tmp_path) and not reader.can_read(tmp_path / "features")
    (tmp_path / "labels").mkdir()
    assert reader.can_read(tmp_path)
    (tmp_path / "features" / "a.npy").rename(tmp_path / "features" / "a.h5")
    assert not reader.can_read(tmp_path)

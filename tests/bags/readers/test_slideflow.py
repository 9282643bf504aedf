"""Folders of Slideflow: <slide>.pt, <slide>.index.npz (array arr_0 of x and y), settings.json."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput

DATA = Path(__file__).parent / "data"
TOKENS, PLACES = np.arange(15.0).reshape(5, 3), np.arange(10).reshape(5, 2) * 256


@pytest.fixture
def folder(tmp_path):
    bags = tmp_path / "bags"
    bags.mkdir()
    for name in ("a", "b.c", "d"):
        shutil.copy(DATA / "tensor.pt", bags / f"{name}.pt")
    np.savez(bags / "a.index.npz", PLACES)
    np.save(bags / "b.c.index.npy", PLACES)
    (bags / "settings.json").write_text("{}")
    return bags


def test_tokens_and_places(folder):
    known = [name for name in st.READERS if st.READERS.make(name).can_read(folder)]
    assert known == ["slideflow"]
    source, labels = st.READERS.make("slideflow").read(folder)
    assert source.names == ("a", "b.c", "d") and source.dim == 3 and labels is None
    for bag in (0, 1):
        np.testing.assert_array_equal(source.coordinates(bag), PLACES)
    assert source.coordinates(2) is None
    np.testing.assert_array_equal(st.load_bags(folder).bags.tokens, np.vstack([TOKENS] * 3))


def test_without_an_index_it_is_a_plain_folder(folder):
    for name in ("a.index.npz", "b.c.index.npy"):
        (folder / name).unlink()
    assert not st.READERS.make("slideflow").can_read(folder)
    assert st.load_bags(folder).bags.lengths.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"arr_0": PLACES[:4]}, r"bag a: coordinates have shape \(4, 2\), not \(5, 2\)"),
        ({"arr_0": PLACES[:, :1]}, r"must hold x and y .* got int64 of shape \(5, 1\)"),
        ({"arr_0": PLACES.astype(str)}, "must hold x and y"),
        ({"arr_0": PLACES.astype(object)}, "unpickled, which is never done"),
        ({"places": PLACES}, r"a.index.npz must have the array arr_0"),
    ],
)
def test_an_index_that_is_none(folder, arrays, words):
    np.savez(folder / "a.index.npz", **arrays)
    source, _ = st.READERS.make("slideflow").read(folder)
    with pytest.raises(InvalidInput, match=words):
        source.coordinates(0)
    np.testing.assert_array_equal(source.read(0).tokens, TOKENS)


def test_a_damaged_index(folder):
    index = folder / "a.index.npz"
    index.write_bytes(index.read_bytes()[:100])
    source, _ = st.READERS.make("slideflow").read(folder)
    with pytest.raises(InvalidInput, match="bag a: this is not an npz file"):
        source.coordinates(0)


def test_damaged_tensors_are_named(folder):
    (folder / "d.pt").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"d +unreadable +this is not a file of torch.save"):
        st.load_bags(folder)


def test_a_link_has_an_index_of_its_own(folder):
    os.symlink("a.pt", folder / "same.pt")
    np.savez(folder / "same.index.npz", PLACES + 1)
    source, _ = st.READERS.make("slideflow").read(folder)
    assert source.names == ("a", "b.c", "d", "same")
    np.testing.assert_array_equal(source.read(3).tokens, TOKENS)
    np.testing.assert_array_equal(source.coordinates(3), PLACES + 1)


def test_beside_other_kinds_of_bags_nobody_knows(folder):
    (folder / "x.h5").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"1 of .h5, 3 of .pt, 1 of .npy, 1 of .npz"):
        st.load_bags(folder)


def test_an_index_that_is_a_link_out_of_the_folder(folder):
    np.savez(folder.parent / "places.npz", PLACES)
    (folder / "a.index.npz").unlink()
    os.symlink(folder.parent / "places.npz", folder / "a.index.npz")
    source, _ = st.READERS.make("slideflow").read(folder)
    with pytest.raises(InvalidInput, match="leads out of the folder"):
        source.coordinates(0)


def test_maps_draw_tiles_around_their_centres(folder):
    """Slideflow keeps centres; others, corners."""

    class Chances:
        positive_ = "sick"

        def posterior(self, bag):
            return [np.full(len(bag.tokens), 0.5)]

    source, _ = st.READERS.make("slideflow").read(folder)
    for bags in (source, st.subsampled(source, 50)):
        first = next(st.map_tokens(bags, Chances()))
        np.testing.assert_array_equal(first.coordinates, PLACES)
        side = first.patch
        corner = first.geojson()["features"][1]["geometry"]["coordinates"][0]
        assert side > 0 and list(corner[0]) == (PLACES[1] - side / 2).tolist()
        assert list(corner[2]) == (PLACES[1] + side / 2).tolist()
    plain = next(st.map_tokens(replace(source, format=Corners()), Chances()))
    corner = plain.geojson()["features"][1]["geometry"]["coordinates"][0]
    assert list(corner[0]) == PLACES[1].tolist()


class Corners:
    def tokens(self, key):
        return TOKENS

    def coordinates(self, key):
        return PLACES.astype(float)

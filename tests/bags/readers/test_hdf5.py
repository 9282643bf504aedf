"""Slides of CLAM, TRIDENT and STAMP, as these write them; and files that mean harm."""

from __future__ import annotations

import os
import pickle
import zlib

import h5py
import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags.readers import folders, hdf5
from sparsetoken.bags.readers.hdf5 import Hdf5File
from sparsetoken.bags.readers.loading import reader_of
from sparsetoken.support.errors import InvalidInput

RNG = np.random.default_rng(0)
TOKENS = RNG.standard_normal((7, 4)).astype(np.float32)
PLACES = RNG.integers(0, 10_000, (7, 2))


def appended(path, **arrays):
    """As CLAM and TRIDENT write: a row a chunk, more rows with each batch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            shape = values.shape[1:]
            dataset = file.create_dataset(
                name, (3, *shape), values.dtype, chunks=(1, *shape), maxshape=(None, *shape)
            )
            dataset[:] = values[:3]
            dataset.resize(len(values), axis=0)
            dataset[3:] = values[3:]
        if "coords" in file:
            file["coords"].attrs["patch_size_level0"] = 256
    return path


def written(path, **arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def shape_of(path):
    return Hdf5File().shape(path)


def refused(path, words, read=shape_of):
    with pytest.raises(InvalidInput, match=words) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_clam(tmp_path):
    appended(tmp_path / "h5_files" / "TCGA-1.a.h5", features=TOKENS, coords=PLACES.astype("i4"))
    written(tmp_path / "h5_files" / "two.h5", features=TOKENS[None, :5], coords=PLACES[None, :5])
    (tmp_path / "pt_files").mkdir()
    (tmp_path / "pt_files" / "two.pt").write_bytes(b"never opened")
    collection = st.open_bags(tmp_path)
    assert collection.names == ("TCGA-1.a", "two") and collection.labels is None
    source = collection.bags
    assert source.lengths.tolist() == [7, 5] and source.dim == 4
    np.testing.assert_array_equal(source.read(0).tokens, TOKENS)
    np.testing.assert_array_equal(source.read(1).tokens, TOKENS[:5])
    np.testing.assert_array_equal(source.coordinates(0), PLACES)
    np.testing.assert_array_equal(source.coordinates(1), PLACES[:5])
    assert pickle.loads(pickle.dumps(source)).read(1).tokens.shape == (5, 4)
    bags, labels = st.load_bags(tmp_path)
    assert len(bags) == 2 and labels is None


def test_trident(tmp_path):
    job = tmp_path / "20x_256px_0px_overlap"
    appended(job / "features_uni_v1" / "s1.h5", features=TOKENS, coords=PLACES)
    (job / "features_uni_v1" / "s1.h5.lock").write_text("{}")
    appended(job / "patches" / "s1_patches.h5", coords=PLACES)
    written(job / "slide_features_titan" / "s1.h5", features=np.ones(768, "f4"))
    for folder in (tmp_path, job, job / "features_uni_v1"):
        collection = st.open_bags(folder)
        assert collection.names == ("s1",) and collection.bags.dim == 4
    appended(job / "features_conch_v1" / "s1.h5", features=TOKENS, coords=PLACES)
    with pytest.raises(InvalidInput, match=r"overlap/features_conch_v1, 20x.*/features_uni_v1"):
        st.open_bags(tmp_path)
    assert len(st.open_bags(job / "features_conch_v1")) == 1


def test_trident_without_tissue(tmp_path):
    written(tmp_path / "features_x" / "a.h5", features=TOKENS, coords=PLACES)
    written(tmp_path / "features_x" / "b.h5", features=TOKENS[:0], coords=PLACES[:0])
    with pytest.raises(InvalidInput, match=r"b +unreadable +there are no tokens: .*\(0, 4\)"):
        st.open_bags(tmp_path)
    assert st.open_bags(tmp_path, leave_out=True).names == ("a",)


def test_stamp(tmp_path):
    half, places = TOKENS.astype(np.float16), PLACES.astype("f4")
    written(tmp_path / "site" / "s1.h5", feats=half, coords=places)
    written(tmp_path / "s2.h5", feats=half[:2], coords=places[:2])
    (tmp_path / "s2.jpg").write_bytes(b"thumbnail")
    collection = st.open_bags(tmp_path)
    assert collection.names == ("s2", "site/s1")
    assert collection.bags.format.tokens(collection.bags.keys[1]).dtype == np.float16
    np.testing.assert_array_equal(collection.bags.read(1).tokens, half)
    assert type(reader_of(tmp_path)) is st.READERS["stamp"]


@pytest.mark.parametrize(
    ("unit", "micrometres"),
    [("um", True), ("px", False), (None, False), (3, False), (["um"] * 1000, False)],
)
def test_files_of_stamp_say_that_places_are_in_micrometres(tmp_path, unit, micrometres):
    written(tmp_path / "a.h5", feats=TOKENS, coords=PLACES.astype("f4"))
    written(tmp_path / "b.h5", feats=TOKENS)
    if unit is not None:
        with h5py.File(tmp_path / "a.h5", "r+") as file:
            file.attrs["unit"] = unit
    source = st.open_bags(tmp_path).bags
    for bags in (source, st.subsampled(source, 5)):
        assert bags.in_micrometres(0) is micrometres and not bags.in_micrometres(1)
    (tmp_path / "a.h5").write_bytes(b"")
    with pytest.raises(InvalidInput, match="bag a: this is not an HDF5 file"):
        source.in_micrometres(0)


def test_plain_folders_and_files(tmp_path):
    written(tmp_path / "a.h5", features=TOKENS.astype(int))
    written(tmp_path / "b.HDF5", feats=TOKENS.astype(">f8"))
    collection = st.open_bags(tmp_path)
    assert collection.names == ("a", "b") and collection.bags.coordinates(0) is None
    np.testing.assert_array_equal(collection.bags.read(0).tokens, TOKENS.astype(int))
    np.testing.assert_array_equal(collection.bags.read(1).tokens, TOKENS)
    one = st.open_bags(tmp_path / "b.HDF5")
    assert one.names == ("b",) and one.bags.lengths.tolist() == [7]
    with pytest.raises(InvalidInput, match="layout that is known"):
        st.open_bags(written(tmp_path / "else.h5", other=TOKENS))


def test_compressed_slides(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("features", data=TOKENS, compression="gzip", shuffle=True)
        file.create_dataset("coords", data=PLACES, compression="lzf", fletcher32=True)
    source = st.open_bags(tmp_path).bags
    np.testing.assert_array_equal(source.read(0).tokens, TOKENS)
    np.testing.assert_array_equal(source.coordinates(0), PLACES)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (TOKENS[0], r"features must have shape \(tokens, dim\) .* got \(4,\)"),
        (TOKENS[None, None], r"got \(1, 1, 7, 4\)"),
        (np.stack([TOKENS, TOKENS]), r"got \(2, 7, 4\)"),
        (np.float32(1), r"got \(\)"),
        (h5py.Empty("f4"), r"got \(\)"),
        (TOKENS * 1j, "real numbers, got dtype complex64"),
        (np.zeros((2, 2), [("a", "f4")]), "real numbers, got dtype"),
        ([["a", "b"]], "real numbers, got dtype object"),
        (np.ones((2, 2), bool), "real numbers, got dtype bool"),
    ],
)
def test_wrong_datasets(tmp_path, values, words):
    refused(written(tmp_path / "a.h5", features=values), words)


def test_wrong_contents(tmp_path):
    refused(written(tmp_path / "a.h5", x=TOKENS), "no dataset features or feats; there is x")
    refused(written(tmp_path / "b.h5"), "there is nothing")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_group("features")
    refused(tmp_path / "c.h5", "features must be a dataset, got a group")
    whole = written(tmp_path / "whole.h5", features=np.ones((100, 40))).read_bytes()
    for name, content in {"empty": b"", "text": b"slide_id,label\n", "cut": whole[:-999]}.items():
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "not an HDF5 file, or it is damaged")
    wrong = written(tmp_path / "d.h5", features=TOKENS, coords=PLACES[:3])
    source = st.open_bags(wrong).bags
    with pytest.raises(InvalidInput, match=r"bag d: coordinates have shape \(3, 2\), not \(7, 2\)"):
        source.coordinates(0)
    nan = written(tmp_path / "e.h5", features=TOKENS * np.nan)
    with pytest.raises(InvalidInput, match="bag e: Input X contains NaN"):
        st.open_bags(nan).bags.read(0)


def test_damage_anywhere_is_a_sentence(tmp_path):
    """Bytes of the file changed one after another: it is read, or refused."""
    content = bytearray(written(tmp_path / "a.h5", features=TOKENS, coords=PLACES).read_bytes())
    refusals = 0
    for place in range(0, len(content), 41):
        damaged = tmp_path / "damaged.h5"
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            assert Hdf5File().tokens(damaged).ndim == 2
            Hdf5File().coordinates(damaged)
        except InvalidInput as error:
            refusals += 1
            assert "\n" not in str(error)
    assert refusals > 5


def test_other_files_are_never_read(tmp_path):
    secret = written(tmp_path / "out" / "secret.h5", features=TOKENS)
    folder = tmp_path / "in"
    folder.mkdir()
    with h5py.File(folder / "external_link.h5", "w") as file:
        file["features"] = h5py.ExternalLink(str(secret), "features")
    with h5py.File(folder / "soft_link.h5", "w") as file:
        file["other"] = h5py.ExternalLink(str(secret), "/")
        file["features"] = h5py.SoftLink("/other/features")
    with h5py.File(folder / "external_data.h5", "w") as file:
        file.create_dataset("features", (2, 4), "f4", external=[(str(secret), 0, 32)])
    with h5py.File(folder / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((7, 4), "f4")
        layout[:] = h5py.VirtualSource(str(secret), "features", (7, 4))
        file.create_virtual_dataset("features", layout)
    for name in ("external_link", "soft_link"):
        refused(folder / f"{name}.h5", "features is a link, which is never followed")
    for name in ("external_data", "virtual"):
        refused(folder / f"{name}.h5", "kept in other files, which are never read")
    with h5py.File(folder / "places.h5", "w") as file:
        file["features"] = TOKENS
        file["coords"] = h5py.ExternalLink(str(secret), "features")
    refused(folder / "places.h5", "coords is a link", Hdf5File().coordinates)


def test_links_out_of_the_folder(tmp_path):
    outside = written(tmp_path / "out" / "slide.h5", features=TOKENS)
    folder = tmp_path / "in"
    written(folder / "a.h5", features=TOKENS)
    (folder / "alias.h5").symlink_to("a.h5")
    (folder / "b.h5").symlink_to(outside)
    (folder / "gone.h5").symlink_to("nothing.h5")
    (folder / "sub").symlink_to(tmp_path / "out")
    (folder / "folder.h5").mkdir()
    os.mkfifo(folder / "pipe.h5")
    collection = st.open_bags(folder, leave_out=True)
    assert collection.names == ("a", "alias")
    told = dict(zip(collection.problems.bag, collection.problems.explanation, strict=True))
    assert set(told) == {"b", "gone", "folder", "pipe"}
    assert "leads out of the folder" in told["b"]
    assert all("not a regular file" in told[name] for name in ("gone", "folder", "pipe"))
    (tmp_path / "clam").mkdir()
    (tmp_path / "clam" / "h5_files").symlink_to(folder)
    with pytest.raises(InvalidInput, match="leads out of the folder"):
        st.open_bags(tmp_path / "clam")


def test_sizes_are_not_believed(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "chunked.h5", "w") as file:
        file.create_dataset("features", (1 << 40, 1024), "f4", chunks=(1, 1024))
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file.create_dataset("features", (1 << 40, 1024), "f4", chunks=(1, 1024), compression="gzip")
    with h5py.File(tmp_path / "late.h5", "w") as file:
        file.create_dataset("features", (1 << 40, 1024), "f4")
    for name in ("chunked", "packed", "late"):
        refused(tmp_path / f"{name}.h5", "bytes, but 0 are there: the file is damaged or forged")
    with h5py.File(tmp_path / "zeros.h5", "w") as file:
        file.create_dataset("features", (1 << 16, 16), "f4", chunks=(1 << 16, 16), compression=9)
    monkeypatch.setattr(folders, "machine_memory", lambda: 2.0**20)
    large = written(tmp_path / "large" / "a.h5", features=np.ones((1 << 14, 4), "f2"))
    with pytest.raises(InvalidInput, match=r"16384 tokens in 4 .* take 0.000488 GiB.*a quarter"):
        st.open_bags(large)
    refused(tmp_path / "zeros.h5", r"in pieces of shape \(65536, 16\), too large for memory")


def bomb(path, chunk, unpacked):
    """A piece that unpacks to more than its chunk."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("features", chunk, "f4", chunks=chunk, compression="gzip")
        dataset.id.write_direct_chunk((0, 0), zlib.compress(bytes(unpacked), 9))
    return path


def test_what_unpacks_to_more_than_it_may(tmp_path, monkeypatch):
    small = bomb(tmp_path / "small.h5", (4, 8), 1 << 22)
    refused(small, "holds more than its 128 bytes: the file is forged", Hdf5File().tokens)
    large = bomb(tmp_path / "large.h5", (512, 64), 1 << 24)
    monkeypatch.setattr(hdf5, "bag_room", lambda: 2.0**22)
    refused(large, "holds more than its 131072 bytes", Hdf5File().tokens)
    honest = bomb(tmp_path / "honest.h5", (512, 64), 512 * 64 * 4)
    monkeypatch.setattr(hdf5, "bag_room", lambda: 512 * 64 * 4.0)
    assert not Hdf5File().tokens(honest).any()


def test_filters_that_are_not_known(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("features", data=TOKENS.astype(int), scaleoffset=0)
    refused(tmp_path / "a.h5", "packed by the filter .*, known are gzip, shuffle")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((7, 4))
        creation.set_deflate(9)
        creation.set_deflate(9)
        space = h5py.h5s.create_simple((7, 4))
        h5py.h5d.create(file.id, b"features", h5py.h5t.IEEE_F32LE, space, creation)
    refused(tmp_path / "b.h5", "packed more than once")


def test_h5py_is_asked_for_by_name(tmp_path, monkeypatch):
    written(tmp_path / "a.h5", features=TOKENS)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(InvalidInput, match=r"need h5py \(pip install 'sparsetoken\[bags\]'\)"):
        st.open_bags(tmp_path)

"""Plain folders with a file for each bag, written by the libraries of their formats."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from safetensors.numpy import save_file

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput


def slide(path):
    with h5py.File(path, "w") as file:
        file["features"] = np.ones((2, 4))


DATA = Path(__file__).parent / "data"
rng = np.random.default_rng(0)
BAGS = {name: rng.normal(size=(length, 4)) for name, length in [("a", 3), ("b", 1), ("c.d", 7)]}
PLACES = {name: np.arange(2 * len(bag)).reshape(-1, 2) for name, bag in BAGS.items()}


def npy(path, tokens, places):
    np.save(path.with_name(path.name + ".npy"), tokens)


def fortran(path, tokens, places):
    np.save(path.with_name(path.name + ".npy"), np.asfortranarray(tokens.astype(">f8")))


def npz(path, tokens, places):
    np.savez_compressed(path.with_name(path.name + ".npz"), features=tokens, coords=places)


def tensors(path, tokens, places):
    save_file({"feats": tokens, "coords": places}, path.with_name(path.name + ".safetensors"))


def parquet(path, tokens, places):
    frame = pd.DataFrame(tokens, columns=list("pqrs")).assign(tile=[f"t{k}" for k in places[:, 0]])
    frame[["Coord_X", "coord_y"]] = places
    frame.set_index(np.arange(len(frame)) + 5).to_parquet(path.with_name(path.name + ".parquet"))


def zarr_of(version, archive=False, group=False):
    def write(path, tokens, places):
        name = path.with_name(path.name + (".zarr.zip" if archive else ".zarr"))
        store = zarr.storage.ZipStore(name, mode="w") if archive else zarr.storage.LocalStore(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of entries that zarr writes twice
            if group:
                root = zarr.create_group(store, zarr_format=version)
                root.create_array("features", data=tokens, chunks=(2, 4))
                root.create_array("coords", data=places)
            else:
                zarr.create_array(store, data=tokens, chunks=(2, 3), zarr_format=version)
        store.close()

    return write


WRITERS = {
    "npy": (npy, False),
    "fortran": (fortran, False),
    "npz": (npz, True),
    "safetensors": (tensors, True),
    "parquet": (parquet, True),
    "zarr2": (zarr_of(2), False),
    "zarr3": (zarr_of(3), False),
    "zarr2 zip": (zarr_of(2, archive=True), False),
    "zarr3 zip": (zarr_of(3, archive=True), False),
    "zarr2 group": (zarr_of(2, group=True), True),
    "zarr3 group": (zarr_of(3, group=True), True),
}


def written(folder, write):
    folder.mkdir(exist_ok=True)
    for name, tokens in BAGS.items():
        write(folder / name, tokens, PLACES[name])
    return folder


def read(folder):
    assert st.READERS.make("one-file-a-bag").can_read(folder)
    source, labels = st.READERS.make("one-file-a-bag").read(folder)
    assert labels is None
    return source


def refused(folder, words):
    """By the reader itself or when the bag is read."""
    with pytest.raises(InvalidInput, match=words):
        st.load_bags(folder)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format(tmp_path, kind):
    write, has_places = WRITERS[kind]
    folder = written(tmp_path / "bags", write)
    (folder / ".DS_Store").write_bytes(b"what macOS leaves")
    (folder / "._a.npy").write_bytes(b"what macOS leaves")
    (folder / "labels.csv").write_text("name,label\n")
    source = pickle.loads(pickle.dumps(read(folder)))
    assert source.names == tuple(BAGS) and source.dim == 4
    assert source.lengths.tolist() == [3, 1, 7]
    for k, name in enumerate(BAGS):
        np.testing.assert_array_equal(source.read(k).tokens, BAGS[name])
        if has_places:
            np.testing.assert_array_equal(source.coordinates(k), PLACES[name])
        else:
            assert source.coordinates(k) is None
    bags, labels = st.load_bags(folder)
    np.testing.assert_array_equal(bags.tokens, np.vstack(list(BAGS.values())))
    assert labels is None


@pytest.mark.parametrize("kind", WRITERS)
def test_truncated_files(tmp_path, kind):
    """Every half, and the file without its last byte."""
    folder = written(tmp_path / "bags", WRITERS[kind][0])
    path = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)[-1]
    content = path.read_bytes()
    for part in (content[: len(content) // 2], content[:-1], b""):
        path.write_bytes(part)
        refused(folder, "damaged|not a|no numbers|metadata|has 0 bytes")


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "parquet", "zarr3"])
def test_random_bytes(tmp_path, kind):
    folder = written(tmp_path / "bags", WRITERS[kind][0])
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(rng.bytes(300))
    refused(folder, "this is not")


def test_a_folder_of_tensors_of_torch(tmp_path):
    for name in ("tensor", "dict"):
        shutil.copy(DATA / f"{name}.pt", tmp_path)
    source = read(tmp_path)
    assert source.names == ("dict", "tensor") and source.lengths.tolist() == [5, 5]
    assert source.coordinates(0).shape == (5, 2) and source.coordinates(1) is None


def test_folders_of_several_kinds_are_refused(tmp_path):
    folder = written(written(tmp_path / "bags", npy), npz)
    refused(folder, r"must be of one kind, got 3 of .npy, 3 of .npz$")
    (folder / "site").mkdir()
    slide(folder / "site" / "x.h5")
    refused(folder, r"must be of one kind, got 1 of .h5, 3 of .npy, 3 of .npz; layout hdf5 takes")
    assert st.open_bags(folder, layout="hdf5").names == ("site/x",)


def test_bags_of_other_dimension_or_the_same_name(tmp_path):
    folder = written(tmp_path / "bags", npy)
    np.save(folder / "z.npy", np.ones((2, 5)))
    refused(folder, r"z +unreadable +tokens have 5 dimensions, those of 3 other bags have 4")
    assert st.open_bags(folder, leave_out=True).names == ("a", "b", "c.d")
    np.save(folder / "z.npy", np.ones((2, 4)))
    (folder / "z.NPY").write_bytes((folder / "z.npy").read_bytes())
    refused(folder, r"z +doubled +several files have this name: z.NPY, z.npy")


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled(tmp_path):
    folder = written(tmp_path / "bags", npy)
    objects = np.empty((2, 4), object)
    objects[:] = Hostile(tmp_path / "made")
    np.save(folder / "a.npy", objects, allow_pickle=True)
    refused(folder, "a +unreadable .*unpickled, which is never done")
    shutil.rmtree(folder)
    written(folder, npz)
    np.savez(folder / "a.npz", features=objects)
    refused(folder, "a +unreadable .*unpickled, which is never done")
    assert not (tmp_path / "made").exists()


def test_links(tmp_path):
    folder = written(tmp_path / "bags", npy)
    os.symlink("a.npy", folder / "same.npy")
    source = read(folder)
    assert source.names == ("a", "b", "c.d", "same")
    np.testing.assert_array_equal(source.read(3).tokens, BAGS["a"])
    np.save(tmp_path / "secret.npy", np.ones((2, 4)))
    os.symlink(tmp_path / "secret.npy", folder / "z.npy")
    refused(folder, r"z +unreadable +the file is a link that leads out of the folder")
    (folder / "z.npy").unlink()
    os.symlink("nowhere.npy", folder / "z.npy")
    refused(folder, r"z +unreadable +this is not a regular file")
    (folder / "z.npy").unlink()
    os.mkfifo(folder / "z.npy")  # opening it would wait for ever
    refused(folder, r"z +unreadable +this is not a regular file")
    (folder / "z.npy").unlink()
    (folder / "z.npy").mkdir()
    refused(folder, r"z +unreadable +this is not a regular file")


def test_a_bag_that_changes_after_it_was_listed(tmp_path):
    folder = written(tmp_path / "bags", npy)
    source = read(folder)
    np.save(folder / "a.npy", np.ones((2, 4)))
    with pytest.raises(InvalidInput, match=r"bag a: tokens have shape \(2, 4\), not \(3, 4\)"):
        source.read(0)
    (folder / "a.npy").unlink()
    with pytest.raises(InvalidInput, match="bag a: this is not an npy file"):
        source.read(0)


@pytest.mark.parametrize("kind", ["npz", "safetensors", "parquet", "zarr3", "zarr3 zip"])
def test_a_bag_that_is_gone_after_it_was_listed(tmp_path, kind):
    folder = written(tmp_path / "bags", WRITERS[kind][0])
    source = read(folder)
    shutil.rmtree(folder)
    with pytest.raises(InvalidInput, match="bag a: "):
        source.read(0)


def test_a_source_is_found_from_elsewhere(tmp_path, monkeypatch):
    written(tmp_path / "bags", npz)
    monkeypatch.chdir(tmp_path)
    source = read(Path("bags"))
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(source.read(0).tokens, BAGS["a"])


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones((0, 4)), "none 0"),
        (np.ones((3, 0)), "none 0"),
        (np.ones(4), "must have shape"),
        (np.ones((1, 2, 4)), "must have shape"),
        (np.ones((2, 4), complex), "must be real numbers"),
        (np.full((2, 4), "a"), "must be real numbers"),
        (np.full((2, 4), np.nan), "bag a: .*NaN"),
    ],
)
def test_arrays_that_are_no_bags(tmp_path, array, words):
    folder = written(tmp_path / "bags", npy)
    np.save(folder / "a.npy", array)
    refused(folder, words)


def test_npy_headers_that_lie(tmp_path):
    folder = written(tmp_path / "bags", npy)
    raw = (folder / "a.npy").read_bytes()
    (folder / "a.npy").write_bytes(raw.replace(b"(3, 4)", b"(9, 4)"))
    refused(
        folder, r"a +unreadable +.*claims shape \(9, 4\) of float64, 288 bytes, but 96 are there"
    )
    (folder / "a.npy").write_bytes(raw + b"more")
    refused(folder, "but 100 are there")


def test_headers_of_python_2(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    raw = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(raw.replace(b"(3, 4), }  ", b"(3L, 4L), }"))
    np.testing.assert_array_equal(read(tmp_path).read(0).tokens, np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "parquet", "zarr3"])
def test_threads(tmp_path, kind):
    """Bags are read by several at once, and filters of warnings are as they were."""
    source, before = read(written(tmp_path / "bags", WRITERS[kind][0])), list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        bags = list(pool.map(lambda k: source.read(k % 3).tokens, range(60)))
    for k, tokens in enumerate(bags):
        np.testing.assert_array_equal(tokens, list(BAGS.values())[k % 3])
    assert list(warnings.filters) == before


def test_which_array_of_several(tmp_path):
    folder = tmp_path / "bags"
    folder.mkdir()
    two, one = np.ones((2, 4)), np.ones(2)
    for others in ({}, {"X": two}, {"y": one}, {"coords": two}):
        np.savez(folder / "a.npz", z=two, **others)
        assert read(folder).lengths.tolist() == [2]
    for arrays, words in [
        ({"p": two, "q": two}, r"the file has p \(2, 4\), q \(2, 4\)"),
        ({"p": one, "q": one}, "tokens must be called one of features, feats"),
        ({f"p{k}": one for k in range(20)}, r"p7 \(2,\) \.\.\."),
        ({}, "the file has no array"),
    ]:
        np.savez(folder / "a.npz", **arrays)
        refused(folder, words)


def safetensors_file(path, header, data=b""):
    words = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(words)) + words + data)


def about(shape, start, stop, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_safetensors_of_other_precision(tmp_path):
    path = tmp_path / "a.safetensors"
    tokens = np.arange(8.0).reshape(2, 4)
    halves = (tokens.astype("<f4").view("<u4") >> 16).astype("<u2")
    safetensors_file(
        path,
        {"__metadata__": {"a": "b"}, "x": about([2, 4], 0, 16, "BF16"), "e": about([0], 0, 0)},
        halves.tobytes(),
    )
    source = read(tmp_path)
    assert source.read(0).tokens.dtype == np.float32
    np.testing.assert_array_equal(source.read(0).tokens, tokens)
    save_file({"x": tokens.astype(np.float16), "n": np.arange(3)}, path)
    np.testing.assert_array_equal(read(tmp_path).read(0).tokens, tokens)


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        (b"", b"", "damaged"),
        (b"{", b"", "damaged"),
        (b"[1]", b"", "names no tensors"),
        (b"{}", b"", "the file has no array"),
        (b"[" * 100_000, b"", "damaged"),
        (b"{}" + b" " * 2**21, b"", "too long"),
        (b'{"a":1}', b"", "damaged"),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":1}', b"0000", "stands twice"),
        ({"a": about([2, 4], 0, 32)}, bytes(31), "end at byte .* the file at"),
        ({"a": about([2, 4], 0, 32)}, bytes(33), "end at byte .* the file at"),
        ({"a": about([2, 4], 0, 36)}, bytes(36), r"claims shape \(2, 4\) of F32, 32 bytes, but 36"),
        ({"a": about([2**62, 2**62], 0, 32)}, bytes(32), "but 32 are there"),
        ({"a": about([2, 4], 4, 36)}, bytes(36), "begins at byte .* expected"),
        ({"a": about([2, 4], 0, 32), "b": about([2], 0, 8)}, bytes(32), "begins at byte"),
        ({"a": about([2, -4], 0, -32)}, bytes(32), "whole numbers"),
        ({"a": about([2.5, 4], 0, 32)}, bytes(32), "whole numbers"),
        ({"a": about([2, 4], 0, 8, "F8_E4M3")}, bytes(8), "has dtype 'F8_E4M3'"),
        ({"a": about([2, 4], 0, 8, ["F32"])}, bytes(8), "damaged"),
    ],
)  # fmt: skip
def test_safetensors_that_lie(tmp_path, header, data, words):
    safetensors_file(tmp_path / "a.safetensors", header, data)
    refused(tmp_path, words)


def test_safetensors_with_too_long_a_header(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", 2**63) + b"{}")
    refused(tmp_path, "9223372036854775808 bytes of header are announced, 2 are there")


def test_parquet_columns(tmp_path):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"p": [1, 2], "q": [True, False], "x": [0.5, 1.5]}).to_parquet(path)
    source = read(tmp_path)
    assert source.dim == 3 and source.coordinates(0) is None  # x without y is a feature
    np.testing.assert_array_equal(source.read(0).tokens, [[1, 1, 0.5], [2, 0, 1.5]])
    for frame, words in [
        (pd.DataFrame({"x": [1.0], "y": [2.0], "name": ["a"]}), r"numeric column .* name \("),
        (pd.DataFrame({"p": [], "q": []}, dtype=float), "at least one row"),
        (pd.DataFrame({"p": [1.0, None]}), "NaN"),
        (pd.DataFrame({"p": pd.array([True, None], dtype="boolean")}), "values that are missing"),
        (pd.DataFrame(), "numeric column"),
        (pd.DataFrame({"p": [1.0], "label": [1]}), "column label is called as a label or the name"),
        (pd.DataFrame({"p": [1.0], "y": [True]}), "column y is called as a label"),
        (pd.DataFrame({"Unnamed: 0": [7], "p": [1.0]}), "column Unnamed: 0 is called as"),
        (pd.DataFrame({"Slide ID": [7], "p": [1.0]}), "column Slide ID is called as"),
        (pd.DataFrame({"patch": [7], "p": [1.0]}), "column patch is called as"),
        (pd.DataFrame({"cluster": [7], "p": [1.0]}), "column cluster is called as"),
        (pd.DataFrame({"case_id": [7], "p": [1.0]}), "column case_id is called as"),
        (pd.DataFrame({"coord_x": [7], "p": [1.0]}), "column coord_x is called as"),
    ]:
        frame.to_parquet(path)
        refused(tmp_path, words)


def metadata(path, change, file="zarr.json"):
    """The metadata of an array, changed."""
    content = json.loads((path / file).read_text())
    change(content)
    (path / file).write_text(json.dumps(content))


EVIL = {"name": "evil"}
ZARR3 = [
    (lambda m: m.update(data_type="string"), "must hold numbers, got dtype string"),
    (lambda m: m.update(data_type={"name": "x"}), "must hold numbers"),
    (lambda m: m.update(shape=[10**12, 10**12]), "chunks in a store of|damaged"),
    (lambda m: m.update(shape=[-3, 4]), "whole numbers"),
    (lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[10**12, 4]), "a chunk needs"),
    (lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[0, 4]), "none 0"),
    (lambda m: m["codecs"].append({"name": "pickle"}), "codec 'pickle' is not one"),
    (lambda m: m["codecs"].append({"name": "gzip", "configuration": {"codecs": [EVIL]}}),
     "codec 'evil' is not one"),
    (lambda m: m.update(storage_transformers=[{"name": "x"}]), "transformers are not known"),
    (lambda m: m.pop("codecs"), "damaged"),
    (lambda m: m.update(node_type="group"), "has no array"),
    (lambda m: m.update(attributes="x" * 2**21), "longer than"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), ZARR3)
def test_zarr_metadata_that_lie(tmp_path, change, words):
    folder = written(tmp_path / "bags", zarr_of(3))
    metadata(folder / "a.zarr", change)
    refused(folder, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(dtype="|O", filters=[{"id": "pickle", "protocol": 5}]), "dtype .O"),
        (lambda m: m.update(filters=[{"id": "pickle"}]), "codec 'pickle' is not one"),
        (lambda m: m.update(compressor={"id": "json2"}), "codec 'json2' is not one"),
        (lambda m: m.update(dtype=[["a", "<f4"]]), "must hold numbers"),
        (lambda m: m.update(chunks=[10**12, 1]), "a chunk needs"),
    ],
)
def test_old_zarr_metadata_that_lie(tmp_path, change, words):
    folder = written(tmp_path / "bags", zarr_of(2))
    metadata(folder / "a.zarr", change, ".zarray")
    refused(folder, words)


def test_zarr_stores_that_are_none(tmp_path):
    folder = written(tmp_path / "bags", zarr_of(3))
    os.symlink(tmp_path, folder / "a.zarr" / "c" / "out")
    refused(folder, r"a +unreadable +there is a link in the store")
    shutil.rmtree(folder / "a.zarr" / "c")
    refused(folder, r"a +unreadable +the array has no numbers")
    shutil.rmtree(folder / "a.zarr")
    (folder / "a.zarr").mkdir()
    refused(folder, r"a +unreadable +this is not a zarr store, or it has no array")
    shutil.rmtree(folder)
    folder.mkdir()
    with (
        zipfile.ZipFile(folder / "a.zarr.zip", "w") as archive,
        pytest.warns(UserWarning, match="Duplicate"),
    ):
        for _ in range(2):
            archive.writestr("zarr.json", "{}")
    refused(folder, "an entry stands twice")


def test_packings_of_zarr(tmp_path):
    tokens, blosc = np.arange(48.0).reshape(12, 4), zarr.codecs.BloscCodec()
    options = {"data": tokens, "chunks": (2, 4), "zarr_format": 3, "overwrite": True}
    path = tmp_path / "a.zarr"
    for more in ({"compressors": blosc}, {"compressors": None}, {"shards": (6, 4)}):
        zarr.create_array(path, **options, **more)
        np.testing.assert_array_equal(read(tmp_path).read(0).tokens, tokens)
    zarr.create_array(path, **options, shards=(6, 4), compressors=blosc)
    refused(tmp_path, "blosc must be the last codec")


def test_frames_of_blosc_that_lie(tmp_path):
    """Its decoder believes them, and reads or allocates what they say."""
    tokens, path = np.arange(8.0).reshape(2, 4), tmp_path / "a.zarr"
    zarr.create_array(path, data=tokens, zarr_format=3, compressors=zarr.codecs.BloscCodec())
    chunk = path / "c" / "0" / "0"
    raw = chunk.read_bytes()
    for place in (4, 12):
        forged = bytearray(raw)
        struct.pack_into("<I", forged, place, 2**31)
        chunk.write_bytes(forged)
        refused(tmp_path, "bag a: the chunk c/0/0 has another size than it says")
    chunk.write_bytes(raw[:-1])
    refused(tmp_path, "another size than it says")


@pytest.mark.parametrize(("module", "kind"), [("pyarrow.parquet", "parquet"), ("zarr", "zarr3")])
def test_a_library_that_is_missing_is_named(tmp_path, monkeypatch, module, kind):
    folder = written(tmp_path / "bags", WRITERS[kind][0])
    monkeypatch.setitem(sys.modules, module, None)
    refused(folder, rf"needs {module.split('.')[0]} .pip install 'sparsetoken\[bags\]'")


def test_labels_of_every_format(tmp_path):
    """A table may call a bag as its file is called."""
    for kind, ending in {
        "zarr3 zip": "zarr.zip",
        "zarr3": "zarr",
        "safetensors": "safetensors",
    }.items():
        folder = written(tmp_path / ending, WRITERS[kind][0])
        table = pd.DataFrame({"bag": [f"{name}.{ending}" for name in BAGS], "label": [1, 0, 1]})
        collection = st.open_bags(folder, labels=table)
        assert collection.names == tuple(BAGS) and collection.labels.tolist() == [1, 0, 1]


def test_what_is_no_folder_of_bags(tmp_path):
    reader = st.READERS.make("one-file-a-bag")
    assert not reader.can_read(tmp_path) and not reader.can_read(tmp_path / "nothing")
    (tmp_path / ".hidden.npy").write_bytes(b"")
    (tmp_path / "a.txt").write_text("a")
    assert not reader.can_read(tmp_path) and not reader.can_read(tmp_path / "a.txt")

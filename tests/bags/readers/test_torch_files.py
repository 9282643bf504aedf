"""Tensors of torch.save, read without torch: right numbers or a sentence, and nothing is run."""

from __future__ import annotations

import os
import pickle
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags.readers.array_files import ArrayFiles
from sparsetoken.bags.readers.pickled_tensors import MOST_PICKLE, pickled_tensors
from sparsetoken.bags.readers.torch_files import TorchFile
from sparsetoken.support.errors import InvalidInput

DATA = Path(__file__).parent / "data"
TOKENS = np.arange(15.0).reshape(5, 3)
FILES = ArrayFiles(TorchFile())


def global_(name):
    module, _, name = name.rpartition(".")
    return b"c" + f"{module}\n{name}\n".encode()


def word(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def number(value):
    return b"J" + struct.pack("<i", value)


def storage(key="0", count=15, kind="torch.FloatStorage"):
    """What stands for a storage in a pickle."""
    return b"(" + word("storage") + global_(kind) + word(key) + word("cpu") + number(count) + b"tQ"


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor(shape=(5, 3), strides=(3, 1), offset=0, rebuild="torch._utils._rebuild_tensor_v2", **at):
    arguments = storage(**at) + number(offset) + numbers(shape) + numbers(strides)
    hooks = b"\x89" + global_("collections.OrderedDict") + b")R"
    return global_(rebuild) + b"(" + arguments + hooks + b"tR"


def saved(path, body, storages=None, byteorder=b"little", packing=zipfile.ZIP_STORED, more=()):
    """An archive as torch.save writes it, around the instructions of a pickle."""
    if storages is None:
        storages = {"0": TOKENS.astype("<f4").tobytes()}
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02" + body + b".")
        if byteorder is not None:
            archive.writestr("a/byteorder", byteorder)
        for key, content in storages.items():
            archive.writestr(f"a/data/{key}", content)
        for name, content in more:
            archive.writestr(name, content)
    return path


def read(path):
    files = ArrayFiles(TorchFile())
    shape, tokens = files.shape(path), files.tokens(path)
    assert tokens.shape == shape
    return tokens


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("tensor", "f4"), ("half", "f2"), ("bfloat16", "f4"), ("double", "f8"), ("parameter", "f4"),
     ("dict", "f4"), ("ordered", "f4"), ("protocol4", "f4")],
)  # fmt: skip
def test_files_of_torch(name, dtype):
    path = DATA / f"{name}.pt"
    assert FILES.shape(path) == (5, 3)
    tokens = FILES.tokens(path)
    assert tokens.dtype == dtype
    np.testing.assert_array_equal(tokens, TOKENS)


def test_views_of_torch():
    transposed, view = (FILES.tokens(DATA / f"{name}.pt") for name in ("transposed", "view"))
    np.testing.assert_array_equal(transposed, np.arange(15.0).reshape(3, 5).T)
    np.testing.assert_array_equal(view, np.arange(48.0).reshape(8, 6)[2:7, 1:6:2])


def test_coordinates_beside_tokens():
    places = FILES.coordinates(DATA / "dict.pt")
    np.testing.assert_array_equal(places, np.arange(10).reshape(5, 2))
    assert places.dtype == float and FILES.coordinates(DATA / "tensor.pt") is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("old", "before version 1.6.*torch.save.torch.load"),
        ("program", "TorchScript"),
        ("sparse", "asks for torch._utils._rebuild_sparse_tensor"),
        ("array", r"asks for numpy\.\w+\.multiarray\._reconstruct"),
        ("expanded", r"overlaps itself.*clone"),
        ("list", "must hold a tensor, or a dict with tensors in it, got a list"),
    ],
)
def test_other_files_of_torch_are_refused(name, words):
    with pytest.raises(InvalidInput, match=words):
        FILES.shape(DATA / f"{name}.pt")


def test_the_writer_of_these_tests_writes_what_torch_does(tmp_path):
    """So that what is refused below is refused for its one fault."""
    np.testing.assert_array_equal(read(saved(tmp_path / "a.pt", tensor())), TOKENS)
    old = tensor(rebuild="torch._utils._rebuild_tensor")
    np.testing.assert_array_equal(read(saved(tmp_path / "a.pt", old, byteorder=None)), TOKENS)
    big = {"0": TOKENS.astype(">f4").tobytes()}
    np.testing.assert_array_equal(read(saved(tmp_path / "a.pt", tensor(), big, b"big")), TOKENS)
    whole = tensor(kind="torch.LongStorage", shape=(2, 2), strides=(5, 2), offset=3)
    path = saved(tmp_path / "a.pt", whole, {"0": np.arange(15).tobytes()})
    np.testing.assert_array_equal(read(path), [[3, 5], [8, 10]])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (tensor(count=16), "claims 16 numbers, 64 bytes, but 60 are there"),
        (tensor(count=2**31 - 1), "but 60 are there"),
        (tensor(count=-1), "points to numbers in a way that torch does not"),
        (tensor(key="1"), "storage 1 is missing"),
        (tensor(key="../data.pkl"), "points to numbers in a way"),
        (tensor(kind="torch._utils._rebuild_tensor"), "points to numbers in a way"),
        (tensor(kind="torch.ComplexFloatStorage"), "asks for torch.ComplexFloatStorage"),
        (tensor(kind="torch.storage.UntypedStorage"), "asks for torch.storage.UntypedStorage"),
        (tensor(shape=(5, 4)), "goes on to number 15, its storage has 15"),
        (tensor(offset=1), "goes on to number 15"),
        (tensor(strides=(2**31 - 1, 1)), "its storage has 15"),
        (tensor(shape=(2**31 - 1, 2**31 - 1), strides=(0, 0)), "overlaps itself"),
        (tensor(shape=(5, 3), strides=(2, 1)), "overlaps itself"),
        (tensor(strides=(3, -1)), "no shape and strides of whole numbers"),
        (tensor(offset=-3), "has no storage"),
        (tensor(shape=(5, 3, 1)), "3 dimensions and 2 strides"),
        (tensor(shape=(1,) * 65, strides=(1,) * 65), "65 dimensions"),
        (tensor(shape=(15,), strides=(1,)), r"must have shape \(tokens, dimensions\)"),
        (tensor(shape=(0, 3)), r"none 0, got \(0, 3\)"),
        (b"}", "got a dict without any"),
        (word("hello"), "got a str"),
        (b"N", "got a NoneType"),
        (b"", "damaged"),
        (b"(" + tensor(), "ends in the middle"),
        (tensor() + tensor(), "ends in the middle"),
        (b"0", "instruction POP"),
        (b"h\x07", "damaged"),
        (b"t", "damaged"),
        (b"\x85", "packs what is not there"),
        (b"R", "damaged"),
        (b")" * 2 + b"R", "calls what is not a function"),
        (tensor() + b")R", "calls what is not a function"),
        (global_("collections.OrderedDict") + numbers([1]) + b"R", "way that torch does not"),
        (global_("torch._utils._rebuild_parameter") + numbers([1]) + b"R", "has no tensor"),
        (global_("torch._utils._rebuild_tensor_v2") + numbers([1] * 9) + b"R", "damaged"),
        (b"]}b", "gives attributes to what has none"),
        (b"}" + number(1) + b"a", "appends to what is not a list"),
        (b"]" + number(1) + number(1) + b"s", "into what is not a dict"),
        (b"})" + number(1) + b"s", "keys that are neither words nor numbers"),
        (number(1) + b"Q", "points to numbers in a way"),
        (number(1) + number(2) + b"\x93", "something that has no name"),
        (word("os") + word("system") + b"\x93", "asks for os.system"),
    ],
)
def test_damaged_and_forged_pickles_are_refused(tmp_path, body, words):
    with pytest.raises(InvalidInput, match=words):
        read(saved(tmp_path / "a.pt", body))


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [(x,)], lambda x: {"features": x}])
def test_nothing_is_run(tmp_path, protocol, wrap):
    body = pickle.dumps(wrap(Hostile(tmp_path / "made")), protocol)
    start = 2 if protocol >= 2 else 0
    path = saved(tmp_path / "a.pt", body[start:-1])
    with pytest.raises(InvalidInput, match=r"asks for (posix|nt)\.mkdir|instruction"):
        read(path)
    assert not (tmp_path / "made").exists()
    pickle.loads(body)  # it would have
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "torch.load", "torch.hub.load", "torch.FloatStorage.x",
             "collections.OrderedDict.fromkeys", "torch._utils._rebuild_wrapper_subclass"],
)  # fmt: skip
def test_what_a_pickle_asks_for_is_named(tmp_path, name):
    body = tensor() + b"q\x00" + global_(name) + b"(" + word("touch made") + b"tR"
    with pytest.raises(InvalidInput, match=f"asks for {name}, which is no tensor: nothing of it"):
        read(saved(tmp_path / "a.pt", body))


def test_names_that_would_spoil_a_sentence_are_cut(tmp_path):
    with pytest.raises(InvalidInput) as refusal:
        pickled_tensors(b"\x80\x02" + global_("os." + "\x1b[31m" + "x" * 1000) + b".")
    assert "\x1b" not in str(refusal.value) and len(str(refusal.value)) < 250


def test_nesting_and_repeats_take_no_time(tmp_path):
    """2^40 leaves in 40 tuples, lists in lists as deep as a pickle is long, a list in itself."""
    doubled = b")" + b"".join(b"q\x01" + b"h\x01" + b"\x86" for _ in range(40))
    deep = b"]" * 50_000 + b"a" * 49_999
    own = b"]q\x00h\x00a"
    start = time.perf_counter()
    for body, words in [
        (doubled, "got a tuple"), (b"}" + doubled + b"Ns", "neither words nor numbers"),
        (b"}" + word("a") + doubled + b"s", "without any"), (deep, "got a list"),
        (own, "got a list"), (b"(" * 100_000, "damaged|middle"),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput, match=words):
            read(saved(tmp_path / "a.pt", body))
    assert time.perf_counter() - start < 20
    with pytest.raises(InvalidInput, match="does not end"):
        pickled_tensors(b"\x80\x02" + tensor())
    with pytest.raises(InvalidInput, match=f"{MOST_PICKLE} are allowed"):
        read(saved(tmp_path / "a.pt", b"N" * (MOST_PICKLE + 1)))


def test_archives_that_torch_does_not_write(tmp_path):
    path, bomb = tmp_path / "a.pt", tensor(shape=(10**6, 1), strides=(1, 1), count=10**6)
    with pytest.raises(InvalidInput, match=r"data.pkl is packed, which torch.save never does"):
        read(saved(path, bomb, {"0": bytes(4 * 10**6)}, packing=zipfile.ZIP_DEFLATED))
    for name in ("b/x", "/etc/passwd", "a/../../x", "a/./x", "a//x", "x", "a/", "a\\x", "a/b\\x"):
        with pytest.raises(InvalidInput, match=r"torch.save does not write that"):
            read(saved(path, tensor(), more=[(name, b"")]))
    for name in ("a/data/0", "a/data.pkl"):
        with pytest.warns(UserWarning, match="Duplicate"):
            saved(path, tensor(), more=[(name, b"")])
        with pytest.raises(InvalidInput, match="stands twice"):
            read(path)
    with pytest.raises(InvalidInput, match="neither little nor big"):
        read(saved(path, tensor(), byteorder=b"middle"))
    with pytest.raises(InvalidInput, match="byteorder has 2000 bytes"):
        read(saved(path, tensor(), byteorder=b" " * 2000))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data/0", b"")
    with pytest.raises(InvalidInput, match=r"data.pkl is missing"):
        read(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(InvalidInput, match="no zip archive"):
        read(path)


def test_an_entry_that_claims_more_than_the_file(tmp_path):
    path = saved(tmp_path / "a.pt", tensor(count=2**28, shape=(2**28, 1), strides=(1, 1)))
    raw = bytearray(path.read_bytes())
    place = raw.rfind(b"PK\x01\x02")
    struct.pack_into("<II", raw, place + 20, 2**30, 2**30)
    path.write_bytes(raw)
    with pytest.raises(InvalidInput, match="longer than the file"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"P", b"PK\x03\x04", b"\x80\x02N.", b"hello" * 100])
def test_what_is_no_archive(tmp_path, content):
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"not a file of torch.save, or it is damaged"):
        read(path)


def test_damaged_bytes_give_the_right_numbers_or_a_sentence(tmp_path):
    paths = [DATA / f"{name}.pt" for name in ("dict", "bfloat16", "view", "tensor")]
    path, rng, refused = tmp_path / "a.pt", np.random.default_rng(0), 0
    for k in range(300):
        right, raw = FILES.tokens(paths[k % 4]), bytearray(paths[k % 4].read_bytes())
        if k % 3 == 0:
            raw = raw[: rng.integers(len(raw))]
        else:
            for place in rng.integers(len(raw), size=1 + k % 3):
                raw[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(raw)
        try:
            np.testing.assert_array_equal(read(path), right)
        except InvalidInput:
            refused += 1
    assert refused > 100  # truncated ones, to begin with


def test_damaged_pickles_never_raise_anything_else():
    """Behind the checksum: instructions changed at random."""
    with zipfile.ZipFile(DATA / "dict.pt") as archive:
        good = archive.read("dict/data.pkl")
    rng = np.random.default_rng(1)
    for k in range(3000):
        raw = bytearray(good)
        for place in rng.integers(len(raw), size=1 + k % 4):
            raw[place] = int(rng.integers(256))
        try:
            tensors = pickled_tensors(bytes(raw))
        except InvalidInput:
            continue
        assert all(len(tensor.shape) == len(tensor.strides) for tensor in tensors.values())


def test_folders_of_clam(tmp_path):
    folder = tmp_path / "pt_files"
    folder.mkdir()
    for name in ("b", "a"):
        saved(folder / f"{name}.pt", tensor())
    (folder / "._a.pt").write_bytes(b"what macOS leaves")
    (tmp_path / "notes.txt").write_text("notes")
    reader = st.READERS.make("clam-pt")
    assert reader.can_read(tmp_path) and not reader.can_read(folder)
    source, labels = reader.read(tmp_path)
    assert source.names == ("a", "b") and labels is None and source.coordinates(0) is None
    again = pickle.loads(pickle.dumps(source))  # it travels to other processes
    np.testing.assert_array_equal(again.read(1).tokens, TOKENS)
    bags, labels = st.load_bags(tmp_path)
    np.testing.assert_array_equal(bags.tokens, np.vstack([TOKENS, TOKENS]))
    (tmp_path / "h5_files").mkdir()
    assert reader.can_read(tmp_path)
    (tmp_path / "h5_files" / "a.h5").write_bytes(b"")
    assert not reader.can_read(tmp_path) and st.READERS.make("clam").can_read(tmp_path)


def test_a_source_reads_no_numbers_until_asked(tmp_path):
    """A storage whose checksum does not fit: the shape is known, the bag is refused."""
    path = saved(tmp_path / "a.pt", tensor())
    numbers = TOKENS.astype("<f4").tobytes()
    path.write_bytes(path.read_bytes().replace(numbers, numbers[::-1]))
    source, _ = st.READERS.make("one-file-a-bag").read(tmp_path)
    assert source.lengths.tolist() == [5]
    with pytest.raises(InvalidInput, match=r"bag a: this is not a file of torch.save.*CRC"):
        source.read(0)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not listed here")
def test_files_are_closed(tmp_path):
    path = saved(tmp_path / "a.pt", tensor())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        read(path)
    assert len(os.listdir("/proc/self/fd")) == before

"""Files of strangers: read or refused in one sentence, nothing unpickled, no size believed."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st_
from sklearn.exceptions import NotFittedError

import sparsetoken as st
from sparsetoken.bags.bags import Bags
from sparsetoken.support.errors import InvalidInput

KINDS = [st.PooledClassifier(), st.AttentionClassifier(), st.AttentionClassifier(query="joint"),
         st.AttentionClassifier(query="posterior"), st.VectorizedClassifier()]  # fmt: skip
OTHERS = [st.StatisticsClassifier(), st.StatisticsClassifier(inverse_width=1.0, whiten=True)]


def written(path, **arrays):
    np.savez(path, **arrays)
    return path


def npy(shape, descr="<f8", data=b"", fortran=False):
    """An npy entry that claims a shape."""
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def zipped(path, **entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.fixture(scope="module")
def sample():
    return st.Task(5, 1, 5.0).sample(80, dim=6, rng=0)


def test_every_form_of_bags(tmp_path, sample):
    n, length, dim = sample.tokens.shape
    flat, offsets = sample.tokens.reshape(-1, dim), np.arange(n + 1) * length
    forms = [
        {"X": sample.tokens},
        {"X": np.asfortranarray(sample.tokens)},
        {"X": sample.tokens.astype(">f8")},
        {"X": flat, "offsets": offsets},
        {"X": flat, "offsets": offsets.astype(np.uint16), "ids": np.array(["a"] * n)},
        {"X": np.pad(sample.tokens, ((0, 0), (0, 2), (0, 0))),
         "mask": np.broadcast_to(np.arange(length + 2) < length, (n, length + 2))},
    ]  # fmt: skip
    for index, arrays in enumerate(forms):
        save = np.savez if index % 2 else np.savez_compressed
        save(tmp_path / "bags.npz", y=sample.labels, **arrays)
        bags, labels = st.load_bags(tmp_path / "bags.npz")
        np.testing.assert_array_equal(bags.tokens, flat)
        np.testing.assert_array_equal(bags.offsets, offsets)
        np.testing.assert_array_equal(labels, sample.labels)
    small = written(tmp_path / "ints.npz", X=np.arange(8).reshape(2, 2, 2))
    bags, labels = st.load_bags(small)
    assert bags.tokens.dtype == float and labels is None


X = np.ones((6, 2))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "array X .* is missing"),
        ({"X": X}, "three dimensions .*, got shape .6, 2. with neither"),
        ({"X": X[None], "offsets": [0, 6]}, "with offsets"),
        ({"X": X, "offsets": [0, 6], "mask": np.ones((1, 6), bool)}, "offsets and mask"),
        ({"X": X, "offsets": [0, 3]}, "from 0 to the number of tokens, 6, got 0 to 3"),
        ({"X": X, "offsets": [1, 6]}, "from 0 to the number of tokens"),
        ({"X": X, "offsets": [0, 5, 3, 6]}, "must not fall, got 5 and then 3 .bag 1."),
        ({"X": X, "offsets": [0, 3, 3, 6]}, "at least one token, bag 1 has none"),
        ({"X": X, "offsets": [0.0, 6.0]}, "offsets must be at least two whole numbers"),
        ({"X": X, "offsets": [[0, 6]]}, "offsets must be at least two whole numbers"),
        ({"X": X, "offsets": np.array([0, 2**63, 6], dtype=np.uint64)}, "must not fall"),
        ({"X": X[:0], "offsets": [0, 0]}, "none 0"),
        ({"X": np.array([["a"]])}, "X must hold real numbers, got dtype <U1"),
        ({"X": X[None] * 1j}, "X must hold real numbers"),
        ({"X": X[None] * np.nan}, "Input X contains NaN"),
        ({"X": X[None], "y": [0, 1]}, "one label for each of the 1 bags"),
        ({"X": X[None], "y": [[0]]}, "one label for each of the 1 bags"),
        ({"X": X[None], "y": [1j]}, "y must hold numbers or words"),
        ({"X": X[None], "y": [b"a"]}, "y must hold numbers or words"),
        ({"X": X[None], "y": np.array([0xFFFFFFFF], np.uint32).view("<U1")}, "letters that do not"),
    ],
)
def test_wrong_arrays(tmp_path, arrays, words):
    path = written(tmp_path / "bags.npz", **arrays)
    with pytest.raises(InvalidInput, match=words) as caught:
        st.load_bags(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


class Evil:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (self.mark,))


def test_nothing_is_unpickled(tmp_path):
    mark = str(tmp_path / "unpickled")
    evil = np.array([Evil(mark)], dtype=object)
    files = [
        written(tmp_path / "X.npz", X=evil),
        written(tmp_path / "y.npz", X=X[None], y=evil),
        zipped(tmp_path / "raw.npz", X=pickle.dumps(Evil(mark))),
        tmp_path / "plain.npz",
    ]
    files[-1].write_bytes(pickle.dumps(Evil(mark)))
    for path in files:
        for load in (st.load_bags, st.load_classifier):
            with pytest.raises(InvalidInput, match=path.name):
                load(path)
    assert not os.path.exists(mark)
    with pytest.raises(InvalidInput, match="unpickled, which is never done"):
        st.load_bags(files[0])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (npy((10**15, 10)), "claims shape .* but 0 are there"),
        (npy((2**62, 2**62)), "claims shape"),
        (npy((-1, -8), data=bytes(64)), "claims shape"),
        (npy((3, 2, 2), data=bytes(95)), "96 bytes, but 95 are there"),
        (npy((3, 2, 2), data=bytes(97)), "96 bytes, but 97 are there"),
        (npy((1, 1), descr="<U99999999999"), "damaged"),
        (npy((4,), descr=[("a", "<f8"), ("b", "|O")], data=bytes(64)), "unpickled"),
        (npy((2, 2), descr="O", data=bytes(32)), "unpickled"),
        (npy("x"), "damaged"),
        (npy((2, 2), descr="nonsense"), "damaged"),
        (b"\x93NUMPY\x09\x00" + bytes(64), "damaged|not known"),
        (b"\x93NUMPY\x03\x00" + struct.pack("<I", 2**31) + b"{", "too long"),
        (b"", "damaged"),
        (b"hello", "damaged"),
    ],
)
def test_forged_entries(tmp_path, entry, words):
    path = zipped(tmp_path / "forged.npz", X=entry)
    with pytest.raises(InvalidInput, match=words) as caught:
        st.load_bags(path)
    assert str(path) in str(caught.value)


def test_packings_that_cannot_be_bounded(tmp_path):
    """bz2 and lzma unpack a block at once, however large."""
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "bomb.npz", "w", packing) as archive:
            archive.writestr("X.npy", npy((1, 1, 1), data=bytes(8)))
        with pytest.raises(InvalidInput, match="packed in a way that NumPy never does"):
            st.load_bags(tmp_path / "bomb.npz")


def test_entries_that_lie_about_their_size(tmp_path):
    """A header that claims terabytes, and an entry that claims them too."""
    count = 10**12
    path = zipped(tmp_path / "bomb.npz", X=npy((count // 8, 1), data=bytes(1000)))
    raw = bytearray(path.read_bytes())
    directory = raw.rfind(b"PK\x01\x02")
    struct.pack_into("<I", raw, directory + 24, 0xFFFFFFF0)
    path.write_bytes(raw)
    with pytest.raises(InvalidInput, match="damaged or forged"):
        st.load_bags(path)
    with pytest.raises(InvalidInput, match="there is no such file"):
        st.load_bags(tmp_path / "none.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="there are no files in this folder"):
        st.load_bags(tmp_path / "empty")
    (tmp_path / "empty" / "notes.txt").write_text("no bags")
    with pytest.raises(InvalidInput, match=r"in a layout that is known .npz archives of X"):
        st.load_bags(tmp_path / "empty")


def mutated(raw, cut, changes):
    raw = bytearray(raw[: max(1, int(cut * len(raw)))])
    for where, byte in changes:
        raw[int(where * (len(raw) - 1))] = byte
    return bytes(raw)


changes = st_.lists(st_.tuples(st_.floats(0, 1), st_.integers(0, 255)), max_size=4)


@settings(max_examples=300, deadline=None)
@given(cut=st_.one_of(st_.just(1.0), st_.floats(0, 1)), changes=changes, packed=st_.booleans())
def test_damaged_bags_are_read_or_refused(tmp_path_factory, cut, changes, packed):
    stream = io.BytesIO()
    save = np.savez_compressed if packed else np.savez
    save(stream, X=np.arange(24.0).reshape(8, 3), offsets=[0, 3, 8], y=[0, 1])
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(mutated(stream.getvalue(), cut, changes))
    try:
        bags, labels = st.load_bags(path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert bags.offsets[-1] == len(bags.tokens) and np.all(bags.lengths > 0)
        assert np.isfinite(bags.tokens).all()
        assert labels is None or len(labels) == len(bags)


@settings(max_examples=200, deadline=None)
@given(offsets=st_.lists(st_.integers(-2, 8), max_size=6), tokens=st_.integers(0, 6))
def test_offsets_are_right_or_refused(offsets, tokens):
    right = (
        len(offsets) >= 2
        and offsets[0] == 0
        and offsets[-1] == tokens
        and all(a < b for a, b in itertools.pairwise(offsets))
    )
    try:
        bags = Bags.of_flat(np.zeros((tokens, 2)), np.array(offsets, dtype=int))
    except ValueError:
        assert not right
    else:
        assert right and bags.lengths.sum() == tokens


@pytest.mark.parametrize("classifier", KINDS + OTHERS, ids=repr)
def test_saved_classifiers_are_the_same(tmp_path, sample, classifier):
    words = np.where(sample.labels > 0, "sick", "well")
    fitted = classifier.fit(sample.tokens, words)
    st.save_classifier(fitted, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    assert type(again) is type(fitted) and again.get_params() == fitted.get_params()
    for method in ("decision_function", "predict", "predict_proba"):
        one, other = (getattr(each, method)(sample.tokens) for each in (fitted, again))
        np.testing.assert_array_equal(one, other)
    for name in ("ridge_", "sharpness_", "shrinkage_", "n_features_in_"):
        assert getattr(again, name) == getattr(fitted, name)
    if hasattr(fitted, "attention"):
        for one, other in zip(
            fitted.attention(sample.tokens), again.attention(sample.tokens), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(InvalidInput, match="expecting 6 features"):
        again.predict(sample.tokens[:, :, :4])
    assert os.listdir(tmp_path) == ["model"]
    mask = os.umask(0o022)
    os.umask(mask)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("classifier", KINDS, ids=repr)
def test_contributions_add_up_to_the_score(sample, classifier):
    fitted = classifier.fit(sample.tokens, sample.labels)
    parts = fitted.contributions(sample.tokens)
    assert [len(each) for each in parts] == [5] * 80
    totals = np.array([each.sum() for each in parts]) + fitted.intercept_
    np.testing.assert_allclose(totals, fitted.decision_function(sample.tokens), atol=1e-9)


def test_what_cannot_be_saved(tmp_path, sample):
    class Mine(st.PooledClassifier):
        pass

    fitted = Mine().fit(sample.tokens, sample.labels)
    with pytest.raises(InvalidInput, match="joint, posterior, vectorized, statistics, got Mine"):
        st.save_classifier(fitted, tmp_path / "model")
    with pytest.raises(NotFittedError):
        st.save_classifier(st.PooledClassifier(), tmp_path / "model")
    odd = st.PooledClassifier(loss=st.Huber(0.123)).fit(sample.tokens, sample.labels)
    with pytest.raises(InvalidInput, match="loss must be one of"):
        st.save_classifier(odd, tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def model(tmp_path_factory, sample):
    path = tmp_path_factory.mktemp("models") / "model"
    st.save_classifier(st.AttentionClassifier().fit(sample.tokens, sample.labels), path)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"about": np.array("{}")}, "not a saved classifier"),
        ({"about": np.array("not json")}, "not a saved classifier"),
        ({"about": np.array(3)}, "not a saved classifier"),
        ({"0.coef": np.ones(9)}, "coef has shape"),
        ({"0.mean": np.ones(9)}, "not a saved classifier"),
        ({"0.mean": np.array(1.0)}, "not a saved classifier"),
        ({"0.root": np.full((6, 6), np.nan)}, "not finite"),
        ({"0.query": np.ones(0)}, "query has shape"),
        ({"classes": np.arange(3)}, "classes has shape"),
        ({"0.coef": np.array(["a"] * 6)}, "not that of real numbers"),
        ({"0.coef": np.ones(6) * 1j}, "not that of real numbers"),
        ({"about": np.array("[" * 100_000)}, "not a saved classifier"),
        ({"classes": np.array([1.0, 1.0])}, "not labels in order"),
        ({"classes": np.array([np.nan, 1.0])}, "not labels in order"),
    ],
)
def test_wrong_models(tmp_path, model, change, words):
    with np.load(model) as content:
        arrays = dict(content)
    path = written(tmp_path / "model.npz", **(arrays | change))
    with pytest.raises(InvalidInput, match=words):
        st.load_classifier(path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "else"}, {"kind": "forest"}, {"settings": {}}, {"settings": {"loss": "x"}},
        {"models": {}}, {"models": []}, {"models": [3]}, {"names": 3}, {"features": "x"},
        {"settings": {"loss": None, "evil": 1}}, {"settings": 3},
    ],
)  # fmt: skip
def test_wrong_words_in_models(tmp_path, model, change):
    refused(tmp_path, model, lambda about: about | change)


@pytest.mark.parametrize("name", ["ridge", "sharpness", "shrinkage", "tokens"])
@pytest.mark.parametrize("value", ["Infinity", "NaN", "1e999", '"x"', "null", "[]"])
def test_wrong_numbers_in_models(tmp_path, model, name, value):
    change = {name: json.loads(value)}
    refused(tmp_path, model, lambda about: about | {"models": [about["models"][0] | change]})


@pytest.mark.parametrize(
    ("name", "value"),
    [("whiten", {}), ("ridge", 10**400), ("folds", 1.5), ("sharpness", -1), ("positive", "x"),
     ("class_weight", 3), ("class_weight", [1])],
    ids=["whiten", "ridge", "folds", "sharpness", "positive", "class_weight", "class_weights"],
)  # fmt: skip
def test_wrong_settings_in_models(tmp_path, model, name, value):
    refused(tmp_path, model, lambda about: about | {"settings": about["settings"] | {name: value}})


def refused(tmp_path, model, change):
    with np.load(model) as content:
        arrays = dict(content)
    about = change(json.loads(str(arrays["about"])))
    path = written(tmp_path / "model.npz", **(arrays | {"about": np.array(json.dumps(about))}))
    with pytest.raises(InvalidInput, match="not a saved classifier"):
        st.load_classifier(path)


@settings(max_examples=150, deadline=None)
@given(cut=st_.one_of(st_.just(1.0), st_.floats(0, 1)), changes=changes)
def test_damaged_models_are_read_or_refused(model, sample, cut, changes):
    path = model.with_name("damaged")
    path.write_bytes(mutated(model.read_bytes(), cut, changes))
    try:
        classifier = st.load_classifier(path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert np.isfinite(classifier.coef_).all()


class TextFile:
    """A reader of our own: one bag a line."""

    layout = "text files of numbers, a bag of one-dimensional tokens a line"

    def can_read(self, path):
        return path.suffix == ".txt"

    def read(self, path):
        lines = path.read_text().splitlines()
        return Bags.of([np.array(line.split(), dtype=float)[:, None] for line in lines]), None


def test_a_reader_is_a_class_and_an_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(st.READERS, "_kinds", dict(st.READERS._kinds))
    path = tmp_path / "bags.txt"
    path.write_text("1 2 3\n4\n")
    with pytest.raises(InvalidInput, match=r"bags\.txt: bags must be in a layout that is known"):
        st.load_bags(path)
    st.READERS.register("text", TextFile)
    bags, labels = st.load_bags(path)
    assert bags.lengths.tolist() == [3, 1] and labels is None
    with pytest.raises(InvalidInput, match=r"npz archives of X.*; text files of numbers"):
        st.load_bags(tmp_path)

"""Bags in folders with labels in tables: found, matched, or listed with what is wrong."""

from __future__ import annotations

import csv
from unicodedata import normalize

import h5py
import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from sparsetoken.bags import source as source_file
from sparsetoken.cli import main
from sparsetoken.support.errors import InvalidInput


def slide(path, tokens=None, name="features"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file[name] = np.ones((3, 2)) if tokens is None else tokens
    return path


def slides(folder, *names):
    for name in names:
        slide(folder / f"{name}.h5")
    return folder


def table(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD")])
def test_accents_of_files_and_tables_are_the_same_letters(tmp_path, forms):
    """macOS keeps é as an e and an accent, a spreadsheet as one sign."""
    ours, theirs = (normalize(form, "santé café") for form in forms)
    slides(tmp_path, ours, "b")
    labels = table(slide_id=[f"{theirs}.svs", "b"], label=[1, 0])
    collection = st.open_bags(tmp_path, labels=labels)
    assert dict(zip(collection.names, collection.labels.tolist(), strict=True)) == {ours: 1, "b": 0}


def test_one_bag_is_one(tmp_path):
    slides(tmp_path, "a", "b", "c")
    labels = table(slide_id=["a", "b"], label=[1, 0])
    words = r"1 bag cannot be taken \(1 unlabelled\); leave_out=True, .* --leave-out, .* without it"
    with pytest.raises(InvalidInput, match=words):
        st.open_bags(tmp_path, labels=labels)


def test_an_empty_folder_is_a_short_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".DS_Store").write_text("")
    with pytest.raises(InvalidInput, match=r"empty: there are no files in this folder$"):
        st.open_bags(tmp_path / "empty")


def told(collection):
    return list(collection.problems.itertuples(index=False, name=None))


def test_bags_labels_and_groups_go_together(tmp_path):
    for index, name in enumerate("cab"):
        slide(tmp_path / f"{name}.h5", np.full((index + 1, 2), index, dtype="f4"))
    labels = table(case_id=["p", "q", "p"], slide_id=["a", "b", "c"], label=["x", "y", "z"])
    collection = st.open_bags(tmp_path, labels=labels)
    assert collection.names == ("a", "b", "c") and len(collection) == 3
    assert collection.labels.tolist() == ["x", "y", "z"]
    assert collection.groups.tolist() == ["p", "q", "p"]
    assert collection.bags.lengths.tolist() == [2, 3, 1]
    assert collection.bags.load().tokens[:, 0].tolist() == [1, 1, 2, 2, 2, 0]
    assert told(collection) == [] and list(collection.problems) == ["bag", "problem", "explanation"]


@pytest.mark.parametrize(
    "words",
    [
        ("TCGA-1.abc", "s2", "site/s3"),
        ("TCGA-1.abc.svs", "s2.ndpi", "site/s3.tiff"),
        ("TCGA-1.abc.h5", "s2.H5", "s3.h5"),
        ("/data/raw/TCGA-1.abc.svs", "C:\\slides\\s2.mrxs", "s3"),
        ("TCGA-1.abc", "s2.ome.tif", "other/s3"),
    ],
)
def test_names_are_matched_without_folders_and_endings(tmp_path, words):
    slides(tmp_path, "TCGA-1.abc", "s2", "site/s3")
    collection = st.open_bags(tmp_path, labels=table(slide=list(words), label=[0, 1, 2]))
    assert dict(zip(collection.names, collection.labels.tolist(), strict=True)) == {
        "TCGA-1.abc": 0, "s2": 1, "site/s3": 2,
    }  # fmt: skip


def test_every_problem_is_listed(tmp_path):
    slides(tmp_path, "fine", "same", "twice", "empty", "alone", "x/double", "y/double")
    slide(tmp_path / "wide.h5", np.ones((2, 5)))
    (tmp_path / "broken.h5").write_bytes(b"no")
    slides(tmp_path, "both")
    slide(tmp_path / "both.hdf5")
    (tmp_path / "labels.csv").write_text(
        "slide_id,label,case_id\nfine,1,p\nsame,0,p\nsame.svs,0,p\ntwice,1,p\ntwice,0,p\n"
        "empty,,p\ndouble,1,p\nwide,1,p\nbroken,0,p\nboth,0,p\ngone,1,p\n,1,p\n"
    )
    path = tmp_path / "labels.csv"
    collection = st.open_bags(tmp_path, labels=path, leave_out=True)
    assert collection.names == ("fine", "same") and collection.labels.tolist() == [1, 0]
    problems = {bag: (problem, words) for bag, problem, words in told(collection)}
    assert {bag: problem for bag, (problem, _) in problems.items()} == {
        "both": "doubled", "broken": "unreadable", "wide": "unreadable", "alone": "unlabelled",
        "empty": "unlabelled", "twice": "doubled", "x/double": "doubled", "y/double": "doubled",
        "gone": "missing", "(row 12 of labels.csv)": "missing",
    }  # fmt: skip
    assert problems["both"][1] == "several files have this name: both.h5, both.hdf5"
    assert "5 dimensions, those of 7 other bags have 2" in problems["wide"][1]
    assert "not an HDF5 file" in problems["broken"][1]
    assert problems["twice"][1] == (
        "label is 1 in row 4 of labels.csv, 0 in row 5 of labels.csv"
    )  # fmt: skip
    assert problems["empty"][1] == "the column label is empty in row 6 of labels.csv"
    assert problems["x/double"][1] == "row 7 of labels.csv may mean x/double or y/double"
    assert problems["alone"][1] == "labels.csv has no row for it"
    assert problems["gone"][1] == "row 11 of labels.csv has no file"
    with pytest.raises(InvalidInput) as caught:
        st.open_bags(tmp_path, labels=path)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{tmp_path}: 10 bags cannot be taken (4 doubled, 2 unreadable, ")
    assert len(lines) == 11 and all(any(bag in line for line in lines) for bag in problems)


def test_a_long_list_is_cut(tmp_path):
    slides(tmp_path, "a")
    labels = table(slide=["a", *(f"s{number}" for number in range(30))], label=range(31))
    with pytest.raises(InvalidInput, match=r"30 bags cannot be taken \(30 missing\)") as caught:
        st.open_bags(tmp_path, labels=labels)
    lines = str(caught.value).splitlines()
    assert len(lines) == 22 and lines[-1] == "  and 10 more"


def test_groups_that_contradict_or_are_missing(tmp_path):
    slides(tmp_path, "a", "b", "c")
    labels = table(slide=["a", "a", "b", "c"], y=[1, 1, 0, 0], donor=["p", "q", None, "r"])
    collection = st.open_bags(tmp_path, labels=labels, leave_out=True)
    assert collection.groups.tolist() == ["r"]
    assert [row[:2] for row in told(collection)] == [("a", "doubled"), ("b", "unlabelled")]
    assert "donor is p in row 1 of labels, q in row 2" in told(collection)[0][2]


def test_nothing_is_left(tmp_path):
    slides(tmp_path, "a")
    with pytest.raises(InvalidInput, match="2 bags cannot be taken"):
        st.open_bags(tmp_path, labels=table(slide=["b"], label=[1]), leave_out=True)
    (tmp_path / "a.h5").write_bytes(b"")
    for leave_out in (False, True):
        with pytest.raises(InvalidInput, match=r"1 bag cannot be taken \(1 unreadable\)"):
            st.open_bags(tmp_path, leave_out=leave_out)
    with pytest.raises(InvalidInput, match="1 unreadable"):
        st.load_bags(tmp_path)


def test_two_tables(tmp_path):
    slides(tmp_path, "a", "b", "c")
    clinical = table(PATIENT=["p", "q", "q"], isMSIH=["MSI", "MSS", "MSI"])
    filenames = table(PATIENT=["p", "q", "z"], FILENAME=["a.h5", "b.h5", "c.h5"])
    collection = st.open_bags(tmp_path, labels=(clinical, filenames), leave_out=True)
    assert collection.labels.tolist() == ["MSI"] and collection.groups.tolist() == ["p"]
    assert [row[:2] for row in told(collection)] == [("b", "doubled"), ("c", "unlabelled")]


@pytest.mark.parametrize(
    ("values", "kind"), [([1, 0], "i"), ([True, False], "b"), (["a", "NA"], "U"), ([0.5, 1], "f")]
)
def test_kinds_of_labels(tmp_path, values, kind):
    slides(tmp_path, "a", "b")
    labels = st.open_bags(tmp_path, labels=table(bag=["a", "b"], y=values)).labels
    assert labels.dtype.kind == kind and labels.tolist() == values


def test_npz_files_have_their_own_labels_or_take_a_table(tmp_path):
    np.savez(tmp_path / "bags.npz", X=np.ones((2, 3, 4)), y=["x", "y"])
    collection = st.open_bags(tmp_path / "bags.npz")
    assert collection.labels.tolist() == ["x", "y"] and collection.names is None
    labels = table(bag=[1, 0], label=["one", "zero"])
    assert st.open_bags(tmp_path / "bags.npz", labels=labels).labels.tolist() == ["zero", "one"]


class Everything:
    layout = "anything at all"

    def can_read(self, path):
        return True

    def read(self, path):
        return st.Bags.of([np.zeros((1, 1))]), None


class Chosen:
    layout = "what the column says"

    def __init__(self, label_column=None):
        self.label_column = label_column

    def can_read(self, path):
        return False

    def read(self, path):
        return st.Bags.of([np.zeros((1, 1))]), np.array([self.label_column])


def test_layouts(tmp_path, monkeypatch):
    monkeypatch.setattr(st.READERS, "_kinds", dict(st.READERS._kinds))
    slides(tmp_path / "slides", "a")
    with pytest.raises(InvalidInput, match=r"layout must be one of npz, clam, .*, got 'folder'"):
        st.open_bags(tmp_path / "slides", layout="folder")
    with pytest.raises(InvalidInput, match=r"layout that is known \(.*CLAM.*; .*\), this is not"):
        slides(tmp_path / "parent" / "job" / "h5_files", "a")
        st.open_bags(tmp_path / "parent")  # of a folder of CLAM
    st.READERS.register("everything", Everything)
    with pytest.raises(InvalidInput, match=r"\(hdf5: .*; everything: anything at all\): layout"):
        st.open_bags(tmp_path / "slides")
    assert st.open_bags(tmp_path / "slides", layout="hdf5").names == ("a",)
    assert st.open_bags(tmp_path / "slides", layout="everything").names is None
    st.READERS.register("chosen", Chosen)
    chosen = st.open_bags(tmp_path, layout="chosen", label_column="x")
    assert chosen.labels.tolist() == ["x"]
    with pytest.raises(InvalidInput, match="label_column names a column of a table"):
        st.open_bags(tmp_path / "slides", layout="hdf5", label_column="x")
    with pytest.raises(InvalidInput, match="there is no such file"):
        st.open_bags(tmp_path / "none")


def test_more_than_memory_is_not_loaded(tmp_path, monkeypatch):
    source = st.open_bags(slides(tmp_path, "a", "b")).bags
    monkeypatch.setattr(source_file, "machine_memory", lambda: 2.0 * 6 * 2 * 8 - 2)
    with pytest.raises(InvalidInput, match=r"2 bags take .* GiB, half of the memory is"):
        source.load()
    monkeypatch.setattr(source_file, "machine_memory", lambda: 2.0 * 6 * 2 * 8)
    assert len(source.load()) == 2


def refuse(words):
    raise InvalidInput(words)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Slides of CLAM with a table, two slides a patient; new slides of the same task."""
    folder = tmp_path_factory.mktemp("cohort")
    task = st.Task(6, 1, 6.0)
    old = task.sample(60, 4, rng=0)
    new = task.sample(10, 4, rng=1, signal=old.signal)
    rows = ["case_id,slide_id,label"]
    for index, (tokens, label) in enumerate(zip(old.tokens, old.labels, strict=True)):
        slide(folder / "clam" / "h5_files" / f"s{index:02}.h5", tokens.astype("f2"))
        rows.append(f"p{index // 2},s{index:02}.svs,{'tumor' if label > 0 else 'normal'}")
    for index, tokens in enumerate(new.tokens):
        slide(folder / "new" / f"n{index}.h5", tokens.astype("f2"))
    (folder / "labels.csv").write_text("\n".join(rows))
    return folder, new


def test_fit_and_score_on_folders(cohort, capsys, monkeypatch):
    folder, new = cohort
    monkeypatch.chdir(folder)
    monkeypatch.setattr(st, "estimate_task", lambda *_, **__: refuse("not now"))  # takes long
    command = "fit clam --labels labels.csv --group case_id --poolings attention --folds 2"
    assert main([*command.split(), "--save", "model", "--positive", "tumor"]) == 0
    seen = capsys.readouterr()
    assert "60 bags in 30 groups of 6 to 6 tokens in 4 dimensions" in seen.out
    assert "those labelled tumor" in seen.out
    assert main("score model new --out scores.csv --tokens tokens.csv".split()) == 0
    rows = list(csv.DictReader((folder / "scores.csv").read_text().splitlines()))
    assert [row["bag"] for row in rows] == [f"n{index}" for index in range(10)]
    right = [
        (row["prediction"] == "tumor") == (label > 0)
        for row, label in zip(rows, new.labels, strict=True)
    ]
    assert np.mean(right) >= 0.8
    tokens = list(csv.DictReader((folder / "tokens.csv").read_text().splitlines()))
    assert [row["bag"] for row in tokens[5:7]] == ["n0", "n1"]


def test_groups_reach_the_classifier(cohort, capsys, monkeypatch):
    folder, _ = cohort
    monkeypatch.chdir(folder)
    seen = []
    compare, fit = st.cross_validate, st.TokenPosterior.fit
    monkeypatch.setattr(
        st,
        "cross_validate",
        lambda *a, groups, **k: note(groups) or compare(*a, groups=groups, **k),
    )
    monkeypatch.setattr(
        st.TokenPosterior, "fit", lambda *a, groups: note(groups) or fit(*a, groups=groups)
    )
    monkeypatch.setattr(st, "estimate_task", lambda *_, groups: note(groups) or refuse("enough"))
    note = seen.append
    assert main("fit clam --labels labels.csv --save model2 --poolings pooled".split()) == 0
    assert len(seen) == 3 and all(groups[:3].tolist() == ["p0", "p0", "p1"] for groups in seen)
    assert "Nothing can be estimated or planned: enough" in capsys.readouterr().out


def test_bags_that_are_left_out_are_named(cohort, capsys, monkeypatch):
    folder, _ = cohort
    monkeypatch.chdir(folder)
    monkeypatch.setattr(st, "estimate_task", lambda *_, **__: refuse("not now"))  # takes long
    short = (folder / "labels.csv").read_text().splitlines()
    (folder / "short.csv").write_text("\n".join([*short[:59], "p99,gone.svs,tumor"]))
    command = "fit clam --labels short.csv --poolings pooled --folds 2 --json".split()
    assert main(command) == 2
    words = capsys.readouterr().err
    assert "3 bags cannot be taken (2 unlabelled, 1 missing)" in words and "s58" in words
    assert main([*command, "--leave-out"]) == 0
    seen = capsys.readouterr()
    assert "3 bags are left out" in seen.err and "gone.svs" in seen.err and '"bags": 58' in seen.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--positive tumour", "positive must be one of the labels normal, tumor, got 'tumour'"),
        ("--poolings pooled --pooling joint", "pooling must be one of pooled for these bags"),
    ],
)
def test_slips_of_the_pen_are_told_before_files_are_read(
    cohort, capsys, monkeypatch, options, words
):
    monkeypatch.chdir(cohort[0])
    monkeypatch.setattr(st, "find_duplicates", lambda *_, **__: pytest.fail("files are read"))
    assert main(f"fit clam --labels labels.csv --leave-out {options}".split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("fit clam", "clam: there are no labels: --labels takes a table"),
        ("fit clam --labels none.csv", "none.csv: there is no such file"),
        ("fit clam --labels labels.csv --label-column x", "label_column must be one of the col"),
        ("fit clam --labels labels.csv --group x", "group_column must be one of the columns"),
        ("fit clam --labels labels.csv --layout x", "layout must be one of npz, clam"),
        ("fit clam --slide-table labels.csv", "slide_table needs labels"),
        ("fit clam --group case_id", "group_column names a column of a table"),
        ("fit .", "bags must be in a layout that is known"),
    ],
)
def test_what_goes_wrong_is_one_line(cohort, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(cohort[0])
    assert main(arguments.split()) == 2
    seen = capsys.readouterr().err
    assert seen.count("\n") == 1 and words in seen

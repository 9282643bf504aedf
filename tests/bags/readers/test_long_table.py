"""Tables with a row for each token: read as they stand, or refused in one sentence."""

from __future__ import annotations

import pickle
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from sparsetoken.bags.readers import delimited, long_table, parquet, tables
from sparsetoken.bags.readers.long_table import LongTable
from sparsetoken.support.errors import InvalidInput

ROWS = [  # bags in no order: label, bag, two features
    (1, "b", 0.1, -2.0),
    (0, "a", 1e-300, 3.25),
    (1, "b", 1 / 3, 1e300),
    (0, "ü 1", -0.0, 7.0),
    (0, "a", 5.0, 6.0),
]
TOKENS = {"b": [[0.1, -2.0], [1 / 3, 1e300]], "a": [[1e-300, 3.25], [5.0, 6.0]],
          "ü 1": [[-0.0, 7.0]]}  # fmt: skip


def frame(columns=("label", "bag", "f1", "f2")):
    return pd.DataFrame(ROWS, columns=list(columns))


def check(source, labels, tokens=TOKENS, expected=(1, 0, 0)):
    assert source.names == tuple(tokens)
    assert source.lengths.tolist() == [len(bag) for bag in tokens.values()] and source.dim == 2
    for bag, name in enumerate(source.names):
        np.testing.assert_array_equal(source.read(bag).tokens, tokens[name])
    np.testing.assert_array_equal(source.load().tokens, np.concatenate(list(tokens.values())))
    assert (labels is None) if expected is None else labels.tolist() == list(expected)


def text(rows=ROWS, header="label,bag,f1,f2", comma=",", end="\n"):
    lines = [] if header is None else [header]
    lines += [comma.join(str(cell) for cell in row) for row in rows]
    return end.join(lines) + end


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", text()),
        ("t.CSV", text()),
        ("t.csv", text(end="\r\n")),
        ("t.csv", "\ufeff" + text()),
        ("t.csv", text().rstrip("\n")),
        ("t.csv", text() + "\n\n"),
        ("t.csv", text(header="label;bag;f1;f2", comma=";")),
        ("t.csv", text(header="label\tbag\tf1\tf2", comma="\t")),
        ("t.tsv", text(header="label\tbag\tf1\tf2", comma="\t")),
        ("t.tab", text(header="label\tbag\tf1\tf2", comma="\t", end="\r\n")),
        ("t.csv", text(header=None)),
        ("t.csv", "\ufeff" + text(header=None, end="\r\n")),
        ("t.csv", text(header=" Bag Label , BAG-ID,0,1")),
        ("t.csv", text(header='"y","bag_name","ä, ö","1"')),
        ("t.csv", text([[f'"{cell}"' for cell in row] for row in ROWS])),
    ],
)
def test_text_is_read_as_it_stands(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode())
    check(*LongTable().read(path))
    bags, labels = st.load_bags(path)
    assert bags.lengths.tolist() == [2, 2, 1] and labels.tolist() == [1, 0, 0]


def test_small_blocks_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK", 4)  # two rows
    frame().to_csv(tmp_path / "t.csv", index=False)
    check(*LongTable().read(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_text(text([*ROWS, (0, "a", 1.0, "x")]))
    with pytest.raises(InvalidInput, match="row 6, column 'f2' must have a finite number, got 'x'"):
        LongTable().read(tmp_path / "t.csv")


@pytest.mark.parametrize("size", [None, 1, 2, 3])
def test_parquet_by_row_groups(tmp_path, size):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path, row_group_size=size, index=False)
    source, labels = LongTable().read(path)
    check(source, labels)
    check(pickle.loads(pickle.dumps(source)), labels)


def test_parquet_reads_a_row_group_once(tmp_path, monkeypatch):
    """Bags that follow each other are read in one pass."""
    from pyarrow.parquet import ParquetFile

    path = tmp_path / "t.parquet"
    ordered = pd.DataFrame({"bag": np.repeat(np.arange(40), 3), "f": np.arange(120.0)})
    ordered.to_parquet(path, row_group_size=30, index=False)
    source, labels = LongTable().read(path)
    groups, read = [], ParquetFile.read_row_group

    def counted(self, group, **settings):
        groups.append(group)
        return read(self, group, **settings)

    monkeypatch.setattr(ParquetFile, "read_row_group", counted)
    for room, expected in (
        (0, [0, 1, 2, 3] * 2),
        (10**6, [0, 1, 2, 3]),
    ):  # for groups that are kept
        monkeypatch.setattr(parquet, "_room", lambda room=room: room)
        parquet._kept.clear()
        groups.clear()
        for _ in range(2):
            np.testing.assert_array_equal(source.load().tokens[:, 0], np.arange(120.0))
        assert groups == expected and labels is None
        assert len(parquet._kept) == (1 if room == 0 else 4)


def test_parquet_of_lists_and_precision(tmp_path):
    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    table = pd.DataFrame({"slide_id": ["b", "a", "b", "a", "b"], "embedding": list(values)})
    table.to_parquet(tmp_path / "t.parquet", row_group_size=2, index=False)
    source, labels = LongTable().read(tmp_path / "t.parquet")
    assert source.dim == 2 and labels is None and source.read(0).tokens.dtype == np.float32
    np.testing.assert_array_equal(source.read(0).tokens, values[[0, 2, 4]])
    table["embedding"] = [[1.0], [1.0, 2.0], [3.0], [4.0], [5.0]]
    table.to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.raises(InvalidInput, match="lists of column 'embedding' must have one length"):
        LongTable().read(tmp_path / "t.parquet")


def test_coordinates_and_columns_that_are_no_features(tmp_path):
    table = pd.DataFrame({
        "bag": ["p", "p", "q"], "x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0], "label": [1, 1, 0],
        "instance_label": [0, 1, 0], "patient_id": [7, 7, 8], "f": [0.5, 0.25, 0.125],
    })  # fmt: skip
    for path, index in ((tmp_path / "t.csv", True), (tmp_path / "t.parquet", None)):
        if path.suffix == ".csv":
            table.to_csv(path, index=index)  # with a column of row numbers that has no name
        else:
            table.to_parquet(path, index=True)
        source, labels = LongTable(bag_column="bag").read(path)
        assert source.dim == 1 and labels.tolist() == [1, 0]
        np.testing.assert_array_equal(source.coordinates(0), [[1.0, 4.0], [2.0, 5.0]])
        with pytest.raises(InvalidInput, match="any of 'bag', 'patient_id' may be what is meant"):
            LongTable().read(path)
        other, _ = LongTable(bag_column="patient_id").read(path)
        assert other.names == ("7", "8") and other.dim == 1


@pytest.mark.parametrize(
    ("header", "options", "words"),
    [
        ("bag,x,y,f", {}, "columns x and y may be coordinates, or y the label"),
        ("bag,label,y,f", {}, "label_column must be given: any of 'label', 'y'"),
        ("bag,bag_id,f,g", {}, "bag_column must be given: any of 'bag', 'bag_id'"),
        ("a,b,f,g", {}, "must say which bag a token is of: none of 'a', 'b', 'f', 'g'"),
        ("a,b,f,g", {"bag_column": "c"}, "bag_column must be one of 'a', 'b', 'f', 'g', got 'c'"),
        ("bag,f,g,h", {"label_column": "y"}, "label_column must be one of 'f', 'g', 'h', got 'y'"),
        ("bag,f,f,g", {}, "a name of its own, got 'f' twice"),
        ("bag,label,id,token", {}, "there must be columns with features"),
    ],
)
def test_columns_that_may_be_several_things(tmp_path, header, options, words):
    path = tmp_path / "t.csv"
    path.write_text(header + "\n1,2,3,4\n")
    with pytest.raises(InvalidInput, match=words):
        LongTable(**options).read(path)


def test_what_y_is(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("bag,y,f\na,1,2.5\n")
    assert LongTable().read(path)[1].tolist() == [1]
    path.write_text("bag,x,y,f\na,3,1,2.5\n")
    source, labels = LongTable(label_column="y").read(path)
    assert labels.tolist() == [1] and source.dim == 2 and source.coordinates(0) is None
    path.write_text("bag,coord_x,coord_y,y,f\na,3,4,1,2.5\n")
    source, labels = LongTable().read(path)
    assert labels.tolist() == [1] and source.dim == 1
    np.testing.assert_array_equal(source.coordinates(0), [[3.0, 4.0]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "first line must name the columns, it is empty"),
        (b"\n\n", "first line must name the columns, it is empty"),
        (b"label,bag,f\n", "at least one token, there is none"),
        (b"label,bag,f\n1,a,2\n1,a\n", "row 2, column 'f' must have a finite number"),
        (b"label,bag,f\n1,a,2\n1,a,3,4\n", "row 2 must have 3 columns, it has more"),
        (b"label,bag,f\n1,a,2,3,4\n", "damaged"),
        (b"label,bag,f\n1,a,x\n", "row 1, column 'f' must have a finite number, got 'x'"),
        (b"label,bag,f\n1,a,1,5\n", "row 1 must have 3 columns, it has more"),
        (b"label;bag;f\n1;a;1,5\n", "row 1, column 'f' must have a finite number, got '1,5'"),
        (b"label,bag,f\n1,a,\n", "row 1, column 'f' must have a finite number"),
        (b"label,bag,f\n1,a,2\n1,a,NaN\n", "row 2, column 'f' must have a finite number"),
        (b"label,bag,f\n1,a,-inf\n", "row 1, column 'f' must have a finite number, got '-inf'"),
        (b"label,bag,f\n1,a,1e400\n", "row 1, column 'f' must have a finite number, got '1e400'"),
        (b"label,bag,f\n1,a,yes\n", "row 1, column 'f' must have a finite number, got 'yes'"),
        (b"label,bag,f\n1,a,1_000\n", "row 1, column 'f' must have a finite number, got '1_000'"),
        (
            b"label,bag,f\nlabel,bag,f\n1,a,2\n",
            "row 1, column 'f' must have a finite number, got 'f'",
        ),
        (b"label,bag,f\n1,,2\n", "row 1 must say which bag"),
        (b"label,bag,f\n1,a,2\n1, ,2\n", "row 2 must say which bag"),
        (b"label,bag,f\n1,\xff\xfe,2\n", "not text in UTF-8"),
        ("label,bag,f\n1,a,2\n".encode("utf-16"), "not text"),
        (b"\x00\x01\x02", "not text"),
        (b'label,bag,f\n1,"a,2\n', "damaged"),
        (b"MUSK-1,1_1,42,-198\nMUSK-1,1_2,42,-191\n", "without a header has numbers as labels"),
        (b"PAR1 no parquet PAR1", "must say which bag"),
    ],
)
def test_hostile_text_is_refused_in_a_sentence(tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=words) as caught:
        st.load_bags(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    path.rename(tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match="not a Parquet file, or it is damaged"):
        st.load_bags(tmp_path / "t.parquet")


def test_labels_keep_their_kind(tmp_path):
    for given, kind in (
        (["1", "0"], "i"),
        (["1.5", "2"], "f"),
        (["+", "-"], "U"),
        (["1", "b"], "U"),
        (["99999999999999999999", "1"], "f"),
    ):
        (tmp_path / "t.csv").write_text(f"y,bag,f\n{given[0]},a,1\n{given[1]},b,2\n")
        labels = LongTable().read(tmp_path / "t.csv")[1]
        assert labels.dtype.kind == kind
        if kind == "U":
            assert labels.tolist() == given


def test_damaged_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path, row_group_size=2, index=False)
    whole = path.read_bytes()
    for cut in (0, 3, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InvalidInput, match="damaged"):
            st.load_bags(path)
    for words, table in [
        ("column 'f1' must have numbers, got", frame().assign(f1="x")),
        ("b  doubled  column 'label' is '1' in row 1, '0' in row 3",
         frame().assign(label=[1, 0, 0, 0, 0])),
        ("column 'label' is", frame().assign(label=[1, None, 1, 0, None])),
        ("bag ü 1: Input X contains NaN", frame().assign(f1=[1, 2, 3, None, 4])),
        ("row 4 must say which bag", frame().assign(bag=["b", "a", "b", None, "a"])),
        ("at least one token", frame()[:0]),
    ]:  # fmt: skip
        table.to_parquet(path, index=False)
        with pytest.raises(InvalidInput, match=words):
            st.load_bags(path)


def test_a_parquet_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path, index=False)
    source, _ = LongTable().read(path)
    frame()[:3].to_parquet(path, index=False)
    with pytest.raises(InvalidInput, match="bag b: the file has changed"):
        source.read(0)


def test_what_does_not_fit_is_converted(tmp_path, monkeypatch):
    """The sentence has a command, and the command works."""
    for content in (text(), text(header=None)):
        path = tmp_path / "t.csv"
        path.write_text(content)
        with monkeypatch.context() as small:
            small.setattr(delimited, "free_memory", lambda: 64)
            with pytest.raises(InvalidInput, match="convert the table to Parquet") as caught:
                LongTable().read(path)
        command = shlex.split(str(caught.value).split("at a time: ")[1])
        subprocess.run([sys.executable, *command[1:]], check=True, cwd=tmp_path)
        check(*LongTable().read(tmp_path / "t.parquet"))
    with monkeypatch.context() as small:
        small.setattr(parquet, "free_memory", lambda: 64)
        with pytest.raises(InvalidInput, match="5 rows are more than memory has room for"):
            LongTable().read(tmp_path / "t.parquet")


def test_without_pyarrow_a_sentence(tmp_path, monkeypatch):
    frame().to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InvalidInput, match=r"need pyarrow \(pip install 'sparsetoken\[bags\]'\)"):
        LongTable().read(tmp_path / "t.parquet")


def test_it_recognises_its_own(tmp_path):
    for name, mine in (("t.csv", True), ("t.pq", True), ("t.npz", False), ("t.txt", False)):
        (tmp_path / name).write_text(text())
        assert LongTable().can_read(tmp_path / name) is mine
    (tmp_path / "folder.csv").mkdir()
    assert not LongTable().can_read(tmp_path / "folder.csv")
    reader = st.READERS.make("long-table", bag_column="b", label_column="l", obsm="X_pca")
    assert reader == long_table.LongTable("b", "l")


def test_many_names_are_cut():
    assert tables.in_words([str(k) for k in range(20)]).endswith("'7' and 12 more")


@pytest.mark.parametrize(
    "name",
    ["case_id", "Case ID", "caseid", "group", "patient", "donor", "subject", "age", "fold",
     "split", "site_id", "tile_id", "patch_id", "time", "cluster", "coord_z"],
)  # fmt: skip
@pytest.mark.parametrize("cells", [(11, 12, 13), ("p1", "p2", "p3")])
def test_what_is_known_of_patients_and_tiles_is_no_feature(tmp_path, name, cells):
    """The number of a patient says what the label is: who learns from it learns nothing."""
    table = pd.DataFrame({"slide_id": ["a", "a", "b"], "y": [1, 1, 0], "f0": [0.5, 1.0, 2.0]})
    table.insert(1, name, cells)
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
        collection = st.open_bags(path, bag_column="slide_id")
        assert collection.bags.dim == 1 and collection.names == ("a", "b")
        np.testing.assert_array_equal(collection.bags.load().tokens, [[0.5], [1.0], [2.0]])
        assert len(collection.notes) == 1 and f"column {name!r}" in collection.notes[0]
        assert collection.groups is None


def test_one_coordinate_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("bag,y,coord_x,f0\na,1,5,2.5\n")
    with pytest.raises(InvalidInput, match="column 'coord_x' must come with 'coord_y'"):
        LongTable().read(tmp_path / "t.csv")


def test_left_out_columns_are_told(tmp_path, capsys):
    from sparsetoken.cli.reading import open_noted

    (tmp_path / "t.csv").write_text("bag,y,age,tile_id,f0\na,1,5,7,2.5\n")
    open_noted(str(tmp_path / "t.csv"))
    assert "left out: columns 'age', 'tile_id'" in capsys.readouterr().err


def test_groups_are_a_column_of_the_table(tmp_path):
    """Numbers of patients: never a feature, and bags of one are kept together."""
    table = pd.DataFrame({
        "slide_id": ["a", "a", "b", "c"], "case_id": [7, 7, 8, 7], "y": [1, 1, 0, 1],
        "site": [1, 1, 2, 2], "f0": [0.5, 1.0, 2.0, 3.0],
    })  # fmt: skip
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
        for options in ({}, {"group_column": "case_id"}):
            collection = st.open_bags(path, **options)
            assert collection.groups.tolist() == ["7", "8", "7"] and collection.bags.dim == 1
            assert collection.bags[[2, 1]].groups == ("7", "8")
        assert st.open_bags(path, group_column="site").groups.tolist() == ["1", "2", "2"]
        assert st.open_bags(path, group_column="site").bags.dim == 1
        with pytest.raises(InvalidInput, match="group_column must be one of"):
            st.open_bags(path, group_column="patient")


def test_bags_that_rows_disagree_on_are_problems(tmp_path):
    """All in one table, and the rest can be had."""
    lines = ["slide_id,case_id,y,f0", "a,p,1,1", "b,p,0,2", "b,p,1,3", "c,q,,4", "d,p,0,5",
             "d,q,0,6", "e,,1,7", "f,q,0,8"]  # fmt: skip
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(InvalidInput, match=r"4 bags cannot be taken \(2 doubled, 2 unlabelled\)"):
        st.open_bags(path, group_column="case_id")
    collection = st.open_bags(path, group_column="case_id", leave_out=True)
    assert collection.names == ("a", "f") and collection.labels.tolist() == [1, 0]
    assert collection.groups.tolist() == ["p", "q"]
    assert collection.bags.load().tokens[:, 0].tolist() == [1.0, 8.0]
    assert collection.problems.values.tolist() == [
        ["b", "doubled", "column 'y' is '0' in row 2, '1' in row 3"],
        ["c", "unlabelled", "column 'y' is empty in row 4"],
        ["d", "doubled", "column 'case_id' is 'p' in row 5, 'q' in row 6"],
        ["e", "unlabelled", "column 'case_id' is empty in row 7"],
    ]
    unsure = st.open_bags(path, leave_out=True)
    assert unsure.names == ("a", "d", "e", "f") and unsure.groups is None
    assert "column 'case_id' is not taken for groups: of bag d" in unsure.notes[0]

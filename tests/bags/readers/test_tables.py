"""Tables of labels: every kind of file, every kind of value; only an empty cell is missing."""

from __future__ import annotations

import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pytest

from sparsetoken.bags.readers import table_files
from sparsetoken.bags.readers.label_tables import LabelTable, typed
from sparsetoken.bags.readers.table_files import read_table
from sparsetoken.support.errors import InvalidInput

CLAM = "case_id,slide_id,label\npatient_0,s0,tumor\npatient_1,s1,normal\npatient_1,s2,normal\n"


def text(path, content, encoding="utf-8"):
    path.write_bytes(content.encode(encoding))
    return path


def sheet(path, rows, **more):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for name, others in more.items():
        for row in others:
            (book[name] if name in book else book.create_sheet(name)).append(row)
    book.save(path)
    return path


def content(table):
    return [(row.bag, row.label, row.group) for row in table.rows]


def test_the_table_of_clam(tmp_path):
    table = LabelTable.read(text(tmp_path / "labels.csv", CLAM))
    assert (table.bag_column, table.label_column, table.group_column) == (
        "slide_id", "label", "case_id",
    )  # fmt: skip
    assert content(table)[1] == ("s1", "normal", "patient_1")


@pytest.mark.parametrize(
    "written",
    [
        CLAM.replace(",", ";"),
        CLAM.replace(",", "\t"),
        CLAM.replace("\n", "\r\n"),
        "\ufeff" + CLAM,
        CLAM + "\n\n  \n",
        CLAM.replace("slide_id", ' "slide_id"').replace("s0", '"s0"').replace(' "', '"'),
        CLAM.replace("tumor", " tumor "),
    ],
    ids=["semicolons", "tabs", "windows", "mark", "blank", "quoted", "spaces"],
)
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt"])
def test_text_as_people_write_it(tmp_path, written, ending):
    expected = LabelTable.read(text(tmp_path / "plain.csv", CLAM))
    table = LabelTable.read(text(tmp_path / f"labels{ending}", written))
    assert content(table) == content(expected)


def test_every_kind_of_file_says_the_same(tmp_path):
    frame = pd.DataFrame({"bag": ["a", "b", "c"], "y": [1, 0, 1], "donor": [7, 7, 12]})
    frame.to_csv(tmp_path / "t.csv")  # with the column of an index, which has no name
    frame.to_parquet(tmp_path / "t.parquet")
    sheet(tmp_path / "t.xlsx", [list(frame.columns), *frame.values.tolist()], second=[["x"]])
    expected = [("a", 1, "7"), ("b", 0, "7"), ("c", 1, "12")]
    for source in ("t.csv", "t.parquet", "t.xlsx"):
        assert content(LabelTable.read(tmp_path / source)) == expected
    assert content(LabelTable.read(frame)) == expected


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["0", "1", "2"], [0, 1, 2]),
        (["-1", "+1"], [-1, 1]),
        (["0.5", "1"], [0.5, 1.0]),
        (["True", "false", None], [True, False, None]),
        (["NA", "None", "null", "yes"], ["NA", "None", "null", "yes"]),
        (["1", "nan", "NA", None], [1, None, None, None]),
        (["NA", "NA"], ["NA", "NA"]),
        (["007", "7"], ["007", "7"]),
        (["1" * 25, "2"], ["1" * 25, "2"]),
        (["1", "one"], ["1", "one"]),
        (["1_000", "2"], ["1_000", "2"]),
        (["inf", "1"], ["inf", "1"]),
        ([None, None], [None, None]),
    ],
)
def test_values_of_text(cells, values):
    result = typed(cells, text=True)
    assert result == values and list(map(type, result)) == list(map(type, values))


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ([1, 0, None], [1, 0, None]),
        ([1, 0.5], [1.0, 0.5]),
        ([True, False], [True, False]),
        (["1", "0"], ["1", "0"]),
        ([1, "b"], ["1", "b"]),
        ([True, 1], ["True", "1"]),
        (["NA", "x"], ["NA", "x"]),
    ],
)
def test_values_of_spreadsheets(cells, values):
    result = typed(cells, text=False)
    assert result == values and list(map(type, result)) == list(map(type, values))


def test_data_frames_with_holes():
    frame = pd.DataFrame(
        {"slide": ["a", "b", "c"], "label": pd.array([1, None, 0], "Int64"), "x": [1.0, np.nan, 2]}
    )
    assert [row.label for row in LabelTable.read(frame).rows] == [1, None, 0]
    by_x = LabelTable.read(frame, label_column="x")
    assert [row.label for row in by_x.rows] == [1.0, None, 2.0]


def test_columns(tmp_path):
    path = text(tmp_path / "t.csv", "FILENAME,Patient-ID,isMSIH,note\na.h5,1,MSI,x\n")
    with pytest.raises(
        InvalidInput, match=r"t\.csv: label_column must be one of the columns FILEN"
    ):
        LabelTable.read(path)
    table = LabelTable.read(path, label_column="isMSIH")
    assert content(table) == [("a.h5", "MSI", "1")]
    table = LabelTable.read(path, "note", "isMSIH", "FILENAME")
    assert content(table) == [("x", "MSI", "a.h5")]
    for wrong in ({"bag_column": "b"}, {"label_column": "b"}, {"group_column": "b"}):
        (field,) = wrong
        with pytest.raises(InvalidInput, match=f"{field} must be one of .*, note; got 'b'"):
            LabelTable.read(path, **wrong)
    only = text(tmp_path / "only.csv", "slide,subtype\na,x\n")
    assert content(LabelTable.read(only)) == [("a", "x", None)]
    several = text(tmp_path / "several.csv", "slide,label,target\na,x,y\n")
    with pytest.raises(InvalidInput, match="label and target may be"):
        LabelTable.read(several)
    nameless = text(tmp_path / "nameless.csv", "a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="bag_column must be one of the columns a, b; no name"):
        LabelTable.read(nameless)
    twice = text(tmp_path / "twice.csv", "slide,x,x\n1,2,3\n")
    with pytest.raises(InvalidInput, match=r"label_column must be one of .*; got 'x'"):
        LabelTable.read(twice, label_column="x")


def test_two_tables_of_stamp(tmp_path):
    clinical = sheet(
        tmp_path / "clini.xlsx",
        [["PATIENT", "isMSIH"], ["p1", "MSI"], ["p2", "MSS"], ["p9", "MSS"]],
    )
    slides = text(tmp_path / "slide.csv", "PATIENT,FILENAME\np1,a.h5\np1,b.h5\np2,c.h5\np3,d.h5\n")
    table = LabelTable.read((clinical, slides))
    assert content(table) == [
        ("a.h5", "MSI", "p1"), ("b.h5", "MSI", "p1"), ("c.h5", "MSS", "p2"), ("d.h5", None, "p3"),
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="labels must be one table or two, got 3"):
        LabelTable.read([clinical, slides, slides])
    with pytest.raises(InvalidInput, match=r"clini\.xlsx: group_column .*; got 'ID'"):
        LabelTable.read((clinical, slides), group_column="ID")


@pytest.mark.parametrize(
    ("name", "written", "words"),
    [
        ("t.csv", b"", "the table is empty"),
        ("t.csv", b"\n\n", "the table is empty"),
        ("t.csv", b"slide,label\na,1,2\n", "line 2 has 3 cells, the first line names 2 columns"),
        ("t.csv", b"slide,label\na,\xff\n", "not a table in UTF-8"),
        ("t.csv", b'slide,label\n"a,1\n', "not a table in UTF-8, or it is damaged"),
        ("t.csv", b"slide,label\n" + b"a" * 200_000, "field larger than field limit"),
        ("t.xlsx", b"slide,label\na,1\n", "not a workbook, or it is damaged"),
        ("t.parquet", b"slide,label\na,1\n", "not a Parquet file, or it is damaged"),
        ("t.ods", b"x", "a table must end in one of .csv, .tsv"),
    ],
)
def test_wrong_files(tmp_path, name, written, words):
    (tmp_path / name).write_bytes(written)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_table(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name)) and "\n" not in str(caught.value)


def test_no_such_table(tmp_path):
    with pytest.raises(InvalidInput, match=r"none\.csv: there is no such file"):
        read_table(tmp_path / "none.csv")


def test_sizes_of_tables_are_not_believed(tmp_path, monkeypatch):
    book = sheet(tmp_path / "t.xlsx", [["slide", "label"], ["a", 1]])
    with zipfile.ZipFile(book, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/bomb.xml", bytes(1 << 24))
    far = sheet(tmp_path / "far.xlsx", [["slide", "label"], ["a", 1]])
    changed = {}
    with zipfile.ZipFile(far) as archive:
        for entry in archive.namelist():
            changed[entry] = archive.read(entry).replace(b'r="2"', b'r="99999999999"')
    with zipfile.ZipFile(far, "w") as archive:
        for entry, data in changed.items():
            archive.writestr(entry, data)
    monkeypatch.setattr(table_files, "_MOST_ROWS", 1000)
    with pytest.raises(InvalidInput, match="at most 1000 rows"):
        read_table(far)
    pd.DataFrame({"slide": ["a"] * 100_000}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(table_files, "machine_memory", lambda: 2.0**23)
    with pytest.raises(InvalidInput, match=r"the workbook unpacks to 1[0-9]{7} bytes"):
        read_table(book)
    with pytest.raises(InvalidInput, match="the table unpacks to 800000 bytes"):
        read_table(tmp_path / "t.parquet")
    large = text(tmp_path / "t.csv", "slide,label\n" + "a,1\n" * 200_000)
    with pytest.raises(InvalidInput, match="800012 bytes are too many"):
        read_table(large)


@pytest.mark.parametrize(("library", "ending"), [("openpyxl", "xlsx"), ("pyarrow", "parquet")])
def test_libraries_are_asked_for_by_name(tmp_path, monkeypatch, library, ending):
    (tmp_path / f"t.{ending}").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(InvalidInput, match=rf"needs {library} \(pip install"):
        read_table(tmp_path / f"t.{ending}")

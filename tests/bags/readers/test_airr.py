"""Repertoires: sequences of amino acids by an encoder, in the layouts of AIRR and DeepRC."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from sparsetoken.bags.readers.airr import Airr
from sparsetoken.bags.readers.kmers import KmerEncoder
from sparsetoken.support.errors import InvalidInput

AIRR = (
    "sequence_id\tsequence\tproductive\tjunction_aa\tduplicate_count\n"
    "s1\tTGT\tT\tCASSF\t3\n"
    "s2\tTGT\tF\tCAS*SF\t1\n"  # not productive
    "s3\tTGT\tT\t\t2\n"  # not known
    "s4\tTGT\tT\tcawtf\t1\n"
)


def lengths_and_first(sequences):
    """An encoder: how long a sequence is, and the place of its second letter."""
    return np.array([[len(word), ord(word[1])] for word in sequences], dtype=np.float32)


def deep_rc(folder, inner="repertoires"):
    """The folder that DeepRC's documentation describes."""
    (folder / inner).mkdir(parents=True, exist_ok=True)
    for name, rows in {"HIP2": ["CASSL\t6", "CASSY\t1839"], "HIP1": ["CAS\t1"]}.items():
        (folder / inner / f"{name}.tsv").write_text("\n".join(["amino_acid\ttemplates", *rows]))
    (folder / "metadata.tsv").write_text("ID\tstatus\nHIP1\t-\nHIP2\t+")
    return folder


def test_a_folder_of_airr_tables(tmp_path):
    (tmp_path / "a.tsv").write_text(AIRR)
    (tmp_path / "b.tsv").write_bytes(AIRR.replace("\n", "\r\n").encode("utf-8-sig"))
    source, labels = Airr(encoder=lengths_and_first).read(tmp_path)
    assert source.names == ("a", "b") and source.lengths.tolist() == [2, 2] and labels is None
    for bag in (0, 1):
        np.testing.assert_array_equal(source.read(bag).tokens, [[5, 65], [5, 65]])
        assert source.coordinates(bag) is None
    assert pickle.loads(pickle.dumps(source)).load().tokens.shape == (4, 2)
    bags, labels = st.load_bags(tmp_path)  # by the default encoder
    assert bags.dim == 216 and bags.lengths.tolist() == [2, 2] and labels is None


@pytest.mark.parametrize("inner", ["", "repertoires"])
def test_a_folder_of_deep_rc(tmp_path, inner):
    source, labels = Airr(encoder=lengths_and_first).read(deep_rc(tmp_path, inner))
    assert source.names == ("HIP1", "HIP2") and labels.tolist() == ["-", "+"]
    assert source.lengths.tolist() == [1, 2]
    (tmp_path / "metadata.tsv").write_text(
        "who\tfilename\tdisease\tage\n1\tHIP2.tsv\t1\t3\n2\tHIP1.tsv\t0\t4\n"
    )
    assert Airr().read(tmp_path)[1].tolist() == [0, 1]
    reader = Airr(bag_column="filename", label_column="age")
    assert reader.read(tmp_path)[1].tolist() == [4, 3]
    (tmp_path / "metadata.tsv").write_text("ID\tage\nHIP1\t3\n")
    assert Airr().read(tmp_path)[1] is None


def test_one_table_of_many_repertoires(tmp_path):
    path = tmp_path / "all.tsv"
    path.write_text(
        "repertoire_id\tjunction_aa\tcdr3_aa\tsick\n"
        "r2\tCASSF\tASS\t1\nr1\tCAF\tA\t0\nr2\tCTTF\tTT\t1\n"
    )
    source, labels = Airr(encoder=lengths_and_first, label_column="sick").read(path)
    assert source.names == ("r2", "r1") and labels.tolist() == [1, 0]
    np.testing.assert_array_equal(source.read(0).tokens, [[5, 65], [4, 84]])
    np.testing.assert_array_equal(source.read(1).tokens, [[3, 65]])
    bags, labels = st.load_bags(path)
    assert bags.lengths.tolist() == [2, 1] and labels is None
    source, _ = Airr(column="cdr3_aa", encoder=KmerEncoder(1)).read(path)
    np.testing.assert_allclose(source.read(0).tokens, [[1, 0, 0, 0, 0, 0]] * 2, rtol=1e-6)


def test_it_recognises_its_own(tmp_path):
    assert not Airr().can_read(tmp_path)
    (tmp_path / "t.tsv").write_text("bag\tlabel\tf\na\t1\t2\n")
    assert not Airr().can_read(tmp_path) and not Airr().can_read(tmp_path / "t.tsv")
    assert st.load_bags(tmp_path / "t.tsv").labels.tolist() == [1]
    (tmp_path / "t.tsv").write_text(AIRR)
    assert Airr().can_read(tmp_path) and not Airr().can_read(tmp_path / "t.tsv")
    assert Airr(bag_column="sequence_id").can_read(tmp_path / "t.tsv")
    (tmp_path / "t.tsv").write_bytes(b"\0\0")
    assert not Airr().can_read(tmp_path)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (AIRR, {"column": "cdr3"}, r"amino acids must be there .'cdr3'., got 'sequence_id'"),
        ("v_call\tj_call\nx\ty\n", {}, "amino acids must be there .'junction_aa', 'cdr3_aa', 'ami"),
        ("junction_aa\tn\n", {}, "the repertoire has no sequence in column 'junction_aa'"),
        ("junction_aa\tn\n\t1\n\t2\n", {}, "the repertoire has no sequence"),
        ("junction_aa\tproductive\nCASF\tF\n", {}, "the repertoire has no sequence"),
        ("junction_aa\tn\nCASF\t1\nCAS*F\t1\n", {}, r"row 2 must have letters .*'\*' in 'CAS\*F'"),
        ("junction_aa\tn\nCAXF\t1\n", {}, "row 1 must have letters of the 20 amino acids, got 'X'"),
        ("junction_aa\tn\nCÄF\t1\n", {}, "row 1 must have letters of the 20 amino acids, got 'Ä'"),
        ("junction_aa\tn\n17\t1\n", {}, "row 1 must have letters"),
        ("junction_aa\tn\nCA\t1\n", {}, "at least k=3 letters, got 'CA'"),
        ("junction_aa\tn\nCASF\t1\tmore\n", {}, "row 1 must have 2 columns, it has more"),
        ("junction_aa\tjunction_aa\nCASF\tCAF\n", {}, None),
        ("", {}, "the first line must name the columns, it is empty"),
    ],
)
def test_hostile_tables_are_refused_in_a_sentence(tmp_path, content, options, words):
    (tmp_path / "r.tsv").write_text(content)
    if words is None:  # the first of two columns of one name
        assert Airr().read(tmp_path)[0].lengths.tolist() == [1]
        return
    (tmp_path / "well.tsv").write_text("junction_aa\tcdr3\tn\nCASSF\tASS\t1\n")
    with pytest.raises(InvalidInput, match=words) as caught:
        st.open_bags(tmp_path, layout=Airr(**options)).readable()
    assert len(str(caught.value).splitlines()) == 2 and "1 unreadable" in str(caught.value)
    left = st.open_bags(tmp_path, layout=Airr(**options), leave_out=True).readable(leave_out=True)
    assert left.names == ("well",)


def told(folder):
    """What is wrong with which repertoires, and the labels of the others."""
    source, labels = Airr(encoder=lengths_and_first).read(folder)
    assert len(source) == len(labels) == len(source.keys)
    known = {problem.bag: (problem.problem, problem.explanation) for problem in source.problems}
    return dict(zip(source.names, labels.tolist(), strict=True)), known


@pytest.mark.parametrize(
    ("rows", "labels", "problems"),
    [
        ("HIP1\t-", {"HIP1": "-"}, {"HIP2": "unlabelled: metadata.tsv: there is no row for it"}),
        ("HIP1\t-\nHIP2\t", {"HIP1": "-"},
         {"HIP2": "unlabelled: metadata.tsv: column 'status' is empty in row 2"}),
        ("HIP2\t-\nHIP1\t-\nHIP1\t+", {"HIP2": "-"},
         {"HIP1": "doubled: metadata.tsv: column 'status' is '-' in row 2, '+' in row 3"}),
        ("HIP1\t0\nother\t1\nnobody\t\nHIP2\t2", {"HIP1": 0, "HIP2": 2},
         {name: "missing: metadata.tsv has a row for it, there is no file"
          for name in ("other", "nobody")}),
    ],
)  # fmt: skip
def test_all_that_is_wrong_is_listed(tmp_path, rows, labels, problems):
    deep_rc(tmp_path)
    (tmp_path / "metadata.tsv").write_text(f"ID\tstatus\n{rows}\n")
    known, found = told(tmp_path)
    assert known == labels and {name: ": ".join(words) for name, words in found.items()} == problems
    with pytest.raises(InvalidInput, match=f"{len(problems)} bags? cannot be taken"):
        st.open_bags(tmp_path)
    (tmp_path / "HIP1.tsv").write_text("amino_acid\nCASF\n")  # a second one
    assert told(tmp_path)[1]["HIP1"][0] == "doubled"
    (tmp_path / "repertoires" / "HIP2.tsv").write_bytes(b"")
    assert told(tmp_path)[1]["HIP2"][0] == "unreadable"


def test_metadata_that_does_not_fit(tmp_path):
    for content, words in [
        ("n\tstatus\n1\t-\n", "metadata.tsv: a column must have the names of repertoires"),
        ("ID\tstatus\tlabel\nHIP1\t-\t+\n", "metadata.tsv: label_column must be given"),
    ]:
        deep_rc(tmp_path)
        (tmp_path / "metadata.tsv").write_text(content)
        with pytest.raises(InvalidInput, match=words):
            Airr().read(tmp_path)


def test_links_that_lead_out_are_not_followed(tmp_path):
    (tmp_path / "secret.tsv").write_text(AIRR)
    folder = deep_rc(tmp_path / "folder")
    (folder / "a.tsv").symlink_to(tmp_path / "secret.tsv")
    with pytest.raises(
        InvalidInput, match=r"a +unreadable +the file is a link that leads out of the folder"
    ):
        st.load_bags(folder)


def test_an_encoder_must_make_a_row_for_each_sequence(tmp_path):
    (tmp_path / "r.tsv").write_text(AIRR)
    for encoder in (
        lambda words: np.ones(2),
        lambda words: np.ones((1, 3)),
        lambda words: np.ones((2, 0)),
    ):
        with pytest.raises(InvalidInput, match=r"the encoder must make an array \(2, d\)"):
            Airr(encoder=encoder).read(tmp_path)


def test_kmers_are_counted():
    """Against a count with dictionaries."""
    kinds = {letter: k for k, kind in enumerate(["AGPST", "C", "DENQ", "HKR", "ILMV", "FWY"])
             for letter in kind}  # fmt: skip
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list(kinds), size)) for size in (4, 9, 17)]
    for k in (1, 2, 3, 4):
        frequencies = KmerEncoder(k)(words)
        assert frequencies.shape == (3, 6**k)
        np.testing.assert_allclose(frequencies.sum(axis=1), 1, rtol=1e-5)
        for word, row in zip(words, frequencies, strict=True):
            counts = np.zeros((6,) * k)
            for start in range(len(word) - k + 1):
                counts[tuple(kinds[letter] for letter in word[start : start + k])] += 1
            np.testing.assert_allclose(row, counts.ravel() / counts.sum(), rtol=1e-5)
    with pytest.raises(InvalidInput, match="got 'B' in 'CAB'"):
        KmerEncoder()(["CAB"])
    with pytest.raises(InvalidInput, match="k must be a whole number between 1 and 4, got 5"):
        KmerEncoder(5)


def test_a_reader_itself_is_a_layout(tmp_path):
    """With an encoder of one's own; labels may come from a table."""
    deep_rc(tmp_path)
    own = Airr(encoder=lengths_and_first)
    collection = st.open_bags(tmp_path, layout=own)
    expected, labels = own.read(tmp_path)
    np.testing.assert_array_equal(collection.bags.load().tokens, expected.load().tokens)
    assert collection.labels.tolist() == labels.tolist()
    table = pd.DataFrame({"bag": collection.names, "label": ["x", "y"]})
    assert st.open_bags(tmp_path, layout=own, labels=table).labels.tolist() == ["x", "y"]
    with pytest.raises(InvalidInput, match="label_column must be None where layout is a reader"):
        st.open_bags(tmp_path, layout=own, label_column="status")
    for wrong in (Airr, 3):
        with pytest.raises(InvalidInput, match="layout must be one of npz"):
            st.open_bags(tmp_path, layout=wrong)

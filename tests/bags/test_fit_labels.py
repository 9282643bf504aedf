"""sparsetoken fit and score: which label is the signal, several labels, which poolings."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sparsetoken as st
from sparsetoken.cli import main, poolings
from sparsetoken.cli.bags import Fit
from sparsetoken.cli.output import Voice
from sparsetoken.cli.pilots import Labelled
from sparsetoken.cli.reading import label_of
from sparsetoken.support.errors import InvalidInput


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Bags of digits with a four and without; with a 3, a 7 or a 9."""
    folder = tmp_path_factory.mktemp("digits")
    images, names = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)

    def bags(others, digits):
        tokens = images[rng.choice(np.flatnonzero(np.isin(names, others)), (len(digits), 8))]
        for bag, digit in enumerate(digits):
            if digit is not None:
                tokens[bag, rng.integers(8)] = images[rng.choice(np.flatnonzero(names == digit))]
        return tokens

    four = rng.random(90) < 0.5
    tokens = bags([0, 1, 2, 3, 5, 6, 7, 8, 9], [4 if one else None for one in four])
    np.savez(folder / "four.npz", X=tokens, y=np.where(four, "has4", "no4"))
    which = np.array([3, 7, 9])[rng.integers(0, 3, 90)]
    np.savez(folder / "three.npz", X=bags([0, 1, 2, 4, 5, 6, 8], which), y=which)
    return folder


def fit(folder, capsys, name, *options):
    assert main(["fit", str(folder / name), "--folds", "2", *options]) == 0
    return capsys.readouterr()


@pytest.mark.slow
def test_the_label_is_chosen(files, capsys):
    """With has4 the signal is found."""
    options = ["--poolings", "attention", "--json", "--no-progress"]
    seen = fit(files, capsys, "four.npz", "--positive", "has4", *options)
    content = json.loads(seen.out)
    assert content["positive"] == "has4" and content["pilot"]["task"]["sparsity"] == 1
    assert all(" bags: " in warning for warning in content["plan"]["warnings"])
    assert seen.err == ""


def test_the_label_is_said_and_so_is_what_is_done(files, capsys):
    """With no4, which the alphabet takes, theory is wrong, and what was measured is said."""
    seen = fit(files, capsys, "four.npz", "--poolings", "attention")
    assert "those labelled no4; --positive has4 takes others" in seen.out
    assert "A signal is there" in seen.out
    assert "theory alone is too bad for attention" in seen.out
    assert "attention" in seen.err and "2/2" in seen.err
    assert "looking for copies of bags" in seen.err
    assert "estimating what is in the bags" in seen.err


@pytest.mark.slow
def test_the_warnings_of_the_plan_are_printed(tmp_path, capsys):
    """Few bags: the error is a mean over training sets that differ much."""
    sample = st.Task(8, 1, 6.0).sample(24, 16, rng=0)
    np.savez(tmp_path / "few.npz", X=sample.tokens, y=sample.labels)
    words = fit(tmp_path, capsys, "few.npz", "--poolings", "pooled").out
    assert "Errors with more labelled bags, with 90% intervals" in words
    assert "Warning for 24 bags: " in words


def test_several_labels_are_compared_and_scored(files, capsys, tmp_path):
    options = ["--poolings", "attention,pooled", "--save", str(tmp_path / "model")]
    words = fit(files, capsys, "three.npz", *options).out
    assert "3 labels, each the signal in turn against the rest" in words
    assert "Nothing is estimated or planned for several labels; --positive LABEL" in words
    with np.load(files / "three.npz") as content:
        tokens, labels = content["X"], content["y"]
    classifier = st.load_classifier(tmp_path / "model")
    assert isinstance(classifier, st.AttentionClassifier)
    out = tmp_path / "tokens.csv"
    arguments = ["score", str(tmp_path / "model"), str(files / "three.npz")]
    assert main([*arguments, "--tokens", str(out)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    chances = np.array([[float(row[f"probability_{k}"]) for k in (3, 7, 9)] for row in rows])
    np.testing.assert_allclose(chances, classifier.predict_proba(tokens), rtol=1e-8)
    assert np.mean([int(row["prediction"]) for row in rows] == labels) > 0.9
    each = list(csv.DictReader(out.read_text().splitlines()))
    attention = np.array([float(row["attention_7"]) for row in each]).reshape(90, 8)
    np.testing.assert_allclose(attention, classifier.attention(tokens, label=7), rtol=1e-8)


@pytest.mark.slow
def test_of_several_labels_one_is_planned_for(files, capsys):
    options = ["--positive", "7", "--poolings", "pooled", "--json"]
    content = json.loads(fit(files, capsys, "three.npz", *options).out)
    assert content["positive"] == 7
    with np.load(files / "three.npz") as arrays:
        assert content["pilot"]["prevalence"]["value"] == pytest.approx(np.mean(arrays["y"] == 7))


def test_scores_are_those_of_the_signal(files, capsys, tmp_path):
    with np.load(files / "four.npz") as content:
        tokens, labels = content["X"], content["y"]
    classifier = st.AttentionClassifier(positive="has4").fit(tokens, labels)
    st.save_classifier(classifier, tmp_path / "model")
    assert main(["score", str(tmp_path / "model"), str(files / "four.npz")]) == 0
    seen = capsys.readouterr()
    assert "probabilities and scores are those of the label has4" in seen.err
    rows = list(csv.DictReader(seen.out.splitlines()))
    scores = np.array([float(row["score"]) for row in rows])
    np.testing.assert_allclose(scores, -classifier.decision_function(tokens), rtol=1e-8)
    chances = np.array([float(row["probability"]) for row in rows])
    np.testing.assert_allclose(chances, classifier.predict_proba(tokens)[:, 0], rtol=1e-8)


def test_tokens_of_statistics_are_refused_in_one_line(files, capsys, tmp_path):
    with np.load(files / "four.npz") as content:
        classifier = st.StatisticsClassifier(inverse_width=0.0).fit(content["X"], content["y"])
    st.save_classifier(classifier, tmp_path / "model")
    arguments = ["score", str(tmp_path / "model"), str(files / "four.npz")]
    assert main([*arguments, "--tokens", str(tmp_path / "tokens.csv")]) == 2
    seen = capsys.readouterr()
    assert seen.out == "" and "contributions of tokens are not defined for statistics" in seen.err
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert main(arguments) == 0


@pytest.mark.parametrize(
    ("labels", "words", "label"),
    [
        (["a", "b"], "b", "b"),
        ([1, 2], "2", 2),
        ([0.0, 1.0], "1", 1.0),
        ([0, 1], "1.0", 1),
        ([False, True], "True", True),
        ([False, True], "0", False),
        (["1", "1.0"], "1.0", "1.0"),
    ],
)
def test_labels_of_any_kind_are_named_in_words(labels, words, label):
    assert label_of(np.array(labels), words) == label


def test_a_label_that_is_not_there_is_refused():
    with pytest.raises(InvalidInput, match="one of the labels 1, 2, got 'x'"):
        label_of(np.array([1, 2]), "x")
    with pytest.raises(InvalidInput, match="one of the labels a, b, got '1'"):
        label_of(np.array(["a", "b"]), "1")


TWO = Labelled(st.Bags.of(np.ones((2, 2, 2))), np.arange(2), None)
SECONDS = {"pooled": 2.0, "attention": 15.0, "joint": 580.0, "statistics": 0.5}


@pytest.mark.parametrize(
    ("options", "compared", "words"),
    [
        (
            {},
            ["pooled", "attention", "statistics"],
            "joint about 580 s: left out; --poolings joint",
        ),
        ({"pooling": "joint"}, list(SECONDS), "joint about 580 s, statistics about 1 s"),
        ({"poolings": ("attention,joint",)}, ["attention", "joint"], None),
        ({"poolings": ("attention", "joint")}, ["attention", "joint"], None),
    ],
)
def test_what_takes_by_far_the_most_time_is_left_out(monkeypatch, capsys, options, compared, words):
    monkeypatch.setattr(poolings, "_LARGE", 0)
    monkeypatch.setattr(st, "rehearse_poolings", lambda *_, **__: SECONDS)
    assert Fit("x", **options)._poolings(TWO, Voice(json=False, quiet=False)) == compared
    seen = capsys.readouterr().err
    assert seen == "" if words is None else words in seen


@pytest.mark.parametrize(
    ("others", "spent", "dominates"),
    [(1.0, 59.0, False), (1.0, 61.0, True), (100.0, 190.0, False), (100.0, 210.0, True)],
)
def test_more_than_a_minute_and_twice_all_others_dominates(others, spent, dominates):
    seconds = {"pooled": others / 2, "attention": others / 2, "joint": spent}
    assert poolings.dominates("joint", seconds) is dominates


def test_few_numbers_are_not_rehearsed(monkeypatch):
    monkeypatch.setattr(st, "rehearse_poolings", lambda *_, **__: 1 / 0)
    assert Fit("x")._poolings(TWO, Voice(json=False, quiet=False)) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--positive", "has5"], "fit: positive must be one of the labels has4, no4, got 'has5'"),
        (["--poolings", "forest"], "poolings must be names among pooled, attention, joint"),
        (["--poolings", "pooled", "--pooling", "joint"], "pooling must be one of pooled for these"),
    ],
)
def test_wrong_choices_are_one_line(files, capsys, options, words):
    arguments = ["fit", str(files / "four.npz"), "--no-progress", "--folds", "2", *options]
    assert main(arguments) == 2
    seen = capsys.readouterr().err
    assert words in seen and seen.count("\n") == 1


def test_one_label_is_refused(tmp_path, capsys):
    np.savez(tmp_path / "one.npz", X=np.ones((3, 2, 2)), y=["a", "a", "a"])
    assert main(["fit", str(tmp_path / "one.npz")]) == 2
    assert "y must have labels of two kinds, got a alone" in capsys.readouterr().err

"""sparsetoken fit and score: a story from labelled bags to scored tokens, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.cli import main


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Labelled bags, new bags of the same task, and the truth of those."""
    folder = tmp_path_factory.mktemp("bags")
    task = st.Task(8, 1, 5.0, prevalence=0.4)
    old = task.sample(150, 8, rng=0)
    new = task.sample(60, 8, rng=1, signal=old.signal)
    words = np.where(old.labels > 0, "sick", "healthy")
    np.savez(folder / "old.npz", X=old.tokens.reshape(-1, 8), offsets=np.arange(151) * 8, y=words)
    np.savez_compressed(folder / "new.npz", X=new.tokens.astype(np.float32))
    return folder, new


@pytest.fixture(scope="module")
def model(files):
    """A saved classifier."""
    folder, _ = files
    with np.load(folder / "old.npz") as old:
        tokens, labels = old["X"].reshape(150, 8, 8), old["y"]
    st.save_classifier(st.AttentionClassifier().fit(tokens, labels), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def fitted(files):
    """The classifier of `fit --save`, and what the command said."""
    folder, _ = files
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        arguments = ["fit", str(folder / "old.npz"), "--save", str(folder / "told")]
        assert main([*arguments, "--target-error", "0.1", "--folds", "3"]) == 0
    return folder / "told", out.getvalue()


@pytest.mark.slow
def test_fit_tells_the_whole_story(fitted):
    saved, words = fitted
    assert isinstance(st.load_classifier(saved), st.AttentionClassifier)
    assert "150 bags of 8 to 8 tokens in 8 dimensions" in words
    assert "Bags with a signal are those labelled sick; --positive healthy takes others" in words
    for name in (
        "larger class",
        "pooled",
        "attention",
        "joint",
        "posterior",
        "vectorized",
        "statistics",
    ):
        assert name in words
    assert "A signal is there" in words and "by theory alone" in words
    assert "Errors with more labelled bags, with 90% intervals" in words and "1200" in words
    assert "labelled bags give" in words  # of the plan for the target


def test_score_writes_predictions_and_tokens(files, model, capsys):
    folder, new = files
    out, tokens = folder / "predictions.csv", folder / "tokens.csv"
    arguments = ["score", str(model), str(folder / "new.npz")]
    assert main([*arguments, "--out", str(out), "--tokens", str(tokens)]) == 0
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == out.read_text().splitlines()
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 60 and [row["bag"] for row in rows[:2]] == ["0", "1"]
    right = [
        (row["prediction"] == "sick") == (label > 0)
        for row, label in zip(rows, new.labels, strict=True)
    ]
    assert np.mean(right) > 0.85
    classifier = st.load_classifier(model)
    scores = classifier.decision_function(new.tokens.astype(np.float32))
    np.testing.assert_allclose([float(row["score"]) for row in rows], scores, rtol=1e-8)
    chances = np.array([float(row["probability"]) for row in rows])
    np.testing.assert_allclose(chances, 1 / (1 + np.exp(-scores)), rtol=1e-8)
    each = list(csv.DictReader(tokens.read_text().splitlines()))
    assert len(each) == 60 * 8
    parts = np.array([float(row["contribution"]) for row in each]).reshape(60, 8)
    totals = parts.sum(axis=1) + classifier.intercept_
    np.testing.assert_allclose(totals, scores, atol=1e-5)  # tokens are in single precision
    attention = np.array([float(row["attention"]) for row in each]).reshape(60, 8)
    np.testing.assert_allclose(attention.sum(axis=1), 1.0, atol=1e-8)
    positive = new.labels > 0
    found = np.take_along_axis(new.places, attention.argmax(axis=1)[:, None], axis=1)[:, 0]
    assert found[positive].mean() > 0.9


@pytest.mark.slow
def test_json_and_a_pooling_of_choice(files, capsys):
    folder, _ = files
    arguments = ["fit", str(folder / "old.npz"), "--json", "--folds", "3"]
    save = ["--save", str(folder / "other"), "--pooling", "pooled"]
    assert main([*arguments, *save]) == 0
    content = json.loads(capsys.readouterr().out)
    names = [row["pooling"] for row in content["comparison"]]
    assert names == [
        "larger class", "pooled", "attention", "joint", "posterior", "vectorized", "statistics",
    ]  # fmt: skip
    assert content["positive"] == "sick"
    errors = {row["pooling"]: row["error"] for row in content["comparison"]}
    assert errors["attention"] < errors["pooled"] < errors["larger class"] + 0.05
    assert content["pilot"]["task"]["sparsity"] == 1
    assert content["pilot"]["strength"]["low"] < 5.0 < content["pilot"]["strength"]["high"]
    more = [row["attention_value"] for row in content["plan"]["more"]]
    assert more == sorted(more, reverse=True)
    assert content["saved"]["classifier"] == "pooled"
    assert isinstance(st.load_classifier(folder / "other"), st.PooledClassifier)


def test_noise_and_few_bags_are_said_plainly(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 7, 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.standard_normal((offsets[-1], 4))
    np.savez(tmp_path / "noise.npz", X=tokens, offsets=offsets, y=np.arange(60) % 2)
    assert main(["fit", str(tmp_path / "noise.npz"), "--folds", "2"]) == 0
    words = capsys.readouterr().out
    assert "No signal was found" in words and "Predicted" not in words
    assert "vectorized needs bags of one length" in words
    few = {"X": rng.standard_normal((8, 3, 4)), "y": np.arange(8) % 2}
    np.savez(tmp_path / "few.npz", **few)
    assert main(["fit", str(tmp_path / "few.npz"), "--folds", "2"]) == 0
    words = capsys.readouterr().out
    assert "Nothing can be estimated or planned" in words and "at least 8 bags" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "none.npz"], "none.npz: there is no such file"),
        (["fit", "new.npz"], "there are no labels: --labels takes a table"),
        (
            ["fit", "old.npz", "--save", "nowhere/model"],
            "fit: save must be a file that is new or regular",
        ),
        (["fit", "old.npz", "--save", "."], "fit: save must be a file"),
        (["fit", "old.npz", "--folds", "1"], "folds must be a whole number"),
        (["fit", "text.npz"], "not an npz file, or it is damaged"),
        (["score", "old.npz", "new.npz"], "not a saved classifier"),
        (["score", "model", "thin.npz"], "expecting 8 features"),
        (["score", "model", "new.npz", "--tokens", "x/y.csv"], "score: tokens must be a file"),
    ],
)
def test_what_goes_wrong_is_one_line(files, model, capsys, monkeypatch, arguments, words):
    folder, _ = files
    monkeypatch.chdir(folder)
    (folder / "text.npz").write_text("not a zip file")
    np.savez(folder / "thin.npz", X=np.ones((2, 2, 3)))
    before = sorted(path.name for path in folder.iterdir())
    assert main(arguments) == 2
    seen = capsys.readouterr()
    assert seen.err.count("\n") == 1
    assert re.search(words, seen.err), seen.err
    assert sorted(path.name for path in folder.iterdir()) == before  # nothing lost, nothing left

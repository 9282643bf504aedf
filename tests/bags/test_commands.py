"""What the commands of bags say of themselves, and refuse before they work."""

from __future__ import annotations

import shlex

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from sparsetoken.cli import main, parsed, poolings
from sparsetoken.cli.bags import Fit
from sparsetoken.cli.output import Voice
from sparsetoken.cli.pilots import Labelled


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"leave_out": True, "layout": "trident", "save": "a model"},
        {"merge": True, "group": "case id", "max_tokens": 50, "save": "m"},
        {"poolings": ("attention,joint",), "pooling": "joint", "target_auc": 0.9},
        {"positive": "-1", "leave_out": True, "save": "m", "max_tokens": 9, "bag_column": "which"},
    ],
)
def test_a_reported_command_is_what_was_asked_for(options):
    fit = Fit("my bags", **options)
    first, *others = fit._commands
    assert parsed(shlex.split(first)[1:]) == fit
    for other in others:
        score = parsed(shlex.split(other)[1:])
        assert (score.model, score.bags) == (fit.save, fit.bags)
        assert (score.layout, score.leave_out) == (fit.layout, fit.leave_out)
        assert (score.max_tokens, score.bag_column) == (fit.max_tokens, fit.bag_column)
        assert (score.group, score.merge) == (fit.group, fit.merge)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A classifier with probabilities of tokens, and bags on disk."""
    folder = tmp_path_factory.mktemp("scored")
    sample = st.Task(6, 1, 6.0).sample(80, dim=4, rng=0)
    classifier = st.PooledClassifier().fit(sample.tokens, sample.labels)
    tokens = st.TokenPosterior().fit(sample.tokens, sample.labels)
    st.save_classifier(classifier, folder / "model", tokens)
    (folder / "bags").mkdir()
    for bag in range(3):
        np.save(folder / "bags" / f"b{bag}.npy", sample.tokens[bag])
    rows = [[f"b{b}", 1, *token] for b in range(3) for token in sample.tokens[b]]
    columns = ["which", "label", *(f"f{k}" for k in range(4))]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "bags.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--maps", "file"], "score: maps must be a folder, or one that can be made"),
        (
            ["--maps", "maps", "--rate", "1.5"],
            "score: rate must be a number above 0 and below 1, got 1.5",
        ),
    ],
)
def test_where_maps_go_is_checked_before_bags_are_read(scored, tmp_path, monkeypatch, capsys,
                                                       options, words):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(st.BagSource, "read", lambda *_: pytest.fail("a bag was read"))
    monkeypatch.setattr(st.BagSource, "load", lambda *_: pytest.fail("bags were read"))
    assert main(["score", str(scored / "model"), str(scored / "bags"), *options]) == 2
    assert words in capsys.readouterr().err


def test_a_score_is_one_pass(scored, tmp_path, monkeypatch):
    monkeypatch.setattr(st.BagSource, "fits", False)
    runs, run = [], st.BagSource.run

    def counted(self, kernel):
        runs.append(kernel.words)
        return run(self, kernel)

    monkeypatch.setattr(st.BagSource, "run", counted)
    arguments = ["score", str(scored / "model"), str(scored / "bags"), "--out"]
    assert main([*arguments, str(tmp_path / "streamed.csv")]) == 0
    assert len(runs) == 1
    monkeypatch.undo()
    assert main([*arguments, str(tmp_path / "loaded.csv")]) == 0
    streamed, loaded = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("streamed", "loaded"))
    pd.testing.assert_frame_equal(streamed, loaded, rtol=1e-9)


def test_score_knows_columns_and_takes_fewer_tokens(scored, tmp_path):
    arguments = ["score", str(scored / "model"), str(scored / "bags.csv"), "--bag-column", "which"]
    assert main([*arguments, "--max-tokens", "2", "--out", str(tmp_path / "s.csv")]) == 0
    table = pd.read_csv(tmp_path / "s.csv")
    assert table.bag.tolist() == ["b0", "b1", "b2"] and table.tokens.tolist() == [2, 2, 2]


@pytest.mark.parametrize("large", [False, True])
def test_poolings_that_need_memory_are_named(scored, monkeypatch, capsys, large):
    """In one line, whether or not it was estimated how long others take."""
    monkeypatch.setattr(st.BagSource, "fits", False)
    monkeypatch.setattr(poolings, "_LARGE", 0 if large else 1 << 21)
    names = "pooled", "attention", "statistics"
    monkeypatch.setattr(st, "rehearse_poolings", lambda *_, **__: dict.fromkeys(names, 1.0))
    bags = st.open_bags(scored / "bags").bags
    labelled, voice = Labelled(bags, np.arange(3) % 2, None), Voice(json=False, quiet=False)
    if Fit("bags")._poolings(labelled, voice) is None:
        poolings.say_absent(names, voice)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert "joint and posterior would need all bags in memory; vectorized needs" in line


@pytest.mark.slow
def test_what_fewer_tokens_cost_is_said(tmp_path, capsys):
    sample = st.Task(10, 2, 5.0).sample(120, dim=4, rng=0)
    np.savez(tmp_path / "bags.npz", X=sample.tokens, y=sample.labels)
    options = ["--max-tokens", "6", "--poolings", "pooled", "--folds", "2"]
    report = tmp_path / "page.html"
    arguments = ["fit", str(tmp_path / "bags.npz"), *options, "--report", str(report)]
    assert main(arguments) == 0
    words = capsys.readouterr().out
    sentence = "With at most 6 of 10 tokens a positive bag keeps 1.2 of its 2 signal tokens"
    assert sentence in words and sentence in report.read_text()
    assert words.index("A signal is there") < words.index(sentence)


def test_groups_are_scored_as_they_were_learned_from(scored, tmp_path, capsys):
    """Of a table by its column, of an npz file by its array."""
    table = pd.read_csv(scored / "bags.csv")
    table.insert(1, "owner", [1.0] * 12 + [2.0] * 6)
    table.to_csv(tmp_path / "owned.csv", index=False)
    options = ["--bag-column", "which", "--group", "owner"]
    tokens = table[[f"f{k}" for k in range(4)]].to_numpy()
    np.savez(tmp_path / "owned.npz", X=tokens.reshape(3, 6, 4), owner=[1.0, 1.0, 2.0])
    fit = Fit(str(tmp_path / "owned.csv"), bag_column="which", group="owner")
    assert fit._collection().groups.tolist() == ["1.0", "1.0", "2.0"]
    score = ["score", str(scored / "model")]
    out = tmp_path / "s.csv"
    assert main([*score, str(tmp_path / "owned.csv"), *options, "--out", str(out)]) == 0
    assert len(pd.read_csv(out)) == 3
    tables = []
    for name, given in (("owned.csv", options), ("owned.npz", ["--group", "owner"])):
        assert main([*score, str(tmp_path / name), *given, "--merge", "--out", str(out)]) == 0
        tables.append(pd.read_csv(out))
    assert tables[0].bag.tolist() == [1.0, 2.0] and tables[0].tokens.tolist() == [12, 6]
    pd.testing.assert_frame_equal(*tables, check_dtype=False)
    assert main([*score, str(tmp_path / "owned.npz"), "--merge"]) == 2
    assert "score: merge must come with --group" in capsys.readouterr().err


@pytest.mark.parametrize("streamed", [False, True])
def test_all_bags_that_cannot_be_read_are_listed(scored, tmp_path, monkeypatch, capsys, streamed):
    """Headers say nothing of numbers that are none; they are found at once, and left out."""
    if streamed:
        monkeypatch.setattr(st.BagSource, "fits", False)
    monkeypatch.setattr(st, "estimate_task", lambda *_, **__: refuse("not now"))  # takes long
    rng = np.random.default_rng(0)
    for bag in range(24):
        tokens = rng.standard_normal((5, 4))
        if bag in (3, 17):
            tokens[2, 1] = np.nan if bag == 3 else np.inf
        np.save(tmp_path / f"b{bag:02}.npy", tokens)
    table = pd.DataFrame({"bag": [f"b{bag:02}" for bag in range(24)], "y": np.arange(24) % 2})
    (tmp_path / "tables").mkdir()
    table.to_csv(tmp_path / "tables" / "labels.csv", index=False)
    labels = ["--labels", str(tmp_path / "tables" / "labels.csv")]
    fit = ["fit", str(tmp_path), *labels, "--poolings", "pooled", "--folds", "2", "--json"]
    score = ["score", str(scored / "model"), str(tmp_path)]
    for command in (fit, score):
        assert main(command) == 2
        words = capsys.readouterr().err
        assert (
            "2 bags cannot be taken (2 unreadable)" in words and "b03" in words and "b17" in words
        )
        assert main([*command, "--leave-out"]) == 0
        seen = capsys.readouterr()
        assert "2 bags are left out" in seen.err and "b17" in seen.err
        assert '"bags": 22' in seen.out if command is fit else seen.out.count("\n") == 23


def refuse(words):
    raise st.InvalidInput(words)


def test_bags_of_another_dimension_are_not_looked_through(scored, tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "a.npy", np.ones((5, 3)))
    monkeypatch.setattr(st.BagCollection, "readable", lambda *_: pytest.fail("a pass too much"))
    assert main(["score", str(scored / "model"), str(tmp_path)]) == 2
    assert "expecting 4 features" in capsys.readouterr().err

"""Odd bags: right, or a clear sentence."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags.bags import Bags
from sparsetoken.bags.held_out import best_row
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.units import Units
from sparsetoken.bags.whitening import Moments
from sparsetoken.cli import main
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.support.errors import ConvergenceError, InvalidInput

KINDS = {
    "pooled": st.PooledClassifier(),
    "vectorized": st.VectorizedClassifier(),
    "all": st.AttentionClassifier(),
    "cross": st.AttentionClassifier(reuse="cross"),
    "split": st.AttentionClassifier(reuse="split"),
    "joint": st.AttentionClassifier(query="joint"),
    "posterior": st.AttentionClassifier(query="posterior"),
}


def sample(count, dim=6, seed=0, **changes):
    """Bags that attention tells apart, and as many new ones."""
    task = st.Task(**{"length": 6, "sparsity": 1, "strength": 6.0, **changes})
    train = task.sample(count, dim, rng=seed)
    return train, task.sample(200, dim, rng=seed + 100, signal=train.signal)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_never_vary_say_nothing(kind):
    train, test = sample(80)

    def with_constants(tokens):
        shape = (*tokens.shape[:2], 1)
        return np.concatenate([np.full(shape, 0.1), tokens, np.zeros(shape)], axis=2)

    plain = KINDS[kind].fit(train.tokens, train.labels).predict_proba(test.tokens)
    wide = KINDS[kind].fit(with_constants(train.tokens), train.labels)
    np.testing.assert_allclose(wide.predict_proba(with_constants(test.tokens)), plain, atol=1e-6)


def test_tokens_that_are_all_alike():
    """There is nothing to learn: every bag has the share of its class, and no warning."""
    bags, labels = np.full((40, 3, 4), 0.1), np.arange(40) % 4 == 0
    for kind in ("pooled", "all", "joint", "posterior"):
        chance = KINDS[kind].fit(bags, labels).predict_proba(bags)[:, 1]
        np.testing.assert_allclose(chance, 0.25, atol=0.02)


def test_a_column_without_noise_still_counts():
    """It varies in positive bags alone, which is all the better."""
    train, test = sample(80, strength=0.5)
    for part in (train, test):
        part.tokens[:, :, 0] = np.where(part.places, 1e-4, 0.1)
    classifier = st.AttentionClassifier().fit(train.tokens, train.labels)
    assert classifier.score(test.tokens, test.labels) > 0.98


@pytest.mark.parametrize("kind", KINDS)
def test_bags_that_are_there_twice(kind):
    train, test = sample(60)
    tokens, labels = np.repeat(train.tokens, 2, axis=0), np.repeat(train.labels, 2)
    order = np.random.default_rng(0).permutation(120)
    one = KINDS[kind].fit(tokens, labels).predict_proba(test.tokens)
    other = KINDS[kind].fit(tokens[order], labels[order]).predict_proba(test.tokens)
    np.testing.assert_allclose(other, one, atol=1e-6)


@pytest.mark.parametrize("few", [2, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_a_class_with_few_bags(kind, few):
    train, test = sample(400, strength=8.0)
    kept = np.concatenate(
        [np.flatnonzero(train.labels > 0)[:few], np.flatnonzero(train.labels < 0)]
    )
    bags, labels = train.tokens[kept], train.labels[kept]
    if kind == "split" and few == 2:
        with pytest.raises(InvalidInput, match="needs at least 4 bags of each class"):
            KINDS[kind].fit(bags, labels)
        return
    chance = KINDS[kind].fit(bags, labels).predict_proba(test.tokens)[:, 1]
    assert np.isfinite(chance).all()
    if kind in ("all", "cross", "joint", "posterior") and few == 8:
        assert chance[test.labels > 0].mean() > 2 * chance[test.labels < 0].mean()


def ragged(kind=np.float64):
    """Bags of 1 to 12 tokens but for one of 100,000."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 13, 120)
    lengths[7] = 100_000
    labels = np.where(np.arange(120) % 2, 1, -1)
    bags = [rng.standard_normal((length, 8)).astype(kind) for length in lengths]
    for bag, label in zip(bags, labels, strict=True):
        bag[0, 0] += 7.0 * (label > 0)
    return bags, labels


@pytest.mark.parametrize(
    "kind",
    ["pooled", "all", "cross", "split", "posterior", pytest.param("joint", marks=pytest.mark.slow)],
)
def test_one_bag_of_very_many_tokens(kind):
    bags, labels = ragged()
    classifier = KINDS[kind].fit(bags, labels)
    assert np.isfinite(classifier.decision_function(bags)).all()
    if kind != "pooled":
        short = np.delete(np.arange(120), 7)
        scores = classifier.decision_function([bags[i] for i in short])
        assert np.mean((scores > 0) == (labels[short] > 0)) > 0.9


def test_a_long_bag_is_worked_on_in_parts():
    """A block of tokens is a few megabytes, however long a bag is: pooling needs no more."""
    tokens = np.ones((400_000, 16), dtype=np.float32)
    bags = Bags.of_flat(tokens, [0, 10, len(tokens)])
    tracemalloc.start()
    pooled = bags.mean()
    units = Units.of(bags, np.ones(2))
    Moments.of(bags, np.ones(2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(pooled, 1.0)
    np.testing.assert_array_equal(units.deviation, 0.0)
    assert peak < 2 * tokens.nbytes + 8 * len(tokens)


@pytest.mark.parametrize("form", ["array", "list", "flat"])
def test_half_precision_becomes_single_and_never_double(form):
    train, _ = sample(60)
    half = train.tokens.astype(np.float16)
    classifier = st.AttentionClassifier(n_tokens=6 if form == "flat" else 1)
    given = {"array": half, "list": list(half), "flat": half.reshape(60, -1)}[form]
    bags = classifier._bags(given, None, reset=True)
    assert bags.tokens.dtype == np.float32
    single = st.AttentionClassifier().fit(half.astype(np.float32), train.labels)
    np.testing.assert_allclose(
        classifier.fit(given, train.labels).decision_function(given),
        single.decision_function(half.astype(np.float32)),
        atol=1e-9,
    )


def test_single_precision_is_not_copied_to_double():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((200, 400, 64), dtype=np.float32)
    labels = np.arange(200) % 2
    tokens[labels > 0, 0, 0] += 8.0
    settings = {"sharpness": 1.0, "ridge": 0.1, "shrinkage": 0.0, "target": "deviations"}
    tracemalloc.start()
    st.AttentionClassifier(**settings).fit(tokens, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * tokens.nbytes  # a copy in double precision alone would be so much


@pytest.mark.parametrize("unit", [1e-38, 1e-44, 1e36])
def test_single_precision_in_units_at_its_ends(unit):
    train, test = sample(80)
    scaled = [(unit * part.tokens).astype(np.float32) for part in (train, test)]
    classifier = st.AttentionClassifier().fit(scaled[0], train.labels)
    few_digits = unit < 1e-40  # numbers below 1.2e-38 lose theirs one by one
    assert classifier.score(scaled[1], test.labels) > (0.6 if few_digits else 0.9)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_offsets_much_larger_than_what_varies(kind):
    """Ten standard deviations of rounding are left of them in double precision."""
    train, test = sample(80)
    offset = 1e3 if kind is np.float32 else 1e10
    shifted = [(part.tokens + offset).astype(kind) for part in (train, test)]
    classifier = st.AttentionClassifier().fit(shifted[0], train.labels)
    assert classifier.score(shifted[1], test.labels) > 0.9


def test_the_order_of_folds_survives_columns_without_units():
    bags = Bags.of(np.full((6, 2, 3), 7.0))
    data = TrainingData.of(bags, np.array([1.0, -1.0] * 3), np.ones(6))
    assert sorted(data.order) == list(range(6)) and len(list(data.folds(3))) == 3


def test_joint_training_that_does_not_arrive_is_not_kept(monkeypatch):
    def never(*_, **__):
        raise ConvergenceError("not arrived")

    monkeypatch.setattr("sparsetoken.bags.training.train_jointly", never)
    train, _ = sample(60)
    classifier = st.AttentionClassifier(query="joint").fit(train.tokens, train.labels)
    assert not classifier.joint_ and classifier.score(train.tokens, train.labels) > 0.8


def test_joint_training_that_does_not_arrive_at_last_is_not_kept(monkeypatch):
    """It arrives in all folds, and is better there."""
    train, test = sample(60, dim=20, strength=4.0)
    classifier = st.AttentionClassifier(query="joint").fit(train.tokens, train.labels)
    assert classifier.joint_
    jointly = train_jointly

    def all_but_the_last(bags, *arguments, **options):
        if np.all(options["weights"] > 0):
            raise ConvergenceError("not arrived")
        return jointly(bags, *arguments, **options)

    monkeypatch.setattr("sparsetoken.bags.training.train_jointly", all_but_the_last)
    again = st.AttentionClassifier(query="joint").fit(train.tokens, train.labels)
    assert not again.joint_ and again.score(test.tokens, test.labels) > 0.8


def fails(monkeypatch, *names):
    """Fits of these poolings do not arrive."""
    pooled = {"pooled": st.PooledClassifier, "statistics": st.StatisticsClassifier}

    def never(self, *_, **__):
        raise ConvergenceError(f"{type(self).__name__} does not arrive")

    for name in names:
        monkeypatch.setattr(pooled[name], "fit", never)


def test_a_pooling_that_does_not_arrive_ends_nothing(monkeypatch):
    train, _ = sample(40)
    poolings = ["pooled", "statistics"]
    fails(monkeypatch, "pooled")
    table = st.compare_poolings(train.tokens, train.labels, folds=2, poolings=poolings)
    rows = table.set_index("pooling")
    assert rows.failure["pooled"] == "PooledClassifier does not arrive"
    assert rows.loc["pooled"].drop(["failure", "best"]).isna().all()
    assert rows.index[rows.best].tolist() == ["statistics"]
    assert rows.failure["statistics"] == "" and rows.error["statistics"] < 0.5
    seconds = st.rehearse_poolings(train.tokens, train.labels, folds=2, poolings=poolings)
    assert list(seconds) == poolings


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({"pooled": 0.3, "attention": 0.2, "statistics": 0.2}, "attention"),
        ({"pooled": 0.3, "vectorized": 0.28, "statistics": 0.4}, "pooled"),  # by chance, it may be
        ({"pooled": 0.3, "vectorized": 0.2, "statistics": 0.4}, "vectorized"),
        ({"pooled": None, "vectorized": 0.4}, "vectorized"),
        ({"pooled": None, "statistics": 0.4}, "statistics"),
        ({"pooled": None}, None),
    ],
)
def test_the_best_pooling(errors, expected):
    rows = [
        {"pooling": name, "error": error, "error_se": 0.05, "failure": "" if error else "why"}
        for name, error in errors.items()
    ]
    best = best_row(rows)
    assert (best and best["pooling"]) == expected


@pytest.mark.parametrize("as_json", [False, True])
def test_fit_takes_a_pooling_that_arrives(monkeypatch, capsys, tmp_path, as_json):
    train, _ = sample(14)  # too few for a pilot, which is another matter
    np.savez(tmp_path / "bags.npz", X=train.tokens, y=train.labels)
    arguments = ["fit", str(tmp_path / "bags.npz"), "--poolings", "pooled,statistics"]
    arguments += ["--folds", "2", "--save", str(tmp_path / "model"), "--no-progress"]
    fails(monkeypatch, "pooled")
    assert main([*arguments, "--json"] if as_json else arguments) == 0
    words = capsys.readouterr().out
    assert isinstance(st.load_classifier(tmp_path / "model"), st.StatisticsClassifier)
    if as_json:
        rows = json.loads(words)["comparison"]
        failures = {row["pooling"]: (row["error"], row["failure"]) for row in rows}
        assert failures["pooled"] == (None, "PooledClassifier does not arrive")
        assert failures["statistics"][1] == ""
    else:
        assert "pooled has no numbers: PooledClassifier does not arrive." in words
        assert words.count("has no numbers") == 1


def test_fit_says_where_no_pooling_arrives(monkeypatch, capsys, tmp_path):
    train, _ = sample(14)
    np.savez(tmp_path / "bags.npz", X=train.tokens, y=train.labels)
    fails(monkeypatch, "pooled", "statistics")
    arguments = ["fit", str(tmp_path / "bags.npz"), "--poolings", "pooled,statistics"]
    assert main([*arguments, "--folds", "2", "--no-progress"]) != 0
    said = capsys.readouterr().err
    assert "no pooling arrives: PooledClassifier does not arrive; Statistics" in said

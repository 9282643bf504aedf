"""Labels: which is the signal, what classes weigh, more than two of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

import sparsetoken as st
from sparsetoken.bags.groups import read_groups
from sparsetoken.bags.labels import read_labels, two_classes
from sparsetoken.cli import main
from sparsetoken.support.errors import InvalidInput

WORDS = np.array(["no4", "has4", "has4", "no4", "no4"])


@pytest.mark.parametrize(
    ("y", "positive", "signs"),
    [
        (WORDS, None, [1, -1, -1, 1, 1]),  # the second in order
        (WORDS, "has4", [-1, 1, 1, -1, -1]),
        (WORDS, np.str_("no4"), [1, -1, -1, 1, 1]),
        (WORDS.astype(object), "has4", [-1, 1, 1, -1, -1]),
        ([0, 1, 1], 0, [1, -1, -1]),
        ([False, True, True], False, [1, -1, -1]),
        ([3, 7, 9, 7], 7, [-1, 1, -1, 1]),  # against the rest
    ],
)
def test_the_signal_is_the_label_that_is_named(y, positive, signs):
    classes, labels = two_classes(y, len(y), "test", positive=positive)
    assert classes.tolist() == sorted(set(np.asarray(y).tolist()))
    assert labels.tolist() == signs


@pytest.mark.parametrize(
    ("y", "given", "words"),
    [
        (WORDS, {"positive": "has5"}, "test: positive must be one of the labels 'has4', 'no4'"),
        (WORDS, {"positive": ["has4"]}, "positive must be one of the labels"),
        ([1, 2, 2], {"positive": "1"}, "positive must be one of the labels 1, 2, got '1'"),
        ([0.0, 1.0], {"positive": np.nan}, "positive must be one of the labels 0.0, 1.0, got nan"),
        ([1, 2, 3], {}, "two classes, got 3; positive= sets one against the rest"),
        (
            WORDS,
            {"fewest": 3, "positive": "has4"},
            "at least 3 .* got 2 bags with a signal .label 'has4'.",
        ),
        (
            WORDS,
            {"fewest": 3, "positive": "no4"},
            "got 2 bags without a signal .labels other than 'no4'.",
        ),
    ],
)
def test_labels_that_are_not_there_are_refused(y, given, words):
    with pytest.raises(InvalidInput, match=words):
        two_classes(y, len(y), "test", **given)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, "", "  "])
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object), pd.Series])
def test_a_missing_label_or_group_is_no_word(missing, kind):
    """NumPy makes words of ["a", nan], and "nan" a label."""
    values = kind(["a", "b", "a", missing, "b"])
    for read in (two_classes, read_labels, read_groups):
        with pytest.raises(InvalidInput, match=r"must have a value for each bag, got .* for bag 3"):
            read(values, 5, "test")
    bags = np.random.default_rng(0).standard_normal((5, 3, 2))
    with pytest.raises(InvalidInput, match="PooledClassifier: y must have a value for each bag"):
        st.PooledClassifier().fit(bags, values)


def test_the_file_and_the_bag_of_a_missing_label_are_named(tmp_path, capsys):
    bags = np.random.default_rng(0).standard_normal((5, 3, 2))
    for y, words in (
        ([0.0, 1.0, np.nan, 1.0, 0.0], "got nan for bag 2"),
        (["a", "b", "a", "", "b"], "got '' for bag 3"),
    ):
        np.savez(tmp_path / "bags.npz", X=bags, y=y)
        assert main(["fit", str(tmp_path / "bags.npz")]) == 2
        message = capsys.readouterr().err
        assert "bags.npz: y must have a label for each bag" in message and words in message


FITTED = [
    st.PooledClassifier(),
    st.VectorizedClassifier(),
    st.AttentionClassifier(),
    st.AttentionClassifier(query="joint"),
    st.AttentionClassifier(query="posterior"),
]


@pytest.fixture(scope="module")
def data():
    task = st.Task(6, 1, 5.0)
    train = task.sample(200, dim=8, rng=1)
    return train, task.sample(200, dim=8, rng=2, signal=train.signal)


@pytest.mark.parametrize("classifier", FITTED, ids=repr)
def test_the_signal_may_be_the_first_label(data, classifier):
    """The same classifier, whatever its labels are called; the second label has scores above 0."""
    train, test = data
    usual = classifier.fit(train.tokens, train.labels > 0)
    scores, tokens = usual.decision_function(test.tokens), usual.contributions(test.tokens)
    names = np.where(train.labels > 0, "has4", "no4")
    other = type(classifier)(**classifier.get_params() | {"positive": "has4"})
    other.fit(train.tokens, names)
    assert other.classes_.tolist() == ["has4", "no4"] and other.positive_ == "has4"
    np.testing.assert_array_equal(other.decision_function(test.tokens), -scores)
    np.testing.assert_array_equal(other.predict(test.tokens) == "has4", scores > 0)
    chances = usual.predict_proba(test.tokens)
    np.testing.assert_allclose(other.predict_proba(test.tokens), chances[:, ::-1], atol=1e-15)
    parts = other.contributions(test.tokens)
    np.testing.assert_array_equal(parts, -np.array(tokens))
    np.testing.assert_array_equal(other.contributions(test.tokens, label="has4"), tokens)
    with pytest.raises(InvalidInput, match="label must be one of 'has4', 'no4', got 'x'"):
        other.contributions(test.tokens, label="x")


@pytest.mark.parametrize("noise", ["has4", "no4"])
def test_tokens_of_the_other_label_are_the_noise(data, noise):
    train, _ = data
    names = np.where(train.labels > 0, "has4", "no4")
    signal = {"has4": "no4", "no4": "has4"}[noise]
    classifier = st.PooledClassifier(positive=signal).fit(train.tokens, names)
    whitening = classifier._fitted.models[0].whitening
    mean = train.tokens[names == noise].mean(axis=(0, 1))
    np.testing.assert_allclose(whitening.mean, mean, atol=1e-12)


FIXED = {"ridge": 0.1, "calibrate": False, "whiten": False}  # nothing that is held out


@pytest.mark.parametrize("kind", [st.PooledClassifier, st.AttentionClassifier])
@pytest.mark.parametrize("classes", [2, 3])
def test_class_weights_are_repeated_bags(kind, classes):
    fixed = FIXED | ({"sharpness": 1.0} if kind is st.AttentionClassifier else {})
    rng = np.random.default_rng(0)
    tokens, labels = rng.standard_normal((60, 4, 5)), rng.integers(0, classes, 60)
    tokens[:, 0] += labels[:, None]
    counts = rng.integers(1, 3, 60)
    weighted = kind(**fixed, class_weight={1: 3}).fit(tokens, labels, sample_weight=counts)
    index = np.repeat(np.arange(60), np.where(labels == 1, 3, 1) * counts)
    repeated = kind(**fixed).fit(tokens[index], labels[index])
    np.testing.assert_allclose(
        weighted.decision_function(tokens), repeated.decision_function(tokens), atol=1e-5
    )


def test_balanced_classes_weigh_the_same():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [150, 30])
    tokens = rng.standard_normal((180, 3, 4)) + 0.7 * labels[:, None, None]
    balanced, given, plain = (
        st.PooledClassifier(class_weight=weight).fit(tokens, labels)
        for weight in ("balanced", {0: 1.0, 1: 5.0}, None)
    )
    np.testing.assert_allclose(balanced.coef_, given.coef_, rtol=1e-6)
    rates = [np.mean(each.predict(tokens) == 1) for each in (balanced, plain)]
    assert rates[1] < rates[0]


@pytest.fixture(scope="module")
def digits():
    """Bags of ten digits, one of them a 3, a 7 or a 9: which? Training and test images differ."""
    images, names = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)

    def bags(part, count):
        shown = rng.integers(0, 3, count)
        others = np.flatnonzero(~np.isin(names[part], [3, 7, 9]))
        chosen = images[part][rng.choice(others, (count, 10))]
        for bag, which in enumerate(shown):
            same = np.flatnonzero(names[part] == (3, 7, 9)[which])
            chosen[bag, rng.integers(10)] = images[part][rng.choice(same)]
        return chosen, np.array(["three", "seven", "nine"])[shown]

    order = rng.permutation(len(images))
    return bags(order[:1000], 300), bags(order[1000:], 300)


def test_which_digit_is_in_the_bag(digits, tmp_path):
    (train, names), (test, truth) = digits
    classifier = st.AttentionClassifier(folds=3).fit(train, names)
    assert classifier.classes_.tolist() == ["nine", "seven", "three"]
    assert classifier.positive_ is None
    scores, chances = classifier.decision_function(test), classifier.predict_proba(test)
    assert scores.shape == chances.shape == (300, 3)
    assert classifier.coef_.shape == classifier.query_.shape == (3, 64)
    for name in ("intercept_", "ridge_", "sharpness_", "shrinkage_", "joint_", "cv_losses_"):
        assert len(getattr(classifier, name)) == 3
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_array_equal(classifier.predict(test), classifier.classes_[scores.argmax(1)])
    right = classifier.score(test, truth)
    pooled = st.PooledClassifier(folds=3).fit(train, names)
    assert right > 0.8 and right > pooled.score(test, truth) + 0.05
    assert log_loss(truth, chances) < 0.6  # a calibrated one; a coin of three sides has 1.1
    for place, label in enumerate(classifier.classes_):
        parts = np.array(classifier.contributions(test, label=label))
        total = parts.sum(axis=1) + classifier.intercept_[place]
        np.testing.assert_allclose(total, scores[:, place], atol=1e-9)
        assert np.array(classifier.attention(test, label=label)).shape == (300, 10)
        assert list(classifier.token_values(test, label=label)) == [
            "contribution", "attention", "query_score",
        ]  # fmt: skip
    with pytest.raises(InvalidInput, match="label must be one of 'nine', 'seven', 'three', got No"):
        classifier.score_tokens(test)
    st.save_classifier(classifier, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(test), scores)
    assert again.classes_.tolist() == classifier.classes_.tolist()


def test_probabilities_of_several_classes_are_calibrated(digits):
    (train, names), (test, truth) = digits
    chances = st.AttentionClassifier(folds=3).fit(train, names).predict_proba(test)
    index = np.searchsorted(["nine", "seven", "three"], truth)
    for low, high in ((0.0, 0.2), (0.2, 0.7), (0.7, 1.0)):
        inside = (chances >= low) & (chances < high)
        shown = (index[:, None] == np.arange(3))[inside]
        error = np.sqrt(0.25 / inside.sum())
        assert abs(shown.mean() - chances[inside].mean()) < 0.05 + 2 * error


@pytest.mark.parametrize(
    "settings",
    [{"positive": "has4"}, {"class_weight": "balanced"}, {"class_weight": {"has4": 2.0}}],
)
def test_settings_of_labels_are_saved(data, tmp_path, settings):
    train, test = data
    names = np.where(train.labels > 0, "has4", "no4")
    classifier = st.PooledClassifier(**settings).fit(train.tokens, names)
    st.save_classifier(classifier, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    assert again.get_params() == classifier.get_params()
    assert again.positive_ == classifier.positive_
    np.testing.assert_array_equal(
        again.decision_function(test.tokens), classifier.decision_function(test.tokens)
    )


def test_several_classes_are_compared(digits):
    (train, names), _ = digits
    table = st.compare_poolings(train, names, folds=2, poolings=["statistics", "attention"])
    assert table.pooling.tolist() == ["larger class", "attention", "statistics"]
    counts = np.unique(names, return_counts=True)[1]
    assert table.error[0] == pytest.approx(1 - counts.max() / 300)
    attention = table.set_index("pooling").loc["attention"]
    assert attention.error < 0.25 and attention.auc > 0.9
    mixed = np.random.default_rng(0).permutation(names)
    noise = st.compare_poolings(train, mixed, folds=2, poolings=["pooled"]).set_index("pooling")
    assert abs(noise.auc["pooled"] - 0.5) < 0.08 and abs(noise.error["pooled"] - 2 / 3) < 0.12


def test_the_signal_of_a_comparison_may_be_the_first_label(data):
    train, _ = data
    names = np.where(train.labels > 0, "has4", "no4")
    options = {"folds": 2, "poolings": ["attention", "pooled"]}
    usual = st.compare_poolings(train.tokens, train.labels > 0, **options)
    named = st.compare_poolings(train.tokens, names, positive="has4", **options)
    assert usual.error[1:].tolist() == pytest.approx(named.error[1:].tolist(), abs=0.03)
    assert usual.auc[1:].tolist() == pytest.approx(named.auc[1:].tolist(), abs=0.03)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"poolings": []},
            "poolings must be names among pooled, attention, joint, posterior, vectorized",
        ),
        ({"poolings": "pooled"}, "poolings must be names among"),
        ({"poolings": ["forest"]}, r"got \['forest'\]"),
        ({"positive": 3}, "compare_poolings: positive must be one of the labels -1.0, 1.0, got 3"),
    ],
)
def test_wrong_comparisons(data, change, words):
    train, _ = data
    with pytest.raises(InvalidInput, match=words):
        st.compare_poolings(train.tokens, train.labels, **change)
    ragged = [bag[: 1 + k % 2] for k, bag in enumerate(train.tokens)]
    with pytest.raises(
        InvalidInput, match="among pooled, attention, joint, posterior, statistics for these"
    ):
        st.compare_poolings(ragged, train.labels, poolings=["vectorized"])


def test_a_rehearsal_is_about_right(monkeypatch):
    """Time as a count of tokens, plus what each fit takes: exact, for fits brief or long."""
    from sparsetoken.bags import comparison

    spent = {"pooled": lambda n: 0.5 + 1e-3 * n, "attention": lambda n: 1.0 * n}

    def seconds(classifier, bags, labels, groups):
        return spent[comparison.ESTIMATORS.kind(classifier)](len(bags.tokens))

    monkeypatch.setattr(comparison, "_tried", seconds)
    tokens, labels = np.ones((200, 6, 2)), np.arange(200) % 2
    answer = st.rehearse_poolings(tokens, labels, folds=4, poolings=spent)
    expected = {name: 4 * cost(200 * 6 * 3 / 4) for name, cost in spent.items()}
    assert answer == pytest.approx(expected)

"""Estimators: scikit-learn's own checks, the theory, every form of input, honest validation."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput

ESTIMATORS = [st.PooledClassifier, st.VectorizedClassifier, st.AttentionClassifier]
ESTIMATORS += [st.StatisticsClassifier]
# As with scikit-learn's own cross-validated estimators: a bag of weight two falls into one fold,
# a bag that is there twice may fall into two.
FOLDS = {
    "check_sample_weight_equivalence_on_dense_data": "folds of weighted and of repeated bags differ"
}


@pytest.mark.parametrize("estimator", [kind() for kind in ESTIMATORS], ids=repr)
def test_scikit_learn_checks(estimator):
    """One exception, with its reason; the array-API check skips itself without its variable."""
    results = check_estimator(
        estimator, expected_failed_checks=FOLDS, on_skip=None, on_fail="raise"
    )
    assert len(results) > 55
    others = {r["check_name"] for r in results if r["status"] not in ("passed", "xfail")}
    assert others <= {"check_array_api_input"}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_weights_are_repetitions_where_nothing_is_held_out(kind):
    fixed = {"ridge": 0.1, "calibrate": False, "whiten": False}
    if kind is st.AttentionClassifier:
        fixed["sharpness"] = 1.0
    if kind is st.StatisticsClassifier:
        fixed["inverse_width"] = 1.0
    sample = st.Task(4, 1, 3.0).sample(60, dim=5, rng=0)
    counts = np.random.default_rng(0).integers(0, 4, 60)
    weighted = kind(**fixed).fit(sample.tokens, sample.labels, sample_weight=counts)
    index = np.repeat(np.arange(60), counts)
    repeated = kind(**fixed).fit(sample.tokens[index], sample.labels[index])
    one, other = (each.decision_function(sample.tokens) for each in (weighted, repeated))
    np.testing.assert_allclose(one, other, atol=1e-5)


LOUD = st.Spectrum((0.2, 1.0, 4.0), (0.4, 0.4, 0.2))


def expected_error(task, n, dim, sharpness, ridge):
    """The theory of half the samples for the query, half for the readout."""
    half = n / 2 / dim
    protocol = st.Protocol(half, half, ridge=ridge, readout_step=1e-3, query_step=1.0)
    step = sharpness / st.align(task, protocol).sharpness
    return st.predict(task, st.Attention(), replace(protocol, query_step=step)).test_error


@pytest.mark.slow
@pytest.mark.parametrize("coloured", [False, True], ids=["white", "whitened"])
@pytest.mark.parametrize(
    ("task", "n", "dim", "sharpness", "ridge"),
    [
        (st.Task(10, 1, 5.0), 800, 100, 1.5, 0.05),
        (st.Task(6, 1, 4.0), 1000, 80, 1.0, 0.1),
        (st.Task(20, 3, 3.5), 800, 100, 1.0, 0.02),
        (st.Task(8, 2, 3.0), 600, 100, 0.7, 0.2),
    ],
)
def test_the_theory_predicts_the_estimator(task, n, dim, sharpness, ridge, coloured):
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        train = task.sample(n, dim, rng)
        test = task.sample(4000, dim, rng, signal=train.signal)
        mixing, shift = np.eye(dim), 0.0
        if coloured:
            noise = rng.standard_normal((dim, dim)) / np.sqrt(dim)
            mixing, shift = noise @ noise.T + 0.3 * np.eye(dim), 2.0
        classifier = st.AttentionClassifier(
            reuse="split", sharpness=sharpness, ridge=ridge, whiten=coloured, calibrate=False
        ).fit(train.tokens @ mixing + shift, train.labels)
        errors.append(1 - classifier.score(test.tokens @ mixing + shift, test.labels))
    standard_error = np.std(errors, ddof=1) / np.sqrt(len(errors))
    expected = expected_error(task, n, dim, sharpness, ridge)
    assert abs(np.mean(errors) - expected) < 4 * standard_error
    assert standard_error < 0.1 * expected


def test_the_theory_of_whitened_tokens_predicts_the_estimator_on_coloured_bags():
    task, n, dim, sharpness, ridge = st.Task(8, 1, 2.5, noise=LOUD), 1000, 80, 1.0, 0.1
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        train = task.sample(n, dim, rng)
        test = task.sample(4000, dim, rng, signal=train.signal)
        classifier = st.AttentionClassifier(
            reuse="split", sharpness=sharpness, ridge=ridge, calibrate=False
        ).fit(train.tokens, train.labels)
        errors.append(1 - classifier.score(test.tokens, test.labels))
    standard_error = np.std(errors, ddof=1) / np.sqrt(len(errors))
    expected = expected_error(st.whitened(task), n, dim, sharpness, ridge)
    assert abs(np.mean(errors) - expected) < 4 * standard_error
    assert standard_error < 0.1 * expected


@pytest.fixture(scope="module")
def data():
    task = st.Task(6, 1, 5.0)
    train = task.sample(300, dim=12, rng=1)
    return train, task.sample(200, dim=12, rng=2, signal=train.signal)


def test_every_form_of_input_is_the_same(data):
    """Three dimensions, lists, flat rows, masks over padding of any content."""
    train, test = data
    n, length, dim = train.tokens.shape
    plain = st.AttentionClassifier().fit(train.tokens, train.labels)
    expected = plain.decision_function(test.tokens)
    as_list = st.AttentionClassifier().fit(list(train.tokens), train.labels)
    flat = st.AttentionClassifier(n_tokens=length).fit(train.tokens.reshape(n, -1), train.labels)
    rng = np.random.default_rng(0)
    padded = np.concatenate([train.tokens, 100 * rng.standard_normal((n, 3, dim))], axis=1)
    mask = np.arange(length + 3) < length
    masked = st.AttentionClassifier().fit(
        padded, train.labels, mask=np.broadcast_to(mask, (n, length + 3))
    )
    for other in (as_list, flat, masked):
        assert other.sharpness_ == pytest.approx(plain.sharpness_, rel=1e-9)
        np.testing.assert_allclose(other.query_, plain.query_, atol=1e-10)
    np.testing.assert_allclose(as_list.decision_function(list(test.tokens)), expected, rtol=1e-8)
    rows = test.tokens.reshape(len(test.tokens), -1)
    np.testing.assert_allclose(flat.decision_function(rows), expected, atol=1e-8)
    assert plain.n_features_in_ == dim and flat.n_features_in_ == length * dim


def test_padding_never_changes_a_prediction(data):
    train, test = data
    classifier = st.AttentionClassifier().fit(train.tokens, train.labels)
    rng = np.random.default_rng(1)
    padded = np.concatenate([test.tokens, 1e3 * rng.standard_normal((200, 4, 12))], axis=1)
    order = rng.permutation(10)
    mask = np.broadcast_to((np.arange(10) < 6)[order], (200, 10))
    for method in ("decision_function", "predict_proba"):
        np.testing.assert_allclose(
            getattr(classifier, method)(padded[:, order], mask=mask),
            getattr(classifier, method)(test.tokens),
            atol=1e-9,
        )


def test_one_long_bag_does_not_make_all_long():
    """Ragged bags are never padded: memory stays a few times that of the tokens."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 10, 400)
    lengths[5] = 5000
    bags = [rng.standard_normal((length, 16)) for length in lengths]
    data_bytes = sum(bag.nbytes for bag in bags)
    tracemalloc.start()
    st.AttentionClassifier(sharpness=1.0, ridge=0.1, shrinkage=0.0).fit(bags, np.arange(400) % 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    padded = 400 * 5000 * 16 * 8
    assert peak < 12 * data_bytes < padded / 10


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_scale_of_weights_says_nothing(data, kind):
    train, test = data
    one, other = (
        kind().fit(train.tokens, train.labels, sample_weight=np.full(300, weight))
        for weight in (1.0, 1e-6)
    )
    np.testing.assert_allclose(
        one.predict_proba(test.tokens), other.predict_proba(test.tokens), atol=1e-6
    )


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("query", ["two-step", "joint", "posterior"])
def test_offset_and_scale_of_tokens_do_not_matter(data, whiten, query):
    train, test = data
    scores = []
    for scale, offset in ((1.0, 0.0), (1e-6, 0.0), (1e6, 0.0), (1.0, 1e5)):
        classifier = st.AttentionClassifier(whiten=whiten, query=query)
        classifier.fit(scale * train.tokens + offset, train.labels)
        scores.append(classifier.score(scale * test.tokens + offset, test.labels))
    if whiten:
        assert max(scores) - min(scores) < 0.02
    else:  # sharpness is in units of the tokens; their offset does not matter
        assert abs(scores[0] - scores[3]) < 0.02


def test_negative_bags_without_variance():
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 2
    tokens = np.where(labels[:, None, None] > 0, rng.standard_normal((100, 4, 5)) + 1.0, 0.0)
    assert st.PooledClassifier().fit(tokens, labels).score(tokens, labels) > 0.9


def test_comparison_is_honest(data):
    train, _ = data
    table = st.compare_poolings(train.tokens, train.labels, folds=3).set_index("pooling")
    assert table.error["attention"] < 0.5 * table.error["pooled"]
    assert table.auc["attention"] > 0.95 and 0 < table.auc_se["pooled"] < 0.1
    error = table.error["pooled"]
    assert table.error_se["pooled"] == pytest.approx(np.sqrt(error * (1 - error) / 300))
    rng = np.random.default_rng(0)
    noise = st.compare_poolings(
        rng.standard_normal((200, 3, 20)), np.arange(200) % 2, folds=4
    ).set_index("pooling")
    assert noise.error["larger class"] == 0.5
    assert (abs(noise.error - 0.5) < 4 * 0.036).all() and (abs(noise.auc - 0.5) < 0.15).all()
    with pytest.raises(InvalidInput, match="at least 2 bags of each class"):
        st.compare_poolings(train.tokens[:5], [0, 0, 0, 0, 1])


def test_ragged_bags_and_single_precision(data):
    train, test = data
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 7, len(train.tokens))
    ragged = [bag[:length] for bag, length in zip(train.tokens, lengths, strict=True)]
    classifier = st.AttentionClassifier().fit(ragged, train.labels)
    assert [len(a) for a in classifier.attention(ragged)] == lengths.tolist()
    together = classifier.decision_function(ragged)
    alone = [classifier.decision_function([bag])[0] for bag in ragged[:20]]
    np.testing.assert_allclose(alone, together[:20], rtol=1e-12)
    single = st.AttentionClassifier().fit(train.tokens.astype(np.float32), train.labels)
    double = st.AttentionClassifier().fit(train.tokens, train.labels)
    assert np.mean(single.predict(test.tokens) == double.predict(test.tokens)) > 0.99
    with pytest.raises(InvalidInput, match="needs bags of one length"):
        st.VectorizedClassifier().fit(ragged, train.labels)


def test_attention_falls_on_the_signal(data):
    train, test = data
    classifier = st.AttentionClassifier().fit(train.tokens, train.labels)
    assert classifier.score(test.tokens, test.labels) > 0.9
    assert classifier.score(test.tokens, test.labels) > 0.15 + st.PooledClassifier().fit(
        train.tokens, train.labels
    ).score(test.tokens, test.labels)
    weights = np.array(classifier.attention(test.tokens))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    scores = np.array(classifier.score_tokens(test.tokens))
    positive = test.labels > 0
    true = (test.tokens @ test.signal)[positive].argmax(axis=1)
    assert np.mean(scores[positive].argmax(axis=1) == true) > 0.9
    cosine = classifier.query_ @ test.signal / np.linalg.norm(classifier.query_)
    assert cosine > 0.9
    again = st.AttentionClassifier().fit(train.tokens, train.labels)
    np.testing.assert_array_equal(again.query_, classifier.query_)  # no seed, no spread


def test_attention_does_not_lose_where_the_signal_is_dense():
    """Sharpness 0 is always a candidate."""
    task = st.Task(8, 8, 0.5)
    gaps = []
    for seed in range(6):
        train = task.sample(300, dim=20, rng=seed)
        test = task.sample(2000, dim=20, rng=100 + seed, signal=train.signal)
        gaps.append(
            st.AttentionClassifier().fit(train.tokens, train.labels).score(test.tokens, test.labels)
            - st.PooledClassifier().fit(train.tokens, train.labels).score(test.tokens, test.labels)
        )
    assert np.mean(gaps) > -0.01


def test_validation_is_honest_on_noise():
    """On pure noise the out-of-fold loss is a coin's: no query has seen what it is tried on."""
    labels = np.where(np.arange(200) % 2, 1, -1)
    for reuse in ("all", "cross", "split"):
        least = []  # of many choices, so that chance alone lowers it a little
        for seed in range(4):
            tokens = np.random.default_rng(seed).standard_normal((200, 5, 40))
            classifier = st.AttentionClassifier(reuse=reuse).fit(tokens, labels)
            least.append(min(classifier.cv_losses_.values()))
        assert np.mean(least) > 0.68  # log 2 = 0.693
    scores = cross_val_score(st.AttentionClassifier(), tokens, labels, cv=5)
    assert abs(scores.mean() - 0.5) < 0.12


def test_probabilities_are_calibrated():
    task = st.Task(6, 1, 3.5, prevalence=0.3)
    train = task.sample(3000, dim=30, rng=5)
    test = task.sample(8000, dim=30, rng=6, signal=train.signal)
    for query in ("two-step", "joint", "posterior"):
        classifier = st.AttentionClassifier(query=query)
        chance = classifier.fit(train.tokens, train.labels).predict_proba(test.tokens)[:, 1]
        for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
            mine = (chance >= low) & (chance < high)
            assert mine.sum() > 100
            assert abs(chance[mine].mean() - np.mean(test.labels[mine] > 0)) < 0.08
        predicted = classifier.predict(test.tokens)
        np.testing.assert_array_equal(predicted, np.where(chance > 0.5, 1.0, -1.0))


def test_joint_training_is_at_least_as_good():
    task = st.Task(30, 1, 4.5)
    gaps = []
    for seed in range(5):
        train = task.sample(400, dim=40, rng=seed)
        test = task.sample(2000, dim=40, rng=50 + seed, signal=train.signal)
        two, joint = (
            st.AttentionClassifier(query=query).fit(train.tokens, train.labels)
            for query in ("two-step", "joint")
        )
        gaps.append(joint.score(test.tokens, test.labels) - two.score(test.tokens, test.labels))
    assert np.mean(gaps) > -0.004  # it is kept only where held-out bags say so


def test_labels_of_any_two_kinds_and_tools_of_scikit_learn(data):
    train, test = data
    words = np.where(train.labels > 0, "sick", "healthy")
    classifier = st.AttentionClassifier().fit(train.tokens, words)
    assert classifier.classes_.tolist() == ["healthy", "sick"]
    assert set(classifier.predict(test.tokens)) == {"healthy", "sick"}
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(
        again.predict_proba(test.tokens), classifier.predict_proba(test.tokens)
    )
    assert clone(classifier).get_params() == classifier.get_params()
    flat = train.tokens.reshape(len(train.tokens), -1)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), st.AttentionClassifier(n_tokens=6, folds=3)),
        {"attentionclassifier__sharpness": [0.0, 1.0]},
        cv=3,
    ).fit(flat, words)
    assert search.best_params_ == {"attentionclassifier__sharpness": 1.0}
    bags = GridSearchCV(st.AttentionClassifier(folds=3), {"ridge": [0.01, 0.1]}, cv=3)
    assert bags.fit(train.tokens, words).best_score_ > 0.85


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": [np.ones((2, 3)), np.empty((0, 3))]}, "every bag must have at least one token"),
        ({"X": [np.ones((2, 3)), np.ones((2, 4))]}, "all bags must have the same dimension"),
        ({"X": np.full((2, 2, 3), np.nan)}, "Input X contains NaN"),
        ({"X": np.full((2, 2, 3), np.inf)}, "Input X contains infinity"),
        ({"X": np.ones((2, 2, 3)) * 1j}, "Complex data not supported"),
        ({"X": np.ones((2, 0, 3))}, "minimum of 1 is required"),
        ({"X": np.ones((2, 2, 3)), "y": [1, 1]}, "two classes, got 1 class"),
        ({"positive": 2}, "AttentionClassifier: positive must be one of the labels 0, 1, got 2"),
        ({"class_weight": "even"}, "class_weight must be None, 'balanced' or a dict"),
        ({"class_weight": {2: 1.0}}, "a dict with weights for labels among 0, 1, got {2: 1.0}"),
        ({"class_weight": {0: 0.0}}, r"class_weight\[0\] must be a number above 0"),
        ({"X": np.ones((3, 2, 3))}, "inconsistent numbers of samples"),
        ({"X": np.ones((2, 2, 3)), "mask": np.ones((2, 3), bool)}, "mask must be truth values"),
        ({"X": np.ones((2, 2, 3)), "mask": np.zeros((2, 2), bool)}, "at least one token"),
        ({"X": np.ones((2, 7)), "n_tokens": 2}, "multiple of n_tokens=2"),
        ({"n_tokens": 0}, "n_tokens must be a whole number of at least 1"),
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"ridge": -1.0}, "ridge must be 'auto' or a number above 0"),
        ({"sharpness": "high"}, "sharpness must be 'auto' or a number of at least 0"),
        ({"query": "none"}, "query must be one of 'two-step', 'joint', 'posterior'"),
        ({"reuse": "no"}, "reuse must be one of 'all', 'cross', 'split'"),
        ({"sample_weight": [1.0, -1.0]}, "sample_weight must be at least 0"),
        ({"sample_weight": [0.0, 1.0]}, "leave every class some weight"),
        ({"reuse": "split"}, "needs at least 4 bags of each class"),
        ({"shrinkage": 2.0}, "shrinkage must be 'auto' or a number from 0 to 1"),
        ({"y": np.array(["a", 1], dtype=object)}, "labels of one kind|label type|mix"),
    ],
)
def test_wrong_input(change, words):
    given = {"X": np.eye(2).reshape(2, 1, 2), "y": [0, 1]} | change
    call = {name: given.pop(name) for name in ("X", "y", "mask", "sample_weight") if name in given}
    with pytest.raises(InvalidInput, match=words):
        st.AttentionClassifier(**given).fit(**call)


def test_other_dimensions_and_unfitted_are_refused(data):
    train, _ = data
    classifier = st.AttentionClassifier()
    with pytest.raises(NotFittedError):
        classifier.attention(train.tokens)
    classifier.fit(train.tokens, train.labels)
    with pytest.raises(InvalidInput, match="expecting 12 features"):
        classifier.predict(train.tokens[:, :, :11])


def test_one_bag_of_a_class_is_warned_of():
    with pytest.warns(UserWarning, match="nothing can be held out"):
        st.PooledClassifier().fit(np.eye(3).reshape(3, 1, 3), [0, 0, 1])

"""`query="posterior"`: expectation–maximisation from the two-step query, and the log likelihood
ratio along what it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags import training
from sparsetoken.bags.bags import Bags
from sparsetoken.bags.carriers import FixedCount, VaryingShare
from sparsetoken.bags.posterior import LikelihoodRatio, learn
from sparsetoken.bags.queries import Job, two_step_queries
from sparsetoken.bags.saved_models import arrays_of
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Whitening
from sparsetoken.support.errors import ConvergenceError, InvalidInput

POSTERIOR = st.AttentionClassifier(query="posterior")


def drawn(task, count, dim, seed, tests=2000):
    train = task.sample(count, dim, rng=seed)
    return train, task.sample(tests, dim, rng=1000 + seed, signal=train.signal)


def job(train, weights=None):
    bags = Bags.of(train.tokens)
    weights = np.ones(len(bags)) if weights is None else weights
    data = TrainingData.of(bags, train.labels, weights)
    return Job(data, Whitening.none(np.zeros(bags.dim)))


def test_cosine_and_law_are_near_those_of_message_passing():
    """White noise, one strength: message passing reaches a cosine of .962 in theory (L = 10, R = 1,
    θ = 5, one sample a dimension), where the two-step query has .88."""
    task, dim = st.Task(10, 1, 5.0), 300
    predicted = st.message_passing_rounds(task, 1.0, 4)[-1].cosine
    cosines, before = [], []
    for seed in range(6):
        train, _ = drawn(task, dim, dim, seed, 1)
        own = job(train)
        (taught,) = learn([own], rounds=4)
        signal = train.signal / np.linalg.norm(train.signal)
        cosines.append(float(taught.query @ signal))
        before.append(float(two_step_queries([own])[0] @ signal))
        shift, width, carriers, _ = taught.law.signal
        # along the query the signal has a strength of θ·cosine, and one token carries it
        assert shift == pytest.approx(5.0 * cosines[-1], rel=0.1)
        assert carriers == FixedCount(1) and width < 1.3
    # it has to learn strength, share and the density of noise as well
    assert predicted - 0.03 < np.mean(cosines) < predicted + 0.01
    assert np.mean(before) < np.mean(cosines) - 0.05


def test_each_bag_is_seen_along_what_the_others_say():
    """Its log ratio is that along the query without what it has added itself."""
    train, _ = drawn(st.Task(8, 1, 4.0), 40, 200, 3, 1)
    (taught,) = learn([job(train)], rounds=0)
    data, _ = job(train)
    mean = data.bags.summary.mean
    step = data.signed @ mean
    parts = []
    for bag, sign in zip(train.tokens, data.signed, strict=True):
        centred = bag - bag.mean(axis=0)
        parts.append(sign * centred.T @ (centred @ step) / len(bag))
    parts, query = np.array(parts), np.sum(parts, axis=0)
    length = np.linalg.norm(query)
    np.testing.assert_allclose(taught.query, query / length, atol=1e-12)
    along = np.concatenate(
        [bag @ (query - part) / length for bag, part in zip(train.tokens, parts, strict=True)]
    )
    expected, _ = taught.law.of_bags(along, data.bags)
    np.testing.assert_allclose(taught.log_ratios, expected, rtol=1e-9, atol=1e-9)


def test_error_is_near_the_floor_of_any_learner():
    """Of bags drawn from the model, one a dimension: attention with bags of its own for query and
    readout has .0825 in theory, two-step with all bags reused .030; the floor is .0230."""
    task, dim, count = st.Task(10, 1, 5.0), 300, 300
    floor = st.bayes_curve(task, [count / dim])[0].test_error
    errors, by = [], []
    for seed in range(5):
        train, test = drawn(task, count, dim, seed, 4000)
        classifier = POSTERIOR.fit(train.tokens, train.labels)
        errors.append(1 - classifier.score(test.tokens, test.labels))
        by.append(classifier.learned_by_)
    error = np.std(errors, ddof=1) / np.sqrt(5)
    assert "likelihood" in by
    assert floor - 3 * error < np.mean(errors) < 1.3 * floor


def test_never_worse_on_held_out_bags(monkeypatch):
    """What is kept has the least loss there; where that is the two-step classifier, it is it."""
    kinds, judged, original = set(), [], training._judged

    def spied(data, recipe, choice, folds, scores):
        parts = list(scores)  # of each fold, from readouts that never saw it
        out_of_fold = np.zeros(len(data.labels))
        for held, part in zip(folds, parts, strict=True):
            out_of_fold[held] = part
        verdict = original(data, recipe, choice, folds, iter(parts))
        slope, offset = verdict.sigmoid  # that of the model, if it is kept
        losses = np.log1p(np.exp(-data.labels * (slope * out_of_fold + offset)))
        judged.append(losses.mean())
        return verdict

    for seed, strength in enumerate((0.3, 1.0, 3.0, 4.0, 5.0)):
        train, test = drawn(st.Task(6, 2, strength, prevalence=0.4), 90, 20, seed, 50)
        plain = st.AttentionClassifier().fit(train.tokens, train.labels)
        judged.clear()
        with monkeypatch.context() as patch:
            patch.setattr(training, "_judged", spied)
            chosen = POSTERIOR.fit(train.tokens, train.labels)
        kinds.add(chosen.learned_by_)
        assert chosen.cv_losses_ == plain.cv_losses_
        two_step, rival = judged
        assert two_step == pytest.approx(min(plain.cv_losses_.values()), rel=1e-3)
        kept, left = (two_step, rival) if chosen.learned_by_ == "two-step" else (rival, two_step)
        assert kept <= left and kept <= two_step
        if chosen.learned_by_ == "two-step":
            expected = plain.decision_function(test.tokens)
            np.testing.assert_array_equal(chosen.decision_function(test.tokens), expected)
    assert len(kinds) > 1


def test_what_does_not_arrive_is_not_kept(monkeypatch):
    def never(*_, **__):
        raise ConvergenceError("no")

    monkeypatch.setattr("sparsetoken.bags.posterior.fit_varying", never)
    train, _ = drawn(st.Task(6, 1, 5.0), 100, 10, 0, 1)
    assert POSTERIOR.fit(train.tokens, train.labels).learned_by_ == "two-step"


@pytest.fixture(scope="module")
def likely():
    """A classifier that scores by likelihood, and new bags."""
    train, test = drawn(st.Task(30, 1, 6.0), 300, 200, 1, 200)
    classifier = st.AttentionClassifier(query="posterior").fit(train.tokens, train.labels)
    assert classifier.learned_by_ == "likelihood"
    return classifier, test


def test_tokens_of_a_likelihood_ratio(likely):
    classifier, test = likely
    weights = np.array(classifier.attention(test.tokens))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    sums = np.sum(classifier.contributions(test.tokens), axis=1) + classifier.intercept_
    np.testing.assert_allclose(sums, classifier.decision_function(test.tokens))
    positive = test.labels > 0
    found = np.take_along_axis(test.places, weights.argmax(axis=1)[:, None], axis=1)[:, 0]
    assert found[positive].mean() > 0.9
    assert classifier.coef_.shape == (1, 1) and classifier.query_.shape == (200,)
    noise, signal = (
        np.array(classifier.score_tokens(test.tokens))[test.places == x] for x in (0, 1)
    )
    assert signal.mean() > noise.mean() + 3


def test_bags_of_any_length_and_several_classes():
    rng = np.random.default_rng(0)
    lengths, names = rng.integers(3, 15, 240), np.repeat(["a", "b", "c"], 80)
    bags = [rng.standard_normal((length, 8)) for length in lengths]
    for bag, name in zip(bags, names, strict=True):
        bag[0, "abc".index(name)] += 6.0
    classifier = st.AttentionClassifier(query="posterior", folds=3).fit(bags[::2], names[::2])
    assert classifier.score(bags[1::2], names[1::2]) > 0.85
    assert len(classifier.learned_by_) == 3
    weights = classifier.attention(bags[1::2], label="b")
    assert [len(each) for each in weights] == lengths[1::2].tolist()


def test_a_bag_without_weight_is_not_there():
    train, test = drawn(st.Task(10, 1, 5.0), 160, 20, 2, 50)
    weights = np.ones(160)
    weights[120:] = 0.0
    some = POSTERIOR.fit(train.tokens, train.labels, sample_weight=weights)
    scores = some.decision_function(test.tokens)
    few = POSTERIOR.fit(train.tokens[:120], train.labels[:120])
    np.testing.assert_allclose(few.decision_function(test.tokens), scores, rtol=1e-6, atol=1e-8)


def test_other_weightings_and_reuse():
    train, test = drawn(st.Task(6, 1, 5.0), 150, 10, 0, 200)
    top = st.AttentionClassifier(query="posterior", weighting=st.HardMax())
    assert top.fit(train.tokens, train.labels).score(test.tokens, test.labels) > 0.8
    with pytest.raises(InvalidInput, match=r"reuse must be 'all' for query='posterior'.*'cross'"):
        st.AttentionClassifier(query="posterior", reuse="cross").fit(train.tokens, train.labels)


def test_saved_and_loaded(likely, tmp_path):
    classifier, test = likely
    st.save_classifier(classifier, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    assert again.learned_by_ == "likelihood"
    for method in ("decision_function", "contributions", "attention"):
        one, other = (getattr(each, method)(test.tokens) for each in (classifier, again))
        np.testing.assert_array_equal(one, other)


def test_a_law_of_varying_share_goes_there_and_back(likely):
    model = likely[0]._fitted.models[0]
    law = model.pooling.law
    shared = replace(law, signal=law.signal._replace(carriers=VaryingShare((0.0, 0.3), (0.5, 0.5))))
    arrays = replace(model.pooling, law=shared).arrays()
    again = LikelihoodRatio().restored(0, 200, arrays)
    assert again.law.signal == shared.signal
    arrays["shares"] = np.array([[0.0, 1.0], [0.5, 0.5]])
    with pytest.raises(InvalidInput, match="the law of tokens is not one"):
        LikelihoodRatio().restored(0, 200, arrays)


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [("numbers", 1, 0.0), ("numbers", 2, 2.0), ("numbers", 6, 9.0), ("density", 5, -1.0)],
)
def test_forged_laws_are_refused(likely, name, index, value):
    arrays = arrays_of(likely[0]._fitted.models[0])
    forged = arrays[name].copy()
    forged[index] = value
    with pytest.raises(InvalidInput, match="the law of tokens is not one"):
        LikelihoodRatio().restored(0, 200, arrays | {name: forged})


def test_a_file_that_tells_of_likelihood_without_trying_it(likely, tmp_path):
    import json

    st.save_classifier(likely[0], tmp_path / "model")
    with np.load(tmp_path / "model") as archive:
        arrays = dict(archive)
    about = json.loads(str(arrays["about"]))
    about["settings"]["query"] = "two-step"
    with (tmp_path / "forged").open("wb") as file:
        np.savez(file, **arrays | {"about": np.array(json.dumps(about))})
    with pytest.raises(InvalidInput, match="learned by likelihood, which its settings do not try"):
        st.load_classifier(tmp_path / "forged")

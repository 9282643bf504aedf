"""Maps of tokens: chosen by held-out bags, fitted inside folds, saved as numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import sparsetoken as st
from sparsetoken.bags import preparation
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.support.errors import InvalidInput


def rings(count, seed, length=6, dim=4):
    """A bag is positive if one of its tokens lies far out, in whatever direction."""
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((count, length, dim))
    tokens *= 2 / np.linalg.norm(tokens, axis=2, keepdims=True)
    labels = np.where(np.arange(count) % 2, 1, -1)
    tokens[labels > 0, 0] *= 2.5
    tokens += 0.2 * rng.standard_normal(tokens.shape)
    return tokens, labels


@pytest.mark.parametrize("width", [1.0, 8.0])
def test_inner_products_are_the_kernel_if_every_token_is_a_landmark(width):
    tokens = np.random.default_rng(0).standard_normal((300, 2))
    token_map = NystroemMap(landmarks=300, width=width).fit(tokens)
    mapped = token_map.transform(tokens).astype(float)
    scaled = (tokens - token_map.mean_) / token_map.unit_
    apart = ((scaled[:, None] - scaled) ** 2).sum(axis=2)
    assert token_map.scale_ == pytest.approx(width * np.median(apart[np.triu_indices(300, 1)]))
    np.testing.assert_allclose(mapped @ mapped.T, np.exp(-apart / token_map.scale_), atol=1e-4)


def test_the_map_knows_neither_order_nor_units():
    rng = np.random.default_rng(0)
    tokens, new = rng.gamma(1.0, size=(2, 200, 5))
    plain = NystroemMap(landmarks=50).fit(tokens).transform(new)
    factors, order, columns = rng.normal(size=5) * 1e3, rng.permutation(200), rng.permutation(5)
    changed = NystroemMap(landmarks=50).fit((tokens * factors)[order][:, columns])
    again = changed.transform((new * factors)[:, columns])
    np.testing.assert_allclose(again, plain, atol=1e-5)  # of single precision
    twice = NystroemMap(landmarks=50).fit(np.repeat(tokens, 2, axis=0)).transform(new)
    np.testing.assert_allclose(twice, plain, atol=1e-5)


def test_fewer_different_tokens_than_landmarks():
    tokens = np.repeat([[0.0, 1.0], [3.0, 1.0], [4.0, 1.0]], 20, axis=0)
    mapped = NystroemMap(landmarks=50).fit(tokens).transform(tokens)
    assert mapped.shape == (60, 3) and np.isfinite(mapped).all()
    same = NystroemMap().fit(np.ones((5, 2))).transform(np.ones((2, 2)))
    np.testing.assert_allclose(same, 1.0, atol=1e-5)


@pytest.mark.parametrize("kind", [st.PooledClassifier, st.AttentionClassifier])
def test_a_map_finds_what_no_direction_shows(kind):
    (tokens, labels), (new, truth) = rings(200, 0), rings(400, 1)
    assert kind().fit(tokens, labels).score(new, truth) < 0.75
    mapped = kind(token_map="auto").fit(tokens, labels)
    assert isinstance(mapped.token_map_, NystroemMap)
    assert mapped.score(new, truth) > 0.95
    again = kind(token_map="auto").fit(tokens, labels)  # no seed, no spread
    np.testing.assert_array_equal(again.decision_function(new), mapped.decision_function(new))


def test_no_map_where_one_direction_is_enough():
    sample = st.Task(6, 1, 5.0).sample(150, dim=10, rng=0)
    plain = st.AttentionClassifier().fit(sample.tokens, sample.labels)
    chosen = st.AttentionClassifier(token_map="auto").fit(sample.tokens, sample.labels)
    assert chosen.token_map_ is None
    np.testing.assert_allclose(chosen.coef_, plain.coef_, rtol=1e-9)
    assert False in {mapped for mapped, *_ in chosen.cv_losses_}


def test_the_kind_that_has_lost_is_not_tried_in_every_fold(monkeypatch):
    """Far tokens have no direction: after a fold or two nothing but the map is tried."""
    seen, of_sets = [], preparation.Moments.of_sets

    def counted(bags, sets, others):
        seen.extend([bags.dim] * len(sets))
        return of_sets(bags, sets, others)

    monkeypatch.setattr(preparation.Moments, "of_sets", counted)
    tokens, labels = rings(200, 0)
    classifier = st.AttentionClassifier(token_map="auto").fit(tokens, labels)
    assert {mapped for mapped, *_ in classifier.cv_losses_} == {True}
    assert 1 <= seen.count(4) < 5  # five folds would be as many
    assert seen.count(400) == 6  # five folds, and all bags


def test_a_close_race_goes_on_to_the_end():
    tokens, labels = rings(60, 0)
    noise = np.random.default_rng(0).standard_normal(tokens.shape)
    classifier = st.AttentionClassifier(token_map="auto").fit(noise, labels)
    assert {mapped for mapped, *_ in classifier.cv_losses_} == {False, True}


def test_a_map_without_labels_is_fitted_once(monkeypatch):
    counts, fit = [], NystroemMap.fit
    monkeypatch.setattr(
        NystroemMap, "fit", lambda self, X, y=None: counts.append(len(X)) or fit(self, X, y)
    )
    tokens, labels = rings(60, 0)
    weights = np.ones(60)
    weights[:10] = 0
    st.AttentionClassifier(token_map=NystroemMap(20)).fit(tokens, labels, sample_weight=weights)
    assert counts == [6 * 50]


def test_one_map_for_all_folds_is_no_worse_a_judge(monkeypatch):
    """Held-out losses with it are those with a map fitted without the bags held out."""
    sample = st.Task(6, 1, 5.0).sample(150, dim=10, rng=1)
    losses = []
    for once in (True, False):
        monkeypatch.setattr(NystroemMap, "same_in_folds", once)
        classifier = st.AttentionClassifier(token_map=NystroemMap(), sharpness=4.0)
        fitted = classifier.fit(sample.tokens, sample.labels)
        losses.append(min(fitted.cv_losses_.values()))
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


@pytest.mark.parametrize("reuse", ["all", "cross", "split"])
def test_order_units_and_signs_say_nothing_to_a_mapped_classifier(reuse):
    (tokens, labels), (new, _) = rings(100, 2), rings(40, 3)
    rng = np.random.default_rng(0)
    factors = np.exp(3 * rng.standard_normal(4)) * rng.choice([-1, 1], 4)
    order, columns, places = rng.permutation(100), rng.permutation(4), rng.permutation(6)
    classifier = st.AttentionClassifier(token_map=NystroemMap(50), reuse=reuse)
    one = classifier.fit(tokens, labels).predict_proba(new)
    changed = (tokens * factors)[order][:, places][:, :, columns]
    other = classifier.fit(changed, labels[order]).predict_proba((new * factors)[:, :, columns])
    np.testing.assert_allclose(other, one, atol=1e-6)


def test_tokens_of_a_mapped_classifier():
    (tokens, labels), (new, truth) = rings(200, 0), rings(60, 1)
    classifier = st.AttentionClassifier(token_map=NystroemMap(100)).fit(tokens, labels)
    far = np.array(classifier.attention(new))[truth > 0]
    assert np.mean(far.argmax(axis=1) == 0) > 0.8
    assert [len(scores) for scores in classifier.score_tokens(new)] == [6] * 60
    total = [part.sum() for part in classifier.contributions(new)]
    np.testing.assert_allclose(
        total + classifier.intercept_, classifier.decision_function(new), atol=1e-5
    )


def test_any_transformer_is_cloned_and_fitted():
    sample = st.Task(6, 1, 6.0).sample(100, dim=8, rng=0)
    scaler = StandardScaler()
    classifier = st.AttentionClassifier(token_map=scaler).fit(sample.tokens, sample.labels)
    assert not hasattr(scaler, "mean_") and classifier.token_map_.mean_.shape == (8,)
    plain = st.AttentionClassifier().fit(sample.tokens, sample.labels)
    np.testing.assert_allclose(
        classifier.predict_proba(sample.tokens), plain.predict_proba(sample.tokens), atol=1e-4
    )
    fewer = st.VectorizedClassifier(token_map=PCA(3)).fit(sample.tokens, sample.labels)
    assert fewer.coef_.shape == (1, 18)
    assert clone(classifier).get_params()["token_map__with_mean"] is True


class Seen(TransformerMixin, BaseEstimator):
    """Notes how many tokens it is fitted to."""

    counts = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.fitted_ = True
        Seen.counts.append(len(X))
        return self

    def transform(self, X):
        return X


def test_maps_learn_from_training_bags_alone():
    sample = st.Task(6, 1, 6.0).sample(100, dim=8, rng=0)
    Seen.counts.clear()
    weights = np.ones(100)
    weights[:10] = 0
    st.PooledClassifier(token_map=Seen()).fit(sample.tokens, sample.labels, sample_weight=weights)
    assert len(Seen.counts) == 6  # five folds and all bags: what they give is kept
    assert Seen.counts.count(6 * 90) == 1 and sum(Seen.counts[:5]) == 4 * 6 * 90


@pytest.mark.parametrize("mapping", ["auto", NystroemMap(landmarks=30, width=3.0)])
def test_a_map_is_saved_with_its_classifier(tmp_path, mapping):
    (tokens, labels), (new, _) = rings(100, 0), rings(30, 1)
    classifier = st.AttentionClassifier(token_map=mapping).fit(tokens, labels)
    st.save_classifier(classifier, tmp_path / "model")
    again = st.load_classifier(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(new), classifier.decision_function(new))
    assert repr(again.token_map) == repr(mapping) and again.target_ == classifier.target_


def test_other_maps_are_not_saved(tmp_path):
    tokens, labels = rings(60, 0)
    classifier = st.PooledClassifier(token_map=StandardScaler()).fit(tokens, labels)
    with pytest.raises(InvalidInput, match="token_map must be None, 'auto' or a NystroemMap"):
        st.save_classifier(classifier, tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"map_root_": None}, "map_root_ is missing"),
        ({"map_root_": np.ones((3, 3))}, r"map_root_ has shape \(3, 3\), not \(20, 20\)"),
        ({"map_mean_": np.ones(3)}, "map_unit_ has shape"),
        ({"map_unit_": np.full(4, -1.0)}, "map_unit_ has numbers below 0"),
        ({"map_landmarks_": np.full((20, 4), np.nan)}, "not finite"),
        ({"map_landmarks_": np.ones(4)}, "map_"),
        ({"scale": -1.0}, "map_scale must be a number above 0"),
        ({"settings": {"landmarks": 3}}, "settings of the map are not landmarks, width"),
        ({"format": "sparsetoken classifier 1"}, "an older version wrote it, fit and save again"),
    ],
)
def test_forged_maps(tmp_path, change, words):
    tokens, labels = rings(60, 0)
    classifier = st.PooledClassifier(token_map=NystroemMap(landmarks=20)).fit(tokens, labels)
    path = tmp_path / "model"
    st.save_classifier(classifier, path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"]))
    about["format"] = change.pop("format", about["format"])
    model = about["models"][0]
    model["map_scale"] = change.pop("scale", model["map_scale"])
    about["settings"]["token_map"] = change.pop("settings", about["settings"]["token_map"])
    arrays |= {f"0.{name}": array for name, array in change.items()}
    arrays["about"] = np.array(json.dumps(about))
    with path.open("wb") as stream:
        np.savez(stream, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(InvalidInput, match=words):
        st.load_classifier(path)


@pytest.mark.parametrize("wrong", ["nystroem", 3, NystroemMap, object()])
def test_wrong_maps_are_named(wrong):
    tokens, labels = rings(40, 0)
    with pytest.raises(InvalidInput, match="token_map must be None, 'auto' or a transformer"):
        st.PooledClassifier(token_map=wrong).fit(tokens, labels)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"landmarks": 0}, "landmarks must be"), ({"width": 0.0}, "width must be")],
)
def test_wrong_settings_of_a_map(settings, words):
    with pytest.raises(InvalidInput, match=words):
        NystroemMap(**settings).fit(np.eye(3))


def test_a_map_to_nonsense_is_named():
    class Nonsense(Seen):
        def transform(self, X):
            return np.full((len(X), 2), np.nan)

    tokens, labels = rings(40, 0)
    with pytest.raises(InvalidInput, match="token_map must turn tokens"):
        st.PooledClassifier(token_map=Nonsense()).fit(tokens, labels)

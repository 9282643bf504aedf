"""Fitted classifiers in files: numbers and words in an npz archive, nothing to unpickle."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sparsetoken.bags.classes import OneAgainstRest
from sparsetoken.bags.classifier import BagClassifier
from sparsetoken.bags.estimators import ESTIMATORS
from sparsetoken.bags.labels import signal_of
from sparsetoken.bags.parameters import check_parameters
from sparsetoken.bags.readers.loading import naming
from sparsetoken.bags.readers.npz import read_arrays
from sparsetoken.bags.saved_models import (
    HUGE,
    arrays_of,
    check_words,
    dim_of,
    names_of,
    numbers,
    restored,
    words_of,
)
from sparsetoken.bags.saved_tokens import token_arrays
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.bags.token_posterior import TokenPosterior
from sparsetoken.model.names import LOSSES, WEIGHTINGS, Names
from sparsetoken.support.checks import one_of, real, refusal
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.whole_files import save_arrays

_BY_NAME: dict[str, Names[Any]] = {"loss": LOSSES, "weighting": WEIGHTINGS}  # of the settings
_FORMAT, _OLD = "sparsetoken classifier 2", "sparsetoken classifier 1"


def save_classifier(
    classifier: BagClassifier,
    path: str | os.PathLike[str],
    tokens: TokenPosterior | None = None,
) -> None:
    """Write a fitted classifier to a file; an old one is replaced only by a whole new one.

    Parameters
    ----------
    classifier : AttentionClassifier, PooledClassifier, StatisticsClassifier or VectorizedClassifier
        Fitted, with a loss and a weighting that have names (`LOSSES`, `WEIGHTINGS`); without a
        token map, or with a `NystroemMap`.
    path : str or path
        A new or regular file; the name is taken as it is.
    tokens : TokenPosterior, optional
        Fitted; kept in the same file, for `load_token_posterior` and for maps of tokens.

    Returns
    -------
    None

    Raises
    ------
    InvalidInput
        A classifier, loss or weighting without a name, a token map other than `NystroemMap`, or a
        path that is not a file's.
    NotFittedError
        A classifier that is not fitted yet.

    Examples
    --------
    >>> import tempfile
    >>> from sparsetoken import AttentionClassifier, Task
    >>> sample = Task(length=5, sparsity=1, strength=5.0).sample(100, dim=8, rng=0)
    >>> classifier = AttentionClassifier().fit(sample.tokens, sample.labels)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_classifier(classifier, f"{folder}/model")
    ...     again = load_classifier(f"{folder}/model")
    >>> bool(np.all(again.decision_function(sample.tokens)
    ...             == classifier.decision_function(sample.tokens)))
    True
    """
    kind = ESTIMATORS.kind(classifier)
    if kind not in ESTIMATORS:
        raise InvalidInput(
            "save_classifier: classifier must be an object of one of the classes behind "
            f"{', '.join(ESTIMATORS)}, got {type(classifier).__name__}"
        )
    check_is_fitted(classifier)
    settings = classifier.get_params(deep=False)
    if type(settings["token_map"]) not in (type(None), str, NystroemMap):
        allowed = "None, 'auto' or a NystroemMap (others cannot be kept without pickles)"
        raise refusal("save_classifier", "token_map", settings["token_map"], allowed)
    if isinstance(settings["token_map"], NystroemMap):
        settings["token_map"] = settings["token_map"].get_params()
    for field, table in _BY_NAME.items():
        if settings.get(field) is not None:
            name = table.name(settings[field])
            if name is None:
                allowed = f"one of {', '.join(table)} as they are"
                raise refusal("save_classifier", field, settings[field], allowed)
            settings[field] = name
    if settings["class_weight"] not in (None, "balanced"):
        settings["class_weight"] = list(settings["class_weight"].items())  # keys of any kind
    fitted: OneAgainstRest = classifier._fitted
    names_in = getattr(classifier, "feature_names_in_", None)
    words = {
        "format": _FORMAT,
        "kind": kind,
        "settings": settings,
        "features": int(classifier.n_features_in_),
        "names": None if names_in is None else list(names_in),
        "models": [words_of(trained) for trained in fitted.trained],
    }
    classes = fitted.classes
    arrays: dict[str, Any] = {
        "about": np.array(json.dumps(words, default=_plain)),
        "classes": classes if classes.dtype.kind in "biufU" else classes.astype(str),
    }
    for place, model in enumerate(fitted.models):
        arrays |= {f"{place}.{name}": array for name, array in arrays_of(model).items()}
    if tokens is not None:
        arrays |= token_arrays(tokens)
    save_arrays("save_classifier", path, arrays)


def load_classifier(path: str | os.PathLike[str]) -> BagClassifier:
    """The classifier that `save_classifier` wrote: nothing is unpickled, every number checked.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    AttentionClassifier, PooledClassifier, StatisticsClassifier or VectorizedClassifier
        Fitted: its predictions are those of the classifier that was saved, bit for bit.

    Raises
    ------
    InvalidInput
        There is no such file, or it is damaged, forged or not a saved classifier.

    Examples
    --------
    >>> import tempfile
    >>> from sparsetoken import PooledClassifier, Task
    >>> sample = Task(length=5, sparsity=5, strength=2.0).sample(100, dim=8, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_classifier(PooledClassifier().fit(sample.tokens, sample.labels), f"{folder}/model")
    ...     load_classifier(f"{folder}/model").classes_.tolist()
    [-1.0, 1.0]
    """
    with naming(path) as place:
        try:
            about = _about(read_arrays(place, ("about",)))
            pooling = ESTIMATORS.make(about["kind"])._pooling
            names = [
                f"{place}.{name}"
                for place, learned in enumerate(about["models"])
                for name in names_of(pooling, learned)
            ]
            return _restored(about, read_arrays(place, ("classes", *names)))
        except InvalidInput as error:
            raise InvalidInput(f"this is not a saved classifier ({error})") from error


def _about(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The words of a file, checked; settings are those of a classifier."""
    if "about" not in arrays:
        raise InvalidInput("about is missing")
    try:
        about = json.loads(str(arrays["about"]))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"about is not JSON: {error}") from None
    if isinstance(about, dict) and about.get("format") == _OLD:
        raise InvalidInput("an older version wrote it, fit and save again")
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise InvalidInput(f"the format is not {_FORMAT!r}")
    usual = ESTIMATORS.make(about.get("kind"))
    settings, models, names = (about.get(name) for name in ("settings", "models", "names"))
    expected = set(usual.get_params())
    if not isinstance(settings, dict) or set(settings) != expected:
        raise InvalidInput(f"settings are not {', '.join(sorted(expected))}")
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise InvalidInput("learned numbers are missing")
    for model in models:
        check_words(model)
    real("learned", "features", about.get("features"), above=0, below=HUGE)
    if names is not None and not isinstance(names, list):
        raise InvalidInput(f"names are {names!r}, not a list")
    return about | {"kind": ESTIMATORS.kind(usual)}


def _restored(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> BagClassifier:
    classifier = _as_set(about["kind"], about["settings"])
    classes = _labels(arrays, len(about["models"]))
    signal_of(classes, classifier.positive, about["kind"])
    trained, pooling = [], classifier._pooling
    for place, learned in enumerate(about["models"]):
        own = {
            name: numbers(name, arrays.get(f"{place}.{name}"))
            for name in names_of(pooling, learned)
        }
        trained.append(restored(pooling, learned, own))
    features = int(about["features"])
    dims = {dim_of(fit.model) * classifier.n_tokens for fit in trained}
    if dims != {features}:
        raise InvalidInput(f"{features} features do not fit dimensions {sorted(dims)}")
    if about["names"] is not None:
        classifier.feature_names_in_ = np.array([str(x) for x in about["names"]], dtype=object)
    classifier.n_features_in_ = features
    classifier._set_fitted(OneAgainstRest(classes, tuple(trained)))
    return classifier


def _as_set(kind: str, settings: dict[str, Any]) -> BagClassifier:
    """The classifier with the settings of a file."""
    for field, table in _BY_NAME.items():
        if settings.get(field) is not None:
            settings[field] = table.make(settings[field])
    if isinstance(settings["token_map"], dict):
        settings["token_map"] = _map(settings["token_map"])
    for name in ("whiten", "calibrate"):
        one_of("settings", name, settings[name], (False, True))
    weights = settings["class_weight"]
    if weights not in (None, "balanced"):
        try:
            settings["class_weight"] = dict(weights)
        except (TypeError, ValueError):
            raise InvalidInput(f"class_weight is {weights!r}") from None
    classifier = ESTIMATORS.make(kind, **settings)
    check_parameters(kind, classifier.get_params(deep=False))
    return classifier


def _labels(arrays: dict[str, NDArray[Any]], models: int) -> NDArray[Any]:
    """In order, two for one model and k for k > 2."""
    classes = arrays.get("classes", np.zeros(0))
    count = 2 if models == 1 else models
    if classes.shape != (count,) or models in (0, 2):
        raise InvalidInput(f"classes has shape {classes.shape}, there are {models} models")
    if classes.dtype.kind not in "biufU" or not all(a < b for a, b in pairwise(classes.tolist())):
        raise InvalidInput("classes are not labels in order")
    return classes


def _map(settings: dict[str, Any]) -> NystroemMap:
    """With the settings of a file."""
    expected = NystroemMap().get_params()
    if set(settings) != set(expected):
        raise InvalidInput(f"settings of the map are not {', '.join(sorted(expected))}")
    return NystroemMap(**settings)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, bytes as the words that labels of bytes become."""
    if isinstance(value, np.generic):
        return _plain(value.item()) if isinstance(value, np.bytes_) else value.item()
    if isinstance(value, bytes):
        return value.decode()
    raise TypeError(f"{value!r} cannot be saved")

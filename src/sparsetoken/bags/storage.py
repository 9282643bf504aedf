"""Fitted classifiers in files: numbers and words in an npz archive, nothing to unpickle."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sparsetoken.bags.estimators import ESTIMATORS, BagClassifier
from sparsetoken.bags.readers.loading import naming
from sparsetoken.bags.readers.npz import read_arrays
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.bags.training import BagModel, Choice, Trained
from sparsetoken.bags.whitening import TARGETS, Shrinking, Whitening
from sparsetoken.model.names import LOSSES, WEIGHTINGS, Names
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import one_of, real, refusal
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.whole_files import NotAFile, whole_file

_BY_NAME: dict[str, Names[Any]] = {"loss": LOSSES, "weighting": WEIGHTINGS}  # of the settings
_ARRAYS = ("about", "classes", "coef", "intercept", "mean", "root", "query")
_MAP_ARRAYS = ("mean_", "unit_", "landmarks_", "root_")  # of a NystroemMap; in the file, "map_…"
_FORMAT, _OLD = "sparsetoken classifier 2", "sparsetoken classifier 1"
_HUGE = 1e300  # no number that was learned is beyond it


def save_classifier(classifier: BagClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to a file; an old one is replaced only by a whole new one.

    Parameters
    ----------
    classifier : AttentionClassifier, PooledClassifier or VectorizedClassifier
        Fitted, with a loss and a weighting that have names (`LOSSES`, `WEIGHTINGS`); without a
        token map, or with a `NystroemMap`.
    path : str or path
        A new or regular file; the name is taken as it is.

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
    classes = classifier.classes_
    if classes.dtype.kind not in "biufU":
        classes = classes.astype(str)
    model = classifier._model
    names_in = getattr(classifier, "feature_names_in_", None)
    learned = {
        "ridge": float(classifier.ridge_),
        "sharpness": float(classifier.sharpness_),
        "shrinkage": float(classifier.shrinkage_),
        "target": classifier.target_,
        "features": int(classifier.n_features_in_),
        "tokens": model.pooling.length,
        "joint": classifier.joint_,
        "names": None if names_in is None else list(names_in),
        "map_scale": None if model.token_map is None else model.token_map.scale_,
    }
    words = {"format": _FORMAT, "kind": kind, "settings": settings, "learned": learned}
    arrays: dict[str, Any] = {
        "about": np.array(json.dumps(words, default=_plain)),
        "classes": classes,
        "coef": classifier.coef_,
        "intercept": classifier.intercept_,
        "mean": model.whitening.mean,
        "root": model.whitening.root,
        "query": model.pooling.query,
    }
    if model.token_map is not None:
        arrays |= {f"map_{name}": getattr(model.token_map, name) for name in _MAP_ARRAYS}
    try:
        with whole_file(path) as draft, draft.open("wb") as stream:
            np.savez(stream, **arrays)
    except NotAFile as error:
        raise InvalidInput(f"save_classifier: path must be {error}") from None


def load_classifier(path: str | os.PathLike[str]) -> BagClassifier:
    """The classifier that `save_classifier` wrote: nothing is unpickled, every number checked.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    AttentionClassifier, PooledClassifier or VectorizedClassifier
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
        arrays = read_arrays(place, [*_ARRAYS, *(f"map_{name}" for name in _MAP_ARRAYS)])
        try:
            return _restored(arrays)
        except InvalidInput as error:
            raise InvalidInput(f"this is not a saved classifier ({error})") from error


def _about(words: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Kind, settings and learned numbers as the words of a file have them, checked."""
    try:
        about = json.loads(words)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"about is not JSON: {error}") from None
    if isinstance(about, dict) and about.get("format") == _OLD:
        raise InvalidInput("an older version wrote it, fit and save again")
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise InvalidInput(f"the format is not {_FORMAT!r}")
    kind, settings, learned = (about.get(name) for name in ("kind", "settings", "learned"))
    usual = ESTIMATORS.make(kind)
    if not isinstance(settings, dict) or not isinstance(learned, dict):
        raise InvalidInput("settings or learned numbers are missing")
    expected = set(usual.get_params())
    if set(settings) != expected:
        raise InvalidInput(f"settings are not {', '.join(sorted(expected))}")
    for name in ("ridge", "sharpness", "shrinkage", "features", "tokens"):
        real("learned", name, learned.get(name), above=-_HUGE, below=_HUGE)
    one_of("learned", "joint", learned.get("joint"), (False, True))
    one_of("learned", "target", learned.get("target"), (None, *TARGETS))
    if learned.get("map_scale") is not None:
        real("learned", "map_scale", learned["map_scale"], above=0, below=_HUGE)
    names = learned.get("names")
    if names is not None and not isinstance(names, list):
        raise InvalidInput(f"names are {names!r}, not a list")
    return ESTIMATORS.kind(usual), settings, learned


def _restored(arrays: dict[str, NDArray[Any]]) -> BagClassifier:
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise InvalidInput(f"{missing[0]} is missing")
    kind, settings, learned = _about(str(arrays["about"]))
    for field, table in _BY_NAME.items():
        if settings.get(field) is not None:
            settings[field] = table.make(settings[field])
    if isinstance(settings["token_map"], dict):
        settings["token_map"] = _map(settings["token_map"])
    classifier = ESTIMATORS.make(kind, **settings)
    classifier._check_parameters()
    for name in ("whiten", "calibrate"):
        one_of("settings", name, settings[name], (False, True))
    if arrays["mean"].ndim != 1:
        raise InvalidInput(f"mean has shape {arrays['mean'].shape}, not (d,)")
    dim, features = len(arrays["mean"]), int(learned["features"])
    pooling = classifier._pooling.learned(int(learned["tokens"]), arrays["query"])
    shapes = {
        "classes": (2,),
        "coef": (1, dim * pooling.features_per_dim),
        "intercept": (1,),
        "mean": (dim,),
        "root": (dim, dim),
        "query": (dim,) if pooling.learns_query else (0,),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape or dim == 0:
            raise InvalidInput(f"{name} has shape {arrays[name].shape}, not {shape}")
        if name != "classes":
            arrays[name] = _real_numbers(name, arrays[name])
    token_map = None
    if learned["map_scale"] is not None:
        token_map = _fitted_map(arrays, float(learned["map_scale"]))
        if len(token_map.landmarks_) != dim:
            raise InvalidInput(f"{len(token_map.landmarks_)} landmarks do not fit dimension {dim}")
        dim = len(token_map.mean_)
    if features != dim * classifier.n_tokens:
        raise InvalidInput(f"{features} features do not fit dimension {dim}")
    classes = arrays["classes"]
    if classes.dtype.kind not in "biufU" or not classes[0] < classes[1]:
        raise InvalidInput("classes are not two labels in order")
    if learned["names"] is not None:
        classifier.feature_names_in_ = np.array([str(x) for x in learned["names"]], dtype=object)
    classifier.n_features_in_ = features
    model = BagModel(
        token_map,
        Whitening(arrays["mean"], arrays["root"]),
        pooling,
        arrays["coef"][0],
        float(arrays["intercept"][0]),
        float(learned["ridge"]),
    )
    shrinking = Shrinking(learned["target"], float(learned["shrinkage"]))
    choice = Choice(token_map is not None, shrinking, float(learned["sharpness"]), 1.0)
    classifier._set_trained(Trained(model, choice, {}, learned["joint"]), classes)
    return classifier


def _map(settings: dict[str, Any]) -> NystroemMap:
    """With the settings of a file."""
    expected = NystroemMap().get_params()
    if set(settings) != set(expected):
        raise InvalidInput(f"settings of the map are not {', '.join(sorted(expected))}")
    return NystroemMap(**settings)


def _fitted_map(arrays: dict[str, NDArray[Any]], scale: float) -> NystroemMap:
    """As it was fitted, every array checked."""
    missing = [name for name in _MAP_ARRAYS if f"map_{name}" not in arrays]
    if missing:
        raise InvalidInput(f"map_{missing[0]} is missing")
    given = {name: _real_numbers(f"map_{name}", arrays[f"map_{name}"]) for name in _MAP_ARRAYS}
    landmarks = given["landmarks_"]
    count, dim = landmarks.shape if landmarks.ndim == 2 else (0, 0)
    shapes = {"mean_": (dim,), "unit_": (dim,), "landmarks_": (count, dim), "root_": (count, count)}
    for name, shape in shapes.items():
        if given[name].shape != shape or not count or not dim:
            raise InvalidInput(f"map_{name} has shape {given[name].shape}, not {shape}")
    if np.any(given["unit_"] < 0):
        raise InvalidInput("map_unit_ has numbers below 0")
    token_map = NystroemMap()
    for name, array in given.items():
        setattr(token_map, name, array)
    token_map.scale_ = scale
    return token_map


def _real_numbers(name: str, array: NDArray[Any]) -> FloatArray:
    """Finite ones."""
    if array.dtype.kind != "f":
        raise InvalidInput(f"{name} has dtype {array.dtype}, not that of real numbers")
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} has numbers that are not finite")
    return array.astype(float)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} cannot be saved")

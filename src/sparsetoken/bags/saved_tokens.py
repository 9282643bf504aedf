"""`TokenPosterior` in files: numbers and words in an npz archive, nothing to unpickle.

Names of the arrays begin with "tokens.", so that a file may hold a classifier as well.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sparsetoken.bags.carriers import Carriers, FixedCount, VaryingShare
from sparsetoken.bags.likelihood import NoiseDensity
from sparsetoken.bags.readers.loading import naming
from sparsetoken.bags.readers.npz import read_arrays
from sparsetoken.bags.token_model import Learned, TokenModel
from sparsetoken.bags.token_posterior import TokenPosterior
from sparsetoken.fitting.calibration import Sigmoid
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.whole_files import save_arrays

_FORMAT = "sparsetoken tokens 1"
_ABOUT, _DIRECTION, _DENSITY = "tokens.about", "tokens.direction", "tokens.density"
_HUGE = 1e300  # no number that was learned is beyond it
_MOST_SHARES = 1000  # atoms of a law, in a file that may say anything


def token_arrays(tokens: TokenPosterior) -> dict[str, NDArray[Any]]:
    """All that was learned, as arrays for a file."""
    check_is_fitted(tokens)
    model = tokens._learned.model
    label = tokens.positive_
    label = label.decode() if isinstance(label, bytes) else label
    words = {
        "format": _FORMAT,
        "positive": label,
        "prevalence": tokens.prevalence,
        "share": tokens._share,
        "evidence": tokens._learned.evidence,
        "centre": model.centre,
        "unit": model.unit,
        "unseen": model.noise.unseen,
        "shift": model.shift,
        "width": model.width,
        "slope": model.sigmoid.slope,
        "offset": model.sigmoid.offset,
        "carriers": vars(model.carriers),
    }
    arrays = (np.array(json.dumps(words)), model.direction, model.noise.density)
    return dict(zip((_ABOUT, _DIRECTION, _DENSITY), arrays, strict=True))


def save_token_posterior(tokens: TokenPosterior, path: str | os.PathLike[str]) -> None:
    """Write a fitted `TokenPosterior` to a file; an old one is replaced only by a whole new one.

    `save_classifier(classifier, path, tokens)` writes it into the file of a classifier.

    Parameters
    ----------
    tokens : TokenPosterior
        Fitted.
    path : str or path
        As for `save_classifier`.

    Returns
    -------
    None

    Raises
    ------
    InvalidInput
        A path that is not a file's.
    NotFittedError
        One that is not fitted yet.

    Examples
    --------
    >>> import tempfile
    >>> from sparsetoken import Task
    >>> sample = Task(length=5, sparsity=1, strength=6.0).sample(100, dim=8, rng=0)
    >>> tokens = TokenPosterior().fit(sample.tokens, sample.labels)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_token_posterior(tokens, f"{folder}/tokens")
    ...     again = load_token_posterior(f"{folder}/tokens")
    >>> bool(np.all(again.posterior(sample.tokens)[0] == tokens.posterior(sample.tokens)[0]))
    True
    """
    save_arrays("save_token_posterior", path, token_arrays(tokens))


def load_token_posterior(path: str | os.PathLike[str]) -> TokenPosterior:
    """The `TokenPosterior` of a file, its own or a classifier's: every number is checked.

    Parameters
    ----------
    path : str or path
        What `save_token_posterior` or `save_classifier` wrote.

    Returns
    -------
    TokenPosterior
        Fitted: its probabilities are those of the one that was saved.

    Raises
    ------
    InvalidInput
        There is no such file, it holds none, or it is damaged or forged.

    Examples
    --------
    >>> load_token_posterior("nothing.npz")
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: nothing.npz: there is no such file
    """
    with naming(path) as place:
        arrays = read_arrays(place, (_ABOUT, _DIRECTION, _DENSITY))
        if _ABOUT not in arrays:
            raise InvalidInput(
                "it holds no probabilities of tokens: fit and save again, with labels of which one "
                "is the signal's (sparsetoken fit BAGS --save MODEL); none are saved where no "
                "signal is found"
            )
        try:
            return _restored(_words(arrays[_ABOUT]), arrays)
        except InvalidInput as error:
            raise InvalidInput(f"its probabilities of tokens are damaged ({error})") from error


def _words(about: NDArray[Any]) -> dict[str, Any]:
    try:
        words = json.loads(str(about))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{_ABOUT} is not JSON: {error}") from None
    if not isinstance(words, dict) or words.get("format") != _FORMAT:
        raise InvalidInput(f"the format is not {_FORMAT!r}")
    return words


def _restored(words: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TokenPosterior:
    def number(name: str, above: float = -_HUGE, most: float = _HUGE) -> float:
        return real("tokens", name, words.get(name), above=above, most=most)

    direction, density = _numbers(_DIRECTION, arrays), _numbers(_DENSITY, arrays)
    noise = NoiseDensity.restored(density, number("unseen", above=0, most=1))
    if density.shape != noise.at.shape or np.any(density < 0):
        raise InvalidInput(f"{_DENSITY} must be {len(noise.at)} numbers that are not below 0")
    model = TokenModel(
        direction,
        number("centre"),
        number("unit", above=0),
        noise,
        number("shift", above=0),
        number("width", above=0),
        _carriers(words.get("carriers")),
        Sigmoid(number("slope", above=-1), number("offset")),
    )
    positive, prevalence = words.get("positive"), words.get("prevalence")
    if not isinstance(positive, str | int | float):
        raise InvalidInput(f"positive is {positive!r}, not a label")
    if prevalence is not None:
        prevalence = real("tokens", "prevalence", prevalence, above=0, below=1)
    share = real("tokens", "share", words.get("share"), above=0, below=1)
    tokens = TokenPosterior(positive=positive, prevalence=prevalence)
    tokens._set_fitted(Learned(model, number("evidence")), positive, share)
    return tokens


def _carriers(words: Any) -> Carriers:
    """The law that a file has written down."""
    if isinstance(words, dict) and set(words) == {"count", "silent"}:
        silent = real("carriers", "silent", words["silent"], least=0, below=1)
        return FixedCount(whole("carriers", "count", words["count"], least=1), silent)
    if isinstance(words, dict) and set(words) == {"shares", "weights"}:
        shares, weights = words["shares"], words["weights"]
        lists = all(isinstance(values, list) for values in (shares, weights))
        if not lists or len(shares) != len(weights) or not 0 < len(shares) <= _MOST_SHARES:
            raise InvalidInput("shares and weights are not lists of one length")
        laws = [
            tuple(real("carriers", name, value, least=0, most=most) for value in values)
            for name, values, most in (("shares", shares, 0.999), ("weights", weights, 1.001))
        ]
        if sum(laws[1]) <= 0:
            raise InvalidInput("weights are all 0")
        return VaryingShare(*laws)
    raise InvalidInput("carriers are neither count and silent nor shares and weights")


def _numbers(name: str, arrays: dict[str, NDArray[Any]]) -> FloatArray:
    """One of the arrays: a row of real numbers."""
    array = arrays.get(name, np.zeros(0, dtype=int))
    if array.dtype.kind != "f" or array.ndim != 1 or not len(array):
        raise InvalidInput(f"{name} is missing, or not a row of real numbers")
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} has numbers that are not finite")
    return array.astype(float)

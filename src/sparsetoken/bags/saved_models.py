"""What one model of a classifier has learned, as words and arrays for a file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bag_model import LEARNED_BY, BagModel, Choice, Trained
from sparsetoken.bags.poolings import Pooling
from sparsetoken.bags.posterior import LikelihoodRatio
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.bags.units import TARGETS
from sparsetoken.bags.whitening import Shrinking, Whitening
from sparsetoken.fitting.low_rank import LowRank
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import one_of, real
from sparsetoken.support.errors import InvalidInput

_MODEL = ("coef", "intercept", "mean")  # arrays of each model, beside root and those of its pooling
_LOW_RANK = ("diagonal", "left", "right")  # of such a root; in the file, "root_…"
_MAP_ARRAYS = ("mean_", "unit_", "landmarks_", "root_")  # of a NystroemMap; in the file, "map_…"
_NUMBERS = ("ridge", "sharpness", "shrinkage", "tokens")  # learned by each model
HUGE = 1e300  # no number that was learned is beyond it


def words_of(trained: Trained) -> dict[str, Any]:
    """What a model has learned, but for its arrays."""
    mapped, target, shrinkage, sharpness, _ = trained.choice.flat
    return {
        "ridge": float(trained.model.ridge),
        "sharpness": float(sharpness),
        "target": target,
        "shrinkage": float(shrinkage),
        "map_scale": trained.model.token_map.scale_ if mapped else None,
        "tokens": trained.model.pooling.length,
        "by": trained.by,
        "low_rank": isinstance(trained.model.whitening.root, LowRank),
    }


def arrays_of(model: BagModel) -> dict[str, FloatArray]:
    """All numbers of a model that are arrays, by name."""
    root = model.whitening.root
    arrays = (model.weights, np.array(model.bias), model.whitening.mean)
    learned = dict(zip(_MODEL, arrays, strict=True)) | model.pooling.arrays()
    if isinstance(root, LowRank):
        learned |= {f"root_{name}": getattr(root, name) for name in _LOW_RANK}
    else:
        learned["root"] = root
    if model.token_map is not None:
        learned |= {f"map_{name}": getattr(model.token_map, name) for name in _MAP_ARRAYS}
    return learned


def check_words(learned: dict[str, Any]) -> None:
    """Refuse words that `words_of` does not make; a file may say anything."""
    for name in _NUMBERS:
        real("learned", name, learned.get(name), above=-HUGE, below=HUGE)
    joint = one_of("learned", "joint", learned.pop("joint", False), (False, True))
    one_of("learned", "by", learned.setdefault("by", "joint" if joint else "two-step"), LEARNED_BY)
    one_of("learned", "low_rank", learned.setdefault("low_rank", False), (False, True))
    one_of("learned", "target", learned.get("target"), (None, *TARGETS))
    if learned.get("map_scale") is not None:
        real("learned", "map_scale", learned["map_scale"], above=0, below=HUGE)


def names_of(untaught: Pooling, learned: dict[str, Any]) -> tuple[str, ...]:
    """Of the arrays of a model."""
    names = _MODEL + _pooling(untaught, learned).names
    root = [f"root_{name}" for name in _LOW_RANK] if learned["low_rank"] else ["root"]
    maps = () if learned.get("map_scale") is None else _MAP_ARRAYS
    return (*names, *root, *(f"map_{name}" for name in maps))


def _pooling(untaught: Pooling, learned: dict[str, Any]) -> Pooling:
    """That of its classifier, unless the likelihood was better."""
    return LikelihoodRatio() if learned["by"] == "likelihood" else untaught


def numbers(name: str, array: NDArray[Any] | None) -> FloatArray:
    if array is None:
        raise InvalidInput(f"{name} is missing")
    if array.dtype.kind != "f":
        raise InvalidInput(f"{name} has dtype {array.dtype}, not that of real numbers")
    numbers = array.astype(float)
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{name} has numbers that are not finite")
    return numbers


def restored(untaught: Pooling, learned: dict[str, Any], arrays: dict[str, FloatArray]) -> Trained:
    """The model of a file, with the pooling of its classifier."""
    if arrays["mean"].ndim != 1 or not len(arrays["mean"]):
        raise InvalidInput(f"mean has shape {arrays['mean'].shape}, not (d,)")
    dim = len(arrays["mean"])
    if learned["by"] == "likelihood" and not untaught.posterior:
        raise InvalidInput("it was learned by likelihood, which its settings do not try")
    pooling = _pooling(untaught, learned).restored(int(learned["tokens"]), dim, arrays)
    shapes: dict[str, tuple[int, ...]] = {"coef": (pooling.count(dim),), "intercept": ()}
    if learned["low_rank"]:
        spanned = (dim, arrays["root_left"].size // dim)
        shapes |= {"root_diagonal": (dim,), "root_left": spanned, "root_right": spanned}
    else:
        shapes["root"] = (dim, dim)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise InvalidInput(f"{name} has shape {arrays[name].shape}, not {shape}")
    low_rank = learned["low_rank"]
    root = LowRank(*(arrays[f"root_{x}"] for x in _LOW_RANK)) if low_rank else arrays["root"]
    whitening = Whitening(arrays["mean"], root)
    bias, ridge = float(arrays["intercept"]), float(learned["ridge"])
    scale = learned["map_scale"]
    token_map = None if scale is None else _fitted_map(arrays, float(scale), dim)
    model = BagModel(token_map, whitening, pooling, arrays["coef"], bias, ridge)
    shrinking = Shrinking(learned["target"], float(learned["shrinkage"]))
    choice = Choice(scale is not None, shrinking, float(learned["sharpness"]), 1.0)
    return Trained(model, choice, {}, learned["by"])


def dim_of(model: BagModel) -> int:
    """Of the tokens as they are given."""
    return len(model.whitening.mean if model.token_map is None else model.token_map.mean_)


def _fitted_map(arrays: dict[str, FloatArray], scale: float, count: int) -> NystroemMap:
    """As it was fitted, to so many coordinates."""
    given = {name: arrays[f"map_{name}"] for name in _MAP_ARRAYS}
    dim = int(np.prod(given["mean_"].shape))
    shapes = {"mean_": (dim,), "unit_": (dim,), "landmarks_": (count, dim), "root_": (count, count)}
    for name, shape in shapes.items():
        if given[name].shape != shape or not dim:
            raise InvalidInput(f"map_{name} has shape {given[name].shape}, not {shape}")
    if np.any(given["unit_"] < 0):
        raise InvalidInput("map_unit_ has numbers below 0")
    token_map = NystroemMap()
    for name, array in given.items():
        setattr(token_map, name, array)
    token_map.scale_ = scale
    return token_map

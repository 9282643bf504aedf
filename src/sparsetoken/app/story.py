"""`story_data`: six steps from one sample to what any learner can do, as numbers for a browser.

A step has one picture, one thing to move and, at each of its values, one sentence made from the
exact numbers there, an address of the laboratory that shows them, and the commands that print them.
Marks ** around a number make it bold. `static/story/` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from sparsetoken.app.sample import sample_data
from sparsetoken.app.state import CONTROLS, State
from sparsetoken.model.classifiers import Attention, Classifier, Pooled
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.model.weightings import HardMax
from sparsetoken.oracles.bayes_learning import bayes_curve
from sparsetoken.oracles.oracle import oracle_error, signal_threshold
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.theory.alignment import align
from sparsetoken.theory.prediction import learning_curve, predict

STRENGTH = 6.0  # θ: a needle that is plain to see along the right direction, up to 10³ tokens
LENGTH = 40  # L, where it is not moved: the mean keeps less than one noise width of the signal
RIDGE = 0.01
_TARGET = 0.01  # the error whose price in strength is told
_LENGTHS = (10, 20, 40, 100, 200, 1000)
_LONG = (10, 30, 100, 300, 1000, 3000, 10_000)
_PREVALENCES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_CURVE = 81  # points of the cosine between them
_SPREAD = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40)  # tokens that share a signal of
_TOTAL = 12.0  # in all
_LABELS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_QUERY_STEP = 200.0  # for a query of such length that softmax picks few of these many tokens
_FITTED = (
    "the step's sentence knows the signal and takes the best cut; "
    "the laboratory fits it to samples, which costs errors"
)
_SOFT = (
    "the step's sentence knows the signal and takes the strongest token alone; the laboratory "
    "weights tokens by softmax and fits the readout to samples, which costs errors"
)
_HALF = (
    "the step's sentence gives the mean all labels; the laboratory shows both classifiers "
    "with the half of them that attention's readout has"
)
Fields = dict[str, Any]
_KINDS: dict[str, Classifier] = {
    "attention": Attention(), "vectorized": Vectorized(), "pooled": Pooled(),
}  # fmt: skip
_LINEAR = {"pooled": "the mean", "vectorized": "all tokens side by side"}


@lru_cache(maxsize=1)
def story_data() -> dict[str, Any]:
    """All six steps, ready for JSON; computed once in a process, which takes some seconds."""
    with one_blas_thread():
        steps = [make() for make in _STEPS]
    return {"version": version("sparsetoken"), "steps": steps}


def percent(share: float) -> str:
    """As the page writes it: of small ones two digits; what is not resolved is not shown."""
    value = 100 * share
    if value < 0.01:
        return "below\u00a00.01\u00a0%"
    return f"{value:.{2 if value < 1 else 1}f}\u00a0%"


def _step(
    name: str,
    title: str,
    moved: tuple[str, str, str],
    points: Sequence[dict[str, Any]],
    start: int,
    remark: str = "",
    **picture: Any,
) -> dict[str, Any]:
    """`moved` is the field, its words and its symbol; each point has its `value`.

    The remark says why the laboratory's numbers differ from those of the sentences.
    """
    field, words, symbol = moved
    values = [point["value"] for point in points]
    move = {"field": field, "words": words, "symbol": symbol, "values": values, "start": start}
    return {
        "name": name,
        "title": title,
        "move": move,
        "points": list(points),
        "picture": picture,
        "remark": remark,
    }


def _address(**fields: Any) -> str | None:
    """Of the laboratory in that state; None where it has no such state."""
    if any(not _within(name, value) for name, value in fields.items()):
        return None
    return State(**fields).to_query()


def _within(name: str, value: Any) -> bool:
    control = CONTROLS[name]
    return bool(control.choices) or control.least <= value <= control.most


def _command(verb: str, **options: Any) -> str:
    words = (f"--{name.replace('_', '-')} {_word(value)}" for name, value in options.items())
    return f"sparsetoken {verb} {' '.join(words)}"


def _word(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _needle() -> dict[str, Any]:
    """Samples to draw, at every length, with a query that someone has found."""
    query: Fields = {"cosine": 0.95, "sharpness": 3.0}
    training: Fields = {"readout_samples": 8.0, "ridge": RIDGE}
    kinds = {**_KINDS, "attention": Attention(**query)}
    points = []
    for length in _LENGTHS:
        task: Fields = {"length": length, "sparsity": 1, "strength": STRENGTH}
        data = sample_data(Task(**task), Protocol(**training), kinds)
        errors = {name: judge["test_error"] for name, judge in data["classifiers"].items()}
        loudest = largest_of_normals(length - 1)
        points.append({
            "value": length,
            "sentence": (
                f"One of **{length}** tokens carries a signal of strength {STRENGTH:g}, the "
                f"largest of the others is **{loudest:.1f}** by chance: attention with a good "
                f"query errs **{percent(errors['attention'])}**, the mean of the same tokens "
                f"**{percent(errors['pooled'])}**."
            ),
            "address": _address(**task, **training, query="frozen", **query),
            "commands": [_command("predict", **task, **training, **query)],
            "numbers": {"loudest": loudest, **errors},
            "sample": data,
        })  # fmt: skip
    moved = ("length", "tokens in a sample", "L")
    return _step("needle", "A needle among tokens", moved, points, _LENGTHS.index(LENGTH))


def largest_of_normals(count: int) -> float:
    """The mean of the largest of so many standard normals: ∫₀^∞ (1 − Φⁿ) − ∫_{−∞}^0 Φⁿ.

    >>> round(largest_of_normals(2), 6)  # 1/√π
    0.56419
    """
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    above, _ = quad(lambda x: -math.expm1(count * log_ndtr(x)), 0.0, 12.0, epsabs=1e-12)
    below, _ = quad(lambda x: math.exp(count * log_ndtr(x)), -12.0, 0.0, epsabs=1e-12)
    return float(above - below)


def _mean() -> dict[str, Any]:
    """Two Gaussians at a distance κ = θR/√L."""
    points = []
    for length in (1, 4, 10, 20, 40, 100, 200, 1000):
        task: Fields = {"length": length, "sparsity": 1, "strength": STRENGTH}
        error = float(oracle_error(Task(**task), Pooled()))
        distance = STRENGTH / math.sqrt(length)
        points.append({
            "value": length,
            "sentence": (
                f"The mean of **{length}** tokens keeps 1/{length} of the signal and "
                f"1/√{length} of the noise: of {STRENGTH:g} noise widths between the classes "
                f"**{distance:.2f}** are left, and even the best cut, the signal being known, errs "
                f"**{percent(error)}**."
            ) if length > 1 else (
                f"A single token is its own mean: **{distance:.2f}** noise widths lie between the "
                f"classes, and the best cut, the signal being known, errs **{percent(error)}**."
            ),
            "address": _address(**task, ridge=RIDGE, view="roc"),
            "commands": [_command("oracle", **task)],
            "numbers": {"pooled": error, "distance": distance},
        })  # fmt: skip
    moved = ("length", "tokens in a sample", "L")
    return _step(
        "mean", "The mean drowns it: √L", moved, points, 4, remark=_FITTED, strength=STRENGTH
    )


def _query() -> dict[str, Any]:
    """The strength at which the mean, and attention at its best, err one in a hundred.

    With so few errors attention is at its best when it is sharpest, and then needs no sampling.
    """
    kinds = {"pooled": Pooled(), "attention": Attention(weighting=HardMax())}
    needs = {
        name: [float(signal_threshold(Task(length, 1, 0.0), kind, error=_TARGET))
               for length in _LONG]
        for name, kind in kinds.items()
    }  # fmt: skip
    points = []
    for length, mean, attention in zip(_LONG, needs["pooled"], needs["attention"], strict=True):
        growth = {name: needed[_LONG.index(length)] / needed[0] for name, needed in needs.items()}
        task: Fields = {"length": length, "sparsity": 1, "strength": round(attention, 2)}
        since = (
            f": since 10 tokens the one has grown **{growth['pooled']:.1f}** times, like √L, the "
            f"other **{growth['attention']:.2f}** times, less than log L"
        )  # fmt: skip
        points.append({
            "value": length,
            "sentence": (
                f"To err {percent(_TARGET)} among **{length}** tokens, the signal known, the mean "
                f"needs it **{mean:.1f}** strong, a query that looks for it **{attention:.2f}**"
                f"{since if length > _LONG[0] else ''}."
            ),
            "address": _address(**task, ridge=RIDGE, query="frozen", cosine=1.0, sharpness=6.0),
            "commands": [_command("oracle", **task, error=_TARGET)],
            "numbers": {"pooled": mean, "attention": attention},
        })  # fmt: skip
    moved = ("length", "tokens in a sample", "L")
    start = _LONG.index(100)
    return _step(
        "query",
        "A query finds it: log L",
        moved,
        points,
        start,
        remark=_SOFT,
        target=_TARGET,
        **needs,
    )


def _origin() -> dict[str, Any]:
    """The learned query's cosine, from rare positives to as many as negatives."""
    training: Fields = {
        "query_samples": 32.0, "readout_samples": 16.0, "ridge": 1e-3, "query_step": _QUERY_STEP,
    }  # fmt: skip
    protocol, points = Protocol(**training), []
    for prevalence in _PREVALENCES:
        fields: Fields = {
            "length": LENGTH,
            "sparsity": 1,
            "strength": STRENGTH,
            "prevalence": prevalence,
        }
        task = Task(**fields)
        query = align(task, protocol)
        errors = _errors(task, protocol)
        points.append({
            "value": prevalence,
            "sentence": (
                f"Where **{100 * prevalence:.0f}\u00a0%** of {protocol.query_samples:g} samples a "
                f"dimension are positive, the query that two gradient steps make "
                f"{_direction(query.cosine)} (cosine **{_signed(query.cosine)}**): attention errs "
                f"**{percent(errors['attention'])}**, the mean **{percent(errors['pooled'])}**, "
                f"always saying no {percent(prevalence)}."
            ),
            "address": _address(**fields, **training, view="alignment"),
            "commands": [_command("predict", **fields, **training)],
            "numbers": {"cosine": query.cosine, "sharpness": query.sharpness, **errors},
        })  # fmt: skip
    moved = ("prevalence", "positive samples", "π")
    start = _PREVALENCES.index(0.2)
    fine = np.linspace(_PREVALENCES[0], _PREVALENCES[-1], _CURVE).tolist()
    tasks = [Task(LENGTH, 1, STRENGTH, prevalence) for prevalence in fine]
    curve = [[at.prevalence, align(at, protocol).cosine] for at in tasks]
    return _step("origin", "Where the query comes from", moved, points, start, curve=curve)


def _direction(cosine: float) -> str:
    """What a cosine means."""
    if cosine < -0.1:
        return "turns to the wrong side, away from the signal"
    if cosine < 0.1:
        return "sees nothing of the signal"
    return "points at the signal" if cosine > 0.8 else "half points at the signal"


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _errors(task: Task, protocol: Protocol) -> dict[str, float]:
    return {
        name: float(predict(task, kind, protocol).test_error) for name, kind in _KINDS.items()
    }  # fmt: skip


def _fails() -> dict[str, Any]:
    """One amount of signal, in one token or spread over all: the mean does not see a difference."""
    training: Fields = {
        "query_samples": 4.0, "readout_samples": 4.0, "ridge": RIDGE, "query_step": 100.0,
    }  # fmt: skip
    protocol, points = Protocol(**training), []
    for sparsity in _SPREAD:
        fields: Fields = {"length": LENGTH, "sparsity": sparsity, "strength": _TOTAL / sparsity}
        task = Task(**fields)
        errors = _errors(task, protocol)
        rival = min(_LINEAR, key=lambda name: errors[name])
        wins = errors["attention"] < errors[rival]
        where = (
            "in one token" if sparsity == 1 else f"spread over **{sparsity}** of {LENGTH} tokens"
        )
        points.append({
            "value": sparsity,
            "sentence": (
                f"The same signal, {_TOTAL:g} in all, {where}: attention "
                f"{'wins' if wins else 'loses'}, with **{percent(errors['attention'])}** errors, "
                f"against {_LINEAR[rival]} with **{percent(errors[rival])}**"
                + ("." if wins else ", although its query had as many labels again: there is "
                                    "no needle to look for.")
            ),
            "address": _address(**fields, **training),
            "commands": [_command("predict", **fields, **training)],
            "numbers": {"cosine": align(task, protocol).cosine, **errors},
        })  # fmt: skip
    moved = ("sparsity", "tokens that share the signal", "R")
    start = len(_SPREAD) - 1
    return _step("fails", "When attention fails", moved, points, start, length=LENGTH, total=_TOTAL)


def _labels() -> dict[str, Any]:
    """Errors from so many labels, and what nobody gets below."""
    fields: Fields = {"length": LENGTH, "sparsity": 1, "strength": STRENGTH}
    fixed: Fields = {"ridge": RIDGE, "query_step": _QUERY_STEP}
    task = Task(**fields)
    floor = bayes_curve(task, samples=_LABELS)
    linear = learning_curve(task, Pooled(), Protocol(**fixed), _LABELS).test_error
    points = []
    for place, labels in enumerate(_LABELS):
        halves: Fields = {"query_samples": labels / 2, "readout_samples": labels / 2}
        alone = {"readout_samples": labels, **fixed}
        attention = float(predict(task, Attention(), Protocol(**halves, **fixed)).test_error)
        mean, least = float(linear[place]), float(floor[place].test_error)
        points.append({
            "value": labels,
            "sentence": (
                f"With **{labels:g}** labels a dimension, half of them for its query, "
                f"attention errs **{percent(attention)}**, the mean **{percent(mean)}** – and no "
                f"learner whatever can err less than **{percent(least)}**."
            ),
            "address": _address(**fields, **halves, **fixed),
            "commands": [
                _command("predict", **fields, **halves, **fixed, classifiers="attention"),
                _command("predict", **fields, **alone, classifiers="pooled"),
                _command("oracle", **fields, samples=labels),
            ],
            "numbers": {"attention": attention, "pooled": mean, "bayes": least},
        })  # fmt: skip
    moved = ("labels", "labelled samples a dimension", "n/d")
    return _step(
        "labels", "How many labels it takes", moved, points, _LABELS.index(2.0), remark=_HALF
    )


_STEPS: tuple[Callable[[], dict[str, Any]], ...] = (
    _needle, _mean, _query, _origin, _fails, _labels,
)  # fmt: skip

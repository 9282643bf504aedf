"""Names and objects, both ways, once: what is typed, written to files and shown.

A table has a name for each class of one kind. Commands, study files, stores, saved classifiers, the
explorer and reports all read it, so a class that is registered is known to all of them:

    @dataclass(frozen=True)
    class Cubic:  # a weighting of your own
        def weights(self, scores): ...

    st.WEIGHTINGS.register("cubic", Cubic)

Register beside the class: a process that is sent an object of it imports its module, and knows the
name too. A name that ends in -K stands for a class with one whole number: top-3 is TopK(3).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from sparsetoken.model.classifiers import Attention, Classifier, Pooled
from sparsetoken.model.losses import Huber, Logistic, Loss, Square, SquaredHinge
from sparsetoken.model.noise import Elliptical, Gaussian, Noise, Rademacher, Sparse, Student
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.model.weightings import HardMax, Softmax, Sparsemax, TopK, Weighting
from sparsetoken.support.errors import InvalidInput

Kind = TypeVar("Kind")
_NUMBERED = "-K"
_MOST = 10**9  # in place of K


class Names(Generic[Kind]):
    """The classes of one kind by their names, in order.

    >>> LOSSES.make("squared-hinge"), LOSSES.name(SquaredHinge()), LOSSES.kind(Huber(width=2.0))
    (SquaredHinge(), 'squared-hinge', 'huber')
    >>> WEIGHTINGS.make("top-3"), WEIGHTINGS.name(TopK(3)), list(CLASSIFIERS)
    (TopK(k=3), 'top-3', ['attention', 'vectorized', 'pooled'])
    >>> LOSSES.make("hinge", "Protocol")
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Protocol: loss must be one of square, logistic, squared-hinge, huber,
    got 'hinge'
    """

    def __init__(self, field: str, kinds: Mapping[str, Callable[..., Kind]]) -> None:
        self._field = field
        self._kinds: dict[str, Callable[..., Kind]] = {}
        for name, kind in kinds.items():
            self.register(name, kind)

    def register(self, name: str, kind: Callable[..., Kind]) -> None:
        """Make a class known by a name."""
        if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9 -]*(-K)?", name):
            raise InvalidInput(
                f"register: name must be words of small letters joined by -, got {name!r}"
            )
        if name in self._kinds or kind in self._kinds.values():
            raise InvalidInput(
                f"register: name and class must differ from those of {', '.join(self)}, got "
                f"{name!r} for {kind!r}"
            )
        if not callable(kind):
            raise InvalidInput(f"register: {name!r} must be a class, got {kind!r}")
        self._kinds[name] = kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __getitem__(self, name: str) -> Callable[..., Kind]:
        """The class of that name."""
        return self._kinds[name]

    def make(self, name: object, owner: str = "", **options: Any) -> Kind:
        """The object of that name; options go to the classes that have them.

        >>> [CLASSIFIERS.make(name, weighting=HardMax()) for name in ("attention", "pooled")]
        [Attention(cosine=None, sharpness=None, weighting=HardMax()), Pooled()]
        """
        kind, numbers = self._read(name)
        field = f"{owner}: {self._field}" if owner else self._field
        if kind is None:
            allowed = ", ".join(self)
            allowed += f", K from 1 to {_MOST}" if _NUMBERED in allowed else ""
            raise InvalidInput(f"{field} must be one of {allowed}, got {name!r}")
        signature = inspect.signature(kind)
        accepted = {key: options[key] for key in options if key in signature.parameters}
        try:
            signature.bind(*numbers, **accepted)
        except TypeError as error:
            raise InvalidInput(f"{field} {name!r} needs more: {error}") from None
        return kind(*numbers, **accepted)

    def _read(self, name: object) -> tuple[Callable[..., Kind] | None, list[int]]:
        """The class that a name means, and its number if it has one."""
        if not isinstance(name, str) or name.endswith(_NUMBERED):
            return None, []
        stem, _, number = name.rpartition("-")
        if name not in self._kinds and number.isdecimal() and 0 < int(number) <= _MOST:
            return self._kinds.get(stem + _NUMBERED), [int(number)]
        return self._kinds.get(name), []

    def name(self, thing: Kind) -> str | None:
        """The name that makes this very object; None if there is none, as for Huber(width=2)."""
        name = self.kind(thing)
        if name.endswith(_NUMBERED):
            number, *_ = vars(thing).values()
            name = f"{name.removesuffix('K')}{number}"
        try:
            return name if self.make(name) == thing else None
        except InvalidInput:
            return None

    def kind(self, thing: Kind) -> str:
        """The name of the object's class; of one that is not registered, where Python finds it."""
        kind = type(thing)
        names = (name for name, known in self._kinds.items() if known is kind)
        return next(names, f"{kind.__module__}.{kind.__qualname__}")


LOSSES: Names[Loss] = Names(
    "loss",
    {"square": Square, "logistic": Logistic, "squared-hinge": SquaredHinge, "huber": Huber},
)
WEIGHTINGS: Names[Weighting] = Names(
    "weighting",
    {"softmax": Softmax, "hard-max": HardMax, "sparsemax": Sparsemax, "top-K": TopK},
)
CLASSIFIERS: Names[Classifier] = Names(
    "classifier", {"attention": Attention, "vectorized": Vectorized, "pooled": Pooled}
)
NOISES: Names[Noise] = Names(  # white ones; some take a shape
    "noise",
    {
        "gaussian": Gaussian,
        "rademacher": Rademacher,
        "student": Student,
        "sparse": Sparse,
        "elliptical": Elliptical,
    },
)


def white_noise(owner: str, name: str, shape: float | None = None) -> Noise:
    """The noise of that name, with its shape if it has one.

    >>> white_noise("simulate", "student", 5.0), white_noise("simulate", "rademacher")
    (Student(shape=5.0), Rademacher())
    """
    noise = NOISES.make(name, owner, shape=shape)
    if shape is not None and not hasattr(noise, "shape"):
        raise InvalidInput(f"{owner}: shape must be None for {name!r} noise, got {shape!r}")
    return noise

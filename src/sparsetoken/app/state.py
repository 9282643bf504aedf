"""`State`: everything the page shows, validated, and the same thing as an address.

Each field is a control of the page, a parameter of the address, and an argument of the code that
the page copies: `State.of` turns any mapping of words into one or says what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from sparsetoken.model.classifiers import Attention
from sparsetoken.model.covariances import Spectrum, TokenNoise, White
from sparsetoken.model.losses import Loss
from sparsetoken.model.names import LOSSES, WEIGHTINGS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.support.checks import settle
from sparsetoken.support.errors import InvalidInput

LONGEST = 200  # tokens; beyond, a curve takes seconds
_MOST_LETTERS = 4000  # of an address
_SHOWN_LETTERS = 40  # of a wrong value
VIEWS = {
    "curves": "Learning curves", "sample": "One sample", "roc": "ROC",
    "alignment": "Alignment", "map": "Who wins where", "plan": "Plan",
}  # fmt: skip
METRICS = {"test_error": "test error", "auc": "AUC", "train_loss": "training loss"}
METRIC_WORDS = {
    "test_error": "share of new samples that are judged wrongly",
    "auc": "area under the ROC curve: how often a positive sample scores above a negative one",
    "train_loss": "mean loss of the samples the readout was fitted to",
}
CLASSIFIER_WORDS = {
    "attention": "tokens weighted by how well they match a query",
    "vectorized": "all tokens side by side, a weight for each coordinate of each",
    "pooled": "the mean of the tokens",
}
PLAIN = ("length", "sparsity", "strength", "prevalence", "token_correlation")  # fields of `Task`,
TASK = (*PLAIN, "power_law", "signal_spread")  # and its covariances
TRAINING = ("query_samples", "readout_samples", "ridge")  # of `Protocol`, and the
STEPS = ("readout_step", "bias_step", "query_step")
FROZEN = ("cosine", "sharpness")  # of `Attention`
AXES = (*TASK, *TRAINING)  # of the map
_WEIGHTINGS = tuple(name.replace("-K", "-3") for name in WEIGHTINGS)


@dataclass(frozen=True)
class Control:
    """How a field is shown: in words, with its symbol, from least to most; or its choices.

    A slider goes from `least` to `most`; what a plan recommends may lie beyond, and is allowed up
    to `lowest` and `highest`.
    """

    symbol: str
    help: str
    least: float = 0.0
    most: float = 1.0
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()
    words: str = ""
    lowest: float = math.nan
    highest: float = math.nan

    def __post_init__(self) -> None:
        for name, slider in (("lowest", self.least), ("highest", self.most)):
            if math.isnan(getattr(self, name)):
                settle(self, **{name: slider})

    def checked(self, name: str, value: Any) -> Any:
        """A number within the range or a word among the choices, from a number or a word."""
        if self.choices:
            if value not in self.choices:
                allowed = ", ".join(self.choices)
                raise InvalidInput(f"{name} must be one of {allowed}, got {_short(value)}")
            return value
        number = _as_number(value)
        if not self.lowest <= number <= self.highest or (self.whole and number != round(number)):
            kind = "a whole number" if self.whole else "a number"
            raise InvalidInput(
                f"{name} must be {kind} between {self.lowest:g} and {self.highest:g}, "
                f"got {_short(value)}"
            )
        return int(number) if self.whole else float(number)


def _as_number(value: Any) -> float:
    """Also of a word; nan if it is none."""
    if isinstance(value, str):
        try:
            return float(value[:64])
        except ValueError:
            return math.nan
    return value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= _SHOWN_LETTERS else words[: _SHOWN_LETTERS - 3] + "..."


def _control(
    default: Any, symbol: str, help: str, least: float = 0.0, most: float = 1.0, **options: Any
) -> Any:
    """A field of the state with its control; one that begins with a whole number stays whole."""
    control = Control(symbol, help, least, most, whole=isinstance(default, int), **options)
    return field(default=default, metadata={"control": control})


def _samples(default: float, symbol: str, help: str) -> Any:
    """The control of a number of samples per dimension."""
    return _control(default, symbol, help, 0.05, 100, log=True, lowest=1e-3, highest=1e5)


@dataclass(frozen=True)
class State:
    """What the page shows. Fields have the names they have in the library.

    >>> state = State.of({"length": "20", "strength": "4"})
    >>> state.task.length, state.to_query()
    (20, 'length=20&strength=4')
    >>> State.of({"length": "many"})
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: length must be a whole number between 1 and 200, got 'many'
    """

    length: int = _control(10, "L", "tokens in a sample", 1, LONGEST, log=True)
    sparsity: int = _control(
        1, "R", "tokens with the signal in a positive sample", 1, LONGEST, log=True
    )
    strength: float = _control(
        5.0, "θ", "length of the signal in a token, over the noise", 0, 20, highest=1e4
    )
    prevalence: float = _control(0.5, "π", "probability of a positive sample", 0.01, 0.99)
    query_samples: float = _samples(2.0, "α₀", "that teach the query, per dimension")
    readout_samples: float = _samples(4.0, "α₁", "that fit the readout, per dimension")
    ridge: float = _control(
        0.01, "λ", "penalty on the readout's weights", 1e-6, 100, log=True, highest=1e4
    )
    cosine: float = _control(0.95, "s", "of a frozen query with the signal", 0, 1)
    sharpness: float = _control(1.0, "τ", "length of a frozen query; 0 pools evenly", 0, 20)
    readout_step: float = _control(
        1.0, "η_w", "first gradient step", 1e-3, 100, log=True, lowest=1e-6, highest=1e9
    )
    bias_step: float = _control(1.0, "η_b", "first gradient step, of the bias", 0, 100, highest=1e9)
    query_step: float = _control(
        10.0, "η_q", "second gradient step", 0.01, 1000, log=True, lowest=1e-6, highest=1e9
    )
    target: float = _control(
        0.05, "ε", "for the planner", 1e-4, 0.499, log=True, words="target error"
    )
    dim: int = _control(200, "d", "of simulation and plan", 20, 1000, log=True, words="dimension")
    repeats: int = _control(8, "n", "of the simulation, at each point", 1, 32)
    token_correlation: float = _control(
        0.0, "ρ", "part of the noise that a sample's tokens share", 0, 0.95, words="shared noise"
    )
    power_law: float = _control(
        0.0, "a", "eigenvalues of the noise fall like k^−a, with mean 1; 0 is white noise", 0, 2,
        words="noise's power law",
    )  # fmt: skip
    signal_spread: float = _control(
        1.0, "c", "variance of signal tokens, over that of the noise", 0, 10
    )
    weighting: str = _control(
        "softmax", "a", "how attention weights tokens by their scores", choices=_WEIGHTINGS
    )
    loss: str = _control("logistic", "ℓ", "what training minimises", choices=tuple(LOSSES))
    query: str = _control(
        "learned", "q", "two gradient steps, or given", choices=("learned", "frozen")
    )
    view: str = _control("curves", "", "what is drawn", choices=tuple(VIEWS))
    metric: str = _control("test_error", "", "of curves and map", choices=tuple(METRICS))
    across: str = _control("strength", "", "horizontal axis of the map", choices=AXES)
    up: str = _control("query_samples", "", "vertical axis of the map", choices=AXES)

    def __post_init__(self) -> None:
        for name, control in CONTROLS.items():
            settle(self, **{name: control.checked(name, getattr(self, name))})
        if self.sparsity > self.length:
            raise InvalidInput(
                f"sparsity must be at most the length, {self.length}, got {self.sparsity}"
            )
        if self.token_correlation and self.signal_spread != 1:
            raise InvalidInput(
                "token_correlation must be 0 where signal_spread is not 1, got "
                f"{self.token_correlation:g}"
            )
        if self.across == self.up:
            raise InvalidInput(f"up must differ from across, got {self.up!r} for both")

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> State:
        """From names and values, numbers or words; what is not named is as it was at first."""
        for name in words:
            if name not in CONTROLS:
                raise InvalidInput(f"{_short(name)} is not one of {', '.join(sorted(CONTROLS))}")
        return cls(**words)

    @classmethod
    def from_query(cls, query: str) -> State:
        """From the part of an address behind the question mark; unknown names are passed over."""
        if len(query) > _MOST_LETTERS:
            raise InvalidInput(f"an address must have at most {_MOST_LETTERS} letters")
        try:
            pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise InvalidInput("an address must have at most 100 words") from error
        return cls.of({name: value for name, value in pairs if name in CONTROLS})

    def to_query(self) -> str:
        """The shortest address that gives this state again."""
        changed = {name: value for name, value in vars(self).items() if value != DEFAULTS[name]}
        return urlencode(
            {
                name: value if isinstance(value, str) else format(value, ".12g")
                for name, value in changed.items()
            }
        )

    def values(self, names: Iterable[str]) -> dict[str, Any]:
        """Some of the fields."""
        return {name: getattr(self, name) for name in names}

    @property
    def noise(self) -> TokenNoise:
        return Spectrum.power_law(self.power_law) if self.power_law else White()

    @property
    def task(self) -> Task:
        return Task(**self.values(PLAIN), noise=self.noise, signal_spread=self.signal_spread)

    @property
    def task_of_dim(self) -> Task:
        """The task where the page's d has fewer dimensions than the noise has eigenvalues."""
        return self.task.for_dim(self.dim)

    @property
    def loss_function(self) -> Loss:
        return LOSSES.make(self.loss)

    @property
    def protocol(self) -> Protocol:
        return Protocol(loss=self.loss_function, **self.values((*TRAINING, *STEPS)))

    @property
    def options(self) -> dict[str, Any]:
        """Of classifiers that have them: the weighting, and the query if it is frozen."""
        frozen = self.values(FROZEN) if self.query == "frozen" else {}
        return {**frozen, "weighting": WEIGHTINGS.make(self.weighting)}

    @property
    def attention(self) -> Attention:
        """With the learned or the frozen query."""
        return Attention(**self.options)


CONTROLS: dict[str, Control] = {
    field.name: replace(
        field.metadata["control"],
        words=field.metadata["control"].words or field.name.replace("_", " "),
    )
    for field in fields(State)
}
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(State)}

"""`State`: everything the page shows, validated, and the same thing as an address.

Each field is a control of the page, a parameter of the address, and an argument of the code that
the page copies: `State.of` turns any mapping of words into one or says what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl, urlencode

from sparsetoken.model.classifiers import Attention
from sparsetoken.model.losses import Loss
from sparsetoken.model.names import LOSSES, WEIGHTINGS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.support.checks import real, whole
from sparsetoken.support.errors import InvalidInput

LONGEST = 200  # tokens; beyond, a curve takes seconds
_MOST_WORDS = 4000  # letters of an address


@dataclass(frozen=True)
class Control:
    """How a field is shown: in words, with its symbol, from least to most; or its choices."""

    words: str
    symbol: str
    help: str
    least: float = 0.0
    most: float = 1.0
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()


VIEWS = ("curves", "attention", "roc", "alignment", "map", "plan")
METRICS = ("test_error", "auc", "train_loss")
AXES = (
    "length", "sparsity", "strength", "prevalence", "query_samples", "readout_samples", "ridge",
    "token_correlation",
)  # fmt: skip

CONTROLS: dict[str, Control] = {
    "length": Control("length", "L", "tokens in a sample", 1, LONGEST, log=True, whole=True),
    "sparsity": Control(
        "sparsity", "R", "tokens with the signal in a positive sample", 1, LONGEST, log=True,
        whole=True,
    ),
    "strength": Control("strength", "θ", "length of the signal in a token, over the noise", 0, 20),
    "prevalence": Control("prevalence", "π", "probability of a positive sample", 0.01, 0.99),
    "query_samples": Control(
        "query samples", "α₀", "that teach the query, per dimension", 0.05, 100, log=True
    ),
    "readout_samples": Control(
        "readout samples", "α₁", "that fit the readout, per dimension", 0.05, 100, log=True
    ),
    "ridge": Control("ridge", "λ", "penalty on the readout's weights", 1e-6, 100, log=True),
    "cosine": Control("cosine", "s", "of a frozen query with the signal", 0, 1),
    "sharpness": Control("sharpness", "τ", "length of a frozen query; 0 pools evenly", 0, 20),
    "readout_step": Control("readout step", "η_w", "first gradient step", 1e-3, 100, log=True),
    "bias_step": Control("bias step", "η_b", "first gradient step, of the bias", 0, 100),
    "query_step": Control("query step", "η_q", "second gradient step", 0.01, 1000, log=True),
    "target": Control("target error", "ε", "for the planner", 1e-4, 0.499, log=True),
    "dim": Control("dimension", "d", "of simulation and plan", 20, 1000, log=True, whole=True),
    "repeats": Control("repeats", "n", "of the simulation, at each point", 1, 32, whole=True),
    "token_correlation": Control(
        "shared noise", "ρ", "part of the noise that the tokens of a sample share", 0, 0.95
    ),
    "weighting": Control(
        "weighting", "a", "how attention weights tokens by their scores",
        choices=("softmax", "hard-max", "top-3", "sparsemax"),
    ),
    "loss": Control("loss", "ℓ", "what training minimises", choices=tuple(LOSSES)),
    "query": Control("query", "q", "two gradient steps, or given", choices=("learned", "frozen")),
    "view": Control("view", "", "what is drawn", choices=VIEWS),
    "metric": Control("metric", "", "of curves and map", choices=METRICS),
    "across": Control("across", "", "horizontal axis of the map", choices=AXES),
    "up": Control("up", "", "vertical axis of the map", choices=AXES),
}  # fmt: skip


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

    length: int = 10
    sparsity: int = 1
    strength: float = 5.0
    prevalence: float = 0.5
    query_samples: float = 2.0
    readout_samples: float = 4.0
    ridge: float = 0.01
    cosine: float = 0.95
    sharpness: float = 1.0
    readout_step: float = 1.0
    bias_step: float = 1.0
    query_step: float = 10.0
    target: float = 0.05
    dim: int = 200
    repeats: int = 8
    token_correlation: float = 0.0
    weighting: str = "softmax"
    loss: str = "logistic"
    query: str = "learned"
    view: str = "curves"
    metric: str = "test_error"
    across: str = "strength"
    up: str = "query_samples"

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, _checked(each.name, getattr(self, each.name)))
        if self.sparsity > self.length:
            raise InvalidInput(
                f"sparsity must be at most the length, {self.length}, got {self.sparsity}"
            )
        if self.across == self.up:
            raise InvalidInput(f"up must differ from across, got {self.up!r} for both")

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> State:
        """From names and values, numbers or words; what is not named is as it was at first."""
        known = {each.name for each in fields(cls)}
        for name in words:
            if name not in known:
                raise InvalidInput(f"{_short(name)} is not one of {', '.join(sorted(known))}")
        return cls(**words)

    @classmethod
    def from_query(cls, query: str) -> State:
        """From the part of an address behind the question mark."""
        if len(query) > _MOST_WORDS:
            raise InvalidInput(f"an address must have at most {_MOST_WORDS} letters")
        pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True, max_num_fields=100)
        return cls.of(dict(pairs))

    def to_query(self) -> str:
        """The shortest address that gives this state again."""
        changed = {
            each.name: _written(getattr(self, each.name))
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }
        return urlencode(changed)

    @property
    def task(self) -> Task:
        return Task(
            self.length, self.sparsity, self.strength, self.prevalence,
            token_correlation=self.token_correlation,
        )  # fmt: skip

    @property
    def loss_function(self) -> Loss:
        return LOSSES.make(self.loss)

    @property
    def protocol(self) -> Protocol:
        return Protocol(
            self.query_samples, self.readout_samples, loss=self.loss_function, ridge=self.ridge,
            readout_step=self.readout_step, bias_step=self.bias_step, query_step=self.query_step,
        )  # fmt: skip

    @property
    def attention(self) -> Attention:
        """With the learned or the frozen query."""
        return Attention(**self.options)

    @property
    def options(self) -> dict[str, Any]:
        """Of classifiers that have them."""
        frozen = {"cosine": self.cosine, "sharpness": self.sharpness}
        rule = {"weighting": WEIGHTINGS.make(self.weighting)}
        return rule if self.query == "learned" else frozen | rule


PRESETS: dict[str, dict[str, Any]] = {
    "the paper's figure": {"ridge": 1e-5},
    "rare lesion": {"length": 60, "strength": 6.0, "prevalence": 0.1, "query_samples": 8.0,
                    "readout_samples": 8.0},
    "dense signal": {"length": 10, "sparsity": 10, "strength": 0.7},
    "attention fails": {"length": 30, "strength": 2.5, "query_samples": 0.5},
}  # fmt: skip


def _checked(name: str, value: Any) -> Any:
    """A number within its range or a word among its choices, from a number or a word."""
    control = CONTROLS[name]
    if control.choices:
        if not isinstance(value, str) or value not in control.choices:
            allowed = ", ".join(control.choices)
            raise InvalidInput(f"{name} must be one of {allowed}, got {_short(value)}")
        return value
    kind = "a whole number" if control.whole else "a number"
    given = value
    if isinstance(value, str):
        try:
            value = float(value[:64])
        except ValueError:
            value = math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        value = math.nan
    wrong = not (control.least <= value <= control.most)
    if wrong or (control.whole and value != round(value)):
        raise InvalidInput(
            f"{name} must be {kind} between {control.least:g} and {control.most:g}, "
            f"got {_short(given)}"
        )
    if control.whole:
        return whole("State", name, int(value), least=int(control.least))
    return real("State", name, float(value), least=control.least)


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 40 else words[:37] + "..."


def _written(value: Any) -> str:
    return value if isinstance(value, str) else format(value, ".12g")

r"""A small zoo of real architectures, as functions of tensors: from tokens X ∈ R^{L×d} to a score.

* simple attention, the paper's:   u = ⟨w, Xᵀa⟩ + b,   a = softmax(X q)
* query, key and value:            u = ⟨w, Vᵀ Xᵀa⟩ + b,   a = softmax(X K q/√m)
* several heads:                   u = Σ_h ⟨w_h, V_hᵀ Xᵀa_h⟩ + b,   a_h = softmax(X K_h q_h/√m)
* two layers: tokens to width m, two transformer layers (self-attention of four heads and an MLP,
  each on the layer norm of its input and added to it), layer norm, mean over tokens, ⟨w, ·⟩ + b
* mean and MLP:                    u = ⟨w, relu(A Xᵀ1/L + c)⟩ + b
* flat MLP:                        u = ⟨w, relu(A vec X + c)⟩ + b

The second is the first, with K q/√m for its query and V w for its readout: the same functions,
another road through them. The third is a sum of four of them. So tokens are projected on one query
and one readout a head, whatever the parametrisation, and no matrix acts on tokens one by one.

Each comes with a learning rate and two or three ridges to choose from, set by hand at d = 50 (a
transformer wants less of both). Many models are one: each parameter and the tokens have a leading
axis of models. Nothing is imported here: the tensors bring their methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Tensor = Any
Parameters = dict[str, Tensor]

_HEADS = 4
_WIDEST = 32  # of keys, values and layers
_HIDDEN = 64  # units of an MLP


@dataclass(frozen=True)
class Shape:
    """A parameter of one model, at the start N(centre, spread²); only weights have a ridge.

    A step of ±rate in each coordinate changes what d coordinates add up to by rate·√d: the rate of
    a parameter that acts on tokens falls like 1/√d.
    """

    shape: tuple[int, ...]
    spread: float = 0.0
    centre: float = 0.0
    on_tokens: bool = False

    @property
    def is_weight(self) -> bool:
        """Not a bias nor the gain of a norm."""
        return self.spread > 0


@dataclass(frozen=True)
class Architecture:
    """`shapes(length, dim)` of its parameters; `scores(parameters, tokens (k, n, L, d))`: (k, n).

    >>> ARCHITECTURES["simple attention"].size(length=10, dim=50)
    101
    """

    shapes: Callable[[int, int], dict[str, Shape]]
    scores: Callable[[Parameters, Tensor], Tensor]
    rate: float  # of Adam, at d = 50
    ridges: tuple[float, ...]

    def size(self, length: int, dim: int) -> int:
        """Number of parameters."""
        return sum(math.prod(parameter.shape) for parameter in self.shapes(length, dim).values())


def _pooled(tokens: Tensor, queries: Tensor, readouts: Tensor, bias: Tensor) -> Tensor:
    """Σ_h ⟨w_h, Xᵀ softmax(X q_h)⟩ + b; queries and readouts are (k, d, heads)."""
    k, n, length, dim = tokens.shape
    flat = tokens.reshape(k, n * length, dim)
    logits = (flat @ queries).reshape(k, n, length, -1)
    levels = (flat @ readouts).reshape(k, n, length, -1)
    return (logits.softmax(2) * levels).sum((2, 3)) + bias


def _simple_shapes(length: int, dim: int) -> dict[str, Shape]:
    small = 0.1 / dim**0.5  # X q of size 0.1: all tokens matter at the start
    vector = Shape((dim, 1), small, on_tokens=True)
    return {"query": vector, "readout": vector, "bias": Shape((1,))}


def _simple(p: Parameters, tokens: Tensor) -> Tensor:
    return _pooled(tokens, p["query"], p["readout"], p["bias"])


def _heads_shapes(heads: int) -> Callable[[int, int], dict[str, Shape]]:
    def shapes(length: int, dim: int) -> dict[str, Shape]:
        width = min(dim, _WIDEST)
        project = Shape((heads, dim, width), dim**-0.5, on_tokens=True)
        return {
            "keys": project, "queries": Shape((heads, width, 1), 0.1),
            "values": project, "readouts": Shape((heads, width, 1), 0.1 * width**-0.5),
            "bias": Shape((1,)),
        }  # fmt: skip

    return shapes


def _heads(p: Parameters, tokens: Tensor) -> Tensor:
    width = p["keys"].shape[-1]
    queries = (p["keys"] @ p["queries"])[..., 0] / width**0.5  # (k, heads, d)
    readouts = (p["values"] @ p["readouts"])[..., 0]
    return _pooled(tokens, queries.mT, readouts.mT, p["bias"])


def _layers_shapes(length: int, dim: int) -> dict[str, Shape]:
    width = _HEADS * max(1, min(dim, _WIDEST) // _HEADS)
    shapes = {"embedding": Shape((dim, width), dim**-0.5, on_tokens=True)}
    for layer in ("first", "second"):
        shapes |= {
            f"{layer} norm": Shape((1, width), centre=1.0),
            f"{layer} tokens": Shape((width, 3 * width), width**-0.5),
            f"{layer} mix": Shape((width, width), 0.5 * width**-0.5),
            f"{layer} inner norm": Shape((1, width), centre=1.0),
            f"{layer} inner": Shape((width, 2 * width), width**-0.5),
            f"{layer} inner bias": Shape((1, 2 * width)),
            f"{layer} outer": Shape((2 * width, width), 0.5 * (2 * width) ** -0.5),
        }
    return shapes | {
        "last norm": Shape((1, width), centre=1.0),
        "readout": Shape((width, 1), 0.1 * width**-0.5),
        "bias": Shape((1,)),
    }


def _layers(p: Parameters, tokens: Tensor) -> Tensor:
    k, n, length, dim = tokens.shape
    stream = tokens.reshape(k, n * length, dim) @ p["embedding"]
    for layer in ("first", "second"):
        mixed = _normed(stream) * p[f"{layer} norm"] @ p[f"{layer} tokens"]
        parts = mixed.reshape(k, n, length, 3, _HEADS, -1).permute(3, 0, 1, 4, 2, 5)
        query, key, value = parts  # each (k, n, heads, L, width/heads)
        attention = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        mixture = (attention @ value).transpose(2, 3).reshape(stream.shape)
        stream = stream + mixture @ p[f"{layer} mix"]
        inner = _normed(stream) * p[f"{layer} inner norm"] @ p[f"{layer} inner"]
        stream = stream + (inner + p[f"{layer} inner bias"]).relu() @ p[f"{layer} outer"]
    pooled = (_normed(stream) * p["last norm"]).reshape(k, n, length, -1).mean(2)
    return (pooled @ p["readout"])[..., 0] + p["bias"]


def _normed(stream: Tensor) -> Tensor:
    """Each row with mean 0 and variance 1."""
    centred = stream - stream.mean(-1, keepdim=True)
    return centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt()


def _perceptron_shapes(inputs: int) -> dict[str, Shape]:
    return {
        "hidden": Shape((inputs, _HIDDEN), inputs**-0.5, on_tokens=True),
        "hidden bias": Shape((1, _HIDDEN)),
        "readout": Shape((_HIDDEN, 1), _HIDDEN**-0.5),
        "bias": Shape((1,)),
    }


def _perceptron(p: Parameters, inputs: Tensor) -> Tensor:
    hidden = (inputs @ p["hidden"] + p["hidden bias"]).relu()
    return (hidden @ p["readout"])[..., 0] + p["bias"]


def _flat(p: Parameters, tokens: Tensor) -> Tensor:
    return _perceptron(p, tokens.flatten(2))


def _mean(p: Parameters, tokens: Tensor) -> Tensor:
    return _perceptron(p, tokens.mean(2))


_RIDGES = (0.01, 0.03, 0.1)
ARCHITECTURES = {
    "simple attention": Architecture(_simple_shapes, _simple, 0.03, _RIDGES),
    "query, key and value": Architecture(_heads_shapes(1), _heads, 0.03, _RIDGES),
    "several heads": Architecture(_heads_shapes(_HEADS), _heads, 0.03, _RIDGES),
    "two layers": Architecture(_layers_shapes, _layers, 0.005, (0.001, 0.003)),
    "mean and MLP": Architecture(lambda length, dim: _perceptron_shapes(dim), _mean, 0.01, _RIDGES),
    "flat MLP": Architecture(
        lambda length, dim: _perceptron_shapes(length * dim), _flat, 0.01, _RIDGES
    ),
}

r"""The architectures trained end to end by Adam, many models at once (extra `torch`).

Of n training samples a fifth is held out. On the rest Adam descends, in minibatches and with a
learning rate η_t that falls to zero like a cosine,

    (1/n) Σ log(1 + exp(−y_i u_i)) + (λ/2)‖weights‖²:   p ← p − η_t m̂/(√v̂ + ε),

m̂ and v̂ the running means of the gradient and of its square. Ridge λ and epoch are those with the
fewest errors on the fifth, ties broken by its loss; nothing else is chosen, and what was held out
is not trained on. Repeats and ridges are the leading axis of every parameter: the loss is summed
over them, so that each gradient and each step of Adam is that of its own model. Test errors are on
fresh samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.model.task import Task
from sparsetoken.simulation.architectures.models import (
    ARCHITECTURES,
    Architecture,
    Parameters,
    Tensor,
)
from sparsetoken.simulation.devices import Device, to_numpy
from sparsetoken.simulation.tokens import TokenStream
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput

HELD_OUT = 0.2  # of the training samples: for epoch and ridge
_STEPS, _SMALLEST = 20, 16  # minibatches in an epoch, at most, and samples in one, at least
_MEMORY = 0.9, 0.99  # of the running means
_BLOCK = 1 << 24  # numbers in the tokens that are scored at once


@dataclass(frozen=True, eq=False)
class TrainedArchitecture:
    """One entry per repeat."""

    test_error: FloatArray
    train_error: FloatArray  # on the samples that were not held out
    epochs: FloatArray  # until the kept checkpoint
    ridge: FloatArray
    parameters: int  # of one model
    models: Parameters  # tensors with a leading axis of repeats
    losses: FloatArray  # of training, mean of each epoch: (epochs, ridges, repeats)


def train_architecture(
    task: Task,
    name: str,
    dim: int,
    samples: int,
    repeats: int = 1,
    seed: int = 0,
    device: str | None = None,
    test_samples: int = 10_000,
    epochs: int = 60,
) -> TrainedArchitecture:
    """Train an architecture end to end on `samples` samples in dimension `dim`, `repeats` times.

    `device` is a torch device; None is the GPU if torch sees one. A repeat has its own signal,
    samples and start; on one device they do not depend on the number of repeats, nor, for the same
    seed, on the architecture.
    """
    owner = "train_architecture"
    if not isinstance(task, Task):
        raise InvalidInput(f"{owner}: task must be a Task, got {task!r}")
    if name not in ARCHITECTURES:
        allowed = ", ".join(map(repr, ARCHITECTURES))
        raise InvalidInput(f"{owner}: name must be one of {allowed}, got {name!r}")
    dim = whole(owner, "dim", dim, least=1)
    samples = whole(owner, "samples", samples, least=10, why="a fifth is held out")
    repeats = whole(owner, "repeats", repeats, least=1)
    seed = whole(owner, "seed", seed, least=0)
    test_samples = whole(owner, "test_samples", test_samples, least=1)
    epochs = whole(owner, "epochs", epochs, least=1)
    place = Device(best_device() if device is None else device, "float32")
    architecture = ARCHITECTURES[name]
    roots = [np.random.SeedSequence([seed, index, samples]).spawn(4) for index in range(repeats)]
    with _one_thread():
        sets = [_Data(task, dim, root, place) for root in roots]
        tokens, labels = _stacked([each.stream(1, samples) for each in sets])
        learn = round((1 - HELD_OUT) * samples)
        starts = [each.start(architecture) for each in sets]
        descent = _Descent(architecture, starts, tokens, labels, learn, epochs, seed)
        descent.run()
        models, at = descent.chosen()
        train = _wrong(architecture, models, tokens[:, :learn], labels[:, :learn]) / learn
        del tokens, descent.tokens
        test = [
            _streamed(architecture, {key: value[[index]] for key, value in models.items()},
                      each.stream(2, test_samples))
            for index, each in enumerate(sets)
        ]  # fmt: skip
    return TrainedArchitecture(
        np.array(test), to_numpy(train), at["epoch"], at["ridge"],
        architecture.size(task.length, dim), models,
        to_numpy(_torch().stack(descent.losses)).reshape(epochs, -1, repeats),
    )  # fmt: skip


class _Data:
    """What is random in one repeat: signal, streams of samples, start."""

    def __init__(
        self, task: Task, dim: int, root: list[np.random.SeedSequence], place: Device
    ) -> None:
        self.task, self.root, self.place = task, root, place
        self.rng = np.random.default_rng(root[0])
        signal = self.rng.standard_normal(dim)
        self.signal = signal / np.linalg.norm(signal)

    def stream(self, which: int, count: int) -> TokenStream:
        labels = self.task.sample_labels(count, self.rng)
        return TokenStream(
            self.task, self.task.noise, labels, self.signal, self.root[which], self.place
        )

    def start(self, architecture: Architecture) -> Parameters:
        """The parameters before training."""
        source = self.place.source(self.root[3])
        shapes = architecture.shapes(self.task.length, len(self.signal))
        return {
            key: each.centre + each.spread * source.standard_normal(each.shape)
            for key, each in shapes.items()
        }


def _stacked(streams: list[TokenStream]) -> tuple[Tensor, Tensor]:
    """All tokens (repeats, n, L, d) and labels (repeats, n)."""
    one = streams[0]
    shape = (len(one.labels), one.task.length, len(one.signal))
    tokens = one.device.empty((len(streams), *shape))
    for row, stream in zip(tokens, streams, strict=True):
        for part, block in stream.samples():
            row[part] = block
    return tokens, one.device.array(np.stack([stream.labels for stream in streams]))


class _Descent:
    """Adam on the first `learn` samples, all repeats with all ridges; the best of each is kept."""

    def __init__(
        self,
        architecture: Architecture,
        starts: list[Parameters],
        tokens: Tensor,
        labels: Tensor,
        learn: int,
        epochs: int,
        seed: int,
    ) -> None:
        self.torch, self.scores = _torch(), architecture.scores
        self.tokens, self.labels, self.learn, self.epochs = tokens, labels, learn, epochs
        self.times = len(architecture.ridges)
        shapes = architecture.shapes(*tokens.shape[2:])
        slower = math.sqrt(50 / tokens.shape[-1])  # see Shape
        self.rates = {
            key: architecture.rate * (slower if each.on_tokens else 1.0)
            for key, each in shapes.items()
        }
        ridges = np.repeat(architecture.ridges, len(labels))
        self.ridges = self.torch.tensor(ridges, dtype=tokens.dtype, device=tokens.device)
        self.models = {
            key: self._again(self.torch.stack([each[key] for each in starts])).requires_grad_()
            for key in shapes
        }
        self.penalties = {  # λ of every model, shaped like the parameter; 0 for biases and norms
            key: each.is_weight * _wide(self.ridges, self.models[key])
            for key, each in shapes.items()
        }
        self.means = {key: self.torch.zeros_like(value) for key, value in self.models.items()}
        self.squares = {key: self.torch.zeros_like(value) for key, value in self.models.items()}
        self.best = {key: value.detach().clone() for key, value in self.models.items()}
        self.best_rank = self.torch.full_like(self.ridges, math.inf)
        self.best_epoch = self.torch.zeros_like(self.ridges)
        self.losses: list[Tensor] = []
        self.shuffle = self.torch.Generator().manual_seed(seed % 2**63)

    def run(self) -> None:
        size = max(_SMALLEST, -(-self.learn // _STEPS))
        per_epoch = -(-self.learn // size)
        place, step = self.labels.device, 0
        for epoch in range(1, self.epochs + 1):
            order = self.torch.randperm(self.learn, generator=self.shuffle).to(place)
            seen: Any = 0.0
            for part in order.split(size):
                margins = self._margins(self.tokens[:, part], self.labels[:, part])
                loss = self.torch.nn.functional.softplus(-margins).mean(1)
                gradients = self.torch.autograd.grad(loss.sum(), list(self.models.values()))
                cosine = 0.5 * (1 + math.cos(math.pi * step / (self.epochs * per_epoch)))
                step += 1
                self._step(gradients, cosine, step)
                seen = seen + loss.detach() * (len(part) / self.learn)
            self.losses.append(seen)
            self._keep(epoch)

    def _step(self, gradients: tuple[Tensor, ...], cosine: float, step: int) -> None:
        with self.torch.no_grad():
            for (key, value), gradient in zip(self.models.items(), gradients, strict=True):
                gradient = gradient + self.penalties[key] * value
                mean, square = self.means[key], self.squares[key]
                mean.lerp_(gradient, 1 - _MEMORY[0])
                square.lerp_(gradient * gradient, 1 - _MEMORY[1])
                scale = (square / (1 - _MEMORY[1] ** step)).sqrt_().add_(1e-8)
                rate = self.rates[key] * cosine / (1 - _MEMORY[0] ** step)
                value.addcdiv_(mean, scale, value=-rate)

    def _keep(self, epoch: int) -> None:
        """Rank: errors on the held-out samples + loss/(1 + loss), which is below one error."""
        torch = self.torch
        with torch.no_grad():
            wrong, loss = torch.zeros_like(self.ridges), torch.zeros_like(self.ridges)
            held = self.labels.shape[1] - self.learn
            for tokens, labels in _blocks(
                self.tokens[:, self.learn :], self.labels[:, self.learn :]
            ):
                margins = self._margins(tokens, labels)
                wrong += (margins <= 0).sum(1)
                loss += torch.nn.functional.softplus(-margins).sum(1) / held
            rank = wrong + loss / (1 + loss)
            better = rank < self.best_rank
            self.best_rank = torch.where(better, rank, self.best_rank)
            self.best_epoch = torch.where(better, float(epoch), self.best_epoch)
            for key, value in self.models.items():
                self.best[key] = torch.where(_wide(better, value), value, self.best[key])

    def _margins(self, tokens: Tensor, labels: Tensor) -> Tensor:
        return self.scores(self.models, self._again(tokens)) * self._again(labels)

    def _again(self, values: Tensor) -> Tensor:
        """The repeats once for each ridge."""
        return values.repeat(self.times, *[1] * (values.ndim - 1))

    def chosen(self) -> tuple[Parameters, dict[str, FloatArray]]:
        """For each repeat the model of the best ridge and epoch; what they are."""
        repeats = len(self.labels)
        winner = self.best_rank.reshape(self.times, repeats).argmin(0)
        rows = winner * repeats + self.torch.arange(repeats, device=winner.device)
        at = {"epoch": self.best_epoch, "ridge": self.ridges}
        models = {key: value[rows] for key, value in self.best.items()}
        return models, {key: to_numpy(value[rows]) for key, value in at.items()}


def _wide(values: Tensor, like: Tensor) -> Tensor:
    """One number per model, to be broadcast over a parameter."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _blocks(tokens: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, _BLOCK // tokens[:, 0].numel())
    return zip(tokens.split(size, 1), labels.split(size, 1), strict=True)


def _wrong(
    architecture: Architecture, models: Parameters, tokens: Tensor, labels: Tensor
) -> Tensor:
    """Number of misclassified samples of each model."""
    with _torch().no_grad():
        return sum(
            (architecture.scores(models, part) * signs <= 0).sum(1).double()
            for part, signs in _blocks(tokens, labels)
        )


def _streamed(architecture: Architecture, model: Parameters, stream: TokenStream) -> float:
    """Test error of one model."""
    labels = stream.device.array(stream.labels)
    wrong = [
        _wrong(architecture, model, tokens[None], labels[None, part])
        for part, tokens in stream.samples()
    ]
    return float(sum(wrong)) / len(stream.labels)


def best_device() -> str:
    """The GPU if torch sees one; asked without starting CUDA, so that processes can be forked."""
    return "cuda" if _torch().cuda.device_count() else "cpu"


@contextmanager
def _one_thread() -> Iterator[None]:
    """The same sums in the same order on every machine; safe in a forked process."""
    torch = _torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise InvalidInput(
            "train_architecture: torch must be installed (pip install 'sparsetoken[torch]')"
        ) from None
    return torch

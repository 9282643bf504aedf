r"""The architectures trained end to end by Adam, many models at once (extra `torch`).

Of n training samples a fifth is held out. On the rest torch's Adam descends, in minibatches and
with a learning rate that falls to zero like a cosine,

    (1/n) Σ log(1 + exp(−y_i u_i)) + (λ/2)‖weights‖².

Ridge λ and epoch are those with the fewest errors on the fifth, ties broken by its loss; nothing
else is chosen, and what was held out is not trained on. Repeats and ridges are the leading axis of
every parameter: the loss is summed over them, so that each gradient and each step of Adam is that
of its own model (`torch.func.vmap` over models of one takes two to three times as long). Test
errors are on fresh samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.model.task import Task
from sparsetoken.simulation.architectures.models import (
    ARCHITECTURES,
    Architecture,
    Parameters,
    Tensor,
)
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.tokens import TokenStream, draw_signal
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import one_of, whole
from sparsetoken.support.devices import to_numpy
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
    one_of(owner, "name", name, ARCHITECTURES)
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
        tokens, labels = _stacked([repeat.stream(1, samples) for repeat in sets])
        learn = round((1 - HELD_OUT) * samples)
        starts = [repeat.start(architecture) for repeat in sets]
        best = _descend(architecture, starts, tokens, labels, learn, epochs, seed)
        train = _wrong(architecture, best.models, tokens[:, :learn], labels[:, :learn]) / learn
        del tokens
        test = [
            _streamed(architecture, {key: value[[index]] for key, value in best.models.items()},
                      repeat.stream(2, test_samples))
            for index, repeat in enumerate(sets)
        ]  # fmt: skip
    return TrainedArchitecture(
        np.array(test),
        to_numpy(train),
        to_numpy(best.epoch),
        to_numpy(best.ridge),
        architecture.size(task.length, dim),
        best.models,
        to_numpy(best.losses),
    )


class _Data:
    """What is random in one repeat: signal, streams of samples, start."""

    def __init__(
        self, task: Task, dim: int, root: list[np.random.SeedSequence], place: Device
    ) -> None:
        self.task, self.root, self.place = task, root, place
        self.rng = np.random.default_rng(root[0])
        self.signal, self.layout = draw_signal(task, dim, self.rng)

    def stream(self, which: int, count: int) -> TokenStream:
        labels = self.task.sample_labels(count, self.rng)
        return TokenStream(
            self.task,
            self.task.white_noise,
            labels,
            self.signal,
            self.root[which],
            self.place,
            layout=self.layout,
        )

    def start(self, architecture: Architecture) -> Parameters:
        """The parameters before training."""
        source = self.place.source(self.root[3])
        shapes = architecture.shapes(self.task.length, len(self.signal))
        return {
            key: shape.centre + shape.spread * source.standard_normal(shape.shape)
            for key, shape in shapes.items()
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


class _Best(NamedTuple):
    """For each repeat the model of the best ridge and epoch; what they are."""

    models: Parameters
    epoch: Tensor
    ridge: Tensor
    losses: Tensor  # of all models: (epochs, ridges, repeats)


def _descend(
    architecture: Architecture,
    starts: list[Parameters],
    tokens: Tensor,
    labels: Tensor,
    learn: int,
    epochs: int,
    seed: int,
) -> _Best:
    """Adam on the first `learn` samples, all repeats with all ridges."""
    torch, times, repeats = _torch(), len(architecture.ridges), len(starts)
    softplus = torch.nn.functional.softplus

    def again(values: Tensor) -> Tensor:
        """The repeats once for each ridge."""
        return values.repeat(times, *[1] * (values.ndim - 1))

    def margins(part: Tensor) -> Tensor:
        """Of each model on some samples."""
        return architecture.scores(models, again(tokens[:, part])) * again(labels[:, part])

    shapes = architecture.shapes(*tokens.shape[2:])
    models = {
        key: again(torch.stack([start[key] for start in starts])).requires_grad_() for key in shapes
    }
    ridges = tokens.new_tensor(np.repeat(architecture.ridges, repeats))
    penalties = {key: shapes[key].is_weight * _wide(ridges, models[key]) for key in shapes}
    size = max(_SMALLEST, -(-learn // _STEPS))
    steps = epochs * -(-learn // size)
    adam, cosine = _optimiser(architecture, models, tokens.shape[2:], steps)
    shuffle = torch.Generator().manual_seed(seed % 2**63)
    held_out = torch.arange(learn, labels.shape[1], device=labels.device)
    block = max(1, _BLOCK // tokens[:, 0].numel())
    best = {key: value.detach().clone() for key, value in models.items()}
    best_rank, best_epoch = torch.full_like(ridges, math.inf), torch.zeros_like(ridges)
    losses = torch.zeros(epochs, len(ridges), dtype=ridges.dtype, device=ridges.device)
    for epoch in range(epochs):
        for part in torch.randperm(learn, generator=shuffle).to(labels.device).split(size):
            loss = softplus(-margins(part)).mean(1)
            gradients = torch.autograd.grad(loss.sum(), list(models.values()))
            with torch.no_grad():
                for (key, value), gradient in zip(models.items(), gradients, strict=True):
                    value.grad = gradient.addcmul_(penalties[key], value)
            adam.step()
            cosine.step()
            losses[epoch] += loss.detach() * (len(part) / learn)
        with torch.no_grad():
            loss, errors = torch.zeros_like(ridges), torch.zeros_like(ridges)
            for part in held_out.split(block):
                margin = margins(part)
                loss += softplus(-margin).sum(1) / len(held_out)
                errors += (margin <= 0).sum(1)
            rank = errors + loss / (1 + loss)  # what is added is below one error
            better = rank < best_rank
            best_rank = torch.where(better, rank, best_rank)
            best_epoch = torch.where(better, epoch + 1.0, best_epoch)
            for key, value in models.items():
                best[key] = torch.where(_wide(better, value), value, best[key])
    winner = best_rank.reshape(times, repeats).argmin(0)
    rows = winner * repeats + torch.arange(repeats, device=winner.device)
    return _Best(
        {key: value[rows] for key, value in best.items()},
        best_epoch[rows],
        ridges[rows],
        losses.reshape(epochs, times, repeats),
    )


def _optimiser(
    architecture: Architecture, models: Parameters, shape: tuple[int, int], steps: int
) -> tuple[Any, Any]:
    """Adam, and the cosine that its rates fall by."""
    optim, shapes = _torch().optim, architecture.shapes(*shape)
    slower = math.sqrt(50 / shape[1])  # see Shape
    rates = {False: architecture.rate, True: architecture.rate * slower}
    groups = [
        {"params": [models[key] for key in shapes if shapes[key].on_tokens == on], "lr": rate}
        for on, rate in rates.items()
    ]
    adam = optim.Adam(groups, betas=_MEMORY, fused=True)
    return adam, optim.lr_scheduler.CosineAnnealingLR(adam, steps)


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

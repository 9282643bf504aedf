"""The two forms a source has: pools of instances, and bags ready made.

Both are kept on disk as `.npz` files without pickles, so that a second load takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, eq=False)
class Instances:
    """Two disjoint pools of instances, some of which are targets: bags are drawn from them.

    A positive bag holds exactly `sparsity` targets at random places, a negative one holds none.
    """

    train_tokens: np.ndarray  # (m, d) float
    train_is_target: np.ndarray  # (m,) bool
    test_tokens: np.ndarray  # (k, d) float, no row of which is a training row
    test_is_target: np.ndarray  # (k,) bool
    length: int  # of a bag, where `bags` is given none

    def __post_init__(self):
        for part in ("train", "test"):
            tokens, is_target = self.pool(part)
            if len(tokens) != len(is_target) or not np.isfinite(tokens).all():
                raise ValueError(f"{part}_tokens must be finite, with a flag for each")
            if is_target.all() or not is_target.any():
                raise ValueError(f"{part}_is_target must have targets and others")

    @property
    def dim(self) -> int:
        return self.train_tokens.shape[1]

    def pool(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and target flags of "train" or "test"."""
        if part == "train":
            return self.train_tokens, self.train_is_target
        if part == "test":
            return self.test_tokens, self.test_is_target
        raise ValueError(f"part must be 'train' or 'test', got {part!r}")

    def bags(
        self,
        count: int,
        length: int | None = None,
        sparsity: int = 1,
        prevalence: float = 0.5,
        part: str = "train",
        rng: np.random.Generator | int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens (count, length, d) and labels ±1 (count,), drawn with replacement.

        The share of positive bags is `prevalence`, rounded to whole bags and not random; their
        order is.
        """
        length = self.length if length is None else length
        if not 1 <= sparsity <= length:
            raise ValueError(f"sparsity must be from 1 to length={length}, got {sparsity}")
        rng = np.random.default_rng(rng)
        tokens, is_target = self.pool(part)
        labels = np.full(count, -1)
        labels[: round(prevalence * count)] = 1
        rng.shuffle(labels)
        chosen = rng.choice(np.flatnonzero(~is_target), (count, length))
        positive = np.flatnonzero(labels > 0)
        places = rng.random((len(positive), length)).argsort(axis=1)[:, :sparsity]
        targets = rng.choice(np.flatnonzero(is_target), places.shape)
        chosen[positive[:, None], places] = targets
        return tokens[chosen].astype(float), labels

    def save(self, path: Path) -> None:
        np.savez_compressed(path, **vars(self))

    @classmethod
    def read(cls, path: Path) -> Instances:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        return cls(**{**arrays, "length": int(arrays["length"])})

    @classmethod
    def split(cls, tokens, is_target, length: int, test_share: float = 0.5) -> Instances:
        """Halves at random, targets and others apart, always the same."""
        rng = np.random.default_rng(0)
        test = np.zeros(len(tokens), dtype=bool)
        for side in (True, False):
            index = rng.permutation(np.flatnonzero(is_target == side))
            test[index[: round(test_share * len(index))]] = True
        tokens = np.asarray(tokens, dtype=np.float32)
        return cls(tokens[~test], is_target[~test], tokens[test], is_target[test], length)


@dataclass(frozen=True, eq=False)
class ReadyBags:
    """Bags as they were collected."""

    bags: list[np.ndarray]  # (L_i, d) float
    labels: np.ndarray  # (n,) ±1

    def __post_init__(self):
        if len(self.bags) != len(self.labels) or set(np.unique(self.labels)) != {-1, 1}:
            raise ValueError("labels must be -1 or 1, both of them, one for each bag")

    @property
    def dim(self) -> int:
        return self.bags[0].shape[1]

    def save(self, path: Path) -> None:
        lengths = [len(bag) for bag in self.bags]
        np.savez_compressed(
            path, tokens=np.concatenate(self.bags), lengths=lengths, labels=self.labels
        )

    @classmethod
    def read(cls, path: Path) -> ReadyBags:
        with np.load(path, allow_pickle=False) as saved:
            cuts = np.cumsum(saved["lengths"])[:-1]
            return cls(np.split(saved["tokens"], cuts), saved["labels"])

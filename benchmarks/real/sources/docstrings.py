"""Text about one thing among others: how the docstrings of Python packages begin.

The corpus is in every installation of the benchmark: the first words of the docstrings of NumPy,
SciPy, scikit-learn, pandas and Matplotlib, names of packages taken out. Targets are those of one
package. Each becomes 256 numbers by `wordllama`, whose weights and tokenizer are in its wheel (no
network).
"""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .forms import Instances

PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")
NAMES = re.compile(r"(?i)numpy|scipy|scikit-learn|sklearn|pandas|matplotlib|pyplot")
# A single sentence is too little for an average of word vectors: attention's error was 0.34 at
# 1000 bags. With these it is 0.20.
FEWEST_WORDS, MOST_WORDS = 15, 60


def sentences(target: str, length: int) -> Instances:
    """Openings of the docstrings of one package among those of the others."""
    import wordllama

    corpus = {package: openings(package) for package in PACKAGES}
    others = set().union(*(corpus[package] for package in PACKAGES if package != target))
    # Text that two sides share is on neither.
    targets, others = sorted(corpus[target] - others), sorted(others - corpus[target])
    home = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=home, disable_download=True)
    tokens = model.embed(targets + others)
    # The same words in another order are one instance, not one for each pool.
    _, first = np.unique(tokens, axis=0, return_index=True)
    return Instances.split(tokens[first], first < len(targets), length)


def openings(package: str) -> set[str]:
    """The first words of all docstrings of a package."""
    texts = set()
    for path in Path(find_spec(package).origin).parent.rglob("*.py"):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                continue
            words = (ast.get_docstring(node) or "").split()[:MOST_WORDS]
            if len(words) >= FEWEST_WORDS:
                texts.add(NAMES.sub("it", " ".join(words)))
    return texts

"""Sentences about one thing among others: what the docstrings of Python packages begin with.

The corpus is in every installation of the benchmark: first sentences of the docstrings of NumPy,
SciPy, scikit-learn, pandas and Matplotlib. A target is a sentence of TARGET. Each sentence
becomes 256 numbers by `wordllama`, whose weights and tokenizer are in its wheel (no network).
"""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .forms import Instances

PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")
TARGET = "sklearn"
NAMES = re.compile(r"(?i)numpy|scipy|scikit-learn|sklearn|pandas|matplotlib|pyplot")
FEWEST_WORDS = 5  # shorter ones ("See also.") say nothing of their package


def sentences() -> Instances:
    """First sentences of scikit-learn's docstrings among those of the other packages."""
    import wordllama

    corpus = {package: first_sentences(package) for package in PACKAGES}
    others = set().union(*(corpus[package] for package in PACKAGES if package != TARGET))
    # A sentence that two sides share is on neither.
    targets, others = sorted(corpus[TARGET] - others), sorted(others - corpus[TARGET])
    home = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=home, disable_download=True)
    tokens = model.embed(targets + others)
    # The same words in another order are one instance, not one for each pool.
    _, first = np.unique(tokens, axis=0, return_index=True)
    return Instances.split(tokens[first], first < len(targets), length=10)


def first_sentences(package: str) -> set[str]:
    """Of all docstrings of a package, the package's own name taken out."""
    sentences = set()
    for path in Path(find_spec(package).origin).parent.rglob("*.py"):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                continue
            paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
            sentence = re.split(r"(?<=[.!?])\s", " ".join(paragraph.split()))[0]
            if len(sentence.split()) >= FEWEST_WORDS:
                sentences.add(NAMES.sub("it", sentence))
    return sentences

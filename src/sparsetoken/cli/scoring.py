"""A saved classifier on new bags: score."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.cli.bags import open_noted
from sparsetoken.cli.output import note, target
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.whole_files import whole_file


@dataclass(frozen=True)
class Score:
    """Predictions of a saved classifier for new bags, as CSV; and which tokens gave them away."""

    model: tyro.conf.Positional[str]
    """A file that sparsetoken fit --save has written."""
    bags: tyro.conf.Positional[str]
    """A folder or file as for fit; labels are not needed."""
    out: str | None = None
    """Write the predictions to this CSV file instead of standard output."""
    tokens: str | None = None
    """Also write a CSV file with one line a token: its weight, what it adds to the score."""
    layout: str | None = None
    """How bags are kept (clam, trident, stamp, hdf5, npz, ...); else it is recognised."""
    leave_out: bool = False
    """Go on without bags that are doubled or unreadable."""

    def run(self) -> None:
        out, tokens = target("score: out", self.out), target("score: tokens", self.tokens)
        if out is not None and out == tokens:
            raise InvalidInput(f"score: out and tokens must differ, got {self.out!r} for both")
        classifier = st.load_classifier(self.model)
        collection = open_noted(self.bags, layout=self.layout, leave_out=self.leave_out)
        bags = collection.bags.load()
        names = np.array(collection.names or range(len(bags)))
        several = classifier.positive_ is None
        labels = classifier.classes_.tolist() if several else [classifier.positive_]
        predictions = self._predictions(classifier, bags, names, labels)
        if tokens is not None:  # first: standard output may be a pipe that closes
            _write(self._tokens(classifier, bags, names, labels), tokens)
        if not several:
            note(f"probabilities and scores are those of the label {labels[0]}")
        _write(predictions, out)

    @staticmethod
    def _predictions(
        classifier: Any, bags: st.Bags, names: NDArray[Any], labels: list[Any]
    ) -> dict[str, FloatArray]:
        columns = {
            "bag": names,
            "tokens": bags.lengths,
            "prediction": classifier.predict(bags),
        }
        chances, scores = classifier.predict_proba(bags), classifier.decision_function(bags)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        for label in labels:
            place, ending = classifier.classes_.tolist().index(label), _ending(label, labels)
            columns[f"probability{ending}"] = chances[:, place]
            columns[f"score{ending}"] = scores[:, place]
        return columns

    @staticmethod
    def _tokens(
        classifier: Any, bags: st.Bags, names: NDArray[Any], labels: list[Any]
    ) -> dict[str, FloatArray]:
        columns = {
            "bag": np.repeat(names, bags.lengths),
            "token": np.concatenate([np.arange(length) for length in bags.lengths]),
        }
        for label in labels:
            for name, values in classifier.token_values(bags, label=label).items():
                columns[name + _ending(label, labels)] = np.concatenate(values)
        return columns


def _ending(label: Any, labels: list[Any]) -> str:
    """Of the name of a column for a label: none where there is one."""
    return "" if len(labels) == 1 else f"_{label}"


def _write(columns: dict[str, FloatArray], path: Path | None) -> None:
    """As CSV, numbers to 10 digits, to a file or to standard output."""
    import pandas as pd

    with nullcontext(sys.stdout) if path is None else whole_file(path) as destination:
        pd.DataFrame(columns).to_csv(
            destination, index=False, float_format="%.10g", lineterminator="\r\n"
        )

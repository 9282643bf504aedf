"""Someone's own bags of embeddings: fit, score."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tyro

import sparsetoken as st
from sparsetoken.cli.output import Row, note, show, target, warnings_as_notes
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_text
from sparsetoken.support.whole_files import whole_file

if TYPE_CHECKING:
    import pandas as pd

_MORE = (1, 2, 4, 8)  # times as many labelled bags


@dataclass(frozen=True)
class Fit:
    """Which pooling suits your bags, what is in them, and what would more labelled bags give?

    Compares the poolings by cross-validation, estimates strength and sparsity of the signal,
    predicts what more bags would give, and saves a classifier if asked to. The file is an npz
    archive: X (bags, tokens, features), or X (tokens, features) and offsets; and labels y, of
    which the second kind (in order) is that of bags with a signal. numpy.savez makes one.
    """

    bags: tyro.conf.Positional[str]
    """The npz file; nothing in it is ever unpickled."""
    save: str | None = None
    """Fit all bags and write the classifier to this file, for sparsetoken score."""
    pooling: Literal["best", "pooled", "attention", "joint", "vectorized"] = "best"
    """The classifier to save; best is the one with the least cross-validated error."""
    target_error: float | None = None
    """Also plan for this error: how many labelled bags does it take?"""
    target_auc: float | None = None
    """Also plan for this area under the ROC curve."""
    folds: int = 5
    """Of the cross-validation."""
    seed: int = 0
    """Of folds and bootstrap."""
    json: bool = False
    """Print JSON for programs, at the end."""
    no_progress: bool = False
    """No progress bar on standard error."""

    def run(self) -> None:
        destination = target("fit: save", self.save)
        bags, labels = st.load_bags(self.bags)
        if labels is None:
            raise InvalidInput(f"{self.bags}: the array y (labels) is missing")
        lengths = bags.lengths
        self._say(
            f"{len(bags)} bags of {lengths.min()} to {lengths.max()} tokens in {bags.dim} "
            "dimensions, cross-validated:"
        )
        progress = not self.no_progress and sys.stderr.isatty()
        with warnings_as_notes():
            table = st.compare_poolings(
                bags, labels, folds=self.folds, seed=self.seed, progress=progress
            )
        comparison: Any = table.to_dict("records")
        answer: Row = {"bags": len(bags), "dim": bags.dim, "comparison": self._shown(comparison)}
        if "vectorized" not in set(table.pooling):
            self._say("(vectorized needs bags of one length, not too many)")
        chosen = self._chosen(table)
        if destination is not None:
            st.save_classifier(st.ESTIMATORS.make(chosen).fit(bags, labels), destination)
            note(f"the classifier ({chosen}) is in {self.save}")
            answer["saved"] = {"classifier": chosen, "file": str(self.save)}
        try:
            pilot = st.estimate_task(bags, labels, seed=self.seed)
        except InvalidInput as error:
            self._say(f"\nNothing can be estimated or planned: {error}.")
            answer["pilot"] = {"error": str(error)}
        else:
            self._say("\n" + pilot.summary())
            answer["pilot"] = json.loads(pilot.to_json())
            if pilot.found:
                answer["plan"] = self._plan(pilot, table)
        if self.json:
            print(json_text(answer))

    def _say(self, words: str) -> None:
        if not self.json:
            print(words, flush=True)

    def _shown(self, rows: list[Row]) -> list[Row]:
        if not self.json:
            show(rows)
        return rows

    def _chosen(self, table: pd.DataFrame) -> str:
        names = list(table.pooling[1:])
        if self.pooling == "best":
            return str(table[1:].sort_values("error", kind="stable").pooling.iloc[0])
        if self.pooling not in names:
            raise InvalidInput(
                f"fit: pooling must be one of {', '.join(names)} for these bags, got "
                f"{self.pooling!r}"
            )
        return self.pooling

    def _plan(self, pilot: st.Pilot, table: pd.DataFrame) -> Row:
        """What theory predicts for these bags, and for more of them."""
        rarer = round(float(table.error[0]) * pilot.bags)  # of the guess of the larger class
        trained = max(4, round(pilot.bags * (1 - 1 / min(self.folds, rarer))))
        predicted = _errors(pilot.plan(samples=trained))
        measured = table.set_index("pooling")
        words = ", ".join(
            f"{name} {value:.3f} (found {measured.error[name]:.3f} ± {measured.error_se[name]:.3f})"
            for name, value in predicted.items()
        )
        self._say(f"\nPredicted error of {trained} bags like these: {words}.")
        rows = []
        for factor in _MORE:
            advice = pilot.plan(samples=factor * pilot.bags)
            assert advice.best is not None
            errors = {f"error_of_{name}": value for name, value in _errors(advice).items()}
            row = {"labelled_bags": factor * pilot.bags, **errors}
            rows.append(row | {"recommended": advice.best.classifier})
        self._say("Predicted errors with more labelled bags:")
        answer: Row = {"predicted": predicted, "more": self._shown(rows)}
        if self.target_error is not None or self.target_auc is not None:
            targets = {"target_error": self.target_error, "target_auc": self.target_auc}
            answer["target"] = pilot.plan(**targets).headline
            self._say(answer["target"])
        return answer


def _errors(advice: st.Plan) -> dict[str, float | None]:
    return {name: advice[name].value for name in ("attention", "pooled")}


@dataclass(frozen=True)
class Score:
    """Predictions of a saved classifier for new bags, as CSV; and which tokens gave them away."""

    model: tyro.conf.Positional[str]
    """A file that sparsetoken fit --save has written."""
    bags: tyro.conf.Positional[str]
    """An npz file as for fit; labels are not needed."""
    out: str | None = None
    """Write the predictions to this CSV file instead of standard output."""
    tokens: str | None = None
    """Also write a CSV file with one line a token: its weight, what it adds to the score."""

    def run(self) -> None:
        out, tokens = target("score: out", self.out), target("score: tokens", self.tokens)
        if out is not None and out == tokens:
            raise InvalidInput(f"score: out and tokens must differ, got {self.out!r} for both")
        classifier = st.load_classifier(self.model)
        bags, _ = st.load_bags(self.bags)
        table = {
            "bag": np.arange(len(bags)),
            "tokens": bags.lengths,
            "prediction": classifier.predict(bags),
            "probability": classifier.predict_proba(bags)[:, 1],
            "score": classifier.decision_function(bags),
        }
        if tokens is not None:  # first: standard output may be a pipe that closes
            _write(self._tokens(classifier, bags), tokens)
        _write(table, out)

    @staticmethod
    def _tokens(classifier: Any, bags: st.Bags) -> dict[str, FloatArray]:
        columns = {"contribution": classifier.contributions(bags)}
        if hasattr(classifier, "attention"):
            columns["attention"] = classifier.attention(bags)
            columns["query_score"] = classifier.score_tokens(bags)
        return {
            "bag": np.repeat(np.arange(len(bags)), bags.lengths),
            "token": np.concatenate([np.arange(length) for length in bags.lengths]),
            **{name: np.concatenate(values) for name, values in columns.items()},
        }


def _write(columns: dict[str, FloatArray], path: Path | None) -> None:
    """As CSV, numbers to 10 digits, to a file or to standard output."""
    import pandas as pd

    with nullcontext(sys.stdout) if path is None else whole_file(path) as destination:
        pd.DataFrame(columns).to_csv(
            destination, index=False, float_format="%.10g", lineterminator="\r\n"
        )

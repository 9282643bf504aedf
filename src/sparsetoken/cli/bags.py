"""Someone's own bags of embeddings: fit, score."""

from __future__ import annotations

import csv
import json
import sys
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

import sparsetoken as st
from sparsetoken.cli.output import note, show, target
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
        found: dict[str, Any] = {"bags": len(bags), "dim": bags.dim}
        lengths = bags.lengths
        self._say(
            f"{len(bags)} bags of {lengths.min()} to {lengths.max()} tokens in {bags.dim} "
            "dimensions, cross-validated:"
        )
        progress = not self.no_progress and sys.stderr.isatty()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            table = st.compare_poolings(
                bags, labels, folds=self.folds, seed=self.seed, progress=progress
            )
        for message in sorted({str(each.message) for each in told}):
            note(message)
        found["comparison"] = table.to_dict("records")
        if not self.json:
            show(found["comparison"], False)
            if "vectorized" not in set(table.pooling):
                self._say("(vectorized needs bags of one length, not too many)")
        chosen = self._chosen(table)
        if destination is not None:
            classifier = st.ESTIMATORS.make(chosen).fit(bags, labels)
            st.save_classifier(classifier, destination)
            note(f"the classifier ({chosen}) is in {self.save}")
            found["saved"] = {"classifier": chosen, "file": str(self.save)}
        try:
            pilot = st.estimate_task(bags, labels, seed=self.seed)
        except InvalidInput as error:
            self._say(f"\nNothing can be estimated or planned: {error}.")
            found["pilot"] = {"error": str(error)}
        else:
            self._say("\n" + pilot.summary())
            found["pilot"] = json.loads(pilot.to_json())
            if pilot.found:
                found["plan"] = self._plan(pilot, table)
        if self.json:
            print(json_text(found))

    def _say(self, words: str) -> None:
        if not self.json:
            print(words, flush=True)

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

    def _plan(self, pilot: st.Pilot, table: pd.DataFrame) -> dict[str, Any]:
        """What theory predicts for these bags, and for more of them."""
        measured = table.set_index("pooling").error
        errors = table.set_index("pooling").error_se
        rarer = round(float(table.error[0]) * pilot.bags)  # of the guess of the larger class
        trained = max(4, round(pilot.bags * (1 - 1 / min(self.folds, rarer))))
        now = pilot.plan(samples=trained)
        predicted = {name: now[name].value for name in ("attention", "pooled")}
        words = ", ".join(
            f"{name} {value:.3f} (found {measured[name]:.3f} ± {errors[name]:.3f})"
            for name, value in predicted.items()
        )
        self._say(f"\nPredicted error of {trained} bags like these: {words}.")
        rows = []
        for factor in _MORE:
            advice = pilot.plan(samples=factor * pilot.bags)
            assert advice.best is not None
            row: dict[str, Any] = {"labelled_bags": factor * pilot.bags}
            row |= {f"error_of_{name}": advice[name].value for name in ("attention", "pooled")}
            rows.append(row | {"recommended": advice.best.classifier})
        self._say("Predicted errors with more labelled bags:")
        if not self.json:
            show(rows, False)
        targets = {"target_error": self.target_error, "target_auc": self.target_auc}
        asked = {name: value for name, value in targets.items() if value is not None}
        answer: dict[str, Any] = {"predicted": predicted, "more": rows}
        if asked:
            answer["target"] = pilot.plan(**asked).headline
            self._say(answer["target"])
        return answer


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
        names = classifier.predict(bags)
        chances = classifier.predict_proba(bags)[:, 1]
        scores = classifier.decision_function(bags)
        if tokens is not None:  # first: standard output may be a pipe that closes
            with whole_file(tokens) as path, _stream(path) as stream:
                self._tokens(classifier, bags, stream)
        with nullcontext() if out is None else whole_file(out) as draft, _stream(draft) as stream:
            writer = csv.writer(stream)
            writer.writerow(["bag", "tokens", "prediction", "probability", "score"])
            for index, each in enumerate(zip(bags.lengths, names, chances, scores, strict=True)):
                writer.writerow([index, *map(_plain, each)])

    @staticmethod
    def _tokens(classifier: Any, bags: Any, stream: Any) -> None:
        columns = {"contribution": classifier.contributions(bags)}
        if hasattr(classifier, "attention"):
            columns["attention"] = classifier.attention(bags)
            columns["query_score"] = classifier.score_tokens(bags)
        writer = csv.writer(stream)
        writer.writerow(["bag", "token", *columns])
        for bag, values in enumerate(zip(*columns.values(), strict=True)):
            for token, each in enumerate(zip(*values, strict=True)):
                writer.writerow([bag, token, *map(_plain, each)])


def _stream(path: Path | None) -> Any:
    """A file for CSV, or standard output."""
    if path is None:
        return nullcontext(sys.stdout)
    return path.open("w", newline="", encoding="utf-8")


def _plain(value: Any) -> Any:
    """A number to 10 digits, anything else as it is."""
    return f"{value:.10g}" if isinstance(value, float) else value

"""Someone's own bags of embeddings: fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.cli.output import Row, note, show, target, warnings_as_notes
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_text, table_text

if TYPE_CHECKING:
    import pandas as pd

_MORE = (1, 2, 4, 8)  # times as many labelled bags
_SHOWN = 20  # bags that are left out, of which is said why
_LARGE = 1 << 21  # numbers in all tokens, below which no pooling takes a minute
# A pooling dominates that takes more than a minute, and twice as long as all others together. A
# choice: joint training of 200 bags of 1000 tokens in 512 dimensions takes 3.6 times as long.
_MOST_SECONDS, _MOST_TIMES = 60.0, 2.0


@dataclass(frozen=True)
class Fit:
    """Which pooling suits your bags, what is in them, and what would more labelled bags give?

    Compares the poolings by cross-validation, estimates strength and sparsity of the signal,
    predicts what more bags would give, and saves a classifier if asked to. Bags are a folder of
    CLAM, TRIDENT or STAMP, or of HDF5 files, with labels in a table; or an npz archive of X (bags,
    tokens, features), or X (tokens, features) and offsets, and labels y: numpy.savez makes one.
    """

    bags: tyro.conf.Positional[str]
    """The folder or file; nothing in it is ever unpickled."""
    labels: str | None = None
    """A table with a row for each bag: CSV, TSV, XLSX or Parquet."""
    slide_table: str | None = None
    """A table of patients and bags, if that of --labels is one of patients (as STAMP has them)."""
    label_column: str | None = None
    """Of the table; else label, y, target or the like, or the only one left."""
    bag_column: str | None = None
    """With the names of bags; else slide_id, slide, bag, filename or the like."""
    group: str | None = None
    """The column with what must stay together; else patient, case_id, donor or the like, if any."""
    layout: str | None = None
    """How bags are kept (clam, trident, stamp, hdf5, npz, ...); else it is recognised."""
    leave_out: bool = False
    """Go on without bags that are missing, doubled, unlabelled or unreadable."""
    save: str | None = None
    """Fit all bags and write the classifier to this file, for sparsetoken score."""
    positive: str | None = None
    """The label of bags with a signal, against all others; of two the second in order, if none."""
    poolings: tuple[str, ...] = ()
    """Those to compare, as attention,joint; else all that suit the bags and do not take by far the
    most time."""
    pooling: Literal["best", "pooled", "attention", "joint", "vectorized", "statistics"] = "best"
    """The classifier to save; best is the one with the least cross-validated error, vectorized only
    if it is so by more than its standard error."""
    target_error: float | None = None
    """Also plan for this error: how many labelled bags does it take?"""
    target_auc: float | None = None
    """Also plan for this area under the ROC curve."""
    folds: int = 5
    """Of the cross-validation."""
    seed: int = 0
    """Of the folds."""
    json: bool = False
    """Print JSON for programs, at the end."""
    no_progress: bool = False
    """No progress bars on standard error, nothing on what is being done."""

    def run(self) -> None:
        destination = target("fit: save", self.save)
        collection = self._collection()
        bags, labels, groups = collection.bags.load(), collection.labels, collection.groups
        if labels is None:
            raise InvalidInput(
                f"{self.bags}: the array y (labels) is missing, or a table (--labels)"
            )
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InvalidInput(
                f"{self.bags}: y must have labels of two kinds, got {classes[0]} alone"
            )
        signal = self._signal(classes)
        self._say(_shape(bags))
        self._say(_signal_line(classes, signal))
        with warnings_as_notes():
            poolings = self._poolings(bags, labels)
            table = st.compare_poolings(
                bags,
                labels,
                folds=self.folds,
                seed=self.seed,
                progress=not self.no_progress,
                poolings=poolings,
                positive=signal,
            )
        comparison: Any = table.to_dict("records")
        answer: Row = {"bags": len(bags), "dim": bags.dim, "positive": signal}
        answer["comparison"] = comparison
        shown: Any = table.drop(columns=["failure", "best"]).to_dict("records")
        self._shown(shown)
        for row in comparison:
            if row["failure"]:
                self._say(f"{row['pooling']} has no numbers: {row['failure']}.")
        if not poolings and "vectorized" not in set(table.pooling):
            self._say("(vectorized needs bags of one length, not too many)")
        chosen = self._chosen(table)
        if destination is not None:
            self._doing(f"fitting all bags ({chosen})")
            classifier = st.ESTIMATORS.make(chosen, positive=signal).fit(
                bags, labels, groups=groups
            )
            st.save_classifier(classifier, destination)
            note(f"the classifier ({chosen}) is in {self.save}")
            answer["saved"] = {"classifier": chosen, "file": str(self.save)}
        if signal is None:
            self._say("\nNothing is estimated or planned for several labels; --positive LABEL does "
                      "so for one against the rest.")  # fmt: skip
        else:
            answer |= self._outlook(bags, labels == signal, groups)
        if self.json:
            print(json_text(answer))

    def _collection(self) -> st.BagCollection:
        if self.slide_table is not None and self.labels is None:
            raise InvalidInput("fit: slide_table needs labels, the table of patients")
        return open_noted(
            self.bags,
            layout=self.layout,
            labels=self.labels if self.slide_table is None else (self.labels, self.slide_table),
            bag_column=self.bag_column,
            label_column=self.label_column,
            group_column=self.group,
            leave_out=self.leave_out,
        )

    def _signal(self, classes: NDArray[Any]) -> Any:
        """The label of bags with a signal; None where each of several is in turn."""
        if self.positive is not None:
            return _label(classes, self.positive)
        return classes[1].item() if len(classes) == 2 else None

    def _poolings(self, bags: st.Bags, labels: NDArray[Any]) -> list[str] | None:
        """Those to compare; None for all that suit the bags."""
        if self.poolings:
            return [name.strip() for names in self.poolings for name in names.split(",")]
        if bags.tokens.size < _LARGE:
            return None
        self._doing("estimating how long each pooling will take (--poolings chooses them)")
        seconds = st.rehearse_poolings(bags, labels, folds=self.folds)
        kept = {name for name in seconds if name == self.pooling or not _dominates(name, seconds)}
        note(
            ", ".join(
                f"{name} about {_duration(spent)}"
                + ("" if name in kept else f": left out; --poolings {name} to have it")
                for name, spent in seconds.items()
            )
        )
        return [name for name in seconds if name in kept]

    def _outlook(
        self, bags: st.Bags, positive: NDArray[np.bool_], groups: NDArray[Any] | None
    ) -> Row:
        """What is in the bags, and what more of them would give."""
        self._doing("estimating what is in the bags")
        try:
            pilot = st.estimate_task(bags, positive, groups=groups)
        except InvalidInput as error:
            self._say(f"\nNothing can be estimated or planned: {error}.")
            return {"pilot": {"error": str(error)}}
        self._say("\n" + pilot.summary())
        answer: Row = {"pilot": json.loads(pilot.to_json())}
        if pilot.found:
            answer["plan"] = self._plan(pilot)
        return answer

    def _doing(self, words: str) -> None:
        if not self.no_progress:
            note(words)

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
            if not table.best.any():
                why = "; ".join(table.failure[1:])
                raise st.ConvergenceError(f"fit: no pooling arrives: {why}")
            return str(table.pooling[table.best].iloc[0])
        if self.pooling not in names:
            raise InvalidInput(
                f"fit: pooling must be one of {', '.join(names)} for these bags, got "
                f"{self.pooling!r}"
            )
        return self.pooling

    def _plan(self, pilot: st.Pilot) -> Row:
        """What more bags like these would give."""
        self._doing(f"planning for {', '.join(str(k * pilot.bags) for k in _MORE)} bags")
        rows, advices = [], {}
        for factor in _MORE:
            samples = factor * pilot.bags
            advice = advices[f"{samples} bags"] = pilot.plan(samples=samples)
            assert advice.best is not None
            errors = {
                f"{name}_{part}": getattr(advice[name], part)
                for name in ("attention", "pooled")
                for part in ("value", "low", "high")
            }
            rows.append({"labelled_bags": samples, **errors, "recommended": advice.best.classifier})
        self._say(f"Errors with more labelled bags, with {pilot.level:.0%} intervals:")
        answer: Row = {"more": self._shown(rows)}
        if self.target_error is not None or self.target_auc is not None:
            targets = {"target_error": self.target_error, "target_auc": self.target_auc}
            advices["the target"] = pilot.plan(**targets)
            answer["target"] = advices["the target"].headline
            self._say(answer["target"])
        answer["warnings"] = [
            f"{words}: {each}" for words, advice in advices.items() for each in advice.warnings
        ]
        for warning in answer["warnings"]:
            self._say(f"Warning for {warning}.")
        return answer


def open_noted(path: str, **options: Any) -> st.BagCollection:
    """Bags on disk, and a remark on those that are left out."""
    collection = st.open_bags(path, **options)
    if len(collection.problems):
        shown = table_text(collection.problems.head(_SHOWN))
        note(f"{len(collection.problems)} bags are left out\n{shown}")
    return collection


def _shape(bags: st.Bags) -> str:
    lengths = bags.lengths
    return (
        f"{len(bags)} bags of {lengths.min()} to {lengths.max()} tokens in {bags.dim} "
        "dimensions, cross-validated."
    )


def _signal_line(classes: NDArray[Any], signal: Any) -> str:
    """Which label is taken as the signal, and how to choose another."""
    labels = classes.tolist()
    if signal is None:
        return f"{len(labels)} labels, each the signal in turn against the rest."
    other = next(label for label in labels if label != signal)
    rest = "" if len(labels) == 2 else f" (against the rest of {len(labels)} labels)"
    return f"Bags with a signal are those labelled {signal}{rest}; --positive {other} takes others."


def _label(classes: NDArray[Any], words: str) -> Any:
    """The label that the words mean, whatever the kind of labels."""
    labels = classes.tolist()
    for label in labels:
        if str(label) == words:
            return label
    try:
        number = float(words)
    except ValueError:
        number = None
    if classes.dtype.kind in "biuf" and number in labels:
        return labels[labels.index(number)]
    known = ", ".join(map(str, labels))
    raise InvalidInput(f"fit: positive must be one of the labels {known}, got {words!r}")


def _dominates(name: str, seconds: dict[str, float]) -> bool:
    """Whether a pooling takes by far the most time."""
    others = sum(spent for other, spent in seconds.items() if other != name)
    return seconds[name] > max(_MOST_SECONDS, _MOST_TIMES * others)


def _duration(seconds: float) -> str:
    return "1 s" if seconds < 1 else f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"

"""Someone's own bags of embeddings: fit."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.cli.output import Row, Voice, note, target, warnings_as_notes
from sparsetoken.cli.pilots import (
    Labelled,
    pilot_of,
    plan_for_fewer,
    plans_of,
    signal_tokens,
    subsampling_cost,
)
from sparsetoken.cli.poolings import (
    check_pooling,
    chosen_pooling,
    quick_poolings,
    say_absent,
    show_comparison,
)
from sparsetoken.cli.reading import (
    copies,
    fewer_tokens,
    label_of,
    merged,
    open_noted,
    readable_noted,
    shape_line,
    signal_line,
    walked,
)
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_text
from sparsetoken.support.whole_files import whole_file

if TYPE_CHECKING:
    from sparsetoken.cli.reading import Walked

_SEVERAL = (
    "Nothing is estimated or planned for several labels; --positive LABEL does so for one against "
    "the rest."
)


@dataclass(frozen=True)
class Fit:
    """Which pooling suits your bags, what is in them, and what would more labelled bags give?

    Compares the poolings by cross-validation, estimates strength and sparsity of the signal,
    predicts what more bags would give, and saves a classifier if asked to. Bags are a folder of
    CLAM, TRIDENT or STAMP, or of HDF5 files, with labels in a table; or an npz archive of X (bags,
    tokens, features), or X (tokens, features) and offsets, and labels y: numpy.savez makes one.
    Bags that are nearly the same are warned of.
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
    layout: str | None = None
    """How bags are kept (clam, trident, stamp, hdf5, npz, ...); else it is recognised."""
    keep: str | None = None
    """A folder for what each pass over the files gives: the same command, begun again after a stop,
    goes on after the last one."""
    device: str | None = None
    """Torch's name of a device for the matrix products, such as cuda."""
    max_tokens: int | None = None
    """Keep so many tokens of each bag, chosen at random and always the same."""
    leave_out: bool = False
    """Go on without bags that are missing, doubled, unlabelled or unreadable."""
    save: str | None = None
    """Fit all bags and write the classifier to this file, for sparsetoken score."""
    report: str | None = None
    """Write all of this to one HTML page: pictures, intervals, the most telling tokens."""
    positive: str | None = None
    """The label of bags with a signal, against all others; of two the second in order, if none."""
    group: str | None = None
    """The column of the table, or array of the npz file, that names each bag's group (a patient, a
    recording): groups are never split, neither by folds nor by halves."""
    merge: bool = False
    """Make one bag of each group. Of two labels, it has a signal if one of its bags has; several
    must agree in a group."""
    poolings: tuple[str, ...] = ()
    """Those to compare, as attention,joint; else all that suit the bags and do not take by far the
    most time."""
    pooling: Literal[
        "best", "pooled", "attention", "joint", "posterior", "vectorized", "statistics"
    ] = "best"
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
        destination, page = target("fit: save", self.save), target("fit: report", self.report)
        whole("fit", "folds", self.folds, least=2)
        voice = Voice(self.json, self.no_progress)
        collection = self._collection()
        labels, groups = self._labelled(collection)
        self._check_choices(labels, groups)
        try:
            bags = self._walked(fewer_tokens(collection.bags, self.max_tokens, self.seed))
            duplicates = copies(bags, groups, voice)
        except InvalidInput:  # of one bag: there may be more
            collection = readable_noted(collection, self.leave_out)
            labels, groups = self._labelled(collection)
            bags = self._walked(fewer_tokens(collection.bags, self.max_tokens, self.seed))
            duplicates = copies(bags, groups, voice)
        every = Labelled(collection.bags, labels, groups)
        classes = np.unique(labels)
        signal = self._signal(classes)
        if self.merge:
            bags, labels = merged(bags, labels, groups, signal, voice)
            bags, groups = self._walked(bags), None
        voice.say(shape_line(bags, groups))
        voice.say(signal_line(classes, signal))
        labelled = Labelled(bags, labels, groups)
        with warnings_as_notes() as warnings:
            poolings = self._poolings(labelled, voice)
            comparison = st.cross_validate(
                bags,
                labels,
                folds=self.folds,
                seed=self.seed,
                progress=not self.no_progress,
                poolings=poolings,
                positive=signal,
                groups=groups,
            )
        show_comparison(comparison, voice)
        if poolings is None:
            say_absent(comparison.table.pooling, voice)
        chosen = chosen_pooling(comparison.table, self.pooling)
        classifier = tokens = None
        if destination is not None or page is not None:
            voice.doing(f"fitting all bags ({chosen})")
            try:
                classifier = st.ESTIMATORS.make(chosen, positive=signal)
                classifier.fit(bags, labels, groups=groups)
            except st.ConvergenceError as error:
                if destination is not None:
                    raise
                warnings.append(f"{chosen} does not arrive when it learns from all bags: {error}")
        if destination is not None and classifier is not None:
            tokens = signal_tokens(labelled, signal, self.seed, voice)
            st.save_classifier(classifier, destination, tokens)
            note(f"the classifier ({chosen}) is in {self.save}")
        outlook = self._outlook(labelled, signal, chosen, voice)
        if self.max_tokens is not None and outlook.get("pilot") and not self.merge:
            warnings.append(subsampling_cost(every, signal, self.max_tokens, self.seed, voice))
        problems = collection.problems
        report = st.FitReport.of(
            bags,
            labels,
            comparison,
            source=self.bags,
            signal=signal,
            chosen=chosen,
            classifier=classifier,
            warnings=[*collection.notes, *duplicates, *warnings],
            names=None if self.merge else collection.names,
            groups=groups,
            problems=list(zip(problems.bag, problems.explanation, strict=True)),
            saved=self.save,
            saved_tokens=tokens is not None,
            commands=self._commands,
            version=st.__version__,
            **outlook,
        )
        if page is not None:
            with whole_file(page) as draft:
                draft.write_text(report.to_html(), encoding="utf-8")
            note(f"the report is in {self.report}")
        if self.json:
            print(json_text(report.content()))

    def _poolings(self, labelled: Labelled, voice: Voice) -> list[str] | None:
        """Those to compare; None for all that suit the bags."""
        if self._named:
            return self._named
        return quick_poolings(*labelled, self.folds, self.pooling, voice)

    @property
    def _named(self) -> list[str]:
        """Poolings that were asked for."""
        return [name.strip() for names in self.poolings for name in names.split(",")]

    def _outlook(self, labelled: Labelled, signal: Any, chosen: str, voice: Voice) -> Row:
        """What is in the bags, and what more of them would give."""
        if signal is None:
            voice.say(f"\n{_SEVERAL}")
            return {"unplanned": _SEVERAL}
        try:
            pilot = pilot_of(labelled, signal, self.seed, voice)
        except InvalidInput as error:
            voice.say(f"\nNothing can be estimated or planned: {error}.")
            return {"unplanned": str(error)}
        if not pilot.found:
            return {"pilot": pilot}
        targets = {"target_error": self.target_error, "target_auc": self.target_auc}
        answer = plans_of(pilot, targets, self._whose(chosen), voice)
        if self.report is not None:
            answer["fewer"] = plan_for_fewer(pilot)
        return {"pilot": pilot, **answer}

    def _whose(self, chosen: str) -> str:
        """Whether the classifier that was chosen is among those forecast."""
        words = f"the classifier saved is {chosen}" if self.save else f"{chosen} was best here"
        if self.save is None and self.pooling != "best":
            words = f"{chosen} was asked for"
        return words if chosen in ("attention", "pooled") else f"{words}, of which nothing is said"

    @property
    def _commands(self) -> list[str]:
        """What was asked for, as it would be typed; and what to do with the classifier."""
        silent = {"bags", "json", "no_progress"}  # change nothing that is computed
        given = [field.name for field in fields(self) if field.name not in silent]
        commands = [shlex.join(["sparsetoken", "fit", self.bags, *self._typed(given)])]
        if self.save is not None:
            words = ["sparsetoken", "score", self.save, self.bags]
            same = ["layout", "leave_out", "max_tokens"]
            if self.labels is None:  # they are columns of the bags themselves
                same += ["bag_column", "label_column", "group", "merge"]
            commands.append(shlex.join([*words, *self._typed(same)]))
        return commands

    def _typed(self, names: list[str]) -> list[str]:
        """Those options that were given, as they are typed: a flag has no value."""
        defaults = {field.name: field.default for field in fields(self)}
        words = []
        for name in names:
            value = getattr(self, name)
            if value != defaults[name]:
                words.append(f"--{name.replace('_', '-')}")
                if value is not True:
                    words += map(str, value if isinstance(value, tuple) else (value,))
        return words

    def _collection(self) -> st.BagCollection:
        if self.slide_table is not None and self.labels is None:
            raise InvalidInput("fit: slide_table needs labels, the table of patients")
        return open_noted(
            self.bags,
            layout=self.layout,
            labels=self.labels if self.slide_table is None else (self.labels, self.slide_table),
            bag_column=self.bag_column,
            label_column=self.label_column,
            group_column=self._group_column,
            leave_out=self.leave_out,
        )

    @property
    def _group_column(self) -> str | None:
        """Of a table; None where groups are an array of the npz file itself."""
        return None if self.labels is None and self.bags.endswith(".npz") else self.group

    def _labelled(self, collection: st.BagCollection) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Labels of two kinds or more, and groups if there are any."""
        labels, groups = collection.labels, collection.groups
        if labels is None:
            raise InvalidInput(
                f"{self.bags}: there are no labels: --labels takes a table with a row for each bag "
                "(an npz file may have them as its array y)"
            )
        # those of an npz file may be missing; those of tables were looked at
        for bag, label in enumerate(labels.tolist()):
            if label != label or not str(label).strip():
                raise InvalidInput(
                    f"{self.bags}: y must have a label for each bag, got {label!r} for bag {bag}"
                )
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InvalidInput(
                f"{self.bags}: y must have labels of two kinds, got {classes[0]} alone"
            )
        if self._group_column != self.group:
            groups = st.load_groups(self.bags, str(self.group))
        return labels, groups

    def _check_choices(self, labels: NDArray[Any], groups: NDArray[Any] | None) -> None:
        """A slip of the pen is told before files are read, which may take long."""
        self._signal(np.unique(labels))
        if self.merge and groups is None:
            raise InvalidInput("fit: merge must come with --group, which says what becomes one bag")
        if self._named and self.pooling != "best":
            check_pooling(self._named, self.pooling)

    def _signal(self, classes: NDArray[Any]) -> Any:
        """The label of bags with a signal; None where each of several is in turn."""
        if self.positive is not None:
            return label_of(classes, self.positive)
        return classes[1].item() if len(classes) == 2 else None

    def _walked(self, bags: Walked) -> Walked:
        return walked(bags, self.keep, self.device, progress=not self.no_progress)

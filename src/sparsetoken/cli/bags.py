"""Someone's own bags of embeddings: fit."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.cli.output import Row, note, show, target, warnings_as_notes
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_text, table_text
from sparsetoken.support.whole_files import whole_file

if TYPE_CHECKING:
    import pandas as pd

    Walked = st.Bags | st.BagSource  # in memory or on disk

_MOST_PAIRS = 10  # of bags that are nearly the same, a sentence each
_MORE = (1, 2, 4, 8)  # times as many labelled bags
_PILOT = 1 << 28  # numbers of bags from which a signal is estimated, where not all fit: 2 GiB
_LEAST_DIM = 3  # of a plan
_SHOWN = 20  # bags that are left out, of which is said why
_FEWER = 0.4  # of the bags: what the smaller of two measurements learns from
_SEVERAL = (
    "Nothing is estimated or planned for several labels; --positive LABEL does so for one against "
    "the rest."
)
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
        collection = self._collection()
        labels, groups = self._labelled(collection)
        self._check_choices(labels, groups)
        try:
            bags = self._walked(self._fewer(collection.bags))
            duplicates = self._duplicates(bags, groups)
        except InvalidInput:  # of one bag: there may be more
            collection = readable_noted(collection, self.leave_out)
            labels, groups = self._labelled(collection)
            bags = self._walked(self._fewer(collection.bags))
            duplicates = self._duplicates(bags, groups)
        classes = np.unique(labels)
        signal = self._signal(classes)
        if self.merge:
            bags, labels = self._merged(bags, labels, groups, signal)
            groups = None
        self._say(_shape(bags, groups))
        self._say(_signal_line(classes, signal))
        with warnings_as_notes() as warnings:
            poolings = self._poolings(bags, labels, groups)
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
        table = comparison.table
        hidden = ["error_se", "auc_se", "failure", "best"]
        shown: Any = table.drop(columns=hidden).to_dict("records")
        self._shown(shown)
        for row in comparison.rows:
            if row["failure"]:
                self._say(f"{row['pooling']} has no numbers: {row['failure']}.")
        if poolings is None:
            self._absent(table.pooling)
        chosen = self._chosen(table)
        classifier = tokens = None
        if destination is not None or page is not None:
            self._doing(f"fitting all bags ({chosen})")
            try:
                classifier = st.ESTIMATORS.make(chosen, positive=signal)
                classifier.fit(bags, labels, groups=groups)
            except st.ConvergenceError as error:
                if destination is not None:
                    raise
                warnings.append(f"{chosen} does not arrive when it learns from all bags: {error}")
        if destination is not None and classifier is not None:
            tokens = self._tokens(bags, labels, signal, groups)
            st.save_classifier(classifier, destination, tokens)
            note(f"the classifier ({chosen}) is in {self.save}")
        outlook: Row = {}
        if signal is None:
            outlook["unplanned"] = _SEVERAL
            self._say(f"\n{_SEVERAL}")
        else:
            outlook = self._outlook(bags, labels == signal, groups, chosen)
        if self.max_tokens is not None and outlook.get("pilot") and not self.merge:
            warnings.append(self._cost(collection.bags, labels == signal, groups))
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
            problems=list(
                zip(collection.problems.bag, collection.problems.explanation, strict=True)
            ),
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
            self._check_pooling(self._named)

    def _signal(self, classes: NDArray[Any]) -> Any:
        """The label of bags with a signal; None where each of several is in turn."""
        if self.positive is not None:
            return _label(classes, self.positive)
        return classes[1].item() if len(classes) == 2 else None

    def _fewer(self, bags: Walked) -> Walked:
        """With all their tokens, or with some."""
        if self.max_tokens is None:
            return bags
        fewer: Walked = st.subsampled(bags, self.max_tokens, self.seed)  # type: ignore[type-var]
        return fewer

    def _walked(self, bags: st.Bags | st.BagSource) -> Walked:
        """In memory if they fit; else as they are read in passes."""
        if bags.fits and self.keep is None and self.device is None:
            return bags.load()
        if isinstance(bags, st.Bags):
            raise InvalidInput("fit: keep and device are for folders of bags, which are read again")
        note(f"{len(bags)} bags are read in passes")
        show = not self.no_progress
        return bags.walked(kept_in=self.keep, device=self.device, progress=show)

    def _duplicates(self, bags: Walked, groups: NDArray[Any] | None) -> list[str]:
        """Bags that are nearly the same, in different groups, each pair in a sentence."""
        self._doing("looking for copies of bags")
        table = st.find_duplicates(bags, groups, progress=not self.no_progress)
        pairs: Any = table.to_dict("records")
        words = []
        for pair in pairs[:_MOST_PAIRS]:
            within = (
                "" if groups is None else f" of groups {pair['group']} and {pair['other_group']}"
            )
            words.append(
                f"bags {pair['name']} and {pair['other_name']}{within} are nearly the same, "
                f"{pair['shared']:.0%} of their tokens: errors look better than they are where one "
                "is held out and the other is not"
            )
        if len(pairs) > _MOST_PAIRS:
            words.append(f"{len(pairs) - _MOST_PAIRS} more pairs of bags are nearly the same")
        for sentence in words:
            self._say(f"Warning: {sentence}.")
        return words

    def _merged(
        self, bags: Walked, labels: NDArray[Any], groups: NDArray[Any] | None, signal: Any
    ) -> tuple[Walked, NDArray[Any]]:
        """One bag for each group."""
        two = len(np.unique(labels)) == 2
        merged = st.merge_bags(
            bags, labels, groups, rule="any" if two else "same", positive=signal if two else None
        )
        assert merged.labels is not None
        self._say(f"{len(bags)} bags merged into {len(merged.groups)}, one for each group.")
        return self._walked(merged.bags), merged.labels

    def _poolings(
        self, bags: Walked, labels: NDArray[Any], groups: NDArray[Any] | None = None
    ) -> list[str] | None:
        """Those to compare; None for all that suit the bags."""
        if self._named:
            return self._named
        if int(bags.lengths.sum()) * bags.dim < _LARGE:
            return None
        self._doing("estimating how long each pooling will take (--poolings chooses them)")
        seconds = st.rehearse_poolings(bags, labels, folds=self.folds, groups=groups)
        self._absent(seconds)
        kept = {
            name
            for name in seconds
            # from disk, rounds of the posterior are more passes than all else together
            if name == self.pooling
            or not (_dominates(name, seconds) or (name == "posterior" and not bags.fits))
        }
        note(
            ", ".join(
                f"{name} about {_duration(spent)}"
                + ("" if name in kept else f": left out; --poolings {name} to have it")
                for name, spent in seconds.items()
            )
        )
        return [name for name in seconds if name in kept]

    @property
    def _named(self) -> list[str]:
        """Poolings that were asked for."""
        return [name.strip() for names in self.poolings for name in names.split(",")]

    def _absent(self, suited: Iterable[str]) -> None:
        """A line on the poolings that do not suit the bags, and why."""
        absent = [name for name in st.ESTIMATORS if name not in set(suited)]
        words = []
        if names := [name for name in absent if name != "vectorized"]:
            words.append(f"{' and '.join(names)} would need all bags in memory")
        if "vectorized" in absent:
            words.append("vectorized needs bags of one length, not too many")
        if words:
            self._say(f"(left out: {'; '.join(words)})")

    def _tokens(
        self, bags: Walked, labels: NDArray[Any], signal: Any, groups: NDArray[Any] | None
    ) -> st.TokenPosterior | None:
        """Which tokens carry the signal, for maps; None where that cannot be told."""
        if signal is None:
            note("no maps of tokens (score --maps) for several labels; --positive LABEL has them")
            return None
        self._doing("learning which tokens carry the signal")
        try:
            some = self._few(bags)
            tokens = st.TokenPosterior(positive=signal).fit(
                bags[some].load(), labels[some], groups=None if groups is None else groups[some]
            )
        except (InvalidInput, st.ConvergenceError) as error:
            note(f"no maps of tokens (score --maps): {error}")
            return None
        if not tokens.found_:
            note(
                "no maps of tokens (score --maps): no signal along one direction, evidence "
                f"{tokens.evidence_:.1f} standard errors"
            )
            return None
        return tokens

    def _outlook(
        self,
        bags: Walked,
        positive: NDArray[np.bool_],
        groups: NDArray[Any] | None,
        chosen: str,
    ) -> Row:
        """What is in the bags, and what more of them would give."""
        self._doing("estimating what is in the bags")
        try:
            chosen_bags = self._few(bags)
            pilot = st.estimate_task(
                bags[chosen_bags].load(),
                positive[chosen_bags],
                groups=None if groups is None else groups[chosen_bags],
            )
        except InvalidInput as error:
            self._say(f"\nNothing can be estimated or planned: {error}.")
            return {"unplanned": str(error)}
        self._say("\n" + pilot.summary())
        return {"pilot": pilot, **(self._plans(pilot, chosen) if pilot.found else {})}

    def _cost(self, whole: Walked, positive: NDArray[np.bool_], groups: NDArray[Any] | None) -> str:
        """What it costs to keep some tokens of each bag, by the task that whole ones come from."""
        self._doing("estimating what is in whole bags, for what --max-tokens costs")
        try:
            some = self._few(whole)
            pilot = st.estimate_task(
                whole[some].load(),
                positive[some],
                groups=None if groups is None else groups[some],
                measure=False,
            )
            if pilot.task is None:
                raise InvalidInput("no signal was found in whole bags")
            dim = max(_LEAST_DIM, round(pilot.effective_dim))
            cost = st.max_tokens_cost(
                pilot.task, self.max_tokens or 0, dim=dim, samples=len(whole), seed=self.seed
            )
            words = f"by theory alone: {cost}"
        except (InvalidInput, st.ConvergenceError) as error:
            words = f"what --max-tokens costs cannot be told: {error}"
        self._say(f"{words[:1].upper()}{words[1:].removesuffix('.')}.")
        return words

    def _few(self, bags: Walked) -> NDArray[np.intp]:
        """Places of all bags; of as many as memory has room for, drawn at random."""
        if bags.fits:
            return np.arange(len(bags))
        order = np.random.default_rng(self.seed).permutation(len(bags))
        count = int(np.sum(np.cumsum(bags.lengths[order]) * bags.dim <= _PILOT))
        note(f"what is in the bags is estimated from {count} of them, which memory has room for")
        return np.sort(order[:count])

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
        self._check_pooling(names)
        return self.pooling

    def _check_pooling(self, names: list[str]) -> None:
        if self.pooling not in names:
            raise InvalidInput(
                f"fit: pooling must be one of {', '.join(names)} for these bags, got "
                f"{self.pooling!r}"
            )

    def _plans(self, pilot: st.Pilot, chosen: str) -> Row:
        """What more bags like these would give."""
        self._doing(f"planning for {', '.join(str(k * pilot.bags) for k in _MORE)} bags")
        plans = [pilot.plan(samples=factor * pilot.bags) for factor in _MORE]
        answer: Row = {"plans": plans}
        self._say(f"Errors with more labelled bags, with {pilot.level:.0%} intervals:")
        self._shown([plan.row() for plan in plans])
        self._say(f"Forecasts are for attention and pooled; {self._whose(chosen)}.")
        advices: dict[int | str, st.PilotPlan] = {}
        for factor, plan in zip(_MORE, plans, strict=True):
            advices[factor * pilot.bags] = plan
        if self.target_error is not None or self.target_auc is not None:
            targets = {"target_error": self.target_error, "target_auc": self.target_auc}
            answer["target"] = advices["the target"] = pilot.plan(**targets)
            self._say(answer["target"].headline)
        if self.report is not None:
            answer["fewer"] = pilot.plan(samples=round(_FEWER * pilot.bags))
        for warning in _each_once(advices):
            self._say(f"Warning for {warning}.")
        return answer

    def _whose(self, chosen: str) -> str:
        """Whether the classifier that was chosen is among those forecast."""
        words = f"the classifier saved is {chosen}" if self.save else f"{chosen} was best here"
        if self.save is None and self.pooling != "best":
            words = f"{chosen} was asked for"
        return words if chosen in ("attention", "pooled") else f"{words}, of which nothing is said"


def open_noted(path: str, **options: Any) -> st.BagCollection:
    """Bags on disk, and remarks on what is left out."""
    collection = st.open_bags(path, **options)
    for sentence in collection.notes:
        note(sentence)
    _note_problems(collection)
    return collection


def readable_noted(collection: st.BagCollection, leave_out: bool) -> st.BagCollection:
    """Those bags that can be read, and a remark on all that are left out."""
    readable = collection.readable(leave_out)
    if len(readable) < len(collection):
        _note_problems(readable)
    return readable


def _note_problems(collection: st.BagCollection) -> None:
    count = len(collection.problems)
    if count:
        shown = table_text(collection.problems.head(_SHOWN))
        note(f"{count} {'bag is' if count == 1 else 'bags are'} left out\n{shown}")


def _each_once(advices: Mapping[int | str, st.PilotPlan]) -> list[str]:
    """Warnings of plans for so many bags, or for "the target": each once, after all it is for."""
    meant: dict[str, list[int | str]] = {}
    for asked, advice in advices.items():
        for warning in advice.warnings:
            meant.setdefault(warning, []).append(asked)
    sentences = []
    for warning, where in meant.items():
        sizes = [str(asked) for asked in where if isinstance(asked, int)]
        words = [f"{', '.join(sizes)} bags"] if sizes else []
        words += [asked for asked in where if isinstance(asked, str)]
        sentences.append(f"{' and '.join(words)}: {warning}")
    return sentences


def _shape(bags: Walked, groups: NDArray[Any] | None) -> str:
    lengths = bags.lengths
    within = "" if groups is None else f" in {len(np.unique(groups))} groups"
    return (
        f"{len(bags)} bags{within} of {lengths.min()} to {lengths.max()} tokens in {bags.dim} "
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

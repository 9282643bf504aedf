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
from sparsetoken.cli.output import note, target, target_folder
from sparsetoken.cli.reading import fewer_tokens, open_noted, readable_noted
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real
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
    bag_column: str | None = None
    """With the names of bags, where bags are rows of a table; else bag, slide_id or the like."""
    label_column: str | None = None
    """Of such a table, which is no feature; else label, y or the like."""
    max_tokens: int | None = None
    """Take so many tokens of each bag, chosen at random and always the same, as fit does."""
    group: str | None = None
    """The column of the table, or array of the npz file, that names each bag's group."""
    merge: bool = False
    """Score one bag of each group, as fit --merge learns from."""
    leave_out: bool = False
    """Go on without bags that are doubled or unreadable."""
    maps: str | None = None
    """Also write to this folder, for each bag, a map of its tokens with the probability that each
    carries the signal: CSV, PNG and, where coordinates are known, GeoJSON for QuPath."""
    rate: float = 0.1
    """Of maps: the share of tokens pointed at that may be wrong, on average."""
    pixel_size: float | None = None
    """Of maps: micrometres a pixel of the slides, where coordinates are in micrometres (STAMP's);
    GeoJSON is in pixels."""

    def run(self) -> None:
        out, tokens = target("score: out", self.out), target("score: tokens", self.tokens)
        if out is not None and out == tokens:
            raise InvalidInput(f"score: out and tokens must differ, got {self.out!r} for both")
        maps = target_folder("score: maps", self.maps)
        rate = real("score", "rate", self.rate, above=0, below=1)
        if self.pixel_size is not None:
            real("score", "pixel_size", self.pixel_size, above=0)
        classifier = st.load_classifier(self.model)
        collection = open_noted(
            self.bags,
            layout=self.layout,
            bag_column=self.bag_column,
            label_column=self.label_column,
            group_column=None if self.bags.endswith(".npz") else self.group,
            leave_out=self.leave_out,
        )
        several = classifier.positive_ is None
        labels = classifier.classes_.tolist() if several else [classifier.positive_]
        posterior = None if self.maps is None else st.load_token_posterior(self.model)
        try:
            source, bags, names = self._bags(collection)
            predictions = self._predictions(classifier, bags, names, labels)
        except InvalidInput:
            if collection.bags.dim * classifier.n_tokens != classifier.n_features_in_:
                raise  # of all bags
            # of one bag: there may be more
            source, bags, names = self._bags(readable_noted(collection, self.leave_out))
            predictions = self._predictions(classifier, bags, names, labels)
        if tokens is not None:  # first: standard output may be a pipe that closes
            _write(self._tokens(classifier, bags, names, labels), tokens)
        if maps is not None and posterior is not None:
            drawn = _drawn(classifier, posterior, source)
            if self.pixel_size is not None and not _in_micrometres(source):
                raise InvalidInput(
                    "score: pixel_size must come with coordinates in micrometres, those of these "
                    "bags are not said to be"
                )
            made = st.map_tokens(source, posterior, drawn, rate, pixel_size=self.pixel_size)
            written = st.write_maps(made, maps)
            places = sum(path.suffix == ".geojson" for path in written)
            many = "1 bag" if len(bags) == 1 else f"{len(bags)} bags"
            note(f"maps of the tokens of {many} are in {maps}, {places} with coordinates in pixels")
            if places < len(bags) and _in_micrometres(source) and self.pixel_size is None:
                note(
                    "no GeoJSON: coordinates are in micrometres; --pixel-size says how many a "
                    "pixel of the slides has"
                )
        if not several:
            note(f"probabilities and scores are those of the label {labels[0]}")
        _write(predictions, out)

    def _bags(self, collection: st.BagCollection) -> tuple[Any, Any, NDArray[Any]]:
        """Bags as they are on disk, in memory if they fit, and their names."""
        source: Any = fewer_tokens(collection.bags, self.max_tokens)
        names = np.array(collection.names or range(len(source)))
        if self.merge:
            source, _, names = st.merge_bags(source, None, self._groups(collection))
        return source, source.load() if source.fits else source, names

    def _groups(self, collection: st.BagCollection) -> NDArray[Any]:
        """Of the bags, where they themselves say."""
        if self.group is not None and self.bags.endswith(".npz"):
            return st.load_groups(self.bags, self.group)
        if collection.groups is None:
            raise InvalidInput(
                "score: merge must come with --group, a column of the bags' own table or an array "
                "of the npz file"
            )
        return collection.groups

    @staticmethod
    def _predictions(
        classifier: Any, bags: st.Bags | st.BagSource, names: NDArray[Any], labels: list[Any]
    ) -> dict[str, FloatArray]:
        scores, chances, predictions = classifier.outputs(bags)
        columns = {"bag": names, "tokens": bags.lengths, "prediction": predictions}
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        for label in labels:
            place, ending = classifier.classes_.tolist().index(label), _ending(label, labels)
            columns[f"probability{ending}"] = chances[:, place]
            columns[f"score{ending}"] = scores[:, place]
        return columns

    @staticmethod
    def _tokens(
        classifier: Any, bags: st.Bags | st.BagSource, names: NDArray[Any], labels: list[Any]
    ) -> dict[str, FloatArray]:
        columns = {
            "bag": np.repeat(names, bags.lengths),
            "token": np.concatenate([np.arange(length) for length in bags.lengths]),
        }
        for label in labels:
            for name, values in classifier.token_values(bags, label=label).items():
                columns[name + _ending(label, labels)] = np.concatenate(values)
        return columns


def _in_micrometres(bags: st.Bags | st.BagSource) -> bool:
    """Whether some of their coordinates are."""
    return isinstance(bags, st.BagSource) and any(map(bags.in_micrometres, range(len(bags))))


def _drawn(classifier: Any, posterior: st.TokenPosterior, bags: st.Bags | st.BagSource) -> Any:
    """The classifier, if it says of single tokens what it does with them; else None."""
    first = bags.read(0) if isinstance(bags, st.BagSource) else bags[:1]
    try:
        classifier.token_values(first, label=posterior.positive_)
    except InvalidInput:  # statistics are no sums over tokens
        return None
    return classifier


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

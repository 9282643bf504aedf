"""Bags as a command is given them: read or walked over, copies and what is left out, merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.cli.output import Voice, note
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import table_text

if TYPE_CHECKING:
    Walked = st.Bags | st.BagSource  # in memory or on disk

_MOST_PAIRS = 10  # of bags that are nearly the same, a sentence each
_SHOWN = 20  # bags that are left out, of which is said why


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


def fewer_tokens(bags: Walked, most: int | None, seed: int = 0) -> Walked:
    """With all their tokens, or with some."""
    if most is None:
        return bags
    fewer: Walked = st.subsampled(bags, most, seed)  # type: ignore[type-var]
    return fewer


def walked(bags: Walked, kept_in: str | None, device: str | None, progress: bool) -> Walked:
    """In memory if they fit; else as they are read in passes."""
    if bags.fits and kept_in is None and device is None:
        return bags.load()
    if isinstance(bags, st.Bags):
        raise InvalidInput("fit: keep and device are for folders of bags, which are read again")
    note(f"{len(bags)} bags are read in passes")
    return bags.walked(kept_in=kept_in, device=device, progress=progress)


def copies(bags: Walked, groups: NDArray[Any] | None, voice: Voice) -> list[str]:
    """Bags that are nearly the same, in different groups, each pair in a sentence."""
    voice.doing("looking for copies of bags")
    table = st.find_duplicates(bags, groups, progress=not voice.quiet)
    pairs: Any = table.to_dict("records")
    sentences = []
    for pair in pairs[:_MOST_PAIRS]:
        within = "" if groups is None else f" of groups {pair['group']} and {pair['other_group']}"
        sentences.append(
            f"bags {pair['name']} and {pair['other_name']}{within} are nearly the same, "
            f"{pair['shared']:.0%} of their tokens: errors look better than they are where one "
            "is held out and the other is not"
        )
    if len(pairs) > _MOST_PAIRS:
        sentences.append(f"{len(pairs) - _MOST_PAIRS} more pairs of bags are nearly the same")
    for sentence in sentences:
        voice.say(f"Warning: {sentence}.")
    return sentences


def merged(
    bags: Walked, labels: NDArray[Any], groups: NDArray[Any] | None, signal: Any, voice: Voice
) -> tuple[Walked, NDArray[Any]]:
    """One bag for each group."""
    two = len(np.unique(labels)) == 2
    whole = st.merge_bags(
        bags, labels, groups, rule="any" if two else "same", positive=signal if two else None
    )
    assert whole.labels is not None
    voice.say(f"{len(bags)} bags merged into {len(whole.groups)}, one for each group.")
    return whole.bags, whole.labels


def shape_line(bags: Walked, groups: NDArray[Any] | None) -> str:
    """How many bags of how many tokens."""
    lengths = bags.lengths
    within = "" if groups is None else f" in {len(np.unique(groups))} groups"
    return (
        f"{len(bags)} bags{within} of {lengths.min()} to {lengths.max()} tokens in {bags.dim} "
        "dimensions, cross-validated."
    )


def signal_line(classes: NDArray[Any], signal: Any) -> str:
    """Which label is taken as the signal, and how to choose another."""
    labels = classes.tolist()
    if signal is None:
        return f"{len(labels)} labels, each the signal in turn against the rest."
    other = next(label for label in labels if label != signal)
    rest = "" if len(labels) == 2 else f" (against the rest of {len(labels)} labels)"
    return f"Bags with a signal are those labelled {signal}{rest}; --positive {other} takes others."


def label_of(classes: NDArray[Any], words: str) -> Any:
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

"""One bag for each group: all slides of a patient, all takes of a recording, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.groups import Grouping, read_groups
from sparsetoken.bags.labels import read_labels, signal_of
from sparsetoken.bags.source import BagFormat, BagSource
from sparsetoken.support.checks import one_of
from sparsetoken.support.errors import InvalidInput


class MergedBags(NamedTuple):
    """A bag for each group, its label if there are any, and the group's name.

    >>> merged = merge_bags([np.ones((2, 3)), np.zeros((1, 3))], None, ["ann", "ann"])
    >>> len(merged.bags), merged.labels, merged.groups.tolist()
    (1, None, ['ann'])
    """

    bags: Bags | BagSource
    labels: NDArray[Any] | None
    groups: NDArray[Any]


@dataclass(frozen=True)
class Merged:
    """Bags of another format, several to a bag: a key is the tuple of theirs."""

    format: BagFormat

    def tokens(self, key: tuple[Any, ...]) -> NDArray[Any]:
        parts = [np.asarray(self.format.tokens(part)) for part in key]
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) > 1 or any(part.ndim != 2 for part in parts):
            shown = ", ".join(str(part.shape) for part in parts)
            raise InvalidInput(f"bags of a group must be (tokens, dim) of one dim, got {shown}")
        return np.concatenate(parts)

    def coordinates(self, key: tuple[Any, ...]) -> None:
        """Not known: each bag had an origin of its own."""
        return None


def merge_bags(
    bags: Any,
    labels: Any,
    groups: Any,
    *,
    rule: Literal["any", "same"] = "any",
    positive: Any = None,
) -> MergedBags:
    """One bag for each group, with all tokens of its bags.

    Where a patient has a label and several slides, the bag that the label belongs to is the
    patient.

    Parameters
    ----------
    bags : BagSource, or as for `estimate_task`
        Bags on disk stay there, and are read when a merged one is. Where their tokens lie
        (coordinates) is not known of merged ones: each had an origin of its own.
    labels : array (n,) or None
        Of the bags.
    groups : array (n,)
        Names: which bags become one.
    rule : "any" or "same"
        The label of a group. "any", for two kinds of labels: that of bags with a signal if one of
        its bags has it. "same", for any labels: that of all its bags, which must agree.
    positive : label, optional
        That of bags with a signal; the second in order if not given.

    Returns
    -------
    MergedBags
        `bags`, `labels` (None if there were none) and the names of `groups`, in the order of their
        first bags.

    Raises
    ------
    InvalidInput
        Bags, labels or groups that cannot be read, more than two labels for the rule "any", or a
        group whose bags do not agree for the rule "same".

    Examples
    --------
    >>> slides = [np.ones((2, 3)), np.zeros((1, 3)), np.ones((4, 3))]
    >>> merged = merge_bags(slides, [0, 1, 0], ["ann", "ben", "ann"])
    >>> merged.groups.tolist(), merged.bags.lengths.tolist(), merged.labels.tolist()
    (['ann', 'ben'], [6, 1], [0, 1])
    """
    one_of("merge_bags", "rule", rule, ("any", "same"))
    source = bags if isinstance(bags, BagSource) else Bags.of(bags, n_tokens=None)
    grouping = read_groups(groups, len(source), "merge_bags")
    merged = (
        _in_memory(source, grouping) if isinstance(source, Bags) else _on_disk(source, grouping)
    )
    if labels is None:
        return MergedBags(merged, None, grouping.names)
    classes, index = read_labels(labels, len(source), "merge_bags")
    if rule == "same":
        return MergedBags(merged, classes[_agreed(classes, index, grouping)], grouping.names)
    if len(classes) > 2:
        raise InvalidInput(
            "merge_bags: rule must be 'same' for more than two labels, got 'any' for "
            f"{len(classes)}"
        )
    signal = signal_of(classes, positive, "merge_bags")
    some = np.bincount(grouping.numbers, index == signal) > 0
    return MergedBags(merged, classes[np.where(some, signal, 1 - signal)], grouping.names)


def _agreed(classes: NDArray[Any], index: NDArray[Any], grouping: Grouping) -> NDArray[Any]:
    """The label of each group, which all its bags have."""
    _, first = np.unique(grouping.numbers, return_index=True)
    answer: NDArray[Any] = index[first]
    other = np.flatnonzero(index != answer[grouping.numbers])
    if len(other):
        bag = int(other[0])
        labels = classes.tolist()
        raise InvalidInput(
            f"merge_bags: labels of a group must agree (rule='same'), got "
            f"{labels[answer[grouping.numbers[bag]]]!r} and {labels[index[bag]]!r} for group "
            f"{grouping.of(bag)!r}"
        )
    return answer


def _in_memory(bags: Bags, grouping: Grouping) -> Bags:
    order = np.argsort(grouping.numbers, kind="stable")
    ends = np.cumsum(np.bincount(grouping.numbers))
    together = bags[order]
    return Bags(together.tokens, together.offsets[np.concatenate([[0], ends])])


def _on_disk(bags: BagSource, grouping: Grouping) -> BagSource:
    members = [np.flatnonzero(grouping.numbers == k) for k in range(len(grouping.names))]
    return BagSource(
        tuple(str(name) for name in grouping.names.tolist()),
        np.array([bags.lengths[bag].sum() for bag in members]),
        bags.dim,
        tuple(tuple(bags.keys[i] for i in bag) for bag in members),
        Merged(bags.format),
    )

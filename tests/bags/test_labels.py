"""Labels: which is the signal, what classes weigh, more than two of them."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.bags.bags import two_classes
from sparsetoken.support.errors import InvalidInput

WORDS = np.array(["no4", "has4", "has4", "no4", "no4"])


@pytest.mark.parametrize(
    ("y", "positive", "signs"),
    [
        (WORDS, None, [1, -1, -1, 1, 1]),  # the second in order
        (WORDS, "has4", [-1, 1, 1, -1, -1]),
        (WORDS, np.str_("no4"), [1, -1, -1, 1, 1]),
        (WORDS.astype(object), "has4", [-1, 1, 1, -1, -1]),
        ([0, 1, 1], 0, [1, -1, -1]),
        ([False, True, True], False, [1, -1, -1]),
        ([3, 7, 9, 7], 7, [-1, 1, -1, 1]),  # against the rest
    ],
)
def test_the_signal_is_the_label_that_is_named(y, positive, signs):
    classes, labels = two_classes(y, len(y), "test", positive=positive)
    assert classes.tolist() == sorted(set(np.asarray(y).tolist()))
    assert labels.tolist() == signs


@pytest.mark.parametrize(
    ("y", "given", "words"),
    [
        (WORDS, {"positive": "has5"}, "test: positive must be one of the labels 'has4', 'no4'"),
        (WORDS, {"positive": ["has4"]}, "positive must be one of the labels"),
        ([1, 2, 2], {"positive": "1"}, "positive must be one of the labels 1, 2, got '1'"),
        ([0.0, 1.0], {"positive": np.nan}, "positive must be one of the labels 0.0, 1.0, got nan"),
        ([1, 2, 3], {}, "two classes, got 3; positive= sets one against the rest"),
        (
            WORDS,
            {"fewest": 3, "positive": "has4"},
            "at least 3 .* got 2 with the label 'has4'",
        ),
        (WORDS, {"fewest": 3, "positive": "no4"}, "got 2 without the label 'no4'"),
    ],
)
def test_labels_that_are_not_there_are_refused(y, given, words):
    with pytest.raises(InvalidInput, match=words):
        two_classes(y, len(y), "test", **given)

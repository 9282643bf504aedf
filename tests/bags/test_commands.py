"""What the commands of bags say of themselves, and refuse before they work."""

from __future__ import annotations

import shlex

import pytest

from sparsetoken.cli import parsed
from sparsetoken.cli.bags import Fit


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"leave_out": True, "layout": "trident", "save": "a model"},
        {"merge": True, "group": "case id", "max_tokens": 50},
        {"poolings": ("attention,joint",), "pooling": "joint", "target_auc": 0.9},
        {"positive": "-1", "leave_out": True, "save": "m"},
    ],
)
def test_a_reported_command_is_what_was_asked_for(options):
    fit = Fit("my bags", **options)
    first, *others = fit._commands
    assert parsed(shlex.split(first)[1:]) == fit
    for command in others:
        score = parsed(shlex.split(command)[1:])
        assert (score.model, score.bags) == (fit.save, fit.bags)
        assert (score.layout, score.leave_out) == (fit.layout, fit.leave_out)

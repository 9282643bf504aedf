"""Public numbers are those of the version that stands in the rows of every store."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from sparsetoken.support.numerics import NUMERICS

FOLDER = Path(__file__).parent.parent / "reference"
_SPEC = importlib.util.spec_from_file_location("make_numerics", FOLDER / "make_numerics.py")
reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(reference)

KEPT = json.loads((FOLDER / "numerics.json").read_text())
QUESTIONS = reference.questions()


def test_the_reference_is_of_this_version():
    assert KEPT["numerics"] == NUMERICS, "run python tests/reference/make_numerics.py"
    assert set(KEPT["values"]) == set(QUESTIONS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_numbers_have_not_moved_unnoticed(name):
    """If this fails and the change is meant: raise NUMERICS in support/numerics.py, run
    tests/reference/make_numerics.py, and say in CHANGELOG.md what moved."""
    tolerance, compute = QUESTIONS[name]
    assert float(compute()) == pytest.approx(KEPT["values"][name], rel=tolerance)

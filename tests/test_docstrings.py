"""Every public function says what it takes, gives and raises, and shows an example."""

from __future__ import annotations

import inspect
import re

import pytest

import sparsetoken as st

FUNCTIONS = sorted(name for name in st.__all__ if inspect.isfunction(getattr(st, name)))
CLASSES = sorted(
    name
    for name in st.__all__
    if inspect.isclass(getattr(st, name)) and not getattr(getattr(st, name), "_is_protocol", False)
)


def sections(doc: str) -> dict[str, str]:
    """Title → text of each section of a docstring in the style of numpydoc."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(doc), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def entries(section: str) -> set[str]:
    """The names a section describes: its lines without indent, several names with commas."""
    heads = re.findall(r"^(\S[^:\n]*)", section, flags=re.MULTILINE)
    return {name.strip(" *`") for head in heads for name in head.split(",")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_gives_and_raises(name: str) -> None:
    function = inspect.unwrap(getattr(st, name))
    parts = sections(function.__doc__ or "")
    assert entries(parts.get("Parameters", "")) == set(inspect.signature(function).parameters)
    assert "Returns" in parts or "Yields" in parts
    raised = entries(parts.get("Raises", ""))
    assert raised and all(error[:1].isupper() for error in raised), raised


@pytest.mark.parametrize("name", FUNCTIONS + CLASSES)
def test_an_example_shows_it(name: str) -> None:
    assert ">>>" in (inspect.unwrap(getattr(st, name)).__doc__ or "")

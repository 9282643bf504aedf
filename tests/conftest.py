"""Options and fixtures shared by all tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--problems",
        type=int,
        default=176,
        help="random problems in the robustness test (make test draws 176, a full run 1320)",
    )

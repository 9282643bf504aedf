"""`DepartureCell`: the token-level experiment with other tokens, as a question for a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsetoken.simulation.universality import Departure, run_departed
from sparsetoken.studies.cells import Cell
from sparsetoken.studies.questions import Question, field_values
from sparsetoken.support.checks import refusal
from sparsetoken.support.errors import InvalidInput


@dataclass(frozen=True)
class DepartureCell(Question):
    """A cell of kind "simulation", with sampler "tokens", on tokens that the theory does not have.

    >>> from sparsetoken import Pooled, Protocol, Task
    >>> plain = Cell(Task(5, 1, 4.0), Pooled(), Protocol(), "simulation", 20, sampler="tokens")
    >>> DepartureCell(plain, Departure("rademacher")).parameters()["noise"]
    'rademacher'
    """

    cell: Cell
    departure: Departure

    def __post_init__(self) -> None:
        for name, kind in (("cell", Cell), ("departure", Departure)):
            if not isinstance(getattr(self, name), kind):
                raise refusal(DepartureCell, name, getattr(self, name), f"a {kind.__name__}")
        cell = self.cell
        if cell.kind != "simulation" or cell.sampler != "tokens" or cell.test_task is not None:
            raise InvalidInput(
                "DepartureCell: cell must have kind='simulation', sampler='tokens' and no "
                f"test_task, got {cell.kind!r}, {cell.sampler!r} and {cell.test_task!r}"
            )

    def parameters(self) -> dict[str, Any]:
        """Those of the cell, and how its tokens differ."""
        return self.cell.parameters() | {"kind": "departure"} | field_values(self.departure)

    @property
    def count(self) -> int:
        """One row per repeat."""
        return self.cell.count

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """One run of the protocol."""
        outcome = run_departed(self.cell.settings, self.departure, repeat)
        names = ("test_error", "train_error", "train_loss", "readout_norm", "certificate")
        values = {name: getattr(outcome, name) for name in names}
        if outcome.query is not None:
            values |= {"cosine": outcome.query.cosine, "norm": outcome.query.norm}
        return ("" if outcome.status == "ok" else outcome.status), values

"""Length generalisation: trained at one length, tested at others, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import grid

_LENGTHS = (3, 5, 7, 10, 14, 20, 30, 50, 80)
_STRENGTHS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
_BY_LENGTH, _BY_STRENGTH = "tested at other lengths", "tested at other strengths"
_PROTOCOL = Protocol(readout_samples=4.0, ridge=claim.RIDGE)
_TRAINED = f"trained on {claim.setting(claim.PAPER, _PROTOCOL)}"


class Lengths(claim.Claim):
    source = "Consequence of Theorems 4 and 5"
    sentence = (
        "The error of a trained classifier on samples of other lengths and strengths is predicted "
        "by the same scalars."
    )
    panels = (
        Panel(_BY_LENGTH, "length at test time (trained at 10)", "test error", log="xy"),
        Panel(_BY_STRENGTH, "strength at test time (trained at 5)", "test error", log="y"),
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        return {
            _BY_LENGTH: f"{_TRAINED}; tested at L = {claim.span(_LENGTHS)}",
            _BY_STRENGTH: f"{_TRAINED}; tested at θ = {claim.span(_STRENGTHS)}",
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Test error of the classifiers of `learning-curves` on tasks they were not trained for."""
        by_length = [replace(claim.PAPER, length=x) for x in scale.thinned(_LENGTHS)]
        by_strength = [replace(claim.PAPER, strength=x) for x in scale.thinned(_STRENGTHS)]
        any_length = [Attention(), Pooled()]  # vectorized knows one length
        for panel, x, tasks, classifiers in (
            (_BY_LENGTH, "test_length", by_length, any_length),
            (_BY_STRENGTH, "test_strength", by_strength, list(claim.THREE.values())),
        ):
            same = {"task": claim.PAPER, "protocol": _PROTOCOL}
            same |= {"classifier": classifiers, "test_task": tasks}
            answers = ask(grid(**same) + grid(**same, **claim.finite(scale)))
            for name, own in answers.groupby("classifier", sort=False):
                yield claim.compare(panel, str(name), own, x, "test_error")

    def check(self, table: claim.Table) -> Iterator[claim.Check]:
        """Every dot on its line."""
        for panel, own in table.groupby("panel", sort=False):
            yield from claim.agreement(own, str(panel))

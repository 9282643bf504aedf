"""How far is the four-stage protocol from training all parameters at once?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid

_TOTALS = (4.0, 8.0, 16.0)  # samples per dimension, of both stages together
_RIDGE = 1e-2
_SPLIT, _REUSED = "four stages, data split 1:2", "four stages, data reused"
_JOINT, _CONTINUED = "all parameters at once", "all at once, from the four stages"
_FREE = "all at once, query without ridge"
_TRAINING = {
    _REUSED: "stages",
    _JOINT: "joint",
    _CONTINUED: "joint from stages",
    _FREE: "joint with free query",
}
_ERROR, _COSINE = "test error of attention", "cosine of query and signal"
_X = "all samples per dimension  $(n_0+n_1)/d$"


class Training(claim.Claim):
    source = "Beside the paper's protocol"
    sentence = (
        "The four-stage protocol is a fair picture of training: using the same samples twice, or "
        "training all parameters at once with the same ridge, ends near its test error."
    )
    panels = (
        Panel(_ERROR, _X, "test error", log="xy", legend=False),
        Panel(_COSINE, _X, "cosine  $s$", log="x", legend=False),
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        stages = {"query_samples": "a third of n/d", "readout_samples": "two thirds of n/d"}
        return {
            "": claim.setting(claim.PAPER, Protocol(ridge=_RIDGE), **stages)
            + f"; n/d = {claim.span(_TOTALS)}; reused data are all in both stages"
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Test error and cosine against all samples, five ways to use them."""
        same = {"task": claim.PAPER, "classifier": Attention(), "ridge": _RIDGE}
        tokens = {
            **claim.finite(scale, scale.token_dim), "repeats": 2 * scale.repeats,
            "sampler": "tokens", "test_samples": 1, "test_task": claim.PAPER,  # exactly
        }  # fmt: skip
        cells: list[Cell] = []
        for total in _TOTALS:
            split = {"query_samples": total / 3, "readout_samples": 2 * total / 3}
            cells += grid(**same, **split) + grid(**same, **split, **tokens)
            every = {"query_samples": total, "readout_samples": total, "reuse_data": True}
            cells += grid(**same, **every, **tokens, training=list(_TRAINING.values()))
        answers = ask(cells)
        reused = answers.reuse_data.eq(True)
        answers = answers.assign(
            total=np.where(reused, 1.0, 1.5) * answers.readout_samples,
            way=np.where(reused, answers.training, "split"),
        ).round({"total": 9})
        for series, way in {_SPLIT: "split", **_TRAINING}.items():
            own = answers[answers.way == way]
            yield claim.compare(_ERROR, series, own, "total", "test_error")
            yield claim.compare(_COSINE, series, own, "total", "cosine")

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """Theory describes the protocol; joint training ends near it."""
        errors = claim.part(table, _ERROR)
        yield from claim.agreement(claim.part(table, _ERROR, _SPLIT), "the protocol on tokens")
        mean, sem = (
            claim.wide(errors, column, [_SPLIT, *_TRAINING])
            for column in ("simulation", "simulation_error")
        )
        ratios = mean.div(mean[_SPLIT], axis=0)
        for name in (_REUSED, _JOINT):
            ratio = ratios[name]
            error = ratio * np.hypot(sem[name] / mean[name], sem[_SPLIT] / mean[_SPLIT])
            yield claim.Check(
                f"{name}, against the split protocol",
                "about the same test error from the same number of samples",
                f"{ratio.min():.2f} to {ratio.max():.2f} times it",
                "within 25 % at every number of samples (inconclusive if outside by less than 4 "
                "standard errors)",
                claim.graded((ratio - 1).abs() - 0.25, 4 * error),
            )
        least, most = ratios.min(), ratios.max()
        yield (
            f"Without a ridge on the query joint training to the end gives {least[_FREE]:.2f} to "
            f"{most[_FREE]:.2f} times the protocol's test error."
        )
        yield (
            "Starting joint training from the four stages instead of from zero gives "
            f"{least[_CONTINUED]:.2f} to {most[_CONTINUED]:.2f} times the protocol's test error."
        )

"""How far is the four-stage protocol from training all parameters at once?"""

from __future__ import annotations

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid

_SAMPLES = (4.0, 8.0, 16.0)  # per dimension, of both stages together
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
_PANEL, _COSINE = "test error of attention", "cosine of query and signal"


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Test error and cosine against all samples, five ways to use them."""
    same = {"task": claim.PAPER, "classifier": Attention(), "ridge": _RIDGE}
    tokens = {
        "kind": "simulation", "sampler": "tokens", "dim": scale.token_dim,
        "repeats": 2 * scale.repeats, "seed": scale.seed, "test_samples": 1,
        "test_task": claim.PAPER,  # exactly, not on samples
    }  # fmt: skip
    cells: list[Cell] = []
    for total in _SAMPLES:
        split = {"query_samples": total / 3, "readout_samples": 2 * total / 3}
        cells += grid(**same, **split) + grid(**same, **split, **tokens)
        every = {"query_samples": total, "readout_samples": total, "reuse_data": True}
        cells += grid(**same, **every, **tokens, training=list(_TRAINING.values()))
    answers = ask(cells)
    reused = answers.reuse_data.eq(True)
    answers = answers.assign(
        total=np.where(reused, 1.0, 1.5) * answers.readout_samples,
        series=np.where(reused, answers.training, "split"),
    ).round({"total": 9})
    parts = []
    for series, training in {_SPLIT: "split", **_TRAINING}.items():
        mine = answers[answers.series == training]
        parts.append(claim.compare(_PANEL, series, mine, "total", "test_error"))
        parts.append(claim.compare(_COSINE, series, mine, "total", "cosine"))
    return claim.collect(parts)


def judge(table: claim.Table) -> claim.Judgement:
    """Theory describes the protocol; joint training ends near it."""
    errors = table[table.panel == _PANEL]
    checks = claim.agreement(errors[errors.series == _SPLIT], "the protocol on tokens")
    by = errors.pivot(index="x", columns="series")
    mean, sem = by["simulation"], by["simulation_error"]
    ratios = {name: mean[name] / mean[_SPLIT] for name in (_REUSED, _JOINT, _CONTINUED, _FREE)}
    for name in (_REUSED, _JOINT):
        ratio = ratios[name]
        error = ratio * np.hypot(sem[name] / mean[name], sem[_SPLIT] / mean[_SPLIT])
        excess = (ratio - 1).abs() - 0.25
        verdict: claim.Verdict = "holds" if (excess <= 0).all() else "inconclusive"
        if (excess > 4 * error).any():
            verdict = "fails"
        checks.append(
            claim.Check(
                f"{name}, against the split protocol",
                "about the same test error from the same number of samples",
                f"{ratio.min():.2f} to {ratio.max():.2f} times it",
                "within 25 % at every number of samples (inconclusive if outside by less than 4 "
                "standard errors)",
                verdict,
            )
        )
    free, continued = ratios[_FREE], ratios[_CONTINUED]
    remarks = [
        f"Without a ridge on the query joint training to the end gives {free.min():.2f} to "
        f"{free.max():.2f} times the protocol's test error.",
        "Starting joint training from the four stages instead of from zero gives "
        f"{continued.min():.2f} to {continued.max():.2f} times the protocol's test error.",
    ]
    return claim.Judgement(checks, remarks)


_X = "all samples per dimension  $(n_0+n_1)/d$"
CLAIM = claim.Claim(
    "training",
    "Beside the paper's protocol",
    "The four-stage protocol is a fair picture of training: using the same samples twice, or "
    "training all parameters at once with the same ridge, ends near its test error.",
    compute,
    judge,
    [
        Panel(_PANEL, _X, "test error", log="xy", legend=False),
        Panel(_COSINE, _X, "cosine  $s$", log="x", legend=False),
    ],
)

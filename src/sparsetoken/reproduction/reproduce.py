"""`reproduce`: every claim, end to end.

All work goes through a sweep with its store in the output folder: interrupted, it goes on where it
was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from sparsetoken.figures import panels, save
from sparsetoken.model.checks import whole
from sparsetoken.reproduction import (
    alignment,
    capacity,
    crossover,
    learning_curves,
    lengths,
    rates,
    separation,
    training,
)
from sparsetoken.reproduction.claims import SCALES, Claim, Scale, Table
from sparsetoken.reproduction.report import Section, write
from sparsetoken.studies.questions import Question
from sparsetoken.studies.sweep import sweep

_ROOMS = (
    learning_curves, alignment, separation, capacity, crossover, rates, training, lengths,
)  # fmt: skip
CLAIMS: dict[str, Claim] = {room.CLAIM.name: room.CLAIM for room in _ROOMS}


def reproduce(
    names: Sequence[str] = (),
    scale: str = "quick",
    out: str | os.PathLike[str] = "results",
    executor: Executor | int | None = None,
    seed: int = 0,
    progress: bool = False,
    started: Callable[[str], None] = lambda name: None,
) -> list[Section]:
    """Compute, judge and draw claims; their figures, tables and a report are left in a folder.

    Parameters
    ----------
    names : sequence of str
        Which claims (see `CLAIMS`); all of them if none is given.
    scale : "quick", "full" or "tiny"
        Sizes of the finite experiments; the theory is the same.
    out : path
        Folder, made if it is not there, for NAME.png, NAME.pdf, NAME.csv, report.md, report.html
        and the store.
    executor
        As for `sweep`.
    seed : int
        Of all random numbers.
    progress : bool
        Show progress bars.
    started : callable
        Told the name of each claim as its turn comes.
    """
    chosen = list(dict.fromkeys(names)) or list(CLAIMS)
    for name in chosen:
        if name not in CLAIMS:
            raise ValueError(f"reproduce: {name!r} must be one of {', '.join(CLAIMS)}")
    if scale not in SCALES:
        raise ValueError(f"reproduce: scale must be one of {', '.join(SCALES)}, got {scale!r}")
    sizes = replace(SCALES[scale], seed=whole("reproduce", "seed", seed, least=0))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)

    def ask(cells: Sequence[Question]) -> Table:
        return sweep(cells, folder / "store.sqlite", executor, progress)

    sections = []
    for name in chosen:
        started(name)
        start = time.perf_counter()
        claim = CLAIMS[name]
        table = claim.compute(sizes, ask)
        table.to_csv(folder / f"{name}.csv", index=False)
        judgement = claim.judge(table)
        save(panels(table, claim.panels), folder / name)
        seconds = time.perf_counter() - start
        sections.append(Section(claim, judgement, seconds, _command(name, sizes, out)))
        write(folder, sections, sizes, version("sparsetoken"))
    return sections


def _command(name: str, scale: Scale, out: str | os.PathLike[str]) -> str:
    return f"sparsetoken reproduce {name} --{scale.name} --seed {scale.seed} --out {out}"

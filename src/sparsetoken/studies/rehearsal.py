r"""How long will a sweep take? A few of its rows are timed, in a process that can be stopped.

Rows of the same kind, classifier, loss, size, sampler and device cost about the same. Of each such
group three are timed, unless the store has some already: first cold, then again. Work that is
shared (a law) is in the difference; it is counted once for each law, not for each row.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from sparsetoken.studies.questions import Question, Unit, answer, units_of
from sparsetoken.studies.store import Store

_ALIKE = ("kind", "classifier", "loss", "dim", "sampler", "device")
_TIMED = 3  # rows of a group


@dataclass(frozen=True)
class Forecast:
    """Rows that cost about the same: how many, and how long they take in one process."""

    alike: dict[str, Any]
    cells: int
    rows: int
    missing: int
    seconds_per_row: float | None  # None: not known within the time given
    seconds: float | None


def rehearse(
    cells: Iterable[Question],
    store: str | os.PathLike[str] | None = None,
    patience: float = 20.0,
) -> list[Forecast]:
    """What a sweep of these cells would compute, and for how long; nothing is kept.

    Parameters
    ----------
    cells : iterable of Cell
        As for `sweep`.
    store : path, optional
        Rows that are there already are not counted, and tell how long the others take.
    patience : float
        Seconds to spend on timing; groups that are not reached have no time.

    >>> from sparsetoken import Pooled, grid
    >>> (forecast,) = rehearse(grid(length=10, sparsity=1, strength=[2.0, 5.0],
    ...                             classifier=Pooled()))
    >>> forecast.rows, forecast.missing, forecast.seconds > 0
    (2, 2, True)
    """
    groups: dict[tuple[Any, ...], list[Unit]] = {}
    for unit in units_of(cells):
        content = unit.cell.parameters()
        groups.setdefault(tuple(content.get(name) for name in _ALIKE), []).append(unit)
    kept: dict[str, float] = {}
    if store is not None and os.path.exists(store):
        with Store(store) as opened:
            kept = {row["key"]: row["seconds"] for row in opened.rows()}
    end = time.monotonic() + patience
    return [_forecast(alike, units, kept, end) for alike, units in groups.items()]


def _forecast(
    alike: tuple[Any, ...], units: list[Unit], kept: dict[str, float], end: float
) -> Forecast:
    missing = [unit for unit in units if unit.key not in kept]
    known = [kept[unit.key] for unit in units if unit.key in kept]
    laws = len({unit.cell.shares for unit in missing})
    row: float | None = float(np.mean(known)) if known else None
    law = 0.0
    if missing and row is None:
        measured = _timed(missing, end - time.monotonic())
        if measured is not None:
            row, law = measured
    seconds = None if row is None else len(missing) * row + laws * law
    return Forecast(
        dict(zip(_ALIKE, alike, strict=True)),
        cells=len({id(unit.cell) for unit in units}),
        rows=len(units),
        missing=len(missing),
        seconds_per_row=row,
        seconds=0.0 if not missing else seconds,
    )


def _timed(units: list[Unit], patience: float) -> tuple[float, float] | None:
    """Seconds of a row, and of what its law costs once; None if it takes too long."""
    chosen = units[:: max(1, len(units) // _TIMED)][:_TIMED]
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_time, args=(chosen, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(max(0.0, patience)):
            return None
        return ours.recv()
    except EOFError:  # it died
        return None
    finally:
        process.kill()
        process.join()


def _time(units: list[Unit], result: Connection) -> None:
    answer(units[0])  # imports, and what a process builds but once
    cold = [answer(unit).seconds for unit in units]
    warm = [answer(unit).seconds for unit in units]
    first = [unit.cell.shares for unit in units]
    fresh = [i for i in range(1, len(units)) if first[i] not in first[:i]]
    law = float(np.mean([cold[i] - warm[i] for i in fresh])) if fresh else 0.0
    result.send((float(np.mean(warm)), max(0.0, law)))

r"""How long will a sweep take? A few of its rows are timed, in a process that can be stopped.

Rows of the same kind, classifier, loss, size, sampler and device cost about the same. Of each such
group three are timed, unless the store has some already: first cold, then again. Work that is
shared (a law) is in the difference; it is counted once for each law, not for each row.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.studies.questions import Question, Unit, answer, kept_keys, units_of
from sparsetoken.studies.store import Store
from sparsetoken.support.errors import WorkerDied
from sparsetoken.support.processes import Worker

_ALIKE = ("kind", "classifier", "loss", "length", "dim", "sampler", "device", "training")
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
    retry_failed: bool = False,
    recompute: bool = False,
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
    retry_failed : bool
        Count rows that failed among those to compute.
    recompute : bool
        Count rows of an older version of the numerics among those to compute.

    Returns
    -------
    list of Forecast
        One a group of alike cells: `rows`, `missing` ones, and `seconds` that those take.

    Raises
    ------
    InvalidInput
        What is not a cell, or a patience that is not a number.
    StoreError
        A store that cannot be read.

    Examples
    --------
    >>> from sparsetoken import Pooled, grid
    >>> (forecast,) = rehearse(grid(length=10, sparsity=1, strength=[2.0, 5.0],
    ...                             classifier=Pooled()))
    >>> forecast.rows, forecast.missing, forecast.seconds > 0
    (2, 2, True)
    """
    units = units_of(cells)
    rows: dict[str, dict[str, Any]] = {}
    if store is not None and os.path.exists(store):
        with Store(store) as opened:
            rows = {row["key"]: row for row in opened.rows()}
    statuses = {key: row["status"] for key, row in rows.items()}
    keys = kept_keys(units, statuses, retry_failed, recompute)
    kept = {
        own: rows[key]["seconds"] if statuses[key] == "ok" else math.nan
        for own, key in keys.items()
    }
    groups: dict[tuple[Any, ...], list[Unit]] = {}
    for unit in units:
        content = unit.cell.parameters()
        groups.setdefault(tuple(content.get(name) for name in _ALIKE), []).append(unit)
    end = time.monotonic() + patience
    return [_forecast(alike, group, kept, end) for alike, group in groups.items()]


def _forecast(
    alike: tuple[Any, ...], units: list[Unit], kept: dict[str, float], end: float
) -> Forecast:
    missing = [unit for unit in units if unit.key not in kept]
    known = [kept[unit.key] for unit in units if not math.isnan(kept.get(unit.key, math.nan))]
    laws = len({unit.cell.shares for unit in missing})
    timed = (float(np.mean(known)), 0.0) if known else None
    if missing and not known:
        timed = _timed(missing, end - time.monotonic())
    row, law = timed or (None, 0.0)
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
    places = np.linspace(0, len(units) - 1, min(_TIMED, len(units))).round().astype(int)
    end = time.monotonic() + patience
    worker = Worker()

    def seconds(unit: Unit) -> float:
        return worker.run(answer, unit, timeout=max(0.0, end - time.monotonic())).seconds

    warm: list[float] = []
    laws: dict[Hashable, float] = {}
    measured = None
    try:
        for unit in (units[place] for place in places):
            cold = seconds(unit)
            measured = measured or (cold, 0.0)
            warm.append(seconds(unit))
            laws.setdefault(unit.cell.shares, max(0.0, cold - warm[-1]))
            # the first also imports what is needed: count it only if there is no other
            costs = list(laws.values())
            measured = float(np.mean(warm)), float(np.mean(costs[1:] or costs))
    except (TimeoutError, WorkerDied):  # what is known by then
        pass
    finally:
        worker.kill()
    return measured

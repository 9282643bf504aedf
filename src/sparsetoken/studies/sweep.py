r"""`sweep`: a list of cells to a table, resumable.

Only rows that the store does not have are computed; each is committed when it is finished. Stopping
at any moment loses at most the rows under way.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable
from concurrent.futures import Executor
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sparsetoken.studies.execution import ExecutorError, answers, check_executor
from sparsetoken.studies.questions import Question, kept_keys, plain, units_of
from sparsetoken.studies.store import HOW_IT_WENT, Store
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.numerics import NUMERICS
from sparsetoken.support.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

_RESULTS = (
    "test_error", "train_error", "train_loss", "auc", "cosine", "norm", "bias", "readout_norm",
    "residual", "certificate",
)  # fmt: skip
_OTHERS = ("separable", "best_error", "strength_needed", "standard_error")  # of some questions


def sweep(
    cells: Iterable[Question],
    store: str | os.PathLike[str] | None = None,
    executor: Executor | int | None = None,
    progress: bool = False,
    retry_failed: bool = False,
    recompute: bool = False,
) -> pd.DataFrame:
    """Answer every cell; a table with one row per cell and repeat.

    Parameters
    ----------
    cells : iterable of Cell
        See `grid`. The same question asked twice is one row.
    store : path, optional
        SQLite file that keeps every finished row; the same study again computes what is missing.
    executor : concurrent.futures.Executor or int, optional
        Where the work is done: a number of processes (which may die: their work is tried again), or
        any executor; here, one after the other, if not given. The table is the same.
    progress : bool
        Show a progress bar.
    retry_failed : bool
        Compute rows again whose status is "failed".
    recompute : bool
        Compute rows again that were computed by an older version of the numerics. If not, they are
        taken as they are, with their version in the column `numerics`, and `OutdatedRows` is
        warned of.

    Returns
    -------
    DataFrame
        Parameters, results, then how it went. A failure is a row whose `status` says why.

    Raises
    ------
    InvalidInput
        What is not a cell or not an executor.
    StoreError
        A store that cannot be read or written.
    ExecutorError
        The executor broke; rows that were finished are in the store.

    Examples
    --------
    >>> from sparsetoken import Pooled, grid
    >>> table = sweep(grid(length=10, sparsity=1, strength=[2.0, 5.0], classifier=Pooled()))
    >>> table[["strength", "test_error", "status"]].round(3).values.tolist()
    [[2.0, 0.442, 'ok'], [5.0, 0.291, 'ok']]
    """
    check_executor(executor)
    units = units_of(cells)
    if not units:
        raise InvalidInput("sweep: cells must be at least one, got none")
    with Store(store) as kept:
        there = kept.statuses(key for unit in units for key in (unit.key, *unit.older))
        keys = kept_keys(units, there, retry_failed, recompute)
        outdated = sum(key != own for own, key in keys.items())
        if outdated:
            warnings.warn(_outdated(outdated, len(units)), OutdatedRows, stacklevel=2)
        missing = [unit for unit in units if unit.key not in keys]
        count, made_by = len(units) - len(missing), version("sparsetoken")
        with (
            one_blas_thread(),
            progress_bar(len(units), "sweep", progress, done=count) as advance,
            contextlib.closing(answers(missing, executor)) as rows,
        ):
            try:
                for row in rows:
                    kept.add(row, made_by, again=row.key in there)
                    advance(failed=row.status == "failed")
                    count += 1
            except (KeyboardInterrupt, ExecutorError) as stop:
                raise type(stop)(_how_to_resume(stop, count, len(units), store)) from None
        return tidy(kept.rows(keys.get(unit.key, unit.key) for unit in units))


class OutdatedRows(UserWarning):
    """Some rows of a table were computed by an older version of the numerics.

    >>> import warnings
    >>> warnings.simplefilter("ignore", OutdatedRows)  # they are wanted as they are
    """


def _outdated(count: int, total: int) -> str:
    return (
        f"{count} of {total} rows were computed by an older version of the numerics than this one "
        f"({NUMERICS}); recompute=True (sparsetoken sweep --recompute) renews them"
    )


def _how_to_resume(stop: BaseException, done: int, total: int, store: Any) -> str:
    finished = f"{done} of {total} rows are finished"
    if store is not None:
        finished += f" and kept in {str(store)!r}; run the same again to compute the rest"
    return "; ".join([*map(str, stop.args), finished])


def tidy(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows of a store as a table: parameters, results, then how it went."""
    import pandas as pd

    shown = [plain(row) for row in rows]
    names = list(dict.fromkeys(name for row in shown for name in row))
    table = pd.DataFrame({name: _column([row.get(name) for row in shown]) for name in names})
    first = [name for name in names if name not in (*_RESULTS, *_OTHERS, *HOW_IT_WENT)]
    others = [name for name in _OTHERS if name in names]
    return table.reindex(columns=[*first, *_RESULTS, *others, *HOW_IT_WENT])


def _column(values: list[Any]) -> Any:
    """Whole numbers stay whole beside missing ones; those of more than 64 bits become text."""
    import pandas as pd

    present = [value for value in values if value is not None]
    if not present or not all(type(value) is int for value in present):
        return values
    if max(map(abs, present)) >= 2**63:
        return [None if value is None else str(value) for value in values]
    return pd.array(values, dtype="Int64") if len(present) < len(values) else values

"""`reproduce`: every claim, end to end.

Simulations and oracles go through a sweep with its store in the output folder: interrupted, they go
on where they were. A claim is judged on complete data or not at all.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sparsetoken.figures import panels, save
from sparsetoken.reproduction.claim import SCALES, Claim, Scale, Table
from sparsetoken.reproduction.claims import (
    alignment,
    architectures,
    boundary,
    capacity,
    crossover,
    learning_curves,
    lengths,
    rates,
    separation,
    training,
    universality,
    weightings,
)
from sparsetoken.reproduction.report import Section, sections_in, sizes_of, write
from sparsetoken.studies.execution import ExecutorError
from sparsetoken.studies.questions import Question
from sparsetoken.studies.sweep import sweep
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import IncompleteError, InvalidInput, WorkerDied
from sparsetoken.support.processes import Worker

_ROOMS = (
    alignment, learning_curves, separation, capacity, crossover, rates, training, lengths,
    weightings, boundary, universality, architectures,
)  # fmt: skip
CLAIMS: dict[str, Claim] = {room.CLAIM.name: room.CLAIM for room in _ROOMS}


def left_out() -> dict[str, str]:
    """Claims that need a library that is not there, and how to get it."""
    return {
        name: f"{name!r} needs {claim.needs} (pip install 'sparsetoken[{claim.needs}]')"
        for name, claim in CLAIMS.items()
        if claim.needs and importlib.util.find_spec(claim.needs) is None
    }


def reproduce(
    names: Sequence[str] = (),
    scale: str = "quick",
    out: str | os.PathLike[str] = "results",
    executor: Executor | int | None = None,
    seed: int = 0,
    progress: bool = False,
    started: Callable[[str, int, int], None] = lambda name, place, count: None,
    finished: Callable[[Section], None] = lambda section: None,
) -> list[Section]:
    """Compute, judge and draw claims; their figures, tables and a report are left in a folder.

    Parameters
    ----------
    names : sequence of str
        Which claims (see `CLAIMS`); if none is given, all but those that `left_out` names.
    scale : "quick", "full" or "tiny"
        How large the finite experiments are.
    out : path
        Folder, made if it is not there, for NAME.png, NAME.pdf, NAME.csv, NAME.json, the store, and
        report.md and report.html on all claims found there.
    executor
        As for `sweep`.
    seed : int
        Of all random numbers.
    progress : bool
        Show progress bars.
    started, finished : callable
        Told the name of each claim as its turn comes, its place and the number of claims; and its
        section of the report once it is judged.
    """
    missing = left_out()
    chosen = list(dict.fromkeys(names)) or [name for name in CLAIMS if name not in missing]
    for name in chosen:
        if name not in CLAIMS:
            raise InvalidInput(f"reproduce: {name!r} must be one of {', '.join(CLAIMS)}")
        if name in missing:
            raise InvalidInput(f"reproduce: {missing[name]}")
    if scale not in SCALES:
        raise InvalidInput(f"reproduce: scale must be one of {', '.join(SCALES)}, got {scale!r}")
    sizes = replace(SCALES[scale], seed=whole("reproduce", "seed", seed, least=0))
    folder = Path(out)
    if str(out) in ("", ".") or (folder.exists() and not folder.is_dir()):
        raise InvalidInput(f"reproduce: out must be a folder of its own, got {str(out)!r}")
    folder.mkdir(parents=True, exist_ok=True)
    versions: set[str] = set()

    def ask(cells: Sequence[Question]) -> Table:
        table = sweep(
            cells, folder / "store.sqlite", executor, progress, retry_failed=True, recompute=True
        )
        missing = table[table.status != "ok"]
        if len(missing):
            raise IncompleteError(
                f"reproduce: {len(missing)} of {len(table)} rows have no result, the first because "
                f"of {missing.message.iloc[0]}; the same again tries those that failed once more"
            )
        versions.update(table.version)
        return table

    sections = []
    with _artist(executor is not None) as draw:
        for place, name in enumerate(chosen, 1):
            started(name, place, len(chosen))
            start = time.perf_counter()
            claim = CLAIMS[name]
            table = claim.compute(sizes, ask)
            table.to_csv(folder / f"{name}.csv", index=False)
            judgement = claim.judge(table)
            section = Section(
                name, claim.source, claim.sentence, judgement.verdict, list(judgement.checks),
                list(judgement.remarks), sizes_of(table), _command(name, sizes, out),
                sorted(versions), round(time.perf_counter() - start, 1),
            )  # fmt: skip
            sections.append(section)
            draw(section, table, folder)
            finished(section)
    return sections


@contextmanager
def _artist(beside: bool) -> Iterator[Callable[[Section, Table, Path], None]]:
    """A function that draws the figure of a claim and adds it to the report.

    Beside other processes in one of its own, while the next claim is computed; else here.
    """
    if not beside:
        yield _draw
        return
    worker, drawing = Worker(), False

    def finish() -> None:
        nonlocal drawing
        if drawing:
            drawing = False
            try:
                worker.result()
            except WorkerDied:
                raise ExecutorError("reproduce: the process that draws figures died") from None

    def draw(section: Section, table: Table, folder: Path) -> None:
        nonlocal drawing
        finish()  # an error of the one before is raised first
        worker.submit(_draw, section, table, folder)
        drawing = True

    try:
        yield draw
    finally:
        try:
            finish()
        finally:
            worker.kill()


def _draw(section: Section, table: Table, folder: Path) -> None:
    save(panels(table, CLAIMS[section.name].panels), folder / section.name)
    section.save(folder)
    write(folder, sections_in(folder, list(CLAIMS)))


def _command(name: str, scale: Scale, out: str | os.PathLike[str]) -> str:
    where = shlex.quote(os.fspath(out))
    return f"sparsetoken reproduce {name} --{scale.name} --seed {scale.seed} --out {where}"

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

from sparsetoken.figures import Panel, panels, save
from sparsetoken.model.names import Names
from sparsetoken.reproduction.claim import SCALES, Claim, Scale, Table
from sparsetoken.reproduction.claims.alignment import Alignment
from sparsetoken.reproduction.claims.architectures import Architectures
from sparsetoken.reproduction.claims.boundary import Boundary
from sparsetoken.reproduction.claims.capacity import Capacity
from sparsetoken.reproduction.claims.colours import Colours
from sparsetoken.reproduction.claims.crossover import Crossover
from sparsetoken.reproduction.claims.learning import Learning
from sparsetoken.reproduction.claims.learning_curves import LearningCurves
from sparsetoken.reproduction.claims.lengths import Lengths
from sparsetoken.reproduction.claims.rates import Rates
from sparsetoken.reproduction.claims.separation import Separation
from sparsetoken.reproduction.claims.training import Training
from sparsetoken.reproduction.claims.universality import Universality
from sparsetoken.reproduction.claims.weightings import Weightings
from sparsetoken.reproduction.report import Section, sections_in, sizes_of, write
from sparsetoken.studies.execution import ExecutorError
from sparsetoken.studies.questions import Question
from sparsetoken.studies.sweep import sweep
from sparsetoken.support.checks import one_of, whole
from sparsetoken.support.errors import IncompleteError, InvalidInput, WorkerDied
from sparsetoken.support.numerics import NUMERICS
from sparsetoken.support.processes import Worker
from sparsetoken.support.provenance import commit, machine

CLAIMS: Names[Claim] = Names(  # in the order of the report
    "claim",
    {
        "alignment": Alignment,
        "learning-curves": LearningCurves,
        "separation": Separation,
        "capacity": Capacity,
        "crossover": Crossover,
        "rates": Rates,
        "training": Training,
        "lengths": Lengths,
        "weightings": Weightings,
        "boundary": Boundary,
        "learning": Learning,
        "universality": Universality,
        "colours": Colours,
        "architectures": Architectures,
    },
)


def left_out() -> dict[str, str]:
    """Claims that need a library that is not there, and how to get it."""
    needs = {name: CLAIMS.make(name).needs for name in CLAIMS}
    return {
        name: f"{name!r} needs {library} (pip install 'sparsetoken[{library}]')"
        for name, library in needs.items()
        if library and importlib.util.find_spec(library) is None
    }


def reproduce(
    names: str | Sequence[str] = (),
    scale: str = "quick",
    out: str | os.PathLike[str] = "results",
    executor: Executor | int | None = None,
    seed: int = 0,
    progress: bool = False,
    started: Callable[[str, int, int], None] = lambda name, place, count: None,
    finished: Callable[[Section], None] = lambda section: None,
) -> list[Section]:
    """Compute, judge and draw claims; their figures, tables and a report are left in a folder.

    Interrupted, the same call goes on where it was.

    Parameters
    ----------
    names : str or sequence of str
        Which claims, by their names in `CLAIMS`; if none is given, all whose libraries are there.
    scale : "quick", "full" or "tiny"
        How large the finite experiments are.
    out : path
        Folder, made if it is not there, for NAME.png, NAME.pdf, NAME.csv, NAME.json, the store, and
        report.md and report.html on all claims found there.
    executor : concurrent.futures.Executor or int, optional
        As for `sweep`. With one, figures are drawn in a process of their own.
    seed : int
        Of all random numbers.
    progress : bool
        Show progress bars.
    started : callable
        Called with the name of each claim as its turn comes, its place and the number of claims.
    finished : callable
        Called with the section of each claim once it is judged.

    Returns
    -------
    list of Section
        For each claim its `verdict` ("holds", "fails" or "inconclusive"), with `checks`, `remarks`,
        and all else that the report says of it.

    Raises
    ------
    InvalidInput
        A claim or scale that is not there, a library that a chosen claim needs and that is not
        installed, a seed that is not a whole number, an `out` that is no folder.
    IncompleteError
        A number could not be computed: a claim is judged on complete data or not at all.
    ExecutorError
        The process that draws figures died, or the executor failed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (section,) = reproduce("alignment", scale="tiny", out=folder)
    ...     files = sorted(file.suffix for file in Path(folder).glob("alignment.*"))
    >>> section.source, len(section.checks), section.checks[-1].what, section.checks[-1].verdict
    ('Theorem 3, Corollary 1', 9, 'constant of the decay', 'holds')
    >>> files
    ['.csv', '.json', '.pdf', '.png']
    """
    missing = left_out()
    given = [names] if isinstance(names, str) else names
    chosen = list(dict.fromkeys(given)) or [name for name in CLAIMS if name not in missing]
    claims = {name: CLAIMS.make(name, "reproduce") for name in chosen}
    for name in claims:
        if name in missing:
            raise InvalidInput(f"reproduce: {missing[name]}")
    one_of("reproduce", "scale", scale, SCALES)
    sizes = replace(SCALES[scale], seed=whole("reproduce", "seed", seed, least=0))
    folder = Path(out)
    if str(out) in ("", ".") or (folder.exists() and not folder.is_dir()):
        raise InvalidInput(f"reproduce: out must be a folder of its own, got {str(out)!r}")
    folder.mkdir(parents=True, exist_ok=True)
    versions: set[str] = set()
    origin = (commit(), NUMERICS, machine())

    def ask(cells: Sequence[Question]) -> Table:
        table = sweep(
            cells, folder / "store.sqlite", executor, progress, retry_failed=True, recompute=True
        )
        without = table[table.status != "ok"]
        if len(without):
            raise IncompleteError(
                f"reproduce: {len(without)} of {len(table)} rows have no result, the first because "
                f"of {without.message.iloc[0]}; the same again tries those that failed once more"
            )
        versions.update(table.version)
        return table

    sections = []
    with _artist(executor is not None) as draw:
        for place, (name, claim) in enumerate(claims.items(), 1):
            started(name, place, len(claims))
            start = time.perf_counter()
            table = claim.compute(sizes, ask)
            table.to_csv(folder / f"{name}.csv", index=False)
            judgement = claim.judge(table)
            section = Section(
                name,
                claim.source,
                claim.sentence,
                judgement.verdict,
                list(judgement.checks),
                list(judgement.remarks),
                sizes_of(table),
                _command(name, sizes, out),
                sorted(versions),
                round(time.perf_counter() - start, 1),
                claim.settings(),
                *origin,
            )
            sections.append(section)
            draw(section, table, claim.panels, list(CLAIMS), folder)
            finished(section)
    return sections


@contextmanager
def _artist(beside: bool) -> Iterator[Callable[..., None]]:
    """`_draw`, beside other processes in one of its own, while the next claim is computed."""
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

    def draw(*work: object) -> None:
        nonlocal drawing
        finish()  # an error of the one before is raised first
        worker.submit(_draw, *work)
        drawing = True

    try:
        yield draw
    finally:
        try:
            finish()
        finally:
            worker.kill()


def _draw(
    section: Section, table: Table, shown: Sequence[Panel], order: Sequence[str], folder: Path
) -> None:
    """Draw the figure of a claim and add it to the report, whose claims are in the given order.

    Both are given: another process need not know a claim that was registered in this one.
    """
    save(panels(table, shown), folder / section.name)
    section.save(folder)
    write(folder, sections_in(folder, order))


def _command(name: str, scale: Scale, out: str | os.PathLike[str]) -> str:
    where = shlex.quote(os.fspath(out))
    return f"sparsetoken reproduce {name} --{scale.name} --seed {scale.seed} --out {where}"

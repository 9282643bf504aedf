"""Many questions at once: sweep, export, reproduce."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import tyro

import sparsetoken as st
from sparsetoken.cli.output import arguments, note, show, target, warnings_as_notes
from sparsetoken.studies.execution import dask_executor, mpi_executor
from sparsetoken.studies.rehearsal import rehearse
from sparsetoken.studies.study_file import load_study
from sparsetoken.studies.sweep import OutdatedRows, tidy
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import number_text
from sparsetoken.support.whole_files import whole_file

# columns of a rehearsal: what its rows have in common, and how many they are
_ALIKE = ("kind", "classifier", "loss", "length", "dim", "sampler")
_COUNTS = ("cells", "rows", "missing", "seconds_per_row")


@dataclass(frozen=True)
class Sweep:
    """Answer every cell of a study file; what the store already has is not computed again.

    Stop it at any moment (Ctrl-C, or worse) and run the same command to resume.
    examples/study.toml is a study with every key explained, docs/cluster.md shows clusters.
    """

    study: tyro.conf.Positional[str]
    """A TOML file: every combination of its lists is a cell."""
    store: str
    """SQLite file that keeps every finished row; made if it is not there."""
    processes: int = 1
    """Processes that share the work (with --dask local, its workers)."""
    dask: str | None = None
    """Work on a Dask cluster: the address of its scheduler, or local to start one here."""
    mpi: bool = False
    """Work on the ranks of an MPI job (run under mpiexec; rank 0 keeps the store)."""
    dry_run: bool = False
    """Compute nothing: print the cells and an estimate of the time."""
    retry_failed: bool = False
    """Compute rows again that failed."""
    recompute: bool = False
    """Compute rows again that an older version of the numerics computed."""
    no_progress: bool = False
    """No progress bar on standard error."""

    def run(self) -> int:
        if self.dask is not None and self.mpi:
            raise InvalidInput("sweep: give one of --dask and --mpi")
        processes = whole("sweep", "processes", self.processes, least=1)
        if self.mpi:
            with mpi_executor() as executor:
                if executor is None:  # this rank has worked for rank 0
                    return 0
                return self._answer(load_study(self.study), executor, processes)
        cells = load_study(self.study)
        if self.dask is not None and not self.dry_run:
            with dask_executor(self.dask, processes) as executor:
                return self._answer(cells, executor, processes)
        return self._answer(cells, processes if processes > 1 else None, processes)

    def _answer(self, cells: list[st.Cell], executor: Executor | int | None, processes: int) -> int:
        """Exit code 1 if not a single row has a result."""
        if self.dry_run:
            self._rehearse(cells, processes)
            return 0
        progress = not self.no_progress and sys.stderr.isatty()
        with warnings_as_notes(OutdatedRows):
            table = st.sweep(
                cells, executor=executor, progress=progress, **arguments(self, st.sweep)
            )
        counts = table.status.value_counts().to_dict()
        words = ", ".join(f"{count} {status}" for status, count in counts.items())
        print(f"{len(table)} rows in {self.store}: {words}")
        for message in table.message[table.status == "failed"].unique()[:5]:
            note(message)
        return 0 if (table.status == "ok").any() else 1

    def _rehearse(self, cells: list[st.Cell], processes: int) -> None:
        forecasts = rehearse(cells, **arguments(self, rehearse))
        rows = []
        for forecast in forecasts:
            row = {name: forecast.alike[name] for name in _ALIKE}
            row |= {name: getattr(forecast, name) for name in _COUNTS}
            seconds = forecast.seconds
            rows.append(row | {"time": None if seconds is None else _duration(seconds)})
        show(rows)
        for name, values in _varying(cells).items():
            print(f"{name}: {', '.join(values)}")
        total = _duration(sum(forecast.seconds or 0.0 for forecast in forecasts) / processes)
        unknown = sum(forecast.missing for forecast in forecasts if forecast.seconds is None)
        time = f"more than {total} ({unknown} rows not timed)" if unknown else f"about {total}"
        where = "one process" if processes == 1 else f"{processes} processes"
        missing = sum(forecast.missing for forecast in forecasts)
        verdict = f"{missing} rows to compute: {time} with {where}"
        print(f"{len(cells)} cells, {verdict if missing else 'nothing to compute'}")


def _varying(cells: list[st.Cell]) -> dict[str, dict[str, None]]:
    """The axes of a study: parameters with more than one value, and their values."""
    axes: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.parameters().items():
            if value is not None:
                axes.setdefault(name, {})[number_text(value, digits=6)] = None
    return {name: values for name, values in axes.items() if len(values) > 1}


def _duration(seconds: float) -> str:
    """Two digits of what a person waits for."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


@dataclass(frozen=True)
class Reproduce:
    """Does the paper hold? Every quantitative claim, theory against simulation, with a verdict.

    Writes for each claim NAME.png, NAME.pdf, NAME.csv, NAME.json, and report.md and
    report.html for all claims in the folder. Stop
    it at any moment and run the same command to resume. Exit code 3 if a claim fails.
    """

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Some of: alignment, learning-curves, separation, capacity, crossover, rates, training,
    lengths, weightings, boundary, learning, universality, colours, architectures (needs torch);
    all of them if none is given."""
    quick: bool = False
    """Small dimensions, about two minutes on two cores (this is the default)."""
    full: bool = False
    """The paper's sizes: an hour or more on two cores."""
    tiny: bool = False
    """As small as it goes: to try the command."""
    out: str = "results"
    """Folder for figures, tables, report and store."""
    seed: int = 0
    """Of all random numbers."""
    processes: int = 0
    """Processes that share the work; as many as there are cores if 0."""
    no_progress: bool = False
    """No progress bars on standard error."""

    def run(self) -> int:
        from sparsetoken.reproduction.reproduce import left_out, reproduce

        scales = [name for name in ("quick", "full", "tiny") if getattr(self, name)]
        if len(scales) > 1:
            raise InvalidInput(f"reproduce: give one of --quick, --full and --tiny, got {scales}")
        processes = whole("reproduce", "processes", self.processes, least=0)
        if not self.names:
            for words in left_out().values():
                note(f"left out: {words}")
        sections = reproduce(
            self.names,
            scales[0] if scales else "quick",
            self.out,
            processes or os.cpu_count(),
            self.seed,
            progress=not self.no_progress and sys.stderr.isatty(),
            started=lambda name, place, count: note(f"{name} ({place} of {count}) …"),
            finished=lambda section: note(
                f"{section.name}: {section.mark}, {len(section.checks)} checks, "
                f"{section.seconds:.0f} s"
            ),
        )
        rows = [
            {
                "claim": section.name,
                "source": section.source,
                "checks": len(section.checks),
                "verdict": section.mark,
                "seconds": round(section.seconds),
            }
            for section in sections
        ]
        show(rows)
        for section in sections:
            for check in section.checks:
                if check.verdict != "holds":
                    print(f"{section.name}: {check.what}: {check.verdict} ({check.measured})")
        print(f"report: {os.path.join(self.out, 'report.html')}")
        return 3 if any(section.verdict == "fails" for section in sections) else 0


@dataclass(frozen=True)
class Export:
    """Write all rows of a store as a CSV or Parquet table."""

    store: tyro.conf.Positional[str]
    """The SQLite file of a sweep."""
    csv: str | None = None
    """CSV file to write."""
    parquet: str | None = None
    """Parquet file to write (needs pyarrow)."""

    def run(self) -> None:
        if (self.csv is None) == (self.parquet is None):
            raise InvalidInput("export: give one of --csv FILE and --parquet FILE")
        if not os.path.exists(self.store) or os.path.getsize(self.store) == 0:
            raise InvalidInput(f"export: store must be a file that exists, got {self.store!r}")
        field, name = ("csv", self.csv) if self.csv is not None else ("parquet", self.parquet)
        path = target(f"export: {field}", name)
        assert path is not None
        if any(_same(path, self.store + suffix) for suffix in ("", "-wal", "-shm")):
            raise InvalidInput(f"export: the table must not overwrite the store, got {name!r}")
        with st.Store(self.store) as store:
            table = tidy(store.rows())
        try:
            with whole_file(path) as draft:
                if self.csv is not None:
                    table.to_csv(draft, index=False)
                else:
                    table.to_parquet(draft)
        except ImportError:
            raise InvalidInput(
                "export: parquet needs pyarrow (pip install 'sparsetoken[parquet]')"
            ) from None
        print(f"{len(table)} rows in {name}")


def _same(one: Path, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)

"""The command line: one verb a command, the same words as the fields of the library.

A readable table by default, `--json` for programs. A wrong value is one line on standard error and
exit code 2; a computation that cannot be done is one line and exit code 1.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

import tyro

import sparsetoken as st
from sparsetoken.model.losses import LOSSES, Loss

ClassifierName = Literal["attention", "vectorized", "pooled"]


@dataclass(frozen=True)
class FrozenQuery:
    """A frozen query instead of a learned one: give both or none."""

    cosine: float | None = None
    """Cosine between the query and the signal, −1 to 1."""
    sharpness: float | None = None
    """β times the norm of the query, at least 0: how peaked the attention is."""


@dataclass(frozen=True)
class _Command(ABC):
    task: st.Task
    protocol: st.Protocol = field(default_factory=st.Protocol)
    query: FrozenQuery = field(default_factory=FrozenQuery)
    classifiers: tuple[ClassifierName, ...] = get_args(ClassifierName)
    """Which classifiers to compare."""
    json: bool = False
    """Print JSON for programs instead of a table."""

    def chosen(self) -> dict[str, Any]:
        """The classifiers by name."""
        if not self.classifiers:
            raise ValueError(
                f"classifiers must be some of {', '.join(get_args(ClassifierName))}, got none"
            )
        attention = st.Attention(self.query.cosine, self.query.sharpness)
        made = {"attention": attention, "vectorized": st.Vectorized(), "pooled": st.Pooled()}
        return {name: made[name] for name in self.classifiers}

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """What the table shows, one dict a row."""

    def run(self) -> None:
        self.show(self.rows())

    def show(self, rows: list[dict[str, Any]]) -> None:
        if self.json:
            print(json.dumps([{k: _plain(v) for k, v in row.items()} for row in rows], indent=1))
        else:
            _print_table(rows)


@dataclass(frozen=True)
class Predict(_Command):
    """What will a classifier trained on this task do? Exact, in the limit of many dimensions."""

    curve: tuple[float, ...] = ()
    """Several numbers of readout samples per dimension, instead of --readout-samples."""

    def rows(self) -> list[dict[str, Any]]:
        samples = self.curve or (self.protocol.readout_samples,)
        rows = []
        for name, classifier in self.chosen().items():
            for each in st.learning_curve(self.task, classifier, self.protocol, samples):
                query = each.query
                rows.append(
                    {
                        "classifier": name,
                        "readout_samples": each.protocol.readout_samples,
                        "test_error": each.test_error,
                        "auc": each.auc,
                        "train_error": each.train_error,
                        "train_loss": each.train_loss,
                        "bias": each.bias,
                        "cosine": query.cosine if query else self._frozen(name, "cosine"),
                        "sharpness": query.sharpness if query else self._frozen(name, "sharpness"),
                        "residual": each.residual,
                        "iterations": each.iterations,
                    }
                )
        return rows

    def _frozen(self, name: str, which: str) -> float | None:
        return getattr(self.query, which) if name == "attention" else None


@dataclass(frozen=True)
class Simulate(_Command):
    """Does a finite experiment agree with the theory? Both, with the difference in standard errors.

    Theory is the limit of many dimensions: expect differences of order 1/dim beyond the noise.
    """

    dim: int = 1000
    """Embedding dimension; the sample numbers per dimension are multiplied by it."""
    repeats: int = 8
    """Independent runs."""
    seed: int = 0
    """Of all random numbers."""
    sampler: Literal["reduced", "tokens"] = "reduced"
    """Exact in law without tokens, or the plain experiment on tokens (its witness, far slower)."""
    device: str | None = None
    """A torch device such as cuda; NumPy if not given."""
    dtype: Literal["float64", "float32"] = "float64"
    """Floating type of the fit."""
    test_samples: int = 10_000
    """Fresh samples for the test error at token level."""
    reuse_data: bool = False
    """Query and readout learn from the same samples (token level; theory assumes they do not)."""
    workers: int = 1
    """Processes; the numbers do not depend on it."""
    threads: int = 1
    """BLAS threads of each repeat."""
    no_progress: bool = False
    """No progress bar on standard error."""

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for name, classifier in self.chosen().items():
            run = st.simulate(
                self.task, classifier, self.protocol, self.dim, self.repeats, self.seed,
                self.sampler, self.device, dtype=self.dtype, test_samples=self.test_samples,
                reuse_data=self.reuse_data and classifier.learns_query, workers=self.workers,
                threads=self.threads, progress=not self.no_progress and sys.stderr.isatty(),
            )  # fmt: skip
            for status in sorted(set(run.status) - {"ok"}):
                _note(f"{name}: {run.status.count(status)} of {len(run)} repeats: {status}")
            rows += _beside_theory(name, st.predict(self.task, classifier, self.protocol), run)
            if run.interrupted:
                self.show(rows)
                raise KeyboardInterrupt(f"{len(run)} of {self.repeats} repeats of {name} finished")
        return rows


def _beside_theory(
    name: str, prediction: st.Prediction, run: st.Simulation
) -> list[dict[str, Any]]:
    """One row per quantity that both have."""
    theory: dict[str, float] = {
        "test_error": prediction.test_error,
        "train_error": prediction.train_error,
        "train_loss": prediction.train_loss,
        "bias": prediction.bias,
        "readout_norm": prediction.fit.norm,
    }
    if prediction.query is not None:
        theory |= {"cosine": prediction.query.cosine, "norm": prediction.query.norm}
    rows = []
    for quantity, expected in theory.items():
        mean, error = run.mean(quantity), run.sem(quantity)
        gap = (mean - expected) / error if error > 0 else None
        rows.append(
            {
                "classifier": name,
                "quantity": quantity,
                "theory": expected,
                "simulation": mean,
                "standard_error": error,
                "difference_in_standard_errors": gap,
                "repeats": len(run) - run.failed,
            }
        )
    return rows


@dataclass(frozen=True)
class Capacity(_Command):
    """Up to how many samples per embedding dimension are the training data linearly separable?"""

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for name, classifier in self.chosen().items():
            threshold = st.capacity(self.task, classifier, self.protocol)
            error = threshold.standard_error
            rows.append({"classifier": name, "capacity": float(threshold), "standard_error": error})
        return rows


@dataclass(frozen=True)
class Oracle:
    """What is possible at all: the best error of each classifier when the signal is known."""

    task: st.Task
    error: float | None = None
    """Also find the smallest strength that reaches this error."""
    seed: int = 0
    """Of the random numbers behind the sampled results (attention, Bayes)."""
    json: bool = False
    """Print JSON for programs instead of a table."""

    def rows(self) -> list[dict[str, Any]]:
        classifiers: dict[str, Any] = {
            "attention": st.Attention(),
            "vectorized": st.Vectorized(),
            "pooled": st.Pooled(),
            "bayes": None,
        }
        rows = []
        for name, classifier in classifiers.items():
            if classifier is None:
                best = st.bayes_error(self.task, seed=self.seed)
            else:
                best = st.oracle_error(self.task, classifier, seed=self.seed)
            row = {"classifier": name, "error": float(best), "standard_error": best.standard_error}
            if self.error is not None:
                strength = st.signal_threshold(
                    self.task, classifier, error=self.error, seed=self.seed
                )
                row["strength_needed"] = float(strength)
                row["strength_standard_error"] = strength.standard_error
            rows.append(row)
        return rows

    run, show = _Command.run, _Command.show


@dataclass(frozen=True)
class Sweep:
    """Answer every cell of a study file; what the store already has is not computed again.

    Stop it at any moment (Ctrl-C, or worse) and run the same command to resume.
    examples/study.toml is a study with every key explained.
    """

    study: tyro.conf.Positional[str]
    """A TOML file: every combination of its lists is a cell."""
    store: str
    """SQLite file that keeps every finished row; made if it is not there."""
    processes: int = 1
    """Processes that share the work; the numbers do not depend on it."""
    retry_failed: bool = False
    """Compute rows again that failed."""
    no_progress: bool = False
    """No progress bar on standard error."""

    def run(self) -> None:
        from sparsetoken.studies.study_file import load_study

        cells = load_study(self.study)
        try:
            table = st.sweep(
                cells,
                self.store,
                self.processes if self.processes != 1 else None,
                progress=not self.no_progress and sys.stderr.isatty(),
                retry_failed=self.retry_failed,
            )
        except KeyboardInterrupt:
            again = "the same command resumes; finished rows are kept"
            raise KeyboardInterrupt(again) from None
        counts = table.status.value_counts().to_dict()
        words = ", ".join(f"{count} {status}" for status, count in counts.items())
        print(f"{len(table)} rows in {self.store}: {words}")
        for message in table.message[table.status == "failed"].unique()[:5]:
            _note(message)


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
            raise ValueError("export: give one of --csv FILE and --parquet FILE")
        if not os.path.exists(self.store):
            raise ValueError(f"export: store must be a file that exists, got {self.store!r}")
        from sparsetoken.studies.sweep import tidy

        with st.Store(self.store) as store:
            table = tidy(store.rows())
        if self.csv is not None:
            table.to_csv(self.csv, index=False)
        else:
            try:
                table.to_parquet(self.parquet)
            except ImportError:
                raise ValueError("export: parquet needs pyarrow (pip install pyarrow)") from None
        print(f"{len(table)} rows in {self.csv or self.parquet}")


Command = (
    Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[Simulate, tyro.conf.subcommand("simulate")]
    | Annotated[Capacity, tyro.conf.subcommand("capacity")]
    | Annotated[Oracle, tyro.conf.subcommand("oracle")]
    | Annotated[Sweep, tyro.conf.subcommand("sweep")]
    | Annotated[Export, tyro.conf.subcommand("export")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # a terminal without Greek letters gets question marks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if "--version" in arguments:
        print(f"sparsetoken {st.__version__}")
        return 0
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            command = _parse(arguments)
    except SystemExit as stop:
        if stop.code:
            return _complain(_one_line(messages.getvalue()), 2)
        return 0
    except BrokenPipeError:
        _silence()  # of --help | head
        return 0
    try:
        command.run()
        sys.stdout.flush()
    except ValueError as error:
        return _complain(error, 2)
    except st.ConvergenceError as error:
        return _complain(error, 1)
    except KeyboardInterrupt as stop_:
        return _complain(": ".join(["interrupted", *map(str, stop_.args)]), 130)
    except BrokenPipeError:
        _silence()  # the reader has seen enough (| head)
    except OSError as error:
        _silence()
        return _complain(error, 1)
    return 0


def _complain(message: object, code: int) -> int:
    _note(message)
    return code


def _note(message: object) -> None:
    print(f"sparsetoken: {message}", file=sys.stderr)


def _silence() -> None:
    """Standard output is gone: let Python's own flush at exit go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse(arguments: Sequence[str]) -> Any:
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def loss_by_name(
        info: tyro.constructors.PrimitiveTypeInfo,
    ) -> tyro.constructors.PrimitiveConstructorSpec[Loss] | None:
        if info.type is not Loss:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="{" + ",".join(LOSSES) + "}",
            instance_from_str=lambda words: LOSSES[words[0]],
            is_instance=lambda value: hasattr(value, "moments"),
            str_from_instance=lambda loss: [name for name in LOSSES if LOSSES[name] == loss],
            choices=tuple(LOSSES),
        )

    with registry:
        return tyro.cli(
            Command,
            prog="sparsetoken",
            description=(
                "When does attention pooling find a weak, sparse signal that linear pooling "
                "misses, and how much data does that take? (--version prints the version)"
            ),
            args=arguments,
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
        )


def _one_line(box: str) -> str:
    """The first paragraph of a boxed message, without the box and the parser's own names."""
    lines = [line.strip("│╭╮╰╯|+ ") for line in box.splitlines()]
    words: list[str] = []
    for line in lines[1:]:
        rule = re.fullmatch("[─-]{3,}", line) is not None
        if words and (rule or not line):
            break
        words += [] if rule else [line]
    text = " ".join(words) or " ".join(lines)
    return re.sub(r"^Error parsing \S*__tyro\S*: ", "", text) + " (see --help)"


def _plain(value: Any) -> Any:
    """JSON has no infinity: it becomes a word that float() reads."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name in rows[0] if rows else []:
        words = name in ("classifier", "quantity")
        table.add_column(name.replace("_", " "), justify="left" if words else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())

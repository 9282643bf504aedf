"""The command line: one verb a command, the same words as the fields of the library.

A readable table by default, `--json` for programs. A wrong value is one line on standard error and
exit code 2; a computation that cannot be done, or a system that refuses, is one line and exit code
1; a claim that fails its reproduction is exit code 3. Anything else is a bug of this package: its
traceback, what to do with it, exit code 70.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec

import sparsetoken as st
from sparsetoken.cli.bags import Fit
from sparsetoken.cli.explorer import Explore
from sparsetoken.cli.output import note
from sparsetoken.cli.planning import Plan
from sparsetoken.cli.questions import Capacity, Oracle, Predict, Simulate
from sparsetoken.cli.scoring import Score
from sparsetoken.cli.studies import Export, Reproduce, Sweep
from sparsetoken.cli.tasks import spread_words, task_fields
from sparsetoken.model.covariances import Spread
from sparsetoken.model.names import CLASSIFIERS, LOSSES, WEIGHTINGS, Names
from sparsetoken.model.signals import Varying, law_in_words
from sparsetoken.model.task import Sparsity, Strength
from sparsetoken.support.plugins import load_plugin
from sparsetoken.support.provenance import commit

_BUG = 70  # EX_SOFTWARE of sysexits.h
_DESCRIPTION = """When does attention pooling find a weak, sparse signal that linear pooling misses,
and how much data does that take?

--version prints the version and its commit. --plugin FILE.py, with any command, first runs a Python
file that registers classes of your own, as st.LOSSES.register("steep", Steep): losses, weightings,
classifiers, noises, metrics, claims (docs/beyond.md)."""

Theory = Predict | Simulate | Capacity | Oracle | Plan
Command = Theory | Fit | Score | Explore | Sweep | Export | Reproduce


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without Greek letters gets question marks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except (st.InvalidInput, st.NoMinimiserError, st.StoreError) as error:
        return _complain(error, 2)
    except (st.ConvergenceError, st.ExecutorError, st.IncompleteError, st.WorkerDied) as error:
        return _complain(error, 1)
    except MemoryError as error:
        return _complain(f"there is not enough memory: {error}", 1)
    except KeyboardInterrupt as stop:
        return _complain(": ".join(["interrupted", *map(str, stop.args)]), 130)
    except BrokenPipeError:
        _silence()  # the reader has seen enough (| head)
        return 0
    except OSError as error:
        _silence()
        return _complain(error, 1)
    except Exception:
        traceback.print_exc()
        return _complain(
            f"this is a bug in sparsetoken {st.__version__}, not a mistake of yours; please report "
            "it with the lines above and the command (README.md, Reporting a bug)",
            _BUG,
        )


def _complain(message: object, code: int) -> int:
    note(message)
    return code


def _silence() -> None:
    """Standard output is gone: let Python's own flush at exit go nowhere."""
    with contextlib.suppress(io.UnsupportedOperation):  # not a file: nothing to silence
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> int:
    if "--version" in arguments:
        known = commit()
        print(f"sparsetoken {st.__version__}" + (f" (commit {known})" if known else ""))
        return 0
    arguments = _without_plugins(arguments)  # they run first: what may be asked for depends on them
    command = parsed(arguments)
    return 0 if command is None else command.run() or 0


def parsed(arguments: Sequence[str]) -> Command | None:
    """The command that the words ask for; None after --help."""
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages), _arguments():
            command: Command = tyro.cli(
                Command,
                prog="sparsetoken",
                description=_DESCRIPTION,
                args=arguments,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if stop.code:
            raise st.InvalidInput(_one_line(messages.getvalue())) from None
        return None
    return command


def _without_plugins(arguments: Sequence[str]) -> list[str]:
    """Run the files of all --plugin options; the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--plugin", action="append", default=[])
    try:
        options, others = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise st.InvalidInput(f"{error} (a Python file)") from None
    for name in options.plugin:
        load_plugin(name)
    return others


def _arguments() -> ConstructorRegistry:
    """How the words of a command become fields that are neither numbers nor truth values."""
    kinds: dict[Any, PrimitiveConstructorSpec[Any]] = {
        st.Loss: _by_name(LOSSES),
        st.Weighting: _by_name(WEIGHTINGS),
        st.Classifier: _by_name(CLASSIFIERS),
        Strength: _number_or_law(float),
        Sparsity: _number_or_law(int),
        Spread: spread_words(),
    }
    registry = ConstructorRegistry()
    registry.primitive_rule(lambda info: kinds.get(info.type))
    registry.struct_rule(task_fields)
    return registry


def _by_name(table: Names[Any]) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(table) + "}",
        instance_from_str=lambda words: table.make(words[0]),
        is_instance=lambda value: table.kind(value) in table,
        str_from_instance=lambda value: [table.name(value) or repr(value)],
    )


def _number_or_law(kind: type[float] | type[int]) -> PrimitiveConstructorSpec[Any]:
    def read(words: list[str]) -> float | Varying:
        try:
            number = float(words[0])
        except ValueError:
            return law_in_words(words[0])
        return kind(number) if number.is_integer() else number

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{kind.__name__.upper()}|VALUE:WEIGHT,…",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, (int, float, Varying)),
        str_from_instance=lambda value: [str(value)],
    )


def _one_line(box: str) -> str:
    """The first paragraph of a boxed message, without the box and the parser's own names."""
    lines = [re.sub("^[─-]{3,}$", "", line.strip("│╭╮╰╯|+ ")) for line in box.splitlines()]
    paragraph = itertools.takewhile(bool, itertools.dropwhile(lambda line: not line, lines[1:]))
    text = " ".join(paragraph) or " ".join(lines)
    return re.sub(r"^Error parsing \S*__tyro\S*: ", "", text) + " (see --help)"

"""`load_bags`: whichever reader recognises a file or folder reads it.

`READERS` has a name for each layout; a class that is registered there is known to `load_bags`, to
`open_bags` and to the command line:

    class Folder:  # a reader of your own
        layout = "folders of npy files, a bag each"
        def can_read(self, path): ...
        def read(self, path): ...  # Bags or a BagSource, and labels or None

    st.READERS.register("folder", Folder)

What cannot be read of a folder is listed in the `problems` of its `BagSource`.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags, LabelledBags
from sparsetoken.bags.readers.airr import Airr
from sparsetoken.bags.readers.anndata_file import AnnDataFile
from sparsetoken.bags.readers.clam_pt import ClamTensors
from sparsetoken.bags.readers.long_table import LongTable
from sparsetoken.bags.readers.npz import Npz, read_names
from sparsetoken.bags.readers.one_file_a_bag import OneFileABag
from sparsetoken.bags.readers.slideflow import Slideflow
from sparsetoken.bags.readers.slides import Clam, Hdf5, Stamp, Trident
from sparsetoken.bags.readers.torchmil import Torchmil
from sparsetoken.bags.source import BagSource, Problem
from sparsetoken.model.names import Names
from sparsetoken.support.errors import InvalidInput

_SHOWN = 20  # problems in an error: what a person reads at once


class Reader(Protocol):
    """One layout of bags on disk; what it refuses to read is `InvalidInput`, without the path."""

    @property
    def layout(self) -> str:
        """What it reads, in a few words, for whoever gave something else."""
        ...

    def can_read(self, path: Path) -> bool:
        """Whether this file or folder, which is there, is one of its own; at a glance."""
        ...

    def read(self, path: Path) -> tuple[Bags | BagSource, NDArray[Any] | None]:
        """The bags, or a source that reads them when asked; labels (n,) if there are any."""
        ...


READERS: Names[Reader] = Names(
    "layout",
    {
        "npz": Npz,
        "clam": Clam,
        "clam-pt": ClamTensors,
        "trident": Trident,
        "stamp": Stamp,
        "slideflow": Slideflow,
        "torchmil": Torchmil,
        "hdf5": Hdf5,
        "one-file-a-bag": OneFileABag,
        "long-table": LongTable,
        "anndata": AnnDataFile,
        "airr": Airr,
    },
)


def load_bags(path: str | os.PathLike[str]) -> LabelledBags:
    """Bags from disk, and their labels if there are any, by the reader that recognises them.

    Parameters
    ----------
    path : str or path
        An npz file: X (n, L, d), or X (N, d) and offsets (n + 1,), where bag i is
        X[offsets[i]:offsets[i + 1]]; labels y (n,) if any. An array `mask` (n, L) of truth values
        may say which tokens of a three-dimensional X count. Other arrays are ignored. Or a folder
        of CLAM, TRIDENT, STAMP, Slideflow or torchmil; a folder with a file for each bag (.h5, .pt,
        .npy, .npz, .safetensors, .parquet, .zarr); a table with a row for each token (`LongTable`),
        an h5ad file (`AnnDataFile`), immune repertoires (`Airr`); whatever else `READERS` knows.
        `open_bags` has labels from tables and leaves bags where they are.

    Returns
    -------
    LabelledBags
        `bags` and `labels`; None for labels that are not there.

    Raises
    ------
    InvalidInput
        Nothing is there, no reader recognises it, or its content is damaged, forged or not bags.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/bags.npz", X=np.ones((3, 2)), offsets=[0, 1, 3], y=[0, 1])
    ...     bags, labels = load_bags(f"{folder}/bags.npz")
    >>> bags.lengths.tolist(), labels.tolist()
    ([1, 2], [0, 1])
    """
    with naming(path) as place:
        bags, labels = reader_of(place).read(place)
        if problems := problems_of(bags):
            raise InvalidInput(problem_text(problems))
        return LabelledBags(bags.load(), labels)


def reader_of(
    path: Path, layout: str | Reader | None = None, options: Mapping[str, Any] | None = None
) -> Reader:
    """The reader of that layout, or the one that recognises what is there; with its options.

    A reader itself is taken as it is.
    """
    if layout is not None and not isinstance(layout, str | type) and hasattr(layout, "read"):
        for option in options or {}:
            raise InvalidInput(
                f"{option} must be None where layout is a reader: it knows columns of its own"
            )
        return layout
    if layout is None:
        readers = {name: READERS.make(name) for name in READERS}
        known = [name for name, reader in readers.items() if reader.can_read(path)]
        if not known and path.is_dir() and all(_hides(file) for file in path.iterdir()):
            raise InvalidInput("there are no files in this folder")
        if not known:
            layouts = "; ".join(reader.layout for reader in readers.values())
            raise InvalidInput(f"bags must be in a layout that is known ({layouts}), this is not")
        if len(known) > 1:
            layouts = "; ".join(f"{name}: {readers[name].layout}" for name in known)
            raise InvalidInput(f"several layouts are recognised ({layouts}): layout must name one")
        layout = known[0]
    reader = READERS.make(layout, **(options or {}))
    for option in options or {}:
        if option not in inspect.signature(READERS[str(layout)]).parameters:
            raise InvalidInput(f"{option} names a column of a table: labels must be given, too")
    return reader


def _hides(path: Path) -> bool:
    return path.name.startswith(".")


def problems_of(bags: Bags | BagSource) -> tuple[Problem, ...]:
    """What a reader met and could not take."""
    return bags.problems if isinstance(bags, BagSource) else ()


def problem_text(problems: Sequence[Problem]) -> str:
    """All that is wrong, counted; and a table of the first."""
    counts = Counter(problem.problem for problem in problems)
    numbers = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    bags, them = ("bag", "it") if len(problems) == 1 else ("bags", "them")
    lines = [
        f"{len(problems)} {bags} cannot be taken ({numbers}); leave_out=True, on the command line "
        f"--leave-out, goes on without {them}"
    ]
    widths = [max(len(row[k]) for row in problems[:_SHOWN]) for k in range(2)]
    lines += [
        f"  {bag.ljust(widths[0])}  {kind.ljust(widths[1])}  {words}"
        for bag, kind, words in problems[:_SHOWN]
    ]
    if len(problems) > _SHOWN:
        lines.append(f"  and {len(problems) - _SHOWN} more")
    return "\n".join(lines)


def load_groups(path: str | os.PathLike[str], name: str) -> NDArray[Any]:
    """Groups of the bags in an npz file: patients, recordings.

    Parameters
    ----------
    path : str or path
        The npz file.
    name : str
        Of the array in it that has a number or a word for each bag.

    Returns
    -------
    array (n,)
        The names, as `groups=` takes them.

    Raises
    ------
    InvalidInput
        Nothing is there, it is no npz file, or it has no such array.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/bags.npz", X=np.ones((3, 2, 4)), patient=["ann", "ben", "ann"])
    ...     load_groups(f"{folder}/bags.npz", "patient").tolist()
    ['ann', 'ben', 'ann']
    """
    with naming(path) as place:
        if not Npz().can_read(place):
            raise InvalidInput("groups are read from npz files alone, this is not one")
        return read_names(place, name)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file or folder that is there; what is refused about it is said with its name."""
    place = Path(path)
    try:
        if not place.exists():
            raise InvalidInput("there is no such file")
        yield place
    except (InvalidInput, MemoryError) as error:
        raise InvalidInput(f"{os.fspath(path)}: {error}") from error

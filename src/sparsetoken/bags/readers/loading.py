"""`load_bags`: whichever reader recognises a file or folder reads it.

`READERS` has a name for each layout; a class that is registered there is known to `load_bags` and
to the command line:

    class Folder:  # a reader of your own
        layout = "folders of npy files, a bag each"
        def can_read(self, path): ...
        def read(self, path): ...  # Bags or a BagSource, and labels or None

    st.READERS.register("folder", Folder)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags, LabelledBags
from sparsetoken.bags.readers.airr import Airr
from sparsetoken.bags.readers.anndata_file import AnnDataFile
from sparsetoken.bags.readers.long_table import LongTable
from sparsetoken.bags.readers.npz import Npz
from sparsetoken.bags.source import BagSource
from sparsetoken.model.names import Names
from sparsetoken.support.errors import InvalidInput


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


READERS: Names[Reader] = Names(  # the first that recognises a file reads it
    "reader", {"npz": Npz, "anndata": AnnDataFile, "airr": Airr, "long-table": LongTable}
)


def load_bags(path: str | os.PathLike[str]) -> LabelledBags:
    """Bags from disk, and their labels if there are any, by the reader that recognises them.

    Parameters
    ----------
    path : str or path
        An npz file: X (n, L, d), or X (N, d) and offsets (n + 1,), where bag i is
        X[offsets[i]:offsets[i + 1]]; labels y (n,) if any. An array `mask` (n, L) of truth values
        may say which tokens of a three-dimensional X count. Other arrays are ignored. Or a table
        with a row for each token (`LongTable`), an h5ad file (`AnnDataFile`), immune repertoires
        (`Airr`), or whatever else `READERS` knows.

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
        readers = [READERS.make(name) for name in READERS]
        for reader in readers:
            if reader.can_read(place):
                bags, labels = reader.read(place)
                return LabelledBags(bags.load(), labels)
        layouts = "; ".join(reader.layout for reader in readers)
        raise InvalidInput(f"bags must be in a layout that is known ({layouts}), this is not")


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

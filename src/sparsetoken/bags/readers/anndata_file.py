"""AnnData files (h5ad): cells are tokens, their donors are bags.

Read by h5py alone, as the format is written down (anndata 0.7 and later): obs has a column for each
thing known of cells, X or a layer the counts of genes, dense or by rows (CSR), obsm embeddings.
Nothing of the matrix is read before a bag is asked for. What is forged below the level of HDF5's
own structures is HDF5's to notice: a damaged heap of words can keep its library busy for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.tables import (
    BAGS,
    LABELS,
    bag_rows,
    chosen,
    group_of,
    in_words,
)
from sparsetoken.bags.readers.untrusted import free_memory
from sparsetoken.bags.source import BagSource
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

_BLOCK = 1 << 24  # numbers read at once
_SPATIAL = "obsm/spatial"  # where squidpy and others keep the places of cells


@dataclass(frozen=True)
class AnnDataFile:
    """Cells of a donor are a bag; the label is a column of obs that is constant within a donor.

    `bag_column`, `label_column` and `group_column` name columns of obs where their names do not
    tell; where samples are bags, donors are groups. Tokens are the rows of X, of a `layer`, or of
    an embedding in `obsm` such as "X_pca".

    >>> reader = AnnDataFile(bag_column="donor_id", label_column="disease", obsm="X_pca")
    >>> source, labels = reader.read(Path("cells.h5ad"))  # doctest: +SKIP
    """

    bag_column: str | None = None
    label_column: str | None = None
    layer: str | None = None
    obsm: str | None = None
    group_column: str | None = None

    layout = "AnnData files (h5ad) with the donor of each cell in obs"

    def can_read(self, path: Path) -> bool:
        return path.is_file() and path.suffix.lower() == ".h5ad"

    def read(self, path: Path) -> tuple[BagSource, NDArray[Any] | None]:
        if self.layer is not None and self.obsm is not None:
            raise InvalidInput(
                f"layer or obsm must be None, got layer={self.layer!r} and obsm={self.obsm!r}"
            )
        with opened(path) as file:
            place, matrix = self._matrix(file)
            obs = _own(file, "obs")
            if not hasattr(obs, "keys"):
                raise InvalidInput(
                    "obs must be a group, as anndata 0.7 and later write it: read and write the "
                    "file with a newer one"
                )
            names = [name for name in obs if name != "__categories"]
            bag = chosen("bag_column", names, self.bag_column, BAGS)
            if bag is None:
                raise InvalidInput(
                    "a column of obs must say which donor a cell is of: none of "
                    f"{in_words(names)} is called {in_words(BAGS[9:13])} or the like; give "
                    "bag_column"
                )
            others = [name for name in names if name != bag]
            label = chosen("label_column", others, self.label_column, LABELS)
            group = group_of([name for name in others if name != label], self.group_column)
            words, kinds, owners = (
                None if name is None else _words(obs, name, matrix.cells)
                for name in (bag, label, group)
            )
            bags = bag_rows(
                [(words, kinds, owners)], label, group, given=self.group_column is not None
            )
            spatial = _SPATIAL if _has_places(file, matrix.cells) else None
        cells = AnnDataCells(str(path), place, spatial)
        source = BagSource(
            bags.names,
            bags.lengths,
            matrix.dim,
            bags.rows,
            cells,
            bags.problems,
            groups=bags.groups,
            notes=bags.notes,
        )
        return source, bags.labels

    def _matrix(self, file: Any) -> tuple[str, Matrix]:
        """Where the tokens are, and what is there."""
        for option, folder in (("layer", "layers"), ("obsm", "obsm")):
            name = getattr(self, option)
            if name is not None:
                if not isinstance(name, str) or name not in file.get(folder, ()):
                    raise InvalidInput(
                        f"{option} must be one of {in_words(list(file.get(folder, ())))}, got "
                        f"{name!r}"
                    )
                return f"{folder}/{name}", Matrix.of(file, f"{folder}/{name}")
        if "X" not in file:
            raise InvalidInput(
                f"the matrix X is missing; give obsm, one of {in_words(list(file.get('obsm', ())))}"
            )
        return "X", Matrix.of(file, "X")


@dataclass(frozen=True)
class AnnDataCells:
    """Cells of a file, found by their rows."""

    path: str
    place: str  # of the matrix
    spatial: str | None

    def tokens(self, key: IntArray) -> NDArray[Any]:
        with opened(Path(self.path)) as file:
            return Matrix.of(file, self.place).rows(key)

    def coordinates(self, key: IntArray) -> FloatArray | None:
        if self.spatial is None:
            return None
        with opened(Path(self.path)) as file:
            return Matrix.of(file, self.spatial).rows(key)[:, :2].astype(float)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix (cells, d) in a file: a dataset, or a group of data, indices and indptr."""

    node: Any
    cells: int
    dim: int
    sparse: bool

    @classmethod
    def of(cls, file: Any, place: str) -> Matrix:
        """What stands there, if it can be read by rows."""
        node = _own(file, place)
        if not hasattr(node, "keys"):
            if node.ndim != 2 or node.dtype.kind not in "fiub":
                raise InvalidInput(
                    f"{place} must be a matrix of numbers, got {node.dtype} of shape {node.shape}"
                )
            return cls(node, int(node.shape[0]), int(node.shape[1]), sparse=False)
        kind = node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", ""))
        if str(kind) not in ("csr_matrix", "csr"):
            raise InvalidInput(
                f"{place} must be dense or sparse by rows (CSR), got {str(kind)!r}: with anndata, "
                "adata.X = adata.X.tocsr() before writing"
            )
        shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))
        for name in ("data", "indices", "indptr"):
            array = _own(file, f"{place}/{name}")
            if hasattr(array, "keys") or array.ndim != 1 or array.dtype.kind not in "fiub":
                raise InvalidInput(f"{place}/{name} must be numbers in one dimension")
        if len(shape) != 2 or node["indptr"].shape != (int(shape[0]) + 1,):
            raise InvalidInput(
                f"{place} claims shape {tuple(map(int, shape))}, its indptr is of "
                f"{node['indptr'].shape[0]}: the file is damaged or forged"
            )
        return cls(node, int(shape[0]), int(shape[1]), sparse=True)

    def rows(self, key: IntArray) -> NDArray[Any]:
        """Some rows (L, d), in order; whole blocks are read and what was asked for is kept."""
        kind = (self.node["data"] if self.sparse else self.node).dtype
        needed = len(key) * self.dim * max(4, kind.itemsize)
        if needed > free_memory():
            raise InvalidInput(f"{needed} bytes are needed, {free_memory():.0f} are free for them")
        step = max(1, _BLOCK // max(self.dim, 1))
        read = self._sparse if self.sparse else self._dense
        parts = []
        while len(key):
            start = int(key[0])
            count = int(np.searchsorted(key, start + step))
            parts.append(read(key[:count]))
            key = key[count:]
        return np.concatenate(parts)

    def _dense(self, key: IntArray) -> NDArray[Any]:
        block = self.node[int(key[0]) : int(key[-1]) + 1]
        return np.asarray(block[key - key[0]])

    def _sparse(self, key: IntArray) -> NDArray[Any]:
        first, last = int(key[0]), int(key[-1]) + 1
        ends = np.asarray(self.node["indptr"][first : last + 1], dtype=np.int64)
        low, high, stored = int(ends[0]), int(ends[-1]), self.node["data"].shape[0]
        if np.any(np.diff(ends) < 0) or not 0 <= low <= high <= stored:
            raise InvalidInput("indptr must rise within the stored values: the file is damaged")
        if high - low > (last - first) * self.dim:
            raise InvalidInput("there are more values than places: the file is damaged")
        values, places = self.node["data"][low:high], self.node["indices"][low:high]
        if len(places) < high - low or np.any((places < 0) | (places >= self.dim)):
            raise InvalidInput(f"indices must be from 0 to {self.dim - 1}: the file is damaged")
        kind = values.dtype if values.dtype.kind == "f" else np.dtype(float)
        rows = np.zeros((len(key), self.dim), kind)
        which = np.repeat(np.arange(last - first), np.diff(ends))
        kept = np.full(last - first, -1, dtype=np.int64)
        kept[key - first] = np.arange(len(key))
        asked = kept[which] >= 0
        at = (kept[which[asked]], np.asarray(places[asked], dtype=np.int64))
        np.add.at(rows, at, values[asked])  # doubled ones add up
        return rows


def _has_places(file: Any, cells: int) -> bool:
    """Whether the file says where each cell is."""
    if _SPATIAL not in file:
        return False
    node = _own(file, _SPATIAL)
    shape: tuple[int, ...] = getattr(node, "shape", ())
    return len(shape) == 2 and shape[0] == cells and shape[1] >= 2 and node.dtype.kind in "fiu"


def _words(obs: Any, name: str, cells: int) -> NDArray[Any]:
    """A column of obs as words (cells,), "" where there is none."""
    node = _own(obs, name)
    if hasattr(node, "keys") and "categories" in node:
        words = _coded(_all(node, "codes"), _as_words(_all(node, "categories")), name)
    elif hasattr(node, "keys") and "values" in node:  # with a mask of what is missing
        words = _as_words(_all(node, "values"))
        if "mask" in node:
            words[_all(node, "mask").astype(bool)] = ""
    elif hasattr(node, "keys"):
        raise InvalidInput(f"column {name!r} of obs must be numbers, words or categories")
    elif "__categories" in obs and name in obs["__categories"]:  # anndata 0.7
        words = _coded(_all(obs, name), _as_words(_all(obs["__categories"], name)), name)
    else:
        words = _as_words(_all(obs, name))
    if len(words) != cells:
        raise InvalidInput(
            f"column {name!r} of obs must have a value for each of {cells} cells, got {len(words)}"
        )
    return words


def _coded(codes: NDArray[Any], words: NDArray[Any], name: str) -> NDArray[Any]:
    if codes.dtype.kind not in "iu" or np.any((codes < -1) | (codes >= len(words))):
        raise InvalidInput(f"codes of column {name!r} must be those of its {len(words)} categories")
    return np.append(words, "")[codes]  # -1: missing


def _as_words(values: NDArray[Any]) -> NDArray[Any]:
    """Words as they are, numbers as they are written; NaN becomes ""."""
    if values.dtype.kind == "f":
        return np.array(["" if value != value else repr(float(value)) for value in values], object)
    words = (value.decode() if isinstance(value, bytes) else str(value) for value in values)
    return np.array(list(words), object)


def _all(group: Any, name: str) -> NDArray[Any]:
    """A whole array of one dimension, that fits in memory."""
    import h5py

    node = _own(group, name)
    if hasattr(node, "keys") and "values" in node:  # of words, some of them missing
        return _all(node, "values")
    words = not hasattr(node, "keys") and h5py.check_string_dtype(node.dtype) is not None
    if hasattr(node, "keys") or node.ndim != 1 or not (words or node.dtype.kind in "fiub"):
        raise InvalidInput(f"{name!r} in obs must be an array of numbers or words")
    if node.size * 64 > free_memory():  # a short word takes so many bytes
        raise InvalidInput(f"{node.size} values of {name!r} are more than memory has room for")
    return np.asarray(node[:])


def _own(group: Any, name: str) -> Any:
    """What a name stands for, if it is in this very file, and not an empty promise."""
    import h5py

    if name not in group:
        raise InvalidInput(f"{name} is missing")
    node = group[name]
    if node.file.filename != group.file.filename:
        raise InvalidInput(f"{name} leads to another file, which is not followed")
    if not isinstance(node, h5py.Dataset | h5py.Group):
        raise InvalidInput(f"{name} must be an array or a group")
    if isinstance(node, h5py.Dataset):
        if node.is_virtual or node.external:
            raise InvalidInput(f"{name} is kept in another file, which is not read")
        if node.shape is None or (node.size and not node.id.get_storage_size()):
            raise InvalidInput(f"{name} claims shape {node.shape}, and nothing is stored there")
    return node


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An HDF5 file of a stranger: whatever cannot be read, it is bad."""
    try:
        import h5py
    except ImportError as error:
        raise InvalidInput("h5ad files need h5py (pip install 'sparsetoken[bags]')") from error
    try:
        with h5py.File(path, "r") as file:
            yield file
    except InvalidInput:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError) as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise InvalidInput(f"this is not an AnnData file, or it is damaged ({words})") from error

"""Tables in parquet files, a bag each: a row a token, a numeric column a feature."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.tables import COORDINATES, is_no_feature, simplified
from sparsetoken.bags.readers.untrusted import check_memory, foreign, free_memory
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_KIND = "a parquet file"
_INDEX = "__index_level_"  # so pandas calls the index of a table, which is no feature
_WORDS = 4  # bytes of the magic word at both ends


@dataclass(frozen=True)
class ParquetFiles:
    """Features are all numeric columns but x and y (coord_x and coord_y, …) and pandas' index.

    Columns of words are ignored. Numbers that are called as labels, names of bags, patients, tiles
    and the like are (label, slide, case_id, patch, …) are refused: whoever learns from them learns
    nothing.
    """

    def shape(self, path: Path) -> tuple[int, int]:
        """Tokens and dimensions, from the footer alone."""
        with _opened(path) as file:
            features, _ = _columns(file.schema_arrow)
            rows = int(file.metadata.num_rows)
        if rows < 1:
            raise InvalidInput("tokens must be at least one row, got none")
        return rows, len(features)

    def tokens(self, key: Any) -> NDArray[Any]:
        with _opened(key) as file:
            return _numbers(file, _columns(file.schema_arrow)[0])

    def coordinates(self, key: Any) -> FloatArray | None:
        with _opened(key) as file:
            places = _columns(file.schema_arrow)[1]
            return _numbers(file, places).astype(np.float64) if places else None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    parquet = _parquet()
    with foreign(_KIND, library=True):
        if path.stat().st_size < 2 * _WORDS:
            raise InvalidInput(f"this is not {_KIND}: it has {path.stat().st_size} bytes")
        file = parquet.ParquetFile(path)
    with file:
        yield file


def _parquet() -> ModuleType:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InvalidInput(
            "a parquet file needs pyarrow (pip install 'sparsetoken[bags]')"
        ) from error
    return parquet


def _columns(schema: Any) -> tuple[list[str], list[str]]:
    """Names of features, and of coordinates."""
    import pyarrow.types as types

    numbers = (types.is_integer, types.is_floating, types.is_boolean)
    numeric = [
        field.name
        for field in schema
        if any(test(field.type) for test in numbers) and not field.name.startswith(_INDEX)
    ]
    if len(set(schema.names)) < len(schema.names):
        raise InvalidInput("a column stands twice in the table")
    small = {simplified(name): name for name in numeric}
    pair = next((pair for pair in COORDINATES if set(pair) <= set(small)), ())
    places = [small[name] for name in pair]
    features = [name for name in numeric if name not in places]
    for name in features:
        if is_no_feature(name):
            raise InvalidInput(
                f"the column {name} is called as a label or the name of a bag, a patient or a "
                "tile is, not as a feature: leave it out (a table of many bags is given itself, "
                "not its folder)"
            )
    if not features:
        raise InvalidInput(
            "a table must have a numeric column for each feature, got "
            + (", ".join(f"{field.name} ({field.type})" for field in schema)[:200] or "no column")
        )
    return features, places


def _numbers(file: Any, columns: list[str]) -> NDArray[Any]:
    """Columns side by side (L, d)."""
    rows = int(file.metadata.num_rows)
    check_memory("the table", (rows, len(columns)), 8, free_memory())
    with foreign(_KIND, library=True):
        table = file.read(columns=columns, use_threads=False)
        arrays = [table.column(name).to_numpy() for name in columns]
        kinds = {array.dtype for array in arrays}
        if any(kind.kind not in "fiub" for kind in kinds):
            raise InvalidInput("a column has values that are missing")
        array = np.empty((len(table), len(columns)), np.result_type(*kinds))
        for k, values in enumerate(arrays):
            array[:, k] = values
    return array

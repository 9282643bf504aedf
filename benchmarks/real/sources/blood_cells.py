"""One type of blood cell among others: `pbmc68k_reduced`, which is in scanpy's wheel."""

from __future__ import annotations

import warnings

import numpy as np

from .forms import Instances

COMPONENTS = 50


def cells(target: str, length: int) -> Instances:
    """Cells of one type among 700: principal components of 765 genes, of the training pool."""
    from sklearn.decomposition import PCA

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of anndata, about its own older files
        import scanpy

        table = scanpy.datasets.pbmc68k_reduced()
    is_target = (table.obs["bulk_labels"] == target).to_numpy()
    split = Instances.split(np.asarray(table.X), is_target, length)
    reduction = PCA(COMPONENTS, svd_solver="full").fit(split.train_tokens)
    return Instances(
        reduction.transform(split.train_tokens),
        split.train_is_target,
        reduction.transform(split.test_tokens),
        split.test_is_target,
        split.length,
    )

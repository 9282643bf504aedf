"""How many threads each BLAS of a process has: a task for tests, importable by any process."""

from __future__ import annotations

import numpy as np  # noqa: F401
import scipy.linalg  # noqa: F401 (it has a BLAS of its own)
from threadpoolctl import threadpool_info


def blas_thread_counts():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

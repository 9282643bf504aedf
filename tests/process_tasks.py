"""Tasks for worker processes of any kind, which a spawned one can import."""

from __future__ import annotations

import os
import signal
import time

import numpy as np  # noqa: F401
import scipy.linalg  # noqa: F401 (it has a BLAS of its own)
from threadpoolctl import threadpool_info


def blas_thread_counts():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def nap(_):
    time.sleep(2.0)
    return {"done": "nap"}


def echo(argument):
    return {"done": argument}


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)

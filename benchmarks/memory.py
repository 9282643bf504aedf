"""Peak memory of a fit: 2000 bags of 100 tokens in 256 dimensions, and ragged ones as large.

    python benchmarks/memory.py

Each row is a process of its own, so that one's peak is not another's. "data" are the bytes of the
tokens, which the process holds as well; "peak" is what the kernel says the process held at most.
Ragged: lengths from 1 to 199 but for one bag of 20,000, which would be the length of all if bags
were padded (40 GB).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

CASES = {
    "pooled": ("PooledClassifier", {}),
    "attention": ("AttentionClassifier", {}),
    "attention, cross": ("AttentionClassifier", {"reuse": "cross"}),
    "joint": ("AttentionClassifier", {"query": "joint"}),
    "estimate_task": ("estimate_task", {}),
}


def bags(shape: str, kind: type) -> tuple:
    """Bags with a signal in one of a hundred tokens; offsets and labels."""
    rng = np.random.default_rng(0)
    lengths = np.full(2000, 100)
    if shape == "ragged":
        lengths = rng.integers(1, 200, 2000)
        lengths[7] = 20_000
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.standard_normal((offsets[-1], 256), dtype=np.float32).astype(kind, copy=False)
    labels = np.where(np.arange(2000) % 2, 1, -1)
    tokens[offsets[:-1][labels > 0], 0] += 6.0
    return tokens, offsets, labels


def measure(case: str, shape: str, kind: str) -> None:
    import sparsetoken as st
    from sparsetoken.bags.bags import Bags

    tokens, offsets, labels = bags(shape, np.dtype(kind).type)
    given = Bags(tokens, offsets)
    name, settings = CASES[case]
    start = time.perf_counter()
    what = getattr(st, name)
    if name == "estimate_task":
        what(given, labels)
    else:
        what(**settings).fit(given, labels)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(
        f"{case:<17} {shape:<7} {kind:<8} {tokens.nbytes / 2**20:>8.0f} {peak:>9.0f} "
        f"{seconds:>8.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs=3, help="one row: case, shape, dtype")
    given = parser.parse_args()
    if given.case:
        measure(*given.case)
        return
    print("what              bags    numbers  data MiB  peak MiB  seconds")
    for case in CASES:
        for shape in ("equal", "ragged"):
            for kind in ("float32", "float64"):
                row = [sys.executable, __file__, "--case", case, shape, kind]
                subprocess.run(row, check=True)


if __name__ == "__main__":
    main()

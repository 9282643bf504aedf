"""A fit of bags on disk: its time beside that of reading and of its matrix products; its memory.

python benchmarks/bags.py --folder DIR [--bags 1000 --tokens 5000 --dim 512] [--device cuda]

Writes the bags to DIR if they are not there (float16, one npy file each: 5.1 GB as they stand), and
in the same run measures, all by one thread a processor:

- reading: all files, as often as the fit goes over them;
- products: the matrix products of the fit, on numbers that are in memory, at the rate of a sample;
- the fit, in a process of its own, whose greatest memory is shown.

With --device the tokens are in memory and the products done there; the rate is that of a square
product of the same precision on that device.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sparsetoken as st
from sparsetoken.support.blas import one_blas_thread

SETS, SHRINKINGS, SHARPNESSES = 6, 5, 6  # five folds and all bags; whitenings; lengths of a query
JOBS = SETS * SHRINKINGS


@dataclass(frozen=True)
class Files:
    """One npy file a bag."""

    def tokens(self, key: Path) -> NDArray[Any]:
        return np.load(key, allow_pickle=False)

    def coordinates(self, key: Path) -> None:
        return None


@dataclass(frozen=True, eq=False)
class Memory:
    """Bags in memory, read as if from files."""

    bags: list[NDArray[Any]] = field(repr=False)

    def tokens(self, key: int) -> NDArray[Any]:
        return self.bags[key]

    def coordinates(self, key: int) -> None:
        return None


def bag(number: int, tokens: int, dim: int) -> NDArray[np.float16]:
    """Noise of a spectrum over two decades, and in odd ones a signal in a hundredth of tokens."""
    rng = np.random.default_rng(number)
    scales = np.geomspace(1.0, 0.1, dim).astype(np.float32)
    values = rng.standard_normal((tokens, dim), dtype=np.float32) * scales
    if number % 2:
        values[: max(1, tokens // 100)] += 4.0 * scales / np.sqrt(dim)
    return values.astype(np.float16)


def write(folder: Path, count: int, tokens: int, dim: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.npy" for number in range(count)]
    size = tokens * dim * 2

    def one(number: int) -> None:
        if not paths[number].exists() or paths[number].stat().st_size < size:
            np.save(paths[number], bag(number, tokens, dim))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, range(count)))
    return paths


def fit(source: st.BagSource) -> dict[str, Any]:
    """Seconds, passes and memory of a fit."""
    passes, spent = 0, {}
    walk = st.BagSource._walk

    def counted(self: Any, kernel: Any) -> Any:
        nonlocal passes
        passes += 1
        begun = time.perf_counter()
        yield from walk(self, kernel)
        spent[kernel.words] = round(time.perf_counter() - begun, 2)
        print(f"  {kernel.words}: {spent[kernel.words]} s", file=sys.stderr, flush=True)

    st.BagSource._walk = counted  # type: ignore[method-assign]
    labels = np.arange(len(source)) % 2
    start = time.perf_counter()
    classifier = st.AttentionClassifier().fit(source, labels)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "seconds": seconds,
        "passes": passes,
        "in each": spent,
        "GiB": memory,
        "sharpness": float(classifier.sharpness_),
    }


def reading(paths: list[Path]) -> float:
    """Seconds to read all files once."""
    start = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for tokens in pool.map(lambda path: np.load(path).shape, paths):
            assert tokens
    return time.perf_counter() - start


def products(tokens: int, dim: int, bags: int) -> float:
    """Seconds of the matrix products of a fit, from a few bags."""
    few, threads = 4, os.cpu_count() or 1
    rng = np.random.default_rng(0)
    piece = max(1, (1 << 18) // dim)  # as many as the fit works on at once
    sample = rng.standard_normal((piece, dim))
    along, many = rng.standard_normal((dim, JOBS)), rng.random((JOBS, piece))
    lengths = rng.standard_normal((dim, 2 * SETS))

    def work(_: int) -> None:
        for number in range(few):
            for _ in range(0, tokens, piece):
                if number % 2:  # noise alone has a covariance
                    sample.T @ sample
                    sample @ lengths, sample @ lengths
                many @ sample, sample @ along  # queries
                sample @ along  # features
                for _ in range(SHARPNESSES):
                    many @ sample

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))  # libraries are loaded
        start = time.perf_counter()
        list(pool.map(work, range(threads)))
        return (time.perf_counter() - start) * bags / (few * threads)


def flops(tokens: int, dim: int, bags: int) -> float:
    """Of the matrix products: covariances of half of the bags, queries, features."""
    rows = float(bags) * tokens
    return rows * dim * (dim / 2 + 4 * SETS + 6 * JOBS + 2 * JOBS * SHARPNESSES)


def device_rate(device: str) -> float:
    """Products of double precision a second, 2n³ a square product."""
    import torch

    n = 8192
    a = torch.randn(n, n, dtype=torch.float64, device=device)
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        a @ a
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    return 2 * n**3 / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    for name, default in (("bags", 1000), ("tokens", 5000), ("dim", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device")
    parser.add_argument("--fit", action="store_true", help="only the fit, printed as JSON")
    given = parser.parse_args()
    count, tokens, dim = given.bags, given.tokens, given.dim
    lengths, names = np.full(count, tokens), tuple(map(str, range(count)))
    if given.device is not None:
        bags = [bag(number, tokens, dim) for number in range(count)]
        source = st.BagSource(names, lengths, dim, tuple(range(count)), Memory(bags))
        fit(source[:20].walked(device=given.device))  # libraries are loaded
        numbers = fit(source.walked(device=given.device))
        rate, work = device_rate(given.device), flops(tokens, dim, count)
        in_passes = sum(numbers["in each"].values())
        numbers |= {
            "products (TFLOP)": work / 1e12,
            "rate of the card (TFLOP/s)": rate / 1e12,
            "share of it in the passes": work / in_passes / rate,
            "share of it in all": work / numbers["seconds"] / rate,
        }
        print(json.dumps(numbers, indent=2))
        return
    paths = write(given.folder, count, tokens, dim)
    source = st.BagSource(names, lengths, dim, tuple(paths), Files())
    if given.fit:
        print(json.dumps(fit(source)))
        return
    command = [sys.executable, __file__, "--fit", *sys.argv[1:]]
    numbers = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    floors = {
        "reading": reading(paths) * numbers["passes"],
        "products": products(tokens, dim, count),
    }
    print(
        f"{count} bags of {tokens} tokens in {dim} dimensions, "
        f"{count * tokens * dim * 2 / 1e9:.2f} GB: {numbers['seconds']:.0f} s in "
        f"{numbers['passes']} passes, {numbers['GiB']:.2f} GiB"
    )
    for name, seconds in floors.items():
        print(
            f"{name}: {seconds:.0f} s, the fit takes {numbers['seconds'] / seconds:.2f} times that"
        )


if __name__ == "__main__":
    main()

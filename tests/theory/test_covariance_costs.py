"""What covariances may cost, in processor seconds (`benchmarks/covariances.py` has the table)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import sparsetoken as st
from sparsetoken.support.blas import one_blas_thread

PATH = Path(__file__).parent.parent.parent / "benchmarks" / "covariances.py"
LOSSES = [st.Square(), st.Logistic()]


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("covariances_bench", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("loss", LOSSES)
def test_a_hundred_atoms_take_at_most_three_times_as_long_as_white_noise(bench, loss):
    noises = bench.noises_of(2)
    with one_blas_thread():
        laws = [bench.law_of(noises[name]) for name in ("white", "100 atoms")]
        white, spectrum = (bench.least_seconds(law, loss, 7)[0] for law in laws)
    assert spectrum < 3 * white


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_ten_points_with_matrices_of_500_take_less_than_five_seconds(bench, loss):
    noises = bench.noises_of(500)
    with one_blas_thread():
        seconds, _ = bench.least_seconds(bench.law_of(noises["matrices, d = 500"]), loss, 1)
    assert seconds < 5

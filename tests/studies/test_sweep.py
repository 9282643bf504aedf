"""`sweep`: cells to a table, whatever the executor; what goes wrong is a row or a sentence."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model import attention
from sparsetoken.studies import cells as cells_module
from sparsetoken.studies.questions import answer
from sparsetoken.support.blas import blas_threads, one_blas_thread
from sparsetoken.support.errors import InvalidInput
from sweep_study import same, study


@pytest.fixture(scope="module")
def wanted():
    return st.sweep(study())


def test_a_tidy_table(wanted):
    assert len(wanted) == 4 * 6 + 12 and set(wanted.status) == {"ok"}
    assert wanted.key.is_unique
    simulated = wanted[wanted.kind == "simulation"]
    direct = st.simulate(st.Task(5, 1, 2.0), st.Attention(), st.Protocol(ridge=0.01), 60, 6, seed=0)
    chosen = simulated[(simulated.classifier == "attention") & (simulated.strength == 2.0)]
    np.testing.assert_allclose(chosen.test_error, direct.test_error, rtol=1e-9)
    np.testing.assert_allclose(chosen.cosine, direct.cosine, rtol=1e-9)
    np.testing.assert_allclose(chosen.auc, direct.auc)
    theory = wanted[(wanted.kind == "theory") & (wanted.classifier == "pooled")]
    first = st.predict(st.Task(5, 1, 2.0), st.Pooled(), st.Protocol(readout_samples=1.0))
    assert theory.test_error.iloc[0] == pytest.approx(first.test_error, rel=1e-9)
    for name in ("length", "loss", "ridge", "dim", "seed", "repeat", "message", "version"):
        assert name in wanted.columns


@pytest.mark.parametrize("executor", [1, 2, "processes", "threads"])
def test_every_executor_gives_the_same_table(wanted, executor, tmp_path):
    pools = {"processes": ProcessPoolExecutor, "threads": ThreadPoolExecutor}
    if executor in pools:
        with pools[executor](2) as pool:
            found = st.sweep(study(), tmp_path / "runs.sqlite", pool)
    else:
        found = st.sweep(study(), tmp_path / "runs.sqlite", executor)
    same(found, wanted)


def test_only_what_is_missing_is_computed(wanted, tmp_path, monkeypatch):
    path = tmp_path / "runs.sqlite"
    st.sweep(study(repeats=2), path)
    count = []

    def counted(unit):
        count.append(unit.key)
        return answer(unit)

    monkeypatch.setattr("sparsetoken.studies.execution.answer", counted)
    same(st.sweep(study(), path), wanted)
    assert len(count) == 4 * 4  # four more repeats of each simulated cell
    same(st.sweep(study(), path), wanted)
    assert len(count) == 4 * 4


def test_the_same_question_twice_is_one_row():
    cells = st.grid(length=5, sparsity=1, strength=[2.0, 2.0], classifier=st.Pooled())
    assert len(cells) == 2 and len(st.sweep(cells)) == 1


def test_a_failure_is_a_row_that_says_why(tmp_path, monkeypatch):
    path = tmp_path / "runs.sqlite"
    cells = st.grid(
        length=5, sparsity=1, strength=4.0, classifier=st.Pooled(), ridge=[0.0, 1e-3],
        readout_samples=0.5,
    )  # fmt: skip
    table = st.sweep(cells, path)
    assert table.status.tolist() == ["failed", "ok"]
    assert "NoMinimiserError" in table.message[0] and "positive ridge" in table.message[0]
    assert np.isnan(table.test_error[0])
    # kept; tried again only on request
    monkeypatch.setattr(cells_module, "predict", lambda *_: 1 / 0)
    assert "NoMinimiserError" in st.sweep(cells, path).message[0]
    again = st.sweep(cells, path, retry_failed=True)
    assert "ZeroDivisionError" in again.message[0] and again.status[1] == "ok"


def test_a_sample_of_one_class_is_a_row_too():
    cells = st.grid(
        length=5, sparsity=1, strength=4.0, prevalence=0.001, classifier=st.Pooled(),
        kind="simulation", dim=10, repeats=2,
    )  # fmt: skip
    table = st.sweep(cells)
    assert table.status.tolist() == ["no fit", "no fit"] and "one class only" in table.message[0]


@pytest.mark.slow
def test_laws_are_built_once_per_process(tmp_path, monkeypatch):
    """More laws than are kept, the law varying fastest: cells are taken law by law."""
    builds = tmp_path / "builds"
    original = attention.white_pooling

    def noted(task, cosine, sharpness, weighting):
        with builds.open("a") as file:
            file.write(f"{os.getpid()} {cosine}\n")
        return original(task, cosine, sharpness, weighting)

    monkeypatch.setattr(attention, "white_pooling", noted)
    cosines = np.linspace(0.1, 0.95, 34)
    cells = st.grid(
        length=2, sparsity=1, strength=3.0, ridge=0.01, readout_samples=[1.0, 4.0],
        loss=st.Square(), classifier=[st.Attention(float(each), 1.0) for each in cosines],
    )  # fmt: skip
    attention.cached_attention_law.cache_clear()
    serial = st.sweep(cells)
    assert len(builds.read_text().splitlines()) == 34
    builds.unlink()
    attention.cached_attention_law.cache_clear()
    same(st.sweep(cells, executor=2), serial)
    built = builds.read_text().splitlines()
    assert len(set(built)) == len(built)  # never twice in a process
    assert len(built) <= 36  # the two share laws at the end only


def test_one_blas_thread_while_any_thread_is_inside():
    from threadpoolctl import threadpool_info

    def most():
        return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

    with blas_threads(2):
        before = most()
        with one_blas_thread():
            with ThreadPoolExecutor(2) as pool:
                pool.submit(st.sweep, st.grid(task=st.Task(5, 1, 2.0), classifier=st.Pooled()))
                assert pool.submit(most).result() == 1
            assert most() == 1
        assert most() == before == 2


def test_cells_say_what_fixes_their_numbers():
    """Parameters that change nothing do not change the key; every other does."""
    task, simulated = st.Task(5, 1, 2.0), dict(kind="simulation", dim=30)
    cell = st.Cell(task, st.Attention(), st.Protocol(), **simulated)
    key = cell.units()[0].key
    for change in (
        dict(seed=1), dict(dtype="float32"), dict(device="cuda"), dict(dim=31),
        dict(sampler="tokens"), dict(task=st.Task(5, 1, 2.5)), dict(classifier=st.Pooled()),
        dict(protocol=st.Protocol(loss=st.Huber(0.5))), dict(classifier=st.Attention(0.5, 1.0)),
    ):  # fmt: skip
        assert replace(cell, **change).units()[0].key != key, change
    for change in (dict(test_samples=99), dict(repeats=4), dict(seed=0.0), dict(dim=30.0)):
        assert replace(cell, **change).units()[0].key == key, change
    tokens = replace(cell, sampler="tokens")
    assert replace(tokens, test_samples=99).units()[0].key != tokens.units()[0].key
    assert replace(tokens, reuse_data=True).units()[0].key != tokens.units()[0].key
    theory = replace(cell, kind="theory")
    assert replace(theory, dim=None, seed=7).units()[0].key == theory.units()[0].key


def test_a_device_is_looked_for_where_the_work_is_done():
    cells = st.grid(
        task=st.Task(5, 1, 2.0), classifier=st.Pooled(), kind="simulation", dim=30, device="cuda:9"
    )
    (row,) = st.sweep(cells).itertuples()
    assert row.status == "failed" and "device must be" in row.message


def deadly(unit):
    if unit.cell.task.strength == 4.0:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(unit)


@pytest.mark.parametrize("processes", [1, 2])
def test_work_that_always_kills_its_process_is_recorded_as_failed(monkeypatch, processes):
    monkeypatch.setattr("sparsetoken.studies.execution.answer", deadly)
    strengths = [1.0, 4.0, 2.0, 3.0, 5.0]
    cells = st.grid(length=5, sparsity=1, strength=strengths, classifier=st.Pooled())
    by_strength = st.sweep(cells, None, processes).set_index("strength")
    assert by_strength.message[4.0] == "the process that computed it died, 4 times"
    assert by_strength.status.to_dict() == {
        each: "failed" if each == 4.0 else "ok" for each in strengths
    }


def test_an_executor_that_breaks_says_how_to_resume(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsetoken.studies.execution.answer", deadly)
    path = tmp_path / "runs.sqlite"
    cells = st.grid(length=5, sparsity=1, strength=[2.0, 4.0], classifier=st.Pooled())
    with ProcessPoolExecutor(1) as pool, pytest.raises(st.ExecutorError) as broken:
        st.sweep(cells, path, pool)
    assert "of 2 rows are finished and kept in" in str(broken.value)
    assert "run the same again to compute the rest" in str(broken.value)
    monkeypatch.undo()
    assert st.sweep(cells, path).status.tolist() == ["ok", "ok"]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (dict(length=5, sparsity=1, strength=[], classifier=st.Pooled()), "strength must have"),
        (dict(length=5, sparsity=1, strenght=1.0, classifier=st.Pooled()), "'strenght' must be"),
        (dict(length=5, sparsity=1, strength=1.0), "classifier must be given"),
        (dict(length=5, classifier=st.Pooled()), "Task needs more: sparsity, strength"),
        (dict(task="x", classifier=st.Pooled()), "task must be a Task"),
        (
            dict(task=st.Task(5, 1, 2.0), protocol=None, classifier=st.Pooled()),
            "must be a Protocol",
        ),
        (dict(task=st.Task(5, 1, 2.0), classifier=st.Pooled(), seed="x"), "seed must be"),
        (dict(task=st.Task(5, 1, 2.0), classifier=st.Pooled(), sampler="x"), "sampler must be"),
        (dict(task=st.Task(5, 1, 2.0), classifier=st.Pooled(), reuse_data="false"), "reuse_data"),
        (dict(task=st.Task(5, 1, 2.0), classifier=st.Pooled(), repeats=10**9), "repeats must be"),
        (
            dict(
                task=st.Task(5, 1, 2.0),
                classifier=st.Pooled(),
                kind="separability",
                dim=9,
                device="cuda",
            ),
            "device must be None for a separability",
        ),
        (dict(length=5, sparsity=9, strength=1.0, classifier=st.Pooled()), "sparsity must be"),
        (dict(task=st.Task(5, 1, 2.0), classifier=st.Pooled(), kind="dream"), "kind must be"),
        (dict(task=st.Task(5, 1, 2.0), classifier=st.Pooled(), kind="simulation"), "dim must be"),
        (
            dict(task=st.Task(5, 1, 2.0), classifier=st.Pooled(), kind="simulation", dim=-1),
            "dim must be a whole number",
        ),
    ],
)
def test_wrong_grids(axes, words):
    with pytest.raises(InvalidInput, match=words):
        st.grid(**axes)


def test_wrong_sweeps():
    with pytest.raises(InvalidInput, match="at least one"):
        st.sweep([])
    with pytest.raises(InvalidInput, match="must be Cell objects"):
        st.sweep(["cell"])
    for cells in (st.Cell(st.Task(5, 1, 2.0), st.Pooled(), st.Protocol()), None, 3):
        with pytest.raises(InvalidInput, match="must be a list of Cell objects"):
            st.sweep(cells)


@pytest.mark.parametrize("executor", [0, True, "two", ProcessPoolExecutor])
def test_wrong_executors(executor, tmp_path):
    cells = st.grid(task=st.Task(5, 1, 2.0), classifier=st.Pooled())
    with pytest.raises(InvalidInput, match="executor must be None, a whole number of processes"):
        st.sweep(cells, tmp_path / "runs.sqlite", executor=executor)
    assert not (tmp_path / "runs.sqlite").exists()


def slow(unit):
    with open(f"{os.getpid()} {unit.key}", "w"):
        time.sleep(1.0)
    return answer(unit)


def test_work_that_cannot_be_sent_is_recorded_as_failed(monkeypatch):
    monkeypatch.setattr("sparsetoken.studies.execution.answer", lambda unit: answer(unit))
    (row,) = st.sweep(
        st.grid(task=st.Task(5, 1, 2.0), classifier=st.Pooled()), None, 1
    ).itertuples()
    assert row.status == "failed" and "local object" in row.message


def test_work_is_spread_over_all_processes(tmp_path, monkeypatch):
    """Four units for four processes: each takes one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparsetoken.studies.execution.answer", slow)
    strengths = [1.0, 2.0, 3.0, 4.0]
    st.sweep(st.grid(length=5, sparsity=1, strength=strengths, classifier=st.Pooled()), None, 4)
    assert len({path.name.split()[0] for path in tmp_path.iterdir()}) == 4


def test_whole_numbers_stay_whole(tmp_path):
    seeds = [2**60 + 1, 2**70]
    theory = st.grid(task=st.Task(5, 1, 2.0), classifier=st.Pooled())
    for seed in seeds:
        simulated = st.grid(
            task=st.Task(5, 1, 2.0), classifier=st.Pooled(), kind="simulation", dim=20, seed=seed
        )
        table = st.sweep(theory + simulated)
        assert str(table.seed[1]) == str(seed) and str(table.dim[1]) == "20"
        table.to_parquet(tmp_path / "table.parquet")


class SquaredHinge(type(st.SquaredHinge())):
    """A loss of the user's with the name of one of ours."""


def test_a_loss_of_the_users_has_its_own_key():
    cells = st.grid(
        task=st.Task(5, 1, 2.0), classifier=st.Pooled(), loss=[st.SquaredHinge(), SquaredHinge()]
    )
    table = st.sweep(cells)
    assert len(table) == 2 and table.loss[0] == "squared-hinge"
    assert table.loss[1].endswith(".SquaredHinge")


def test_the_progress_bar_counts_failures(capfd):
    cells = st.grid(
        length=5, sparsity=1, strength=4.0, classifier=st.Pooled(), ridge=[0.0, 1e-3],
        readout_samples=0.5,
    )  # fmt: skip
    st.sweep(cells, progress=True)
    shown = capfd.readouterr().err
    assert "2/2" in shown and "1 failed" in shown and "0:00:00" in shown

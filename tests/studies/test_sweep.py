"""`sweep`: the same table whatever happens on the way. Real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import sparsetoken as st
import sweep_study
from sparsetoken.studies import cells as cells_module
from sparsetoken.studies.cells import answer
from sweep_study import study


def same(left, right):
    """Equal to the last bit, but for how long it took."""
    left, right = (table.drop(columns="seconds") for table in (left, right))
    assert list(left.columns) == list(right.columns)
    for name in left.columns:
        a, b = left[name], right[name]
        assert ((a == b) | (a.isna() & b.isna())).all(), name


@pytest.fixture(scope="module")
def wanted():
    return st.sweep(study())


def test_a_tidy_table(wanted):
    assert len(wanted) == 4 * 6 + 12 and set(wanted.status) == {"ok"}
    assert wanted.key.is_unique
    simulated = wanted[wanted.kind == "simulation"]
    direct = st.simulate(st.Task(5, 1, 2.0), st.Attention(), st.Protocol(ridge=0.01), 60, 6, seed=0)
    chosen = simulated[(simulated.classifier == "attention") & (simulated.strength == 2.0)]
    np.testing.assert_array_equal(chosen.test_error, direct.test_error)
    np.testing.assert_array_equal(chosen.cosine, direct.cosine)
    np.testing.assert_allclose(chosen.auc, direct.auc)
    theory = wanted[(wanted.kind == "theory") & (wanted.classifier == "pooled")]
    first = st.predict(st.Task(5, 1, 2.0), st.Pooled(), st.Protocol(readout_samples=1.0))
    assert theory.test_error.iloc[0] == first.test_error
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


def start(tmp_path, processes):
    return subprocess.Popen(
        [sys.executable, sweep_study.__file__, str(tmp_path / "runs.sqlite"), str(processes)],
        start_new_session=True,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", [0, 2])
def test_kill_9_at_random_moments(wanted, tmp_path, processes):
    """Every committed row is intact, and resuming finishes the study."""
    rng = np.random.default_rng(processes)
    seen = 0
    for _ in range(12):
        process = start(tmp_path, processes)
        time.sleep(rng.uniform(0.3, 2.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if (tmp_path / "runs.sqlite").exists():
            with st.Store(tmp_path / "runs.sqlite") as store:
                found = {row["key"]: row for row in store.rows()}
            assert len(found) >= seen
            seen = len(found)
            for _, expected in wanted[wanted.key.isin(found)].iterrows():
                assert found[expected.key]["test_error"] == expected.test_error
    same(st.sweep(study(), tmp_path / "runs.sqlite"), wanted)


@pytest.mark.slow
def test_workers_that_die_are_replaced(wanted, tmp_path):
    """kill −9 of worker processes while the sweep runs: it goes on by itself."""
    killed = 0
    process = start(tmp_path, 2)
    while process.poll() is None and killed < 3:
        time.sleep(0.4)
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
        ).stdout.split()
        if listed:
            try:
                os.kill(int(listed[0]), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
    _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error.decode()
    assert killed > 0
    same(st.sweep(study(), tmp_path / "runs.sqlite"), wanted)


def deadly(unit):
    if unit.cell.task.strength == 4.0:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(unit)


def test_work_that_always_kills_its_process_is_recorded_as_failed(monkeypatch):
    monkeypatch.setattr("sparsetoken.studies.execution.answer", deadly)
    table = st.sweep(
        st.grid(length=5, sparsity=1, strength=[4.0, 2.0, 3.0], classifier=st.Pooled()), None, 1
    )
    by_strength = table.set_index("strength")
    assert by_strength.status[4.0] == "failed" and "died, 3 times" in by_strength.message[4.0]


@pytest.mark.slow
def test_two_sweeps_at_once_lose_and_double_nothing(wanted, tmp_path):
    both = [start(tmp_path, 1), start(tmp_path, 0)]
    for process in both:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error.decode()
    with st.Store(tmp_path / "runs.sqlite") as store:
        assert len(list(store.rows())) == len(wanted)
    same(st.sweep(study(), tmp_path / "runs.sqlite"), wanted)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (dict(length=5, sparsity=1, strength=[], classifier=st.Pooled()), "strength must have"),
        (dict(length=5, sparsity=1, strenght=1.0, classifier=st.Pooled()), "'strenght' must be"),
        (dict(length=5, sparsity=1, strength=1.0), "classifier must be given"),
        (dict(length=5, classifier=st.Pooled()), "Task needs more"),
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
    with pytest.raises(ValueError, match=words):
        st.grid(**axes)


def test_wrong_sweeps():
    with pytest.raises(ValueError, match="at least one"):
        st.sweep([])
    with pytest.raises(ValueError, match="must be Cell objects"):
        st.sweep(["cell"])
    with pytest.raises(ValueError, match="executor must be a whole number"):
        st.sweep(st.grid(task=st.Task(5, 1, 2.0), classifier=st.Pooled()), executor=0)

"""Questions: other tasks at test time, oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.support.errors import InvalidInput

TASK = st.Task(6, 1, 4.0)


@pytest.mark.parametrize("classifier", [st.Attention(), st.Pooled()])
def test_a_test_task_in_theory_and_simulation(classifier):
    other = replace(TASK, length=9, prevalence=0.3)
    same = dict(task=TASK, classifier=classifier, ridge=0.01, test_task=other)
    table = st.sweep(st.grid(**same) + st.grid(kind="simulation", dim=300, repeats=6, **same))
    theory = st.predict(TASK, classifier, st.Protocol(ridge=0.01)).on(other)
    assert table.test_error[0] == pytest.approx(theory.test_error, rel=1e-9)
    assert table.auc[0] == pytest.approx(theory.auc, rel=1e-9)
    run = st.simulate(TASK, classifier, st.Protocol(ridge=0.01), 300, 6)
    wanted = [run.scores(repeat, other).test_error for repeat in range(6)]
    np.testing.assert_allclose(table.test_error[1:], wanted, rtol=1e-9)
    error = np.std(wanted, ddof=1) / np.sqrt(6)
    assert abs(np.mean(wanted) - theory.test_error) < 4 * error + 3 / 300
    assert (table.test_length == 9).all() and (table.length == 6).all()


def test_wrong_test_tasks():
    with pytest.raises(
        InvalidInput, match="test_task: Vectorized: a trained readout must keep the length 6"
    ):
        st.grid(task=TASK, classifier=st.Vectorized(), test_task=replace(TASK, length=9))
    with pytest.raises(InvalidInput, match="test_task must be a Task"):
        st.grid(task=TASK, classifier=st.Pooled(), test_task=9)


def test_oracles_in_a_sweep():
    cells = [
        st.OracleCell(TASK, classifier, target)
        for classifier in (st.Attention(), st.Pooled(), None)
        for target in (None, 0.05)
    ]
    table = st.sweep(cells, executor=2)
    assert table.status.eq("ok").all() and table.key.is_unique
    best, needed = table.best_error, table.strength_needed
    assert best[0] == pytest.approx(st.oracle_error(TASK, st.Attention()), rel=1e-9)
    threshold = st.signal_threshold(TASK, st.Pooled(), error=0.05)
    assert needed[3] == pytest.approx(threshold, rel=1e-9)
    assert best[4] == pytest.approx(st.bayes_error(TASK), rel=1e-9)
    # the strength of the task is not what is asked for
    other = st.OracleCell(replace(TASK, strength=1.0), st.Pooled(), 0.05)
    assert other.units()[0].key == cells[3].units()[0].key


def test_the_bayes_error_of_a_spread_in_a_sweep_has_a_dimension():
    task = replace(TASK, signal_spread=3.0)
    cells = [st.OracleCell(task, dim=dim) for dim in (None, 4, 8)]
    table = st.sweep(cells)
    assert table.best_error[0] == 0 < table.best_error[2] < table.best_error[1]
    assert table.best_error[1] == pytest.approx(st.bayes_error(task, dim=4), rel=1e-9)
    assert table.key.is_unique and table.dim.tolist()[1:] == [4, 8]
    with pytest.raises(InvalidInput, match="dim must be a whole number of at least 1"):
        st.OracleCell(task, dim=0)

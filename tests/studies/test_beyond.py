"""Sweeps and study files beyond the paper: keys, columns, tables in TOML."""

from __future__ import annotations

import json

import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.studies.study_file import load_study
from sparsetoken.support.errors import InvalidInput

# keys as they were before weightings, varying signals and shared noise had a name
KEYS = {
    "pooled": "53125f7258562ef621a62bdd2b428c6e2d1178559fb231d78f173805a7a479b4",
    "attention": "3c8ad2fd64ac9f1a236a472272cc1749f6e1025a8284d310d96c9ee7e082566f",
    "oracle": "8e2ec701afbdc4b8e5f004e5446009b86ec23f1a3bec3a7967b82accab05c2cc",
}


def test_keys_of_the_papers_tasks_have_not_changed():
    """Stores that exist keep their answers."""
    task = st.Task(5, 1, 4.0)
    cells = {
        "pooled": st.Cell(task, st.Pooled(), st.Protocol()),
        "attention": st.Cell(task, st.Attention(0.5, 1.0), st.Protocol(), test_task=task),
        "oracle": st.OracleCell(task, st.Attention()),
    }
    assert {name: cell.units()[0].older[-1] for name, cell in cells.items()} == KEYS
    assert all(cell.units()[0].key not in KEYS.values() for cell in cells.values())


def test_every_extension_has_a_key_of_its_own():
    plain = st.Task(5, 1, 4.0)
    tasks = [
        plain, st.Task(5, 1, 4.0, token_correlation=0.1), st.Task(5, 1, st.Discrete([4.0])),
        st.Task(5, 1, st.Discrete([3.0, 5.0])), st.Task(5, st.Discrete([1, 2]), 4.0),
        st.Task(5, 1, st.Continuous("gamma", (4.0, 0.0, 1.0))),
    ]  # fmt: skip
    rules = [st.Softmax(), st.HardMax(), st.TopK(2), st.TopK(3), st.Sparsemax()]
    cells = [st.Cell(task, st.Attention(), st.Protocol()) for task in tasks]
    cells += [st.Cell(plain, st.Attention(weighting=rule), st.Protocol()) for rule in rules[1:]]
    cells += [st.OracleCell(task, st.Attention()) for task in tasks]
    cells += [st.OracleCell(plain, st.Attention(weighting=rule)) for rule in rules[1:]]
    keys = [cell.units()[0].key for cell in cells]
    assert len(set(keys)) == len(keys)


def test_a_sweep_and_its_store(tmp_path):
    cells = st.grid(
        length=5, sparsity=1, strength=[st.Discrete([3.0, 5.0]), 4.0], token_correlation=[0.0, 0.3],
        classifier=[st.Attention(0.9, 1.0, st.HardMax()), st.Pooled()], ridge=0.01,
    )  # fmt: skip
    table = st.sweep(cells, tmp_path / "store.sqlite")
    assert (table.status == "ok").all() and len(table) == 8
    assert set(table.weighting.dropna()) == {"HardMax()"}
    assert "Discrete(values=(3.0, 5.0), weights=(0.5, 0.5))" in set(table.strength)
    again = st.sweep(cells, tmp_path / "store.sqlite")
    assert again.test_error.tolist() == table.test_error.tolist()


def test_a_study_file(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("""
classifier = "attention"
weighting = ["softmax", "top-2"]
cosine = 0.9
sharpness = 1.0
[task]
length = 6
sparsity = {values = [1, 2]}
strength = [4.0, {values = [3, 5], weights = [1, 3]}, {family = "gamma", parameters = [4, 0, 1]}]
token_correlation = 0.2
""")
    cells = load_study(path)
    assert len(cells) == 6
    assert {cell.classifier.weighting for cell in cells} == {st.Softmax(), st.TopK(2)}
    assert cells[0].task.sparsity == st.Discrete([1, 2])
    assert st.Continuous("gamma", (4.0, 0.0, 1.0)) in [cell.task.strength for cell in cells]


@pytest.mark.parametrize("line, message", [
    ("strength = {value = [3]}", r"strength must be a number, \{values = "),
    ("strength = {values = []}", "values must be 1 to 10000 numbers"),
    ("strength = {family = 'nothing', parameters = [1]}", "family must be the name"),
    ("strength = {}", r"strength must be a number, \{values = "),
    ("strength = 3\ntoken_correlation = 2", "token_correlation must be a number"),
])  # fmt: skip
def test_wrong_study_files(tmp_path, line, message):
    path = tmp_path / "study.toml"
    path.write_text(f"classifier = 'pooled'\n[task]\nlength = 6\nsparsity = 1\n{line}\n")
    with pytest.raises(InvalidInput, match=message):
        load_study(path)
    path.write_text(path.read_text().replace("'pooled'", "'attention'\nweighting = 'top'"))
    with pytest.raises(InvalidInput, match=r"weighting must be one of softmax|study"):
        load_study(path)


def test_commands(capsys):
    task = "--length 6 --sparsity 1:3,2:1 --strength 3:1,5:1 --prevalence 0.4".split()
    assert main(["predict", *task, "--weighting", "top-2", "--json"]) == 0
    rows = {row["classifier"]: row for row in json.loads(capsys.readouterr().out)}
    mixed = st.Task(6, st.Discrete([1, 2], [3, 1]), st.Discrete([3, 5]), 0.4)
    found = st.predict(mixed, st.Attention(weighting=st.TopK(2)), st.Protocol())
    assert rows["attention"]["test_error"] == pytest.approx(found.test_error, rel=1e-9)
    assert "vectorized" in rows
    shared = [*task, "--token-correlation", "0.2"]
    assert main(["capacity", *shared, "--json"]) == 0
    answer = capsys.readouterr()
    assert "vectorized is left out: Vectorized: token_correlation must be 0" in answer.err
    assert len(json.loads(answer.out)) == 2
    assert main(["predict", *shared, "--classifiers", "vectorized"]) == 2
    assert "Vectorized: token_correlation must be 0" in capsys.readouterr().err
    assert main(["oracle", *task, "--weighting", "hard-max", "--json"]) == 0
    answer = capsys.readouterr()
    assert [row["classifier"] for row in json.loads(answer.out)] == ["attention", "pooled", "bayes"]
    assert "vectorized is left out: oracle_error: task must have one strength" in answer.err
    for wrong, words in (
        (["--weighting", "top-0"], "weighting must be one of softmax"),
        (["--strength", "a:b"], "values with weights such as 3:0.25"),
        (["--strength", "3,3"], "values must differ"),
        (["--sparsity", "1.5"], "sparsity must be a whole number"),
    ):
        assert main(["predict", *task, *wrong]) == 2
        error = capsys.readouterr().err
        assert words in error and len(error.splitlines()) == 1, error

"""The command line as a person and as a program use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.reproduction.reproduce import CLAIMS

TASK = "--length 10 --sparsity 1 --strength 5".split()


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_predict_prints_what_the_library_computes(capsys):
    code, out, _ = run(capsys, "predict", *TASK, "--curve", "1", "4", "inf", "--json")
    rows = json.loads(out)
    assert code == 0 and len(rows) == 3 * len(list(st.CLASSIFIERS))
    protocol = st.Protocol()
    for row in rows:
        classifier = st.CLASSIFIERS.make(row["classifier"])
        samples = float(row["readout_samples"])
        want = st.predict(st.Task(10, 1, 5.0), classifier, protocol.with_readout_samples(samples))
        assert row["test_error"] == pytest.approx(want.test_error, abs=1e-10)
        assert row["train_loss"] == pytest.approx(want.train_loss, rel=1e-7)


def test_what_has_no_theory_is_left_out_unless_it_was_chosen(capsys):
    code, out, err = run(capsys, "predict", "--length", "30000", *TASK[2:], "--json")
    assert code == 0 and "attention is left out: Attention: the law of a task needs" in err
    assert [row["classifier"] for row in json.loads(out)] == ["vectorized", "pooled"]


def test_tables_for_people(capsys):
    code, out, _ = run(capsys, "predict", *TASK, "--classifiers", "pooled", "--loss", "square")
    assert code == 0 and "test error" in out and "pooled" in out and "attention" not in out
    code, out, _ = run(capsys, "capacity", *TASK, "--cosine", "0.95", "--sharpness", "1")
    assert code == 0 and "2.9501" in out and "29.501" in out


def test_simulate_prints_theory_beside_what_the_library_simulates(capsys):
    arguments = "--dim 60 --repeats 4 --seed 3 --ridge 0.01 --json".split()
    code, out, err = run(capsys, "simulate", *TASK, *arguments)
    rows = json.loads(out)
    assert code == 0 and err == ""
    protocol = st.Protocol(ridge=0.01)
    for row in rows:
        classifier = st.CLASSIFIERS.make(row["classifier"])
        task = st.Task(10, 1, 5.0)
        wanted = st.simulate(task, classifier, protocol, 60, 4, seed=3)
        assert row["simulation"] == pytest.approx(wanted.mean(row["quantity"]), rel=1e-9)
        assert row["repeats"] == 4
        if row["standard_error"] > 0:
            shown = wanted.sem(row["quantity"])
            gap = (row["simulation"] - row["theory"]) / row["standard_error"]
            assert row["standard_error"] == pytest.approx(shown, rel=1e-9)
            # theory has a standard error of its own
            assert 0 < row["difference_in_standard_errors"] / gap < 1 + 1e-9
    names = {row["quantity"] for row in rows if row["classifier"] == "attention"}
    assert {"test_error", "train_loss", "cosine", "norm", "bias", "readout_norm"} <= names
    theory = {(row["classifier"], row["quantity"]): row["theory"] for row in rows}
    prediction = st.predict(st.Task(10, 1, 5.0), st.Attention(), protocol, dim=60)
    assert theory["attention", "test_error"] == pytest.approx(prediction.test_error, rel=1e-9)
    assert theory["attention", "cosine"] == pytest.approx(prediction.cosine, rel=1e-9)


def test_simulate_says_which_repeats_have_no_fit(capsys):
    arguments = "--dim 10 --prevalence 0.02 --repeats 12 --classifiers pooled".split()
    code, out, err = run(capsys, "simulate", *TASK, *arguments, "--readout-samples", "2")
    assert code == 0 and "one class only" in err and "of 12 repeats" in err and "pooled" in out


def test_oracle_of_what_is_learned(capsys):
    task = ["--length", "100", "--sparsity", "1", "--strength", "4", "--prevalence", "0.3"]
    code, out, err = run(
        capsys, "oracle", *task, "--samples", "0.45", "2", "--error", "0.2", "--json"
    )
    rows = json.loads(out)
    assert code == 0 and "hard between 0.39" in err
    assert [row["hard"] for row in rows] == [True, True, False, False]
    curve = st.bayes_curve(st.Task(100, 1, 4.0, 0.3), [0.45, 2.0])
    assert [rows[0]["test_error"], rows[3]["test_error"]] == pytest.approx(
        curve.test_error.tolist()
    )
    assert rows[1]["remark"] == "the fewest for 0.2"
    assert rows[1]["test_error"] == pytest.approx(0.2, abs=1e-3)
    assert rows[2]["reachable_test_error"] < 0.2


def test_oracle(capsys):
    code, out, _ = run(capsys, "oracle", *TASK, "--error", "0.05", "--json")
    rows = {row["classifier"]: row for row in json.loads(out)}
    assert code == 0 and set(rows) == {*st.CLASSIFIERS, "bayes"}
    assert rows["pooled"]["error"] == pytest.approx(0.21459765022, abs=1e-10)
    assert rows["pooled"]["standard_error"] == 0
    assert rows["attention"]["error"] < rows["pooled"]["error"]
    assert rows["attention"]["strength_needed"] < rows["pooled"]["strength_needed"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ["predict", *TASK[:-1], "-5"],
            "strength must be a number at least 0 and at most 1e+06, got -5.0",
        ),
        (["predict", *TASK[:-1], "strong"], "--strength"),
        (["predict", "--length", "10"], "--sparsity"),
        (["predict", *TASK, "--loss", "hinge"], "squared-hinge"),
        (["predict", *TASK, "--cosine", "0.5"], "cosine and sharpness must be given together"),
        (["predict", *TASK, "--ridge", "0"], "use a positive ridge"),
        (
            ["predict", *TASK, "--ridge", "nan"],
            "ridge must be a number at least 0 and at most 1e+12, got nan",
        ),
        (["predict", *TASK, "--curve", "0"], "readout_samples must be a number at least 1e-06"),
        (["predict", *TASK, "--nonsense", "1"], "--nonsense"),
        (["capacity", *TASK, "--prevalence", "1"], "prevalence must be a number above 0 and below"),
        (["oracle", *TASK, "--error", "0.7"], "error"),
        (["oracle", *TASK, "--samples", "-1"], "samples"),
        (["oracle", *TASK, "--samples"], "samples must be at least one number"),
        (["oracle", *TASK, "--annotated", "0.2"], "annotated"),
        (["oracle", *TASK, "--samples", "1", "--label-noise", "0.7"], "label_noise"),
        (["predict", *TASK, "--classifiers"], "classifiers must be some of"),
        (["predict", *TASK, "--readout-step", "1e308"], "readout_step must be"),
        (["predict", *TASK, "--prevalence", "1e-320"], "prevalence must be between"),
        (
            ["predict", "--length", "30000", *TASK[2:], "--classifiers", "attention"],
            "length of at most 20000",
        ),
        (["simulate", *TASK, "--dim", "-1"], "dim must be a whole number of at least 2"),
        (["simulate", *TASK, "--repeats", "0"], "repeats must be a whole number of at least 1"),
        (["simulate", *TASK, "--dim", "20", "--device", "nonsense"], "device must be None"),
        (["simulate", *TASK, "--dim", "20", "--sampler", "all"], "reduced"),
        (["simulate", *TASK, "--dim", "20", "--reuse-data"], "reuse_data must be False with"),
        (["simulate", *TASK, "--dim", "20", "--readout-samples", "inf"], "readout_samples must be"),
        (["prophesy"], "prophesy"),
        ([], "predict"),
    ],
)
def test_wrong_values_are_one_line_and_exit_code_two(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and words in err, err
    assert "Traceback" not in err and "│" not in err and "tyro" not in err


@pytest.mark.parametrize("verb", ["", "predict", "simulate", "capacity", "oracle", "plan"])
def test_help(capsys, verb):
    code, out, err = run(capsys, *([verb] if verb else []), "--help")
    assert code == 0 and err == ""
    assert "usage: sparsetoken" in out
    if verb:
        assert "tokens in a sample" in out and "(required)" in out


def test_help_of_reproduce_names_every_claim(capsys):
    _, out, _ = run(capsys, "reproduce", "--help")
    assert all(name in out for name in CLAIMS)


@pytest.mark.parametrize(
    ("verb", "words"),
    [("sweep", "SQLite file"), ("export", "SQLite file"), ("reproduce", "learning-curves")],
)
def test_help_of_commands_on_files(capsys, verb, words):
    code, out, err = run(capsys, verb, "--help")
    assert code == 0 and err == "" and "usage: sparsetoken" in out and words in out


def test_version_and_module():
    for command in (["-m", "sparsetoken"], ["-c", "from sparsetoken.cli import main; main()"]):
        out = subprocess.run(
            [sys.executable, *command, "--version"], capture_output=True, text=True, check=True
        ).stdout
        version, _, about = out.rstrip().partition(" (commit ")
        assert version == f"sparsetoken {st.__version__}"
        assert about == "" or all(letter in "0123456789abcdef" for letter in about[:12])


def test_a_failed_solve_is_one_line_and_exit_code_one(capsys, monkeypatch):
    from sparsetoken.theory import newton

    monkeypatch.setattr(newton, "MOST_STEPS", 0)
    code, out, err = run(capsys, "predict", *TASK, "--classifiers", "pooled")
    assert code == 1 and out == "" and err.count("\n") == 1 and "residual" in err


@pytest.mark.parametrize("error", [ValueError, KeyError, TypeError, AttributeError, RuntimeError])
def test_a_bug_of_ours_is_shown_as_one(capsys, monkeypatch, error):
    """A traceback, where to report it, and an exit code that is no one else's."""

    def broken(*_, **__):
        raise error("on purpose")

    monkeypatch.setattr("sparsetoken.cli.questions.Predict.run", broken)
    code, out, err = run(capsys, "predict", *TASK)
    assert code == 70 and out == ""
    assert "Traceback" in err and "on purpose" in err
    assert "this is a bug in sparsetoken" in err and "Reporting a bug" in err
    assert "## Reporting a bug" in (Path(__file__).parent.parent / "README.md").read_text()


def test_programs_read_the_same_nothing_everywhere(capsys):
    """JSON has no NaN: null, in every command; infinity is a word that float() reads."""
    code, out, _ = run(capsys, "predict", *TASK, "--classifiers", "pooled", "--json")
    assert code == 0 and "NaN" not in out and json.loads(out)[0]["cosine"] is None


@pytest.mark.slow
def test_a_plan_as_json_has_no_nan(capsys):
    hopeless = "--length 1 --sparsity 1 --strength 1 --dim 20 --target-error 0.001 --json".split()
    code, out, _ = run(capsys, "plan", *hopeless)
    assert code == 0 and "NaN" not in out
    assert all(option["samples"] is None for option in json.loads(out)["options"])


def test_predict_at_your_size(capsys):
    arguments = "--dim 100 --classifiers attention --ridge 0.01 --json".split()
    code, out, _ = run(capsys, "predict", *TASK, *arguments)
    (row,) = json.loads(out)
    here = st.predict(st.Task(10, 1, 5.0), st.Attention(), st.Protocol(ridge=0.01), dim=100)
    assert code == 0 and row["test_error"] == pytest.approx(here.test_error, rel=1e-9)
    assert row["spread"] == pytest.approx(here.spread, rel=1e-9)


def test_what_does_not_fit_in_memory_is_refused_with_what_it_would_need(capsys):
    code, _, err = run(capsys, "simulate", *TASK, "--dim", "100000000")
    assert code == 2 and "GiB" in err and err.count("\n") == 1

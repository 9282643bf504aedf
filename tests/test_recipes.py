"""Every "How to add" of CONTRIBUTING.md, followed to the letter: its file, its commands."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

import sparsetoken as st

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^### How to add an? (\w+)\n(.*?)(?=^##|\Z)", TEXT, re.M | re.S))


def block(recipe, language):
    (content,) = re.findall(rf"^```{language}\n(.*?)^```$", RECIPES[recipe], re.M | re.S)
    return content


def follow(recipe, folder):
    """Write the recipe's file, run its commands; what each printed."""
    (folder / "own.py").write_text(block(recipe, "python"), encoding="utf-8")
    outputs = []
    for command in block(recipe, "console").splitlines():
        program, *arguments = shlex.split(command)
        assert program == "sparsetoken"
        run = subprocess.run(
            [sys.executable, "-m", program, *arguments], cwd=folder, capture_output=True, text=True
        )
        assert run.returncode == 0, f"{command}\n{run.stderr}"
        outputs.append(run.stdout)
    return outputs


def agree(rows, most=5.0):
    """Theory and simulation, for every row that has both."""
    compared = [row for row in rows if row["difference_in_standard_errors"] is not None]
    assert compared
    for row in compared:
        assert abs(row["difference_in_standard_errors"]) < most, row


def test_there_is_a_recipe_for_everything():
    kinds = {"loss", "classifier", "weighting", "noise", "metric", "claim", "reader"}
    assert set(RECIPES) == kinds


def test_a_loss(tmp_path):
    (output,) = follow("loss", tmp_path)
    rows = json.loads(output)
    assert {row["classifier"] for row in rows} == set(st.CLASSIFIERS)
    agree(rows)


def test_a_classifier(tmp_path):
    reduced, tokens, capacity, oracle = map(json.loads, follow("classifier", tmp_path))
    agree(reduced)
    agree(tokens)
    assert [row["classifier"] for row in capacity] == ["first-token"]
    assert 2 < capacity[0]["capacity"] < 10  # two for labels without a signal (Cover)
    errors = {row["classifier"]: row["error"] for row in oracle}
    # half the positive samples have no signal in the first token, whatever is done
    strengths = {row["classifier"]: row["strength_needed"] for row in oracle}
    assert float(strengths["first-token"]) == math.inf > float(strengths["pooled"])
    assert 0.25 < errors["first-token"] < 0.3 and errors["bayes"] < errors["first-token"]


def test_a_weighting(tmp_path):
    (output,) = follow("weighting", tmp_path)
    agree(json.loads(output))


def test_a_noise(tmp_path):
    (output,) = follow("noise", tmp_path)
    agree(json.loads(output))


def test_a_metric(tmp_path):
    forward, inverse = map(json.loads, follow("metric", tmp_path))
    for plan in (forward, inverse):
        assert plan["goal"]["name"] == "balanced-error" and plan["recommended"] == "attention"
        assert 0 < plan["options"][0]["value"] <= 0.1
    assert inverse["goal"]["target"] == 0.1


def test_a_claim(tmp_path):
    (output,) = follow("claim", tmp_path)
    assert "mean-pooling" in output
    report = (tmp_path / "made" / "report.md").read_text(encoding="utf-8")
    assert "## mean-pooling" in report and "A claim of my own" in report
    assert (tmp_path / "made" / "mean-pooling.png").stat().st_size > 1000


def test_a_reader(tmp_path):
    sample = st.Task(5, 1, 6.0).sample(80, dim=8, rng=0)
    with open(tmp_path / "bags.jsonl", "w", encoding="utf-8") as file:
        for tokens, label in zip(sample.tokens, sample.labels, strict=True):
            file.write(json.dumps({"label": int(label), "tokens": tokens.tolist()}) + "\n")
    follow("reader", tmp_path)
    with open(tmp_path / "scores.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    predicted = np.array([float(row["prediction"]) for row in rows])
    assert np.mean(predicted == sample.labels) > 0.9

"""The rules of `boundary` in made-up worlds: they hold in the right one and in no other."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from scipy.special import ndtr

from sparsetoken.oracles.detection import detection_boundary, maximum_boundary
from sparsetoken.reproduction.claim import SCALES
from sparsetoken.reproduction.claims import boundary


def theory(test, b, r):
    """By how much a test is above its boundary, in exponents of L."""
    if test == "pooled":
        return 0.5 - b
    if test == "maximum":
        return r - maximum_boundary(b)
    return r - detection_boundary(b) if b > 0.5 else 0.5 - b + r


def world(exponent=theory, gap=0.001, doubt=0.001):
    """Answers in a world where every test is L^exponent apart, the best of them Bayes."""

    def ask(cells):
        found = []
        for cell in cells:
            task = cell.task
            b = 1 - math.log(task.sparsity) / math.log(task.length)
            r = task.strength**2 / (2 * math.log(task.length))
            row = cell.parameters()
            if row["kind"] == "regret":
                row |= {"best_error": ndtr(-1.0), "regret": gap, "regret_error": 1e-4}
                row |= {"best_sharpness": task.strength / 2}
            else:
                worse = {"bayes": 0.0, "attention": 0.01}.get(row["test"], 0.5)
                # not rounded: the exponent at the panel's own point
                point = min(boundary._POINTS.values(), key=lambda p: abs(p[0] - b) + abs(p[1] - r))
                apart = 0.5 * task.length ** exponent(row["test"], *point) - worse * 0.2
                row["best_error"] = ndtr(-apart / 2)
            found.append(row | {"standard_error": doubt})
        return pd.DataFrame(found)

    return boundary.Boundary().compute(SCALES["quick"], ask)


def verdicts(table):
    return {
        check.what.split(",")[0]: check.verdict for check in boundary.Boundary().judge(table).checks
    }


def test_the_world_as_the_theory_says():
    assert set(verdicts(world()).values()) == {"holds"}
    (words,) = [
        text for text in boundary.Boundary().judge(world()).remarks if "whole plane" in text
    ]
    assert "above by 0.0010 ± 0.0001 at most" in words


def test_doubt_is_not_failure():
    found = verdicts(world(doubt=0.05))
    assert found["bayes"] == "inconclusive" and "fails" not in found.values()


@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        (lambda test, b, r: theory("maximum", b, r) if test == "bayes" else theory(test, b, r),
         "bayes"),  # nothing is better than the maximum
        (lambda test, b, r: theory("maximum" if test == "attention" else test, b, r),
         "attention"),  # attention is the maximum
        (lambda test, b, r: theory("bayes" if test == "maximum" else test, b, r), "maximum"),
        (lambda test, b, r: r - 0.1 if test == "pooled" else theory(test, b, r), "pooled"),
        (lambda test, b, r: r - b if test == "bayes" else theory(test, b, r), "bayes"),
    ],
)  # fmt: skip
def test_worlds_with_other_boundaries_fail(wrong, test):
    assert verdicts(world(wrong))[test] == "fails"


def test_a_theory_with_another_boundary_fails(monkeypatch):
    table = world()
    monkeypatch.setattr(boundary, "detection_boundary", maximum_boundary)
    found = verdicts(table)
    assert found["bayes"] == found["attention"] == found["higher criticism"] == "fails"
    monkeypatch.setattr(boundary, "maximum_boundary", lambda b: b - 0.5)
    assert verdicts(table)["maximum"] == "fails"


def test_attention_far_above_bayes_fails():
    assert verdicts(world(gap=0.01))["attention beside Bayes"] == "fails"

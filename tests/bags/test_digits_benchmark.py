"""`benchmarks/digits.py --out`: rows of the table as a file, and how they follow from seeds."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "digits.py"


@pytest.mark.slow
def test_rows_of_digits(tmp_path):
    out = tmp_path / "digits.json"
    size = "--seeds 2 --lengths 5 --bags 20 --tests 40".split()
    only = ["--only", "mean pooling", "two-step", "--out", str(out)]
    subprocess.run([sys.executable, str(SCRIPT), *size, *only], check=True, capture_output=True)
    content = json.loads(out.read_text())
    assert "--lengths 5 --bags 20" in content["command"]
    by_name = {row["classifier"]: row for row in content["rows"]}
    assert set(by_name) == {"mean pooling", "two-step"}
    for row in by_name.values():
        one, two = row["accuracies"]
        assert row["accuracy"] == pytest.approx((one + two) / 2)
        assert row["standard_error"] == pytest.approx(abs(one - two) / 2)
        assert row["median_seconds"] == pytest.approx(sum(row["seconds"]) / 2)
        apart = [a - b for a, b in zip((one, two), by_name["two-step"]["accuracies"], strict=True)]
        assert row["more_accurate_by"] == pytest.approx(math.fsum(apart) / 2)
        assert row["more_accurate_standard_error"] == pytest.approx(abs(apart[0] - apart[1]) / 2)

"""The examples run and show what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments, folder):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=600
    ).stdout


def test_digit_bags(tmp_path):
    out = run("digit_bags.py", "--bags", "300", folder=tmp_path)
    accuracy = {
        line[:20].strip(): float(line[20:].split()[0])
        for line in out.splitlines()
        if re.match(r"(mean|vectorized|attention)", line)
    }
    assert len(accuracy) == 4
    assert accuracy["attention"] > accuracy["mean"] + 0.1
    assert accuracy["attention, joint"] > 0.8
    found = int(re.search(r"the nine in (\d+)%", out)[1])
    assert found > 70
    assert (tmp_path / "digit_bags.png").read_bytes().startswith(b"\x89PNG")


def test_planted_signal(tmp_path):
    out = run("planted_signal.py", "--dim", "60", "--coloured", folder=tmp_path)
    rows = re.findall(r"^ *\d+ +([\d.]+) +([\d.]+) ± ([\d.]+)$", out, re.M)
    assert len(rows) == 4
    for theory, mean, error in (map(float, row) for row in rows[1:]):
        assert abs(theory - mean) < 4 * error + 0.5 / 60


@pytest.mark.slow
def test_token_map(tmp_path):
    out = run("token_map.py", "--slides", "40", "--out", "maps", folder=tmp_path)
    rates = re.findall(r"at rate ([\d.]+): (\d+)% of .* discovered, ([\d.]+)% wrong", out)
    assert len(rates) == 3
    for rate, found, wrong in (map(float, row) for row in rates):
        assert found > 60 and wrong < 100 * rate + 5  # of 40 new slides
    assert (tmp_path / "maps" / "token_map.png").read_bytes().startswith(b"\x89PNG")

"""The command: files, report, exit codes, resuming."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest

import sparsetoken as st
from browser import open_browser
from sparsetoken.cli import main
from sparsetoken.model.names import Names
from sparsetoken.reproduction import claim, reproduce
from sparsetoken.reproduction.claim import COLUMNS, Check
from sparsetoken.reproduction.report import sections_in
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.numerics import NUMERICS
from sparsetoken.support.provenance import commit, machine


def run(out, *names):
    return main(["reproduce", *names, "--tiny", "--out", str(out), "--processes", "1"])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduced")
    assert run(out, "rates", "lengths") == 0
    return out


def test_files_and_report(made):
    for name in ("rates", "lengths"):
        for suffix in ("png", "pdf", "csv"):
            assert (made / f"{name}.{suffix}").stat().st_size > 1000
        assert list(pd.read_csv(made / f"{name}.csv").columns) == list(COLUMNS)
    report = (made / "report.md").read_text()
    for words in ("Corollary 2", "slope -1", "Verdict: **holds**", "![rates](rates.png)"):
        assert words in report
    assert f"sparsetoken reproduce rates --tiny --seed 0 --out {made}" in report
    page = (made / "report.html").read_text()
    for words in ("θ = 5, π = 0.5; n₀/d = 2,", "square loss, λ = 1e-05", "tested at L = 3 to 80."):
        assert words in report and words in page
    assert "- *tested at other lengths*: trained on L = 10" in report


def test_a_section_of_an_older_version_is_read(made, tmp_path):
    content = json.loads((made / "rates.json").read_text())
    for name in ("settings", "commit", "numerics", "machine"):
        del content[name]
    (tmp_path / "rates.json").write_text(json.dumps(content))
    (section,) = sections_in(tmp_path, ["lengths", "rates"])
    assert section.settings == {} and section.verdict == content["verdict"]
    assert section.commit is section.numerics is section.machine is None


def test_a_claim_says_what_computed_it_and_where(made):
    report = (made / "report.md").read_text()
    for name in ("rates", "lengths"):
        content = json.loads((made / f"{name}.json").read_text())
        known, written = ((each or "").split()[:1] for each in (commit(), content["commit"]))
        assert written == known and content["numerics"] == NUMERICS
        assert content["machine"] == machine() and "cores, Python 3." in machine()
        assert f" s on {content['machine']}" in report and f", numerics {NUMERICS}." in report


def test_the_report_in_a_real_browser(made):
    with open_browser() as browser:
        page = browser.new_page()
        problems = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url[:4] == "http" and problems.append("fetch"))
        page.goto((made / "report.html").as_uri())
        widths = page.eval_on_selector_all("img", "all => all.map(i => i.naturalWidth)")
        assert len(widths) == 2 and min(widths) > 500
        assert page.locator("section").count() == 2
        page.click("a[href='#lengths']")
        assert page.locator("#lengths h2").is_visible()
        assert "✓ holds" in page.inner_text("table >> nth=0")
        page.set_viewport_size({"width": 380, "height": 800})
        assert page.evaluate("document.images[0].getBoundingClientRect().width") < 380
        assert problems == []


def test_one_claim_again_keeps_the_others_in_the_report(made):
    assert run(made, "lengths") == 0
    report = (made / "report.md").read_text()
    assert "## rates" in report and "## lengths" in report


def deadly(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_while_it_draws_is_a_sentence(made, tmp_path, monkeypatch):
    shutil.copy(made / "store.sqlite", tmp_path / "store.sqlite")
    monkeypatch.setattr(reproduce, "_draw", deadly)
    with pytest.raises(st.ExecutorError, match="the process that draws figures died"):
        reproduce.reproduce(["rates"], "tiny", tmp_path, executor=2)


def test_rows_that_failed_are_not_judged(made, tmp_path, capsys):
    shutil.copy(made / "store.sqlite", tmp_path / "store.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite")) as store:
        store.execute("UPDATE results SET status='no fit', message='too cold' WHERE repeat = 2")
        store.commit()
    assert run(tmp_path, "rates") == 1
    error = capsys.readouterr().err
    assert "rows have no result, the first because of too cold" in error
    assert not (tmp_path / "report.md").exists()
    with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite")) as store:
        store.execute("UPDATE results SET status='failed' WHERE repeat = 2")
        store.commit()
    assert run(tmp_path, "rates") == 0  # failures are tried again


def test_it_resumes_and_says_the_same(made, monkeypatch, capsys):
    before = pd.read_csv(made / "rates.csv")

    def refuse(unit):
        raise AssertionError("computed again")

    monkeypatch.setattr("sparsetoken.studies.execution.answer", refuse)
    assert run(made, "rates") == 0
    pd.testing.assert_frame_equal(pd.read_csv(made / "rates.csv"), before)
    assert "report.html" in capsys.readouterr().out


@pytest.mark.parametrize(("verdict", "code"), [("fails", 3), ("inconclusive", 0), ("holds", 0)])
def test_exit_codes(tmp_path, monkeypatch, capsys, verdict, code):
    class One(claim.Claim):
        source, sentence, panels = "Corollary 2", "One.", [claim.Panel("p", "x", "y")]

        def measure(self, scale, ask):
            return [claim.rows("p", "s", [1.0], theory=1.0)]

        def check(self, table):
            return [Check("a check", "1", "2", "equal", verdict), "A remark."]

    monkeypatch.setattr(reproduce, "CLAIMS", Names("claim", {"rates": One}))
    assert run(tmp_path, "rates") == code
    assert verdict in capsys.readouterr().out
    assert "A remark." in (tmp_path / "report.html").read_text()


def test_without_an_optional_library(tmp_path, monkeypatch, capsys):
    here = reproduce.importlib.util.find_spec
    monkeypatch.setattr(
        reproduce.importlib.util, "find_spec", lambda name: None if name == "torch" else here(name)
    )
    hint = "'architectures' needs torch (pip install 'sparsetoken[torch]')"
    assert run(tmp_path / "none", "architectures") == 2
    assert capsys.readouterr().err == f"sparsetoken: reproduce: {hint}\n"
    assert not (tmp_path / "none").exists()
    kept = {name: type(reproduce.CLAIMS.make(name)) for name in ("rates", "architectures")}
    monkeypatch.setattr(reproduce, "CLAIMS", Names("claim", kept))
    assert run(tmp_path / "all") == 0
    said = capsys.readouterr()
    assert f"left out: {hint}" in said.err and "rates" in said.out
    assert not (tmp_path / "all" / "architectures.json").exists()
    monkeypatch.undo()
    assert set(reproduce.left_out()) <= {"architectures"}


def test_commands_can_be_pasted(tmp_path):
    out = tmp_path / "with space"
    (section,) = st.reproduce(["rates"], "tiny", out)
    assert shlex.split(section.command)[-1] == str(out)


def test_wrong_names(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for bad in (str(tmp_path / "file"), ""):
        assert main(["reproduce", "rates", "--tiny", "--out", bad]) == 2
        assert "out must be a folder of its own" in capsys.readouterr().err
    assert run(tmp_path / "none", "everything") == 2
    error = capsys.readouterr().err
    assert "reproduce: claim must be one of alignment, learning-curves" in error
    assert "got 'everything'" in error
    assert not (tmp_path / "none").exists()
    assert main(["reproduce", "--quick", "--full", "--out", str(tmp_path)]) == 2
    assert "give one of --quick, --full" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="scale must be one of"):
        st.reproduce(scale="huge", out=tmp_path)


OWN = """
import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.reproduction import claim


class Halves(st.Claim):
    source, sentence = "A claim of my own", "Half of the samples is half of them."
    panels = (claim.Panel("halves", "x", "y"),)

    def measure(self, scale, ask):
        axes = dict(length=4, sparsity=1, strength=3.0, classifier=st.Pooled())
        axes["readout_samples"] = [2.0, 4.0]
        answers = ask(st.grid(**axes) + st.grid(**axes, **claim.finite(scale)))
        yield claim.compare("halves", "pooled", answers, "readout_samples", "test_error")

    def check(self, table):
        yield from claim.agreement(table, "pooled")
        yield "A remark of my own."


st.CLAIMS.register("halves", Halves)

if __name__ == "__main__":
    raise SystemExit(main())
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_claim_of_ones_own(tmp_path, processes):
    (tmp_path / "own_claim.py").write_text(OWN)
    command = [sys.executable, "own_claim.py", "reproduce", "halves", "--tiny", "--out", "made"]
    command += ["--processes", str(processes)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "made" / "report.md").read_text()
    assert "## halves" in report and "A remark of my own." in report
    assert (tmp_path / "made" / "halves.png").stat().st_size > 1000

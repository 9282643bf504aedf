"""The README keeps its word: its code runs, its commands work, the files it names exist."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import sparsetoken as st
from sparsetoken.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_code_runs_and_prints_what_its_comments_say(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    said = [float(value) for value in re.findall(r"# (0\.\d+):", code)]
    assert float(lines[0]) == pytest.approx(said[0], abs=5e-4)
    assert float(lines[-1].split()[0].strip("()")) == pytest.approx(said[1], abs=2e-4)
    assert len(lines) == 5


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.slow) if " plan " in line else line
        for line in re.findall(r"^    (sparsetoken .*)$", README, re.M)
    ],
)
def test_commands(line, capsys):
    assert main(shlex.split(line)[1:]) == 0
    assert "classifier" in capsys.readouterr().out


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^    make (\w+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_make_demo_draws_as_many_figures_as_it_says():
    """One for each claim that needs no further library."""
    drawn = [name for name in st.CLAIMS if not st.CLAIMS.make(name).needs]
    (more,) = re.findall(r"draws this figure and (\d+) more", README)
    assert int(more) == len(drawn) - 1


def test_the_changelog_says_one_thing_of_saved_classifiers():
    told = re.findall(
        r"Files of (?:saved )?classifiers[^.]*\.", (ROOT / "CHANGELOG.md").read_text()
    )
    assert len(told) == 1 and "format 2" in told[0]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text()):
        path, _, heading = link.partition("#")
        place = page.parent / path if path else page
        assert place.exists(), link
        if heading:
            titles = re.findall(r"^##+ (.*)$", place.read_text(), re.M)
            assert heading in {anchor(title) for title in titles}, link


def test_what_is_measured_names_what_measures_it():
    """Every script named on the page exists, and every `make` target."""
    page = (ROOT / "docs" / "measured.md").read_text()
    scripts = set(re.findall(r"`(benchmarks/[\w/]+\.py)", page))
    assert len(scripts) > 8 and all((ROOT / script).exists() for script in scripts), scripts
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`make ([\w-]+)`", page))
    assert targets and all(re.search(rf"^{each}:", makefile, re.M) for each in targets), targets


def anchor(title):
    """Of a heading, as Markdown's readers make it."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def test_the_cluster_guide(tmp_path, monkeypatch):
    """Its Python runs, its scripts are valid bash, its options exist."""
    guide = (ROOT / "docs" / "cluster.md").read_text()
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    (tmp_path / "guide.py").write_text(code)
    subprocess.run([sys.executable, "guide.py"], check=True, timeout=300)
    for script in re.findall(r"```bash\n(.*?)```", guide, re.S):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    helped = subprocess.run(
        [sys.executable, "-m", "sparsetoken", "sweep", "--help"], capture_output=True, text=True
    ).stdout
    for option in set(re.findall(r"sparsetoken sweep[^\n`]*", guide)):
        for flag in re.findall(r"--[a-z-]+", option.split("#")[0]):
            assert flag in helped, flag


def test_every_module_is_in_the_contributing_table():
    table = (ROOT / "CONTRIBUTING.md").read_text()
    package = ROOT / "src" / "sparsetoken"
    for path in package.rglob("*.py"):
        if not path.name.startswith("__"):
            assert f"`{path.relative_to(package)}`" in table, path.name


@pytest.mark.slow
def test_the_planning_guide():
    """Every line of its stories runs and prints what it says; its commands have these options."""
    guide = ROOT / "docs" / "planning.md"
    outcome = doctest.testfile(str(guide), module_relative=False)
    assert outcome.attempted > 20 and outcome.failed == 0
    helped = subprocess.run(
        [sys.executable, "-m", "sparsetoken", "plan", "--help"], capture_output=True, text=True
    ).stdout
    for flag in set(re.findall(r"--[a-z-]+", guide.read_text())):
        assert flag in helped, flag


@pytest.mark.slow
def test_the_guide_beyond_the_paper(capsys):
    """Every line of it runs and prints what it says; so do its commands."""
    guide = ROOT / "docs" / "beyond.md"
    outcome = doctest.testfile(str(guide), module_relative=False)
    assert outcome.attempted > 12 and outcome.failed == 0
    commands = re.findall(r"^    (sparsetoken (?!reproduce|--plugin).*)$", guide.read_text(), re.M)
    assert len(commands) == 4  # those with a plugin are in tests/test_recipes.py
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0


def test_the_guide_to_simulation():
    """Every line of it runs and prints what it says."""
    guide = ROOT / "docs" / "simulation.md"
    outcome = doctest.testfile(str(guide), module_relative=False)
    assert outcome.attempted > 4 and outcome.failed == 0


def test_the_guide_to_floors(capsys):
    """Every line of it runs and prints what it says; so does its command."""
    guide = ROOT / "docs" / "floors.md"
    outcome = doctest.testfile(str(guide), module_relative=False)
    assert outcome.attempted > 15 and outcome.failed == 0
    (command,) = re.findall(r"^    (sparsetoken oracle.*)$", guide.read_text(), re.M)
    assert main(shlex.split(command)[1:]) == 0


def test_which_tokens_of_the_guide_to_bags():
    """The bags, new ones, and the section on tokens: quick, without the other sections."""
    guide = (ROOT / "docs" / "bags.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.S)
    section = guide.split("## Which tokens?")[1].split("\n## ")[0]
    (fit,) = (block for block in blocks if "classifier = st.AttentionClassifier()" in block)
    story = "\n".join([blocks[0], fit, *re.findall(r"```python\n(.*?)```", section, re.S)])
    test = doctest.DocTestParser().get_doctest(story, {}, "bags.md", None, None)
    outcome = doctest.DocTestRunner().run(test)
    assert outcome.attempted >= 10 and outcome.failed == 0


@pytest.mark.slow
def test_the_guide_to_bags(tmp_path, monkeypatch, capsys):
    """Every line of it runs and prints what it says; then its commands, on the files it made."""
    guide = ROOT / "docs" / "bags.md"
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testfile(str(guide), module_relative=False)
    assert outcome.attempted > 12 and outcome.failed == 0
    commands = re.findall(r"^    (sparsetoken .*)$", guide.read_text(), re.M)
    assert len(commands) == 3
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0
    assert len(list((tmp_path / "maps").glob("*.png"))) == 5
    assert "prediction" in capsys.readouterr().out
    assert len((tmp_path / "tokens.csv").read_text().splitlines()) == 1 + 5 * 12


def test_the_options_of_the_guide_to_bags(capsys):
    """Those for files exist; their commands take too long to run here."""
    (section,) = re.findall(
        r"^## Your files\n(.*?)^## ", (ROOT / "docs" / "bags.md").read_text(), re.M | re.S
    )
    assert main(["fit", "--help"]) == 0
    helped = capsys.readouterr().out
    flags = set(re.findall(r"--[a-z-]+", section))
    assert len(flags) > 5 and all(flag in helped for flag in flags), flags

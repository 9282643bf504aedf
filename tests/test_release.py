"""What is released: built twice the same, checked, and used from an empty environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import sparsetoken as st
from sparsetoken.support.provenance import commit

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_commit_of_a_checkout_of_a_wheel_and_of_nothing(tmp_path):
    if (ROOT / ".git").exists() and shutil.which("git"):
        head = subprocess.run(
            ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout
        known = commit()
        assert known is not None and head.startswith(known.split()[0]) and len(known) >= 12
    package = tmp_path / "src" / "sparsetoken"
    package.mkdir(parents=True)
    assert commit(package) is None
    (package / "built_from.txt").write_text("0123456789abcdef with changes\n")
    assert commit(package) == "0123456789ab with changes"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_of_another_projects_repository_is_not_ours(tmp_path):
    package = tmp_path / "env" / "sparsetoken"
    package.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    assert commit(package) is None


def test_metadata():
    """Pythons that are tested, addresses that exist, nothing that only developers have."""
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={versions[0]}" and versions == sorted(versions)
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in versions
    tested = (ROOT / "scripts" / "pythons").read_text()
    assert all(version in tested for version in versions)
    assert PROJECT["urls"] == {"Paper": "https://arxiv.org/abs/2509.25153"}
    citation = (ROOT / "CITATION.cff").read_text()
    assert "2509.25153" in citation
    assert re.findall(r"^version: (.*)$", citation, re.M) == [st.__version__]
    assert re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", st.__version__)  # semantic
    assert f"## {st.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_what_is_promised_is_there():
    """docs/stability.md names every command; the page of claims that are tested is no longer."""
    from sparsetoken.cli import Command

    promised = (ROOT / "docs" / "stability.md").read_text()
    commands = {kind.__name__.lower() for kind in Command.__args__}
    assert all(f"`{name}`" in promised for name in commands), commands
    assert f"The version is {st.__version__}" in promised


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="builds what is committed")
def test_a_release_from_end_to_end(tmp_path):
    """`make dist` with one Python and one environment, from the wheel alone."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*command):
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    builder = tmp_path / "builder" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "builder")
    pins = ("--constraint", "constraints.txt")
    run(
        builder, "-m", "pip", "install", "--quiet", *pins, *PROJECT["optional-dependencies"]["dist"]
    )
    env["BUILDER"] = str(builder)
    said = run("scripts/dist", tmp_path / "dist")
    assert said.count("PASSED") == 2 and said.count(" bytes ") == 2
    (wheel,), (sdist,) = (list((tmp_path / "dist").glob(f"*.{end}")) for end in ("whl", "tar.gz"))
    assert wheel.stat().st_size < 3e6
    with zipfile.ZipFile(wheel) as packed:
        files = packed.namelist()
        assert not [name for name in files if not name.startswith(("sparsetoken/", "sparsetoken-"))]
        assert "sparsetoken/py.typed" in files and "sparsetoken/__init__.pyi" in files
        baked = packed.read("sparsetoken/built_from.txt")
        times = {each.date_time for each in packed.infolist()}
    assert len(times) == 1  # that of the commit
    with tarfile.open(sdist) as packed:
        inside = packed.extractfile(f"sparsetoken-{st.__version__}/src/sparsetoken/built_from.txt")
        assert inside.read() == baked
    said = run(sys.executable, "scripts/check-wheel", wheel, "--extra", "app", "--only")
    assert f"sparsetoken {st.__version__} (commit {baked.decode()[:12]})" in said

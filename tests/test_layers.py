"""Doors between rooms, and no others: every import in the syntax trees, lazy ones included.

The picture is in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "sparsetoken"

# Inside a room a file imports only files above it in this list.
ROOMS = {
    "support": (
        "errors checks estimate arrays devices memory blas processes progress text pages "
        "showing whole_files numerics plugins provenance"
    ).split(),
    "model": (
        "signals places noise covariances layout task weightings clouds envelopes losses cuts "
        "scores compression geometry law preprocessing attention coloured classifiers vectorized "
        "names protocol queries coloured_queries words"
    ).split(),
    "theory": (
        "query_spread coloured_alignment alignment saddle several newton several_capacity capacity "
        "fit asymptotics fluctuations several_fluctuations training_sets finite_size prediction "
        "preprocessing"
    ).split(),
    "oracles": (
        "thresholds exact linear laws extremes symmetric attention bayes posterior whitening "
        "oracle learning_data prior learning_equation bayes_learning "
        "detection regret"
    ).split(),
    "fitting": (
        "algebra objective newton interior fit calibration separability groups low_rank joint"
    ).split(),
    "simulation": (
        "devices gram pooling outcome settings coloured reduced tokens spiked message_passing "
        "results experiment universality"
    ).split(),
    "simulation/architectures": "models training".split(),
    "studies": (
        "questions cells departures learners oracles store execution sweep rehearsal study_file"
    ).split(),
    "reproduction/claims": (
        "learning_curves alignment separation capacity crossover rates training lengths "
        "weightings boundary learning departures universality colours architectures"
    ).split(),
    "reproduction": "claim report reproduce".split(),
    "planning": (
        "learners metrics ridges tuning reuse unknowns whitening report advice floors plan outlook"
    ).split(),
    "bags": (
        "stacks summary bags labels walking source groups merging leakage intervals repeats "
        "mixture likelihood carriers units training_data token_maps noise whitening queries "
        "poolings token_passes posterior statistics bag_model preparation training classes "
        "parameters classifier estimators held_out comparison views diagnosis measured anchors "
        "forecast findings estimate pilot subsampling evaluation_size report_pictures report "
        "judgement fit_report token_model token_posterior maps saved_tokens saved_models storage"
    ).split(),
    "bags/readers": (
        "untrusted npz folders hdf5 table_files label_tables tables delimited parquet kmers airr "
        "long_table anndata_file array_files npy_files pickle_instructions pickled_tensors "
        "torch_files safetensors_files parquet_files zarr_files clam_pt torchmil slideflow slides "
        "one_file_a_bag loading collection"
    ).split(),
    "figures": "style files panels charts token_maps results".split(),
    "app": (
        "state numbers maps sample story reasons export snippets answers workers simulations "
        "guard sessions server explore"
    ).split(),
    "cli": "output tasks questions planning bags scoring explorer studies".split(),
}
DOORS = {  # rooms, and figures, that a room may import; support is open to all
    "support": set(),
    "figures": set(),
    "model": set(),
    "theory": {"model", "figures"},
    "oracles": {"model", "theory", "figures"},
    "fitting": {"model"},
    "simulation": {"model", "fitting", "figures"},
    "studies": {"model", "theory", "oracles", "simulation", "figures"},
    "reproduction": {"model", "theory", "oracles", "simulation", "studies", "figures"},
    "planning": {"model", "theory", "oracles", "simulation", "figures"},
    "bags": {"model", "theory", "oracles", "fitting", "planning", "figures"},
    "app": {"model", "theory", "oracles", "simulation", "planning", "figures"},
    "cli": {"model", "studies", "reproduction"},  # all else by its public name
}
ONLY = {  # of a room that may be imported, these files alone
    ("fitting", "model"): {"losses", "envelopes"},
    ("oracles", "theory"): {"query_spread"},
}
OWNERS = {  # a heavy library, and the only files that may import it
    "lazy_loader": {"__init__.py"},
    "matplotlib": {
        f"figures/{name}.py" for name in "style files panels charts token_maps results".split()
    },
    "tyro": {"cli/__init__.py", "cli/bags.py", "cli/scoring.py", "cli/studies.py", "cli/tasks.py"},
    "rich": {"cli/output.py", "progress.py"},
    "torch": {"devices.py", "simulation/architectures/training.py"},
    "array_api_compat": {"arrays.py"},
    "threadpoolctl": {"blas.py"},
    "sqlite3": {"store.py"},
    "starlette": {f"app/{name}.py" for name in ("guard", "sessions", "server")},
    "uvicorn": {"app/guard.py", "app/explore.py"},
    "distributed": {"execution.py"},
    "mpi4py": {"execution.py"},
    "pyarrow": {f"bags/readers/{name}.py" for name in ("parquet", "parquet_files", "table_files")},
    "zarr": {"bags/readers/zarr_files.py"},
    "h5py": {"bags/readers/hdf5.py", "bags/readers/anndata_file.py"},
    "openpyxl": {"bags/readers/table_files.py"},
    "sklearn": {
        f"bags/{name}.py"
        for name in (
            "labels training_data token_maps classes classifier comparison token_posterior "
            "saved_tokens storage"
        ).split()
    },
}
NOT_THEORY_OF_LAWS = {"task", "classifiers", "vectorized", "protocol"}


def files():
    return sorted(ROOT.rglob("*.py"))


def imports(path):
    """Dotted names a file imports anywhere, except for type checking alone."""
    tree = ast.parse(path.read_text())
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped |= set(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def place(path):
    """The room of a file and, where it has one, its inner room: ("simulation/architectures", …)."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts) or None


def test_every_file_is_in_the_picture():
    for room, names in ROOMS.items():
        found = {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}
        assert found == set(names), room
    rooms = {place(path) for path in files()} - {None}
    assert rooms == set(ROOMS)


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_doors(path):
    here = place(path)
    room = here and here.split("/")[0]
    for name in imports(path):
        parts = name.split(".")
        if name == "sparsetoken":
            assert room in (None, "cli"), f"{path.name} imports the package itself"
        elif parts[0] == "sparsetoken" and room:
            target = parts[1]
            allowed = {room, "support"} | DOORS[room]
            assert target in allowed, f"{path.name} imports {name}"
            if (room, target) in ONLY and len(parts) > 2:
                assert parts[2] in ONLY[room, target], f"{path.name} imports {name}"
            inner = "/".join(parts[1:-1])
            if inner == here and path.stem != "__init__" and parts[-1] in ROOMS[here]:
                order = ROOMS[here]
                assert order.index(parts[-1]) < order.index(path.stem), f"{path.name}: {name}"
        if parts[0] in OWNERS:
            owners = OWNERS[parts[0]]
            file = str(path.relative_to(ROOT))
            assert any(file.endswith(owner) for owner in owners), f"{file} imports {name}"


@pytest.mark.parametrize("name", ["saddle", "newton", "fit", "asymptotics", "capacity"])
def test_solver_and_capacity_know_laws_not_tasks(name):
    for imported in imports(ROOT / "theory" / f"{name}.py"):
        parts = imported.split(".")
        if parts[:2] == ["sparsetoken", "model"] and len(parts) > 2:
            assert parts[2] not in NOT_THEORY_OF_LAWS, imported


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_nobody_asks_for_the_class_of_a_classifier(path):
    """What differs between classifiers is a method of theirs."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            kinds = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            assert not kinds & {"Attention", "Pooled", "Vectorized"}, ast.unparse(node)


RESULTS = ("theory", "oracles", "simulation", "planning", "bags")


@pytest.mark.parametrize("room", RESULTS)
def test_results_draw_when_they_are_asked_to(room):
    """Their files import `figures` inside of functions alone: matplotlib takes its time."""
    for path in (ROOT / room).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "sparsetoken.figures" not in ast.unparse(node), path.name


def test_import_is_light_and_every_public_name_resolves():
    code = """
import sys, sparsetoken
heavy = {"matplotlib", "pandas", "sklearn", "scipy.stats", "scipy.optimize", "tyro", "rich"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
estimators = set(sys.argv[1:])
drawing = {"reproduce", "CLAIMS", "Claim"}
for name in set(sparsetoken.__all__) - drawing - estimators:
    assert getattr(sparsetoken, name) is not None
assert set(sparsetoken.__all__) <= set(dir(sparsetoken))
sparsetoken.predict(sparsetoken.Task(3, 1, 2.0), sparsetoken.Pooled(), sparsetoken.Protocol())
assert not (heavy - {"scipy.optimize"}) & set(sys.modules), heavy & set(sys.modules)
assert len(estimators) == 21
assert all(getattr(sparsetoken, name) is not None for name in estimators | drawing)
try:
    sparsetoken.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise SystemExit("an unknown name did not raise")
"""
    needs_sklearn = (
        "estimators comparison forecast fit_report findings pilot storage token_maps "
        "token_posterior maps saved_tokens"
    ).split()
    names = [name for name, home in public_names() if home in {f"bags.{x}" for x in needs_sklearn}]
    subprocess.run([sys.executable, "-c", code, *names], check=True)


def public_names():
    """Names and homes in the stub, in order."""
    for node in ast.walk(ast.parse((ROOT / "__init__.pyi").read_text(encoding="ascii"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.name, node.module) for alias in node.names)


def test_every_public_name_stands_once_and_has_a_home():
    import sparsetoken

    names = [name for name, _ in public_names()]
    assert len(names) == len(set(names)) and {*names, "__version__"} == set(sparsetoken.__all__)
    for name, home in public_names():
        assert hasattr(sys.modules.get(f"sparsetoken.{home}", sparsetoken), name), name
        assert (ROOT / f"{home.replace('.', '/')}.py").exists(), home


@pytest.mark.slow
def test_a_checker_knows_the_public_names(tmp_path):
    """The stub is what a user's type checker reads: a right use passes, a wrong one does not."""
    lines = [
        "import sparsetoken as st",
        "loss: st.Loss = st.Logistic()",
        "rule: st.Weighting = st.TopK(3)",
        "kinds: list[st.Classifier] = [st.Attention(weighting=rule), st.Vectorized(), st.Pooled()]",
        "made: st.Classifier = st.CLASSIFIERS.make('pooled')",
        "task = st.Task(length=10, sparsity=1, strength=5.0)",
        "why: str | None = kinds[0].possible(task)",
        "error: float = st.predict(task, made, st.Protocol(loss=loss)).test_error",
        "bags: st.Bags = st.load_bags('bags.npz')[0]",
    ]
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text("\n".join(lines) + "\n")
    wrong.write_text("import sparsetoken as st\nst.Task(length='ten', sparsity=1, strength=5.0)\n")

    def check(path):
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", path],
            capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT.parent)},
        )  # fmt: skip

    assert check(right).returncode == 0, check(right).stdout
    assert "Argument" in check(wrong).stdout


def test_every_public_name_has_a_docstring():
    import sparsetoken

    for name in sparsetoken.__all__:
        if name != "__version__":
            assert len(getattr(sparsetoken, name).__doc__) > 20, name

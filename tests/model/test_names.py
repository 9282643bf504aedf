"""One table of names: there and back, what is allowed, and classes of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import get_args, get_type_hints

import pytest

import sparsetoken as st
from sparsetoken.model.names import Names
from sparsetoken.support.errors import InvalidInput

MADE = {
    st.LOSSES: {
        "square": st.Square(), "logistic": st.Logistic(), "squared-hinge": st.SquaredHinge(),
        "huber": st.Huber(),
    },
    st.WEIGHTINGS: {
        "softmax": st.Softmax(), "hard-max": st.HardMax(), "sparsemax": st.Sparsemax(),
        "top-1": st.TopK(1), "top-12": st.TopK(12),
    },
    st.CLASSIFIERS: {
        "attention": st.Attention(), "vectorized": st.Vectorized(), "pooled": st.Pooled(),
    },
}  # fmt: skip
PAIRS = [(table, name, thing) for table, made in MADE.items() for name, thing in made.items()]


@pytest.mark.parametrize(("table", "name", "thing"), PAIRS, ids=[name for _, name, _ in PAIRS])
def test_there_and_back(table, name, thing):
    assert table.make(name) == thing and table.name(thing) == name


def test_every_name_is_in_this_test():
    for table, made in MADE.items():
        assert {table.kind(thing) for thing in made.values()} == set(table)


def test_an_object_with_other_numbers_has_a_kind_and_no_name():
    assert st.LOSSES.name(st.Huber(width=2.0)) is None
    assert st.LOSSES.kind(st.Huber(width=2.0)) == "huber"
    assert st.CLASSIFIERS.name(st.Attention(0.5, 1.0)) is None
    assert st.CLASSIFIERS.kind(st.Attention(0.5, 1.0)) == "attention"

    class Pooled:
        """It bears our name and is not ours."""

    assert st.CLASSIFIERS.name(Pooled()) is None
    assert st.CLASSIFIERS.kind(Pooled()).endswith("Pooled")
    assert "." in st.CLASSIFIERS.kind(Pooled())


def test_options_go_to_those_that_have_them():
    options = {"cosine": 0.5, "sharpness": 2.0, "weighting": st.TopK(2)}
    made = {name: st.CLASSIFIERS.make(name, **options) for name in st.CLASSIFIERS}
    assert made == MADE[st.CLASSIFIERS] | {"attention": st.Attention(0.5, 2.0, st.TopK(2))}


@pytest.mark.parametrize(
    "wrong",
    ["", "top-", "top-0", "top--1", "top-K", "maximum", 3, None, ["softmax"], "top-" + "9" * 11],
)
def test_a_wrong_name_is_told_what_is_allowed(wrong):
    with pytest.raises(InvalidInput) as error:
        st.WEIGHTINGS.make(wrong, "attention")
    allowed = "softmax, hard-max, sparsemax, top-K, K from 1 to 1000000000"
    assert str(error.value) == f"attention: weighting must be one of {allowed}, got {wrong!r}"


def test_what_cannot_be_registered():
    table = Names("loss", {"square": st.Square})
    for name, kind, words in (
        ("square", st.Logistic, "must differ from those of square"),
        ("parabola", st.Square, "must differ from those of square"),
        ("Hinge", st.SquaredHinge, "words of small letters"),
        (3, st.SquaredHinge, "words of small letters"),
        ("logistic", st.Logistic(), "must be a class"),
    ):
        with pytest.raises(InvalidInput, match=words):
            table.register(name, kind)
    assert list(table) == ["square"]


def test_a_class_that_needs_more_than_its_name():
    @dataclass(frozen=True)
    class Wide:
        width: float

    table = Names("loss", {"wide": Wide})
    assert table.make("wide", width=2.0) == Wide(2.0)
    assert table.name(Wide(2.0)) is None and table.kind(Wide(2.0)) == "wide"
    with pytest.raises(InvalidInput, match=r"Protocol: loss 'wide' needs more: .*'width'"):
        table.make("wide", "Protocol")
    numbered = Names("loss", {"wide-K": Wide})
    assert numbered.make("wide-7") == Wide(7) and numbered.name(Wide(7)) == "wide-7"


def test_the_poolings_of_the_command_line_are_those_of_the_table():
    from sparsetoken.cli.bags import Fit

    assert get_args(get_type_hints(Fit)["pooling"]) == ("best", *st.ESTIMATORS)


OWN = """
from dataclasses import dataclass
import sparsetoken as st
from sparsetoken.cli import main

@dataclass(frozen=True)
class Cubic:
    def weights(self, scores):
        raw = (scores - scores.min(axis=-1, keepdims=True) + 1.0) ** 3
        return raw / raw.sum(axis=-1, keepdims=True)

@dataclass(frozen=True)
class Steep(st.Logistic):
    pass

@dataclass(frozen=True)
class Twin(st.Pooled):
    pass

st.WEIGHTINGS.register("cubic", Cubic)
st.LOSSES.register("steep", Steep)
st.CLASSIFIERS.register("twin", Twin)

if __name__ == "__main__":
    raise SystemExit(main())
"""
STUDY = """
classifier = ["twin", "pooled", "attention"]
weighting = ["cubic", "softmax"]
kind = "simulation"
dim = 20
[task]
length = 4
sparsity = 1
strength = 3.0
[protocol]
loss = "steep"
ridge = 0.1
"""


def test_a_class_of_ones_own_is_known_to_commands_and_study_files(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "study.toml").write_text(STUDY)

    def run(*arguments):
        found = subprocess.run(
            [sys.executable, "own.py", *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert found.returncode == 0, found.stderr
        return found.stdout

    task = "--length 4 --sparsity 1 --strength 3 --weighting cubic --loss steep".split()
    rows = {row["classifier"]: row for row in json.loads(run("predict", *task, "--json"))}
    assert set(rows) == {"attention", "vectorized", "pooled", "twin"}
    assert rows["twin"]["test_error"] == rows["pooled"]["test_error"]
    assert "cubic" in run("predict", "--help") and "twin" in run("predict", "--help")

    run("sweep", "study.toml", "--store", "runs.sqlite", "--processes", "2")
    run("export", "runs.sqlite", "--csv", "runs.csv")
    import pandas as pd

    table = pd.read_csv(tmp_path / "runs.csv")
    assert sorted(table.classifier) == ["attention", "attention", "pooled", "twin"]
    assert set(table.loss) == {"steep"} and set(table.weighting.dropna()) == {
        "Cubic()",
        "Softmax()",
    }
    errors = table.set_index("classifier").test_error
    assert errors["twin"] == errors["pooled"]

"""Groups of bags: never split, counted as what they are, merged into one bag each."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags import comparison, report
from sparsetoken.bags.bags import Bags
from sparsetoken.bags.classifier import BagClassifier
from sparsetoken.bags.groups import correlation, design_effect, read_groups, standard_error
from sparsetoken.bags.measured import Measured, _ranked, rank_evidence, rank_surplus
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.cli import main
from sparsetoken.support.errors import InvalidInput

ERROR = st.METRICS.make("error")


def patients(count, size, seed, shared=0.0, task=None, dim=6, signal=None):
    """Bags of patients with one label each, whose tokens share a vector of noise."""
    task = task or st.Task(6, 1, 4.0)
    sample = task.sample(count * size, dim, rng=seed, signal=signal)
    order = np.argsort(sample.labels, kind="stable")
    groups = np.repeat(np.arange(count), size)
    vectors = shared * np.random.default_rng(seed).standard_normal((count, 1, dim))
    return sample.tokens[order] + vectors[groups], sample.labels[order], groups


def random_groupings(count):
    """Groups of all sizes, labels that go with them or not; at least two groups for each class."""
    rng = np.random.default_rng(0)
    while count:
        bags, names = int(rng.integers(12, 60)), int(rng.integers(3, 25))
        groups = rng.choice(names, bags, p=rng.dirichlet(np.full(names, rng.choice([0.3, 1, 10]))))
        chance = [np.full(names, 0.4), rng.integers(2, size=names), rng.random(names)]
        labels = np.where(rng.random(bags) < chance[int(rng.integers(3))][groups], 1.0, -1.0)
        if min(len(set(groups[labels == side])) for side in (1, -1)) >= 2:
            count -= 1
            yield rng.standard_normal((bags, 2, 3)), labels, read_groups(groups, bags, "").numbers


def test_no_group_is_on_both_sides_of_any_split():
    """200 random groupings: folds, halves of halves, folds of comparisons, jackknife blocks."""
    for tokens, labels, groups in random_groupings(200):
        data = TrainingData.of(Bags.of(tokens), labels, np.ones(len(labels)), groups)
        sides = []
        for seed in range(2):
            for held in data.folds(5, seed):
                sides.append((held, ~held))
                rest = data.without(held)
                sides += [(half, ~half & ~held) for half in rest.folds(2)]
        index = (labels > 0).astype(int)
        for train, held in comparison._splits(index, groups, min(5, data.fewest), 0):
            sides.append((train, held))
            assert len(held) and sorted([*train, *held]) == list(range(len(labels)))
            assert set(index[train]) == {0, 1}
        rank, fewest = _ranked(labels, groups)
        for blocks in range(2, fewest + 1):
            for block in range(blocks):
                left = rank % blocks == block
                assert set(labels[~left]) == {1, -1}
                sides.append((left, ~left))
        assert len(sides) > 4
        for one, other in sides:
            assert not set(groups[one]) & set(groups[other])


class Watch:
    """Sees which bags are hidden, learned from and scored, by tokens that no other bag has."""

    def __init__(self, monkeypatch, tokens, groups):
        self.of = {bag[0].tobytes(): int(group) for bag, group in zip(tokens, groups, strict=True)}
        self.splits, self.broken, self.learned = 0, 0, {}
        without, folds = TrainingData.without, TrainingData.folds
        fit, decide = BagClassifier.fit, BagClassifier.decision_function

        def watched_without(data, held):
            counted = data.weights > 0
            self.compare(data.bags[counted & held], data.bags[counted & ~held])
            return without(data, held)

        def watched_folds(data, *arguments):
            counted = data.weights > 0
            for held in folds(data, *arguments):
                self.compare(data.bags[counted & held], data.bags[counted & ~held])
                yield held

        def watched_fit(classifier, X, y, *arguments, **settings):
            self.learned[id(classifier)] = self.groups(X)
            return fit(classifier, X, y, *arguments, **settings)

        def watched_decide(classifier, X, *arguments):
            self.splits += 1
            self.broken += bool(self.learned[id(classifier)] & self.groups(X))
            return decide(classifier, X, *arguments)

        monkeypatch.setattr(TrainingData, "without", watched_without)
        monkeypatch.setattr(TrainingData, "folds", watched_folds)
        monkeypatch.setattr(BagClassifier, "fit", watched_fit)
        monkeypatch.setattr(BagClassifier, "decision_function", watched_decide)

    def groups(self, bags):
        bags = Bags.of(bags)
        return {self.of.get(bags.tokens[start].tobytes(), -1) for start in bags.offsets[:-1]}

    def compare(self, one, other):
        if len(one) and len(other):
            one, other = self.groups(one), self.groups(other)
            if one != {-1}:  # tokens in other coordinates are those of a map, seen before
                self.splits += 1
                self.broken += bool(one & other)


SPLITTERS = {
    "all": lambda x, y, g: st.AttentionClassifier(reuse="all").fit(x, y, groups=g),
    "cross": lambda x, y, g: st.AttentionClassifier(reuse="cross").fit(x, y, groups=g),
    "split": lambda x, y, g: st.AttentionClassifier(reuse="split").fit(x, y, groups=g),
    "joint": lambda x, y, g: st.AttentionClassifier(query="joint").fit(x, y, groups=g),
    "posterior": lambda x, y, g: st.AttentionClassifier(query="posterior").fit(x, y, groups=g),
    "mapped": lambda x, y, g: st.PooledClassifier(token_map="auto").fit(x, y, groups=g),
    "statistics": lambda x, y, g: st.StatisticsClassifier().fit(x, y, groups=g),
    "comparison": lambda x, y, g: st.compare_poolings(
        x, y, groups=g, folds=3, poolings=["pooled", "attention"]
    ),
    "rehearsal": lambda x, y, g: st.rehearse_poolings(x, y, groups=g, poolings=["pooled"]),
    "pilot": lambda x, y, g: st.estimate_task(x, y, groups=g, blocks=3, measure=False),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_whoever_splits_keeps_groups_together(name, monkeypatch):
    tokens, labels, groups = patients(16, 4, 0)
    watch = Watch(monkeypatch, tokens, groups)
    SPLITTERS[name](tokens, labels, groups)
    assert watch.splits >= 4 and watch.broken == 0
    SPLITTERS[name](tokens, labels, None)
    assert name == "rehearsal" or watch.broken > 0  # it would have been seen


@pytest.mark.slow
def test_a_measured_pilot_keeps_groups_together(monkeypatch):
    tokens, labels, groups = patients(16, 4, 0)
    watch = Watch(monkeypatch, tokens, groups)
    pilot = st.estimate_task(tokens, labels, groups=groups, blocks=3)
    assert pilot.measured and watch.splits > 100 and watch.broken == 0


def test_nobody_else_splits():
    """What the tests above watch is all there is."""
    folder = Path(comparison.__file__).parent
    splitting = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "sklearn.model_selection":
                splitting.add(path.name)
    assert splitting == {"training_data.py", "comparison.py"}


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([1, 2], "one name for each of the 4 bags, got 2"),
        (np.zeros((4, 2)), r"got shape \(4, 2\)"),
        ([1.0, np.nan, 2.0, 3.0], "a value for each bag, got nan for bag 1"),
        (np.array(["a", None, "b", "c"], dtype=object), "got None for bag 1"),
        (["a", "b", " ", "c"], "got ' ' for bag 2"),
        (np.array([1, "a", 2, "b"], dtype=object), "names of one kind"),
        (np.zeros(4, dtype=complex), "numbers or words, got dtype complex128"),
        (np.array([{}, {}, {}, {}]), "names of one kind"),
    ],
)
def test_groups_that_cannot_be_read(groups, words):
    with pytest.raises(InvalidInput, match=f"fit: groups must .*{words}"):
        read_groups(groups, 4, "fit")
    tokens, labels = np.random.default_rng(0).standard_normal((4, 2, 3)), [0, 0, 1, 1]
    for function in (st.compare_poolings, st.rehearse_poolings, st.merge_bags):
        with pytest.raises(InvalidInput, match="groups must"):
            function(tokens, labels, **{"groups": groups})
    with pytest.raises(InvalidInput, match="groups must"):
        st.PooledClassifier().fit(tokens, labels, groups=groups)


def test_groups_too_few_to_compare():
    tokens, labels, groups = patients(8, 4, 0)
    one_class = np.where(labels > 0, 0, groups + 1)
    with pytest.raises(InvalidInput, match="at least 2 with bags of each class, got 1 for 1"):
        st.compare_poolings(tokens, labels.astype(int), groups=one_class)
    with pytest.raises(InvalidInput, match="at least 4 with bags of each class, got 1"):
        st.estimate_task(tokens, labels, groups=one_class)
    few = np.where(labels > 0, 0, 2) + groups % 2  # fewer groups than folds: fewer folds
    with pytest.warns(UserWarning, match="bags in a single one of the groups"):
        table = st.compare_poolings(tokens, labels, groups=few, poolings=["pooled"])
    assert table.error.between(0, 1).all()


def test_errors_of_groups_are_honest():
    """A level that patients share, and a label for each: known patients are told, new ones not."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 8)
    tokens = rng.standard_normal((160, 3, 30)) + 3 * rng.standard_normal((20, 1, 30))[groups]
    plain = st.compare_poolings(tokens, groups % 2, poolings=["pooled"])
    honest = st.compare_poolings(tokens, groups % 2, poolings=["pooled"], groups=groups)
    assert plain.error[1] < 0.05 and honest.error[1] > 0.3
    wrong = honest.error[1]
    assert honest.error_se[1] > 1.5 * np.sqrt(wrong * (1 - wrong) / 160)


def test_standard_errors_are_those_of_many_draws():
    """Groups with a level of their own: the spread of means over draws."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 9, 40)
    groups = np.repeat(np.arange(40), sizes)
    draws = rng.standard_normal((400, 40))[:, groups] + rng.standard_normal((400, len(groups)))
    errors = [standard_error(values, groups) for values in draws]
    assert np.mean(errors) == pytest.approx(draws.mean(axis=1).std(), rel=0.1)
    alone = rng.standard_normal((400, len(groups)))
    errors = [standard_error(values, groups) for values in alone]
    assert np.mean(errors) == pytest.approx(alone.mean(axis=1).std(), rel=0.15)
    assert standard_error(alone[0], None) == pytest.approx(alone[0].std() / np.sqrt(len(groups)))


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.8])
def test_correlations_of_groups_are_found_whatever_cells_differ_in(shared):
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(200), rng.integers(1, 7, 200))
    cells = groups % 5
    levels = np.sqrt(shared) * rng.standard_normal(200)[groups] + 10.0 * cells
    values = levels + np.sqrt(1 - shared) * rng.standard_normal(len(groups))
    assert correlation(values, cells, groups) == pytest.approx(shared, abs=0.07)
    assert correlation(values, groups, groups) == 0.0  # nothing to compare
    assert correlation(values, cells, np.arange(len(groups))) == 0.0


def test_the_design_effect_is_that_of_differences_of_means():
    """Variance of the difference of the classes' means over draws, beside independent bags."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(30), rng.integers(1, 12, 30))
    labels = np.where(rng.random(len(groups)) < rng.random(30)[groups], 1.0, -1.0)
    noise = np.sqrt(0.4) * rng.standard_normal((20_000, 30))[:, groups]
    noise += np.sqrt(0.6) * rng.standard_normal((20_000, len(groups)))
    apart = noise[:, labels > 0].mean(axis=1) - noise[:, labels < 0].mean(axis=1)
    alone = 1 / np.sum(labels > 0) + 1 / np.sum(labels < 0)
    assert design_effect(0.4, labels, groups) == pytest.approx(apart.var() / alone, rel=0.05)


def test_evidence_counts_groups():
    """Scores that groups share: what looks sure of 200 bags is chance of 20 groups."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(20), 10)
    positive = groups % 2 == 0
    evidence = []
    for _ in range(200):
        scores = rng.standard_normal(20)[groups] + 0.1 * rng.standard_normal(200)
        parts, variance = rank_surplus(scores, positive)
        evidence.append([rank_evidence(parts, variance, numbers) for numbers in (None, groups)])
    alone, grouped = np.std(evidence, axis=0)
    assert alone > 2.5 and 0.8 < grouped < 1.3


def test_jackknifes_leave_out_groups():
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(40), 10)
    labels = np.where(groups % 2 == 0, 1.0, -1.0)
    level = rng.standard_normal(40)[groups]
    scores = (1.5 * labels + level + 0.3 * rng.standard_normal(400))[None]
    strata = np.zeros((1, 400), dtype=int)
    alone = Measured("attention", 320, scores, labels, strata)
    grouped = Measured("attention", 320, scores, labels, strata, groups)
    assert alone.value(ERROR) == grouped.value(ERROR)
    assert grouped.standard_error(ERROR) > 2 * alone.standard_error(ERROR)
    assert alone.design_effect == 1 and grouped.design_effect == pytest.approx(9, abs=1.5)


@pytest.fixture(scope="module")
def grouped_pilots():
    """Of patients who share a vector of noise; of patients who share nothing."""
    answers = []
    for shared in (0.6, 0.0):
        tokens, labels, groups = patients(20, 5, 3, shared, st.Task(6, 2, 3.0))
        answers.append(st.estimate_task(tokens, labels, groups=groups, blocks=4))
    return answers


@pytest.mark.slow
def test_effective_bags_fall_where_groups_are_alike_and_not_where_they_are_not(grouped_pilots):
    alike, strangers = grouped_pilots
    assert alike.effective_bags["pooled"] < 60
    assert all(bags > 85 for bags in strangers.effective_bags.values())
    (line,) = [line for line in alike.summary().splitlines() if line.startswith("groups")]
    assert "20; scores of two bags of a group correlate by" in line
    assert "100 bags teach as much as" in line
    page = "".join(report._pilot(SimpleNamespace(pilot=alike)))
    assert f"Groups: {alike.group_sentence()}." in page and "100 bags teach as much as" in page
    content = json.loads(alike.to_json())
    assert content["effective_bags"]["pooled"] == pytest.approx(alike.effective_bags["pooled"])
    anchor = alike.anchors[1]
    assert anchor.inflation == pytest.approx(100 / alike.effective_bags["pooled"])
    assert anchor.effective(1000) == round(1000 / anchor.inflation)


@pytest.mark.slow
def test_without_groups_nothing_changes(grouped_pilots):
    sample = st.Task(6, 1, 4.0).sample(60, 6, rng=0)
    pilot = st.estimate_task(sample.tokens, sample.labels, blocks=3)
    assert pilot.effective_bags == {"attention": 60.0, "pooled": 60.0}
    assert all(anchor.inflation == 1 for anchor in pilot.anchors)
    assert "groups" not in pilot.summary()


@pytest.mark.slow
def test_patients_alone_are_no_signal():
    """Labels and noise that go with patients, nothing else: seen as a signal without groups."""
    found = []
    for seed in range(6):
        tokens, labels, groups = patients(16, 8, seed, 1.0, st.Task(6, 1, 0.0))
        pilots = [
            st.estimate_task(tokens, labels, groups=names, blocks=3, measure=False)
            for names in (groups, None)
        ]
        found.append([pilot.found for pilot in pilots])
    grouped, alone = np.sum(found, axis=0)
    assert grouped == 0 and alone >= 3


@pytest.mark.slow
def test_forecasts_of_patients_are_nearer_with_groups():
    """25 patients of 8 bags, who share noise; what 100 patients then give on strangers."""
    task, signal = st.Task(8, 2, 2.5), np.full(12, 12**-0.5)
    new, truth, _ = patients(600, 4, 999, 0.6, task, 12, signal)
    errors = {}
    for name in ("attention", "pooled"):
        values = []
        for seed in (500, 501):
            tokens, labels, groups = patients(100, 8, seed, 0.6, task, 12, signal)
            classifier = st.ESTIMATORS.make(name).fit(tokens, labels, groups=groups)
            values.append(1 - classifier.score(new, truth))
        errors[name] = float(np.mean(values))
    off = []
    for seed in range(3):
        tokens, labels, groups = patients(25, 8, seed, 0.6, task, 12, signal)
        for names in (groups, None):
            plan = st.estimate_task(tokens, labels, groups=names, blocks=4).plan(samples=800)
            off.append([abs(plan[name].value - error) for name, error in errors.items()])
    grouped, alone = np.mean(off[::2], axis=0), np.mean(off[1::2], axis=0)
    assert np.all(grouped < alone), (grouped, alone)


def test_bags_of_a_group_become_one():
    tokens = [np.full((k + 1, 2), k, dtype=float) for k in range(5)]
    names = np.array(["b", "a", "b", "c", "a"])
    merged = st.merge_bags(tokens, [0, 0, 1, 0, 0], names)
    assert merged.groups.tolist() == ["b", "a", "c"]
    assert merged.labels.tolist() == [1, 0, 0]
    assert merged.bags.lengths.tolist() == [4, 7, 4]
    assert merged.bags.tokens[:, 0].tolist() == [0] + [2] * 3 + [1] * 2 + [4] * 5 + [3] * 4
    other = st.merge_bags(tokens, [0, 0, 1, 0, 0], names, positive=0)
    assert other.labels.tolist() == [0, 0, 0]
    same = st.merge_bags(tokens, list("xyxzy"), names, rule="same")
    assert same.labels.tolist() == ["x", "y", "z"]
    assert st.merge_bags(tokens, None, names).labels is None


@pytest.mark.parametrize(
    ("labels", "settings", "words"),
    [
        ([0, 0, 1, 0], {"rule": "same"}, "must agree .*, got 0 and 1 for group 'b'"),
        ([0, 1, 2, 0], {}, "rule must be 'same' for more than two labels"),
        ([0, 1, 1, 0], {"rule": "most"}, "rule must be one of 'any', 'same'"),
        ([0, 1, 1, 0], {"positive": 7}, "positive must be one of the labels"),
        ([0, 1, 1], {}, "inconsistent numbers of samples"),
    ],
)
def test_bags_that_cannot_be_merged(labels, settings, words):
    with pytest.raises(InvalidInput, match=words):
        st.merge_bags(np.ones((4, 2, 3)), labels, list("baba"), **settings)


class Stored:
    """Bags on disk, which says what was read."""

    def __init__(self, tokens):
        self.stored, self.read = tokens, []

    def tokens(self, key):
        self.read.append(key)
        return self.stored[key]

    def coordinates(self, key):
        return np.zeros((len(self.stored[key]), 2))


def test_bags_on_disk_stay_there_until_a_merged_one_is_read():
    stored = Stored({name: np.full((k + 1, 2), k) for k, name in enumerate("pqr")})
    source = st.BagSource(("p", "q", "r"), np.array([1, 2, 3]), 2, tuple("pqr"), stored)
    merged = st.merge_bags(source, [0, 1, 0], ["x", "y", "x"])
    assert not stored.read and merged.bags.names == ("x", "y") and merged.labels.tolist() == [0, 1]
    assert merged.bags.keys == (("p", "r"), ("q",)) and merged.bags.coordinates(0) is None
    assert merged.bags.read(0).tokens[:, 0].tolist() == [0, 2, 2, 2]
    assert stored.read == ["p", "r"]
    stored.stored["r"] = np.ones((3, 5))
    with pytest.raises(InvalidInput, match=r"bag x: bags of a group must be .* of one dim"):
        merged.bags.read(0)


@pytest.fixture
def file(tmp_path):
    groups = np.repeat(np.arange(6), 2)
    tokens = np.random.default_rng(0).standard_normal((12, 6, 4))
    names = np.array([f"patient {group}" for group in groups])
    words = np.where(groups % 2 == 0, "sick", "well")
    np.savez(tmp_path / "bags.npz", X=tokens, y=words, patient=names, short=names[:3])
    return tmp_path / "bags.npz"


def test_groups_on_the_command_line(file, capsys):
    arguments = ["fit", str(file), "--poolings", "pooled", "--no-progress", "--folds", "3"]
    assert main([*arguments, "--group", "patient", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["groups"] == 6 and content["bags"] == 12 and content["warnings"] == []
    assert main([*arguments, "--group", "patient", "--merge"]) == 0
    words = capsys.readouterr().out
    assert "12 bags merged into 6, one for each group." in words
    assert "6 bags of 12 to 12 tokens" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--group", "nurse"], "bags.npz: the array nurse (groups) is missing"),
        (["--group", "short"], "one name for each of the 12 bags, got 3"),
        (["--group", "X"], "X must hold a number or a word for each bag"),
        (["--merge"], "fit: merge must come with --group"),
    ],
)
def test_wrong_groups_on_the_command_line(file, capsys, arguments, words):
    assert main(["fit", str(file), "--no-progress", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


@pytest.mark.slow
def test_a_story_of_patients_on_the_command_line(tmp_path, capsys):
    tokens, labels, groups = patients(16, 4, 0, 0.5)
    np.savez(tmp_path / "bags.npz", X=tokens, y=labels.astype(int), groups=groups)
    arguments = ["fit", str(tmp_path / "bags.npz"), "--poolings", "pooled,joint", "--no-progress"]
    model = str(tmp_path / "model")
    told = ["--group", "groups", "--folds", "3", "--save", model, "--pooling", "joint"]
    assert main([*arguments, *told]) == 0
    words = capsys.readouterr().out
    assert "64 bags in 16 groups of 6 to 6 tokens" in words
    assert "scores of two bags of a group correlate by" in words
    sentence = "Forecasts are for attention and pooled; the classifier saved is joint, of which"
    assert sentence in words
    warnings = [line.split(": ", 1)[1] for line in words.splitlines() if "Warning for" in line]
    assert len(warnings) == len(set(warnings))

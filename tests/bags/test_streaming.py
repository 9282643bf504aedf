"""Bags on disk: the same classifiers as from memory, whoever goes over them."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sparsetoken as st
from clusters import dask_cluster
from sparsetoken.bags import stacks, walking
from sparsetoken.bags.bags import SummaryKernel
from sparsetoken.cli import bags as command
from sparsetoken.cli import main, poolings
from sparsetoken.cli.output import Voice
from sparsetoken.cli.pilots import Labelled

KINDS = {
    "pooled": st.PooledClassifier(),
    "attention": st.AttentionClassifier(),
    "cross": st.AttentionClassifier(reuse="cross"),
    "split": st.AttentionClassifier(reuse="split"),
    "posterior": st.AttentionClassifier(query="posterior"),
    "hard": st.AttentionClassifier(weighting=st.HardMax()),
    "unwhitened": st.AttentionClassifier(whiten=False),
    "statistics": st.StatisticsClassifier(),
    "whitened statistics": st.StatisticsClassifier(whiten=True, inverse_width=0.0),
}


@dataclass(frozen=True)
class Npy:
    """One npy file a bag."""

    def tokens(self, key):
        if os.environ.get("SPARSETOKEN_TEST_READS"):
            with open(os.environ["SPARSETOKEN_TEST_READS"], "a") as log:
                log.write(f"{Path(key).name}\n")
        return np.load(key, allow_pickle=False)

    def coordinates(self, key):
        return None


@pytest.fixture
def small_parts(monkeypatch):
    """Many parts and pieces, as of bags that are large."""
    monkeypatch.setattr(stacks, "_PART", 1000)
    monkeypatch.setattr(stacks, "_PIECE", 300)


@pytest.fixture
def stored(tmp_path):
    """Ragged bags in files, and in memory; labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 2
    bags = [rng.standard_normal((rng.integers(3, 40), 6)) * [1, 2, 3, 4, 5, 600] for _ in labels]
    for bag, label in zip(bags, labels, strict=True):
        bag[0] += 4.0 * label
    bags = [bag.astype(np.float16) for bag in bags]
    return write(tmp_path, bags), bags, labels


def write(folder, bags):
    paths = []
    for number, bag in enumerate(bags):
        paths.append(folder / f"{number}.npy")
        np.save(paths[-1], bag)
    lengths = np.array([len(bag) for bag in bags])
    names = tuple(path.stem for path in paths)
    return st.BagSource(names, lengths, bags[0].shape[1], tuple(paths), Npy())


@pytest.mark.parametrize("kind", KINDS)
def test_from_files_as_from_memory(stored, kind, small_parts):
    source, bags, labels = stored
    memory = KINDS[kind].fit(bags, labels)
    wanted, scores = memory.coef_, memory.decision_function(bags)
    settings = (memory.shrinkage_, memory.target_, memory.sharpness_, memory.ridge_)
    streamed = KINDS[kind].fit(source, labels)
    np.testing.assert_allclose(streamed.coef_, wanted, rtol=1e-10, atol=1e-10 * abs(wanted).max())
    np.testing.assert_allclose(streamed.decision_function(source), scores, rtol=1e-9, atol=1e-9)
    assert getattr(streamed, "learned_by_", None) == getattr(memory, "learned_by_", None)
    assert settings[:3] == (streamed.shrinkage_, streamed.target_, streamed.sharpness_)


def test_little_memory_takes_more_passes_and_gives_the_same(stored, monkeypatch):
    source, _, labels = stored
    whole = st.AttentionClassifier().fit(source, labels)
    passes = count_passes(monkeypatch)
    st.AttentionClassifier().fit(source.walked(), labels)
    assert passes == {"ranges and moments": 1, "covariances": 1, "queries": 1, "features": 1}
    passes.clear()
    little = st.AttentionClassifier().fit(source.walked(memory=30_000), labels)
    assert passes["features"] > 5
    np.testing.assert_allclose(little.coef_, whole.coef_, rtol=1e-10)


def test_rounds_of_the_posterior_are_passes(stored, monkeypatch):
    """All sets of bags together where there is room for numbers of their tokens; else in turn."""
    source, _, labels = stored
    classifier = st.AttentionClassifier(query="posterior")
    passes = count_passes(monkeypatch)
    whole = classifier.fit(source.walked(), labels)
    assert passes.pop("features") <= 3  # two-step, its rival, and what is kept
    assert passes == {
        "ranges and moments": 1, "covariances": 1, "queries": 1,
        "queries of each bag": 1, "tokens along queries": 5, "weighted tokens": 3,
    }  # fmt: skip
    wanted, by = whole.coef_, whole.learned_by_
    passes.clear()
    little = classifier.fit(source.walked(memory=200_000), labels)
    assert passes["weighted tokens"] > 3 and little.learned_by_ == by
    np.testing.assert_allclose(little.coef_, wanted, rtol=1e-10)


def count_passes(monkeypatch):
    """By what they are for."""
    passes, walk = {}, st.BagSource._walk

    def counted(self, kernel):
        passes[kernel.words] = passes.get(kernel.words, 0) + 1
        return walk(self, kernel)

    monkeypatch.setattr(st.BagSource, "_walk", counted)
    return passes


def test_threads_and_this_thread_alone(stored, small_parts):
    source, _, labels = stored
    coefficients = [st.AttentionClassifier().fit(source.walked(executor=0), labels).coef_]
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as executor:
            walked = source.walked(executor=executor)
            coefficients.append(st.AttentionClassifier().fit(walked, labels).coef_)
    for other in coefficients[1:]:
        np.testing.assert_allclose(other, coefficients[0], rtol=1e-12)


@pytest.mark.slow
def test_processes(stored, small_parts):
    source, _, labels = stored
    alone, two = (
        st.AttentionClassifier().fit(source.walked(executor=executor), labels).coef_
        for executor in (0, 2)
    )
    np.testing.assert_allclose(two, alone, rtol=1e-12)


@pytest.mark.slow
def test_what_the_posterior_learns_is_the_same_everywhere(tmp_path):
    """A likelihood along its query, from memory, threads, processes, and what was kept."""
    sample = st.Task(12, 1, 4.0).sample(80, 10, rng=1)
    classifier = st.AttentionClassifier(query="posterior")
    wanted = classifier.fit(sample.tokens, sample.labels)
    assert wanted.learned_by_ == "likelihood"
    coefficients, scores = wanted.coef_, wanted.decision_function(sample.tokens)
    source = write(tmp_path, list(sample.tokens))
    kept = {"kept_in": tmp_path / "kept"}
    for settings in ({"executor": 0}, {}, {"executor": 2}, kept, kept):
        found = classifier.fit(source.walked(**settings), sample.labels)
        assert found.learned_by_ == "likelihood"
        np.testing.assert_allclose(found.coef_, coefficients, rtol=1e-12)
        np.testing.assert_allclose(found.decision_function(source), scores, rtol=1e-10)


def test_from_disk_the_posterior_is_compared_if_it_is_named(slides, capsys, monkeypatch):
    seconds = {"pooled": 1.0, "attention": 2.0, "posterior": 6.0}
    monkeypatch.setattr(poolings, "_LARGE", 0)
    monkeypatch.setattr(st, "rehearse_poolings", lambda *_, **__: seconds)
    collection = st.open_bags("slides", labels="labels.csv")
    labelled, voice = Labelled(collection.bags, collection.labels, None), Voice(False, False)
    assert command.Fit("slides")._poolings(labelled, voice) == ["pooled", "attention"]
    words = " ".join(capsys.readouterr().err.split())
    assert "posterior about 6 s: left out; --poolings posterior to have it" in words
    wanted = command.Fit("slides", pooling="posterior")
    assert wanted._poolings(labelled, voice) == list(seconds)
    named = command.Fit("slides", poolings=("posterior",))
    assert named._poolings(labelled, voice) == ["posterior"]


@pytest.mark.slow
def test_dask_with_two_workers_killed(tmp_path, monkeypatch):
    """Of three: what they had under way is done by the third."""
    import distributed

    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr(stacks, "_PART", 1000)
    sample = st.Task(20, 2, 5.0).sample(90, 12, rng=0)
    for number, tokens in enumerate(sample.tokens):
        with h5py.File(tmp_path / f"{number:02}.h5", "w") as file:
            file["features"] = tokens
    source = st.open_bags(tmp_path).bags
    wanted = st.AttentionClassifier().fit(source.walked(executor=0), sample.labels).coef_
    assert len(source) == 90 and len(list(stacks.parts(source.lengths, source.dim))) > 20
    walk = st.BagSource._walk
    with dask_cluster(tmp_path, workers=3) as (address, (_, *workers)):
        doomed = {"covariances": workers[0], "features": workers[1]}

        def walk_and_kill(self, kernel):
            for number, result in enumerate(walk(self, kernel)):
                if number == 3 and kernel.words in doomed:
                    doomed.pop(kernel.words).kill()
                yield result

        monkeypatch.setattr(st.BagSource, "_walk", walk_and_kill)
        with distributed.Client(address, timeout=30) as client:
            client.wait_for_workers(3, timeout=60)
            walked = source.walked(executor=client.get_executor(pure=False))
            found = st.AttentionClassifier().fit(walked, sample.labels).coef_
    assert not doomed
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


class LosesResults(ThreadPoolExecutor):
    """Every third result is lost when it is handed over, as Dask's can be when a worker dies."""

    def __init__(self, losses):
        super().__init__(2)
        self.submissions, self.losses = 0, losses

    def submit(self, function, *arguments):
        self.submissions += 1
        future = super().submit(function, *arguments)
        if self.submissions % 3 == 0 and self.losses:
            self.losses -= 1
            future = Future()
            future.set_exception(ValueError("not enough values to unpack"))
        return future


def test_results_that_are_lost_are_made_again():
    with LosesResults(losses=10) as executor:
        assert list(walking.Walking(executor).results(abs, range(-50, 0))) == [*range(50, 0, -1)]
    assert executor.submissions == 60
    with LosesResults(losses=0) as executor, pytest.raises(TypeError, match="bad operand"):
        list(walking.Walking(executor).results(abs, [1, "a"]))  # an error of the work's own
    assert executor.submissions == 2


def test_results_come_in_order_and_not_too_many_ahead(monkeypatch):
    monkeypatch.setattr(walking, "_AHEAD", 4)
    started = []

    def work(item):
        started.append(item)
        return item

    with ThreadPoolExecutor(3) as executor:
        for number, result in enumerate(walking.Walking(executor).results(work, range(50))):
            assert result == number
            assert len(started) <= number + 1 + 4
    assert sorted(started) == list(range(50))


def test_what_was_done_is_not_done_again(stored, tmp_path, monkeypatch):
    """Stopped in the middle: the passes that were finished are not made again."""
    source, _, labels = stored
    kept = source.walked(kept_in=tmp_path / "kept")
    wanted = st.AttentionClassifier().fit(source, labels).coef_
    passes, walk = count_passes(monkeypatch), st.BagSource._walk

    def stopped(self, kernel):
        if kernel.words == "features":
            raise KeyboardInterrupt
        return walk(self, kernel)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(st.BagSource, "_walk", stopped)
        st.AttentionClassifier().fit(kept, labels)
    assert list(passes) == ["ranges and moments", "covariances", "queries"]
    passes.clear()
    fresh = source.walked(kept_in=tmp_path / "kept")
    found = st.AttentionClassifier().fit(fresh, labels).coef_
    assert list(passes) == ["features"]
    np.testing.assert_array_equal(found, wanted)
    passes.clear()
    st.AttentionClassifier().fit(source.walked(kept_in=tmp_path / "kept"), 1 - labels)
    assert "ranges and moments" not in passes and "covariances" in passes  # other noise
    bag = np.load(source.keys[0])
    np.save(source.keys[0], bag + 1)  # as many numbers, others
    passes.clear()
    st.AttentionClassifier().fit(source.walked(kept_in=tmp_path / "kept"), labels)
    assert passes["ranges and moments"] == 1


def test_a_damaged_result_of_a_pass_is_named(stored, tmp_path):
    source, _, labels = stored
    st.PooledClassifier().fit(source.walked(kept_in=tmp_path / "kept"), labels)
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(st.InvalidInput, match=r"kept.*damaged, delete it"):
        st.PooledClassifier().fit(source.walked(kept_in=tmp_path / "kept"), labels)


def test_a_file_that_changes_is_named(stored):
    source, _, labels = stored
    np.save(source.keys[3], np.ones((2, 5)))
    with pytest.raises(st.InvalidInput, match=r"bag 3: tokens have shape \(2, 5\)"):
        st.PooledClassifier().fit(source, labels)
    np.save(source.keys[3], np.full((source.lengths[3], 6), np.nan))
    with pytest.raises(st.InvalidInput, match="bag 3: Input X contains NaN"):
        st.PooledClassifier().fit(source, labels)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"executor": -1}, "executor"),
        ({"executor": "many"}, "executor must be None, a number of processes, or an executor"),
        ({"memory": 0}, "memory"),
        ({"kept_in": "/dev/null/x"}, "kept_in must be a folder"),
    ],
)
def test_ways_that_are_not_there(stored, settings, words):
    with pytest.raises(st.InvalidInput, match=words):
        stored[0].walked(**settings)


def test_joint_training_loads_what_fits(stored, monkeypatch):
    source, _, labels = stored
    assert st.ESTIMATORS.make("joint")._pooling.suits(source)
    monkeypatch.setattr("sparsetoken.bags.source.machine_memory", lambda: 1000.0)
    assert not st.ESTIMATORS.make("joint")._pooling.suits(source)
    assert st.ESTIMATORS.make("attention")._pooling.suits(source)
    assert st.ESTIMATORS.make("posterior")._pooling.suits(source)
    with pytest.raises(st.InvalidInput, match="half of the memory"):
        st.ESTIMATORS.make("joint").fit(source, labels)


def test_tokens_by_bags(stored, small_parts):
    source, bags, labels = stored
    classifier = st.AttentionClassifier().fit(bags, labels)
    for name, wanted in classifier.token_values(bags).items():
        for one, other in zip(classifier.token_values(source)[name], wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_some_bags_of_a_source_need_no_pass_for_what_is_known(stored, monkeypatch):
    source, _, _ = stored
    assert source.summary.mean.shape == (90, 6)
    passes = count_passes(monkeypatch)
    np.testing.assert_array_equal(source[10:20].summary.mean, source.summary.mean[10:20])
    assert not passes


def test_kernels_travel_with_their_part_alone(stored):
    """A kernel that is sent with each part must not hold numbers of all bags."""
    source, _, labels = stored
    sent = []
    original = st.BagSource._walk

    def watched(self, kernel):
        part, whole = kernel.of_part(slice(0, 1)), len(pickle.dumps(kernel))
        sent.append((kernel.words, len(pickle.dumps(part)), whole))
        return original(self, kernel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(st.BagSource, "_walk", watched)
        st.AttentionClassifier().fit(source, labels)
    for words, part, whole in sent:
        if words in ("queries", "features", "covariances"):
            assert part < whole - 8 * 80  # at least a number a bag less


def test_parts_hold_all_bags_once():
    rng = np.random.default_rng(0)
    for _ in range(100):
        lengths = rng.integers(1, 10 ** rng.integers(1, 7), rng.integers(1, 40))
        spans = list(stacks.parts(lengths, int(rng.integers(1, 50))))
        assert spans[0].start == 0 and spans[-1].stop == len(lengths)
        assert all(a.stop == b.start for a, b in pairwise(spans))
        assert all(span.stop > span.start for span in spans)


def test_a_summary_is_that_of_the_tokens(stored, small_parts):
    source, bags, _ = stored
    kernel = SummaryKernel(len(source), source.dim)
    assert replace(kernel, dim=6) == kernel
    summary = source.summary
    for number, bag in enumerate(bags):
        tokens = bag.astype(float)
        np.testing.assert_allclose(summary.mean[number], tokens.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(summary.deviation[number], tokens.std(axis=0), rtol=1e-10)
        np.testing.assert_array_equal(summary.greatest[number], tokens.max(axis=0))


@pytest.fixture
def slides(tmp_path, monkeypatch):
    """A folder of npy files with a table of labels, of a machine that has hardly any memory."""
    sample = st.Task(30, 2, 6.0).sample(60, 6, rng=0)
    folder = tmp_path / "slides"
    folder.mkdir()
    lines = ["slide_id,label"]
    for number, (tokens, label) in enumerate(zip(sample.tokens, sample.labels, strict=True)):
        np.save(folder / f"s{number}.npy", tokens.astype(np.float32))
        lines.append(f"s{number},{'ill' if label > 0 else 'well'}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(st.BagSource, "fits", False)
    return tmp_path


def refused(*_, **__):
    raise st.InvalidInput("not now")


def test_fit_and_score_of_more_than_memory_holds(slides, capsys, monkeypatch):
    monkeypatch.setattr(st, "estimate_task", refused)  # takes long
    command = "fit slides --labels labels.csv --poolings attention --folds 2 --no-progress"
    assert main([*command.split(), *"--save model --keep passes --positive ill".split()]) == 0
    assert list((slides / "passes").iterdir())
    seen = capsys.readouterr()
    assert "60 bags are read in passes" in seen.err
    assert "estimated from 60 of them" in " ".join(seen.err.split())
    assert main("score model slides --out scores.csv".split()) == 0
    right = pd.read_csv("scores.csv").set_index("bag").prediction
    wanted = pd.read_csv("labels.csv").set_index("slide_id").label
    assert (right == wanted[right.index]).mean() > 0.9


def test_fit_of_some_tokens(slides, capsys, monkeypatch):
    monkeypatch.setattr(st, "estimate_task", refused)
    command = "fit slides --labels labels.csv --poolings pooled --folds 2 --max-tokens 7"
    assert main([*command.split(), "--no-progress"]) == 0
    assert "60 bags of 7 to 7 tokens in 6 dimensions" in capsys.readouterr().out


def test_what_streaming_cannot_do(slides, capsys):
    np.savez("bags.npz", X=np.ones((4, 2, 3)), y=[0, 1, 0, 1])
    assert main("fit bags.npz --keep passes".split()) == 2
    assert "keep and device are for folders of bags" in capsys.readouterr().err


def test_a_comparison_goes_over_the_files_few_times(stored, monkeypatch):
    """Ranges and moments of all bags once, for all folds and poolings; held-out bags once each."""
    source, _, labels = stored
    passes, run = {}, st.BagSource.run

    def counted(self, kernel):
        passes[kernel.words] = passes.get(kernel.words, 0) + len(self) / len(source)
        return run(self, kernel)

    monkeypatch.setattr(st.BagSource, "run", counted)
    poolings = ["pooled", "attention", "statistics"]
    st.cross_validate(source, labels, folds=3, poolings=poolings)
    assert passes.pop("ranges and moments") == 1
    # each pooling's held-out bags, but pooled's, which are in the moments
    assert passes.pop("scores") <= len(poolings)
    # covariances, queries and features of the two thirds of bags that each fold learns from
    assert all(count <= 2 * len(poolings) for count in passes.values())

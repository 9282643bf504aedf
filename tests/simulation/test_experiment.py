"""`simulate`: reproducible, honest about failures, kind about bad input."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.noise import Rademacher, Shared
from sparsetoken.simulation import experiment
from sparsetoken.simulation.experiment import run_repeat
from sparsetoken.simulation.results import QUANTITIES
from sparsetoken.simulation.settings import Settings
from sparsetoken.support.errors import InvalidInput

TASK = st.Task(length=5, sparsity=1, strength=4.0)
PROTOCOL = st.Protocol(query_samples=1.0, readout_samples=2.0, ridge=1e-2)


def numbers(run):
    return np.array([getattr(run, name) for name in QUANTITIES])


def same(left, right):
    return np.array_equal(numbers(left), numbers(right), equal_nan=True)


@pytest.mark.parametrize("sampler", ["reduced", "tokens"])
@pytest.mark.parametrize("classifier", [st.Attention(), st.Vectorized()], ids=repr)
def test_the_same_seed_gives_the_same_numbers(sampler, classifier):
    settings = dict(task=TASK, classifier=classifier, protocol=PROTOCOL, dim=20, sampler=sampler)
    first = st.simulate(**settings, repeats=5, seed=3)
    assert same(first, st.simulate(**settings, repeats=5, seed=3))
    assert not same(first, st.simulate(**settings, repeats=5, seed=4))
    assert same(first, st.simulate(**settings, repeats=5, seed=3, workers=2))
    # a longer run begins with the shorter one
    longer = st.simulate(**settings, repeats=7, seed=3)
    assert np.array_equal(numbers(longer)[:, :5], numbers(first), equal_nan=True)
    assert len(set(first.train_loss)) == 5


def test_the_stream_of_repeats_goes_on_whatever_the_environments_threads():
    code = (
        "import sparsetoken as st, sys;"
        "run = st.simulate(st.Task(5, 1, 4.0), st.Pooled(), st.Protocol(), 300, 2, seed=1);"
        "print(run.test_error.tolist(), run.train_loss.tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(outputs) == 1


def test_mean_sem_and_tables():
    run = st.simulate(TASK, st.Attention(), PROTOCOL, 40, 6, seed=0)
    values = run.test_error
    assert run.mean("test_error") == pytest.approx(values.mean())
    assert run.sem("test_error") == pytest.approx(values.std(ddof=1) / np.sqrt(6))
    frame = run.to_frame()
    assert list(frame.index) == list(range(6)) and set(QUANTITIES) <= set(frame.columns)
    table = run.summary()
    assert table.loc["cosine", "mean"] == pytest.approx(run.cosine.mean())
    assert table.loc["cosine", "lowest"] <= table.loc["cosine", "mean"]
    assert np.all(run.certificate <= 1e-8) and np.all(run.seconds > 0) and len(run) == 6
    assert np.all(run.auc > 1 - 2 * run.test_error)
    np.testing.assert_allclose(run.sharpness, PROTOCOL.inverse_temperature * run.norm)
    frozen = st.simulate(TASK, st.Attention(0.5, 2.0), PROTOCOL, 40, 2)
    assert frozen.cosine.tolist() == [0.5, 0.5] and np.isnan(frozen.norm).all()
    pooled = st.simulate(TASK, st.Pooled(), PROTOCOL, 40, 2)
    assert np.isnan(pooled.cosine).all() and "cosine" not in pooled.summary().index
    assert np.isnan(st.simulate(TASK, st.Pooled(), PROTOCOL, 40, 1).sem("test_error"))


def test_scores_of_a_repeat_on_another_task():
    run = st.simulate(TASK, st.Attention(), PROTOCOL, 100, 1, seed=5)
    assert run.scores(0).test_error == pytest.approx(run.test_error[0], rel=1e-9)
    longer = st.Task(length=50, sparsity=1, strength=4.0)
    assert run.scores(0, longer).test_error > run.test_error[0]
    vectorized = st.simulate(TASK, st.Vectorized(), PROTOCOL, 100, 1)
    with pytest.raises(InvalidInput, match="positions need a task of that length"):
        vectorized.scores(0, longer)


def test_scores_of_a_vectorized_readout_average_over_all_places():
    task = st.Task(length=6, sparsity=2, strength=3.0, prevalence=0.3, places=(1, 2, 3, 4, 5, 0))
    readout = st.Readout(np.linspace(-0.2, 0.5, 6), -1.0, 0.8)
    scores = st.Vectorized().scores(task, readout)
    assert scores.test_error == pytest.approx(
        st.Vectorized().law(task).scores(readout).test_error, abs=1e-12
    )
    # more sets of places than are enumerated: random ones
    long = st.Task(length=60, sparsity=5, strength=3.0)
    weights = np.random.default_rng(0).normal(0.3, 0.1, 60)
    many = st.Vectorized().scores(long, st.Readout(weights, -2.0, 1.0))
    places = long.sample_places(200_000, rng=1) @ weights
    sums = 3.0 * places - 2.0
    assert many.positive.mean.mean() == pytest.approx(sums.mean(), abs=0.02)
    assert many.positive.mean.std() == pytest.approx(sums.std(), rel=0.02)


def test_a_sample_of_one_class_is_reported():
    rare = st.Task(length=5, sparsity=1, strength=4.0, prevalence=0.02)
    for sampler in ("reduced", "tokens"):
        run = st.simulate(rare, st.Attention(), PROTOCOL, 10, 12, seed=1, sampler=sampler)
        assert 0 < run.failed < 12
        empty = [i for i, status in enumerate(run.status) if status != "ok"]
        assert run.status[empty[0]] == "one class only: all 20 readout samples are negative"
        assert np.isnan(run.train_error[empty]).all() and np.isnan(run.bias[empty]).all()
        # it says "negative" of every sample
        assert run.test_error[empty] == pytest.approx(0.02) and run.auc[empty] == pytest.approx(0.5)
        assert np.isfinite(run.cosine[empty]).all()  # the query was learned all the same
        assert np.isfinite(run.mean("test_error"))
        alone = run.scores(empty[0])  # it says "negative" of every sample
        assert alone.test_error == pytest.approx(0.02) and alone.auc == 0.5
        assert run.scores(empty[0], st.Task(5, 1, 4.0, 0.3)).test_error == pytest.approx(0.3)
    hopeless = st.simulate(st.Task(5, 1, 4.0, prevalence=1e-9), st.Pooled(), PROTOCOL, 10, 2)
    assert hopeless.failed == 2 and hopeless.mean("test_error") == pytest.approx(1e-9)
    assert hopeless.summary().index.tolist() == ["test_error"]


def test_a_fit_without_a_minimiser_is_reported():
    separable = st.Protocol(readout_samples=0.5, ridge=0.0)
    run = st.simulate(TASK, st.Pooled(), separable, 40, 2)
    assert run.failed == 2 and "use a positive ridge" in run.status[0]
    with pytest.raises(st.InvalidInput, match="has no readout"):
        run.scores(0)


BAD = [
    (dict(dim=-3), "dim must be a whole number of at least 2"),
    (dict(dim=1), "dim must be a whole number of at least 2 .the explicit directions"),
    (dict(dim=2.5), "dim must be a whole number"),
    (dict(repeats=0), "repeats must be a whole number of at least 1, got 0"),
    (dict(seed=-1), "seed must be a whole number of at least 0, got -1"),
    (dict(workers=0), "workers must be"),
    (dict(threads=0), "threads must be"),
    (dict(test_samples=0), "test_samples must be"),
    (dict(sampler="exact"), "sampler must be one of 'reduced', 'tokens', got 'exact'"),
    (dict(dtype="float16"), "dtype must be one of 'float64', 'float32', got 'float16'"),
    (dict(reuse_data=True), "reuse_data must be False with sampler='reduced'"),
    (dict(noise=Rademacher()), "noise must be None with sampler='reduced'"),
    (dict(noise=Rademacher, sampler="tokens"), "noise must be None or a noise such as"),
    (dict(noise="rademacher", sampler="tokens"), "noise must be None or a noise such as"),
    (dict(reuse_data=True, sampler="tokens", classifier=st.Pooled()), "without a learned query"),
    (dict(protocol=st.Protocol(readout_samples=0.01)), "readout_samples·dim must be at least 2"),
    (dict(protocol=st.Protocol(query_samples=0.001)), "query_samples·dim must be at least 1"),
    (
        dict(protocol=st.Protocol(readout_samples=np.inf)),
        "readout_samples must be finite where dim is",
    ),
    (dict(protocol=st.Protocol(query_samples=np.inf)), "query_samples must be finite where dim is"),
    (dict(task="task"), "task must be a Task"),
    (dict(classifier=st.Pooled), "classifier must be a classifier such as"),
    (dict(protocol=st.Square()), "protocol must be a Protocol"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input(change, message):
    good = dict(task=TASK, classifier=st.Attention(), protocol=PROTOCOL, dim=20, repeats=1)
    with pytest.raises(InvalidInput, match=message):
        st.simulate(**(good | change))


@dataclass(frozen=True)
class Faint:
    """A tenth of Gaussian noise: what is hidden in it is seen."""

    by_coordinates = True

    def draw(self, size, rng):
        return 0.1 * rng.standard_normal(size)


@pytest.mark.parametrize("classifier", [st.Attention(), st.Pooled(), st.Vectorized()])
def test_other_noise_at_token_level(classifier):
    options = dict(dim=30, repeats=4, seed=3, sampler="tokens", test_samples=500)
    gaussian, faint, white = (
        st.simulate(TASK, classifier, PROTOCOL, noise=noise, **options)
        for noise in (None, Faint(), Rademacher())
    )
    assert faint.test_error.max() == 0 < gaussian.test_error.min()
    difference = white.mean("test_error") - gaussian.mean("test_error")
    assert abs(difference) < 4 * np.hypot(white.sem("test_error"), gaussian.sem("test_error"))
    assert not np.array_equal(white.test_error, gaussian.test_error)


def test_tokens_share_other_noise_too():
    shared = replace(TASK, token_correlation=0.5)
    of_task, of_noise = (
        Settings(shared, st.Pooled(), PROTOCOL, 30, sampler="tokens", noise=noise).token_noise
        for noise in (None, Rademacher())
    )
    assert of_task == Shared(0.5) and of_noise == Shared(0.5, Rademacher())


def test_more_explicit_directions_than_the_law_needs():
    """The smallest dimensions: nothing but explicit directions."""
    for classifier, dim in ((st.Attention(0.3, 1.0), 2), (st.Pooled(), 1), (st.Vectorized(), 1)):
        protocol = st.Protocol(readout_samples=30.0, ridge=0.1)
        for sampler in ("reduced", "tokens"):
            run = st.simulate(TASK, classifier, protocol, dim, 2, sampler=sampler)
            assert np.isfinite(run.test_error).all()


def test_torch_that_is_not_installed():
    """Without torch a device is refused with a sentence that says what to install."""
    code = """
import sys
sys.modules["torch"] = None
import sparsetoken as st
try:
    st.simulate(st.Task(5, 1, 4.0), st.Pooled(), st.Protocol(), 20, 1, device="cuda")
except ValueError as error:
    assert "torch is not installed" in str(error) and "sparsetoken[torch]" in str(error), error
else:
    raise SystemExit("no error")
st.simulate(st.Task(5, 1, 4.0), st.Pooled(), st.Protocol(), 20, 1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_interrupting_keeps_finished_repeats(monkeypatch):
    calls = []

    def interrupted_at_the_third(settings, index):
        calls.append(index)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(settings, index)

    real = experiment.run_repeat
    monkeypatch.setattr(experiment, "run_repeat", interrupted_at_the_third)
    run = st.simulate(TASK, st.Pooled(), PROTOCOL, 20, 6)
    assert run.interrupted and len(run) == 2
    monkeypatch.undo()
    whole = st.simulate(TASK, st.Pooled(), PROTOCOL, 20, 2)
    assert same(run, whole) and not whole.interrupted


def test_interrupted_before_anything_is_finished(monkeypatch):
    def at_once(settings, index):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_repeat", at_once)
    with pytest.raises(KeyboardInterrupt):
        st.simulate(TASK, st.Pooled(), PROTOCOL, 20, 6)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_on_the_command_line_shows_what_is_finished(workers):
    command = [
        sys.executable, "-m", "sparsetoken", "simulate", "--length", "5", "--sparsity", "1",
        "--strength", "4", "--dim", "300", "--repeats", "100000", "--classifiers", "pooled",
        "--workers", workers,
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background job would start with the interrupt ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        time.sleep(8)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it too
        out, err = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 130, err
    assert "interrupted" in err and "repeats of pooled finished" in err
    assert "Traceback" not in err
    assert "test_error" in out


def test_progress_is_shown_on_request(capsys):
    st.simulate(TASK, st.Pooled(), PROTOCOL, 20, 3, progress=True)
    assert "3/3" in capsys.readouterr().err
    st.simulate(TASK, st.Pooled(), PROTOCOL, 20, 3)
    assert capsys.readouterr().err == ""


def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_processes_that_always_die_are_a_sentence(monkeypatch):
    """Not Python's BrokenProcessPool; what was finished before is not mistaken for all of it."""
    monkeypatch.setattr(experiment, "run_repeat", killed)
    with pytest.raises(st.WorkerDied, match=r"processes died 3 times .* with 4 of 4 repeats left"):
        st.simulate(TASK, st.Pooled(), st.Protocol(), 20, repeats=4, workers=2)


def dies_once(settings, index):
    flag = Path(os.environ["DIED"])
    if index == 2 and not flag.exists():
        flag.touch()
        killed()
    return run_repeat(settings, index)


def test_a_process_that_dies_once_changes_nothing(monkeypatch, tmp_path):
    wanted = st.simulate(TASK, st.Pooled(), st.Protocol(), 20, repeats=5)
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    monkeypatch.setattr(experiment, "run_repeat", dies_once)
    found = st.simulate(TASK, st.Pooled(), st.Protocol(), 20, repeats=5, workers=2)
    assert (tmp_path / "died").exists()
    np.testing.assert_allclose(found.test_error, wanted.test_error, rtol=1e-9)


def test_a_simulation_that_does_not_fit_in_memory_is_refused(monkeypatch):
    monkeypatch.setattr(experiment, "_memory", lambda: 2.0**20)
    with pytest.raises(InvalidInput, match=r"need about .* GiB with 1 at a time"):
        st.simulate(TASK, st.Pooled(), st.Protocol(), 1000, repeats=1)


def test_a_repeat_of_one_class_counts_as_what_it_is():
    """As predictions at that size have it: the mean of all training sets, not of the lucky ones."""
    task, protocol = st.Task(5, 2, 5.0, 0.05), st.Protocol(readout_samples=1.0, ridge=1e-3)
    run = st.simulate(task, st.Pooled(), protocol, dim=16, repeats=400, seed=1)
    assert run.failed > 100 and np.isfinite(run.test_error).all() and np.isfinite(run.auc).all()
    here = st.predict(task, st.Pooled(), protocol, dim=16)
    error = np.hypot(run.sem("test_error"), here.test_error.standard_error)
    assert abs(run.mean("test_error") - here.test_error) < 4 * error
    assert np.isnan(run.train_error).sum() == run.failed

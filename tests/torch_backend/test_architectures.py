"""The zoo, its training, and the claim that sets it beside the exact curves (`make test-torch`)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.reproduction.claim import COLUMNS
from sparsetoken.reproduction.claims.architectures import ArchitectureCell
from sparsetoken.reproduction.reproduce import CLAIMS
from sparsetoken.simulation.architectures.models import ARCHITECTURES
from sparsetoken.simulation.architectures.training import train_architecture
from sparsetoken.support.errors import InvalidInput

TASK = st.Task(length=5, sparsity=1, strength=5.0)
NAMES = list(ARCHITECTURES)


def parameters(name, length, dim, models=2, seed=0, scale=3.0):
    """Far from the start, in float64."""
    generator = torch.Generator().manual_seed(seed)
    return {
        key: each.centre
        + scale
        * (each.spread + 0.1)
        * torch.randn(models, *each.shape, generator=generator, dtype=torch.float64)
        for key, each in ARCHITECTURES[name].shapes(length, dim).items()
    }


def tokens_of(models, n, length, dim, seed=0):
    rng = np.random.default_rng(seed)
    return torch.as_tensor(rng.standard_normal((models, n, length, dim)))


@pytest.mark.parametrize("name", NAMES)
def test_shapes_counts_and_models_apart(name):
    models, tokens = parameters(name, 5, 12), tokens_of(2, 7, 5, 12)
    scores = ARCHITECTURES[name].scores
    both = scores(models, tokens)
    assert both.shape == (2, 7) and both.std() > 1e-3
    for index in range(2):
        alone = scores({key: value[[index]] for key, value in models.items()}, tokens[[index]])
        torch.testing.assert_close(alone[0], both[index])
    size = ARCHITECTURES[name].size(5, 12)
    assert size == sum(value[0].numel() for value in models.values())


def test_counts_by_hand():
    sizes = [ARCHITECTURES[name].size(10, 50) for name in NAMES]
    head = 2 * (50 * 32 + 32)  # keys and a query, values and a readout
    layer = 32 * 96 + 32 * 32 + 2 * 32 * 64 + 64 + 2 * 32
    assert sizes[:4] == [101, head + 1, 4 * head + 1, 50 * 32 + 2 * layer + 2 * 32 + 1]
    assert sizes[4:] == [50 * 64 + 64 + 64 + 1, 500 * 64 + 64 + 64 + 1]


@pytest.mark.parametrize("name", NAMES)
def test_order_of_tokens(name):
    """Only the flat MLP knows where a token stands."""
    models, tokens = parameters(name, 5, 12), tokens_of(2, 7, 5, 12)
    scores = ARCHITECTURES[name].scores
    gap = (scores(models, tokens) - scores(models, tokens[:, :, [3, 0, 4, 1, 2]])).abs().max()
    assert gap > 0.1 if name == "flat MLP" else gap < 1e-9


@pytest.mark.parametrize("name", NAMES[:3])
def test_attention_is_the_package_s_own(name):
    """Sums of st.Attention's features against readouts: the same formula, computed elsewhere."""
    models, tokens = parameters(name, 5, 12, models=1), tokens_of(1, 7, 5, 12)
    p = {key: value[0].numpy() for key, value in models.items()}
    if name == "simple attention":
        pairs = [(p["query"][:, 0], p["readout"][:, 0])]
    else:
        pairs = [
            (keys @ query[:, 0] / np.sqrt(12), values @ readout[:, 0])
            for keys, query, values, readout in zip(
                p["keys"], p["queries"], p["values"], p["readouts"], strict=True
            )
        ]
    expected = p["bias"][0] + sum(
        st.Attention().features(tokens[0].numpy(), query) @ readout for query, readout in pairs
    )
    found = ARCHITECTURES[name].scores(models, tokens)[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_two_layers_against_torch_s_own_layers():
    """The same weights in torch.nn.TransformerEncoderLayer."""
    width, dim, length = 32, 40, 5
    p = {key: value[0] for key, value in parameters("two layers", length, dim, 1).items()}
    tokens = tokens_of(1, 7, length, dim)
    stream = tokens[0] @ p["embedding"]
    for name in ("first", "second"):
        layer = torch.nn.TransformerEncoderLayer(
            width, 4, 2 * width, 0.0, batch_first=True, norm_first=True, dtype=torch.float64
        )
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            layer.self_attn.in_proj_weight.copy_(p[f"{name} tokens"].T)
            layer.self_attn.out_proj.weight.copy_(p[f"{name} mix"].T)
            layer.linear1.weight.copy_(p[f"{name} inner"].T)
            layer.linear1.bias.copy_(p[f"{name} inner bias"][0])
            layer.linear2.weight.copy_(p[f"{name} outer"].T)
            layer.norm1.weight.copy_(p[f"{name} norm"][0])
            layer.norm2.weight.copy_(p[f"{name} inner norm"][0])
            stream = layer(stream)
    pooled = torch.nn.functional.layer_norm(stream, (width,), p["last norm"][0]).mean(1)
    expected = (pooled @ p["readout"])[:, 0] + p["bias"]
    models = {key: value[None] for key, value in p.items()}
    found = ARCHITECTURES["two layers"].scores(models, tokens)[0]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_training_lowers_the_loss_and_repeats_reproduce(name):
    same = {"task": TASK, "name": name, "dim": 8, "samples": 200, "device": "cpu"}
    same |= {"test_samples": 2000, "epochs": 15, "seed": 3}
    trained = train_architecture(**same, repeats=2)
    again = train_architecture(**same, repeats=2)
    np.testing.assert_array_equal(trained.test_error, again.test_error)
    np.testing.assert_array_equal(trained.losses, again.losses)
    alone = train_architecture(**same, repeats=1)
    np.testing.assert_allclose(alone.losses[:3], trained.losses[:3, :, :1], rtol=1e-3)
    assert trained.losses.shape == (15, len(ARCHITECTURES[name].ridges), 2)
    assert (trained.losses[-1] < trained.losses[0]).all()
    assert (trained.train_error < 0.35).all() and (trained.test_error < 0.45).all()
    assert (trained.epochs >= 1).all() and (trained.epochs <= 15).all()
    assert set(trained.ridge.round(6)) <= set(ARCHITECTURES[name].ridges)
    assert len(set(trained.test_error)) == 2  # repeats are not the same data
    assert trained.parameters == ARCHITECTURES[name].size(5, 8)


def test_the_reported_test_error_is_that_of_the_models():
    """Counted again on other samples, by the package's own features."""
    trained = train_architecture(TASK, "simple attention", 8, 400, 1, 0, "cpu", 20_000, 30)
    query, readout, bias = (
        trained.models[key][0].double().numpy() for key in ("query", "readout", "bias")
    )
    signal = np.random.default_rng(np.random.SeedSequence([0, 0, 400]).spawn(4)[0])
    signal = signal.standard_normal(8)
    fresh = TASK.sample(20_000, 8, rng=1, signal=signal / np.linalg.norm(signal))
    scores = st.Attention().features(fresh.tokens, query[:, 0]) @ readout[:, 0] + bias
    error = np.mean(scores * fresh.labels <= 0)
    assert abs(error - trained.test_error[0]) < 4 * np.sqrt(2 * error / 20_000)
    assert error < 1.5 * st.bayes_error(TASK)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "perceiver"}, "name must be one of 'simple attention'.*got 'perceiver'"),
        ({"task": 3}, "task must be a Task, got 3"),
        ({"dim": 0}, "dim must be a whole number of at least 1, got 0"),
        ({"samples": 9}, r"samples must be .* at least 10 \(a fifth is held out\), got 9"),
        ({"repeats": 0}, "repeats must be"),
        ({"seed": -1}, "seed must be"),
        ({"epochs": 0.5}, "epochs must be"),
        ({"test_samples": 0}, "test_samples must be"),
        ({"device": "cuda:99"}, "device must be"),
    ],
)
def test_wrong_values(wrong, words):
    given = {"task": TASK, "name": "flat MLP", "dim": 8, "samples": 100, **wrong}
    with pytest.raises(InvalidInput, match=words):
        train_architecture(**given)


def test_a_row_of_a_sweep(tmp_path):
    cell = ArchitectureCell(TASK, "mean and MLP", 8, 60, 3, 0, "cpu", test_samples=500)
    table = st.sweep([cell], tmp_path / "store.sqlite")
    (row,) = table.to_dict("records")
    assert row["status"] == "ok" and row["lowest"] <= row["test_error"] <= row["highest"]
    assert row["standard_error"] > 0 and row["weights"] == ARCHITECTURES["mean and MLP"].size(5, 8)


def changed(table, series, value=None, factor=1.0, error=1e-4):
    """Another error (or exact curve) of a series, and every simulation sure of itself."""
    mine = (table.series == series) & (table.panel == "test error")
    table = table.copy()
    column = "simulation" if table[mine].simulation.notna().any() else "theory"
    table.loc[mine, column] = factor * table.loc[mine, column] if value is None else value
    table.loc[table.simulation_error.notna(), "simulation_error"] = error
    return table


WRONG = [
    {"series": "simple attention", "value": 0.01},  # below Bayes
    {"series": "simple attention", "value": 0.06},  # above the exact curve
    {"series": "exact: attention, four stages", "factor": 2.0},
    {"series": "exact: attention, four stages", "factor": 0.5},
    {"series": "exact: pooled", "factor": 1.5},
    {"series": "query, key and value", "value": 0.15},
    {"series": "several heads", "value": 0.15},
    {"series": "two layers", "value": 0.017},
    {"series": "mean and MLP", "value": 0.205},
    {"series": "mean and MLP", "value": 0.4},
    {"series": "flat MLP", "value": 0.02},
    {"series": "reference: Bayes error", "value": 0.1},
]


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_nothing_trained_by_adam_beats_the_bayes_curve(number):
    """Beside the settings of `tests/simulation/test_floor.py`."""
    rng = np.random.default_rng(number)
    length = int(rng.integers(4, 9))
    task = st.Task(length, 1, float(rng.uniform(2.5, 5.0)))
    dim, samples = 24, int(rng.integers(100, 400))
    found = train_architecture(
        task, NAMES[number], dim, samples, repeats=6, seed=number, device="cpu", epochs=30
    )
    floor = st.bayes_curve(task, [samples / dim])[0].test_error
    doubt = found.test_error.std(ddof=1) / np.sqrt(6)
    assert found.test_error.mean() > floor - 3 * doubt


@pytest.mark.slow
def test_the_claim_its_files_and_its_rules(tmp_path):
    """One test: the training is shared."""
    command = ["reproduce", "architectures", "--tiny", "--out", str(tmp_path), "--processes", "1"]
    assert main(command) == 0
    table = pd.read_csv(tmp_path / "architectures.csv")
    assert list(table.columns) == list(COLUMNS)
    claim = CLAIMS.make("architectures")
    judgement = claim.judge(table)
    assert judgement.verdict != "fails" and len(judgement.checks) == 8
    remarks = " ".join(judgement.remarks)
    assert all(f"{name}: " in remarks for name in NAMES) and "a fifth of them held out" in remarks
    report = (tmp_path / "report.md").read_text()
    assert "## architectures" in report and "Simulations in dimension 20" in report
    assert (tmp_path / "architectures.png").stat().st_size > 10_000
    for wrong in WRONG:
        assert claim.judge(changed(table, **wrong)).verdict == "fails", wrong
    for name in ("simple attention", "mean and MLP", "flat MLP"):  # missing numbers do not hold
        gone = table.copy()
        gone.loc[gone.series == name, "simulation_error"] = np.nan
        assert claim.judge(gone).verdict != "holds", name

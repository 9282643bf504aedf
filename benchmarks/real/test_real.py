"""python -m pytest benchmarks/real/test_real.py"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

sys.path.insert(0, str(Path(__file__).parent))

import calibration
import sources
from sources import Instances, NotInstalled, ReadyBags, Source


def _arrays(value):
    return value if isinstance(value, list) else [value]


@pytest.fixture
def pools():
    """Tokens whose coordinates say what they are: (number, part, target)."""
    tokens = np.stack([np.arange(60), np.arange(60) % 2, np.arange(60) % 5 == 0], axis=1)
    train = tokens[:, 1] == 0
    parts = tokens[train], tokens[train, 2] > 0, tokens[~train], tokens[~train, 2] > 0
    return Instances(*parts, length=6)


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("sparsity", [1, 3, 6])
def test_a_positive_bag_holds_sparsity_targets_of_its_part(pools, part, sparsity):
    tokens, labels = pools.bags(200, sparsity=sparsity, prevalence=0.3, part=part, rng=1)
    assert tokens.shape == (200, 6, 3) and np.sum(labels > 0) == 60
    np.testing.assert_array_equal(tokens[..., 2].sum(axis=1), np.where(labels > 0, sparsity, 0))
    assert np.all(tokens[..., 1] == (part == "test"))


def test_targets_are_at_every_place(pools):
    tokens, _ = pools.bags(2000, rng=0)
    counts = tokens[..., 2].sum(axis=0)  # 1000 targets in 6 places: 167 ± 12
    assert counts.min() > 167 - 5 * 12 and counts.max() < 167 + 5 * 12


def test_a_split_is_a_partition_with_the_share_of_targets():
    tokens = np.arange(40.0)[:, None]
    split = Instances.split(tokens, tokens[:, 0] < 8, length=2)
    assert split.train_is_target.sum() == split.test_is_target.sum() == 4
    both = np.concatenate([split.train_tokens, split.test_tokens])
    np.testing.assert_array_equal(np.sort(both, axis=0), tokens)


def test_a_source_is_made_once_and_read_back(pools, tmp_path, monkeypatch):
    calls = []
    ready = ReadyBags([np.ones((2, 3)), np.zeros((5, 3))], np.array([1, -1]))

    def make(made):
        calls.append(made)
        return made

    monkeypatch.setattr(sources, "CACHE", tmp_path)
    for made in (pools, ready):
        source = Source(lambda made=made: make(made), type(made), "", "", "", "")
        monkeypatch.setitem(sources.SOURCES, type(made).__name__, source)
        for _ in range(2):
            again = sources.load(type(made).__name__)
            assert vars(again).keys() == vars(made).keys()
            for name, value in vars(made).items():
                for one, other in zip(_arrays(value), _arrays(getattr(again, name)), strict=True):
                    np.testing.assert_array_equal(one, other)
    assert len(calls) == 2


def test_a_missing_package_is_said_with_its_command(tmp_path, monkeypatch):
    def make():
        raise ImportError("No module named 'thing'")

    monkeypatch.setattr(sources, "CACHE", tmp_path)
    source = Source(make, ReadyBags, "", "pip install thing", "", "")
    monkeypatch.setitem(sources.SOURCES, "thing", source)
    with pytest.raises(NotInstalled, match="thing needs: pip install thing"):
        sources.load("thing")
    with pytest.raises(ValueError, match="name must be one of digits-10"):
        sources.load("nothing")


@pytest.mark.parametrize("hidden", [False, True])
def test_the_network_pools_each_bag_by_its_own_softmax(hidden):
    torch = pytest.importorskip("torch")
    from attention_mil import Network

    torch.manual_seed(0)
    network, bags = Network(4, hidden), [torch.randn(length, 4) for length in (1, 3, 7)]
    bag_of = torch.tensor([0] + [1] * 3 + [2] * 7)
    with torch.no_grad():
        scores = network(torch.cat(bags), bag_of, 3)
        for score, bag in zip(scores, bags, strict=True):
            features = network.hidden(bag)
            weights = torch.softmax(network.attention(features), dim=0)
            assert score == pytest.approx(network.readout((weights * features).sum(0)).item())


def test_folds_have_a_larger_error_than_independent_tests():
    pytest.importorskip("torch")
    from summary import Group

    values = np.array([0.8, 0.9, 0.7, 0.8])
    spread = values.std(ddof=1)
    rows = pd.DataFrame()
    assert Group("mnist", 100, rows).standard_error(values) == pytest.approx(spread / 2)
    corrected = Group("musk1", 92, rows).standard_error(values)
    assert corrected == pytest.approx(spread * np.sqrt(1 / 4 + 1 / 4))


def forecasts(truth, deviates, **columns):
    """Rows of forecasts, from their normal deviates."""
    rows = {"classifier": "pooled", "family": "one", "world": "one", "pilot": 100, "samples": 300}
    rows |= {"worst": 0.5, "truth": truth, "forecast": ndtr(-np.array(deviates))}
    return pd.DataFrame(rows | columns)


def test_the_scatter_of_forecasts_is_that_around_their_mean():
    """Two pilots, both 0.5 too high: what they differ by is left; a single pilot has none."""
    rows = forecasts(ndtr(-1.0), [0.4, 0.6, 0.9], world=["one", "one", "two"])
    off = np.array([-1, 1]) * 0.1 * np.sqrt(2)  # unbiased: the mean is that of two
    scatter = calibration._scatter(rows).to_numpy()
    np.testing.assert_allclose(scatter[:2], np.abs(ndtr(-1 - off) - ndtr(-1.0)), rtol=1e-9)
    assert np.isnan(scatter[2])


def test_hindsight_moves_a_family_by_one_number():
    truth = ndtr(-np.array([0.5, 1.0, 1.5, 0.8]))
    rows = forecasts(truth, [0.25, 0.75, 1.25, 1.3], family=["one", "one", "one", "two"])
    np.testing.assert_allclose(calibration._hindsight(rows), 0.0, atol=1e-9)
    far = forecasts(truth[:2], [0.25, 1.25])  # no number is right for both
    errors = np.abs(far.forecast - far.truth)
    assert 0.01 < calibration._hindsight(far).mean() < errors.mean()


def test_the_bias_has_the_standard_error_of_pilots():
    rows = forecasts(0.2, [0.0] * 4, seed=[0, 0, 1, 1])
    rows["forecast"] = [0.22, 0.22, 0.26, 0.26]  # two pilots, 10 and 30 % too high
    assert calibration._bias(rows) == "+20.0% ± 10.0%"

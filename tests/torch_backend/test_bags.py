"""Passes over bags with torch: the numbers of NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import sparsetoken as st


@dataclass(frozen=True)
class Drawn:
    """Bags by their number."""

    dim: int = 7

    def tokens(self, key):
        rng = np.random.default_rng(key)
        tokens = rng.standard_normal((5 + key % 4, self.dim)) * np.arange(1, self.dim + 1)
        tokens[0] += 4.0 * (key % 2)
        return tokens.astype(np.float32)

    def coordinates(self, key):
        return None


@pytest.mark.parametrize(
    "classifier",
    [
        st.PooledClassifier(),
        st.AttentionClassifier(),
        st.AttentionClassifier(reuse="cross"),
        st.AttentionClassifier(query="posterior"),
        st.AttentionClassifier(weighting=st.TopK(2)),
        st.StatisticsClassifier(),
    ],
)
def test_a_fit_by_torch_is_that_by_numpy(classifier):
    keys = tuple(range(80))
    lengths = np.array([5 + key % 4 for key in keys])
    source = st.BagSource(tuple(map(str, keys)), lengths, 7, keys, Drawn())
    labels = np.array(keys) % 2
    numpy, torch = (
        classifier.fit(source.walked(device=device), labels).coef_ for device in (None, "cpu")
    )
    np.testing.assert_allclose(torch, numpy, rtol=1e-9)


def test_a_device_that_is_not_there():
    source = st.BagSource(("0",), np.array([5]), 7, (0,), Drawn())
    with pytest.raises(st.InvalidInput, match=r"BagSource.walked: device must be .* got 'nowhere'"):
        source.walked(device="nowhere")

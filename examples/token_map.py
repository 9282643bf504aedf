"""Slides with a lesion somewhere: only slides are labelled; which patches gave it away?

    python examples/token_map.py                      # a summary and token_map.png
    python examples/token_map.py --slides 60 --out maps

A slide is a piece of tissue cut into about 2000 patches with an embedding each: noise, but for the
patches of a lesion, round and of any size, in half of the slides. Only the slides are labelled.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import sparsetoken as st

PATCH, DIM, STRENGTH = 256, 32, 4.0


def tissue(rng: np.random.Generator):
    """Corners of the patches of one slide (L, 2), in a piece of any outline."""
    x, y = (grid.ravel() for grid in np.meshgrid(np.arange(64), np.arange(48)))
    angle = np.arctan2(y - 24, x - 32)
    outline = 1 + sum(
        rng.normal(0, 0.12 / k) * np.cos(k * angle + rng.normal()) for k in (1, 2, 3, 5)
    )
    inside = np.hypot((x - 32) / 29, (y - 24) / 22) < outline
    return PATCH * np.stack([x, y], axis=1)[inside].astype(float)


def slide(rng: np.random.Generator, signal, sick: bool):
    """Embeddings (L, d), corners (L, 2) and which patches are of the lesion (L,)."""
    places = tissue(rng)
    tokens = rng.standard_normal((len(places), DIM)).astype(np.float32)
    lesion = np.zeros(len(places), dtype=bool)
    if sick:
        centre = places[rng.integers(len(places))]
        lesion = np.hypot(*(places - centre).T) < PATCH * rng.uniform(1.5, 8)
        tokens[lesion] += STRENGTH * signal
    return tokens, places, lesion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slides", type=int, default=60, help="labelled slides to learn from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default=".", help="folder for the map of a new slide")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    signal = rng.standard_normal(DIM)
    signal /= np.linalg.norm(signal)
    labels = np.arange(given.slides) % 2
    bags = [slide(rng, signal, label == 1)[0] for label in labels]
    words = np.where(labels == 1, "lesion", "healthy")
    tokens = st.TokenPosterior(positive="lesion").fit(bags, words)

    new = [slide(rng, signal, k % 2 == 1) for k in range(40)]
    chances = np.concatenate(tokens.posterior([each[0] for each in new]))
    carried = np.concatenate([each[2] for each in new])
    print(f"{given.slides} labelled slides of about {len(bags[0])} patches; on 40 new slides:")
    print(f"{'probability':>12} {'patches':>8} {'of a lesion':>12}")
    for low, high in ((0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        rows = (chances >= low) & (chances < high)
        print(f"{chances[rows].mean():>12.3f} {rows.sum():>8} {carried[rows].mean():>12.3f}")
    for rate in (0.05, 0.1, 0.2):
        chosen = np.concatenate(tokens.discoveries([each[0] for each in new], rate))
        wrong, found = np.mean(~carried[chosen]), np.mean(chosen[carried])
        print(f"at rate {rate}: {found:.0%} of lesions' patches discovered, {wrong:.1%} wrong")

    shown, places, _ = max(new, key=lambda each: each[2].sum())
    (unplaced,) = st.map_tokens([shown], tokens, names=["token_map"])
    placed = st.TokenMap(**vars(unplaced) | {"name": "a new slide", "coordinates": places})
    place = Path(given.out) / "token_map.png"
    place.parent.mkdir(parents=True, exist_ok=True)
    placed.draw().savefig(place, dpi=110)
    print(f"a map of a new slide: {place}")


if __name__ == "__main__":
    main()

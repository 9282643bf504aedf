"""Maps of tokens: which ones carry the signal, and where they are; as CSV, GeoJSON and PNG.

Coordinates are the corners of patches where x and y are least, as slides are cut, or their centres,
where a format says so; a patch is as large as its distance from the nearest one. Tokens without
coordinates stand in reading order. GeoJSON is what QuPath opens (0.4 and later): a detection for
each token, with its colour and measurements, classified if it is discovered. It is in pixels: where
coordinates are in micrometres, it takes to be told how many a pixel has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.classifier import BagClassifier
from sparsetoken.bags.source import BagSource
from sparsetoken.bags.token_posterior import TokenPosterior, discovered
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray
from sparsetoken.support.checks import real
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.whole_files import whole_file

_SHORT = 20  # tokens that stand in one row where places are not known
_NEAREST = 0.05  # quantile of distances to the nearest patch: contours of tissue may overlap a bit
_LONGEST = 120  # bytes of a file's name without its ending: file systems have 255


@dataclass(frozen=True, eq=False)
class TokenMap:
    """What is known of the tokens of one bag.

    Parameters
    ----------
    name : str
        Of the bag.
    label : str
        That of bags with the signal.
    rate : float
        Share of wrong discoveries, on average.
    posterior : array (L,)
        Probability that a token carries the signal.
    discovered : array (L,) of truth values
        Tokens to point at.
    values : dict of arrays (L,)
        What a classifier says of each token, as "attention" and "contribution".
    coordinates : array (L, 2), optional
        Of patches, x and y.
    centres : bool
        Whether these are the centres of patches; else the corners where x and y are least.
    pixel : float, optional
        Side of a pixel of the slide, in units of coordinates; None where it is not known, and no
        GeoJSON can be made.

    Examples
    --------
    >>> places = np.array([[0.0, 0.0], [256.0, 0.0], [0.0, 512.0]])
    >>> chances = np.array([0.01, 0.99, 0.5])
    >>> slide = TokenMap("a", "tumour", 0.1, chances, chances > 0.9, {}, places)
    >>> slide.patch, list(slide.columns), len(slide.geojson()["features"])
    (256.0, ['token', 'x', 'y', 'posterior', 'discovered'], 3)
    """

    name: str
    label: str
    rate: float
    posterior: FloatArray
    discovered: BoolArray
    values: dict[str, FloatArray]
    coordinates: FloatArray | None = None
    centres: bool = False
    pixel: float | None = 1.0

    @property
    def corners(self) -> FloatArray | None:
        """Of patches, where x and y are least (L, 2)."""
        if self.coordinates is None or not self.centres:
            return self.coordinates
        return self.coordinates - self.patch / 2

    @property
    def patch(self) -> float:
        """Side of a patch, in units of coordinates; 1 where there is nothing to tell it from."""
        places = None if self.coordinates is None else np.unique(self.coordinates, axis=0)
        if places is None or len(places) < 2:
            return 1.0
        from scipy.spatial import cKDTree

        # squares side by side are as far apart as they are wide, along x or along y
        distances, _ = cKDTree(places).query(places, k=[2], p=np.inf)
        return float(np.quantile(np.asarray(distances), _NEAREST, method="lower"))

    @property
    def columns(self) -> dict[str, FloatArray | IntArray]:
        """A table of tokens."""
        columns: dict[str, Any] = {"token": np.arange(len(self.posterior))}
        if self.coordinates is not None:
            columns |= {"x": self.coordinates[:, 0], "y": self.coordinates[:, 1]}
        columns |= {"posterior": self.posterior, "discovered": self.discovered.astype(int)}
        return columns | self.values

    def geojson(self) -> dict[str, Any]:
        """Squares with colours and measurements, for QuPath.

        Raises
        ------
        InvalidInput
            Coordinates that are not known, or not in pixels.
        """
        from sparsetoken.figures import DISCOVERED, token_colours

        places = self.corners
        if places is None:
            raise InvalidInput(f"bag {self.name}: its tokens have no coordinates to draw at")
        if self.pixel is None:
            raise InvalidInput(
                f"bag {self.name}: pixel must be known, its coordinates are in micrometres"
            )
        places, side = places / self.pixel, self.patch / self.pixel
        colours = token_colours(self.posterior)
        features = []
        for token, (x, y) in enumerate(places.tolist()):
            corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side), (x, y)]
            measured = {"posterior": self.posterior[token]}
            measured |= {name: values[token] for name, values in self.values.items()}
            properties: dict[str, Any] = {
                "objectType": "detection",
                "name": f"token {token}",
                "color": colours[token],
                "measurements": {name: float(value) for name, value in measured.items()},
            }
            if self.discovered[token]:
                properties["classification"] = {"name": self.label, "color": DISCOVERED}
            square = {"type": "Polygon", "coordinates": [corners]}
            features.append({"type": "Feature", "geometry": square, "properties": properties})
        return {"type": "FeatureCollection", "features": features}

    @property
    def title(self) -> str:
        """The bag, and how many of its tokens are discovered."""
        chosen, all_tokens = int(self.discovered.sum()), len(self.posterior)
        return f"{self.name}\n{chosen} of {all_tokens} tokens discovered (rate {self.rate:g})"

    def draw(self) -> Any:
        """A figure of matplotlib's: tokens as squares where they are, else in reading order."""
        from sparsetoken.figures import token_map

        count = len(self.posterior)
        wide = count if count <= _SHORT else max(_SHORT, int(np.ceil(np.sqrt(2 * count))))
        places = self.corners
        if places is None:
            places = np.stack([np.arange(count) % wide, np.arange(count) // wide], axis=1)
        return token_map(
            places.astype(float),
            self.patch,
            self.posterior,
            self.discovered,
            title=self.title,
            colour=f"probability of {self.label}",
            in_rows_of=wide if self.coordinates is None else None,
        )


def map_tokens(
    X: Any,
    tokens: TokenPosterior,
    classifier: BagClassifier | None = None,
    rate: float = 0.1,
    names: Sequence[str] | None = None,
    pixel_size: float | None = None,
) -> Iterator[TokenMap]:
    """What is known of the tokens of each bag, one bag at a time.

    Parameters
    ----------
    X : array (n, L, d), list of (L_i, d) arrays, Bags or BagSource
        A source is read one bag at a time, and knows names and coordinates.
    tokens : TokenPosterior
        Fitted.
    classifier : AttentionClassifier or other, optional
        Fitted; its attention and contributions are written beside the probabilities.
    rate : float
        Share of discoveries that may be wrong, on average.
    names : sequence of str, optional
        Of the bags; those of the source, or numbers, if not given.
    pixel_size : float, optional
        Micrometres a pixel, where coordinates are in micrometres, as STAMP keeps them.

    Yields
    ------
    TokenMap
        Of each bag in turn.

    Raises
    ------
    InvalidInput
        Bags that cannot be read, of another dimension, not as many as names, a `rate` or
        `pixel_size` out of bounds.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=10, sparsity=1, strength=6.0).sample(100, dim=8, rng=0)
    >>> tokens = TokenPosterior().fit(sample.tokens, sample.labels)
    >>> maps = list(map_tokens(sample.tokens[:3], tokens))
    >>> [token_map.name for token_map in maps], maps[0].posterior.shape
    (['0', '1', '2'], (10,))
    """
    rate = real("map_tokens", "rate", rate, above=0, below=1)
    if pixel_size is not None:
        pixel_size = real("map_tokens", "pixel_size", pixel_size, above=0)
    bags = X if isinstance(X, BagSource) else Bags.of(X, n_tokens=None)
    if names is None:
        names = bags.names if isinstance(bags, BagSource) else [str(k) for k in range(len(bags))]
    if len(names) != len(bags):
        raise InvalidInput(
            f"map_tokens: names must be as many as bags, {len(bags)}, got {len(names)}"
        )
    label = tokens.positive_
    for index, name in enumerate(names):
        if isinstance(bags, BagSource):
            bag, places = bags.read(index), bags.coordinates(index)
            pixel = pixel_size if bags.in_micrometres(index) else 1.0
        else:
            bag, places, pixel = bags[index : index + 1], None, 1.0
        (chances,) = tokens.posterior(bag)
        values = {} if classifier is None else classifier.token_values(bag, label=label)
        yield TokenMap(
            str(name),
            str(label),
            rate,
            chances,
            discovered(chances, rate),
            {key: arrays[0] for key, arrays in values.items()},
            places,
            isinstance(bags, BagSource) and bags.centres,
            pixel,
        )


def write_maps(maps: Iterable[TokenMap], folder: str | os.PathLike[str]) -> list[Path]:
    """Write NAME.csv, NAME.png and, where places are known in pixels, NAME.geojson for each bag.

    Parameters
    ----------
    maps : iterable of TokenMap
        As `map_tokens` makes them; written one at a time.
    folder : str or path
        Made if it is not there. Files of the same names are replaced, each by a whole new one.

    Returns
    -------
    list of path
        The files. Signs that have no place in the name of a file become "_"; of bags that would
        have one name, later ones get a number.

    Raises
    ------
    InvalidInput
        A folder that is a file, or that cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> chances = np.array([0.01, 0.99, 0.5])
    >>> bag = TokenMap("scan 1/left", "sick", 0.1, chances, chances > 0.9, {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_maps([bag], folder)]
    ['scan_1_left.csv', 'scan_1_left.png']
    """
    from sparsetoken.figures import save_map

    place = map_folder(folder)
    taken: set[str] = set()
    written = []
    for token_map in maps:
        stem = _file_name(token_map.name, taken)
        placed = token_map.coordinates is not None and token_map.pixel is not None
        for suffix in ("csv", "png", "geojson") if placed else ("csv", "png"):
            path = place / f"{stem}.{suffix}"
            with whole_file(path) as draft:
                if suffix == "csv":
                    _write_table(token_map, draft)
                elif suffix == "png":
                    save_map(token_map.draw(), draft)
                else:
                    draft.write_text(json.dumps(token_map.geojson(), allow_nan=False))
            written.append(path)
    return written


def map_folder(folder: str | os.PathLike[str]) -> Path:
    """A folder that is there, made if it was not."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"write_maps: folder must be a folder, or one that can be made ({error.strerror}), got "
            f"{os.fspath(folder)!r}"
        ) from None
    return place


def _write_table(token_map: TokenMap, path: Path) -> None:
    """As `sparsetoken score` writes tables: numbers to 10 digits."""
    import pandas as pd

    pd.DataFrame(token_map.columns).to_csv(
        path, index=False, float_format="%.10g", lineterminator="\r\n"
    )


def _file_name(name: str, taken: set[str]) -> str:
    """Letters, digits and -_. of a name, not one of those that are taken; it is taken then.

    Names that differ in capitals alone are one on some systems.
    """
    plain = "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in name)
    while len(plain.encode()) > _LONGEST:
        plain = plain[:-1]
    stem = plain.strip(".") or "bag"
    unique, number = stem, 1
    while unique.casefold() in taken:
        number += 1
        unique = f"{stem}-{number}"
    taken.add(unique.casefold())
    return unique

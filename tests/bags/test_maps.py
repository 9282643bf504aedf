"""Maps of tokens: what is written is what is known, in files that others open."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.figures import DISCOVERED, token_colours

SIDE = 256.0


def grid(count, wide, side=SIDE):
    return side * np.stack([np.arange(count) % wide, np.arange(count) // wide], axis=1)


def slide(name="a slide", count=60, wide=10, coordinates=True):
    rng = np.random.default_rng(count)
    chances = rng.beta(0.2, 1.0, count)
    values = {"contribution": rng.normal(size=count), "attention": rng.random(count)}
    places = grid(count, wide) if coordinates else None
    return st.TokenMap(name, "tumour", 0.1, chances, chances > 0.9, values, places)


def pixels(path):
    import matplotlib.image

    return matplotlib.image.imread(path)


def test_files_hold_the_numbers(tmp_path):
    token_map = slide()
    paths = st.write_maps([token_map], tmp_path / "made" / "maps")
    assert [path.name for path in paths] == ["a_slide.csv", "a_slide.png", "a_slide.geojson"]
    rows = list(csv.DictReader(paths[0].read_text().splitlines()))
    assert list(rows[0]) == ["token", "x", "y", "posterior", "discovered", *token_map.values]
    for name, values in token_map.columns.items():
        np.testing.assert_allclose([float(row[name]) for row in rows], values, rtol=1e-9)
    assert not list(paths[0].parent.glob(".*"))  # no drafts


def test_geojson_is_what_qupath_reads():
    token_map = slide()
    collection = json.loads(json.dumps(token_map.geojson(), allow_nan=False))
    assert collection["type"] == "FeatureCollection" and len(collection["features"]) == 60
    colours = token_colours(token_map.posterior)
    for token, feature in enumerate(collection["features"]):
        (ring,) = feature["geometry"]["coordinates"]
        corners = np.array(ring)
        assert feature["type"] == "Feature" and feature["geometry"]["type"] == "Polygon"
        assert np.array_equal(corners[0], corners[-1]) and len(corners) == 5
        np.testing.assert_allclose(corners.min(axis=0), token_map.coordinates[token])
        np.testing.assert_allclose(corners.max(axis=0), token_map.coordinates[token] + SIDE)
        properties = feature["properties"]
        assert properties["objectType"] == "detection"
        assert tuple(properties["color"]) == colours[token]
        assert set(properties["measurements"]) == {"posterior", "contribution", "attention"}
        assert properties["measurements"]["posterior"] == token_map.posterior[token]
        expected = {"name": "tumour", "color": list(DISCOVERED)}
        known = expected if token_map.discovered[token] else None
        assert properties.get("classification") == known
    with pytest.raises(st.InvalidInput, match="no coordinates"):
        slide(coordinates=False).geojson()
    with pytest.raises(st.InvalidInput, match="in micrometres"):
        replace(token_map, pixel=None).geojson()


@pytest.mark.parametrize(
    ("places", "side"),
    [
        (grid(30, 6), SIDE),
        (grid(30, 6)[[0, 2, 14]], 2 * SIDE),  # nothing is side by side
        (
            np.concatenate([grid(20, 4), grid(20, 4) + np.array([3000.0, 17.0])]),
            SIDE,
        ),  # two contours
        (np.concatenate([grid(100, 10), [[3.0, 5.0]]]), SIDE),  # and a patch that overlaps
        (np.zeros((3, 2)), 1.0),
        (np.zeros((1, 2)), 1.0),
    ],
)
def test_the_side_of_a_patch(places, side):
    chances = np.full(len(places), 0.5)
    token_map = st.TokenMap("a", "b", 0.1, chances, chances > 1, {}, places)
    assert token_map.patch == pytest.approx(side)


@pytest.mark.parametrize(("count", "wide"), [(60, 10), (60, 60), (60, 2), (1, 1)])
def test_pictures_are_in_proportion_and_nothing_is_cut_off(count, wide):
    figure = slide(count=count, wide=wide).draw()
    figure.canvas.draw()
    axes, bar = figure.axes
    box, frame = axes.get_position(), figure.get_size_inches()
    width, height = box.width * frame[0], box.height * frame[1]
    rows = -(-count // wide)
    assert width / height == pytest.approx(wide / rows, rel=1e-6)
    inside = figure.get_tightbbox()  # of all that is drawn, in inches
    assert inside.x0 >= 0 and inside.y0 >= 0
    assert inside.x1 <= frame[0] and inside.y1 <= frame[1]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # y downwards, as in images
    assert bar.get_ylim() == (0.0, 1.0)
    xlabels = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    assert all(a.x1 < b.x0 for a, b in pairwise(xlabels))


def test_colours_are_those_of_probabilities(tmp_path):
    chances = np.array([0.0, 0.3, 0.6, 1.0])
    token_map = st.TokenMap("a", "b", 0.1, chances, chances > 2, {}, grid(4, 2))
    _, path = st.write_maps([token_map], tmp_path)[:2]
    image = pixels(path)[:, :, :3]
    figure = token_map.draw()
    box = figure.axes[0].get_position()
    for (x, y), colour in zip(grid(4, 2) / SIDE, token_colours(chances), strict=True):
        column = int(image.shape[1] * (box.x0 + box.width * (x + 0.5) / 2))
        row = int(image.shape[0] * (1 - box.y1 + box.height * (y + 0.5) / 2))
        np.testing.assert_allclose(255 * image[row, column], colour, atol=1)


@pytest.mark.parametrize("count", [1, 12, 500])
def test_tokens_without_places_stand_in_reading_order(count, tmp_path):
    token_map = slide(count=count, coordinates=False)
    paths = st.write_maps([token_map], tmp_path)
    assert [path.suffix for path in paths] == [".csv", ".png"]
    figure = token_map.draw()
    squares = figure.axes[0].collections[0].get_paths()
    corners = np.array([square.vertices.min(axis=0) for square in squares])
    assert len(corners) == count
    assert np.all(np.diff(corners @ [1, 1000]) > 0)
    assert "x" not in paths[0].read_text().splitlines()[0].split(",")


def test_names_of_files(tmp_path):
    names = ["../../etc/passwd", "a/b", "a b", "A B", "..", "", "ü 病 $x_1$", "long" * 99, "a\nb"]
    maps = [slide(name, 4, 2, coordinates=False) for name in names]
    paths = [path for path in st.write_maps(maps, tmp_path) if path.suffix == ".csv"]
    assert len({path.name.casefold() for path in paths}) == len(names)
    for path in paths:
        assert path.parent == tmp_path and path.exists() and not path.name.startswith(".")
        assert len(path.name.encode()) < 150
    assert [path.stem for path in paths[1:6]] == ["a_b", "a_b-2", "A_B-3", "bag", "bag-2"]


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(st.InvalidInput, match="folder must be a folder"):
        st.write_maps([slide()], tmp_path / "file")


class Slides:
    """A BagFormat of slides in memory, with a lesion in one corner of each positive one."""

    def __init__(self, tokens, places):
        self.all_tokens, self.places = tokens, places

    def tokens(self, key):
        return self.all_tokens[key]

    def coordinates(self, key):
        return self.places


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Bags of 20 tokens, a saved classifier and new bags."""
    folder = tmp_path_factory.mktemp("story")
    task = st.Task(20, 2, 5.0)
    sample = task.sample(150, dim=8, rng=0)
    new = task.sample(6, dim=8, rng=1, signal=sample.signal)
    labels = np.where(sample.labels > 0, "sick", "healthy")
    np.savez(folder / "bags.npz", X=sample.tokens, y=labels)
    np.savez(folder / "new.npz", X=new.tokens)
    return folder, sample, labels, new


@pytest.fixture(scope="module")
def model(story):
    folder, sample, labels, _ = story
    tokens = st.TokenPosterior(positive="sick").fit(sample.tokens, labels)
    classifier = st.AttentionClassifier(positive="sick").fit(sample.tokens, labels)
    st.save_classifier(classifier, folder / "model", tokens)
    st.save_classifier(classifier, folder / "old")
    return classifier, tokens


def test_maps_of_a_source_have_names_places_and_values(story, model):
    _, _, _, new = story
    classifier, tokens = model
    source = st.BagSource(
        tuple("abcdef"), np.full(6, 20), 8, tuple(range(6)), Slides(new.tokens, grid(20, 5))
    )
    maps = list(st.map_tokens(source, tokens, classifier, rate=0.2))
    assert [token_map.name for token_map in maps] == list("abcdef")
    for k, token_map in enumerate(maps):
        bag = new.tokens[k : k + 1]
        np.testing.assert_allclose(token_map.posterior, tokens.posterior(bag)[0])
        np.testing.assert_array_equal(token_map.discovered, tokens.discoveries(bag, 0.2)[0])
        np.testing.assert_allclose(token_map.values["attention"], classifier.attention(bag)[0])
        assert token_map.patch == pytest.approx(SIDE) and token_map.label == "sick"
    with pytest.raises(st.InvalidInput, match="names must be as many"):
        next(st.map_tokens(source, tokens, names=["a"]))


def test_score_draws_maps(story, model, capsys):
    folder, _, _, new = story
    arguments = ["score", str(folder / "model"), str(folder / "new.npz")]
    assert main([*arguments, "--maps", str(folder / "maps"), "--rate", "0.05"]) == 0
    said = capsys.readouterr()
    assert "maps of the tokens of 6 bags" in said.err and "prediction" in said.out
    assert len(list((folder / "maps").glob("*.png"))) == 6
    rows = list(csv.DictReader((folder / "maps" / "0.csv").read_text().splitlines()))
    expected = model[1].posterior(new.tokens)[0]
    np.testing.assert_allclose([float(row["posterior"]) for row in rows], expected, atol=1e-9)


def test_score_knows_coordinates_of_a_source(story, model, capsys, monkeypatch):
    folder, _, _, new = story
    places = grid(20, 5)

    class Layout:
        layout = "a file that says slides"

        def can_read(self, path):
            return path.suffix == ".slides"

        def read(self, path):
            names = tuple(f"slide/{k}" for k in range(6))
            slides = Slides(new.tokens, places)
            return st.BagSource(names, np.full(6, 20), 8, tuple(range(6)), slides), None

    monkeypatch.setattr(st.READERS, "_kinds", dict(st.READERS._kinds))
    st.READERS.register("slides", Layout)
    (folder / "new.slides").write_text("")
    to = folder / "placed"
    arguments = ["score", str(folder / "model"), str(folder / "new.slides"), "--maps", str(to)]
    assert main(arguments) == 0
    assert "6 with coordinates" in capsys.readouterr().err
    features = json.loads((to / "slide_3.geojson").read_text())["features"]
    assert features[7]["geometry"]["coordinates"][0][0] == places[7].tolist()


class Micrometres(Slides):
    def in_micrometres(self, key):
        return True


def test_geojson_is_in_pixels(story, model, capsys, monkeypatch):
    """Where coordinates are in micrometres, none is written before a pixel's size is known."""
    folder, _, _, new = story
    places = grid(20, 5, side=112.0)
    slides = {"inside": Micrometres(new.tokens, places), "pixels": Slides(new.tokens, places)}

    class Layout:
        layout = "a file that says slides in micrometres"

        def can_read(self, path):
            return path.suffix == ".placed"

        def read(self, path):
            names = tuple("abcdef")
            source = st.BagSource(names, np.full(6, 20), 8, tuple(range(6)), slides[path.stem])
            return source, None

    monkeypatch.setattr(st.READERS, "_kinds", dict(st.READERS._kinds))
    st.READERS.register("placed", Layout)
    monkeypatch.chdir(folder)
    for name in slides:
        (folder / f"{name}.placed").write_text("")
    command = "score model inside.placed --maps inside".split()
    assert main(command) == 0
    words = " ".join(capsys.readouterr().err.split())
    assert "0 with coordinates in pixels" in words and "--pixel-size says how many" in words
    assert not list((folder / "inside").glob("*.geojson"))
    assert main([*command, "--pixel-size", "0.5"]) == 0
    assert "6 with coordinates in pixels" in capsys.readouterr().err
    features = json.loads((folder / "inside" / "a.geojson").read_text())["features"]
    for token, feature in enumerate(features):
        ring = np.array(feature["geometry"]["coordinates"][0])
        np.testing.assert_allclose(ring[[0, 2]], 2 * np.stack([places[token], places[token] + 112]))
    rows = list(csv.DictReader((folder / "inside" / "a.csv").read_text().splitlines()))
    assert [float(row["x"]) for row in rows] == places[:, 0].tolist()  # as they are kept
    assert main("score model pixels.placed --maps pixels --pixel-size 0.5".split()) == 2
    assert "pixel_size must come with coordinates in micrometres" in capsys.readouterr().err
    assert main([*command, "--pixel-size", "0"]) == 2
    assert "score: pixel_size must be" in capsys.readouterr().err


def test_statistics_have_maps_without_contributions(story, model):
    folder, sample, labels, _ = story
    classifier = st.StatisticsClassifier(positive="sick").fit(sample.tokens, labels)
    st.save_classifier(classifier, folder / "statistics", model[1])
    to = folder / "of-statistics"
    arguments = ["score", str(folder / "statistics"), str(folder / "new.npz"), "--maps", str(to)]
    assert main(arguments) == 0
    assert (to / "0.csv").read_text().splitlines()[0] == "token,posterior,discovered"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["old", "new.npz", "--maps", "x"], "holds no probabilities of tokens: fit and save again"),
        (["model", "new.npz", "--maps", "new.npz"], "maps must be a folder"),
        (["model", "new.npz", "--maps", "x", "--rate", "2"], "rate must be"),
    ],
)
def test_what_score_refuses(story, model, capsys, monkeypatch, options, words):
    monkeypatch.chdir(story[0])
    assert main(["score", *options]) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said


@pytest.mark.slow
def test_from_fit_to_maps(story, tmp_path, capsys):
    folder = story[0]
    fit = ["fit", str(folder / "bags.npz"), "--save", str(tmp_path / "model"), "--json"]
    assert main([*fit, "--poolings", "attention"]) == 0
    assert json.loads(capsys.readouterr().out)["saved"]["tokens"] is True
    score = ["score", str(tmp_path / "model"), str(folder / "new.npz")]
    assert main([*score, "--maps", str(tmp_path / "maps")]) == 0
    assert len(list((tmp_path / "maps").glob("*.png"))) == 6

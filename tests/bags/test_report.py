"""The page of a report: what it says, that it runs and loads nothing, and that it is the same
twice."""

from __future__ import annotations

import base64
import json
import pickle
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.bags.intervals import Difference, Interval
from sparsetoken.bags.judgement import judge, sizes_of_tests, summarise_bags, telling_tokens
from sparsetoken.cli import main
from sparsetoken.support.pages import element, page, table
from sparsetoken.support.text import json_text

NASTY = '<script>alert("1")</script>'
VOID = {"meta", "link", "img"}


class Outline(HTMLParser):
    """Tags are closed in the order in which they were opened; words and attributes are kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.words, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module")
def sample():
    return st.Task(length=6, sparsity=1, strength=4.0).sample(80, dim=5, rng=0)


def made(sample, labels, signal, **change):
    options = {"folds": 2, "poolings": ["pooled", "attention"], "positive": signal}
    comparison = st.cross_validate(sample.tokens, labels, **options)
    given = {
        "source": f"{NASTY}.npz", "signal": signal, "chosen": "attention", "version": "1.2.3",
        "commands": [f"sparsetoken fit '{NASTY}'"], "warnings": [f"beware of {NASTY}"],
        "problems": [(NASTY, "no tokens")], "names": [f"{NASTY}-{k}" for k in range(80)],
    }  # fmt: skip
    return st.FitReport.of(sample.tokens, labels, comparison, **(given | change))


@pytest.fixture(scope="module")
def report(sample):
    labels = np.where(sample.labels > 0, NASTY, "$a^{b_")
    classifier = st.AttentionClassifier(positive=NASTY).fit(sample.tokens, labels)
    return made(sample, labels, NASTY, classifier=classifier)


def test_words_from_data_are_shown_and_never_run(report):
    html = report.to_html()
    outline = Outline(html)
    assert "script" not in outline.seen and NASTY in outline.text
    for words in (f"{NASTY}.npz", f"beware of {NASTY}.", f"'{NASTY}'", f"labelled {NASTY}"):
        assert words in outline.text or words.capitalize() in outline.text, words
    assert any(f"{NASTY}-{k}" in outline.text for k in range(80))  # names of bags
    assert not [key for _, key, _ in outline.attributes if key.startswith("on")]
    for picture in pictures(html):
        assert "<script" not in picture


def pictures(html):
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    return [base64.b64decode(each).decode("utf-8") for each in found]


def test_nothing_is_loaded(report):
    outline = Outline(report.to_html())
    for tag, key, value in outline.attributes:
        if key in ("src", "href", "srcset", "data", "action", "poster"):
            assert value.startswith(("data:", "#")), (tag, key, value[:50])
    assert ("meta", "http-equiv", "Content-Security-Policy") in outline.attributes
    style = re.search("<style>(.*)</style>", report.to_html(), re.DOTALL)[1]
    assert "url(" not in style and "@import" not in style
    for picture in pictures(report.to_html()):
        links = re.findall(r'(?:href|src)="([^"]*)"', picture)
        assert all(link.startswith("#") for link in links)
        assert "@import" not in picture and not re.findall(r"url\((?!#)", picture)


def test_a_page_is_whole(report):
    outline = Outline(report.to_html())
    assert outline.seen[:2] == ["html", "head"] and outline.seen.count("h1") == 1
    sections = outline.seen.count("section")
    assert sections == outline.seen.count("h2") == 10
    images = [value for tag, key, value in outline.attributes if (tag, key) == ("img", "alt")]
    assert len(images) == outline.seen.count("img") == 4 and all(images)
    text = outline.text
    for words in ("The poolings, compared", "How many test bags", "The most telling tokens",
                  "What the words mean", "Calibration", "no tokens", "1.2.3"):  # fmt: skip
        assert words in text, words
    assert "vectorized" not in text  # was not compared
    assert "posterior" not in text
    table = report.comparison.table.replace({"pooling": {"pooled": "posterior"}})
    more = replace(report, comparison=replace(report.comparison, table=table))
    assert "Attention whose query is learned in rounds" in Outline(more.to_html()).text


def test_the_same_report_gives_the_same_bytes(report):
    again = pickle.loads(pickle.dumps(report))
    assert report.to_html() == report.to_html() == again.to_html()


def test_numbers_on_the_page_are_those_of_the_report(report):
    text = Outline(report.to_html()).text.replace("\xa0", " ")
    row = next(row for row in report.comparison.rows if row["pooling"] == "attention")
    assert f"{row['auc']:.3f} [{row['auc_low']:.3f}, {row['auc_high']:.3f}]" in text
    assert f"{row['error']:.3f} [{row['error_low']:.3f}, {row['error_high']:.3f}]" in text
    quality = report.qualities[0]
    assert quality.auc.value == pytest.approx(row["auc"]) and quality.label == NASTY
    size = report.test_sizes[1]
    assert size.half_width == 0.05 and f"{size.bags} new test bags" in text
    assert size.bags <= size.cautious
    flawless = report.qualities[0]._replace(auc=Interval(1.0, 0.9, 1.0))
    assert [size.bags for size in sizes_of_tests(flawless, 0.9)] == [None] * 4
    shown = replace(report, test_sizes=sizes_of_tests(flawless, 0.9))
    cautious = shown.test_sizes[1].cautious
    assert f"{cautious} new test bags" in Outline(shown.to_html()).text.replace("\xa0", " ")


def test_what_is_not_zero_is_not_shown_as_zero(report):
    rows = report.comparison.table.copy()
    rows[["error", "error_low", "error_high"]] = [0.0004, 0.0, 0.0006]
    tiny = replace(
        report,
        comparison=replace(report.comparison, table=rows),
        differences={"pooled": Difference(0.0002, -0.0001, 0.02, 0.3)},
    )
    text = Outline(tiny.to_html()).text.replace("\xa0", " ")
    assert "wrong on <0.1% [0.0%, 0.1%] of held-out bags" in text
    assert "<0.001 [0.000, 0.001]" in text  # in the table
    assert "Its AUC is <0.001 [>-0.001, 0.020] above that of mean pooling" in text


def test_two_perfect_poolings_are_alike_and_not_above_each_other(report):
    rows = report.comparison.table.copy()
    rows[["auc", "auc_low", "auc_high"]] = 1.0
    alike = replace(
        report,
        comparison=replace(report.comparison, table=rows),
        differences={"pooled": Difference(0.0, 0.0, 0.0, 1.0)},
    )
    text = Outline(alike.to_html()).text
    assert "Its AUC is that of mean pooling, 1.000." in text and "0.000 [0.000" not in text


def test_the_page_and_json_hold_the_same(sample, report):
    content = json.loads(json_text(report.content()))
    assert [row["pooling"] for row in content["comparison"]][1:] == ["pooled", "attention"]
    assert content["quality"][0]["auc"]["low"] == pytest.approx(report.qualities[0].auc.low)
    assert content["differences"]["pooled"]["value"] > 0
    assert content["tokens"][0]["bag"] == report.tokens[0].bag
    counts = {"$a^{b_": int(np.sum(sample.labels < 0)), NASTY: int(np.sum(sample.labels > 0))}
    assert dict(content["data"]["labels"]) == counts


def test_telling_tokens_are_the_greatest_contributions(sample):
    labels = np.where(sample.labels > 0, "a", "b")  # the signal's is the first label
    report = made(sample, labels, "a", names=None)
    classifier = st.AttentionClassifier(positive="a").fit(sample.tokens, labels)
    bags = st.Bags.of(sample.tokens)
    tokens = telling_tokens(classifier, bags, report.comparison, "attention", "a")
    parts = np.array(classifier.contributions(sample.tokens, label="a"))
    best = np.argsort(-parts.max(axis=1))[: len(tokens)]
    assert [token.bag for token in tokens] == [str(k) for k in best]
    for token, bag in zip(tokens, best, strict=True):
        assert token.token == parts[bag].argmax() and token.tokens == 6
        assert token.contribution == pytest.approx(parts[bag].max())
        assert token.label == labels[bag]
        assert token.chance == report.comparison.held_out["attention"].probabilities[bag, 0]
    positive = [token for token in tokens if token.label == "a"]
    places = [sample.places[int(token.bag)][token.token] for token in positive]
    assert len(positive) >= 10 and np.mean(places) > 0.9


def test_the_signals_label_may_be_the_first(sample):
    labels = np.where(sample.labels > 0, "a", "b")
    first = made(sample, labels, "a").qualities[0]
    second = made(sample, np.where(sample.labels > 0, "b", "a"), "b").qualities[0]
    assert first.auc.value > 0.8
    np.testing.assert_allclose(first.auc, second.auc, rtol=1e-9)
    assert first.calibration[-1].observed.value > 0.8


def test_several_labels_have_a_curve_each_and_no_tokens(sample):
    kinds = np.where(sample.labels < 0, "x", np.where(sample.tokens[:, 0, 0] > 0, "_y", "$z^{"))
    report = made(sample, kinds, None, unplanned="Nothing is planned for several labels.")
    assert [quality.label for quality in report.qualities] == sorted(["x", "_y", "$z^{"])
    html = report.to_html()
    text = Outline(html).text
    assert "Each label is the signal" in text and "--positive LABEL" in text
    assert "Nothing is planned for several labels." in text
    assert "pilot" not in report.content()
    curves = [picture for picture in pictures(html) if "true positive rate" in picture]
    assert len(curves) == 1 and "$z^{" in curves[0] and "_y" in curves[0]


def test_what_is_not_there_is_said(sample):
    labels = np.where(sample.labels > 0, "a", "b")
    untold = made(sample, labels, "a", unplanned="too few bags")
    text = Outline(untold.to_html()).text
    assert "Too few bags." in text and "Tokens were not looked at." in text
    assert "Nothing could be planned" in text
    rows = untold.comparison.table.copy()
    rows.loc[rows.pooling == "attention", "failure"] = "it did not arrive"
    failed = replace(untold.comparison, table=rows, held_out={"pooled": None})
    assert judge(failed, "attention", "a") == ()
    broken = replace(untold, comparison=failed, qualities=(), differences={}, test_sizes=())
    text = Outline(broken.to_html()).text
    assert "attention has no numbers: it did not arrive." in text


def test_statistics_say_nothing_of_tokens_and_so_does_the_page(sample):
    labels = np.where(sample.labels > 0, "a", "b")
    options = {"folds": 2, "poolings": ["statistics"], "positive": "a"}
    comparison = st.cross_validate(sample.tokens, labels, **options)
    classifier = st.StatisticsClassifier(positive="a").fit(sample.tokens, labels)
    report = st.FitReport.of(
        sample.tokens, labels, comparison, source="x", signal="a", chosen="statistics",
        commands=[], version="0", classifier=classifier,
    )  # fmt: skip
    assert report.tokens == () and "not defined for statistics" in report.untold


def test_the_bags_are_counted(sample):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 300, 50)
    bags = st.Bags.of([rng.standard_normal((length, 3)) for length in lengths])
    groups = np.arange(50) // 5
    data = summarise_bags(bags, np.arange(50) % 3, groups=groups)
    assert data.tokens == lengths.sum() and sum(data.counts) == data.bags == 50
    assert len(data.counts) <= 24 and data.groups == 10
    low, high = data.edges[0], data.edges[-1]
    assert low < lengths.min() and lengths.max() < high
    assert data.labels == (("0", 17), ("1", 17), ("2", 16))
    one = summarise_bags(st.Bags.of(sample.tokens), sample.labels)
    assert one.counts == (80,) and one.groups is None


def test_cross_validation_holds_out_every_bag_once(sample):
    comparison = st.cross_validate(
        sample.tokens, sample.labels, folds=4, poolings=["pooled"], level=0.5
    )
    held = comparison.held_out["pooled"]
    assert np.bincount(comparison.folds).tolist() == [20] * 4
    for fold in range(4):
        out = comparison.folds == fold
        alone = st.PooledClassifier().fit(sample.tokens[~out], sample.labels[~out])
        np.testing.assert_allclose(held.scores[out], alone.decision_function(sample.tokens[out]))
        chances = alone.predict_proba(sample.tokens[out])
        np.testing.assert_allclose(held.probabilities[out], chances)
    row = comparison.rows[1]
    assert row["error"] == pytest.approx(np.mean(held.predictions != sample.labels))
    wide = st.compare_poolings(sample.tokens, sample.labels, folds=4, poolings=["pooled"])
    assert wide.auc_low[1] < row["auc_low"] < row["auc"] == pytest.approx(wide.auc[1])
    with pytest.raises(st.InvalidInput, match="cross_validate: level"):
        st.cross_validate(sample.tokens, sample.labels, level=0)


def test_elements_escape_words_and_attributes():
    html = element("p", '<&">', element("b", "'"), class_="x", title='"><script>')
    assert html == (
        '<p class="x" title="&quot;&gt;&lt;script&gt;">&lt;&amp;&quot;&gt;<b>&#x27;</b></p>'
    )
    Outline(page(NASTY, table(("a", NASTY), [(NASTY, "1"), ("b", "2")], chosen=0), NASTY))


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """A file of so few bags that nothing can be estimated: quick to fit."""
    folder = tmp_path_factory.mktemp("noise")
    rng = np.random.default_rng(0)
    np.savez(folder / "bags.npz", X=rng.standard_normal((14, 3, 2)), y=np.arange(14) % 2)
    return folder


def test_the_command_writes_a_page_twice_alike(noise, monkeypatch, capsys):
    monkeypatch.chdir(noise)
    command = ["fit", "bags.npz", "--report", "page.html", "--folds", "2", "--no-progress"]
    command += ["--poolings", "pooled", "attention", "--seed", "3", "--target-error", "0.1"]
    assert main(command) == 0
    assert "the report is in page.html" in capsys.readouterr().err
    first = (noise / "page.html").read_bytes()
    assert main([*command, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (
        content["chosen"] in ("pooled", "attention")
        and "at least 8 bags" in content["pilot"]["error"]
    )
    assert (noise / "page.html").read_bytes() == first
    text = Outline(first.decode("utf-8")).text
    assert "at least 8 bags" in text
    line = (
        "sparsetoken fit bags.npz --report page.html --poolings pooled attention "
        "--target-error 0.1 --folds 2 --seed 3"
    )
    assert line in text
    assert sorted(path.name for path in noise.iterdir()) == ["bags.npz", "page.html"]


def test_a_page_that_cannot_be_written_is_refused_first(noise, monkeypatch, capsys):
    monkeypatch.chdir(noise)
    assert main(["fit", "bags.npz", "--report", "nowhere/page.html"]) == 2
    assert "fit: report must be a file" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_page_of_a_signal(tmp_path, monkeypatch, capsys):
    """With a pilot, plans, a curve and a target; opened as a reader would."""
    from browser import open_browser

    monkeypatch.chdir(tmp_path)
    sample = st.Task(8, 1, 5.0).sample(100, 6, rng=0)
    np.savez("bags.npz", X=sample.tokens, y=np.where(sample.labels > 0, "sick", "healthy"))
    command = ["fit", "bags.npz", "--report", "page.html", "--target-error", "0.05"]
    assert main([*command, "--json", "--no-progress"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert len(content["plan"]["more"]) == 4
    assert len({(point["measured"], point["bags"]) for point in content["curve"]}) == 7
    problems = []
    with open_browser() as browser:
        shown = browser.new_page()
        shown.on("console", lambda message: problems.append(message.text))
        shown.on("request", lambda it: it.url[:4] == "http" and problems.append(it.url))
        for width in (1200, 390):
            shown.set_viewport_size({"width": width, "height": 800})
            shown.goto((tmp_path / "page.html").as_uri())
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            widths = shown.eval_on_selector_all("img", "all => all.map(i => i.naturalWidth)")
            assert len(widths) == 5 and min(widths) > 200
            assert "labelled bags" in shown.inner_text("body")
    assert problems == []

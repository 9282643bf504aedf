"""The story shows what it says, in the data, in a browser, and as one file."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shlex

import numpy as np
import pytest
from scipy.special import ndtr

import sparsetoken as st
from axe import violations
from browser import open_browser
from sparsetoken.app.export import STATIC, bundle, story_page
from sparsetoken.app.state import State
from sparsetoken.app.story import largest_of_normals, story_data
from sparsetoken.cli import main
from sparsetoken.figures import LOOK

NAMES = ("needle", "mean", "query", "origin", "fails", "labels")
MODES = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
}


@pytest.fixture(scope="module")
def steps():
    return {step["name"]: step for step in story_data()["steps"]}


def start(step):
    return step["points"][step["move"]["start"]]


def words(share):
    """A percentage as sentences write it."""
    value = 100 * share
    return "below 0.01 %" if value < 0.01 else f"{value:.{2 if value < 1 else 1}f} %"


def plain(sentence):
    return sentence.replace("**", "").replace("\u00a0", " ")


def errors(task, protocol, **attention):
    kinds = {
        "attention": st.Attention(**attention), "pooled": st.Pooled(), "vectorized": st.Vectorized()
    }  # fmt: skip
    return {
        name: float(st.predict(task, kind, protocol).test_error) for name, kind in kinds.items()
    }


def test_steps_are_complete(steps):
    assert tuple(steps) == NAMES
    json.dumps(story_data(), allow_nan=False)
    for step in steps.values():
        assert start(step)["address"] is not None  # a preset of the laboratory
        values = [point["value"] for point in step["points"]]
        assert values == step["move"]["values"] == sorted(set(values)) and len(values) >= 5
        for point in step["points"]:
            assert point["sentence"].count("**") % 2 == 0 and len(plain(point["sentence"])) < 300
            assert point["commands"] and point["numbers"]
            if point["address"] is not None:
                assert State.from_query(point["address"]).to_query() == point["address"]


def test_needle_attention_finds_what_the_mean_misses(steps):
    for point in steps["needle"]["points"][::2]:
        task = st.Task(point["value"], 1, 6.0)
        protocol = st.Protocol(readout_samples=8.0, ridge=0.01)
        exact = errors(task, protocol, cosine=0.95, sharpness=3.0)
        assert exact["attention"] < 0.05 < 0.15 < exact["pooled"] < exact["vectorized"]
        for name in ("attention", "pooled"):
            assert f"errs {words(exact['attention'])}" in plain(point["sentence"])
            assert words(exact[name]) in plain(point["sentence"])
        for name, judge in point["sample"]["classifiers"].items():
            assert judge["test_error"] == pytest.approx(exact[name], abs=1e-9)
        loudest = np.random.default_rng(0).standard_normal((20_000, point["value"] - 1)).max(axis=1)
        assert abs(loudest.mean() - point["numbers"]["loudest"]) < 4 * loudest.std() / 141
        assert f"is {point['numbers']['loudest']:.1f} by chance" in plain(point["sentence"])


def test_largest_of_normals():
    """Closed forms: 0, 1/√π, 3/(2√π), 5/(4√π) (1 + 2/π·asin(1/3))."""
    root = math.sqrt(math.pi)
    exact = [0.0, 1 / root, 1.5 / root, 3 / root * (0.5 + math.asin(1 / 3) / math.pi)]
    assert [largest_of_normals(n) for n in (1, 2, 3, 4)] == pytest.approx(exact, abs=1e-9)


def test_mean_drowns_it_like_the_root_of_the_length(steps):
    for point in steps["mean"]["points"]:
        length, sentence = point["value"], plain(point["sentence"])
        distance = point["numbers"]["distance"]
        assert distance * math.sqrt(length) == pytest.approx(6.0)
        assert point["numbers"]["pooled"] == pytest.approx(float(ndtr(-distance / 2)))
        assert words(ndtr(-distance / 2)) in sentence and f"{distance:.2f}" in sentence
    found = [point["numbers"]["pooled"] for point in steps["mean"]["points"]]
    assert found == sorted(found) and found[0] < 0.002 and found[-1] > 0.45


def test_query_grows_less_than_the_logarithm(steps):
    points = steps["query"]["points"]
    first = points[0]
    for point in points:
        length, need = point["value"], point["numbers"]
        task = st.Task(length, 1, 0.0)
        assert need["pooled"] == pytest.approx(-2 * math.sqrt(length) * -2.3263478740408408)
        if length in (10, 1000):  # softmax at its best sharpness, by sampling
            exact = st.signal_threshold(task, st.Attention(), error=0.01)
            assert abs(need["attention"] - exact) < 1e-6 + 4 * exact.standard_error
        sentence = plain(point["sentence"])
        assert f"{need['pooled']:.1f} strong" in sentence and f"{need['attention']:.2f}" in sentence
        if point is not first:
            ratio = length / first["value"]
            grown = {name: need[name] / first["numbers"][name] for name in need}
            assert grown["pooled"] == pytest.approx(math.sqrt(ratio))
            assert 1 < grown["attention"] < math.log(length) / math.log(first["value"])
            assert f"grown {grown['pooled']:.1f} times" in sentence
            assert f"{grown['attention']:.2f} times, less than log L" in sentence


def test_origin_leads_to_the_wrong_side_and_to_the_right_one(steps):
    step = steps["origin"]
    protocol = st.Protocol(query_samples=32.0, readout_samples=16.0, ridge=1e-3, query_step=200.0)
    for point in step["points"]:
        task = st.Task(40, 1, 6.0, prevalence=point["value"])
        cosine, sentence = st.align(task, protocol).cosine, plain(point["sentence"])
        assert point["numbers"]["cosine"] == pytest.approx(cosine)
        assert f"cosine {cosine:.2f})".replace("-", "−") in sentence
        assert ("wrong side" in sentence) == (cosine < -0.1)
        assert ("query that two gradient steps make points at the signal" in sentence) == (
            cosine > 0.8
        )
    wrong = start(step)
    task = st.Task(40, 1, 6.0, prevalence=wrong["value"])
    exact = errors(task, protocol)
    assert wrong["numbers"]["cosine"] < -0.4 and exact["attention"] > exact["pooled"]
    assert f"attention errs {words(exact['attention'])}, the mean {words(exact['pooled'])}, " in (
        plain(wrong["sentence"])
    )
    right = step["points"][-1]
    assert right["value"] == 0.5 and right["numbers"]["cosine"] > 0.95
    for prevalence, cosine in step["picture"]["curve"][::20]:
        task = st.Task(40, 1, 6.0, prevalence=prevalence)
        assert cosine == pytest.approx(st.align(task, protocol).cosine)


def test_fails_where_attention_loses(steps):
    step = steps["fails"]
    protocol = st.Protocol(query_samples=4.0, readout_samples=4.0, ridge=0.01, query_step=100.0)
    for point in (step["points"][0], start(step)):
        exact = errors(st.Task(40, point["value"], 12.0 / point["value"]), protocol)
        for name, error in exact.items():
            assert point["numbers"][name] == pytest.approx(error, abs=1e-9)
    best = min(exact["pooled"], exact["vectorized"])
    assert start(step)["value"] == 40 and exact["attention"] > best + 0.01
    assert f"attention loses, with {words(exact['attention'])}" in plain(start(step)["sentence"])
    for point in step["points"]:
        numbers = point["numbers"]
        best = min(numbers["pooled"], numbers["vectorized"])
        assert ("attention loses" in point["sentence"]) == (numbers["attention"] >= best)
        assert ("attention wins" in point["sentence"]) == (numbers["attention"] < best)
        assert words(best) in plain(point["sentence"])
    assert step["points"][0]["numbers"]["attention"] < 1e-3  # the needle is found


def test_labels_and_the_floor(steps):
    points = steps["labels"]["points"]
    task = st.Task(40, 1, 6.0)
    curve = st.bayes_curve(task, samples=[point["value"] for point in points])
    for point, floor in zip(points, curve, strict=True):
        numbers = point["numbers"]
        assert numbers["bayes"] == pytest.approx(float(floor.test_error), abs=1e-9)
        assert numbers["bayes"] < min(numbers["attention"], numbers["pooled"])
        for name in ("attention", "pooled", "bayes"):
            assert words(numbers[name]) in plain(point["sentence"])
    half = st.Protocol(1.0, 1.0, ridge=0.01, query_step=200.0)
    shown = start(steps["labels"])
    assert shown["value"] == 2.0
    assert shown["numbers"]["attention"] == pytest.approx(
        float(st.predict(task, st.Attention(), half).test_error), abs=1e-9
    )
    assert shown["numbers"]["attention"] < shown["numbers"]["pooled"] / 5


@pytest.mark.parametrize("name", NAMES)
def test_commands_print_the_numbers_of_the_sentence(steps, name):
    point = start(steps[name])
    rows = []
    for command in point["commands"]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            assert main([*shlex.split(command)[1:], "--json"]) == 0
        rows += json.loads(output.getvalue())
    printed = json.dumps(rows)
    for number in point["numbers"]:
        if number in ("loudest", "distance"):  # no command's
            continue
        value = point["numbers"][number]
        found = [x for row in rows for x in row.values() if isinstance(x, float)]
        assert any(x == pytest.approx(value, rel=1e-3) for x in found), (number, value, printed)


@pytest.mark.parametrize("name", ["needle", "origin", "fails"])
def test_addresses_lead_to_the_numbers_of_the_sentence(steps, name):
    """The laboratory in the state of the address has the same errors; all three classifiers'."""
    point = start(steps[name])
    state = State.from_query(point["address"])
    for kind, classifier in {
        "attention": state.attention, "pooled": st.Pooled(), "vectorized": st.Vectorized()
    }.items():  # fmt: skip
        error = float(st.predict(state.task, classifier, state.protocol).test_error)
        assert point["numbers"][kind] == pytest.approx(error, abs=1e-9)


# In a browser


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The exported story, written by the command."""
    path = tmp_path_factory.mktemp("story") / "story.html"
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["explore", "--export", str(path)]) == 0
    assert str(path) in output.getvalue()
    return path


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(params=MODES)
def page(browser, file, request):
    """The file opened from disk: nothing goes wrong, and nothing is asked of anybody."""
    context = browser.new_context(**MODES[request.param])
    opened, wrong = context.new_page(), []
    opened.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda r: wrong.append(r.url) if r.url != file.as_uri() else None)
    opened.goto(file.as_uri())
    yield opened
    context.close()
    assert not wrong


def test_file_is_small_and_safe(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    assert not re.search(r"https?://", text) and "@import" not in text and "src=" not in text
    assert "unsafe" not in text and "default-src 'none'" in text
    assert text == story_page()


INKED = """() => Array.from(document.querySelectorAll("canvas"), (canvas) => {
  const { width, height } = canvas;
  const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, width, height);
  let inked = 0;
  for (let k = 3; k < data.length; k += 4) inked += data[k] > 0;
  return [canvas.getAttribute("aria-label"), inked / (width * height)];
})"""


def test_every_step_shows_its_sentence_and_its_picture(page, steps):
    tabs = page.locator(".story-steps button")
    assert tabs.count() == 6
    seen = []
    for number, name in enumerate(NAMES, start=1):
        step = steps[name]
        tabs.nth(number - 1).click()
        assert page.url.endswith(f"#{number}")
        assert page.locator("h2").inner_text() == f"{number}. {step['title']}"
        assert page.locator("[aria-current=step]").count() == 1
        slider = page.get_by_role("slider")
        assert slider.get_attribute("aria-valuetext")
        for place in sorted({0, step["move"]["start"], len(step["points"]) - 1}):
            slider.fill(str(place))
            shown = page.locator(".story-sentence").inner_text()
            assert plain(shown) == plain(step["points"][place]["sentence"])
            assert "\n".join(step["points"][place]["commands"]) == (
                page.locator(".story-commands pre").inner_text()
            )
            page.wait_for_timeout(60)
            pictures = page.evaluate(INKED)
            assert all(label and share > 0.005 for label, share in pictures)
            seen.append((pictures[0][0], place))
        assert page.locator(".story-open").is_hidden()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= page.viewport_size["width"]
    assert len(set(seen)) == len(seen)  # each says something of its own


def test_a_stranger_sees_tokens_and_who_finds_the_signal_without_scrolling(page):
    row = page.locator(".sample-row").bounding_box()
    assert row["y"] + row["height"] <= page.viewport_size["height"] + 1
    assert page.locator(".sample-words").inner_text().startswith("Positive: of these 40 tokens")
    says = page.locator(".sample-says").all_inner_texts()
    assert (says[0], says[2]) == ("says yes – ✓ right", "says no – ✗ wrong")  # the mean misses it


def test_keyboard_alone_goes_through_the_story(page, steps):
    page.keyboard.press("Tab")
    for _ in range(5):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("6. ")
    page.keyboard.press("Enter")
    assert page.locator("h2").inner_text().startswith("6. ")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "range"
    value = page.get_by_role("slider").get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("slider").get_attribute("aria-valuetext") != value
    point = steps["labels"]["points"][steps["labels"]["move"]["start"] + 1]
    assert plain(page.locator(".story-sentence").inner_text()) == plain(point["sentence"])
    page.get_by_role("button", name="← Back").press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "H2"
    assert page.locator("h2").inner_text().startswith("5. ")


def test_axe_finds_nothing(page):
    for number in range(6):
        page.locator(".story-steps button").nth(number).click()
        assert violations(page) == [], NAMES[number]


def test_in_a_frame_it_tells_how_tall_it_is(browser, file, tmp_path):
    """And again where a step takes more or less room."""
    page_with_frame = tmp_path / "page.html"
    page_with_frame.write_text(
        f"<iframe src='{file.as_uri()}' width='375' height='300'></iframe><script>heights = [];"
        "addEventListener('message', (told) => heights.push(told.data.storyHeight));</script>"
    )
    page = browser.new_page()
    page.goto(page_with_frame.as_uri())
    page.wait_for_function("heights.length > 0")
    body = page.frame_locator("iframe").locator("body")
    for step in (1, 4):
        body.get_by_role("button", name=re.compile(rf"^{step}\. ")).click()
        page.wait_for_timeout(300)
        height = body.evaluate("body => Math.ceil(body.getBoundingClientRect().height)")
        assert height > 600 and page.evaluate("heights.at(-1)") == height
    page.close()


def test_an_address_begins_at_its_step(browser, file):
    page = browser.new_page()
    for asked, shown in (("#4", "4. "), ("#9", "6. "), ("#-2", "1. "), ("#x", "1. ")):
        page.goto("about:blank")
        page.goto(file.as_uri() + asked)
        assert page.locator("h2").inner_text().startswith(shown)
    page.evaluate("location.hash = '#3'")
    page.locator("h2", has_text="3. ").wait_for()
    page.close()


def test_running_errors_of_the_exported_samples(browser, file, steps):
    """The first step's samples, as they are in the file."""
    page = browser.new_page()
    page.goto(file.as_uri())
    page.get_by_role("button", name="Play").click()
    for _ in range(600):  # a policy without eval lets no function wait in the page
        page.wait_for_timeout(100)
        if re.match(r"[1-9]\d*\u202f\d", page.locator(".sample-counted").inner_text()):
            break
    page.get_by_role("button", name="Pause").click()
    text = page.locator(".sample-counted").inner_text()
    assert "\u202f" in text  # at least a thousand
    count = int(re.match(r"[\d\u202f]+", text)[0].replace("\u202f", ""))
    judges = start(steps["needle"])["sample"]["classifiers"]
    for shown, name in zip(
        page.locator(".sample-exact").all_inner_texts(),
        ("attention", "vectorized", "pooled"),
        strict=True,
    ):
        exact = judges[name]["test_error"]
        error, band = re.search(r"\n([\d.]+)\u00a0% ± ([\d.]+)", shown).groups()
        deviation = math.sqrt(exact * (1 - exact) / count)
        assert float(band) / 100 == pytest.approx(deviation, abs=6e-5)
        assert abs(float(error) / 100 - exact) < 4 * deviation + 1 / count
    page.close()


def test_open_in_the_laboratory(browser, steps):
    """With a laboratory the step's address is handed over, and commands are folded away."""
    page = browser.new_page()
    page.set_content(
        '<!doctype html><html lang="en"><title>s</title><main id="here"></main></html>'
    )
    page.add_script_tag(
        content=bundle("story/story.js", "mountStory") + "window.mount = mountStory;"
    )
    page.evaluate(
        """(data) => {
          window.opened = [];
          window.story = window.mount(document.getElementById("here"), {
            data, step: 5, openInLab: (query) => window.opened.push(query),
            onStep: (number) => window.opened.push(number),
          });
        }""",
        story_data(),
    )
    assert page.locator(".story-commands").get_attribute("open") is None
    page.get_by_role("button", name="Open in the laboratory").click()
    page.get_by_role("button", name="Next →").click()
    assert page.evaluate("opened") == [5, start(steps["fails"])["address"], 6]
    page.evaluate("story.show(3)")
    page.get_by_role("slider").fill("6")  # ten thousand tokens: the laboratory has no such state
    assert page.get_by_role("button", name="Open in the laboratory").count() == 0
    assert page.evaluate("story.step()") == 3 and page.evaluate("story.sample()") is None
    page.evaluate("story.destroy()")
    assert page.locator("#here > *").count() == 0
    page.close()


def test_colours_are_those_of_figures():
    style = (STATIC / "sample/sample.css").read_text(encoding="utf-8")
    light = style[: style.index("@media")]
    for name in ("attention", "vectorized", "pooled", "bayes"):
        assert f"--st-{name}: {LOOK[name]['color']};" in light


def test_bundles_refuse_what_they_cannot_join(monkeypatch, tmp_path):
    monkeypatch.setattr("sparsetoken.app.export.STATIC", tmp_path)
    (tmp_path / "a.js").write_text('import b from "./b.js";\nexport const c = b;\n')
    with pytest.raises(RuntimeError, match="import b from"):
        bundle("a.js", "c")


def test_export_refuses_a_folder(tmp_path, capsys):
    assert main(["explore", "--export", str(tmp_path)]) != 0
    assert "not a folder" in capsys.readouterr().err

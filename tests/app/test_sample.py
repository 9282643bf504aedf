"""Samples drawn in a browser: their law, their errors, and the page that shows them."""

from __future__ import annotations

import functools
import json
import math
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import sparsetoken as st
from browser import open_browser
from sparsetoken.app.export import STATIC
from sparsetoken.app.sample import sample_data
from sparsetoken.model.law import Readout

PROTOCOL = st.Protocol(query_samples=2.0, readout_samples=4.0, ridge=0.01)
RARE = st.Task(length=40, sparsity=1, strength=6.0, prevalence=0.2)
AWAY = st.Protocol(query_samples=32.0, readout_samples=16.0, ridge=1e-3, query_step=200.0)
COUNT = 10_000


def weighted(name):
    weighting = st.WEIGHTINGS.make(name)
    return {"attention": st.Attention(cosine=0.9, sharpness=1.2, weighting=weighting)}


CASES = {
    "the paper's": (st.Task(10, 1, 5.0), PROTOCOL, None),
    "several signals, fewer positives": (st.Task(40, 5, 3.0, prevalence=0.3), PROTOCOL, None),
    "a signal in every token": (st.Task(12, 12, 0.7), PROTOCOL, None),
    "a query on the wrong side": (RARE, AWAY, None),
    "shared noise": (st.Task(20, 2, 4.0, token_correlation=0.3), PROTOCOL, None),
    "two thousand tokens": (
        st.Task(2000, 3, 7.0),
        PROTOCOL,
        {"attention": st.Attention(cosine=0.95, sharpness=3.0), "pooled": st.Pooled()},
    ),
    **{name: (st.Task(12, 3, 3.0), PROTOCOL, weighted(name))
       for name in ("hard-max", "top-3", "sparsemax")},
}  # fmt: skip
RUN = """async ([data, seed, count]) => {
  const { makeSource } = await import("/sample/law.js");
  const source = makeSource(data, seed), drawn = [];
  for (let k = 0; k < count; k++) {
    const { label, scores, mean, pooled, caught } = source.draw();
    drawn.push([label, ...Object.keys(data.classifiers).map((name) => scores[name]),
                ...mean, ...pooled, caught]);
  }
  return drawn;
}"""


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def address():
    """The modules, as any server serves them."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words):
            """Requests are not worth a line each."""

    handler = functools.partial(Quiet, directory=STATIC)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def page(browser, address):
    """An empty page beside the modules, on which nothing may go wrong."""
    context = browser.new_context(viewport={"width": 900, "height": 900})
    opened, wrong = context.new_page(), []
    opened.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.route("**/empty", lambda route: route.fulfill(body=EMPTY, content_type="text/html"))
    opened.goto(f"{address}/empty")
    yield opened
    context.close()
    assert not wrong


EMPTY = """<!doctype html><html lang="en"><title>sample</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/sample/sample.css"><main id="here"></main></html>"""


def drawn(page, data, seed, count=COUNT):
    """Columns of `count` samples that the browser draws."""
    names = ("label", *data["classifiers"])
    names += ("mean along", "mean across", "pooled along", "pooled across", "caught")
    rows = np.array(page.evaluate(RUN, [data, seed, count]))
    return dict(zip(names, rows.T, strict=True))


def scores_of(task, protocol, name, judge, kinds):
    """The exact scores of the readout that is handed to the browser."""
    classifier = (kinds or {}).get(name) or st.CLASSIFIERS.make(name)
    query = st.align(task, protocol) if classifier.learns_query else None
    law = classifier.law(task, query)
    weights = np.array(judge["weights"])
    return law.scores(
        Readout(weights, judge["bias"], math.hypot(judge["rest"], *weights[law.noisy]))
    )


@pytest.mark.parametrize("case", CASES)
def test_errors_of_drawn_samples_are_the_exact_ones(page, case):
    task, protocol, kinds = CASES[case]
    data = sample_data(task, protocol, kinds)
    samples = drawn(page, data, seed=7)
    positive = samples["label"] > 0
    assert abs(positive.mean() - task.prevalence) < 4 * math.sqrt(
        task.prevalence * (1 - task.prevalence) / COUNT
    )
    expected = kinds or {"attention", "pooled", "vectorized"} - (
        {"vectorized"} if task.token_correlation else set()
    )
    assert set(data["classifiers"]) == set(expected)
    for name, judge in data["classifiers"].items():
        wrong = samples["label"] * samples[name] < 0
        for chosen, rate in (
            (slice(None), "test_error"),
            (positive, "false_negative_rate"),
            (~positive, "false_positive_rate"),
        ):
            count = wrong[chosen].size
            deviation = math.sqrt(judge[rate] * (1 - judge[rate]) / count)
            assert abs(wrong[chosen].mean() - judge[rate]) < 4 * deviation + 2 / count, (name, rate)
        exact = scores_of(task, protocol, name, judge, kinds)
        for chosen, side in ((positive, exact.positive), (~positive, exact.negative)):
            values = np.sort(samples[name][chosen])
            seen = (np.arange(len(values)) + 0.5) / len(values)
            distance = np.abs(side.merged().below(values) - seen).max()
            assert distance * math.sqrt(len(values)) < 2.2, name  # Kolmogorov: 1 in 8000


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_predict(case):
    task, protocol, kinds = CASES[case]
    data = sample_data(task, protocol, kinds)
    json.dumps(data, allow_nan=False)
    for name, judge in data["classifiers"].items():
        classifier = (kinds or {}).get(name) or st.CLASSIFIERS.make(name)
        prediction = st.predict(task, classifier, protocol)
        assert judge["test_error"] == pytest.approx(float(prediction.test_error), abs=1e-12)
        again = scores_of(task, protocol, name, judge, kinds)  # in other units
        assert float(again.test_error) == pytest.approx(judge["test_error"], abs=1e-9)
        spread = judge["distribution"]
        for side in ("positive", "negative"):
            assert 0.99 < sum(spread[side]) <= 1 + 1e-6 and min(spread[side]) >= 0
        assert spread["low"] <= 0 <= spread["high"]
        if prediction.query is not None:
            assert data["cosine"] == pytest.approx(prediction.query.cosine)


def test_the_three_judge_the_same_tokens_as_real_tokens_are_judged(page):
    """How often two err together, against tokens in eight dimensions with rests of their own."""
    task = st.Task(length=10, sparsity=2, strength=2.5, prevalence=0.4)
    data = sample_data(task, PROTOCOL)
    samples = drawn(page, data, seed=3)
    rng = np.random.default_rng(5)
    count, dim = 40_000, 8
    signal = np.zeros(dim)
    signal[:2] = data["cosine"], math.sqrt(1 - data["cosine"] ** 2)
    labels, tokens, _, _ = task.sample(count, dim, rng, signal)
    judges = data["classifiers"]
    attention = np.exp(data["sharpness"] * tokens[..., 0])
    attention /= attention.sum(axis=1, keepdims=True)
    pooled = np.einsum("nl,nld->nd", attention, tokens)
    direct = {
        "attention": pooled[:, :2] @ judges["attention"]["weights"]
        + judges["attention"]["rest"] * pooled[:, 2],
        "pooled": tokens.mean(axis=1) @ signal * judges["pooled"]["weights"][0]
        + judges["pooled"]["rest"] * tokens.mean(axis=1)[:, 3],
    }
    positions = rng.standard_normal((task.length, dim - 4))
    positions *= judges["vectorized"]["rest"] / np.linalg.norm(positions)
    along = judges["vectorized"]["weights"][0] / math.sqrt(task.length)
    direct["vectorized"] = along * (tokens @ signal).sum(axis=1)
    direct["vectorized"] += np.einsum("nld,ld->n", tokens[..., 4:], positions)

    def wrong(scores, labels, names):
        return np.all([labels * scores[name] < 0 for name in names], axis=0)

    for name in direct:
        direct[name] = direct[name] + judges[name]["bias"]
    apart = 0
    for names in (("attention", "pooled"), ("attention", "vectorized"), ("pooled", "vectorized")):
        ours = wrong(samples, samples["label"], names).mean()
        theirs = wrong(direct, labels, names).mean()
        deviation = math.sqrt(theirs * (1 - theirs) * (1 / COUNT + 1 / count))
        assert abs(ours - theirs) < 4 * deviation, names
        alone = math.prod(judges[name]["test_error"] for name in names)
        apart += abs(theirs - alone) > 6 * deviation
    assert apart  # err together more often than if they saw different tokens: the test can fail


def test_pooled_vectors_have_the_means_of_the_law(page):
    task = st.Task(length=10, sparsity=1, strength=4.0)
    data = sample_data(task, PROTOCOL)
    samples = drawn(page, data, seed=11)
    positive = samples["label"] > 0
    law = st.Attention().law(task, st.align(task, PROTOCOL))
    for label, chosen in ((1.0, positive), (-1.0, ~positive)):
        side = law.labels == label
        for place, name in enumerate(("pooled along", "pooled across")):
            exact = np.average(law.means[side, place], weights=law.weights[side])
            values = samples[name][chosen]
            assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(len(values))
    reach = samples["mean along"][positive].mean() * 10 / (4.0 * data["cosine"])
    assert abs(reach - 1) < 4 * math.sqrt(10 / positive.sum()) / (4.0 * data["cosine"])
    caught = samples["caught"][positive]  # ⟨a, v⟩ of the law, through ξ⊥
    side, sine = law.labels > 0, math.sqrt(1 - data["cosine"] ** 2)
    exact = np.average(law.means[side, 1], weights=law.weights[side]) / (4.0 * sine)
    assert abs(caught.mean() - exact) < 4 * caught.std() / math.sqrt(len(caught))
    assert np.all(samples["caught"][~positive] == 0)


def test_random_numbers_are_those_of_xoshiro(page):
    """Against the generator written anew from its definition."""

    def rotated(x, k):
        return ((x << k) | (x >> (32 - k))) & 0xFFFFFFFF

    def splitmix(state):
        while True:
            state = (state + 0x9E3779B9) & 0xFFFFFFFF
            z = ((state ^ (state >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
            z = ((z ^ (z >> 15)) * 0x735A2D97) & 0xFFFFFFFF
            yield z ^ (z >> 15)

    source = splitmix(42)
    s = [next(source) for _ in range(4)]
    expected = []
    for _ in range(100):
        expected.append(rotated((s[1] * 5) & 0xFFFFFFFF, 7) * 9 & 0xFFFFFFFF)
        t = (s[1] << 9) & 0xFFFFFFFF
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 11)
    bits, normals = page.evaluate("""async () => {
      const { makeRandom } = await import("/sample/random.js");
      const first = makeRandom(42), other = makeRandom(1);
      return [Array.from({length: 100}, first.bits), Array.from({length: 100000}, other.normal)];
    }""")
    assert bits == expected
    from scipy import stats

    assert stats.kstest(normals, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(normals[:-1], normals[1:])[0, 1]) < 4 / math.sqrt(1e5)


MOUNT = """async (data) => {
  const { mountSample } = await import("/sample/sample.js");
  window.mounted = mountSample(document.getElementById("here"), { data });
}"""


@pytest.fixture(scope="module")
def data():
    return sample_data(st.Task(30, 1, 5.5), st.Protocol(4.0, 8.0, ridge=0.01, query_step=100.0))


def test_a_sample_is_shown_and_another_one(page, data):
    page.evaluate(MOUNT, data)
    words = page.locator(".sample-words")
    assert words.inner_text().startswith("Positive: of these 30 tokens, token ")
    page.get_by_role("button", name="Negative").click()
    assert words.inner_text() == "Negative: these 30 tokens are all noise."
    page.get_by_role("button", name="Positive").press("Enter")
    assert words.inner_text().startswith("Positive")
    assert page.locator(".sample-card h3").all_inner_texts() == [
        "attention", "vectorized: all tokens side by side", "pooled: mean of the tokens",
    ]  # fmt: skip
    for says in page.locator(".sample-says").all_inner_texts():
        assert says in ("says yes – ✓ right", "says no – ✗ wrong")
    names = [page.locator("canvas").nth(k).get_attribute("aria-label") for k in range(6)]
    assert all(names) and "30 tokens" in names[0] and "Score" in names[3] + names[2]
    assert page.locator(".sample-counted").inner_text() == ""  # asked for by class: not counted
    page.get_by_role("button", name="Another").click()
    assert page.locator(".sample-counted").inner_text().startswith("1 sample drawn;")


def test_play_converges_to_the_exact_errors(page, data):
    page.evaluate(MOUNT, data)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("mounted.run(0).attention.deviation < 0.01", timeout=60_000)
    page.get_by_role("button", name="Pause").click()
    tally = page.evaluate("mounted.run(0)")
    again = page.evaluate("mounted.run(0)")
    assert tally == again  # paused
    more = page.evaluate(f"mounted.run({COUNT})")
    for name, judge in data["classifiers"].items():
        for state in (tally, more):
            assert abs(state[name]["error"] - judge["test_error"]) < 4 * state[name]["deviation"]
    shown = page.locator(".sample-exact").all_inner_texts()
    for text, judge in zip(shown, data["classifiers"].values(), strict=True):
        value = 100 * judge["test_error"]
        assert f"errs {value:.{2 if value < 1 else 1}f}\u00a0%, exactly" in text
    page.evaluate("(data) => mounted.update(data)", data)
    assert page.locator(".sample-counted").inner_text() == ""
    page.evaluate("mounted.destroy()")
    assert page.locator("#here > *").count() == 0


def test_less_motion_is_respected(page, data):
    """While samples are streamed, numbers and pictures stand still for most of a second."""
    page.clock.install()
    changes = {}
    for motion in ("no-preference", "reduce"):
        page.emulate_media(reduced_motion=motion)
        page.evaluate(MOUNT, data)
        page.get_by_role("button", name="Play").click()
        page.evaluate("""() => {
          window.changes = { numbers: 0, sample: 0 };
          const watch = (name, place) => new MutationObserver(() => window.changes[name]++)
            .observe(document.querySelector(place), { childList: true });
          watch("numbers", ".sample-counted");
          watch("sample", ".sample-words");
        }""")
        page.clock.run_for(7000)
        changes[motion] = page.evaluate("window.changes")
        page.evaluate("mounted.destroy()")
    assert 1 <= changes["reduce"]["numbers"] <= 10 < 100 < changes["no-preference"]["numbers"]
    assert 1 <= changes["reduce"]["sample"] <= 10 < changes["no-preference"]["sample"] <= 20


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(st.InvalidInput, match="uniform places"):
        sample_data(st.Task(3, 1, 4.0, places=(1.0, 2.0, 3.0)), PROTOCOL)
    with pytest.raises(st.InvalidInput, match="one strength"):
        sample_data(st.Task(3, 1, st.Discrete([2, 4])), PROTOCOL)
    kinds = {"pooled": st.Pooled(), "mine": st.Pooled()}
    assert set(sample_data(st.Task(3, 1, 4.0), PROTOCOL, kinds)["classifiers"]) == {"pooled"}

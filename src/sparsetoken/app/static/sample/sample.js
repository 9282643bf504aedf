// One sample, live: its tokens, how they match the query, what attention and the mean make of them,
// and the verdicts of three trained classifiers; and a stream of samples whose running errors
// converge to the exact ones. law.js says what is drawn.

import { errs, makeSource, makeTally } from "./law.js";
import { paintPlane, paintRow, paintRunning, paintScore } from "./pictures.js";
import { WORDS, grouped, make, makeCanvas, percent } from "./surface.js";

const ORDER = ["attention", "vectorized", "pooled"];
const LAST = 100000; // samples after which play stops
const BUDGET = 8; // milliseconds of drawing samples in a frame
const GLANCE = 350; // milliseconds that one sample of the stream is shown, at least
const STILL = 700; // and that numbers stand still for those who asked for less motion

/**
 * Shows samples of `data` (sample.py makes it) in the element.
 *
 * Returns `update(data)`, `destroy()`, `show(label)` (+1, −1 or none: by prevalence), `play()`,
 * `pause()` and `run(count)`: so many samples at once, and what they came to.
 */
export function mountSample(element, { data, seed = 1 }) {
  let source, tally, history, sample, frame = 0, shownAt = 0, cards = [];
  const less = matchMedia("(prefers-reduced-motion: reduce)");

  const row = makeCanvas((...on) => paintRow(...on, { sample, data }));
  const plane = makeCanvas((...on) => paintPlane(...on, { sample, data }));
  const running = makeCanvas((...on) => {
    const words = tally.count ? "" : "Play draws and judges one by one";
    paintRunning(...on, { data, history, words });
  });
  row.element.className = "sample-row";
  plane.element.className = "sample-plane";
  running.element.className = "sample-running";

  const words = make("p", { className: "sample-words", "aria-live": "polite" });
  const counted = make("p", { className: "sample-counted" });
  const caption = make("figcaption");
  const verdicts = make("div", { className: "sample-verdicts" });
  const playButton = button("Play", toggle);
  const root = make("div", { className: "sample" },
    make("div", { className: "sample-buttons", role: "group", "aria-label": "draw a sample" },
      button("Another", () => show()), button("Positive", () => show(1)),
      button("Negative", () => show(-1)), playButton),
    words,
    make("div", { className: "sample-pictures" },
      make("figure", {}, row.element, make("figcaption", {}, "The tokens in their order")),
      make("figure", {}, plane.element, caption)),
    verdicts,
    make("figure", {}, running.element, make("figcaption", {},
      "Errors among the samples drawn so far (solid), the exact ones (dashed), and two standard " +
      "deviations of so many samples around them")),
    counted);
  element.append(root);

  function button(label, act) {
    const made = make("button", { type: "button" }, label);
    made.addEventListener("click", act);
    return made;
  }

  function update(next) {
    pause();
    data = next;
    source = makeSource(data, seed);
    tally = makeTally(data);
    history = [];
    caption.textContent = "The same tokens: along the query →, across it ↑; query and signal have " +
      `cosine ${data.cosine.toFixed(2).replace("-", "−")}`;
    const names = ORDER.filter((name) => name in data.classifiers);
    if (String(names) !== String(cards.map(({ name }) => name))) {
      cards.forEach((card) => card.score.destroy());
      cards = names.map(makeCard);
      verdicts.replaceChildren(...cards.map((card) => card.element));
    }
    show(sample?.label ?? 1);
    count();
  }

  function makeCard(name) {
    const score = makeCanvas((...on) => {
      const { scores, label } = sample;
      paintScore(...on, { name, judge: data.classifiers[name], score: scores[name], label });
    });
    const says = make("p", { className: "sample-says" });
    const exact = make("p", { className: "sample-exact" });
    const element = make("article", { className: `sample-card sample-${name}` },
      make("h3", {}, WORDS[name]), says, score.element, exact);
    return { name, score, says, exact, element };
  }

  /** A new sample, of one class or by prevalence; only those by prevalence are counted. */
  function show(label) {
    sample = source.draw(label);
    if (label === undefined) {
      note();
      count();
    }
    words.setAttribute("aria-live", "polite");
    paint();
  }

  function note() {
    tally.add(sample);
    if (tally.count < 50 || tally.count > 1.02 * history[history.length - 1].count) {
      const errors = {};
      for (const { name } of cards) errors[name] = tally.of(name).error;
      history.push({ count: tally.count, errors });
    }
  }

  function paint() {
    const { label, places, caught } = sample;
    const carriers = places.length === 1 ? `token ${places[0] + 1}` : `${places.length} of them`;
    words.replaceChildren(make("strong", {}, label > 0 ? "Positive" : "Negative"), label > 0
      ? `: of these ${grouped(data.length)} tokens, ${carriers} ` +
        `${places.length === 1 ? "carries" : "carry"} the signal; the rest is noise.`
      : `: these ${grouped(data.length)} tokens are all noise.`);
    row.name(`${data.length} tokens with their scores and attention weights; ` + (label > 0
      ? `${carriers} with the signal, ${Math.round(100 * caught)} % of the attention on it.`
      : "none carries the signal."));
    plane.name("The tokens in the plane of query and signal: the vector that attention pools at " +
      `${pair(sample.pooled)}, the mean at ${pair(sample.mean)}.`);
    for (const card of cards) {
      const score = sample.scores[card.name];
      const wrong = errs(label, score);
      card.says.textContent = `says ${score > 0 ? "yes" : "no"} – ${wrong ? "✗ wrong" : "✓ right"}`;
      card.says.className = `sample-says ${wrong ? "sample-wrong" : "sample-right"}`;
      card.score.name(`Score ${score.toFixed(2)}, threshold 0, among those of both classes.`);
      card.score.redraw();
    }
    row.redraw();
    plane.redraw();
  }

  function pair([along, across]) {
    return `(${along.toFixed(1)}, ${across.toFixed(1)})`;
  }

  /** The running errors, in the cards and in the picture. */
  function count() {
    const parts = [];
    for (const { name, exact } of cards) {
      const lines = [`errs ${percent(data.classifiers[name].test_error)}, exactly`];
      if (tally.count) {
        const { error, deviation } = tally.of(name);
        lines.push(`${percent(error)} ± ${(100 * deviation).toFixed(2)} of those drawn`);
        parts.push(`${WORDS[name]} ${percent(error)}`);
      }
      exact.replaceChildren(...lines.flatMap((text, k) => (k ? [make("br"), text] : [text])));
    }
    counted.textContent = tally.count
      ? `${grouped(tally.count)} ${tally.count === 1 ? "sample" : "samples"} drawn; ` +
        "± is one standard deviation of as many." : "";
    running.name(tally.count ? `Errors among ${tally.count} samples: ${parts.join(", ")}.`
      : "No samples counted yet.");
    running.redraw();
  }

  function toggle() {
    if (frame) pause();
    else play();
  }

  function play() {
    if (frame) return;
    if (tally.count >= LAST) update(data);
    playButton.textContent = "Pause";
    words.setAttribute("aria-live", "off"); // nobody can listen to a stream
    frame = requestAnimationFrame(stream);
  }

  function pause() {
    cancelAnimationFrame(frame);
    frame = 0;
    playButton.textContent = "Play";
  }

  function stream(now) {
    const still = less.matches;
    const begun = performance.now();
    const wanted = 1 + Math.floor(tally.count / 40); // slowly at first, then ever more of them
    for (let k = 0; k < wanted && tally.count < LAST; k++) {
      sample = source.draw();
      note();
      if (performance.now() - begun > BUDGET) break;
    }
    if (now - shownAt > (still ? STILL : GLANCE)) {
      shownAt = now;
      paint();
      if (still) count();
    }
    if (!still) count();
    if (tally.count < LAST) frame = requestAnimationFrame(stream);
    else {
      pause();
      count();
    }
  }

  function run(many) {
    for (let k = 0; k < many; k++) {
      sample = source.draw();
      note();
    }
    paint();
    count();
    return Object.fromEntries(cards.map(({ name }) => [name, tally.of(name)]));
  }

  update(data);
  return {
    update, show, play, pause, run,
    destroy: () => {
      pause();
      [row, plane, running, ...cards.map((card) => card.score)].forEach((on) => on.destroy());
      root.remove();
    },
  };
}

// Answers → figures as data, each with what it is: draft, computing, exact, sampled, outdated.

import { fieldsOf, keyOf, settings, told } from "./state.js";

const SAMPLED = 1e-3; // a standard error above it makes numbers sampled ones
const TIE = Math.log10(1.01); // of the map: a difference below it is none
const DRAFT = { curves: "curves_draft", roc: "roc_draft", alignment: null };
const X = {
  curves: { label: "readout samples per dimension α₁", log: true, min: 0.1, max: 100 },
  roc: { label: "false positive rate", min: 0, max: 1 },
  alignment: { label: "query samples per dimension α₀", log: true, min: 0.1, max: 100 },
};
const Y = { roc: "true positive rate", alignment: "cosine of query and signal" };
const NAMES = { roc: "true_positive_rate", alignment: "cosine" };
const AUC = "area under the ROC curve";

// How sure numbers are, in words; "exact" only where nothing was sampled, or to what is resolved.
export function precision(error, drawn = false) {
  if (!error) return { word: "exact", detail: "" };
  const bound = Number((2 * error).toPrecision(1));
  if (error < SAMPLED && !drawn) return { word: "exact", detail: `to ±${bound}` };
  return { word: "sampled", detail: `± ${bound}` };
}

// What a view shows now: the exact answer of this state, or else the newest there is.
function source(view, answers, words) {
  const exact = answers.current(view, words);
  if (exact) return { shown: exact, exact: true, current: true };
  const draft = DRAFT[view] && answers.shown[DRAFT[view]];
  const old = answers.shown[view];
  // curves of another metric do not belong on these axes
  const fits = (shown) => shown && (view !== "curves" || shown.words.metric === words.metric);
  if (fits(draft) && !(fits(old) && old.id > draft.id)) {
    return { shown: draft, exact: false, current: draft.key === keyOf(DRAFT[view], words) };
  }
  return fits(old) ? { shown: old, exact: true, current: false } : null;
}

export function status(view, answers, words, connected) {
  const kind = view === "sample" ? "sample" : view;
  const failed = answers.failed(kind, words);
  const offline = connected ? "" : "without a server";
  const join = (...parts) => parts.filter(Boolean).join(" · ");
  if (view === "map") return mapStatus(answers, words, offline, failed, join);
  const from = source(view, answers, words);
  if (failed) return { word: "no answer", detail: failed, state: "failed" };
  if (from?.current && from.exact) {
    const error = from.shown.answer.error ?? 0;
    const { word, detail } = precision(error, from.shown.answer.drawn);
    return { word, detail: join(detail, offline), state: word };
  }
  if (from?.current) return { word: "draft", detail: join("good to about 0.005", offline || "computing"), state: "draft" };
  if (!from) return connected ? { word: "computing", detail: waitWords(view), state: "computing" } : { word: "without a server", detail: "", state: "lost" };
  return { word: "outdated", detail: join("of other sliders", offline || "computing"), state: "outdated" };
}

const waitWords = (view) => (view === "plan" ? "a plan takes ten seconds and more" : "");

function mapStatus(answers, words, offline, failed, join) {
  const shown = answers.shown.map;
  if (failed) return { word: "no answer", detail: failed, state: "failed" };
  if (!shown) return offline ? { word: offline, detail: "", state: "lost" } : { word: "computing", detail: "", state: "computing" };
  if (shown.key !== keyOf("map", words)) return { word: "outdated", detail: join("of other sliders", offline || "computing"), state: "outdated" };
  const cells = shown.answer.cells;
  const drafts = cells.filter((cell) => cell.draft).length;
  const missing = (shown.answer.count ?? Infinity) - cells.length;
  if (!shown.partial) {
    const { word } = precision(Math.max(0, ...cells.map((cell) => cell.error)));
    const sure = cells.filter((cell) => !unsure(cell));
    // where shades differ: ties and what is beyond tenfold have errors that no shade shows
    const shaded = sure.filter((cell) => cell.value !== 0 && Math.abs(cell.value) < 1);
    const errors = shaded.map((cell) => cell.error).sort((a, b) => a - b);
    const middle = errors[Math.floor(errors.length / 2)];
    const about = middle ? `${word === "exact" ? "to " : ""}± ${percentOf(middle)} typically` : "";
    const open = cells.length - sure.length;
    return { word, detail: join(about, `${cells.length} cells${open ? `, ${open} unsure` : ""}`, offline), state: word };
  }
  const exact = cells.length - drafts;
  if (missing > 0) return { word: "computing", detail: join(`${cells.length} cells so far`, offline), state: "computing" };
  return { word: "draft", detail: join(`${exact} of ${cells.length} cells are exact`, offline || "computing"), state: "draft" };
}

// The state that is drawn: what the answer depends on as it was asked, all else as it is.
export function of(kind, words, own) {
  return { ...words, ...Object.fromEntries(fieldsOf(kind, own).map((name) => [name, own[name]])) };
}

// Two standard errors of a log₁₀ ratio, as a part of the ratio.
export const percentOf = (error) => `${Number((200 * Math.LN10 * error).toPrecision(1))}\u00a0%`;

// Whether it is open who wins in a cell of the map, or whether anybody does.
export const unsure = ({ value, error, draft }) => !draft && 2 * error > Math.max(Math.abs(value), TIE);

// The figure of a view with curves; null where there is nothing to draw yet.
export function figure(view, answers, words, dots) {
  const from = source(view, answers, words);
  if (!from) return null;
  const { answer, words: own } = from.shown;
  const metric = view === "curves" ? words.metric : "y";
  const kind = from.exact ? view : DRAFT[view];
  const lines = Object.entries(answer.series).map(([name, line]) => ({ name, label: name, x: line.x, y: line.y }));
  const made = { view, lines, floors: [], triangles: [], points: [], bars: [], x: { ...X[view] }, y: { label: Y[view], name: NAMES[view] ?? metric, min: 0, max: 1 }, words: of(kind, words, own), current: from.current };
  if (view === "curves") curves(made, answers, words, dots);
  if (view === "alignment") {
    made.y.min = Math.min(0, ...lines.flatMap((line) => line.y));
    made.points.push({ name: "cosine", x: answer.at.x, y: answer.at.y, big: true });
  }
  if (view === "roc") made.lines.push({ name: "guessing", label: "guessing", x: [0, 1], y: [0, 1] });
  return made;
}

function curves(made, answers, words, dots) {
  const { metric } = words;
  made.y.label = metric === "auc" ? AUC : settings.metrics[metric];
  made.vertical = { x: words.readout_samples, label: "α₁" };
  const values = made.lines.flatMap((line) => line.y).filter((y) => y !== null);
  if (metric === "test_error") {
    for (const { name, error, standard_error } of answers.current("floors", words)?.answer.floors ?? [])
      made.floors.push({ name: name === "Bayes" ? "any" : name, y: error, label: `${name} floor ${told(Number(error.toPrecision(3)))}${standard_error > SAMPLED ? ` ± ${told(Number((2 * standard_error).toPrecision(1)))}` : ""}` });
    const learners = answers.current("learners", words)?.answer.series ?? {};
    const label = { any: "any learner", "message passing": "hard: fast learners" };
    for (const [name, line] of Object.entries(learners)) made.lines.push({ name, label: label[name], ...line });
  }
  for (const [name, x] of Object.entries(answers.current("capacities", words)?.answer.capacities ?? {}))
    if (typeof x === "number" && x >= made.x.min && x <= made.x.max) made.triangles.push({ name, x });
  if (dots && dots.key === keyOf("simulate", words)) {
    for (const dot of dots.dots) made.points.push({ name: dot.series, x: dot.x, y: dot[metric] });
    made.bars = means(dots.dots, metric);
    made.words.repeats = dots.words.repeats;
  }
  const top = Math.max(...values, ...made.points.map((point) => point.y));
  if (metric === "auc") Object.assign(made.y, { min: Math.min(0.5, Math.floor(10 * Math.min(...values)) / 10), max: 1 });
  else Object.assign(made.y, { min: 0, max: nice(1.02 * top) });
}

// Mean and standard error of simulated runs, by classifier and samples.
export function means(dots, metric) {
  const groups = new Map();
  for (const dot of dots) {
    const place = `${dot.series} ${dot.x}`;
    if (!groups.has(place)) groups.set(place, { name: dot.series, x: dot.x, values: [] });
    groups.get(place).values.push(dot[metric]);
  }
  return [...groups.values()].map(({ name, x, values }) => {
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const square = values.reduce((a, b) => a + (b - mean) ** 2, 0);
    const error = values.length > 1 ? Math.sqrt(square / (values.length - 1) / values.length) : null;
    return { name, x, y: mean, error, count: values.length };
  });
}

const nice = (top) => {
  const unit = 10 ** Math.floor(Math.log10(Math.max(top, 1e-6)));
  return [1, 2, 3, 5, 7, 10].map((k) => k * unit).find((value) => value >= top) ?? top;
};

// The computed place that is nearest to x, on any of the lines; null where there is none.
export function nearest(lines, x, log) {
  const scale = (value) => (log ? Math.log(value) : value);
  let best = null;
  for (const line of lines)
    for (const place of line.x)
      if (best === null || Math.abs(scale(place) - scale(x)) < Math.abs(scale(best) - scale(x))) best = place;
  return best;
}

// The value of a line at x: computed, or between its points; null beyond them.
export function at(line, x, log) {
  const own = line.x.indexOf(x);
  if (own >= 0) return { y: line.y[own], computed: true };
  const scale = (value) => (log ? Math.log(value) : value);
  for (let k = 1; k < line.x.length; k += 1) {
    if (line.x[k - 1] <= x && x <= line.x[k] && line.x[k] > line.x[k - 1]) {
      const t = (scale(x) - scale(line.x[k - 1])) / (scale(line.x[k]) - scale(line.x[k - 1]));
      return { y: line.y[k - 1] + t * (line.y[k] - line.y[k - 1]), computed: false };
    }
  }
  return null;
}

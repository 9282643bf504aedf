// The panels beside the plot: numbers and reasons, plan, simulated runs; each says what it is.

import { keyOf, settings, told } from "./state.js";
import { means, precision } from "./figures.js";
import { make } from "./controls.js";

const byId = (id) => document.getElementById(id);

export function tell(id, text) {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

// Words of columns and lines that want one more.
const EXPLAINED = {
  ...settings.classifier_words,
  test_error: settings.metric_words.test_error, auc: settings.metric_words.auc, train_loss: settings.metric_words.train_loss,
  train_error: "share of the samples the readout was fitted to that are judged wrongly",
  samples: "labelled samples that are needed in all", value: "the test error that the plan expects, over training sets",
  spread: "standard deviation of the test error between training sets", limit: "the test error with infinitely many samples",
  query_count: "labelled samples that teach the query", readout_count: "labelled samples that fit the readout",
  ridge: "penalty on the readout's weights", cosine: "of the learned query with the signal", sharpness: "length of the learned query",
  readout_step: "first gradient step", bias_step: "first gradient step, of the bias", query_step: "second gradient step",
  shrinkage: "0 whitens tokens with all of the noise's covariance, 1 leaves them as they are",
};

const SPELLED = { ...settings.metrics, train_error: "training error" };

function named(name) {
  const words = SPELLED[name] ?? String(name).replaceAll("_", " ");
  return EXPLAINED[name] ? make("abbr", { title: EXPLAINED[name] }, words) : words;
}

function table(rows, buttons) {
  const names = Object.keys(rows[0]);
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, named(name))));
  if (buttons) head.children[0].after(make("td", {}));
  const body = rows.map((row) => {
    const [first, ...others] = names.map((name) => told(row[name]));
    const line = make("tr", {}, make("th", { scope: "row" }, named(first)), ...others.map((text) => make("td", {}, text)));
    if (buttons) line.children[0].after(make("td", {}, ...buttons(row)));
    return line;
  });
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

// Numbers at the chosen samples, with the reason; of a plan what it recommends.
export function numbers(answers, words, connected, apply) {
  const kind = words.view === "plan" ? "plan" : "table";
  byId("numbers").hidden = words.view === "map";
  const current = answers.current(kind, words);
  const shown = current ?? answers.shown[kind];
  const failed = answers.failed(kind, words);
  let state = connected ? "computing" : "without a server";
  if (failed) state = failed;
  else if (current) {
    const { word, detail } = precision(current.answer.error, current.answer.drawn);
    state = `${word} ${detail}`.trim();
  } else if (shown) state = connected ? "outdated, computing" : "outdated, without a server";
  if (kind === "table" && !failed && current) state += ` at α₁ = ${told(words.readout_samples)}`;
  tell("numbers-state", state);
  byId("numbers").classList.toggle("old", !current && Boolean(shown));
  if (byId("table").dataset.shown !== `${kind} ${shown?.id}`) {
    byId("table").dataset.shown = `${kind} ${shown?.id}`;
    draw(kind, shown, apply);
  }
  const doubts = kind === "table" && answers.current("doubts", words)?.answer.words;
  tell("doubts", doubts || "");
}

function draw(kind, shown, apply) {
  const rows = shown?.answer.rows ?? [];
  const buttons = kind === "plan" && ((row) => {
    const wanted = shown.answer.apply[row.classifier];
    if (!wanted) return [];
    const button = make("button", { type: "button" }, `Apply ${row.classifier}`);
    button.onclick = () => apply(wanted, row.classifier);
    return [button];
  });
  byId("table").replaceChildren(...(rows.length ? [table(rows, buttons)] : []));
  const words = kind === "plan" ? [shown?.answer.headline, shown?.answer.warning] : shown?.answer.reasons ?? [];
  byId("reasons").replaceChildren(...words.filter(Boolean).map((sentence) => make("p", {}, sentence)));
}

// What belongs to the curves and comes later: floors, capacities, learners.
export function caption(answers, words, connected) {
  if (words.view !== "curves") {
    const map = "Colours say how many times attention's number is that of the best linear classifier; hatches are where it loses, the line is where neither wins; grey is a difference below 1 %, or none that is sure. Dotted cells are drafts. Point at a cell for its numbers, click to go there.";
    tell("caption", words.view === "map" ? map : "");
    return;
  }
  const parts = [];
  const names = { floors: "floors", capacities: "capacities", learners: "what any learner gets" };
  const missing = Object.keys(names).filter((kind) => !answers.current(kind, words));
  const capacities = answers.current("capacities", words)?.answer.capacities;
  if (capacities) {
    const list = Object.entries(capacities).map(([name, x]) => `${name} ${typeof x === "number" ? Number(x.toPrecision(3)) : "any number"}`);
    parts.push(`▲ Training data are separable up to so many samples: ${list.join(", ")}.`);
  }
  const failed = missing.map((kind) => answers.failed(kind, words)).filter(Boolean);
  if (failed.length) parts.push(...failed.map((text) => `${text}.`));
  else if (missing.length) parts.push(`${connected ? "Computing" : "Without a server"}: ${missing.map((kind) => names[kind]).join(", ")}.`);
  tell("caption", parts.join(" "));
}

// Simulated runs belong to a state: drawn and counted there alone, elsewhere a link to it.
export function simulation(runs, words, connected, href) {
  byId("simulation").hidden = words.view !== "curves";
  const button = byId("simulate");
  button.disabled = !connected;
  byId("cancel").hidden = !runs.running;
  const link = byId("simulated-state");
  const own = runs.key === keyOf("simulate", words);
  link.hidden = own || !runs.dots.length;
  if (!link.hidden) {
    link.href = href(runs.words);
    if (link.textContent !== "Show that state") link.textContent = "Show that state";
  }
  const count = `${runs.dots.length} of ${runs.total} runs`;
  let state = runs.trouble;
  if (!state && runs.total) {
    state = runs.running ? `${count}, computing` : runs.ended || `${count}, sampled ± one standard error`;
    if (!own) state += ", of another state";
  }
  tell("simulation-state", state || (connected ? "" : "without a server"));
  const shown = own ? `${runs.key} ${runs.dots.length} ${words.metric}` : "";
  if (byId("simulated").dataset.shown === shown) return;
  byId("simulated").dataset.shown = shown;
  const rows = own ? means(runs.dots, words.metric).map(({ name, x, y, error, count: n }) => ({
    classifier: name, "α₁": x, [settings.metrics[words.metric]]: error === null ? told(y) : `${y.toPrecision(4)} ± ${error.toPrecision(2)}`, runs: n,
  })) : [];
  byId("simulated").replaceChildren(...(rows.length ? [table(rows)] : []));
}

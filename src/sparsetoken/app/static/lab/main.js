// The laboratory: one state, its address, what is asked of the server, what is shown.

import { Answers } from "./answers.js";
import * as away from "./away.js";
import { Connection } from "./connection.js";
import * as controls from "./controls.js";
import { figure, status } from "./figures.js";
import { onThemeChange } from "./look.js";
import { MapView, mapFigure, mapWords } from "./map.js";
import * as panels from "./panels.js";
import { Plot } from "./plot.js";
import { Runs } from "./runs.js";
import { keyOf, kinds, query, read, settings, settled } from "./state.js";
import { mountAround } from "./story.js";

const REST = 150; // milliseconds without a move: exact numbers are asked for
const SAME_MOVE = 1000; // of one control: one step of the browser's history

const byId = (id) => document.getElementById(id);
const connection = new Connection();
const answers = new Answers(connection);
const runs = new Runs(connection);
const plot = new Plot(byId("plot"), byId("readout"));
const map = new MapView(byId("plot"), byId("readout"), goTo);
const around = mountAround({ openInLab, answers, connection });
let { words, remarks } = read(location.search);
let wrong = true; // the remark is of something that is not allowed
let last = { name: "", at: 0 };
let timer = null;
let frame = 0;

const quick = () => Object.keys(kinds).filter((kind) => kinds[kind].quick && kind !== "code" && kinds[kind].views.includes(words.view));
const rest = () => Object.keys(kinds).filter((kind) => !quick().includes(kind) && kinds[kind].views.includes(words.view));

function moved(name, value, resting) {
  if (value !== null && value !== words[name]) {
    words = settled({ ...words, [name]: value }, name);
    remarks = [];
    wrong = false;
    controls.show(words);
    for (const kind of quick()) answers.want(kind, words);
    paintSoon();
  }
  clearTimeout(timer);
  if (resting) settle(name);
  else timer = setTimeout(() => settle(name), REST);
}

// Nothing has moved for a moment: the address follows, and exact numbers are asked for.
function settle(name = "") {
  const text = query(words);
  if (text !== location.search.replace(/^\?/, "")) {
    const now = performance.now();
    const again = name && name === last.name && now - last.at < SAME_MOVE;
    last = { name, at: now };
    history[again ? "replaceState" : "pushState"](null, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
  }
  askAll();
  paintSoon();
}

function askAll() {
  if (!connection.open) return;
  // what exact numbers make needless is not asked for
  for (const kind of quick()) if (!answers.current(words.view, words)) answers.want(kind, words);
  for (const kind of rest()) answers.want(kind, words);
}

function become(text, push) {
  ({ words, remarks } = read(text));
  wrong = remarks.length > 0;
  controls.show(words);
  if (push) settle();
  else askAll();
  paintSoon();
}

function openInLab(text, remark) {
  become(text, true);
  if (remark) remarks = [remark];
  const lab = byId("lab");
  lab.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  lab.focus({ preventScroll: true });
}

function paintSoon() {
  if (!frame) frame = requestAnimationFrame(paint);
}

function drawn() {
  if (words.view === "map") return mapFigure(answers, words);
  if (words.view === "sample" || words.view === "plan") return null;
  return figure(words.view, answers, words, runs);
}

function paint() {
  frame = 0;
  const connected = connection.open;
  const now = status(words.view, answers, words, connected);
  const stage = byId("stage");
  stage.dataset.state = now.state;
  stage.dataset.view = words.view;
  panels.tell("status", now.word);
  panels.tell("detail", now.state === "failed" ? "" : now.detail);
  panels.tell("trouble", now.state === "failed" ? now.detail : "");
  panels.tell("remarks", remarks.join("; "));
  byId("remarks").classList.toggle("wrong", wrong);
  const failed = connected && Object.keys(kinds).some((kind) => kinds[kind].views.includes(words.view) && answers.failed(kind, words));
  byId("again").hidden = !failed;
  const made = drawn();
  const isMap = words.view === "map";
  if (isMap !== map.canvas.isConnected) {
    if (isMap) byId("plot").append(map.canvas);
    else map.canvas.remove();
    byId("readout").textContent = "";
  }
  byId("plot").classList.toggle("map", isMap);
  byId("plot").hidden = words.view === "sample" || words.view === "plan";
  if (byId("plot").hidden) byId("readout").textContent = "";
  if (isMap) map.show(made);
  else if (made) plot.show(made);
  byId("plot").classList.toggle("empty", !made);
  around.sample(words);
  panels.numbers(answers, words, connected, apply);
  panels.caption(answers, words, connected);
  panels.simulation(runs, words, connected, (state) => `?${query({ ...words, ...state })}`);
  for (const id of ["code", "copy-python", "copy-command"]) byId(id).hidden = isMap;
  byId("save-csv").hidden = words.view === "sample";
  for (const id of ["save-svg", "save-png"]) byId(id).hidden = words.view === "sample" || words.view === "plan";
  const code = answers.current("code", words)?.answer;
  panels.tell("python", code?.python ?? "");
  panels.tell("command", code?.command ?? "");
  describe(made, now);
  window.explorer = { words, status: now, painted: plot.painted, key: made && keyOf(isMap ? "map" : words.view, made.words), connected };
}

// In words, for those who do not see the plot; when nothing moves.
function describe(made, now) {
  const element = byId("plot");
  element.setAttribute("role", "img");
  const names = made?.lines?.map((line) => line.label).join(", ");
  const told = words.view === "map" ? (made ? `${now.detail}; ${mapWords(made)}` : "") : `${names ? `lines of ${names}. ` : ""}The numbers are in the table`;
  const text = `${settings.views[words.view]}: ${now.word}${told ? `; ${told}` : ""}.`;
  if (element.getAttribute("aria-label") !== text) element.setAttribute("aria-label", text);
}

// A cell of the map that was chosen.
function goTo({ x, y }) {
  words = settled({ ...words, [words.across]: x, [words.up]: y }, words.up);
  controls.show(words);
  settle();
}

function apply(wanted, classifier) {
  words = settled({ ...words, ...wanted, view: "curves", metric: "test_error" });
  wrong = false;
  remarks = [`the plan for ${classifier} is applied`];
  controls.show(words);
  settle();
}

controls.build(byId("controls"), byId("views"), {
  moved,
  wrong: (text) => {
    remarks = [text];
    wrong = true;
    paintSoon();
  },
});
controls.show(words);
const planned = () => ({ view: "plan", words, rows: answers.current("plan", words)?.answer.rows });
away.connect(() => ({ words, figure: words.view === "plan" && planned().rows ? planned() : drawn(), status: status(words.view, answers, words, connection.open), code: answers.current("code", words)?.answer }));
byId("simulate").onclick = () => runs.start(words);
byId("again").onclick = () => {
  answers.forgive();
  askAll();
  paintSoon();
};
byId("cancel").onclick = () => runs.cancel();
byId("simulated-state").onclick = (event) => {
  event.preventDefault();
  become(new URL(event.target.href).search, true);
};
answers.addEventListener("change", paintSoon);
runs.addEventListener("change", paintSoon);
connection.addEventListener("open", () => {
  answers.forgive();
  panels.tell("connection", "");
  askAll();
  paintSoon();
});
connection.addEventListener("lost", () => {
  panels.tell("connection", connection.ever ? "The server does not answer. What is shown stays; this page connects again by itself." : "Connecting to the server.");
  paintSoon();
});
addEventListener("popstate", () => become(location.search, false));
onThemeChange(() => {
  plot.restyle();
  paintSoon();
});
if (location.search) byId("lab").scrollIntoView();
paintSoon();

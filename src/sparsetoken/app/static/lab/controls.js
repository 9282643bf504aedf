// The controls: each with its name and its value spoken, a slider and a typed entry in step.

import { controls, settings, checked, valueAt, positionOf, positions, told } from "./state.js";

const make = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  element.append(...children);
  return element;
};

export { make };

// `moved(name, value, resting)` is called for every change; `wrong(text)` for what is no value.
export function build(form, views, { moved, wrong, presets }) {
  form.append(make("h3", { id: "presets-title" }, "Begin with a step of the story"));
  form.append(make("div", { id: "presets", className: "buttons", role: "group", "aria-labelledby": "presets-title" }));
  form.append(metricChoice(moved));
  for (const name of settings.first) form.append(control(name, moved, wrong));
  const more = make("details", { id: "more" }, make("summary", {}, "More"));
  for (const [title, names] of Object.entries(settings.groups)) {
    const group = make("fieldset", {}, make("legend", {}, title));
    for (const name of names) group.append(control(name, moved, wrong));
    more.append(group);
  }
  form.append(more);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const [view, words] of Object.entries(settings.views))
    views.append(radio("view", view, words, (value) => moved("view", value, true)));
  void presets;
}

function metricChoice(moved) {
  const group = make("fieldset", { className: "choice", id: "metric" }, make("legend", {}, "Curves and map show"));
  for (const [metric, words] of Object.entries(settings.metrics))
    group.append(radio("metric", metric, words, (value) => moved("metric", value, true)));
  group.append(make("small", { id: "metric-help" }));
  return group;
}

function radio(name, value, words, chosen) {
  const input = make("input", { type: "radio", name, value, id: `${name}-${value}` });
  input.addEventListener("change", () => chosen(value));
  return make("label", {}, input, make("span", {}, words));
}

function control(name, moved, wrong) {
  const { words, symbol, help, choices } = controls[name];
  const title = symbol ? `${words} ${symbol}` : words;
  if (choices.length) {
    const select = make("select", { id: name });
    for (const choice of choices) select.append(make("option", { value: choice }, choice.replaceAll("_", " ")));
    select.addEventListener("change", () => moved(name, select.value, true));
    return make("div", { className: "control" }, label(name, words, symbol, help), select);
  }
  const range = make("input", { type: "range", min: 0, max: positions, step: 1, id: `slide-${name}` });
  range.setAttribute("aria-label", title);
  range.setAttribute("aria-describedby", `help-${name}`);
  const entry = make("input", { type: "text", id: name, inputMode: "decimal" });
  range.addEventListener("input", () => moved(name, slid(name, range), false));
  range.addEventListener("change", () => moved(name, null, true));
  const typed = () => {
    const { value, remark } = checked(name, entry.value);
    entry.setAttribute("aria-invalid", remark ? "true" : "false");
    if (remark) wrong(`${remark}, not ${entry.value.slice(0, 40)}`);
    else moved(name, value, true);
  };
  entry.addEventListener("change", typed);
  return make("div", { className: "control" }, label(name, words, symbol, help), make("div", { className: "entry" }, range, entry));
}

function label(name, words, symbol, help) {
  return make("div", { className: "name" }, make("label", { htmlFor: name }, words, " ", make("i", {}, symbol)), " ",
    make("small", { id: `help-${name}` }, help));
}

// A step too small for the next whole number is a step to it all the same.
function slid(name, range) {
  const before = Number(range.dataset.value);
  const value = valueAt(name, Number(range.value));
  if (value !== before || !controls[name].whole) return value;
  const next = before + Math.sign(Number(range.value) - positionOf(name, before));
  return Math.min(controls[name].most, Math.max(controls[name].least, next));
}

// The controls say what the state is.
export function show(words) {
  for (const name of Object.keys(controls)) {
    const choice = document.getElementById(`${name}-${words[name]}`);
    if (choice) choice.checked = true;
    const entry = document.getElementById(name);
    if (!entry) continue;
    if (entry.tagName === "SELECT") {
      entry.value = words[name];
      continue;
    }
    if (!("value" in entry)) continue;
    const range = document.getElementById(`slide-${name}`);
    const text = told(words[name]);
    if (entry.value !== text) entry.value = text;
    entry.removeAttribute("aria-invalid");
    if (range.dataset.value !== String(words[name])) {
      range.dataset.value = words[name];
      range.value = positionOf(name, words[name]);
    }
    range.setAttribute("aria-valuetext", text);
  }
  document.getElementById("metric-help").textContent = settings.metric_words[words.metric];
  const frozen = words.query === "frozen";
  for (const [names, off] of [[["cosine", "sharpness"], !frozen], [["readout_step", "bias_step", "query_step", "query_samples"], frozen]])
    for (const name of names) document.getElementById(name).closest(".control").classList.toggle("idle", off);
}

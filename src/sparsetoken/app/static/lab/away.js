// Take it away: pictures and tables with what they are of, code and links.

import { controls, query, settings } from "./state.js";
import { png, svg } from "./svg.js";

// Of everything that is saved: title, state, parameters, link, version.
export function notes(figure, status) {
  const { words } = figure;
  const link = `${location.origin}${location.pathname}?${query({ ...words, view: figure.view })}`;
  const without = ["view", "across", "up", ...(figure.rows ? ["repeats"] : ["target"])];
  if (!figure.bars?.length && !figure.rows) without.push("repeats", "dim"); // those of simulated runs and plans
  const values = Object.keys(controls).filter((name) => !without.includes(name)).map((name) => `${name}=${words[name]}`);
  const half = Math.ceil(values.length / 2);
  return [
    `${settings.views[figure.view]}, ${[status.word, status.detail].filter(Boolean).join(" ")}`,
    values.slice(0, half).join("  "),
    values.slice(half).join("  "),
    link,
    `sparsetoken ${settings.version}`,
  ];
}

const quoted = (cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : cell);

export function csv(figure, status) {
  const lines = notes(figure, status).map((note) => `# ${note}`);
  const row = (...cells) => lines.push(cells.map((cell) => (cell === null ? "" : String(cell))).join(","));
  if (figure.rows) {
    row(...Object.keys(figure.rows[0]).map(quoted));
    for (const line of figure.rows) row(...Object.values(line).map(quoted));
  } else if (figure.view === "map") {
    row(figure.x.name, figure.y.name, "log10_ratio", "standard_error", "state");
    for (const { column, line, value, error, draft } of figure.cells)
      row(figure.x.values[column], figure.y.values[line], value, draft ? null : error, draft ? "draft" : "computed");
  } else {
    row("series", "x", figure.y.name, "kind");
    for (const { name, x, y } of figure.lines) x.forEach((value, k) => row(name, value, y[k], "curve"));
    for (const { name, y } of figure.floors) row(name === "any" ? "Bayes" : name, null, y, "floor");
    for (const { name, x } of figure.triangles) row(name, x, null, "capacity");
    for (const { name, x, y } of figure.points) row(name, x, y, figure.view === "curves" ? "simulated" : "chosen");
  }
  return lines.join("\n") + "\n";
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Buttons; `now()` gives {figure, status, code} of what is shown.
export function connect(now) {
  const byId = (id) => document.getElementById(id);
  const say = (words) => {
    byId("away-state").textContent = words;
  };
  const saved = (ending, blob) => async () => {
    const { figure, status } = now();
    if (!figure) {
      say("there is nothing to save in this view");
      return;
    }
    save(`sparsetoken-${figure.view}.${ending}`, await blob(figure, status));
    say(`${ending.toUpperCase()} saved`);
  };
  const picture = (figure, status) => svg(figure, notes(figure, status));
  byId("save-csv").onclick = saved("csv", (...of) => new Blob([csv(...of)], { type: "text/csv" }));
  byId("save-svg").onclick = saved("svg", (...of) => new Blob([picture(...of)], { type: "image/svg+xml" }));
  byId("save-png").onclick = saved("png", (...of) => png(picture(...of)));
  const copied = (what, text) => async () => {
    const words = text();
    if (!words) say(`${what} is not there yet`);
    else say((await copy(words, byId("by-hand"))) ? `${what} copied` : `${what} is below: copy it by hand (Ctrl+C)`);
  };
  byId("copy-link").onclick = copied("link", () => `${location.origin}${location.pathname}?${query(now().words)}`);
  byId("copy-python").onclick = copied("Python", () => now().code?.python);
  byId("copy-command").onclick = copied("command", () => now().code?.command);
}

// By permission, or as a selection is copied, or left selected for the reader to copy.
async function copy(text, byHand) {
  byHand.hidden = true;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    byHand.hidden = false;
    byHand.value = text;
    byHand.focus();
    byHand.select();
    const done = document.execCommand("copy");
    byHand.hidden = done;
    return done;
  }
}

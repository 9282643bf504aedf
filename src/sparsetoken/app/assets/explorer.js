/* What the page does by itself: keeps sliders, typed entries and the address in step, draws what
   arrives for the state that is shown, exports. */
(function () {
  "use strict";
  const settings = () => JSON.parse(document.getElementById("settings").textContent);
  let S = null;
  const skip = () => window.dash_clientside.no_update;
  const visit = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
  let timer = null, pause = null;
  let address = null;
  window.explorerMoves = [];

  function toValue(name, position) {
    const [least, most, log, whole] = S.controls[name];
    const t = position / S.steps;
    let value;
    if (log) value = least * Math.pow(most / least, t);
    else value = least + (most - least) * t;
    if (whole) return Math.round(value);
    if (position === S.steps) return most;
    return Number(value.toPrecision(4));
  }

  function toPosition(name, value) {
    const [least, most, log] = S.controls[name];
    const x = Math.min(most, Math.max(least, Number(value)));
    const t = log ? Math.log(x / least) / Math.log(most / least) : (x - least) / (most - least);
    return Number.isFinite(t) ? Math.round(S.steps * t) : 0;
  }

  function query(words) {
    const out = new URLSearchParams();
    for (const [name, value] of Object.entries(words))
      if (String(value) !== String(S.defaults[name])) out.set(name, value);
    return out.toString();
  }

  function same(a, b) {
    const sorted = (x) => JSON.stringify(Object.entries(x).sort());
    return Boolean(a && b) && sorted(a) === sorted(b);
  }

  function number(text) {
    const x = Number(String(text).trim().replace(",", "."));
    return String(text).trim() !== "" && Number.isFinite(x) ? x : text;
  }

  // What a slider's position says, beside the words shown so far.
  function slid(old, name, position) {
    const words = { ...old };
    const before = toPosition(name, old[name]);
    if (position !== before) {
      words[name] = toValue(name, position);
      // a step too small for the next whole number is a step to it all the same
      if (words[name] === old[name]) words[name] = old[name] + Math.sign(position - before);
    }
    if (words.sparsity > words.length && (name === "length" || name === "sparsity")) words.sparsity = words.length;
    return words;
  }

  // A moving slider asks for its draft at once; Dash hears of it when it rests: its callbacks take
  // longer than the draft.
  function move(event) {
    const id = event.target.id || "";
    if (!S || !here.words || !id.startsWith("slide-")) return;
    event.stopImmediatePropagation();
    const name = id.slice(6);
    note(slid(here.words, name, Number(event.target.value)));
    for (const each of [name, "sparsity"]) {
      document.getElementById("slide-" + each).value = toPosition(each, here.words[each]);
      document.getElementById("type-" + each).value = String(here.words[each]);
    }
    clearTimeout(pause);
    pause = setTimeout(() => window.dash_clientside.set_props("moved", { data: here.words }), 150);
  }
  document.addEventListener("input", move, true);
  document.addEventListener("change", move, true);

  function note(words) {
    if (same(words, here.words)) return;
    here.words = words;
    window.explorerMoves.push({ words: JSON.stringify(words), at: performance.now() });
    if (window.explorerMoves.length > 500) window.explorerMoves.shift();
    askDraft();
  }

  function follow(search, ...rest) {
    S = S || settings();
    window.dash_clientside.set_props("visit", { data: visit });
    const old = rest[rest.length - 1];
    if (!old) search = window.location.search; // the first call may come before Dash knows it
    const values = rest.slice(0, -1);
    const triggered = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id);
    let words = { ...(here.words || S.defaults) }; // sliders may be ahead of what Dash knows
    const presets = S.presets.length;
    if (!old || (triggered.includes("address.search") && search !== address)) {
      words = { ...S.defaults };
      for (const [name, value] of new URLSearchParams(search || "")) words[name] = number(value);
    } else {
      for (const id of triggered) {
        const [where, property] = id.split(".");
        if (where.startsWith("preset-") && property === "n_clicks") {
          words = { ...S.defaults, view: old.view, metric: old.metric, ...S.presets[Number(where.slice(7))] };
        } else if (where.startsWith("type-")) {
          const name = where.slice(5);
          words[name] = number(values[presets + 2 * S.numbers.indexOf(name) + 1]);
        } else if (S.choices.includes(where)) {
          words[where] = values[presets + 2 * S.numbers.length + S.choices.indexOf(where)];
        }
      }
    }
    const changed = !same(words, old);
    const shown = [];
    for (const name of S.numbers) shown.push(toPosition(name, words[name]), String(words[name]));
    for (const name of S.choices) shown.push(words[name] !== undefined ? words[name] : S.defaults[name]);
    // what is shown already is not drawn again
    shown.forEach((x, k) => { if (String(x) === String(values[presets + k])) shown[k] = skip(); });
    if (changed) {
      const q = query(words);
      address = q ? "?" + q : "";
      window.history.replaceState(null, "", window.location.pathname + address);
      note(words);
      draw();
    }
    return [changed ? words : skip(), ...shown];
  }

  function settle(words) {
    if (!words) return skip();
    clearTimeout(timer);
    timer = setTimeout(() => window.dash_clientside.set_props("settled", { data: words }), 250);
    return skip();
  }

  // What has arrived, each with the words it is for; the draft comes by a road of its own.
  const here = { words: null, draft: null, exact: null, marks: null, map: null, simulated: null };
  let asking = false;

  function askDraft() {
    if (asking) return; // the newest words are asked for when the answer is there
    asking = true;
    const words = here.words;
    fetch("draft", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(words) })
      .then((answer) => (answer.ok ? answer.json() : null))
      .catch(() => null)
      .then((draft) => {
        asking = false;
        if (draft) { here.draft = draft; draw(); }
        if (!same(words, here.words)) askDraft();
      });
  }

  function table(rows) {
    const element = (name, children) => {
      const made = document.createElement(name);
      for (const child of children) made.append(child);
      return made;
    };
    const names = Object.keys(rows[0]);
    const cell = (x) => (x === null || x === undefined ? "–" : typeof x === "number" ? String(Number(x.toPrecision(6))) : String(x));
    return element("table", [
      element("thead", [element("tr", names.map((n) => element("th", [n.replaceAll("_", " ")])))]),
      element("tbody", rows.map((row) => element("tr", names.map((n) => element("td", [cell(row[n])]))))),
    ]);
  }

  function narrow() {
    return window.innerWidth <= 800;
  }

  function themed(figure, words) {
    const out = { data: figure.data, layout: { ...figure.layout } };
    const style = getComputedStyle(document.body);
    out.layout.font = { color: style.color, family: style.fontFamily };
    out.layout.height = narrow() ? 340 : 440;
    if (narrow()) out.layout.legend = { orientation: "h", y: -0.35 };
    out.layout.meta = JSON.stringify(words);
    return out;
  }

  function tell(id, text) {
    const place = document.getElementById(id);
    if (place && place.textContent !== text) place.textContent = text;
  }

  function draw() {
    const words = here.words;
    if (!words || !plot()) { if (words) setTimeout(draw, 100); return; }
    const mine = (x) => (x && same(x.words, words) ? x : null);
    const now = mine(here.exact), rough = mine(here.draft), cells = mine(here.map), marks = mine(here.marks);
    const simulated = here.simulated;
    const source = now && now.figure ? now : rough;
    const message = (now && now.message) || (rough && rough.message) || (cells && cells.message) || (simulated && simulated.message) || "";
    let figure = null, status = "";
    if (words.view === "map") {
      if (cells && cells.figure) figure = themed(cells.figure, words);
      status = cells && cells.missing === 0 ? "complete" : cells ? cells.missing + " cells to come" : "";
    } else if (words.view === "plan") {
      figure = { data: [], layout: { height: 10, xaxis: { visible: false }, yaxis: { visible: false }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", meta: JSON.stringify(words) } };
      status = now ? now.headline || "" : "planning takes about ten seconds";
    } else if (source && source.figure) {
      figure = themed(source.figure, words);
      status = now ? "exact" : words.view === "curves" ? "draft, good to about 0.005" : "";
      if (words.view === "curves") {
        const dots = simulated && simulated.traces ? simulated.traces.filter((t) => t.meta === words.metric) : [];
        const extra = (marks ? marks.traces : []).concat(dots);
        // a phone has no room for the names of marks
        figure.data = figure.data.concat(narrow() ? extra.map((t) => ({ ...t, showlegend: false })) : extra);
      }
    }
    if (simulated && simulated.words) status += (status ? " · " : "") + "simulation: " + simulated.words;
    if (figure) window.Plotly.react(plot(), figure.data, figure.layout);
    tell("message", message);
    tell("status", status);
    tell("warning", (now && now.warning) || (marks && marks.warning) || ""); // beside the numbers, which stay
    if (now) {
      const numbers = document.getElementById("numbers");
      numbers.replaceChildren(...(now.table && now.table.length ? [table(now.table)] : []));
      tell("python", now.python || "");
      tell("command", now.command || "");
    }
    const running = Boolean(simulated && simulated.running);
    const filling = words.view === "map" && (!cells || cells.missing > 0) && !message;
    window.dash_clientside.set_props("clock", { disabled: !(running || filling) });
  }

  function arrive(name) {
    return (data) => { if (data) { here[name] = data; draw(); } };
  }

  function plot() {
    return document.querySelector("#graph .js-plotly-plot");
  }

  function save(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function csv() {
    const lines = ["series,x,y,value"];
    const quote = (x) => (/[",\n]/.test(x) ? '"' + x.replaceAll('"', '""') + '"' : x);
    for (const trace of plot().data)
      (trace.x || []).forEach((x, k) => lines.push([quote(trace.name || ""), x, trace.y[k], trace.customdata ? trace.customdata[k] : ""].join(",")));
    save("sparsetoken.csv", lines.join("\n") + "\n", "text/csv");
    return "";
  }

  function image(format) {
    window.Plotly.downloadImage(plot(), { format, filename: "sparsetoken", width: 900, height: 560 });
    return "";
  }

  function copy(text) {
    navigator.clipboard.writeText(text);
    return "copied";
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    explorer: {
      follow, settle, csv,
      arrive_exact: arrive("exact"), arrive_marks: arrive("marks"),
      arrive_map: arrive("map"), arrive_simulated: arrive("simulated"),
      png: () => image("png"),
      svg: () => image("svg"),
      copy_python: () => copy(document.getElementById("python").textContent),
      copy_command: () => copy(document.getElementById("command").textContent),
      copy_link: () => copy(window.location.href),
    },
  });
})();

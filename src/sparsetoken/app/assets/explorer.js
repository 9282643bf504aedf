/* What the page does by itself: keeps sliders, typed entries and the address in step, draws what
   arrives for the state that is shown, exports. */
(function () {
  "use strict";
  const settings = () => JSON.parse(document.getElementById("settings").textContent);
  let S = null;
  const skip = () => window.dash_clientside.no_update;
  const visit = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
  let timer = null;
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
    return Number(value.toPrecision(3));
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
    return a && b && JSON.stringify(a) === JSON.stringify(b);
  }

  function number(text) {
    const x = Number(String(text).trim().replace(",", "."));
    return String(text).trim() !== "" && Number.isFinite(x) ? x : text;
  }

  function follow(search, ...rest) {
    S = S || settings();
    window.dash_clientside.set_props("visit", { data: visit });
    const old = rest[rest.length - 1];
    const values = rest.slice(0, -1);
    const triggered = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id);
    let words = old ? { ...old } : { ...S.defaults };
    const presets = S.presets.length;
    if (!old || (triggered.includes("address.search") && search !== address)) {
      words = { ...S.defaults };
      for (const [name, value] of new URLSearchParams(search || "")) words[name] = number(value);
    } else {
      for (const id of triggered) {
        const [where, property] = id.split(".");
        if (where.startsWith("preset-") && property === "n_clicks") {
          words = { ...S.defaults, view: old.view, metric: old.metric, ...S.presets[Number(where.slice(7))] };
        } else if (where.startsWith("slide-")) {
          const name = where.slice(6);
          const position = Number(values[presets + 2 * S.numbers.indexOf(name)]);
          if (position !== toPosition(name, old[name])) words[name] = toValue(name, position);
          if (name === "length" && words.sparsity > words.length) words.sparsity = words.length;
          if (name === "sparsity" && words.sparsity > words.length) words.sparsity = words.length;
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
    for (const name of S.choices) shown.push(S.choices.length && words[name] !== undefined ? words[name] : S.defaults[name]);
    if (changed) {
      const q = query(words);
      address = q ? "?" + q : "";
      window.history.replaceState(null, "", window.location.pathname + address);
      window.explorerMoves.push({ words: JSON.stringify(words), at: performance.now() });
      if (window.explorerMoves.length > 500) window.explorerMoves.shift();
    }
    return [changed ? words : skip(), ...shown];
  }

  function settle(words) {
    if (!words) return skip();
    clearTimeout(timer);
    timer = setTimeout(() => window.dash_clientside.set_props("settled", { data: words }), 250);
    return skip();
  }

  function table(rows) {
    if (!rows || !rows.length) return [];
    const element = (type, children, props) => ({ type, namespace: "dash_html_components", props: { children, ...(props || {}) } });
    const names = Object.keys(rows[0]);
    const cell = (x) => (x === null || x === undefined ? "–" : typeof x === "number" ? String(Number(x.toPrecision(6))) : String(x));
    return element("Table", [
      element("Thead", element("Tr", names.map((n) => element("Th", n.replaceAll("_", " "))))),
      element("Tbody", rows.map((row) => element("Tr", names.map((n) => element("Td", cell(row[n])))))),
    ]);
  }

  function themed(figure, words) {
    const out = { data: figure.data, layout: { ...figure.layout } };
    const style = getComputedStyle(document.body);
    out.layout.font = { color: style.color, family: style.fontFamily };
    out.layout.height = window.innerWidth > 800 ? 440 : 340;
    out.layout.meta = JSON.stringify(words);
    return out;
  }

  function draw(words, draft, exact, marks, map, simulated) {
    if (!words) return Array(8).fill(skip());
    const now = exact && same(exact.words, words) ? exact : null;
    const rough = draft && same(draft.words, words) ? draft : null;
    const cells = map && same(map.words, words) ? map : null;
    const source = now || rough;
    const message = (now && now.message) || (rough && rough.message) || (simulated && simulated.message) || "";
    let figure = skip();
    let status = "";
    if (words.view === "map" && cells) {
      figure = themed(cells.figure, words);
      status = cells.missing ? cells.missing + " cells to come" : "complete";
    } else if (source && source.figure) {
      figure = themed(source.figure, words);
      if (words.view === "curves") {
        const dots = simulated && simulated.traces ? simulated.traces.filter((t) => t.meta === words.metric) : [];
        const extra = marks && same(marks.words, words) ? marks.traces : [];
        figure.data = figure.data.concat(extra, dots);
      }
      status = now ? "exact" : words.view === "curves" ? "draft, good to about 0.005" : "";
    } else if (words.view === "plan") {
      figure = { data: [], layout: { xaxis: { visible: false }, yaxis: { visible: false }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" } };
      status = now ? now.headline || "" : "planning takes about ten seconds";
    }
    if (simulated && simulated.words) status += (status ? " · " : "") + "simulation: " + simulated.words;
    const running = Boolean(simulated && simulated.running);
    const filling = words.view === "map" && (!cells || cells.missing > 0) && !message;
    return [
      figure, message, status,
      now ? table(now.table) : skip(), now ? now.python || "" : skip(), now ? now.command || "" : skip(),
      !(running || filling), { words, exact: Boolean(now) },
    ];
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
      follow, settle, draw, csv,
      png: () => image("png"),
      svg: () => image("svg"),
      copy_python: () => copy(document.getElementById("python").textContent),
      copy_command: () => copy(document.getElementById("command").textContent),
      copy_link: () => copy(window.location.href),
    },
  });
})();

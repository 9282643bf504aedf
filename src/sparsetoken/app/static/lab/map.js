// The map: log ratio of attention's badness over the best linear one's, with the contour at 0.

import { of, percentOf, unsure } from "./figures.js";
import { controls, keyOf, told } from "./state.js";
import { FONT, diverging, theme } from "./look.js";
import { onCanvas } from "./canvas.js";
import { ticks } from "./draw.js";

const HATCH = 9; // pixels between lines
const BAD = { test_error: "test error", auc: "1 − AUC", train_loss: "training loss" };
const MARGIN = { left: 62, right: 12, top: 12, bottom: 62 };

// What is drawn, as data: cells, contour, the place of the sliders, legend; null before the axes.
export function mapFigure(answers, words) {
  const shown = answers.shown.map;
  if (!shown?.answer.x) return null;
  const { x, y, cells } = shown.answer;
  const own = shown.words;
  const axis = (name, values) => ({ ...edges(values, controls[name].log), name, label: `${controls[name].words} ${controls[name].symbol}`, log: controls[name].log, values });
  const current = shown.key === keyOf("map", words);
  return {
    view: "map", x: axis(own.across, x), y: axis(own.up, y), cells, contour: contour(x, y, cells, own),
    here: current ? { x: words[own.across], y: words[own.up] } : null, words: of("map", words, own), current,
  };
}

// The axis goes half a cell beyond the first and the last value.
function edges(values, log) {
  const scale = (v) => (log ? Math.log(v) : v);
  const back = (v) => (log ? Math.exp(v) : v);
  const s = values.map(scale);
  const gap = (a, b) => (s.length > 1 ? (s[b] - s[a]) / 2 : 0.5);
  const bounds = s.slice(1).map((v, k) => (v + s[k]) / 2);
  const all = [s[0] - gap(0, 1), ...bounds, s[s.length - 1] + gap(s.length - 2, s.length - 1)];
  return { min: back(all[0]), max: back(all[all.length - 1]), bounds: all.map(back) };
}

// Pieces of the line between the centres of cells where neither wins, by marching squares.
function contour(xs, ys, cells, words) {
  const values = new Map(cells.map((cell) => [cell.place, cell.value]));
  const scales = [words.across, words.up].map((name) => (controls[name].log ? [Math.log, Math.exp] : [(v) => v, (v) => v]));
  const pieces = [];
  for (let i = 0; i + 1 < xs.length; i += 1)
    for (let j = 0; j + 1 < ys.length; j += 1) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const heights = corners.map(([a, b]) => values.get(`${a},${b}`));
      if (heights.some((height) => height === undefined)) continue;
      const cuts = [];
      corners.forEach(([a, b], k) => {
        const [c, d] = corners[(k + 1) % 4];
        const [from, to] = [heights[k], heights[(k + 1) % 4]];
        if (from < 0 === to < 0) return;
        const t = from / (from - to);
        const between = (u, v, [forth, back]) => back(forth(u) + t * (forth(v) - forth(u)));
        cuts.push([between(xs[a], xs[c], scales[0]), between(ys[b], ys[d], scales[1])]);
      });
      for (let k = 0; k + 1 < cuts.length; k += 2) pieces.push([cuts[k], cuts[k + 1]]);
    }
  return pieces;
}

// Draw on any paper with rect, line, dot and text, in a place of this size; `at(x, y)` of what is
// returned is the cell there. What is unsure is drawn as a tie; where attention loses there are hatches.
export function drawMap(figure, paper, { width, height }, colours) {
  const box = { left: MARGIN.left, top: MARGIN.top, width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const along = (axis, from, length) => (value) => {
    const scale = (v) => (axis.log ? Math.log(v) : v);
    return from + (length * (scale(value) - scale(axis.min))) / (scale(axis.max) - scale(axis.min));
  };
  const px = along(figure.x, box.left, box.width);
  const py = along(figure.y, box.top + box.height, -box.height);
  const sides = ({ column, line }) => [px(figure.x.bounds[column]), px(figure.x.bounds[column + 1]), py(figure.y.bounds[line]), py(figure.y.bounds[line + 1])];
  for (const cell of figure.cells) {
    const { draft } = cell;
    const value = unsure(cell) ? 0 : cell.value;
    const [left, right, low, high] = sides(cell);
    paper.rect(left, high, right - left + 0.5, low - high + 0.5, diverging(value, colours));
    if (value > 0) hatch(paper, left, right, high, low, value, colours);
    if (draft) paper.dot((left + right) / 2, (low + high) / 2, 1.5, colours.soft, 0.8);
  }
  for (const piece of figure.contour) paper.line(piece.map(([x, y]) => [px(x), py(y)]), { colour: colours.ink, width: 2, dash: [] });
  for (const tick of ticks(figure.x)) paper.text(px(tick), box.top + box.height + 16, String(tick), colours.ink, "center");
  for (const tick of ticks(figure.y)) paper.text(box.left - 6, py(tick) + 4, String(tick), colours.ink, "right");
  paper.text(box.left + box.width / 2, box.top + box.height + 34, figure.x.label, colours.ink, "center");
  paper.text(16, box.top + box.height / 2, figure.y.label, colours.ink, "center", true);
  legend(paper, box, colours);
  if (figure.here) here(figure, paper, box, px, py, colours);
  return {
    at: (x, y) => figure.cells.find((cell) => {
      const [left, right, low, high] = sides(cell);
      return x >= left && x < right && y <= low && y > high;
    }),
  };
}

// Lines from the lower left to the upper right, in step from cell to cell.
function hatch(paper, left, right, top, bottom, value, colours) {
  const colour = value < 0.4 ? colours.soft : colours.paper;
  for (let sum = HATCH * Math.ceil((left + top) / HATCH); sum < right + bottom; sum += HATCH) {
    const from = Math.max(left, sum - bottom);
    const to = Math.min(right, sum - top);
    if (to > from) paper.line([[from, sum - from], [to, sum - to]], { colour, width: 0.8, dash: [] });
  }
}

// A cell in words.
export function cellWords(figure, cell) {
  const place = [[figure.x, cell.column], [figure.y, cell.line]].map(([axis, k]) => `${axis.label} ${told(Number(axis.values[k].toPrecision(3)))}`);
  const ratio = 10 ** cell.value;
  const much = ratio > 1000 ? "more than 1000" : ratio < 0.001 ? "less than 0.001" : Number(ratio.toPrecision(2));
  const times = cell.value === 0 ? "the same as" : `${much} times`;
  const error = cell.error > 0 && cell.value !== 0 && typeof much === "number" ? ` (± ${percentOf(cell.error)})` : "";
  const what = BAD[figure.words.metric];
  const verdict = unsure(cell) ? "; unsure who wins" : cell.draft ? "; a draft" : "";
  return `${place.join(", ")}: attention's ${what} is ${times} the best linear classifier's${error}${verdict}`;
}

// The whole map in words, for those who do not see it.
export function mapWords(figure) {
  const { cells } = figure;
  const sure = cells.filter((cell) => !unsure(cell));
  const count = (wins) => sure.filter(({ value }) => wins(value)).length;
  const ties = cells.length - count((value) => value < 0) - count((value) => value > 0);
  const words = `${figure.x.label} across, ${figure.y.label} up; attention wins in ${count((value) => value < 0)} of ${cells.length} cells, loses in ${count((value) => value > 0)}, ${ties} are ties or unsure`;
  const own = figure.here && nearest(figure);
  return own ? `${words}. Where you are: ${cellWords(figure, own)}` : words;
}

// The cell that the sliders are in.
function nearest(figure) {
  const place = (axis, value) => axis.bounds.findIndex((bound, k) => value >= bound && value <= (axis.bounds[k + 1] ?? -Infinity));
  const [column, line] = [place(figure.x, figure.here.x), place(figure.y, figure.here.y)];
  return figure.cells.find((cell) => cell.column === column && cell.line === line);
}

function here(figure, paper, box, px, py, colours) {
  const x = Math.min(box.left + box.width, Math.max(box.left, px(figure.here.x)));
  const y = Math.min(box.top + box.height, Math.max(box.top, py(figure.here.y)));
  paper.dot(x, y, 6, colours.paper, 1);
  paper.dot(x, y, 4, colours.ink, 1);
  const right = x > box.left + box.width / 2;
  const above = y > box.top + 24 ? y - 9 : y + 20;
  paper.text(x + (right ? -8 : 8), above, "you are here", colours.ink, right ? "right" : "left", false, colours.paper);
}

function legend(paper, box, colours) {
  const y = box.top + box.height + 44;
  const steps = [-1, -0.6, -0.3, -0.1, 0, 0.1, 0.3, 0.6, 1];
  const size = Math.min(22, box.width / 24);
  const left = box.left + box.width / 2 - (steps.length * size) / 2;
  steps.forEach((value, k) => {
    paper.rect(left + k * size, y, size, 10, diverging(value, colours));
    if (value > 0) hatch(paper, left + k * size, left + (k + 1) * size, y, y + 10, value, colours);
  });
  paper.text(left - 6, y + 9, "attention wins tenfold", colours.ink, "right");
  paper.text(left + steps.length * size + 6, y + 9, "loses tenfold", colours.ink, "left");
}

// `go({x, y})` is called with the values of a cell that was chosen.
export class MapView {
  constructor(element, readout, go) {
    this.element = element;
    this.readout = readout;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    new ResizeObserver(() => this.figure && this.show(this.figure)).observe(element);
    for (const kind of ["pointermove", "pointerdown"]) this.canvas.addEventListener(kind, (event) => this.tell(event));
    this.canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.readout.textContent = "";
    });
    this.canvas.addEventListener("click", (event) => {
      const cell = this.at(event);
      if (cell) go({ x: this.figure.x.values[cell.column], y: this.figure.y.values[cell.line] });
    });
  }

  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return this.drawn?.at(event.clientX - left, event.clientY - top);
  }

  tell(event) {
    const cell = this.at(event);
    this.readout.textContent = cell ? cellWords(this.figure, cell) : "";
    this.canvas.style.cursor = cell ? "pointer" : "";
  }

  show(figure) {
    this.figure = figure;
    if (!this.canvas.isConnected) return;
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    const ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    this.drawn = figure && drawMap(figure, onCanvas(ctx), { width, height }, theme());
  }
}

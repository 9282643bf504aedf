// The map: log ratio of attention's badness over the best linear one's, with the contour at 0.

import { of } from "./figures.js";
import { controls, keyOf } from "./state.js";
import { FONT, diverging, theme } from "./look.js";
import { onCanvas } from "./canvas.js";
import { ticks } from "./draw.js";

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

// Draw on any paper with rect, line, dot and text, in a place of this size.
export function drawMap(figure, paper, { width, height }, colours) {
  const box = { left: MARGIN.left, top: MARGIN.top, width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const along = (axis, from, length) => (value) => {
    const scale = (v) => (axis.log ? Math.log(v) : v);
    return from + (length * (scale(value) - scale(axis.min))) / (scale(axis.max) - scale(axis.min));
  };
  const px = along(figure.x, box.left, box.width);
  const py = along(figure.y, box.top + box.height, -box.height);
  for (const { column, line, value, draft } of figure.cells) {
    const [left, right] = [px(figure.x.bounds[column]), px(figure.x.bounds[column + 1])];
    const [low, high] = [py(figure.y.bounds[line]), py(figure.y.bounds[line + 1])];
    paper.rect(left, high, right - left + 0.5, low - high + 0.5, diverging(value, colours));
    if (draft) paper.dot((left + right) / 2, (low + high) / 2, 1.5, colours.soft, 0.8);
  }
  for (const piece of figure.contour) paper.line(piece.map(([x, y]) => [px(x), py(y)]), { colour: colours.ink, width: 2, dash: [] });
  for (const tick of ticks(figure.x)) paper.text(px(tick), box.top + box.height + 16, String(tick), colours.ink, "center");
  for (const tick of ticks(figure.y)) paper.text(box.left - 6, py(tick) + 4, String(tick), colours.ink, "right");
  paper.text(box.left + box.width / 2, box.top + box.height + 34, figure.x.label, colours.ink, "center");
  paper.text(16, box.top + box.height / 2, figure.y.label, colours.ink, "center", true);
  legend(paper, box, colours);
  if (figure.here) here(figure, paper, box, px, py, colours);
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
  steps.forEach((value, k) => paper.rect(left + k * size, y, size, 10, diverging(value, colours)));
  paper.text(left - 6, y + 9, "attention wins tenfold", colours.ink, "right");
  paper.text(left + steps.length * size + 6, y + 9, "loses tenfold", colours.ink, "left");
}

export class MapView {
  constructor(element) {
    this.element = element;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    new ResizeObserver(() => this.figure && this.show(this.figure)).observe(element);
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
    if (figure) drawMap(figure, onCanvas(ctx), { width, height }, theme());
  }
}

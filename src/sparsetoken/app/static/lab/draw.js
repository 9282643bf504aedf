// What lies on the axes of a figure: lines, floors, marks, dots and direct labels.
//
// `paper` is what they are drawn on: `line`, `dot`, `triangle`, `text` in places of pixels; a canvas
// (`plot.js`) and an SVG (`svg.js`) have one each, so that both show the same.

import { colour, stroke } from "./look.js";

const GAP = 14; // pixels between labels

export function content(figure, paper, box, place, colours) {
  const inside = (x, y) => [place.x(x), place.y(y)];
  const shade = (name) => colour(name, colours);
  if (figure.vertical) {
    const x = place.x(figure.vertical.x);
    if (x >= box.left && x <= box.left + box.width) {
      paper.line([[x, box.top], [x, box.top + box.height]], { colour: colours.soft, width: 1, dash: [4, 4] });
      paper.text(x + 4, box.top + 11, figure.vertical.label, colours.soft, "left");
    }
  }
  for (const { name, y } of figure.floors)
    paper.line([[box.left, place.y(y)], [box.left + box.width, place.y(y)]], { colour: shade(name), width: 1, dash: [2, 3] });
  // before the lines: no name may hide a piece of a curve
  const names = [...figure.floors].sort((a, b) => a.y - b.y).map(({ y, label, name }) => ({ y: place.y(y) - 8, text: label, colour: shade(name) }));
  for (const end of spread(names, box)) paper.text(box.left + 6, end.y + 4, end.text, end.colour, "left", false, colours.paper);
  for (const line of figure.lines) {
    const points = [];
    line.x.forEach((x, k) => line.y[k] !== null && points.push(inside(x, line.y[k])));
    paper.line(points, { colour: shade(line.name), ...stroke(line.name) });
  }
  for (const { name, x } of figure.triangles) paper.triangle(place.x(x), box.top + box.height, shade(name));
  for (const { name, x, y, big } of figure.points)
    if (y !== null) paper.dot(...inside(x, y), big ? 5 : 2.5, shade(name), big ? 1 : 0.45);
  for (const { name, x, y, error } of figure.bars) {
    if (error === null) continue;
    const at = place.x(x);
    paper.line([[at, place.y(y - 2 * error)], [at, place.y(y + 2 * error)]], { colour: shade(name), width: 2, dash: [] });
  }
  labels(figure, paper, box, place, colours);
}

function labels(figure, paper, box, place, colours) {
  const ends = [];
  const shaded = (name) => colour(name, colours);
  for (const line of figure.lines) {
    const last = line.y.length - 1;
    if (line.name === "message passing" || line.y[last] === null || last < 0) {
      const k = Math.floor(line.y.length / 2);
      if (line.y.length) paper.text(place.x(line.x[k]), place.y(line.y[k]) - 6, line.label, colour(line.name, colours), "center");
      continue;
    }
    if (figure.view === "roc") continue;
    ends.push({ y: place.y(line.y[last]), text: line.label, colour: colour(line.name, colours) });
  }
  if (figure.view === "roc") {
    // each name where its line crosses the other diagonal, to the right of it
    for (const { name, label, x, y } of figure.lines) {
      const k = Math.max(1, x.findIndex((value, j) => value + y[j] >= 1));
      const [before, after] = [x[k - 1] + y[k - 1], x[k] + y[k]];
      const t = (1 - before) / (after - before);
      const at = place.x(x[k - 1] + t * (x[k] - x[k - 1]));
      ends.push({ x: at + 10, y: place.y(y[k - 1] + t * (y[k] - y[k - 1])) + 10, text: label, colour: shaded(name) });
    }
    for (const end of spread(ends, box)) paper.text(end.x, end.y + 4, end.text, end.colour, "left", false, colours.paper);
    return;
  }
  for (const end of spread(ends, box)) paper.text(box.left + box.width + 6, end.y + 4, end.text, end.colour, "left");
}

// Labels one below the other, each as near to its line as the others allow.
function spread(ends, box) {
  const sorted = [...ends].sort((a, b) => a.y - b.y);
  let free = -Infinity;
  for (const end of sorted) {
    end.y = Math.max(end.y, free + GAP);
    free = end.y;
  }
  let limit = box.top + box.height + 2;
  for (const end of sorted.reverse()) {
    end.y = Math.min(end.y, limit);
    limit = end.y - GAP;
  }
  return sorted;
}

// Ticks of a decade and their words.
export const ticks = (axis) => {
  if (!axis.log) {
    const span = axis.max - axis.min;
    const raw = span / 5;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * ([1, 2, 5, 10].find((k) => k * unit >= raw) ?? 10);
    const out = [];
    for (let k = Math.ceil(axis.min / step - 1e-9); k * step <= axis.max + 1e-9 * span; k += 1) out.push(Number((k * step).toPrecision(6)));
    return out;
  }
  const out = [];
  for (let k = Math.ceil(Math.log10(axis.min) - 1e-9); 10 ** k <= axis.max * (1 + 1e-9); k += 1) out.push(Number((10 ** k).toPrecision(6)));
  return out.length > 1 ? out : [axis.min, axis.max].map((value) => Number(value.toPrecision(3)));
};

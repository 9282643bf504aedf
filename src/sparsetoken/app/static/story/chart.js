// A small chart: axes with few words, lines named where they end, a place marked on all of them.

import { DASHES, WORDS, line, mark, write } from "../sample/surface.js";

const MARKS = { attention: "dot", vectorized: "square", pooled: "triangle", bayes: "diamond" };

/** An axis from `low` to `high`: `at(value)` is its share between the ends, 0 to 1. */
export function axis(low, high, log = false) {
  const place = log ? Math.log : (value) => value;
  return { low, high, at: (value) => (place(value) - place(low)) / (place(high) - place(low)) };
}

/**
 * Lines over a plane. `x` and `y` are axes with `ticks` ([value, words]) and `words`; `series` have
 * a `name` (of WORDS, its colour and dashes), `points` and, where they differ, `words`, the point
 * `labelAt` which they stand and the one marked, `at`; `chosen` is the x that is marked.
 * `behind(place, ends)` paints below the lines, place(x, y) → pixels.
 */
export function paintChart(context, width, height, look, { x, y, series, chosen, behind }) {
  const left = 46, right = width - 10, top = 26, bottom = height - 40;
  const across = (value) => left + x.at(value) * (right - left);
  const up = (value) => bottom - Math.min(1.02, Math.max(-0.02, y.at(value))) * (bottom - top);
  for (const [value, words] of y.ticks) {
    line(context, [[left, up(value)], [right, up(value)]], look.line, 1);
    write(context, look, words, left - 6, up(value) + 4, { align: "right", size: 11 });
  }
  for (const [value, words] of x.ticks) {
    const align = value === x.high ? "right" : value === x.low ? "left" : "center";
    write(context, look, words, across(value), bottom + 16, { align, size: 11 });
  }
  write(context, look, x.words, (left + right) / 2, height - 6, { align: "center" });
  write(context, look, y.words, 4, 13);
  context.save();
  context.beginPath();
  context.rect(left, top - 6, right - left, bottom - top + 12);
  context.clip();
  behind?.((a, b) => [across(a), up(b)], { left, right, top, bottom });
  line(context, [[across(chosen), top - 6], [across(chosen), bottom]], look.soft, 1.2, [2, 3]);
  for (const { name, points } of series) {
    line(context, points.map(([a, b]) => [across(a), up(b)]), look[name], 2.5, DASHES[name]);
  }
  context.restore();
  for (const { name, points, at } of series) {
    const here = at ?? points.find(([a]) => a === chosen);
    if (here) mark(context, MARKS[name], across(here[0]), up(here[1]), 6, look[name], look.paper);
  }
  nameLines(context, look, series, across, up, [left, right, top]);
}

/** Each line's name above its end, and none over another. */
function nameLines(context, look, series, across, up, [left, right, top]) {
  context.font = `bold 12px ${look.font}`;
  const ends = series.map(({ name, points, words, labelAt = points.length - 1 }) => {
    const [a, b] = points[labelAt];
    const said = words ?? WORDS[name];
    const least = left + 4 + context.measureText(said).width; // names end at their place
    return { name, words: said, x: Math.max(least, Math.min(across(a), right - 2)), y: up(b) - 9 };
  });
  ends.sort((one, other) => other.y - one.y); // from the lowest up
  let last = Infinity;
  for (const end of ends) {
    end.y = Math.max(top + 8, Math.min(end.y, last - 15));
    last = end.y;
    write(context, look, end.words, end.x, end.y, {
      align: "right", colour: look[end.name], weight: "bold",
    });
  }
}

/** Ticks at powers of ten, with thin spaces between thousands. */
export function decades(low, high, words = (value) => String(value)) {
  const ticks = [];
  for (let value = 10 ** Math.ceil(Math.log10(low) - 1e-9); value <= high * 1.0001; value *= 10) {
    ticks.push([value, words(Number(value.toPrecision(3)))]);
  }
  return ticks;
}

// The pictures of one sample: its tokens in a row with scores and weights, the same tokens in the
// plane of query and signal, and a score among those that each class has.

import { DASHES, arrow, line, mark, write } from "./surface.js";

const LEAST_PITCH = 4; // pixels a token in a row needs to be drawn on its own

/** Scores and weights of the tokens, in their order; many tokens share a column. */
export function paintRow(context, width, height, look, { sample, data }) {
  const left = 8, right = width - 8;
  const middle = Math.round(height * 0.58);
  const reach = data.strength * data.cosine;
  const low = Math.min(-3.6, reach - 2.6), high = Math.max(3.6, reach + 2.6);
  const pitch = (right - left) / data.length;
  const x = (l) => left + (l + 0.5) * pitch;
  const y = (score) => middle - 14 - ((score - low) / (high - low)) * (middle - 40);
  const columns = pitch >= LEAST_PITCH ? null : Math.floor((right - left) / LEAST_PITCH);
  const carries = new Set(sample.places);
  line(context, [[left, y(0)], [right, y(0)]], look.line, 1);
  if (columns === null) paintTokens(context, look, sample, carries, x, y, pitch);
  else paintEnvelope(context, look, sample.along, columns, left, right, y);
  paintWeights(context, look, { sample, data, columns, left, right, middle, height, x, pitch });
  for (const place of sample.places) {
    const size = sample.places.length > 30 ? 3 : 5;
    mark(context, "diamond", x(place), y(sample.along[place]), size, look.ink, look.paper);
  }
  if (sample.places.length && sample.places.length <= 3) {
    for (const place of sample.places) {
      const near = x(place) > width - 70;
      const at = x(place) + (near ? -10 : 10);
      write(context, look, "signal", at, y(sample.along[place]) + 4, {
        colour: look.ink, weight: "bold", align: near ? "right" : "left",
      });
    }
  }
  write(context, look, "how well each token matches the query", left, 14);
  write(context, look, "how much attention it gets", left, middle + 16, { colour: look.attention });
}

function paintTokens(context, look, sample, carries, x, y, pitch) {
  const size = Math.max(1.5, Math.min(4, pitch / 3));
  for (let l = 0; l < sample.along.length; l++) {
    if (carries.has(l)) {
      line(context, [[x(l), y(0)], [x(l), y(sample.along[l])]], look.ink, 2.5);
      continue;
    }
    line(context, [[x(l), y(0)], [x(l), y(sample.along[l])]], look.line, 1);
    mark(context, "dot", x(l), y(sample.along[l]), size, look.soft);
  }
}

function paintEnvelope(context, look, values, columns, left, right, y) {
  // From the least to the largest score of each column
  const wide = (right - left) / columns;
  for (let column = 0; column < columns; column++) {
    const [first, last] = bounds(column, columns, values.length);
    let low = Infinity, high = -Infinity;
    for (let l = first; l < last; l++) {
      low = Math.min(low, values[l]);
      high = Math.max(high, values[l]);
    }
    const at = left + (column + 0.5) * wide;
    line(context, [[at, y(low) + 1], [at, y(high) - 1]], look.soft, Math.max(1, wide - 1.5));
  }
}

function bounds(column, columns, length) {
  return [Math.floor((column * length) / columns), Math.floor(((column + 1) * length) / columns)];
}

function paintWeights(context, look, place) {
  const { sample, data, columns, left, right, middle, height, x, pitch } = place;
  const bottom = height - 18, top = middle + 26;
  let most = 3 / data.length;
  for (const weight of sample.weights) most = Math.max(most, weight);
  const y = (weight) => bottom - (weight / most) * (bottom - top);
  const wide = columns === null ? pitch : (right - left) / columns;
  context.fillStyle = look.attention;
  for (let column = 0; column < (columns ?? data.length); column++) {
    const [first, last] = columns === null ? [column, column + 1]
      : bounds(column, columns, data.length);
    let weight = 0; // the largest of a column: one needle stays as high as it is
    for (let l = first; l < last; l++) weight = Math.max(weight, sample.weights[l]);
    const centre = columns === null ? x(column) : left + (column + 0.5) * wide;
    const thick = Math.max(1, Math.min(14, wide * 0.7));
    context.fillRect(centre - thick / 2, y(weight), thick, bottom - y(weight));
  }
  line(context, [[left, bottom], [right, bottom]], look.line, 1);
  const even = y(1 / data.length);
  line(context, [[left, even], [right, even]], look.pooled, 1.8, DASHES.pooled);
  write(context, look, "the mean: the same for all", left, height - 4, { colour: look.pooled });
  if (sample.places.length) {
    write(context, look, `${Math.round(100 * sample.caught)} % on the signal`, right, middle + 16, {
      colour: look.attention, align: "right", weight: "bold",
    });
  }
}

/** Tokens by their projections on the query and across it, and what pooling makes of them. */
export function paintPlane(context, width, height, look, { sample, data }) {
  const reach = data.strength * data.cosine;
  const sine = Math.sqrt(Math.max(0, 1 - data.cosine * data.cosine));
  const ends = [
    Math.min(-3.6, reach - 3), Math.max(3.6, reach + 3), -3.6, Math.max(3.6, data.strength * sine + 3),
  ];
  const scale = Math.min((width - 16) / (ends[1] - ends[0]), (height - 16) / (ends[3] - ends[2]));
  const origin = [
    width / 2 - (scale * (ends[0] + ends[1])) / 2, height / 2 + (scale * (ends[2] + ends[3])) / 2,
  ];
  const at = (along, across) => [origin[0] + scale * along, origin[1] - scale * across];
  line(context, [[0, origin[1]], [width, origin[1]]], look.line, 1);
  line(context, [[origin[0], 0], [origin[0], height]], look.line, 1);
  const carries = new Set(sample.places);
  context.globalAlpha = data.length > 300 ? 0.35 : 0.7;
  for (let l = 0; l < data.length; l++) {
    if (carries.has(l)) continue;
    mark(context, "dot", ...at(sample.along[l], sample.across[l]), data.length > 300 ? 1.5 : 2.5, look.soft);
  }
  context.globalAlpha = 1;
  arrow(context, origin, at(data.strength * data.cosine, data.strength * sine), look.ink, 2, [5, 4]);
  arrow(context, origin, at(3.2, 0), look.attention, 3);
  for (const place of sample.places) {
    mark(context, "diamond", ...at(sample.along[place], sample.across[place]), 5, look.ink, look.paper);
  }
  const mean = at(...sample.mean), pooled = at(...sample.pooled);
  mark(context, "triangle", ...mean, 7, look.pooled, look.paper);
  mark(context, "dot", ...pooled, 7, look.attention, look.paper);
  const half = at(data.strength * data.cosine * 0.5, data.strength * sine * 0.5);
  write(context, look, "signal", half[0], half[1] - 10, {
    colour: look.ink, weight: "bold", align: data.cosine >= 0 ? "right" : "left",
  });
  write(context, look, "query →", width - 2, origin[1] - 6, { colour: look.attention, align: "right" });
  write(context, look, "mean", mean[0] - 10, mean[1] + 18, {
    colour: look.pooled, weight: "bold", align: "right",
  });
  const edge = pooled[0] > width - 40 ? "right" : pooled[0] < 40 ? "left" : "center";
  write(context, look, "attention", pooled[0], pooled[1] + 22, {
    colour: look.attention, weight: "bold", align: edge,
  });
}

/** A classifier's scores: how they are spread in each class, its threshold, and this sample's. */
export function paintScore(context, width, height, look, { name, judge, score, label }) {
  const { low, high, positive, negative } = judge.distribution;
  const pad = 0.06 * (high - low);
  const x = (value) => 6 + ((value - low + pad) / (high - low + 2 * pad)) * (width - 12);
  const bottom = height - 20;
  const most = Math.max(...positive, ...negative);
  const y = (chance) => bottom - (chance / most) * (bottom - 22);
  const step = (high - low) / positive.length;
  const outline = (chances) => chances.map((chance, k) => [x(low + (k + 0.5) * step), y(chance)]);
  for (const [chances, colour, dash] of [[negative, look.soft, [3, 3]], [positive, look[name], []]]) {
    const points = outline(chances);
    context.beginPath();
    context.moveTo(points[0][0], bottom);
    for (const point of points) context.lineTo(...point);
    context.lineTo(points[points.length - 1][0], bottom);
    context.globalAlpha = 0.22;
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = 1;
    line(context, points, colour, 1.5, dash);
  }
  line(context, [[4, bottom], [width - 4, bottom]], look.line, 1);
  line(context, [[x(0), 14], [x(0), bottom]], look.ink, 1.5);
  if (x(0) > 60) write(context, look, "says no ◂", x(0) - 4, 11, { align: "right", size: 11 });
  if (x(0) < width - 60) write(context, look, "▸ says yes", x(0) + 4, 11, { size: 11 });
  const place = x(Math.min(high + pad, Math.max(low - pad, score)));
  mark(context, label > 0 ? "diamond" : "dot", place, bottom, 5, look.ink, look.paper);
  write(context, look, "this sample", place, height - 4, {
    colour: look.ink, size: 11, align: place < 40 ? "left" : place > width - 40 ? "right" : "center",
  });
}

/** Running errors beside the exact lines, with two standard deviations of as many samples. */
export function paintRunning(context, width, height, look, { data, history, words }) {
  const names = Object.keys(data.classifiers);
  const left = 42, right = width - 8, bottom = height - 26, top = 12;
  const last = Math.max(100, history.length ? history[history.length - 1].count : 0);
  const least = 1.25 * Math.max(...names.map((name) => data.classifiers[name].test_error));
  const most = [0.02, 0.04, 0.1, 0.2, 0.4, 0.6, 1].find((end) => end > least) ?? 1;
  const x = (count) => left + (Math.log(count) / Math.log(last)) * (right - left);
  const y = (error) => bottom - (Math.min(error, most) / most) * (bottom - top);
  for (const share of [0, 0.5, 1]) {
    const at = y(share * most);
    line(context, [[left, at], [right, at]], look.line, 1);
    write(context, look, `${100 * share * most} %`, left - 6, at + 4, { align: "right", size: 11 });
  }
  for (let count = 1; count <= last; count *= 10) {
    write(context, look, `${count}`.replace(/(\d)000$/, "$1\u202f000"), x(count), height - 8, {
      align: count === 1 ? "left" : x(count) > right - 20 ? "right" : "center", size: 11,
    });
  }
  context.save();
  context.beginPath();
  context.rect(left, top - 4, right - left, bottom - top + 8);
  context.clip();
  for (const name of names) {
    const error = data.classifiers[name].test_error;
    paintBand(context, look[name], error, last, x, y);
    line(context, [[left, y(error)], [right, y(error)]], look[name], 1.5, DASHES[name]);
    const points = history.map((entry) => [x(entry.count), y(entry.errors[name])]);
    if (points.length > 1) line(context, points, look[name], 2.5);
  }
  context.restore();
  let above = Infinity;
  const exact = (name) => data.classifiers[name].test_error;
  for (const name of names.sort((one, other) => exact(one) - exact(other))) {
    above = Math.min(y(exact(name)) - 5, above - 14);
    write(context, look, name, right, above, { // the cards say more
      align: "right", colour: look[name], weight: "bold", size: 11,
    });
  }
  if (words) write(context, look, words, (left + right) / 2, (top + bottom) / 2, { align: "center" });
}

function paintBand(context, colour, exact, last, x, y) {
  const counts = Array.from({ length: 60 }, (_, k) => Math.exp((k / 59) * Math.log(last)));
  const edge = (sign) => counts.map((count) => {
    const error = exact + sign * 2 * Math.sqrt((exact * (1 - exact)) / count);
    return [x(count), y(Math.max(0, error))];
  });
  context.beginPath();
  [...edge(1), ...edge(-1).reverse()].forEach(([a, b], k) => context[k ? "lineTo" : "moveTo"](a, b));
  context.globalAlpha = 0.14;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 1;
}

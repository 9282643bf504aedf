// One picture a step, painted from the step's points; the first step shows live samples instead.

import { arrow, grouped, line, percent, write } from "../sample/surface.js";
import { axis, decades, paintChart } from "./chart.js";

const share = (value) => `${Number((100 * value).toPrecision(2))} %`;
const lineOf = (points, name) => points.map((point) => [point.value, point.numbers[name]]);

/** The mean along the signal in both classes, in widths of its noise, and the best cut. */
function paintMean(context, width, height, look, { step, chosen }) {
  const point = step.points[chosen];
  const { distance, pooled } = point.numbers;
  const low = -3.4, high = step.picture.strength + 3.4;
  const bottom = height - 40, top = 54;
  const x = (value) => 8 + ((value - low) / (high - low)) * (width - 16);
  const bell = (value, centre) => Math.exp(-0.5 * (value - centre) ** 2);
  const y = (density) => bottom - density * (bottom - top);
  const grid = Array.from({ length: 241 }, (_, k) => low + (k / 240) * (high - low));
  const cut = distance / 2;
  const fill = (centre, inside, colour) => {
    context.beginPath();
    const places = grid.filter(inside);
    context.moveTo(x(places[0]), bottom);
    for (const value of places) context.lineTo(x(value), y(bell(value, centre)));
    context.lineTo(x(places[places.length - 1]), bottom);
    context.globalAlpha = 0.4;
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = 1;
  };
  fill(0, (value) => value >= cut, look.soft);
  fill(distance, (value) => value <= cut, look.pooled);
  line(context, grid.map((value) => [x(value), y(bell(value, 0))]), look.soft, 2, [5, 4]);
  line(context, grid.map((value) => [x(value), y(bell(value, distance))]), look.pooled, 2.5);
  line(context, [[4, bottom], [width - 4, bottom]], look.line, 1);
  line(context, [[x(cut), top - 18], [x(cut), bottom]], look.ink, 1.5);
  write(context, look, "negative", x(0) - 6, top - 6, { align: "right" });
  write(context, look, "positive", x(distance) + 6, top - 6, { colour: look.pooled, weight: "bold" });
  write(context, look, "the best cut", x(cut), 14, { align: "center", colour: look.ink });
  write(context, look, `shaded: its errors, ${percent(pooled)}`, x(cut), 30, { align: "center" });
  write(context, look, "the mean token along the signal, in widths of its noise", width / 2, height - 6, {
    align: "center",
  });
  for (let value = -2; value <= high; value += 2) {
    const words = String(value).replace("-", "−");
    write(context, look, words, x(value), bottom + 16, { align: "center", size: 11 });
  }
}

/** The strength that both need, over lengths. */
function paintQuery(context, width, height, look, { step, chosen }) {
  const { points } = step;
  const x = axis(points[0].value, points[points.length - 1].value, true);
  const y = axis(3, 600, true);
  paintChart(context, width, height, look, {
    x: { ...x, ticks: decades(x.low, x.high, grouped), words: "tokens in a sample (L)" },
    y: { ...y, ticks: decades(3, 600), words: `signal that is needed to err ${share(step.picture.target)}` },
    series: [
      { name: "pooled", points: lineOf(points, "pooled"), words: "pooled, the mean: grows like √L" },
      { name: "attention", points: lineOf(points, "attention"), words: "attention: less than log L" },
    ],
    chosen: points[chosen].value,
  });
}

/** A compass with signal and query, and the cosine over prevalences. */
function paintOrigin(context, width, height, look, { step, chosen }) {
  const narrow = width < 560;
  const size = narrow ? Math.min(width, height * 0.45) : Math.min(width * 0.42, height);
  paintCompass(context, narrow ? width / 2 : size / 2, size / 2, size / 2 - 22, look, step.points[chosen]);
  context.save();
  context.translate(narrow ? 0 : size, narrow ? size : 0);
  const { points } = step;
  const x = axis(points[0].value, points[points.length - 1].value);
  const y = axis(-1, 1);
  paintChart(context, narrow ? width : width - size, narrow ? height - size : height, look, {
    x: {
      ...x, words: "positive samples (π)",
      ticks: [0.1, 0.2, 0.3, 0.4, 0.5].map((value) => [value, share(value)]),
    },
    y: {
      ...y, words: "cosine of query and signal",
      ticks: [[-1, "−1"], [0, "0"], [1, "1"]],
    },
    series: [{
      name: "attention", points: step.picture.curve, words: "the learned query",
      at: [points[chosen].value, points[chosen].numbers.cosine],
      labelAt: Math.floor(step.picture.curve.length / 4),
    }],
    chosen: points[chosen].value,
    behind: (place, { left, right, bottom }) => {
      const [, zero] = place(x.low, 0);
      context.globalAlpha = 0.12;
      context.fillStyle = look.ink;
      context.fillRect(left, zero, right - left, bottom - zero);
      context.globalAlpha = 1;
      write(context, look, "the wrong side", right - 6, bottom - 8, { align: "right", halo: false });
    },
  });
  context.restore();
}

function paintCompass(context, x, y, radius, look, { numbers: { cosine } }) {
  context.beginPath();
  context.arc(x, y, radius, Math.PI, 2 * Math.PI);
  context.fillStyle = look.paper;
  context.fill();
  context.beginPath();
  context.arc(x, y, radius, 0, Math.PI); // below: more than a right angle from the signal
  context.globalAlpha = 0.12;
  context.fillStyle = look.ink;
  context.fill();
  context.globalAlpha = 1;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.strokeStyle = look.line;
  context.lineWidth = 1;
  context.stroke();
  const angle = Math.acos(Math.max(-1, Math.min(1, cosine)));
  const tip = [x + radius * Math.sin(angle), y - radius * Math.cos(angle)];
  arrow(context, [x, y], [x, y - radius], look.ink, 2.5, [6, 4]);
  arrow(context, [x, y], tip, look.attention, 4);
  write(context, look, "signal", x - 8, y - radius * 0.75, {
    colour: look.ink, weight: "bold", align: "right",
  });
  const above = cosine > 0.8 ? 16 : cosine > 0 ? -8 : 16;
  const middle = [x + 0.62 * (tip[0] - x), y + 0.62 * (tip[1] - y)];
  write(context, look, "query", middle[0] + 10, middle[1] + above, {
    colour: look.attention, weight: "bold",
  });
  write(context, look, "the wrong side", x, y + radius * 0.88, { align: "center", halo: false });
}

/** Errors over how many tokens share one amount of signal. */
function paintFails(context, width, height, look, { step, chosen }) {
  const { points } = step;
  const x = axis(points[0].value, points[points.length - 1].value, true);
  const most = 0.3;
  const best = ({ pooled, vectorized }) => Math.min(pooled, vectorized);
  const crossing = points.find(({ numbers }) => numbers.attention > best(numbers));
  paintChart(context, width, height, look, {
    x: { ...x, ticks: [1, 2, 4, 8, 16, 40].map((value) => [value, String(value)]),
         words: "tokens that share the signal (R)" },
    y: { ...axis(0, most), words: "test error",
         ticks: [0, 0.1, 0.2, 0.3].map((value) => [value, share(value)]) },
    series: [
      { name: "pooled", points: lineOf(points, "pooled"), labelAt: 3 },
      { name: "attention", points: lineOf(points, "attention") },
    ],
    chosen: points[chosen].value,
    behind: (place, { right, top, bottom }) => {
      if (!crossing) return;
      const [from] = place(crossing.value, 0);
      context.globalAlpha = 0.12;
      context.fillStyle = look.ink;
      context.fillRect(from, top, right - from, bottom - top);
      context.globalAlpha = 1;
      write(context, look, "attention loses", right - 6, bottom - 8, { align: "right", halo: false });
    },
  });
}

/** Learning curves, and the floor that no learner is below. */
function paintLabels(context, width, height, look, { step, chosen }) {
  const { points } = step;
  const x = axis(points[0].value, points[points.length - 1].value, true);
  const y = axis(0.003, 0.6, true);
  const floor = lineOf(points, "bayes");
  paintChart(context, width, height, look, {
    x: { ...x, ticks: [0.25, 1, 4, 16, 64].map((value) => [value, String(value)]),
         words: "labelled samples for each dimension" },
    y: { ...y, ticks: [0.01, 0.1, 0.5].map((value) => [value, share(value)]), words: "test error" },
    series: [
      { name: "pooled", points: lineOf(points, "pooled") },
      { name: "attention", points: lineOf(points, "attention") },
      { name: "bayes", points: floor, words: "" },
    ],
    chosen: points[chosen].value,
    behind: (place, { left, bottom }) => {
      context.beginPath();
      context.moveTo(place(floor[0][0], 1)[0], bottom + 4);
      for (const [a, b] of floor) context.lineTo(...place(a, b));
      context.lineTo(place(floor[floor.length - 1][0], 1)[0], bottom + 4);
      context.globalAlpha = 0.15;
      context.fillStyle = look.ink;
      context.fill();
      context.globalAlpha = 1;
      write(context, look, "no learner gets here", left + 8, bottom - 10, {
        colour: look.bayes, halo: false,
      });
    },
  });
}

export const PICTURES = {
  mean: { paint: paintMean, name: ({ numbers }) =>
    `Two bells ${numbers.distance.toFixed(2)} widths apart; they overlap in ${percent(numbers.pooled)}.` },
  query: { paint: paintQuery, name: ({ numbers }) =>
    `Needed strength over length: mean ${numbers.pooled.toFixed(1)}, ` +
    `attention ${numbers.attention.toFixed(2)}.` },
  origin: { paint: paintOrigin, name: ({ numbers }) =>
    `A compass: the query has cosine ${numbers.cosine.toFixed(2)} with the signal; ` +
    "and the cosine over prevalence." },
  fails: { paint: paintFails, name: ({ numbers }) =>
    `Test errors over R: attention ${percent(numbers.attention)}, mean ${percent(numbers.pooled)}.` },
  labels: { paint: paintLabels, name: ({ numbers }) =>
    `Learning curves: attention ${percent(numbers.attention)}, mean ${percent(numbers.pooled)}, ` +
    `floor ${percent(numbers.bayes)}.` },
};

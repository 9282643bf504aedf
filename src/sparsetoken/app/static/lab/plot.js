// The plot: uPlot has scales, axes and the cursor; what lies on them is drawn here on its canvas.

import uPlot from "/static/vendor/uplot/uPlot.esm.js";
import { onCanvas } from "./canvas.js";
import { content, ticks } from "./draw.js";
import { at, nearest } from "./figures.js";
import { FONT, theme } from "./look.js";

export class Plot {
  constructor(element, readout) {
    this.element = element;
    this.readout = readout;
    this.figure = null;
    this.plot = null;
    this.painted = 0; // how often, for measurements
    new ResizeObserver(() => this.fit()).observe(element);
  }

  // Paint a figure; the axes stay where they are if they are the same.
  show(figure) {
    this.figure = figure;
    if (!figure) return;
    const kind = JSON.stringify([figure.x, figure.y.label, this.narrow(), theme().paper]);
    if (kind !== this.kind) {
      this.kind = kind;
      this.build();
    } else {
      this.plot.batch(() => {
        this.plot.setScale("y", { min: figure.y.min, max: figure.y.max });
        this.plot.redraw(false, true);
      });
      this.tell(this.plot); // the cursor rests, the numbers below it have moved
    }
  }

  restyle() {
    this.kind = null;
    this.show(this.figure);
  }

  narrow() {
    return this.element.clientWidth < 560;
  }

  size() {
    return { width: this.element.clientWidth || 300, height: this.element.clientHeight || 300 };
  }

  fit() {
    if (!this.plot) return;
    const { width, height } = this.size();
    if (width !== this.plot.width || height !== this.plot.height) this.plot.setSize({ width, height });
  }

  build() {
    this.plot?.destroy();
    const colours = theme();
    const { figure } = this;
    const axis = (which) => ({
      label: figure[which].label,
      labelSize: 22,
      size: which === "y" ? 52 : 34,
      stroke: colours.ink,
      font: `12px ${FONT}`,
      labelFont: `13px ${FONT}`,
      grid: { stroke: colours.line, width: 1 },
      ticks: { stroke: colours.line, width: 1 },
      splits: () => ticks(this.figure[which]),
      values: (_, values) => values.map(String),
      filter: (_, values) => values,
    });
    const range = (which) => () => [this.figure[which].min, this.figure[which].max];
    this.plot = new uPlot({
      ...this.size(),
      padding: [10, this.narrow() ? 84 : 96, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false, setScale: false }, points: { show: false }, y: false },
      scales: {
        x: { time: false, range: range("x"), distr: figure.x.log ? 3 : 1 },
        y: { range: range("y") },
      },
      axes: [axis("x"), axis("y")],
      series: [{}, { scale: "y", paths: () => null, points: { show: false } }],
      hooks: { draw: [(plot) => this.paint(plot)], setCursor: [(plot) => this.tell(plot)] },
    }, [[figure.x.min, figure.x.max], [figure.y.min, figure.y.max]], this.element);
  }

  paint(plot) {
    const ratio = uPlot.pxRatio;
    const { left, top, width, height } = plot.bbox;
    const box = { left: left / ratio, top: top / ratio, width: width / ratio, height: height / ratio };
    const place = {
      x: (value) => plot.valToPos(value, "x", true) / ratio,
      y: (value) => plot.valToPos(value, "y", true) / ratio,
    };
    const { ctx } = plot;
    ctx.save();
    ctx.scale(ratio, ratio);
    content(this.figure, onCanvas(ctx, box), box, place, theme());
    ctx.restore();
    this.painted += 1;
  }

  // The numbers nearest to the cursor, in words: computed ones, ≈ where a line was computed elsewhere.
  tell(plot) {
    const { figure } = this;
    if (!(plot.cursor.left >= 0) || !figure) {
      this.readout.textContent = "";
      return;
    }
    const lines = figure.lines.filter((line) => line.name !== "guessing");
    const x = nearest(lines, plot.posToVal(plot.cursor.left, "x"), figure.x.log);
    if (x === null) return;
    const words = [];
    for (const line of lines) {
      const value = at(line, x, figure.x.log);
      if (value && value.y !== null) words.push(`${line.label} ${value.computed ? "" : "≈ "}${value.y.toPrecision(3)}`);
    }
    this.readout.textContent = `at ${Number(x.toPrecision(3))}: ${words.join(", ")}`;
  }
}

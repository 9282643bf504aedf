// What pictures share: elements, canvases that follow their size and the page's colours, words for
// numbers. Colours are custom properties of sample.css; dashes and marks tell them apart in grey.

export const WORDS = {
  attention: "attention",
  vectorized: "vectorized: all tokens side by side",
  pooled: "pooled: mean of the tokens",
  bayes: "any learner",
};
export const DASHES = { attention: [], vectorized: [7, 4], pooled: [8, 3, 2, 3], bayes: [2, 3] };
const COLOURS = ["paper", "ink", "soft", "line", "attention", "vectorized", "pooled", "bayes"];

/** An element with properties and children (elements or words); `aria-…`, `data-…` and `role` too. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** 0.04213 → "4.2 %"; small ones keep two digits, those below what was resolved are shown as such. */
export function percent(share) {
  const value = 100 * share;
  if (value === 0) return "0\u00a0%";
  if (value < 0.01) return "below\u00a00.01\u00a0%";
  return `${value.toFixed(value < 1 ? 2 : 1)}\u00a0%`;
}

/** A number with thin spaces between thousands. */
export function grouped(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function lookOf(element) {
  const style = getComputedStyle(element);
  const look = { font: style.fontFamily };
  for (const name of COLOURS) look[name] = style.getPropertyValue(`--st-${name}`).trim();
  return look;
}

/**
 * A canvas named for those who do not see it. `paint(ctx, width, height, look)` draws in CSS pixels,
 * whenever its size, the page's colours or what it shows change (`redraw()`).
 */
export function makeCanvas(paint) {
  const canvas = make("canvas", { role: "img" });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let waiting = 0, scale = 0;

  function redraw() {
    if (!waiting) waiting = requestAnimationFrame(now);
  }

  function now() {
    waiting = 0;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (width === 0 || height === 0) return; // not shown
    const ratio = devicePixelRatio || 1;
    const size = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1] || scale !== ratio) {
      [canvas.width, canvas.height] = size;
      scale = ratio;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    paint(context, width, height, lookOf(canvas));
  }

  const observer = new ResizeObserver(redraw);
  observer.observe(canvas);
  dark.addEventListener("change", redraw);
  return {
    element: canvas,
    redraw,
    name: (words) => canvas.setAttribute("aria-label", words),
    destroy: () => {
      cancelAnimationFrame(waiting);
      observer.disconnect();
      dark.removeEventListener("change", redraw);
    },
  };
}

/** Words at a place; with a halo of the paper's colour, so that lines behind do not hurt them. */
export function write(context, look, words, x, y, options = {}) {
  const { colour = look.soft, align = "left", size = 12, weight = "normal", halo = true } = options;
  context.font = `${weight} ${size}px ${look.font}`;
  context.textAlign = align;
  context.textBaseline = options.baseline ?? "alphabetic";
  if (halo) {
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeStyle = look.paper;
    context.setLineDash([]);
    context.strokeText(words, x, y);
  }
  context.fillStyle = colour;
  context.fillText(words, x, y);
}

export function line(context, points, colour, width = 1.5, dash = []) {
  context.beginPath();
  points.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

export function arrow(context, from, to, colour, width = 2.5, dash = []) {
  line(context, [from, to], colour, width, dash);
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  const side = (turn) => [to[0] - 10 * Math.cos(angle + turn), to[1] - 10 * Math.sin(angle + turn)];
  line(context, [side(0.45), to, side(-0.45)], colour, width);
}

/** A mark: "dot", "diamond", "triangle" or "square", filled or with an outline. */
export function mark(context, kind, x, y, size, colour, outline = null) {
  context.beginPath();
  if (kind === "dot") context.arc(x, y, size, 0, 2 * Math.PI);
  else {
    const corners = {
      diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
      triangle: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]],
      square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    }[kind];
    corners.forEach(([a, b], k) => context[k ? "lineTo" : "moveTo"](x + size * a, y + size * b));
    context.closePath();
  }
  context.fillStyle = colour;
  context.fill();
  if (outline) {
    context.strokeStyle = outline;
    context.lineWidth = 1.5;
    context.stroke();
  }
}
